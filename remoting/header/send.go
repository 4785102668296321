package header

// SendMessageRequest is SEND_MESSAGE and SEND_REPLY_MESSAGE, written with long names. It also reads the short names of
// SEND_MESSAGE_V2, SEND_BATCH_MESSAGE and SEND_REPLY_MESSAGE_V2, so a server needs only this type. If a frame has a field under
// both names the later one counts.
//
// The fields of RpcRequest stand here in full so that the type converts to SendMessageRequestV2 and back.
//
//header:alias
type SendMessageRequest struct {
	ProducerGroup         string     `h:"producerGroup,required,alias=a"`
	Topic                 string     `h:"topic,required,alias=b"`
	DefaultTopic          string     `h:"defaultTopic,required,alias=c"`
	DefaultTopicQueueNums int32      `h:"defaultTopicQueueNums,required,alias=d"`
	QueueID               int32      `h:"queueId,required,alias=e"`
	SysFlag               int32      `h:"sysFlag,required,alias=f"`
	BornTimestamp         int64      `h:"bornTimestamp,required,alias=g"` // ms
	Flag                  int32      `h:"flag,required,alias=h"`
	Properties            string     `h:"properties,alias=i"`
	ReconsumeTimes        Opt[int32] `h:"reconsumeTimes,alias=j"`
	UnitMode              Opt[bool]  `h:"unitMode,alias=k"`
	MaxReconsumeTimes     Opt[int32] `h:"maxReconsumeTimes,alias=l"`
	Batch                 Opt[bool]  `h:"batch,alias=m"`
	NS                    string     `h:"ns"`
	NSD                   Opt[bool]  `h:"nsd"`
	BName                 string     `h:"bname,alias=n"`
	Oway                  Opt[bool]  `h:"oway"`
	Lo                    Opt[bool]  `h:"lo"`
}

// SendMessageRequestV2 is SendMessageRequest written with short names, for SEND_MESSAGE_V2, SEND_BATCH_MESSAGE and
// SEND_REPLY_MESSAGE_V2. The two types convert into each other: SendMessageRequestV2(h).
//
//header:alias
type SendMessageRequestV2 struct {
	ProducerGroup         string     `h:"a,required,alias=producerGroup"`
	Topic                 string     `h:"b,required,alias=topic"`
	DefaultTopic          string     `h:"c,required,alias=defaultTopic"`
	DefaultTopicQueueNums int32      `h:"d,required,alias=defaultTopicQueueNums"`
	QueueID               int32      `h:"e,required,alias=queueId"`
	SysFlag               int32      `h:"f,required,alias=sysFlag"`
	BornTimestamp         int64      `h:"g,required,alias=bornTimestamp"` // ms
	Flag                  int32      `h:"h,required,alias=flag"`
	Properties            string     `h:"i,alias=properties"`
	ReconsumeTimes        Opt[int32] `h:"j,alias=reconsumeTimes"`
	UnitMode              Opt[bool]  `h:"k,alias=unitMode"`
	MaxReconsumeTimes     Opt[int32] `h:"l,alias=maxReconsumeTimes"`
	Batch                 Opt[bool]  `h:"m,alias=batch"`
	NS                    string     `h:"ns"`
	NSD                   Opt[bool]  `h:"nsd"`
	BName                 string     `h:"n,alias=bname"`
	Oway                  Opt[bool]  `h:"oway"`
	Lo                    Opt[bool]  `h:"lo"`
}

// SendMessageResponse answers all sends. Java clients read the reply's ext fields without a null check, so a success always
// carries this header.
type SendMessageResponse struct {
	MsgID         string `h:"msgId,required"` // of a batch: a list with commas
	QueueID       int32  `h:"queueId,required"`
	QueueOffset   int64  `h:"queueOffset,required"`
	TransactionID string `h:"transactionId"`
	BatchUniqID   string `h:"batchUniqId"` // of an inner batch only
	RecallHandle  string `h:"recallHandle"`
	SendContext
}

