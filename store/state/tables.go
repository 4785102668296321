package state

import (
	"fmt"
	"strings"
	"sync"

	"github.com/castor-mq/castor/remoting/body"
)

// Tables is the state in memory. Lookups and listings (read.go) may run at any time, also while a record is applied; they
// see each row either before or after a change.
type Tables struct {
	topics    table[*body.TopicConfig]
	groups    table[*body.SubscriptionGroupConfig]
	offsets   table[*offsetCell]
	resets    table[int64]
	locks     table[Lock]
	delays    table[int64]
	modes     table[*body.SetMessageRequestModeRequestBody]
	filters   table[*Filter]
	forbidden table[int32]
	deleted   table[int64]

	byKind [kindEnd]rows // the tables above by the kind that puts their rows

	mu      sync.Mutex // guards all below, and orders what changes the tables
	meta    meta
	dirty   *dirty
	scratch Change
}

// NewTables returns empty tables, to which nothing is applied yet. Open is the usual way to get tables.
func NewTables() *Tables {
	t := &Tables{dirty: newDirty()}
	t.topics.init()
	t.groups.init()
	t.offsets.init()
	t.resets.init()
	t.locks.init()
	t.delays.init()
	t.modes.init()
	t.filters.init()
	t.forbidden.init()
	t.deleted.init()
	t.byKind = [kindEnd]rows{
		KindTopicPut: &t.topics, KindGroupPut: &t.groups, KindOffsetPut: &t.offsets, KindResetPut: &t.resets,
		KindLockPut: &t.locks, KindDelayOffsetPut: &t.delays, KindRequestModePut: &t.modes, KindFilterPut: &t.filters,
		KindForbiddenPut: &t.forbidden, KindDeletedBefore: &t.deleted,
	}
	return t
}

// Apply applies record, the body of the state record that ends at log offset end and was stored at storeTimeMs. Records are
// applied in log order and only up to the confirm offset. One that is applied already is passed over. An error means that
// the body cannot be decoded (ErrNewer or ErrMalformed): nothing of it is applied, and the projection must stop there.
//
// It keeps nothing of record and does not allocate for offsets of queues that the group had before.
func (t *Tables) Apply(record []byte, end, storeTimeMs int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end <= t.meta.applied {
		return nil
	}
	c := &t.scratch
	defer func() { *c = Change{} }() // it aliases record
	if err := check(record, c); err != nil {
		return fmt.Errorf("apply the record that ends at %d: %w", end, err)
	}
	for r := (reader{body: record}); ; {
		if ok, _ := r.next(c); !ok {
			break
		}
		t.apply(c, storeTimeMs)
	}
	t.meta.applied = end
	t.dirty.touched = true
	return nil
}

// check decodes all of a record body; c is scratch.
func check(record []byte, c *Change) error {
	r := reader{body: record}
	for {
		if ok, err := r.next(c); err != nil || !ok {
			return err
		}
	}
}

// Advance notes that there is no state record between Applied and the log offset end, so that a restart need not look.
func (t *Tables) Advance(end int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if end > t.meta.applied {
		t.meta.applied = end
		t.dirty.touched = true
	}
}

// Applied returns the log offset up to which everything is applied.
func (t *Tables) Applied() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meta.applied
}

// Version returns the DataVersion of a table. Its counter grows with every changed row.
func (t *Tables) Version(v Versioned) body.DataVersion {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.meta.versions[v]
}

// sibling makes empty tables whose rows t can take over.
func (t *Tables) sibling() *Tables {
	o := NewTables()
	for kind, rows := range t.byKind {
		if rows != nil {
			o.byKind[kind].placeLike(rows)
		}
	}
	return o
}

// become takes over the rows of a sibling, table by table, which must not be used any more.
func (t *Tables) become(o *Tables, m meta) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for kind, rows := range t.byKind {
		if rows != nil {
			rows.take(o.byKind[kind])
		}
	}
	t.meta, t.dirty = m, newDirty()
}

func (t *Tables) bump(v Versioned, timeMs int64) {
	if v == unversioned {
		return
	}
	t.meta.versions[v].Counter++
	t.meta.versions[v].Timestamp = timeMs
}

