package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
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
	file, err := fs.Open(fmt.Sprintf("/store/commitlog/%020d", at-at%cfg.SegmentSize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{1}, at%cfg.SegmentSize); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
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
	s.damaged.Store(false)
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
