package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/castor-mq/castor/internal/vfs"
)

const (
	// memoryUnits is how many written units may stay in memory for readers, of all queues together.
	memoryUnits = 1 << 19
	// minKeep is how many of them each queue keeps in any case.
	minKeep = 4 * chunkUnits
	// flushUnits is how many units one write moves.
	flushUnits = 64 * chunkUnits
)

// Flush writes what is pending in every queue. With sync it also makes everything durable that was written so far, directories
// included. What fails stays pending.
//
// The files of a deleted topic go only when the record that deletes it is durable: durable is the end of the log that is. If such a
// queue has to wait, the units that it had are not in its files: complete is false.
func (s *Set) Flush(sync bool, durable int64) (complete bool, err error) {
	s.io.Lock()
	defer s.io.Unlock()
	s.dirtyMu.Lock()
	dirty := s.dirty
	s.dirty = nil
	s.dirtyMu.Unlock()
	for _, q := range dirty {
		s.touched[q] = struct{}{}
	}
	keep := max(minKeep, memoryUnits/max(1, len(s.touched)))
	complete = true
	for _, q := range dirty {
		done, e := q.flush(keep, durable)
		complete = complete && done
		if e != nil {
			err = errors.Join(err, fmt.Errorf("consume queue %s: %w", q.key(), e))
		}
		if e != nil || !done {
			q.mu.Lock()
			q.markLocked()
			q.mu.Unlock()
		}
	}
	if sync && err == nil {
		err = s.sync()
	}
	return complete && err == nil, err
}

// sync makes durable what has been written.
func (s *Set) sync() error {
	for q := range s.touched {
		if err := q.sync(); err != nil {
			return fmt.Errorf("consume queue %s: %w", q.key(), err)
		}
	}
	for dir := range s.changed {
		if err := s.fs.SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(s.changed, dir)
	}
	for q := range s.touched {
		if q.idle() {
			delete(s.touched, q)
		}
	}
	return nil
}

// flush brings the files up to what the queue was when it is called, and keeps about keep written units in memory. It is not done
// if the files of a former life must stay for now.
func (q *Queue) flush(keep int, durable int64) (done bool, err error) {
	q.mu.Lock()
	q.dirty = false
	to, life := q.max.Load(), q.life
	wait := q.wipe && q.wipeAt > durable
	q.mu.Unlock()
	if wait {
		return false, nil
	}
	if err := q.clean(); err != nil {
		return false, err
	}
	for {
		q.mu.Lock()
		from := q.written
		if q.life != life {
			q.mu.Unlock()
			return false, nil
		}
		if from >= min(to, q.max.Load()) {
			q.trimLocked(keep)
			q.mu.Unlock()
			return true, nil
		}
		b := q.copyLocked(from, min(to, from+flushUnits))
		q.mu.Unlock()
		if err := q.writeUnits(from, b); err != nil {
			return false, err
		}
		q.mu.Lock()
		if q.life == life {
			q.written = min(from+int64(len(b)/UnitSize), q.max.Load())
		}
		q.mu.Unlock()
	}
}

// clean removes from the files what is no longer the queue's.
func (q *Queue) clean() error {
	q.mu.Lock()
	wipe, from, stale, life := q.wipe, q.written, q.stale, q.life
	q.wipe, q.stale = false, 0
	q.mu.Unlock()
	var err error
	if wipe {
		err = q.removeAll()
	} else if stale > from {
		err = q.zero(from, stale)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.life != life:
	case err != nil:
		q.wipe, q.stale = wipe, max(q.stale, stale)
	case wipe:
		q.wipeAt = 0 // the log may go on below it: see Store.Reset
	}
	return err
}

// removeAll deletes the queue's folder, and that of a topic that was deleted.
func (q *Queue) removeAll() error {
	topic := filepath.Dir(q.dir)
	if err := q.set.fs.RemoveAll(q.dir); err != nil {
		return err
	}
	q.set.changed[topic] = struct{}{}
	if q.set.Topic(q.Topic) == nil {
		_ = q.set.fs.Remove(topic) // Fails while another queue of it is left.
		q.set.changed[q.set.cfg.Dir] = struct{}{}
	}
	return nil
}

// copyLocked returns the units [from, to) in the set's buffer, which is the flusher's.
func (q *Queue) copyLocked(from, to int64) []byte {
	b := q.set.buf[:0]
	to = min(to, q.max.Load())
	for from < to {
		at := int(from - q.memBase)
		n := min(int(to-from), chunkUnits-at%chunkUnits)
		start := at % chunkUnits * UnitSize
		b = append(b, q.chunks[at/chunkUnits][start:start+n*UnitSize]...)
		from += int64(n)
	}
	q.set.buf = b
	return b
}

// trimLocked drops written units that few will read.
func (q *Queue) trimLocked(keep int) {
	if n := int(q.written-int64(keep)-q.memBase) / chunkUnits; n > 0 {
		q.freeLocked(n)
	}
}

