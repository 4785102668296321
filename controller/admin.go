package controller

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func (s *Server) cleanBrokerData(r *remoting.Request, h *header.CleanControllerBrokerDataRequest) error {
	if err := checkLengths(h.ClusterName, h.BrokerName); err != nil {
		return err
	}
	c := &Clean{Cluster: h.ClusterName, Name: h.BrokerName, Living: h.IsCleanLivingBroker, Alive: s.living(h.BrokerName)}
	if text := strings.TrimSpace(h.BrokerControllerIdsToClean); text != "" {
		for _, word := range strings.SplitN(text, ";", maxReplicas+1) {
			id, err := strconv.ParseInt(strings.TrimSpace(word), 10, 64)
			if err != nil || len(c.IDs) == maxReplicas {
				return code.New(code.ControllerInvalidCleanBrokerMetadata, "Please set the option -b according to the format: ids separated by semicolons, at most %d", maxReplicas)
			}
			c.IDs = append(c.IDs, id)
		}
	}
	peer := r.Conn.RemoteAddr()
	return s.change(r, c, nil, func(w call, _ Result) {
		s.log.Warn("broker data cleaned", zap.String("broker", c.Name), zap.Int64s("ids", c.IDs), zap.Bool("living", c.Living), zap.String("peer", peer))
		w.ok(nil, nil)
	})
}

func (s *Server) getConfig(r *remoting.Request) error { return r.OK(nil, conf.Text(s.cfg.Load())) }

// updateConfig changes the file first: what is in force after it would also be so after a restart. The members of the quorum
// are no matter of one controller's file; naming them asks the leader to change the quorum.
func (s *Server) updateConfig(r *remoting.Request) error {
	properties, err := conf.ParseProperties(r.Body)
	if err != nil {
		return code.New(code.InvalidParameter, "%v", err)
	}
	if i := slices.IndexFunc(properties, func(p conf.Property) bool { return p.Key == "controllerDLegerPeers" }); i >= 0 {
		if len(properties) > 1 {
			return code.New(code.InvalidParameter, "controllerDLegerPeers changes the quorum; change the other keys on their own")
		}
		return s.wantMembers(r, properties[i].Value)
	}
	next, changed, err := conf.Update(s.cfg.Load(), r.Body)
	switch {
	case errors.Is(err, conf.ErrDenied):
		return code.New(code.NoPermission, "Can not update config in black list.")
	case err != nil:
		return code.New(code.InvalidParameter, "%v", err)
	case len(changed) == 0:
		return r.OK(nil, nil)
	}
	if next.ConfigStorePath != "" {
		if err := conf.EditFile(s.fs, next.ConfigStorePath, conf.Values(next, changed)); err != nil {
			return fmt.Errorf("the change was not made: %w", err)
		}
	}
	s.cfg.Store(next)
	s.look()
	s.log.Info("configuration changed", zap.Strings("keys", changed), zap.String("peer", r.Conn.RemoteAddr()))
	return r.OK(nil, nil)
}

func (s *Server) wantMembers(r *remoting.Request, text string) error {
	members, err := parseMembers(text)
	if err != nil {
		return code.New(code.InvalidParameter, "controllerDLegerPeers: %v", err)
	}
	peer := r.Conn.RemoteAddr()
	return s.change(r, &WantMembers{members}, nil, func(w call, _ Result) {
		s.log.Warn("another quorum is wanted", zap.String("members", text), zap.String("peer", peer))
		w.ok(nil, nil)
	})
}

// fromController takes what other controllers say. Who belongs to another quorum, or to none, is refused.
func (s *Server) fromController(r *remoting.Request) error {
	e, err := parseEnvelope(r.Body)
	switch {
	case err == nil && e.To != s.node.id:
		err = fmt.Errorf("%w: meant for another controller", errStranger)
	case err == nil && e.What != whatHello && (e.Cluster != s.store.cluster.Load() || e.Cluster == 0):
		err = fmt.Errorf("%w: of another quorum", errStranger)
	}
	if err != nil {
		return s.stranger(err)
	}
	switch e.What {
	case whatHello:
		return r.OK(nil, s.node.greet(e.From).encode())
	case whatRaft:
		var msgs []*pb.Message
		if msgs, err = e.messages(); err == nil {
			s.node.step(msgs)
		}
	case whatReport:
		var seen *Report
		s.node.view(func(st *State) { seen, err = st.report(e) })
		if err == nil {
			s.observe(seen)
		}
	}
	if err != nil {
		return s.stranger(err)
	}
	return r.OK(nil, nil)
}

func (s *Server) stranger(err error) error {
	s.metrics.strangers.Inc()
	return code.New(code.NoPermission, "%v", err)
}
