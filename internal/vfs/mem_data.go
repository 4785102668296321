package vfs

import (
	"fmt"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

const (
	maxMemFile = 1 << 40 // bytes
	memBlock   = 4096    // bytes; the unit of space
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

// window returns the start of a fresh window of maxMemFile bytes of zeros. The caller locks.
func (a *arena) window() (int64, error) {
	if a.next > arenaSize-maxMemFile {
		return 0, unix.ENOSPC
	}
	a.next += maxMemFile
	return a.next - maxMemFile, nil
}

func (a *arena) read(p []byte, at int64) error {
	_, err := a.file.ReadAt(p, at)
	return err
}

func (a *arena) write(p []byte, at int64) error {
	_, err := a.file.WriteAt(p, at)
	return err
}

// blockSet is a set of the blocks of a file, by index.
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
