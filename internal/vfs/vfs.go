// Package vfs is the seam between the store and the disk: production code uses OS, tests use Mem, which can drop or tear
// unsynced writes (a power loss), fail the nth operation, or run out of space.
//
// It knows nothing of topics or messages. Formats: none of its own.
package vfs

import (
	"errors"
	"io/fs"
)

// ErrNoSpace is returned (wrapped) by Allocate and WriteAt when the disk is full.
var ErrNoSpace = errors.New("no space left on device")

// FS is a file system. Paths are ordinary OS paths. All methods are safe for concurrent use.
type FS interface {
	// Create opens path for reading and writing, truncating what was there.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	Rename(from, to string) error
	Remove(path string) error
	RemoveAll(path string) error
	MkdirAll(path string) error
	// ReadDir lists the names in dir in order; a missing directory is fs.ErrNotExist.
	ReadDir(dir string) ([]fs.DirEntry, error)
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Lock takes an exclusive, non-blocking lock on path (created if missing). It is freed by Close of the returned closer
	// and by the end of the process.
	Lock(path string) (Unlocker, error)
	// Usage tells the partition of path: total and available bytes.
	Usage(path string) (total, avail int64, err error)
	// ReadFile and WriteFileAtomic serve small files. WriteFileAtomic writes a temporary file, syncs it, renames it over
	// path and syncs the directory.
	ReadFile(path string) ([]byte, error)
	WriteFileAtomic(path string, data []byte) error
}

// Unlocker frees a lock.
type Unlocker interface{ Close() error }

// File is one open file.
type File interface {
	ReadAt(p []byte, off int64) (int, error)
	WriteAt(p []byte, off int64) (int, error)
	Size() (int64, error)
	Truncate(size int64) error
	// Allocate reserves real blocks for [off, off+n) and extends the size; the range reads as zeros.
	Allocate(off, n int64) error
	// SyncData makes the file's data durable (fdatasync). After an error nothing is known about unsynced data.
	SyncData() error
	// Map maps [0, size) shared, readable and writable.
	Map(size int64) (Mapping, error)
	// Advise tells the kernel about the range [off, off+n): it may be dropped from the page cache (a cold read went over it).
	DontNeed(off, n int64)
	Close() error
}

// Mapping is a mapped file. Its bytes may be read and written as memory; writes are durable after SyncData of the file.
type Mapping interface {
	// Bytes returns the whole range. The slice dies with Close.
	Bytes() []byte
	// Populate faults [off, off+n) in for writing, so that later stores into it do not fault. Errors are only a loss of speed.
	Populate(off, n int64) error
	Close() error
}
