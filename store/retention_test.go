package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
)

func TestRetentionDecides(t *testing.T) {
	r := Retention{Hours: []int{4, 16}, MaxUsed: 75, CleanForced: 85, WarningLevel: 90, Force: true}
	for _, c := range []struct {
		used, hour int
		manual     bool
		want       decision
	}{
		{75, 3, false, decision{notFull: true}},
		{75, 4, false, decision{remove: true, notFull: true}},
		{75, 16, false, decision{remove: true, notFull: true}},
		{75, 3, true, decision{remove: true, notFull: true}},
		{76, 3, false, decision{remove: true, notFull: true}},
		{85, 3, false, decision{remove: true, notFull: true}},
		{86, 3, false, decision{remove: true, force: true}},
		{90, 3, false, decision{remove: true, force: true}},
		{91, 3, false, decision{remove: true, force: true, full: true}},
	} {
		if got := r.decide(c.used, c.hour, c.manual); got != c.want {
			t.Errorf("%d %% at %d, manual %v: %+v, want %+v", c.used, c.hour, c.manual, got, c.want)
		}
	}
	r.Force = false
	if d := r.decide(95, 3, false); d.force {
		t.Error("segments go by force although that is off")
	}
}

// usageFS tells any usage of the disk.
type usageFS struct {
	vfs.FS
	percent atomic.Int64
}

func (u *usageFS) Usage(string) (total, avail int64, err error) {
	return 100 << 40, (100 - u.percent.Load()) << 40, nil
}

func TestRetentionByTime(t *testing.T) {
	clk := clock.NewManual(time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local))
	cfg := testConfig("/store", false)
	cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
	cfg.Retention = Retention{Keep: 10 * time.Hour, Hours: []int{4}, MaxUsed: 75, CleanForced: 85, WarningLevel: 90, Batch: 10, Interval: time.Minute}
	fs := &usageFS{FS: vfs.NewMem(clk)}
	open := func() *testStore {
		s, err := Open(cfg, fs, clk, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		return &testStore{Store: s, t: t}
	}
	s := open()
	put := func(topic string, n int) {
		for range n {
			s.put(topic, 0, "k", 8<<10)
		}
	}
	put("Quiet", 3)
	put("Busy", 20) // over several segments
	clean := func() int64 {
		t.Helper()
		if err := s.Clean(false); err != nil {
			t.Fatal(err)
		}
		return s.Log.Min()
	}
	clk.Advance(17 * time.Hour) // 5 o'clock: expired, but not the hour
	put("Busy", 1)
	if clean() != 0 {
		t.Fatal("deleted at the wrong hour")
	}
	clk.Advance(23*time.Hour + 10*time.Minute) // 4 o'clock
	put("Busy", 20)
	low := clean()
	if low == 0 {
		t.Fatal("nothing was deleted")
	}
	quiet, busy := s.Queues.Get("Quiet", 0), s.Queues.Get("Busy", 0)
	check := func() {
		t.Helper()
		if quiet.Min() != 3 || quiet.Max() != 3 {
			t.Fatalf("all messages have expired, but the queue has [%d, %d)", quiet.Min(), quiet.Max())
		}
		if busy.Min() == 0 || busy.Max() != 41 {
			t.Fatal(busy.Min(), busy.Max())
		}
		u, err := busy.At(busy.Min())
		if err != nil || u.Phy < low {
			t.Fatal(u, err)
		}
		if before, err := s.OffsetByTime(busy, 0, Lower); err != nil || before != busy.Min() {
			t.Fatal(before, err)
		}
		if got := s.EarliestTime(busy); got != s.TimeAt(busy, busy.Min()) || got <= 0 {
			t.Fatal(got)
		}
		if s.EarliestTime(quiet) != -1 {
			t.Fatal("an expired queue has a first message")
		}
		var p Plan
		if err := s.Read(&p, quiet, 1, Limits{Count: 1, Bytes: 1, ScanUnits: 1}, Filter{}, false); err != nil || p.Status != OffsetTooSmall || p.Next != 3 {
			t.Fatal(p.Status, p.Next, err)
		}
	}
	check()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close() //nolint:errcheck // the end
	quiet, busy = s.Queues.Get("Quiet", 0), s.Queues.Get("Busy", 0)
	check()
	if e := s.put("Quiet", 0, "k", 1); e.QueueOffset != 3 {
		t.Fatal("offsets start over", e.QueueOffset)
	}
}

