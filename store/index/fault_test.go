package index

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/vfs"
)

// fill puts n messages from number first on; message i is at i*10, has the key "k<i>" and the store time startMs+i*100.
func fill(x *Index, first, n int) {
	topic := HashTopic("topic")
	for i := first; i < first+n; i++ {
		x.Put(topic, fmt.Appendf(nil, "k%d", i), int64(i)*10, startMs+int64(i)*100)
	}
	x.SetIndexed(int64(first+n) * 10)
}

// wantAll asks for the messages [0, n), and that there are no more.
func wantAll(t *testing.T, x *Index, n int) {
	t.Helper()
	for i := range n + 1 {
		want := []int64{int64(i) * 10}
		if i == n {
			want = nil
		}
		if got := ask(t, x, "topic", fmt.Sprintf("k%d", i), 10, 0, math.MaxInt64); !slices.Equal(got, want) {
			t.Fatalf("message %d of %d is found at %d", i, n, got)
		}
	}
}

// TestEveryOperationFails fails the nth operation of a flush, for every n. Putting goes on, everything is found, and unless a
// sync has failed the next flush catches up.
func TestEveryOperationFails(t *testing.T) {
	failed := map[vfs.Op]int{}
	for n := 0; ; n++ {
		fsys := vfs.NewMem(newClock())
		x := open(t, Config{Dir: "/index", Slots: 2100, Entries: 10}, fsys)
		fill(x, 0, 5)
		_, err := x.Flush(true)
		must(t, err)
		fill(x, 5, 30)
		left, at := n, vfs.Op("")
		fsys.Inject(func(op vfs.Op, _ string, _, _ int64) error {
			if left--; left == -1 {
				at = op
				return unix.EIO
			}
			return nil
		})
		durable, err := x.Flush(true)
		fsys.Inject(nil)
		if at == "" {
			must(t, err)
			break
		}
		failed[at]++
		if !errors.Is(err, unix.EIO) || durable != 50 {
			t.Fatalf("%s failed: durable %d, error %v", at, durable, err)
		}
		fill(x, 35, 10)
		wantAll(t, x, 45)
		durable, err = x.Flush(true)
		switch at {
		case vfs.OpSyncData: // What is on disk is unknown from then on.
			if !errors.Is(err, unix.EIO) || durable != 50 || x.Truncate(0) == nil {
				t.Fatalf("after a failed sync: durable %d, error %v", durable, err)
			}
			if err := x.Close(); !errors.Is(err, unix.EIO) {
				t.Fatalf("close after a failed sync: %v", err)
			}
		default:
			must(t, err)
			if durable != 450 {
				t.Fatalf("durable %d after %s had failed", durable, at)
			}
			must(t, x.Close())
			x = open(t, x.cfg, fsys)
			wantAll(t, x, 45)
			must(t, x.Close())
		}
	}
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpTruncate, vfs.OpWriteAt, vfs.OpSyncData, vfs.OpSyncDir} {
		if failed[op] == 0 {
			t.Errorf("%s was never failed", op)
		}
	}
}

func TestNoSpace(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 100, Entries: 10}, fsys)
	fsys.SetFree(0)
	for i := range 5 {
		fill(x, i*10, 10)
		if durable, err := x.Flush(true); !errors.Is(err, vfs.ErrNoSpace) || durable != 0 {
			t.Fatalf("durable %d, error %v", durable, err)
		}
	}
	wantAll(t, x, 50)
	fsys.SetFree(1 << 30)
	if durable, err := x.Flush(true); err != nil || durable != 500 {
		t.Fatalf("durable %d, error %v", durable, err)
	}
	wantAll(t, x, 50)
	must(t, x.Close())
}

