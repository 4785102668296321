package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
)

// listFiles returns the first units of the files in a queue's folder, in order. Other files are ignored.
func (s *Set) listFiles(dir string) ([]int64, error) {
	entries, err := s.fs.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var first []int64
	for _, e := range entries {
		base, err := strconv.ParseInt(e.Name(), 10, 64)
		if len(e.Name()) == 20 && err == nil && base%UnitSize == 0 {
			first = append(first, base/UnitSize)
		}
	}
	sort.Slice(first, func(i, j int) bool { return first[i] < first[j] })
	return first, nil
}

// load finds the queue's first and last unit in its files. Within a file units are written in order, so the end is found by
// bisection; a last file without units is passed over.
func (q *Queue) load() error {
	files, err := q.set.listFiles(q.dir)
	if err != nil {
		return err
	}
	per := q.set.cfg.FileSize / UnitSize
	top := int64(0)
	for i := len(files) - 1; i >= 0; i-- {
		n, err := q.unitsIn(files[i], per)
		if err != nil {
			return err
		}
		if n > 0 || i == 0 {
			top = files[i] + n
			break
		}
	}
	low := int64(0)
	if len(files) > 0 {
		low = files[0]
	}
	q.max.Store(top)
	q.memBase, q.written, q.synced = top, top, top
	q.min.Store(min(low, top))
	// Fillers at the start of the first file are not messages.
	low, err = q.Search(func(u Unit) (bool, error) { return !u.Filler(), nil })
	q.min.Store(low)
	return err
}

// unitsIn counts the units in a file.
func (q *Queue) unitsIn(first, per int64) (int64, error) {
	path := q.filePath(first)
	f, err := q.set.fs.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	if size == 0 {
		return 0, nil
	}
	if size != q.set.cfg.FileSize {
		return 0, fmt.Errorf("consume queue: %s has %d bytes, mappedFileSizeConsumeQueue is %d: set the size that the store was written with",
			filepath.Clean(path), size, q.set.cfg.FileSize)
	}
	var buf [UnitSize]byte
	n := sort.Search(int(per), func(i int) bool {
		if _, rerr := f.ReadAt(buf[:], int64(i)*UnitSize); rerr != nil {
			err = rerr
		}
		return readUnit(buf[:]).Size == 0
	})
	return int64(n), err
}

// Truncate drops the units of messages at or above a log offset, in every queue, in memory and on disk, and keeps the offsets of
// what was dropped free to be given again by the messages that are dispatched next.
func (s *Set) Truncate(logEnd int64) error {
	var err error
	for _, q := range s.All() {
		if e := q.truncate(logEnd); e != nil {
			err = errors.Join(err, fmt.Errorf("consume queue %s: %w", q.key(), e))
		}
	}
	return err
}

func (q *Queue) truncate(logEnd int64) error {
	top := q.Max()
	if top == q.Min() {
		return nil
	}
	if last, err := q.At(top - 1); err == nil && !last.Filler() && last.Phy < logEnd {
		return nil
	}
	cut, err := q.Search(func(u Unit) (bool, error) { return u.Phy >= logEnd, nil })
	if err != nil {
		return err
	}
	q.mu.Lock()
	written := q.written
	if cut >= q.memBase {
		q.mem = q.mem[:(cut-q.memBase)*UnitSize]
	} else {
		q.mem, q.memBase = q.mem[:0], cut
	}
	q.written = min(q.written, cut)
	q.synced = min(q.synced, cut)
	q.max.Store(cut)
	q.mu.Unlock()
	return q.zero(cut, written)
}

// zero clears the slots [from, to) in the files.
func (q *Queue) zero(from, to int64) error {
	per := q.set.cfg.FileSize / UnitSize
	for from < to {
		first := from / per * per
		n := min(to, first+per) - from
		f, err := q.set.fs.Open(q.filePath(first))
		if err != nil {
			return err
		}
		_, err = f.WriteAt(make([]byte, n*UnitSize), (from-first)*UnitSize)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		from += n
	}
	return nil
}
