package header

// CreateTopicRequest is UPDATE_AND_CREATE_TOPIC and UPDATE_AND_CREATE_STATIC_TOPIC.
type CreateTopicRequest struct {
	Topic           string     `h:"topic,required"`
	DefaultTopic    string     `h:"defaultTopic,required"`
	ReadQueueNums   int32      `h:"readQueueNums,required"`
	WriteQueueNums  int32      `h:"writeQueueNums,required"`
	Perm            int32      `h:"perm,required"`            // 4 read, 2 write, 1 inherit
	TopicFilterType string     `h:"topicFilterType,required"` // SINGLE_TAG or MULTI_TAG
	TopicSysFlag    Opt[int32] `h:"topicSysFlag"`
	Order           bool       `h:"order,required"`
	Attributes      string     `h:"attributes"` // +key=value and -key with commas
	Force           Opt[bool]  `h:"force"`
	TopicRequest
}

// CreateTopicListRequest is UPDATE_AND_CREATE_TOPIC_LIST.
type CreateTopicListRequest struct {
	RpcRequest
}

// DeleteTopicRequest is DELETE_TOPIC_IN_BROKER.
type DeleteTopicRequest struct {
	Topic string `h:"topic,required"`
	TopicRequest
}

// GetAllTopicConfigRequest is GET_ALL_TOPIC_CONFIG. Without TopicSeq, as older callers send it, everything is wanted at once.
type GetAllTopicConfigRequest struct {
	TopicSeq    Opt[int32] `h:"topicSeq,required"` // of the first topic of the page
	DataVersion string     `h:"dataVersion"`       // JSON
	MaxTopicNum Opt[int32] `h:"maxTopicNum"`
}

// GetAllTopicConfigResponse answers it.
type GetAllTopicConfigResponse struct {
	TotalTopicNum int32 `h:"totalTopicNum,required"`
}

// GetTopicConfigRequest is GET_TOPIC_CONFIG.
type GetTopicConfigRequest struct {
	Topic string `h:"topic,required"`
	TopicRequest
}

// GetAllSubscriptionGroupRequest is GET_ALL_SUBSCRIPTIONGROUP_CONFIG, paged like GetAllTopicConfigRequest.
type GetAllSubscriptionGroupRequest struct {
	GroupSeq    Opt[int32] `h:"groupSeq,required"`
	DataVersion string     `h:"dataVersion"` // JSON
	MaxGroupNum Opt[int32] `h:"maxGroupNum"`
}

// GetAllSubscriptionGroupResponse answers it.
type GetAllSubscriptionGroupResponse struct {
	TotalGroupNum int32 `h:"totalGroupNum,required"`
}

// GetSubscriptionGroupConfigRequest is GET_SUBSCRIPTIONGROUP_CONFIG.
type GetSubscriptionGroupConfigRequest struct {
	Group string `h:"group,required"`
	RpcRequest
}

// DeleteSubscriptionGroupRequest is DELETE_SUBSCRIPTIONGROUP.
type DeleteSubscriptionGroupRequest struct {
	GroupName   string `h:"groupName,required"`
	CleanOffset bool   `h:"cleanOffset"`
	RpcRequest
}

// UpdateGroupForbiddenRequest is UPDATE_AND_GET_GROUP_FORBIDDEN.
type UpdateGroupForbiddenRequest struct {
	Group    string    `h:"group,required"`
	Topic    string    `h:"topic,required"`
	Readable Opt[bool] `h:"readable"` // absent only asks
	TopicRequest
}
