package broker

import (
	"fmt"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// Units of a consume queue in one answer: when the request names no number, and at most.
const (
	queueUnits    = 10
	maxQueueUnits = 300
)

// handleQueryQueue serves QUERY_CONSUME_QUEUE: units of a consume queue, and whether a group's subscription lets them pass.
func (b *Broker) handleQueryQueue(r *remoting.Request, h *header.QueryConsumeQueueRequest) error {
	q := b.store.Queues.Get(h.Topic, h.QueueID)
	if q == nil {
		return code.New(code.SystemError, "%d@%s is not exist!", h.QueueID, shown(h.Topic))
	}
	if h.Index < q.Min() || h.Index >= q.Max() {
		r.Reply(code.Success, fmt.Sprintf("Index %d of %d@%s is not exist!", h.Index, h.QueueID, h.Topic), nil, nil)
		return nil
	}
	answer := body.QueryConsumeQueueResponseBody{MinQueueIndex: q.Min(), MaxQueueIndex: q.Max()}
	filter := b.describeFilter(&answer, h)
	count := h.Count
	if count <= 0 {
		count = queueUnits
	}
	units := make([]queue.Unit, min(count, maxQueueUnits))
	for at := h.Index; at < q.Max() && len(units) > 0; {
		n, err := q.Read(at, units)
		if err != nil {
			return err
		}
		for _, u := range units[:n] {
			answer.QueueData = append(answer.QueueData, b.describeUnit(u, filter))
		}
		at += int64(n)
		units = units[n:]
	}
	return r.OK(nil, fastjson.Marshal(&answer))
}

// describeFilter tells what the group of the request subscribes, and returns how that filters; nil if there is no subscription.
func (b *Broker) describeFilter(answer *body.QueryConsumeQueueResponseBody, h *header.QueryConsumeQueueRequest) *store.Filter {
	if h.ConsumerGroup == "" {
		return nil
	}
	var sub *subscription
	if g := b.clients.consumerGroup(h.ConsumerGroup); g != nil {
		sub = g.subscription(h.Topic)
	}
	if sub == nil {
		answer.FilterData = fmt.Sprintf("%s@%s is not online!", shown(h.ConsumerGroup), h.Topic)
		return nil
	}
	answer.SubscriptionData, answer.FilterData = sub.data, "null"
	if f, ok := b.store.State.Filter(h.Topic, h.ConsumerGroup); ok {
		answer.FilterData = string(fastjson.Marshal(f))
	}
	if sub.err != nil {
		return nil
	}
	f := sub.filter(h.Topic, b.conf.Load())
	return &f
}

func (b *Broker) describeUnit(u queue.Unit, f *store.Filter) body.ConsumeQueueData {
	d := body.ConsumeQueueData{PhysicOffset: u.Phy, PhysicSize: u.Size, TagsCode: u.Tags}
	if f == nil {
		return d
	}
	d.Eval = f.Tags == nil || f.Tags(u.Tags)
	if !d.Eval || f.Props == nil {
		return d
	}
	var v message.View
	if _, err := b.store.Record(u.Phy, nil, &v); err != nil {
		d.Eval, d.Msg = false, err.Error()
		return d
	}
	d.Eval = f.Props(v.Properties())
	return d
}

// handleCleanQueues serves CLEAN_EXPIRED_CONSUMEQUEUE. The work is done after the answer, like that of the next.
func (b *Broker) handleCleanQueues(r *remoting.Request) error {
	b.store.WantClean(store.CleanQueues)
	return r.OK(nil, nil)
}

// handleCleanLog serves DELETE_EXPIRED_COMMITLOG.
func (b *Broker) handleCleanLog(r *remoting.Request) error {
	b.store.WantClean(store.CleanExpired)
	return r.OK(nil, nil)
}

// handleCleanTopics serves CLEAN_UNUSED_TOPIC: it deletes the queues of topics that are not configured any more.
func (b *Broker) handleCleanTopics(r *remoting.Request) error {
	var unused []string
	for _, q := range b.store.Queues.All() { // by topic
		if n := len(unused); n > 0 && unused[n-1] == q.Topic || b.topics.get(q.Topic) != nil || b.topics.isSystem(q.Topic) {
			continue
		}
		unused = append(unused, q.Topic)
	}
	if len(unused) > 0 {
		if err := b.deleteTopics(unused); err != nil {
			return err
		}
	}
	return r.OK(nil, nil)
}

// handleRequestMode serves SET_MESSAGE_REQUEST_MODE. Groups can only be set to pull: there is no POP here.
func (b *Broker) handleRequestMode(r *remoting.Request) error {
	var mode body.SetMessageRequestModeRequestBody
	if err := decodeBody(r, &mode); err != nil {
		return err
	}
	switch {
	case message.IsRetryTopic(mode.Topic):
		return code.New(code.NoPermission, "retry topic is not allowed to set mode")
	case mode.Mode != body.ModePull:
		return errNoPop
	}
	if err := validateTopic(mode.Topic); err != nil {
		return err
	}
	if b.topics.get(mode.Topic) == nil {
		return topicUnknown(mode.Topic)
	}
	if _, err := b.group(r, mode.ConsumerGroup); err != nil {
		return err
	}
	if err := b.commit(state.RequestModePut(&mode)); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

var errNoPop = code.New(code.SystemError, "POP is not supported by this broker; groups can pull")

// handleAllRequestModes serves GET_ALL_MESSAGE_REQUEST_MODE.
func (b *Broker) handleAllRequestModes(r *remoting.Request) error {
	return r.OK(nil, fastjson.Marshal(b.store.State.RequestModeTable()))
}
