package commitlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// newLog opens an empty log on a disk in memory.
func newLog(t testing.TB, m Mode) (*Log, *vfs.Mem) {
	t.Helper()
	fs := vfs.NewMem(clock.Real{})
	if err := errors.Join(fs.MkdirAll("/log"), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	l := open(t, fs, "/log", Recovery{Synced: -1, PowerLoss: true})
	l.SetMode(m, nil)
	return l, fs
}

// fillRandom appends n records of random sizes, some of them large, and returns their offsets.
func fillRandom(t testing.TB, l *Log, rng *rand.Rand, n int) (offsets []int64) {
	t.Helper()
	for i := range n {
		size := rng.IntN(900)
		if rng.IntN(20) == 0 {
			size = rng.IntN(testSegment / 3)
		}
		e := []Entry{{Draft: draft(size, i)}}
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, e[0].Phy)
	}
	if err := l.Write(); err != nil {
		t.Fatal(err)
	}
	return offsets
}

// copyTo sends what from has and to has not, in pieces of random sizes.
func copyTo(t testing.TB, from, to *Log, rng *rand.Rand) {
	t.Helper()
	for to.Appended() < from.End() {
		limit := rng.IntN(8 << 10)
		b, end, err := from.AppendRecords([]byte("xyz"), to.Appended(), limit)
		if err != nil || string(b[:3]) != "xyz" || end-to.Appended() != int64(len(b)-3) || len(b) == 3 {
			t.Fatalf("%d bytes from %d to %d: %v", len(b)-3, to.Appended(), end, err)
		}
		if err := to.AppendRaw(to.Appended(), b[3:]); err != nil {
			t.Fatal(err)
		}
		clear(b) // it is not kept
		if rng.IntN(3) == 0 {
			if err := to.Write(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := to.Write(); err != nil {
		t.Fatal(err)
	}
}

func sameFiles(t testing.TB, a, b vfs.FS, from int64, segments int) {
	t.Helper()
	for i := range segments {
		name := "/log/" + fileName(from+int64(i)*testSegment)
		x, errA := a.ReadFile(name)
		y, errB := b.ReadFile(name)
		if errA != nil || errB != nil || !bytes.Equal(x, y) {
			t.Fatalf("%s differs: %v %v", name, errA, errB)
		}
	}
}

func TestReplicaIsByteIdentical(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		master, mfs := newLog(t, TakesOwn)
		replica, rfs := newLog(t, TakesRaw)
		for range 4 {
			fillRandom(t, master, rng, rng.IntN(150))
			copyTo(t, master, replica, rng)
			if rng.IntN(2) == 0 {
				replica.Prepare()
			}
		}
		if replica.End() != master.End() || replica.LastStoreTime() != master.LastStoreTime() {
			t.Fatalf("the replica ends at %d, the master at %d", replica.End(), master.End())
		}
		if b, to, err := master.AppendRecords(nil, master.End(), 1000); len(b) != 0 || to != master.End() || err != nil {
			t.Fatal(b, to, err)
		}
		end := master.End()
		sameFiles(t, mfs, rfs, 0, int((end+testSegment-1)/testSegment))
		if err := replica.Close(); err != nil {
			t.Fatal(err)
		}
		replica = open(t, rfs, "/log", Recovery{Synced: end, PowerLoss: true})
		if replica.End() != end {
			t.Fatalf("end %d after a restart, was %d", replica.End(), end)
		}
		fillRandom(t, replica, rng, 50) // as a master
	}
}

// TestPieceSizes: a piece may have the limit, and one record may have more.
func TestPieceSizes(t *testing.T) {
	l, _ := newLog(t, TakesOwn)
	var at []int64
	for i, size := range []int{100, 100, 5000, 100} {
		e := []Entry{{Draft: draft(size, i)}}
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
		at = append(at, e[0].Phy)
	}
	if err := l.Write(); err != nil {
		t.Fatal(err)
	}
	at = append(at, l.End())
	for _, c := range []struct {
		from, to int64
		limit    int64
	}{
		{at[0], at[1], 0}, {at[0], at[1], at[2] - 1}, {at[0], at[2], at[2]}, {at[0], at[2], at[3] - 1}, {at[0], at[4], 1 << 20},
		{at[2], at[3], 1}, {at[2], at[3], at[3] - at[2]}, {at[3], at[4], 3000}, {at[4], at[4], 3000},
	} {
		b, to, err := l.AppendRecords(nil, c.from, int(c.limit))
		if to != c.to || int64(len(b)) != c.to-c.from || err != nil {
			t.Errorf("from %d, limit %d: to %d with %d bytes, want %d; %v", c.from, c.limit, to, len(b), c.to, err)
		}
	}
	for _, from := range []int64{-1, at[0] + 1, at[4] - 3, at[4] + 1} {
		if b, _, err := l.AppendRecords([]byte{1}, from, 1000); err == nil || len(b) != 1 {
			t.Errorf("%d bytes from %d", len(b), from)
		}
	}
}

func TestGarbageIsRefused(t *testing.T) {
	master, _ := newLog(t, TakesOwn)
	rng := rand.New(rand.NewPCG(1, 1))
	fillRandom(t, master, rng, 400)
	first, to, err := master.AppendRecords(nil, 0, 3000)
	if err != nil {
		t.Fatal(err)
	}
	blankAt := int64(0)
	for { // the piece that ends the segment
		_, next, err := master.AppendRecords(nil, blankAt, 0)
		if err != nil {
			t.Fatal(err)
		}
		if next == testSegment {
			break
		}
		blankAt = next
	}
	change := func(b []byte, f func(b []byte)) []byte {
		b = bytes.Clone(b)
		f(b)
		return b
	}
	second := int(binary.BigEndian.Uint32(first))
	replica, _ := newLog(t, TakesRaw)
	for name, b := range map[string][]byte{
		"cut off":          first[:len(first)-1],
		"only a size":      first[:4],
		"too much":         append(bytes.Clone(first), 0),
		"zeros":            make([]byte, 100),
		"another magic":    change(first, func(b []byte) { b[second+4]++ }),
		"another size":     change(first, func(b []byte) { b[second+3]++ }),
		"huge size":        change(first, func(b []byte) { b[0] = 0x7F }),
		"negative size":    change(first, func(b []byte) { b[0] = 0xFF }),
		"another offset":   change(first, func(b []byte) { b[second+35]++ }),
		"lengths disagree": change(first, func(b []byte) { b[87]++ }),
		"a short blank":    blankOf(100),
	} {
		if err := replica.AppendRaw(0, b); !errors.Is(err, ErrRaw) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := replica.AppendRaw(0, nil); err == nil {
		t.Error("nothing was taken")
	}
	for _, at := range []int64{1, to, -1, testSegment} {
		if err := replica.AppendRaw(at, first); !errors.Is(err, ErrGap) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if err := master.AppendRaw(master.End(), first); !errors.Is(err, ErrFenced) {
		t.Error("a master took a piece:", err)
	}
	if _, err := replica.Append([]Entry{{Draft: draft(1, 1)}}); !errors.Is(err, ErrFenced) {
		t.Error("a replica took a record of its own:", err)
	}
	if replica.Appended() != 0 {
		t.Fatal("garbage was taken")
	}
	for replica.Appended() < blankAt {
		b, _, err := master.AppendRecords(nil, replica.Appended(), int(blankAt-replica.Appended()))
		if err = errors.Join(err, replica.AppendRaw(replica.Appended(), b)); err != nil {
			t.Fatal(err)
		}
	}
	blank, _, err := master.AppendRecords(nil, blankAt, 0)
	if err != nil {
		t.Fatal(err)
	}
	beyond, _, err := master.AppendRecords(bytes.Clone(blank), testSegment, 100)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"a blank with something behind it": change(blank, func(b []byte) { b[len(b)-1] = 1 }),
		"a blank cut off":                  blank[:len(blank)-1],
		"over the end of the segment":      beyond,
	} {
		if err := replica.AppendRaw(blankAt, b); !errors.Is(err, ErrRaw) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := replica.AppendRaw(blankAt, blank); err != nil || replica.Appended() != testSegment {
		t.Fatal(replica.Appended(), err)
	}
}

func blankOf(n int) []byte {
	b := make([]byte, n)
	message.PutBlank(b, n)
	return b
}

// TestCrashInTruncate cuts a log at a random record, and lets the machine die at every operation of that, or in the middle of one. What
// comes back is a beginning of the old log that reaches the cut; cut again and written on, whatever happens next, nothing of the old end
// is ever seen.
func TestCrashInTruncate(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		for _, mode := range []vfs.CrashMode{vfs.CrashKeep, vfs.CrashDrop, vfs.CrashMix, vfs.CrashTear} {
			for at, done := 0, false; !done; at++ {
				done = crashInTruncate(t, seed, mode, at)
			}
		}
	}
}

var errDead = errors.New("dead")

// dieAt lets every operation fail from a certain one on; of that, if it is a write, a part gets through.
func dieAt(fs *vfs.Mem, at int, rng *rand.Rand) (dead func() bool) {
	n := 0
	fs.Inject(func(op vfs.Op, _ string, _, size int64) error {
		switch {
		case op == vfs.OpClose || op == vfs.OpReadAt:
			return nil
		case n < at:
			n++
			return nil
		case n == at && op == vfs.OpWriteAt:
			n++
			return &vfs.ShortWrite{N: rng.IntN(int(size)), Err: errDead}
		}
		n = at + 1
		return errDead
	})
	return func() bool { return n > at }
}

func crashInTruncate(t *testing.T, seed uint64, mode vfs.CrashMode, at int) (done bool) {
	t.Helper()
	l, fs := newLog(t, TakesOwn)
	fixed := rand.New(rand.NewPCG(seed, 99))
	rng := rand.New(rand.NewPCG(seed, uint64(at)))
	offsets := fillRandom(t, l, fixed, 20+fixed.IntN(200))
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	offsets = append(offsets, fillRandom(t, l, fixed, fixed.IntN(30))...) // not synced
	l.SetMode(TakesRaw, nil)
	if fixed.IntN(2) == 0 {
		l.Prepare()
	}
	keep := fixed.IntN(len(offsets))
	to := offsets[keep]
	durable := min(l.Flushed(), to)
	dead := dieAt(fs, at, rng)
	err := l.Truncate(to)
	fs.Inject(nil)
	if done = !dead(); done {
		if err != nil || l.End() != to || l.Appended() != to || l.Flushed() > to {
			t.Fatalf("seed %d: cut at %d: end %d, appended %d, flushed %d: %v", seed, to, l.End(), l.Appended(), l.Flushed(), err)
		}
		checkAt(t, l, offsets[:keep])
	} else if !errors.Is(err, errDead) || !errors.Is(l.Poisoned(), ErrPoisoned) {
		t.Fatal(err)
	}
	after := fs.CrashClone(rng, mode)
	_ = l.Abandon()
	l = open(t, after, "/log", Recovery{Synced: durable, PowerLoss: true})
	low := to
	if mode != vfs.CrashKeep {
		low = durable
	}
	kept := 0
	for kept < len(offsets) && offsets[kept] < l.End() {
		kept++
	}
	if l.End() < low || done && l.End() > to {
		t.Fatalf("seed %d, operation %d, mode %d: the log ends at %d, cut at %d, durable %d", seed, at, mode, l.End(), to, durable)
	}
	checkAt(t, l, offsets[:kept])
	l.SetMode(TakesRaw, nil)
	if err := l.Truncate(min(to, l.End())); err != nil {
		t.Fatal(err)
	}
	kept = min(kept, keep)
	l.SetMode(TakesOwn, nil)
	all := append(offsets[:kept:kept], fillRandom(t, l, rng, 1+rng.IntN(20))...)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	synced := l.Flushed()
	after = after.CrashClone(rng, vfs.CrashMode(rng.IntN(4)))
	_ = l.Abandon()
	l = open(t, after, "/log", Recovery{Synced: synced, PowerLoss: true})
	if l.End() != synced {
		t.Fatalf("seed %d, operation %d: the log ends at %d, synced up to %d", seed, at, l.End(), synced)
	}
	checkAt(t, l, all)
	_ = l.Abandon()
	return done
}

// checkAt finds exactly the records at these offsets.
func checkAt(t testing.TB, l *Log, offsets []int64) {
	t.Helper()
	i := 0
	end, err := l.Scan(l.Min(), l.End(), func(at int64, v *message.View) error {
		if i >= len(offsets) || at != offsets[i] {
			return fmt.Errorf("record %d is at %d", i, at)
		}
		i++
		return v.Verify(at)
	})
	if err != nil || end != l.End() || i != len(offsets) {
		t.Fatalf("scan ended at %d of %d after %d of %d records: %v", end, l.End(), i, len(offsets), err)
	}
}

func TestTruncateRefuses(t *testing.T) {
	l, _ := newLog(t, TakesOwn)
	offsets := fill(t, l, 100, nil)
	if err := l.Truncate(offsets[5]); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	l.SetMode(TakesNothing, nil)
	for _, to := range []int64{-1, offsets[5] + 1, l.End() + 1} {
		if err := l.Truncate(to); err == nil {
			t.Errorf("cut at %d", to)
		}
	}
	checkAt(t, l, offsets)
}

// TestTruncateDropsWhatIsNotWritten cuts what has been gathered, and what a full disk did not take.
func TestTruncateDropsWhatIsNotWritten(t *testing.T) {
	master, _ := newLog(t, TakesOwn)
	fillRandom(t, master, rand.New(rand.NewPCG(2, 2)), 100)
	l, fs := newLog(t, TakesRaw)
	b, half, err := master.AppendRecords(nil, 0, 5000)
	if err != nil {
		t.Fatal(err)
	}
	rest, _, err := master.AppendRecords(nil, half, 5000)
	if err = errors.Join(err, l.AppendRaw(0, b), l.Write(), l.AppendRaw(half, rest)); err != nil {
		t.Fatal(err)
	}
	full := 3 // attempts to write the rest; then there is room for zeros
	fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if op != vfs.OpWriteAt || full == 0 {
			return nil
		}
		full--
		return &vfs.ShortWrite{N: 700, Err: vfs.ErrNoSpace}
	})
	if err := l.Write(); !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	if err := l.Truncate(l.Appended()); !errors.Is(err, ErrRange) {
		t.Fatal("cut above what is written:", err)
	}
	if err := l.Truncate(half); err != nil || full > 0 {
		t.Fatal(full, err)
	}
	if l.Full() || l.End() != half || l.Appended() != half {
		t.Fatal(l.Full(), l.End(), l.Appended())
	}
	copyTo(t, master, l, rand.New(rand.NewPCG(2, 3)))
}

// TestTruncateAmongOthers cuts and appends while others write, sync, prepare and read.
func TestTruncateAmongOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	master, mfs := newLog(t, TakesOwn)
	offsets := fillRandom(t, master, rng, 400)
	l, fs := newLog(t, TakesRaw)
	l.cfg.ZeroAhead = true
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for _, f := range []func(){
		func() { _ = l.Write() }, func() { _ = l.Flush() }, l.Prepare,
		func() { _, _ = l.Scan(l.Min(), l.End(), func(int64, *message.View) error { return nil }) },
		func() { _, _, _ = l.AppendRecords(nil, l.Min(), 1000) },
	} {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	for range 30 {
		copyTo(t, master, l, rng)
		if err := l.Truncate(offsets[rng.IntN(len(offsets))]); err != nil {
			t.Fatal(err)
		}
	}
	copyTo(t, master, l, rng)
	close(stop)
	wg.Wait()
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	checkAt(t, l, offsets)
	sameFiles(t, mfs, fs, 0, int(l.End()/testSegment))
}

func TestResetStartsOver(t *testing.T) {
	master, _ := newLog(t, TakesOwn)
	rng := rand.New(rand.NewPCG(6, 6))
	fillRandom(t, master, rng, 300)
	base := master.End() / testSegment * testSegment
	l, fs := newLog(t, TakesOwn)
	fill(t, l, 300, nil)
	if err := l.Reset(0); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	l.SetMode(TakesRaw, nil)
	if err := l.Reset(base + 1); err == nil {
		t.Fatal("a segment begins anywhere")
	}
	for _, at := range []int64{base, 0, base} { // there is a segment of that name, too
		if err := l.Reset(at); err != nil {
			t.Fatal(err)
		}
		if l.Min() != at || l.End() != at || l.Flushed() != at || l.Appended() != at || len(l.Segments()) != 1 {
			t.Fatal(l.Min(), l.End(), l.Flushed(), l.Segments())
		}
		l.Prepare()
		copyTo(t, master, l, rng)
	}
	end := l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, fs, "/log", Recovery{From: base, Synced: end, PowerLoss: true})
	if l.Min() != base || l.End() != end {
		t.Fatal(l.Min(), l.End(), end)
	}
}
