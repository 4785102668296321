// Package store keeps a broker's messages and everything derived from them.
//
// # What it owns
//
// The CommitLog (package commitlog) is the only thing whose loss is loss. The consume queues (queue), the key index (index) and
// the metadata (state) are projections: they consume the log in order, up to the confirm offset and never beyond it, and are
// rebuilt from it after a crash.
//
// # The path of a message
//
//	Append: encode and copy under the append lock; queue the waiter.
//	Advance: read the confirm offset; dispatch the records below it to the projections, in log order; release the waiters.
//
// Advance runs on whoever moved the confirm offset: the appender itself (ASYNC_FLUSH), the flusher (SYNC_FLUSH), or replication.
// So what has been acknowledged can be read, queried and counted at once. It touches memory only; housekeeping writes the
// projections to their files.
//
// # Replicas
//
// A store of a group (Config.Replicated) opens as a replica: it takes a master's bytes (commitlog.AppendRaw), and what it does not know
// to be confirmed stays in the log, undispatched, until the gate lets it pass. Promote makes it the master, Demote a replica again,
// Truncate takes back what was never confirmed, Reset drops everything. All that is in replica.go. WriteSnapshot and Install
// (snapshot.go) bring a replica near whose next bytes are no longer in the master's log.
//
// # Invariants
//
//	S1 dispatched <= confirm <= written; no reader and no projection sees a byte at or above the confirm offset.
//	S2 the confirm offset never goes back while the store is open, but for a Reset.
//	S3 a waiter is told exactly once.
//	S4 a segment of the log is deleted only when queues and state have what is in it, durably.
//
// # Goroutines
//
// Run starts: prepare and flush (commitlog), housekeeping (writes projections and checkpoints), retention, scrub, deadlines.
//
// # Locks
//
// Order: role, saving, advancing, those of the commit log. waiters.mu is taken last.
//
// Java: DefaultMessageStore, ReputMessageService, StoreCheckpoint. Start reading at Store.Append, then Store.Advance.
package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/index"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// Errors that a Waiter or an append gets.
var (
	// ErrFlushTimeout means that the record is stored but not yet durable (FLUSH_DISK_TIMEOUT).
	ErrFlushTimeout = errors.New("store: not flushed in time")
	// ErrReplicaTimeout means that the record is stored but not yet on the replicas that must have it (FLUSH_SLAVE_TIMEOUT).
	ErrReplicaTimeout = errors.New("store: not replicated in time")
	// ErrClosed means that the store is shutting down; whether the record survives is unknown.
	ErrClosed = errors.New("store: closed")
	// ErrBusy means that too many records wait for confirmation.
	ErrBusy = errors.New("store: too many records wait for confirmation")
	// ErrNotMaster means that this replica takes no records of its own. Who waits is told so when the store stops being the master:
	// whether the record survives is unknown.
	ErrNotMaster = errors.New("store: not the master")
	// ErrGivenUp means that the record cannot be expected to be confirmed soon; whether it survives is unknown. See GiveUp.
	ErrGivenUp = errors.New("store: too few replicas confirm what this one takes")
	// ErrConfirmed means that what was to be cut off is confirmed.
	ErrConfirmed = errors.New("store: confirmed records are not cut off")
	// ErrJoining means that the log of a replica does not reach yet what has been installed with it; see Install.
	ErrJoining = errors.New("store: the log has not caught up with the state")
	// ErrDiskFull means that the disk is fuller than diskSpaceWarningLevelRatio.
	ErrDiskFull = errors.New("store: disk full")
)

// Config is what a Store needs. Sizes are in bytes, times in ms unless they are Durations.
type Config struct {
	Root         string // storePathRootDir
	CommitLogDir string // storePathCommitLog
	StateFile    string // of the operating system, whatever file system the rest is on; empty means state.db in Root

	SegmentSize int64
	QueueFile   int64
	IndexSlots  int32
	IndexItems  int32
	Index       bool // messageIndexEnable

	SyncFlush     bool
	FlushInterval time.Duration // of ASYNC_FLUSH
	SyncTimeout   time.Duration // syncFlushTimeout

	Replicated     bool          // a member of a group
	ReplicaTimeout time.Duration // slaveTimeout; replaces SyncTimeout in a group

	DelayLevels []time.Duration
	HotBytes    int64
	MaxWaiters  int

	Retention Retention
	ScrubRate int64 // bytes per second at which the log is looked through for damage; 0: never
}

