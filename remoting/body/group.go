package body

// SubscriptionGroupConfig describes a consumer group on one broker.
type SubscriptionGroupConfig struct {
	Attributes                     map[string]string        `json:"attributes,nonnil"`
	BrokerID                       int64                    `json:"brokerId"`
	ConsumeBroadcastEnable         bool                     `json:"consumeBroadcastEnable"`
	ConsumeEnable                  bool                     `json:"consumeEnable"`
	ConsumeFromMinEnable           bool                     `json:"consumeFromMinEnable"`
	ConsumeMessageOrderly          bool                     `json:"consumeMessageOrderly"`
	ConsumeTimeoutMinute           int32                    `json:"consumeTimeoutMinute"`
	GroupName                      string                   `json:"groupName"`
	GroupRetryPolicy               GroupRetryPolicy         `json:"groupRetryPolicy"`
	GroupSysFlag                   int32                    `json:"groupSysFlag"`
	NotifyConsumerIdsChangedEnable bool                     `json:"notifyConsumerIdsChangedEnable"`
	RetryMaxTimes                  int32                    `json:"retryMaxTimes"`
	RetryQueueNums                 int32                    `json:"retryQueueNums"`
	SubscriptionDataSet            []SimpleSubscriptionData `json:"subscriptionDataSet"`
	WhichBrokerWhenConsumeSlowly   int64                    `json:"whichBrokerWhenConsumeSlowly"`
}

// SetDefaults implements fastjson.Defaulter with the defaults of the Java class.
func (c *SubscriptionGroupConfig) SetDefaults() {
	*c = SubscriptionGroupConfig{
		ConsumeBroadcastEnable:         true,
		ConsumeEnable:                  true,
		ConsumeFromMinEnable:           true,
		ConsumeTimeoutMinute:           15,
		GroupRetryPolicy:               GroupRetryPolicy{Type: RetryCustomized},
		NotifyConsumerIdsChangedEnable: true,
		RetryMaxTimes:                  16,
		RetryQueueNums:                 1,
		WhichBrokerWhenConsumeSlowly:   1,
	}
}

// SimpleSubscriptionData is a subscription fixed in a group's configuration.
type SimpleSubscriptionData struct {
	Expression     string `json:"expression"`
	ExpressionType string `json:"expressionType"`
	Topic          string `json:"topic"`
	Version        int64  `json:"version"`
}

// GroupRetryPolicy tells how long a failed message waits. Without the policy that Type names, that policy's own defaults
// hold.
type GroupRetryPolicy struct {
	CustomizedRetryPolicy  *CustomizedRetryPolicy  `json:"customizedRetryPolicy"`
	ExponentialRetryPolicy *ExponentialRetryPolicy `json:"exponentialRetryPolicy"`
	Type                   GroupRetryPolicyType    `json:"type,omitempty"`
}

// SetDefaults implements fastjson.Defaulter.
func (p *GroupRetryPolicy) SetDefaults() {
	*p = GroupRetryPolicy{Type: RetryCustomized}
}

// CustomizedRetryPolicy lists the delays in ms; the last one repeats.
type CustomizedRetryPolicy struct {
	Next []int64 `json:"next,nonnil"`
}

// SetDefaults implements fastjson.Defaulter with the delays of the Java class, from 1 s to 2 h.
func (p *CustomizedRetryPolicy) SetDefaults() {
	const s, m, h = 1000, 60 * 1000, 60 * 60 * 1000
	p.Next = []int64{
		1 * s, 5 * s, 10 * s, 30 * s, 1 * m, 2 * m, 3 * m, 4 * m, 5 * m, 6 * m, 7 * m, 8 * m, 9 * m, 10 * m, 20 * m, 30 * m,
		1 * h, 2 * h,
	}
}

// ExponentialRetryPolicy multiplies the delay from Initial up to Max, both in ms.
type ExponentialRetryPolicy struct {
	Initial    int64 `json:"initial"`
	Max        int64 `json:"max"`
	Multiplier int64 `json:"multiplier"`
}

// SetDefaults implements fastjson.Defaulter with the defaults of the Java class.
func (p *ExponentialRetryPolicy) SetDefaults() {
	*p = ExponentialRetryPolicy{Initial: 5000, Max: 2 * 60 * 60 * 1000, Multiplier: 2}
}

// SubscriptionGroupWrapper is the group table of a broker, also the text of config/subscriptionGroup.json.
type SubscriptionGroupWrapper struct {
	DataVersion            DataVersion                        `json:"dataVersion"`
	ForbiddenTable         map[string]map[string]int32        `json:"forbiddenTable,nonnil"` // group → topic → bits
	SubscriptionGroupTable map[string]SubscriptionGroupConfig `json:"subscriptionGroupTable,nonnil"`
}

// SubscriptionGroupList is the body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST.
type SubscriptionGroupList struct {
	GroupConfigList []SubscriptionGroupConfig `json:"groupConfigList,nonnil"`
}

// GroupForbidden is the answer to UPDATE_AND_GET_GROUP_FORBIDDEN.
type GroupForbidden struct {
	Group    string `json:"group"`
	Readable bool   `json:"readable"`
	Topic    string `json:"topic"`
}
