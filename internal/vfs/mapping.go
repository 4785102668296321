package vfs

import (
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// mapping is a shared mapping of a part of a file, for reading.
type mapping struct {
	bytes  []byte
	closed atomic.Bool // a second munmap could hit whatever lives at the address by then
}

// mapFile maps [base, base+size) of f. The base is a multiple of the page size.
func mapFile(f *os.File, base, size int64) (*mapping, error) {
	var b []byte
	err := withFd(f, func(fd int) (err error) {
		b, err = unix.Mmap(fd, base, int(size), unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &mapping{bytes: b}, nil
}

func (m *mapping) Bytes() []byte { return m.bytes }

func (m *mapping) Close() error {
	if m.closed.Swap(true) {
		return fmt.Errorf("unmap: %w", fs.ErrClosed)
	}
	return os.NewSyscallError("munmap", unix.Munmap(m.bytes))
}
