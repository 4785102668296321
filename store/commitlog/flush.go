package commitlog

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/internal/bugs"
)

// Flush makes everything written before the call durable. A failed sync poisons the log
// (I3): the kernel may have dropped the pages, so a later success would prove nothing.
func (l *Log) Flush() error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	if err := l.Write(); err != nil {
		return err
	}
	if err := l.Poisoned(); err != nil {
		return err
	}
	to := l.End()
	from := l.flushed.Load()
	if from >= to {
		return nil
	}
	start := l.clk.Now()
	for _, s := range *l.segments.Load() {
		if s.base+l.cfg.SegmentSize <= from || s.base >= to {
			continue
		}
		l.begins(&l.syncs)
		err := s.file.SyncData()
		l.syncs.ends()
		if err != nil && !bugs.IgnoreFailedSync {
			return l.fail(fmt.Errorf("sync %s: %w", s.path, err))
		}
	}
	l.syncTook.Store(int64(l.clk.Now().Sub(start)))
	l.flushed.Store(to)
	return nil
}

// SyncTook is how long the last sync took.
func (l *Log) SyncTook() time.Duration { return time.Duration(l.syncTook.Load()) }

// since is when something began that goes on, in ns since Open; 0: nothing does.
type since struct{ at atomic.Int64 }

func (l *Log) begins(s *since) { s.at.Store(1 + int64(l.clk.Now().Sub(l.began))) }
func (s *since) ends()         { s.at.Store(0) }

func (l *Log) took(s *since) time.Duration {
	if at := s.at.Load(); at != 0 {
		return l.clk.Now().Sub(l.began) - time.Duration(at-1)
	}
	return 0
}

// Waits tells for how long the write and the sync that are under way have been; 0 for none.
func (l *Log) Waits() (write, sync time.Duration) { return l.took(&l.writes), l.took(&l.syncs) }

// WantFlush asks RunFlush to sync now.
func (l *Log) WantFlush() {
	select {
	case l.wantFlush <- struct{}{}:
	default:
	}
}

// RunFlush syncs every interval and whenever WantFlush is called, and then calls done, which must not block, whether the sync has
// succeeded or not. One sync serves everybody who waits for an offset below it (group commit). A changed interval counts from the
// next sync on. After a failure the next attempt waits for the interval: done may want a flush again at once.
func (l *Log) RunFlush(ctx context.Context, interval func() time.Duration, done func()) error {
	present := interval()
	tick := l.clk.NewTicker(present)
	defer tick.Stop()
	want := l.wantFlush
	for {
		if next := interval(); next != present {
			present = next
			tick.Reset(next)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-want:
		case <-tick.C:
		}
		want = l.wantFlush
		if l.Flush() != nil { // it poisons the log, or is a full disk
			want = nil
		}
		done()
	}
}
