// Package commitlog stores every message of one broker in a single append-only log of fixed-size segments.
//
// # What it owns
//
// The segment files, the append position, the flush position. A segment is a file named by its base offset (20 digits),
// allocated to its full size before it is used, and mapped for reading while it is near the end of the log. Appends gather in
// memory and are written with one pwrite for many (Write): a store into a mapping costs a page fault for every page, several times
// what the copy by the kernel does (docs/performance.md).
//
// # Invariants
//
//	I1 flushed <= written <= appended; readers see only bytes below written.
//	I2 a record never crosses the end of a segment; the rest of a segment is one blank record.
//	I3 after a failed sync the log is poisoned: no append succeeds until it is opened again.
//	I4 a record says its own offset.
//
// # Goroutines
//
// RunPrepare makes segments ahead of need and unmaps old ones; RunFlush syncs. Both end with their context. Appends and reads run
// on their callers.
//
// # Replicas
//
// A replica holds the same bytes at the same offsets as its master: AppendRecords reads a piece of the master's log, AppendRaw adds it
// to the replica's, Truncate takes back what the master does not have, Reset starts over elsewhere. Both ends of a piece are record
// boundaries; a blank record counts as one that fills its segment, so a piece never ends inside it. The Mode of a log says whether it
// takes its own records or a master's, never both.
//
// # Locks
//
// mu, the append lock, is held for a copy. writing, flushing and making are each held over I/O of their kind by whoever does it;
// an append takes making only if the preparer has not kept up. Order: flushing, writing, mu, making, list. Truncate and Reset hold the
// first two and making; cutting keeps appends out meanwhile.
//
// Formats: docs/format/commitlog.md. Java: CommitLog, MappedFileQueue, DefaultMappedFile. Start reading at Log.Append; for replicas at
// Log.AppendRaw.
package commitlog

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// Errors of appends and reads.
var (
	// ErrFull means that there is no room on the disk for the next segment.
	ErrFull = errors.New("commit log: disk full")
	// ErrTooLarge means that the records do not fit into one segment.
	ErrTooLarge = errors.New("commit log: larger than a segment")
	// ErrRange means that the offset is not in the log.
	ErrRange = errors.New("commit log: no such offset")
	// ErrPoisoned means that a write or a sync has failed: what is on disk is unknown, so nothing more is taken (I3).
	ErrPoisoned = errors.New("commit log: a write or a sync has failed")
	// ErrBehind means that too much waits to be written: the disk does not keep up.
	ErrBehind = errors.New("commit log: the disk does not keep up")
	// ErrFenced means that the log does not take such records now; see Mode.
	ErrFenced = errors.New("commit log: fenced")
	// ErrGap means that the bytes of a master do not begin where the log ends.
	ErrGap = errors.New("commit log: not at the end of the log")
	// ErrRaw means that the bytes of a master are no chain of records.
	ErrRaw = errors.New("commit log: not a chain of records")
)

// Mode says whose records a log takes.
type Mode int8

// The modes. A log is opened with TakesOwn.
const (
	TakesOwn     Mode = iota // Append: a master's log, or one without replicas
	TakesRaw                 // AppendRaw, Truncate and Reset: a replica's log
	TakesNothing             // neither
)

// Config says where the log is and how it behaves.
type Config struct {
	Dir         string
	SegmentSize int64 // bytes; the same for every segment of a store (mappedFileSizeCommitLog)
	// Window is how many bytes ahead of the end are zeroed; the preparer goes on when half of them are used up. 0 means 2 MiB.
	Window int64
	// HotBytes is how far behind the end reads go through the mapping; older ranges are read with pread. 0 means 1 GiB.
	HotBytes int64
	// ZeroAhead writes zeros ahead of the append position, so that a sync has no file metadata to write. For SYNC_FLUSH.
	ZeroAhead bool
}

// Log is safe for concurrent use.
type Log struct {
	cfg Config
	fs  vfs.FS
	clk clock.Clock
	log *zap.Logger

	segments atomic.Pointer[[]*segment] // sorted by base; replaced as a whole under list
	written  atomic.Int64               // I1: published after the write
	flushed  atomic.Int64               // I1: moved only after a successful sync
	syncTook atomic.Int64               // ns
	opened   atomic.Int64               // bytes above it were written by this process
	poison   atomic.Pointer[error]
	began    time.Time
	writes   since // the write that is under way
	syncs    since
	failed   chan struct{} // closed when poison is set
	full     atomic.Bool   // the disk has no room for the next segment
	stuck    atomic.Bool   // the disk had no room for held

	mu        sync.Mutex // the append lock
	tail      *segment
	end       int64 // of what has been appended; >= written
	out       batch // appended and not yet written
	idle      batch // empty, for when out is being written
	lastStore int64 // store time of the last record; never goes back
	mode      Mode
	refusal   error // for records that mode does not allow
	cutting   bool  // Truncate or Reset is under way
	lateRolls int64 // segments that an append had to make itself
	wanted    int64 // up to where the preparer has been asked to look

	writing sync.Mutex // one Write at a time
	held    batch      // taken from out and not yet written; see stuck
	zeroed  int64      // the preparer has written zeros up to here

	flushing  sync.Mutex // one sync at a time
	making    sync.Mutex // one creation of a segment at a time
	wantPrep  chan struct{}
	wantFlush chan struct{}

	views sync.Pool // *message.View, of scans

	list    sync.Mutex // changes of segments
	spare   *segment   // the next segment, ready; nil if it has to be made
	deleted []deleted  // oldest first
}

