package broker

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
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
	pending map[offsetKey]*pendingLock // queues with records on their way to the confirm offset
}

// pendingLock keeps a queue for the client that its records are for: two records of different clients in flight at once could
// arrive in the log in either order. A queue that is being given back is kept from everybody.
type pendingLock struct {
	owner   string // empty: it is being given back
	records int
}

// lockOp is a record of lock changes: of claims of one client, or of releases.
type lockOp struct {
	l      *locks
	owner  string // empty: the queues are given back
	keys   []offsetKey
	ticket *remoting.Ticket    // nil if nobody waits for the record
	held   []body.MessageQueue // by the owner, in any case
	asked  []body.MessageQueue // by the owner, when the record is confirmed
}

func newLocks(b *Broker) *locks { return &locks{b: b, pending: map[offsetKey]*pendingLock{}} }

// lockVerdict is what a request for a queue comes to.
type lockVerdict int

const (
	lockRefused lockVerdict = iota // another client has it
	lockHeld                       // granted at once
	lockRenewed                    // granted at once, and to be written
	lockClaimed                    // granted when it is written
)

// judge decides about a queue that has owner until expires, by the log or, if sure is false, by records on their way into it.
func judge(owner string, expires int64, sure bool, client string, now int64) lockVerdict {
	switch {
	case owner != client && (!sure || owner != "" && expires > now):
		return lockRefused
	case owner != client || !sure || expires-now < lockTrust:
		return lockClaimed
	case expires-now < lockLive-lockRest:
		return lockRenewed
	}
	return lockHeld
}

// ownerLocked returns who has a queue, or is to have it.
func (l *locks) ownerLocked(k offsetKey, now int64) (owner string, expires int64, sure bool) {
	if p := l.pending[k]; p != nil {
		return p.owner, now + lockLive, false
	}
	lock, _ := l.b.store.State.Lock(k.group, k.topic, k.queue)
	return lock.ClientID, lock.ExpiresMs, true
}

// addLocked makes a queue part of the record.
func (op *lockOp) addLocked(k offsetKey) {
	p := op.l.pending[k]
	if p == nil {
		p = &pendingLock{}
		op.l.pending[k] = p
	}
	p.owner = op.owner
	p.records++
	op.keys = append(op.keys, k)
}

// propose writes the record. If it cannot be written nobody keeps the queues, and Done is not called.
func (op *lockOp) propose(changes []state.Change) error {
	if len(changes) == 0 {
		return nil
	}
	err := op.l.b.store.Propose(op, changes...)
	if err != nil {
		op.settle()
	}
	return err
}

// settle takes the record off the pending queues.
func (op *lockOp) settle() {
	op.l.mu.Lock()
	defer op.l.mu.Unlock()
	for _, k := range op.keys {
		p := op.l.pending[k]
		if p.records--; p.records == 0 {
			delete(op.l.pending, k)
		}
	}
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

// take judges the queues and proposes what is to be written. wait tells that the record answers the ticket when it is confirmed.
func (l *locks) take(op *lockOp, group string, queues []body.MessageQueue, t remoting.Ticket) (wait bool, err error) {
	now := l.b.clk.NowMs()
	var changes []state.Change
	l.mu.Lock()
	for _, mq := range queues {
		if t := l.b.topics.get(mq.Topic); t == nil || mq.QueueID < 0 || mq.QueueID >= max(t.ReadQueueNums, t.WriteQueueNums) {
			continue // nothing to consume; Java grants whatever it is asked for
		}
		k := offsetKey{group, mq.Topic, mq.QueueID}
		owner, expires, sure := l.ownerLocked(k, now)
		verdict := judge(owner, expires, sure, op.owner, now)
		switch verdict {
		case lockHeld, lockRenewed:
			op.held = append(op.held, mq)
		case lockClaimed:
			op.asked = append(op.asked, mq)
		}
		if verdict == lockRenewed || verdict == lockClaimed {
			op.addLocked(k)
			changes = append(changes, state.LockPut(group, mq.Topic, mq.QueueID, op.owner, now+lockLive))
		}
	}
	l.mu.Unlock()
	if wait = len(op.asked) > 0; wait {
		op.ticket = &t
	}
	if err = op.propose(changes); err != nil {
		return false, err
	}
	return wait, nil
}

var _ store.Waiter = (*lockOp)(nil)

// Done lets go of the queues and answers the client, if it waits.
func (op *lockOp) Done(err error) {
	op.settle()
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

// free proposes the release of those queues whose owner and end satisfy ok; some tells whether there are any.
func (l *locks) free(op *lockOp, keys []offsetKey, ok func(owner string, expires int64) bool) (some bool, err error) {
	var changes []state.Change
	now := l.b.clk.NowMs()
	l.mu.Lock()
	for _, k := range keys {
		if owner, expires, _ := l.ownerLocked(k, now); owner != "" && ok(owner, expires) {
			op.addLocked(k)
			changes = append(changes, state.LockDelete(k.group, k.topic, k.queue))
		}
	}
	l.mu.Unlock()
	return len(changes) > 0, op.propose(changes)
}

// held tells whether a client holds a queue of the group.
func (l *locks) held(group string) bool {
	now := l.b.clk.NowMs()
	for _, lock := range l.b.store.State.LocksOfGroup(group) {
		if lock.ExpiresMs > now {
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
	if _, err := l.free(&lockOp{l: l}, keys, func(_ string, expires int64) bool { return expires <= now }); err != nil {
		l.b.log.Warn("expired locks could not be deleted; it is tried again", zap.Error(err), zap.Int("locks", len(keys)))
	}
}