// TestMemoryIsBounded puts more than memory takes while the disk refuses everything.
func TestMemoryIsBounded(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 1000}, fsys)
	x.maxChunks = 8
	const room = 8*chunkEntries - 1
	topic, key := HashTopic("topic"), []byte("key")
	put := func(i int64) { x.Put(topic, key, i, startMs) }
	for i := range int64(room + 5) {
		put(i)
	}
	x.SetIndexed(room + 5)
	if x.Dropped() != 5 {
		t.Fatalf("dropped %d", x.Dropped())
	}
	if durable, err := x.Flush(true); err != nil || durable != room {
		t.Fatalf("durable %d of %d: %v", durable, room, err)
	}
	put(room + 5)
	x.SetIndexed(room + 6)
	if durable, err := x.Flush(true); err != nil || durable != room {
		t.Fatalf("durable %d of %d: %v", durable, room, err)
	}
	got := ask(t, x, "topic", "key", 2, 0, math.MaxInt64)
	if want := []int64{room + 5, room - 1}; !slices.Equal(got, want) {
		t.Fatalf("found %d, want %d", got, want)
	}
	must(t, x.Truncate(room)) // The way back.
	for i := range int64(6) {
		put(room + i)
	}
	x.SetIndexed(room + 6)
	if durable, err := x.Flush(true); err != nil || durable != room+6 {
		t.Fatalf("durable %d: %v", durable, err)
	}
	must(t, x.Close())
}

func TestDamagedFilesAreSetAside(t *testing.T) {
	cfg := Config{Dir: "/index", Slots: 100, Entries: 10}
	for name, damage := range map[string]func(b []byte) []byte{
		"too short":        func(b []byte) []byte { return b[:len(b)-1] },
		"too long":         func(b []byte) []byte { return append(b, 0) },
		"count":            func(b []byte) []byte { b[36] = 1; return b },
		"negative count":   func(b []byte) []byte { b[36] = 0x80; return b },
		"slots used":       func(b []byte) []byte { b[32] = 1; return b },
		"negative offset":  func(b []byte) []byte { b[16] = 0x80; return b },
		"offsets reversed": func(b []byte) []byte { b[16] = 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem(newClock())
			x := open(t, cfg, fsys)
			fill(x, 0, 25) // 9 in a file.
			must(t, x.Close())
			bad := filepath.Join("/index", list(t, fsys, "/index")[1])
			data, err := fsys.ReadFile(bad)
			must(t, err)
			must(t, fsys.WriteFileAtomic(bad, damage(data)))
			x = open(t, cfg, fsys)
			if names := list(t, fsys, "/index"); len(names) != 3 || names[1] != filepath.Base(bad)+badSuffix {
				t.Fatalf("files %q", names)
			}
			for i, want := range map[int]int{0: 1, 8: 1, 9: 0, 17: 0, 18: 1, 24: 1} {
				if got := ask(t, x, "topic", fmt.Sprintf("k%d", i), 10, 0, math.MaxInt64); len(got) != want {
					t.Errorf("message %d is found at %d", i, got)
				}
			}
			must(t, x.Close())
		})
	}
}

// TestDamagedNewestFile keeps what is sound of the file that entries are added to.
func TestDamagedNewestFile(t *testing.T) {
	cfg := Config{Dir: "/index", Slots: 100, Entries: 50}
	layout := file{slotCount: cfg.Slots}
	for name, c := range map[string]struct {
		damage func(b []byte)
		keeps  int
	}{
		"slots":            {func(b []byte) { clear(b[headerSize:layout.entryOffset(0)]) }, 30},
		"a slot too high":  {func(b []byte) { b[layout.slotOffset(3)] = 1 }, 30},
		"a negative slot":  {func(b []byte) { b[layout.slotOffset(3)] = 0x80 }, 30},
		"slots used":       {func(b []byte) { b[35]-- }, 30},
		"no last entries":  {func(b []byte) { clear(b[layout.entryOffset(21):]) }, 20},
		"an entry's chain": {func(b []byte) { b[layout.entryOffset(11)+19] = 10; clear(b[layout.entryOffset(30):]) }, 10},
		"no entries":       {func(b []byte) { clear(b[layout.entryOffset(0):]) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem(newClock())
			x := open(t, cfg, fsys)
			fill(x, 0, 30)
			must(t, x.Close())
			path := filepath.Join("/index", list(t, fsys, "/index")[0])
			data, err := fsys.ReadFile(path)
			must(t, err)
			c.damage(data)
			must(t, fsys.WriteFileAtomic(path, data))
			x = open(t, cfg, fsys)
			if want := max(0, int64(c.keeps-1)*10); x.Indexed() != want {
				t.Fatalf("indexed %d, want %d", x.Indexed(), want)
			}
			wantAll(t, x, c.keeps)
			must(t, x.Truncate(x.Indexed()))
			from := int(x.Indexed() / 10)
			fill(x, from, 40-from)
			wantAll(t, x, 40)
			must(t, x.Close())
			x = open(t, cfg, fsys)
			wantAll(t, x, 40)
			must(t, x.Close())
		})
	}
}

