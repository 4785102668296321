package store

import (
	"sync"
	"sync/atomic"
)

// Waiter is told once what has become of a record that was appended: nil when it is confirmed, else why it is not. It runs on
// the goroutine that moved the confirm offset, one at a time, and must not block.
type Waiter interface{ Done(err error) }

type waiting struct {
	end      int64 // of the record in the log
	deadline int64 // ms since the store was opened
	w        Waiter
}

// waiters is the queue of those who wait for the confirm offset, in the order of the log: one advance releases all that it
// covers. It is a ring that grows up to a limit.
type waiters struct {
	limit int64
	count atomic.Int64
	done  []Waiter     // scratch of the releaser
	term  atomic.Int64 // counts dismissals; changed under mu
	why   error        // of the last; who tells others reads it

	mu   sync.Mutex
	ring []waiting
	head int
}

func (q *waiters) at(i int) *waiting { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// add queues w, whose record was appended when term was read or later; false means that everybody has been dismissed since, so that
// another record may come to lie there. Appends come in here nearly in the order in which they took their place in the log. The limit is
// the appender's to look at, before it appends.
func (q *waiters) add(w waiting, term int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.term.Load() != term {
		return false
	}
	n := int(q.count.Load())
	if n == len(q.ring) {
		bigger := make([]waiting, max(64, 2*len(q.ring)))
		for i := range n {
			bigger[i] = *q.at(i)
		}
		q.ring, q.head = bigger, 0
	}
	i := n
	for ; i > 0 && q.at(i-1).end > w.end; i-- {
		*q.at(i) = *q.at(i - 1)
	}
	*q.at(i) = w
	q.count.Add(1)
	return true
}

// release completes everybody whose record ends at or below offset, in order. One goroutine at a time, as for all below.
func (q *waiters) release(offset int64) {
	if q.count.Load() > 0 {
		q.complete(nil, func(w *waiting) bool { return w.end <= offset })
	}
}

// due tells whether the deadline of the first has passed.
func (q *waiters) due(now int64) bool {
	if q.count.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count.Load() > 0 && q.at(0).deadline <= now
}

// expire completes those up to a log offset whose deadline has passed with err.
func (q *waiters) expire(now, to int64, err error) {
	q.complete(err, func(w *waiting) bool { return w.deadline <= now && w.end <= to })
}

// dismiss completes everybody with err, also those who have appended and are not queued yet.
func (q *waiters) dismiss(err error) {
	q.mu.Lock()
	q.why = err
	q.term.Add(1)
	q.mu.Unlock()
	q.complete(err, func(*waiting) bool { return true })
}

// complete tells the head of the queue, as far as ok holds.
func (q *waiters) complete(err error, ok func(w *waiting) bool) {
	q.done = q.done[:0]
	q.mu.Lock()
	for q.count.Load() > 0 && ok(q.at(0)) {
		q.done = append(q.done, q.at(0).w)
		q.at(0).w = nil
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.count.Add(-1)
	}
	q.mu.Unlock()
	for i, w := range q.done {
		w.Done(err)
		q.done[i] = nil
	}
}
