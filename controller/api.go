package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// routes says which request is served by what. What needs the quorum is parked until it has decided, so no handler blocks.
// Java: ControllerRequestProcessor.
func (s *Server) routes() []remoting.Route {
	return []remoting.Route{
		{Code: code.ControllerAlterSyncStateSet, Serve: remoting.On(s.alterSyncStateSet)},
		{Code: code.ControllerElectMaster, Serve: remoting.On(s.electMaster)},
		{Code: code.ControllerRegisterBroker, Serve: remoting.On(s.registerBroker)},
		{Code: code.ControllerGetReplicaInfo, Serve: remoting.On(s.replicaInfo)},
		{Code: code.ControllerGetMetadataInfo, Serve: s.metadata},
		{Code: code.ControllerGetSyncStateData, Serve: s.syncStateData},
		{Code: code.ControllerGetNextBrokerID, Serve: remoting.On(s.nextBrokerID)},
		{Code: code.ControllerApplyBrokerID, Serve: remoting.On(s.applyBrokerID)},
		{Code: code.CleanBrokerData, Serve: remoting.On(s.cleanBrokerData)},
		{Code: code.BrokerHeartbeat, Serve: remoting.On(s.heartbeat)},
		{Code: code.GetControllerConfig, Lane: s.admin, Serve: s.getConfig},
		{Code: code.UpdateControllerConfig, Lane: s.admin, Serve: s.updateConfig},
		{Code: quorumCode, Serve: s.fromController},
	}
}

// Ext fields of our own brokers' registrations; Java's do not send them.
const (
	// fieldInherits: "true" says that the broker can be elected with a set of more than itself.
	fieldInherits = "inheritsSyncStateSet"
	// fieldMinInSync is the smallest set with which the broker, as a master, acknowledges or confirms anything.
	fieldMinInSync = "minInSyncReplicas"
	// fieldIncarnation tells one life of a broker's process from another (Starts); also in heartbeats, and in the answer to a registration that comes
	// after one of a later life. fieldAttempt counts the registrations of a life.
	fieldIncarnation, fieldAttempt = "incarnation", "attempt"
	// fieldTorn: "true" says that the broker may lack the end of what it had acknowledged before it started.
	fieldTorn = "torn"
	// fieldLives is an ext field of CONTROLLER_ALTER_SYNC_STATE_SET: the incarnations in which the members have acknowledged what counts, a JSON object.
	fieldLives = "incarnations"
	// fieldEpoch and fieldMaxOffset are the last master epoch in the broker's log, and its end, as in heartbeats.
	fieldEpoch, fieldMaxOffset = "epoch", "maxOffset"
	// fieldLearner: "true" says that the broker never joins the set.
	fieldLearner = "learner"
	// fieldHealthy is an ext field of heartbeats: "false" says that the broker is sick; see Vitals.
	fieldHealthy = "healthy"
	// fieldReplicas is an ext field of GET_REPLICA_INFO's answer: how many replicas are registered, without learners.
	fieldReplicas = "replicas"
	// fieldLeader is an ext field of CONTROLLER_NOT_LEADER: where the leader is.
	fieldLeader = "controllerLeaderAddress"
)

const (
	// maxName bounds names and addresses in bytes, maxCheckCode a registration's check code.
	maxName      = 255
	maxCheckCode = 512
)

