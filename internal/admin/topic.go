package admin

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// orderNamespace holds, in the name server, the queues of ordered topics by broker (NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG).
const orderNamespace = "ORDER_TOPIC_CONFIG"

func topicCommands() []command {
	return []command{
		{"topicList", "Lists all topics, with -c also their clusters and consumer groups.", []option{
			{short: "c", long: "clusterModel", kind: none, brief: "show clusters and groups, and no retry topics"},
		}, nil, true, topicList},
		{"topicRoute", "Shows which brokers have a topic, and with how many queues.", []option{
			aTopic(), {short: "l", long: "list", kind: none, brief: "show a table"},
		}, nil, true, topicRoute},
		{"topicStatus", "Shows the offsets of a topic's queues.", []option{aTopic(), routeBy()}, nil, true, topicStatus},
		{"topicClusterList", "Lists the clusters that have a topic.", []option{aTopic()}, nil, false, topicClusterList},
		{"updateTopic", "Creates a topic or changes it.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"), aTopic(),
			{short: "r", long: "readQueueNums", kind: number, brief: "queues to read from, 8 if not given"},
			{short: "w", long: "writeQueueNums", kind: number, brief: "queues to write to, 8 if not given"},
			{short: "p", long: "perm", kind: number, brief: "2 write, 4 read, 6 both"},
			{short: "o", long: "order", kind: yes, brief: "queues of the topic stay known while a broker is away"},
			{short: "u", long: "unit", kind: yes, brief: "unit topic"},
			{short: "s", long: "hasUnitSub", kind: yes, brief: "has subscriptions of units"},
			{short: "a", long: "attributes", brief: "+name=value to set, -name to remove, with commas"},
		}, brokerOrCluster, false, updateTopic},
		{"updateTopicList", "Creates or changes the topics that a file lists.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"),
			{short: "f", long: "filename", required: true, brief: "JSON file with an array of topics"},
		}, brokerOrCluster, false, updateTopicList},
		{"updateTopicPerm", "Changes who may use a topic.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"), aTopic(),
			option{short: "p", long: "perm", kind: number, brief: "2 write, 4 read, 6 both"}.must(),
		}, brokerOrCluster, false, updateTopicPerm},
		{"deleteTopic", "Deletes a topic from a cluster and from the name servers.", []option{aTopic(), onCluster("cluster").must()}, nil, false, deleteTopicCommand},
		{"updateOrderConf", "Sets, shows or deletes which brokers have the queues of an ordered topic.", []option{
			aTopic(), {short: "v", long: "orderConf", brief: "broker:queues;broker:queues"},
			{short: "m", long: "method", required: true, brief: "put, get or delete"},
		}, nil, false, updateOrderConf},
		{"allocateMQ", "Shows how consumers at the given addresses would share a topic's queues.", []option{
			aTopic(), {short: "i", long: "ipList", required: true, brief: "addresses with commas"},
		}, nil, false, allocateMQ},
	}
}

// topics lists all topics of the name server in order.
func (t *tool) topics() ([]string, error) {
	list, err := decoded[body.TopicList](t.lookup(code.GetAllTopicListFromNameserver, nil))
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(list.TopicList)), nil
}

// ofGroup tells the topics that belong to a consumer group: for retries and dead letters.
func ofGroup(topic string) bool {
	return message.IsRetryTopic(topic) || strings.HasPrefix(topic, message.DLQPrefix)
}

func topicList(t *tool) error {
	names, err := t.topics()
	if err != nil {
		return err
	}
	if !t.given.has("c") {
		if t.given.has(optJSON.long) {
			t.pretty(names)
			return nil
		}
		t.printf("%s\n", strings.Join(names, "\n"))
		return nil
	}
	tb := t.table("%-20v  %-48v  %-48v", "%-20v  %-64v  %-64v", "#Cluster Name", "#Topic", "#Consumer Group")
	for _, name := range names {
		if ofGroup(name) {
			continue
		}
		cluster, groups, err := t.readers(name)
		if err != nil {
			return err
		}
		if len(groups) == 0 {
			groups = []string{""}
		}
		for _, g := range groups {
			tb.add(fit{cluster, 20}, fit{name, 64}, fit{g, 64})
		}
	}
	tb.end(nil)
	return nil
}

