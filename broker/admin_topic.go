package broker

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// Limits of what one administrative request may bring.
const (
	maxList   = 10_000   // topics or groups
	maxConfig = 64 << 10 // bytes of one topic's or group's configuration
)

// handleUpdateTopic serves UPDATE_AND_CREATE_TOPIC.
func (b *Broker) handleUpdateTopic(r *remoting.Request, h *header.CreateTopicRequest) error {
	changes, err := parseAttributes(h.Attributes)
	if err != nil {
		return err
	}
	err = b.updateTopics([]body.TopicConfig{{TopicName: h.Topic, ReadQueueNums: h.ReadQueueNums, WriteQueueNums: h.WriteQueueNums,
		Perm: h.Perm, TopicFilterType: h.TopicFilterType, TopicSysFlag: h.TopicSysFlag.Or(0), Order: h.Order, Attributes: changes}})
	if err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// handleUpdateTopics serves UPDATE_AND_CREATE_TOPIC_LIST. All topics are made, or none; Java stops at the first that is there
// already.
func (b *Broker) handleUpdateTopics(r *remoting.Request, _ *header.CreateTopicListRequest) error {
	var list body.CreateTopicListRequestBody
	if err := decodeBody(r, &list); err != nil {
		return err
	}
	if len(list.TopicConfigList) > maxList {
		return code.New(code.InvalidParameter, "%d topics are too many for one request, the limit is %d", len(list.TopicConfigList), maxList)
	}
	if err := b.updateTopics(list.TopicConfigList); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// decodeBody reads the JSON body of a request.
func decodeBody(r *remoting.Request, v any) error {
	if err := fastjson.Unmarshal(r.Body, v); err != nil {
		return code.New(code.InvalidParameter, "the body of the request: %v", err)
	}
	return nil
}

// updateTopics makes topics or changes them. Attributes are changes, as alterAttributes takes them.
func (b *Broker) updateTopics(list []body.TopicConfig) error {
	for i := range list {
		if err := b.checkTopic(&list[i]); err != nil {
			return err
		}
	}
	return b.topics.putAll(func() (changed []*body.TopicConfig, err error) {
		for i := range list {
			c, err := b.topics.altered(&list[i])
			if err != nil {
				return nil, err
			}
			changed = append(changed, c)
		}
		return changed, nil
	})
}

// checkTopic checks what does not depend on the present topics.
func (b *Broker) checkTopic(c *body.TopicConfig) error {
	conf := b.conf.Load()
	if err := validateTopic(c.TopicName); err != nil {
		return err
	}
	if isInternal(c.TopicName) || conf.ValidateSystemTopicWhenUpdateTopic && b.topics.isSystem(c.TopicName) {
		return systemConflict(c.TopicName)
	}
	for _, key := range []string{messageTypeAttribute, "+" + messageTypeAttribute} {
		if c.Attributes[key] == "MIXED" && !conf.EnableMixedMessageType {
			return code.New(code.InvalidParameter, "MIXED message type is not supported.")
		}
	}
	c.TopicFilterType = cmp.Or(c.TopicFilterType, "SINGLE_TAG")
	switch {
	case min(c.ReadQueueNums, c.WriteQueueNums) < 0 || max(c.ReadQueueNums, c.WriteQueueNums) > queue.MaxQueueID:
		return code.New(code.InvalidParameter, "a topic has 0 to %d queues, not %d to read and %d to write", queue.MaxQueueID, c.ReadQueueNums, c.WriteQueueNums)
	case c.Perm < 0 || c.Perm > permInherit|permRead|permWrite:
		return code.New(code.InvalidParameter, "perm %d is no combination of 4 (read), 2 (write) and 1 (inherit)", c.Perm)
	case c.TopicFilterType != "SINGLE_TAG" && c.TopicFilterType != "MULTI_TAG":
		return code.New(code.InvalidParameter, "topicFilterType is SINGLE_TAG or MULTI_TAG, not %s", shown(c.TopicFilterType))
	}
	return nil
}

func systemConflict(topic string) error {
	return code.New(code.InvalidParameter, "The topic[%s] is conflict with system topic.", topic)
}

// altered is the topic as the update wants it; the present one if it is that already.
func (t *topics) altered(update *body.TopicConfig) (*body.TopicConfig, error) {
	old := t.get(update.TopicName)
	var current map[string]string
	if old != nil {
		current = old.Attributes
	}
	attributes, err := alterAttributes(topicAttributes, old == nil, current, update.Attributes)
	if err != nil {
		return nil, err
	}
	c := *update
	c.TopicName, c.TopicFilterType, c.Attributes = strings.Clone(c.TopicName), strings.Clone(c.TopicFilterType), attributes
	if old != nil && sameTopic(old, &c) {
		return old, nil
	}
	return &c, nil
}

func sameTopic(a, b *body.TopicConfig) bool {
	x, y := *a, *b
	x.Attributes, y.Attributes = nil, nil
	return reflect.DeepEqual(x, y) && maps.Equal(a.Attributes, b.Attributes)
}

// handleDeleteTopic serves DELETE_TOPIC_IN_BROKER. A topic that is not there is deleted, too.
func (b *Broker) handleDeleteTopic(r *remoting.Request, h *header.DeleteTopicRequest) error {
	if strings.TrimSpace(h.Topic) == "" {
		return code.New(code.InvalidParameter, "The specified topic is blank.")
	}
	if b.conf.Load().ValidateSystemTopicWhenUpdateTopic && b.topics.isSystem(h.Topic) {
		return systemConflict(h.Topic)
	}
	if len(h.Topic) > maxName {
		return r.OK(nil, nil)
	}
	names := []string{h.Topic}
	if b.conf.Load().ClearRetryTopicWhenDeleteTopic {
		names = append(names, b.popRetryTopics(h.Topic)...)
	}
	if err := b.deleteTopics(names); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// popRetryTopics lists the retry topics that pop consumers of a topic have, under both of their names.
func (b *Broker) popRetryTopics(topic string) (names []string) {
	for _, group := range b.offsetGroups(topic) {
		for _, separator := range []string{"+", "_"} {
			if name := message.RetryPrefix + group + separator + topic; b.topics.get(name) != nil {
				names = append(names, name)
			}
		}
	}
	return names
}

// deleteTopics deletes topics with their queues, their consumer offsets and whatever else is kept of them.
func (b *Broker) deleteTopics(names []string) error {
	changes := make([]state.Change, 0, len(names))
	known := names[:0:0]
	for _, name := range names {
		if b.topics.get(name) != nil {
			known = append(known, name)
		}
		changes = append(changes, state.TopicDelete(name))
	}
	b.topics.mu.Lock()
	err := b.commit(changes...)
	b.topics.mu.Unlock()
	if err != nil {
		return err
	}
	for _, name := range names {
		b.offsets.forget(func(k offsetKey) bool { return k.topic == name })
		b.stats.forgetTopic(name)
	}
	if len(known) > 0 {
		b.names.topicsChanged(known...)
	}
	return nil
}

// handleAllTopics serves GET_ALL_TOPIC_CONFIG.
func (b *Broker) handleAllTopics(r *remoting.Request, h *header.GetAllTopicConfigRequest) error {
	version := b.topics.version() // before the table: a change in between shows as a version that is too old
	all := slices.DeleteFunc(b.store.State.Topics(), func(c *body.TopicConfig) bool { return isInternal(c.TopicName) })
	from, to := page(len(all), h.TopicSeq, h.MaxTopicNum, h.DataVersion, version)
	var w body.TopicConfigAndMappingSerializeWrapper
	w.DataVersion = version
	w.TopicConfigTable = make(map[string]body.TopicConfig, to-from)
	for _, c := range all[from:to] {
		w.TopicConfigTable[c.TopicName] = *c
	}
	return r.OK(&header.GetAllTopicConfigResponse{TotalTopicNum: int32(len(all))}, fastjson.Marshal(&w))
}

// isInternal tells the topics that no client and no tool knows what to do with.
func isInternal(topic string) bool { return strings.HasPrefix(topic, state.InternalPrefix) }

// splitMetadataSize is the most rows of a table in one answer to a caller that asks for pages (BrokerConfig).
const splitMetadataSize = 2000

// page cuts a table of total rows. Callers that know nothing of pages get everything; one whose pages so far are of another
// version starts over.
func page(total int, seq, maxRows header.Opt[int32], callerVersion string, version body.DataVersion) (from, to int) {
	if !seq.Ok && !maxRows.Ok && callerVersion == "" {
		return 0, total
	}
	var theirs body.DataVersion
	if err := fastjson.Unmarshal([]byte(callerVersion), &theirs); err == nil && theirs == version {
		from = min(max(int(seq.Or(0)), 0), total)
	}
	n := splitMetadataSize
	if maxRows.Ok && maxRows.V > 0 {
		n = min(n, int(maxRows.V))
	}
	return from, min(from+n, total)
}

// handleTopicConfig serves GET_TOPIC_CONFIG.
func (b *Broker) handleTopicConfig(r *remoting.Request, h *header.GetTopicConfigRequest) error {
	c := b.topics.get(h.Topic)
	if c == nil {
		return code.New(code.TopicNotExist, "No topic in this broker. topic: %s", shown(h.Topic))
	}
	return r.OK(nil, fastjson.Marshal(&body.TopicConfigAndQueueMapping{TopicConfig: *c}))
}

// handleTopicStats serves GET_TOPIC_STATS_INFO.
func (b *Broker) handleTopicStats(r *remoting.Request, h *header.GetTopicStatsInfoRequest) error {
	c := b.topics.get(h.Topic)
	if c == nil {
		return topicUnknown(h.Topic)
	}
	table := body.TopicStatsTable{OffsetTable: map[body.MessageQueue]body.TopicOffset{}, TopicPutTps: b.stats.putTPS(c.TopicName)}
	times := b.storeTimes()
	for id := range max(c.WriteQueueNums, c.ReadQueueNums) {
		var o body.TopicOffset
		if q := b.store.Queues.Get(c.TopicName, id); q != nil {
			o = body.TopicOffset{MinOffset: q.Min(), MaxOffset: q.Max(), LastUpdateTimestamp: times.at(q, q.Max()-1)}
		}
		table.OffsetTable[b.queueName(c.TopicName, id)] = o
	}
	return r.OK(nil, fastjson.Marshal(&table))
}

func topicUnknown(topic string) error {
	return code.New(code.TopicNotExist, "topic[%s] not exist", shown(topic))
}

// queueName names a queue of this broker.
func (b *Broker) queueName(topic string, id int32) body.MessageQueue {
	return body.MessageQueue{Topic: topic, BrokerName: b.conf.Load().BrokerName, QueueID: id}
}

// storeTimes looks up when messages were stored, for answers that need many such times. They may lie on the disk: when answering
// has taken long enough the rest is not looked up.
type storeTimes struct {
	b        *Broker
	deadline int64 // ms
}

// lookupTime bounds the look-ups of one answer: clients give up after three seconds.
const lookupTime = 2000

func (b *Broker) storeTimes() storeTimes { return storeTimes{b, b.clk.NowMs() + lookupTime} }

// at is the store time of a message in ms, 0 if it is not there or was not looked up.
func (t storeTimes) at(q *queue.Queue, offset int64) int64 {
	if q == nil || offset < q.Min() || t.b.clk.NowMs() > t.deadline {
		return 0
	}
	return max(t.b.store.TimeAt(q, offset), 0)
}

// handleSystemTopics serves GET_SYSTEM_TOPIC_LIST_FROM_BROKER.
func (b *Broker) handleSystemTopics(r *remoting.Request) error {
	return r.OK(nil, fastjson.Marshal(&body.TopicList{TopicList: b.topics.systemNames()}))
}
