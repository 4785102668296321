package broker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// schedule delivers the messages of SCHEDULE_TOPIC_XXXX when they are due (ScheduleMessageService). Each queue holds one delay
// level, so its messages are due in the order in which they lie there.
//
// How far a level has been delivered is part of the state: the record that says so is appended together with the messages, and a
// restart or another broker goes on from there.
type schedule struct {
	b      *Broker
	next   map[int32]int64 // by queue: the first message that is not delivered
	batch  deliveries
	failed bool  // the last append has failed: say so once
	epoch  int32 // of which next is
}

// Bounds of the time between two looks at the queues. The longest lets the schedule notice a clock that is set forward.
const (
	minScheduleSleep = 10 * time.Millisecond
	maxScheduleSleep = time.Second
)

// scheduleRetry is the pause after a failed delivery.
const scheduleRetry = 500 * time.Millisecond

// Limits of one append of the schedule.
const (
	maxDeliveries    = 64
	maxDeliveryBytes = 256 << 10
)

func newSchedule(b *Broker) *schedule { return &schedule{b: b, next: map[int32]int64{}} }

// run delivers until ctx ends. It sleeps until the next message is due. Arrivals need not wake it: a message of a level cannot be
// due before that level's delay has passed, and by then it has looked again.
func (s *schedule) run(ctx context.Context) error {
	timer := s.b.clk.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		start := s.b.clk.NowMs()
		wait, err := s.step(start)
		if err != nil && !s.failed {
			s.b.log.Error("delayed messages are due and cannot be delivered; it is tried again", zap.Error(err))
		}
		if err == nil && s.failed {
			s.b.log.Info("delayed messages are delivered again")
		}
		s.failed = err != nil
		timer.Reset(wait - ms(s.b.clk.NowMs()-start))
	}
}

// step delivers at most one batch of each level and returns when to come again.
func (s *schedule) step(nowMs int64) (wait time.Duration, err error) {
	wait = maxScheduleSleep
	levels := s.b.store.Queues.Topic(store.ScheduleTopic)
	if levels == nil || !s.b.leads() {
		return wait, nil
	}
	if epoch := s.b.epoch(); epoch != s.epoch {
		s.epoch = epoch
		clear(s.next) // another master may have gone on
	}
	for _, q := range levels.Queues() {
		w, e := s.deliver(q, nowMs)
		if e != nil {
			w, err = scheduleRetry, errors.Join(err, fmt.Errorf("delay level %d: %w", level(q), e))
		}
		wait = min(wait, w)
	}
	s.b.store.Advance()
	return wait, err
}

// level is the delay level that a queue holds.
func level(q *queue.Queue) int32 { return q.ID + 1 }

// deliver appends the next due messages of one level.
func (s *schedule) deliver(q *queue.Queue, nowMs int64) (wait time.Duration, err error) {
	from := s.from(q)
	d := &s.batch
	d.reset(from)
	if wait, err = s.collect(d, q, nowMs); err != nil || d.next == from {
		return wait, err
	}
	if d.orphans > 0 {
		s.b.log.Warn("delayed messages have no topic any more: they are not delivered", zap.Int("messages", d.orphans), zap.String("topic", d.orphan))
	}
	progress, err := stateDraft(nowMs, state.DelayOffsetPut(level(q), d.next))
	if err != nil {
		return 0, err
	}
	if err := s.append(d, progress); err != nil {
		return 0, err
	}
	s.next[q.ID] = d.next
	for _, e := range d.entries {
		s.b.stats.delivered(e.Draft.Topic, kindDelay, e.Draft.Size())
	}
	return wait, nil
}

// from returns the first message of a queue that is not delivered.
func (s *schedule) from(q *queue.Queue) int64 {
	next, known := s.next[q.ID]
	if !known {
		next, _ = s.b.store.State.DelayOffset(level(q))
	}
	low, high := q.Min(), q.Max()
	if next < low {
		s.b.log.Warn("delayed messages were deleted before they were delivered: fileReservedTime is shorter than their delay, or the disk was full",
			zap.Int32("level", level(q)), zap.Int64("from", next), zap.Int64("to", low))
		s.next[q.ID] = low
		return low
	}
	return min(next, high)
}

// append stores the messages and the record of the progress as one, or, if that does not fit into a segment of the log, one by
// one: the record last, so that a message may come twice but never gets lost.
func (s *schedule) append(d *deliveries, progress *message.Draft) error {
	entries := append(d.entries, commitlog.Entry{Draft: progress})
	err := s.b.store.Append(entries, nil)
	if !errors.Is(err, commitlog.ErrTooLarge) {
		return err
	}
	for i := range entries {
		if err := s.b.store.Append(entries[i:i+1], nil); errors.Is(err, commitlog.ErrTooLarge) {
			s.b.log.Error("a delayed message does not fit into a segment of the log: it stays undelivered", zap.String("topic", entries[i].Draft.Topic), zap.Int("bytes", entries[i].Draft.Size()))
		} else if err != nil {
			return err
		}
	}
	return nil
}

