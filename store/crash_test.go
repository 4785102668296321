package store

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// logged is one thing that was appended: a message or a change of the state.
type logged struct {
	end    int64 // in the log
	acked  bool
	msg    *stored
	change *state.Change
}

// world drives a store on a disk in memory from one goroutine, and knows what the store should hold. At a chosen operation of the
// disk the power fails or the process dies, and the world goes on with what that leaves.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	cfg  Config
	fs   *vfs.Mem
	s    *testStore
	log  []*logged
	low  int64 // retention has deleted up to here at least
	held map[string]*queue.Queue

	until   int // operations of the disk before the crash; negative: none is planned
	mode    vfs.CrashMode
	after   *vfs.Mem // what the crash has left
	lives   int
	counter int

	checking bool // no crash now
	lost     bool // the power has failed since the last check
}

const bootFile = "/proc/sys/kernel/random/boot_id"

func newWorld(t *testing.T, seed uint64, sync bool) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 11)), cfg: testConfig("/store", sync), fs: vfs.NewMem(clock.Real{}), until: -1}
	w.cfg.StateFile = filepath.Join(t.TempDir(), "0")
	w.cfg.QueueFile = 10 * queue.UnitSize
	w.newBoot()
	return w
}

// newBoot is another boot of the machine.
func (w *world) newBoot() {
	err := w.fs.MkdirAll(filepath.Dir(bootFile))
	if err = errors.Join(err, w.fs.WriteFileAtomic(bootFile, fmt.Append(nil, "boot ", w.lives))); err != nil {
		w.t.Fatal(err)
	}
}

var seeds = flag.Uint64("seeds", 0, "how many worlds the crash tests go through; 0 means a few")

var errCrashed = errors.New("the machine is off")

// plan lets the machine crash within the next n operations of the disk, or not.
func (w *world) plan(n int) {
	w.until, w.after = w.rng.IntN(n), nil
	w.fs.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		switch {
		case w.checking || w.after != nil && op == vfs.OpClose:
			return nil
		case w.after != nil:
			return errCrashed
		case w.until == 0:
			w.crash()
			return errCrashed
		}
		w.until--
		return nil
	})
}

