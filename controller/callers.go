package controller

import (
	"encoding/binary"
	"slices"
	"time"
)

// waiter is a caller that waits for the quorum.
type waiter struct {
	done  func(Result, error)
	until int // ticks
	since time.Time
}

// read are callers whose read index is known.
type read struct {
	index   uint64
	waiters []waiter
}

// propose has the quorum carry out a command. done is called once, on the node's goroutine or the caller's, and must not
// block. Its errors: errNotLeader, errBusy, errTimeout; a refusal is in the Result.
func (n *node) propose(c Command, done func(Result, error)) {
	w := waiter{done: done, since: n.Clock.Now()}
	if !n.status.Load().Leading {
		done(Result{}, errNotLeader)
	} else if !n.post(func() { n.start(c, w) }) {
		done(Result{}, errBusy)
	}
}

func (n *node) start(c Command, w waiter) {
	switch {
	case !n.leading:
		w.done(Result{}, errNotLeader)
	case len(n.pending) >= n.Pending:
		w.done(Result{}, errBusy)
	default:
		n.seq++
		if n.rn.Propose(encodeCommand(ticket{n.Seed, n.seq}, c)) != nil { // it is about to hand over
			w.done(Result{}, errNotLeader)
			return
		}
		w.until = n.now + answerTicks
		n.pending[n.seq] = w
	}
}

// read calls done, like propose, when the state is at least as new as everything that was committed before the call.
func (n *node) read(done func(error)) {
	w := waiter{done: func(_ Result, err error) { done(err) }}
	if !n.status.Load().Leading {
		done(errNotLeader)
	} else if !n.post(func() { n.queueRead(w) }) {
		done(errBusy)
	}
}

func (n *node) queueRead(w waiter) {
	switch {
	case !n.leading:
		w.done(Result{}, errNotLeader)
	case len(n.newReads) >= n.Pending:
		w.done(Result{}, errBusy)
	default:
		w.until = n.now + answerTicks
		n.newReads = append(n.newReads, w)
	}
}

// askReadIndex asks once for all callers that have gathered.
func (n *node) askReadIndex() {
	if len(n.newReads) == 0 {
		return
	}
	n.seq++
	n.reads[n.seq] = n.newReads
	n.newReads = nil
	n.rn.ReadIndex(binary.BigEndian.AppendUint64(nil, n.seq))
}

func (n *node) finishReads() {
	n.settled = slices.DeleteFunc(n.settled, func(r read) bool {
		if r.index > n.applied {
			return false
		}
		fail(r.waiters, nil)
		return true
	})
}

func (n *node) finish(w waiter, res Result, err error) {
	if n.Proposed != nil {
		n.Proposed(n.Clock.Now().Sub(w.since), err)
	}
	w.done(res, err)
}

func fail(ws []waiter, err error) {
	for _, w := range ws {
		w.done(Result{}, err)
	}
}

// failAll lets every caller go.
func (n *node) failAll(err error) {
	for _, w := range n.pending {
		n.finish(w, Result{}, err)
	}
	clear(n.pending)
	for _, ws := range n.reads {
		fail(ws, err)
	}
	clear(n.reads)
	for _, r := range n.settled {
		fail(r.waiters, err)
	}
	n.settled = nil
	fail(n.newReads, err)
	n.newReads = nil
}
