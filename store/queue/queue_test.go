package queue

import (
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
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
	for u, want := range map[Unit]string{
		{Phy: 1024, Size: 123, Tags: 2598919}: "00000000000004000000007b000000000027a807",
		{Size: fillerSize}:                    "00000000000000007fffffff0000000000000000",
	} {
		var b [UnitSize]byte
		putUnit(b[:], u)
		if got := hex.EncodeToString(b[:]); got != want || readUnit(b[:]) != u {
			t.Fatal(got)
		}
	}
}

// flush writes everything.
func flush(s *Set, sync bool) error {
	complete, err := s.Flush(sync, 1<<62)
	if err == nil && !complete {
		return errors.New("flush is not complete")
	}
	return err
}

// put adds a unit and expects it to be taken.
func put(t rapid.TB, q *Queue, offset int64, u Unit) {
	t.Helper()
	if err := q.Put(offset, u); err != nil {
		t.Fatal(err)
	}
}

// model is what a queue should hold: unit i of offset base+i.
type model struct {
	base  int64
	units []Unit
	phy   int64 // of the next unit
}

func (m *model) top() int64 { return m.base + int64(len(m.units)) }

func (m *model) check(t rapid.TB, s *Set) {
	q := s.Get("T", 3)
	if q == nil {
		if m.top() > 0 {
			t.Fatal("the queue is gone")
		}
		return
	}
	if q.Min() != m.base || q.Max() != m.top() {
		t.Fatalf("[%d, %d), want [%d, %d)", q.Min(), q.Max(), m.base, m.top())
	}
	got := make([]Unit, 7)
	for at := m.base; at < m.top(); {
		n, err := q.Read(at, got)
		if err != nil || n == 0 {
			t.Fatalf("read at %d: %d %v", at, n, err)
		}
		for i, u := range got[:n] {
			if want := m.units[at+int64(i)-m.base]; u != want {
				t.Fatalf("unit %d: %v, want %v", at+int64(i), u, want)
			}
		}
		at += int64(n)
	}
	if _, err := q.At(m.top()); !errors.Is(err, ErrRange) {
		t.Fatal("a unit behind the end", err)
	}
}

// actions are what may happen to a queue; reopen gives the set after a restart on the same files.
func (m *model) actions(s **Set, reopen func() *Set) map[string]func(*rapid.T) {
	check := func(rt *rapid.T, err error) {
		if err != nil {
			rt.Fatal(err)
		}
	}
	queue := func() *Queue { return (*s).GetOrCreate("T", 3) }
	return map[string]func(*rapid.T){
		"put": func(rt *rapid.T) {
			for range rapid.IntRange(1, 200).Draw(rt, "n") {
				u := Unit{Phy: m.phy, Size: 50, Tags: m.phy * 7}
				m.phy += 50
				put(rt, queue(), m.top(), u)
				m.units = append(m.units, u)
			}
		},
		"gap": func(rt *rapid.T) {
			n := rapid.IntRange(1, 25).Draw(rt, "n")
			if len(m.units) == 0 {
				m.base += int64(n)
			} else {
				for range n {
					m.units = append(m.units, Unit{Size: fillerSize})
				}
			}
			u := Unit{Phy: m.phy, Size: 50}
			m.phy += 50
			put(rt, queue(), m.top(), u)
			m.units = append(m.units, u)
		},
		"again": func(rt *rapid.T) {
			if len(m.units) > 0 {
				i := rapid.IntRange(0, len(m.units)-1).Draw(rt, "i")
				put(rt, queue(), m.base+int64(i), m.units[i])
				if err := queue().Put(m.base+int64(i), Unit{Phy: m.phy, Size: 50}); !errors.Is(err, ErrTaken) {
					rt.Fatal("an offset was given twice", err)
				}
			}
		},
		"cut": func(rt *rapid.T) {
			if len(m.units) > 1 {
				i := rapid.IntRange(1, len(m.units)).Draw(rt, "keep")
				queue().Cut(m.base + int64(i))
				m.units = m.units[:i]
			}
		},
		"flush":  func(rt *rapid.T) { check(rt, flush(*s, rapid.Bool().Draw(rt, "sync"))) },
		"remove": func(*rapid.T) { (*s).Remove("T", 0); m.base, m.units = 0, nil },
		"reopen": func(rt *rapid.T) {
			check(rt, flush(*s, false))
			*s = reopen()
			if (*s).Odd() {
				rt.Fatal("odd")
			}
			if len(m.units) > 0 { // the store does this after every start: Min is not stored
				check(rt, (*s).CorrectMin(m.firstPhy()))
				m.dropFillers()
			} else { // nothing is remembered of a queue that never had a unit in a file
				check(rt, (*s).CorrectMin(m.phy))
				top := queue().Max()
				if top > m.base {
					rt.Fatalf("%d, had got to %d", top, m.base)
				}
				m.base = top
			}
		},
		"truncate": func(rt *rapid.T) {
			if len(m.units) == 0 || m.firstPhy() == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.units)-1).Draw(rt, "at")
			if m.units[i].Filler() {
				return
			}
			check(rt, (*s).Truncate(m.units[i].Phy))
			m.units = m.units[:i]
		},
		"expire": func(rt *rapid.T) {
			if len(m.units) == 0 {
				return
			}
			i := rapid.IntRange(0, len(m.units)-1).Draw(rt, "drop")
			if m.units[i].Filler() {
				return
			}
			check(rt, (*s).CorrectMin(m.units[i].Phy))
			m.base += int64(i)
			m.units = m.units[i:]
		},
		"": func(rt *rapid.T) { m.check(rt, *s) },
	}
}

