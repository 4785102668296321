package body

// LiteSubscriptionCtlRequestBody is the body of LITE_SUBSCRIPTION_CTL.
type LiteSubscriptionCtlRequestBody struct {
	SubscriptionSet []LiteSubscriptionDTO `json:"subscriptionSet,nonnil"`
}

// LiteSubscriptionDTO changes what lite topics a client consumes. Action is PARTIAL_ADD, PARTIAL_REMOVE, COMPLETE_ADD or
// COMPLETE_REMOVE.
type LiteSubscriptionDTO struct {
	Action       string        `json:"action"`
	ClientID     string        `json:"clientId"`
	Group        string        `json:"group"`
	LiteTopicSet []string      `json:"liteTopicSet"`
	OffsetOption *OffsetOption `json:"offsetOption"`
	Topic        string        `json:"topic"`
	Version      int64         `json:"version"`
}

// OffsetOption tells where a new subscription starts. Type is POLICY, OFFSET, TAIL_N or TIMESTAMP.
type OffsetOption struct {
	Type  string `json:"type"`
	Value int64  `json:"value"`
}

// GetBrokerLiteInfoResponseBody is the answer to GET_BROKER_LITE_INFO.
type GetBrokerLiteInfoResponseBody struct {
	CqTableSize           int32               `json:"cqTableSize"`
	CurrentLmqNum         int32               `json:"currentLmqNum"`
	EventMapSize          int32               `json:"eventMapSize"`
	GroupMeta             map[string][]string `json:"groupMeta,nonnil"` // parent topic → groups
	LiteSubscriptionCount int32               `json:"liteSubscriptionCount"`
	MaxLmqNum             int32               `json:"maxLmqNum"`
	OffsetTableSize       int32               `json:"offsetTableSize"`
	OrderInfoCount        int32               `json:"orderInfoCount"`
	StoreType             string              `json:"storeType"`
	TopicMeta             map[string]int32    `json:"topicMeta,nonnil"` // parent topic → minutes to live
}

// GetParentTopicInfoResponseBody is the answer to GET_PARENT_TOPIC_INFO. TTL is in minutes.
type GetParentTopicInfoResponseBody struct {
	Groups         []string `json:"groups,nonnil"`
	LiteTopicCount int32    `json:"liteTopicCount"`
	LmqNum         int32    `json:"lmqNum"`
	Topic          string   `json:"topic"`
	TTL            int32    `json:"ttl"`
}

// GetLiteTopicInfoResponseBody is the answer to GET_LITE_TOPIC_INFO.
type GetLiteTopicInfoResponseBody struct {
	LiteTopic        string        `json:"liteTopic"`
	ParentTopic      string        `json:"parentTopic"`
	ShardingToBroker bool          `json:"shardingToBroker"`
	Subscriber       []ClientGroup `json:"subscriber,nonnil"`
	TopicOffset      TopicOffset   `json:"topicOffset"`
}

// ClientGroup is a client in a group.
type ClientGroup struct {
	ClientID string `json:"clientId"`
	Group    string `json:"group"`
}

// GetLiteClientInfoResponseBody is the answer to GET_LITE_CLIENT_INFO. Times are in ms.
type GetLiteClientInfoResponseBody struct {
	ClientID        string   `json:"clientId"`
	Group           string   `json:"group"`
	LastAccessTime  int64    `json:"lastAccessTime"`
	LastConsumeTime int64    `json:"lastConsumeTime"`
	LiteTopicCount  int32    `json:"liteTopicCount"`
	LiteTopicSet    []string `json:"liteTopicSet,nonnil"`
	ParentTopic     string   `json:"parentTopic"`
}

// GetLiteGroupInfoResponseBody is the answer to GET_LITE_GROUP_INFO: of one lite topic when the request names it, else of
// the topics that lag most.
type GetLiteGroupInfoResponseBody struct {
	EarliestUnconsumedTimestamp int64          `json:"earliestUnconsumedTimestamp"` // ms, -1: unknown
	Group                       string         `json:"group"`
	LagCountTopK                []LiteLagInfo  `json:"lagCountTopK"`
	LagTimestampTopK            []LiteLagInfo  `json:"lagTimestampTopK"`
	LiteTopic                   string         `json:"liteTopic,omitempty"`
	LiteTopicOffsetWrapper      *OffsetWrapper `json:"liteTopicOffsetWrapper"`
	ParentTopic                 string         `json:"parentTopic"`
	TotalLagCount               int64          `json:"totalLagCount"`
}

// SetDefaults implements fastjson.Defaulter.
func (b *GetLiteGroupInfoResponseBody) SetDefaults() {
	*b = GetLiteGroupInfoResponseBody{EarliestUnconsumedTimestamp: -1}
}

// LiteLagInfo is the lag of one lite topic.
type LiteLagInfo struct {
	EarliestUnconsumedTimestamp int64  `json:"earliestUnconsumedTimestamp"` // ms
	LagCount                    int64  `json:"lagCount"`
	LiteTopic                   string `json:"liteTopic"`
}
