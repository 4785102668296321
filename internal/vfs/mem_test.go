package vfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
)

func TestMemLargeSparseFile(t *testing.T) {
	m := newMem()
	f := create(t, m, "/segment")
	must(t, f.Allocate(0, 1<<30))
	view := mapped(t, f, 1<<30)
	write(t, f, "\x07", 700<<20)
	write(t, f, "end", 1<<30-3)
	must(t, f.SyncData())
	if got := string(view.Bytes()[1<<30-3:]); got != "end" {
		t.Fatalf("mapping shows %q", got)
	}
	clone := m.CrashClone(nil, CrashDrop)
	wantNames(t, clone, "/")
	must(t, m.SyncDir("/"))
	clone = m.CrashClone(nil, CrashDrop)
	buf := make([]byte, 2)
	if _, err := open(t, clone, "/segment").ReadAt(buf, 700<<20-1); err != nil || !bytes.Equal(buf, []byte{0, 7}) {
		t.Fatalf("clone holds %v, %v", buf, err)
	}
	if _, err := f.WriteAt([]byte("x"), maxMemFile); !errors.Is(err, unix.EFBIG) {
		t.Fatalf("write past the largest size: %v", err)
	}
}

func TestMemModificationTimesComeFromTheClock(t *testing.T) {
	clk := clock.NewManual(epoch)
	m := NewMem(clk)
	f := create(t, m, "/a")
	clk.Advance(time.Second)
	write(t, f, "x", 0)
	clk.Advance(time.Second)
	must(t, m.MkdirAll("/dir"))
	for path, want := range map[string]time.Time{"/a": epoch.Add(time.Second), "/dir": epoch.Add(2 * time.Second)} {
		info, err := m.Stat(path)
		must(t, err)
		if !info.ModTime().Equal(want) {
			t.Errorf("%s changed at %v", path, info.ModTime())
		}
	}
}

func TestMemRunsOutOfSpace(t *testing.T) {
	m := newMem()
	f := create(t, m, "/a")
	write(t, f, "x", 0)
	m.SetFree(3 * memBlock)
	wantFree(t, m, 3*memBlock)

	wantErr(t, f.Allocate(0, 5*memBlock), ErrNoSpace) // One block is there, four are not.
	wantSize(t, f, 1)
	wantFree(t, m, 3*memBlock)
	must(t, f.Allocate(0, 2*memBlock))
	wantFree(t, m, 2*memBlock)

	n, err := f.WriteAt(make([]byte, 4*memBlock), memBlock+10)
	wantErr(t, err, ErrNoSpace)
	if n != 3*memBlock-10 {
		t.Fatalf("wrote %d bytes", n)
	}
	wantSize(t, f, 4*memBlock)
	wantFree(t, m, 0)
	if n, err := f.WriteAt([]byte("overwriting needs no space"), 0); err != nil {
		t.Fatalf("wrote %d, %v", n, err)
	}
	if n, err := f.WriteAt(nil, 4*memBlock); n != 0 || err != nil {
		t.Fatalf("an empty write took space: %d, %v", n, err)
	}
	if n, err := f.WriteAt([]byte("x"), 4*memBlock); n != 0 || !errors.Is(err, ErrNoSpace) {
		t.Fatalf("wrote %d, %v", n, err)
	}

	must(t, f.Truncate(memBlock+1))
	wantFree(t, m, 2*memBlock)
	must(t, m.Rename("/a", "/b"))
	wantFree(t, m, 2*memBlock)
	must(t, m.Remove("/b"))
	wantFree(t, m, 2*memBlock) // Still open.
	view := mapped(t, f, 10)
	must(t, f.Close())
	wantFree(t, m, 2*memBlock) // Still mapped.
	must(t, view.Close())
	wantFree(t, m, 4*memBlock)
}

func TestMemReplacedFilesGiveSpaceBack(t *testing.T) {
	m := newMem()
	m.SetFree(2 * memBlock)
	for range 5 {
		must(t, m.WriteFileAtomic("/conf", make([]byte, memBlock)))
	}
	must(t, m.MkdirAll("/dir/sub"))
	must(t, m.Rename("/conf", "/dir/sub/conf"))
	must(t, m.RemoveAll("/dir"))
	wantFree(t, m, 2*memBlock)
}

func wantFree(t *testing.T, m *Mem, want int64) {
	t.Helper()
	if _, avail, err := m.Usage("/"); err != nil || avail != want {
		t.Fatalf("%d bytes free, %v; want %d", avail, err, want)
	}
}