func (m *model) firstPhy() int64 {
	for _, u := range m.units {
		if !u.Filler() {
			return u.Phy
		}
	}
	return 0
}

// dropFillers is what CorrectMin does: Min is a message.
func (m *model) dropFillers() {
	for len(m.units) > 0 && m.units[0].Filler() {
		m.base++
		m.units = m.units[1:]
	}
}

func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem(clock.Real{})
		s := openSet(t, fs)
		m := model{phy: 100}
		rt.Repeat(m.actions(&s, func() *Set { return openSet(t, fs) }))
	})
}

func TestExpiredQueueKeepsItsOffsets(t *testing.T) {
	for _, size := range []int64{testFile, 3 * UnitSize, 100 * UnitSize} {
		fs := vfs.NewMem(clock.Real{})
		s := openSet(t, fs)
		for i := range int64(35) {
			put(t, s.GetOrCreate("T", 0), i, Unit{Phy: i * 10, Size: 10})
		}
		if err := flush(s, true); err != nil {
			t.Fatal(err)
		}
		if err := s.CorrectMin(1000); err != nil {
			t.Fatal(err)
		}
		if q := s.Get("T", 0); q.Min() != 35 || q.Max() != 35 {
			t.Fatal(q.Min(), q.Max())
		}
		for range 3 { // also when everything is built anew, with files of another size
			s, err := Open(Config{Dir: "/cq", FileSize: size}, fs, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			if s.Odd() != (size != testFile) {
				t.Fatal("odd", s.Odd(), size)
			}
			if err := s.Reset(1000); err != nil {
				t.Fatal(err)
			}
			if q := s.Get("T", 0); q.Min() != 35 || q.Max() != 35 {
				t.Fatal(size, q.Min(), q.Max())
			}
			if err := flush(s, true); err != nil {
				t.Fatal(err)
			}
			if size != testFile {
				break
			}
		}
		s, err := Open(Config{Dir: "/cq", FileSize: size}, fs, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		if q := s.Get("T", 0); s.Odd() || q.Max() != 35 {
			t.Fatal(size, s.Odd(), q.Min(), q.Max())
		}
		put(t, s.Get("T", 0), 35, Unit{Phy: 1000, Size: 10})
	}
}

func TestLookupNeverCreates(t *testing.T) {
	s := openSet(t, vfs.NewMem(clock.Real{}))
	if s.Get("T", 0) != nil || s.Topic("T") != nil || s.GetOrCreate("T", MaxQueueID) != nil || s.GetOrCreate("T", -1) != nil {
		t.Fatal("created")
	}
	for _, name := range []string{"", ".", "..", "a/b", "../x", "a\x00b", "a\\b", strings.Repeat("n", 256)} {
		if s.GetOrCreate(name, 0) != nil {
			t.Errorf("a folder named %q", name)
		}
	}
}

func TestImpossibleOffsets(t *testing.T) {
	q := openSet(t, vfs.NewMem(clock.Real{})).GetOrCreate("T", 0)
	for _, offset := range []int64{-1, maxOffset + 1, 1 << 62} {
		if err := q.Put(offset, Unit{Phy: 1, Size: 1}); !errors.Is(err, ErrOffset) {
			t.Fatal(offset, err)
		}
	}
	put(t, q, 5, Unit{Phy: 1, Size: 1})
	if err := q.Put(6+maxGap+1, Unit{Phy: 2, Size: 1}); !errors.Is(err, ErrOffset) || q.Min() != 5 || q.Max() != 6 {
		t.Fatal(err, q.Min(), q.Max())
	}
}

// TestDeletedTopicIsTheSameQueue checks Q4: a queue that somebody holds goes on to work when its topic is made again.
func TestDeletedTopicIsTheSameQueue(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	s := openSet(t, fs)
	q := s.GetOrCreate("T", 0)
	for i := range int64(300) {
		put(t, q, i, Unit{Phy: i, Size: 1})
	}
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	s.Remove("T", 0)
	if s.Topic("T") != nil || s.Get("T", 0) != nil || len(s.All()) != 0 {
		t.Fatal("still there")
	}
	if s.GetOrCreate("T", 0) != q {
		t.Fatal("another queue of the same name")
	}
	put(t, q, 0, Unit{Phy: 1000, Size: 1})
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	if q := openSet(t, fs).Get("T", 0); q.Max() != 1 {
		t.Fatal(q.Max())
	}
	s.Remove("T", 0)
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat("/cq/T"); err == nil {
		t.Fatal("the folder is left")
	}
}

// TestDeletionWaitsForItsRecord keeps the files of a deleted topic while a power loss could still undo the deletion.
func TestDeletionWaitsForItsRecord(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	s := openSet(t, fs)
	q := s.GetOrCreate("T", 0)
	put(t, q, 0, Unit{Phy: 1, Size: 1})
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	s.Remove("T", 500)
	s.GetOrCreate("T", 0)
	put(t, q, 0, Unit{Phy: 600, Size: 1})
	if complete, err := s.Flush(true, 499); complete || err != nil {
		t.Fatal(complete, err)
	}
	if u, err := openSet(t, fs).Get("T", 0).At(0); err != nil || u.Phy != 1 {
		t.Fatal(u, err)
	}
	if complete, err := s.Flush(true, 500); !complete || err != nil {
		t.Fatal(complete, err)
	}
	if u, err := openSet(t, fs).Get("T", 0).At(0); err != nil || u.Phy != 600 {
		t.Fatal(u, err)
	}
}

// TestPowerLoss keeps what was synced whatever happens to the rest, once the units above it have been dropped.
func TestPowerLoss(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 7))
		fs := vfs.NewMem(clock.Real{})
		if err := fs.MkdirAll("/cq"); err != nil {
			t.Fatal(err)
		}
		synced, phy := int64(0), int64(0)
		s := openSet(t, fs)
		for range 3 {
			q := s.GetOrCreate("T", 0)
			for range rng.IntN(6) {
				for range rng.IntN(40) {
					put(t, q, phy, Unit{Phy: phy, Size: 1})
					phy++
				}
				sync := rng.IntN(3) == 0
				if err := flush(s, sync); err != nil {
					t.Fatal(err)
				}
				if sync {
					synced = phy
				}
			}
			fs = fs.CrashClone(rng, vfs.CrashMode(rng.IntN(4)))
			s = openSet(t, fs)
			if s.Odd() { // the store dispatches everything again
				if err := s.Reset(0); err != nil {
					t.Fatal(err)
				}
				phy, synced = 0, 0
				continue
			}
			if err := s.Truncate(synced); err != nil {
				t.Fatal(err)
			}
			if q = s.GetOrCreate("T", 0); q.Max() < synced {
				t.Fatalf("seed %d: %d units, %d were synced", seed, q.Max(), synced)
			}
			for i := range synced {
				if u, err := q.At(i); err != nil || u.Phy != i {
					t.Fatal(seed, i, u, err)
				}
			}
			for phy = synced; phy < q.Max(); phy++ { // what garbage is left shows when it is dispatched again
				if err := q.Put(phy, Unit{Phy: phy, Size: 1}); errors.Is(err, ErrTaken) {
					q.Cut(phy)
				}
			}
			phy = q.Max()
		}
	}
}

