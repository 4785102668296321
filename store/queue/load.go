package queue

import (
	"errors"
	"fmt"
	"io"
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
		if len(e.Name()) == 20 && err == nil && base >= 0 && base%UnitSize == 0 {
			first = append(first, base/UnitSize)
		}
	}
	sort.Slice(first, func(i, j int) bool { return first[i] < first[j] })
	return first, nil
}

func (q *Queue) filePath(firstUnit int64) string {
	return filepath.Join(q.dir, fmt.Sprintf("%020d", firstUnit*UnitSize))
}

// load finds the queue's first and last unit in its files. Within a file units are written in order, so the end is found by
// bisection; a last file without units is passed over.
func (q *Queue) load() error {
	files, err := q.set.listFiles(q.dir)
	if err != nil || len(files) == 0 {
		return err
	}
	if err := q.checkFiles(files); err != nil {
		return err
	}
	top := files[0]
	for i := len(files) - 1; i >= 0 && top == files[0]; i-- {
		n, err := q.unitsIn(files[i])
		if err != nil {
			return err
		}
		if n > 0 {
			top = files[i] + n
		}
	}
	q.min.Store(files[0])
	q.max.Store(top)
	q.memBase, q.written, q.synced = top, top, top
	if q.odd {
		return nil
	}
	low, err := q.skipFillers(files[0], top)
	q.min.Store(low)
	return err
}

// checkFiles notes files that this set would not have made.
func (q *Queue) checkFiles(files []int64) error {
	per := q.set.perFile()
	for i, first := range files {
		info, err := q.set.fs.Stat(q.filePath(first))
		if err != nil {
			return err
		}
		if info.Size() != q.set.cfg.FileSize || first%per != 0 || i > 0 && first != files[i-1]+per {
			q.odd = true
		}
	}
	return nil
}

// unitsIn counts the units in a file.
func (q *Queue) unitsIn(first int64) (n int64, err error) {
	f, err := q.set.fs.Open(q.filePath(first))
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	var b [UnitSize]byte
	n = int64(sort.Search(int(size/UnitSize), func(i int) bool {
		if _, e := f.ReadAt(b[:], int64(i)*UnitSize); e != nil && e != io.EOF {
			err = e
		}
		return readUnit(b[:]).Size == 0
	}))
	return n, err
}

// skipFillers returns the first offset in [from, to) that is not a filler's, to if there is none.
func (q *Queue) skipFillers(from, to int64) (int64, error) {
	units := make([]Unit, 1)
	for from < to {
		n, err := q.Read(from, units)
		if err != nil {
			return from, err
		}
		for i, u := range units[:n] {
			if !u.Filler() {
				return min(from+int64(i), to), nil
			}
		}
		from += int64(n)
		if len(units) == 1 {
			units = make([]Unit, 4096)
		}
	}
	return to, nil
}

// Odd tells whether files of a queue are not as this set makes them: of another size, or with one missing. Such queues cannot be
// written to; Reset makes them anew.
func (s *Set) Odd() bool {
	for _, q := range s.All() {
		if q.odd {
			return true
		}
	}
	return false
}

// Truncate drops the units of messages at or above a log offset, in every queue. Their offsets are given again by the messages
// that are dispatched next. Nothing else may use the set meanwhile.
func (s *Set) Truncate(logEnd int64) error {
	for _, q := range s.All() {
		if top := q.Max(); top == q.Min() {
			continue
		} else if last, err := q.At(top - 1); err == nil && last.Size > 0 && !last.Filler() && last.Phy < logEnd {
			continue
		}
		// A unit of size 0 was never written: what a power loss has left of those behind it is worth nothing.
		cut, err := q.Search(func(u Unit) (bool, error) { return u.Size <= 0 || u.Phy >= logEnd, nil })
		if err != nil {
			return fmt.Errorf("consume queue %s: %w", q.key(), err)
		}
		q.Cut(cut)
	}
	return nil
}

// Reset empties every queue, so that all can be dispatched again from the start of the log at logMin. A queue whose last message
// lies below it has expired and keeps its Max. Nothing else may use the set meanwhile.
func (s *Set) Reset(logMin int64) error {
	for _, q := range s.All() {
		top := q.Max()
		var last Unit
		if top > 0 {
			var err error
			if last, err = q.unitOnDisk(top - 1); err != nil {
				return fmt.Errorf("consume queue %s: %w", q.key(), err)
			}
		}
		q.mu.Lock()
		expired := last.Size > 0 && !last.Filler() && last.Phy < logMin
		if expired && q.odd { // written anew in a file of the right size
			q.emptyLocked(top-1, 0)
			q.appendLocked(last)
		}
		if expired {
			q.min.Store(top)
		} else {
			q.emptyLocked(0, 0)
		}
		q.mu.Unlock()
	}
	return nil
}

// unitOnDisk reads a unit from whatever file has it; it is zero if none has.
func (q *Queue) unitOnDisk(offset int64) (u Unit, err error) {
	files, err := q.set.listFiles(q.dir)
	if err != nil {
		return u, err
	}
	i := sort.Search(len(files), func(i int) bool { return files[i] > offset }) - 1
	if i < 0 {
		return u, nil
	}
	f, err := q.set.fs.Open(q.filePath(files[i]))
	if err != nil {
		return u, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var b [UnitSize]byte
	if _, err := f.ReadAt(b[:], (offset-files[i])*UnitSize); err != nil && err != io.EOF {
		return u, err
	}
	return readUnit(b[:]), nil
}