// readers returns a cluster that has a topic and the consumer groups that read it.
func (t *tool) readers(topic string) (cluster string, groups []string, err error) {
	d, err := t.route(topic)
	if codeOf(err) == code.TopicNotExist {
		return "", nil, nil // it was deleted since it was listed
	}
	if err != nil {
		return "", nil, err
	}
	for _, b := range routed(d) {
		cluster = b.cluster
		list, err := decoded[body.GroupList](t.call(b.addr, code.QueryTopicConsumeByWho, &header.QueryTopicConsumeByWhoRequest{Topic: topic}, nil))
		if err != nil {
			return "", nil, err
		}
		groups = append(groups, list.GroupList...)
	}
	slices.Sort(groups)
	return cluster, slices.Compact(groups), nil
}

func topicRoute(t *tool) error {
	d, err := t.route(t.given["t"])
	if err != nil {
		return err
	}
	if !t.given.has("l") {
		t.pretty(d)
		return nil
	}
	const form = "%-45v %-32v %-50v %-10v %-11v %-5v"
	queues := map[string]body.QueueData{}
	for _, q := range d.QueueDatas {
		queues[q.BrokerName] = q
	}
	slices.SortFunc(d.BrokerDatas, func(a, b body.BrokerData) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.BrokerName, b.BrokerName))
	})
	tb := t.table(form, form, "#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
	var read, write int32
	for _, b := range d.BrokerDatas {
		q := queues[b.BrokerName]
		read, write = read+q.ReadQueueNums, write+q.WriteQueueNums
		tb.add(b.Cluster, b.BrokerName, javaMap(b.BrokerAddrs), q.ReadQueueNums, q.WriteQueueNums, q.Perm)
	}
	tb.end(func() {
		t.printf("%s\n"+form+"\n", strings.Repeat("-", 158), "Total:", len(d.BrokerDatas), "", read, write, "")
	})
	return nil
}

func topicStatus(t *tool) error {
	brokers, err := t.routeOf(t.given["t"])
	if err != nil {
		return err
	}
	var stats body.TopicStatsTable
	for _, b := range brokers {
		part, err := decoded[body.TopicStatsTable](t.call(b.addr, code.GetTopicStatsInfo, &header.GetTopicStatsInfoRequest{Topic: t.given["t"]}, nil))
		if err != nil {
			return err
		}
		if stats.OffsetTable == nil {
			stats.OffsetTable = map[body.MessageQueue]body.TopicOffset{}
		}
		maps.Copy(stats.OffsetTable, part.OffsetTable)
		stats.TopicPutTps += part.TopicPutTps
	}
	t.showTopicStatus(&stats)
	return nil
}

func (t *tool) showTopicStatus(stats *body.TopicStatsTable) {
	const form = "%-32v  %-4v  %-20v  %-20v    %v"
	tb := t.table(form, form, "#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
	for _, q := range sortedQueues(stats.OffsetTable) {
		o := stats.OffsetTable[q]
		tb.add(fit{q.BrokerName, 32}, q.QueueID, o.MinOffset, o.MaxOffset, t.at(o.LastUpdateTimestamp, formMillis, ""))
	}
	tb.end(func() { t.printf("\nTopic Put TPS: %s\n", double(stats.TopicPutTps)) })
}

// sortedQueues lists the queues in a table by topic, broker and number.
func sortedQueues[V any](table map[body.MessageQueue]V) []body.MessageQueue {
	return slices.SortedFunc(maps.Keys(table), func(a, b body.MessageQueue) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueID, b.QueueID))
	})
}

func topicClusterList(t *tool) error {
	d, err := t.route(t.given["t"])
	if err != nil {
		return err
	}
	var clusters []string
	for _, b := range d.BrokerDatas {
		clusters = append(clusters, b.Cluster)
	}
	slices.Sort(clusters)
	t.printf("%s\n", strings.Join(slices.Compact(clusters), "\n"))
	return nil
}

// Bits of a topic's system flag (TopicSysFlag).
const (
	flagUnit    = 1
	flagUnitSub = 2
)

