package store

import (
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/vfs"
)

func TestReconfigureFlush(t *testing.T) {
	cfg := testConfig(t.TempDir(), false)
	cfg.FlushInterval = time.Hour
	s := openStore(t, cfg, vfs.OS{})
	defer s.stop()
	if e := s.put("T", 0, "a", 10); s.Log.Flushed() > e.Phy {
		t.Fatal("a send waited for the disk with ASYNC_FLUSH")
	}
	cfg.SyncFlush = true
	s.Reconfigure(cfg)
	if e := s.put("T", 0, "b", 10); s.Log.Flushed() <= e.Phy {
		t.Fatal("a send did not wait for the disk with SYNC_FLUSH")
	}
	cfg.SyncFlush = false
	s.Reconfigure(cfg)
	if e := s.put("T", 0, "c", 10); s.Log.Flushed() > e.Phy {
		t.Fatal("a send waited for the disk after the way back")
	}
}

func TestWantClean(t *testing.T) {
	cfg := testConfig(t.TempDir(), false)
	s := openStore(t, cfg, vfs.OS{})
	defer s.stop()
	for range 100 {
		s.put("T", 0, "k", 4<<10)
	}
	s.WantClean(CleanQueues)
	s.WantClean(CleanExpired)
	s.WantClean(CleanExpired)
	if min := s.Log.Min(); min != 0 {
		t.Fatalf("young segments were deleted up to %d", min)
	}
	cfg.Retention.Keep = -time.Hour // everything is old
	cfg.Retention.Batch = 1
	s.Reconfigure(cfg)
	last := s.Log.Segments()
	want := last[len(last)-1].Base
	for deadline := time.Now().Add(5 * time.Second); s.Log.Min() < want; time.Sleep(time.Millisecond) {
		s.WantClean(CleanExpired) // again, since what is not flushed yet stays
		if time.Now().After(deadline) {
			t.Fatalf("the log begins at %d, want only the last segment, %d", s.Log.Min(), want)
		}
	}
	q := s.Queues.Get("T", 0)
	for deadline := time.Now().Add(5 * time.Second); q.Min() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the queue still begins at 0")
		}
	}
}
