package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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
	// Synced is the end of what is known to have been synced; -1 if nothing is known.
	Synced int64
	// PowerLoss tells that the machine may have lost power since: then damage at or above Synced is a torn tail, whatever follows,
	// and anything may lie behind the end. Otherwise everything that was written is there, and what is torn is one write.
	PowerLoss bool
	// Need is an offset that the log must reach: what has been derived from it goes that far.
	Need int64
	// StoreTime is the store time of the last record below From in ms, if it is known.
	StoreTime int64
	// Progress is called now and then with the offset reached; it may be nil.
	Progress func(offset, end int64)
}

// Recover finds the end of the log, cuts a torn tail off durably, and makes the log ready for appends. It returns the end and
// how many bytes of a torn record were cut.
func (l *Log) Recover(r Recovery) (end int64, cut int64, err error) {
	if l.lastStore = r.StoreTime; len(*l.segments.Load()) == 0 {
		if r.From > 0 {
			return 0, 0, fmt.Errorf("commit log: %s is empty, but the log was known to be good up to %d: mount the right disk, or fetch the log from a replica", l.cfg.Dir, r.From)
		}
		return l.create()
	}
	segs := *l.segments.Load()
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
	t := l.tornAt(end, limit, r.PowerLoss)
	if !r.mayTear(end) {
		if next := l.validBehind(t, limit); next >= 0 {
			return 0, 0, &DamageError{Path: l.segmentOf(end).path, Offset: end, Next: next, Err: why}
		}
	}
	if end < r.Need {
		return 0, 0, fmt.Errorf("commit log: it ends at %d (%w), but queues and state have been built from it up to %d: the disk has lost data; restore it or fetch the log from a replica", end, why, r.Need)
	}
	if end < r.Synced {
		l.log.Error("the log ends before what was known to be durable: the disk has lost data",
			zap.Int64("end", end), zap.Int64("durable", r.Synced), zap.Error(why))
	}
	if err = l.cut(t); err != nil {
		return 0, 0, err
	}
	return end, max(0, t.dirty-end), l.take(end, max(0, min(end, r.Synced)))
}

// mayTear tells whether damage at an offset can come from a power loss, so that valid records behind it mean nothing.
func (r *Recovery) mayTear(offset int64) bool {
	return r.PowerLoss && r.Synced >= 0 && offset >= r.Synced
}

// create makes the first segment of an empty log.
func (l *Log) create() (end, cut int64, err error) {
	if err := l.makeSpare(); err != nil {
		return 0, 0, err
	}
	s := l.takeSpare()
	return s.base, 0, l.take(s.base, s.base)
}

// findEnd verifies records from a boundary on and returns the offset of the first that is not valid, and why. Where a power loss
// may have torn it a record must also be free of holes, and so must the last one.
func (l *Log) findEnd(r Recovery, from, limit int64) (end int64, why error, err error) {
	report := from
	holed, bad, prev := false, error(nil), from
	end, serr := l.Scan(from, limit, func(at int64, v *message.View) error {
		if bad = v.Verify(at); bad != nil {
			return bad
		}
		if prev, holed = at, v.Holed(); holed && r.mayTear(at) {
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

// torn is what lies behind the last valid record.
type torn struct {
	end   int64    // of the last valid record
	seg   *segment // that holds end; nil if the log is full up to its last byte
	dirty int64    // behind the last byte in the segment that is not zero; end if all are
}

// tornAt looks behind end. What one write of a killed process can have left is a part of one record, whose size is at its start
// if more than its first bytes are there.
func (l *Log) tornAt(end, limit int64, deep bool) torn {
	t := torn{end: end, dirty: end}
	if end >= limit {
		return t
	}
	t.seg = l.segmentOf(end)
	reach := t.seg.base + l.cfg.SegmentSize
	if !deep {
		var size [4]byte
		_, _ = t.seg.file.ReadAt(size[:], end-t.seg.base)
		reach = min(reach, end+tornMin+min(int64(binary.BigEndian.Uint32(size[:])), maxRecord))
	}
	buf := make([]byte, min(1<<20, reach-end))
	for at := end; at < reach; {
		n, err := t.seg.file.ReadAt(buf[:min(int64(len(buf)), reach-at)], at-t.seg.base)
		if !allZero(buf[:n]) {
			t.dirty = at + int64(len(bytes.TrimRight(buf[:n], "\x00")))
		}
		at += int64(n)
		if err != nil || n == 0 {
			break
		}
	}
	return t
}

// tornMin is more than the kernel leaves of a record whose size it has not written.
const tornMin = 64 << 10

// validBehind looks for a valid record behind the end: at the start of a later segment, or among the bytes in the same one. It
// returns -1 if there is none, which makes whatever lies at the end a torn tail.
func (l *Log) validBehind(t torn, limit int64) int64 {
	if t.end >= limit {
		return -1
	}
	for _, s := range *l.segments.Load() {
		if s.base > t.end && l.validAt(s.base) {
			return s.base
		}
	}
	if t.dirty == t.end {
		return -1
	}
	return l.searchRecord(t.end + 1)
}

// ZeroFrom tells whether nothing but zeros follows offset in its segment, as behind the end of a log that was closed in order.
func (l *Log) ZeroFrom(offset int64) bool {
	segs := *l.segments.Load()
	return len(segs) == 0 || l.tornAt(offset, segs[len(segs)-1].base+l.cfg.SegmentSize, true).dirty == offset
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

func (l *Log) validAt(offset int64) bool {
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
			if at := pos + int64(i) - 4; (m == message.MagicV1 || m == message.MagicV2) && l.validAt(at) {
				return at
			}
		}
	}
	return -1
}

// cut removes later segments and zeroes what lies behind the end, and makes both durable, so that old bytes never come back as
// records.
func (l *Log) cut(t torn) error {
	later := l.takeFrom(t.end + 1)
	if err := l.erase(later); err != nil {
		return err
	}
	for _, s := range later {
		if err := s.close(); err != nil {
			return err
		}
	}
	return t.erase()
}

// erase writes zeros over what lies behind the end, durably.
func (t *torn) erase() error {
	if t.dirty == t.end {
		return nil
	}
	for at := t.end; at < t.dirty; {
		n := min(int64(len(zeros)), t.dirty-at)
		if _, err := t.seg.file.WriteAt(zeros[:n], at-t.seg.base); err != nil {
			return err
		}
		at += n
	}
	return t.seg.file.SyncData()
}

// takeFrom takes the segments that begin at or above offset off the list, but never the first.
func (l *Log) takeFrom(offset int64) (later []*segment) {
	l.list.Lock()
	defer l.list.Unlock()
	l.changeLocked(func(segs []*segment) []*segment {
		k := len(segs)
		for k > 1 && segs[k-1].base >= offset {
			k--
		}
		later = segs[k:]
		return segs[:k:k]
	})
	return later
}

// erase removes the files of segments, the newest first and each for good, so that a crash leaves no gap between two.
func (l *Log) erase(segs []*segment) error {
	for _, s := range slices.Backward(segs) {
		if err := l.fs.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := l.fs.SyncDir(l.cfg.Dir); err != nil {
			return err
		}
	}
	return nil
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
	l.tail, l.end = tail, end
	l.opened.Store(end)
	l.written.Store(end)
	l.flushed.Store(durable)
	l.wantPrepare()
	return nil
}
