// Package queue keeps the ConsumeQueues: per topic and queue id the list of where its messages lie in the CommitLog.
//
// # What it owns
//
// The files consumequeue/<topic>/<queueId>/<20 digits>, in Java's format: units of 20 bytes (log offset i64, size i32, tags code
// i64), the unit of queue offset n at byte 20*n. New units are kept in memory and written in batches by Flush; recent ones stay
// in memory for readers. Few files are kept open, so ten thousand queues cost ten thousand small buffers and nothing else.
//
// # Invariants
//
//	Q1 the unit of queue offset n is the n-th: what is missing below it is an explicit filler, never a shifted queue.
//	Q2 units are in log order.
//	Q3 min <= max; a queue whose messages have all expired keeps min == max, so offsets never start over.
//	Q4 a Queue stands for its topic and id as long as the set is open: deleting the topic empties it, and it is the same one when
//	   the topic is made again, so that whoever holds it never counts offsets of its own.
//
// # Concurrency
//
// One goroutine (dispatch) calls Put, Cut and Remove, which touch no file; Flush and CorrectMin do what they left to do to the
// files, one at a time (Set.io); any number read. Lock order: Set.io, Topic.mu, Queue.mu, Set.dirtyMu.
//
// Formats: docs/format/consumequeue.md. Java: ConsumeQueue. Start reading at Queue.Put.
package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/castor-mq/castor/internal/vfs"
)

// UnitSize is the size of one unit in bytes.
const UnitSize = 20

// fillerSize marks a unit without a message (Java's pre-fill of a first file).
const fillerSize = 0x7FFFFFFF

// Unit says where one message lies.
type Unit struct {
	Phy  int64 // log offset
	Size int32 // bytes
	Tags int64 // hash of the tags, or the delivery time in SCHEDULE_TOPIC_XXXX
}

// Filler tells whether the unit stands for no message.
func (u Unit) Filler() bool { return u.Size == fillerSize && u.Phy == 0 }

// Errors of reads and of Put.
var (
	// ErrRange is returned for an offset outside [Min, Max).
	ErrRange = errors.New("consume queue: offset out of range")
	// ErrTaken is returned by Put when another message has the offset.
	ErrTaken = errors.New("consume queue: the offset is taken")
	// ErrOffset is returned by Put for an offset that no queue can have reached.
	ErrOffset = errors.New("consume queue: impossible offset")
)

const (
	// maxGap is the largest hole between two messages of a queue that is filled. A larger one is a damaged number.
	maxGap = 1 << 20
	// maxOffset keeps positions in bytes within an int64.
	maxOffset = 1 << 58
)

// chunk is a piece of a queue in memory.
const chunkUnits = 64

type chunk [chunkUnits * UnitSize]byte

// Queue is the ConsumeQueue of one topic and queue id.
type Queue struct {
	Topic string
	ID    int32

	// Next is the offset that the next append takes. It is guarded by the CommitLog's append lock.
	Next int64

	// Watched is set while somebody waits for a message in the queue.
	Watched atomic.Bool

	set *Set
	dir string

	min atomic.Int64 // changed under mu
	max atomic.Int64 // changed under mu

	mu      sync.Mutex
	chunks  []*chunk // units [memBase, max)
	memBase int64
	written int64 // units below it are in the files
	synced  int64 // units below it are durable
	stale   int64 // files may hold units up to here that are no longer the queue's
	wipe    bool  // the files are those of a former life
	wipeAt  int64 // end of the log record that ended it, 0 if none did
	odd     bool  // a file is not as this set would have made it
	dirty   bool  // in the set's list of queues to flush
	life    int   // how often the queue was emptied
	reader  *reader

	gone bool // Topic.mu: its topic was deleted
}

// Min is the offset of the first message, Max when there is none.
func (q *Queue) Min() int64 { return q.min.Load() }

// Max is the offset that the next message to be dispatched gets; everything below may be read.
func (q *Queue) Max() int64 { return q.max.Load() }

// Put adds the unit of a message. A unit that is there already is passed over; another one at its offset is ErrTaken. A queue
// without messages starts at any offset, also at one below its own: a power loss may have left a later file and not the first.
func (q *Queue) Put(offset int64, u Unit) error {
	top := q.max.Load()
	if offset != top {
		if offset < 0 || offset > maxOffset || offset > top+maxGap && q.min.Load() != top {
			return fmt.Errorf("%w: %d behind %d", ErrOffset, offset, top)
		}
		if offset < top && q.min.Load() < top {
			return q.compare(offset, u)
		}
	}
	q.mu.Lock()
	switch {
	case offset > top:
		q.gapLocked(offset, top)
	case offset < top:
		q.emptyLocked(offset, 0)
	}
	q.appendLocked(u)
	q.markLocked()
	q.mu.Unlock()
	return nil
}

// compare tells whether the unit at an offset is u. Below Min it is not.
func (q *Queue) compare(offset int64, u Unit) error {
	old, err := q.At(offset)
	if errors.Is(err, ErrRange) || err == nil && old != u {
		return fmt.Errorf("%w: %d by the record at %d", ErrTaken, offset, old.Phy)
	}
	return err
}

// gapLocked makes room up to offset: a queue without messages starts there, any other gets fillers.
func (q *Queue) gapLocked(offset, top int64) {
	if q.min.Load() == top {
		q.emptyLocked(offset, 0)
		return
	}
	for ; top < offset; top++ {
		q.appendLocked(Unit{Size: fillerSize})
	}
}

func (q *Queue) appendLocked(u Unit) {
	top := q.max.Load()
	at := int(top - q.memBase)
	if at == len(q.chunks)*chunkUnits {
		q.chunks = append(q.chunks, q.set.getChunk())
	}
	putUnit(q.chunks[at/chunkUnits][at%chunkUnits*UnitSize:], u)
	q.max.Store(top + 1)
}

