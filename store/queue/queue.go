// Package queue keeps the ConsumeQueues: per topic and queue id the list of where its messages lie in the CommitLog.
//
// # What it owns
//
// The files consumequeue/<topic>/<queueId>/<20 digits>, in Java's format: units of 20 bytes (log offset i64, size i32, tags code
// i64), the unit of queue offset n at byte 20*n. New units are kept in memory and written in batches by Flush; recent ones stay
// in memory for readers. No file is kept open, so ten thousand queues cost ten thousand small buffers and nothing else.
//
// # Invariants
//
//	Q1 the unit of queue offset n is the n-th: a Put at any other place is a duplicate (below the end) or leaves explicit
//	   fillers (above it), never a shifted queue.
//	Q2 units are in log order.
//	Q3 min <= max; a queue whose messages have all expired keeps min == max, so offsets never start over.
//
// # Concurrency
//
// One goroutine (dispatch) calls Put; one calls Flush; any number read.
//
// Formats: docs/format/consumequeue.md. Java: ConsumeQueue. Start reading at Queue.Put.
package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
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

// ErrRange is returned for an offset outside [Min, Max).
var ErrRange = errors.New("consume queue: offset out of range")

// keepUnits is how many written units stay in memory for readers.
const keepUnits = 1024

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

	min atomic.Int64
	max atomic.Int64

	mu      sync.Mutex
	mem     []byte // units [memBase, max)
	memBase int64
	written int64 // units below it are in the files
	reader  *reader
	dirty   bool  // in the set's list of queues to flush
	synced  int64 // units below it are durable
}

// Min is the offset of the first message, Max when there is none.
func (q *Queue) Min() int64 { return q.min.Load() }

// Max is the offset that the next message to be dispatched gets; everything below may be read.
func (q *Queue) Max() int64 { return q.max.Load() }

// Put adds the unit of a message. A unit below Max is a duplicate and is passed over.
func (q *Queue) Put(offset int64, u Unit) {
	top := q.max.Load()
	if offset < top {
		return
	}
	q.mu.Lock()
	if offset > top {
		q.gapLocked(offset, top)
	}
	q.mem = appendUnit(q.mem, u)
	q.max.Store(offset + 1)
	add := !q.dirty
	q.dirty = true
	q.mu.Unlock()
	if add {
		q.set.addDirty(q)
	}
}

// gapLocked makes room up to offset: an empty queue starts there, any other gets fillers.
func (q *Queue) gapLocked(offset, top int64) {
	if q.min.Load() == top {
		q.min.Store(offset)
		if q.memBase+int64(len(q.mem)/UnitSize) == q.written { // nothing pending: skip the files up to here
			q.mem, q.memBase, q.written = q.mem[:0], offset, offset
			return
		}
	}
	for ; top < offset; top++ {
		q.mem = appendUnit(q.mem, Unit{Size: fillerSize})
	}
}

func appendUnit(b []byte, u Unit) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(u.Phy))
	b = binary.BigEndian.AppendUint32(b, uint32(u.Size))
	return binary.BigEndian.AppendUint64(b, uint64(u.Tags))
}

