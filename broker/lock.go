package broker

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

// Times of a lock, in ms (RebalanceLockManager and ProcessQueue). A client renews every 20 s.
const (
	lockLive  = 60_000 // how long a lock lasts
	lockTrust = 30_000 // how long a client relies on one that it was granted
	lockRest  = 20_000 // how old the log's record of a lock may get before a renewal writes a new one
)

// maxLockQueues bounds the queues of one request.
const maxLockQueues = 10_000

// locks says which client consumes which queue in order. The locks are part of the state: one is granted when its record is
// confirmed, so there is one owner also after another broker has taken over.
type locks struct {
	b *Broker

	mu      sync.Mutex
	pending map[offsetKey]*lockOp // the last record of a queue that is appended and not confirmed; appends happen under mu
}

// lockOp is a record of lock changes on its way to the confirm offset, all of them for one client or all of them releases.
type lockOp struct {
	l      *locks
	owner  string // empty: the queues are set free
	keys   []offsetKey
	ticket *remoting.Ticket // nil if nobody waits for the record
	held   []body.MessageQueue
	asked  []body.MessageQueue // granted with the record
}

func newLocks(b *Broker) *locks { return &locks{b: b, pending: map[offsetKey]*lockOp{}} }

// lockVerdict is what a request for a queue comes to.
type lockVerdict int

const (
	lockRefused lockVerdict = iota // another client has it
	lockHeld                       // granted at once
	lockRenewed                    // granted at once, and to be written
	lockClaimed                    // granted when it is written
)

// judge decides about a queue that has owner until expires, by the log or, if sure is false, by a record on its way into it.
func judge(owner string, expires int64, sure bool, client string, now int64) lockVerdict {
	switch {
	case owner == "" || expires <= now:
		return lockClaimed
	case owner != client:
		return lockRefused
	case !sure || expires-now < lockTrust:
		return lockClaimed
	case expires-now < lockLive-lockRest:
		return lockRenewed
	}
	return lockHeld
}

// ownerLocked returns who has a queue, or will have it when everything that is appended is confirmed.
func (l *locks) ownerLocked(k offsetKey, now int64) (owner string, expires int64, sure bool) {
	if op := l.pending[k]; op != nil {
		return op.owner, now + lockLive, false
	}
	lock, ok := l.b.store.State.Lock(k.group, k.topic, k.queue)
	if !ok {
		return "", 0, true
	}
	return lock.ClientID, lock.ExpiresMs, true
}

// handleLock serves LOCK_BATCH_MQ. A queue that is not granted is missing from the answer; there is no error for it.
func (b *Broker) handleLock(r *remoting.Request, _ *header.LockBatchMqRequest) error {
	var q body.LockBatchRequestBody
	if err := fastjson.Unmarshal(r.Body, &q); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if err := checkLock(q.ConsumerGroup, q.ClientID, q.MqSet); err != nil {
		return err
	}
	op := &lockOp{l: b.locks, owner: q.ClientID}
	wait, err := b.locks.take(op, q.ConsumerGroup, q.MqSet, r.Park())
	if err != nil {
		b.log.Warn("locks could not be written; clients ask again", zap.String("group", q.ConsumerGroup), zap.Error(err))
	}
	if !wait {
		return r.OK(nil, op.answer(err))
	}
	return nil
}

func checkLock(group, client string, queues []body.MessageQueue) error {
	if group == "" || client == "" || len(group) > maxGroupTopic || len(client) > maxGroupTopic || len(queues) > maxLockQueues {
		return code.New(code.InvalidParameter, "consumerGroup and clientId are required, and at most %d queues at once", maxLockQueues)
	}
	return nil
}

// take judges the queues and appends what is to be written. wait tells that the record answers the ticket when it is confirmed.
func (l *locks) take(op *lockOp, group string, queues []body.MessageQueue, t remoting.Ticket) (wait bool, err error) {
	now := l.b.clk.NowMs()
	var changes []state.Change
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, mq := range queues {
		if mq.QueueID < 0 || len(mq.Topic) > maxGroupTopic {
			continue
		}
		k := offsetKey{group, mq.Topic, mq.QueueID}
		owner, expires, sure := l.ownerLocked(k, now)
		switch judge(owner, expires, sure, op.owner, now) {
		case lockRefused:
			continue
		case lockHeld:
			op.held = append(op.held, mq)
			continue
		case lockRenewed:
			op.held = append(op.held, mq)
		case lockClaimed:
			op.asked = append(op.asked, mq)
		}
		op.keys = append(op.keys, k)
		changes = append(changes, state.LockPut(group, mq.Topic, mq.QueueID, op.owner, now+lockLive))
	}
	if len(op.asked) > 0 {
		op.ticket = &t
	}
	err = l.appendLocked(op, changes)
	return err == nil && op.ticket != nil, err
}

