package namesrv

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// worldChanged publishes a configuration on which routes depend.
func (s *Server) worldChanged() {
	s.change(func(*RouteTable) Effects { return Effects{Brokers: true} })
}

func (s *Server) putKV(r *remoting.Request, h *header.PutKVConfigRequest) error {
	if h.Namespace == "" || h.Key == "" {
		return code.New(code.SystemError, "namespace or key is null")
	}
	if err := s.kv.put(h.Namespace, h.Key, h.Value); err != nil {
		return err
	}
	s.kvChanged(h.Namespace)
	return r.OK(nil, nil)
}

func (s *Server) deleteKV(r *remoting.Request, h *header.DeleteKVConfigRequest) error {
	if h.Namespace == "" || h.Key == "" {
		return code.New(code.SystemError, "namespace or key is null")
	}
	if err := s.kv.delete(h.Namespace, h.Key); err != nil {
		return err
	}
	s.kvChanged(h.Namespace)
	return r.OK(nil, nil)
}

func (s *Server) kvChanged(namespace string) {
	if namespace == orderNamespace {
		s.worldChanged()
	}
}

func (s *Server) getKV(r *remoting.Request, h *header.GetKVConfigRequest) error {
	value, ok := s.kv.namespace(h.Namespace)[h.Key]
	if !ok {
		return code.New(code.QueryNotFound, "No config item, Namespace: %.255s Key: %.255s", h.Namespace, h.Key)
	}
	return r.OK(&header.GetKVConfigResponse{Value: value}, nil)
}

func (s *Server) listKV(r *remoting.Request, h *header.GetKVListByNamespaceRequest) error {
	table := s.kv.namespace(h.Namespace)
	if table == nil {
		return code.New(code.QueryNotFound, "No config item, Namespace: %.255s", h.Namespace)
	}
	return r.OK(nil, fastjson.Marshal(&body.KVTable{Table: table}))
}

func (s *Server) getConfig(r *remoting.Request) error { return r.OK(nil, conf.Text(s.cfg.Load())) }

// updateConfig changes the file first: what is in force after it would also be so after a restart.
func (s *Server) updateConfig(r *remoting.Request) error {
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
	s.worldChanged()
	s.log.Info("configuration changed", zap.Strings("keys", changed), zap.String("peer", r.Conn.RemoteAddr()))
	return r.OK(nil, nil)
}

// errDisabled answers requests that the configuration switches off.
var errDisabled = code.New(code.SystemError, "disable")

func (s *Server) allTopics(r *remoting.Request) error {
	return s.listTopics(r, s.cfg.Load().EnableAllTopicList, (*RouteTable).AllTopics)
}

func (s *Server) topicsByCluster(r *remoting.Request, h *header.GetTopicsByClusterRequest) error {
	return s.listTopics(r, s.cfg.Load().EnableTopicList, func(t *RouteTable) []string { return t.TopicsByCluster(h.Cluster) })
}

func (s *Server) topicsByFlag(match func(flag int32) bool) func(*remoting.Request) error {
	return func(r *remoting.Request) error {
		return s.listTopics(r, s.cfg.Load().EnableTopicList, func(t *RouteTable) []string { return t.TopicsByFlag(match) })
	}
}

func (s *Server) listTopics(r *remoting.Request, enabled bool, list func(*RouteTable) []string) error {
	if !enabled {
		return errDisabled
	}
	s.mu.Lock()
	topics := list(s.table)
	s.mu.Unlock()
	return r.OK(nil, fastjson.Marshal(&body.TopicList{TopicList: topics}))
}

func (s *Server) systemTopics(r *remoting.Request) error {
	list := systemTopics(s.view.world.Load().brokers)
	return r.OK(nil, fastjson.Marshal(&list))
}
