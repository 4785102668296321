package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestOSFullDiskIsErrNoSpace(t *testing.T) {
	f, err := OS{}.Open("/dev/full")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	wantErr(t, err, ErrNoSpace)
	wantErr(t, err, unix.ENOSPC)
	if got := err.Error(); got != "write /dev/full: no space left on device" {
		t.Fatalf("text %q", got)
	}
}

func TestPathErrorQuota(t *testing.T) {
	err := pathError(OpWriteAt, "/a", &fs.PathError{Op: "pwrite", Path: "/a", Err: unix.EDQUOT})
	wantErr(t, err, ErrNoSpace)
	wantErr(t, err, unix.EDQUOT)
	if got := err.Error(); got != "write /a: disk quota exceeded" {
		t.Fatalf("text %q", got)
	}
	if err := pathError(OpWriteAt, "/a", unix.EIO); errors.Is(err, ErrNoSpace) || !errors.Is(err, unix.EIO) {
		t.Fatalf("EIO became %v", err)
	}
	if pathError(OpWriteAt, "/a", nil) != nil {
		t.Fatal("no error became one")
	}
}

func TestOSAllocateReservesBlocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := create(t, OS{}, path)
	must(t, f.Allocate(0, 1<<20))
	var st unix.Stat_t
	must(t, unix.Stat(path, &st))
	if got := st.Blocks * 512; got < 1<<20 {
		t.Fatalf("%d bytes reserved", got)
	}
}

// A memory file system refuses more than its size at once, so nobody's disk fills up.
func TestOSAllocateOnFullDisk(t *testing.T) {
	total, _, err := OS{}.Usage("/dev/shm")
	if err != nil || total == 0 {
		t.Skip("no limited memory file system")
	}
	dir, err := os.MkdirTemp("/dev/shm", "vfs")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	f := create(t, OS{}, filepath.Join(dir, "a"))
	write(t, f, "kept", 0)
	wantErr(t, f.Allocate(0, total+1<<20), ErrNoSpace)
	wantSize(t, f, 4)
}

func TestAllocateCutsAPartialExtensionBack(t *testing.T) {
	for name, errno := range map[string]error{"full": unix.ENOSPC, "broken": unix.EIO} {
		t.Run(name, func(t *testing.T) {
			f := tempFile(t, "data")
			err := allocate(f, 0, 1<<20, func(fd int, _, _ int64) error {
				return errors.Join(unix.Ftruncate(fd, 1<<19), errno)
			})
			wantErr(t, err, errno)
			if st, err := f.Stat(); err != nil || st.Size() != 4 {
				t.Fatalf("size %d, %v", st.Size(), err)
			}
		})
	}
}

func TestAllocateWithoutSupportWritesZeros(t *testing.T) {
	for _, unsupported := range []error{unix.EOPNOTSUPP, unix.ENOSYS} {
		f := tempFile(t, "data")
		must(t, allocate(f, 1, 600_000, func(int, int64, int64) error { return unsupported }))
		got, err := os.ReadFile(f.Name())
		must(t, err)
		if len(got) != 600_001 || string(got[:4]) != "data" || strings.Trim(string(got[4:]), "\x00") != "" {
			t.Fatalf("%d bytes, start %q", len(got), got[:8])
		}
		must(t, allocate(f, 0, 10, func(int, int64, int64) error { return unsupported }))
		if st, err := f.Stat(); err != nil || st.Size() != 600_001 {
			t.Fatalf("a range inside changed the size to %d, %v", st.Size(), err)
		}
	}
}

func TestAllocateRepeatsAfterASignal(t *testing.T) {
	calls := 0
	must(t, allocate(tempFile(t, ""), 0, 10, func(int, int64, int64) error {
		if calls++; calls < 3 {
			return unix.EINTR
		}
		return nil
	}))
	if calls != 3 {
		t.Fatalf("%d calls", calls)
	}
}

func tempFile(t *testing.T, content string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a"))
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.WriteString(content)
	must(t, err)
	return f
}

func TestOSDescriptorsAreClosedOnExec(t *testing.T) {
	dir := t.TempDir()
	created, opened := create(t, OS{}, filepath.Join(dir, "a")), open(t, OS{}, filepath.Join(dir, "a"))
	lock, err := OS{}.Lock(filepath.Join(dir, "lock"))
	must(t, err)
	defer lock.Close()
	for _, f := range []*os.File{created.(*osFile).f, opened.(*osFile).f, lock.(*os.File)} {
		must(t, withFd(f, func(fd int) error {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			if err == nil && flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("%s is inherited by children", f.Name())
			}
			return err
		}))
	}
}

// TestReadOnceKeepsTheCache: what was in memory stays there, and the rest does not come to stay, on a kernel that can do that.
func TestReadOnceKeepsTheCache(t *testing.T) {
	const size = 8 << 20
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	buf := make([]byte, 1<<20)
	for at := int64(0); at < size; at += int64(len(buf)) {
		if _, err := f.WriteAt(buf, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.SyncData(); err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(size)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close() //nolint:errcheck // only looked at
	pages := make([]byte, size/os.Getpagesize())
	cached := func() (n int) {
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m.Bytes()[0])), size, uintptr(unsafe.Pointer(&pages[0]))); errno != 0 {
			t.Fatal(errno)
		}
		for _, p := range pages {
			n += int(p & 1)
		}
		return n
	}
	readOnce := func() {
		for at := int64(0); at < size; at += int64(len(buf)) {
			if _, err := f.ReadOnce(buf, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if readOnce(); cached() < len(pages)*9/10 {
		t.Errorf("of %d pages that were in memory %d are", len(pages), cached())
	}
	f.DontNeed(0, size)
	before := cached()
	if _, err := preadOnce(int(f.(*osFile).f.Fd()), buf[:1], 0); err != nil || before > len(pages)/10 {
		t.Skip("the kernel or the file system cannot read past the cache: ", err, before)
	}
	if readOnce(); cached() > len(pages)/2 {
		t.Errorf("of %d pages %d were in memory, and %d stay there", len(pages), before, cached())
	}
}

// What is reserved for the superuser is neither used nor free: df has it so, and Java.
func TestOSUsageLeavesOutWhatIsReserved(t *testing.T) {
	dir := t.TempDir()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	total, avail, err := OS{}.Usage(dir)
	if err != nil {
		t.Fatal(err)
	}
	used, want := total-avail, int64(st.Blocks-st.Bfree)*st.Bsize
	if slack := int64(1) << 30; used < want-slack || used > want+slack { // others write meanwhile
		t.Errorf("%d bytes are used, not %d", used, want)
	}
}
