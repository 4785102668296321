package state

import "github.com/castor-mq/castor/remoting/body"

// The lookups do not allocate and accept strings that alias a buffer.

// QueueOffset is an offset of a group in a queue: a consumer offset or a pending reset.
type QueueOffset struct {
	Group, Topic string
	QueueID      int32
	Offset       int64
}

// Lock says who consumes a queue in order, and until when (ms since 1970). A lock lasts until it is deleted or replaced:
// whoever looks compares ExpiresMs with the time.
type Lock struct {
	Group, Topic string
	QueueID      int32
	ClientID     string
	ExpiresMs    int64
}

// ForbiddenBits tells what a group must not do with a topic.
type ForbiddenBits struct {
	Group, Topic string
	Bits         int32
}

// Topic returns the configuration of a topic, which must not be modified.
func (t *Tables) Topic(name string) (*body.TopicConfig, bool) { return t.topics.get(key{first: name}) }

// Topics returns all topics by name.
func (t *Tables) Topics() []*body.TopicConfig { return list(&t.topics, "", "", valueOf) }

// Group returns the configuration of a consumer group, which must not be modified.
func (t *Tables) Group(name string) (*body.SubscriptionGroupConfig, bool) {
	return t.groups.get(key{first: name})
}

// Groups returns all groups by name.
func (t *Tables) Groups() []*body.SubscriptionGroupConfig { return list(&t.groups, "", "", valueOf) }

// Offset returns the consumer offset of a group in a queue.
func (t *Tables) Offset(group, topic string, queueID int32) (int64, bool) {
	cell, ok := t.offsets.get(key{group, topic, queueID})
	if !ok {
		return 0, false
	}
	return cell.value.Load(), true
}

// OffsetsOfGroup returns the consumer offsets of a group by topic and queue.
func (t *Tables) OffsetsOfGroup(group string) []QueueOffset {
	if group == "" {
		return nil
	}
	return list(&t.offsets, group, "", consumerOffset)
}

// OffsetsOfTopic returns the consumer offsets in a topic by group and queue.
func (t *Tables) OffsetsOfTopic(topic string) []QueueOffset {
	if topic == "" {
		return nil
	}
	return list(&t.offsets, "", topic, consumerOffset)
}

// AllOffsets returns all consumer offsets by group, topic and queue.
func (t *Tables) AllOffsets() []QueueOffset { return list(&t.offsets, "", "", consumerOffset) }

// Reset returns the pending offset reset of a group in a queue.
func (t *Tables) Reset(group, topic string, queueID int32) (int64, bool) {
	return t.resets.get(key{group, topic, queueID})
}

// Resets returns all pending resets by group, topic and queue.
func (t *Tables) Resets() []QueueOffset {
	return list(&t.resets, "", "", func(e entry[int64]) QueueOffset {
		return QueueOffset{e.key.first, e.key.second, e.key.queueID, e.value}
	})
}

// Lock returns the lock of a queue, expired or not.
func (t *Tables) Lock(group, topic string, queueID int32) (Lock, bool) {
	return t.locks.get(key{group, topic, queueID})
}

// Locks returns all locks by group, topic and queue.
func (t *Tables) Locks() []Lock { return list(&t.locks, "", "", valueOf) }

// LocksOfGroup returns the locks of a group by topic and queue.
func (t *Tables) LocksOfGroup(group string) []Lock {
	if group == "" {
		return nil
	}
	return list(&t.locks, group, "", valueOf)
}

// DelayOffset returns how far the messages of a delay level are delivered.
func (t *Tables) DelayOffset(level int32) (int64, bool) { return t.delays.get(key{queueID: level}) }

// DelayOffsets returns the delay offsets by level.
func (t *Tables) DelayOffsets() map[int32]int64 {
	offsets := make(map[int32]int64)
	for _, e := range t.delays.entries("", "") {
		offsets[e.key.queueID] = e.value
	}
	return offsets
}

// RequestMode tells how a group gets the messages of a topic. The answer must not be modified.
func (t *Tables) RequestMode(topic, group string) (*body.SetMessageRequestModeRequestBody, bool) {
	return t.modes.get(key{first: topic, second: group})
}

// RequestModes returns all request modes by topic and group.
func (t *Tables) RequestModes() []*body.SetMessageRequestModeRequestBody {
	return list(&t.modes, "", "", valueOf)
}

// Filter returns the filter of a group for a topic. It must not be modified.
func (t *Tables) Filter(topic, group string) (*Filter, bool) {
	return t.filters.get(key{first: topic, second: group})
}

// FiltersOfTopic returns the filters for a topic by group.
func (t *Tables) FiltersOfTopic(topic string) []*Filter {
	if topic == "" {
		return nil
	}
	return list(&t.filters, topic, "", valueOf)
}

// Filters returns all filters by topic and group.
func (t *Tables) Filters() []*Filter { return list(&t.filters, "", "", valueOf) }

// Forbidden returns the bits of what a group must not do with a topic.
func (t *Tables) Forbidden(group, topic string) int32 {
	bits, _ := t.forbidden.get(key{first: group, second: topic})
	return bits
}

// AllForbidden returns what is forbidden at all, by group and topic.
func (t *Tables) AllForbidden() []ForbiddenBits {
	return list(&t.forbidden, "", "", func(e entry[int32]) ForbiddenBits {
		return ForbiddenBits{e.key.first, e.key.second, e.value}
	})
}

// DeletedBefore returns the log offset before which the topic's records belong to a deleted topic of that name.
func (t *Tables) DeletedBefore(topic string) (int64, bool) { return t.deleted.get(key{first: topic}) }

// Changes returns, for every row, the change that puts it, by kind and key. Applied to empty tables they make the same
// rows.
func (t *Tables) Changes() []Change {
	var out []Change
	out = append(out, list(&t.topics, "", "", func(e entry[*body.TopicConfig]) Change { return TopicPut(e.value) })...)
	out = append(out, list(&t.groups, "", "", func(e entry[*body.SubscriptionGroupConfig]) Change { return GroupPut(e.value) })...)
	for _, o := range t.AllOffsets() {
		out = append(out, OffsetPut(o.Group, o.Topic, o.QueueID, o.Offset))
	}
	for _, o := range t.Resets() {
		out = append(out, ResetPut(o.Group, o.Topic, o.QueueID, o.Offset))
	}
	for _, l := range t.Locks() {
		out = append(out, LockPut(l.Group, l.Topic, l.QueueID, l.ClientID, l.ExpiresMs))
	}
	out = append(out, list(&t.delays, "", "", func(e entry[int64]) Change { return DelayOffsetPut(e.key.queueID, e.value) })...)
	for _, m := range t.RequestModes() {
		out = append(out, RequestModePut(m))
	}
	for _, f := range t.Filters() {
		out = append(out, FilterPut(f))
	}
	for _, f := range t.AllForbidden() {
		out = append(out, ForbiddenPut(f.Group, f.Topic, f.Bits))
	}
	return append(out, list(&t.deleted, "", "", func(e entry[int64]) Change { return DeletedBefore(e.key.first, e.value) })...)
}

// list returns what of makes of the rows with these names, in the order of their keys. An empty name stands for all.
func list[V, R any](t *table[V], first, second string, of func(entry[V]) R) []R {
	entries := t.entries(first, second)
	out := make([]R, len(entries))
	for i := range entries {
		out[i] = of(entries[i])
	}
	return out
}

func valueOf[V any](e entry[V]) V { return e.value }

func consumerOffset(e entry[*offsetCell]) QueueOffset {
	return QueueOffset{e.key.first, e.key.second, e.key.queueID, e.value.value.Load()}
}
