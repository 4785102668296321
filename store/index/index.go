// Package index is the key index of a broker: from the hash of "topic#key" to the log offsets of the records that have the key.
//
// # What it owns
//
// The files in one directory, in the format of RocketMQ's IndexFile, in both directions: Java reads what this package wrote and
// the other way round. A file is a header, a table of hash slots and the entries; a slot names the newest entry of its chain and
// an entry the one before it. The file being written lives in memory and reaches the disk by Flush; all others are only read.
// An index holds hashes and whole seconds, so whoever queries it checks topic, key and time on the record.
//
// # Invariants
//
//	I1 the entries of all files, taken in the order of names, are in log order.
//	I2 an entry's predecessor has a smaller number, so a walk ends.
//	I3 the header on disk counts only entries that are durable together with their slots. A slot at or above that count was
//	   caught by a crash and makes Open build the table again from the entries.
//	I4 Put and SetIndexed never wait for the disk, and allocate nothing but the table of a new file and a chunk for 4096 entries
//	   when none is free; what finds no memory is dropped, counted, and keeps Flush from claiming it.
//
// # Goroutines and locks
//
// It starts none. One goroutine calls Put and SetIndexed, any number Query. Lock order: Index.io (held over I/O, taken by
// Flush, Truncate, RemoveBefore and Close), then Index.mu (held for a few memory accesses).
//
// Java: IndexService, IndexFile, IndexHeader. Start reading at Index.Put, then Index.Flush.
package index

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

// Config says where the files are and how large each one is. The format does not record Slots and Entries: a file of another
// size is set aside.
type Config struct {
	Dir     string
	Slots   int32 // hash slots of a file (maxHashSlotNum); 0 means 5,000,000
	Entries int32 // entries of a file, of which number 0 is never used (maxIndexNum); 0 means 20,000,000
}

// memoryLimit bounds the memory for entries that wait for Flush: 3.3 million of them.
const memoryLimit = 64 << 20

// freeChunks is how many chunks are kept for reuse.
const freeChunks = 16

// batchSize is how many keys are added to a file at once.
const batchSize = 64

// put is one call of Put.
type put struct {
	hash      int32
	phy, time int64
}

// noLoss is above every log offset.
const noLoss = math.MaxInt64

// Index is safe for one goroutine that puts, many that query, and any number that flush.
type Index struct {
	cfg Config
	fs  vfs.FS
	clk clock.Clock
	log *zap.Logger

	maxChunks int
	indexed   atomic.Int64

	batch   [batchSize]put // owned by the goroutine that puts
	batched int
	touched int32 // no meaning; keeps link's first reads

	io       sync.Mutex // serializes all that writes files; never taken by Put or Query
	durable  int64      // log offset up to which a Flush has made everything durable
	poison   error      // a sync has failed: what is on disk is unknown, so nothing more is written
	reported int64      // drops that are in the logger's output
	buf      []byte     // of the I/O under way

	mu      sync.Mutex
	files   []*file // oldest first; replaced as a whole, so that a copy may be walked without the lock
	active  *file   // the newest, unless that one is full or there is none
	name    int64   // of the newest file that was ever there
	free    [][]byte
	chunks  int   // chunks that files hold, at most maxChunks
	dropped int64 // entries
	lost    int64 // log offset of the first dropped entry, or noLoss
}

// Put adds one key of the record at phyOffset; SetIndexed makes it visible. A record below the last one is in the index already
// and is passed over, as in IndexService.buildIndex; a further key of the last record is taken. Put keeps nothing of key.
func (x *Index) Put(topic TopicHash, key []byte, phyOffset, storeTimestamp int64) {
	if x.batched == len(x.batch) {
		x.link()
	}
	x.batch[x.batched] = put{topic.keyHash(key), phyOffset, storeTimestamp}
	x.batched++
}

// SetIndexed tells that every key of every record below end has been put, and makes them visible.
func (x *Index) SetIndexed(end int64) {
	x.link()
	x.indexed.Store(end)
}

// link adds the batch to the newest file; a full one is followed by a new one.
func (x *Index) link() {
	x.mu.Lock()
	defer x.mu.Unlock()
	f := x.active
	if f != nil && f.hdr.count < x.cfg.Entries {
		// The slots are anywhere in a table larger than the caches. Reading them first lets the processor wait for many of them
		// at a time, which makes a Put several times as fast.
		for _, p := range x.batch[:x.batched] {
			x.touched ^= f.slots[p.hash%f.slotCount]
		}
	}
	for _, p := range x.batch[:x.batched] {
		if f == nil || f.hdr.count >= x.cfg.Entries {
			f = x.rollLocked()
		}
		switch {
		case p.phy < f.hdr.endPhy:
		case x.roomLocked(f):
			f.putLocked(p)
		default:
			x.dropped++
			x.lost = min(x.lost, p.phy)
		}
	}
	x.batched = 0
}

