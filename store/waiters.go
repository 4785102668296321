package store

import (
	"sync"
)

// Waiter is told once what has become of a record that was appended: nil when it is confirmed, else why it is not. It runs on
// the goroutine that moved the confirm offset, and must not block.
type Waiter interface{ Done(err error) }

type waiting struct {
	end      int64 // of the record in the log
	deadline int64 // ms
	w        Waiter
}

// waiters is the queue of those who wait for the confirm offset, in the order of their appends: one advance releases all that it
// covers. It is a ring that grows up to a limit.
type waiters struct {
	mu    sync.Mutex
	ring  []waiting
	head  int
	n     int
	limit int
	done  []Waiter // scratch of the releaser
}

// add queues w. The limit is the appender's to look at, before it appends.
func (q *waiters) add(w waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == len(q.ring) {
		bigger := make([]waiting, max(64, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = w
	q.n++
}

func (q *waiters) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.n
}

// release completes everybody whose record ends at or below offset, in order. One goroutine at a time.
func (q *waiters) release(offset int64) {
	q.take(func(w *waiting) bool { return w.end <= offset })
	for i, w := range q.done {
		w.Done(nil)
		q.done[i] = nil
	}
}

// expire completes everybody whose deadline has passed with err.
func (q *waiters) expire(nowMs int64, err error) {
	q.mu.Lock()
	idle := q.n == 0 || q.ring[q.head].deadline > nowMs
	q.mu.Unlock()
	if idle {
		return
	}
	q.take(func(w *waiting) bool { return w.deadline <= nowMs })
	for i, w := range q.done {
		w.Done(err)
		q.done[i] = nil
	}
}

// take moves the head of the queue, as far as ok holds, to done.
func (q *waiters) take(ok func(w *waiting) bool) {
	q.done = q.done[:0]
	q.mu.Lock()
	for q.n > 0 {
		w := &q.ring[q.head]
		if !ok(w) {
			break
		}
		q.done = append(q.done, w.w)
		w.w = nil
		q.head = (q.head + 1) & (len(q.ring) - 1)
		q.n--
	}
	q.mu.Unlock()
}
