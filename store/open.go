package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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

// Open takes the directory, recovers what is in it, and returns a store that can be read and appended to. A store written by the
// Java broker is taken over: its log as it is, its config/*.json as the first state; queues and index are built anew.
func Open(cfg Config, fsys vfs.FS, clk clock.Clock, log *zap.Logger) (*Store, error) {
	if cfg.MaxWaiters == 0 {
		cfg.MaxWaiters = 1 << 20
	}
	s := &Store{cfg: cfg, fs: fsys, clk: clk, log: log, bootTime: clk.Now(), cleaning: make(chan Cleaning, 4)}
	s.live.Store(&live{cfg.SyncFlush, cfg.FlushInterval, cfg.SyncTimeout, cfg.Retention})
	s.confirm = s.alone
	s.waiters.limit = cfg.MaxWaiters
	s.dispatcher.topics = map[string]*topicEntry{}
	for _, dir := range []string{cfg.Root, cfg.CommitLogDir} {
		if err := fsys.MkdirAll(dir); err != nil {
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

// abandon closes what a failed open has opened, changing nothing on disk.
func (s *Store) abandon() error {
	var err error
	if s.db != nil {
		err = s.db.Close()
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
	if err := s.openParts(); err != nil {
		return err
	}
	plan := s.planRecovery(cp, fresh)
	if err := s.fs.WriteFileAtomic(s.Dir("abort"), []byte("castor")); err != nil { // Java's mark of a store that was not closed
		return err
	}
	if err := s.writeCheckpoint(checkpoint{soft: plan.from, hard: plan.from, durable: max(plan.durable, 0), boot: bootID(s.fs)}, true); err != nil {
		return err
	}
	end, cut, err := s.Log.Recover(commitlog.Recovery{From: plan.from, Durable: plan.durable, Deep: plan.deep, Progress: s.progress("recovering the commit log")})
	if err != nil {
		return err
	}
	if cut > 0 {
		s.log.Warn("a torn record at the end of the log was cut off", zap.Int64("offset", end), zap.Int64("bytes", cut))
	}
	if s.cfg.SyncFlush { // what is served must be as durable as what will be
		if err := s.Log.Flush(); err != nil {
			return err
		}
	}
	if err := s.rebuild(plan.from, end); err != nil {
		return err
	}
	if err := s.importJava(end); err != nil {
		return err
	}
	s.log.Info("store open", zap.String("root", s.cfg.Root), zap.Int64("logMin", s.Log.Min()), zap.Int64("logEnd", s.Log.End()),
		zap.Int64("scannedFrom", plan.from), zap.Duration("took", s.clk.Now().Sub(start)))
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
	s.db, s.State, _, err = state.Open(s.Dir("state.db"), state.Options{BeforeCommit: s.syncLogTo})
	return err
}

// recoveryPlan says where reading starts and what may be cut.
type recoveryPlan struct {
	from    int64 // projections hold nothing at or above it that can be trusted
	durable int64 // -1: unknown
	deep    bool
}

// planRecovery decides how far the projections can be trusted: up to soft if only the process died, up to hard if the machine
// did. Without a checkpoint (a new store, or one of Java's) everything is built from the log.
func (s *Store) planRecovery(cp checkpoint, fresh bool) recoveryPlan {
	if fresh {
		return recoveryPlan{from: s.Log.Min(), durable: -1, deep: true}
	}
	p := recoveryPlan{from: cp.hard, durable: cp.durable, deep: true}
	if cp.boot != "" && cp.boot == bootID(s.fs) || cp.clean {
		p.from, p.deep = cp.soft, false
	}
	p.from = min(p.from, s.State.Applied())
	p.from = max(p.from, s.Log.Min())
	p.durable = max(p.durable, p.from)
	return p
}

// rebuild drops what the projections hold at or above from and dispatches the log from there to its end.
func (s *Store) rebuild(from, end int64) error {
	from = min(from, end)
	if from == s.Log.Min() {
		if err := s.Queues.Clear(); err != nil {
			return err
		}
	} else if err := s.Queues.Truncate(from); err != nil {
		return err
	}
	if s.Index != nil {
		if err := s.Index.Truncate(from); err != nil {
			return err
		}
	}
	if s.State.Applied() > end {
		return fmt.Errorf("state.db has seen the log up to %d, which ends at %d: the log has lost its end; restore it or fetch it from a replica", s.State.Applied(), end)
	}
	s.dispatched.Store(from)
	s.confirmed.Store(from)
	report := s.progress("rebuilding queues and index")
	for at := from; at < end; {
		next, err := s.Log.Scan(at, min(at+256<<20, end), s.dispatch)
		if err != nil {
			return err
		}
		if next == at {
			return fmt.Errorf("rebuild: the record at %d is not whole", at)
		}
		if at = next; at < end {
			report(at, end)
			if err := s.Queues.Flush(false); err != nil {
				return err
			}
		}
		s.dispatched.Store(at)
	}
	s.dispatched.Store(end)
	s.confirmed.Store(end)
	s.State.Advance(end)
	if s.Index != nil {
		s.Index.SetIndexed(end)
	}
	if err := s.Queues.CorrectMin(s.Log.Min()); err != nil {
		return err
	}
	for _, q := range s.Queues.All() {
		q.Next = q.Max()
	}
	return nil
}

// importJava appends the metadata of a Java store as the first state record, once.
func (s *Store) importJava(end int64) error {
	if s.State.Applied() > 0 && len(s.State.Topics()) > 0 {
		return nil
	}
	if _, err := s.fs.Stat(s.Dir("config", "topics.json")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	changes, report, err := state.ImportJava(s.Dir("config"), s.fs)
	if err != nil {
		return fmt.Errorf("import of the Java broker's metadata: %w", err)
	}
	s.log.Info("imported the metadata of a Java broker", zap.Any("report", report))
	const batch = 1000
	for len(changes) > 0 {
		n := min(batch, len(changes))
		if err := s.Propose(nil, changes[:n]...); err != nil {
			return err
		}
		changes = changes[n:]
	}
	if err := s.Log.Flush(); err != nil {
		return err
	}
	s.Advance()
	return nil
}

// saveAll writes the projections and moves the checkpoint; with sync everything becomes durable first.
func (s *Store) saveAll(sync bool) error {
	at := s.Dispatched()
	if sync && s.Log.Flushed() < at {
		if err := s.Log.Flush(); err != nil {
			return err
		}
	}
	if err := s.Queues.Flush(sync); err != nil {
		return err
	}
	if s.Index != nil {
		indexed, err := s.Index.Flush(sync)
		if err != nil {
			return err
		}
		at = min(at, indexed)
	}
	if err := s.saveState(at); err != nil {
		return err
	}
	c := s.checkpoint
	c.soft, c.durable, c.boot = at, s.Log.Flushed(), bootID(s.fs)
	if sync {
		c.hard = at
	}
	return s.writeCheckpoint(c, sync)
}

// saveState commits the state tables. They must not be ahead of the durable log: after a power loss they would know what never
// happened.
func (s *Store) saveState(at int64) error {
	s.State.Advance(at)
	return s.db.Commit()
}

// syncLogTo makes the log durable up to offset; state.db calls it before it writes what it has applied.
func (s *Store) syncLogTo(offset int64) error {
	if s.Log.Flushed() >= offset {
		return nil
	}
	return s.Log.Flush()
}

// housekeeping writes the projections every second and syncs them every thirty.
func (s *Store) housekeeping(ctx context.Context) error {
	tick := s.clk.NewTicker(time.Second)
	defer tick.Stop()
	last := s.Dispatched()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if at := s.Dispatched(); at != last || n%30 == 0 && s.checkpoint.hard != at {
			last = at
			if err := s.saveAll(n%30 == 0); err != nil {
				s.log.Error("queues, index and state could not be written; they will be rebuilt from the log if the broker stops now", zap.Error(err))
			}
		}
	}
}

// markClean says that nothing has to be recovered, to this broker and to Java's.
func (s *Store) markClean() error {
	c := s.checkpoint
	c.clean = true
	if err := s.writeCheckpoint(c, true); err != nil {
		return err
	}
	if err := s.writeJavaCheckpoint(); err != nil {
		return err
	}
	if err := s.fs.Remove(s.Dir("abort")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fs.SyncDir(s.cfg.Root)
}

// writeJavaCheckpoint writes the file that a Java broker starts from (StoreCheckpoint): the time of the last record as the
// time up to which log, queues and index are flushed, and the log's end.
func (s *Store) writeJavaCheckpoint() error {
	var last int64
	if u := s.lastRecord(); u >= 0 {
		last = s.Log.FirstStoreTime(u)
	}
	b := make([]byte, 4096)
	for i, v := range []int64{last, last, last, 0, s.Log.End(), s.Log.End()} {
		binary.BigEndian.PutUint64(b[8*i:], uint64(v))
	}
	return s.fs.WriteFileAtomic(s.Dir("checkpoint"), b)
}

// lastRecord returns the log offset of the last message of any queue, -1 if there is none.
func (s *Store) lastRecord() int64 {
	last := int64(-1)
	for _, q := range s.Queues.All() {
		if q.Max() > q.Min() {
			if u, err := q.At(q.Max() - 1); err == nil {
				last = max(last, u.Phy)
			}
		}
	}
	return last
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
