package broker

import (
	"errors"
	"strings"
	"sync"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/queue"
)

// Bits of a pull's sysFlag (PullSysFlag).
const (
	pullCommit       = 0x1
	pullSuspend      = 0x2
	pullSubscription = 0x4
)

// pullFlags are the flags of topic and group that every answer carries.
type pullFlags struct{ topic, group int32 }

// pullOp is what one pull needs to be answered. It is pooled.
type pullOp struct {
	plan store.Plan
	resp header.PullMessageResponse
}

var pullOps = sync.Pool{New: func() any { return new(pullOp) }}

// refused is NO_PERMISSION with the reason in the header (ForbiddenType).
func refusedPull(r *remoting.Request, kind int32, remark string) error {
	r.Reply(code.NoPermission, remark, &header.PullMessageResponse{ForbiddenType: header.Some(kind)}, nil)
	return nil
}

// handlePull serves PULL_MESSAGE and LITE_PULL_MESSAGE (PullMessageProcessor): the checks in Java's order, then the read.
func (b *Broker) handlePull(r *remoting.Request, h *header.PullMessageRequest) error {
	c := b.conf.Load()
	if c.BrokerPermission&permRead == 0 {
		return refusedPull(r, 1, "the broker["+c.BrokerIP1+"] pulling message is forbidden")
	}
	if code.Request(r.Code) == code.LitePullMessage && !c.LitePullMessageEnable {
		return refusedPull(r, 1, "the broker["+c.BrokerIP1+"] for lite pull consumer is forbidden")
	}
	if h.ConsumerGroup == "" {
		return missing("consumerGroup")
	}
	group, err := b.group(r, h.ConsumerGroup)
	if err != nil {
		return err
	}
	if !group.ConsumeEnable {
		return refusedPull(r, 2, "subscription group no permission, "+h.ConsumerGroup)
	}
	topic := b.topics.get(h.Topic)
	if topic == nil {
		return code.New(code.TopicNotExist, "topic[%s] not exist, apply first please!%s", h.Topic, faq)
	}
	if topic.Perm&permRead == 0 {
		return refusedPull(r, 3, "the topic["+h.Topic+"] pulling message is forbidden")
	}
	if h.QueueID < 0 || h.QueueID >= topic.ReadQueueNums {
		return code.New(code.InvalidParameter, "queueId[%d] is illegal, topic:[%s] topicConfig.readQueueNums:[%d] consumer:[%s]", h.QueueID, h.Topic, topic.ReadQueueNums, r.Conn.RemoteAddr())
	}
	sub, err := b.pullSubscriptionOf(r, h, group)
	if sub == nil || err != nil {
		return err
	}
	flags := pullFlags{topic.TopicSysFlag, group.GroupSysFlag}
	q := b.store.Queues.Get(topic.TopicName, h.QueueID)
	if h.SysFlag&pullCommit != 0 && !r.OnLane() {
		b.offsets.commit(group.GroupName, topic.TopicName, h.QueueID, h.CommitOffset)
	}
	return b.pullFirst(r, h, q, topic, sub, flags)
}

// pullFirst reads for a pull that has just come, and holds it if there is nothing yet.
func (b *Broker) pullFirst(r *remoting.Request, h *header.PullMessageRequest, q *queue.Queue, topic *body.TopicConfig, sub *subscription, flags pullFlags) error {
	op := pullOps.Get().(*pullOp)
	defer pullOps.Put(op)
	f := sub.filter(h.Topic, b.conf.Load())
	offset, reset := b.offsets.takeReset(h.ConsumerGroup, topic.TopicName, h.QueueID)
	broadcast := b.broadcasts.reader(r.Conn, h)
	if broadcast != "" && !reset {
		var err error
		if offset, reset, err = b.broadcasts.start(broadcast, h, q, r.OnLane()); err != nil {
			return b.lanes.pull.Redo()
		}
	}
	if reset {
		op.plan.Reset(offset, q)
	} else if err := b.store.Read(&op.plan, q, h.QueueOffset, b.limits(h), f, !r.OnLane()); errors.Is(err, store.ErrCold) {
		return b.lanes.pull.Redo()
	} else if err != nil {
		return err
	}
	rc := b.pullCode(&op.plan, h.QueueOffset)
	if broadcast != "" {
		b.broadcasts.pulled(broadcast, h, &op.plan, rc)
	}
	if rc == code.PullNotFound && h.SysFlag&pullSuspend != 0 {
		if q == nil { // so that there is something to watch
			q = b.store.Queues.GetOrCreate(topic.TopicName, h.QueueID)
		}
		wait := h.SuspendTimeoutMillis
		if c := b.conf.Load(); !c.LongPollingEnable {
			wait = c.ShortPollingTimeMills
		}
		p := &heldPull{ticket: r.Hold(), q: q, filter: f, flags: flags, deadline: b.clk.NowMs() + wait, weight: 1 + len(h.Subscription)/heldText}
		p.h = header.PullMessageRequest{ConsumerGroup: strings.Clone(h.ConsumerGroup), Topic: topic.TopicName, QueueID: h.QueueID, QueueOffset: h.QueueOffset, MaxMsgNums: h.MaxMsgNums}
		if b.holds.hold(p) {
			return nil
		}
	}
	op.fill(b, flags)
	b.offsets.pulled(h, op.plan.Next, op.plan.Count, op.plan.Len())
	r.ReplyBody(rc, op.plan.Status.String(), &op.resp, op.body())
	return nil
}