// Arrivals is told of messages in queues that are watched (queue.Queue.Watched), and of the end of each batch of them. Both run
// on the dispatching goroutine and must not block.
type Arrivals interface {
	Arrived(q *queue.Queue, offset int64, tags int64, v *message.View)
	// BatchEnd tells whether whoever is answered has been the only one for a while.
	BatchEnd() (alone bool)
}

// Store is safe for concurrent use.
type Store struct {
	cfg Config
	fs  vfs.FS
	clk clock.Clock
	log *zap.Logger

	Log    *commitlog.Log
	Queues *queue.Set
	Index  *index.Index // nil if messageIndexEnable is false
	State  *state.Tables
	db     *state.DB

	live     atomic.Pointer[live]
	arrivals Arrivals
	gate     func(written, flushed int64) int64
	onWrite  func()       // may be nil
	held     func() int64 // may be nil; see SetHeld

	role   sync.Mutex // one change of the role, or of what a replica holds, at a time
	master bool       // under role

	confirmed  atomic.Int64 // S2
	dispatched atomic.Int64 // S1; moved by the dispatcher
	joins      atomic.Int64 // the log must reach this before the store can be a master's; see Install
	advancing  sync.Mutex   // held by who dispatches: see Advance
	oneClient  bool         // what BatchEnd has said last; under advancing
	announced  int64        // end of the log when onWrite was called last; under advancing
	wanted     atomic.Int64 // counts the calls of Advance
	broken     atomic.Pointer[error]
	onApply    func()
	fullSince  atomic.Int64 // ms; 0: the disk is not fuller than Retention.WarningLevel
	damaged    atomic.Int64 // the log was found to be damaged just below it; 0 if it was not
	waiters    waiters
	ticked     atomic.Int64 // uptime at the last look at deadlines
	dispatcher dispatcher
	cleaning   chan Cleaning

	bootTime   time.Time
	saving     sync.Mutex   // held over I/O by those who write projections and checkpoint
	soundTo    atomic.Int64 // see Sound; MaxInt64: all of it
	checkpoint checkpoint
	unlock     vfs.Unlocker
	stats      Stats
}

// Stats counts what passes through the store. All counters only grow.
type Stats struct {
	Put, PutBytes, PutFailed atomic.Int64
	Dispatched               atomic.Int64
}

// live is the part of the configuration that can change while the store is open.
type live struct {
	syncFlush     bool
	flushInterval time.Duration
	timeout       time.Duration // of waiters
	retention     Retention
	scrubRate     int64
}

// Reconfigure takes SyncFlush, FlushInterval, SyncTimeout, ReplicaTimeout, ScrubRate and Retention of c, except for Retention.Interval; everything
// else stays as it was when the store was opened. What was confirmed stays so. After an error all is as before.
func (s *Store) Reconfigure(c Config) error {
	if !c.SyncFlush && s.live.Load().syncFlush {
		if err := s.setLazy(); err != nil {
			return err
		}
	}
	s.setLive(c)
	s.Advance() // who waited for a flush need not any more
	return nil
}

// setLazy notes, durably, that from now on a power loss can take what was confirmed; see Torn.
func (s *Store) setLazy() error { return s.amend(func(c *checkpoint) { c.lazy = true }) }

// amend changes the checkpoint durably.
func (s *Store) amend(f func(c *checkpoint)) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	c := s.checkpoint
	f(&c)
	return s.writeCheckpoint(c, true)
}

func (s *Store) setLive(c Config) {
	timeout := c.SyncTimeout
	if s.cfg.Replicated {
		timeout = c.ReplicaTimeout
	}
	s.live.Store(&live{c.SyncFlush, c.FlushInterval, timeout, c.Retention, c.ScrubRate})
}

// Stats returns the counters.
func (s *Store) Stats() *Stats { return &s.stats }