// deleted is a segment that is no longer in the log. A read that found its offset before can still take it.
type deleted struct {
	s  *segment
	at time.Time
}

// deletedGrace is how long a deleted segment stays open for reads that are under way.
const deletedGrace = time.Second

// Open lists and checks the segments in cfg.Dir. The log can be read at once; Recover must run before the first append.
func Open(cfg Config, fsys vfs.FS, clk clock.Clock, log *zap.Logger) (*Log, error) {
	if cfg.Window == 0 {
		cfg.Window = 2 << 20
	}
	if cfg.HotBytes == 0 {
		cfg.HotBytes = 1 << 30
	}
	l := &Log{cfg: cfg, fs: fsys, clk: clk, log: log, began: clk.Now(), wantPrep: make(chan struct{}, 1), wantFlush: make(chan struct{}, 1),
		failed: make(chan struct{})}
	l.views.New = func() any { return new(message.View) }
	if err := fsys.MkdirAll(cfg.Dir); err != nil {
		return nil, err
	}
	segs, err := l.load()
	if err != nil {
		return nil, err
	}
	l.segments.Store(&segs)
	if n := len(segs); n > 0 {
		l.written.Store(segs[n-1].base + cfg.SegmentSize)
	}
	return l, nil
}

// load opens every segment file. A gap or a file of another size is damage, except for an empty last file, which a crash
// between creation and allocation leaves behind.
func (l *Log) load() ([]*segment, error) {
	entries, err := l.fs.ReadDir(l.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var bases []int64
	for _, e := range entries {
		base, ok := parseName(e.Name())
		switch {
		case filepath.Ext(e.Name()) == vfs.TempSuffix:
			if err := l.fs.Remove(filepath.Join(l.cfg.Dir, e.Name())); err != nil {
				return nil, err
			}
		case !ok:
			l.log.Warn("a file that is no segment is ignored", zap.String("file", filepath.Join(l.cfg.Dir, e.Name())))
		default:
			bases = append(bases, base)
		}
	}
	sort.Slice(bases, func(i, j int) bool { return bases[i] < bases[j] })
	var segs []*segment
	for i, base := range bases {
		s, err := openSegment(l.fs, l.path(base), base)
		if err != nil {
			return nil, err
		}
		size, err := s.file.Size()
		if err != nil {
			return nil, err
		}
		if size == 0 && i == len(bases)-1 {
			_ = s.file.Close()
			if err := l.fs.Remove(s.path); err != nil {
				return nil, err
			}
			break
		}
		if size != l.cfg.SegmentSize {
			return nil, fmt.Errorf("commit log: %s has %d bytes, mappedFileSizeCommitLog is %d: set the size that the store was written with", s.path, size, l.cfg.SegmentSize)
		}
		if i > 0 && base != bases[i-1]+l.cfg.SegmentSize {
			return nil, fmt.Errorf("commit log: %s does not follow %s: a segment between them is missing", s.path, segs[i-1].path)
		}
		segs = append(segs, s)
	}
	return segs, nil
}

func (l *Log) path(base int64) string { return filepath.Join(l.cfg.Dir, fileName(base)) }

// fileName is UtilAll.offset2FileName: the offset as 20 digits.
func fileName(base int64) string { return fmt.Sprintf("%020d", base) }

func parseName(name string) (int64, bool) {
	if len(name) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(name, 10, 64)
	return base, err == nil && base >= 0
}

// Min is the first offset in the log, the base of the oldest segment.
func (l *Log) Min() int64 {
	if segs := *l.segments.Load(); len(segs) > 0 {
		return segs[0].base
	}
	return l.written.Load()
}

// End is the end of what has been written and may be read.
func (l *Log) End() int64 { return l.written.Load() }

// Flushed is the end of what is durable.
func (l *Log) Flushed() int64 { return l.flushed.Load() }

// LateRolls is how many segments an append had to make itself because none was ready.
func (l *Log) LateRolls() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lateRolls
}

