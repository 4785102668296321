package state

import (
	"strings"

	"github.com/castor-mq/castor/remoting/body"
)

// InternalPrefix starts the names of Castor's own topics. They are not shown to Java: exports leave them out.
const InternalPrefix = "rmq_sys_castor_"

// Topic is the topic whose records carry state changes.
const Topic = InternalPrefix + "state"

// Change is one change of the state. Which members mean something depends on Kind; make changes with the functions below.
//
// The strings of a change handed out by Each alias the record body.
type Change struct {
	Kind    Kind
	Group   string
	Topic   string
	QueueID int32 // the level in a DelayOffsetPut
	Offset  int64 // in the queue; in the CommitLog in a DeletedBefore

	ClientID     string // owner of a lock
	TimeMs       int64  // end of a lock, death of a filter; since 1970
	Bits         int32  // of a ForbiddenPut
	CleanOffsets bool   // of a GroupDelete

	TopicConfig *body.TopicConfig
	GroupConfig *body.SubscriptionGroupConfig
	RequestMode *body.SetMessageRequestModeRequestBody
	Filter      *Filter
}

// Filter is an SQL92 subscription of a group (Java's ConsumerFilterData).
type Filter struct {
	BloomFilterData *BloomFilterData `json:"bloomFilterData"`
	BornTime        int64            `json:"bornTime"`      // ms
	ClientVersion   int64            `json:"clientVersion"` // a changed expression needs a higher one
	ConsumerGroup   string           `json:"consumerGroup"`
	DeadTime        int64            `json:"deadTime"` // ms; when the last member of the group left
	Expression      string           `json:"expression"`
	ExpressionType  string           `json:"expressionType"`
	Topic           string           `json:"topic"`
}

// Dead tells whether the group has no member left.
func (f *Filter) Dead() bool { return f.DeadTime >= f.BornTime }

// BloomFilterData is what a Java broker calculated for a filter. It is kept only for the way back: Java drops all filters
// when one comes without it.
type BloomFilterData struct {
	BitNum int32   `json:"bitNum"`
	BitPos []int32 `json:"bitPos,nonnil"`
}

// TopicPut creates or replaces a topic. The configuration must not be modified afterwards; that holds for all pointers
// given to the functions below.
func TopicPut(config *body.TopicConfig) Change {
	return Change{Kind: KindTopicPut, Topic: config.TopicName, TopicConfig: config}
}

// TopicDelete removes a topic with its consumer offsets, pending resets, locks and request modes.
func TopicDelete(topic string) Change { return Change{Kind: KindTopicDelete, Topic: topic} }

// GroupPut creates or replaces a consumer group.
func GroupPut(config *body.SubscriptionGroupConfig) Change {
	return Change{Kind: KindGroupPut, Group: config.GroupName, GroupConfig: config}
}

// GroupDelete removes a group and what it is forbidden; with cleanOffsets also its offsets, pending resets and locks.
func GroupDelete(group string, cleanOffsets bool) Change {
	return Change{Kind: KindGroupDelete, Group: group, CleanOffsets: cleanOffsets}
}

// OffsetPut sets the consumer offset of a group in a queue, also to a lower value.
func OffsetPut(group, topic string, queueID int32, offset int64) Change {
	return Change{Kind: KindOffsetPut, Group: group, Topic: topic, QueueID: queueID, Offset: offset}
}

// ResetPut makes an offset reset pending until a consumer takes it.
func ResetPut(group, topic string, queueID int32, offset int64) Change {
	return Change{Kind: KindResetPut, Group: group, Topic: topic, QueueID: queueID, Offset: offset}
}

// ResetTake ends a pending reset.
func ResetTake(group, topic string, queueID int32) Change {
	return Change{Kind: KindResetTake, Group: group, Topic: topic, QueueID: queueID}
}

// LockPut grants or extends the lock of an ordered queue until expiresMs (since 1970).
func LockPut(group, topic string, queueID int32, clientID string, expiresMs int64) Change {
	return Change{Kind: KindLockPut, Group: group, Topic: topic, QueueID: queueID, ClientID: clientID, TimeMs: expiresMs}
}

// LockDelete frees the lock of a queue.
func LockDelete(group, topic string, queueID int32) Change {
	return Change{Kind: KindLockDelete, Group: group, Topic: topic, QueueID: queueID}
}

// DelayOffsetPut sets how far the messages of a delay level (from 1) are delivered.
func DelayOffsetPut(level int32, offset int64) Change {
	return Change{Kind: KindDelayOffsetPut, QueueID: level, Offset: offset}
}

// RequestModePut switches a group between pull and pop for a topic.
func RequestModePut(mode *body.SetMessageRequestModeRequestBody) Change {
	return Change{Kind: KindRequestModePut, Topic: mode.Topic, Group: mode.ConsumerGroup, RequestMode: mode}
}

// FilterPut registers or replaces a filter.
func FilterPut(filter *Filter) Change {
	return Change{Kind: KindFilterPut, Topic: filter.Topic, Group: filter.ConsumerGroup, Filter: filter}
}

// FilterDead notes when the last member of the group left. An unknown filter stays unknown.
func FilterDead(topic, group string, deadTime int64) Change {
	return Change{Kind: KindFilterDead, Topic: topic, Group: group, TimeMs: deadTime}
}

// ForbiddenPut sets the bits of what a group must not do with a topic; 0 allows everything.
func ForbiddenPut(group, topic string, bits int32) Change {
	return Change{Kind: KindForbiddenPut, Group: group, Topic: topic, Bits: bits}
}

// DeletedBefore notes that the topic was deleted when the CommitLog ended at logOffset: its older records are not indexed
// again; 0 forgets it.
func DeletedBefore(topic string, logOffset int64) Change {
	return Change{Kind: KindDeletedBefore, Topic: topic, Offset: logOffset}
}

// Clone returns a copy of c that does not alias a record body.
func (c Change) Clone() Change {
	c.Group = strings.Clone(c.Group)
	c.Topic = strings.Clone(c.Topic)
	c.ClientID = strings.Clone(c.ClientID)
	return c
}
