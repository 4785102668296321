package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/message"
)

// DamageError tells that the log is broken where recovery may not cut: behind the damage there are valid records.
type DamageError struct {
	Path   string // the segment file
	Offset int64  // log offset of the damaged record
	Next   int64  // log offset of the next valid record
	Err    error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("commit log is damaged: %s, log offset %d (%v); valid records go on at %d: restore the file or fetch the log from a replica", e.Path, e.Offset, e.Err, e.Next)
}

func (e *DamageError) Unwrap() error { return e.Err }

// Recovery says where Recover starts and what it may cut.
type Recovery struct {
	// From is a record boundary below which everything is known to be good; 0 or less means the start of the log.
	From int64
	// Durable is the end of what was known to be synced; -1 if unknown. Damage at or above it is a torn tail.
	Durable int64
	// Deep looks at every byte behind the end, as after a power loss; otherwise only at what one append can have left there.
	Deep bool
	// Progress is called now and then with the offset reached; it may be nil.
	Progress func(offset, end int64)
}

// Recover finds the end of the log, cuts a torn tail off durably, and makes the log ready for appends. It returns the end and
// how many bytes of a torn record were cut.
func (l *Log) Recover(r Recovery) (end int64, cut int64, err error) {
	l.structure.Lock()
	segs := *l.segments.Load()
	if len(segs) == 0 {
		s, err := l.makeNext()
		if err != nil {
			l.structure.Unlock()
			return 0, 0, err
		}
		segs = []*segment{s}
		l.segments.Store(&segs)
		l.structure.Unlock()
		return s.base, 0, l.take(s.base, s.base) // a new segment holds nothing to look at
	}
	l.structure.Unlock()
	limit := segs[len(segs)-1].base + l.cfg.SegmentSize
	from := max(r.From, segs[0].base)
	if from > limit {
		return 0, 0, fmt.Errorf("commit log: it ends before %d, up to which it was known to be good: segments are missing", from)
	}
	l.written.Store(limit) // reads during the scan
	end, why, err := l.findEnd(r, from, limit)
	if err != nil {
		return 0, 0, err
	}
	if next := l.validAfter(end, limit, why); next >= 0 && (r.Durable < 0 || end < r.Durable) {
		return 0, 0, &DamageError{Path: l.segmentOf(end).path, Offset: end, Next: next, Err: why}
	}
	if r.Durable > end {
		l.log.Error("the log ends before what was known to be durable: the disk has lost data",
			zap.Int64("end", end), zap.Int64("durable", r.Durable), zap.Error(why))
	}
	if cut, err = l.cut(end, r.Deep); err != nil {
		return 0, 0, err
	}
	return end, cut, l.take(end, min(end, from))
}

// findEnd verifies records from a boundary on and returns the offset of the first that is not valid, and why. At and above
// durable a record must also be free of holes, and so must the last one.
func (l *Log) findEnd(r Recovery, from, limit int64) (end int64, why error, err error) {
	report := from
	holed, bad, prev := false, error(nil), from
	end, serr := l.Scan(from, limit, func(at int64, v *message.View) error {
		if bad = v.Verify(at); bad != nil {
			return bad
		}
		if prev, holed = at, v.Holed(); holed && r.Durable >= 0 && at >= r.Durable {
			bad = message.ErrHoled
			return bad
		}
		l.lastStore = max(l.lastStore, v.StoreTimestamp())
		if r.Progress != nil && at-report > 256<<20 {
			report = at
			r.Progress(at, limit)
		}
		return nil
	})
	switch {
	case bad != nil:
		return end, bad, nil
	case serr != nil && !isRecordError(serr):
		return 0, nil, serr
	case holed:
		return prev, message.ErrHoled, nil
	}
	return end, serr, nil
}

func isRecordError(err error) bool {
	return errors.Is(err, message.ErrMagic) || errors.Is(err, message.ErrLengths) || errors.Is(err, message.ErrShort)
}

// validAfter looks for a valid record behind end in the same segment or at the start of a later one. It returns -1 if there is
// none, which makes whatever lies at end a torn tail.
func (l *Log) validAfter(end, limit int64, why error) int64 {
	if end >= limit {
		return -1
	}
	for _, s := range *l.segments.Load() {
		if s.base > end && l.validAt(s, s.base) {
			return s.base
		}
	}
	if why == nil || l.zeroAt(end) {
		if !l.anyMagic(end, 64<<20) {
			return -1
		}
	}
	return l.searchRecord(end + 1)
}

func (l *Log) zeroAt(offset int64) bool {
	var b [8]byte
	s := l.segmentOf(offset)
	n, _ := s.file.ReadAt(b[:], offset-s.base)
	return binary.BigEndian.Uint64(b[:]) == 0 && n > 0
}

