package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	filePerm = 0o644
	dirPerm  = 0o755
)

// OS is the file system of the machine. The zero value is ready.
type OS struct{}

var _ FS = OS{}

// Create opens path for reading and writing, truncating what was there. The descriptor is closed on exec.
func (OS) Create(path string) (File, error) {
	return openFile(OpCreate, path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open opens an existing file for reading and writing. The descriptor is closed on exec.
func (OS) Open(path string) (File, error) {
	return openFile(OpOpen, path, os.O_RDWR)
}

func openFile(op Op, path string, flag int) (File, error) {
	f, err := os.OpenFile(path, flag, filePerm)
	if err != nil {
		return nil, pathError(op, path, err)
	}
	return &osFile{f: f}, nil
}

// Rename is os.Rename.
func (OS) Rename(from, to string) error { return os.Rename(from, to) }

// Remove is os.Remove.
func (OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll is os.RemoveAll.
func (OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// MkdirAll is os.MkdirAll; it takes one call to the system if the parent is there.
func (OS) MkdirAll(path string) error {
	if os.Mkdir(path, dirPerm) == nil {
		return nil
	}
	return pathError(OpMkdirAll, path, os.MkdirAll(path, dirPerm))
}

// ReadDir is os.ReadDir.
func (OS) ReadDir(dir string) ([]fs.DirEntry, error) { return os.ReadDir(dir) }

// Stat is os.Stat.
func (OS) Stat(path string) (fs.FileInfo, error) { return os.Stat(path) }

// SyncDir is fsync of the directory.
func (OS) SyncDir(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return pathError(OpSyncDir, dir, err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// Lock is flock, exclusive and non-blocking.
func (OS) Lock(path string) (Unlocker, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return nil, pathError(OpLock, path, err)
	}
	err = withFd(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(pathError(OpLock, path, err), f.Close())
}

// Usage is statfs: avail is what an ordinary user may take, and total that and what is used; what is reserved for others is in neither, as for
// Java (UtilAll.getDiskPartitionSpaceUsedPercent).
func (OS) Usage(path string) (total, avail int64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Statfs(path, &st) }); err != nil {
		return 0, 0, pathError(OpUsage, path, err)
	}
	unit := blockSize(&st)
	avail = int64(st.Bavail) * unit
	return int64(st.Blocks-st.Bfree)*unit + avail, avail, nil
}

// ReadFile is os.ReadFile.
func (OS) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// WriteFileAtomic replaces path by a file of the given content, durably.
func (o OS) WriteFileAtomic(path string, data []byte) error { return writeFileAtomic(o, path, data) }

// osFile is a File of the kernel.
type osFile struct{ f *os.File }

func (o *osFile) ReadAt(p []byte, off int64) (int, error) { return o.f.ReadAt(p, off) }

func (o *osFile) ReadCached(p []byte, off int64) (int, error) {
	n := 0
	err := withFd(o.f, func(fd int) (err error) {
		n, err = preadCached(fd, p, off)
		return err
	})
	switch {
	case errors.Is(err, unix.EAGAIN):
		return 0, ErrWouldBlock
	case errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL): // this file system cannot tell
		return o.f.ReadAt(p, off)
	case err != nil:
		return 0, pathError(OpReadAt, o.f.Name(), err)
	case n < len(p): // the rest may be on disk, or behind the end
		return n, ErrWouldBlock
	}
	return n, nil
}

func (o *osFile) ReadOnce(p []byte, off int64) (int, error) {
	n := 0
	err := withFd(o.f, func(fd int) (err error) {
		n, err = preadOnce(fd, p, off)
		return err
	})
	if err != nil || n < len(p) { // not every kernel and file system has it, and a read may be short
		m, err := o.ReadAt(p[n:], off+int64(n))
		return n + m, err
	}
	return n, nil
}

func (o *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := o.f.WriteAt(p, off)
	return n, pathError(OpWriteAt, o.f.Name(), err)
}

func (o *osFile) Size() (int64, error) {
	st, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (o *osFile) Truncate(size int64) error {
	return pathError(OpTruncate, o.f.Name(), o.f.Truncate(size))
}

func (o *osFile) Allocate(off, n int64) error {
	return pathError(OpAllocate, o.f.Name(), allocate(o.f, off, n, fallocate))
}

func (o *osFile) SyncData() error {
	return pathError(OpSyncData, o.f.Name(), withFd(o.f, fdatasync))
}

func (o *osFile) Map(size int64) (Mapping, error) {
	have, err := o.Size()
	if err != nil {
		return nil, err
	}
	if size <= 0 || size > have {
		return nil, pathError(OpMap, o.f.Name(), unix.EINVAL)
	}
	m, err := mapFile(o.f, 0, size)
	if err != nil {
		return nil, pathError(OpMap, o.f.Name(), err)
	}
	return m, nil
}

func (o *osFile) DontNeed(off, n int64) {
	_ = withFd(o.f, func(fd int) error { return dontNeed(fd, off, n) }) // Advice: a refusal changes nothing.
}

func (o *osFile) Close() error { return o.f.Close() }

// allocate reserves [off, off+n) with reserve, or writes zeros past the end where reserve is not supported. A call that
// runs out of space may have extended the file part of the way, so every failure cuts it back.
func allocate(f *os.File, off, n int64, reserve func(fd int, off, n int64) error) error {
	if off < 0 || n <= 0 || off > math.MaxInt64-n {
		return unix.EINVAL
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	err = withFd(f, func(fd int) error { return reserve(fd, off, n) })
	if errors.Is(err, errors.ErrUnsupported) {
		err = writeZeros(f, st.Size(), off+n)
	}
	if err != nil {
		return errors.Join(err, f.Truncate(st.Size()))
	}
	return nil
}

func writeZeros(f *os.File, from, to int64) error {
	zeros := make([]byte, 256<<10)
	for from < to {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), to-from)], from)
		if err != nil {
			return err
		}
		from += int64(n)
	}
	return nil
}

// withFd runs f on the descriptor, which cannot be closed meanwhile, again and again while a signal interrupts it.
func withFd(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	if conn.Control(func(fd uintptr) { opErr = retry(func() error { return f(int(fd)) }) }) != nil {
		return fs.ErrClosed // The only reason; package os does not translate it here.
	}
	return opErr
}

// retry repeats a system call that a signal interrupted; the Go runtime sends many.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// pathError gives err the operation and the path once, and makes a full disk or quota match ErrNoSpace.
func pathError(op Op, path string, err error) error {
	if err == nil {
		return nil
	}
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) && pe.Path == path {
		err = pe.Err
	}
	if NoSpace(err) {
		err = &noSpaceError{errno: err}
	}
	return &fs.PathError{Op: string(op), Path: path, Err: err}
}

// NoSpace tells whether err says that a disk or a quota is full, also in the words of the system.
func NoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// Scarce tells whether err says that something is short that may be there again soon: space, descriptors, memory.
func Scarce(err error) bool {
	return NoSpace(err) || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// noSpaceError says in its own words whether the disk or the quota is full, and matches ErrNoSpace.
type noSpaceError struct{ errno error }

func (e *noSpaceError) Error() string   { return e.errno.Error() }
func (e *noSpaceError) Unwrap() []error { return []error{ErrNoSpace, e.errno} }

// writeFileAtomic is WriteFileAtomic in terms of the other methods of fsys.
func writeFileAtomic(fsys FS, path string, data []byte) error {
	temp := path + TempSuffix
	err := writeFile(fsys, temp, data)
	if err == nil {
		err = fsys.Rename(temp, path)
	}
	if err != nil {
		_ = fsys.Remove(temp) // The first error is the one to tell; the next call replaces what is left.
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

func writeFile(fsys FS, path string, data []byte) error {
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil {
		err = f.SyncData()
	}
	return errors.Join(err, f.Close())
}
