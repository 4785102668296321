package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mapping is a shared mapping of a part of a file.
type mapping struct {
	bytes  []byte
	closed atomic.Bool // a second munmap could hit whatever lives at the address by then
}

// mapFile maps [base, base+size) of f. The base is a multiple of the page size.
func mapFile(f *os.File, base, size int64) (*mapping, error) {
	var b []byte
	err := withFd(f, func(fd int) (err error) {
		b, err = unix.Mmap(fd, base, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &mapping{bytes: b}, nil
}

func (m *mapping) Bytes() []byte { return m.bytes }

func (m *mapping) Populate(off, n int64) error {
	from, to, err := m.pages(off, n)
	if err != nil || from == to {
		return err
	}
	return os.NewSyscallError("madvise", retry(func() error { return populate(m.bytes[from:to]) }))
}

func (m *mapping) Close() error {
	if m.closed.Swap(true) {
		return fmt.Errorf("unmap: %w", fs.ErrClosed)
	}
	return os.NewSyscallError("munmap", unix.Munmap(m.bytes))
}

// pages widens [off, off+n) to whole pages, which is what madvise takes.
func (m *mapping) pages(off, n int64) (from, to int64, err error) {
	size := int64(len(m.bytes))
	if off < 0 || n < 0 || off > size || n > size-off {
		return 0, 0, fmt.Errorf("populate [%d, %d+%d) of %d bytes: %w", off, off, n, size, unix.EINVAL)
	}
	if m.closed.Load() {
		return 0, 0, fmt.Errorf("populate: %w", fs.ErrClosed)
	}
	return off &^ int64(os.Getpagesize()-1), off + n, nil
}