// pullAgain answers a pull that was held, with whatever there is now. A quick one is left unanswered, and false returned, if that
// takes a read from the disk.
func (b *Broker) pullAgain(p *heldPull, quick bool) bool {
	op := pullOps.Get().(*pullOp)
	defer pullOps.Put(op)
	if offset, ok := b.offsets.takeReset(p.h.ConsumerGroup, p.h.Topic, p.h.QueueID); ok {
		op.plan.Reset(offset, p.q)
	} else if err := b.store.Read(&op.plan, p.q, p.h.QueueOffset, b.limits(&p.h), p.filter, quick); quick && errors.Is(err, store.ErrCold) {
		return false
	} else if err != nil {
		p.ticket.Fail(err)
		return true
	}
	rc := b.pullCode(&op.plan, p.h.QueueOffset)
	op.fill(b, p.flags)
	b.offsets.pulled(&p.h, op.plan.Next, op.plan.Count, op.plan.Len())
	p.ticket.Reply(rc, op.plan.Status.String(), &op.resp, op.body())
	return true
}

// fill makes the header of the answer.
func (op *pullOp) fill(b *Broker, flags pullFlags) {
	op.resp = header.PullMessageResponse{NextBeginOffset: op.plan.Next, MinOffset: op.plan.Min, MaxOffset: op.plan.Max,
		TopicSysFlag: header.Some(flags.topic), GroupSysFlag: header.Some(flags.group)}
}

// body is nil unless messages were found: clients decode whatever body there is.
func (op *pullOp) body() remoting.Body {
	if op.plan.Status != store.Found {
		return nil
	}
	return &op.plan
}

// pullCode translates what a read found. Only a master whose queues are complete moves an offset: elsewhere the messages at an
// offset that is too high may be on their way.
func (b *Broker) pullCode(p *store.Plan, asked int64) code.Response {
	rc := pullCode(p, asked)
	if rc == code.PullOffsetMoved && p.Status != store.OffsetTooSmall && p.Status != store.OffsetReset && !b.leads() {
		p.Next = asked
		return code.PullNotFound
	}
	return rc
}

// pullCode translates what a read found (PullMessageProcessor).
func pullCode(p *store.Plan, asked int64) code.Response {
	switch p.Status {
	case store.Found:
		return code.Success
	case store.NoMatchedMessage, store.MessageWasRemoving:
		return code.PullRetryImmediately
	case store.NoMatchedLogicQueue, store.NoMessageInQueue:
		if asked != 0 {
			return code.PullOffsetMoved
		}
		return code.PullNotFound
	case store.OffsetFoundNull, store.OffsetOverflowOne:
		return code.PullNotFound
	}
	return code.PullOffsetMoved
}

// limits of one pull: in bytes and messages, and how many units a filter may look at.
func (b *Broker) limits(h *header.PullMessageRequest) store.Limits {
	c := b.conf.Load()
	n := max(1, int(h.MaxMsgNums))
	return store.Limits{Count: min(n, int(c.MaxTransferCountOnMessageInMemory)), Bytes: int(c.MaxTransferBytesOnMessageInMemory), ScanUnits: max(maxFilterBytes/queue.UnitSize, min(n, maxScanUnits))}
}

// maxFilterBytes is maxFilterMessageSize: the bytes of queue units that one pull may look at.
const maxFilterBytes = 16000

// maxScanUnits bounds what a pull for a huge number of messages may look at.
const maxScanUnits = 4096

// pullSubscriptionOf finds what the pull wants: its own expression, or what its group registered by heartbeat. A nil
// subscription without an error means that the request has been answered.
func (b *Broker) pullSubscriptionOf(r *remoting.Request, h *header.PullMessageRequest, group *body.SubscriptionGroupConfig) (*subscription, error) {
	var sub *subscription
	if h.SysFlag&pullSubscription != 0 {
		var err error
		if sub, err = b.parseSubscription(h.Topic, h.Subscription, h.ExpressionType, h.SubVersion); err != nil {
			return nil, code.New(code.SubscriptionParseFailed, "parse the consumer's subscription failed")
		}
	} else {
		g := b.clients.consumerGroup(h.ConsumerGroup)
		if g == nil {
			return nil, code.New(code.SubscriptionNotExist, "the consumer's group info not exist%s", faq)
		}
		if !group.ConsumeBroadcastEnable && g.broadcasting() {
			return nil, refusedPull(r, 4, "the consumer group["+h.ConsumerGroup+"] can not consume by broadcast way")
		}
		if b.store.State.Forbidden(h.ConsumerGroup, h.Topic)&forbiddenRead != 0 {
			return nil, refusedPull(r, 5, "the consumer group["+h.ConsumerGroup+"] is forbidden for topic["+h.Topic+"]")
		}
		sub = g.subscription(h.Topic)
		if sub == nil {
			return nil, code.New(code.SubscriptionNotExist, "the consumer's subscription not exist%s", faq)
		}
		if sub.data.SubVersion < h.SubVersion {
			b.clients.askSubscriptions(r.Conn, h.ConsumerGroup)
			if !isTag(h.ExpressionType) || sub.tags == nil && h.ExpressionType == "" {
				return nil, code.New(code.SubscriptionNotLatest, "the consumer's subscription not latest")
			}
			sub = everything // clients look at the tags themselves, too
		}
	}
	if sub.tags == nil && !b.conf.Load().EnablePropertyFilter {
		return nil, code.New(code.SystemError, "The broker does not support consumer to filter message by %s", sub.data.ExpressionType)
	}
	if sub.err != nil {
		return nil, code.New(code.FilterDataNotExist, "The broker's consumer filter data is not exist!Your expression may be wrong!: %v", sub.err)
	}
	return sub, nil
}

// forbiddenRead is the bit of a group's forbidden topics (SubscriptionGroupConfig, INDEX_PERM_READ).
const forbiddenRead = 4
