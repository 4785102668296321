package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/state"
)

// joint is a master that is at work, and a replica that shall have what it has.
type joint struct {
	*group
	own  confirm // what the replica knows to be confirmed
	base int64
}

func newJoint(t *testing.T, seed uint64) *joint {
	j := &joint{group: &group{t: t, rng: rand.New(rand.NewPCG(seed, 22))}}
	j.master, j.replica = newNode(t, &j.confirm), newNode(t, &j.own)
	if err := j.master.Promote(); err != nil {
		t.Fatal(err)
	}
	return j
}

// work is n steps of the master.
func (j *joint) work(n int) {
	for range n {
		topic := fmt.Sprint("T", j.rng.IntN(3))
		switch k := j.rng.IntN(100); {
		case k < 70:
			j.put(topic, j.rng.Int32N(3))
		case k < 73:
			j.propose(state.TopicDelete(topic))
		case k < 75: // of Java, and without its records in any queue
			j.propose(state.DeletedBefore(topic, j.master.Log.Appended()))
		case k < 88:
			j.propose(state.OffsetPut(fmt.Sprint("G", k), topic, j.rng.Int32N(3), int64(k)), state.ForbiddenPut("n", topic, int32(1+j.rng.IntN(100))))
		default:
			j.confirmTo(j.rng.IntN(2) == 0)
		}
	}
}

func (j *joint) propose(changes ...state.Change) {
	if err := j.master.Propose(nil, changes...); err != nil {
		j.t.Fatal(err)
	}
	j.log = append(j.log, groupRecord{end: j.master.Log.Appended()})
}

// confirmTo confirms some of the master's log, or all.
func (j *joint) confirmTo(all bool) {
	at := len(j.log) - 1
	if at < 0 {
		return
	}
	if !all {
		at = j.rng.IntN(len(j.log))
	}
	j.confirm.at.Store(max(j.confirm.at.Load(), j.log[at].end))
	j.master.Advance()
}

// expire deletes the master's oldest segments.
func (j *joint) expire(n int) {
	for range n {
		if _, err := j.master.deleteOld(decision{force: true}, &Retention{Batch: 1}); err != nil {
			j.t.Fatal(err)
		}
	}
}

// fetch writes a snapshot of the master into the replica's file system.
func (j *joint) fetch(meanwhile func()) (file vfs.File, size, applied int64) {
	j.t.Helper()
	j.base = j.master.Log.Min()
	if err := j.replica.fs.MkdirAll("/store/snapshot"); err != nil {
		j.t.Fatal(err)
	}
	file, err := j.replica.fs.Create("/store/snapshot/in")
	if err != nil {
		j.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		meanwhile()
	}()
	low := j.master.Dispatched()
	w := io.NewOffsetWriter(file, 0)
	if applied, err = j.master.WriteSnapshot(w, j.base); err != nil {
		j.t.Fatal(err)
	}
	<-done
	if applied < j.base || applied < low || applied > j.master.Confirmed() {
		j.t.Fatalf("the state is that of %d, the log begins at %d, was dispatched to %d, is confirmed to %d", applied, j.base, low, j.master.Confirmed())
	}
	size, _ = w.Seek(0, io.SeekCurrent)
	return file, size, applied
}

// install fetches and installs.
func (j *joint) install(meanwhile func()) (applied int64) {
	j.t.Helper()
	file, size, applied := j.fetch(meanwhile)
	called := false
	base, err := j.replica.Install(file, size, func(int64) error { called = true; return nil })
	if err != nil || base != j.base || !called {
		j.t.Fatal(base, err)
	}
	if n := j.replica; n.Log.Min() != base || n.Log.End() != base || n.Confirmed() != base || n.Dispatched() != base || n.State.Applied() != applied {
		j.t.Fatal(n.Log.Min(), n.Log.End(), n.Confirmed(), n.Dispatched(), n.State.Applied())
	}
	return applied
}