// SetArrivals says who is told of arriving messages. Call it before Run.
func (s *Store) SetArrivals(a Arrivals) { s.arrivals = a }

// SetApplied says who is told that the state has changed. f runs on whoever advances and must not block. Call it before Run.
func (s *Store) SetApplied(f func()) { s.onApply = f }

// Torn tells whether the power may have failed before all was synced that this store had confirmed, or acknowledged to a master: it may have
// begun without the end of its log. That, or what Disown says, holds, over restarts, until Mended.
func (s *Store) Torn() bool {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.checkpoint.torn
}

// Disown notes, durably, that nobody may rely on what this store has acknowledged: Torn until the controllers know.
func (s *Store) Disown() error { return s.amend(func(c *checkpoint) { c.torn = true }) }

// Mended notes, durably, that nobody relies any more on what this store may lack.
func (s *Store) Mended() error {
	if !s.Torn() {
		return nil
	}
	return s.amend(func(c *checkpoint) { c.torn = false })
}

// Sound returns the offset below which the log is known to hold what was appended, false if that is its end. After a power loss a record that was
// never synced may have holes where no checksum looks, until it has been compared with another replica's.
// It waits for nothing.
func (s *Store) Sound() (to int64, dubious bool) {
	to = s.soundTo.Load()
	return to, to < math.MaxInt64
}

// SetSound notes, durably, that the log holds what was appended.
func (s *Store) SetSound() error {
	if _, dubious := s.Sound(); !dubious {
		return nil
	}
	return s.amend(func(c *checkpoint) { c.dubious, c.sound = false, 0 })
}

// BootTime is when the store was opened.
func (s *Store) BootTime() time.Time { return s.bootTime }

// Dir returns a path below the root.
func (s *Store) Dir(elem ...string) string {
	return filepath.Join(append([]string{s.cfg.Root}, elem...)...)
}

// alone is the confirm offset of a store without replicas, and what a group's master has made as durable as it has to.
func (s *Store) alone(written, flushed int64) int64 {
	if s.live.Load().syncFlush {
		return flushed
	}
	return written
}

// Waiting is how many appends wait for their confirmation.
func (s *Store) Waiting() int { return int(s.waiters.count.Load()) }

// Confirmed is the confirm offset: everything below it is acknowledged or may be.
func (s *Store) Confirmed() int64 { return s.confirmed.Load() }

// Dispatched is the end of what the projections have seen.
func (s *Store) Dispatched() int64 { return s.dispatched.Load() }

// Writeable tells why nothing can be appended now, nil if it can.
func (s *Store) Writeable() error {
	if err := s.dead(); err != nil {
		return err
	}
	if s.fullSince.Load() != 0 || s.Log.Full() {
		return ErrDiskFull
	}
	return nil
}

var (
	errStalled = errors.New("the disk hangs")
	errDamaged = errors.New("the log is damaged")
	errJoining = errors.New("the log does not reach the state yet that came with it")
)

// Ill tells why this store should be nobody's master while others can, nil if nothing is wrong. It costs next to nothing.
func (s *Store) Ill() error {
	if err := s.Writeable(); err != nil {
		return err
	}
	switch {
	case s.Stalled():
		return errStalled
	case s.Damaged():
		return errDamaged
	case s.Joining():
		return errJoining
	}
	return nil
}

// yield is how long a store of a group still takes what is appended after its disk has become almost full: by then another replica, if there is one
// with room, is master.
const yield = 3 * time.Second

// refuses tells whether nothing is taken since the disk is almost full.
func (s *Store) refuses() bool {
	since := s.fullSince.Load()
	return since != 0 && (!s.cfg.Replicated || s.clk.NowMs()-since >= yield.Milliseconds())
}

// stall is how long a write of the log may take, or a sync that somebody waits for, before the disk counts as one that hangs.
const stall = 800 * time.Millisecond

// Stalled tells whether the log has waited for its disk for too long.
func (s *Store) Stalled() bool {
	write, sync := s.Log.Waits()
	return write > stall || sync > stall && s.live.Load().syncFlush
}