// TestFailures lets every operation fail once: the next Flush makes good for it.
func TestFailures(t *testing.T) {
	for fail := 0; ; fail++ {
		fs := vfs.NewMem(clock.Real{})
		s := openSet(t, fs)
		n, failed := 0, false
		fs.Inject(func(op vfs.Op, path string, off, size int64) error {
			n++
			if n-1 != fail || op == vfs.OpClose {
				return nil
			}
			failed = true
			return vfs.ErrNoSpace
		})
		q := s.GetOrCreate("T", 0)
		for i := range int64(25) {
			put(t, q, i, Unit{Phy: i + 1, Size: 1})
			if i%7 == 0 {
				_ = flush(s, i%2 == 0)
			}
		}
		_ = s.CorrectMin(5)
		fs.Inject(nil)
		if err := errors.Join(s.CorrectMin(5), flush(s, true)); err != nil {
			t.Fatal(err)
		}
		s = openSet(t, fs)
		for i := int64(4); i < 25; i++ {
			if u, err := s.Get("T", 0).At(i); err != nil || u.Phy != i+1 || s.Odd() {
				t.Fatalf("operation %d failed: unit %d is %v %v", fail, i, u, err)
			}
		}
		if !failed && n <= fail {
			return
		}
	}
}

// TestReadsRaceEverything is for the race detector.
func TestReadsRaceEverything(t *testing.T) {
	s := openSet(t, vfs.NewMem(clock.Real{}))
	q := s.GetOrCreate("T", 0)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var units [50]Unit
			for {
				select {
				case <-done:
					return
				default:
				}
				at := q.Min()
				n, err := q.Read(at, units[:])
				for i := range n {
					if units[i].Phy%100_000 != at+int64(i) {
						t.Errorf("unit %d: %v", at+int64(i), units[i])
						return
					}
				}
				if err != nil && !errors.Is(err, ErrRange) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if _, err := s.Flush(true, 1<<62); err != nil {
				t.Error(err)
			}
			if err := s.CorrectMin(max(0, q.Max()-30)); err != nil {
				t.Error(err)
			}
		}
	})
	for life := range int64(20) {
		for i := range int64(400) {
			put(t, q, i, Unit{Phy: life*100_000 + i, Size: 1})
		}
		s.Remove("T", 0)
		s.GetOrCreate("T", 0)
	}
	close(done)
	wg.Wait()
}