// appendLocked appends changes of locks in the order in which they were decided. The store is to be advanced afterwards.
func (l *locks) appendLocked(op *lockOp, changes []state.Change) error {
	if len(changes) == 0 {
		return nil
	}
	d, err := stateDraft(l.b.clk.NowMs(), changes...)
	if err != nil {
		return err
	}
	if err := l.b.store.Append([]commitlog.Entry{{Draft: d}}, op); err != nil {
		return err
	}
	for _, k := range op.keys {
		l.pending[k] = op
	}
	return nil
}

// stateDraft is the record of changes of the state, for appends that the store's Propose does not fit.
func stateDraft(nowMs int64, changes ...state.Change) (*message.Draft, error) {
	nobody := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	d := &message.Draft{Topic: state.Topic, BornTimestamp: nowMs, BornHost: nobody, StoreHost: nobody, Body: state.Append(nil, changes...)}
	return d, d.Prepare()
}

var _ store.Waiter = (*lockOp)(nil)

// Done takes the queues off the pending list and answers the client, if it waits.
func (op *lockOp) Done(err error) {
	op.l.mu.Lock()
	for _, k := range op.keys {
		if op.l.pending[k] == op {
			delete(op.l.pending, k)
		}
	}
	op.l.mu.Unlock()
	if op.ticket != nil {
		op.reply(err)
	}
}

func (op *lockOp) reply(err error) {
	switch {
	case op.owner != "":
		op.ticket.Reply(code.Success, "", nil, remoting.Bytes(op.answer(err)))
	case err != nil:
		op.ticket.Fail(err)
	default:
		op.ticket.Reply(code.Success, "", nil, nil)
	}
}

// answer is the body for the client: what it holds. Without confirmation that is only what it held before.
func (op *lockOp) answer(err error) []byte {
	ok := op.held
	if err == nil {
		ok = append(ok, op.asked...)
	}
	return fastjson.Marshal(&body.LockBatchResponseBody{LockOKMQSet: ok})
}

// handleUnlock serves UNLOCK_BATCH_MQ: locks of other clients stay.
func (b *Broker) handleUnlock(r *remoting.Request, _ *header.UnlockBatchMqRequest) error {
	var q body.UnlockBatchRequestBody
	if err := fastjson.Unmarshal(r.Body, &q); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	if err := checkLock(q.ConsumerGroup, q.ClientID, q.MqSet); err != nil {
		return err
	}
	keys := make([]offsetKey, 0, len(q.MqSet))
	for _, mq := range q.MqSet {
		keys = append(keys, offsetKey{q.ConsumerGroup, mq.Topic, mq.QueueID})
	}
	t := r.Park()
	op := &lockOp{l: b.locks, ticket: &t}
	some, err := b.locks.free(op, keys, func(owner string, _ int64) bool { return owner == q.ClientID })
	switch {
	case err != nil:
		return b.putError(err)
	case !some:
		return r.OK(nil, nil)
	}
	return nil
}

// free appends the release of those queues whose owner and end satisfy ok; some tells whether there are any.
func (l *locks) free(op *lockOp, keys []offsetKey, ok func(owner string, expires int64) bool) (some bool, err error) {
	var changes []state.Change
	now := l.b.clk.NowMs()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		if owner, expires, _ := l.ownerLocked(k, now); owner != "" && ok(owner, expires) {
			op.keys = append(op.keys, k)
			changes = append(changes, state.LockDelete(k.group, k.topic, k.queue))
		}
	}
	return len(changes) > 0, l.appendLocked(op, changes)
}

// held tells whether a client holds a queue of the group.
func (l *locks) held(group string) bool {
	now := l.b.clk.NowMs()
	for _, lock := range l.b.store.State.Locks() {
		if lock.Group == group && lock.ExpiresMs > now {
			return true
		}
	}
	return false
}

// maxSweep bounds the locks that one sweep deletes.
const maxSweep = 10_000

// sweep deletes locks that have long expired.
func (l *locks) sweep(now int64) {
	var keys []offsetKey
	for _, lock := range l.b.store.State.Locks() {
		if lock.ExpiresMs <= now-lockLive && len(keys) < maxSweep {
			keys = append(keys, offsetKey{lock.Group, lock.Topic, lock.QueueID})
		}
	}
	some, err := l.free(&lockOp{l: l}, keys, func(_ string, expires int64) bool { return expires <= now })
	if err != nil {
		l.b.log.Warn("expired locks could not be deleted", zap.Error(err), zap.Int("locks", len(keys)), zap.Duration("next", time.Minute))
		return
	}
	if some {
		l.b.store.Advance()
	}
}
