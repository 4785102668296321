package broker

import (
	"math"
	"slices"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// offsetTopics lists the topics in which a group has offsets.
func (b *Broker) offsetTopics(group string) (topics []string) {
	for _, o := range b.store.State.OffsetsOfGroup(group) { // by topic
		if n := len(topics); n == 0 || topics[n-1] != o.Topic {
			topics = append(topics, o.Topic)
		}
	}
	return topics
}

// offsetGroups lists the groups that have offsets in a topic.
func (b *Broker) offsetGroups(topic string) (groups []string) {
	for _, o := range b.store.State.OffsetsOfTopic(topic) { // by group
		if n := len(groups); n == 0 || groups[n-1] != o.Group {
			groups = append(groups, o.Group)
		}
	}
	return groups
}

// abandoned tells that a group that is online does not subscribe a topic: its offsets there are of the past.
func (b *Broker) abandoned(group, topic string) bool {
	g := b.clients.consumerGroup(group)
	return g != nil && len(g.view.Load().subs) > 0 && g.subscription(topic) == nil
}

// handleConsumeStats serves GET_CONSUME_STATS.
func (b *Broker) handleConsumeStats(r *remoting.Request, h *header.GetConsumeStatsRequest) error {
	var topics []string
	switch {
	case h.TopicList != "":
		topics = strings.Split(h.TopicList, ";")
		slices.Sort(topics)
		topics = slices.Compact(topics)
	case h.Topic != "":
		topics = []string{h.Topic}
	default:
		topics = b.offsetTopics(h.ConsumerGroup)
	}
	stats := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
	times := b.storeTimes()
	for _, topic := range topics {
		if h.TopicList == "" && b.abandoned(h.ConsumerGroup, topic) {
			continue
		}
		b.consumeStats(&stats, h.ConsumerGroup, topic, times)
	}
	return r.OK(nil, fastjson.Marshal(&stats))
}

// consumeStats adds what a group has consumed of a topic. A queue without an offset counts as not consumed at all.
func (b *Broker) consumeStats(stats *body.ConsumeStats, group, topic string, times storeTimes) {
	c := b.topics.get(topic)
	if c == nil {
		return
	}
	for id := range c.ReadQueueNums {
		var w body.OffsetWrapper
		q := b.store.Queues.Get(c.TopicName, id)
		if q != nil {
			w.BrokerOffset = q.Max()
		}
		w.ConsumerOffset, _ = b.store.State.Offset(group, c.TopicName, id)
		w.PullOffset = max(w.ConsumerOffset, b.offsets.pullOffset(group, c.TopicName, id))
		if w.ConsumerOffset > 0 {
			w.LastTimestamp = times.at(q, w.ConsumerOffset-1)
		}
		stats.OffsetTable[b.queueName(c.TopicName, id)] = w
	}
	stats.ConsumeTps += b.stats.getTPS(group, c.TopicName)
}

// handleBrokerConsumeStats serves GET_BROKER_CONSUME_STATS: the statistics of all groups, topic by topic.
func (b *Broker) handleBrokerConsumeStats(r *remoting.Request, h *header.GetConsumeStatsInBroker) error {
	list := body.ConsumeStatsList{BrokerAddr: b.addr}
	times := b.storeTimes()
	for _, g := range b.store.State.Groups() {
		all := []body.ConsumeStats{}
		for _, topic := range b.offsetTopics(g.GroupName) {
			c := b.topics.get(topic)
			if c == nil || h.IsOrder && !c.Order || b.abandoned(g.GroupName, topic) {
				continue
			}
			one := body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
			b.consumeStats(&one, g.GroupName, topic, times)
			all = append(all, one)
			for _, w := range one.OffsetTable {
				list.TotalDiff += w.BrokerOffset - w.ConsumerOffset
				list.TotalInflightDiff += w.PullOffset - w.ConsumerOffset
			}
		}
		list.ConsumeStatsList = append(list.ConsumeStatsList, map[string][]body.ConsumeStats{g.GroupName: all})
	}
	return r.OK(nil, fastjson.Marshal(&list))
}

// handleConsumeTimeSpan serves QUERY_CONSUME_TIME_SPAN: of which time the messages are that a group has and has not consumed.
func (b *Broker) handleConsumeTimeSpan(r *remoting.Request, h *header.QueryConsumeTimeSpanRequest) error {
	c := b.topics.get(h.Topic)
	if c == nil {
		return topicUnknown(h.Topic)
	}
	var spans body.QueryConsumeTimeSpanBody
	times := b.storeTimes()
	for id := range c.ReadQueueNums {
		span := body.QueueTimeSpan{MessageQueue: b.queueName(c.TopicName, id)}
		if q := b.store.Queues.Get(c.TopicName, id); q != nil {
			offset, _ := b.store.State.Offset(h.Group, c.TopicName, id)
			span.MinTimeStamp = times.at(q, q.Min())
			span.MaxTimeStamp = times.at(q, q.Max()-1)
			span.ConsumeTimeStamp = span.MinTimeStamp
			if offset > 0 {
				span.ConsumeTimeStamp = times.at(q, offset-1)
			}
			if next := max(offset, q.Min()); next < q.Max() {
				if t := times.at(q, next); t > 0 {
					span.DelayTime = b.clk.NowMs() - t
				}
			}
		}
		spans.ConsumeTimeSpanSet = append(spans.ConsumeTimeSpanSet, span)
	}
	return r.OK(nil, fastjson.Marshal(&spans))
}

// handleTopicGroups serves QUERY_TOPIC_CONSUME_BY_WHO: the groups that subscribe a topic and those that have offsets in it.
func (b *Broker) handleTopicGroups(r *remoting.Request, h *header.QueryTopicConsumeByWhoRequest) error {
	groups := append(b.offsetGroups(h.Topic), b.clients.subscribers(h.Topic)...)
	slices.Sort(groups)
	return r.OK(nil, fastjson.Marshal(&body.GroupList{GroupList: slices.Compact(groups)}))
}

// handleGroupTopics serves QUERY_TOPICS_BY_CONSUMER.
func (b *Broker) handleGroupTopics(r *remoting.Request, h *header.QueryTopicsByConsumerRequest) error {
	return r.OK(nil, fastjson.Marshal(&body.TopicList{BrokerAddr: b.addr, TopicList: b.offsetTopics(h.Group)}))
}

// handleSubscription serves QUERY_SUBSCRIPTION_BY_CONSUMER.
func (b *Broker) handleSubscription(r *remoting.Request, h *header.QuerySubscriptionByConsumerRequest) error {
	answer := body.QuerySubscriptionResponseBody{Group: h.Group, Topic: h.Topic}
	if g := b.clients.consumerGroup(h.Group); g != nil {
		if s := g.subscription(h.Topic); s != nil {
			answer.SubscriptionData = s.data
		}
	}
	return r.OK(nil, fastjson.Marshal(&answer))
}

// handleCloneOffsets serves CLONE_GROUP_OFFSET. Without a topic the offsets of all topics are copied; Java copies none.
func (b *Broker) handleCloneOffsets(r *remoting.Request, h *header.CloneGroupOffsetRequest) error {
	if err := validateGroup(h.DestGroup); err != nil {
		return err
	}
	var changes []state.Change
	for _, o := range b.store.State.OffsetsOfGroup(h.SrcGroup) {
		switch {
		case h.Topic != "" && h.Topic != o.Topic:
		case b.topics.get(o.Topic) == nil:
		case !h.Offline && b.abandoned(h.SrcGroup, o.Topic):
		default:
			changes = append(changes, state.OffsetPut(h.DestGroup, o.Topic, o.QueueID, o.Offset))
		}
	}
	if err := b.commit(changes...); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// handleCorrectionOffset serves QUERY_CORRECTION_OFFSET: how far every group but the filtered ones has consumed each queue that
// the compared group has an offset in; the largest number where the compared group is the last.
func (b *Broker) handleCorrectionOffset(r *remoting.Request, h *header.QueryCorrectionOffset) error {
	filtered := strings.Split(h.FilterGroups, ",")
	least := map[int32]int64{}
	own := map[int32]int64{}
	for _, o := range b.store.State.OffsetsOfTopic(h.Topic) {
		if o.Group == h.CompareGroup {
			own[o.QueueID] = o.Offset
		}
		q := b.store.Queues.Get(h.Topic, o.QueueID)
		if slices.Contains(filtered, o.Group) || q != nil && o.Offset < q.Min() {
			continue
		}
		if old, ok := least[o.QueueID]; !ok || o.Offset < old {
			least[o.QueueID] = o.Offset
		}
	}
	for id, offset := range own {
		if l, ok := least[id]; ok && l > offset {
			least[id] = math.MaxInt64
		}
	}
	return r.OK(nil, fastjson.Marshal(&body.QueryCorrectionOffsetBody{CorrectionOffsets: least}))
}

// handleAllOffsets serves GET_ALL_CONSUMER_OFFSET.
func (b *Broker) handleAllOffsets(r *remoting.Request) error {
	return r.OK(nil, fastjson.Marshal(b.store.State.OffsetTable()))
}

// handleAllDelayOffsets serves GET_ALL_DELAY_OFFSET.
func (b *Broker) handleAllDelayOffsets(r *remoting.Request) error {
	return r.OK(nil, fastjson.Marshal(b.store.State.DelayOffsetTable()))
}

// groupUnknown is the answer of requests that do not make a group.
func groupUnknown(group string) error {
	return code.New(code.SubscriptionGroupNotExist, "Group %s not exist!", shown(group))
}