func readUnit(b []byte) Unit {
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

func (q *Queue) read(offset int64, dst []Unit, readAt func(f vfs.File, p []byte, off int64) (int, error)) (int, error) {
	if offset < q.min.Load() || offset >= q.max.Load() || len(dst) == 0 {
		return 0, fmt.Errorf("%w: %d of %s-%d, which has [%d, %d)", ErrRange, offset, q.Topic, q.ID, q.Min(), q.Max())
	}
	q.mu.Lock()
	if offset >= q.memBase {
		b := q.mem[(offset-q.memBase)*UnitSize:]
		n := min(len(dst), len(b)/UnitSize)
		for i := range n {
			dst[i] = readUnit(b[i*UnitSize:])
		}
		q.mu.Unlock()
		return n, nil
	}
	end := min(q.written, q.memBase)
	q.mu.Unlock()
	return q.readFile(offset, dst[:min(int64(len(dst)), end-offset)], readAt)
}

// reader is an open file of a queue that is being read. It is closed by the last one who uses it after the queue has let it go.
type reader struct {
	first int64 // unit
	f     vfs.File
	users int
	gone  bool
}

// openReader returns the file that starts with a unit, the one that was read last if it is that.
func (q *Queue) openReader(first int64) (*reader, error) {
	q.mu.Lock()
	if r := q.reader; r != nil && r.first == first {
		r.users++
		q.mu.Unlock()
		return r, nil
	}
	q.mu.Unlock()
	f, err := q.set.fs.Open(q.filePath(first))
	if err != nil {
		return nil, err
	}
	r := &reader{first: first, f: f, users: 1}
	q.mu.Lock()
	old := q.reader
	q.reader = r
	q.mu.Unlock()
	if old != nil {
		q.letGo(old)
	} else {
		q.set.readers.Add(1)
	}
	return r, nil
}

// letGo closes r, or has its last user close it.
func (q *Queue) letGo(r *reader) {
	q.mu.Lock()
	if q.reader == r {
		q.reader = nil
		q.set.readers.Add(-1)
	}
	r.gone = true
	last := r.users == 0
	q.mu.Unlock()
	if last {
		_ = r.f.Close()
	}
}

// release ends a use of r. Where many queues are read, files are not kept open.
func (q *Queue) release(r *reader) {
	q.mu.Lock()
	r.users--
	last := r.gone && r.users == 0
	q.mu.Unlock()
	if last {
		_ = r.f.Close()
	} else if q.set.readers.Load() > maxReaders {
		q.letGo(r)
	}
}

// maxReaders is how many queues keep the file open that they were read from last.
const maxReaders = 512

// readFile reads units of one file; a read does not go beyond the file's end.
func (q *Queue) readFile(offset int64, dst []Unit, readAt func(f vfs.File, p []byte, off int64) (int, error)) (int, error) {
	per := q.set.cfg.FileSize / UnitSize
	n := min(int64(len(dst)), per-offset%per)
	r, err := q.openReader(offset / per * per)
	if err != nil {
		return 0, err
	}
	defer q.release(r)
	var small [64 * UnitSize]byte
	buf := small[:]
	if n*UnitSize > int64(len(small)) {
		buf = make([]byte, n*UnitSize)
	}
	m, err := readAt(r.f, buf[:n*UnitSize], offset%per*UnitSize)
	if m < UnitSize || errors.Is(err, vfs.ErrWouldBlock) {
		return 0, fmt.Errorf("read %s: %w", q.filePath(r.first), err)
	}
	for i := range m / UnitSize {
		dst[i] = readUnit(buf[i*UnitSize:])
	}
	return m / UnitSize, nil
}

// At reads one unit.
func (q *Queue) At(offset int64) (Unit, error) {
	var one [1]Unit
	_, err := q.Read(offset, one[:])
	return one[0], err
}

func (q *Queue) filePath(firstUnit int64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d", firstUnit*UnitSize))
}

// flush writes the pending units. The bytes are copied under the lock and written outside it.
func (q *Queue) flush(scratch []byte) ([]byte, error) {
	q.mu.Lock()
	q.dirty = false
	from := q.written
	scratch = append(scratch[:0], q.mem[(from-q.memBase)*UnitSize:]...)
	q.mu.Unlock()
	to := from + int64(len(scratch)/UnitSize)
	if err := q.writeUnits(from, scratch); err != nil {
		q.mu.Lock()
		q.dirty = true
		q.mu.Unlock()
		return scratch, err
	}
	q.mu.Lock()
	q.written = to
	if drop := to - keepUnits - q.memBase; drop > keepUnits {
		q.mem = append(q.mem[:0], q.mem[drop*UnitSize:]...)
		q.memBase += drop
	}
	q.mu.Unlock()
	return scratch, nil
}

// writeUnits writes units from queue offset at on, file by file.
func (q *Queue) writeUnits(at int64, b []byte) error {
	per := q.set.cfg.FileSize / UnitSize
	for len(b) > 0 {
		first := at / per * per
		n := min(int64(len(b)), (first+per-at)*UnitSize)
		if err := q.writeFile(first, (at-first)*UnitSize, b[:n]); err != nil {
			return err
		}
		at += n / UnitSize
		b = b[n:]
	}
	return nil
}

func (q *Queue) writeFile(first, pos int64, b []byte) error {
	path := q.filePath(first)
	f, err := q.set.fs.Open(path)
	if err != nil {
		if f, err = q.createFile(path, pos); err != nil {
			return err
		}
	}
	_, err = f.WriteAt(b, pos)
	return errors.Join(err, f.Close())
}

// createFile makes a file of the full size (sparse). Slots before the first unit get fillers, as Java writes them.
func (q *Queue) createFile(path string, pos int64) (vfs.File, error) {
	if err := q.set.fs.MkdirAll(q.dir); err != nil {
		return nil, err
	}
	f, err := q.set.fs.Create(path)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(q.set.cfg.FileSize)
	if err == nil && pos > 0 {
		var fill []byte
		for range pos / UnitSize {
			fill = appendUnit(fill, Unit{Size: fillerSize})
		}
		_, err = f.WriteAt(fill, 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// idle drops the memory of a queue that has had no message since the last flush.
func (q *Queue) idle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if top := q.max.Load(); q.written == top && !q.dirty {
		q.mem, q.memBase = nil, top
	}
}

// close lets go of the file that was read last.
func (q *Queue) close() {
	q.mu.Lock()
	r := q.reader
	q.mu.Unlock()
	if r != nil {
		q.letGo(r)
	}
}

// Search returns the first offset in [Min, Max] for which at(unit) is true; at must be false before some offset and true from it
// on. Fillers are passed over as false.
func (q *Queue) Search(at func(Unit) (bool, error)) (int64, error) {
	lo, hi := q.Min(), q.Max()
	for lo < hi {
		mid := lo + (hi-lo)/2
		u, err := q.At(mid)
		if err != nil {
			return 0, err
		}
		yes := false
		if !u.Filler() {
			if yes, err = at(u); err != nil {
				return 0, err
			}
		}
		if yes {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}

// correctMin moves Min up to the first message at or above the log's first offset, and deletes files that hold none.
func (q *Queue) correctMin(logMin int64) error {
	if q.Min() == q.Max() {
		return nil
	}
	if first, err := q.At(q.Min()); err == nil && !first.Filler() && first.Phy >= logMin {
		return nil
	}
	low, err := q.Search(func(u Unit) (bool, error) { return u.Phy >= logMin, nil })
	if err != nil {
		return err
	}
	q.min.Store(low)
	return q.removeFiles(low)
}

// removeFiles deletes files whose units are all below offset, never the one that holds the last unit: it keeps Max.
func (q *Queue) removeFiles(offset int64) error {
	per := q.set.cfg.FileSize / UnitSize
	files, err := q.set.listFiles(q.dir)
	for i, first := range files {
		if i == len(files)-1 || first+per > offset {
			break
		}
		err = errors.Join(err, q.set.fs.Remove(q.filePath(first)))
	}
	return err
}

// key names a queue in messages.
func (q *Queue) key() string { return q.Topic + "-" + strconv.Itoa(int(q.ID)) }
