package namesrv

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"sync/atomic"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/code"
)

const (
	// orderNamespace holds the order configuration by topic (NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG).
	orderNamespace = "ORDER_TOPIC_CONFIG"
	// maxKVBytes bounds the file, and so what clients can make the process keep.
	maxKVBytes = 16 << 20
)

// kvTables is the configuration by namespace and key. It never changes.
type kvTables map[string]map[string]string

// kvFile is the text of kvConfigPath, as Java writes it (KVConfigSerializeWrapper).
type kvFile struct {
	ConfigTable kvTables `json:"configTable,nonnil"`
}

// kvStore keeps the key-value configuration in a file. get may be called from anywhere; put and delete from one goroutine.
type kvStore struct {
	fs   vfs.FS
	path string
	now  atomic.Pointer[kvTables]
}

// openKV reads the file. A missing or empty one is an empty configuration; one that makes no sense is an error, because it would
// be overwritten by the next change.
func openKV(files vfs.FS, path string) (*kvStore, error) {
	text, err := files.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("key-value configuration: %w", err)
	}
	var file kvFile
	if text = bytes.TrimSpace(text); len(text) > 0 {
		if err := fastjson.Unmarshal(text, &file); err != nil {
			return nil, fmt.Errorf("key-value configuration %s: %w", path, err)
		}
	}
	s := &kvStore{fs: files, path: path}
	s.now.Store(&file.ConfigTable)
	return s, nil
}

// namespace returns the table of a namespace, nil if there is none. It must not be modified.
func (s *kvStore) namespace(name string) map[string]string { return (*s.now.Load())[name] }

func (s *kvStore) put(namespace, key, value string) error {
	if old, ok := s.namespace(namespace)[key]; ok && old == value {
		return nil
	}
	return s.change(namespace, func(table map[string]string) { table[key] = value })
}

// delete leaves the namespace in place, as Java does, so that it lists as empty, not as unknown.
func (s *kvStore) delete(namespace, key string) error {
	if _, ok := s.namespace(namespace)[key]; !ok {
		return nil
	}
	return s.change(namespace, func(table map[string]string) { delete(table, key) })
}

// change edits a copy, writes it, and only then shows it.
func (s *kvStore) change(namespace string, edit func(map[string]string)) error {
	next := maps.Clone(*s.now.Load())
	if next == nil {
		next = kvTables{}
	}
	table := maps.Clone(next[namespace])
	if table == nil {
		table = map[string]string{}
	}
	edit(table)
	next[namespace] = table
	text := fastjson.Marshal(&kvFile{next})
	if len(text) > maxKVBytes {
		return code.New(code.InvalidParameter, "the key-value configuration may not exceed %d bytes", maxKVBytes)
	}
	if err := s.fs.MkdirAll(filepath.Dir(s.path)); err != nil {
		return fmt.Errorf("write key-value configuration: %w", err)
	}
	if err := s.fs.WriteFileAtomic(s.path, text); err != nil {
		return fmt.Errorf("write key-value configuration: %w", err)
	}
	s.now.Store(&next)
	return nil
}
