package commitlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

const testSegment = 64 << 10

func open(t testing.TB, fs vfs.FS, dir string, r Recovery) *Log {
	t.Helper()
	l, err := Open(Config{Dir: dir, SegmentSize: testSegment}, fs, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Recover(r); err != nil {
		t.Fatal(err)
	}
	return l
}

func draft(body int, i int) *message.Draft {
	b := make([]byte, body)
	for k := range b {
		b[k] = byte(i + k)
	}
	d := &message.Draft{Topic: "T", QueueID: int32(i % 3), Body: b, BornHost: host, StoreHost: host, Properties: fmt.Appendf(nil, "KEYS\x01k%d\x02", i)}
	if err := d.Prepare(); err != nil {
		panic(err)
	}
	return d
}

var host = netip.MustParseAddrPort("127.0.0.1:10911")

// fill appends n records and returns their offsets.
func fill(t testing.TB, l *Log, n int, next *int64) (offsets []int64) {
	t.Helper()
	for i := range n {
		e := []Entry{{Draft: draft(i*37%900, i), Next: next}}
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

func check(t testing.TB, l *Log, offsets []int64) {
	t.Helper()
	i := 0
	end, err := l.Scan(l.Min(), l.End(), func(_ int64, v *message.View) error {
		if i >= len(offsets) || v.PhyOffset() != offsets[i] || v.QueueOffset() != int64(i) {
			return fmt.Errorf("record %d: offset %d, queue offset %d", i, v.PhyOffset(), v.QueueOffset())
		}
		i++
		return v.Verify(v.PhyOffset())
	})
	if err != nil || end != l.End() || i != len(offsets) {
		t.Fatalf("scan ended at %d of %d after %d of %d records: %v", end, l.End(), i, len(offsets), err)
	}
}

func TestAppendReopenAcrossSegments(t *testing.T) {
	dir := t.TempDir()
	l := open(t, vfs.OS{}, dir, Recovery{Synced: -1, PowerLoss: true})
	next := int64(0)
	offsets := fill(t, l, 500, &next)
	check(t, l, offsets)
	end := l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, vfs.OS{}, dir, Recovery{Synced: end, PowerLoss: true})
	if l.End() != end {
		t.Fatalf("end %d, was %d", l.End(), end)
	}
	check(t, l, offsets)
	var v message.View
	for i, o := range offsets {
		if _, err := l.Record(o, nil, &v); err != nil || v.QueueOffset() != int64(i) {
			t.Fatal(o, err)
		}
		if _, err := l.Record(o+1, nil, &v); err == nil {
			t.Fatal("a record at a wrong offset")
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestTornTailAtEveryByteOfTheLastRecord(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	if err := fs.MkdirAll("/log"); err != nil {
		t.Fatal(err)
	}
	l := open(t, fs, "/log", Recovery{Synced: -1, PowerLoss: true})
	next := int64(0)
	offsets := fill(t, l, 20, &next)
	last, end := offsets[19], l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	whole := make([]byte, end-last)
	f, _ := fs.Open(filepath.Join("/log", fileName(0)))
	if _, err := f.ReadAt(whole, last); err != nil {
		t.Fatal(err)
	}
	for keep := range len(whole) {
		torn := make([]byte, len(whole)+100)
		copy(torn, whole[:keep])
		if _, err := f.WriteAt(torn, last); err != nil {
			t.Fatal(err)
		}
		l := open(t, fs, "/log", Recovery{Synced: end, PowerLoss: true})
		if l.End() != last {
			t.Fatalf("%d bytes kept: end %d, want %d", keep, l.End(), last)
		}
		check(t, l, offsets[:19])
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamageInTheMiddleIsReportedNotCut(t *testing.T) {
	dir := t.TempDir()
	l := open(t, vfs.OS{}, dir, Recovery{Synced: -1, PowerLoss: true})
	next := int64(0)
	offsets := fill(t, l, 300, &next)
	end := l.End()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, _ := vfs.OS{}.Open(filepath.Join(dir, fileName(0)))
	if _, err := f.WriteAt([]byte{0xFF}, offsets[10]+95); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Dir: dir, SegmentSize: testSegment}, vfs.OS{}, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	var d *DamageError
	if _, _, err := l.Recover(Recovery{Synced: end, PowerLoss: true}); !errors.As(err, &d) || d.Offset != offsets[10] || d.Next < offsets[11] {
		t.Fatal(err)
	}
}

// TestPowerLoss appends with syncs now and then, cuts the power, and expects everything that was synced, in order, and nothing
// broken; then it goes on from there.
func TestPowerLoss(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs := vfs.NewMem(clock.Real{})
		if err := fs.MkdirAll("/log"); err != nil {
			t.Fatal(err)
		}
		if err := fs.SyncDir("/"); err != nil {
			t.Fatal(err)
		}
		next := int64(0)
		var offsets []int64
		durable := int64(0)
		for range 4 {
			l := open(t, fs, "/log", Recovery{Synced: durable, PowerLoss: true})
			if l.End() < durable {
				t.Fatalf("seed %d: end %d, durable %d", seed, l.End(), durable)
			}
			for len(offsets) > 0 && offsets[len(offsets)-1] >= l.End() {
				offsets = offsets[:len(offsets)-1]
			}
			next = int64(len(offsets))
			check(t, l, offsets)
			for range rng.IntN(5) {
				offsets = append(offsets, fill(t, l, rng.IntN(60), &next)...)
				if rng.IntN(2) == 0 {
					if err := l.Flush(); err != nil {
						t.Fatal(err)
					}
				}
			}
			durable = l.Flushed()
			fs = fs.CrashClone(rng, vfs.CrashMode(rng.IntN(4)))
		}
	}
}

func TestFullDiskRefusesAndRecovers(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	if err := fs.MkdirAll("/log"); err != nil {
		t.Fatal(err)
	}
	l := open(t, fs, "/log", Recovery{Synced: -1, PowerLoss: true})
	fs.SetFree(1000)
	var err error
	next := int64(0)
	n := 0
	for ; err == nil; n++ {
		_, err = l.Append([]Entry{{Draft: draft(1000, n), Next: &next}})
	}
	if !errors.Is(err, ErrFull) || next != int64(n-1) {
		t.Fatal(err, next, n)
	}
	fs.SetFree(1 << 30)
	l.Prepare()
	if _, err := l.Append([]Entry{{Draft: draft(1000, n), Next: &next}}); err != nil {
		t.Fatal(err)
	}
}

func TestFailedSyncPoisons(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	if err := fs.MkdirAll("/log"); err != nil {
		t.Fatal(err)
	}
	l := open(t, fs, "/log", Recovery{Synced: -1, PowerLoss: true})
	next := int64(0)
	fill(t, l, 3, &next)
	broken := errors.New("EIO")
	fs.Inject(func(op vfs.Op, path string, off, n int64) error {
		if op == vfs.OpSyncData {
			return broken
		}
		return nil
	})
	if err := l.Flush(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	fs.Inject(nil)
	if err := l.Flush(); !errors.Is(err, ErrPoisoned) || l.Flushed() != 0 {
		t.Fatal(err, l.Flushed())
	}
	if _, err := l.Append([]Entry{{Draft: draft(1, 1)}}); !errors.Is(err, ErrPoisoned) {
		t.Fatal(err)
	}
}

func BenchmarkAppend1K(b *testing.B) {
	l, err := Open(Config{Dir: b.TempDir(), SegmentSize: 1 << 30}, vfs.OS{}, clock.Real{}, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	if _, _, err := l.Recover(Recovery{Synced: -1, PowerLoss: true}); err != nil {
		b.Fatal(err)
	}
	go l.RunPrepare(b.Context()) //nolint:errcheck // ends with the benchmark
	next := int64(0)
	d := draft(1024, 1)
	e := []Entry{{Draft: d, Next: &next}}
	b.SetBytes(int64(d.Size()))
	for i := 0; b.Loop(); i++ {
		_ = d.Prepare()
		if _, err := l.Append(e); err != nil {
			b.Fatal(err)
		}
		if i%64 == 63 {
			if err := l.Write(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(l.LateRolls()), "late-rolls")
}

// FuzzRecover takes anything for a segment: it is opened with all whole records at its start, or refused; never more.
func FuzzRecover(f *testing.F) {
	var good []byte
	for i := range 3 {
		d := draft(50, i)
		good = d.Encode(good, int64(i), int64(len(good)), 1)
	}
	f.Add(good, true)
	f.Add(good[:len(good)-7], false)
	f.Add(append(good[:0:0], good[10:]...), true)
	blank := append([]byte(nil), good...)
	f.Add(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(blank, 1<<30), message.MagicBlank), true)
	f.Fuzz(func(t *testing.T, b []byte, powerLoss bool) {
		fs := vfs.NewMem(clock.Real{})
		if err := fs.MkdirAll("/log"); err != nil {
			t.Fatal(err)
		}
		file, err := fs.Create("/log/" + fileName(0))
		if err == nil {
			err = file.Truncate(testSegment)
		}
		if err == nil {
			_, err = file.WriteAt(b[:min(len(b), testSegment)], 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(Config{Dir: "/log", SegmentSize: testSegment}, fs, clock.Real{}, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Abandon() //nolint:errcheck // the end
		end, _, err := l.Recover(Recovery{Synced: -1, PowerLoss: powerLoss})
		if err != nil {
			return
		}
		next := int64(0)
		e := []Entry{{Draft: draft(1, 1), Next: &next}}
		if _, err := l.Append(e); err != nil || e[0].Phy < end {
			t.Fatal(err, e[0].Phy, end)
		}
		if err := l.Write(); err != nil {
			t.Fatal(err)
		}
		var last int64
		if got, err := l.Scan(0, l.End(), func(at int64, v *message.View) error { last = at; return v.Verify(at) }); err != nil || got != l.End() || last != e[0].Phy {
			t.Fatal(got, err, last)
		}
	})
}

// TestFailedFlushIsNotRepeatedAtOnce: whoever still waits wants a flush again and again.
func TestFailedFlushIsNotRepeatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(clock.Real{})
		l := open(t, fs, "/log", Recovery{})
		fill(t, l, 1, nil)
		fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
			if op == vfs.OpSyncData {
				return errors.New("injected")
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		told := 0
		err := l.RunFlush(ctx, func() time.Duration { return time.Second }, func() { told++; l.WantFlush() })
		if err != nil || told < 5 || told > 10 {
			t.Errorf("%d attempts in ten intervals, %v", told, err)
		}
		fs.Inject(nil)
		_ = l.Close() // it is poisoned
	})
}

// TestWaits: what hangs in the disk is told for as long as it does.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem(clock.Real{})
		l := open(t, fs, "/log", Recovery{Synced: -1, PowerLoss: true})
		next := int64(0)
		fill(t, l, 1, &next)
		for op, do := range map[vfs.Op]func() error{vfs.OpWriteAt: l.Write, vfs.OpSyncData: l.Flush} {
			if _, err := l.Append([]Entry{{Draft: draft(10, 1), Next: &next}}); err != nil {
				t.Fatal(err)
			}
			release := make(chan struct{})
			fs.Inject(func(at vfs.Op, _ string, _, _ int64) error {
				if at == op {
					<-release
				}
				return nil
			})
			done := make(chan error)
			go func() { done <- do() }()
			time.Sleep(3 * time.Second)
			write, sync := l.Waits()
			if write+sync != 3*time.Second || (sync > 0) != (op == vfs.OpSyncData) {
				t.Errorf("%s: a write has taken %v, a sync %v", op, write, sync)
			}
			close(release)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if write, sync := l.Waits(); write+sync != 0 {
				t.Errorf("%s has returned: %v, %v", op, write, sync)
			}
			fs.Inject(nil)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