// crash keeps what the disk and state.db hold at this moment.
func (w *world) crash() {
	w.lives++
	w.mode = vfs.CrashMode(w.rng.IntN(4))
	w.lost = w.lost || w.mode != vfs.CrashKeep
	w.after = w.fs.CrashClone(w.rng, w.mode)
	b, err := os.ReadFile(w.cfg.StateFile)
	if err == nil {
		err = os.WriteFile(w.nextState(), b, 0o644)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
}

func (w *world) nextState() string {
	return filepath.Join(filepath.Dir(w.cfg.StateFile), fmt.Sprint(w.lives))
}

// live opens the store and uses it until the crash.
func (w *world) live() {
	w.plan(60 + w.rng.IntN(400))
	s, err := Open(w.cfg, w.fs, clock.Real{}, zap.NewNop())
	if err == nil {
		w.s = &testStore{Store: s, t: w.t}
		w.held = map[string]*queue.Queue{}
		w.checking = true
		w.check()
		w.checking, w.lost = false, false
		for w.after == nil && w.counter < 1<<20 {
			w.step()
		}
		_ = s.abandon()
	} else if !errors.Is(err, errCrashed) {
		w.t.Fatalf("life %d after crash mode %d: %v", w.lives, w.mode, err)
	}
	if w.after == nil {
		w.fs.Inject(nil)
		w.crash()
	}
	w.fs, w.cfg.StateFile = w.after, w.nextState()
	if w.mode != vfs.CrashKeep {
		w.newBoot()
	}
}

// Done notes an acknowledgement.
func (l *logged) Done(err error) { l.acked = err == nil }

type ackAll []*logged

func (a ackAll) Done(err error) {
	for _, l := range a {
		l.Done(err)
	}
}

func (w *world) step() {
	w.counter++
	switch n := w.rng.IntN(100); {
	case n < 60:
		w.put()
	case n < 66:
		w.propose(state.OffsetPut("G", w.topic(), w.rng.Int32N(3), w.rng.Int64N(1000)))
	case n < 70:
		w.propose(state.TopicPut(&body.TopicConfig{TopicName: w.topic(), ReadQueueNums: 3, WriteQueueNums: 3, Perm: 6}))
	case n < 72:
		w.propose(state.TopicDelete(w.topic()))
	case n < 84:
		_ = w.s.Log.Flush()
		w.s.Advance()
	case n < 92:
		_ = w.s.save(w.rng.IntN(2) == 0)
	case n < 94:
		w.clean()
	default:
		w.s.Advance()
	}
}

func (w *world) topic() string { return fmt.Sprint("T", w.rng.IntN(3)) }

// put appends one to three messages, now and then through a queue that was looked up long ago.
func (w *world) put() {
	var all ackAll
	var entries []commitlog.Entry
	for range 1 + w.rng.IntN(3) {
		m := stored{topic: w.topic(), queue: w.rng.Int32N(3), key: fmt.Sprint("k", w.counter, "-", len(all))}
		d := &message.Draft{Topic: m.topic, QueueID: m.queue, Body: make([]byte, w.rng.IntN(3000)), BornHost: testHost, StoreHost: testHost,
			Properties: fmt.Appendf(nil, "UNIQ_KEY\x01%s\x02", m.key)}
		for i := range d.Body {
			d.Body[i] = byte(w.rng.Uint32())
		}
		if err := d.Prepare(); err != nil {
			w.t.Fatal(err)
		}
		name := fmt.Sprint(m.topic, m.queue)
		q := w.held[name]
		if q == nil || w.rng.IntN(2) == 0 {
			q = w.s.Queues.GetOrCreate(m.topic, m.queue)
			w.held[name] = q
		}
		entries = append(entries, commitlog.Entry{Draft: d, Next: &q.Next})
		all = append(all, &logged{msg: &m})
	}
	if err := w.s.Append(entries, all); err != nil {
		w.refused(err)
		return
	}
	for i, l := range all {
		l.msg.entry = entries[i]
		l.end = entries[i].Phy + int64(entries[i].Draft.Size())
		w.log = append(w.log, l)
	}
}

func (w *world) propose(c state.Change) {
	l := &logged{change: &c}
	if err := w.s.Propose(l, c); err != nil {
		w.refused(err)
		return
	}
	// The record that Propose appended is the last one in the log, unless the disk died before it was written: then its end is
	// that of everything.
	l.end = max(w.s.Log.Appended(), 1)
	w.log = append(w.log, l)
}

func (w *world) refused(err error) {
	if w.after == nil && !errors.Is(err, commitlog.ErrFull) {
		w.t.Fatal(err)
	}
}

// clean deletes the oldest segment, whatever its age.
func (w *world) clean() {
	c := w.cfg
	c.Retention.Keep, c.Retention.Batch = -time.Hour, 1
	if err := w.s.Reconfigure(c); err != nil {
		w.t.Fatal(err)
	}
	if err := w.s.Clean(true); err == nil {
		w.low = max(w.low, w.s.Log.Min())
	}
}

// expected replays what has survived.
type expected struct {
	queues  map[string][]*stored // by topic-queue, all since the topic was last deleted
	topics  map[string]bool
	offsets map[string]int64
}

func (w *world) expected(end int64) *expected {
	e := &expected{queues: map[string][]*stored{}, topics: map[string]bool{}, offsets: map[string]int64{}}
	for _, l := range w.log {
		switch {
		case l.end > end:
		case l.msg != nil:
			k := fmt.Sprint(l.msg.topic, "-", l.msg.queue)
			e.queues[k] = append(e.queues[k], l.msg)
		case l.change.Kind == state.KindTopicPut:
			e.topics[l.change.TopicConfig.TopicName] = true
		case l.change.Kind == state.KindTopicDelete:
			delete(e.topics, l.change.Topic)
			for id := range int32(3) {
				delete(e.queues, fmt.Sprint(l.change.Topic, "-", id))
				delete(e.offsets, fmt.Sprint(l.change.Topic, "-", id))
			}
		default:
			e.offsets[fmt.Sprint(l.change.Topic, "-", l.change.QueueID)] = l.change.Offset
		}
	}
	return e
}

// check compares the store with what must be in it, and forgets what the crash took.
func (w *world) check() {
	w.t.Helper()
	s, end := w.s, w.s.Log.End()
	strict := w.cfg.SyncFlush || !w.lost
	for _, l := range w.log {
		if l.acked && l.end > end && strict && w.lives > 0 {
			w.t.Fatalf("life %d after crash mode %d: the log ends at %d; what ends at %d was acknowledged", w.lives, w.mode, end, l.end)
		}
	}
	w.log = slices.DeleteFunc(w.log, func(l *logged) bool { return l.end > end })
	want := w.expected(end)
	for k, msgs := range want.queues {
		w.checkQueue(k, msgs)
	}
	for _, q := range s.Queues.All() {
		if k := fmt.Sprint(q.Topic, "-", q.ID); len(want.queues[k]) == 0 && q.Max() > 0 {
			w.t.Fatalf("life %d: %s has [%d, %d) and should not be", w.lives, k, q.Min(), q.Max())
		}
	}
	for topic := range want.topics {
		if _, ok := s.State.Topic(topic); !ok {
			w.t.Fatalf("life %d: topic %s is gone", w.lives, topic)
		}
	}
	if n := len(s.State.Topics()); n != len(want.topics) {
		w.t.Fatalf("life %d: %d topics, want %d", w.lives, n, len(want.topics))
	}
	for k, o := range want.offsets {
		if got, ok := s.State.Offset("G", k[:2], int32(k[3]-'0')); !ok || got != o {
			w.t.Fatalf("life %d: offset of %s is %d, want %d", w.lives, k, got, o)
		}
	}
	if s.Log.Min() < w.low && !w.lost {
		w.t.Fatalf("life %d: deleted segments came back", w.lives)
	}
}

func (w *world) checkQueue(k string, msgs []*stored) {
	w.t.Helper()
	live := slices.DeleteFunc(slices.Clone(msgs), func(m *stored) bool { return m.entry.Phy < w.s.Log.Min() })
	last := msgs[len(msgs)-1]
	q := w.s.Queues.Get(last.topic, last.queue)
	if q == nil {
		w.t.Fatalf("life %d: %s is gone", w.lives, k)
	}
	top := last.entry.QueueOffset + 1
	if q.Max() != top || q.Next != top || q.Max()-q.Min() != int64(len(live)) {
		w.t.Fatalf("life %d after mode %d: %s has [%d, %d), next %d; want %d messages before %d; log %d-%d", w.lives, w.mode, k, q.Min(), q.Max(), q.Next, len(live), top, w.s.Log.Min(), w.s.Log.End())
	}
	for i, m := range live {
		if m.entry.QueueOffset != q.Min()+int64(i) {
			w.t.Fatalf("life %d: %s: message %d of the log has offset %d, want %d", w.lives, k, i, m.entry.QueueOffset, q.Min()+int64(i))
		}
		w.s.verifyOne(*m)
	}
}

// TestPowerLoss checks what a store promises: with SYNC_FLUSH everything that was acknowledged is there after a power loss, in
// order, once; without, what is there is a beginning of what was appended, and whole. After the death of the process alone both
// keep everything that was acknowledged. The crashes come at any operation: rolls, saves, retention and recoveries included.
func TestPowerLoss(t *testing.T) {
	n := *seeds
	if n == 0 {
		if n = 40; testing.Short() {
			n = 6
		}
	}
	for _, sync := range []bool{true, false} {
		for seed := range n {
			t.Run(fmt.Sprintf("sync=%v/%d", sync, seed), func(t *testing.T) {
				w := newWorld(t, seed, sync)
				for range 8 {
					w.live()
				}
			})
		}
	}
}
