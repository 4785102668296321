package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

// testStore is a store with its goroutines running.
type testStore struct {
	*Store
	t testing.TB
	g *lifecycle.Group
}

func testConfig(dir string, sync bool) Config {
	return Config{
		Root: dir, CommitLogDir: filepath.Join(dir, "commitlog"), SegmentSize: 64 << 10, QueueFile: 50 * 20,
		Index: true, IndexSlots: 1000, IndexItems: 800, SyncFlush: sync, FlushInterval: 20 * time.Millisecond, SyncTimeout: 5 * time.Second,
		DelayLevels: []time.Duration{time.Second, 5 * time.Second},
		Retention:   Retention{Keep: time.Hour, MaxUsed: 100, CleanForced: 100, WarningLevel: 100, Batch: 10, Interval: time.Hour},
	}
}

func openStore(t testing.TB, cfg Config, fs vfs.FS) *testStore {
	t.Helper()
	s, err := Open(cfg, fs, clock.Real{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return &testStore{Store: s, t: t, g: newGroup(s)}
}

func newGroup(s *Store) *lifecycle.Group {
	g := lifecycle.New(context.Background())
	g.Go("store", s.Run)
	return g
}

func (s *testStore) stop() {
	s.t.Helper()
	if err := errors.Join(s.g.Stop(), s.Close()); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends the store as a killed process would: nothing more is written.
func (s *testStore) kill() {
	s.t.Helper()
	if err := errors.Join(s.g.Stop(), s.db.Close(), s.unlock.Close()); err != nil {
		s.t.Fatal(err)
	}
}

var testHost = netip.MustParseAddrPort("127.0.0.1:10911")

// put appends one message and waits for its confirmation.
func (s *testStore) put(topic string, queueID int32, key string, size int) *commitlog.Entry {
	s.t.Helper()
	d := &message.Draft{Topic: topic, QueueID: queueID, Body: make([]byte, size), BornHost: testHost, StoreHost: testHost,
		Properties: fmt.Appendf(nil, "UNIQ_KEY\x01%s\x02TAGS\x01T\x02", key)}
	if err := d.Prepare(); err != nil {
		s.t.Fatal(err)
	}
	e := []commitlog.Entry{{Draft: d, Next: &s.Queues.GetOrCreate(topic, queueID).Next}}
	w := make(waitErr, 1)
	if err := s.Append(e, w); err != nil {
		s.t.Fatal(err)
	}
	s.Advance()
	if err := <-w; err != nil {
		s.t.Fatal(err)
	}
	return &e[0]
}

type waitErr chan error

func (w waitErr) Done(err error) { w <- err }

// stored is one acknowledged message.
type stored struct {
	topic string
	queue int32
	key   string
	entry commitlog.Entry
}

func (s *testStore) fill(n int, rng *rand.Rand, acked *[]stored) {
	for range n {
		m := stored{topic: fmt.Sprint("T", rng.IntN(3)), queue: rng.Int32N(3), key: fmt.Sprint("k", len(*acked))}
		m.entry = *s.put(m.topic, m.queue, m.key, rng.IntN(2000))
		*acked = append(*acked, m)
	}
}

// verifyOne finds an acknowledged message by queue offset, log offset and key.
func (s *testStore) verifyOne(m stored) {
	s.t.Helper()
	q := s.Queues.Get(m.topic, m.queue)
	if q == nil {
		s.t.Fatalf("%s-%d is gone", m.topic, m.queue)
	}
	u, err := q.At(m.entry.QueueOffset)
	if err != nil || u.Phy != m.entry.Phy {
		s.t.Fatalf("%s-%d offset %d: %v %v, want %d", m.topic, m.queue, m.entry.QueueOffset, u, err, m.entry.Phy)
	}
	var v message.View
	if _, err := s.Record(u.Phy, nil, &v); err != nil || string(v.Properties().Lookup("UNIQ_KEY")) != m.key || v.QueueOffset() != m.entry.QueueOffset {
		s.t.Fatalf("record at %d: %v", u.Phy, err)
	}
	if !s.hasKey(m.topic, m.key, m.entry.Phy) {
		s.t.Fatalf("key %s is not in the index", m.key)
	}
}

// verify finds every acknowledged message, and nothing else in the queues.
func (s *testStore) verify(acked []stored) {
	s.t.Helper()
	count := map[string]int64{}
	for _, m := range acked {
		s.verifyOne(m)
		count[fmt.Sprint(m.topic, "-", m.queue)]++
	}
	for _, q := range s.Queues.All() {
		if n := q.Max() - q.Min(); n != count[fmt.Sprint(q.Topic, "-", q.ID)] || q.Next != q.Max() {
			s.t.Fatalf("%s-%d has %d messages, want %d; next %d of %d", q.Topic, q.ID, n, count[fmt.Sprint(q.Topic, "-", q.ID)], q.Next, q.Max())
		}
	}
}

func TestRestartAndKill(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", sync), func(t *testing.T) {
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(1, 2))
			var acked []stored
			for round := range 6 {
				s := openStore(t, testConfig(dir, sync), vfs.OS{})
				s.verify(acked)
				s.fill(100, rng, &acked)
				s.verify(acked)
				if rng.IntN(2) == 0 {
					if err := s.save(rng.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
					s.fill(20, rng, &acked)
				}
				if round%2 == 0 {
					s.kill()
				} else {
					s.stop()
				}
			}
			s := openStore(t, testConfig(dir, sync), vfs.OS{})
			s.verify(acked)
			s.stop()
		})
	}
}

func TestStateSurvivesAKill(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testConfig(dir, false), vfs.OS{})
	cfg := &body.TopicConfig{TopicName: "A", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6}
	w := make(waitErr, 1)
	if err := s.Propose(w, state.TopicPut(cfg), state.OffsetPut("G", "A", 2, 77)); err != nil {
		t.Fatal(err)
	}
	if err := <-w; err != nil {
		t.Fatal(err)
	}
	s.kill()
	s = openStore(t, testConfig(dir, false), vfs.OS{})
	defer s.stop()
	if c, ok := s.State.Topic("A"); !ok || c.ReadQueueNums != 4 {
		t.Fatal(c)
	}
	if o, ok := s.State.Offset("G", "A", 2); !ok || o != 77 {
		t.Fatal(o)
	}
}

func TestDeletedTopicStartsOver(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testConfig(dir, false), vfs.OS{})
	for i := range 10 {
		s.put("A", 0, fmt.Sprint("old", i), 10)
	}
	w := make(waitErr, 1)
	if err := s.Propose(w, state.TopicDelete("A")); err != nil {
		t.Fatal(err)
	}
	<-w
	if s.Queues.Topic("A") != nil {
		t.Fatal("the queue is still there")
	}
	if e := s.put("A", 0, "new", 10); e.QueueOffset != 0 {
		t.Fatal(e.QueueOffset)
	}
	s.kill()
	s = openStore(t, testConfig(dir, false), vfs.OS{})
	defer s.stop()
	if q := s.Queues.Get("A", 0); q == nil || q.Max() != 1 {
		t.Fatal("the deleted messages came back")
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testConfig(dir, false), vfs.OS{})
	defer s.stop()
	if _, err := Open(testConfig(dir, false), vfs.OS{}, clock.Real{}, zap.NewNop()); err == nil {
		t.Fatal("two stores on one directory")
	}
}
