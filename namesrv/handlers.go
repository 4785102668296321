package namesrv

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
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

// routes says which request is served by what, and where: inline on the connection's reader (without a lock), or in a lane.
// Java: DefaultRequestProcessor and ClientRequestProcessor.
func (s *Server) routes() []remoting.Route {
	return []remoting.Route{
		{Code: code.GetRouteInfoByTopic, Serve: remoting.On(s.getRoute)},
		{Code: code.GetBrokerClusterInfo, Serve: s.getClusterInfo},
		{Code: code.GetBrokerMemberGroup, Serve: remoting.On(s.getMemberGroup)},
		{Code: code.GetKVConfig, Serve: remoting.On(s.getKV)},
		{Code: code.GetKVListByNamespace, Serve: remoting.On(s.listKV)},

		{Code: code.RegisterBroker, Lane: s.registrations, Serve: remoting.On(s.registerBroker)},
		{Code: code.UnregisterBroker, Lane: s.registrations, Serve: remoting.On(s.unregisterBroker)},
		{Code: code.RegisterTopicInNamesrv, Lane: s.registrations, Serve: remoting.On(s.registerTopic)},
		{Code: code.DeleteTopicInNamesrv, Lane: s.registrations, Serve: remoting.On(s.deleteTopic)},
		{Code: code.WipeWritePermOfBroker, Lane: s.registrations, Serve: remoting.On(s.wipeWrite)},
		{Code: code.AddWritePermOfBroker, Lane: s.registrations, Serve: remoting.On(s.addWrite)},

		{Code: code.BrokerHeartbeat, Lane: s.liveness, Serve: remoting.On(s.heartbeat)},
		{Code: code.QueryDataVersion, Lane: s.liveness, Serve: remoting.On(s.queryDataVersion)},

		{Code: code.PutKVConfig, Lane: s.admin, Serve: remoting.On(s.putKV)},
		{Code: code.DeleteKVConfig, Lane: s.admin, Serve: remoting.On(s.deleteKV)},
		{Code: code.UpdateNamesrvConfig, Lane: s.admin, Serve: s.updateConfig},
		{Code: code.GetNamesrvConfig, Lane: s.admin, Serve: s.getConfig},
		{Code: code.GetAllTopicListFromNameserver, Lane: s.admin, Serve: s.allTopics},
		{Code: code.GetTopicsByCluster, Lane: s.admin, Serve: remoting.On(s.topicsByCluster)},
		{Code: code.GetSystemTopicListFromNS, Lane: s.admin, Serve: s.systemTopics},
		{Code: code.GetUnitTopicList, Lane: s.admin, Serve: s.topicsByFlag(func(f int32) bool { return f&flagUnit != 0 })},
		{Code: code.GetHasUnitSubTopicList, Lane: s.admin, Serve: s.topicsByFlag(func(f int32) bool { return f&flagUnitSub != 0 })},
		{Code: code.GetHasUnitSubUnunitTopicList, Lane: s.admin, Serve: s.topicsByFlag(func(f int32) bool {
			return f&flagUnitSub != 0 && f&flagUnit == 0
		})},
	}
}

const (
	// fieldFullTable is an ext field of our own brokers' registrations: the table is whole, so what it leaves out is gone.
	fieldFullTable = "fullTable"
	// fieldWithStandby is another: the topics have, or lose, a queue under the name of the group's standby, too.
	fieldWithStandby = "withStandby"
	// fieldRegistered is an ext field of the answer to a heartbeat: "false" asks the broker to register at once.
	fieldRegistered = "registered"

	defaultTimeout = 120 * time.Second // RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME
	maxTimeout     = 24 * time.Hour
)

// maxName bounds names and addresses in bytes; the longest topics that brokers allow, retry and dead-letter topics, have as many.
const maxName = 255

// checkName refuses what cannot be a name or an address. Name servers have never insisted on the characters of topics; brokers do.
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

func (s *Server) getRoute(r *remoting.Request, h *header.GetRouteInfoRequest) error {
	cfg := s.cfg.Load()
	if cfg.NeedWaitForService && s.clock.Now().Sub(s.started) < time.Duration(cfg.WaitSecondsForService)*time.Second {
		return code.New(code.SystemError, "name server not ready")
	}
	zone := ""
	if strings.EqualFold(h.ZoneMode, "true") {
		zone = strings.TrimSpace(h.ZoneName)
	}
	legacy := r.Version < code.V4_9_4 && !h.AcceptStandardJSONOnly.Or(false)
	text := s.view.route(h.Topic, legacy, zone)
	if text == nil {
		s.metrics.unknownRoutes.Inc()
		return code.New(code.TopicNotExist, "No topic route info in name server for the topic: %s\n"+
			"See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.", h.Topic[:min(len(h.Topic), maxName)])
	}
	s.metrics.foundRoutes.Inc()
	return r.OK(nil, text)
}

