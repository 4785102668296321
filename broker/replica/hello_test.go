package replica

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store"
)

// replicaOf returns a node, not running, over an empty store in memory.
func replicaOf(t *testing.T, fs *vfs.Mem, sync bool) *Node {
	t.Helper()
	st, err := store.Open(store.Config{Root: "/store", CommitLogDir: "/store/commitlog", StateFile: filepath.Join(t.TempDir(), "state.db"), SegmentSize: 64 << 10, QueueFile: 1000,
		SyncFlush: sync, FlushInterval: time.Hour, Replicated: true, ReplicaTimeout: time.Second}, fs, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	n, err := New(Config{Cluster: "c", Group: "g", ID: func() int64 { return 1 }, EpochFile: "/store/epochs", Life: func() int64 { return 5 }, SyncFlush: func() bool { return sync }}, st, fs, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestHelloForgetsEmptyEpochs: an epoch in which this broker was master and wrote nothing says nothing about its log.
func TestHelloForgetsEmptyEpochs(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	n := replicaOf(t, fs, false)
	if err := n.saveEpochs(Epochs{{4, 0}}); err != nil {
		t.Fatal(err)
	}
	h, err := n.hello(Role{Epoch: 7, SetEpoch: 9})
	if err != nil || h.LastEpoch != 0 || h.Life != 5 || h.Epoch != 7 || h.SetEpoch != 9 {
		t.Errorf("%+v, %v", h, err)
	}
	if text, err := fs.ReadFile("/store/epochs"); err != nil || string(text) != string(Epochs{}.Encode()) {
		t.Errorf("%q, %v", text, err)
	}
}

// TestHelloOfAFailedDisk: what is in memory of a log that could not be written says nothing about what a restart will find.
func TestHelloOfAFailedDisk(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	n := replicaOf(t, fs, true)
	if err := n.store.Promote(); err != nil {
		t.Fatal(err)
	}
	if err := n.store.Propose(nil); err != nil {
		t.Fatal(err)
	}
	fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if op == vfs.OpSyncData {
			return errors.New("injected")
		}
		return nil
	})
	n.store.Demote(store.ErrNotMaster)
	if _, err := n.hello(Role{Epoch: 7}); err == nil {
		t.Error("a log is introduced that is not flushed, with SYNC_FLUSH")
	}
	fs.Inject(nil)
	if _, err := n.hello(Role{Epoch: 7}); err == nil {
		t.Error("a poisoned log is introduced")
	}
	if err := n.saveEpochs(Epochs{{7, 0}}); err == nil {
		t.Error("something is said about a poisoned log")
	}
}

// TestNothingIsConfirmedWithAnOldSet: somebody knows that the controllers have changed the set.
func TestNothingIsConfirmedWithAnOldSet(t *testing.T) {
	now := time.Now()
	l := NewLeader(1, 3, []int64{1, 2}, 5, 2, time.Second, now)
	l.Attach(2, 1, 100, 0, false, now)
	if l.Watermark() != 100 || l.Newer(5) || l.Watermark() != 100 {
		t.Errorf("watermark %d", l.Watermark())
	}
	if !l.Newer(6) || l.Newer(6) || l.Watermark() != Unknown {
		t.Errorf("watermark %d with a set that is known to be old", l.Watermark())
	}
	l.Committed([]int64{1}, 6)
	if l.Watermark() != Unknown {
		t.Error("a set that is too small confirms")
	}
	l.Committed([]int64{1, 2}, 7)
	if l.Watermark() != 100 {
		t.Errorf("watermark %d", l.Watermark())
	}
}

// TestStartForgetsLostEpochs: an epoch that began where the log does not reach any more must not come back when the log does.
func TestStartForgetsLostEpochs(t *testing.T) {
	fs := vfs.NewMem(clock.Real{})
	if err := fs.MkdirAll("/store"); err != nil {
		t.Fatal(err)
	}
	if err := fs.WriteFileAtomic("/store/epochs", Epochs{{3, 0}, {5, 900}}.Encode()); err != nil {
		t.Fatal(err)
	}
	n := replicaOf(t, fs, false)
	if text, err := fs.ReadFile("/store/epochs"); err != nil || string(text) != string(Epochs{}.Encode()) {
		t.Errorf("%q, %v", text, err)
	}
	if n.former != 5 {
		t.Errorf("the newest epoch of the former life is %d", n.former)
	}
}
