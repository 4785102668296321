package commitlog

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// Entry is one record to append and what the append made of it.
type Entry struct {
	// Draft must have been prepared.
	Draft *message.Draft
	// Next is the next offset of the record's queue; the append takes it and adds one. It is guarded by the append lock: nobody
	// else touches it while the log is open. nil stores queue offset 0.
	Next *int64

	Phy            int64
	QueueOffset    int64
	StoreTimestamp int64
}

// Append writes the records next to each other, or none of them, and returns the end of the last. They may be read at once;
// they are durable when Flushed has reached the end.
func (l *Log) Append(entries []Entry) (end int64, err error) {
	total := 0
	for i := range entries {
		total += entries[i].Draft.Size()
	}
	if int64(total)+message.BlankSize > l.cfg.SegmentSize {
		return 0, fmt.Errorf("%w: %d bytes", ErrTooLarge, total)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.roomLocked(total); err != nil {
		return 0, err
	}
	now := l.nowLocked()
	at := l.end - l.tail.base
	for i := range entries {
		e := &entries[i]
		e.Phy, e.StoreTimestamp, e.QueueOffset = l.tail.base+at, now, 0
		if e.Next != nil {
			e.QueueOffset = *e.Next
			*e.Next++
		}
		n := int64(e.Draft.Size())
		e.Draft.Encode(l.tail.b[at:at:at+n], e.QueueOffset, e.Phy, now)
		at += n
	}
	l.publishLocked(l.tail.base + at)
	return l.end, nil
}

func (l *Log) publishLocked(end int64) {
	l.end = end
	l.written.Store(end)
	if end+l.cfg.Window/2 > l.populated {
		l.populated = end + l.cfg.Window
		l.wantPrepare()
	}
}

// roomLocked makes sure that total bytes and a blank record fit behind the end, rolling to the next segment if they do not.
func (l *Log) roomLocked(total int) error {
	if l.fence != nil {
		return l.fence
	}
	if err := l.Poisoned(); err != nil {
		return fmt.Errorf("%w: %w", ErrPoisoned, err)
	}
	left := l.tail.base + l.cfg.SegmentSize - l.end
	if int64(total)+message.BlankSize <= left {
		return nil
	}
	next, err := l.nextSegmentLocked()
	if err != nil {
		return err
	}
	if left > 0 {
		message.PutBlank(l.tail.b[l.end-l.tail.base:], int(left))
	}
	l.tail = next
	l.publishLocked(next.base)
	return nil
}

// nextSegmentLocked takes the spare segment, or makes one if the preparer has not kept up.
func (l *Log) nextSegmentLocked() (*segment, error) {
	l.structure.Lock()
	defer l.structure.Unlock()
	s := l.spare
	l.spare = nil
	if s == nil {
		l.lateRolls++
		var err error
		if s, err = l.makeNext(); err != nil {
			return nil, err
		}
	}
	segs := append(append([]*segment(nil), *l.segments.Load()...), s)
	l.segments.Store(&segs)
	l.wantPrepare()
	return s, nil
}

// makeNext creates the segment behind the last one. The caller holds structure.
func (l *Log) makeNext() (*segment, error) {
	base := int64(0)
	if segs := *l.segments.Load(); len(segs) > 0 {
		base = segs[len(segs)-1].base + l.cfg.SegmentSize
	}
	s, err := createSegment(l.fs, l.path(base), base, l.cfg.SegmentSize)
	if err == nil {
		if err = l.fs.SyncDir(l.cfg.Dir); err == nil {
			err = s.mapIt(l.cfg.SegmentSize)
		}
		if err != nil {
			err = errors.Join(err, l.discard(s))
		}
	}
	if errors.Is(err, vfs.ErrNoSpace) {
		if !l.full.Swap(true) {
			l.log.Error("no room on the disk for the next segment: free space or lower fileReservedTime; sends are refused until then",
				zap.String("dir", l.cfg.Dir), zap.Int64("bytes", l.cfg.SegmentSize))
		}
		return nil, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return nil, err
	}
	if l.full.Swap(false) {
		l.log.Info("there is room on the disk again")
	}
	return s, nil
}

func (l *Log) wantPrepare() {
	select {
	case l.wantPrep <- struct{}{}:
	default:
	}
}

// RunPrepare keeps one segment ready ahead of the end and the next window of the present one faulted in, and unmaps segments
// that have become cold.
func (l *Log) RunPrepare(ctx context.Context) error {
	tick := l.clk.NewTicker(prepareTimeout)
	defer tick.Stop()
	var zeroed int64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wantPrep:
		case <-tick.C:
			if l.spareReady() {
				continue
			}
		}
		l.populateAhead(&zeroed)
		l.ensureSpare()
		l.unmapCold()
	}
}

func (l *Log) spareReady() bool {
	l.structure.Lock()
	defer l.structure.Unlock()
	return l.spare != nil
}

// populateAhead faults in the window behind the end.
func (l *Log) populateAhead(zeroed *int64) {
	end := l.End()
	s := l.segmentOf(end)
	if s == nil || !s.pin() {
		return
	}
	defer s.unpin()
	at := end - s.base
	n := min(l.cfg.Window, l.cfg.SegmentSize-at)
	if l.cfg.ZeroAhead {
		l.zeroAhead(s, at, zeroed)
	}
	if n > 0 {
		_ = s.m.Populate(at, n)
	}
}

// zeroAhead writes zeros over the window behind the one being filled. The bytes are zero already; writing them turns reserved
// blocks into written ones, so that a later sync writes data only. It stays a whole window away from the appender.
func (l *Log) zeroAhead(s *segment, at int64, zeroed *int64) {
	*zeroed = max(*zeroed, s.base+at+l.cfg.Window)
	to := min(s.base+at+4*l.cfg.Window, s.base+l.cfg.SegmentSize)
	chunk := make([]byte, 1<<20)
	for *zeroed < to {
		n := min(int64(len(chunk)), to-*zeroed)
		if _, err := s.file.WriteAt(chunk[:n], *zeroed-s.base); err != nil {
			return // the append finds out
		}
		*zeroed += n
	}
}

// ensureSpare makes the next segment when the present one is half full, so that an idle broker holds one segment only.
func (l *Log) ensureSpare() {
	l.structure.Lock()
	defer l.structure.Unlock()
	segs := *l.segments.Load()
	if l.spare != nil || len(segs) == 0 || l.End()-segs[len(segs)-1].base < l.cfg.SegmentSize/2 {
		return
	}
	s, err := l.makeNext()
	if err != nil {
		if !errors.Is(err, ErrFull) {
			l.log.Error("next segment", zap.Error(err))
		}
		return
	}
	_ = s.m.Populate(0, min(l.cfg.Window, l.cfg.SegmentSize))
	l.spare = s
}

// unmapCold lets go of the mappings that no read will use any more.
func (l *Log) unmapCold() {
	cold := l.End() - l.cfg.HotBytes
	for _, s := range *l.segments.Load() {
		if s.base+l.cfg.SegmentSize <= cold {
			s.letGo()
		}
	}
}