func (s *Server) getClusterInfo(r *remoting.Request) error {
	return r.OK(nil, s.view.world.Load().clusterInfo())
}

// getMemberGroup echoes the cluster and answers an unknown name with an empty group, as Java does.
func (s *Server) getMemberGroup(r *remoting.Request, h *header.GetBrokerMemberGroupRequest) error {
	group := &body.BrokerMemberGroup{Cluster: h.ClusterName, BrokerName: h.BrokerName}
	if b := s.view.world.Load().brokers[h.BrokerName]; b != nil {
		group.BrokerAddrs = b.BrokerAddrs
	}
	return r.OK(nil, fastjson.Marshal(&body.GetBrokerMemberGroupResponseBody{BrokerMemberGroup: group}))
}

func (s *Server) registerBroker(r *remoting.Request, h *header.RegisterBrokerRequest) error {
	reg, err := s.registration(r, h)
	if err != nil {
		s.metrics.registrations.WithLabelValues("refused").Inc()
		return err
	}
	r.Conn.Data.Store(registrar{}) // before the table knows the connection, so that its end is not missed
	var out Registered
	s.change(func(t *RouteTable) (fx Effects) {
		out, fx, err = t.Register(reg, s.clock.Now())
		return fx
	})
	if !r.Conn.Alive() {
		s.disconnected(r.Conn)
	}
	if err != nil {
		s.metrics.registrations.WithLabelValues("refused").Inc()
		s.log.Warn("registration refused", zap.String("cluster", reg.Cluster), zap.String("broker", reg.Name), zap.Int64("id", reg.ID),
			zap.String("address", reg.Addr), zap.Error(err))
		if errors.Is(err, errFenced) && r.Language != code.Go {
			return r.OK(nil, nil) // what brokers in Java expect; ours act on the error
		}
		return err
	}
	s.metrics.registrations.WithLabelValues("accepted").Inc()
	var order []byte
	if table := s.kv.namespace(orderNamespace); table != nil && s.cfg.Load().ReturnOrderTopicConfigToBroker {
		order = fastjson.Marshal(&body.KVTable{Table: table})
	}
	return r.OK(&header.RegisterBrokerResponse{HAServerAddr: out.MasterHAAddr, MasterAddr: out.MasterAddr}, order)
}

// registration reads and checks a request.
func (s *Server) registration(r *remoting.Request, h *header.RegisterBrokerRequest) (*Registration, error) {
	if h.BodyCRC32 != 0 && int32(crc32.ChecksumIEEE(r.Body)&0x7FFFFFFF) != h.BodyCRC32 {
		return nil, code.New(code.SystemError, "crc32 not match")
	}
	if err := checkMember(h.ClusterName, h.BrokerName, h.BrokerAddr); err != nil {
		return nil, err
	}
	if h.BrokerID < 0 || len(h.HAServerAddr) > maxName || len(h.ZoneName) > maxName {
		return nil, code.New(code.InvalidParameter, "fields brokerId, haServerAddr or __ZONE_NAME are out of range")
	}
	text, err := decodeRegistration(r.Body, r.Version)
	if err != nil {
		return nil, code.New(code.InvalidParameter, "%v", err)
	}
	full, _ := r.Ext(fieldFullTable)
	withStandby, _ := r.Ext(fieldWithStandby)
	w := &text.TopicConfigSerializeWrapper
	reg := &Registration{
		Cluster: h.ClusterName, Name: h.BrokerName, Addr: h.BrokerAddr, HAAddr: h.HAServerAddr, Zone: h.ZoneName, ID: h.BrokerID,
		Timeout: defaultTimeout, ActingMaster: h.EnableActingMaster, Version: w.DataVersion,
		Topics: w.TopicConfigTable, Mappings: w.TopicQueueMappingInfoMap, Filters: text.FilterServerList, Link: r.Conn,
		Full:        full == "true" || s.cfg.Load().DeleteTopicWithBrokerRegistration && len(w.TopicQueueMappingInfoMap) == 0,
		WithStandby: withStandby == "true",
	}
	if ms := h.HeartbeatTimeoutMillis.Or(0); ms > 0 {
		reg.Timeout = time.Duration(min(ms, maxTimeout.Milliseconds())) * time.Millisecond
	}
	if bad := reg.dropBadTopics(); bad > 0 {
		s.log.Warn("topics with impossible names left out of a registration", zap.String("broker", reg.Name), zap.Int("topics", bad))
	}
	return reg, nil
}

// decodeRegistration reads the body: brokers before 3.0.11 send their topic table alone.
func decodeRegistration(data []byte, version code.Version) (*body.RegisterBrokerBody, error) {
	if version >= code.V3_0_11 || len(data) == 0 {
		return body.DecodeRegisterBrokerBody(data)
	}
	out := new(body.RegisterBrokerBody)
	if err := fastjson.Unmarshal(data, &out.TopicConfigSerializeWrapper.TopicConfigSerializeWrapper); err != nil {
		return nil, fmt.Errorf("topic table: %w", err)
	}
	return out, nil
}

