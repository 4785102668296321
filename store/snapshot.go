package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// A snapshot is what a log that does not begin at 0 no longer tells:
//
//	8      magic
//	8      base: where the log begins that goes with it
//	entry  one queue that has no message in that log but goes on counting, as often as there are such
//	2      0
//	4      CRC-32C of everything before it
//	rest   the state (package state) as of an offset at or above base
//
// An entry is the length of the topic u16, the topic, the queue id i32, the offset that it goes on at i64 and the unit of its last
// message. All integers are big-endian. Queues that have a message in the log start at the offset that the first one says.
const snapshotMagic = "castorsn"

// ErrSnapshot means that what should be a snapshot is none, or damaged.
var ErrSnapshot = errors.New("store: unusable snapshot")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// WriteSnapshot writes what a replica has to be given before it can take the log from base on, where a segment must begin. It returns
// the offset that the state is of: it is confirmed, and a log that ends below it does not go with the snapshot. Appends and dispatch go
// on meanwhile; w should be quick, since nothing else commits the state while it waits for room in its file.
func (s *Store) WriteSnapshot(w io.Writer, base int64) (applied int64, err error) {
	out := &sumWriter{w: bufio.NewWriterSize(w, 64<<10)}
	out.write([]byte(snapshotMagic))
	out.write(binary.BigEndian.AppendUint64(nil, uint64(base)))
	// The queues come before the state: what one of them gets from now on lies below the offset that the state is of, so the replica
	// has it in its log before it can be master.
	for _, q := range s.Queues.All() {
		top, last, expired, err := q.Expired(base)
		if err != nil {
			return 0, err
		}
		if !expired {
			continue
		}
		if last.Size <= 0 || last.Filler() || last.Phy >= base { // it is not known; its place must not be empty
			last = queue.Unit{Phy: base - 1, Size: message.FixedSize}
		}
		out.write(appendQueue(nil, q, top, last))
	}
	out.write([]byte{0, 0})
	out.write(binary.BigEndian.AppendUint32(nil, out.sum))
	if out.err == nil {
		out.err = out.w.Flush()
	}
	if out.err != nil {
		return 0, fmt.Errorf("snapshot: %w", out.err)
	}
	if err := s.commitState(); err != nil {
		return 0, err
	}
	if applied, err = s.db.Snapshot(w); err == nil && applied < base {
		err = fmt.Errorf("snapshot: the state is that of %d, the log begins at %d", applied, base)
	}
	return applied, err
}

// commitState has state.db hold what has been dispatched.
func (s *Store) commitState() error {
	s.saving.Lock()
	defer s.saving.Unlock()
	at := s.Dispatched()
	if err := s.syncLogTo(at); err != nil {
		return err
	}
	s.State.Advance(at)
	return s.db.Commit()
}

// JoinsAt is the offset of the state that was installed last; the log may have passed it long since.
func (s *Store) JoinsAt() int64 { return s.joins.Load() }

// Joining tells whether the log has not yet reached the offset of the state that was installed with it. Such a store can be nobody's
// master.
func (s *Store) Joining() bool { return s.Log.End() < s.joins.Load() }

// Install replaces everything that a replica holds by a snapshot, the size bytes of r. The log goes on at the snapshot's base, which is
// returned, and so does the confirm offset; the records up to the offset of the state bring queues and index only. before is called
// when the old store is gone and before the new one counts; an error of it is one of Install.
//
// A snapshot that is not whole changes nothing (ErrSnapshot). If the rest is interrupted or fails the store takes nothing any more, and
// the next Open finishes with an empty log at 0.
func (s *Store) Install(r io.ReaderAt, size int64, before func(base int64) error) (base int64, err error) {
	base, rest, err := s.checkSnapshot(io.NewSectionReader(r, 0, size))
	if err != nil {
		return 0, err
	}
	return base, s.reshape(func() error {
		return s.startOver(base, func() (int64, error) {
			if err := s.presetQueues(io.NewSectionReader(r, 0, size)); err != nil {
				return 0, err
			}
			applied, err := s.db.Install(io.NewSectionReader(r, rest, size-rest))
			if err == nil {
				err = before(base)
			}
			return applied, err
		})
	})
}

