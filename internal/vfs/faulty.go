package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
)

// Op names an operation of FS, File or Mapping for a Hook.
type Op string

// The operations that a Hook sees. WriteFileAtomic is seen as the operations that it consists of.
const (
	OpCreate    Op = "create"
	OpOpen      Op = "open"
	OpRename    Op = "rename"
	OpRemove    Op = "remove"
	OpRemoveAll Op = "remove all"
	OpMkdirAll  Op = "mkdir"
	OpReadDir   Op = "read dir"
	OpStat      Op = "stat"
	OpSyncDir   Op = "sync dir"
	OpLock      Op = "lock"
	OpUsage     Op = "usage"
	OpReadFile  Op = "read file"

	OpReadAt   Op = "read"
	OpWriteAt  Op = "write"
	OpSize     Op = "size"
	OpTruncate Op = "truncate"
	OpAllocate Op = "allocate"
	OpSyncData Op = "sync data"
	OpMap      Op = "map"
	OpClose    Op = "close"
)

// Hook is called before an operation, without any lock held, maybe by several goroutines at once. An error is returned
// from the operation, wrapped, and the operation does not take place; only a close does. path is the new name for
// OpRename and the path the file was opened by for the operations of a file. off and n are the range, where there is
// one; for OpTruncate and OpMap n is the size.
type Hook func(op Op, path string, off, n int64) error

// ShortWrite is returned by a Hook for OpWriteAt to let the first N bytes through before the write fails with Err.
type ShortWrite struct {
	N   int
	Err error
}

func (e *ShortWrite) Error() string { return fmt.Sprintf("short write after %d bytes: %v", e.N, e.Err) }

// Unwrap returns Err.
func (e *ShortWrite) Unwrap() error { return e.Err }

// Faulty returns fsys with hook called before every operation, also those of the files that it opens.
func Faulty(fsys FS, hook Hook) FS {
	f := &faulty{fs: fsys}
	f.hook.Store(&hook)
	return f
}

// faulty is an FS that asks a hook first.
type faulty struct {
	fs   FS
	hook atomic.Pointer[Hook]
}

// check asks the hook.
func (f *faulty) check(op Op, path string, off, n int64) error {
	hook := f.hook.Load()
	if hook == nil || *hook == nil {
		return nil
	}
	if err := (*hook)(op, path, off, n); err != nil {
		return &fs.PathError{Op: string(op), Path: path, Err: err}
	}
	return nil
}

func (f *faulty) Create(path string) (File, error) {
	return f.file(OpCreate, path, f.fs.Create)
}

func (f *faulty) Open(path string) (File, error) {
	return f.file(OpOpen, path, f.fs.Open)
}

func (f *faulty) file(op Op, path string, open func(string) (File, error)) (File, error) {
	if err := f.check(op, path, 0, 0); err != nil {
		return nil, err
	}
	inner, err := open(path)
	if err != nil {
		return nil, err
	}
	return &faultyFile{fs: f, file: inner, path: path}, nil
}

func (f *faulty) Rename(from, to string) error {
	if err := f.check(OpRename, to, 0, 0); err != nil {
		return err
	}
	return f.fs.Rename(from, to)
}

func (f *faulty) Remove(path string) error {
	if err := f.check(OpRemove, path, 0, 0); err != nil {
		return err
	}
	return f.fs.Remove(path)
}

func (f *faulty) RemoveAll(path string) error {
	if err := f.check(OpRemoveAll, path, 0, 0); err != nil {
		return err
	}
	return f.fs.RemoveAll(path)
}

func (f *faulty) MkdirAll(path string) error {
	if err := f.check(OpMkdirAll, path, 0, 0); err != nil {
		return err
	}
	return f.fs.MkdirAll(path)
}

func (f *faulty) ReadDir(dir string) ([]fs.DirEntry, error) {
	if err := f.check(OpReadDir, dir, 0, 0); err != nil {
		return nil, err
	}
	return f.fs.ReadDir(dir)
}

func (f *faulty) Stat(path string) (fs.FileInfo, error) {
	if err := f.check(OpStat, path, 0, 0); err != nil {
		return nil, err
	}
	return f.fs.Stat(path)
}

func (f *faulty) SyncDir(dir string) error {
	if err := f.check(OpSyncDir, dir, 0, 0); err != nil {
		return err
	}
	return f.fs.SyncDir(dir)
}

func (f *faulty) Lock(path string) (Unlocker, error) {
	if err := f.check(OpLock, path, 0, 0); err != nil {
		return nil, err
	}
	return f.fs.Lock(path)
}

func (f *faulty) Usage(path string) (total, avail int64, err error) {
	if err := f.check(OpUsage, path, 0, 0); err != nil {
		return 0, 0, err
	}
	return f.fs.Usage(path)
}

func (f *faulty) ReadFile(path string) ([]byte, error) {
	if err := f.check(OpReadFile, path, 0, 0); err != nil {
		return nil, err
	}
	return f.fs.ReadFile(path)
}

func (f *faulty) WriteFileAtomic(path string, data []byte) error {
	return writeFileAtomic(f, path, data)
}

// faultyFile is a File that asks the hook first.
type faultyFile struct {
	fs   *faulty
	file File
	path string
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.check(OpReadAt, f.path, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.file.ReadAt(p, off)
}

func (f *faultyFile) ReadCached(p []byte, off int64) (int, error) {
	if err := f.fs.check(OpReadAt, f.path, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.file.ReadCached(p, off)
}

func (f *faultyFile) ReadOnce(p []byte, off int64) (int, error) {
	if err := f.fs.check(OpReadAt, f.path, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.file.ReadOnce(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.fs.check(OpWriteAt, f.path, off, int64(len(p)))
	if err == nil {
		return f.file.WriteAt(p, off)
	}
	short := (*ShortWrite)(nil)
	if !errors.As(err, &short) {
		return 0, err
	}
	n, realErr := f.file.WriteAt(p[:min(max(short.N, 0), len(p))], off)
	if realErr != nil {
		return n, realErr
	}
	return n, err
}

func (f *faultyFile) Size() (int64, error) {
	if err := f.fs.check(OpSize, f.path, 0, 0); err != nil {
		return 0, err
	}
	return f.file.Size()
}

func (f *faultyFile) Truncate(size int64) error {
	if err := f.fs.check(OpTruncate, f.path, 0, size); err != nil {
		return err
	}
	return f.file.Truncate(size)
}

func (f *faultyFile) Allocate(off, n int64) error {
	if err := f.fs.check(OpAllocate, f.path, off, n); err != nil {
		return err
	}
	return f.file.Allocate(off, n)
}

func (f *faultyFile) SyncData() error {
	if err := f.fs.check(OpSyncData, f.path, 0, 0); err != nil {
		return err
	}
	return f.file.SyncData()
}

func (f *faultyFile) Map(size int64) (Mapping, error) {
	if err := f.fs.check(OpMap, f.path, 0, size); err != nil {
		return nil, err
	}
	return f.file.Map(size)
}

func (f *faultyFile) DontNeed(off, n int64) { f.file.DontNeed(off, n) }

func (f *faultyFile) Close() error {
	err := f.fs.check(OpClose, f.path, 0, 0)
	if closeErr := f.file.Close(); closeErr != nil {
		return closeErr
	}
	return err
}
