package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// node is one member of a group, driven by one goroutine.
type node struct {
	*testStore
	cfg Config
	fs  *vfs.Mem
}

// confirm is what the members of a group know to be confirmed.
type confirm struct{ at atomic.Int64 }

func newNode(t *testing.T, c *confirm) *node {
	n := &node{cfg: testConfig("/store", false), fs: vfs.NewMem(clock.Real{})}
	n.cfg.StateFile = filepath.Join(t.TempDir(), "state.db")
	n.cfg.QueueFile = 10 * queue.UnitSize
	n.cfg.Replicated, n.cfg.ReplicaTimeout = true, time.Minute
	n.boot(t, 0)
	n.open(t, c)
	return n
}

// boot is a boot of the machine.
func (n *node) boot(t *testing.T, id int) {
	t.Helper()
	if err := errors.Join(n.fs.MkdirAll(filepath.Dir(bootFile)), n.fs.WriteFileAtomic(bootFile, fmt.Append(nil, "boot ", id))); err != nil {
		t.Fatal(err)
	}
}

// crash runs f and lets the process die at the operation of the disk with this number, or the machine with what the mode leaves; a part
// of that operation gets through, if it is a write. It tells whether f was through before; the node is closed in any case.
func (n *node) crash(t *testing.T, at int, mode vfs.CrashMode, f func() error) (done bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(at), uint64(mode)))
	i := 0
	n.fs.Inject(func(op vfs.Op, _ string, _, size int64) error {
		switch {
		case op == vfs.OpClose || op == vfs.OpReadAt:
			return nil
		case i < at:
			i++
			return nil
		case i == at && op == vfs.OpWriteAt:
			i++
			return &vfs.ShortWrite{N: rng.IntN(int(size)), Err: errCrashed}
		}
		i = at + 1
		return errCrashed
	})
	err := f()
	n.fs.Inject(nil)
	if done = i <= at; done && err != nil || !done && !errors.Is(err, errCrashed) {
		t.Fatalf("operation %d, mode %d: %v", at, mode, err)
	}
	after := n.fs.CrashClone(rng, mode)
	_ = n.abandon()
	if n.fs = after; mode != vfs.CrashKeep {
		n.boot(t, 1)
	}
	return done
}

var crashModes = []vfs.CrashMode{vfs.CrashKeep, vfs.CrashDrop, vfs.CrashMix, vfs.CrashTear}