// checkName refuses what cannot be a name or an address.
func checkName(field, name string) error {
	switch {
	case name == "":
		return code.New(code.InvalidParameter, "field %s is missing", field)
	case len(name) > maxName:
		return code.New(code.InvalidParameter, "field %s has %d bytes, at most %d are allowed", field, len(name), maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return code.New(code.InvalidParameter, "field %s holds control characters or no UTF-8: %q", field, name)
	}
	return nil
}

// checkLengths keeps long names out of the log. What is too short is refused by the quorum, in Java's words.
func checkLengths(names ...string) error {
	for _, name := range names {
		if len(name) > maxName {
			return code.New(code.InvalidParameter, "a name or an address of %d bytes, at most %d are allowed", len(name), maxName)
		}
	}
	return nil
}

// call is a request that waits for the quorum.
type call struct {
	remoting.Ticket
	s     *Server
	code  code.Request
	since time.Time
}

func (s *Server) park(r *remoting.Request) call {
	return call{r.Park(), s, code.Request(r.Code), s.clock.Now()}
}

func (c call) reply(rc code.Response, remark string, h header.Appender, data []byte) {
	var b remoting.Body
	if data != nil {
		b = remoting.Bytes(data)
	}
	c.s.metrics.served(c.code, c.s.clock.Now().Sub(c.since))
	c.Reply(rc, remark, h, b)
}

func (c call) ok(h header.Appender, data []byte) { c.reply(code.Success, "", h, data) }

// refused answers with the code of an error and the header that Java sends beside it.
func (c call) refused(err error, h header.Appender) {
	if err, ok := errors.AsType[*code.Error](err); ok {
		c.reply(err.Code, err.Remark, h, nil)
		return
	}
	switch {
	case errors.Is(err, errNotLeader):
		c.reply(code.ControllerNotLeader, "The controller is not in leader state", leaderHint(c.s.node.status.Load().Leader.Addr), nil)
	case errors.Is(err, errBusy):
		c.reply(code.SystemBusy, err.Error(), nil, nil)
	default:
		c.reply(code.SystemError, err.Error(), nil, nil)
	}
}

// leaderHint is the header of CONTROLLER_NOT_LEADER.
type leaderHint string

// AppendFields implements header.Appender.
func (h leaderHint) AppendFields(w *header.Writer) {
	if h != "" {
		w.String(fieldLeader, string(h))
	}
}

// change has the quorum carry out a command and answers by what has come of it.
func (s *Server) change(r *remoting.Request, c Command, refusal header.Appender, answer func(c call, res Result)) error {
	w := s.park(r)
	s.node.propose(c, func(res Result, err error) {
		switch {
		case err != nil:
			w.refused(err, refusal)
		case res.Err != nil && res.Err.Code != code.ControllerMasterStillExist:
			w.refused(res.Err, refusal)
		default:
			answer(w, res)
		}
	})
	return nil
}

// query answers from a state that is not older than the request.
func (s *Server) query(r *remoting.Request, answer func(st *State) (header.Appender, []byte, error)) error {
	w := s.park(r)
	s.node.read(func(err error) {
		var h header.Appender
		var data []byte
		if err == nil {
			s.node.view(func(st *State) { h, data, err = answer(st) })
		}
		if err != nil {
			w.refused(err, nil)
			return
		}
		w.ok(h, data)
	})
	return nil
}

// groupOf returns the present state of a group, as far as this controller knows, or nil.
func (s *Server) groupOf(name string) (g *Group) {
	s.node.view(func(st *State) { g = st.Group(name) })
	return g
}

// living returns the replicas of a group that are not known to be dead.
func (s *Server) living(name string) []int64 {
	g := s.groupOf(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return Living(g, s.table, s.clock.Now())
}

func (s *Server) alterSyncStateSet(r *remoting.Request, h *header.AlterSyncStateSetRequest) error {
	if err := checkLengths(h.BrokerName); err != nil {
		return err
	}
	var want body.SyncStateSet
	if err := fastjson.Unmarshal(r.Body, &want); err != nil {
		return code.New(code.InvalidParameter, "set: %v", err)
	}
	if len(want.SyncStateSet) > maxReplicas {
		return code.New(code.ControllerInvalidReplicas, "a set of %d replicas; there can be %d", len(want.SyncStateSet), maxReplicas)
	}
	c := &AlterSyncStateSet{
		Name: h.BrokerName, Master: h.MasterBrokerID, MasterEpoch: h.MasterEpoch, SyncStateSetEpoch: want.SyncStateSetEpoch,
		SyncStateSet: want.SyncStateSet, Alive: s.living(h.BrokerName),
	}
	if text, ok := r.Ext(fieldLives); ok {
		if err := fastjson.Unmarshal([]byte(text), &c.Lives); err != nil || len(c.Lives) > maxReplicas {
			return code.New(code.InvalidParameter, "field %s: %.255q is no list of lives", fieldLives, text)
		}
	}
	return s.change(r, c, &header.AlterSyncStateSetResponse{}, func(w call, res Result) {
		s.log.Info("SyncStateSet changed", zap.String("broker", res.Group.Name), zap.Int64("master", res.Group.Master),
			zap.Int64s("syncStateSet", res.Group.SyncStateSet), zap.Int32("syncStateSetEpoch", res.Group.SyncStateSetEpoch))
		w.ok(&header.AlterSyncStateSetResponse{NewSyncStateSetEpoch: res.Group.SyncStateSetEpoch}, syncStateSet(res.Group))
	})
}

// electMaster serves a broker that asks who is master and would be it, and an operator who names one.
func (s *Server) electMaster(r *remoting.Request, h *header.ElectMasterRequest) error {
	if err := checkLengths(h.ClusterName, h.BrokerName); err != nil {
		return err
	}
	b := Broker{h.BrokerName, h.BrokerID}
	g := s.groupOf(h.BrokerName)
	if g != nil && h.DesignateElect && s.canHandOver(g, h.BrokerID) {
		if !r.OnLane() {
			return s.admin.Redo()
		}
		s.handOver(g, h.BrokerID, handOverTime)
	}
	e := &Elect{Name: h.BrokerName}
	if g != nil {
		if _, member := g.Replicas[b.ID]; member && !h.DesignateElect {
			s.observe(&Heartbeat{Broker: b, Link: r.Conn}) // its first heartbeat may still be on the way
		}
		s.mu.Lock()
		now := s.clock.Now()
		e = Ballot(g, s.table, now)
		master := Broker{g.Name, g.Master}
		waiting := g.Master != noMaster && g.Master != b.ID && !s.table.Alive(master, now) && !s.table.Dead(master, now)
		s.mu.Unlock()
		if waiting && !h.DesignateElect && s.node.status.Load().Leading {
			return code.New(code.ControllerElectMasterFailed, "Failed to elect a new master: broker %d is master, and it is too early to say that it is gone", g.Master)
		}
	}
	e.Cluster, e.Broker, e.Unclean = h.ClusterName, h.BrokerID, s.cfg.Load().EnableElectUncleanMaster
	e.Trigger, e.Reason = ByBroker, fmt.Sprintf("broker %d asks", h.BrokerID)
	if h.DesignateElect || h.BrokerID <= noMaster {
		e.Trigger, e.Reason = ByOperator, fmt.Sprintf("broker %d was named", h.BrokerID)
	}
	return s.change(r, e, &header.ElectMasterResponse{}, func(w call, res Result) {
		g := res.Group
		out := &body.ElectMasterResponseBody{SyncStateSet: g.SyncStateSet}
		rc, remark := code.Success, ""
		if res.Err != nil {
			rc, remark = res.Err.Code, res.Err.Remark
		} else {
			addrs := map[int64]string{}
			for id, m := range g.Replicas {
				addrs[id] = m.Addr
			}
			out.BrokerMemberGroup = &body.BrokerMemberGroup{BrokerAddrs: addrs, BrokerName: g.Name, Cluster: g.Cluster}
			out.BrokerAddrs, out.BrokerName, out.Cluster = addrs, g.Name, g.Cluster
		}
		w.reply(rc, remark, &header.ElectMasterResponse{
			MasterBrokerID: header.Some(g.Master), MasterAddress: g.MasterAddr(), MasterEpoch: header.Some(g.MasterEpoch),
			SyncStateSetEpoch: header.Some(g.SyncStateSetEpoch),
		}, fastjson.Marshal(out))
	})
}

// canHandOver tells whether the group has a living master of our own that can make room for a replica that is in sync.
func (s *Server) canHandOver(g *Group, to int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node.status.Load().Leading && g.Replicas[g.Master].Inherits && to != g.Master && slices.Contains(g.SyncStateSet, to) &&
		s.table.Alive(Broker{g.Name, g.Master}, s.clock.Now()) && s.table.Alive(Broker{g.Name, to}, s.clock.Now())
}

// How long a master may take to finish what is under way. One that is sick may be unable to.
const (
	handOverTime     = 1500 * time.Millisecond
	sickHandOverTime = 100 * time.Millisecond
)

// handOver asks the master to finish what is under way within a time, and to take nothing new. It blocks. If it fails the election goes on: it loses
// nothing that was acknowledged, but producers may have to send again.
func (s *Server) handOver(g *Group, to int64, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r, err := s.client.Call(ctx, g.MasterAddr(), code.HandOver, &header.HandOverRequest{BrokerName: g.Name, MasterEpoch: g.MasterEpoch, BrokerID: to}, nil)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		s.log.Warn("the master does not hand over in order", zap.String("broker", g.Name), zap.Int64("master", g.Master), zap.Int64("to", to), zap.Error(err))
	}
}

func (s *Server) registerBroker(r *remoting.Request, h *header.RegisterBrokerToControllerRequest) error {
	if err := errors.Join(checkLengths(h.ClusterName, h.BrokerName), checkName("brokerAddress", h.BrokerAddress)); err != nil {
		return err
	}
	inherits, _ := r.Ext(fieldInherits)
	c := &Register{Cluster: h.ClusterName, Name: h.BrokerName, ID: h.BrokerID, Addr: h.BrokerAddress, Inherits: inherits == "true"}
	torn, _ := r.Ext(fieldTorn)
	learner, _ := r.Ext(fieldLearner)
	c.Torn, c.Learner = torn == "true", learner == "true"
	log := unheard
	for _, f := range []struct {
		name     string
		min, max int64
		set      func(n int64)
	}{
		{fieldIncarnation, 1, math.MaxInt64, func(n int64) { c.Incarnation = n }},
		{fieldAttempt, 0, math.MaxInt64, func(n int64) { c.Attempt = n }},
		{fieldMinInSync, 1, maxReplicas, func(n int64) { c.MinInSync = int32(n) }},
		{fieldEpoch, -1, maxMasterEpoch, func(n int64) { log.Epoch = int32(n) }},
		{fieldMaxOffset, -1, math.MaxInt64, func(n int64) { log.MaxOffset = n }},
	} {
		text, ok := r.Ext(f.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < f.min || n > f.max {
			return code.New(code.InvalidParameter, "field %s: %.255q is no number from %d to %d", f.name, text, f.min, f.max)
		}
		f.set(n)
	}
	if s.node.status.Load().Leading {
		if err := s.checkTwin(c); err != nil {
			return err
		}
		c.Torn = c.Torn || s.wentBack(c, log)
	}
	id := header.RegisterBrokerToControllerResponse{ClusterName: h.ClusterName, BrokerName: h.BrokerName}
	return s.change(r, c, &id, func(w call, res Result) {
		g, out := res.Group, id
		if res.Late {
			w.refused(code.New(code.ControllerBrokerIDInvalid, "broker %d of %s has registered later than that: its disk is an old copy, or this request was on its way for long", c.ID, c.Name),
				known{&out, g.Replicas[c.ID].Incarnation})
			return
		}
		s.mu.Lock()
		gone := g.Master == noMaster || s.table.Dead(Broker{g.Name, g.Master}, s.clock.Now())
		s.mu.Unlock()
		if !gone {
			out.MasterBrokerID, out.MasterAddress = header.Some(g.Master), g.MasterAddr()
			out.MasterEpoch, out.SyncStateSetEpoch = header.Some(g.MasterEpoch), header.Some(g.SyncStateSetEpoch)
		}
		w.ok(&out, syncStateSet(g))
	})
}

// known adds the incarnation that the controllers know to an answer.
type known struct {
	header.Appender
	incarnation int64
}

// AppendFields implements header.Appender.
func (k known) AppendFields(w *header.Writer) {
	k.Appender.AppendFields(w)
	w.Int(fieldIncarnation, k.incarnation)
}

// checkTwin refuses a broker with the id of another one that lives, as one that was started with a copy of its files: what the one has acknowledged the
// other may lack.
func (s *Server) checkTwin(c *Register) error {
	g := s.groupOf(c.Name)
	if g == nil {
		return nil // the command says more
	}
	addr := g.Replicas[c.ID].Addr
	s.mu.Lock()
	lives := s.table.Lively(Broker{c.Name, c.ID}, s.clock.Now())
	s.mu.Unlock()
	if addr == "" || addr == c.Addr || !lives {
		return nil
	}
	return code.New(code.ControllerBrokerIDInvalid, "id %d of %s is that of the broker at %s, which lives: if the store of %s is a copy of its, remove it to get an id and a log of its own", c.ID, c.Name, addr, c.Addr)
}

// wentBack tells whether a broker that starts has less than it has said before: it runs on an old copy of its disk.
func (s *Server) wentBack(c *Register, log Vitals) bool {
	s.mu.Lock()
	had := s.table.Known(Broker{c.Name, c.ID})
	s.mu.Unlock()
	older := cmp.Or(cmp.Compare(log.Epoch, had.Epoch), cmp.Compare(log.MaxOffset, had.MaxOffset)) < 0
	if log.MaxOffset < 0 || !older || log.MaxOffset == had.MaxOffset { // an epoch in which nothing was written is forgotten by who starts again
		return false
	}
	s.log.Warn("a broker has started with less than it has had: it is not elected before it has caught up", zap.String("broker", c.Name), zap.Int64("id", c.ID), zap.String("address", c.Addr),
		zap.Int64("maxOffset", log.MaxOffset), zap.Int32("epoch", log.Epoch), zap.Int64("hadMaxOffset", had.MaxOffset), zap.Int32("hadEpoch", had.Epoch))
	return true
}

func (s *Server) replicaInfo(r *remoting.Request, h *header.GetReplicaInfoRequest) error {
	name := h.BrokerName
	return s.query(r, func(st *State) (header.Appender, []byte, error) {
		g := st.Group(name)
		if g == nil {
			return nil, nil, code.New(code.ControllerBrokerMetadataNotExist, "Broker metadata is not existed")
		}
		out := &header.GetReplicaInfoResponse{MasterAddress: g.MasterAddr(), MasterEpoch: header.Some(g.MasterEpoch)}
		if g.Master != noMaster {
			out.MasterBrokerID = header.Some(g.Master)
		}
		if g.inherits() {
			return &replicaInfo{out, len(g.electable())}, syncStateSet(g), nil
		}
		return out, syncStateSet(g), nil
	})
}

// replicaInfo is the header of GET_REPLICA_INFO's answer to our own brokers.
type replicaInfo struct {
	*header.GetReplicaInfoResponse
	replicas int
}

// AppendFields implements header.Appender.
func (h *replicaInfo) AppendFields(w *header.Writer) {
	h.GetReplicaInfoResponse.AppendFields(w)
	w.Int(fieldReplicas, int64(h.replicas))
}

// metadata is answered by every controller, without the quorum.
func (s *Server) metadata(r *remoting.Request) error {
	return r.OK(s.node.status.Load().metadata(s.group), nil)
}

func (st *Status) metadata(group string) *header.GetMetaDataResponse {
	var peers strings.Builder
	for _, m := range st.Members {
		fmt.Fprintf(&peers, "%s:%s;", m.ID, m.Addr)
	}
	return &header.GetMetaDataResponse{
		Group: group, ControllerLeaderID: st.Leader.ID, ControllerLeaderAddress: st.Leader.Addr, IsLeader: st.Leading, Peers: peers.String(),
	}
}

func (s *Server) syncStateData(r *remoting.Request) error {
	var names []string
	if len(r.Body) > 0 {
		if err := fastjson.Unmarshal(r.Body, &names); err != nil {
			return code.New(code.InvalidParameter, "broker names: %v", err)
		}
	}
	if len(names) == 0 {
		return code.New(code.SystemError, "not set any response code") // as Java answers
	}
	return s.query(r, func(st *State) (header.Appender, []byte, error) {
		table := map[string]body.ReplicasInfo{}
		s.mu.Lock()
		now := s.clock.Now()
		for _, name := range names {
			if g := st.Group(name); g != nil {
				table[name] = replicas(g, func(id int64) bool { return s.table.Alive(Broker{name, id}, now) })
			}
		}
		s.mu.Unlock()
		return nil, fastjson.Marshal(&body.BrokerReplicasInfo{ReplicasInfoTable: table}), nil
	})
}

// replicas is a group as tools are shown it.
func replicas(g *Group, alive func(id int64) bool) body.ReplicasInfo {
	out := body.ReplicasInfo{MasterAddress: g.MasterAddr(), MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch}
	if g.Master != noMaster {
		out.MasterBrokerID = &g.Master
	}
	for _, id := range slices.Sorted(maps.Keys(g.Replicas)) {
		one := body.ReplicaIdentity{Alive: alive(id), BrokerAddress: g.Replicas[id].Addr, BrokerID: id, BrokerName: g.Name}
		if slices.Contains(g.SyncStateSet, id) {
			out.InSyncReplicas = append(out.InSyncReplicas, one)
		} else {
			out.NotInSyncReplicas = append(out.NotInSyncReplicas, one)
		}
	}
	return out
}

func (s *Server) nextBrokerID(r *remoting.Request, h *header.GetNextBrokerIdRequest) error {
	id := *h
	return s.query(r, func(st *State) (header.Appender, []byte, error) {
		out := &header.GetNextBrokerIdResponse{ClusterName: id.ClusterName, BrokerName: id.BrokerName, NextBrokerID: 1}
		g := st.Group(id.BrokerName)
		switch {
		case g != nil && g.Cluster != id.ClusterName:
			return nil, nil, code.New(code.ControllerBrokerIDInvalid, "broker name %s belongs to cluster %s", g.Name, g.Cluster)
		case g != nil:
			out.NextBrokerID = g.NextID
		}
		return out, nil, nil
	})
}

func (s *Server) applyBrokerID(r *remoting.Request, h *header.ApplyBrokerIdRequest) error {
	if err := errors.Join(checkName("clusterName", h.ClusterName), checkName("brokerName", h.BrokerName)); err != nil {
		return err
	}
	if h.RegisterCheckCode == "" || len(h.RegisterCheckCode) > maxCheckCode || !utf8.ValidString(h.RegisterCheckCode) {
		return code.New(code.InvalidParameter, "field registerCheckCode is missing or too long")
	}
	out := &header.ApplyBrokerIdResponse{ClusterName: h.ClusterName, BrokerName: h.BrokerName}
	c := &ApplyID{Cluster: h.ClusterName, Name: h.BrokerName, ID: h.AppliedBrokerID, CheckCode: h.RegisterCheckCode}
	return s.change(r, c, out, func(w call, res Result) {
		s.log.Info("broker id given", zap.String("cluster", c.Cluster), zap.String("broker", c.Name), zap.Int64("id", c.ID),
			zap.String("address", res.Group.Replicas[c.ID].Addr))
		w.ok(out, nil)
	})
}

// heartbeat is served by every controller: each keeps a table of its own, so that a new leader knows at once who lives.
func (s *Server) heartbeat(r *remoting.Request, h *header.BrokerHeartbeatRequest) error {
	if !h.BrokerID.Ok {
		return code.New(code.ControllerInvalidRequest, "Heart beat with empty brokerId")
	}
	g := s.groupOf(h.BrokerName)
	if g == nil || g.Cluster != h.ClusterName {
		return code.New(code.ControllerBrokerNeedToBeRegistered, "Broker-set: %.255s hasn't been registered in controller", h.BrokerName)
	}
	if _, ok := g.Replicas[h.BrokerID.V]; !ok {
		return code.New(code.ControllerBrokerNeedToBeRegistered, "BrokerId: %d hasn't been registered in broker-set: %s", h.BrokerID.V, g.Name)
	}
	v := &Vitals{h.Epoch.Or(unheard.Epoch), h.MaxOffset.Or(unheard.MaxOffset), h.ElectionPriority.Or(unheard.Priority), false}
	healthy, said := r.Ext(fieldHealthy)
	v.Sick = said && healthy == "false"
	if v.Epoch >= maxMasterEpoch {
		return code.New(code.ControllerInvalidRequest, "epoch %d cannot be", v.Epoch)
	}
	if life, said := r.Ext(fieldIncarnation); said && life != strconv.FormatInt(g.Replicas[h.BrokerID.V].Incarnation, 10) {
		return code.New(code.ControllerBrokerNeedToBeRegistered, "BrokerId: %d has been registered in broker-set: %s for another process", h.BrokerID.V, g.Name)
	}
	r.Conn.Data.Store(heard{}) // before the table knows the connection, so that its end is not missed
	timeout := min(max(h.HeartbeatTimeoutMillis.Or(0), 0), maxTimeout.Milliseconds())
	s.observe(&Heartbeat{Broker{g.Name, h.BrokerID.V}, v, time.Duration(timeout) * time.Millisecond, r.Conn})
	if !r.Conn.Alive() {
		s.disconnected(r.Conn)
	}
	r.Reply(code.Success, "Heart beat success", nil, nil)
	return nil
}
