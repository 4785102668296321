package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/castor-mq/castor/message"
)

// Entry is one record to append and what the append made of it.
type Entry struct {
	// Draft must have been prepared.
	Draft *message.Draft
	// Next is the next offset of the record's queue; the append takes it and adds one. It is guarded by the append lock: nobody
	// else touches it while the log is open. nil stores queue offset 0.
	Next *int64
	// Restart are queues that start over at 0 behind this record, since it deletes their topic.
	Restart []*int64

	Phy            int64
	QueueOffset    int64
	StoreTimestamp int64
}

// batch is what has been appended and not yet handed to the kernel: bytes, and where they belong.
type batch struct {
	buf    []byte
	pieces []piece
	end    int64 // log offset behind the last byte
}

// piece is a row of bytes of one segment.
type piece struct {
	s  *segment
	at int64 // in the segment
	n  int
}

var errEmpty = errors.New("commit log: nothing to append")

// maxBatch is how many bytes may wait to be written; more than that are refused until the disk has caught up.
const maxBatch = 32 << 20

// Append takes the records next to each other, or none of them, and returns the end of the last. They may be read when Write has
// been called, and are durable when Flushed has reached the end.
func (l *Log) Append(entries []Entry) (end int64, err error) {
	total := 0
	for i := range entries {
		total += entries[i].Draft.Size()
	}
	if len(entries) == 0 {
		return 0, errEmpty
	}
	if int64(total)+message.BlankSize > l.cfg.SegmentSize {
		return 0, fmt.Errorf("%w: %d bytes", ErrTooLarge, total)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readyLocked(TakesOwn); err != nil {
		return 0, err
	}
	if err := l.roomLocked(total); err != nil {
		return 0, err
	}
	now := l.nowLocked()
	buf, at := slices.Grow(l.out.buf, total), l.end
	for i := range entries {
		e := &entries[i]
		e.Phy, e.StoreTimestamp, e.QueueOffset = at, now, 0
		if e.Next != nil {
			e.QueueOffset = *e.Next
			*e.Next++
		}
		for _, next := range e.Restart {
			*next = 0
		}
		buf = e.Draft.Encode(buf, e.QueueOffset, e.Phy, now)
		at += int64(e.Draft.Size())
	}
	l.out.buf = buf
	l.pieceLocked(total)
	return l.end, nil
}

// pieceLocked notes that n bytes have been added to the batch at the end of the log.
func (l *Log) pieceLocked(n int) {
	at := l.end - l.tail.base
	if k := len(l.out.pieces) - 1; k >= 0 && l.out.pieces[k].s == l.tail && l.out.pieces[k].at+int64(l.out.pieces[k].n) == at {
		l.out.pieces[k].n += n
	} else {
		l.out.pieces = append(l.out.pieces, piece{l.tail, at, n})
	}
	l.end += int64(n)
	l.out.end = l.end
}

// readyLocked tells why nothing can be appended now by those whom a mode is for.
func (l *Log) readyLocked(m Mode) error {
	switch {
	case l.mode != m:
		return l.refusal
	case l.cutting:
		return fmt.Errorf("%w: its end is being cut off", ErrFenced)
	case l.poison.Load() != nil:
		return l.Poisoned()
	case l.stuck.Load():
		return fmt.Errorf("%w: it does not take what has been appended", ErrFull)
	case len(l.out.buf) > maxBatch:
		return ErrBehind
	}
	return nil
}

// roomLocked makes sure that total bytes and a blank record fit behind the end, rolling to the next segment if they do not.
func (l *Log) roomLocked(total int) error {
	left := l.tail.base + l.cfg.SegmentSize - l.end
	if int64(total)+message.BlankSize > left {
		return l.rollLocked(left)
	}
	l.lookAheadLocked()
	return nil
}

// lookAheadLocked wakes the preparer when half of what it has prepared is used up.
func (l *Log) lookAheadLocked() {
	if l.end+l.cfg.Window/2 > l.wanted {
		l.wanted = l.end + l.cfg.Window
		l.wantPrepare()
	}
}

// rollLocked ends the tail with a blank record over the bytes that are left of it, and goes on in the next segment.
func (l *Log) rollLocked(left int64) error {
	next, err := l.nextSegmentLocked()
	if err != nil {
		return err
	}
	if left > 0 {
		var blank [message.BlankSize]byte
		message.PutBlank(blank[:], int(left))
		l.out.buf = append(l.out.buf, blank[:]...)
		l.pieceLocked(message.BlankSize)
	}
	l.tail, l.end, l.out.end = next, next.base, next.base
	return nil
}

// nextSegmentLocked takes the spare segment, or makes one if the preparer has not kept up. While the disk is known to be full it
// is the preparer who looks for room, not every send.
func (l *Log) nextSegmentLocked() (*segment, error) {
	defer l.wantPrepare()
	if s := l.takeSpare(); s != nil {
		return s, nil
	}
	if l.full.Load() {
		return nil, ErrFull
	}
	l.lateRolls++
	if err := l.makeSpare(); err != nil {
		return nil, err
	}
	return l.takeSpare(), nil
}
