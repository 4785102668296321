package body

// HeartbeatData is the body of HEART_BEAT. With WithoutSub the subscription sets are empty and the last ones hold.
type HeartbeatData struct {
	ClientID             string         `json:"clientID"`
	ConsumerDataSet      []ConsumerData `json:"consumerDataSet,nonnil"`
	HeartbeatFingerprint int32          `json:"heartbeatFingerprint"` // 0: none, the client speaks heartbeat V1
	ProducerDataSet      []ProducerData `json:"producerDataSet,nonnil"`
	WithoutSub           bool           `json:"withoutSub"`
}

// ConsumerData announces a consumer group. A client that leaves an enum out, or says something unknown, reads as empty.
type ConsumerData struct {
	ConsumeFromWhere    ConsumeFromWhere   `json:"consumeFromWhere,omitempty"`
	ConsumeType         ConsumeType        `json:"consumeType,omitempty"`
	GroupName           string             `json:"groupName,omitempty"`
	MessageModel        MessageModel       `json:"messageModel,omitempty"`
	SubscriptionDataSet []SubscriptionData `json:"subscriptionDataSet,nonnil"`
	UnitMode            bool               `json:"unitMode"`
}

// ProducerData announces a producer group.
type ProducerData struct {
	GroupName string `json:"groupName"`
}

// SubscriptionData is a subscription to one topic. Go clients write CodeSet as strings.
type SubscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	CodeSet         []int32  `json:"codeSet,nonnil"` // String.hashCode of each tag
	ExpressionType  string   `json:"expressionType"`
	SubString       string   `json:"subString,omitempty"`
	SubVersion      int64    `json:"subVersion"` // ms, by the client's clock
	TagsSet         []string `json:"tagsSet,nonnil"`
	Topic           string   `json:"topic,omitempty"`
}

// SetDefaults implements fastjson.Defaulter.
func (d *SubscriptionData) SetDefaults() {
	*d = SubscriptionData{ExpressionType: "TAG"}
}

// Connection is one client of a group.
type Connection struct {
	ClientAddr string `json:"clientAddr"`
	ClientID   string `json:"clientId"`
	Language   string `json:"language"`
	Version    int32  `json:"version"`
}

// ConsumerConnection is the answer to GET_CONSUMER_CONNECTION_LIST.
type ConsumerConnection struct {
	ConnectionSet     []Connection                `json:"connectionSet,nonnil"`
	ConsumeFromWhere  ConsumeFromWhere            `json:"consumeFromWhere,omitempty"`
	ConsumeType       ConsumeType                 `json:"consumeType,omitempty"`
	MessageModel      MessageModel                `json:"messageModel,omitempty"`
	SubscriptionTable map[string]SubscriptionData `json:"subscriptionTable,nonnil"` // by topic
}

// ProducerConnection is the answer to GET_PRODUCER_CONNECTION_LIST.
type ProducerConnection struct {
	ConnectionSet []Connection `json:"connectionSet,nonnil"`
}

// ProducerTableInfo is the answer to GET_ALL_PRODUCER_INFO.
type ProducerTableInfo struct {
	Data map[string][]ProducerInfo `json:"data,nonnil"` // by group
}

// ProducerInfo is one client of a producer group. RemoteIP is a Java socket address, "/ip:port".
type ProducerInfo struct {
	ClientID            string `json:"clientId"`
	Language            string `json:"language"`
	LastUpdateTimestamp int64  `json:"lastUpdateTimestamp"` // ms
	RemoteIP            string `json:"remoteIP"`
	Version             int32  `json:"version"`
}

// GetConsumerListByGroupResponseBody is the answer to GET_CONSUMER_LIST_BY_GROUP.
type GetConsumerListByGroupResponseBody struct {
	ConsumerIDList []string `json:"consumerIdList,nonnil"`
}