// follow takes some of the master's log, and what is confirmed of it.
func (j *joint) follow(applied int64) {
	j.t.Helper()
	n := j.replica
	if n.Joining() != (n.Log.End() < applied) {
		j.t.Fatalf("joining: %v, at %d of %d", n.Joining(), n.Log.End(), applied)
	}
	if n.Joining() {
		if err := n.Promote(); !errors.Is(err, ErrJoining) {
			j.t.Fatal(err)
		}
	}
	n.take(j.master, j.rng.IntN(30_000))
	j.own.at.Store(j.master.Confirmed())
	n.Advance()
	if n.Confirmed() > n.Log.End() || n.Dispatched() != min(n.Log.End(), j.master.Confirmed()) {
		j.t.Fatalf("confirmed %d, dispatched %d of %d", n.Confirmed(), n.Dispatched(), n.Log.End())
	}
}

// restart ends the replica in one of three ways and opens it again.
func (j *joint) restart() {
	n := j.replica
	switch j.rng.IntN(3) {
	case 0:
		if err := n.Close(); err != nil {
			j.t.Fatal(err)
		}
	case 1:
		_ = n.abandon()
	default:
		after := n.fs.CrashClone(j.rng, vfs.CrashMode(j.rng.IntN(4)))
		_ = n.abandon()
		n.lose(j.t, after)
	}
	n.open(j.t, &j.own)
}

var boots int // of machines

// lose makes a power loss of what has become of the files.
func (n *node) lose(t *testing.T, after *vfs.Mem) {
	n.fs = after
	boots++
	if err := errors.Join(after.MkdirAll(filepath.Dir(bootFile)), after.WriteFileAtomic(bootFile, fmt.Append(nil, boots))); err != nil {
		t.Fatal(err)
	}
}

// same finds in the replica all that the master has from the base on.
func (j *joint) same() {
	j.t.Helper()
	a, b := j.master, j.replica
	if a.Log.End() != b.Log.End() || a.Dispatched() != b.Dispatched() {
		j.t.Fatalf("the logs end at %d and %d, dispatched to %d and %d", a.Log.End(), b.Log.End(), a.Dispatched(), b.Dispatched())
	}
	low := max(a.Log.Min(), b.Log.Min())
	for at := low; at < a.Log.End(); {
		k := int(min(a.Log.End()-at, a.Log.SegmentSize()-at%a.Log.SegmentSize()))
		x, err1 := a.Log.AppendRange(nil, at, k)
		y, err2 := b.Log.AppendRange(nil, at, k)
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(x, y) {
			j.t.Fatalf("the logs differ somewhere behind %d: %v", at, err)
		}
		at += int64(k)
	}
	if !bytes.Equal(stateOf(j.t, a), stateOf(j.t, b)) {
		j.t.Fatal("the states differ")
	}
	queues := map[string]bool{}
	for _, n := range []*node{a, b} {
		if err := n.Queues.CorrectMin(low); err != nil {
			j.t.Fatal(err)
		}
		for _, q := range n.Queues.All() {
			queues[fmt.Sprint(q.Topic, "-", q.ID)] = true
		}
	}
	for k := range queues {
		var topic string
		var id int32
		_, _ = fmt.Sscanf(k[:2]+" "+k[3:], "%s %d", &topic, &id)
		p, q := a.Queues.Get(topic, id), b.Queues.Get(topic, id)
		if p == nil || q == nil {
			if p == nil && q == nil || p == nil && q.Max() > 0 || q == nil && p.Max() > 0 {
				j.t.Fatalf("%s: only one has it: %v %v", k, p == nil, q == nil)
			}
			continue
		}
		if p.Min() != q.Min() || p.Max() != q.Max() {
			j.t.Fatalf("%s has [%d, %d), the master's [%d, %d)", k, q.Min(), q.Max(), p.Min(), p.Max())
		}
		for i := p.Min(); i < p.Max(); i++ {
			u, err1 := p.At(i)
			v, err2 := q.At(i)
			if err := errors.Join(err1, err2); err != nil || u != v {
				j.t.Fatalf("%s: %d is %v, the master's %v: %v", k, i, v, u, err)
			}
		}
	}
}