// checkSnapshot reads all of a snapshot and returns its base, and where the state begins.
func (s *Store) checkSnapshot(r io.Reader) (base, rest int64, err error) {
	in, base, err := beginSnapshot(r)
	if err != nil {
		return 0, 0, err
	}
	if base < 0 || base%s.cfg.SegmentSize != 0 {
		return 0, 0, fmt.Errorf("%w: no segment begins at %d", ErrSnapshot, base)
	}
	if err := in.queues(func(_ string, _ int32, top int64, last queue.Unit) error {
		if top < 1 || last.Phy >= base {
			return errors.New("a queue's offset")
		}
		return nil
	}); err != nil {
		return 0, 0, err
	}
	rest = in.n
	applied, err := state.CheckSnapshot(in.r)
	if err == nil && applied < base {
		err = fmt.Errorf("the state is that of %d, the log begins at %d", applied, base)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return base, rest, nil
}

// presetEvery is how many queues are kept in memory before they are written.
const presetEvery = 1000

func (s *Store) presetQueues(r io.Reader) error {
	in, _, err := beginSnapshot(r)
	if err != nil {
		return err
	}
	n := 0
	err = in.queues(func(topic string, id int32, top int64, last queue.Unit) error {
		if err := s.Queues.Preset(topic, id, top, last); err != nil {
			return err
		}
		if n++; n%presetEvery > 0 {
			return nil
		}
		_, err := s.Queues.Flush(false, math.MaxInt64)
		return err
	})
	if err == nil {
		_, err = s.Queues.Flush(true, math.MaxInt64)
	}
	return err
}

func appendQueue(b []byte, q *queue.Queue, top int64, last queue.Unit) []byte {
	be := binary.BigEndian
	b = append(be.AppendUint16(b, uint16(len(q.Topic))), q.Topic...)
	b = be.AppendUint64(be.AppendUint32(b, uint32(q.ID)), uint64(top))
	return be.AppendUint64(be.AppendUint32(be.AppendUint64(b, uint64(last.Phy)), uint32(last.Size)), uint64(last.Tags))
}

// sumWriter keeps the first error.
type sumWriter struct {
	w   *bufio.Writer
	sum uint32
	err error
}

func (s *sumWriter) write(b []byte) {
	s.sum = crc32.Update(s.sum, castagnoli, b)
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
}

// sumReader keeps the first error, after which it returns zeros.
type sumReader struct {
	r   *bufio.Reader
	n   int64 // bytes read
	sum uint32
	buf [1 << 16]byte
	err error
}

func (s *sumReader) take(n int) []byte {
	b := s.buf[:n]
	if s.err == nil {
		_, s.err = io.ReadFull(s.r, b)
	}
	if s.err != nil {
		clear(b)
		return b
	}
	s.n += int64(n)
	s.sum = crc32.Update(s.sum, castagnoli, b)
	return b
}

func beginSnapshot(r io.Reader) (*sumReader, int64, error) {
	s := &sumReader{r: bufio.NewReaderSize(r, 64<<10)}
	if magic := s.take(len(snapshotMagic)); s.err == nil && string(magic) != snapshotMagic {
		s.err = errors.New("it does not start like one")
	}
	base := int64(binary.BigEndian.Uint64(s.take(8)))
	if s.err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrSnapshot, s.err)
	}
	return s, base, nil
}

// queues calls f for every entry.
func (s *sumReader) queues(f func(topic string, id int32, top int64, last queue.Unit) error) error {
	be := binary.BigEndian
	for s.err == nil {
		n := be.Uint16(s.take(2))
		if n == 0 {
			break
		}
		topic := string(s.take(int(n)))
		b := s.take(4 + 8 + queue.UnitSize)
		if s.err == nil {
			u := queue.Unit{Phy: int64(be.Uint64(b[12:])), Size: int32(be.Uint32(b[20:])), Tags: int64(be.Uint64(b[24:]))}
			s.err = f(topic, int32(be.Uint32(b)), int64(be.Uint64(b[4:])), u)
		}
	}
	sum := s.sum
	if got := be.Uint32(s.take(4)); s.err == nil && got != sum {
		s.err = errors.New("wrong sum of the queues")
	}
	if s.err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, s.err)
	}
	return nil
}
