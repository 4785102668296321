package namesrv

import (
	"maps"
	"slices"
	"strings"

	"github.com/castor-mq/castor/remoting/body"
)

// standbySuffix ends the second broker name of a group, under which one of its replicas takes sends while the master is away.
// Listings leave that name out: it stands for no broker of its own.
const standbySuffix = ".standby"

// isStandby tells whether name is the standby name of another one.
func isStandby(brokers map[string]*Broker, name string) bool {
	base, ok := strings.CutSuffix(name, standbySuffix)
	return ok && brokers[base] != nil && brokers[base].Cluster == brokers[name].Cluster
}

// Bits of a topic's sysFlag (TopicSysFlag).
const (
	flagUnit    = 1 // the topic belongs to one unit
	flagUnitSub = 2 // it has subscribers in one unit
)

// AllTopics returns every topic, sorted, as do the other lists.
func (t *RouteTable) AllTopics() []string { return slices.Sorted(maps.Keys(t.topics)) }

// TopicsByFlag returns the topics whose first queue's flag matches.
func (t *RouteTable) TopicsByFlag(match func(flag int32) bool) []string {
	out := []string{}
	for name, topic := range t.topics {
		if match(topic.Queues[0].TopicSysFlag) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// TopicsByCluster returns the topics that have queues in a cluster.
func (t *RouteTable) TopicsByCluster(cluster string) []string {
	set := map[string]struct{}{}
	for _, g := range t.groups {
		if g.cluster == cluster {
			maps.Copy(set, g.topics)
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// systemTopics lists what are also names of topics, clusters and broker names, and the address of a broker that knows the others.
func systemTopics(brokers map[string]*Broker) body.TopicList {
	var out body.TopicList
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		if isStandby(brokers, name) {
			continue
		}
		b := brokers[name]
		if out.BrokerAddr == "" {
			out.BrokerAddr = b.BrokerAddrs[slices.Min(slices.Collect(maps.Keys(b.BrokerAddrs)))]
		}
		out.TopicList = append(out.TopicList, name, b.Cluster)
	}
	slices.Sort(out.TopicList)
	out.TopicList = slices.Compact(out.TopicList)
	return out
}

// clusterInfo is the answer to GET_BROKER_CLUSTER_INFO.
func clusterInfo(brokers map[string]*Broker) body.ClusterInfo {
	out := body.ClusterInfo{BrokerAddrTable: map[string]body.BrokerData{}, ClusterAddrTable: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(brokers)) {
		if !isStandby(brokers, name) {
			b := brokers[name]
			out.BrokerAddrTable[name] = b.BrokerData
			out.ClusterAddrTable[b.Cluster] = append(out.ClusterAddrTable[b.Cluster], name)
		}
	}
	return out
}
