package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// faultRun uses a store on a disk in memory while operations of the disk fail.
type faultRun struct {
	t     *testing.T
	cfg   Config
	fs    *vfs.Mem
	s     *testStore
	acked []stored
	n     int
}

func newFaultRun(t *testing.T, sync bool) *faultRun {
	r := &faultRun{t: t, cfg: testConfig("/store", sync), fs: vfs.NewMem(clock.Real{})}
	r.cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
	r.cfg.QueueFile = 10 * queue.UnitSize
	r.open()
	return r
}

func (r *faultRun) open() {
	r.t.Helper()
	s, err := Open(r.cfg, r.fs, clock.Real{}, zap.NewNop())
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = &testStore{Store: s, t: r.t}
}

// put appends a message and moves on, from one goroutine. It returns why the message was refused or not acknowledged.
func (r *faultRun) put() error {
	m := stored{topic: "T", queue: int32(r.n % 3), key: fmt.Sprint("k", r.n)}
	r.n++
	d := &message.Draft{Topic: m.topic, QueueID: m.queue, Body: make([]byte, 3000), BornHost: testHost, StoreHost: testHost,
		Properties: fmt.Appendf(nil, "UNIQ_KEY\x01%s\x02", m.key)}
	if err := d.Prepare(); err != nil {
		r.t.Fatal(err)
	}
	e := []commitlog.Entry{{Draft: d, Next: &r.s.Queues.GetOrCreate(m.topic, m.queue).Next}}
	w := make(waitErr, 1)
	if err := r.s.Append(e, w); err != nil {
		return err
	}
	r.s.Advance()
	if r.cfg.SyncFlush {
		_ = r.s.Log.Flush()
		r.s.Advance()
	}
	select {
	case err := <-w:
		if err == nil {
			m.entry = e[0]
			r.acked = append(r.acked, m)
		}
		return err
	default:
		return errNotYet
	}
}

var errNotYet = errors.New("not acknowledged yet")

// script does a bit of everything. It returns the errors of the sends.
func (r *faultRun) script() (errs []error) {
	for i := range 60 {
		errs = append(errs, r.put())
		switch i % 10 {
		case 3:
			_ = r.s.save(false)
		case 6:
			_ = r.s.Propose(nil, state.OffsetPut("G", "T", 0, int64(i)))
		case 8:
			_ = r.s.save(true)
		}
	}
	return errs
}

// reopen kills the store and finds everything that was acknowledged.
func (r *faultRun) reopen() {
	r.t.Helper()
	r.fs.Inject(nil)
	_ = r.s.abandon()
	r.open()
	for _, m := range r.acked {
		r.s.verifyOne(m)
	}
	if err := r.put(); err != nil {
		r.t.Fatal(err)
	}
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// count returns how many operations of these kinds the script makes.
func count(t *testing.T, sync bool, ops ...vfs.Op) int {
	r := newFaultRun(t, sync)
	n := 0
	r.fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if slices.Contains(ops, op) {
			n++
		}
		return nil
	})
	for _, err := range r.script() {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.reopen()
	return n
}

// sites spreads tests over n call sites.
func sites(n int) (all []int) {
	tests := 60
	if testing.Short() {
		tests = 15
	}
	for i := 0; i < n; i += max(1, n/tests) {
		all = append(all, i)
	}
	return all
}

// TestDiskFullEverywhere lets the disk be full from each write or allocation on. Sends are refused with an error that says so, and
// when there is room again the store goes on without a restart, with nothing lost.
func TestDiskFullEverywhere(t *testing.T) {
	for _, sync := range []bool{false, true} {
		for _, at := range sites(count(t, sync, vfs.OpWriteAt, vfs.OpAllocate)) {
			r := newFaultRun(t, sync)
			n := 0
			r.fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
				if op != vfs.OpWriteAt && op != vfs.OpAllocate {
					return nil
				}
				if n++; n <= at {
					return nil
				}
				if op == vfs.OpWriteAt && n%2 == 0 {
					return &vfs.ShortWrite{N: n * 37 % 1000, Err: vfs.ErrNoSpace}
				}
				return vfs.ErrNoSpace
			})
			for i, err := range r.script() {
				if err != nil && !errors.Is(err, commitlog.ErrFull) && !errors.Is(err, errNotYet) {
					t.Fatalf("site %d, send %d: %v", at, i, err)
				}
			}
			r.fs.Inject(nil)
			r.s.Log.Prepare()
			r.s.Advance()
			if err := r.put(); err != nil {
				t.Fatalf("site %d: there is room again: %v", at, err)
			}
			if err := r.s.Writeable(); err != nil {
				t.Fatal(err)
			}
			if err := r.s.save(true); err != nil {
				t.Fatalf("site %d: %v", at, err)
			}
			for _, m := range r.acked {
				r.s.verifyOne(m)
			}
			r.reopen()
		}
	}
}

