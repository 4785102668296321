package vfs

import (
	"errors"
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

const (
	maxMemFile = 1 << 40 // bytes
	memBlock   = 4096    // bytes; the unit of space
	chunkSize  = 64 << 10
	arenaSize  = 1 << 62
)

// arena is one sparse file without a name that holds the contents of all files of a Mem, each in a window of its own. A
// window can be mapped as one slice and costs the memory of the pages that were written.
type arena struct {
	file *os.File // closed when the garbage collector takes it
	next int64
}

func newArena() *arena {
	file, err := newMemoryFile()
	if err == nil {
		err = file.Truncate(arenaSize)
	}
	if err != nil {
		panic(fmt.Sprintf("vfs: no memory file: %v", err))
	}
	return &arena{file: file}
}

// windows returns the starts of two fresh windows of maxMemFile bytes of zeros. The caller locks.
func (a *arena) windows() (first, second int64, err error) {
	if a.next > arenaSize-2*maxMemFile {
		return 0, 0, unix.ENOSPC
	}
	a.next += 2 * maxMemFile
	return a.next - 2*maxMemFile, a.next - maxMemFile, nil
}

func (a *arena) read(p []byte, at int64) error {
	_, err := a.file.ReadAt(p, at)
	return err
}

func (a *arena) write(p []byte, at int64) error {
	_, err := a.file.WriteAt(p, at)
	return err
}

// chunks calls f with the pieces of the windows x and y, up to size, that hold data in one of them; what is left out is
// zero in both. A piece starts at a multiple of the page size. f may change the slices but not keep them.
func (a *arena) chunks(x, y, size int64, f func(off int64, inX, inY []byte) error) error {
	bufX, bufY := make([]byte, min(chunkSize, size)), make([]byte, min(chunkSize, size))
	for off := int64(0); off < size; {
		inX, errX := a.nextIn(x, off, size)
		inY, errY := a.nextIn(y, off, size)
		if err := errors.Join(errX, errY); err != nil {
			return err
		}
		if off = min(inX, inY); off >= size {
			return nil
		}
		n := min(chunkSize, size-off)
		if err := errors.Join(a.read(bufX[:n], x+off), a.read(bufY[:n], y+off)); err != nil {
			return err
		}
		if err := f(off, bufX[:n], bufY[:n]); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// nextIn returns the offset in the window of the first data at or after off, or size.
func (a *arena) nextIn(window, off, size int64) (int64, error) {
	at, err := nextData(a.file, window+off)
	if errors.Is(err, unix.ENXIO) {
		return size, nil
	}
	return min(at-window, size), err
}

// blockSet is the set of the blocks of a file that have space, by index.
type blockSet []uint64

func (b blockSet) has(i int64) bool {
	return i/64 < int64(len(b)) && b[i/64]&(1<<(i%64)) != 0
}

func (b *blockSet) set(i int64) {
	if need := i/64 + 1 - int64(len(*b)); need > 0 {
		*b = append(*b, make([]uint64, need)...)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// clearFrom removes i and all above and returns how many were in the set.
func (b *blockSet) clearFrom(i int64) (cleared int64) {
	keep := min(i/64, int64(len(*b)))
	for j, word := range (*b)[keep:] {
		gone := word
		if j == 0 && keep == i/64 {
			gone &= ^uint64(0) << (i % 64)
			(*b)[keep] &^= gone
		}
		cleared += int64(bits.OnesCount64(gone))
	}
	*b = (*b)[:min(keep+1, int64(len(*b)))]
	return cleared
}