func (n *node) open(t *testing.T, c *confirm) {
	t.Helper()
	s, err := Open(n.cfg, n.fs, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if c != nil {
		s.SetGate(func(written, _ int64) int64 { return min(written, c.at.Load()) })
	}
	n.testStore = &testStore{Store: s, t: t}
}

// take copies about limit bytes of the master's log, and tells whether there were any.
func (n *node) take(from *node, limit int) bool {
	n.t.Helper()
	at := n.Log.Appended()
	b, to, err := from.Log.AppendRecords(nil, at, limit)
	if err != nil {
		n.t.Fatal(err)
	}
	if to == at {
		return false
	}
	if err := n.Log.AppendRaw(at, b); err != nil {
		n.t.Fatal(err)
	}
	n.Advance()
	return true
}

// group is two replicas and what was appended, in the order of the log.
type group struct {
	t       *testing.T
	rng     *rand.Rand
	confirm confirm
	master  *node
	replica *node
	log     []groupRecord
	n       int
}

type groupRecord struct {
	end   int64
	topic string
	queue int32 // -1: the topic was deleted
	phy   int64
}

func newGroupOfTwo(t *testing.T, seed uint64) *group {
	g := &group{t: t, rng: rand.New(rand.NewPCG(seed, 21))}
	g.master, g.replica = newNode(t, &g.confirm), newNode(t, &g.confirm)
	if err := g.master.Promote(); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *group) step() {
	topic := fmt.Sprint("T", g.rng.IntN(3))
	switch k := g.rng.IntN(100); {
	case k < 60:
		g.put(topic, g.rng.Int32N(3))
	case k < 63:
		if err := g.master.Propose(nil, state.TopicDelete(topic)); err != nil {
			g.t.Fatal(err)
		}
		g.log = append(g.log, groupRecord{end: g.master.Log.Appended(), topic: topic, queue: -1})
	case k < 66:
		if err := g.master.Propose(nil, state.OffsetPut("G", topic, 0, int64(k))); err != nil {
			g.t.Fatal(err)
		}
	case k < 85:
		g.replica.take(g.master, g.rng.IntN(10_000))
	case k < 95:
		g.moveConfirm()
	case k < 97:
		if err := g.replica.save(g.rng.IntN(2) == 0); err != nil {
			g.t.Fatal(err)
		}
	default:
		g.master.Advance()
		g.replica.Advance()
	}
}

func (g *group) put(topic string, id int32) {
	d := &message.Draft{Topic: topic, QueueID: id, Body: make([]byte, g.rng.IntN(3000)), BornHost: testHost, StoreHost: testHost,
		Properties: fmt.Appendf(nil, "UNIQ_KEY\x01k%d\x02", g.n)}
	g.n++
	e := entry(g.t, d)
	e[0].Next = &g.master.Queues.GetOrCreate(topic, id).Next
	if err := g.master.Append(e, nil); err != nil {
		g.t.Fatal(err)
	}
	g.master.Advance()
	g.log = append(g.log, groupRecord{e[0].Phy + int64(d.Size()), topic, id, e[0].Phy})
}

// moveConfirm confirms up to a random record that both have.
func (g *group) moveConfirm() {
	limit := min(g.master.Log.End(), g.replica.Log.End())
	var ends []int64
	for _, r := range g.log {
		if r.end > g.confirm.at.Load() && r.end <= limit {
			ends = append(ends, r.end)
		}
	}
	if len(ends) > 0 {
		g.confirm.at.Store(ends[g.rng.IntN(len(ends))])
		g.master.Advance()
		g.replica.Advance()
	}
}

// next is what the queues of a log of this length have to count from.
func (g *group) next(end int64) map[string][]int64 {
	phys := map[string][]int64{}
	for _, r := range g.log {
		switch {
		case r.end > end:
		case r.queue < 0:
			for id := range 3 {
				delete(phys, fmt.Sprint(r.topic, "-", id))
			}
		default:
			k := fmt.Sprint(r.topic, "-", r.queue)
			phys[k] = append(phys[k], r.phy)
		}
	}
	return phys
}

func (g *group) checkNext(n *node) {
	g.t.Helper()
	want := g.next(n.Log.Appended())
	for t := range 3 {
		for id := range int32(3) {
			k := fmt.Sprintf("T%d-%d", t, id)
			if q := n.Queues.GetOrCreate(fmt.Sprint("T", t), id); q.Next != int64(len(want[k])) {
				g.t.Fatalf("%s goes on at %d, want %d; dispatched %d of %d", k, q.Next, len(want[k]), n.Dispatched(), n.Log.End())
			}
		}
	}
}

// checkQueues finds in the queues what lies below the confirm offset, and nothing else.
func (g *group) checkQueues(n *node) {
	g.t.Helper()
	want := g.next(n.Dispatched())
	for _, q := range n.Queues.All() {
		k := fmt.Sprint(q.Topic, "-", q.ID)
		if q.Min() != 0 || q.Max() != int64(len(want[k])) {
			g.t.Fatalf("%s has [%d, %d), want %d", k, q.Min(), q.Max(), len(want[k]))
		}
		for i, phy := range want[k] {
			if u, err := q.At(int64(i)); err != nil || u.Phy != phy {
				g.t.Fatalf("%s: %d leads to %v, want %d: %v", k, i, u, phy, err)
			}
		}
		delete(want, k)
	}
	if len(want) > 0 {
		g.t.Fatalf("queues are missing: %v", want)
	}
}

// switchOver makes the replica the master. The old master gives up what the replica never had, now and then after a restart.
func (g *group) switchOver() {
	g.t.Helper()
	old := g.master
	g.master, g.replica = g.replica, old
	old.Demote(ErrNotMaster)
	if err := g.master.Promote(); err != nil {
		g.t.Fatal(err)
	}
	g.checkNext(g.master)
	if g.rng.IntN(2) == 0 {
		g.reopen(old)
	}
	end := g.master.Log.End()
	g.log = slices.DeleteFunc(g.log, func(r groupRecord) bool { return r.end > end })
	if err := old.Truncate(min(end, old.Log.End())); err != nil {
		g.t.Fatal(err)
	}
}

// reopen kills a replica, or stops it in order, and starts it again: it dispatches what it knew to be confirmed, no more and no less.
func (g *group) reopen(n *node) {
	g.t.Helper()
	end, known, was := n.Log.End(), n.checkpoint.soft, n.Confirmed()
	if g.rng.IntN(2) == 0 {
		known = was
		if err := n.Close(); err != nil {
			g.t.Fatal(err)
		}
	} else {
		_ = n.abandon()
	}
	n.open(g.t, &g.confirm)
	if n.Log.End() != end || n.Confirmed() > was || n.Confirmed() < known || n.Dispatched() != n.Confirmed() {
		g.t.Fatalf("the log ends at %d, was %d; confirmed %d, was %d, known %d; dispatched %d", n.Log.End(), end, n.Confirmed(), was, known, n.Dispatched())
	}
	g.checkQueues(n)
}

// TestSwitches plays a group of two whose mastership changes, at any point of replication, dispatch and confirmation.
func TestSwitches(t *testing.T) {
	n := max(*seeds, 30)
	if testing.Short() && *seeds == 0 {
		n = 6
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := newGroupOfTwo(t, seed)
			for range 8 {
				for range 20 + g.rng.IntN(150) {
					g.step()
				}
				if g.rng.IntN(3) == 0 {
					g.reopen(g.replica)
				}
				g.switchOver()
			}
			for g.replica.take(g.master, g.rng.IntN(10_000)) {
			}
			g.confirm.at.Store(g.master.Log.End())
			for _, n := range []*node{g.master, g.replica} {
				n.Advance()
				if n.Dispatched() != g.master.Log.End() {
					t.Fatalf("dispatched %d of %d", n.Dispatched(), g.master.Log.End())
				}
				g.checkQueues(n)
			}
			g.checkNext(g.master)
			for _, n := range []*node{g.master, g.replica} {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestOpenKnowsWhatIsConfirmed: a store that was alone is confirmed to its end; one of a group up to what it has noted.
func TestOpenKnowsWhatIsConfirmed(t *testing.T) {
	for _, c := range []struct {
		was, is, clean bool // in a group; stopped in order
		all            bool // is confirmed afterwards
	}{
		{false, false, false, true}, {false, true, false, true}, {false, true, true, true},
		{true, true, false, false}, {true, true, true, false}, {true, false, false, true}, {true, false, true, true},
	} {
		var g confirm
		n := newNode(t, nil)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"/store", n.cfg.StateFile} { // nothing was there before
			if err := errors.Join(n.fs.RemoveAll(p), os.RemoveAll(n.cfg.StateFile)); err != nil {
				t.Fatal(err)
			}
		}
		n.cfg.Replicated = c.was
		gate := &g
		if !c.was {
			gate = nil
		}
		n.open(t, gate)
		if err := n.Promote(); err != nil {
			t.Fatal(err)
		}
		put := func() {
			e := entry(t, &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: make([]byte, 100)})
			e[0].Next = &n.Queues.GetOrCreate("T", 0).Next
			if err := n.Append(e, nil); err != nil {
				t.Fatal(err)
			}
			n.Advance()
		}
		for range 10 {
			put()
		}
		g.at.Store(n.Log.End())
		n.Advance()
		if err := n.save(false); err != nil {
			t.Fatal(err)
		}
		saved := n.Log.End()
		for range 10 {
			put()
		}
		end := n.Log.End()
		if c.clean {
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = n.abandon()
		}
		n.cfg.Replicated = c.is
		for range 2 { // what is confirmed stays so
			n.open(t, nil)
			want, units := saved, int64(10)
			if c.all {
				want, units = end, 20
			}
			n.Advance()
			if n.Log.End() != end || n.Confirmed() != want || n.Queues.Get("T", 0).Max() != units {
				t.Errorf("%+v: confirmed %d with %d units, want %d of %d", c, n.Confirmed(), n.Queues.Get("T", 0).Max(), want, end)
			}
			e := entry(t, &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost})
			if err := n.Append(e, nil); errors.Is(err, ErrNotMaster) != c.is {
				t.Errorf("%+v: a record of its own: %v", c, err)
			}
			if c.is {
				_ = n.abandon()
			} else if err := n.Close(); err != nil {
				t.Fatal(err)
			} else {
				break
			}
		}
		if c.is {
			n.open(t, nil)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCrashInCut lets the machine die at every operation of a cut. The store opens with all that was confirmed, and what it still has of
// the rest can be cut again.
func TestCrashInCut(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		for _, mode := range crashModes {
			for at, done := 0, false; !done; at++ {
				done = crashInCut(t, uint64(round), mode, at)
			}
		}
	}
}

func crashInCut(t *testing.T, seed uint64, mode vfs.CrashMode, at int) (done bool) {
	t.Helper()
	g := newGroupOfTwo(t, seed)
	for g.master.Log.End() < 100<<10 {
		g.step()
	}
	for g.replica.take(g.master, 10_000) {
	}
	g.moveConfirm()
	n := g.replica
	if err := errors.Join(n.Log.Flush(), n.save(true)); err != nil { // all is durable, also what is cut
		t.Fatal(err)
	}
	confirmed, end := n.Confirmed(), n.Log.End()
	done = n.crash(t, at, mode, func() error { return n.Truncate(confirmed) })
	n.open(t, &g.confirm)
	if n.Confirmed() != confirmed || n.Log.End() < confirmed || n.Log.End() > end || done && n.Log.End() != confirmed {
		t.Fatalf("operation %d, mode %d: confirmed %d, was %d; the log ends at %d", at, mode, n.Confirmed(), confirmed, n.Log.End())
	}
	g.checkQueues(n)
	if err := n.Truncate(confirmed); err != nil {
		t.Fatal(err)
	}
	if err := n.Truncate(0); !errors.Is(err, ErrConfirmed) {
		t.Fatal(err)
	}
	for n.take(g.master, 10_000) {
	}
	if n.Log.End() != g.master.Log.End() {
		t.Fatal(n.Log.End(), g.master.Log.End())
	}
	_ = n.abandon()
	_ = g.master.abandon()
	return done
}

// TestDemoteTellsEachOnce demotes and promotes while many append and the gate moves: every waiter is told once, nil only for what is
// confirmed, and nothing is appended between Demote and Promote.
func TestDemoteTellsEachOnce(t *testing.T) {
	var c confirm
	n := newNode(t, &c)
	n.g = newGroup(n.Store)
	var mu sync.Mutex
	type told struct {
		*once
		end int64
	}
	var all []told
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for g := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				e := entry(t, &message.Draft{Topic: "T", QueueID: int32(g), BornHost: testHost, StoreHost: testHost, Body: make([]byte, i%500)})
				e[0].Next = &n.Queues.GetOrCreate("T", int32(g)).Next
				w := &once{}
				if err := n.Append(e, w); err != nil {
					if !errors.Is(err, ErrNotMaster) {
						t.Error(err)
						return
					}
					time.Sleep(10 * time.Microsecond)
					continue
				}
				mu.Lock()
				all = append(all, told{w, e[0].Phy + int64(e[0].Draft.Size())})
				mu.Unlock()
				if i%3 == 0 {
					n.Advance()
				}
			}
		})
	}
	var acks sync.Mutex
	wg.Go(func() { // the replicas
		for {
			select {
			case <-stop:
				return
			default:
				acks.Lock()
				c.at.Store(n.Log.End())
				acks.Unlock()
				n.Advance()
				time.Sleep(100 * time.Microsecond)
			}
		}
	})
	rounds := 100
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		if err := n.Promote(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
		n.Demote(fmt.Errorf("%w: deposed", ErrNotMaster))
		end := n.Log.Appended()
		time.Sleep(100 * time.Microsecond)
		if n.Log.Appended() != end || n.Waiting() != 0 {
			t.Fatalf("%d bytes were appended, %d wait", n.Log.Appended()-end, n.Waiting())
		}
		acks.Lock() // those of before a cut mean nothing after it
		err := n.Truncate(max(n.Confirmed(), c.at.Load()))
		acks.Unlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	for i, w := range all {
		if w.told.Load() != 1 || w.err != nil && !errors.Is(w.err, ErrNotMaster) {
			t.Fatalf("waiter %d of %d was told %d times: %v", i, len(all), w.told.Load(), w.err)
		}
		if w.err == nil && w.end > n.Confirmed() {
			t.Fatalf("waiter %d was told that %d is confirmed; that is so up to %d", i, w.end, n.Confirmed())
		}
	}
	n.stop()
}

