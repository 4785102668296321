package index

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
)

func TestDefaultFileIsAsLargeAsJavas(t *testing.T) {
	fsys := vfs.OS{}
	dir := filepath.Join(t.TempDir(), "index")
	x := open(t, Config{Dir: dir}, fsys)
	fill(x, 0, 3)
	wantAll(t, x, 3)
	must(t, x.Close())
	info, err := fsys.Stat(filepath.Join(dir, list(t, fsys, dir)[0]))
	must(t, err)
	if info.Size() != 420_000_040 {
		t.Fatalf("size %d", info.Size())
	}
	x = open(t, Config{Dir: dir}, fsys)
	wantAll(t, x, 3)
	must(t, x.Close())
}

func TestUselessSizesAreRefused(t *testing.T) {
	for _, cfg := range []Config{{Slots: -1}, {Entries: -5}, {Entries: 1}} {
		if _, err := Open(cfg, vfs.NewMem(newClock()), newClock(), zap.NewNop()); err == nil {
			t.Errorf("%+v is taken", cfg)
		}
	}
}

func TestNamesAreCreationTimesAndIncrease(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	must(t, fsys.MkdirAll("/index"))
	for _, stray := range []string{"notes.txt", "2026", "+0231114221320000"} {
		must(t, fsys.WriteFileAtomic("/index/"+stray, []byte("x")))
	}
	x := open(t, Config{Dir: "/index", Slots: 10, Entries: 10}, fsys)
	fill(x, 0, 20) // The clock stands still.
	must(t, x.Close())
	x = open(t, x.cfg, fsys)
	fill(x, 20, 10)
	must(t, x.Close())
	first := time.UnixMilli(startMs).Format("20060102150405") + "000"
	var got []string
	for _, name := range list(t, fsys, "/index") {
		if parseName(name) != 0 {
			got = append(got, name)
		}
	}
	want := []string{first, fileName(parseName(first) + 1), fileName(parseName(first) + 2), fileName(parseName(first) + 3)}
	if !slices.Equal(got, want) {
		t.Fatalf("files %q, want %q", got, want)
	}
}

// TestTimeWindow asks with the exact store time, of which an entry has only the seconds.
func TestTimeWindow(t *testing.T) {
	x := open(t, Config{Dir: "/index", Slots: 10, Entries: 100}, vfs.NewMem(newClock()))
	fill(x, 0, 90)
	for i := range 90 {
		at := startMs + int64(i)*100
		key := fmt.Sprintf("k%d", i)
		if len(ask(t, x, "topic", key, 1, at, at)) != 1 {
			t.Errorf("message %d is not found at its own time", i)
		}
		if len(ask(t, x, "topic", key, 1, at+2000, math.MaxInt64))+len(ask(t, x, "topic", key, 1, math.MinInt64, at-2000)) != 0 {
			t.Errorf("message %d is found 2 s off", i)
		}
	}
	must(t, x.Close())
}

// TestFirstEntryHasTheBeginTime reads a file whose first entry has seconds since the end of the file before, as Java writes it.
func TestFirstEntryHasTheBeginTime(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 10, Entries: 10}, fsys)
	fill(x, 0, 1)
	must(t, x.Close())
	path := filepath.Join("/index", list(t, fsys, "/index")[0])
	data, err := fsys.ReadFile(path)
	must(t, err)
	layout := file{slotCount: 10}
	data[layout.entryOffset(1)+15-1] = 100
	must(t, fsys.WriteFileAtomic(path, data))
	x = open(t, x.cfg, fsys)
	if len(ask(t, x, "topic", "k0", 1, startMs, startMs)) != 1 {
		t.Fatal("not found")
	}
	must(t, x.Close())
}

func TestQueryLimits(t *testing.T) {
	x := open(t, Config{Dir: "/index", Slots: 10, Entries: 10}, vfs.NewMem(newClock()))
	topic := HashTopic("topic")
	for i := range int64(30) {
		x.Put(topic, []byte("key"), i, startMs+i)
		x.Put(topic, []byte("key"), i, startMs+i) // A key that is given twice.
	}
	x.Put(topic, []byte("key"), 3, startMs) // Indexed already.
	x.SetIndexed(30)
	for limit, want := range map[int][]int64{-1: nil, 0: nil, 1: {29}, 7: {29, 28, 27, 26, 25, 24, 23}} {
		if got := ask(t, x, "topic", "key", limit, 0, math.MaxInt64); !slices.Equal(got, want) {
			t.Errorf("at most %d: %d", limit, got)
		}
	}
	if n := len(ask(t, x, "topic", "key", 100, 0, math.MaxInt64)); n != 30 {
		t.Errorf("%d found", n)
	}
	calls := 0
	must(t, x.Query("topic", "key", 100, 0, math.MaxInt64, func(int64) bool { calls++; return calls < 12 }))
	if calls != 12 {
		t.Errorf("%d calls after the query was stopped", calls)
	}
	if got := ask(t, x, "other", "key", 100, 0, math.MaxInt64); got != nil {
		t.Errorf("another topic has %d", got)
	}
	must(t, x.Close())
	if got := ask(t, x, "topic", "key", 100, 0, math.MaxInt64); got != nil {
		t.Errorf("a closed index has %d", got)
	}
}

