package store

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// golden is what a store written by the Java broker 5.5.0 holds, as read from its own queues.
type golden struct {
	End    int64         `json:"end"`
	Queues []goldenQueue `json:"queues"`
}

type goldenQueue struct {
	Topic    string          `json:"topic"`
	ID       int32           `json:"queueId"`
	Min, Max int64           // JSON names match without case
	Messages []goldenMessage `json:"messages"`
}

type goldenMessage struct {
	Offset int64  `json:"o"`
	Phy    int64  `json:"p"`
	Size   int32  `json:"s"`
	Tags   int64  `json:"t"`
	Keys   string `json:"k"`
	Unique string `json:"u"`
}

// unpack copies a golden store to a fresh directory, unzipped.
func unpack(t *testing.T, name string) (dir string, want golden) {
	t.Helper()
	dir = t.TempDir()
	src := filepath.Join("testdata", name)
	err := filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(src, path)
		to := filepath.Join(dir, strings.TrimSuffix(rel, ".gz"))
		if err != nil || e.IsDir() {
			return errors.Join(err, os.MkdirAll(to, 0o755))
		}
		b, err := os.ReadFile(path)
		if err == nil && strings.HasSuffix(path, ".gz") {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, err = io.ReadAll(z)
			}
		}
		return errors.Join(err, os.WriteFile(to, b, 0o644))
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err == nil {
		err = json.Unmarshal(b, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func goldenConfig(dir string) Config {
	c := testConfig(dir, false)
	c.SegmentSize, c.QueueFile, c.IndexSlots, c.IndexItems = 1<<20, 6000, 1000, 800
	c.DelayLevels = []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 3: time.Minute, 17: 2 * time.Hour}
	return c
}

// checkGolden finds every message of want by queue offset and by keys, and nothing else in the queues.
func (s *testStore) checkGolden(want golden) {
	s.t.Helper()
	extra := map[string]bool{}
	for _, q := range s.Queues.All() {
		if q.Max() > 0 {
			extra[fmt.Sprint(q.Topic, "-", q.ID)] = true
		}
	}
	for _, w := range want.Queues {
		q := s.Queues.Get(w.Topic, w.ID)
		if q == nil {
			s.t.Errorf("%s-%d is missing", w.Topic, w.ID)
			continue
		}
		delete(extra, fmt.Sprint(q.Topic, "-", q.ID))
		if q.Min() != w.Min || q.Max() != w.Max || q.Next != w.Max {
			s.t.Errorf("%s-%d: [%d, %d), next %d, want [%d, %d)", w.Topic, w.ID, q.Min(), q.Max(), q.Next, w.Min, w.Max)
		}
		for i := range w.Messages {
			s.checkMessage(q, &w.Messages[i])
		}
	}
	if len(extra) > 0 {
		s.t.Errorf("queues that Java does not have: %v", slices.Sorted(maps.Keys(extra)))
	}
}

func (s *testStore) checkMessage(q *queue.Queue, w *goldenMessage) {
	s.t.Helper()
	u, err := q.At(w.Offset)
	if want := (queue.Unit{Phy: w.Phy, Size: w.Size, Tags: w.Tags}); err != nil || u != want {
		s.t.Fatalf("%s-%d offset %d: %v %v, want %v", q.Topic, q.ID, w.Offset, u, err, want)
	}
	var v message.View
	if _, err := s.Record(u.Phy, nil, &v); err != nil {
		s.t.Fatal(err)
	}
	if err := v.Verify(u.Phy); err != nil || v.QueueOffset() != w.Offset || string(v.Topic()) != q.Topic || v.QueueID() != q.ID {
		s.t.Fatalf("%s-%d offset %d: the record is %s-%d offset %d: %v", q.Topic, q.ID, w.Offset, v.Topic(), v.QueueID(), v.QueueOffset(), err)
	}
	if got := string(v.Properties().Lookup(message.PropUniqueKey)); got != w.Unique && w.Unique != "" {
		s.t.Fatalf("unique key %s, want %s", got, w.Unique)
	}
	for _, key := range append(strings.Fields(w.Keys), w.Unique) {
		if key != "" && !s.hasKey(q.Topic, key, u.Phy) {
			s.t.Fatalf("%s-%d offset %d is not found by key %q", q.Topic, q.ID, w.Offset, key)
		}
	}
}

func (s *testStore) hasKey(topic, key string, phy int64) (found bool) {
	s.t.Helper()
	if err := s.Index.Query(topic, key, 10_000, 0, 1<<62, func(at int64) bool {
		found = found || at == phy
		return true
	}); err != nil {
		s.t.Fatal(err)
	}
	return found
}

// onlyState expects nothing but Castor's own records from an offset on.
func (s *testStore) onlyState(from int64) {
	s.t.Helper()
	n := 0
	if end, err := s.Log.Scan(from, s.Log.End(), func(at int64, v *message.View) error {
		if n++; string(v.Topic()) != state.Topic {
			return fmt.Errorf("a record of %s at %d", v.Topic(), at)
		}
		return v.Verify(at)
	}); err != nil || n == 0 || end != s.Log.End() {
		s.t.Fatalf("%d state records behind %d: %v", n, from, err)
	}
}

func TestGoldenStores(t *testing.T) {
	for _, name := range []string{"java-v5", "java-crashed", "java-crc-ipv6"} {
		t.Run(name, func(t *testing.T) {
			dir, want := unpack(t, name)
			if name == "java-v5" { // Java has this one in a batch consume queue; here every message of a batch has a unit
				want.Queues = append(want.Queues, goldenQueue{Topic: "TopicBatchCq", Max: 9})
			}
			cfg := goldenConfig(dir)
			s := openStore(t, cfg, vfs.OS{})
			s.checkGolden(want)
			s.onlyState(want.End)
			topics, end := len(s.State.Topics()), s.Log.End()
			if topics == 0 {
				t.Fatal("no topics")
			}
			for _, again := range []func(){s.stop, func() { s.kill() }, func() { s.stop() }} {
				again()
				s = openStore(t, cfg, vfs.OS{})
				s.checkGolden(want)
				if len(s.State.Topics()) != topics || s.Log.End() != end {
					t.Fatalf("%d topics, had %d; log end %d, had %d", len(s.State.Topics()), topics, s.Log.End(), end)
				}
			}
			e := s.put("TopicNew", 0, "new", 100)
			s.kill()
			s = openStore(t, cfg, vfs.OS{})
			defer s.stop()
			s.verifyOne(stored{"TopicNew", 0, "new", *e})
		})
	}
}

func TestGoldenMetadata(t *testing.T) {
	dir, _ := unpack(t, "java-v5")
	s := openStore(t, goldenConfig(dir), vfs.OS{})
	defer s.stop()
	if c, ok := s.State.Topic("TopicOrder"); !ok || c.ReadQueueNums != 4 {
		t.Error(c)
	}
	if _, ok := s.State.Group("CG-order"); !ok {
		t.Error("a group is missing")
	}
	if o, ok := s.State.Offset("CG-fifo", "TopicFifo", 0); !ok || o != 1 {
		t.Error(o, ok)
	}
	if o, ok := s.State.DelayOffset(1); !ok || o != 4 {
		t.Error(o, ok)
	}
}

// TestInnerBatches reads records that hold several messages: each is delivered once, whole, and the next offset lies behind it.
func TestInnerBatches(t *testing.T) {
	dir, _ := unpack(t, "java-v5")
	s := openStore(t, goldenConfig(dir), vfs.OS{})
	defer s.stop()
	q := s.Queues.Get("TopicBatchCq", 0)
	records := []int64{89061, 89735, 89985} // queue offsets 0-3, 4 and 5-8
	for at := range int64(9) {
		for count := 1; count <= 4; count++ {
			for scan := 1; scan <= 4; scan++ {
				var got []int64
				var p Plan
				for next := at; next < 9; next = p.Next {
					if err := s.Read(&p, q, next, Limits{Count: count, Bytes: 1 << 20, ScanUnits: scan}, Filter{}, false); err != nil || p.Status != Found {
						t.Fatal(p.Status, err)
					}
					got = append(got, offsetsIn(t, p.AppendTo(nil))...)
				}
				want := records[0:]
				if at >= 5 {
					want = records[2:]
				} else if at == 4 {
					want = records[1:]
				}
				if !slices.Equal(got, want) || p.Next != 9 {
					t.Fatalf("from %d, %d at a time: records %v, want %v; next %d", at, count, got, want, p.Next)
				}
			}
		}
	}
	if e := s.put("TopicBatchCq", 0, "behind", 10); e.QueueOffset != 9 {
		t.Fatal(e.QueueOffset)
	}
}

// offsetsIn walks the body of a pull.
func offsetsIn(t *testing.T, b []byte) (phys []int64) {
	t.Helper()
	for len(b) > 0 {
		var v message.View
		if err := v.Parse(b); err != nil {
			t.Fatal(err)
		}
		phys = append(phys, v.PhyOffset())
		b = b[v.Size():]
	}
	return phys
}

// TestGoldenDamage edits the crashed store as was done for the Java broker. Torn ends are cut where Java cuts them; what Java cuts
// although valid records follow is reported.
func TestGoldenDamage(t *testing.T) {
	const third, last = 2744201, 2746902 // log offsets of the third last and the last record
	ownOffset := binary.BigEndian.AppendUint64(nil, third+1)
	for _, c := range []struct {
		name   string
		at     int64
		edit   []byte
		damage int64    // log offset that is reported; 0 if the store opens
		max    [2]int64 // of the two queues
	}{
		{"torn body", last + 60, make([]byte, 1346), 0, [2]int64{1386, 1386}},
		{"torn header", last + 6, make([]byte, 1400), 0, [2]int64{1386, 1386}},
		{"flipped bit in a body", 2744291, []byte{0x60}, third, [2]int64{}},
		{"flipped bit in a topic", 2745382, []byte{0x71}, 0, [2]int64{1387, 1386}}, // no checksum covers it
		{"wrong own offset", 2744229, ownOffset, third, [2]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, want := unpack(t, "java-crashed")
			cfg := goldenConfig(dir)
			segment := c.at / cfg.SegmentSize * cfg.SegmentSize
			path := filepath.Join(cfg.CommitLogDir, fmt.Sprintf("%020d", segment))
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt(c.edit, c.at-segment)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			before, _ := os.ReadFile(path)
			for range 2 { // a second try must not do what the first refused
				s, err := Open(cfg, vfs.OS{}, clock.Real{}, zap.NewNop())
				if c.damage > 0 {
					var d *commitlog.DamageError
					if !errors.As(err, &d) || d.Offset != c.damage || d.Path != path || d.Next <= d.Offset {
						t.Fatal(err)
					}
					if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
						t.Fatal("the damaged file was changed")
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				ts := &testStore{Store: s, t: t}
				for id, top := range c.max {
					q := s.Queues.Get("TopicCrash", int32(id))
					if q.Max() != top || q.Next != top {
						t.Fatalf("queue %d ends at %d, next %d, want %d", id, q.Max(), q.Next, top)
					}
					for _, m := range want.Queues[id].Messages {
						if u, _ := q.At(m.Offset); m.Offset < top && !u.Filler() {
							ts.checkMessage(q, &m)
						}
					}
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestDeletedJavaTopics takes over a store whose log has records of a topic that is not in the table: nobody wants them, now or when
// everything is built again.
func TestDeletedJavaTopics(t *testing.T) {
	dir, _ := unpack(t, "java-crashed")
	cfg := goldenConfig(dir)
	path := filepath.Join(dir, "config", "topics.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(b, []byte("TopicCrash"), []byte("TopicOther")), 0o644); err != nil {
		t.Fatal(err)
	}
	gone := func(s *testStore) {
		t.Helper()
		if q := s.Queues.Topic("TopicCrash"); q != nil {
			t.Fatal("a deleted topic came back")
		}
	}
	s := openStore(t, cfg, vfs.OS{})
	gone(s)
	s.kill()
	if err := os.Remove(s.Dir(checkpointFile)); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, cfg, vfs.OS{})
	gone(s)
	e := s.put("TopicCrash", 0, "again", 10) // whoever makes the topic again starts at 0
	if e.QueueOffset != 0 {
		t.Fatal(e.QueueOffset)
	}
	s.kill()
	s = openStore(t, cfg, vfs.OS{})
	defer s.stop()
	s.verifyOne(stored{"TopicCrash", 0, "again", *e})
	if q := s.Queues.Get("TopicCrash", 0); q.Min() != 0 || q.Max() != 1 {
		t.Fatal(q.Min(), q.Max())
	}
}

// TestInterruptedImport kills the take-over at every operation: the next start does it again, whole.
func TestInterruptedImport(t *testing.T) {
	dir, want := unpack(t, "java-crc-ipv6")
	cfg := goldenConfig(dir)
	var topics int
	for step := 0; ; step++ {
		work := t.TempDir()
		if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		cfg.Root, cfg.CommitLogDir = work, filepath.Join(work, "commitlog")
		n, opened := 0, false
		killed := errors.New("killed")
		s, err := Open(cfg, vfs.Faulty(vfs.OS{}, func(op vfs.Op, _ string, _, _ int64) error {
			if n++; n > 1+step*7 && op != vfs.OpClose && !opened {
				return killed
			}
			return nil
		}), clock.Real{}, zap.NewNop())
		if opened = err == nil; opened {
			ts := &testStore{Store: s, t: t}
			ts.checkGolden(want)
			topics = len(s.State.Topics())
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, killed) {
			t.Fatal(err)
		}
		ts := openStore(t, cfg, vfs.OS{})
		ts.checkGolden(want)
		if got := len(ts.State.Topics()); topics > 0 && got != topics || got == 0 {
			t.Fatalf("step %d: %d topics", step, got)
		}
		if o, ok := ts.State.Group("CG-crc"); !ok && o != nil {
			t.Fatal("a group is missing")
		}
		ts.stop()
		if opened {
			return
		}
	}
}

// TestJavaUsedOurStore takes over what a Java broker has done with a store of ours: its offsets and new topics count; a topic that it
// did not know stays.
func TestJavaUsedOurStore(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, testConfig(dir, false), vfs.OS{})
	e := s.put("A", 0, "a", 10)
	topic := func(name string) state.Change {
		return state.TopicPut(&body.TopicConfig{TopicName: name, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6})
	}
	propose := func(changes ...state.Change) {
		w := make(waitErr, 1)
		if err := s.Propose(w, changes...); err != nil {
			t.Fatal(err)
		}
		if err := <-w; err != nil {
			t.Fatal(err)
		}
	}
	propose(topic("A"), state.OffsetPut("G", "A", 0, 1), state.DelayOffsetPut(1, 5))
	if err := state.ExportJava(s.State, s.Dir("config"), vfs.OS{}); err != nil {
		t.Fatal(err)
	}
	propose(topic("NotExported"))
	s.stop()
	offsets := filepath.Join(dir, "config", "consumerOffset.json")
	b, err := os.ReadFile(offsets)
	if err == nil {
		err = os.WriteFile(offsets, bytes.Replace(b, []byte(`:1`), []byte(`:9`), -1), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	s = openStore(t, testConfig(dir, false), vfs.OS{}) // exported files alone mean nothing
	if o, _ := s.State.Offset("G", "A", 0); o != 1 {
		t.Fatal(o)
	}
	s.stop()
	for _, mark := range []string{abortBackup, abortFile} {
		if err := os.WriteFile(filepath.Join(dir, mark), []byte("4711"), 0o644); err != nil {
			t.Fatal(err)
		}
		s = openStore(t, testConfig(dir, false), vfs.OS{})
		if o, _ := s.State.Offset("G", "A", 0); o != 9 {
			t.Fatal(mark, o)
		}
		if o, _ := s.State.DelayOffset(1); o != 5 {
			t.Fatal(mark, o)
		}
		if _, ok := s.State.Topic("NotExported"); !ok {
			t.Fatal(mark, "a topic is gone")
		}
		s.verifyOne(stored{"A", 0, "a", *e})
		propose(state.OffsetPut("G", "A", 0, 3))
		s.kill()
		s = openStore(t, testConfig(dir, false), vfs.OS{}) // once
		if o, _ := s.State.Offset("G", "A", 0); o != 3 {
			t.Fatal(mark, o)
		}
		s.stop()
	}
}
