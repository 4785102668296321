package state

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// shardCount spreads the readers of one table over locks. A power of two.
const shardCount = 64

// key identifies a row inside its table: by one or two names, a queue or both.
type key struct {
	first, second string
	queueID       int32
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.first, o.first), cmp.Compare(k.second, o.second), cmp.Compare(k.queueID, o.queueID))
}

func (k key) clone() key {
	return key{first: strings.Clone(k.first), second: strings.Clone(k.second), queueID: k.queueID}
}

// table is a map that many goroutines read while others write. Rows with the same first name share a shard, so that
// listing the rows of a group does not visit those of the other groups.
type table[V any] struct {
	seed   maphash.Seed
	shards [shardCount]shard[V]
}

type shard[V any] struct {
	sync.RWMutex
	rows map[key]V

	_ [32]byte // keeps the locks of neighbours on different cache lines
}

// entry is a row of a table.
type entry[V any] struct {
	key   key
	value V
}

// shardOf is never called with an uninitialized table: maphash panics on a zero seed.
func (t *table[V]) shardOf(first string) *shard[V] {
	return &t.shards[maphash.String(t.seed, first)%shardCount]
}

func (t *table[V]) init() { t.seed = maphash.MakeSeed() }

// get may be called with strings that die later; it does not allocate.
func (t *table[V]) get(k key) (V, bool) {
	s := t.shardOf(k.first)
	s.RLock()
	v, ok := s.rows[k]
	s.RUnlock()
	return v, ok
}

// set keeps the strings of k.
func (t *table[V]) set(k key, v V) {
	s := t.shardOf(k.first)
	s.Lock()
	if s.rows == nil {
		s.rows = make(map[key]V)
	}
	s.rows[k] = v
	s.Unlock()
}

// remove tells whether the row was there.
func (t *table[V]) remove(k key) bool {
	s := t.shardOf(k.first)
	s.Lock()
	_, ok := s.rows[k]
	delete(s.rows, k)
	s.Unlock()
	return ok
}

// placeLike has an empty table put rows into the same shards as another.
func (t *table[V]) placeLike(o rows) { t.seed = o.(*table[V]).seed }

// take replaces all rows by those of a table that places rows like this one and is not used any more.
func (t *table[V]) take(o rows) {
	from := o.(*table[V])
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		s.rows = from.shards[i].rows
		s.Unlock()
	}
}

// entries returns the rows with these names in the order of their keys. An empty name stands for all.
func (t *table[V]) entries(first, second string) []entry[V] {
	shards := t.shards[:]
	if first != "" {
		i := maphash.String(t.seed, first) % shardCount
		shards = t.shards[i : i+1]
	}
	var out []entry[V]
	for i := range shards {
		s := &shards[i]
		s.RLock()
		for k, v := range s.rows {
			if (first == "" || k.first == first) && (second == "" || k.second == second) {
				out = append(out, entry[V]{k, v})
			}
		}
		s.RUnlock()
	}
	slices.SortFunc(out, func(a, b entry[V]) int { return a.key.compare(b.key) })
	return out
}

// keys returns the keys of entries.
func (t *table[V]) keys(first, second string) []key {
	entries := t.entries(first, second)
	keys := make([]key, len(entries))
	for i := range entries {
		keys[i] = entries[i].key
	}
	return keys
}

// rows is a table without the type of its values.
type rows interface {
	placeLike(o rows)
	take(o rows)
	remove(k key) bool
	keys(first, second string) []key
}