// SendContext is added to replies of sends by a hook in Java; refused sends (INVALID_PARAMETER, NO_PERMISSION,
// MESSAGE_ILLEGAL) carry it alone.
type SendContext struct {
	MsgRegion string    `h:"MSG_REGION"`
	TraceOn   Opt[bool] `h:"TRACE_ON"`
}

// ConsumerSendMsgBackRequest is CONSUMER_SEND_MSG_BACK: put a message that was not consumed into the retry topic.
type ConsumerSendMsgBackRequest struct {
	Offset            int64      `h:"offset,required"` // in the commit log
	Group             string     `h:"group,required"`
	DelayLevel        int32      `h:"delayLevel,required"` // < 0: to the dead letter queue; 0: the broker chooses
	OriginMsgID       string     `h:"originMsgId"`
	OriginTopic       string     `h:"originTopic"`
	UnitMode          bool       `h:"unitMode"`
	MaxReconsumeTimes Opt[int32] `h:"maxReconsumeTimes"`
	RpcRequest
}

// EndTransactionRequest is END_TRANSACTION.
type EndTransactionRequest struct {
	Topic                string `h:"topic"`
	ProducerGroup        string `h:"producerGroup,required"`
	TranStateTableOffset int64  `h:"tranStateTableOffset,required"` // queue offset of the half message
	CommitLogOffset      int64  `h:"commitLogOffset,required"`
	CommitOrRollback     int32  `h:"commitOrRollback,required"` // transaction bits of a sysFlag: 0, 8 commit, 12 rollback
	FromTransactionCheck bool   `h:"fromTransactionCheck"`
	MsgID                string `h:"msgId,required"`
	TransactionID        string `h:"transactionId"`
	RpcRequest
}

// RecallMessageRequest is RECALL_MESSAGE: take back a timer message that is not due yet.
type RecallMessageRequest struct {
	ProducerGroup string `h:"producerGroup"`
	Topic         string `h:"topic,required"`
	RecallHandle  string `h:"recallHandle,required"`
	TopicRequest
}

// RecallMessageResponse answers it.
type RecallMessageResponse struct {
	MsgID string `h:"msgId,required"`
	SendContext
}

// ReplyMessageRequest is PUSH_REPLY_MESSAGE_TO_CLIENT: a reply on its way from the broker to the requester.
type ReplyMessageRequest struct {
	ProducerGroup         string     `h:"producerGroup,required"`
	Topic                 string     `h:"topic,required"`
	DefaultTopic          string     `h:"defaultTopic,required"`
	DefaultTopicQueueNums int32      `h:"defaultTopicQueueNums,required"`
	QueueID               int32      `h:"queueId,required"`
	SysFlag               int32      `h:"sysFlag,required"`
	BornTimestamp         int64      `h:"bornTimestamp,required"` // ms
	Flag                  int32      `h:"flag,required"`
	Properties            string     `h:"properties"`
	ReconsumeTimes        Opt[int32] `h:"reconsumeTimes"`
	UnitMode              bool       `h:"unitMode"`
	BornHost              string     `h:"bornHost,required"`
	StoreHost             string     `h:"storeHost,required"`
	StoreTimestamp        int64      `h:"storeTimestamp,required"` // ms
	TopicRequest
}

// CheckTransactionStateRequest is CHECK_TRANSACTION_STATE: the broker asks a producer about a half message, which is the body.
type CheckTransactionStateRequest struct {
	Topic                string `h:"topic"`
	TranStateTableOffset int64  `h:"tranStateTableOffset,required"` // queue offset of the half message
	CommitLogOffset      int64  `h:"commitLogOffset,required"`
	MsgID                string `h:"msgId"` // the unique key
	TransactionID        string `h:"transactionId"`
	OffsetMsgID          string `h:"offsetMsgId"`
	RpcRequest
}

// ResumeCheckHalfMessageRequest is RESUME_CHECK_HALF_MESSAGE.
type ResumeCheckHalfMessageRequest struct {
	Topic string `h:"topic"`
	MsgID string `h:"msgId"`
}