// CheckClientRequestBody is the body of CHECK_CLIENT_CONFIG.
type CheckClientRequestBody struct {
	ClientID         string            `json:"clientId"`
	Group            string            `json:"group"`
	Namespace        string            `json:"namespace,omitempty"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
}

// QuerySubscriptionResponseBody is the answer to QUERY_SUBSCRIPTION_BY_CONSUMER.
type QuerySubscriptionResponseBody struct {
	Group            string            `json:"group"`
	SubscriptionData *SubscriptionData `json:"subscriptionData"`
	Topic            string            `json:"topic"`
}

// ConsumerRunningInfo is a consumer's answer to GET_CONSUMER_RUNNING_INFO. Pass a client's answer on as it came: with a
// stack dump, the Go client's is no valid document.
type ConsumerRunningInfo struct {
	Jstack           string                               `json:"jstack,omitempty"`
	MqPopTable       map[MessageQueue]PopProcessQueueInfo `json:"mqPopTable,nonnil"`
	MqTable          map[MessageQueue]ProcessQueueInfo    `json:"mqTable,nonnil"`
	Properties       map[string]string                    `json:"properties,nonnil"`
	StatusTable      map[string]ConsumeStatus             `json:"statusTable,nonnil"` // by topic
	SubscriptionSet  []SubscriptionData                   `json:"subscriptionSet,nonnil"`
	UserConsumerInfo map[string]string                    `json:"userConsumerInfo,nonnil"`
}

// ProcessQueueInfo is a consumer's state of a queue that it pulls. Times are in ms.
type ProcessQueueInfo struct {
	CachedMsgCount          int32 `json:"cachedMsgCount"`
	CachedMsgMaxOffset      int64 `json:"cachedMsgMaxOffset"`
	CachedMsgMinOffset      int64 `json:"cachedMsgMinOffset"`
	CachedMsgSizeInMiB      int32 `json:"cachedMsgSizeInMiB"`
	CommitOffset            int64 `json:"commitOffset"`
	Dropped                 bool  `json:"droped,alias=dropped"` // Java's spelling, and the Go client's
	LastConsumeTimestamp    int64 `json:"lastConsumeTimestamp"`
	LastLockTimestamp       int64 `json:"lastLockTimestamp"`
	LastPullTimestamp       int64 `json:"lastPullTimestamp"`
	Locked                  bool  `json:"locked"`
	TransactionMsgCount     int32 `json:"transactionMsgCount"`
	TransactionMsgMaxOffset int64 `json:"transactionMsgMaxOffset"`
	TransactionMsgMinOffset int64 `json:"transactionMsgMinOffset"`
	TryUnlockTimes          int64 `json:"tryUnlockTimes"`
}

// PopProcessQueueInfo is a consumer's state of a queue that it pops.
type PopProcessQueueInfo struct {
	Dropped          bool  `json:"droped,alias=dropped"`
	LastPopTimestamp int64 `json:"lastPopTimestamp"` // ms
	WaitAckCount     int32 `json:"waitAckCount"`
}

// ConsumeStatus is a consumer's throughput on a topic. Times are in ms, rates per second.
type ConsumeStatus struct {
	ConsumeFailedMsgs int64   `json:"consumeFailedMsgs"`
	ConsumeFailedTPS  float64 `json:"consumeFailedTPS"`
	ConsumeOKTPS      float64 `json:"consumeOKTPS"`
	ConsumeRT         float64 `json:"consumeRT"`
	PullRT            float64 `json:"pullRT"`
	PullTPS           float64 `json:"pullTPS"`
}

// ConsumeMessageDirectlyResult is a consumer's answer to CONSUME_MESSAGE_DIRECTLY.
type ConsumeMessageDirectlyResult struct {
	AutoCommit     bool     `json:"autoCommit"`
	ConsumeResult  CMResult `json:"consumeResult,omitempty"`
	Order          bool     `json:"order"`
	Remark         string   `json:"remark,omitempty"`
	SpentTimeMills int64    `json:"spentTimeMills"`
}

// SetDefaults implements fastjson.Defaulter.
func (r *ConsumeMessageDirectlyResult) SetDefaults() {
	*r = ConsumeMessageDirectlyResult{AutoCommit: true}
}
