package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// offsets gathers the commits of consumers and writes them to the log in batches: what many consumers commit within a few
// milliseconds is one record. Who asked for an answer gets it when the record is confirmed, and so does who asks for an offset of it:
// a client may commit one-way and read back at once.
type offsets struct {
	b *Broker

	mu     sync.Mutex
	next   *offsetBatch   // is gathered
	flying []*offsetBatch // are in the log and not yet confirmed, the oldest first
	wake   chan struct{}

	pullMu sync.RWMutex
	pull   offsetTable // where each group reads: memory only, for consume statistics
}

// offsetBatch is what is written together.
type offsetBatch struct {
	offsets offsetTable
	commits []remoting.Ticket // who is to be told that it is written
	queries []offsetQuery     // who is to be told what was written
}

func newOffsetBatch(size int) *offsetBatch { return &offsetBatch{offsets: make(offsetTable, size)} }

// offsetQuery is a QUERY_CONSUMER_OFFSET that waits.
type offsetQuery struct {
	key    offsetKey
	ticket remoting.Ticket
}

type offsetKey struct {
	group, topic string
	queue        int32
}

// clone is a key that may be kept: the names of a request die with it.
func (k offsetKey) clone() offsetKey {
	return offsetKey{strings.Clone(k.group), strings.Clone(k.topic), k.queue}
}

// offsetTable holds an offset by queue.
type offsetTable map[offsetKey]*int64

// put sets an offset; the names in k are borrowed. A key that is in the map is never assigned again: that would replace the key
// that the map holds by the borrowed one.
func (t offsetTable) put(k offsetKey, offset int64) {
	if old := t[k]; old != nil {
		*old = offset
		return
	}
	t[k.clone()] = &offset
}

// commitDelay is how long a commit without a waiting client may lie before it is written.
const commitDelay = 5 * time.Millisecond

// maxPullOffsets bounds the table of pull offsets.
const maxPullOffsets = 1 << 20

func newOffsets(b *Broker) *offsets {
	return &offsets{b: b, next: newOffsetBatch(0), wake: make(chan struct{}, 1), pull: offsetTable{}}
}

// commit notes that a group has consumed a queue up to offset. The strings are borrowed.
func (o *offsets) commit(group, topic string, queue int32, offset int64) {
	if offset < 0 {
		return
	}
	if _, reset := o.b.store.State.Reset(group, topic, queue); reset {
		return // the client has not seen the reset yet
	}
	o.mu.Lock()
	o.next.offsets.put(offsetKey{group, topic, queue}, offset)
	o.mu.Unlock()
	o.signal()
}

func (o *offsets) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes the gathered commits.
func (o *offsets) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			o.flush()
			return nil
		case <-o.wake:
		}
		o.mu.Lock()
		hurry := len(o.next.commits)+len(o.next.queries) > 0
		o.mu.Unlock()
		if !hurry {
			timer := o.b.clk.NewTimer(commitDelay)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		o.flush()
	}
}

// maxOffsetRecord is how many bytes of offsets make a record. What many clients commit at once may be more.
const maxOffsetRecord = 256 << 10

// flush proposes what is pending as one record, or as several if that is much.
func (o *offsets) flush() {
	o.mu.Lock()
	batch := o.next
	if len(batch.offsets)+len(batch.commits)+len(batch.queries) == 0 {
		o.mu.Unlock()
		return
	}
	o.next, o.flying = newOffsetBatch(len(batch.offsets)), append(o.flying, batch)
	o.mu.Unlock()
	if !o.b.reigns() { // gathered before this broker lost its role, or from pulls of a replica's messages
		o.settle(batch, code.New(code.ServiceNotAvailable, "this broker is not the master any more"))
		return
	}
	var err error
	body := state.Append(nil)
	for k, v := range batch.offsets {
		if _, reset := o.b.store.State.Reset(k.group, k.topic, k.queue); reset {
			continue // it was gathered before the reset
		}
		if old, ok := o.b.store.State.Offset(k.group, k.topic, k.queue); !ok || old != *v {
			body = state.Append(body, state.OffsetPut(k.group, k.topic, k.queue, *v))
		}
		if len(body) > maxOffsetRecord && err == nil {
			err = o.b.store.ProposeBody(body, nil)
			body = state.Append(body[:0])
		}
	}
	if err == nil {
		err = o.b.store.ProposeBody(body, onDone(func(err error) { o.settle(batch, err) }))
	}
	if err != nil {
		o.b.log.Warn("consumer offsets could not be stored; clients will commit again", zap.Error(err), zap.Int("offsets", len(batch.offsets)))
		o.settle(batch, code.New(code.SystemBusy, "the offset could not be stored: %v", err))
	}
}