func TestRetentionByDisk(t *testing.T) {
	cfg := testConfig("/store", false)
	cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
	cfg.Retention = Retention{Keep: time.Hour, MaxUsed: 75, CleanForced: 85, WarningLevel: 90, Batch: 10, Force: true, Interval: time.Minute}
	fs := &usageFS{FS: vfs.NewMem(clock.Real{})}
	s, err := Open(cfg, fs, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ts := &testStore{Store: s, t: t}
	defer s.Close() //nolint:errcheck // the end
	for range 60 {
		ts.put("T", 0, "k", 8<<10)
	}
	segments := func() int { return len(s.Log.Segments()) }
	pass := func(percent int64) int {
		t.Helper()
		fs.percent.Store(percent)
		before := segments()
		if err := s.Clean(false); err != nil {
			t.Fatal(err)
		}
		return before - segments()
	}
	if n := pass(80); n != 0 {
		t.Fatalf("%d young segments went at 80 %%", n)
	}
	cfg.Retention.Batch = 2
	if err := s.Reconfigure(cfg); err != nil {
		t.Fatal(err)
	}
	if n := pass(87); n != 2 {
		t.Fatalf("%d segments went by force, want a batch", n)
	}
	d := &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: []byte("x")}
	if pass(91); !errors.Is(s.Append(entry(t, d), nil), ErrDiskFull) || !errors.Is(s.Writeable(), ErrDiskFull) {
		t.Fatal("sends are taken at 91 %")
	}
	if pass(88); !errors.Is(s.Append(entry(t, d), nil), ErrDiskFull) {
		t.Fatal("sends are taken again above diskSpaceCleanForciblyRatio")
	}
	if pass(80); s.Append(entry(t, d), nil) != nil {
		t.Fatal("sends are refused at 80 %")
	}
	for segments() > 1 {
		pass(99)
	}
	if pass(99) != 0 || segments() != 1 {
		t.Fatal("the last segment went")
	}
}

// A master of a group whose disk is almost full says so at once, and refuses nothing before another one can have taken its place.
func TestAlmostFullMasterYields(t *testing.T) {
	s := &Store{clk: clock.Real{}, cfg: Config{Replicated: true}, Log: &commitlog.Log{}}
	for ago, refuses := range map[time.Duration]bool{0: false, yield / 2: false, yield + time.Second: true} {
		s.fullSince.Store(s.clk.NowMs() - ago.Milliseconds())
		if s.refuses() != refuses || !errors.Is(s.Writeable(), ErrDiskFull) {
			t.Fatal(ago, s.refuses())
		}
	}
	if s.fullSince.Store(0); s.refuses() || s.Writeable() != nil {
		t.Fatal("there is room")
	}
	s.cfg.Replicated = false
	if s.fullSince.Store(s.clk.NowMs()); !s.refuses() {
		t.Fatal("there is nobody else")
	}
}

// TestReadsRaceDeletion pulls from queues whose messages are being deleted: a read gets whole messages or is told that they are gone.
func TestReadsRaceDeletion(t *testing.T) {
	cfg := testConfig(t.TempDir(), false)
	cfg.Retention.Keep, cfg.Retention.Batch = -time.Hour, 1
	cfg.HotBytes = 100 << 10
	s := openStore(t, cfg, vfs.OS{})
	defer s.stop()
	q := s.Queues.GetOrCreate("T", 0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, hot := range []bool{true, false} {
		wg.Go(func() {
			var p Plan
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := s.readOnce(&p, q, hot); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 600 {
		s.put("T", 0, fmt.Sprint(i), 2000)
		if i%20 == 0 {
			if err := s.Clean(true); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	wg.Wait()
	if q.Min() == 0 {
		t.Fatal("nothing was deleted")
	}
}

// readOnce pulls from the start of a queue and looks at what comes.
func (s *testStore) readOnce(p *Plan, q *queue.Queue, hot bool) error {
	at := q.Min()
	err := s.Read(p, q, at, Limits{Count: 8, Bytes: 1 << 20, ScanUnits: 100}, Filter{}, hot)
	if err != nil {
		if errors.Is(err, ErrCold) {
			return nil
		}
		return err
	}
	b := p.AppendTo(nil)
	for n := 0; len(b) > 0; n++ {
		var v message.View
		if err := v.Parse(b); err != nil {
			return fmt.Errorf("message %d of a pull at %d: %w", n, at, err)
		}
		if v.QueueOffset() < at || v.QueueOffset() >= p.Next {
			return fmt.Errorf("offset %d in a pull of [%d, %d)", v.QueueOffset(), at, p.Next)
		}
		b = b[v.Size():]
	}
	return nil
}
