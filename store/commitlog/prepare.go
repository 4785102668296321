package commitlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
)

// prepareInterval is how often the preparer looks for room on a full disk, and closes what nobody reads any more.
const prepareInterval = 200 * time.Millisecond

// RunPrepare keeps one segment ready ahead of the end, writes zeros ahead of it if that is asked for, unmaps segments that have
// become cold and closes those that have been deleted.
func (l *Log) RunPrepare(ctx context.Context) error {
	tick := l.clk.NewTicker(prepareInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wantPrep:
		case <-tick.C:
			if !l.full.Load() && l.Unfreed() == 0 {
				continue
			}
		}
		l.Prepare()
	}
}

// Prepare makes one pass of RunPrepare.
func (l *Log) Prepare() {
	l.ensureSpare()
	if l.cfg.ZeroAhead {
		l.zeroAhead()
	}
	l.unmapCold()
	if err := l.closeDeleted(l.clk.Now()); err != nil {
		l.log.Warn("a deleted segment could not be closed", zap.Error(err))
	}
}

func (l *Log) wantPrepare() {
	select {
	case l.wantPrep <- struct{}{}:
	default:
	}
}

// ensureSpare makes the next segment when the present one is half full, so that an idle broker holds one segment only.
func (l *Log) ensureSpare() {
	segs := *l.segments.Load()
	if l.Appended()-segs[len(segs)-1].base < l.cfg.SegmentSize/2 {
		return
	}
	if err := l.makeSpare(); err != nil && !errors.Is(err, ErrFull) {
		l.log.Error("the next segment could not be made ahead of need; the append that needs it tries again", zap.Error(err))
	}
}

// makeSpare creates the segment behind the last one, unless it is there.
func (l *Log) makeSpare() error {
	l.making.Lock()
	defer l.making.Unlock()
	base, missing := l.spareBase()
	if !missing {
		return nil
	}
	s, err := l.createSegment(base)
	if errors.Is(err, vfs.ErrNoSpace) {
		if !l.full.Swap(true) {
			l.log.Error("no room on the disk for the next segment: free space or lower fileReservedTime; sends are refused when the present one is full",
				zap.String("dir", l.cfg.Dir), zap.Int64("bytes", l.cfg.SegmentSize))
		}
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return err
	}
	if l.full.Swap(false) {
		l.log.Info("there is room on the disk again")
	}
	l.list.Lock()
	l.spare = s
	l.list.Unlock()
	return nil
}

// spareBase says where the segment behind the last one begins, and whether it has to be made. It stays so while the caller holds
// making: nobody can take a spare that is not there.
func (l *Log) spareBase() (base int64, missing bool) {
	l.list.Lock()
	defer l.list.Unlock()
	if segs := *l.segments.Load(); len(segs) > 0 {
		base = segs[len(segs)-1].base + l.cfg.SegmentSize
	}
	return base, l.spare == nil
}

// takeSpare makes the spare segment the last of the log; nil if there is none.
func (l *Log) takeSpare() *segment {
	l.list.Lock()
	defer l.list.Unlock()
	s := l.spare
	if s != nil {
		l.spare = nil
		l.changeLocked(func(segs []*segment) []*segment { return append(segs, s) })
	}
	return s
}

// changeLocked replaces the list of segments. The caller holds list.
func (l *Log) changeLocked(change func(segs []*segment) []*segment) {
	segs := change(slices.Clone(*l.segments.Load()))
	l.segments.Store(&segs)
}

// zeroAhead writes zeros over the window behind the end. The bytes are zero already; writing them turns reserved blocks into
// written ones, so that a later sync has data to write and no file metadata.
func (l *Log) zeroAhead() {
	for l.zeroNext() {
	}
}

// zeroNext writes some zeros and tells whether there is more to do. Under writing nothing at or above the written offset is in the
// file, and what is appended meanwhile is written later, over the zeros.
func (l *Log) zeroNext() bool {
	l.writing.Lock()
	defer l.writing.Unlock()
	end := l.Appended()
	s := l.segmentOf(end)
	if s == nil {
		return false
	}
	at := max(l.zeroed, end)
	n := min(int64(len(zeros)), end+l.cfg.Window-at, s.base+l.cfg.SegmentSize-at)
	if n <= 0 {
		return false
	}
	if _, err := s.file.WriteAt(zeros[:n], at-s.base); err != nil {
		return false // the write of the records finds out
	}
	l.zeroed = at + n
	return true
}

var zeros [256 << 10]byte

// unmapCold lets go of the mappings that no read will use any more.
func (l *Log) unmapCold() {
	cold := l.End() - l.cfg.HotBytes
	for _, s := range *l.segments.Load() {
		if s.base+l.cfg.SegmentSize <= cold {
			s.letGo()
		}
	}
}
