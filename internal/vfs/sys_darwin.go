package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func fallocate(int, int64, int64) error { return errors.ErrUnsupported }

// fdatasync asks for the one sync of this system that reaches the medium.
func fdatasync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

func dontNeed(int, int64, int64) error { return errors.ErrUnsupported }

func preadCached(int, []byte, int64) (int, error) { return 0, unix.ENOTSUP }

func preadOnce(int, []byte, int64) (int, error) { return 0, unix.ENOTSUP }

func blockSize(st *unix.Statfs_t) int64 { return int64(st.Bsize) }

// newMemoryFile returns a nameless file in the temporary directory.
func newMemoryFile() (*os.File, error) {
	f, err := os.CreateTemp("", "vfs.Mem")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// punch makes [off, off+n) read as zeros.
func punch(f *os.File, off, n int64) error { return writeZeros(f, off, off+n) }
