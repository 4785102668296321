package vfs

import (
	"cmp"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
)

// Mem is a file system in memory, for tests. It keeps apart what a power loss leaves and what it may take away: the data of
// a file since its last SyncData, and the entries of a directory since its last SyncDir. CrashClone shows what could be
// left. Files are sparse and may be mapped; large ones cost the memory of what was written.
//
// Paths start at a root directory, which exists; a relative path is taken from there. Everything is gone when the garbage
// collector takes the Mem, but mappings must be closed.
type Mem struct {
	faulty // asks the hook, then calls disk
	disk   *memDisk
}

var _ FS = (*Mem)(nil)

// NewMem returns an empty file system of 1 TiB that takes modification times from clk. It panics when the system has no
// memory or descriptor for it.
func NewMem(clk clock.Clock) *Mem {
	disk := &memDisk{clock: clk, data: newArena(), capacity: 1 << 40}
	disk.root = disk.newDir()
	return &Mem{faulty: faulty{fs: disk}, disk: disk}
}

// Inject calls hook before every operation from now on; nil ends that.
func (m *Mem) Inject(hook Hook) { m.hook.Store(&hook) }

// SetFree sets the space that is left, in bytes. WriteAt and Allocate take it in blocks of 4 KiB, Truncate, Create and the
// removal of a file that nobody has open give it back. Stores through a mapping are not counted.
func (m *Mem) SetFree(bytes int64) {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.disk.capacity = m.disk.used + bytes
}

// memDisk is the FS of a Mem without the hook.
type memDisk struct {
	clock clock.Clock
	data  *arena

	mu       sync.RWMutex // guards all below, and the inodes
	root     *inode
	pending  []*dirOp // changes of directories that are not durable yet, oldest first
	capacity int64    // bytes
	used     int64    // bytes
}

// inode is a file or a directory. It is guarded by memDisk.mu.
type inode struct {
	modTime time.Time

	// Of a directory. durable is what a power loss leaves.
	entries, durable map[string]*inode

	// Of a file. The content is in the arena from start on; bytes past the size are zero there.
	start            int64
	size, syncedSize int64
	blocks, written  blockSet         // which have space, and of these which may hold something else than zeros
	before           map[int64][]byte // what the blocks that have changed since the last SyncData held then; nil is zeros
	links, opens     int              // entries; files, mappings and locks: at zero of both the space is free
	locked           bool
}

func (i *inode) isDir() bool { return i.entries != nil }

func (d *memDisk) newDir() *inode {
	return &inode{modTime: d.clock.Now(), entries: map[string]*inode{}, durable: map[string]*inode{}}
}

func (d *memDisk) newFile() (*inode, error) {
	start, err := d.data.window()
	if err != nil {
		return nil, err
	}
	return &inode{modTime: d.clock.Now(), start: start, before: map[int64][]byte{}}, nil
}

func (d *memDisk) Create(path string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.createLocked(path)
	if err == nil {
		err = d.truncateLocked(ino, 0)
	}
	if err != nil {
		return nil, pathError(OpCreate, path, err)
	}
	return d.openLocked(ino, path), nil
}

func (d *memDisk) Open(path string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.findFileLocked(path)
	if err != nil {
		return nil, pathError(OpOpen, path, err)
	}
	return d.openLocked(ino, path), nil
}

func (d *memDisk) openLocked(ino *inode, path string) *memFile {
	ino.opens++
	return &memFile{disk: d, ino: ino, path: path}
}

// createLocked returns the file of that path, a new one if there is none.
func (d *memDisk) createLocked(path string) (*inode, error) {
	ino, err := d.findFileLocked(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ino, err
	}
	dir, name, err := d.findParentLocked(path)
	if err != nil {
		return nil, err
	}
	if ino, err = d.newFile(); err != nil {
		return nil, err
	}
	d.changeLocked(ino, edit{dir: dir, name: name, ino: ino})
	return ino, nil
}

func (d *memDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.renameLocked(from, to); err != nil {
		return &os.LinkError{Op: string(OpRename), Old: from, New: to, Err: err}
	}
	return nil
}