// dropBadTopics keys the tables by the topics' own names and leaves out what cannot be a topic, so that one bad name does not
// keep a broker from serving the others. It returns how many topics it has left out.
func (r *Registration) dropBadTopics() (bad int) {
	topics := make(map[string]body.TopicConfig, len(r.Topics))
	for key, c := range r.Topics {
		if name := cmp.Or(c.TopicName, key); checkName("topic", name) == nil {
			topics[name] = c
		} else {
			bad++
		}
	}
	r.Topics = topics
	maps.DeleteFunc(r.Mappings, func(_ string, info body.TopicQueueMappingInfo) bool { return info.BrokerName != r.Name })
	return bad
}

func checkMember(cluster, name, addr string) error {
	return cmp.Or(checkName("clusterName", cluster), checkName("brokerName", name), checkName("brokerAddr", addr))
}

func (s *Server) unregisterBroker(r *remoting.Request, h *header.UnRegisterBrokerRequest) error {
	s.change(func(t *RouteTable) Effects { return t.Unregister(h.ClusterName, h.BrokerName, h.BrokerAddr) })
	return r.OK(nil, nil)
}

func (s *Server) registerTopic(r *remoting.Request, h *header.RegisterTopicRequest) error {
	if err := checkName("topic", h.Topic); err != nil {
		return err
	}
	var route body.TopicRouteData
	if len(r.Body) > 0 {
		if err := fastjson.Unmarshal(r.Body, &route); err != nil {
			return code.New(code.InvalidParameter, "route: %v", err)
		}
	}
	known := false
	s.change(func(t *RouteTable) (fx Effects) {
		fx, known = t.RegisterTopic(h.Topic, route.QueueDatas)
		return fx
	})
	if !known {
		s.log.Warn("topic registered by an unknown broker: ignored", zap.String("topic", h.Topic), zap.String("peer", r.Conn.RemoteAddr()))
	}
	return r.OK(nil, nil)
}

func (s *Server) deleteTopic(r *remoting.Request, h *header.DeleteTopicFromNamesrvRequest) error {
	s.change(func(t *RouteTable) Effects { return t.DeleteTopic(h.Topic, h.ClusterName) })
	return r.OK(nil, nil)
}

func (s *Server) wipeWrite(r *remoting.Request, h *header.WipeWritePermOfBrokerRequest) error {
	n := s.changeWrite("write permission wiped", h.BrokerName, (*RouteTable).WipeWrite)
	return r.OK(&header.WipeWritePermOfBrokerResponse{WipeTopicCount: n}, nil)
}

func (s *Server) addWrite(r *remoting.Request, h *header.AddWritePermOfBrokerRequest) error {
	n := s.changeWrite("write permission given back", h.BrokerName, (*RouteTable).AddWrite)
	return r.OK(&header.AddWritePermOfBrokerResponse{AddTopicCount: n}, nil)
}

func (s *Server) changeWrite(what, broker string, edit func(*RouteTable, string) (int, Effects)) int32 {
	topics := 0
	s.change(func(t *RouteTable) (fx Effects) {
		topics, fx = edit(t, broker)
		return fx
	})
	s.log.Info(what, zap.String("broker", broker), zap.Int("topics", topics))
	return int32(topics)
}

// unregistered answers a heartbeat of a broker that is not registered.
type unregistered struct{}

func (unregistered) AppendFields(w *header.Writer) { w.Bool(fieldRegistered, false) }

func (s *Server) heartbeat(r *remoting.Request, h *header.BrokerHeartbeatRequest) error {
	s.mu.Lock()
	known := s.table.Heartbeat(h.ClusterName, h.BrokerName, h.BrokerAddr, s.clock.Now())
	s.mu.Unlock()
	if known {
		return r.OK(nil, nil)
	}
	return r.OK(unregistered{}, nil)
}

// queryDataVersion is also a heartbeat, of brokers that want to be understood by old name servers.
func (s *Server) queryDataVersion(r *remoting.Request, h *header.QueryDataVersionRequest) error {
	var theirs body.DataVersion
	if err := fastjson.Unmarshal(r.Body, &theirs); err != nil {
		return code.New(code.InvalidParameter, "data version: %v", err)
	}
	s.mu.Lock()
	s.table.Heartbeat(h.ClusterName, h.BrokerName, h.BrokerAddr, s.clock.Now())
	ours, known := s.table.Version(h.ClusterName, h.BrokerName, h.BrokerAddr)
	s.mu.Unlock()
	if !known {
		return r.OK(&header.QueryDataVersionResponse{Changed: true}, nil)
	}
	return r.OK(&header.QueryDataVersionResponse{Changed: ours != theirs}, fastjson.Marshal(&ours))
}
