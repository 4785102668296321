package store

import (
	"context"
	"errors"
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
		notFull: used <= max(r.CleanForced, r.WarningLevel-5),
	}
}

// retention deletes old segments and watches the disk.
func (s *Store) retention(ctx context.Context) error {
	tick := s.clk.NewTicker(max(s.cfg.Retention.Interval, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.Clean(false); err != nil {
				s.log.Error("old messages could not be deleted", zap.Error(err))
			}
		}
	}
}

// DiskUsed tells how full the partitions of the log and of the other files are, in percent, rounded up.
func (s *Store) DiskUsed() (log, rest int) {
	used := func(path string) int {
		total, avail, err := s.fs.Usage(path)
		if err != nil || total == 0 {
			return 0
		}
		return int((100*(total-avail) + total - 1) / total)
	}
	return used(s.cfg.CommitLogDir), used(s.cfg.Root)
}

// Clean makes one pass: it deletes what may go (with manual regardless of the hour) and sets or clears the state of a full disk.
func (s *Store) Clean(manual bool) error {
	log, rest := s.DiskUsed()
	used := max(log, rest)
	d := s.cfg.Retention.decide(used, s.clk.Now().Hour(), manual)
	var err error
	if d.remove || d.force {
		err = s.deleteOld(d.force)
	}
	switch {
	case d.full && !s.diskFull.Swap(true):
		s.log.Error("disk almost full: sends are refused; free space, or lower fileReservedTime or diskSpaceCleanForciblyRatio", zap.Int("usedPercent", used), zap.Int("limit", s.cfg.Retention.WarningLevel))
	case d.notFull && s.diskFull.Swap(false):
		s.log.Info("disk has room again: sends are taken", zap.Int("usedPercent", used))
	}
	return err
}

// deleteOld deletes the oldest segments: those whose messages are older than Keep, or with force any. A segment's age is that of
// the next segment's first message, which is no older than its own last.
func (s *Store) deleteOld(force bool) error {
	segs := s.Log.Segments()
	limit := s.clk.NowMs() - s.cfg.Retention.Keep.Milliseconds()
	to := segs[0].Base
	for i := 1; i < len(segs) && i <= s.cfg.Retention.Batch; i++ {
		if t := s.Log.FirstStoreTime(segs[i].Base); !force && (t == 0 || t > limit) {
			break
		}
		to = segs[i].Base
		if force && i == 1 {
			break
		}
	}
	to = min(to, s.Dispatched())
	before := segs[0].Base
	low, err := s.Log.RemoveBefore(to, s.cfg.Retention.Batch)
	if low == before {
		return err
	}
	s.log.Info("old messages deleted", zap.Int64("logMin", low), zap.Bool("forced", force))
	err = errors.Join(err, s.Queues.CorrectMin(low))
	if s.Index != nil {
		err = errors.Join(err, s.Index.RemoveBefore(low))
	}
	return err
}
