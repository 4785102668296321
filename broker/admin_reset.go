package broker

import (
	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/state"
)

// handleResetOffset serves INVOKE_BROKER_TO_RESET_OFFSET: the broker sets the offsets itself, or with
// useServerSideResetOffset=false has the clients do it.
func (b *Broker) handleResetOffset(r *remoting.Request, h *header.ResetOffsetRequest) error {
	topic := b.topics.get(h.Topic)
	if topic == nil {
		return code.New(code.TopicNotExist, "Topic %s does not exist", shown(h.Topic))
	}
	if b.conf.Load().UseServerSideResetOffset {
		return b.resetHere(r, h, topic)
	}
	return b.resetByClients(r, h, topic)
}

// resetHere sets the offsets. Until the group pulls a queue its reset is pending: commits of what was read before do not count.
func (b *Broker) resetHere(r *remoting.Request, h *header.ResetOffsetRequest, topic *body.TopicConfig) error {
	if _, ok := b.store.State.Group(h.Group); !ok {
		return groupUnknown(h.Group)
	}
	targets, err := b.resetTargets(h, topic)
	if err != nil {
		return err
	}
	var changes []state.Change
	for mq, offset := range targets {
		changes = append(changes, state.ResetPut(h.Group, topic.TopicName, mq.QueueID, offset), state.OffsetPut(h.Group, topic.TopicName, mq.QueueID, offset))
	}
	if err := b.commit(changes...); err != nil {
		return err
	}
	return r.OK(nil, fastjson.Marshal(&body.ResetOffsetBody{OffsetTable: targets}))
}

// resetTargets finds the offset of each queue that the request means.
func (b *Broker) resetTargets(h *header.ResetOffsetRequest, topic *body.TopicConfig) (map[body.MessageQueue]int64, error) {
	targets := map[body.MessageQueue]int64{}
	if id := h.QueueID.Or(-1); id >= max(topic.ReadQueueNums, topic.WriteQueueNums) {
		return nil, code.New(code.InvalidParameter, "queueId[%d] is illegal, topic[%s] has %d queues to read", id, topic.TopicName, topic.ReadQueueNums)
	}
	if id, offset := h.QueueID.Or(-1), h.Offset.Or(-1); id >= 0 && offset != -1 {
		var low, high int64
		if q := b.store.Queues.Get(topic.TopicName, id); q != nil {
			low, high = q.Min(), q.Max()
		}
		if offset < low || offset > high+1 {
			return nil, code.New(code.SystemError, "Target offset %d not in consume queue range [%d-%d]", offset, low, high)
		}
		targets[b.queueName(topic.TopicName, id)] = offset
		return targets, nil
	}
	first, last := int32(0), topic.ReadQueueNums-1
	if id := h.QueueID.Or(-1); id >= 0 {
		first, last = id, id
	}
	for id := first; id <= last; id++ {
		offset, err := b.offsetAt(topic.TopicName, id, h.Timestamp)
		if err != nil {
			return nil, err
		}
		targets[b.queueName(topic.TopicName, id)] = offset
	}
	return targets, nil
}

// offsetAt is the first offset that was stored at a time or later; a negative time is the end of the queue.
func (b *Broker) offsetAt(topic string, id int32, ms int64) (int64, error) {
	q := b.store.Queues.Get(topic, id)
	switch {
	case q == nil:
		return 0, nil
	case ms < 0:
		return q.Max(), nil
	}
	return b.store.OffsetByTime(q, ms, store.Lower)
}

// resetByClients sends the offsets to the members of the group, which drop what they have and commit them. Without isForce an
// offset is only ever set back.
func (b *Broker) resetByClients(r *remoting.Request, h *header.ResetOffsetRequest, topic *body.TopicConfig) error {
	targets, err := b.resetTargets(&header.ResetOffsetRequest{Timestamp: h.Timestamp}, topic)
	if err != nil {
		return err
	}
	for mq, offset := range targets {
		current, ok := b.store.State.Offset(h.Group, mq.Topic, mq.QueueID)
		if !ok {
			return code.New(code.SystemError, "THe consumer group <%s> not exist", shown(h.Group))
		}
		if !h.IsForce {
			targets[mq] = min(offset, current)
		}
	}
	members := b.clients.membersOf(h.Group)
	if len(members) == 0 {
		return code.New(code.ConsumerNotOnline, "Consumer not online, so can not reset offset, Group: %s Topic: %s Timestamp: %d", shown(h.Group), topic.TopicName, h.Timestamp)
	}
	push := header.ResetOffsetRequest{Group: h.Group, Topic: h.Topic, Timestamp: h.Timestamp, IsForce: h.IsForce}
	whole := fastjson.Marshal(&body.ResetOffsetBody{OffsetTable: targets})
	for _, m := range members {
		text := whole
		if m.language == code.CPP {
			text = fastjson.Marshal(resetBodyForC(targets))
		}
		if err := m.conn.Oneway(code.ResetConsumerClientOffset, &push, text); err != nil {
			b.log.Warn("a client could not be told of reset offsets", zap.String("group", h.Group), zap.String("client", m.id), zap.Error(err))
		}
	}
	return r.OK(nil, whole)
}

// resetBodyForC is the form that C++ clients understand.
func resetBodyForC(targets map[body.MessageQueue]int64) *body.ResetOffsetBodyForC {
	var list body.ResetOffsetBodyForC
	for mq, offset := range targets {
		list.OffsetTable = append(list.OffsetTable, body.MessageQueueForC{BrokerName: mq.BrokerName, Topic: mq.Topic, QueueID: mq.QueueID, Offset: offset})
	}
	return &list
}
