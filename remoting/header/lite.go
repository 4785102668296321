package header

// PopLiteMessageRequest is POP_LITE_MESSAGE.
type PopLiteMessageRequest struct {
	ClientID      string `h:"clientId,required"`
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`         // the parent
	MaxMsgNum     int32  `h:"maxMsgNum,required"`     // singular, unlike POP_MESSAGE
	InvisibleTime int64  `h:"invisibleTime,required"` // ms
	PollTime      int64  `h:"pollTime,required"`      // ms to wait, from BornTime
	BornTime      int64  `h:"bornTime,required"`      // ms
	AttemptID     string `h:"attemptId"`
	RpcRequest
}

// PopLiteMessageResponse answers it. One answer mixes queues, so it has no offset texts.
type PopLiteMessageResponse struct {
	PopTime        int64  `h:"popTime,required"`       // ms
	InvisibleTime  int64  `h:"invisibleTime,required"` // ms
	ReviveQid      int32  `h:"reviveQid,required"`
	OrderCountInfo string `h:"orderCountInfo"`
}

// NotifyUnsubscribeLiteRequest is NOTIFY_UNSUBSCRIBE_LITE, from the broker to a client.
type NotifyUnsubscribeLiteRequest struct {
	LiteTopic     string `h:"liteTopic,required"`
	ConsumerGroup string `h:"consumerGroup,required"`
	ClientID      string `h:"clientId,required"`
	RpcRequest
}

// GetParentTopicInfoRequest is GET_PARENT_TOPIC_INFO.
type GetParentTopicInfoRequest struct {
	Topic string `h:"topic,required"`
	RpcRequest
}

// GetLiteTopicInfoRequest is GET_LITE_TOPIC_INFO.
type GetLiteTopicInfoRequest struct {
	ParentTopic string `h:"parentTopic,required"`
	LiteTopic   string `h:"liteTopic,required"`
	RpcRequest
}

// GetLiteClientInfoRequest is GET_LITE_CLIENT_INFO.
type GetLiteClientInfoRequest struct {
	ParentTopic string     `h:"parentTopic,required"`
	Group       string     `h:"group,required"`
	ClientID    string     `h:"clientId,required"`
	MaxCount    Opt[int32] `h:"maxCount"`
	RpcRequest
}

// GetLiteGroupInfoRequest is GET_LITE_GROUP_INFO.
type GetLiteGroupInfoRequest struct {
	Group     string     `h:"group,required"`
	LiteTopic string     `h:"liteTopic"`
	TopK      Opt[int32] `h:"topK"`
	RpcRequest
}

// TriggerLiteDispatchRequest is TRIGGER_LITE_DISPATCH.
type TriggerLiteDispatchRequest struct {
	Group    string `h:"group,required"`
	ClientID string `h:"clientId"`
	RpcRequest
}
