package admin

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
)

func exportCommands() []command {
	file := option{short: "f", long: "filePath", brief: "folder to write to; rocketmq/export in the folder for temporary files if not given"}
	return []command{
		{"exportMetadata", "Writes the topics and consumer groups to a file.", []option{
			onCluster("of all masters of this cluster"), onBroker("of this broker"), file,
			{short: "t", long: "topic", kind: none, brief: "with -b: only topics"},
			{short: "g", long: "subscriptionGroup", kind: none, brief: "with -b: only groups"},
			{short: "s", long: "specialTopic", kind: none, brief: "also topics for retries and dead letters"},
		}, brokerOrCluster, false, exportMetadata},
		{"exportConfigs", "Writes the configuration of a cluster's masters to a file.", []option{onCluster("cluster").must(), file}, nil, false, exportConfigs},
	}
}

// export writes a document to a file in the folder of -f.
func (t *tool) export(name string, document any) error {
	path := filepath.Join(t.given.or("f", filepath.Join(t.tmp, "export")), name)
	if err := writeFile(path, fastjson.Encoder{Pretty: true}.Marshal(document)); err != nil {
		return err
	}
	t.printf("export %s success\n", path)
	return nil
}

// metadata is the document of exportMetadata.
type metadata struct {
	ExportTime             int64                                   `json:"exportTime"` // ms
	TopicConfigTable       map[string]body.TopicConfig             `json:"topicConfigTable,nonnil"`
	SubscriptionGroupTable map[string]body.SubscriptionGroupConfig `json:"subscriptionGroupTable,nonnil"`
}

func exportMetadata(t *tool) error {
	list, err := t.targets()
	if err != nil {
		return err
	}
	all := metadata{ExportTime: t.clk.NowMs(), TopicConfigTable: map[string]body.TopicConfig{}, SubscriptionGroupTable: map[string]body.SubscriptionGroupConfig{}}
	for _, b := range list {
		topics, err := t.userTopics(b.addr)
		if err != nil {
			return err
		}
		groups, err := t.userGroups(b.addr)
		if err != nil {
			return err
		}
		switch {
		case t.given.has("b") && t.given.has("t"):
			return t.export("topic.json", topics)
		case t.given.has("b") && t.given.has("g"):
			return t.export("subscriptionGroup.json", groups)
		}
		for name, c := range topics.TopicConfigTable { // the queues of a topic on several brokers are counted together
			c.ReadQueueNums += all.TopicConfigTable[name].ReadQueueNums
			c.WriteQueueNums += all.TopicConfigTable[name].WriteQueueNums
			all.TopicConfigTable[name] = c
		}
		maps.Copy(all.SubscriptionGroupTable, groups.SubscriptionGroupTable)
	}
	return t.export("metadata.json", &all)
}

// userTopics are the topics of a broker that are not its own.
func (t *tool) userTopics(addr string) (*body.TopicConfigSerializeWrapper, error) {
	all, err := decoded[body.TopicConfigSerializeWrapper](t.call(addr, code.GetAllTopicConfig, nil, nil))
	if err != nil {
		return nil, err
	}
	own, err := decoded[body.TopicList](t.call(addr, code.GetSystemTopicListFromBroker, nil, nil))
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all.TopicConfigTable, func(name string, _ body.TopicConfig) bool {
		return slices.Contains(own.TopicList, name) || ofGroup(name) && !t.given.has("s")
	})
	return all, nil
}

// systemGroups are groups of servers and tools (MixAll); so are those whose names start with CID_RMQ_SYS_.
var systemGroups = []string{"DEFAULT_CONSUMER", "TOOLS_CONSUMER", "SCHEDULE_CONSUMER", "FILTERSRV_CONSUMER", "__MONITOR_CONSUMER", "SELF_TEST_C_GROUP",
	"CID_ONS-HTTP-PROXY", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_ONSAPI_PULL"}

// userGroups are the consumer groups of a broker that are not its own.
func (t *tool) userGroups(addr string) (*body.SubscriptionGroupWrapper, error) {
	all, err := t.groups(addr)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(all.SubscriptionGroupTable, func(name string, _ body.SubscriptionGroupConfig) bool {
		return slices.Contains(systemGroups, name) || strings.HasPrefix(name, "CID_RMQ_SYS_")
	})
	return all, nil
}

// exportedKeys are the keys that exportConfigs writes.
var exportedKeys = []string{"brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime", "flushDiskType", "maxMessageSize", "messageDelayLevel",
	"msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"}

// configs is the document of exportConfigs.
type configs struct {
	ClusterScale  map[string]int               `json:"clusterScale"`
	BrokerConfigs map[string]map[string]string `json:"brokerConfigs"` // by broker name
}

func exportConfigs(t *tool) error {
	list, err := t.members(t.given["c"])
	if err != nil {
		return err
	}
	first := masters(list)
	all := configs{map[string]int{"namesrvSize": len(t.servers), "masterBrokerSize": len(first), "slaveBrokerSize": len(list) - len(first)}, map[string]map[string]string{}}
	for _, b := range first {
		r, err := t.call(b.addr, code.GetBrokerConfig, nil, nil)
		if err != nil {
			return err
		}
		config, err := properties(r.Body)
		if err != nil {
			return err
		}
		maps.DeleteFunc(config, func(key, _ string) bool { return !slices.Contains(exportedKeys, key) })
		all.BrokerConfigs[b.name] = config
	}
	return t.export("configs.json", &all)
}