// apply does one change. The caller holds mu.
func (t *Tables) apply(c *Change, timeMs int64) {
	switch c.Kind {
	case KindTopicDelete:
		t.remove(KindTopicPut, key{first: c.Topic}, timeMs)
		for _, k := range []Kind{KindOffsetPut, KindResetPut, KindLockPut} {
			t.removeAll(k, "", c.Topic, timeMs)
		}
		t.removeAll(KindRequestModePut, c.Topic, "", timeMs)
	case KindGroupDelete:
		t.remove(KindGroupPut, key{first: c.Group}, timeMs)
		t.removeAll(KindForbiddenPut, c.Group, "", timeMs)
		if c.CleanOffsets {
			for _, k := range []Kind{KindOffsetPut, KindResetPut, KindLockPut} {
				t.removeAll(k, c.Group, "", timeMs)
			}
		}
	case KindResetTake:
		t.remove(KindResetPut, key{c.Group, c.Topic, c.QueueID}, timeMs)
	case KindLockDelete:
		t.remove(KindLockPut, key{c.Group, c.Topic, c.QueueID}, timeMs)
	case KindFilterDead:
		if old, ok := t.filters.get(key{first: c.Topic, second: c.Group}); ok {
			filter := *old
			filter.DeadTime = c.TimeMs
			put := FilterPut(&filter)
			t.put(&put, timeMs)
		}
	default:
		t.put(c, timeMs)
	}
}

// put sets a row, or removes it when the change says nothing.
func (t *Tables) put(c *Change, timeMs int64) {
	switch {
	case c.Kind == KindOffsetPut:
		t.dirty.putOffset(t.setOffset(c), c.Offset)
		t.bump(VersionOffsets, timeMs)
	case c.isNothing():
		t.remove(c.Kind, c.rowKey(), timeMs)
	default:
		t.set(c)
		t.dirty.put(c)
		t.bump(kinds[c.Kind].version, timeMs)
	}
}

// isNothing tells whether c puts what a missing row means.
func (c *Change) isNothing() bool {
	switch c.Kind {
	case KindForbiddenPut:
		return c.Bits == 0
	case KindDeletedBefore:
		return c.Offset == 0
	}
	return false
}

// set puts the row of c into its table, also when it comes from a copy.
func (t *Tables) set(c *Change) {
	if c.Kind == KindOffsetPut {
		t.setOffset(c)
		return
	}
	k := c.rowKey().clone()
	switch c.Kind {
	case KindTopicPut:
		t.topics.set(k, c.TopicConfig)
	case KindGroupPut:
		t.groups.set(k, c.GroupConfig)
	case KindResetPut:
		t.resets.set(k, c.Offset)
	case KindLockPut:
		t.locks.set(k, Lock{k.first, k.second, k.queueID, strings.Clone(c.ClientID), c.TimeMs})
	case KindDelayOffsetPut:
		t.delays.set(k, c.Offset)
	case KindRequestModePut:
		t.modes.set(k, c.RequestMode)
	case KindFilterPut:
		t.filters.set(k, c.Filter)
	case KindForbiddenPut:
		t.forbidden.set(k, c.Bits)
	case KindDeletedBefore:
		t.deleted.set(k, c.Offset)
	}
}

func (t *Tables) setOffset(c *Change) *offsetCell {
	k := key{c.Group, c.Topic, c.QueueID}
	cell, ok := t.offsets.get(k)
	if !ok {
		k = k.clone()
		cell = &offsetCell{key: k}
		cell.value.Store(c.Offset)
		t.offsets.set(k, cell)
		return cell
	}
	cell.value.Store(c.Offset)
	return cell
}

// remove removes the row of kind with this key, if it is there.
func (t *Tables) remove(kind Kind, k key, timeMs int64) {
	if kind == KindOffsetPut {
		if cell, ok := t.offsets.get(k); ok {
			t.dirty.removeOffset(cell)
		}
	}
	if !t.byKind[kind].remove(k) {
		return
	}
	if kind != KindOffsetPut {
		t.dirty.remove(kind, k)
	}
	t.bump(kinds[kind].version, timeMs)
}

// removeAll removes the rows of kind with these names. An empty name stands for all, but two for nothing: no change means
// a whole table.
func (t *Tables) removeAll(kind Kind, first, second string, timeMs int64) {
	if first == "" && second == "" {
		return
	}
	for _, k := range t.byKind[kind].keys(first, second) {
		t.remove(kind, k, timeMs)
	}
}