func (d *memDisk) renameLocked(from, to string) error {
	ino, err := d.findLocked(from)
	if err != nil {
		return err
	}
	fromDir, fromName, err := d.findParentLocked(from)
	if err != nil {
		return err
	}
	toDir, toName, err := d.findParentLocked(to)
	if err != nil {
		return err
	}
	old := toDir.entries[toName]
	switch {
	case old == ino:
		return nil
	case old != nil && old.isDir():
		return unix.EEXIST
	case old != nil && ino.isDir():
		return unix.ENOTDIR
	case ino.isDir() && d.isBelowLocked(to, ino):
		return unix.EINVAL
	}
	// The new entry comes first, so that the file always has one and keeps its space.
	d.changeLocked(ino, edit{dir: toDir, name: toName, ino: ino}, edit{dir: fromDir, name: fromName})
	return nil
}

func (d *memDisk) Remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.findLocked(path)
	if err == nil && len(ino.entries) > 0 {
		err = unix.ENOTEMPTY
	}
	if err != nil {
		return pathError(OpRemove, path, err)
	}
	return pathError(OpRemove, path, d.unlinkLocked(path))
}

func (d *memDisk) RemoveAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.findLocked(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError(OpRemoveAll, path, err)
	}
	dirs := []*inode{ino}
	for i := 0; i < len(dirs); i++ {
		for _, name := range sortedNames(dirs[i].entries) {
			if child := dirs[i].entries[name]; child.isDir() {
				dirs = append(dirs, child)
			}
		}
	}
	for _, dir := range slices.Backward(dirs) {
		for _, name := range sortedNames(dir.entries) {
			d.changeLocked(dir.entries[name], edit{dir: dir, name: name})
		}
	}
	return pathError(OpRemoveAll, path, d.unlinkLocked(path))
}

func (d *memDisk) unlinkLocked(path string) error {
	dir, name, err := d.findParentLocked(path)
	if err != nil {
		return err
	}
	d.changeLocked(dir.entries[name], edit{dir: dir, name: name})
	return nil
}

func (d *memDisk) MkdirAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := d.root
	for _, name := range splitPath(path) {
		child := dir.entries[name]
		if child == nil {
			child = d.newDir()
			d.changeLocked(child, edit{dir: dir, name: name, ino: child})
		}
		if !child.isDir() {
			return pathError(OpMkdirAll, path, unix.ENOTDIR)
		}
		dir = child
	}
	return nil
}

func (d *memDisk) ReadDir(path string) ([]fs.DirEntry, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	dir, err := d.findDirLocked(path)
	if err != nil {
		return nil, pathError(OpReadDir, path, err)
	}
	list := make([]fs.DirEntry, 0, len(dir.entries))
	for name, ino := range dir.entries {
		list = append(list, fs.FileInfoToDirEntry(ino.info(name)))
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return list, nil
}

func (d *memDisk) Stat(path string) (fs.FileInfo, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	ino, err := d.findLocked(path)
	if err != nil {
		return nil, pathError(OpStat, path, err)
	}
	return ino.info(filepath.Base(path)), nil
}

func (d *memDisk) SyncDir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir, err := d.findDirLocked(path)
	if err != nil {
		return pathError(OpSyncDir, path, err)
	}
	d.pending = slices.DeleteFunc(d.pending, func(op *dirOp) bool { return op.sync(dir) })
	return nil
}

func (d *memDisk) Lock(path string) (Unlocker, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ino, err := d.createLocked(path)
	if err == nil && ino.locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathError(OpLock, path, err)
	}
	ino.locked = true
	return &memLock{file: d.openLocked(ino, path)}, nil
}

// memLock holds the lock of a file.
type memLock struct{ file *memFile }

func (l *memLock) Close() error {
	if err := l.file.Close(); err != nil {
		return err
	}
	l.file.disk.mu.Lock()
	defer l.file.disk.mu.Unlock()
	l.file.ino.locked = false
	return nil
}

func (d *memDisk) Usage(path string) (total, avail int64, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if _, err := d.findLocked(path); err != nil {
		return 0, 0, pathError(OpUsage, path, err)
	}
	return d.capacity, max(0, d.capacity-d.used), nil
}

func (d *memDisk) ReadFile(path string) ([]byte, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	ino, err := d.findFileLocked(path)
	if err != nil {
		return nil, pathError(OpReadFile, path, err)
	}
	if ino.size > math.MaxInt32 {
		return nil, pathError(OpReadFile, path, unix.EFBIG)
	}
	data := make([]byte, ino.size)
	return data, pathError(OpReadFile, path, d.data.read(data, ino.start))
}

func (d *memDisk) WriteFileAtomic(path string, data []byte) error {
	return writeFileAtomic(d, path, data)
}