// Append writes the records next to each other, or none of them, and has w told when they are confirmed; w may be nil. An error
// means that nothing was written and w is not told. The caller calls Advance afterwards, once for any number of appends.
func (s *Store) Append(entries []commitlog.Entry, w Waiter) error {
	if s.refuses() {
		return ErrDiskFull
	}
	return s.append(entries, w)
}

// append is Append on a disk that is almost full, too.
func (s *Store) append(entries []commitlog.Entry, w Waiter) error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	if w != nil && s.waiters.count.Load() >= s.waiters.limit {
		return ErrBusy
	}
	term := s.waiters.term.Load() // before the append: see waiters.add
	end, err := s.Log.Append(entries)
	if err != nil {
		s.stats.PutFailed.Add(1)
		return err
	}
	s.stats.Put.Add(int64(len(entries)))
	s.stats.PutBytes.Add(end - entries[0].Phy)
	if w != nil && !s.waiters.add(waiting{end: end, deadline: s.deadline(), w: w}, term) {
		s.exclusive(func() { w.Done(s.waiters.why) }) // all were sent away since the append
	}
	return nil
}

// uptime is in ms and, unlike the clock, never jumps.
func (s *Store) uptime() int64 { return s.clk.Now().Sub(s.bootTime).Milliseconds() }

// deadlineTick is how often deadlines are looked at.
const deadlineTick = 200 * time.Millisecond

// deadline is when whoever comes now has waited too long. It may be late by two ticks: the clock is read once a tick.
func (s *Store) deadline() int64 {
	return s.ticked.Load() + (deadlineTick + s.live.Load().timeout).Milliseconds()
}

// Propose appends changes of the state as one record. w is told when they are confirmed and applied.
func (s *Store) Propose(w Waiter, changes ...state.Change) error {
	return s.ProposeBody(state.Append(nil, changes...), w)
}

// ProposeBody appends an encoded batch of changes. It does not keep body. It is not refused on a disk that is almost full: those
// who read need it to make room.
func (s *Store) ProposeBody(body []byte, w Waiter) error {
	restart, err := s.restarts(body)
	if err != nil {
		return err
	}
	d := message.Draft{Topic: state.Topic, BornTimestamp: s.clk.NowMs(), BornHost: noHost, StoreHost: noHost, Body: body}
	if err := d.Prepare(); err != nil {
		return err
	}
	err = s.append([]commitlog.Entry{{Draft: &d, Restart: restart}}, w)
	if err == nil {
		s.Advance()
	}
	return err
}

// restarts finds the queues that start over behind a record, since it deletes their topic.
func (s *Store) restarts(body []byte) (next []*int64, err error) {
	err = state.Each(body, func(c state.Change) error {
		if c.Kind == state.KindTopicDelete || c.Kind == state.KindDeletedBefore {
			next = append(next, s.Queues.Counters(c.Topic)...)
		}
		return nil
	})
	return next, err
}

// Advance moves the confirm offset as far as it goes, dispatches what it has passed and releases who waited for it. Any number
// of goroutines may call it at once: one of them does the work of all. It waits for nothing but a quick sync; see sync.
func (s *Store) Advance() {
	s.wanted.Add(1)
	for s.advancing.TryLock() {
		seen := s.wanted.Load()
		s.advanceOnce()
		s.advancing.Unlock()
		if s.wanted.Load() == seen {
			return // whoever comes now finds it unlocked
		}
	}
}

// exclusive runs f while nobody advances, and tells connections whose replies f has put.
func (s *Store) exclusive(f func()) {
	s.advancing.Lock()
	f()
	s.batchEnd()
	s.advancing.Unlock()
	s.Advance() // for those who found it locked
}

func (s *Store) batchEnd() {
	if s.arrivals != nil {
		s.oneClient = s.arrivals.BatchEnd()
	}
}

// quickSync is how long a sync may take for a client that is alone.
const quickSync = 500 * time.Microsecond

// sync has what was appended synced. For many clients that is the flusher's work: one sync serves all whose messages came during the
// one before. A client that is alone would only wait longer for the change of goroutine, so its messages are synced here, as long as
// the disk is quick.
func (s *Store) sync() {
	if s.oneClient && s.Log.SyncTook() < quickSync {
		_ = s.Log.Flush()
	} else {
		s.Log.WantFlush()
	}
}

