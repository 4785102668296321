package namesrv

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/castor-mq/castor/remoting/body"
)

// Topic is what is registered for one topic. Except for the answers it never changes.
type Topic struct {
	// Queues, at least one, sorted by broker name. Perm is what the broker registered.
	Queues []body.QueueData
	// Mappings of a static topic by broker name; else nil.
	Mappings map[string]body.TopicQueueMappingInfo

	answers [2]atomic.Pointer[answer] // standard and legacy JSON
}

// Topic returns a topic, nil if there is none.
func (t *RouteTable) Topic(name string) *Topic { return t.topics[name] }

// Len returns the number of topics and of brokers.
func (t *RouteTable) Len() (topics, brokers int) {
	for _, members := range t.places {
		brokers += len(members)
	}
	return len(t.topics), brokers
}

// setQueue sets a queue of a topic; its broker name must be known.
func (t *RouteTable) setQueue(topic string, q body.QueueData, fx *Effects) {
	old := t.topics[topic]
	if old == nil {
		old = &Topic{}
	}
	i, found := slices.BinarySearchFunc(old.Queues, q.BrokerName, func(o body.QueueData, name string) int { return cmp.Compare(o.BrokerName, name) })
	if found && old.Queues[i] == q {
		return
	}
	queues := slices.Clone(old.Queues)
	if found {
		queues[i] = q
	} else {
		queues = slices.Insert(queues, i, q)
	}
	t.topics[topic] = &Topic{Queues: queues, Mappings: old.Mappings}
	t.groups[q.BrokerName].topics[topic] = struct{}{}
	fx.Topics = append(fx.Topics, topic)
}

// setMapping sets the queue mapping of a topic on one broker name, or removes it. The topic must exist.
func (t *RouteTable) setMapping(topic, broker string, info body.TopicQueueMappingInfo, present bool, fx *Effects) {
	old := t.topics[topic]
	before, had := old.Mappings[broker]
	if had == present && (!present || equalMapping(&before, &info)) {
		return
	}
	mappings := maps.Clone(old.Mappings)
	if present {
		if mappings == nil {
			mappings = map[string]body.TopicQueueMappingInfo{}
		}
		info.CurrIDMap = maps.Clone(info.CurrIDMap)
		mappings[broker] = info
	} else if delete(mappings, broker); len(mappings) == 0 {
		mappings = nil
	}
	t.topics[topic] = &Topic{Queues: old.Queues, Mappings: mappings}
	fx.Topics = append(fx.Topics, topic)
}

func equalMapping(a, b *body.TopicQueueMappingInfo) bool {
	return a.BrokerName == b.BrokerName && a.Dirty == b.Dirty && a.Epoch == b.Epoch && a.Scope == b.Scope && a.Topic == b.Topic &&
		a.TotalQueues == b.TotalQueues && maps.Equal(a.CurrIDMap, b.CurrIDMap)
}

// dropQueue removes a broker name from a topic, and the topic with its last one.
func (t *RouteTable) dropQueue(topic, broker string, fx *Effects) {
	delete(t.groups[broker].topics, topic)
	t.setMapping(topic, broker, body.TopicQueueMappingInfo{}, false, fx)
	old := t.topics[topic]
	queues := slices.DeleteFunc(slices.Clone(old.Queues), func(q body.QueueData) bool { return q.BrokerName == broker })
	if len(queues) == 0 {
		delete(t.topics, topic)
	} else {
		t.topics[topic] = &Topic{Queues: queues, Mappings: old.Mappings}
	}
	fx.Topics = append(fx.Topics, topic)
}

// RegisterTopic sets queues of one topic. It does nothing and returns false unless all their broker names are known.
func (t *RouteTable) RegisterTopic(topic string, queues []body.QueueData) (fx Effects, known bool) {
	for _, q := range queues {
		if t.groups[q.BrokerName] == nil {
			return fx, false
		}
	}
	for _, q := range queues {
		t.setQueue(topic, q, &fx)
	}
	return fx, true
}

// DeleteTopic removes a topic: from one cluster, or from all if cluster is empty.
func (t *RouteTable) DeleteTopic(topic, cluster string) (fx Effects) {
	old := t.topics[topic]
	if old == nil {
		return fx
	}
	for _, q := range old.Queues {
		if cluster == "" || t.groups[q.BrokerName].cluster == cluster {
			t.dropQueue(topic, q.BrokerName, &fx)
		}
	}
	return fx
}
