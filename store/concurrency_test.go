package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/castor-mq/castor/internal/race"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entry(t testing.TB, d *message.Draft) []commitlog.Entry {
	t.Helper()
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	return []commitlog.Entry{{Draft: d}}
}

// once is a waiter that notes how often it was told.
type once struct {
	told atomic.Int32
	err  error
}

func (o *once) Done(err error) {
	o.err = err
	o.told.Add(1)
}

// TestWaitersAreToldOnce appends from many goroutines while others advance, time runs out for some, and the store is closed in the
// middle: every waiter whose append succeeded is told exactly once, and what was acknowledged is there afterwards, in order, once.
func TestWaitersAreToldOnce(t *testing.T) {
	for _, syncFlush := range []bool{false, true} {
		for round := range 4 {
			dir := t.TempDir()
			cfg := testConfig(dir, syncFlush)
			cfg.SegmentSize = 256 << 10
			if round == 1 {
				cfg.SyncTimeout = time.Millisecond
			}
			s := openStore(t, cfg, vfs.OS{})
			var mu sync.Mutex
			var waiters []*once
			var acked []stored
			var wg sync.WaitGroup
			start := make(chan struct{})
			for g := range 4 {
				wg.Go(func() {
					<-start
					for i := range 400 {
						m := stored{topic: fmt.Sprint("T", g%2), queue: int32(i % 2), key: fmt.Sprint(g, "-", i)}
						d := &message.Draft{Topic: m.topic, QueueID: m.queue, Body: make([]byte, i), BornHost: testHost, StoreHost: testHost,
							Properties: fmt.Appendf(nil, "UNIQ_KEY\x01%s\x02", m.key)}
						e := entry(t, d)
						e[0].Next = &s.Queues.GetOrCreate(m.topic, m.queue).Next
						w := &once{}
						err := s.Append(e, w)
						if i%3 == 0 {
							s.Advance()
						}
						if errors.Is(err, ErrClosed) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						m.entry = e[0]
						mu.Lock()
						waiters = append(waiters, w)
						acked = append(acked, m)
						mu.Unlock()
					}
					s.Advance()
				})
			}
			close(start)
			if round < 2 {
				wg.Wait()
			}
			if err := s.g.Stop(); err != nil { // the store is closed while appends run
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			kept := acked[:0]
			for i, w := range waiters {
				if n := w.told.Load(); n != 1 {
					t.Fatalf("waiter %d was told %d times", i, n)
				}
				if w.err == nil || errors.Is(w.err, ErrFlushTimeout) { // either way it is stored
					kept = append(kept, acked[i])
				} else if !errors.Is(w.err, ErrClosed) {
					t.Fatal(w.err)
				}
			}
			s = openStore(t, cfg, vfs.OS{})
			for _, m := range kept {
				s.verifyOne(m)
			}
			s.stop()
		}
	}
}

func TestWaitersKeepTheOrderOfTheLog(t *testing.T) {
	var q waiters
	var got []int64
	for _, end := range []int64{10, 30, 20, 40, 5, 50} {
		q.add(waiting{end: end, w: funcWaiter(func(error) { got = append(got, end) })}, 0)
	}
	for _, to := range []int64{4, 20, 45, 45, 60} {
		q.release(to)
	}
	if fmt.Sprint(got) != "[5 10 20 30 40 50]" || q.count.Load() != 0 {
		t.Fatal(got)
	}
	q.dismiss(ErrClosed)
	if q.add(waiting{}, 0) {
		t.Fatal("a waiter was let in after the end")
	}
}

type funcWaiter func(err error)

func (f funcWaiter) Done(err error) { f(err) }

// TestDoneMayAppend lets the one who is told append again, as a delivery of delayed messages does.
func TestDoneMayAppend(t *testing.T) {
	s := openStore(t, testConfig(t.TempDir(), false), vfs.OS{})
	defer s.stop()
	finished := make(chan struct{})
	left := 100
	var again funcWaiter
	d := &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: []byte("x")}
	e := entry(t, d)
	again = func(err error) {
		if left--; left == 0 || err != nil {
			close(finished)
			return
		}
		if err := s.Append(e, again); err != nil {
			t.Error(err)
		}
		s.Advance()
	}
	if err := s.Append(e, again); err != nil {
		t.Fatal(err)
	}
	s.Advance()
	<-finished
}

