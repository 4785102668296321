package namesrv

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
)

// view is what lookups read, without a lock. Only the holder of the server's mutex writes it.
type view struct {
	topics sync.Map // string → *Topic
	world  atomic.Pointer[world]
}

// world is everything but the topics that an answer depends on. It never changes.
type world struct {
	brokers map[string]*Broker
	order   map[string]string // order configuration by topic; nil while orderMessageEnable is off
	acting  bool              // supportActingMaster
	// clusterInfo is the encoded answer to GET_BROKER_CLUSTER_INFO, made by the first who asks.
	clusterInfo func() []byte
}

func newWorld(brokers map[string]*Broker, order map[string]string, acting bool) *world {
	return &world{brokers: brokers, order: order, acting: acting, clusterInfo: sync.OnceValue(func() []byte {
		info := clusterInfo(brokers)
		return fastjson.Marshal(&info)
	})}
}

// publish shows what a change of the table has changed. The world comes first: a route leaves out queues whose broker it does
// not know.
func (v *view) publish(t *RouteTable, fx *Effects, order map[string]string, acting bool) {
	if fx.Brokers {
		v.world.Store(newWorld(t.Brokers(), order, acting))
	}
	for _, name := range fx.Topics {
		if topic := t.Topic(name); topic != nil {
			v.topics.Store(name, topic)
		} else {
			v.topics.Delete(name)
		}
	}
}

// answer is an encoded route, valid in the world that it was made from.
type answer struct {
	world *world
	text  []byte
}

// route returns the encoded route of a topic in standard or legacy JSON, nil if there is none. zone, if not empty, keeps brokers
// of other zones out. The text must not be modified.
func (v *view) route(name string, legacy bool, zone string) []byte {
	found, ok := v.topics.Load(name)
	if !ok {
		return nil
	}
	topic, w := found.(*Topic), v.world.Load()
	form := 0
	if legacy {
		form = 1
	}
	if a := topic.answers[form].Load(); a != nil && a.world == w && zone == "" {
		return a.text
	}
	r := w.route(name, topic)
	if len(r.BrokerDatas) == 0 {
		return nil
	}
	if zone != "" {
		keepZone(&r, zone)
		return body.EncodeRoute(&r, legacy)
	}
	a := &answer{w, body.EncodeRoute(&r, legacy)}
	topic.answers[form].Store(a)
	return a.text
}

// syncMemberPrefix begins the names of topics by whose routes brokers learn their group's members: those must show true ids.
const syncMemberPrefix = "rmq_sys_SYNC_BROKER_MEMBER_"

// route puts a topic's route together. Java: RouteInfoManager.pickupTopicRouteData.
func (w *world) route(name string, topic *Topic) body.TopicRouteData {
	r := body.TopicRouteData{
		FilterServerTable: map[string][]string{}, OrderTopicConf: w.order[name], TopicQueueMappingByBroker: topic.Mappings,
		BrokerDatas: []body.BrokerData{}, QueueDatas: []body.QueueData{},
	}
	for _, q := range topic.Queues {
		b := w.brokers[q.BrokerName]
		if b == nil {
			continue // the topic is about to be published without this queue
		}
		if b.ReadOnly {
			q.Perm &^= permWrite
		}
		data := b.BrokerData
		if w.acting && data.EnableActingMaster && q.Perm&permWrite == 0 && !strings.HasPrefix(name, syncMemberPrefix) {
			data.BrokerAddrs = actingMaster(data.BrokerAddrs)
		}
		r.QueueDatas = append(r.QueueDatas, q)
		r.BrokerDatas = append(r.BrokerDatas, data)
		maps.Copy(r.FilterServerTable, b.Filters)
	}
	return r
}

// actingMaster gives the master's id to the broker with the lowest one, if there is no master.
func actingMaster(addrs map[int64]string) map[int64]string {
	if _, ok := addrs[masterID]; ok {
		return addrs
	}
	least := slices.Min(slices.Collect(maps.Keys(addrs)))
	addrs = maps.Clone(addrs)
	addrs[masterID] = addrs[least]
	delete(addrs, least)
	return addrs
}

// keepZone removes the brokers of other zones, unless their master is away: then their slaves serve every zone.
// Java: ZoneRouteRPCHook.
func keepZone(r *body.TopicRouteData, zone string) {
	removed := map[string]bool{}
	r.BrokerDatas = slices.DeleteFunc(r.BrokerDatas, func(b body.BrokerData) bool {
		if _, ok := b.BrokerAddrs[masterID]; !ok || strings.EqualFold(b.ZoneName, zone) {
			return false
		}
		removed[b.BrokerName] = true
		for _, addr := range b.BrokerAddrs {
			delete(r.FilterServerTable, addr)
		}
		return true
	})
	r.QueueDatas = slices.DeleteFunc(r.QueueDatas, func(q body.QueueData) bool { return removed[q.BrokerName] })
}