// emptyLocked makes the queue one without messages that goes on at offset. logEnd is the end of the record that says so, 0 if none
// does.
func (q *Queue) emptyLocked(offset, logEnd int64) {
	q.freeLocked(len(q.chunks))
	q.memBase, q.written, q.synced, q.stale = offset, offset, offset, 0
	q.min.Store(offset)
	q.max.Store(offset)
	q.wipe, q.wipeAt, q.odd = true, max(q.wipeAt, logEnd), false
	q.life++
	q.letGoLocked(q.reader)
	q.markLocked()
}

// markLocked has the next Flush look at the queue.
func (q *Queue) markLocked() {
	if !q.dirty {
		q.dirty = true
		q.set.addDirty(q)
	}
}

// freeLocked drops the first n chunks.
func (q *Queue) freeLocked(n int) {
	for _, c := range q.chunks[:n] {
		q.set.chunks.Put(c)
	}
	q.memBase += int64(n) * chunkUnits
	q.chunks = append(q.chunks[:0], q.chunks[n:]...)
}

// Cut drops the units at and above offset.
func (q *Queue) Cut(offset int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	top := q.max.Load()
	if offset >= top {
		return
	}
	if offset < q.min.Load() || offset <= 0 {
		q.emptyLocked(max(offset, 0), 0)
		return
	}
	if offset <= q.memBase {
		q.freeLocked(len(q.chunks))
		q.memBase = offset
	} else {
		keep := (int(offset-q.memBase) + chunkUnits - 1) / chunkUnits
		for _, c := range q.chunks[keep:] {
			q.set.chunks.Put(c)
		}
		q.chunks = q.chunks[:keep]
	}
	q.stale = max(q.stale, q.written)
	q.written, q.synced = min(q.written, offset), min(q.synced, offset)
	q.max.Store(offset)
	q.markLocked()
}

func putUnit(b []byte, u Unit) {
	_ = b[UnitSize-1]
	binary.BigEndian.PutUint64(b, uint64(u.Phy))
	binary.BigEndian.PutUint32(b[8:], uint32(u.Size))
	binary.BigEndian.PutUint64(b[12:], uint64(u.Tags))
}

func readUnit(b []byte) Unit {
	_ = b[UnitSize-1]
	return Unit{
		Phy:  int64(binary.BigEndian.Uint64(b)),
		Size: int32(binary.BigEndian.Uint32(b[8:])),
		Tags: int64(binary.BigEndian.Uint64(b[12:])),
	}
}

// Read fills dst with the units from offset on and returns how many there were: at least one unless offset is outside
// [Min, Max).
func (q *Queue) Read(offset int64, dst []Unit) (int, error) {
	return q.read(offset, dst, vfs.File.ReadAt)
}

// ReadCached is Read for a caller that may not wait for the disk: vfs.ErrWouldBlock if the units are on disk only.
func (q *Queue) ReadCached(offset int64, dst []Unit) (int, error) {
	return q.read(offset, dst, vfs.File.ReadCached)
}

func (q *Queue) read(offset int64, dst []Unit, readAt readAt) (int, error) {
	q.mu.Lock()
	top := q.max.Load()
	if offset < q.min.Load() || offset >= top || len(dst) == 0 {
		q.mu.Unlock()
		return 0, q.rangeError(offset)
	}
	if offset < q.memBase {
		end, life := q.memBase, q.life
		q.mu.Unlock()
		n, err := q.readFile(offset, dst[:min(int64(len(dst)), end-offset)], readAt)
		if q.livesAgain(life) || err != nil && (offset < q.Min() || offset >= q.Max()) { // deleted with its topic, or expired
			return 0, q.rangeError(offset)
		}
		return n, err
	}
	n := int(min(int64(len(dst)), top-offset))
	at := int(offset - q.memBase)
	for i := range n {
		dst[i] = readUnit(q.chunks[at/chunkUnits][at%chunkUnits*UnitSize:])
		at++
	}
	q.mu.Unlock()
	return n, nil
}

// livesAgain tells whether the queue was emptied since it had that life.
func (q *Queue) livesAgain(life int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.life != life
}

func (q *Queue) rangeError(offset int64) error {
	return fmt.Errorf("%w: %d of %s, which has [%d, %d)", ErrRange, offset, q.key(), q.Min(), q.Max())
}

// At reads one unit.
func (q *Queue) At(offset int64) (Unit, error) {
	var one [1]Unit
	_, err := q.Read(offset, one[:])
	return one[0], err
}

// Search returns the first offset in [Min, Max] of a message for which at is true, Max if there is none; at must be false before
// some offset and true from it on. A filler counts as the message behind it.
func (q *Queue) Search(at func(Unit) (bool, error)) (int64, error) {
	lo, hi := q.Min(), q.Max()
	for lo < hi {
		mid := lo + (hi-lo)/2
		next, err := q.skipFillers(mid, hi)
		if err == nil && next == hi { // only fillers in [mid, hi)
			hi = mid
			continue
		}
		var u Unit
		if err == nil {
			u, err = q.At(next)
		}
		if errors.Is(err, ErrRange) && mid < q.Min() { // expired meanwhile
			lo = min(q.Min(), hi)
			continue
		}
		if err != nil {
			return 0, err
		}
		yes, err := at(u)
		if err != nil {
			return 0, err
		}
		if yes {
			hi = mid
		} else {
			lo = next + 1
		}
	}
	return q.skipFillers(lo, q.Max())
}

// key names a queue in messages.
func (q *Queue) key() string { return fmt.Sprintf("%s-%d", q.Topic, q.ID) }