// rollLocked starts a file in memory. Like Java's it takes over the end of the last one until its first entry.
func (x *Index) rollLocked() *file {
	x.name = max(timeName(x.clk.Now()), x.name+1)
	f := x.newFile(fileName(x.name))
	f.slots, f.dirty, f.written = make([]int32, x.cfg.Slots), make([]uint64, f.pages()/64+1), 1
	f.hdr = header{count: 1}
	if n := len(x.files); n > 0 {
		f.hdr.inherit(x.files[n-1].hdr)
	}
	f.saved = f.hdr
	x.files = append(slices.Clip(x.files), f)
	x.active = f
	return f
}

// roomLocked makes sure that there is memory for the next entry of f.
func (x *Index) roomLocked(f *file) bool {
	if f.chunkOf(f.hdr.count) < len(f.chunks) {
		return true
	}
	if x.chunks >= x.maxChunks {
		return false
	}
	var chunk []byte
	if n := len(x.free); n > 0 {
		chunk, x.free = x.free[n-1], x.free[:n-1]
	} else {
		chunk = make([]byte, chunkSize)
	}
	f.chunks = append(f.chunks, chunk)
	x.chunks++
	return true
}

// freeLocked takes the chunks [i, j) from f.
func (x *Index) freeLocked(f *file, i, j int) {
	for _, chunk := range f.chunks[i:j] {
		if len(x.free) < freeChunks {
			x.free = append(x.free, chunk)
		}
	}
	x.chunks -= j - i
	f.chunks = slices.Delete(f.chunks, i, j)
}

// forgetLocked takes a file off the list.
func (x *Index) forgetLocked(f *file) {
	x.files = slices.DeleteFunc(slices.Clone(x.files), func(g *file) bool { return g == f })
	if x.active == f {
		x.active = nil
	}
	x.freeLocked(f, 0, len(f.chunks))
}

// Indexed is the log offset up to which every key has been put: the last SetIndexed. After Open it is the offset of the last
// record in the index, whose keys may be there in part. Putting starts again by Truncate(Indexed()) and the record there.
func (x *Index) Indexed() int64 { return x.indexed.Load() }

// LastUpdate returns the store time (ms) and the log offset of the record that was put last, zeros when there is none.
func (x *Index) LastUpdate() (timestamp, phyOffset int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.files); n > 0 {
		return x.files[n-1].hdr.endTime, x.files[n-1].hdr.endPhy
	}
	return 0, 0
}

// Dropped is how many entries Put has dropped because the disk did not take those before them. They are missing until the
// index is opened again and its putting starts from Indexed.
func (x *Index) Dropped() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dropped
}

// Close flushes and closes all files. Nobody may call Put any more; a Query that still runs finds no more.
func (x *Index) Close() error {
	x.io.Lock()
	defer x.io.Unlock()
	x.link()
	err := x.flush(true)
	x.mu.Lock()
	files := x.files
	x.files, x.active = nil, nil
	x.mu.Unlock()
	for _, f := range files {
		err = errors.Join(err, f.close())
	}
	return err
}

func (x *Index) newFile(name string) *file {
	return &file{path: filepath.Join(x.cfg.Dir, name), slotCount: x.cfg.Slots}
}

// fileSize is the size of every file.
func (c *Config) fileSize() int64 {
	return headerSize + int64(c.Slots)*slotSize + int64(c.Entries)*entrySize
}

func (c *Config) check() error {
	if c.Slots == 0 {
		c.Slots = 5_000_000
	}
	if c.Entries == 0 {
		c.Entries = 20_000_000
	}
	if c.Slots < 1 || c.Entries < 2 {
		return fmt.Errorf("key index: a file of %d slots (maxHashSlotNum) and %d entries (maxIndexNum) holds nothing", c.Slots, c.Entries)
	}
	return nil
}

const nameDigits = 17

// timeName is the local time yyyyMMddHHmmssSSS as a number; UtilAll.timeMillisToHumanString. Java parses names as numbers, so
// when the clock has gone back the next number serves as well.
func timeName(t time.Time) int64 {
	n, err := strconv.ParseInt(strings.Replace(t.Local().Format("20060102150405.000"), ".", "", 1), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func fileName(n int64) string { return fmt.Sprintf("%0*d", nameDigits, n) }

// parseName returns the number that a file is named by, 0 when it is not a name of this package.
func parseName(name string) int64 {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n <= 0 || n == math.MaxInt64 || len(name) != nameDigits || name[0] == '+' {
		return 0
	}
	return n
}