func stateOf(t *testing.T, n *node) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := n.commitState(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.db.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// succeed makes the replica the master, and has every queue go on.
func (j *joint) succeed() {
	j.t.Helper()
	next := map[string]int64{}
	for _, q := range j.master.Queues.All() {
		next[fmt.Sprint(q.Topic, "-", q.ID)] = q.Next
	}
	j.master.Demote(ErrNotMaster)
	n := j.replica
	if err := n.Promote(); err != nil {
		j.t.Fatal(err)
	}
	for _, q := range j.master.Queues.All() {
		k := fmt.Sprint(q.Topic, "-", q.ID)
		e := entry(j.t, &message.Draft{Topic: q.Topic, QueueID: q.ID, BornHost: testHost, StoreHost: testHost})
		e[0].Next = &n.Queues.GetOrCreate(q.Topic, q.ID).Next
		if err := n.Append(e, nil); err != nil {
			j.t.Fatal(err)
		}
		if e[0].QueueOffset != next[k] {
			j.t.Fatalf("%s goes on at %d, not at %d", k, e[0].QueueOffset, next[k])
		}
	}
	j.own.at.Store(n.Log.Appended())
	n.Advance()
	for k, at := range next {
		var id int32
		_, _ = fmt.Sscan(k[3:], &id)
		if q := n.Queues.Get(k[:2], id); q.Max() != at+1 {
			j.t.Fatalf("%s ends at %d, not at %d", k, q.Max(), at+1)
		}
	}
}

// TestJoin has replicas of all kinds join masters with all kinds of histories, restarts on the way, and take over.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j := newJoint(t, rapid.Uint64().Draw(rt, "seed"))
		for i := range int32(rapid.IntRange(0, 6).Draw(rt, "queues that expire")) {
			j.put(fmt.Sprint("E", i), i)
			for range j.rng.IntN(25) {
				j.put(fmt.Sprint("E", i), i)
			}
		}
		kind := rapid.SampledFrom([]string{"empty", "behind", "foreign"}).Draw(rt, "replica")
		j.work(rapid.IntRange(0, 150).Draw(rt, "history"))
		switch n := j.replica; kind {
		case "behind":
			for n.take(j.master, 20_000) && j.rng.IntN(8) > 0 {
			}
			j.own.at.Store(j.master.Confirmed())
			n.Advance()
		case "foreign":
			other := &joint{group: &group{t: t, rng: j.rng, master: n, replica: n}}
			n.abandonAndOpen(t, &other.confirm)
			if err := n.Promote(); err != nil {
				t.Fatal(err)
			}
			other.work(80)
			n.Demote(ErrNotMaster)
			n.abandonAndOpen(t, &j.own)
		}
		j.confirmTo(true)
		j.work(rapid.IntRange(0, 300).Draw(rt, "later history"))
		j.expire(rapid.IntRange(0, 12).Draw(rt, "expired segments"))
		meanwhile := rapid.IntRange(0, 40).Draw(rt, "meanwhile")
		applied := j.install(func() { j.work(meanwhile) })
		again := rapid.IntRange(0, 9).Draw(rt, "again")
		restarts := rapid.IntRange(0, 4).Draw(rt, "restarts")
		for i := 0; j.replica.Log.End() < j.master.Log.End() || i < 5; i++ {
			switch k := j.rng.IntN(20); {
			case k == 0 && restarts > 0:
				restarts--
				j.restart()
			case k == 1:
				j.work(3)
			case k == 2 && again == 0:
				again--
				applied = j.install(func() {})
			case k == 3:
				if err := j.replica.save(j.rng.IntN(2) == 0); err != nil {
					t.Fatal(err)
				}
			}
			j.follow(applied)
		}
		j.confirmTo(true)
		j.follow(applied)
		j.same()
		if rapid.Bool().Draw(rt, "restart") {
			j.restart()
			j.follow(applied)
			j.same()
		}
		j.succeed()
		_ = j.master.abandon()
		_ = j.replica.abandon()
	})
}

func (n *node) abandonAndOpen(t *testing.T, c *confirm) {
	_ = n.abandon()
	n.open(t, c)
}