// idle drops the memory of a queue that has had no message since the last flush, and tells whether there was none.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dirty || q.written != q.max.Load() {
		return false
	}
	q.freeLocked(len(q.chunks))
	q.chunks, q.memBase = nil, q.written
	return true
}

// writeUnits writes units from queue offset at on, file by file.
func (q *Queue) writeUnits(at int64, b []byte) error {
	per := q.set.perFile()
	for len(b) > 0 {
		first := at / per * per
		n := min(int64(len(b)), (first+per-at)*UnitSize)
		if err := q.writeFile(first, (at-first)*UnitSize, b[:n]); err != nil {
			return err
		}
		at += n / UnitSize
		b = b[n:]
	}
	return nil
}

func (q *Queue) writeFile(first, pos int64, b []byte) error {
	path := q.filePath(first)
	f, err := q.set.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = q.createFile(path, pos)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, pos)
	return errors.Join(err, f.Close())
}

// createFile makes a file of the full size (sparse). Slots before the first unit get fillers, as Java writes them.
func (q *Queue) createFile(path string, pos int64) (vfs.File, error) {
	topic := filepath.Dir(q.dir)
	for _, dir := range []string{q.dir, topic, q.set.cfg.Dir, filepath.Dir(q.set.cfg.Dir)} {
		q.set.changed[dir] = struct{}{}
	}
	if err := q.set.fs.MkdirAll(q.dir); err != nil {
		return nil, err
	}
	f, err := q.set.fs.Create(path)
	if err != nil {
		return nil, err
	}
	err = f.Truncate(q.set.cfg.FileSize)
	if err == nil && pos > 0 {
		fill := make([]byte, pos)
		for at := int64(0); at < pos; at += UnitSize {
			putUnit(fill[at:], Unit{Size: fillerSize})
		}
		_, err = f.WriteAt(fill, 0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), q.set.fs.Remove(path))
	}
	return f, nil
}

// zero clears the slots [from, to) in the files that exist.
func (q *Queue) zero(from, to int64) error {
	per := q.set.perFile()
	for from < to {
		first := from / per * per
		n := min(to, first+per) - from
		f, err := q.set.fs.Open(q.filePath(first))
		if err == nil {
			_, err = f.WriteAt(make([]byte, n*UnitSize), (from-first)*UnitSize)
			err = errors.Join(err, f.Close())
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		from += n
	}
	return nil
}

// sync makes the files that were written since the last sync durable.
func (q *Queue) sync() error {
	q.mu.Lock()
	from, to, life := q.synced, q.written, q.life
	q.mu.Unlock()
	per := q.set.perFile()
	for first := from / per * per; first < to; first += per {
		f, err := q.set.fs.Open(q.filePath(first))
		if errors.Is(err, fs.ErrNotExist) { // expired
			continue
		}
		if err == nil {
			err = errors.Join(f.SyncData(), f.Close())
		}
		if err != nil {
			return err
		}
	}
	q.mu.Lock()
	if q.life == life {
		q.synced = min(to, q.written)
	}
	q.mu.Unlock()
	return nil
}

// CorrectMin moves every queue's Min up to the first message at or above logMin, the log's first offset, and deletes files that
// hold none.
func (s *Set) CorrectMin(logMin int64) error {
	if logMin == 0 {
		return nil
	}
	s.io.Lock()
	defer s.io.Unlock()
	var err error
	for _, q := range s.All() {
		if e := q.correctMin(logMin); e != nil {
			err = errors.Join(err, fmt.Errorf("consume queue %s: %w", q.key(), e))
		}
	}
	return err
}

func (q *Queue) correctMin(logMin int64) error {
	q.mu.Lock()
	life := q.life
	q.mu.Unlock()
	if q.Min() == q.Max() {
		return nil
	}
	if first, err := q.At(q.Min()); err == nil && !first.Filler() && first.Phy >= logMin {
		return nil
	}
	low, err := q.Search(func(u Unit) (bool, error) { return u.Phy >= logMin, nil })
	if err != nil && q.livesAgain(life) {
		return nil // its topic was deleted meanwhile
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	same := q.life == life && low <= q.max.Load()
	if same {
		q.min.Store(max(low, q.min.Load()))
	}
	q.mu.Unlock()
	if !same { // The topic was deleted meanwhile.
		return nil
	}
	return q.removeFiles(low)
}

// removeFiles deletes files whose units are all below offset, never the one that holds the last unit: it keeps Max.
func (q *Queue) removeFiles(offset int64) error {
	per := q.set.perFile()
	files, err := q.set.listFiles(q.dir)
	for _, first := range files {
		if first+per > min(offset, q.Max()-1) {
			break
		}
		err = errors.Join(err, q.set.fs.Remove(q.filePath(first)))
	}
	return err
}
