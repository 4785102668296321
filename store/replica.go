package store

import (
	"errors"
	"fmt"
	"math"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

// SetGate says what is confirmed of a log that is written and flushed up to these offsets. f runs on whoever advances, often, and must
// not block or call the store; what it returns above written counts as written, and it may return less than before, which counts as no
// move. It must be a record boundary, as the end of any replica's log is. When it would return more, call Advance. Call SetGate before
// Run. Without one a store confirms what it has itself, and a replicated store nothing.
func (s *Store) SetGate(f func(written, flushed int64) int64) { s.gate = f }

// SetWritten says who is told when the end of the log has moved (Log.End), before what came is synced or dispatched, so that it can be
// sent to replicas at once. f runs on whoever advances and must not block or call the store. Call SetWritten before Run.
func (s *Store) SetWritten(f func()) { s.onWrite = f }

// Promote makes a replica the master: queue offsets go on where the log ends, however far it is dispatched, and from then on the store
// takes records of its own and no others. It reads the log from Dispatched on. After an error, of the disk, the store is a replica as
// before. For a master it does nothing.
func (s *Store) Promote() error {
	s.role.Lock()
	defer s.role.Unlock()
	if s.master {
		return nil
	}
	s.Log.SetMode(commitlog.TakesNothing, ErrNotMaster)
	err := s.Log.Write()
	if err == nil {
		err = s.dead()
	}
	if err == nil && s.Joining() {
		err = fmt.Errorf("%w: it ends at %d, the state is that of %d", ErrJoining, s.Log.End(), s.joins.Load())
	}
	if err == nil {
		s.exclusive(func() { err = s.recount() })
	}
	if err != nil {
		s.Log.SetMode(commitlog.TakesRaw, ErrNotMaster)
		return fmt.Errorf("promote: %w", err)
	}
	s.master = true
	s.Log.SetMode(commitlog.TakesOwn, nil)
	return nil
}

// recount sets Next of every queue to what it was on the master whose log this is. Nothing is appended meanwhile.
func (s *Store) recount() error {
	s.Queues.Recount()
	if bugs.ReuseQueueOffsets {
		return nil
	}
	end := s.Log.End()
	at, err := s.Log.Scan(s.Dispatched(), end, s.count)
	if err == nil && at != end {
		err = fmt.Errorf("the record at %d is not whole", at)
	}
	return err
}

// count does to Next what the append of a record and its dispatch do.
func (s *Store) count(at int64, v *message.View) error {
	if string(v.Topic()) == state.Topic {
		restart, err := s.restarts(v.Body())
		for _, next := range restart {
			*next = 0
		}
		return err
	}
	if t := s.queued(at, v); t != nil {
		if q := s.Queues.GetOrCreate(t.name, v.QueueID()); q != nil {
			props := keyProps(v.Properties())
			q.Next = v.QueueOffset() + batchSize(v, &props)
		}
	}
	return nil
}

// Demote makes a master a replica: when it returns no record of its own is taken any more, and those who waited for one that is not
// confirmed have been told err, each once, as those will be whose appends are just returning; err must not be nil. From then on the
// store takes a master's bytes. What was appended stays, also what was not confirmed; Log.Appended is its end. Do not call it from a
// Waiter.
func (s *Store) Demote(err error) {
	s.role.Lock()
	defer s.role.Unlock()
	s.master = false
	s.Log.SetMode(commitlog.TakesNothing, err)
	_ = s.Log.Write()
	s.exclusive(func() {
		s.waiters.release(s.Dispatched())
		if !bugs.KeepWaiters {
			s.waiters.dismiss(err)
		}
	})
	s.Log.SetMode(commitlog.TakesRaw, err)
}

// Truncate cuts the log of a replica off at to, a record boundary, durably; what was gathered behind it is dropped, too. Below the
// confirm offset that is ErrConfirmed. The log goes on at to.
func (s *Store) Truncate(to int64) error {
	return s.reshape(func() error {
		if confirmed := s.Confirmed(); to < confirmed {
			return fmt.Errorf("%w: cut at %d, confirmed up to %d", ErrConfirmed, to, confirmed)
		}
		if to == s.Log.Appended() {
			return nil
		}
		c := s.checkpoint
		boot := c.boot
		if to <= c.sound {
			c.dubious, c.sound = false, 0
		}
		if to < s.damaged.Load() {
			s.damaged.Store(0)
		}
		c.boot, c.durable = "", min(to, s.Log.Flushed()) // what lies behind if this is interrupted means nothing
		if err := s.writeCheckpoint(c, true); err != nil {
			return err
		}
		err := s.Log.Truncate(to)
		if s.Log.Poisoned() == nil {
			c.boot = boot
			err = errors.Join(err, s.writeCheckpoint(c, false))
		}
		return err
	})
}

// reshape runs f while nothing is dispatched or saved, unless this is the master.
func (s *Store) reshape(f func() error) (err error) {
	s.role.Lock()
	defer s.role.Unlock()
	if s.master {
		return errors.New("store: the log of a master is not cut")
	}
	s.saving.Lock()
	defer s.saving.Unlock()
	s.exclusive(func() { err = f() })
	return err
}

// Reset drops everything that a replica holds, confirmed or not: log, queues, index and state. The log goes on at base, a multiple of
// the segment size, and so does the confirm offset. If it is interrupted or fails the store takes nothing any more, and the next Open
// finishes it with an empty log at 0. A log that begins above 0 lacks the state and the ends of queues that lie below: such a replica
// must not be promoted.
func (s *Store) Reset(base int64) error {
	return s.reshape(func() error {
		if base < 0 || base%s.cfg.SegmentSize != 0 {
			return fmt.Errorf("store: no segment begins at %d", base)
		}
		return s.startOver(base, func() (int64, error) { return base, s.db.Clear(base) })
	})
}

// startOver drops everything and puts in what fill brings: queues, and the state as of the offset that it returns. The log goes on at base.
func (s *Store) startOver(base int64, fill func() (applied int64, err error)) error {
	s.damaged.Store(0)
	if err := s.writeCheckpoint(checkpoint{seq: s.checkpoint.seq, durable: -1, grouped: true, wiping: true, torn: s.checkpoint.torn}, true); err != nil {
		return err
	}
	err := s.wipe(base)
	applied := base
	if err == nil {
		applied, err = fill()
	}
	if err == nil {
		s.reached(base)
		s.joins.Store(applied)
		err = s.writeCheckpoint(checkpoint{seq: s.checkpoint.seq, soft: base, hard: base, durable: base, grouped: true, joining: applied > base, torn: s.checkpoint.torn, boot: bootID(s.fs)}, true)
	}
	if err != nil {
		err = fmt.Errorf("start the store over: %w", err)
		s.fail(err)
	}
	return err
}

func (s *Store) wipe(base int64) error {
	s.Queues.Clear()
	if _, err := s.Queues.Flush(true, math.MaxInt64); err != nil {
		return err
	}
	if s.Index != nil {
		if err := s.Index.Truncate(0); err != nil {
			return err
		}
	}
	clear(s.dispatcher.topics)
	s.dispatcher.last = nil
	return s.Log.Reset(base)
}

// finishWipe drops what an interrupted Reset has left, before anything is opened.
func (s *Store) finishWipe() error {
	s.log.Warn("everything in the store is dropped, as was begun before it stopped", zap.String("root", s.cfg.Root))
	for _, dir := range []string{s.cfg.CommitLogDir, s.Dir("consumequeue"), s.Dir("index")} {
		if err := s.fs.RemoveAll(dir); err != nil {
			return err
		}
	}
	s.checkpoint.wiping, s.checkpoint.joining = false, false
	return errors.Join(state.Remove(s.cfg.StateFile), makeDir(s.fs, s.cfg.CommitLogDir), s.fs.SyncDir(s.cfg.Root))
}

// confirmedBefore is up to where the log, which ends at end, is known to be confirmed. What a store without a group has written counts,
// and what Java has.
func (s *Store) confirmedBefore(cp checkpoint, java bool, end int64) int64 {
	if !s.cfg.Replicated || !cp.grouped || java || bugs.RecoverAll {
		return end
	}
	return min(end, max(s.Log.Min(), cp.soft, s.State.Applied()))
}

// join makes the store that has been opened a replica, if it is to be in a group, and has the checkpoint say how it is written from now
// on, together with what is confirmed.
func (s *Store) join() error {
	if s.cfg.Replicated {
		s.Log.SetMode(commitlog.TakesRaw, ErrNotMaster)
		s.gate, s.master = func(_, _ int64) int64 { return s.Confirmed() }, false
	}
	if s.checkpoint.grouped == s.cfg.Replicated {
		return nil
	}
	s.checkpoint.grouped = s.cfg.Replicated
	return s.save(true)
}