// TestCrashInInstall lets the machine die at every operation of an installation. What opens then is the old store, or an empty one, and
// the installation can be done again.
func TestCrashInInstall(t *testing.T) {
	for at, done := 0, false; !done; at++ {
		j := newJoint(t, 7)
		for i := range int32(5) {
			j.put(fmt.Sprint("E", i), i)
		}
		j.work(60)
		n := j.replica
		for n.take(j.master, 20_000) {
		}
		j.confirmTo(true)
		j.own.at.Store(j.master.Confirmed())
		n.Advance()
		if err := errors.Join(n.save(true), n.Log.Flush(), n.save(true)); err != nil {
			t.Fatal(err)
		}
		end, confirmed, rows := n.Log.End(), n.Confirmed(), stateOf(t, n)
		j.work(300)
		j.confirmTo(true)
		j.expire(100)
		file, size, applied := j.fetch(func() {})
		rng := rand.New(rand.NewPCG(4, uint64(at)))
		mode := vfs.CrashMode(rng.IntN(4))
		var after *vfs.Mem
		left := at
		n.fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
			if after == nil && op != vfs.OpClose && op != vfs.OpReadAt {
				if left--; left < 0 {
					after = n.fs.CrashClone(rng, mode)
				}
			}
			if after != nil {
				return errCrashed
			}
			return nil
		})
		_, err := n.Install(file, size, func(int64) error { return n.fs.WriteFileAtomic("/store/epochs", nil) })
		n.fs.Inject(nil)
		if done = after == nil; !done {
			if !errors.Is(err, errCrashed) {
				t.Fatal(err)
			}
			_ = n.abandon()
			n.fs = after
			if mode != vfs.CrashKeep {
				n.lose(t, after)
			}
			n.open(t, &j.own)
			switch {
			case n.Log.End() == end && n.Confirmed() == confirmed && bytes.Equal(stateOf(t, n), rows) && len(n.Queues.All()) > 0: // nothing has happened
			case n.Log.Min() == 0 && n.Log.End() == 0 && n.Confirmed() == 0 && len(n.Queues.All()) == 0 && n.State.Applied() == 0:
			case n.Log.Min() == j.base && n.Log.End() == j.base && n.State.Applied() == applied: // the last operation has been
			default:
				t.Fatalf("operation %d: the log is [%d, %d), confirmed to %d, %d queues, the state is that of %d", at, n.Log.Min(), n.Log.End(), n.Confirmed(), len(n.Queues.All()), n.State.Applied())
			}
			applied = j.install(func() {})
		} else if err != nil {
			t.Fatal(err)
		}
		for n.Log.End() < j.master.Log.End() {
			j.follow(applied)
		}
		j.same()
		j.succeed()
		_ = n.abandon()
		_ = j.master.abandon()
	}
}

// TestSnapshotOfStrangers: a snapshot that is not whole changes nothing.
func TestSnapshotOfStrangers(t *testing.T) {
	j := newJoint(t, 8)
	for i := range int32(3) {
		j.put(fmt.Sprint("E", i), i)
	}
	j.work(300)
	j.confirmTo(true)
	j.expire(100)
	n := j.replica
	file, size, _ := j.fetch(func() {})
	good := make([]byte, size)
	if _, err := file.ReadAt(good, 0); err != nil {
		t.Fatal(err)
	}
	before := func(int64) error { t.Fatal("it is installed"); return nil }
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := n.Install(bytes.NewReader(bad), size, before); !errors.Is(err, ErrSnapshot) {
			t.Fatal(i, err)
		}
		if _, err := n.Install(bytes.NewReader(good), int64(i), before); !errors.Is(err, ErrSnapshot) {
			t.Fatal(i, err)
		}
	}
	if n.checkpoint.wiping || n.Writeable() != nil {
		t.Fatal("something has changed")
	}
	if _, err := j.master.Install(bytes.NewReader(good), size, before); err == nil {
		t.Fatal("a master was replaced")
	}
	_ = n.abandon()
	_ = j.master.abandon()
}

// FuzzSnapshot: whatever is announced, only what arrives costs memory, and nothing that is not whole is taken.
func FuzzSnapshot(f *testing.F) {
	head := append([]byte(snapshotMagic), 0, 0, 0, 0, 0, 1, 0, 0)
	f.Add(append(head, 0, 0, 0, 0, 0, 0))
	f.Add(append(head, 0, 2, 'T', '0', 0, 0, 0, 1))
	s := &Store{cfg: Config{SegmentSize: 64 << 10}}
	f.Fuzz(func(t *testing.T, b []byte) {
		if base, rest, err := s.checkSnapshot(bytes.NewReader(b)); err == nil && (base < 0 || rest < 22 || rest > int64(len(b))) {
			t.Fatal(base, rest)
		}
	})
}
