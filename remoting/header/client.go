package header

// HeartbeatRequest is HEART_BEAT.
type HeartbeatRequest struct {
	RpcRequest
}

// HeartbeatResponse answers it. The values are "true" or "false"; brokers without the second version of the heartbeat leave
// them out.
type HeartbeatResponse struct {
	SupportV2 Opt[bool] `h:"IS_SUPPORT_HEART_BEAT_V2"`
	SubChange Opt[bool] `h:"IS_SUB_CHANGE"`
}

// UnregisterClientRequest is UNREGISTER_CLIENT.
type UnregisterClientRequest struct {
	ClientID      string `h:"clientID,required"`
	ProducerGroup string `h:"producerGroup"`
	ConsumerGroup string `h:"consumerGroup"`
	RpcRequest
}

// GetConsumerListByGroupRequest is GET_CONSUMER_LIST_BY_GROUP.
type GetConsumerListByGroupRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	RpcRequest
}

// LockBatchMqRequest is LOCK_BATCH_MQ.
type LockBatchMqRequest struct {
	RpcRequest
}

// UnlockBatchMqRequest is UNLOCK_BATCH_MQ.
type UnlockBatchMqRequest struct {
	RpcRequest
}

// NotifyConsumerIdsChangedRequest is NOTIFY_CONSUMER_IDS_CHANGED, from the broker to the members of a group.
type NotifyConsumerIdsChangedRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	RpcRequest
}

// ResetOffsetRequest is INVOKE_BROKER_TO_RESET_OFFSET, from tools, and RESET_CONSUMER_CLIENT_OFFSET, from the broker to clients.
type ResetOffsetRequest struct {
	Group     string     `h:"group,required"`
	Topic     string     `h:"topic,required"`
	QueueID   Opt[int32] `h:"queueId"`            // absent and -1 mean all
	Offset    Opt[int64] `h:"offset"`             // absent and -1 mean: by the time
	Timestamp int64      `h:"timestamp,required"` // ms; -1 is the end of the queue
	IsForce   bool       `h:"isForce,required"`   // also forwards
	TopicRequest
}

// GetConsumerStatusRequest is INVOKE_BROKER_TO_GET_CONSUMER_STATUS, from tools, and GET_CONSUMER_STATUS_FROM_CLIENT, from the
// broker to clients.
type GetConsumerStatusRequest struct {
	Topic      string `h:"topic,required"`
	Group      string `h:"group,required"`
	ClientAddr string `h:"clientAddr"`
	TopicRequest
}

// GetConsumerRunningInfoRequest is GET_CONSUMER_RUNNING_INFO, passed on by the broker to the client.
type GetConsumerRunningInfoRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	ClientID      string `h:"clientId,required"`
	JstackEnable  bool   `h:"jstackEnable"`
	RpcRequest
}

// ConsumeMessageDirectlyResultRequest is CONSUME_MESSAGE_DIRECTLY, passed on by the broker to the client together with the
// message, the broker's name and the two flags.
type ConsumeMessageDirectlyResultRequest struct {
	ConsumerGroup string     `h:"consumerGroup,required"`
	ClientID      string     `h:"clientId"`
	MsgID         string     `h:"msgId"` // the one made of address and offset
	BrokerName    string     `h:"brokerName"`
	Topic         string     `h:"topic"`
	TopicSysFlag  Opt[int32] `h:"topicSysFlag"`
	GroupSysFlag  Opt[int32] `h:"groupSysFlag"`
	TopicRequest
}

// GetConsumerConnectionListRequest is GET_CONSUMER_CONNECTION_LIST.
type GetConsumerConnectionListRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	RpcRequest
}

// GetProducerConnectionListRequest is GET_PRODUCER_CONNECTION_LIST.
type GetProducerConnectionListRequest struct {
	ProducerGroup string `h:"producerGroup,required"`
	RpcRequest
}