// TestBrokenChainAtTruncate finds the damage only when it follows the chains.
func TestBrokenChainAtTruncate(t *testing.T) {
	cfg := Config{Dir: "/index", Slots: 1, Entries: 20}
	fsys := vfs.NewMem(newClock())
	x := open(t, cfg, fsys)
	fill(x, 0, 30)
	must(t, x.Close())
	path := filepath.Join("/index", list(t, fsys, "/index")[1])
	data, err := fsys.ReadFile(path)
	must(t, err)
	layout := file{slotCount: cfg.Slots}
	data[layout.entryOffset(8)+19] = 3
	must(t, fsys.WriteFileAtomic(path, data))
	x = open(t, cfg, fsys)
	must(t, x.Truncate(210))
	if x.Indexed() != 180 { // Only the first file is left.
		t.Fatalf("indexed %d", x.Indexed())
	}
	must(t, x.Truncate(x.Indexed()))
	fill(x, 18, 12)
	wantAll(t, x, 30)
	must(t, x.Close())
	if names := list(t, fsys, "/index"); !strings.HasSuffix(names[1], badSuffix) {
		t.Fatalf("files %q", names)
	}
}

func TestUnreadableFileDoesNotHideOthers(t *testing.T) {
	fsys := vfs.NewMem(newClock())
	x := open(t, Config{Dir: "/index", Slots: 100, Entries: 10}, fsys)
	fill(x, 0, 25)
	_, err := x.Flush(true)
	must(t, err)
	names := list(t, fsys, "/index")
	fsys.Inject(func(op vfs.Op, path string, _, _ int64) error {
		if op == vfs.OpReadAt && filepath.Base(path) == names[1] {
			return unix.EIO
		}
		return nil
	})
	found := 0
	err = x.Query("topic", "k3", 10, 0, math.MaxInt64, func(int64) bool { found++; return true })
	if !errors.Is(err, unix.EIO) || found != 1 {
		t.Fatalf("%d found, error %v", found, err)
	}
	fsys.Inject(nil)
	must(t, x.Close())
}

func FuzzOpen(f *testing.F) {
	cfg := Config{Dir: "/index", Slots: 50, Entries: 40}
	fsys := vfs.NewMem(newClock())
	x := open(f, cfg, fsys)
	fill(x, 0, 30)
	must(f, x.Close())
	path := filepath.Join("/index", list(f, fsys, "/index")[0])
	sound, err := fsys.ReadFile(path)
	must(f, err)
	f.Add(uint16(0), []byte{}, uint16(len(sound)))
	f.Add(uint16(36), []byte{0, 0, 0, 40}, uint16(len(sound)))
	f.Add(uint16(36), []byte{0, 0, 0, 0}, uint16(len(sound)))
	f.Add(uint16(44), []byte{0, 0, 0, 31}, uint16(len(sound)))
	f.Add(uint16(259), []byte{31}, uint16(len(sound)))
	f.Add(uint16(0), []byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, at uint16, patch []byte, size uint16) {
		data := slices.Clone(sound)
		copy(data[int(at)%len(data):], patch)
		data = data[:min(int(size), len(data))]
		fsys := vfs.NewMem(newClock())
		must(t, fsys.MkdirAll("/index"))
		must(t, fsys.WriteFileAtomic(path, data))
		x := open(t, cfg, fsys)
		for i := range 30 {
			if found := ask(t, x, "topic", fmt.Sprintf("k%d", i), 100, math.MinInt64, math.MaxInt64); len(found) > 40 {
				t.Fatalf("%d found", len(found))
			}
		}
		must(t, x.Truncate(x.Indexed()))
		from := x.Indexed()
		fill(x, int(from/10)+1, 20)
		_, err := x.Flush(true)
		must(t, err)
		must(t, x.Truncate(from))
		must(t, x.Close())
	})
}
