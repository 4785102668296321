package commitlog

import (
	"encoding/binary"
	"fmt"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// AppendRaw adds bytes of the master's log to the log of a replica (TakesRaw). They begin at offset, which must be the log's end
// (ErrGap), and are whole records of one segment, each of which says its own offset; a blank comes with the zeros behind it, up to the
// segment's end. Anything else is ErrRaw, and nothing of b is taken. The checksums of the bodies are not looked at: what carries the
// bytes has one. b is not kept. What was appended may be read when Write has been called, and is durable when Flushed has reached it.
func (l *Log) AppendRaw(offset int64, b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.readyLocked(TakesRaw); err != nil {
		return err
	}
	if offset != l.end {
		return fmt.Errorf("%w: bytes from %d on, but it ends at %d", ErrGap, offset, l.end)
	}
	if len(b) == 0 {
		return errEmpty
	}
	if offset == l.tail.base+l.cfg.SegmentSize {
		if err := l.rollLocked(0); err != nil {
			return err
		}
	}
	segmentEnd := l.tail.base + l.cfg.SegmentSize
	c, err := l.chain(b, offset, segmentEnd)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRaw, err)
	}
	records := b[:c.records]
	if c.blank {
		records = b[:c.records+message.BlankSize]
	}
	switch {
	case !c.blank && c.records != len(b):
		return fmt.Errorf("%w: the record at %d is not whole", ErrRaw, offset+int64(c.records))
	case c.blank && (offset+int64(len(b)) != segmentEnd || !allZero(b[len(records):])):
		return fmt.Errorf("%w: a blank at %d without its zeros up to %d", ErrRaw, offset+int64(c.records), segmentEnd)
	}
	l.out.buf = append(l.out.buf, records...)
	l.pieceLocked(len(records))
	if c.blank { // the file holds the zeros already
		l.end, l.out.end = segmentEnd, segmentEnd
	}
	l.lastStore = max(l.lastStore, c.storeTime)
	l.lookAheadLocked()
	return nil
}

// chain is what a piece of a segment begins with.
type chain struct {
	records   int   // bytes of whole records
	blank     bool  // a blank follows them
	storeTime int64 // of the last record, ms
}

// chain walks the records in b, which lies at offset in the segment that ends at segmentEnd. Each must say its own offset.
func (l *Log) chain(b []byte, offset, segmentEnd int64) (c chain, err error) {
	v := l.views.Get().(*message.View)
	defer l.views.Put(v)
	end, err := scanBytes(b, offset, segmentEnd, v, func(at int64, v *message.View) error {
		if v.PhyOffset() != at {
			return fmt.Errorf("record at %d: %w: it says %d", at, message.ErrOffset, v.PhyOffset())
		}
		c.records += v.Size()
		c.storeTime = v.StoreTimestamp()
		return nil
	})
	c.blank = end > offset+int64(c.records)
	return c, err
}

// VerifyRecords checks the sums of what AppendRecords has returned for from.
func (l *Log) VerifyRecords(b []byte, from int64) error {
	v := l.views.Get().(*message.View)
	defer l.views.Put(v)
	_, err := scanBytes(b, from, from-from%l.cfg.SegmentSize+l.cfg.SegmentSize, v, func(at int64, v *message.View) error {
		if err := v.Verify(at); err != nil {
			return fmt.Errorf("record at %d: %w", at, err)
		}
		return nil
	})
	return err
}

// AppendRecords appends the bytes [from, to) of the log, for AppendRaw of a replica: to is the last record boundary for which that are
// at most limit bytes, but there is one record at least, whatever its size; a blank counts as a record that goes to the end of its
// segment. The piece lies in one segment and below End; at End it is empty. from must be a boundary. Hot ranges are copied from memory,
// others are read from the file, may block, and are not kept in memory for that. On an error dst is returned as it was.
func (l *Log) AppendRecords(dst []byte, from int64, limit int) (out []byte, to int64, err error) {
	end := l.End()
	if from == end {
		return dst, from, nil
	}
	s := l.segmentOf(from)
	if s == nil || from > end {
		return dst, from, fmt.Errorf("%w: %d", ErrRange, from)
	}
	segmentEnd := s.base + l.cfg.SegmentSize
	left := min(end, segmentEnd) - from
	n := min(int64(max(limit, message.FixedSize)), left)
	for {
		if out, err = l.appendRange(dst, from, int(n), vfs.File.ReadOnce); err != nil {
			return dst, from, err
		}
		b := out[len(dst):]
		c, err := l.chain(b, from, segmentEnd)
		switch {
		case err != nil:
			return dst, from, err
		case c.blank && (c.records == 0 || segmentEnd-from <= int64(limit)): // whatever follows it in the file has no meaning
			out = out[:len(dst)+c.records+message.BlankSize]
			return append(out, make([]byte, segmentEnd-from-int64(len(out)-len(dst)))...), segmentEnd, nil
		case c.records > 0:
			return out[:len(dst)+c.records], from + int64(c.records), nil
		}
		size := int64(0) // of one record that is larger than the limit
		if n >= 4 {
			size = int64(int32(binary.BigEndian.Uint32(b)))
		}
		if size <= n || size > left {
			return dst, from, fmt.Errorf("%w: no record starts at %d", ErrRange, from)
		}
		n = size
	}
}
