package state

import (
	"strings"

	"github.com/castor-mq/castor/remoting/body"
)

// The functions below make the bodies of the admin requests for whole tables, which are also the texts of Java's config
// files. Castor's own topics are left out: no client and no Java broker knows what to do with them.

// TopicTable returns all topics.
func (t *Tables) TopicTable() *body.TopicConfigSerializeWrapper {
	w := &body.TopicConfigSerializeWrapper{
		DataVersion:      t.Version(VersionTopics), // first: a change in between shows as a version that is too old
		TopicConfigTable: make(map[string]body.TopicConfig),
	}
	for _, config := range t.Topics() {
		if !isInternal(config.TopicName) {
			w.TopicConfigTable[config.TopicName] = *config
		}
	}
	return w
}

// GroupTable returns all consumer groups and what they are forbidden.
func (t *Tables) GroupTable() *body.SubscriptionGroupWrapper {
	w := &body.SubscriptionGroupWrapper{
		DataVersion:            t.Version(VersionGroups),
		ForbiddenTable:         make(map[string]map[string]int32),
		SubscriptionGroupTable: make(map[string]body.SubscriptionGroupConfig),
	}
	for _, config := range t.Groups() {
		w.SubscriptionGroupTable[config.GroupName] = *config
	}
	for _, f := range t.AllForbidden() {
		putInner(w.ForbiddenTable, f.Group, f.Topic, f.Bits)
	}
	return w
}

// OffsetTable returns all consumer offsets. Pull offsets are not part of the state.
func (t *Tables) OffsetTable() *body.ConsumerOffsetSerializeWrapper {
	w := &body.ConsumerOffsetSerializeWrapper{
		DataVersion:     t.Version(VersionOffsets),
		GroupTopicMap:   make(map[string][]string),
		OffsetTable:     make(map[string]map[int32]int64),
		PullOffsetTable: make(map[string]map[int32]int64),
	}
	for _, o := range t.AllOffsets() {
		if isInternal(o.Topic) {
			continue
		}
		name := o.Topic + "@" + o.Group
		if w.OffsetTable[name] == nil {
			w.GroupTopicMap[o.Group] = append(w.GroupTopicMap[o.Group], o.Topic)
		}
		putInner(w.OffsetTable, name, o.QueueID, o.Offset)
	}
	return w
}

// DelayOffsetTable returns how far the delay levels are delivered.
func (t *Tables) DelayOffsetTable() *body.DelayOffsetSerializeWrapper {
	return &body.DelayOffsetSerializeWrapper{DataVersion: t.Version(VersionDelayOffsets), OffsetTable: t.DelayOffsets()}
}

// RequestModeTable returns which groups pull and which pop.
func (t *Tables) RequestModeTable() *body.MessageRequestModeSerializeWrapper {
	w := &body.MessageRequestModeSerializeWrapper{
		MessageRequestModeMap: make(map[string]map[string]body.SetMessageRequestModeRequestBody),
	}
	for _, m := range t.RequestModes() {
		putInner(w.MessageRequestModeMap, m.Topic, m.ConsumerGroup, *m)
	}
	return w
}

func isInternal(topic string) bool { return strings.HasPrefix(topic, InternalPrefix) }

// putInner sets a value in a map of maps.
func putInner[A, B comparable, V any](m map[A]map[B]V, a A, b B, v V) {
	inner := m[a]
	if inner == nil {
		inner = make(map[B]V)
		m[a] = inner
	}
	inner[b] = v
}