func TestRemoveBeforeKeepsTheNewest(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 10, Entries: 10}, fsys)
	fill(x, 0, 20)
	_, err := x.Flush(true)
	must(t, err)
	fill(x, 20, 10) // Four files that end at 80, 170, 260 and 290, two of them only in memory.
	for _, c := range []struct {
		before int64
		first  int // message that is still there
		onDisk int
	}{{80, 0, 3}, {81, 9, 2}, {261, 27, 0}, {math.MaxInt64, 27, 0}} {
		must(t, x.RemoveBefore(c.before))
		for i := range 30 {
			if got := ask(t, x, "topic", fmt.Sprintf("k%d", i), 1, 0, math.MaxInt64); (len(got) == 1) != (i >= c.first) {
				t.Errorf("removed before %d: message %d is found at %d", c.before, i, got)
			}
		}
		if names := list(t, fsys, "/index"); len(names) != c.onDisk {
			t.Errorf("removed before %d: files %q", c.before, names)
		}
	}
	must(t, x.Close())
	if names := list(t, fsys, "/index"); len(names) != 1 {
		t.Errorf("files %q", names)
	}
}

// TestConcurrentUse puts, queries, flushes and removes at the same time.
func TestConcurrentUse(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 3000, Entries: 9000}, fsys)
	const n = 30_000
	var wg sync.WaitGroup
	var done atomic.Bool
	wg.Go(func() {
		for i := 0; i < n; i += 10 {
			fill(x, i, 10)
		}
		done.Store(true)
	})
	for range 2 {
		wg.Go(func() {
			for !done.Load() {
				end := x.Indexed()
				if end == 0 {
					continue
				}
				i := end/10 - 1
				if got := ask(t, x, "topic", fmt.Sprintf("k%d", i), 10, 0, math.MaxInt64); !slices.Equal(got, []int64{i * 10}) {
					t.Errorf("message %d is found at %d", i, got)
					return
				}
				ask(t, x, "topic", fmt.Sprintf("k%d", i/2), 10, 0, math.MaxInt64)
			}
		})
	}
	wg.Go(func() {
		for i := 0; !done.Load(); i++ {
			indexed := x.Indexed()
			durable, err := x.Flush(i%2 == 0)
			if err != nil || i%2 == 0 && durable < indexed {
				t.Errorf("durable %d of %d: %v", durable, indexed, err)
				return
			}
			if err := x.RemoveBefore(durable / 3); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	must(t, x.Close())
	x = open(t, x.cfg, fsys)
	for i := n / 2; i < n; i++ {
		if got := ask(t, x, "topic", fmt.Sprintf("k%d", i), 10, 0, math.MaxInt64); !slices.Equal(got, []int64{int64(i) * 10}) {
			t.Fatalf("message %d is found at %d", i, got)
		}
	}
	must(t, x.Close())
}

func TestPutDoesNotAllocate(t *testing.T) {
	x := open(t, Config{Dir: "/index"}, vfs.NewMem(newClock()))
	fill(x, 0, 1)
	topic, key := HashTopic("topic"), []byte("AC1400020E30723C4CF53A9393C176007A")
	phy := int64(100)
	if n := testing.AllocsPerRun(5000, func() {
		x.Put(topic, key, phy, startMs)
		if phy%3 == 0 {
			x.SetIndexed(phy)
		}
		phy++
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	must(t, x.Close())
}

func BenchmarkPut(b *testing.B) {
	for name, slots := range map[string]int32{"default": 0, "table in cache": 10_000} {
		b.Run(name, func(b *testing.B) {
			x := open(b, Config{Dir: filepath.Join(b.TempDir(), "index"), Slots: slots}, vfs.OS{})
			topic := HashTopic("BenchmarkTopic")
			key := []byte("AC1400020E30723C4CF53A9393C17600")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				for j, v := 0, uint32(i)*2654435761; j < 8; j, v = j+1, v>>4 {
					key[24+j] = "0123456789ABCDEF"[v&15]
				}
				x.Put(topic, key, int64(i), startMs+int64(i)/1000)
				if i%50_000 == 49_999 {
					b.StopTimer()
					_, err := x.Flush(false)
					must(b, err)
					b.StartTimer()
				}
			}
			b.StopTimer()
			must(b, x.Close())
		})
	}
}

func BenchmarkKeyHash(b *testing.B) {
	topic, key := HashTopic("BenchmarkTopic"), []byte("AC1400020E30723C4CF53A9393C17600")
	for b.Loop() {
		topic.keyHash(key)
	}
}
