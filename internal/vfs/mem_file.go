package vfs

import (
	"bytes"
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
	if err := f.disk.data.read(p[:n], f.ino.volatile+off); err != nil {
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
		if err := f.disk.data.write(p[:n], f.ino.volatile+off); err != nil {
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
	err := f.checkLocked(0, 0)
	if err == nil {
		err = f.disk.syncLocked(f.ino)
	}
	return pathError(OpSyncData, f.path, err)
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
	m, err := mapFile(f.disk.data.file, f.ino.volatile, size)
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

// memMapping maps the content of a file, so stores are seen by ReadAt and other mappings at once.
type memMapping struct {
	*mapping
	disk *memDisk
	ino  *inode
}

// Populate only checks the range: memory that nobody stores into shall cost nothing.
func (m *memMapping) Populate(off, n int64) error {
	_, _, err := m.pages(off, n)
	return err
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

// syncLocked makes the content durable. Stores through mappings leave no trace, so all data is compared.
func (d *memDisk) syncLocked(ino *inode) error {
	err := d.data.chunks(ino.volatile, ino.synced, max(ino.size, ino.syncedSize), func(off int64, now, synced []byte) error {
		if bytes.Equal(now, synced) {
			return nil
		}
		return d.data.write(now, ino.synced+off)
	})
	if err == nil {
		ino.syncedSize = ino.size
	}
	return err
}

func (d *memDisk) truncateLocked(ino *inode, size int64) error {
	if size < ino.size {
		if err := punch(d.data.file, ino.volatile+size, ino.size-size); err != nil {
			return err
		}
		d.used -= memBlock * ino.blocks.clearFrom((size+memBlock-1)/memBlock)
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