// settle answers who waits for a batch. Nobody can join it any more.
func (o *offsets) settle(batch *offsetBatch, err error) {
	o.mu.Lock()
	o.flying = slices.DeleteFunc(o.flying, func(f *offsetBatch) bool { return f == batch })
	o.mu.Unlock()
	for _, t := range batch.commits {
		if err != nil {
			t.Fail(err)
			continue
		}
		t.Reply(code.Success, "", nil, nil)
	}
	for _, q := range batch.queries {
		offset, ok := o.known(q.key)
		switch {
		case err != nil:
			q.ticket.Fail(err)
		case !ok: // the topic or the group was deleted meanwhile
			q.ticket.Fail(errNoOffset)
		default:
			q.ticket.Reply(code.Success, "", &header.QueryConsumerOffsetResponse{Offset: offset}, nil)
		}
	}
}

// known is the offset from which a group is to consume a queue.
func (o *offsets) known(k offsetKey) (offset int64, ok bool) {
	if offset, ok = o.b.store.State.Reset(k.group, k.topic, k.queue); !ok {
		offset, ok = o.b.store.State.Offset(k.group, k.topic, k.queue)
	}
	return offset, ok
}

// ask has a query answered when the last commit of its queue is confirmed. It returns false if none is under way. The names in k are
// borrowed.
func (o *offsets) ask(k offsetKey, r *remoting.Request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch := o.next
	for i := len(o.flying) - 1; batch.offsets[k] == nil; i-- {
		if i < 0 {
			return false
		}
		batch = o.flying[i]
	}
	batch.queries = append(batch.queries, offsetQuery{k.clone(), r.Park()})
	if batch == o.next {
		o.signal()
	}
	return true
}

// pulled notes where a group reads a queue.
func (o *offsets) pulled(h *header.PullMessageRequest, next int64, count, bytes int) {
	o.b.stats.pulled(h.ConsumerGroup, h.Topic, count, bytes)
	k := offsetKey{h.ConsumerGroup, h.Topic, h.QueueID}
	o.pullMu.Lock()
	defer o.pullMu.Unlock()
	if o.pull[k] != nil || len(o.pull) < maxPullOffsets {
		o.pull.put(k, next)
	}
}

// pullOffset returns where a group reads a queue, -1 if it has not.
func (o *offsets) pullOffset(group, topic string, queue int32) int64 {
	o.pullMu.RLock()
	defer o.pullMu.RUnlock()
	if v := o.pull[offsetKey{group, topic, queue}]; v != nil {
		return *v
	}
	return -1
}

// forget drops what is known besides the state: where the queues for which gone holds are read, and commits that are not
// written yet.
func (o *offsets) forget(gone func(offsetKey) bool) {
	match := func(k offsetKey, _ *int64) bool { return gone(k) }
	o.mu.Lock()
	maps.DeleteFunc(o.next.offsets, match)
	o.mu.Unlock()
	o.pullMu.Lock()
	maps.DeleteFunc(o.pull, match)
	o.pullMu.Unlock()
}

// takeReset returns an offset that was set by command and not yet seen by a pull, and takes it off. A replica cannot take it off, and
// would send the consumer back again and again: the master does it when the consumer comes there.
func (o *offsets) takeReset(group, topic string, queue int32) (int64, bool) {
	offset, ok := o.b.store.State.Reset(group, topic, queue)
	if !ok || !o.b.leads() {
		return 0, false
	}
	if err := o.b.store.Propose(nil, state.ResetTake(strings.Clone(group), strings.Clone(topic), queue)); err != nil {
		o.b.log.Warn("a reset offset stays pending", zap.Error(err))
	}
	return offset, true
}

// handleUpdateOffset serves UPDATE_CONSUMER_OFFSET.
func (b *Broker) handleUpdateOffset(r *remoting.Request, h *header.UpdateConsumerOffsetRequest) error {
	switch {
	case !h.QueueID.Ok || !h.CommitOffset.Ok:
		return code.New(code.InvalidParameter, "queueId and commitOffset are required")
	case h.CommitOffset.V < 0:
		return code.New(code.InvalidParameter, "commitOffset %d is negative", h.CommitOffset.V)
	}
	if _, ok := b.store.State.Group(h.ConsumerGroup); !ok {
		return code.New(code.SubscriptionGroupNotExist, "Group %s not exist!", h.ConsumerGroup)
	}
	topic := b.topics.get(h.Topic)
	if topic == nil {
		return code.New(code.TopicNotExist, "Topic %s not exist!", h.Topic)
	}
	if id := h.QueueID.V; (id < 0 || id >= max(topic.ReadQueueNums, topic.WriteQueueNums)) && b.store.Queues.Get(h.Topic, id) == nil {
		// Java keeps an offset for every number that it is told.
		return code.New(code.InvalidParameter, "queueId[%d] is illegal, topic[%s] has %d queues to read", id, h.Topic, topic.ReadQueueNums)
	}
	if _, reset := b.store.State.Reset(h.ConsumerGroup, h.Topic, h.QueueID.V); reset {
		r.Reply(code.Success, "Offset has been previously reset", nil, nil)
		return nil
	}
	o := b.offsets
	o.mu.Lock()
	o.next.offsets.put(offsetKey{h.ConsumerGroup, h.Topic, h.QueueID.V}, h.CommitOffset.V)
	ticket := r.Park()
	if !r.IsOneway() {
		o.next.commits = append(o.next.commits, ticket)
	}
	o.mu.Unlock()
	o.signal()
	return nil
}