// TestErrorEverywhere lets each operation of the disk fail once with EIO. Whatever that stops, what was acknowledged is there after
// a restart; a failed write or sync of the log refuses sends from then on.
func TestErrorEverywhere(t *testing.T) {
	ops := []vfs.Op{vfs.OpCreate, vfs.OpOpen, vfs.OpRename, vfs.OpRemove, vfs.OpRemoveAll, vfs.OpMkdirAll, vfs.OpReadDir, vfs.OpStat, vfs.OpSyncDir,
		vfs.OpReadFile, vfs.OpReadAt, vfs.OpWriteAt, vfs.OpSize, vfs.OpTruncate, vfs.OpAllocate, vfs.OpSyncData, vfs.OpMap}
	for _, at := range sites(count(t, true, ops...)) {
		r := newFaultRun(t, true)
		n := 0
		var op vfs.Op
		var path string
		r.fs.Inject(func(o vfs.Op, p string, _, size int64) error {
			if !slices.Contains(ops, o) {
				return nil
			}
			if n++; n-1 != at {
				return nil
			}
			if op, path = o, p; o == vfs.OpWriteAt {
				return &vfs.ShortWrite{N: int(size / 2), Err: unix.EIO}
			}
			return unix.EIO
		})
		errs := r.script()
		poisoned := errors.Is(errs[len(errs)-1], commitlog.ErrPoisoned)
		logFile := filepath.Dir(path) == r.cfg.CommitLogDir
		if poisoned && !(logFile && (op == vfs.OpWriteAt || op == vfs.OpSyncData)) || !poisoned && logFile && op == vfs.OpWriteAt {
			t.Fatalf("%s of %s failed: the last send got %v", op, path, errs[len(errs)-1])
		}
		r.reopen()
	}
}

// TestFailedSyncIsFinal tells who waits at once, and refuses all others, although the next sync would succeed.
func TestFailedSyncIsFinal(t *testing.T) {
	r := newFaultRun(t, true)
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	r.fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if op == vfs.OpSyncData {
			return unix.EIO
		}
		return nil
	})
	if err := r.put(); !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	r.fs.Inject(nil)
	if err := r.put(); !errors.Is(err, commitlog.ErrPoisoned) {
		t.Fatal(err)
	}
	if err := r.s.Writeable(); !errors.Is(err, unix.EIO) {
		t.Fatal(err)
	}
	if err := r.s.Close(); err == nil {
		t.Fatal("closed as if nothing had happened")
	}
	r.open()
	defer r.s.Close() //nolint:errcheck // nothing more to see
	r.s.verifyOne(r.acked[0])
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
}

// TestFullDiskStillTakesState lets consumers commit and drain while sends are refused.
func TestFullDiskStillTakesState(t *testing.T) {
	r := newFaultRun(t, false)
	r.cfg.Retention.WarningLevel, r.cfg.Retention.CleanForced = 90, 85
	if err := r.s.Reconfigure(r.cfg); err != nil {
		t.Fatal(err)
	}
	r.fs.SetFree(1000)
	if err := r.s.Clean(false); err != nil {
		t.Fatal(err)
	}
	if err := r.put(); !errors.Is(err, ErrDiskFull) {
		t.Fatal(err)
	}
	w := make(waitErr, 1)
	if err := r.s.Propose(w, state.TopicPut(&body.TopicConfig{TopicName: "A", Perm: 6}), state.OffsetPut("G", "T", 0, 7)); err != nil {
		t.Fatal(err)
	}
	if err := <-w; err != nil {
		t.Fatal(err)
	}
	r.fs.SetFree(1 << 30)
	if err := r.s.Clean(false); err != nil {
		t.Fatal(err)
	}
	if err := r.put(); err != nil {
		t.Fatal(err)
	}
	r.reopen()
}
