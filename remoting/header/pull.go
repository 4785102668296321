package header

import "strings"

// PullMessageRequest is PULL_MESSAGE and LITE_PULL_MESSAGE.
//
//header:alias
type PullMessageRequest struct {
	ConsumerGroup        string     `h:"consumerGroup,required"`
	Topic                string     `h:"topic,required"`
	LiteTopic            string     `h:"liteTopic"`
	QueueID              int32      `h:"queueId,required"`
	QueueOffset          int64      `h:"queueOffset,required"`
	MaxMsgNums           int32      `h:"maxMsgNums,required"`
	SysFlag              int32      `h:"sysFlag,required"` // bits of Java's PullSysFlag
	CommitOffset         int64      `h:"commitOffset,required"`
	SuspendTimeoutMillis int64      `h:"suspendTimeoutMillis,required"`
	Subscription         string     `h:"subscription"`
	SubVersion           int64      `h:"subVersion,required"`
	ExpressionType       string     `h:"expressionType"`
	MaxMsgBytes          Opt[int32] `h:"maxMsgBytes"`
	RequestSource        Opt[int32] `h:"requestSource"`
	ProxyFrowardClientID string     `h:"proxyFrowardClientId"` // Java's spelling
	TopicRequest
}

// PullMessageResponse answers pulls, also those that found nothing: clients read the four offsets without a null check.
type PullMessageResponse struct {
	SuggestWhichBrokerID int64      `h:"suggestWhichBrokerId,required"`
	NextBeginOffset      int64      `h:"nextBeginOffset,required"`
	MinOffset            int64      `h:"minOffset,required"`
	MaxOffset            int64      `h:"maxOffset,required"`
	OffsetDelta          Opt[int64] `h:"offsetDelta"` // static topics: logical minus physical
	TopicSysFlag         Opt[int32] `h:"topicSysFlag"`
	GroupSysFlag         Opt[int32] `h:"groupSysFlag"`
	ForbiddenType        Opt[int32] `h:"forbiddenType"` // why a pull got NO_PERMISSION
}

// QueryConsumerOffsetRequest is QUERY_CONSUMER_OFFSET.
//
//header:alias
type QueryConsumerOffsetRequest struct {
	ConsumerGroup     string    `h:"consumerGroup,required"`
	Topic             string    `h:"topic,required"`
	QueueID           int32     `h:"queueId,required"`
	SetZeroIfNotFound Opt[bool] `h:"setZeroIfNotFound"` // false: QUERY_NOT_FOUND although the whole queue is still in memory
	TopicRequest
}

// QueryConsumerOffsetResponse answers it.
type QueryConsumerOffsetResponse struct {
	Offset int64 `h:"offset,required"`
}

// UpdateConsumerOffsetRequest is UPDATE_CONSUMER_OFFSET. The numbers are required, but a commit without them must be refused
// instead of rewinding queue 0 to 0, hence Opt.
//
//header:alias
type UpdateConsumerOffsetRequest struct {
	ConsumerGroup string     `h:"consumerGroup,required"`
	Topic         string     `h:"topic,required"`
	QueueID       Opt[int32] `h:"queueId,required"`
	CommitOffset  Opt[int64] `h:"commitOffset,required"`
	TopicRequest
}

// GetMaxOffsetRequest is GET_MAX_OFFSET.
//
//header:alias
type GetMaxOffsetRequest struct {
	Topic     string    `h:"topic,required"`
	QueueID   int32     `h:"queueId,required"`
	Committed Opt[bool] `h:"committed"` // ignored by Java's broker
	TopicRequest
}

// GetMaxOffsetResponse answers it with the next offset to be written.
type GetMaxOffsetResponse struct {
	Offset int64 `h:"offset,required"`
}

// GetMinOffsetRequest is GET_MIN_OFFSET.
//
//header:alias
type GetMinOffsetRequest struct {
	Topic   string `h:"topic,required"`
	QueueID int32  `h:"queueId,required"`
	TopicRequest
}

// GetMinOffsetResponse answers it.
type GetMinOffsetResponse struct {
	Offset int64 `h:"offset,required"`
}

// SearchOffsetRequest is SEARCH_OFFSET_BY_TIMESTAMP.
//
//header:alias
type SearchOffsetRequest struct {
	Topic        string `h:"topic,required"`
	LiteTopic    string `h:"liteTopic"`
	QueueID      int32  `h:"queueId,required"`
	Timestamp    int64  `h:"timestamp,required"` // ms
	BoundaryType string `h:"boundaryType"`
	TopicRequest
}

// Upper reports whether the last of several messages with the time is wanted. Java's BoundaryType: anything but "upper", in
// any case, means the first.
func (h *SearchOffsetRequest) Upper() bool { return strings.EqualFold(h.BoundaryType, "upper") }

// SearchOffsetResponse answers it.
type SearchOffsetResponse struct {
	Offset int64 `h:"offset,required"`
}

// GetEarliestMsgStoretimeRequest is GET_EARLIEST_MSG_STORETIME.
type GetEarliestMsgStoretimeRequest struct {
	Topic   string `h:"topic,required"`
	QueueID int32  `h:"queueId,required"`
	TopicRequest
}

// GetEarliestMsgStoretimeResponse answers it.
type GetEarliestMsgStoretimeResponse struct {
	Timestamp int64 `h:"timestamp,required"` // ms, -1 for an empty queue
}
