package header

// PopMessageRequest is POP_MESSAGE.
//
//header:alias
type PopMessageRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	QueueID       int32  `h:"queueId,required"` // -1 is any
	MaxMsgNums    int32  `h:"maxMsgNums,required"`
	InvisibleTime int64  `h:"invisibleTime,required"` // ms
	PollTime      int64  `h:"pollTime,required"`      // ms to wait, from BornTime
	BornTime      int64  `h:"bornTime,required"`      // ms
	InitMode      int32  `h:"initMode,required"`      // where a new group begins: 0 first, 1 last message
	ExpType       string `h:"expType"`
	Exp           string `h:"exp"`
	Order         bool   `h:"order"`
	AttemptID     string `h:"attemptId"` // the same for all tries of one FIFO pop
	TopicRequest
}

// PopMessageResponse answers POP_MESSAGE and PEEK_MESSAGE. The three texts are in the forms of Java's ExtraInfoUtil.
type PopMessageResponse struct {
	PopTime         int64  `h:"popTime,required"`       // ms
	InvisibleTime   int64  `h:"invisibleTime,required"` // ms
	ReviveQid       int32  `h:"reviveQid,required"`
	RestNum         int64  `h:"restNum,required"`
	StartOffsetInfo string `h:"startOffsetInfo"`
	MsgOffsetInfo   string `h:"msgOffsetInfo"`
	OrderCountInfo  string `h:"orderCountInfo"`
}

// PeekMessageRequest is PEEK_MESSAGE.
type PeekMessageRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	QueueID       int32  `h:"queueId,required"`
	MaxMsgNums    int32  `h:"maxMsgNums,required"`
	TopicRequest
}

// AckMessageRequest is ACK_MESSAGE.
//
//header:alias
type AckMessageRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	LiteTopic     string `h:"liteTopic"`
	QueueID       int32  `h:"queueId,required"`
	ExtraInfo     string `h:"extraInfo,required"` // the receipt
	Offset        int64  `h:"offset,required"`
	TopicRequest
}

// ChangeInvisibleTimeRequest is CHANGE_MESSAGE_INVISIBLETIME.
type ChangeInvisibleTimeRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	LiteTopic     string `h:"liteTopic"`
	QueueID       int32  `h:"queueId,required"`
	ExtraInfo     string `h:"extraInfo,required"` // the receipt
	Offset        int64  `h:"offset,required"`
	InvisibleTime int64  `h:"invisibleTime,required"` // ms
	Suspend       bool   `h:"suspend"`
	TopicRequest
}

// ChangeInvisibleTimeResponse answers it with what the new receipt is made of.
type ChangeInvisibleTimeResponse struct {
	PopTime       int64 `h:"popTime,required"`       // ms
	InvisibleTime int64 `h:"invisibleTime,required"` // ms
	ReviveQid     int32 `h:"reviveQid,required"`
}

// NotificationRequest is NOTIFICATION: wait until there is something to pop.
type NotificationRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	QueueID       int32  `h:"queueId,required"`
	PollTime      int64  `h:"pollTime,required"` // ms to wait, from BornTime
	BornTime      int64  `h:"bornTime,required"` // ms
	Order         bool   `h:"order"`
	AttemptID     string `h:"attemptId"`
	ExpType       string `h:"expType"`
	Exp           string `h:"exp"`
	TopicRequest
}

// NotificationResponse answers it.
type NotificationResponse struct {
	HasMsg      bool `h:"hasMsg,required"`
	PollingFull bool `h:"pollingFull"`
}

// PollingInfoRequest is POLLING_INFO.
type PollingInfoRequest struct {
	ConsumerGroup string `h:"consumerGroup,required"`
	Topic         string `h:"topic,required"`
	QueueID       int32  `h:"queueId,required"`
	TopicRequest
}

// PollingInfoResponse answers it with the number of pops that wait.
type PollingInfoResponse struct {
	PollingNum int32 `h:"pollingNum,required"`
}