func updateTopic(t *tool) error {
	c := body.TopicConfig{TopicName: t.given["t"], ReadQueueNums: int32(t.given.number("r", 8)), WriteQueueNums: int32(t.given.number("w", 8)),
		Perm: int32(t.given.number("p", 6)), Order: t.given.yes("o", false), TopicFilterType: "SINGLE_TAG"}
	if t.given.yes("u", false) {
		c.TopicSysFlag |= flagUnit
	}
	if t.given.yes("s", false) {
		c.TopicSysFlag |= flagUnitSub
	}
	var err error
	if c.Attributes, err = attributes(t.given["a"]); err != nil {
		return err
	}
	list, err := t.targets()
	if err != nil {
		return err
	}
	err = onEach(list, func(b replica) error {
		if err := t.putTopic(b.addr, &c); err != nil {
			return err
		}
		t.printf("create topic to %s success.\n", b.addr)
		return nil
	})
	if err == nil && c.Order {
		err = t.orderTopic(&c, list)
	}
	if err == nil {
		t.printf("%s\n", topicText(&c))
	}
	return err
}

// putTopic sets a topic on one broker.
func (t *tool) putTopic(addr string, c *body.TopicConfig) error {
	var changes []string
	for name, value := range c.Attributes {
		if strings.HasPrefix(name, "+") {
			name += "=" + value
		}
		changes = append(changes, name)
	}
	slices.Sort(changes)
	_, err := t.call(addr, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: c.TopicName, DefaultTopic: autoCreateTopic, ReadQueueNums: c.ReadQueueNums,
		WriteQueueNums: c.WriteQueueNums, Perm: c.Perm, TopicFilterType: c.TopicFilterType, TopicSysFlag: header.Some(c.TopicSysFlag), Order: c.Order,
		Attributes: strings.Join(changes, ",")}, nil)
	return err
}

// attributes reads +name=value,-name. The signs stay with the names, as in RocketMQ's tool.
func attributes(s string) (map[string]string, error) {
	changes := map[string]string{}
	for _, item := range splitList(s, ",") {
		name, value, assigns := strings.Cut(item, "=")
		if len(name) < 2 || name[0] != '+' && name[0] != '-' || assigns != (name[0] == '+') {
			return nil, fmt.Errorf("attribute %q is neither +name=value nor -name", item)
		}
		changes[name] = value
	}
	return changes, nil
}

// orderTopic tells the name servers which brokers have queues of an ordered topic: for a cluster all of it, for one broker in
// addition to what is known.
func (t *tool) orderTopic(c *body.TopicConfig, list []replica) error {
	where, queues := "cluster", map[string]string{}
	if t.given.has("b") {
		name, err := t.brokerAt(t.given["b"])
		if err != nil {
			return err
		}
		known, err := t.orderConf(c.TopicName)
		if err != nil && codeOf(err) != code.QueryNotFound {
			return err
		}
		for _, item := range splitList(known, ";") {
			broker, n, _ := strings.Cut(item, ":")
			queues[broker] = n
		}
		where, list = "broker", []replica{{name: name}}
	}
	for _, b := range list {
		queues[b.name] = strconv.Itoa(int(c.WriteQueueNums))
	}
	var items []string
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		items = append(items, name+":"+queues[name])
	}
	conf := strings.Join(items, ";")
	if err := t.putKV(orderNamespace, c.TopicName, conf); err != nil {
		return err
	}
	t.printf("set %s orderConf. isOrder=%t, orderConf=[%s]\n", where, c.Order, conf)
	return nil
}

func (t *tool) orderConf(topic string) (string, error) {
	var h header.GetKVConfigResponse
	err := into(&h)(t.lookup(code.GetKVConfig, &header.GetKVConfigRequest{Namespace: orderNamespace, Key: topic}))
	return h.Value, err
}

func updateOrderConf(t *tool) error {
	topic := t.given["t"]
	switch t.given["m"] {
	case "put":
		if !t.given.has("v") {
			return fmt.Errorf("put wants -v")
		}
		if err := t.putKV(orderNamespace, topic, t.given["v"]); err != nil {
			return err
		}
		t.printf("update orderConf success. topic=[%s], orderConf=[%s]\n", topic, t.given["v"])
	case "get":
		conf, err := t.orderConf(topic)
		if err != nil {
			return err
		}
		t.printf("get orderConf success. topic=[%s], orderConf=[%s]\n", topic, conf)
	case "delete":
		if err := t.deleteKV(orderNamespace, topic); err != nil {
			return err
		}
		t.printf("delete orderConf success. topic=[%s]\n", topic)
	default:
		return fmt.Errorf("option -m wants put, get or delete, not %q", t.given["m"])
	}
	return nil
}