func TestPutAndReadDoNotAllocate(t *testing.T) {
	s := openSet(t, vfs.NewMem(clock.Real{}))
	q := s.GetOrCreate("T", 0)
	i := int64(0)
	var units [32]Unit
	if n := testing.AllocsPerRun(2000, func() {
		_ = q.Put(i, Unit{Phy: i, Size: 1})
		_, _ = q.Read(max(0, i-31), units[:])
		i++
	}); n != 0 {
		t.Fatal(n)
	}
}

func BenchmarkPut(b *testing.B) {
	s := openSet(b, vfs.NewMem(clock.Real{}))
	q := s.GetOrCreate("T", 0)
	i := int64(0)
	for b.Loop() {
		put(b, q, i, Unit{Phy: i, Size: 1})
		if i++; i%10000 == 0 {
			if err := flush(s, false); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// TestFirstFileIsLost: a power loss may leave a later file of a young queue, without units, and not the first.
func TestFirstFileIsLost(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	s := openSet(t, fs)
	q := s.GetOrCreate("T", 0)
	unit := func(i int64) Unit { return Unit{Phy: i * 100, Size: 100, Tags: i} }
	for i := range int64(11) {
		put(t, q, i, unit(i))
	}
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	later := q.filePath(10)
	s.Close()
	if err := fs.Remove(q.filePath(0)); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(later)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, UnitSize), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	s = openSet(t, fs)
	q = s.GetOrCreate("T", 0)
	if q.Min() != 10 || q.Max() != 10 {
		t.Fatalf("the queue has [%d, %d)", q.Min(), q.Max())
	}
	for i := range int64(12) {
		put(t, q, i, unit(i))
	}
	if err := flush(s, true); err != nil {
		t.Fatal(err)
	}
	s.Close()
	q = openSet(t, fs).GetOrCreate("T", 0)
	if q.Min() != 0 || q.Max() != 12 {
		t.Fatalf("the queue has [%d, %d)", q.Min(), q.Max())
	}
	for i := range int64(12) {
		if u, err := q.At(i); err != nil || u != unit(i) {
			t.Errorf("%d: %v %v", i, u, err)
		}
	}
}
