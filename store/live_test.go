package store

import (
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
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
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	if e := s.put("T", 0, "b", 10); s.Log.Flushed() <= e.Phy {
		t.Fatal("a send did not wait for the disk with SYNC_FLUSH")
	}
	cfg.SyncFlush = false
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	if e := s.put("T", 0, "c", 10); s.Log.Flushed() > e.Phy {
		t.Fatal("a send waited for the disk after the way back")
	}
}

// TestTornAfterReconfigure: a power loss right after the change to ASYNC_FLUSH may have taken what was confirmed.
func TestTornAfterReconfigure(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		fs := vfs.NewMem(clock.Real{})
		cfg := testConfig("/store", true)
		cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
		s := openStore(t, cfg, fs)
		cfg.SyncFlush = !lazy
		if err := s.Reconfigure(cfg); err != nil {
			t.Fatal(err)
		}
		after := fs.CrashClone(nil, vfs.CrashDrop)
		s.stop()
		cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
		s = openStore(t, cfg, after)
		if s.Torn() != lazy {
			t.Errorf("ASYNC_FLUSH %v: torn %v", lazy, s.Torn())
		}
		s.stop()
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
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
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

// onlyClient is what is told of arrivals when one client is alone.
type onlyClient bool

func (onlyClient) Arrived(*queue.Queue, int64, int64, *message.View) {}
func (o onlyClient) BatchEnd() bool                                  { return bool(o) }

// TestSyncInPlace: for a client that is alone the goroutine that advances syncs, for many it leaves that to the flusher, which does
// not run here.
func TestSyncInPlace(t *testing.T) {
	for _, alone := range []bool{false, true} {
		s, err := Open(testConfig(t.TempDir(), true), vfs.OS{}, clock.NewManual(time.Now()), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		s.SetArrivals(onlyClient(alone))
		s.Advance() // learns of the client
		if err := s.Propose(nil, state.DelayOffsetPut(1, 1)); err != nil {
			t.Fatal(err)
		}
		if done := s.Confirmed() == s.Log.Appended(); done != alone {
			t.Errorf("alone %v: confirmed %v", alone, done)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