func TestCrashDropKeepsOnlyWhatIsSynced(t *testing.T) {
	m := newMem()
	must(t, m.MkdirAll("/d"))
	must(t, m.SyncDir("/"))
	f := create(t, m, "/d/a")
	write(t, f, "synced", 0)
	must(t, f.SyncData())
	wantNames(t, m.CrashClone(nil, CrashDrop), "/d") // The data is durable, the name is not.
	must(t, m.SyncDir("/d"))
	write(t, f, "S and more", 0)
	must(t, create(t, m, "/d/b").Close())
	after := m.CrashClone(nil, CrashDrop)
	wantNames(t, after, "/d", "a")
	wantContent(t, after, "/d/a", "synced")
	wantContent(t, m, "/d/a", "S and more") // The crash did not touch the original.

	must(t, f.Truncate(2))
	wantContent(t, m.CrashClone(nil, CrashDrop), "/d/a", "synced")
	must(t, f.SyncData())
	wantContent(t, m.CrashClone(nil, CrashDrop), "/d/a", "S ")

	must(t, m.Rename("/d/a", "/d/c"))
	wantNames(t, m.CrashClone(nil, CrashDrop), "/d", "a")
	must(t, m.SyncDir("/d"))
	wantNames(t, m.CrashClone(nil, CrashDrop), "/d", "b", "c")
	must(t, m.RemoveAll("/d"))
	wantContent(t, m.CrashClone(nil, CrashDrop), "/d/c", "S ")
	must(t, m.SyncDir("/"))
	wantNames(t, m.CrashClone(nil, CrashDrop), "/")
}

func TestCrashKeepIsAKilledProcess(t *testing.T) {
	m := newMem()
	lock, err := m.Lock("/lock")
	must(t, err)
	defer lock.Close()
	f := create(t, m, "/a")
	must(t, f.Allocate(0, 3*memBlock))
	write(t, f, "stored", 0)
	m.SetFree(memBlock)
	m.Inject(func(Op, string, int64, int64) error { return unix.EIO })
	after := m.CrashClone(nil, CrashKeep)
	wantNames(t, after, "/", "a", "lock")
	got, err := after.ReadFile("/a")
	must(t, err)
	if string(got[:6]) != "stored" || len(got) != 3*memBlock {
		t.Fatalf("%d bytes, %q", len(got), got[:6])
	}
	wantFree(t, after, memBlock)
	relocked, err := after.Lock("/lock")
	must(t, err) // The lock went with the process.
	must(t, relocked.Close())
	wantContent(t, after.CrashClone(nil, CrashDrop), "/a", string(got)) // What survived a crash is on the disk.
}

func TestCrashMixWorksOnSectors(t *testing.T) {
	const sectors = 200
	m := newMem()
	f := create(t, m, "/a")
	old, fresh := bytes.Repeat([]byte{1}, sectors*sectorSize), bytes.Repeat([]byte{2}, sectors*sectorSize)
	write(t, f, string(old), 0)
	must(t, f.SyncData())
	must(t, m.SyncDir("/"))
	write(t, f, string(fresh), 0)
	for _, mode := range []CrashMode{CrashMix, CrashTear} {
		got, err := m.CrashClone(rand.New(rand.NewPCG(1, 2)), mode).ReadFile("/a")
		must(t, err)
		kept, lost, torn := 0, 0, 0
		for i := 0; i < len(got); i += sectorSize {
			switch s := got[i : i+sectorSize]; {
			case bytes.Equal(s, fresh[:sectorSize]):
				kept++
			case bytes.Equal(s, old[:sectorSize]):
				lost++
			case isTorn(s, 1, 2):
				torn++
			default:
				t.Fatalf("sector %d holds what was never written", i/sectorSize)
			}
		}
		if kept < sectors/5 || lost < sectors/5 || (torn > sectors/5) != (mode == CrashTear) || mode == CrashMix && torn > 0 {
			t.Errorf("mode %d: %d kept, %d lost, %d torn", mode, kept, lost, torn)
		}
	}
}

// isTorn tells whether s changes once from one of the values to the other.
func isTorn(s []byte, a, b byte) bool {
	cut := len(s) - len(bytes.TrimLeft(s, string(s[:1])))
	rest := s[cut:]
	return len(bytes.Trim(rest, string(rest[:1]))) == 0 && (s[0] == a || s[0] == b) && (rest[0] == a || rest[0] == b)
}