// stateDraft is the record of changes of the state, to be appended together with messages.
func stateDraft(nowMs int64, changes ...state.Change) (*message.Draft, error) {
	nobody := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	d := &message.Draft{Topic: state.Topic, BornTimestamp: nowMs, BornHost: nobody, StoreHost: nobody, Body: state.Append(nil, changes...)}
	return d, d.Prepare()
}

// deliveries are the messages of one append. The buffers are used again.
type deliveries struct {
	next    int64 // behind the last message that was looked at
	bytes   int
	orphans int    // messages without a topic
	orphan  string // the topic of the last of them
	entries []commitlog.Entry
	drafts  [maxDeliveries]message.Draft
	records [maxDeliveries][]byte
	props   [maxDeliveries][]byte
}

func (d *deliveries) reset(from int64) {
	d.next, d.bytes, d.orphans, d.entries = from, 0, 0, d.entries[:0]
}

func (d *deliveries) full() bool {
	return len(d.entries) == maxDeliveries || d.bytes >= maxDeliveryBytes
}

// collect takes the due messages, as many as one append may have, and returns when to come again.
func (s *schedule) collect(d *deliveries, q *queue.Queue, nowMs int64) (wait time.Duration, err error) {
	delay := s.b.store.DelayOf(int(level(q)))
	var units [maxDeliveries]queue.Unit
	for d.next < q.Max() {
		n, err := q.Read(d.next, units[:])
		if err != nil {
			return 0, err
		}
		for _, u := range units[:n] {
			if d.full() {
				return 0, nil
			}
			if left := dueIn(u.Tags, nowMs, delay); left > 0 && !u.Filler() {
				return left, nil
			}
			if err := s.take(d, u); err != nil {
				return 0, err
			}
			d.next++
		}
	}
	return max(delay/2, minScheduleSleep), nil // a message that is stored and not yet confirmed is due a little earlier than a whole delay from now
}

// dueIn is how long a message that is due at dueMs has still to wait, 0 if it is due. One that is due later than a whole delay
// from now comes from a clock that was ahead, or from a longer delay in an earlier configuration: it is delivered now.
func dueIn(dueMs, nowMs int64, delay time.Duration) time.Duration {
	left := time.Duration(dueMs-nowMs) * time.Millisecond
	if left < 0 || left > delay {
		return 0
	}
	return left
}

// take adds the message of a unit to the append. A message that is gone, or whose topic is, is passed over.
func (s *schedule) take(d *deliveries, u queue.Unit) error {
	if u.Filler() || u.Phy < s.b.store.Log.Min() {
		return nil
	}
	i := len(d.entries)
	var v message.View
	var err error
	if d.records[i], err = s.b.store.Log.Record(u.Phy, d.records[i], &v); err != nil {
		if u.Phy < s.b.store.Log.Min() {
			return nil
		}
		return err
	}
	props := v.Properties()
	topic, queueID := s.target(props)
	if topic == nil {
		d.orphans++
		d.orphan = string(props.Lookup(message.PropRealTopic))
		return nil
	}
	d.props[i] = props.Without(d.props[i][:0], forgottenDelay)
	d.drafts[i] = message.Draft{Topic: topic.TopicName, QueueID: queueID, Flag: v.Flag(), SysFlag: v.SysFlag(), BornTimestamp: v.BornTimestamp(),
		BornHost: v.BornHost(), StoreHost: s.b.storeHost, ReconsumeTimes: v.ReconsumeTimes(), Body: v.Body(), Properties: d.props[i], CRC: s.b.conf.Load().EnabledAppendPropCRC}
	if err := d.drafts[i].Prepare(); err != nil { // it must not keep those behind it
		s.b.log.Error("a delayed message cannot be stored in its topic: it stays undelivered", zap.String("topic", topic.TopicName), zap.Int64("phyOffset", u.Phy), zap.Error(err))
		return nil
	}
	to := s.b.store.Queues.GetOrCreate(topic.TopicName, queueID)
	d.entries = append(d.entries, commitlog.Entry{Draft: &d.drafts[i], Next: &to.Next})
	d.bytes += d.drafts[i].Size()
	return nil
}

// target returns the topic and queue that a message was sent to, a nil topic if there is none. A queue that the topic has lost
// is replaced by one that it has.
func (s *schedule) target(p message.Props) (*body.TopicConfig, int32) {
	name := string(p.Lookup(message.PropRealTopic))
	t := s.b.topics.get(name)
	if t == nil || name == halfTopic || name == store.ScheduleTopic {
		return nil, 0
	}
	id, err := strconv.ParseInt(string(p.Lookup(message.PropRealQueueID)), 10, 32)
	if queues := int64(max(t.ReadQueueNums, t.WriteQueueNums, 1)); err != nil || id < 0 || id >= queues {
		id = max(id, 0) % queues
	}
	return t, int32(id)
}

// forgottenDelay tells the properties that a delivered message does not have. REAL_TOPIC and REAL_QID stay: tools read them.
func forgottenDelay(name []byte) bool {
	return delayOwned(name) && string(name) != message.PropRealTopic && string(name) != message.PropRealQueueID
}
