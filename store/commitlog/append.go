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

// maxBatch is how many bytes may wait to be written; more than that are refused until the disk has caught up.
const maxBatch = 32 << 20

// Append takes the records next to each other, or none of them, and returns the end of the last. They may be read when Write has
// been called, and are durable when Flushed has reached the end.
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
	buf, at := l.out.buf, l.end
	for i := range entries {
		e := &entries[i]
		e.Phy, e.StoreTimestamp, e.QueueOffset = at, now, 0
		if e.Next != nil {
			e.QueueOffset = *e.Next
			*e.Next++
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

// Write hands what has been appended to the kernel, with one call per segment, and lets readers see it. A failure poisons the log:
// what is in the file is unknown.
func (l *Log) Write() error {
	if l.written.Load() == l.appended() {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.Poisoned(); err != nil {
		return fmt.Errorf("%w: %w", ErrPoisoned, err)
	}
	l.mu.Lock()
	b := l.out
	l.out = l.idle
	l.mu.Unlock()
	at := 0
	for _, p := range b.pieces {
		if _, err := p.s.file.WriteAt(b.buf[at:at+p.n], p.at); err != nil {
			return l.fail(fmt.Errorf("write %s: %w", p.s.path, err))
		}
		at += p.n
	}
	if b.end > 0 {
		l.written.Store(b.end)
	}
	if cap(b.buf) > keepBatch {
		b.buf = nil
	}
	l.mu.Lock()
	l.idle = batch{buf: b.buf[:0], pieces: b.pieces[:0]}
	l.mu.Unlock()
	return nil
}

// keepBatch is the largest buffer that is kept for the next batch.
const keepBatch = 4 << 20

func (l *Log) appended() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// fail poisons the log with err and returns it.
func (l *Log) fail(err error) error {
	if l.poison.CompareAndSwap(nil, &err) {
		l.log.Error("the commit log could not be written: this broker takes no more messages; check the disk, then restart", zap.Error(err))
	}
	return err
}

// roomLocked makes sure that total bytes and a blank record fit behind the end, rolling to the next segment if they do not.
func (l *Log) roomLocked(total int) error {
	switch {
	case l.fence != nil:
		return l.fence
	case l.poison.Load() != nil:
		return fmt.Errorf("%w: %w", ErrPoisoned, l.Poisoned())
	case len(l.out.buf) > maxBatch:
		return ErrBehind
	}
	left := l.tail.base + l.cfg.SegmentSize - l.end
	if int64(total)+message.BlankSize > left {
		next, err := l.nextSegmentLocked()
		if err != nil {
			return err
		}
		l.out.buf = append(l.out.buf, make([]byte, message.BlankSize)...)
		message.PutBlank(l.out.buf[len(l.out.buf)-message.BlankSize:], int(left))
		l.pieceLocked(message.BlankSize)
		l.tail, l.end, l.out.end = next, next.base, next.base
		return nil
	}
	if l.end+int64(total) > l.zeroing {
		return ErrBehind
	}
	if l.end+l.cfg.Window/2 > l.wanted {
		l.wanted = l.end + l.cfg.Window
		l.wantPrepare()
	}
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

// RunPrepare keeps one segment ready ahead of the end, writes zeros ahead of it if that is asked for, and unmaps segments that
// have become cold.
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
		if l.cfg.ZeroAhead {
			zeroed = l.zeroAhead(zeroed)
		}
		l.ensureSpare()
		l.unmapCold()
	}
}

func (l *Log) spareReady() bool {
	l.structure.Lock()
	defer l.structure.Unlock()
	return l.spare != nil
}

// zeroAhead writes zeros over the window behind the end. The bytes are zero already; writing them turns reserved blocks into
// written ones, so that a later sync has data to write and no file metadata. It returns how far it has come.
func (l *Log) zeroAhead(zeroed int64) int64 {
	end := l.appended()
	s := l.segmentOf(end)
	if s == nil {
		return zeroed
	}
	zeroed = max(zeroed, end+zeroChunk)
	to := min(end+l.cfg.Window, s.base+l.cfg.SegmentSize)
	for zeroed < to {
		n := min(zeroChunk, to-zeroed)
		if !l.claim(zeroed) {
			return l.appended()
		}
		_, err := s.file.WriteAt(zeros[:n], zeroed-s.base)
		l.claim(noZeroing)
		if err != nil {
			return zeroed // the append finds out
		}
		zeroed += n
	}
	return zeroed
}

const zeroChunk = int64(1 << 20)

var zeros [zeroChunk]byte

// claim keeps appends below from while zeros are written there; it fails if they have come too near. noZeroing gives the claim up.
func (l *Log) claim(from int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.end {
		return false
	}
	l.zeroing = from
	return true
}

const noZeroing = int64(1<<63 - 1)

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