// TestDemoteOfTheConfirmed: who was queued when his record had been dispatched is told that it is confirmed.
func TestDemoteOfTheConfirmed(t *testing.T) {
	g := newGroupOfTwo(t, 1)
	g.put("T0", 0)
	g.confirm.at.Store(g.master.Log.End())
	g.master.Advance()
	g.put("T0", 0)
	var below, above once
	for w, end := range map[*once]int64{&below: g.confirm.at.Load(), &above: g.master.Log.End()} {
		if !g.master.waiters.add(waiting{end: end, w: w}, 0) {
			t.Fatal("not queued")
		}
	}
	g.master.Demote(ErrNotMaster)
	if below.told.Load() != 1 || below.err != nil || above.told.Load() != 1 || !errors.Is(above.err, ErrNotMaster) {
		t.Fatal(below.told.Load(), below.err, above.told.Load(), above.err)
	}
	_ = g.master.abandon()
	_ = g.replica.abandon()
}

// TestReplicaTimeout tells what a record still lacks.
func TestReplicaTimeout(t *testing.T) {
	for _, c := range []struct {
		grouped, sync, flushed bool
		want                   error
	}{
		{true, false, false, ErrReplicaTimeout}, {true, true, true, ErrReplicaTimeout}, {true, true, false, ErrFlushTimeout}, {false, true, false, ErrFlushTimeout},
	} {
		var g confirm
		n := newNode(t, &g)
		_ = n.Close()
		n.cfg.Replicated, n.cfg.SyncFlush = c.grouped, c.sync
		n.cfg.SyncTimeout, n.cfg.ReplicaTimeout = time.Hour, 0
		if !c.grouped {
			n.cfg.SyncTimeout = 0
		}
		if n.open(t, &g); n.Promote() != nil {
			t.Fatal("no master")
		}
		w := &once{}
		if err := n.Append(entry(t, &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost}), w); err != nil {
			t.Fatal(err)
		}
		_ = n.Log.Write()
		if c.flushed {
			_ = n.Log.Flush()
		}
		now := int64(deadlineTick/time.Millisecond) + 1
		if !n.waiters.due(now) {
			t.Fatal("the deadline has not passed")
		}
		n.expire(now)
		if w.told.Load() != 1 || !errors.Is(w.err, c.want) {
			t.Errorf("%+v: told %d times: %v", c, w.told.Load(), w.err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWrittenComesFirst: who sends to replicas is told before anything is dispatched, once for what is written at once.
func TestWrittenComesFirst(t *testing.T) {
	var c confirm
	n := newNode(t, &c)
	calls := 0
	n.SetWritten(func() {
		calls++
		c.at.Store(n.Log.End())
		if n.Dispatched() == n.Log.End() {
			t.Error("dispatched before it was announced")
		}
	})
	if err := n.Promote(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		for range 3 {
			if err := n.Append(entry(t, &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost}), nil); err != nil {
				t.Fatal(err)
			}
		}
		n.Advance()
		n.Advance()
		if calls != i+1 || n.Dispatched() != n.Log.End() {
			t.Fatalf("%d calls after %d batches; dispatched %d of %d", calls, i+1, n.Dispatched(), n.Log.End())
		}
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestGateIsBelowWhatIsWritten: a replica may know of a confirm offset that it has not reached.
func TestGateIsBelowWhatIsWritten(t *testing.T) {
	g := newGroupOfTwo(t, 1)
	g.replica.SetGate(func(_, _ int64) int64 { return 1 << 40 })
	for range 20 {
		g.put("T0", 0)
		g.replica.take(g.master, 0)
		if g.replica.Confirmed() != g.replica.Log.End() {
			t.Fatal(g.replica.Confirmed(), g.replica.Log.End())
		}
	}
	_ = g.master.abandon()
	_ = g.replica.abandon()
}

// TestReset drops everything, also if the machine dies on the way, and starts over where a master's log begins.
func TestReset(t *testing.T) {
	for _, mode := range crashModes {
		step := 1
		if testing.Short() {
			step = 3
		}
		for at, done := int(mode), false; !done; at += step {
			done = crashInReset(t, mode, at)
		}
	}
}

func crashInReset(t *testing.T, mode vfs.CrashMode, at int) (done bool) {
	t.Helper()
	g := newGroupOfTwo(t, 5)
	for g.master.Log.End() < 150<<10 {
		g.step()
	}
	n := g.replica
	for n.take(g.master, 10_000) {
	}
	g.moveConfirm()
	if err := n.save(true); err != nil {
		t.Fatal(err)
	}
	if err := g.master.Reset(0); err == nil {
		t.Fatal("a master was reset")
	}
	base := g.master.Log.Segments()[1].Base
	offsets := n.State.OffsetsOfGroup("G")
	done = n.crash(t, at, mode, func() error { return n.Reset(base) })
	n.open(t, &g.confirm)
	if empty := len(n.Queues.All()) == 0; empty != (n.Log.End() == n.Log.Min()) { // what has begun is finished
		t.Fatalf("operation %d: the log is [%d, %d), queues empty: %v", at, n.Log.Min(), n.Log.End(), empty)
	}
	if left := n.State.OffsetsOfGroup("G"); n.Log.End() > n.Log.Min() && !slices.Equal(left, offsets) || n.Log.End() == n.Log.Min() && len(left) > 0 || len(offsets) == 0 {
		t.Fatalf("operation %d: the log is [%d, %d) and the offsets are %v, were %v", at, n.Log.Min(), n.Log.End(), left, offsets)
	}
	if done && n.Log.Min() != base {
		t.Fatalf("the log begins at %d, not at %d", n.Log.Min(), base)
	}
	if err := n.Reset(base); err != nil {
		t.Fatalf("operation %d, mode %d: %v", at, mode, err)
	}
	if n.Log.Min() != base || n.Log.End() != base || n.Confirmed() != base || n.Dispatched() != base || n.State.Applied() != base || len(n.Queues.All()) != 0 {
		t.Fatal(n.Log.Min(), n.Log.End(), n.Confirmed(), n.Dispatched(), n.State.Applied())
	}
	for n.take(g.master, 10_000) {
	}
	g.confirm.at.Store(g.master.Log.End())
	n.Advance()
	if err := n.save(true); err != nil {
		t.Fatal(err)
	}
	_ = n.abandon()
	n.open(t, &g.confirm)
	if n.Log.Min() != base || n.Log.End() != g.master.Log.End() || n.Dispatched() != n.Log.End() {
		t.Fatal(n.Log.Min(), n.Log.End(), n.Dispatched())
	}
	_ = n.abandon()
	_ = g.master.abandon()
	return done
}

// TestPromoteCountsLikeTheMaster has records in the tail that count in other ways than by one.
func TestPromoteCountsLikeTheMaster(t *testing.T) {
	for _, dispatched := range []bool{false, true} {
		g := newGroupOfTwo(t, 9)
		next := func(topic string) *int64 { return &g.master.Queues.GetOrCreate(topic, 0).Next }
		put := func(d message.Draft, next *int64) {
			d.BornHost, d.StoreHost = testHost, testHost
			e := entry(t, &d)
			e[0].Next = next
			if err := g.master.Append(e, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			put(message.Draft{Topic: "A"}, next("A"))
			put(message.Draft{Topic: "B"}, next("B"))
			put(message.Draft{Topic: "A", SysFlag: message.FlagPrepared}, nil)
			put(message.Draft{Topic: "A", SysFlag: message.FlagRollback}, nil)
		}
		put(message.Draft{Topic: "Batch", SysFlag: message.FlagInnerBatch, Properties: []byte("INNER_NUM\x015\x02")}, next("Batch"))
		*next("Batch") += 4 // a Java broker wrote it
		put(message.Draft{Topic: "Batch"}, next("Batch"))
		if err := g.master.Propose(nil, state.DeletedBefore("B", g.master.Log.Appended())); err != nil {
			t.Fatal(err)
		}
		put(message.Draft{Topic: "A", SysFlag: message.FlagCommit}, next("A"))
		g.master.Advance()
		for g.replica.take(g.master, 1000) {
		}
		if dispatched {
			g.confirm.at.Store(g.master.Log.End())
			g.replica.Advance()
		}
		g.master.Demote(ErrNotMaster)
		if err := g.replica.Promote(); err != nil {
			t.Fatal(err)
		}
		for topic, want := range map[string]int64{"A": 4, "B": 0, "Batch": 6} {
			if q := g.replica.Queues.GetOrCreate(topic, 0); q.Next != want || dispatched && q.Max() != want {
				t.Errorf("dispatched %v: %s goes on at %d behind %d, want %d", dispatched, topic, q.Next, q.Max(), want)
			}
		}
		_ = g.master.abandon()
		_ = g.replica.abandon()
	}
}
