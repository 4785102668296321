package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fallocate(fd int, off, n int64) error { return unix.Fallocate(fd, 0, off, n) }

func fdatasync(fd int) error { return unix.Fdatasync(fd) }

func dontNeed(fd int, off, n int64) error { return unix.Fadvise(fd, off, n, unix.FADV_DONTNEED) }

// preadCached reads what is in the page cache (RWF_NOWAIT, Linux 4.14).
func preadCached(fd int, p []byte, off int64) (int, error) {
	return preadv2(fd, p, off, unix.RWF_NOWAIT)
}

// preadOnce leaves in the page cache what was there before (RWF_DONTCACHE, Linux 6.14).
func preadOnce(fd int, p []byte, off int64) (int, error) {
	return preadv2(fd, p, off, unix.RWF_DONTCACHE)
}

func preadv2(fd int, p []byte, off int64, flags uintptr) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	iov := unix.Iovec{Base: &p[0]}
	iov.SetLen(len(p))
	n, _, errno := unix.Syscall6(unix.SYS_PREADV2, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, uintptr(off), uintptr(uint64(off)>>32), flags)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// blockSize is the unit of the block counts: the fragment size, which a few file systems leave out.
func blockSize(st *unix.Statfs_t) int64 {
	if st.Frsize > 0 {
		return st.Frsize
	}
	return st.Bsize
}

// newMemoryFile returns a nameless file whose pages are memory.
func newMemoryFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("vfs.Mem", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "vfs.Mem"), nil
}

// punch makes [off, off+n) read as zeros and gives its pages back.
func punch(f *os.File, off, n int64) error {
	return withFd(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}
