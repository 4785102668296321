package store

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
)

const (
	// saveInterval is how often the projections are written, saveRest how many times as long as a save took there is none after it, and
	// saveLatest how long at most: a save of ten thousand queues that all have new messages takes hundreds of milliseconds.
	saveInterval = time.Second
	saveRest     = 9
	saveLatest   = 10 * time.Second
	// syncAfter is after how long they are synced, syncBytes after how much of the log, and syncRecords after how many records: that is
	// what queues and index have to read again after a kill.
	syncAfter   = 30 * time.Second
	syncBytes   = 256 << 20
	syncRecords = 500_000
)

// save writes the projections and moves the checkpoint; with sync everything becomes durable first. The log is made durable in any
// case: neither the state nor a deletion of queues may be ahead of it when the power fails.
func (s *Store) save(sync bool) error {
	s.saving.Lock()
	defer s.saving.Unlock()
	at := s.Dispatched()
	if err := s.syncLogTo(at); err != nil {
		return err
	}
	complete, err := s.Queues.Flush(sync, s.Log.Flushed())
	if err != nil || !complete { // A topic has been deleted meanwhile; the next save will do.
		return err
	}
	var indexErr error // costs queries, nothing else: the index knows how far it has got
	if s.Index != nil {
		_, indexErr = s.Index.Flush(sync)
	}
	s.State.Advance(at)
	if err := s.db.Commit(); err != nil {
		return errors.Join(err, indexErr)
	}
	c := s.checkpoint
	c.soft, c.storeTime, c.boot = at, s.Log.LastStoreTime(), bootID(s.fs)
	if flushed := s.Log.Flushed(); c.durable >= 0 || flushed == s.Log.End() {
		c.durable = flushed
	}
	if sync {
		c.hard = at
	}
	c.joining = c.joining && at < s.joins.Load() // the log is durable up to at
	return errors.Join(s.writeCheckpoint(c, sync), indexErr)
}

// syncLogTo makes the log durable up to offset. state.db calls it before it writes what it has applied: after a power loss it would
// know what never happened.
func (s *Store) syncLogTo(offset int64) error {
	if s.Log.Flushed() >= offset || bugs.StateAhead {
		return nil
	}
	return s.Log.Flush()
}

// kept is the checkpoint that was written last.
func (s *Store) kept() checkpoint {
	s.saving.Lock()
	defer s.saving.Unlock()
	return s.checkpoint
}

// housekeeping saves regularly.
func (s *Store) housekeeping(ctx context.Context) error {
	tick := s.clk.NewTicker(saveInterval)
	defer tick.Stop()
	last, records, failing := int64(-1), s.stats.Dispatched.Load(), false
	rested, synced := time.Time{}, s.clk.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := s.clk.Now()
		if began.Before(rested) {
			continue
		}
		at, kept := s.Dispatched(), s.kept()
		sync := at != kept.hard && (at-kept.hard >= syncBytes || s.stats.Dispatched.Load()-records >= syncRecords || began.Sub(synced) >= syncAfter)
		sync = sync || kept.damaged != s.damaged.Load()
		if at == last && !sync {
			continue
		}
		last = at
		if sync {
			records, synced = s.stats.Dispatched.Load(), began
		}
		err := s.save(sync)
		ended := s.clk.Now()
		rested = ended.Add(min(saveRest*ended.Sub(began), saveLatest))
		if err != nil && !failing {
			s.log.Error("queues, index and state cannot be written; they will be rebuilt from the log if the broker stops now", zap.Error(err))
		}
		if err == nil && failing {
			s.log.Info("queues, index and state are written again")
		}
		if failing = err != nil; failing {
			last = -1
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
	if err := s.fs.Remove(s.Dir(abortFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fs.SyncDir(s.cfg.Root)
}

// writeJavaCheckpoint writes the file that a Java broker starts from (StoreCheckpoint): the time of the last record as the
// time up to which log, queues and index are flushed, and the end of what the queues hold.
func (s *Store) writeJavaCheckpoint() error {
	last, end := s.Log.LastStoreTime(), s.Dispatched()
	b := make([]byte, 4096)
	for i, v := range []int64{last, last, last, 0, end, end} {
		binary.BigEndian.PutUint64(b[8*i:], uint64(v))
	}
	return s.fs.WriteFileAtomic(s.Dir("checkpoint"), b)
}
