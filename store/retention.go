package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"
)

// Retention says when old segments are deleted. Ratios are percent of the partition.
type Retention struct {
	Keep         time.Duration // fileReservedTime
	Hours        []int         // deleteWhen: hours of the day at which expired segments go
	MaxUsed      int           // diskMaxUsedSpaceRatio: above it expired segments go at any hour
	CleanForced  int           // diskSpaceCleanForciblyRatio: above it the oldest go whatever their age
	WarningLevel int           // diskSpaceWarningLevelRatio: above it sends are refused
	Force        bool          // cleanFileForciblyEnable
	Batch        int           // deleteFileBatchMax
	Interval     time.Duration // cleanResourceInterval
}

// decision is what one pass of retention does.
type decision struct {
	remove  bool // delete expired segments
	force   bool // delete the oldest whatever their age
	full    bool // refuse sends
	notFull bool // take sends again
}

// decide applies the ratios. used is the fuller of the two partitions, in percent, rounded up.
func (r *Retention) decide(used int, hour int, manual bool) decision {
	return decision{
		remove:  manual || slices.Contains(r.Hours, hour) || used > r.MaxUsed,
		force:   r.Force && used > r.CleanForced,
		full:    used > r.WarningLevel,
		notFull: used <= min(r.WarningLevel, max(r.CleanForced, r.WarningLevel-5)),
	}
}

// retention deletes old segments and watches the disk.
func (s *Store) retention(ctx context.Context) error {
	tick := s.clk.NewTicker(max(s.cfg.Retention.Interval, 10*time.Millisecond))
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = s.Clean(false)
		case what := <-s.cleaning:
			err = s.cleanNow(what)
		}
		if err != nil {
			s.log.Error("old messages could not be deleted", zap.Error(err))
		}
	}
}

// Cleaning is something that retention can be asked to do at once.
type Cleaning int

// What can be asked for.
const (
	CleanExpired Cleaning = iota // delete expired segments regardless of the hour
	CleanQueues                  // delete units of consume queues whose messages are gone
)

// WantClean asks retention to do something now, and does not wait for it. What is asked for while much else is, is left to the
// next pass.
func (s *Store) WantClean(c Cleaning) {
	select {
	case s.cleaning <- c:
	default:
	}
}

// cleanNow does what was asked for. As in Java, many batches of segments may go by one request, not only one.
func (s *Store) cleanNow(c Cleaning) error {
	if c == CleanQueues {
		return s.Queues.CorrectMin(s.Log.Min())
	}
	for range manualPasses {
		before := s.Log.Min()
		if err := s.Clean(true); err != nil || s.Log.Min() == before {
			return err
		}
	}
	return nil
}

const manualPasses = 20 // CleanCommitLogService.MAX_MANUAL_DELETE_FILE_TIMES

// LogCapacity returns the size of the commit log's partition and what is free of it, in bytes.
func (s *Store) LogCapacity() (total, free int64, err error) { return s.fs.Usage(s.cfg.CommitLogDir) }

// DiskUsed tells how full the partitions of the log and of the other files are, in percent, rounded up. What has been deleted counts
// as free at once.
func (s *Store) DiskUsed() (log, rest int) {
	unfreed := s.Log.Unfreed()
	logTotal, logFree, err := s.fs.Usage(s.cfg.CommitLogDir)
	if err == nil {
		log = percentUsed(logTotal, logFree+unfreed)
	}
	total, free, err := s.fs.Usage(s.cfg.Root)
	if err == nil && total == logTotal { // the same partition
		free += unfreed
	}
	if err == nil {
		rest = percentUsed(total, free)
	}
	return log, rest
}

func percentUsed(total, free int64) int {
	if total <= 0 {
		return 0
	}
	return int((100*max(0, total-free) + total - 1) / total)
}

// Clean makes one pass: it deletes what may go (with manual regardless of the hour) and sets or clears the state of a full disk.
// While the disk is too full the oldest segments go one by one, as many as a batch may have.
func (s *Store) Clean(manual bool) error {
	r := &s.live.Load().retention
	for range max(1, r.Batch) {
		log, rest := s.DiskUsed()
		used := max(log, rest)
		d := r.decide(used, s.clk.Now().Hour(), manual)
		s.noteDisk(d, used, r.WarningLevel)
		if !d.remove && !d.force {
			return nil
		}
		if low, err := s.deleteOld(d, r); err != nil || !low || !d.force {
			return err
		}
	}
	return nil
}

// noteDisk refuses sends, or takes them again.
func (s *Store) noteDisk(d decision, used, limit int) {
	switch {
	case d.full && s.fullSince.CompareAndSwap(0, s.clk.NowMs()):
		s.log.Error("disk almost full: sends are refused, unless a replica takes over; free space, or lower fileReservedTime or diskSpaceCleanForciblyRatio", zap.Int("usedPercent", used), zap.Int("limit", limit))
	case d.notFull && s.fullSince.Swap(0) != 0:
		s.log.Info("disk has room again: sends are taken", zap.Int("usedPercent", used))
	}
}

// SetHeld says who knows from which log offset on segments are still being sent, MaxInt64 if none are. They do not expire meanwhile; what
// has to go for lack of space goes all the same. f must not call the store. Call SetHeld before Run.
func (s *Store) SetHeld(f func() int64) { s.held = f }

func (s *Store) heldFrom() int64 {
	if s.held == nil {
		return math.MaxInt64
	}
	return s.held()
}

// deleteOld deletes the oldest segments: those whose messages are older than Keep, or by force one of any age. What goes has been
// saved (S4). It tells whether anything went.
func (s *Store) deleteOld(d decision, r *Retention) (deleted bool, err error) {
	before := s.Log.Min()
	to := min(s.expired(r), s.heldFrom())
	if segs := s.Log.Segments(); to == before && d.force && len(segs) > 1 {
		to = segs[1].Base
	}
	if to <= before {
		return false, nil
	}
	if s.kept().hard < to {
		if err := s.save(true); s.kept().hard < to {
			return false, err
		}
	}
	low, err := s.Log.RemoveBefore(to, r.Batch)
	err = errors.Join(err, s.Queues.CorrectMin(low))
	if s.Index != nil {
		err = errors.Join(err, s.Index.RemoveBefore(low))
	}
	if low > before {
		s.log.Info("old messages deleted", zap.Int64("logMin", low), zap.Bool("forced", d.force))
	}
	return low > before, err
}

// expired returns the start of the first segment that is not old enough to go, or a batch behind the start. A segment's age is
// that of the next segment's first message, which is no older than its own last.
func (s *Store) expired(r *Retention) int64 {
	segs := s.Log.Segments()
	limit := s.clk.NowMs() - r.Keep.Milliseconds()
	to := segs[0].Base
	for i := 1; i < len(segs) && i <= r.Batch; i++ {
		t := s.Log.FirstStoreTime(segs[i].Base)
		if t == 0 || t > limit || segs[i].Base > s.Dispatched() {
			break
		}
		to = segs[i].Base
	}
	return to
}
