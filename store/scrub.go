package store

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	scrubPeriod = 24 * time.Hour // from the beginning of one pass to that of the next
	scrubLook   = time.Minute    // how often is looked whether there is something to do
	scrubPiece  = 1 << 20        // bytes read at once, but for longer records
	scrubAgain  = time.Second    // until what could not be read is tried once more: it may just be going away
)

// scrubber reads the confirmed log once a day, slowly: what a disk has changed is known then before the replica is elected for what it has, and
// while others still have it too.
type scrubber struct {
	s      *Store
	at, to int64     // what is still to be read in this pass
	next   time.Time // when another one begins
	doubt  int64     // an offset where nothing could be read
	buf    []byte
}

// scrub looks for damage in what nobody reads.
func (s *Store) scrub(ctx context.Context) error {
	timer := s.clk.NewTimer(scrubLook)
	defer timer.Stop()
	c := scrubber{s: s, doubt: -1}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(c.step(s.clk.Now(), s.live.Load().scrubRate))
		}
	}
}

// step reads a piece, and returns when the next one is due at a rate in bytes per second; 0 is for none.
func (c *scrubber) step(now time.Time, rate int64) time.Duration {
	log := c.s.Log
	end := min(c.s.Confirmed(), log.Flushed()) // what is above may be cut off
	switch {
	case rate == 0:
		return scrubLook
	case c.at < min(c.to, end):
	case now.Before(c.next):
		c.to = c.at
		return scrubLook
	default:
		c.at, c.to, c.next = log.Min(), end, now.Add(scrubPeriod)
	}
	c.at = max(c.at, log.Min())
	buf, to, err := c.s.verified(c.buf, c.at, int(min(c.to-c.at, rate, scrubPiece)))
	if err != nil && c.doubt != c.at {
		c.doubt = c.at
		return scrubAgain
	}
	if err != nil {
		c.s.Unreadable(c.at, err)
		to = c.at - c.at%c.s.cfg.SegmentSize + c.s.cfg.SegmentSize // where a record begins again
	}
	if c.buf = buf; cap(buf) > 2*scrubPiece {
		c.buf = nil
	}
	read := to - c.at
	c.at = to
	return time.Duration(float64(read) / float64(rate) * float64(time.Second))
}

// verified reads records as AppendRecords of the log does, and looks at their checksums. It writes over buf.
func (s *Store) verified(buf []byte, from int64, limit int) (out []byte, to int64, err error) {
	if out, to, err = s.Log.AppendRecords(buf[:0], from, limit); err == nil {
		err = s.Log.VerifyRecords(out, from)
	}
	return out, to, err
}

// Unreadable notes that the confirmed part of the log at a record's offset cannot be read, or is not what was written. It tells whether that is news;
// it is none of what has just expired. Restarts do not forget it.
func (s *Store) Unreadable(at int64, err error) bool {
	if at < s.Log.Min() {
		return false
	}
	known := s.Damaged()
	for was := s.damaged.Load(); at >= was && !s.damaged.CompareAndSwap(was, at+1); was = s.damaged.Load() {
	}
	if !known {
		s.reportDamage(at, err)
	}
	return !known
}

func (s *Store) reportDamage(at int64, err error) {
	s.log.Error("the log is damaged, and is not given to replicas: in a group have another broker elected, empty this store, and let it fetch everything; without replicas restore the file",
		zap.String("store", s.cfg.Root), zap.Int64("offset", at), zap.Error(err))
}

// Damaged tells whether a part of the log, as far as it has not expired, was found to be damaged.
func (s *Store) Damaged() bool { return s.damaged.Load() > s.Log.Min() }

// recheck reads once more what was found to be damaged before this start: the file may have been restored.
func (s *Store) recheck() {
	at := s.damaged.Load() - 1
	var err error
	if s.Damaged() && at < s.Log.End() {
		_, _, err = s.verified(nil, at, scrubPiece)
	}
	if err == nil {
		s.damaged.Store(0)
		return
	}
	s.reportDamage(at, err)
}