// TestTopicDeletionRacesSends deletes a topic again and again while others send to it through queues that they looked up before: no
// acknowledged message is unreadable because another took its offset.
func TestTopicDeletionRacesSends(t *testing.T) {
	cfg := testConfig(t.TempDir(), false)
	s := openStore(t, cfg, vfs.OS{})
	q := s.Queues.GetOrCreate("T", 0)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 300 {
				e := entry(t, &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: make([]byte, 100)})
				e[0].Next = &q.Next
				if err := s.Append(e, nil); err != nil {
					t.Error(err)
				}
				s.Advance()
			}
		})
	}
	last := int64(0)
	for range 30 {
		w := make(waitErr, 1)
		if err := s.Propose(w, state.TopicDelete("T")); err != nil {
			t.Fatal(err)
		}
		<-w
		last = max(last, s.Log.Min())
	}
	wg.Wait()
	check := func() {
		t.Helper()
		var want []int64 // log offsets of the messages behind the last deletion
		if _, err := s.Log.Scan(0, s.Log.End(), func(at int64, v *message.View) error {
			if string(v.Topic()) == state.Topic {
				want = want[:0]
				return nil
			}
			if v.QueueOffset() != int64(len(want)) {
				return fmt.Errorf("offset %d, want %d", v.QueueOffset(), len(want))
			}
			want = append(want, at)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if len(want) == 0 {
			return
		}
		q := s.Queues.Get("T", 0)
		if q == nil || q.Min() != 0 || q.Max() != int64(len(want)) {
			t.Fatal(q, len(want))
		}
		for i, phy := range want {
			if u, err := q.At(int64(i)); err != nil || u.Phy != phy {
				t.Fatal(i, u, err)
			}
		}
	}
	check()
	s.kill()
	s = openStore(t, cfg, vfs.OS{})
	defer s.stop()
	check()
}

// TestHotPathsDoNotAllocate appends, dispatches and reads what is in memory.
func TestHotPathsDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg := testConfig(t.TempDir(), false)
	cfg.SegmentSize = 64 << 20
	cfg.Index = true
	cfg.IndexSlots, cfg.IndexItems = 100_000, 1_000_000
	s := openStore(t, cfg, vfs.OS{})
	defer s.stop()
	q := s.Queues.GetOrCreate("T", 0)
	d := &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: make([]byte, 1000), Properties: []byte("UNIQ_KEY\x01abc\x02TAGS\x01A\x02")}
	e := entry(t, d)
	e[0].Next = &q.Next
	w := &once{}
	send := func() {
		_ = d.Prepare()
		if err := s.Append(e, w); err != nil {
			t.Fatal(err)
		}
		s.Advance()
	}
	for range 5000 {
		send()
	}
	if n := testing.AllocsPerRun(5000, send); n != 0 {
		t.Errorf("%v allocations per send", n)
	}
	var p Plan
	body := make([]byte, 0, 1<<20)
	tags := int64(hashTags([]byte("A")))
	for name, f := range map[string]Filter{"all": {}, "tags": {Tags: func(c int64) bool { return c == tags }},
		"properties": {Props: func(p message.Props) bool { return len(p) > 0 }}} {
		pull := func() {
			if err := s.Read(&p, q, q.Max()-40, Limits{Count: 32, Bytes: 1 << 20, ScanUnits: 800}, f, true); err != nil || p.Count != 32 {
				t.Fatal(p.Count, err)
			}
			body = p.AppendTo(body[:0])
		}
		pull()
		if n := testing.AllocsPerRun(500, pull); n != 0 {
			t.Errorf("%v allocations per pull of %s", n, name)
		}
	}
}

// TestColdPullGrowsOnce reads records that do not lie side by side from disk: the copy is made in one piece, however many there are.
func TestColdPullGrowsOnce(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg := testConfig(t.TempDir(), false)
	cfg.SegmentSize = 16 << 20
	s := openStore(t, cfg, vfs.OS{})
	const count = 1000
	for i := range count {
		s.put("T", 0, "", 1000+i%2)
		s.put("Other", 0, "", 10)
	}
	s.stop()
	s = openStore(t, cfg, vfs.OS{}) // nothing that was there before counts as hot
	defer s.stop()
	q := s.Queues.Get("T", 0)
	if n := testing.AllocsPerRun(5, func() {
		var p Plan
		if err := s.Read(&p, q, 0, Limits{Count: count, Bytes: 4 << 20, ScanUnits: count}, Filter{}, false); err != nil || p.Count != count {
			t.Fatal(p.Count, err)
		}
	}); n > count/2 {
		t.Errorf("%v allocations for one pull of %d records", n, count)
	}
}