// Full tells whether the disk has no room for the next segment or for what has been appended.
func (l *Log) Full() bool { return l.full.Load() || l.stuck.Load() }

// LastStoreTime is the store time of the last record in ms, 0 if none is known.
func (l *Log) LastStoreTime() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastStore
}

// Poisoned returns the error of the write or sync that failed (ErrPoisoned), nil if none has.
func (l *Log) Poisoned() error {
	if p := l.poison.Load(); p != nil {
		return *p
	}
	return nil
}

// Failed is closed when the log is poisoned.
func (l *Log) Failed() <-chan struct{} { return l.failed }

// SetMode says whose records the log takes from now on; others are refused with refusal, nil for ErrFenced. When it returns no append
// that the mode does not allow is under way.
func (l *Log) SetMode(m Mode, refusal error) {
	if refusal == nil {
		refusal = ErrFenced
	}
	l.mu.Lock()
	l.mode, l.refusal = m, refusal
	l.mu.Unlock()
}

// Close syncs and closes every segment. The goroutines must have ended.
func (l *Log) Close() error {
	err := l.Flush()
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.close())
	}
	if l.spare != nil {
		err = errors.Join(err, l.discard(l.spare))
		l.spare = nil
	}
	return errors.Join(err, l.closeDeleted(l.clk.Now().Add(deletedGrace)))
}

// Abandon closes what a log that was never recovered, or not with success, has open. It changes nothing.
func (l *Log) Abandon() error {
	var err error
	for _, s := range *l.segments.Load() {
		err = errors.Join(err, s.close())
	}
	return err
}

// discard removes a segment that was made ahead and not used.
func (l *Log) discard(s *segment) error {
	return errors.Join(s.close(), l.fs.Remove(s.path))
}

// RemoveBefore deletes whole segments whose last byte is durable and below offset, never the last one, at most n of them. It
// returns the new first offset. Reads that are under way may go on for a while.
func (l *Log) RemoveBefore(offset int64, n int) (int64, error) {
	offset = min(offset, l.flushed.Load()) // a flush that is under way still needs the segments behind it
	var err error
	gone := l.forget(offset, n)
	for _, s := range gone {
		err = errors.Join(err, l.fs.Remove(s.path))
	}
	if len(gone) > 0 {
		err = errors.Join(err, l.fs.SyncDir(l.cfg.Dir))
	}
	return l.Min(), err
}

// forget takes the oldest segments off the list.
func (l *Log) forget(offset int64, n int) (gone []*segment) {
	l.list.Lock()
	defer l.list.Unlock()
	l.changeLocked(func(segs []*segment) []*segment {
		k := 0
		for k < len(segs)-1 && k < n && segs[k].base+l.cfg.SegmentSize <= offset {
			l.deleted = append(l.deleted, deleted{segs[k], l.clk.Now()})
			k++
		}
		gone = segs[:k:k]
		return segs[k:]
	})
	return gone
}

// deletedAt returns the deleted segment that holds offset, nil if there is none.
func (l *Log) deletedAt(offset int64) *segment {
	l.list.Lock()
	defer l.list.Unlock()
	for _, d := range l.deleted {
		if offset >= d.s.base && offset < d.s.base+l.cfg.SegmentSize {
			return d.s
		}
	}
	return nil
}

// Unfreed is how many bytes of deleted segments the disk does not have back yet, since they are still open.
func (l *Log) Unfreed() int64 {
	l.list.Lock()
	defer l.list.Unlock()
	return int64(len(l.deleted)) * l.cfg.SegmentSize
}

// closeDeleted closes the segments that were deleted long enough before now.
func (l *Log) closeDeleted(now time.Time) error {
	l.list.Lock()
	k := 0
	for k < len(l.deleted) && now.Sub(l.deleted[k].at) >= deletedGrace {
		k++
	}
	old := l.deleted[:k:k]
	l.deleted = l.deleted[k:]
	l.list.Unlock()
	var err error
	for _, d := range old {
		err = errors.Join(err, d.s.close())
	}
	return err
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	Path string
	Base int64
}

// Segments lists the segments, oldest first.
func (l *Log) Segments() []SegmentInfo {
	segs := *l.segments.Load()
	out := make([]SegmentInfo, len(segs))
	for i, s := range segs {
		out[i] = SegmentInfo{s.path, s.base}
	}
	return out
}

// SegmentSize is the size of every segment in bytes.
func (l *Log) SegmentSize() int64 { return l.cfg.SegmentSize }

// now returns the store time for a record appended under mu: the clock, but never less than the record before.
func (l *Log) nowLocked() int64 {
	l.lastStore = max(l.lastStore, l.clk.NowMs())
	return l.lastStore
}
