package queue

import (
	"errors"
	"fmt"
)

// Expired tells whether all messages that the queue ever had lie below a log offset, and returns then the offset that it goes on at,
// and the unit of its last message as far as it is known. A queue without a past has not expired.
func (q *Queue) Expired(phy int64) (top int64, last Unit, ok bool, err error) {
	for {
		top = q.Max()
		if top == 0 {
			return 0, last, false, nil
		}
		empty := q.Min() >= top
		if empty {
			last, err = q.unitOnDisk(top - 1)
		} else {
			last, err = q.At(top - 1)
		}
		if q.Max() < top || empty && q.Max() > top || errors.Is(err, ErrRange) { // deleted, grown or expired under the read
			continue
		}
		if err != nil {
			return 0, last, false, fmt.Errorf("consume queue %s: %w", q.key(), err)
		}
		return top, last, empty || last.Phy < phy, nil
	}
}

// Preset makes a queue without messages one that goes on at an offset behind a message which is no longer in the log: last, whose log
// offset must be below the log's first. The next Flush writes that down. Nobody may append to the queue meanwhile.
func (s *Set) Preset(topic string, id int32, top int64, last Unit) error {
	q := s.GetOrCreate(topic, id)
	if q == nil || top < 1 || top > maxOffset || last.Size <= 0 || last.Filler() {
		return fmt.Errorf("%w: queue %s-%d at %d", ErrOffset, topic, id, top)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.emptyLocked(top-1, 0)
	q.appendLocked(last)
	q.min.Store(top)
	q.Next = top
	return nil
}
