package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message/filter"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/index"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// Open takes the directory, recovers what is in it, and returns a store that can be read and appended to, or, with Replicated, a
// replica. A store written by the Java broker is taken over: its log as it is, its config/*.json as the first state; queues and index
// are built anew.
func Open(cfg Config, fsys vfs.FS, clk clock.Clock, log *zap.Logger) (*Store, error) {
	if cfg.MaxWaiters == 0 {
		cfg.MaxWaiters = 1 << 20
	}
	s := &Store{cfg: cfg, fs: fsys, clk: clk, log: log, bootTime: clk.Now(), cleaning: make(chan Cleaning, 4)}
	if s.cfg.StateFile == "" {
		s.cfg.StateFile = s.Dir("state.db")
	}
	s.setLive(cfg)
	s.gate, s.master = s.alone, true
	s.waiters.limit = int64(cfg.MaxWaiters)
	s.dispatcher.topics, s.dispatcher.each = map[string]*topicEntry{}, s.dispatch
	for _, dir := range []string{cfg.Root, cfg.CommitLogDir} {
		if err := makeDir(fsys, dir); err != nil {
			return nil, err
		}
	}
	unlock, err := fsys.Lock(s.Dir("lock"))
	if err != nil {
		return nil, fmt.Errorf("the store %s is in use by another process: %w", cfg.Root, err)
	}
	s.unlock = unlock
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// makeDir makes a directory so that it is there after a power loss.
func makeDir(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

// abandon closes what a failed open has opened, changing nothing on disk.
func (s *Store) abandon() error {
	var err error
	if s.Log != nil {
		err = s.Log.Abandon()
	}
	if s.Queues != nil {
		s.Queues.Close()
	}
	if s.db != nil {
		err = errors.Join(err, s.db.Close())
	}
	return errors.Join(err, s.unlock.Close())
}

func (s *Store) recover() error {
	start := s.clk.Now()
	cp, err := readCheckpoint(s.fs, s.Dir(checkpointFile))
	fresh := errors.Is(err, errNoCheckpoint)
	if err != nil && !fresh {
		return err
	}
	s.checkpoint = cp
	s.damaged.Store(cp.damaged)
	if !fresh {
		if err := s.keepCheckpoint(); err != nil {
			return err
		}
	}
	if cp.wiping {
		if err := s.finishWipe(); err != nil {
			return err
		}
	}
	if err := s.openParts(); err != nil {
		return err
	}
	java, err := s.readJava(fresh, cp.importing)
	if err != nil {
		return err
	}
	plan := s.plan(cp, fresh || cp.importing)
	s.checkpoint.torn = cp.torn || !fresh && plan.powerLoss && cp.lazy
	if plan.powerLoss && plan.synced >= 0 && !(cp.dubious && cp.sound <= plan.synced) {
		s.checkpoint.dubious, s.checkpoint.sound = true, plan.synced
	}
	if err := s.markOpen(plan, java != nil && (fresh || cp.importing)); err != nil {
		return err
	}
	need := s.State.Applied()
	if s.checkpoint.joining {
		s.joins.Store(need)
		need = 0
	}
	end, cut, err := s.Log.Recover(commitlog.Recovery{From: plan.log, Synced: plan.synced, PowerLoss: plan.powerLoss, Need: need,
		StoreTime: cp.storeTime, Progress: s.progress("recovering the commit log")})
	if err != nil {
		return err
	}
	if cut > 0 {
		s.log.Warn("a torn record at the end of the log was cut off", zap.Int64("offset", end), zap.Int64("bytes", cut))
	}
	s.recheck()
	if s.cfg.SyncFlush { // what is served must be as durable as what will be
		if err := s.Log.Flush(); err != nil {
			return err
		}
	}
	read, err := s.rebuild(plan, java, s.confirmedBefore(cp, java != nil, end))
	if err != nil {
		return err
	}
	if java != nil {
		if err := s.takeOver(java); err != nil {
			return err
		}
	}
	if err := s.join(); err != nil {
		return err
	}
	if c := s.checkpoint; c.boot == "" { // what the power loss has left is put right: from here on only another one is one
		c.boot = bootID(s.fs)
		if err := s.writeCheckpoint(c, true); err != nil {
			return err
		}
	}
	s.log.Info("store open", zap.String("root", s.cfg.Root), zap.Int64("logMin", s.Log.Min()), zap.Int64("logEnd", s.Log.End()),
		zap.Int64("bytesRead", read), zap.Duration("took", s.clk.Now().Sub(start)))
	return nil
}

func (s *Store) progress(what string) func(offset, end int64) {
	return func(offset, end int64) {
		s.log.Info(what, zap.Int64("offset", offset), zap.Int64("of", end), zap.Int64("percent", offset*100/max(end, 1)))
	}
}

func (s *Store) openParts() (err error) {
	s.Log, err = commitlog.Open(commitlog.Config{Dir: s.cfg.CommitLogDir, SegmentSize: s.cfg.SegmentSize, HotBytes: s.cfg.HotBytes, ZeroAhead: s.cfg.SyncFlush}, s.fs, s.clk, s.log)
	if err != nil {
		return err
	}
	if s.Queues, err = queue.Open(queue.Config{Dir: s.Dir("consumequeue"), FileSize: s.cfg.QueueFile}, s.fs, s.log); err != nil {
		return err
	}
	if s.cfg.Index {
		if s.Index, err = index.Open(index.Config{Dir: s.Dir("index"), Slots: s.cfg.IndexSlots, Entries: s.cfg.IndexItems}, s.fs, s.clk, s.log); err != nil {
			return err
		}
	}
	s.db, s.State, _, err = state.Open(s.cfg.StateFile, state.Options{BeforeCommit: s.syncLogTo})
	return err
}

// recoveryPlan says where reading starts and what may be cut.
type recoveryPlan struct {
	log    int64 // the log is good below it
	queues int64 // queues hold what is below it
	index  int64 // so does the index
	state  int64 // so does the state
	reset  bool  // queues hold nothing that can be trusted

	synced    int64 // see commitlog.Recovery
	powerLoss bool
}

// plan decides how far the parts can be trusted: up to soft if only the process died, up to hard if the machine did. Without a
// checkpoint (a new store, or one of Java's) everything is built from the log.
func (s *Store) plan(cp checkpoint, fresh bool) recoveryPlan {
	low := s.Log.Min()
	p := recoveryPlan{log: low, queues: low, index: low, state: max(low, s.State.Applied()), reset: true, synced: -1, powerLoss: true}
	if fresh {
		return p
	}
	good := cp.hard
	if cp.clean || cp.boot != "" && cp.boot == bootID(s.fs) {
		good, p.powerLoss = cp.soft, false
	}
	p.synced = cp.durable
	p.queues, p.reset = max(low, good), good <= low || s.Queues.Odd()
	if p.reset {
		p.queues = low
	}
	p.index = p.queues
	if s.Index != nil {
		p.index = max(low, min(good, s.Index.Indexed()))
	}
	p.log = max(low, min(good, s.State.Applied()))
	return p
}

// markOpen says on disk that the store is in use, and how far it can be trusted now, before anything is changed.
func (s *Store) markOpen(plan recoveryPlan, importing bool) error {
	if err := s.fs.WriteFileAtomic(s.Dir(abortFile), []byte(abortOwn)); err != nil { // Java's mark of a store that was not closed
		return err
	}
	c := s.checkpoint
	c.clean, c.importing, c.boot, c.lazy = false, importing, "", false
	if !plan.powerLoss { // otherwise this boot starts when what the last one left has been put right
		c.boot = bootID(s.fs)
	}
	c.soft, c.hard = plan.log, min(s.checkpoint.hard, plan.log)
	if plan.reset {
		c.soft, c.hard = plan.queues, plan.queues
	}
	if s.checkpoint.seq == 0 && len(s.Log.Segments()) > 0 {
		c.durable = -1 // what somebody else wrote
	}
	return s.writeCheckpoint(c, true)
}

const (
	// rebuildStep is how much of the log is dispatched before what came of it leaves the memory.
	rebuildStep = 64 << 20
	// rebuildSave is after how long a rebuild saves how far it has come, so that one that is interrupted goes on from there.
	rebuildSave = 10 * time.Second
)

// rebuild drops what the projections hold beyond the plan, and dispatches the log from there to end. It returns how much of the
// log that was.
func (s *Store) rebuild(plan recoveryPlan, java *javaImport, end int64) (read int64, err error) {
	d := &s.dispatcher
	d.queuesFrom, d.indexFrom, d.java = min(plan.queues, end), min(plan.index, end), java
	if err := s.dropBeyond(plan, d, end); err != nil {
		return 0, err
	}
	from := min(d.queuesFrom, d.indexFrom, plan.state, end)
	s.dispatched.Store(from)
	s.confirmed.Store(from)
	report, saved := s.progress("rebuilding queues and index"), s.clk.Now()
	for at := from; at < end; {
		if at, err = s.rebuildTo(at, min(at+rebuildStep, end), end); err != nil {
			return 0, err
		}
		if now := s.clk.Now(); at < end && now.Sub(saved) >= rebuildSave {
			saved = now
			report(at, end)
			if err := s.save(false); err != nil {
				return 0, err
			}
		}
	}
	s.reached(end)
	d.queuesFrom, d.indexFrom = 0, 0
	if err := s.Queues.CorrectMin(s.Log.Min()); err != nil {
		return 0, err
	}
	s.Queues.Recount()
	return end - from, nil
}

// rebuildTo dispatches the log from at to about an offset, and writes what came of it.
func (s *Store) rebuildTo(at, to, end int64) (int64, error) {
	next, err := s.Log.Scan(at, to, s.dispatcher.each)
	if err == nil && next == at {
		next, err = s.Log.Scan(at, end, s.dispatcher.each) // a record larger than a step
	}
	if err == nil && next == at {
		err = fmt.Errorf("rebuild: the record at %d is not whole", at)
	}
	if err != nil {
		return at, err
	}
	at = min(next, end)
	s.reached(at)
	if at == end {
		return at, nil
	}
	if _, err := s.Queues.Flush(false, s.Log.Flushed()); err != nil {
		return at, err
	}
	if s.Index != nil {
		_, err = s.Index.Flush(false)
	}
	return at, err
}

// dropBeyond takes from queues and index what will be dispatched again.
func (s *Store) dropBeyond(plan recoveryPlan, d *dispatcher, end int64) error {
	if plan.reset {
		if end > d.queuesFrom {
			s.log.Info("consume queues are built anew from the log", zap.Int64("from", d.queuesFrom), zap.Int64("to", end))
		}
		if err := s.Queues.Reset(s.Log.Min()); err != nil {
			return err
		}
	} else if err := s.Queues.Truncate(d.queuesFrom); err != nil {
		return err
	}
	if s.Index == nil {
		return nil
	}
	if err := s.Index.Truncate(d.indexFrom); err != nil {
		return err
	}
	d.indexFrom = max(s.Log.Min(), min(d.indexFrom, s.Index.Indexed()))
	return nil
}

// reached notes that everything below the log offset at has been dispatched.
func (s *Store) reached(at int64) {
	s.dispatched.Store(at)
	s.confirmed.Store(at)
	s.State.Advance(at)
	if s.Index != nil {
		s.Index.SetIndexed(at)
	}
}

// DelayOf returns the delay of a level; a level beyond the table counts as the last (ScheduleMessageService).
func (s *Store) DelayOf(level int) time.Duration {
	n := len(s.cfg.DelayLevels)
	if level <= 0 || n == 0 {
		return time.Second
	}
	return s.cfg.DelayLevels[min(level, n)-1]
}

// MaxDelayLevel is the highest delay level.
func (s *Store) MaxDelayLevel() int { return len(s.cfg.DelayLevels) }

// hashTags is 0 for a message without tags.
func hashTags(tags []byte) int32 {
	if len(tags) == 0 {
		return 0
	}
	return filter.HashCode(tags)
}
