package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.UnixMilli(1_700_000_000_000)

func newMem() *Mem { return NewMem(clock.NewManual(epoch)) }

// TestConformance runs every check over every file system: what the store relies on must be true of all of them.
func TestConformance(t *testing.T) {
	systems := map[string]func(t *testing.T) (fsys FS, dir string){
		"OS": func(t *testing.T) (FS, string) { return OS{}, t.TempDir() },
		"Mem": func(t *testing.T) (FS, string) {
			m := newMem()
			must(t, m.MkdirAll("/test/dir"))
			return m, "/test/dir"
		},
		"Faulty": func(t *testing.T) (FS, string) {
			return Faulty(OS{}, func(Op, string, int64, int64) error { return nil }), t.TempDir()
		},
	}
	checks := map[string]func(t *testing.T, fsys FS, dir string){
		"create truncates":        checkCreate,
		"open":                    checkOpen,
		"read and write":          checkReadWrite,
		"truncate":                checkTruncate,
		"allocate":                checkAllocate,
		"map":                     checkMap,
		"closed file":             checkClosed,
		"rename":                  checkRename,
		"remove":                  checkRemove,
		"directories":             checkDirectories,
		"stat":                    checkStat,
		"lock":                    checkLock,
		"usage":                   checkUsage,
		"atomic write":            checkAtomicWrite,
		"open file outlives name": checkUnlinked,
		"parallel writers":        checkParallel,
	}
	for system, open := range systems {
		for check, run := range checks {
			t.Run(system+"/"+check, func(t *testing.T) {
				fsys, dir := open(t)
				run(t, fsys, dir)
			})
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func create(t testing.TB, fsys FS, path string) File {
	t.Helper()
	f, err := fsys.Create(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func open(t testing.TB, fsys FS, path string) File {
	t.Helper()
	f, err := fsys.Open(path)
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mapped(t testing.TB, f File, size int64) Mapping {
	t.Helper()
	m, err := f.Map(size)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func write(t testing.TB, f File, data string, off int64) {
	t.Helper()
	if n, err := f.WriteAt([]byte(data), off); n != len(data) || err != nil {
		t.Fatalf("wrote %d of %d: %v", n, len(data), err)
	}
}

func wantContent(t testing.TB, fsys FS, path, want string) {
	t.Helper()
	got, err := fsys.ReadFile(path)
	must(t, err)
	if string(got) != want {
		t.Fatalf("%s holds %q, want %q", path, got, want)
	}
}

func wantSize(t testing.TB, f File, want int64) {
	t.Helper()
	if got, err := f.Size(); got != want || err != nil {
		t.Fatalf("size %d (%v), want %d", got, err, want)
	}
}

func wantNames(t testing.TB, fsys FS, dir string, want ...string) {
	t.Helper()
	list, err := fsys.ReadDir(dir)
	must(t, err)
	var got []string
	for _, entry := range list {
		got = append(got, entry.Name())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s lists %q, want %q", dir, got, want)
	}
}

func checkCreate(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	write(t, create(t, fsys, path), "old content", 0)
	f := create(t, fsys, path)
	wantSize(t, f, 0)
	write(t, f, "new", 0)
	wantContent(t, fsys, path, "new")

	_, err := fsys.Create(dir)
	wantErr(t, err, unix.EISDIR)
	_, err = fsys.Create(filepath.Join(dir, "missing", "a"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Create(filepath.Join(path, "a"))
	wantErr(t, err, unix.ENOTDIR)
	var pe *fs.PathError
	if !errors.As(err, &pe) || pe.Path != filepath.Join(path, "a") || pe.Op != string(OpCreate) {
		t.Fatalf("error %v does not carry operation and path", err)
	}
}

func checkOpen(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	_, err := fsys.Open(path)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Open(dir)
	wantErr(t, err, unix.EISDIR)
	_, err = fsys.ReadFile(path)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.ReadFile(dir)
	wantErr(t, err, unix.EISDIR)

	write(t, create(t, fsys, path), "shared", 0)
	f, g := open(t, fsys, path), open(t, fsys, path)
	write(t, f, "S", 0)
	buf := make([]byte, 6)
	if n, err := g.ReadAt(buf, 0); n != 6 || err != nil || string(buf) != "Shared" {
		t.Fatalf("read %q (%d, %v)", buf, n, err)
	}
}

func checkReadWrite(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "a"))
	write(t, f, "tail", 10_000)
	wantSize(t, f, 10_004)
	buf := bytes.Repeat([]byte{1}, 20_000)
	n, err := f.ReadAt(buf, 0)
	if n != 10_004 || err != io.EOF {
		t.Fatalf("read %d, %v", n, err)
	}
	if !bytes.Equal(buf[:10_000], make([]byte, 10_000)) || string(buf[10_000:10_004]) != "tail" || buf[10_004] != 1 {
		t.Fatal("wrong bytes")
	}
	for _, off := range []int64{10_004, 1 << 30} {
		if n, err := f.ReadAt(buf[:1], off); n != 0 || err != io.EOF {
			t.Fatalf("read at %d: %d, %v", off, n, err)
		}
	}
	if n, err := f.ReadAt(nil, 0); n != 0 || err != nil {
		t.Fatalf("empty read: %d, %v", n, err)
	}
	if n, err := f.WriteAt(nil, 20_000); n != 0 || err != nil {
		t.Fatalf("empty write: %d, %v", n, err)
	}
	wantSize(t, f, 10_004)
	if _, err := f.ReadAt(buf, -1); err == nil {
		t.Fatal("read at -1")
	}
	if _, err := f.WriteAt(buf, -1); err == nil {
		t.Fatal("write at -1")
	}
	must(t, f.SyncData())
	f.DontNeed(0, 10_004)
	for name, read := range map[string]func([]byte, int64) (int, error){"at": f.ReadAt, "once": f.ReadOnce} {
		if n, err := read(buf[:4], 10_000); n != 4 || err != nil || string(buf[:4]) != "tail" {
			t.Fatalf("%s: after DontNeed: %q, %v", name, buf[:4], err)
		}
		if n, err := read(buf[:6], 10_000); n != 4 || err != io.EOF {
			t.Fatalf("%s: over the end: %d, %v", name, n, err)
		}
	}
}

func checkTruncate(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	f := create(t, fsys, path)
	write(t, f, "0123456789", 0)
	must(t, f.Truncate(4))
	wantContent(t, fsys, path, "0123")
	must(t, f.Truncate(8))
	wantContent(t, fsys, path, "0123\x00\x00\x00\x00")
	must(t, f.Truncate(1<<30))
	wantSize(t, f, 1<<30)
	must(t, f.Truncate(0))
	wantContent(t, fsys, path, "")
	wantErr(t, f.Truncate(-1), unix.EINVAL)
}

func checkAllocate(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	f := create(t, fsys, path)
	write(t, f, "data", 0)
	must(t, f.Allocate(2, 10))
	wantContent(t, fsys, path, "data\x00\x00\x00\x00\x00\x00\x00\x00")
	must(t, f.Allocate(0, 4))
	wantSize(t, f, 12)
	must(t, f.Allocate(1<<20, 1<<20))
	wantSize(t, f, 2<<20)
	for _, bad := range [][2]int64{{-1, 10}, {0, 0}, {0, -1}, {1, 1<<63 - 1}} {
		if err := f.Allocate(bad[0], bad[1]); err == nil {
			t.Fatalf("Allocate(%d, %d) passed", bad[0], bad[1])
		}
	}
	wantSize(t, f, 2<<20)
}

func checkMap(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	f := create(t, fsys, path)
	_, err := f.Map(1)
	wantErr(t, err, unix.EINVAL) // Touching it would kill the process.
	must(t, f.Allocate(0, 64<<10))
	for _, size := range []int64{-1, 0, 64<<10 + 1} {
		_, err := f.Map(size)
		wantErr(t, err, unix.EINVAL)
	}
	m, small := mapped(t, f, 64<<10), mapped(t, open(t, fsys, path), 100)
	if len(m.Bytes()) != 64<<10 || cap(m.Bytes()) != 64<<10 || len(small.Bytes()) != 100 {
		t.Fatalf("mapped %d and %d bytes", len(m.Bytes()), len(small.Bytes()))
	}
	write(t, f, "stored", 10)
	write(t, f, "WROTE", 12)
	if got := string(small.Bytes()[10:17]); got != "stWROTE" {
		t.Fatalf("mapping shows %q", got)
	}
	must(t, f.Allocate(64<<10, 64<<10))
	write(t, f, "x", 64<<10-1)
	must(t, f.SyncData())
	must(t, f.Close())
	write(t, open(t, fsys, path), "y", 0)
	if got := m.Bytes(); got[64<<10-1] != 'x' || got[0] != 'y' {
		t.Fatal("a file that grew or was closed has lost its mappings")
	}
	must(t, m.Close())
	wantErr(t, m.Close(), fs.ErrClosed)
}

func checkClosed(t *testing.T, fsys FS, dir string) {
	f := create(t, fsys, filepath.Join(dir, "a"))
	must(t, f.Truncate(10))
	must(t, f.Close())
	buf := make([]byte, 1)
	for name, op := range map[string]func() error{
		"ReadAt":   func() error { _, err := f.ReadAt(buf, 0); return err },
		"ReadOnce": func() error { _, err := f.ReadOnce(buf, 0); return err },
		"WriteAt":  func() error { _, err := f.WriteAt(buf, 0); return err },
		"Size":     func() error { _, err := f.Size(); return err },
		"Truncate": func() error { return f.Truncate(1) },
		"Allocate": func() error { return f.Allocate(0, 1) },
		"SyncData": f.SyncData,
		"Map":      func() error { _, err := f.Map(1); return err },
		"Close":    f.Close,
	} {
		if err := op(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s of a closed file: %v", name, err)
		}
	}
	f.DontNeed(0, 1)
}

func checkRename(t *testing.T, fsys FS, dir string) {
	a, b, sub := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "sub")
	must(t, fsys.MkdirAll(filepath.Join(sub, "deep")))
	f := create(t, fsys, a)
	write(t, f, "A", 0)
	write(t, create(t, fsys, b), "B", 0)
	must(t, fsys.Rename(a, b))
	wantNames(t, fsys, dir, "b", "sub")
	wantContent(t, fsys, b, "A")
	write(t, f, "still the same file", 0)
	wantContent(t, fsys, b, "still the same file")
	must(t, fsys.Rename(b, b))

	wantErr(t, fsys.Rename(a, b), fs.ErrNotExist)
	wantErr(t, fsys.Rename(b, filepath.Join(dir, "missing", "b")), fs.ErrNotExist)
	wantErr(t, fsys.Rename(b, sub), fs.ErrExist)
	wantErr(t, fsys.Rename(sub, b), unix.ENOTDIR)
	wantErr(t, fsys.Rename(sub, filepath.Join(sub, "deep", "er")), unix.EINVAL)

	must(t, fsys.Rename(b, filepath.Join(sub, "b")))
	must(t, fsys.Rename(sub, filepath.Join(dir, "moved")))
	wantNames(t, fsys, dir, "moved")
	wantContent(t, fsys, filepath.Join(dir, "moved", "b"), "still the same file")
}

func checkRemove(t *testing.T, fsys FS, dir string) {
	deep := filepath.Join(dir, "x", "y", "z")
	must(t, fsys.MkdirAll(deep))
	must(t, create(t, fsys, filepath.Join(deep, "f")).Close())
	must(t, create(t, fsys, filepath.Join(dir, "x", "g")).Close())
	wantErr(t, fsys.Remove(filepath.Join(dir, "x")), unix.ENOTEMPTY)
	wantErr(t, fsys.Remove(filepath.Join(dir, "missing")), fs.ErrNotExist)
	must(t, fsys.Remove(filepath.Join(deep, "f")))
	must(t, fsys.Remove(deep))
	wantNames(t, fsys, filepath.Join(dir, "x", "y"))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x")))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x")))
	must(t, fsys.RemoveAll(filepath.Join(dir, "x", "y")))
	wantNames(t, fsys, dir)
}

func checkDirectories(t *testing.T, fsys FS, dir string) {
	file := filepath.Join(dir, "file")
	must(t, create(t, fsys, file).Close())
	must(t, fsys.MkdirAll(filepath.Join(dir, "b", "c")))
	must(t, fsys.MkdirAll(filepath.Join(dir, "b", "c")))
	must(t, fsys.MkdirAll(filepath.Join(dir, "a")))
	wantNames(t, fsys, dir, "a", "b", "file")
	list, err := fsys.ReadDir(dir)
	must(t, err)
	if !list[0].IsDir() || list[2].IsDir() {
		t.Fatal("wrong kinds")
	}
	wantErr(t, fsys.MkdirAll(file), unix.ENOTDIR)
	wantErr(t, fsys.MkdirAll(filepath.Join(file, "a")), unix.ENOTDIR)
	_, err = fsys.ReadDir(filepath.Join(dir, "missing"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.ReadDir(file)
	wantErr(t, err, unix.ENOTDIR)

	must(t, fsys.SyncDir(dir))
	wantErr(t, fsys.SyncDir(file), unix.ENOTDIR)
	wantErr(t, fsys.SyncDir(filepath.Join(dir, "missing")), fs.ErrNotExist)
}

func checkStat(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	_, err := fsys.Stat(path)
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Stat(filepath.Join(path, "b"))
	wantErr(t, err, fs.ErrNotExist)
	write(t, create(t, fsys, path), "12345", 0)
	info, err := fsys.Stat(path)
	must(t, err)
	if info.Name() != "a" || info.Size() != 5 || info.IsDir() || !info.Mode().IsRegular() || info.ModTime().IsZero() {
		t.Fatalf("%v %v %v", info.Name(), info.Size(), info.Mode())
	}
	info, err = fsys.Stat(dir)
	must(t, err)
	if info.Name() != filepath.Base(dir) || !info.IsDir() || info.Mode().Type() != fs.ModeDir {
		t.Fatalf("%v %v", info.Name(), info.Mode())
	}
}

func checkLock(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "lock")
	l, err := fsys.Lock(path)
	must(t, err)
	_, err = fsys.Lock(path)
	wantErr(t, err, ErrLocked)
	must(t, l.Close())
	wantErr(t, l.Close(), fs.ErrClosed)
	wantNames(t, fsys, dir, "lock")
	l, err = fsys.Lock(path)
	must(t, err)
	must(t, l.Close())
	_, err = fsys.Lock(filepath.Join(dir, "missing", "lock"))
	wantErr(t, err, fs.ErrNotExist)
	_, err = fsys.Lock(dir)
	wantErr(t, err, unix.EISDIR)
}

func checkUsage(t *testing.T, fsys FS, dir string) {
	total, avail, err := fsys.Usage(dir)
	must(t, err)
	if total <= 0 || avail < 0 || avail > total {
		t.Fatalf("%d of %d", avail, total)
	}
	_, _, err = fsys.Usage(filepath.Join(dir, "missing"))
	wantErr(t, err, fs.ErrNotExist)
}

func checkAtomicWrite(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "conf")
	must(t, fsys.WriteFileAtomic(path, []byte("a longer first version")))
	must(t, fsys.WriteFileAtomic(path, []byte("second")))
	wantContent(t, fsys, path, "second")
	must(t, create(t, fsys, path+TempSuffix).Close()) // What a crash may have left.
	must(t, fsys.WriteFileAtomic(path, nil))
	wantContent(t, fsys, path, "")
	wantNames(t, fsys, dir, "conf")
	wantErr(t, fsys.WriteFileAtomic(filepath.Join(dir, "missing", "conf"), nil), fs.ErrNotExist)

	taken := filepath.Join(dir, "taken")
	must(t, fsys.MkdirAll(taken))
	wantErr(t, fsys.WriteFileAtomic(taken, []byte("x")), fs.ErrExist)
	wantNames(t, fsys, dir, "conf", "taken") // The temporary file is gone.
}

func checkUnlinked(t *testing.T, fsys FS, dir string) {
	path := filepath.Join(dir, "a")
	f := create(t, fsys, path)
	write(t, f, "old", 0)
	m := mapped(t, f, 3)
	must(t, fsys.Remove(path))
	write(t, create(t, fsys, path), "new", 0)
	buf := make([]byte, 3)
	if _, err := f.ReadAt(buf, 0); err != nil || string(buf) != "old" || string(m.Bytes()) != "old" {
		t.Fatalf("read %q, mapped %q, %v", buf, m.Bytes(), err)
	}
	must(t, f.SyncData())
}

func checkParallel(t *testing.T, fsys FS, dir string) {
	const writers, rounds, record = 4, 50, 100
	f := create(t, fsys, filepath.Join(dir, "a"))
	must(t, f.Allocate(0, writers*rounds*record))
	m := mapped(t, f, writers*rounds*record)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			own := filepath.Join(dir, string(rune('b'+w)))
			for i := range rounds {
				off := int64(i*writers+w) * record
				data := bytes.Repeat([]byte{byte(w + 1)}, record)
				_, err := f.WriteAt(data, off)
				if err := errors.Join(err, f.SyncData(), fsys.WriteFileAtomic(own, data)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range writers * rounds {
		want := bytes.Repeat([]byte{byte(i%writers + 1)}, record)
		if got := m.Bytes()[i*record : (i+1)*record]; !bytes.Equal(got, want) {
			t.Fatalf("record %d is %v", i, got)
		}
	}
	wantNames(t, fsys, dir, "a", "b", "c", "d", "e")
}