func (s *Store) advanceOnce() {
	_ = s.Log.Write() // a failure poisons the log, which Append and Writeable report
	if end := s.Log.End(); s.onWrite != nil && end != s.announced {
		s.announced = end
		s.onWrite()
	}
	if s.live.Load().syncFlush && s.Log.Flushed() < s.Log.End() {
		s.sync()
	}
	written := s.Log.End()
	to := min(written, s.gate(written, s.Log.Flushed()))
	if bugs.DispatchAll {
		to = written
	}
	if bugs.ConfirmBack && to >= 0 {
		s.confirmed.Store(to)
	}
	if to > s.dispatched.Load() && s.broken.Load() == nil { // S1, S2
		s.confirmed.Store(to)
		if err := s.dispatchTo(to); err != nil {
			s.fail(err)
		}
	}
	// Also without a move: a waiter may have been queued after its record was dispatched by somebody else.
	s.waiters.release(s.dispatched.Load())
	if err := s.dead(); err != nil { // nothing more will be confirmed
		s.waiters.complete(err, func(*waiting) bool { return true })
	}
	s.batchEnd()
}

// dead tells why nothing will be appended any more, nil if it will.
func (s *Store) dead() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return s.Log.Poisoned()
}

// fail refuses everything from now on.
func (s *Store) fail(err error) {
	s.broken.Store(&err)
	s.log.Error("the store has failed: this broker takes no more messages", zap.Error(err))
}

// Run does the store's background work until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	g := lifecycle.New(ctx)
	g.Go("commit log prepare", s.Log.RunPrepare)
	g.Go("commit log flush", func(ctx context.Context) error {
		return s.Log.RunFlush(ctx, func() time.Duration { return s.live.Load().flushInterval }, func() {
			// With ASYNC_FLUSH there is something to do only if the appender's own Write has failed.
			if s.live.Load().syncFlush || s.dead() != nil || s.Log.End() > s.Dispatched() {
				s.Advance()
			}
		})
	})
	g.Go("store housekeeping", s.housekeeping)
	g.Go("retention", s.retention)
	g.Go("scrub", s.scrub)
	g.Go("deadlines", s.deadlines)
	<-g.Context().Done()
	return g.Stop()
}

// deadlines tells those who have waited too long.
func (s *Store) deadlines(ctx context.Context) error {
	tick := s.clk.NewTicker(deadlineTick)
	defer tick.Stop()
	for {
		now := s.uptime()
		s.ticked.Store(now)
		if s.waiters.due(now) {
			s.exclusive(func() { s.expire(now) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// expire tells those whose deadline has passed what they still wait for.
func (s *Store) expire(now int64) {
	if s.cfg.Replicated {
		s.waiters.expire(now, s.alone(s.Log.End(), s.Log.Flushed()), ErrReplicaTimeout)
	}
	s.waiters.expire(now, math.MaxInt64, ErrFlushTimeout)
}

// GiveUp tells those who have waited for so long that there is no hope for now (ErrGivenUp). Their records stay.
func (s *Store) GiveUp(after time.Duration) {
	if now := s.uptime() + (deadlineTick + s.live.Load().timeout - after).Milliseconds(); s.waiters.due(now) {
		s.exclusive(func() { s.waiters.expire(now, math.MaxInt64, ErrGivenUp) })
	}
}

// Close flushes everything, writes the checkpoint that makes the next start short, and frees the directory. Run must have
// returned. What still waits is told ErrClosed.
func (s *Store) Close() error {
	s.Log.SetMode(commitlog.TakesNothing, ErrClosed)
	err := s.Log.Flush()
	s.exclusive(func() {
		s.advanceOnce()
		s.waiters.dismiss(ErrClosed)
	})
	if broken := s.broken.Load(); broken != nil {
		err = errors.Join(err, *broken)
	}
	if err == nil {
		err = s.save(true)
	}
	if err == nil {
		err = s.markClean()
	}
	s.Queues.Close()
	if s.Index != nil {
		err = errors.Join(err, s.Index.Close())
	}
	err = errors.Join(err, s.db.Close(), s.Log.Close(), s.unlock.Close())
	if err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
