package vfs

import (
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// dirOp is one change of directories: a creation, a rename or a removal. A power loss keeps or undoes it as a whole.
type dirOp struct {
	ino   *inode // what was created, renamed or removed
	edits []edit
	done  bool // one of its edits is durable, so it is known to have happened
}

// edit makes name in dir mean ino, or nothing when ino is nil.
type edit struct {
	dir    *inode
	name   string
	ino    *inode
	synced bool
}

func (e *edit) apply(entries map[string]*inode) {
	if e.ino == nil {
		delete(entries, e.name)
	} else {
		entries[e.name] = e.ino
	}
}

// sync makes the edits of dir durable and tells whether all edits of the operation are.
func (op *dirOp) sync(dir *inode) (all bool) {
	all = true
	for i := range op.edits {
		e := &op.edits[i]
		if e.dir == dir && !e.synced {
			e.apply(dir.durable)
			e.synced, op.done = true, true
		}
		all = all && e.synced
	}
	return all
}

// changeLocked performs the edits, in order, and remembers them until their directories are synced.
func (d *memDisk) changeLocked(ino *inode, edits ...edit) {
	for i := range edits {
		e := &edits[i]
		old := e.dir.entries[e.name]
		e.apply(e.dir.entries)
		e.dir.modTime = d.clock.Now()
		if e.ino != nil {
			e.ino.links++
		}
		if old != nil {
			old.links--
			d.freeUnusedLocked(old)
		}
	}
	d.pending = append(d.pending, &dirOp{ino: ino, edits: edits})
}

// splitPath returns the names that lead from the root to path.
func splitPath(path string) []string {
	clean := strings.Trim(filepath.Clean("/"+path), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

func (d *memDisk) findLocked(path string) (*inode, error) {
	return d.walkLocked(splitPath(path))
}

func (d *memDisk) walkLocked(names []string) (*inode, error) {
	ino := d.root
	for _, name := range names {
		if !ino.isDir() {
			return nil, unix.ENOTDIR
		}
		if ino = ino.entries[name]; ino == nil {
			return nil, unix.ENOENT
		}
	}
	return ino, nil
}

func (d *memDisk) findFileLocked(path string) (*inode, error) {
	ino, err := d.findLocked(path)
	if err == nil && ino.isDir() {
		return nil, unix.EISDIR
	}
	return ino, err
}

func (d *memDisk) findDirLocked(path string) (*inode, error) {
	ino, err := d.findLocked(path)
	if err == nil && !ino.isDir() {
		return nil, unix.ENOTDIR
	}
	return ino, err
}

// findParentLocked returns the directory that holds path, or would hold it, and the name there. The root has none.
func (d *memDisk) findParentLocked(path string) (dir *inode, name string, err error) {
	names := splitPath(path)
	if len(names) == 0 {
		return nil, "", unix.EBUSY
	}
	last := len(names) - 1
	if dir, err = d.walkLocked(names[:last]); err != nil {
		return nil, "", err
	}
	if !dir.isDir() {
		return nil, "", unix.ENOTDIR
	}
	return dir, names[last], nil
}

// isBelowLocked tells whether the way to path leads through ino.
func (d *memDisk) isBelowLocked(path string, ino *inode) bool {
	names := splitPath(path)
	for i := range names {
		if on, err := d.walkLocked(names[:i]); err == nil && on == ino {
			return true
		}
	}
	return false
}

func sortedNames(entries map[string]*inode) []string {
	return slices.Sorted(maps.Keys(entries))
}

// memInfo is the FileInfo of an inode at one moment.
type memInfo struct {
	name    string
	size    int64
	mode    fs.FileMode
	modTime time.Time
}

func (i *inode) info(name string) fs.FileInfo {
	mode := fs.FileMode(filePerm)
	if i.isDir() {
		mode = fs.ModeDir | dirPerm
	}
	return memInfo{name: name, size: i.size, mode: mode, modTime: i.modTime}
}

func (m memInfo) Name() string       { return m.name }
func (m memInfo) Size() int64        { return m.size }
func (m memInfo) Mode() fs.FileMode  { return m.mode }
func (m memInfo) ModTime() time.Time { return m.modTime }
func (m memInfo) IsDir() bool        { return m.mode.IsDir() }
func (m memInfo) Sys() any           { return nil }
