package vfs

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// CrashMode tells what a crash leaves of the changes that are not synced.
type CrashMode int

// Synced changes stay in every mode.
const (
	// CrashKeep keeps all: the process was killed, the machine runs on.
	CrashKeep CrashMode = iota
	// CrashDrop loses all.
	CrashDrop
	// CrashMix keeps or loses each sector of 512 bytes, each change of a file's size and each change of a directory.
	CrashMix
	// CrashTear is CrashMix where a sector may also hold the first bytes of its new content and the last bytes of its old
	// one, or the reverse.
	CrashTear
)

const sectorSize = 512

// CrashClone returns the file system as it could look after a power loss at this moment; m goes on unharmed. What the
// clone holds counts as synced. It has no hook, no lock is held in it, and its capacity is that of m. The same rng gives
// the same clone; CrashKeep and CrashDrop draw nothing, so rng may be nil there.
//
// A rename happens or not as a whole. A change of a directory is lost when an earlier one of the same name or of the same
// file is, as it is in a file system with a journal; otherwise they are kept and lost in any combination.
func (m *Mem) CrashClone(rng *rand.Rand, mode CrashMode) *Mem {
	clone := NewMem(m.disk.clock)
	m.disk.mu.RLock()
	defer m.disk.mu.RUnlock()
	clone.disk.capacity = m.disk.capacity
	c := &crash{rng: rng, mode: mode, from: m.disk, to: clone.disk, dirs: map[*inode]map[string]*inode{}}
	c.replay()
	if err := c.copyTree(); err != nil {
		panic(fmt.Sprintf("vfs: crash clone: %v", err))
	}
	return clone
}

// crash is one CrashClone under way.
type crash struct {
	rng      *rand.Rand
	mode     CrashMode
	from, to *memDisk
	dirs     map[*inode]map[string]*inode // what the power loss leaves of directories with changes
}

// coin tells whether one unsynced change is kept.
func (c *crash) coin() bool {
	switch c.mode {
	case CrashKeep:
		return true
	case CrashDrop:
		return false
	default:
		return c.rng.IntN(2) == 0
	}
}

// place is a name in a directory.
type place struct {
	dir  *inode
	name string
}

// replay decides about each change of a directory and applies those that are kept to the durable entries.
func (c *crash) replay() {
	lostInodes, lostPlaces := map[*inode]bool{}, map[place]bool{}
	for _, op := range c.from.pending {
		keep := !lostInodes[op.ino]
		for _, e := range op.edits {
			keep = keep && !lostInodes[e.dir] && !lostPlaces[place{e.dir, e.name}]
		}
		keep = op.done || keep && c.coin()
		lostInodes[op.ino] = !keep
		for _, e := range op.edits {
			lostPlaces[place{e.dir, e.name}] = !keep
			if keep && !e.synced {
				e.apply(c.entries(e.dir))
			}
		}
	}
}

// entries returns what is left of a directory so far.
func (c *crash) entries(dir *inode) map[string]*inode {
	if c.dirs[dir] == nil {
		c.dirs[dir] = maps.Clone(dir.durable)
	}
	return c.dirs[dir]
}

// copyTree copies what can be reached from the root, in the order of names.
func (c *crash) copyTree() error {
	twins := map[*inode]*inode{c.from.root: c.to.root}
	dirs := []*inode{c.from.root}
	for i := 0; i < len(dirs); i++ {
		entries, twinDir := c.entries(dirs[i]), twins[dirs[i]]
		for _, name := range sortedNames(entries) {
			ino := entries[name]
			if twins[ino] == nil {
				twin, err := c.copyInode(ino)
				if err != nil {
					return err
				}
				twins[ino] = twin
				if ino.isDir() {
					dirs = append(dirs, ino)
				}
			}
			twins[ino].links++
			twinDir.entries[name], twinDir.durable[name] = twins[ino], twins[ino]
		}
	}
	return nil
}

func (c *crash) copyInode(ino *inode) (*inode, error) {
	if ino.isDir() {
		twin := c.to.newDir()
		twin.modTime = ino.modTime
		return twin, nil
	}
	twin, err := c.to.newFile()
	if err != nil {
		return nil, err
	}
	size := c.size(ino)
	twin.modTime, twin.size, twin.syncedSize = ino.modTime, size, size
	now := make([]byte, memBlock)
	for i := int64(0); i*memBlock < size; i++ {
		before, changed := ino.before[i]
		zeros := !ino.written.has(i) && before == nil
		if zeros && !ino.blocks.has(i) {
			continue
		}
		twin.blocks.set(i)
		c.to.used += memBlock
		if zeros {
			continue
		}
		n := min(memBlock, size-i*memBlock)
		if err := c.from.data.read(now, ino.start+i*memBlock); err != nil {
			return nil, err
		}
		left := now[:n]
		if changed {
			left = make([]byte, n)
			copy(left, before)
			c.mix(now[:n], left)
		}
		twin.written.set(i)
		if err := c.to.data.write(left, twin.start+i*memBlock); err != nil {
			return nil, err
		}
	}
	return twin, nil
}

// size decides about the size of a file. One that grew may be cut anywhere in what was added.
func (c *crash) size(ino *inode) int64 {
	switch {
	case ino.size == ino.syncedSize || c.coin():
		return ino.size
	case c.mode == CrashDrop || ino.size < ino.syncedSize || c.rng.IntN(2) == 0:
		return ino.syncedSize
	}
	size := ino.syncedSize + c.rng.Int64N(ino.size-ino.syncedSize)
	if c.mode == CrashMix {
		size = max(ino.syncedSize, size-size%sectorSize)
	}
	return size
}

// mix brings those sectors of now into before that are kept.
func (c *crash) mix(now, before []byte) {
	for off := 0; off < len(now); off += sectorSize {
		end := min(off+sectorSize, len(now))
		from, to := now[off:end], before[off:end]
		switch {
		case string(from) == string(to):
		case c.mode == CrashTear && c.rng.IntN(3) == 0:
			cut := c.rng.IntN(len(from))
			if c.coin() {
				copy(to[:cut], from)
			} else {
				copy(to[cut:], from[cut:])
			}
		case c.coin():
			copy(to, from)
		}
	}
}
