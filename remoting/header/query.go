package header

// QueryMessageRequest is QUERY_MESSAGE.
type QueryMessageRequest struct {
	Topic          string    `h:"topic,required"`
	Key            string    `h:"key,required"`
	MaxNum         int32     `h:"maxNum,required"`
	BeginTimestamp int64     `h:"beginTimestamp,required"` // ms
	EndTimestamp   int64     `h:"endTimestamp,required"`   // ms
	IndexType      string    `h:"indexType"`               // K, since 5.5.0
	LastKey        string    `h:"lastKey"`                 // where the page before ended, since 5.5.0
	UniqueKeyQuery Opt[bool] `h:"_UNIQUE_KEY_QUERY"`       // Key is a client's message id; Java adds it by hand
	TopicRequest
}

// QueryMessageResponse answers it.
type QueryMessageResponse struct {
	IndexLastUpdateTimestamp int64 `h:"indexLastUpdateTimestamp,required"` // ms
	IndexLastUpdatePhyoffset int64 `h:"indexLastUpdatePhyoffset,required"`
}

// ViewMessageRequest is VIEW_MESSAGE_BY_ID.
type ViewMessageRequest struct {
	Topic  string `h:"topic"`
	Offset int64  `h:"offset,required"` // in the commit log
}

// QueryConsumeQueueRequest is QUERY_CONSUME_QUEUE.
type QueryConsumeQueueRequest struct {
	Topic         string `h:"topic"`
	QueueID       int32  `h:"queueId"`
	Index         int64  `h:"index"`
	Count         int32  `h:"count"`
	ConsumerGroup string `h:"consumerGroup"`
	TopicRequest
}

// QueryCorrectionOffset is QUERY_CORRECTION_OFFSET.
type QueryCorrectionOffset struct {
	FilterGroups string `h:"filterGroups"` // names with commas
	CompareGroup string `h:"compareGroup,required"`
	Topic        string `h:"topic,required"`
	TopicRequest
}

// QueryConsumeTimeSpanRequest is QUERY_CONSUME_TIME_SPAN.
type QueryConsumeTimeSpanRequest struct {
	Topic string `h:"topic,required"`
	Group string `h:"group,required"`
	TopicRequest
}

// QueryTopicConsumeByWhoRequest is QUERY_TOPIC_CONSUME_BY_WHO.
type QueryTopicConsumeByWhoRequest struct {
	Topic string `h:"topic,required"`
	TopicRequest
}

// QueryTopicsByConsumerRequest is QUERY_TOPICS_BY_CONSUMER.
type QueryTopicsByConsumerRequest struct {
	Group string `h:"group,required"`
	RpcRequest
}

// QuerySubscriptionByConsumerRequest is QUERY_SUBSCRIPTION_BY_CONSUMER.
type QuerySubscriptionByConsumerRequest struct {
	Group string `h:"group,required"`
	Topic string `h:"topic"`
	TopicRequest
}

// GetTopicStatsInfoRequest is GET_TOPIC_STATS_INFO.
type GetTopicStatsInfoRequest struct {
	Topic string `h:"topic,required"`
	TopicRequest
}

// GetConsumeStatsRequest is GET_CONSUME_STATS.
type GetConsumeStatsRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic"`     // empty is every topic the group has offsets of
	TopicList     string `h:"topicList"` // names with semicolons
	TopicRequest
}

// GetConsumeStatsInBroker is GET_BROKER_CONSUME_STATS.
type GetConsumeStatsInBroker struct {
	IsOrder bool `h:"isOrder,required"`
}

// ViewBrokerStatsDataRequest is VIEW_BROKER_STATS_DATA.
type ViewBrokerStatsDataRequest struct {
	StatsName string `h:"statsName,required"`
	StatsKey  string `h:"statsKey,required"`
}

// CloneGroupOffsetRequest is CLONE_GROUP_OFFSET.
type CloneGroupOffsetRequest struct {
	SrcGroup  string `h:"srcGroup,required"`
	DestGroup string `h:"destGroup,required"`
	Topic     string `h:"topic"`
	Offline   bool   `h:"offline"`
	RpcRequest
}
