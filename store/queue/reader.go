package queue

import (
	"errors"
	"fmt"

	"github.com/castor-mq/castor/internal/vfs"
)

// reader is an open file of a queue that is being read. It is closed by the last one who uses it after the queue has let it go.
type reader struct {
	first int64 // unit
	f     vfs.File
	users int  // Queue.mu
	gone  bool // Queue.mu
}

// maxReaders is how many queues keep the file open that they were read from last.
const maxReaders = 512

// openReader returns the file that starts with a unit, the one that was read last if it is that.
func (q *Queue) openReader(first int64) (*reader, error) {
	q.mu.Lock()
	life := q.life
	if r := q.reader; r != nil && r.first == first {
		r.users++
		q.mu.Unlock()
		return r, nil
	}
	q.mu.Unlock()
	f, err := q.set.fs.Open(q.filePath(first))
	if err != nil {
		return nil, err
	}
	r := &reader{first: first, f: f, users: 1}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.life != life { // the file may be one that is about to be deleted
		r.gone = true
		return r, nil
	}
	q.letGoLocked(q.reader)
	q.reader = r
	q.set.readers.Add(1)
	return r, nil
}

// letGoLocked closes r, or has its last user close it.
func (q *Queue) letGoLocked(r *reader) {
	if r == nil || r.gone {
		return
	}
	if q.reader == r {
		q.reader = nil
		q.set.readers.Add(-1)
	}
	r.gone = true
	if r.users == 0 {
		_ = r.f.Close()
	}
}

// release ends a use of r. Where many queues are read, files are not kept open.
func (q *Queue) release(r *reader) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.users--
	if r.gone && r.users == 0 {
		_ = r.f.Close()
	} else if q.set.readers.Load() > maxReaders {
		q.letGoLocked(r)
	}
}

// close lets go of the file that was read last.
func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.letGoLocked(q.reader)
}

// readAt is vfs.File.ReadAt or ReadCached.
type readAt func(f vfs.File, p []byte, off int64) (int, error)

// readFile reads units of one file; a read does not go beyond the file's end.
func (q *Queue) readFile(offset int64, dst []Unit, read readAt) (int, error) {
	per := q.set.perFile()
	n := min(int64(len(dst)), per-offset%per)
	r, err := q.openReader(offset / per * per)
	if err != nil {
		return 0, err
	}
	defer q.release(r)
	var small [64 * UnitSize]byte
	buf := small[:]
	if n*UnitSize > int64(len(small)) {
		buf = make([]byte, n*UnitSize)
	}
	m, err := read(r.f, buf[:n*UnitSize], offset%per*UnitSize)
	if m < UnitSize || errors.Is(err, vfs.ErrWouldBlock) {
		return 0, fmt.Errorf("read %s: %w", q.filePath(r.first), err)
	}
	for i := range m / UnitSize {
		dst[i] = readUnit(buf[i*UnitSize:])
	}
	return m / UnitSize, nil
}
