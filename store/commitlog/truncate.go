package commitlog

import (
	"fmt"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/message"
)

// Truncate cuts off what lies at or above to, a record boundary in the log of a replica (TakesRaw or TakesNothing). It is durable when
// it returns: old bytes never come back as records, least of all behind new ones. A crash on the way leaves a log that ends at to or
// behind it, with anything behind its end: the Recovery after it must take that for torn (PowerLoss, and Synced not above to). What has
// been appended and is not written is dropped, so to must not be above End. After an error of the disk the log is poisoned.
func (l *Log) Truncate(to int64) error {
	if err := l.checkBoundary(to); err != nil {
		return err
	}
	var t torn
	var later []*segment
	return l.shrink(func() error {
		if written := l.written.Load(); to < l.Min() || to > written {
			return fmt.Errorf("%w: a log that is written from %d to %d cannot be cut at %d", ErrRange, l.Min(), written, to)
		}
		dirty := l.end
		later = l.takeFrom(to)
		segs := *l.segments.Load()
		l.tail = segs[len(segs)-1]
		t = torn{end: to, seg: l.tail, dirty: min(dirty, l.tail.base+l.cfg.SegmentSize)}
		l.zeroed = min(l.zeroed, l.tail.base+l.cfg.SegmentSize)
		l.opened.Store(min(l.opened.Load(), to))
		l.flushed.Store(min(l.flushed.Load(), to)) // I1
		l.written.Store(to)
		l.end = to
		return nil
	}, func() error {
		if len(later) > 0 {
			if err := l.eraseAll(later); err != nil {
				return err
			}
		}
		if bugs.CutInMemory {
			return nil
		}
		return t.erase()
	})
}

// checkBoundary writes what it can, and tells if the bytes at an offset are no start of a record.
func (l *Log) checkBoundary(at int64) error {
	_ = l.Write()
	if at >= l.End() || at%l.cfg.SegmentSize == 0 {
		return nil
	}
	head, err := l.AppendRange(nil, at, int(min(message.BlankSize, l.End()-at)))
	if err != nil || message.IsBlank(head) {
		return err
	}
	var v message.View
	_, err = l.Record(at, nil, &v)
	return err
}

// Reset drops the whole log of a replica (TakesRaw or TakesNothing) and starts an empty one at base, a multiple of the segment size. A
// crash on the way leaves a beginning of the old log, nothing, or the new one. After an error of the disk the log is poisoned.
func (l *Log) Reset(base int64) error {
	if base < 0 || base%l.cfg.SegmentSize != 0 {
		return fmt.Errorf("%w: no segment begins at %d", ErrRange, base)
	}
	return l.shrink(func() error {
		l.flushed.Store(min(l.flushed.Load(), base)) // I1
		l.written.Store(base)
		l.flushed.Store(base)
		l.opened.Store(base)
		l.end, l.zeroed = base, base
		return nil
	}, func() error {
		if err := l.eraseAll(*l.segments.Load()); err != nil {
			return err
		}
		s, err := l.createSegment(base)
		if err != nil {
			return err
		}
		l.list.Lock()
		l.changeLocked(func([]*segment) []*segment { return []*segment{s} })
		l.list.Unlock()
		l.tail = s // read only by appends
		return nil
	})
}

// shrink takes bytes off the log, first in memory under the append lock, then from the disk. Meanwhile nothing is appended, written or
// synced, and no segment is made. What has not been written is dropped.
func (l *Log) shrink(inMemory, onDisk func() error) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.Poisoned(); err != nil {
		return err
	}
	l.mu.Lock()
	if l.mode == TakesOwn {
		l.mu.Unlock()
		return fmt.Errorf("%w: a log that takes its own records is not cut", ErrFenced)
	}
	l.making.Lock()
	err := inMemory()
	if err == nil {
		l.cutting = true
		l.wanted = 0
		l.out, l.held = batch{buf: l.out.buf[:0], pieces: l.out.pieces[:0]}, batch{}
		l.stuck.Store(false)
	}
	l.mu.Unlock()
	if err != nil {
		l.making.Unlock()
		return err
	}
	err = onDisk()
	l.making.Unlock()
	if err != nil {
		return l.fail(fmt.Errorf("cut the log: %w", err))
	}
	l.mu.Lock()
	l.cutting = false
	l.mu.Unlock()
	l.wantPrepare()
	return nil
}

// eraseAll removes the files of the newest segments, and of the spare, which does not follow the last one any more. Reads that are under way
// can go on for a while.
func (l *Log) eraseAll(segs []*segment) error {
	l.list.Lock()
	spare := l.spare
	l.spare = nil
	l.list.Unlock()
	if spare != nil {
		segs = append(segs[:len(segs):len(segs)], spare)
	}
	err := l.erase(segs)
	now := l.clk.Now()
	l.list.Lock()
	for _, s := range segs {
		l.deleted = append(l.deleted, deleted{s, now})
	}
	l.list.Unlock()
	return err
}
