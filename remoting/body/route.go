package body

import "github.com/castor-mq/castor/internal/fastjson"

// MessageQueue names one queue. It is a map key in several bodies.
type MessageQueue struct {
	BrokerName string `json:"brokerName"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// TopicRouteData is the answer to GET_ROUTEINFO_BY_TOPIC. Write it with EncodeRoute. Clients decide by its content
// whether a route has changed, so keep the order of lists stable between polls.
type TopicRouteData struct {
	BrokerDatas               []BrokerData                     `json:"brokerDatas,nonnil"`
	FilterServerTable         map[string][]string              `json:"filterServerTable,nonnil"` // by broker address
	OrderTopicConf            string                           `json:"orderTopicConf,omitempty"` // "broker:queues;…"
	QueueDatas                []QueueData                      `json:"queueDatas,nonnil"`
	TopicQueueMappingByBroker map[string]TopicQueueMappingInfo `json:"topicQueueMappingByBroker"` // by broker name
}

// EncodeRoute returns the text of r. Clients that announce a version below V4_9_4 (401) and do not set
// acceptStandardJsonOnly need the legacy form, whose integer keys have no quotes: Go clients of any release announce 317
// and the older ones read every quoted broker id as 0. All others get standard JSON in ASCII.
func EncodeRoute(r *TopicRouteData, legacy bool) []byte {
	return fastjson.Encoder{UnquotedIntKeys: legacy, BrowserCompatible: !legacy}.Marshal(r)
}

// BrokerData lists the brokers of one broker name.
type BrokerData struct {
	BrokerAddrs        map[int64]string `json:"brokerAddrs,nonnil"` // by broker id
	BrokerName         string           `json:"brokerName"`
	Cluster            string           `json:"cluster"`
	EnableActingMaster bool             `json:"enableActingMaster"`
	ZoneName           string           `json:"zoneName,omitempty"`
}

// QueueData tells what queues of a topic a broker name has.
type QueueData struct {
	BrokerName     string `json:"brokerName"`
	Perm           int32  `json:"perm"` // bits: 1 inherit, 2 write, 4 read, 8 priority
	ReadQueueNums  int32  `json:"readQueueNums"`
	TopicSysFlag   int32  `json:"topicSysFlag"`
	WriteQueueNums int32  `json:"writeQueueNums"`
}

// ClusterInfo is the answer to GET_BROKER_CLUSTER_INFO.
type ClusterInfo struct {
	BrokerAddrTable  map[string]BrokerData `json:"brokerAddrTable,nonnil"`  // by broker name
	ClusterAddrTable map[string][]string   `json:"clusterAddrTable,nonnil"` // cluster name → broker names
}

// BrokerMemberGroup lists the brokers of one broker name.
type BrokerMemberGroup struct {
	BrokerAddrs map[int64]string `json:"brokerAddrs,nonnil"` // by broker id
	BrokerName  string           `json:"brokerName"`
	Cluster     string           `json:"cluster"`
}

// GetBrokerMemberGroupResponseBody is the answer to GET_BROKER_MEMBER_GROUP.
type GetBrokerMemberGroupResponseBody struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
}

// TopicQueueMappingInfo maps the queues of a static topic to those of one broker.
type TopicQueueMappingInfo struct {
	BrokerName  string          `json:"bname"`
	CurrIDMap   map[int32]int32 `json:"currIdMap,nonnil"` // global queue id → id on the broker
	Dirty       bool            `json:"dirty"`
	Epoch       int64           `json:"epoch"`
	Scope       string          `json:"scope"`
	Topic       string          `json:"topic"`
	TotalQueues int32           `json:"totalQueues"`
}

// SetDefaults implements fastjson.Defaulter.
func (i *TopicQueueMappingInfo) SetDefaults() {
	*i = TopicQueueMappingInfo{Scope: "__global__"}
}

// TopicQueueMappingDetail adds where each hosted queue's messages were and are.
type TopicQueueMappingDetail struct {
	TopicQueueMappingInfo
	HostedQueues map[int32][]LogicQueueMappingItem `json:"hostedQueues,nonnil"` // by global queue id
}

// LogicQueueMappingItem is one stretch of a logical queue on one broker. -1 stands for open ends and unknown times.
type LogicQueueMappingItem struct {
	BrokerName  string `json:"bname"`
	EndOffset   int64  `json:"endOffset"` // exclusive, in the physical queue
	Gen         int32  `json:"gen"`
	LogicOffset int64  `json:"logicOffset"` // of startOffset; -1 while the stretch may not be written
	QueueID     int32  `json:"queueId"`
	StartOffset int64  `json:"startOffset"`
	TimeOfEnd   int64  `json:"timeOfEnd"`   // ms
	TimeOfStart int64  `json:"timeOfStart"` // ms
}

// SetDefaults implements fastjson.Defaulter.
func (i *LogicQueueMappingItem) SetDefaults() {
	*i = LogicQueueMappingItem{EndOffset: -1, TimeOfEnd: -1, TimeOfStart: -1}
}