// listed reads a JSON array from the file of -f.
func listed[T any](t *tool) ([]T, error) {
	data, err := os.ReadFile(t.given["f"])
	if err != nil {
		return nil, err
	}
	var list []T
	if err := fastjson.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", t.given["f"], err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s lists nothing", t.given["f"])
	}
	return list, nil
}

func updateTopicList(t *tool) error {
	list, err := listed[body.TopicConfig](t)
	if err != nil {
		return err
	}
	text := fastjson.Marshal(&body.CreateTopicListRequestBody{TopicConfigList: list})
	return t.onTargets(func(b replica) error {
		if _, err := t.call(b.addr, code.UpdateAndCreateTopicList, &header.CreateTopicListRequest{}, text); err != nil {
			return err
		}
		t.printf("submit batch of topic config to %s success, please check the result later.\n", b.addr)
		return nil
	})
}

func updateTopicPerm(t *tool) error {
	topic, perm := t.given["t"], int32(t.given.number("p", 0))
	return t.onTargets(func(b replica) error {
		c, err := decoded[body.TopicConfigAndQueueMapping](t.call(b.addr, code.GetTopicConfig, &header.GetTopicConfigRequest{Topic: topic}, nil))
		if err != nil {
			return err
		}
		old := c.Perm
		if old == perm {
			t.printf("the topic has the perm %d in %s already\n", perm, b.addr)
			return nil
		}
		c.Perm, c.Attributes = perm, nil // those that are not given stay as they are
		if err := t.putTopic(b.addr, &c.TopicConfig); err != nil {
			return err
		}
		t.printf("update topic perm from %d to %d in %s success.\n%s.\n", old, perm, b.addr, topicText(&c.TopicConfig))
		return nil
	})
}

func deleteTopicCommand(t *tool) error {
	topic, cluster := t.given["t"], t.given["c"]
	if err := t.deleteTopic(topic, cluster); err != nil {
		return err
	}
	t.printf("delete topic [%s] from cluster [%s] success.\ndelete topic [%s] from NameServer success.\n", topic, cluster, topic)
	return nil
}

// deleteTopic deletes a topic from all brokers of a cluster and then from the name servers.
func (t *tool) deleteTopic(topic, cluster string) error {
	list, err := t.members(cluster)
	if err != nil {
		return err
	}
	err = onEach(list, func(b replica) error {
		_, err := t.call(b.addr, code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: topic}, nil)
		return err
	})
	if err != nil {
		return err
	}
	err = t.onServers(func(addr string) error {
		_, err := t.callServer(addr, code.DeleteTopicInNamesrv, &header.DeleteTopicFromNamesrvRequest{Topic: topic, ClusterName: cluster}, nil)
		return err
	})
	if err != nil {
		return err
	}
	return t.deleteKV(orderNamespace, topic)
}

func allocateMQ(t *tool) error {
	d, err := t.route(t.given["t"])
	if err != nil {
		return err
	}
	var queues []body.MessageQueue
	for _, q := range d.QueueDatas {
		if q.Perm&permRead == 0 {
			continue
		}
		for id := range q.ReadQueueNums {
			queues = append(queues, body.MessageQueue{BrokerName: q.BrokerName, QueueID: id, Topic: t.given["t"]})
		}
	}
	shares := allocate(queues, splitList(t.given["i"], ","))
	t.printf("%s\n", fastjson.Marshal(map[string]any{"result": shares}))
	return nil
}

// allocate shares queues as consumers do (AllocateMessageQueueAveragely): in order, the first members get one more where the numbers
// do not divide.
func allocate(queues []body.MessageQueue, members []string) map[string][]body.MessageQueue {
	slices.SortStableFunc(queues, func(a, b body.MessageQueue) int {
		return cmp.Or(cmp.Compare(a.BrokerName, b.BrokerName), cmp.Compare(a.QueueID, b.QueueID))
	})
	members = slices.Clone(members)
	slices.Sort(members)
	shares := map[string][]body.MessageQueue{}
	for i, m := range members {
		n := len(queues) / (len(members) - i)
		if len(queues)%(len(members)-i) > 0 {
			n++
		}
		shares[m], queues = queues[:n:n], queues[n:]
	}
	return shares
}