// anyMagic is a quick look whether anything but zeros follows within n bytes.
func (l *Log) anyMagic(offset, n int64) bool {
	s := l.segmentOf(offset)
	n = min(n, s.base+l.cfg.SegmentSize-offset)
	buf := make([]byte, 1<<20)
	for done := int64(0); done < n; {
		m, err := s.file.ReadAt(buf[:min(int64(len(buf)), n-done)], offset-s.base+done)
		if !allZero(buf[:m]) {
			return true
		}
		if err != nil {
			return false
		}
		done += int64(m)
	}
	return false
}

func allZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

func (l *Log) validAt(s *segment, offset int64) bool {
	var v message.View
	_, err := l.Record(offset, nil, &v)
	return err == nil && v.Verify(offset) == nil
}

// searchRecord looks for the magic of a record that says its own offset, from offset to the end of its segment.
func (l *Log) searchRecord(offset int64) int64 {
	s := l.segmentOf(offset)
	if s == nil {
		return -1
	}
	const step, overlap = 1 << 20, 64
	buf := make([]byte, step+overlap)
	limit := s.base + l.cfg.SegmentSize
	for pos := offset; pos < limit; pos += step {
		n, _ := s.file.ReadAt(buf[:min(int64(len(buf)), limit-pos)], pos-s.base)
		for i := 0; i+4 < n; i++ {
			k := bytes.IndexByte(buf[i:n], 0xDA)
			if k < 0 {
				break
			}
			i += k
			if i < 4 || i+4 > n {
				continue
			}
			m := binary.BigEndian.Uint32(buf[i:])
			if at := pos + int64(i) - 4; (m == message.MagicV1 || m == message.MagicV2) && l.validAt(s, at) {
				return at
			}
		}
	}
	return -1
}

// cut zeroes what lies behind end, removes later segments, and syncs both, so that old bytes never come back as records.
func (l *Log) cut(end int64, deep bool) (int64, error) {
	l.structure.Lock()
	defer l.structure.Unlock()
	segs := *l.segments.Load()
	keep := segs
	for len(keep) > 1 && keep[len(keep)-1].base >= end && keep[len(keep)-1].base > segs[0].base {
		keep = keep[:len(keep)-1]
	}
	for _, s := range segs[len(keep):] {
		if err := l.discard(s); err != nil {
			return 0, err
		}
	}
	if len(keep) < len(segs) {
		if err := l.fs.SyncDir(l.cfg.Dir); err != nil {
			return 0, err
		}
	}
	kept := append([]*segment(nil), keep...)
	l.segments.Store(&kept)
	s := kept[len(kept)-1]
	reach := s.base + l.cfg.SegmentSize
	if !deep {
		reach = min(reach, end+maxAppend)
	}
	dirty, err := zeroDirty(s, end-s.base, reach-s.base)
	if err != nil {
		return 0, err
	}
	if dirty > 0 {
		err = s.file.SyncData()
	}
	return dirty, err
}

// maxAppend is more than one append writes, so more than a killed process leaves behind the end.
const maxAppend = 64 << 20

// zeroDirty overwrites what is not zero in [from, to) and returns how far the last such byte is from from.
func zeroDirty(s *segment, from, to int64) (int64, error) {
	buf := make([]byte, 1<<20)
	var last int64
	for at := from; at < to; {
		n, err := s.file.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
		if n == 0 && err != nil && err != io.EOF {
			return 0, err
		}
		if n == 0 {
			break
		}
		if !allZero(buf[:n]) {
			last = at + int64(len(bytes.TrimRight(buf[:n], "\x00"))) - from
			clear(buf[:n])
			if _, err := s.file.WriteAt(buf[:n], at); err != nil {
				return 0, err
			}
		}
		at += int64(n)
	}
	return last, nil
}

// take makes the log ready for appends at end. What lies above durable may be in the page cache only.
func (l *Log) take(end, durable int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := *l.segments.Load()
	tail := segs[len(segs)-1]
	if tail.m == nil {
		if err := tail.mapIt(l.cfg.SegmentSize); err != nil {
			return err
		}
	}
	l.tail, l.end, l.opened = tail, end, end
	l.written.Store(end)
	l.flushed.Store(durable)
	l.wantPrepare()
	return nil
}

// ZeroFrom tells whether nothing but zeros follows offset in its segment, as behind the end of a log that was closed in order.
func (l *Log) ZeroFrom(offset int64) bool {
	s := l.segmentOf(offset)
	return s == nil || !l.anyMagic(offset, s.base+l.cfg.SegmentSize-offset)
}
