package vfs

import (
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// memFile is an open file of a Mem.
type memFile struct {
	disk   *memDisk
	ino    *inode
	path   string
	closed bool // guarded by disk.mu
}

// checkLocked refuses a closed file and a range that no file can have.
func (f *memFile) checkLocked(off, n int64) error {
	switch {
	case f.closed:
		return fs.ErrClosed
	case off < 0 || n < 0:
		return unix.EINVAL
	case off > maxMemFile || n > maxMemFile-off:
		return unix.EFBIG
	}
	return nil
}

// ReadCached is ReadAt: everything is in memory.
func (f *memFile) ReadCached(p []byte, off int64) (int, error) { return f.ReadAt(p, off) }

// ReadOnce is ReadAt, too.
func (f *memFile) ReadOnce(p []byte, off int64) (int, error) { return f.ReadAt(p, off) }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	if err := f.checkLocked(off, 0); err != nil {
		return 0, pathError(OpReadAt, f.path, err)
	}
	n := max(0, min(int64(len(p)), f.ino.size-off))
	if err := f.disk.data.read(p[:n], f.ino.start+off); err != nil {
		return 0, pathError(OpReadAt, f.path, err)
	}
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.checkLocked(off, int64(len(p))); err != nil {
		return 0, pathError(OpWriteAt, f.path, err)
	}
	n := f.disk.reserveLocked(f.ino, off, int64(len(p)))
	if n > 0 {
		if err := f.disk.writeLocked(f.ino, p[:n], off); err != nil {
			return 0, pathError(OpWriteAt, f.path, err)
		}
		f.ino.size = max(f.ino.size, off+n)
		f.ino.modTime = f.disk.clock.Now()
	}
	if n < int64(len(p)) {
		return int(n), pathError(OpWriteAt, f.path, unix.ENOSPC)
	}
	return int(n), nil
}

func (f *memFile) Size() (int64, error) {
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	if err := f.checkLocked(0, 0); err != nil {
		return 0, pathError(OpSize, f.path, err)
	}
	return f.ino.size, nil
}

func (f *memFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.checkLocked(0, size)
	if err == nil {
		err = f.disk.truncateLocked(f.ino, size)
	}
	return pathError(OpTruncate, f.path, err)
}

func (f *memFile) Allocate(off, n int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.checkLocked(off, n)
	if err == nil && n == 0 {
		err = unix.EINVAL
	}
	if err == nil {
		err = f.disk.allocateLocked(f.ino, off, n)
	}
	return pathError(OpAllocate, f.path, err)
}

func (f *memFile) SyncData() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.checkLocked(0, 0); err != nil {
		return pathError(OpSyncData, f.path, err)
	}
	clear(f.ino.before)
	f.ino.syncedSize = f.ino.size
	return nil
}

func (f *memFile) Map(size int64) (Mapping, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	err := f.checkLocked(0, size)
	if err == nil && (size == 0 || size > f.ino.size) {
		err = unix.EINVAL
	}
	if err != nil {
		return nil, pathError(OpMap, f.path, err)
	}
	m, err := mapFile(f.disk.data.file, f.ino.start, size)
	if err != nil {
		return nil, pathError(OpMap, f.path, err)
	}
	f.ino.opens++
	return &memMapping{mapping: m, disk: f.disk, ino: f.ino}, nil
}

// DontNeed does nothing: memory is the medium here.
func (f *memFile) DontNeed(int64, int64) {}

func (f *memFile) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.checkLocked(0, 0); err != nil {
		return pathError(OpClose, f.path, err)
	}
	f.closed = true
	f.ino.opens--
	f.disk.freeUnusedLocked(f.ino)
	return nil
}

// memMapping maps the content of a file.
type memMapping struct {
	*mapping
	disk *memDisk
	ino  *inode
}

func (m *memMapping) Close() error {
	if err := m.mapping.Close(); err != nil {
		return err
	}
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.ino.opens--
	m.disk.freeUnusedLocked(m.ino)
	return nil
}

// writeLocked changes the content. The range has space.
func (d *memDisk) writeLocked(ino *inode, p []byte, off int64) error {
	if err := d.keepLocked(ino, off, int64(len(p))); err != nil {
		return err
	}
	for i := off / memBlock; i*memBlock < off+int64(len(p)); i++ {
		ino.written.set(i)
	}
	return d.data.write(p, ino.start+off)
}

// keepLocked keeps what a power loss may leave of [off, off+n), before it changes.
func (d *memDisk) keepLocked(ino *inode, off, n int64) error {
	for i := off / memBlock; i*memBlock < off+n; i++ {
		if _, kept := ino.before[i]; kept {
			continue
		}
		if !ino.written.has(i) {
			ino.before[i] = nil
			continue
		}
		block := make([]byte, memBlock)
		if err := d.data.read(block, ino.start+i*memBlock); err != nil {
			return err
		}
		ino.before[i] = block
	}
	return nil
}

func (d *memDisk) truncateLocked(ino *inode, size int64) error {
	if size < ino.size {
		if err := d.keepLocked(ino, size, ino.size-size); err != nil {
			return err
		}
		if err := punch(d.data.file, ino.start+size, ino.size-size); err != nil {
			return err
		}
		gone := (size + memBlock - 1) / memBlock
		d.used -= memBlock * ino.blocks.clearFrom(gone)
		ino.written.clearFrom(gone)
	}
	ino.size = size
	ino.modTime = d.clock.Now()
	return nil
}

func (d *memDisk) allocateLocked(ino *inode, off, n int64) error {
	missing := int64(0)
	for i := off / memBlock; i*memBlock < off+n; i++ {
		if !ino.blocks.has(i) {
			missing++
		}
	}
	if missing*memBlock > d.capacity-d.used {
		return unix.ENOSPC
	}
	d.reserveLocked(ino, off, n)
	ino.size = max(ino.size, off+n)
	ino.modTime = d.clock.Now()
	return nil
}

// reserveLocked takes a block for every part of [off, off+n) that has none, and returns for how many bytes it could.
func (d *memDisk) reserveLocked(ino *inode, off, n int64) int64 {
	for i := off / memBlock; n > 0 && i*memBlock < off+n; i++ {
		if ino.blocks.has(i) {
			continue
		}
		if memBlock > d.capacity-d.used {
			return max(0, i*memBlock-off)
		}
		ino.blocks.set(i)
		d.used += memBlock
	}
	return n
}

// freeUnusedLocked gives the space of a file back that has no name and is not open. Its bytes stay: a power loss may
// undo the removal.
func (d *memDisk) freeUnusedLocked(ino *inode) {
	if ino.links == 0 && ino.opens == 0 {
		d.used -= memBlock * ino.blocks.clearFrom(0)
	}
}
