package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// everything calls each operation once on dir, which exists, and returns the errors by operation.
func everything(t *testing.T, fsys FS, dir string) map[Op]error {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	got := map[Op]error{}
	f, err := fsys.Create(a)
	got[OpCreate] = err
	if err != nil {
		f = create(t, OS{}, a) // The operations of a file are seen only on one that was opened through the hook.
	}
	_, got[OpWriteAt] = f.WriteAt([]byte("0123456789"), 0)
	_, got[OpReadAt] = f.ReadAt(make([]byte, 4), 2)
	_, got[OpSize] = f.Size()
	got[OpTruncate] = f.Truncate(20)
	got[OpAllocate] = f.Allocate(20, 30)
	got[OpSyncData] = f.SyncData()
	m, err := f.Map(50)
	got[OpMap] = err
	if err == nil {
		must(t, m.Close())
	}
	got[OpClose] = f.Close()
	g, err := fsys.Open(a)
	got[OpOpen] = err
	if err == nil {
		_ = g.Close()
	}
	_, got[OpStat] = fsys.Stat(a)
	_, got[OpReadFile] = fsys.ReadFile(a)
	_, got[OpReadDir] = fsys.ReadDir(dir)
	_, _, got[OpUsage] = fsys.Usage(dir)
	got[OpRename] = fsys.Rename(a, b)
	got[OpSyncDir] = fsys.SyncDir(dir)
	got[OpRemove] = fsys.Remove(b)
	got[OpMkdirAll] = fsys.MkdirAll(b)
	got[OpRemoveAll] = fsys.RemoveAll(b)
	l, err := fsys.Lock(a)
	got[OpLock] = err
	if err == nil {
		must(t, l.Close())
	}
	return got
}

func TestHookSeesEveryOperation(t *testing.T) {
	dir := t.TempDir()
	var seen []string
	fsys := Faulty(OS{}, func(op Op, path string, off, n int64) error {
		rel, _ := filepath.Rel(dir, path)
		seen = append(seen, fmt.Sprintf("%s %s %d %d", op, rel, off, n))
		return nil
	})
	for op, err := range everything(t, fsys, dir) {
		if err != nil {
			t.Errorf("%s: %v", op, err)
		}
	}
	want := []string{
		"create a 0 0", "write a 0 10", "read a 2 4", "size a 0 0", "truncate a 0 20", "allocate a 20 30",
		"sync data a 0 0", "map a 0 50", "close a 0 0", "open a 0 0", "close a 0 0", "stat a 0 0",
		"read file a 0 0", "read dir . 0 0", "usage . 0 0", "rename b 0 0", "sync dir . 0 0", "remove b 0 0",
		"mkdir b 0 0", "remove all b 0 0", "lock a 0 0",
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("saw\n%q, want\n%q", seen, want)
	}
}

func TestHookFailsEachOperationAlone(t *testing.T) {
	ops := everything(t, OS{}, t.TempDir())
	if len(ops) != 20 {
		t.Fatalf("%d operations are tried", len(ops))
	}
	for op := range ops {
		fsys := Faulty(OS{}, func(at Op, _ string, _, _ int64) error {
			if at == op {
				return unix.EIO
			}
			return nil
		})
		err := everything(t, fsys, t.TempDir())[op]
		if pe := (*fs.PathError)(nil); !errors.Is(err, unix.EIO) || !errors.As(err, &pe) || pe.Op != string(op) {
			t.Errorf("%s returned %v", op, err)
		}
	}
}

func TestRefusedOperationsDoNotTakePlace(t *testing.T) {
	m := newMem()
	f := create(t, m, "/a")
	write(t, f, "content", 0)
	m.Inject(func(op Op, _ string, _, _ int64) error {
		if op == OpReadFile || op == OpReadDir {
			return nil
		}
		return unix.EIO
	})
	for name, err := range map[string]error{
		"truncate": f.Truncate(0),
		"allocate": f.Allocate(0, 100),
		"rename":   m.Rename("/a", "/b"),
		"remove":   m.Remove("/a"),
		"mkdir":    m.MkdirAll("/c"),
		"atomic":   m.WriteFileAtomic("/a", nil),
	} {
		if !errors.Is(err, unix.EIO) {
			t.Errorf("%s returned %v", name, err)
		}
	}
	if n, err := f.WriteAt([]byte("x"), 0); n != 0 || !errors.Is(err, unix.EIO) {
		t.Errorf("write returned %d, %v", n, err)
	}
	wantContent(t, m, "/a", "content")
	wantNames(t, m, "/", "a")
	m.Inject(nil)
	must(t, f.Truncate(3))
	wantContent(t, m, "/a", "con")
}

func TestShortWrite(t *testing.T) {
	m := newMem()
	f := create(t, m, "/a")
	for _, cut := range []struct{ n, want int }{{3, 3}, {-1, 0}, {100, 5}} {
		must(t, f.Truncate(0))
		m.Inject(func(op Op, _ string, _, _ int64) error {
			if op == OpWriteAt {
				return &ShortWrite{N: cut.n, Err: ErrNoSpace}
			}
			return nil
		})
		n, err := f.WriteAt([]byte("hello"), 0)
		if n != cut.want || !errors.Is(err, ErrNoSpace) {
			t.Fatalf("N %d: wrote %d, %v", cut.n, n, err)
		}
		wantContent(t, m, "/a", "hello"[:cut.want])
	}
}

func TestCloseHappensInSpiteOfTheHook(t *testing.T) {
	m := newMem()
	f := create(t, m, "/a")
	m.Inject(func(Op, string, int64, int64) error { return unix.EIO })
	wantErr(t, f.Close(), unix.EIO)
	m.Inject(nil)
	wantErr(t, f.Close(), fs.ErrClosed)
}

// Whatever step of WriteFileAtomic fails, the file is the old or the new one and no temporary file stays.
func TestAtomicWriteFailsAtEveryStep(t *testing.T) {
	for step := 0; ; step++ {
		m := newMem()
		must(t, m.WriteFileAtomic("/conf", []byte("old")))
		calls := 0
		m.Inject(func(Op, string, int64, int64) error {
			if calls++; calls == step+1 {
				return ErrNoSpace
			}
			return nil
		})
		err := m.WriteFileAtomic("/conf", []byte("new"))
		m.Inject(nil)
		wantNames(t, m, "/", "conf")
		got, readErr := m.ReadFile("/conf")
		must(t, readErr)
		if calls <= step {
			must(t, err)
			if step != 6 || string(got) != "new" {
				t.Fatalf("%d steps, content %q", step, got)
			}
			return
		}
		wantErr(t, err, ErrNoSpace)
		if renamed := step == 5; renamed != (string(got) == "new") {
			t.Fatalf("after a failure of step %d: %q", step, got)
		}
	}
}