func TestCrashOfAGrowingFile(t *testing.T) {
	m := newMem()
	f := create(t, m, "/a")
	write(t, f, "head", 0)
	must(t, f.SyncData())
	must(t, m.SyncDir("/"))
	write(t, f, string(bytes.Repeat([]byte{'x'}, 5000)), 4)
	sizes := map[int]int{}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		got, err := m.CrashClone(rng, CrashTear).ReadFile("/a")
		must(t, err)
		if len(got) < 4 || len(got) > 5004 || string(got[:4]) != "head" {
			t.Fatalf("%d bytes, start %q", len(got), got[:min(4, len(got))])
		}
		sizes[len(got)]++
	}
	if sizes[4] == 0 || sizes[5004] == 0 || len(sizes) < 10 {
		t.Fatalf("sizes %v: want the old, the new and some between", sizes)
	}
}

func TestCrashRenameIsAtomicEverywhere(t *testing.T) {
	m := newMem()
	must(t, m.MkdirAll("/x"))
	must(t, m.MkdirAll("/y"))
	write(t, create(t, m, "/x/f"), "", 0)
	for _, dir := range []string{"/", "/x", "/y"} {
		must(t, m.SyncDir(dir))
	}
	must(t, m.Rename("/x/f", "/y/g"))
	rng := rand.New(rand.NewPCG(5, 6))
	outcomes := func() (before, after int) {
		for range 50 {
			c := m.CrashClone(rng, CrashMix)
			_, errOld := c.Stat("/x/f")
			_, errNew := c.Stat("/y/g")
			switch {
			case errOld == nil && errNew != nil:
				before++
			case errOld != nil && errNew == nil:
				after++
			default:
				t.Fatalf("both names or none: %v, %v", errOld, errNew)
			}
		}
		return before, after
	}
	if before, after := outcomes(); before == 0 || after == 0 {
		t.Fatalf("%d before, %d after", before, after)
	}
	must(t, m.SyncDir("/x")) // One side is enough to know that it happened.
	if before, _ := outcomes(); before != 0 {
		t.Fatal("a durable rename was undone")
	}
}

// A file never has two names, and a later change of its name does not survive an earlier one that is lost.
func TestCrashKeepsChangesOfOneFileInOrder(t *testing.T) {
	m := newMem()
	must(t, create(t, m, "/a").Close())
	must(t, m.Rename("/a", "/b"))
	must(t, m.Rename("/b", "/c"))
	rng := rand.New(rand.NewPCG(11, 12))
	seen := map[string]int{}
	for range 200 {
		list, err := m.CrashClone(rng, CrashMix).ReadDir("/")
		must(t, err)
		names := ""
		for _, entry := range list {
			names += entry.Name()
		}
		seen[names]++
	}
	if len(seen) != 4 || seen[""] == 0 || seen["a"] == 0 || seen["b"] == 0 || seen["c"] == 0 {
		t.Fatalf("outcomes %v", seen)
	}
}

// The name of a new file may outlive a power loss without its data; WriteFileAtomic must not allow that.
func TestCrashDuringAtomicWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	old, fresh := bytes.Repeat([]byte("old "), 500), bytes.Repeat([]byte("new "), 700)
	seen := map[string]int{}
	for range 10 {
		m := newMem()
		must(t, m.WriteFileAtomic("/conf", old))
		check := func(want ...[]byte) {
			got, err := m.CrashClone(rng, CrashTear).ReadFile("/conf")
			must(t, err)
			for _, w := range want {
				if bytes.Equal(got, w) {
					seen[string(w[:3])]++
					return
				}
			}
			t.Fatalf("a crash left %d bytes", len(got))
		}
		m.Inject(func(Op, string, int64, int64) error {
			check(old, fresh)
			return nil
		})
		must(t, m.WriteFileAtomic("/conf", fresh))
		m.Inject(nil)
		check(fresh)
	}
	if seen["old"] == 0 || seen["new"] <= 10 {
		t.Fatalf("outcomes %v", seen)
	}
}

func TestCrashCloneIsRepeatable(t *testing.T) {
	m := newMem()
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		must(t, m.MkdirAll("/"+name+"/sub"))
		write(t, create(t, m, "/"+name+"/sub/file"), string(bytes.Repeat([]byte(name), 3000)), 0)
	}
	must(t, m.RemoveAll("/a"))
	must(t, m.SyncDir("/"))
	image := func() map[string]string {
		files := map[string]string{}
		c := m.CrashClone(rand.New(rand.NewPCG(9, 10)), CrashTear)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			if data, err := c.ReadFile("/" + name + "/sub/file"); err == nil {
				files[name] = string(data)
			}
		}
		return files
	}
	first := image()
	if len(first) == 0 {
		t.Fatal("nothing survived; the seed is useless")
	}
	for range 5 {
		again := image()
		for name := range first {
			if first[name] != again[name] || len(first) != len(again) {
				t.Fatalf("%s differs", name)
			}
		}
	}
}