// handleQueryOffset serves QUERY_CONSUMER_OFFSET. QUERY_NOT_FOUND makes a client start where it was told to; a young queue that
// is whole answers 0 instead, so that "producer first, consumer later" loses nothing. Java asks the page cache whether the queue
// is young; here it is the distance to the end of the log.
func (b *Broker) handleQueryOffset(r *remoting.Request, h *header.QueryConsumerOffsetRequest) error {
	if h.ConsumerGroup == "" || h.Topic == "" {
		return missing("consumerGroup, topic") // not QUERY_NOT_FOUND, on which clients act
	}
	k := offsetKey{h.ConsumerGroup, h.Topic, h.QueueID}
	if b.offsets.ask(k, r) {
		return nil
	}
	if offset, ok := b.offsets.known(k); ok {
		return r.OK(&header.QueryConsumerOffsetResponse{Offset: offset}, nil)
	}
	if !h.SetZeroIfNotFound.Or(true) {
		return code.New(code.QueryNotFound, "Not found, do not set to zero, maybe this group boot first")
	}
	young, err := b.young(b.store.Queues.Get(h.Topic, h.QueueID), r.OnLane())
	switch {
	case err != nil:
		return b.lanes.query.Redo()
	case young:
		return r.OK(&header.QueryConsumerOffsetResponse{Offset: 0}, nil)
	}
	return errNoOffset
}

var errNoOffset = code.New(code.QueryNotFound, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

// young tells whether a queue is whole and began not long ago. If it may not block, the error vfs.ErrWouldBlock means that it must.
func (b *Broker) young(q *queue.Queue, mayBlock bool) (bool, error) {
	if q == nil || q.Min() > 0 || q.Max() == 0 {
		return false, nil
	}
	read := q.ReadCached
	if mayBlock {
		read = q.Read
	}
	var first [1]queue.Unit
	_, err := read(0, first[:])
	if errors.Is(err, vfs.ErrWouldBlock) {
		return false, err
	}
	return err == nil && b.store.Dispatched()-first[0].Phy <= youngBytes, nil
}

// youngBytes is how far behind the end of the log a queue's first message may lie for the queue to count as young.
const youngBytes = 4 << 30

// handleMaxOffset serves GET_MAX_OFFSET.
func (b *Broker) handleMaxOffset(r *remoting.Request, h *header.GetMaxOffsetRequest) error {
	var resp header.GetMaxOffsetResponse
	if q := b.store.Queues.Get(h.Topic, h.QueueID); q != nil {
		resp.Offset = q.Max()
	}
	return r.OK(&resp, nil)
}

// handleMinOffset serves GET_MIN_OFFSET.
func (b *Broker) handleMinOffset(r *remoting.Request, h *header.GetMinOffsetRequest) error {
	var resp header.GetMinOffsetResponse
	if q := b.store.Queues.Get(h.Topic, h.QueueID); q != nil {
		resp.Offset = q.Min()
	}
	return r.OK(&resp, nil)
}

// handleSearchOffset serves SEARCH_OFFSET_BY_TIMESTAMP, in a lane: it reads records all over the queue.
func (b *Broker) handleSearchOffset(r *remoting.Request, h *header.SearchOffsetRequest) error {
	side := store.Lower
	if h.Upper() {
		side = store.Upper
	}
	offset, err := b.store.OffsetByTime(b.store.Queues.Get(h.Topic, h.QueueID), h.Timestamp, side)
	if err != nil {
		return err
	}
	return r.OK(&header.SearchOffsetResponse{Offset: offset}, nil)
}

// handleEarliestTime serves GET_EARLIEST_MSG_STORETIME.
func (b *Broker) handleEarliestTime(r *remoting.Request, h *header.GetEarliestMsgStoretimeRequest) error {
	return r.OK(&header.GetEarliestMsgStoretimeResponse{Timestamp: b.store.EarliestTime(b.store.Queues.Get(h.Topic, h.QueueID))}, nil)
}
