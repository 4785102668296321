package queue

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
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

	chunks sync.Pool // *chunk

	mu     sync.RWMutex
	topics map[string]*Topic

	readers atomic.Int64 // queues that keep a file open

	dirtyMu sync.Mutex
	dirty   []*Queue // to be flushed

	io      sync.Mutex          // held over I/O by whoever changes files
	touched map[*Queue]struct{} // written since the last sync
	changed map[string]struct{} // directories with new or removed entries since the last sync
	buf     []byte
}

// Topic holds the queues of one topic, by id.
type Topic struct {
	Name string

	live atomic.Bool // it has queues; changed under mu

	mu     sync.RWMutex
	queues []*Queue
}

// Open loads the queues that are on disk, their first and last offsets read from the files.
func Open(cfg Config, fsys vfs.FS, log *zap.Logger) (*Set, error) {
	if cfg.FileSize <= 0 || cfg.FileSize%UnitSize != 0 {
		return nil, fmt.Errorf("consume queue: file size %d is no multiple of %d", cfg.FileSize, UnitSize)
	}
	s := &Set{cfg: cfg, fs: fsys, log: log, topics: map[string]*Topic{}, touched: map[*Queue]struct{}{}, changed: map[string]struct{}{}}
	s.chunks.New = func() any { return new(chunk) }
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
				return nil, fmt.Errorf("consume queue %s-%d: %w", topic.Name(), id, err)
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

func (s *Set) perFile() int64 { return s.cfg.FileSize / UnitSize }

func (s *Set) getChunk() *chunk { return s.chunks.Get().(*chunk) }

// Topic returns the queues of a topic, nil if it has none.
func (s *Set) Topic(name string) *Topic {
	s.mu.RLock()
	t := s.topics[name]
	s.mu.RUnlock()
	if t == nil || !t.live.Load() {
		return nil
	}
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
	if id < 0 || int(id) >= len(t.queues) || t.queues[id] == nil || t.queues[id].gone {
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
		if q != nil && !q.gone {
			all = append(all, q)
		}
	}
	return all
}

// GetOrCreate returns a queue, making it in memory; its folder is made with its first file. It returns nil for an id or a name
// that cannot be a folder's. topic is kept.
func (s *Set) GetOrCreate(topic string, id int32) *Queue {
	if q := s.Get(topic, id); q != nil {
		return q
	}
	if id < 0 || id >= MaxQueueID || !validName(topic) {
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
	t.queues[id].gone = false
	t.live.Store(true)
	return t.queues[id]
}

// validName tells whether a topic's name can be a folder's. A record with any other has been forged or damaged.
func validName(name string) bool {
	return name != "" && len(name) <= 255 && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00")
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

// Counters returns the Next of every queue that a topic has or had: somebody may still append through one of a deleted topic.
func (s *Set) Counters(topic string) (next []*int64) {
	s.mu.RLock()
	t := s.topics[topic]
	s.mu.RUnlock()
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, q := range t.queues {
		if q != nil {
			next = append(next, &q.Next)
		}
	}
	return next
}

// Recount makes Next of every queue its Max, also of those of deleted topics. No append may be under way.
func (s *Set) Recount() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, t := range s.topics {
		t.mu.RLock()
		for _, q := range t.queues {
			if q != nil {
				q.Next = q.Max()
			}
		}
		t.mu.RUnlock()
	}
}

// Clear empties every queue as if its topic had been deleted; a later Flush deletes the files.
func (s *Set) Clear() {
	s.mu.RLock()
	names := slices.Collect(maps.Keys(s.topics))
	s.mu.RUnlock()
	for _, name := range names {
		s.Remove(name, 0)
	}
}

// Remove empties a topic's queues and forgets them until one is made again (Q4); a later Flush deletes their files. logEnd is the end
// of the record that deletes the topic.
func (s *Set) Remove(topic string, logEnd int64) {
	t := s.Topic(topic)
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live.Store(false)
	for _, q := range t.queues {
		if q != nil && !q.gone {
			q.gone = true
			q.mu.Lock()
			q.emptyLocked(0, logEnd)
			q.mu.Unlock()
		}
	}
}

func (s *Set) addDirty(q *Queue) {
	s.dirtyMu.Lock()
	s.dirty = append(s.dirty, q)
	s.dirtyMu.Unlock()
}

// Close closes the files that are open for reading.
func (s *Set) Close() {
	for _, q := range s.All() {
		q.close()
	}
}
