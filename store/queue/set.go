package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
)

// Config says where the queues are.
type Config struct {
	Dir      string // consumequeue
	FileSize int64  // bytes, a multiple of UnitSize (mappedFileSizeConsumeQueue)
}

// MaxQueueID bounds queue ids, so that a forged record cannot ask for a huge table.
const MaxQueueID = 1 << 16

// Set holds all queues. Lookups take a read lock and do not allocate.
type Set struct {
	cfg Config
	fs  vfs.FS
	log *zap.Logger

	mu     sync.RWMutex
	topics map[string]*Topic

	readers atomic.Int64 // queues that keep a file open

	dirtyMu sync.Mutex
	dirty   []*Queue
	touched map[*Queue]struct{} // written since the last sync
}

// Topic holds the queues of one topic, by id.
type Topic struct {
	Name string

	mu     sync.RWMutex
	queues []*Queue
}

// Open loads the queues that are on disk, their first and last offsets read from the files.
func Open(cfg Config, fsys vfs.FS, log *zap.Logger) (*Set, error) {
	if cfg.FileSize <= 0 || cfg.FileSize%UnitSize != 0 {
		return nil, fmt.Errorf("consume queue: file size %d is no multiple of %d", cfg.FileSize, UnitSize)
	}
	s := &Set{cfg: cfg, fs: fsys, log: log, topics: map[string]*Topic{}, touched: map[*Queue]struct{}{}}
	topics, err := readDir(fsys, cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, topic := range topics {
		ids, err := readDir(fsys, filepath.Join(cfg.Dir, topic.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range ids {
			id, err := strconv.ParseInt(e.Name(), 10, 32)
			if err != nil || id < 0 || id >= MaxQueueID {
				log.Warn("a folder that is no queue is ignored", zap.String("path", filepath.Join(cfg.Dir, topic.Name(), e.Name())))
				continue
			}
			if err := s.GetOrCreate(topic.Name(), int32(id)).load(); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

func readDir(fsys vfs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var dirs []fs.DirEntry
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, e)
		}
	}
	return dirs, err
}

// Topic returns the queues of a topic, nil if it has none.
func (s *Set) Topic(name string) *Topic {
	s.mu.RLock()
	t := s.topics[name]
	s.mu.RUnlock()
	return t
}

// Get returns a queue, nil if there is none: a look-up never creates.
func (s *Set) Get(topic string, id int32) *Queue {
	if t := s.Topic(topic); t != nil {
		return t.Get(id)
	}
	return nil
}

// Get returns the queue with an id, nil if there is none.
func (t *Topic) Get(id int32) *Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if id < 0 || int(id) >= len(t.queues) {
		return nil
	}
	return t.queues[id]
}

// Queues returns the queues that exist, by id.
func (t *Topic) Queues() []*Queue {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []*Queue
	for _, q := range t.queues {
		if q != nil {
			all = append(all, q)
		}
	}
	return all
}

// GetOrCreate returns a queue, making it in memory; its folder is made with its first file. topic is kept.
func (s *Set) GetOrCreate(topic string, id int32) *Queue {
	if q := s.Get(topic, id); q != nil {
		return q
	}
	if id < 0 || id >= MaxQueueID {
		return nil
	}
	s.mu.Lock()
	t := s.topics[topic]
	if t == nil {
		t = &Topic{Name: topic}
		s.topics[topic] = t
	}
	s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for int(id) >= len(t.queues) {
		t.queues = append(t.queues, nil)
	}
	if t.queues[id] == nil {
		t.queues[id] = &Queue{Topic: t.Name, ID: id, set: s, dir: filepath.Join(s.cfg.Dir, t.Name, strconv.Itoa(int(id)))}
	}
	return t.queues[id]
}

// All returns every queue, by topic and id.
func (s *Set) All() []*Queue {
	s.mu.RLock()
	names := make([]string, 0, len(s.topics))
	for name := range s.topics {
		names = append(names, name)
	}
	s.mu.RUnlock()
	sort.Strings(names)
	var all []*Queue
	for _, name := range names {
		if t := s.Topic(name); t != nil {
			all = append(all, t.Queues()...)
		}
	}
	return all
}

// Remove forgets a topic's queues and deletes their files.
func (s *Set) Remove(topic string) error {
	s.mu.Lock()
	t := s.topics[topic]
	delete(s.topics, topic)
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	s.dirtyMu.Lock()
	keep := s.dirty[:0]
	for _, q := range s.dirty {
		if q.Topic != topic {
			keep = append(keep, q)
		}
	}
	s.dirty = keep
	for q := range s.touched {
		if q.Topic == topic {
			delete(s.touched, q)
		}
	}
	s.dirtyMu.Unlock()
	for _, q := range t.Queues() {
		q.close()
	}
	return s.fs.RemoveAll(filepath.Join(s.cfg.Dir, topic))
}

func (s *Set) addDirty(q *Queue) {
	s.dirtyMu.Lock()
	s.dirty = append(s.dirty, q)
	s.dirtyMu.Unlock()
}

// Flush writes what is pending in every queue. With sync it also makes everything written so far durable.
func (s *Set) Flush(sync bool) error {
	s.dirtyMu.Lock()
	dirty := s.dirty
	s.dirty = nil
	for _, q := range dirty {
		s.touched[q] = struct{}{}
	}
	var all []*Queue
	if sync {
		for q := range s.touched {
			all = append(all, q)
		}
	}
	s.dirtyMu.Unlock()
	var scratch []byte
	var err error
	for _, q := range dirty {
		var e error
		if scratch, e = q.flush(scratch); e != nil {
			err = errors.Join(err, fmt.Errorf("consume queue %s: %w", q.key(), e))
			s.addDirty(q)
		}
	}
	for _, q := range all {
		if e := q.sync(); e != nil {
			err = errors.Join(err, e)
			continue
		}
		q.idle()
		s.dirtyMu.Lock()
		if !q.dirty {
			delete(s.touched, q)
		}
		s.dirtyMu.Unlock()
	}
	return err
}

// sync makes the files that were written since the last sync durable.
func (q *Queue) sync() error {
	q.mu.Lock()
	from, to := q.synced, q.written
	q.mu.Unlock()
	per := q.set.cfg.FileSize / UnitSize
	for first := from / per * per; first < to; first += per {
		f, err := q.set.fs.Open(q.filePath(first))
		if errors.Is(err, fs.ErrNotExist) { // expired, or before an imported queue's first file
			continue
		}
		if err == nil {
			err = errors.Join(f.SyncData(), f.Close())
		}
		if err != nil {
			return fmt.Errorf("consume queue %s: %w", q.key(), err)
		}
	}
	if err := q.set.fs.SyncDir(q.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	q.mu.Lock()
	q.synced = max(q.synced, to)
	q.mu.Unlock()
	return nil
}

// Close closes the files that are open for reading.
func (s *Set) Close() {
	for _, q := range s.All() {
		q.close()
	}
}

// CorrectMin moves every queue's Min up to the log's first offset.
func (s *Set) CorrectMin(logMin int64) error {
	var err error
	for _, q := range s.All() {
		err = errors.Join(err, q.correctMin(logMin))
	}
	return err
}

// Clear forgets and deletes every queue.
func (s *Set) Clear() error {
	s.mu.Lock()
	s.topics = map[string]*Topic{}
	s.mu.Unlock()
	s.dirtyMu.Lock()
	s.dirty, s.touched = nil, map[*Queue]struct{}{}
	s.dirtyMu.Unlock()
	return s.fs.RemoveAll(s.cfg.Dir)
}
