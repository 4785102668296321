package queue

import (
	"encoding/hex"
	"testing"

	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

const testFile = 10 * UnitSize

func openSet(t testing.TB, fs vfs.FS) *Set {
	t.Helper()
	if err := fs.MkdirAll("/cq"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{Dir: "/cq", FileSize: testFile}, fs, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnitBytes(t *testing.T) {
	got := hex.EncodeToString(appendUnit(nil, Unit{Phy: 1024, Size: 123, Tags: 2598919}))
	if got != "00000000000004000000007b000000000027a807" {
		t.Fatal(got)
	}
	if got := hex.EncodeToString(appendUnit(nil, Unit{Size: fillerSize})); got != "00000000000000007fffffff0000000000000000" {
		t.Fatal(got)
	}
}

// model is what a queue should hold: unit i of offset base+i.
type model struct {
	base  int64
	units []Unit
}

func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem(clock.Real{})
		s := openSet(t, fs)
		m := model{base: rapid.Int64Range(0, 25).Draw(rt, "first")}
		phy := int64(100)
		top := func() int64 { return m.base + int64(len(m.units)) }
		put := func() {
			for range rapid.IntRange(1, 30).Draw(rt, "n") {
				u := Unit{Phy: phy, Size: 50, Tags: phy * 7}
				phy += 50
				s.GetOrCreate("T", 3).Put(top(), u)
				m.units = append(m.units, u)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) { put() },
			"again": func(rt *rapid.T) {
				if len(m.units) > 0 {
					i := rapid.IntRange(0, len(m.units)-1).Draw(rt, "i")
					s.GetOrCreate("T", 3).Put(m.base+int64(i), m.units[i])
				}
			},
			"flush": func(rt *rapid.T) {
				if err := s.Flush(rapid.Bool().Draw(rt, "sync")); err != nil {
					rt.Fatal(err)
				}
			},
			"reopen": func(rt *rapid.T) {
				if err := s.Flush(false); err != nil {
					rt.Fatal(err)
				}
				s = openSet(t, fs)
				if len(m.units) > 0 { // the store does this after every start: Min is not stored
					if err := s.CorrectMin(m.units[0].Phy); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"truncate": func(rt *rapid.T) {
				if len(m.units) == 0 {
					return
				}
				i := rapid.IntRange(1, len(m.units)).Draw(rt, "keep")
				if i < len(m.units) {
					if err := s.Truncate(m.units[i].Phy); err != nil {
						rt.Fatal(err)
					}
					phy = m.units[i].Phy
					m.units = m.units[:i]
				}
			},
			"expire": func(rt *rapid.T) {
				if len(m.units) == 0 {
					return
				}
				i := rapid.IntRange(0, len(m.units)-1).Draw(rt, "drop")
				if err := s.CorrectMin(m.units[i].Phy); err != nil {
					rt.Fatal(err)
				}
				m.base += int64(i)
				m.units = m.units[i:]
			},
			"": func(rt *rapid.T) {
				q := s.Get("T", 3)
				if len(m.units) == 0 {
					return
				}
				if q.Min() != m.base || q.Max() != top() {
					rt.Fatalf("[%d, %d), want [%d, %d)", q.Min(), q.Max(), m.base, top())
				}
				for i, u := range m.units {
					if got, err := q.At(m.base + int64(i)); err != nil || got != u {
						rt.Fatalf("unit %d: %v %v, want %v", m.base+int64(i), got, err, u)
					}
				}
				if _, err := q.At(top()); err == nil {
					rt.Fatal("a unit behind the end")
				}
			},
		})
	})
}

func TestExpiredQueueKeepsItsOffsets(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	s := openSet(t, fs)
	for i := range int64(35) {
		s.GetOrCreate("T", 0).Put(i, Unit{Phy: i * 10, Size: 10})
	}
	if err := s.Flush(true); err != nil {
		t.Fatal(err)
	}
	if err := s.CorrectMin(1000); err != nil {
		t.Fatal(err)
	}
	q := s.Get("T", 0)
	if q.Min() != 35 || q.Max() != 35 {
		t.Fatal(q.Min(), q.Max())
	}
	q = openSet(t, fs).Get("T", 0)
	if q.Max() != 35 {
		t.Fatal(q.Min(), q.Max())
	}
}

func TestLookupNeverCreates(t *testing.T) {
	s := openSet(t, vfs.NewMem(clock.Real{}))
	if s.Get("T", 0) != nil || s.Topic("T") != nil || s.GetOrCreate("T", MaxQueueID) != nil || s.GetOrCreate("T", -1) != nil {
		t.Fatal("created")
	}
}

func BenchmarkPut(b *testing.B) {
	s := openSet(b, vfs.NewMem(clock.Real{}))
	q := s.GetOrCreate("T", 0)
	i := int64(0)
	for b.Loop() {
		q.Put(i, Unit{Phy: i, Size: 1})
		if i++; i%10000 == 0 {
			if err := s.Flush(false); err != nil {
				b.Fatal(err)
			}
		}
	}
}
