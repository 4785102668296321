package broker

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
)

// firstRetryLevel is the delay level of a message's first retry; each further one takes the next.
const firstRetryLevel = 3

// handleSendBack serves CONSUMER_SEND_MSG_BACK (AbstractSendMessageProcessor): a message that could not be consumed goes to the
// retry topic of its group, by way of a delay queue, or to the dead letters. Unlike Java's broker this one makes sure that the
// message is the one that the consumer means, and answers when the copy is confirmed.
func (b *Broker) handleSendBack(r *remoting.Request, h *header.ConsumerSendMsgBackRequest) error {
	if err := b.unconfirmable(); err != nil {
		return err
	}
	group, err := b.group(r, h.Group)
	if err != nil {
		return err
	}
	c := b.conf.Load()
	if c.BrokerPermission&permWrite == 0 {
		return code.New(code.NoPermission, "the broker[%s] sending message is forbidden", c.BrokerIP1)
	}
	if group.RetryQueueNums <= 0 {
		return r.OK(nil, nil) // the group wants no retries
	}
	if !r.OnLane() && !b.store.Log.Hot(h.Offset) {
		return b.lanes.query.Redo()
	}
	var v message.View
	if !b.record(h.Offset, &v) {
		return code.New(code.SystemError, "look message by offset failed, %d", h.Offset)
	}
	if !isMessage(&v, h.OriginMsgID) {
		return code.New(code.SystemError, "look message by offset failed, %d: the message there is another", h.Offset)
	}
	limit := group.RetryMaxTimes
	if r.Version >= versionMaxReconsume && h.MaxReconsumeTimes.Ok {
		limit = h.MaxReconsumeTimes.V
	}
	dead := v.ReconsumeTimes() >= limit || h.DelayLevel < 0
	topic, err := b.retryTarget(r, group, dead)
	if err != nil {
		return err
	}
	level := int(h.DelayLevel)
	if level == 0 {
		level = max(1, firstRetryLevel+int(v.ReconsumeTimes())) // the count is what a producer has said, any number
	}
	d := b.retryDraft(&v, topic.TopicName, dead)
	if dead {
		d.QueueID = 0
	} else {
		d.QueueID = rand.Int32N(min(group.RetryQueueNums, topic.WriteQueueNums))
		d.MoreProperties = message.AppendProp(nil, message.PropDelay, strconv.Itoa(level))
		d.MoreProperties = b.delay(d.MoreProperties, d, level)
	}
	origin := retryOrigin(&v)
	return b.storeBack(r, d, func(size int) {
		b.stats.sentBack(group.GroupName, origin, size)
		if dead {
			b.stats.deadLettered(group.GroupName, origin)
		}
	})
}

// isMessage tells whether a record is the message that a client knows under id: by its unique key, or by the id made of address
// and offset. An empty id is any message.
func isMessage(v *message.View, id string) bool {
	if id == "" {
		return true
	}
	p := v.Properties()
	if unique := p.Lookup(message.PropUniqueKey); unique != nil {
		return string(unique) == id || string(p.Lookup(message.PropOriginMessageID)) == id || offsetID(v) == strings.ToUpper(id)
	}
	return offsetID(v) == strings.ToUpper(id)
}

func offsetID(v *message.View) string {
	return string(message.AppendID(nil, v.StoreHost(), v.PhyOffset()))
}

// retryTarget returns the retry topic of a group or its dead letter topic, made on the spot if it is missing.
func (b *Broker) retryTarget(r *remoting.Request, group *body.SubscriptionGroupConfig, dead bool) (*body.TopicConfig, error) {
	name, queues := message.RetryPrefix+group.GroupName, group.RetryQueueNums
	if dead {
		name, queues = message.DLQPrefix+group.GroupName, 1
	}
	t := b.topics.get(name)
	if t == nil {
		if !r.OnLane() {
			return nil, b.lanes.admin.Redo()
		}
		var err error
		if t, err = b.topics.ensure(name, queues, permRead|permWrite); err != nil {
			return nil, err
		}
	}
	if t.Perm&permWrite == 0 || t.WriteQueueNums <= 0 {
		return nil, code.New(code.NoPermission, "the topic[%s] sending message is forbidden", name)
	}
	return t, nil
}

// retryDraft copies a message for another attempt or for the dead letters. It aliases the record.
func (b *Broker) retryDraft(v *message.View, topic string, dead bool) *message.Draft {
	p := v.Properties()
	text := p.Without(make([]byte, 0, len(p)+128), rewritten)
	origin := retryOrigin(v)
	text = message.AppendProp(text, message.PropRetryTopic, origin)
	first := p.Lookup(message.PropOriginMessageID)
	if first == nil {
		first = []byte(offsetID(v))
	}
	text = message.AppendProp(text, message.PropOriginMessageID, first)
	if dead {
		unique := p.Lookup(message.PropUniqueKey)
		if unique == nil {
			unique = first
		}
		text = message.AppendProp(text, message.PropDLQOriginTopic, origin)
		text = message.AppendProp(text, message.PropDLQOriginID, unique)
	}
	return &message.Draft{Topic: topic, Flag: v.Flag(), SysFlag: v.SysFlag(), BornTimestamp: v.BornTimestamp(), BornHost: v.BornHost(), StoreHost: b.storeHost,
		ReconsumeTimes: v.ReconsumeTimes() + 1, Body: v.Body(), Properties: text, CRC: b.conf.Load().EnabledAppendPropCRC}
}

// retryOrigin is the topic that a message was first sent to.
func retryOrigin(v *message.View) string {
	if topic, ok := v.Properties().Get(message.PropRetryTopic); ok {
		return topic
	}
	return string(v.Topic())
}

// rewritten tells the properties that a copy for another attempt has anew or not at all.
func rewritten(name []byte) bool {
	switch string(name) {
	case message.PropRetryTopic, message.PropOriginMessageID, message.PropDLQOriginTopic, message.PropDLQOriginID:
		return true
	}
	return delayOwned(name)
}

// delayOwned tells the properties that send a message through a delay, and the checksum, which is made anew.
func delayOwned(name []byte) bool {
	switch string(name) {
	case message.PropDelay, message.PropRealTopic, message.PropRealQueueID, message.PropTimerDelaySec, message.PropTimerDelayMs, message.PropTimerDeliverMs,
		message.PropCRC32:
		return true
	}
	return false
}

// storeBack appends the copy; the answer waits for its confirmation. A copy that is stored but not confirmed in time counts as
// failed: the consumer tries again, and a message that comes twice is better than one that does not come.
// stored is called if it is confirmed.
func (b *Broker) storeBack(r *remoting.Request, d *message.Draft, stored func(size int)) error {
	if err := d.Prepare(); err != nil {
		return code.New(code.MessageIllegal, "%v", err)
	}
	ticket, size := r.Park(), d.Size()
	q := b.store.Queues.GetOrCreate(d.Topic, d.QueueID)
	err := b.store.Append([]commitlog.Entry{{Draft: d, Next: &q.Next}}, onDone(func(err error) {
		switch {
		case err == nil:
			stored(size)
			ticket.Put(code.Success, "", nil, nil)
		case errors.Is(err, store.ErrFlushTimeout):
			ticket.Put(code.SystemError, "FLUSH_DISK_TIMEOUT", nil, nil)
		case errors.Is(err, store.ErrReplicaTimeout):
			ticket.Put(code.SystemError, "FLUSH_SLAVE_TIMEOUT", nil, nil)
		default:
			ticket.Put(code.SystemError, err.Error(), nil, nil)
		}
		b.holds.answered(ticket.Conn)
	}))
	return b.putError(err)
}
