package body

// ConsumerOffsetSerializeWrapper is the answer to GET_ALL_CONSUMER_OFFSET and the text of config/consumerOffset.json.
type ConsumerOffsetSerializeWrapper struct {
	DataVersion     DataVersion                `json:"dataVersion,omitempty"`
	GroupTopicMap   map[string][]string        `json:"groupTopicMap"`      // group → topics; derived
	OffsetTable     map[string]map[int32]int64 `json:"offsetTable,nonnil"` // topic@group → queue id → offset
	PullOffsetTable map[string]map[int32]int64 `json:"pullOffsetTable"`
}

// DelayOffsetSerializeWrapper is the answer to GET_ALL_DELAY_OFFSET and the text of config/delayOffset.json.
type DelayOffsetSerializeWrapper struct {
	DataVersion DataVersion     `json:"dataVersion,omitempty"`
	OffsetTable map[int32]int64 `json:"offsetTable,nonnil"` // delay level → offset
}

// ResetOffsetBody tells consumers of every language but C++ their new offsets. The Go client takes its text apart and
// depends on object keys without blanks.
type ResetOffsetBody struct {
	OffsetTable map[MessageQueue]int64 `json:"offsetTable,nonnil"`
}

// ResetOffsetBodyForC is what C++ consumers get in place of ResetOffsetBody.
type ResetOffsetBodyForC struct {
	OffsetTable []MessageQueueForC `json:"offsetTable,nonnil"`
}

// MessageQueueForC is a queue with its offset.
type MessageQueueForC struct {
	BrokerName string `json:"brokerName"`
	Offset     int64  `json:"offset"`
	QueueID    int32  `json:"queueId"`
	Topic      string `json:"topic"`
}

// GetConsumerStatusBody carries a consumer's own offsets (code 221) or those of all consumers of a group (code 223).
type GetConsumerStatusBody struct {
	ConsumerTable     map[string]map[MessageQueue]int64 `json:"consumerTable,nonnil"` // by client id
	MessageQueueTable map[MessageQueue]int64            `json:"messageQueueTable,nonnil"`
}

// QueryCorrectionOffsetBody is the answer to QUERY_CORRECTION_OFFSET.
type QueryCorrectionOffsetBody struct {
	CorrectionOffsets map[int32]int64 `json:"correctionOffsets,nonnil"` // by queue id
}

// ConsumeStats is the answer to GET_CONSUME_STATS.
type ConsumeStats struct {
	ConsumeTps  float64                        `json:"consumeTps"`
	OffsetTable map[MessageQueue]OffsetWrapper `json:"offsetTable,nonnil"`
}

// OffsetWrapper tells how far a group is in a queue.
type OffsetWrapper struct {
	BrokerOffset   int64 `json:"brokerOffset"`
	ConsumerOffset int64 `json:"consumerOffset"`
	LastTimestamp  int64 `json:"lastTimestamp"` // ms
	PullOffset     int64 `json:"pullOffset"`
}

// ConsumeStatsList is the answer to GET_BROKER_CONSUME_STATS: one map of group → statistics by topic each.
type ConsumeStatsList struct {
	BrokerAddr        string                      `json:"brokerAddr,omitempty"`
	ConsumeStatsList  []map[string][]ConsumeStats `json:"consumeStatsList,nonnil"`
	TotalDiff         int64                       `json:"totalDiff"`
	TotalInflightDiff int64                       `json:"totalInflightDiff"`
}

// TopicStatsTable is the answer to GET_TOPIC_STATS_INFO.
type TopicStatsTable struct {
	OffsetTable map[MessageQueue]TopicOffset `json:"offsetTable,nonnil"`
	TopicPutTps float64                      `json:"topicPutTps"`
}

// TopicOffset is the extent of a queue.
type TopicOffset struct {
	LastUpdateTimestamp int64 `json:"lastUpdateTimestamp"` // ms
	MaxOffset           int64 `json:"maxOffset"`
	MinOffset           int64 `json:"minOffset"`
}

// QueryConsumeTimeSpanBody is the answer to QUERY_CONSUME_TIME_SPAN.
type QueryConsumeTimeSpanBody struct {
	ConsumeTimeSpanSet []QueueTimeSpan `json:"consumeTimeSpanSet,nonnil"`
}

// QueueTimeSpan has times in ms. Java also writes each as text; its reader derives those.
type QueueTimeSpan struct {
	ConsumeTimeStamp int64        `json:"consumeTimeStamp"`
	DelayTime        int64        `json:"delayTime"`
	MaxTimeStamp     int64        `json:"maxTimeStamp"`
	MessageQueue     MessageQueue `json:"messageQueue"`
	MinTimeStamp     int64        `json:"minTimeStamp"`
}
