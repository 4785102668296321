package commitlog

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// segmentOf returns the segment that holds offset, nil if none does.
func (l *Log) segmentOf(offset int64) *segment {
	segs := *l.segments.Load()
	if n := len(segs); n > 0 && offset >= segs[n-1].base { // the tail is what is asked for most
		if offset < segs[n-1].base+l.cfg.SegmentSize {
			return segs[n-1]
		}
		return nil
	}
	i := sort.Search(len(segs), func(i int) bool { return segs[i].base > offset }) - 1
	if i < 0 {
		return nil
	}
	return segs[i]
}

// Hot tells whether a read at offset takes no disk: the bytes were written by this process not long ago.
func (l *Log) Hot(offset int64) bool {
	return offset >= l.opened.Load() && offset >= l.End()-l.cfg.HotBytes
}

// locate returns the segment that holds the n bytes at offset; they must lie in one segment and below End. A segment that has just
// been deleted can still be read.
func (l *Log) locate(offset int64, n int) (*segment, error) {
	s := l.segmentOf(offset)
	if s == nil {
		s = l.deletedAt(offset)
	}
	if s == nil || n < 0 || offset+int64(n) > l.End() || offset+int64(n) > s.base+l.cfg.SegmentSize {
		return nil, fmt.Errorf("%w: %d bytes at %d", ErrRange, n, offset)
	}
	return s, nil
}

// AppendRange appends the n bytes at offset. A hot range is copied from memory; any other is read from the file and may block.
func (l *Log) AppendRange(dst []byte, offset int64, n int) ([]byte, error) {
	return l.appendRange(dst, offset, n, vfs.File.ReadAt)
}

func (l *Log) appendRange(dst []byte, offset int64, n int, readAt func(f vfs.File, p []byte, off int64) (int, error)) ([]byte, error) {
	s, err := l.locate(offset, n)
	if err != nil {
		return dst, err
	}
	at := offset - s.base
	if l.Hot(offset) && s.pin() {
		dst = append(dst, s.b[at:at+int64(n)]...)
		s.unpin()
		return dst, nil
	}
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	if m, err := readAt(s.file, dst[start:], at); m < n {
		return dst[:start], fmt.Errorf("read %d bytes at %d of %s: %w", n, offset, s.path, err)
	}
	return dst, nil
}

// Record reads the record at offset, of any size, into buf and points v at it. An offset at which no record starts is an error:
// size, magic and the record's own offset are checked.
func (l *Log) Record(offset int64, buf []byte, v *message.View) ([]byte, error) {
	s := l.segmentOf(offset)
	left := l.End() - offset
	if s == nil || left < message.FixedSize {
		return buf, fmt.Errorf("%w: %d", ErrRange, offset)
	}
	left = min(left, s.base+l.cfg.SegmentSize-offset)
	var err error
	if buf, err = l.AppendRange(buf[:0], offset, 4); err != nil {
		return buf, err
	}
	size := int64(int32(binary.BigEndian.Uint32(buf)))
	if size < message.FixedSize || size > left {
		return buf, fmt.Errorf("%w: no record starts at %d", ErrRange, offset)
	}
	if buf, err = l.AppendRange(buf[:0], offset, int(size)); err != nil {
		return buf, err
	}
	if err := v.Parse(buf); err != nil {
		return buf, fmt.Errorf("record at %d: %w", offset, err)
	}
	if v.PhyOffset() != offset {
		return buf, fmt.Errorf("record at %d: %w", offset, message.ErrOffset)
	}
	return buf, nil
}

// scanChunk is how much Scan reads at a time from ranges that are not mapped. A larger record is read by itself.
const scanChunk = 4 << 20

// Scan calls f for every record in [from, to), in order, with its offset, and returns where it stopped: to, or the offset of a record that is not
// whole inside the range. The view dies when f returns. A record that does not parse ends the scan with an error.
func (l *Log) Scan(from, to int64, f func(offset int64, v *message.View) error) (int64, error) {
	var buf []byte
	v := l.views.Get().(*message.View)
	defer l.views.Put(v)
	for from < to {
		s := l.segmentOf(from)
		if s == nil {
			return from, fmt.Errorf("%w: %d", ErrRange, from)
		}
		segmentEnd := s.base + l.cfg.SegmentSize
		at := from - s.base
		n := min(to, segmentEnd) - from
		var next int64
		var err error
		if l.Hot(from) && s.pin() {
			next, err = scanBytes(s.b[at:at+n], from, segmentEnd, v, f)
			s.unpin()
		} else {
			if buf == nil {
				buf = make([]byte, min(scanChunk, to-from))
			}
			next, buf, err = scanFile(s, at, n, segmentEnd, buf, v, f)
		}
		if err != nil {
			return next, err
		}
		if next == from {
			return from, nil // the record is not whole
		}
		from = next
	}
	return from, nil
}

// scanFile scans one chunk that is read from the file.
func scanFile(s *segment, at, n, segmentEnd int64, buf []byte, v *message.View, f func(offset int64, v *message.View) error) (int64, []byte, error) {
	from := s.base + at
	for {
		m := min(n, int64(len(buf)))
		if got, err := s.file.ReadAt(buf[:m], at); int64(got) < m {
			return from, buf, fmt.Errorf("read %s at %d: %w", s.path, from, err)
		}
		next, err := scanBytes(buf[:m], from, segmentEnd, v, f)
		if next > from || err != nil || m == n {
			return next, buf, err
		}
		size := int64(4 << 10) // the buffer held less than the fixed part of a record
		if m >= 4 {
			size = max(size, int64(binary.BigEndian.Uint32(buf)))
		}
		if size > maxRecord || size <= m {
			return from, buf, nil
		}
		buf = make([]byte, min(n, size)) // one record larger than the buffer
	}
}

// maxRecord bounds what a damaged size can make a scan read: the largest maxMessageSize that is accepted, and more.
const maxRecord = 256 << 20

// scanBytes walks the records in b, which starts at log offset from and ends at segmentEnd or before it. It returns the offset
// behind the last whole one. A blank record goes to segmentEnd, whatever number it holds.
func scanBytes(b []byte, from, segmentEnd int64, v *message.View, f func(offset int64, v *message.View) error) (int64, error) {
	for len(b) > 0 {
		if message.IsBlank(b) {
			return segmentEnd, nil
		}
		switch err := v.Parse(b); err {
		case nil:
		case message.ErrShort:
			return from, nil
		default:
			return from, fmt.Errorf("record at %d: %w", from, err)
		}
		if err := f(from, v); err != nil {
			return from, err
		}
		from += int64(v.Size())
		b = b[v.Size():]
	}
	return from, nil
}

// FirstStoreTime returns the store time in ms of the record at offset, 0 if there is none. A segment begins with a record.
func (l *Log) FirstStoreTime(offset int64) int64 {
	var v message.View
	if _, err := l.Record(offset, nil, &v); err != nil {
		return 0
	}
	return v.StoreTimestamp()
}
