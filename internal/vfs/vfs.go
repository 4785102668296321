// Package vfs is the seam between the store and the disk: production code uses OS, tests use Mem, which can drop or tear
// unsynced writes (a power loss), fail the nth operation, or run out of space.
//
// It knows nothing of topics or messages. Formats: none of its own. It starts no goroutines. The contract is in vfs.go;
// os.go is the machine, mem.go the disk of tests, mem_crash.go the power loss, faulty.go the injection of errors.
package vfs

import (
	"errors"
	"io/fs"
)

// ErrNoSpace is returned (wrapped) by Allocate and WriteAt when the disk or the quota is full.
var ErrNoSpace = errors.New("no space left on device")

// ErrLocked is returned (wrapped) by Lock when somebody else, maybe in this process, holds the lock.
var ErrLocked = errors.New("locked by another owner")

// ErrWouldBlock is returned by ReadCached when the bytes are on disk only.
var ErrWouldBlock = errors.New("the bytes are not in memory")

// FS is a file system. Paths are ordinary OS paths. All methods are safe for concurrent use. Errors carry the operation and
// the path (fs.PathError or os.LinkError) and match fs.ErrNotExist, fs.ErrExist and the errno of the kernel.
type FS interface {
	// Create opens path for reading and writing, truncating what was there.
	Create(path string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(path string) (File, error)
	// Rename moves a file or a directory and replaces the file that to names; it is atomic. It does not replace a directory.
	Rename(from, to string) error
	// Remove removes a file or an empty directory.
	Remove(path string) error
	// RemoveAll removes path and all below it; it is no error that path is missing.
	RemoveAll(path string) error
	// MkdirAll creates the directory and its parents; it is no error that they exist.
	MkdirAll(path string) error
	// ReadDir lists the names in dir in order; a missing directory is fs.ErrNotExist.
	ReadDir(dir string) ([]fs.DirEntry, error)
	// Stat tells size, modification time and kind.
	Stat(path string) (fs.FileInfo, error)
	// SyncDir makes creations, renames and removals in dir durable. The entry of dir itself is its parent's to sync.
	SyncDir(dir string) error
	// Lock takes an exclusive, non-blocking lock on path (created if missing). It is freed by Close of the returned closer
	// and by the end of the process.
	Lock(path string) (Unlocker, error)
	// Usage tells the partition of path: total and available bytes.
	Usage(path string) (total, avail int64, err error)
	// ReadFile and WriteFileAtomic serve small files. WriteFileAtomic writes a temporary file (path + TempSuffix), syncs it,
	// renames it over path and syncs the directory. Two calls for one path must not overlap.
	ReadFile(path string) ([]byte, error)
	WriteFileAtomic(path string, data []byte) error
}

// TempSuffix ends the name of the temporary file of WriteFileAtomic. A crash may leave such a file; the next call for the
// same path replaces it.
const TempSuffix = ".tmp"

// Unlocker frees a lock.
type Unlocker interface{ Close() error }

// File is one open file. All methods are safe for concurrent use; after Close they fail with fs.ErrClosed.
type File interface {
	// ReadAt fills p unless the file ends first (io.EOF).
	ReadAt(p []byte, off int64) (int, error)
	// ReadCached is ReadAt for a caller that may not wait for the disk: ErrWouldBlock if not all of the bytes are in memory.
	ReadCached(p []byte, off int64) (int, error)
	// ReadOnce is ReadAt for bytes that are not wanted again: what was not in memory is not kept there, where the kernel knows how.
	ReadOnce(p []byte, off int64) (int, error)
	// WriteAt writes all of p or tells how much of it, and why not the rest.
	WriteAt(p []byte, off int64) (int, error)
	Size() (int64, error)
	// Truncate sets the size. It must not cut below a live mapping: touching that part then kills the process.
	Truncate(size int64) error
	// Allocate reserves real blocks for [off, off+n) and extends the size. What was written in the range stays, the rest
	// reads as zeros. After an error the size is what it was, so it must not run together with another call that changes
	// the size. A file system that cannot reserve gets zeros written past the old size instead.
	Allocate(off, n int64) error
	// SyncData makes the file's data durable (fdatasync). After an error nothing is known about unsynced data.
	SyncData() error
	// Map maps [0, size) for reading; it shows what is written later. The file must be at least that long. A mapping outlives
	// the Close of its file.
	Map(size int64) (Mapping, error)
	// DontNeed tells the kernel that [off, off+n) may be dropped from the page cache (a cold read went over it).
	DontNeed(off, n int64)
	Close() error
}

// Mapping is a mapped file. A store into its bytes kills the process: nothing gets into a file by mistake.
type Mapping interface {
	// Bytes returns the whole range. The slice dies with Close.
	Bytes() []byte
	// Close unmaps. The caller proves that nobody uses the bytes any more: touching them then kills the process.
	Close() error
}
