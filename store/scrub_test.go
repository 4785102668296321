package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

func TestScrub(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	cfg := testConfig("/store", false)
	cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
	fs := vfs.NewMem(clk)
	st, err := Open(cfg, fs, clk, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	s := &testStore{Store: st, t: t}
	var bodies []int64 // where they are
	for range 40 {
		e := s.put("T", 0, "k", 8<<10)
		bodies = append(bodies, e.Phy+1000)
	}
	if err := s.Log.Flush(); err != nil {
		t.Fatal(err)
	}
	end := s.Log.End()
	c := scrubber{s: st, doubt: -1}
	const rate = 100_000
	pass := func() (took time.Duration, pieces int) {
		t.Helper()
		for ; pieces < 100; pieces++ {
			d := c.step(clk.Now(), rate)
			if d == scrubLook {
				return took, pieces
			}
			clk.Advance(d)
			took += d
		}
		t.Fatal("a pass has no end")
		return 0, 0
	}
	whole := time.Duration(float64(end) / rate * float64(time.Second))
	if took, _ := pass(); (took-whole).Abs() > time.Millisecond || s.Damaged() || c.at != end {
		t.Fatal(took, whole, s.Damaged(), c.at, end)
	}
	if took, pieces := pass(); pieces != 0 {
		t.Fatal("a second pass on the same day", took, pieces)
	}

	at := bodies[15]
	flip(t, fs, cfg, at)
	clk.Advance(scrubPeriod)
	if d := c.step(clk.Now(), 0); d != scrubLook || c.at != end {
		t.Fatal("a pass without a pace", d, c.at)
	}
	for c.doubt < 0 {
		clk.Advance(c.step(clk.Now(), rate))
	}
	if s.Damaged() || c.doubt > at {
		t.Fatal("what may be going away counts", c.doubt, at)
	}
	if pass(); !s.Damaged() || c.at != end {
		t.Fatal("no damage found", s.Damaged(), c.at, end)
	}
	if s.Unreadable(at, errors.New("once more")) {
		t.Fatal("the same damage is news again")
	}
	s.damaged.Store(0)
	if s.Unreadable(s.Log.Min()-1, errors.New("expired")) || s.Damaged() {
		t.Fatal("what has expired is damage")
	}

	clk.Advance(scrubPeriod)
	c.step(clk.Now(), rate)
	c.at, c.to = end+100, end+200 // as when the log has been fetched anew meanwhile
	if d := c.step(clk.Now(), rate); d != scrubLook || s.Damaged() {
		t.Fatal("it reads above the end", d, s.Damaged())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// flip changes a bit of the log at an offset, or changes it back.
func flip(t *testing.T, fs vfs.FS, cfg Config, at int64) {
	t.Helper()
	f, err := fs.Open(filepath.Join(cfg.CommitLogDir, fmt.Sprintf("%020d", at-at%cfg.SegmentSize)))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at%cfg.SegmentSize); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at%cfg.SegmentSize); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamageIsRemembered: neither the end of the process nor a restart makes a damaged log a good one; the file restored does. Time is virtual.
func TestDamageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, cfg := vfs.NewMem(clock.Real{}), testConfig(t.TempDir(), false)
		cfg.ScrubRate = 1 << 20
		s := openStore(t, cfg, fs)
		at := s.put("T", 0, "k", 8<<10).Phy + 1000
		for range 40 {
			s.put("T", 0, "k", 8<<10)
		}
		saved := func() { time.Sleep(2 * saveInterval) }
		saved()
		flip(t, fs, cfg, at)
		time.Sleep(2 * scrubLook)
		saved()
		for _, end := range []func(){s.kill, func() { s.stop() }} {
			if !s.Damaged() {
				t.Fatal("the damage is not known, or forgotten")
			}
			end()
			s = openStore(t, cfg, fs)
		}
		if !s.Damaged() {
			t.Fatal("a stop in order makes it forgotten")
		}
		flip(t, fs, cfg, at)
		s.stop()
		if s = openStore(t, cfg, fs); s.Damaged() {
			t.Fatal("the file has been restored")
		}
		saved()
		s.kill()
		if s = openStore(t, cfg, fs); s.Damaged() {
			t.Fatal("it is damaged again")
		}
		s.stop()
	})
}

// TestDamageGoesWithTheLog: what is cut off, or dropped, was damaged once.
func TestDamageGoesWithTheLog(t *testing.T) {
	g := newGroupOfTwo(t, 1)
	n := g.replica
	for n.Confirmed() == 0 || n.Log.End() == n.Confirmed() {
		g.step()
	}
	confirmed := n.Confirmed()
	damaged := func(at int64) {
		t.Helper()
		if n.Unreadable(at, errors.New("a test")); !n.Damaged() {
			t.Fatal("not damaged")
		}
	}
	damaged(confirmed)
	if err := n.Truncate(confirmed); err != nil || n.Damaged() {
		t.Fatal("it was cut off", err)
	}
	damaged(0)
	n.take(g.master, 10_000)
	if err := n.Truncate(confirmed); err != nil || !n.Damaged() {
		t.Fatal("what is damaged was not cut off", err)
	}
	if err := n.Reset(0); err != nil || n.Damaged() {
		t.Fatal("everything was dropped", err)
	}
	_ = n.abandon()
	_ = g.master.abandon()
}
