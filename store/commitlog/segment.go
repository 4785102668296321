package commitlog

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/castor-mq/castor/internal/vfs"
)

// segment is one file of the log. Its mapping is used under a pin; it is unmapped when the log has let it go and the last pin
// is released, never earlier.
type segment struct {
	base int64
	path string
	file vfs.File

	m    vfs.Mapping
	b    []byte       // the mapping's bytes, nil if not mapped
	pins atomic.Int64 // number of users of b, plus closing once the log has let go
}

const closing = int64(1) << 62

func openSegment(fs vfs.FS, path string, base int64) (*segment, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("commit log: %w", err)
	}
	s := &segment{base: base, path: path, file: f}
	s.pins.Store(closing) // not mapped
	return s, nil
}

// createSegment makes a file of the full size: allocated under a temporary name, then renamed, so that a crash leaves either
// nothing or a whole segment.
func (l *Log) createSegment(base int64) (*segment, error) {
	path := l.path(base)
	f, err := l.fs.Create(path + vfs.TempSuffix)
	if err != nil {
		return nil, err
	}
	s := &segment{base: base, path: path, file: f}
	s.pins.Store(closing)
	if err = f.Allocate(0, l.cfg.SegmentSize); err == nil {
		err = f.SyncData() // the size must be there before the name is
	}
	if err == nil {
		err = s.mapIt(l.cfg.SegmentSize)
	}
	if err == nil {
		err = l.fs.Rename(path+vfs.TempSuffix, path)
	}
	if err != nil {
		_ = s.close()
		_ = l.fs.Remove(path + vfs.TempSuffix)
		return nil, err
	}
	if err = l.fs.SyncDir(l.cfg.Dir); err != nil {
		return nil, errors.Join(err, l.discard(s))
	}
	return s, nil
}

// mapIt maps the segment. It must not be mapped.
func (s *segment) mapIt(size int64) error {
	m, err := s.file.Map(size)
	if err != nil {
		return fmt.Errorf("map %s: %w", s.path, err)
	}
	s.m, s.b = m, m.Bytes()
	s.pins.Store(0)
	return nil
}

// pin makes the mapping safe to use until unpin. It fails if the segment is not mapped or about to be unmapped.
func (s *segment) pin() bool {
	if s.pins.Add(1) < closing {
		return true
	}
	s.unpin()
	return false
}

func (s *segment) unpin() {
	if s.pins.Add(-1) == closing {
		s.unmap()
	}
}

// unmap closes the mapping once: pins == closing is reached by one goroutine only, which moves it on.
func (s *segment) unmap() {
	if s.pins.CompareAndSwap(closing, closing+closing/2) {
		if s.m != nil {
			_ = s.m.Close()
		}
	}
}

// letGo allows no new pins and unmaps now or at the last unpin.
func (s *segment) letGo() {
	for {
		p := s.pins.Load()
		if p >= closing {
			return
		}
		if s.pins.CompareAndSwap(p, p+closing) {
			if p == 0 {
				s.unmap()
			}
			return
		}
	}
}

// close unmaps and closes the file. Reads that are under way keep the mapping, not the file.
func (s *segment) close() error {
	s.letGo()
	return s.file.Close()
}
