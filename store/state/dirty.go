package state

import (
	"crypto/sha256"
	"encoding/binary"
	"sync/atomic"

	"github.com/castor-mq/castor/remoting/body"
)

// offsetCell is the row of a consumer offset. Offsets change far more often than anything else, so setting one touches
// the cell and its place in the dirty set, and neither a map nor a lock of readers.
type offsetCell struct {
	value atomic.Int64
	key   key

	// The place in the dirty set of this generation; guarded by Tables.mu.
	generation int64
	slot       int
}

// dirty is what changed since the last cut.
type dirty struct {
	generation int64
	touched    bool // anything changed, be it only the applied offset

	rows    map[string][]byte // by key in state.db: the change that puts the row, or nil when it is gone
	offsets []dirtyOffset     // written after rows, because an offset may be removed and set again

	meta meta // as of the cut
}

type dirtyOffset struct {
	key     key
	value   int64
	removed bool
}

// meta is what state.db and snapshots hold besides rows.
type meta struct {
	applied  int64
	versions [versionedEnd]body.DataVersion
}

func newDirty() *dirty { return &dirty{generation: 1, rows: make(map[string][]byte)} }

// put notes the row that c puts.
func (d *dirty) put(c *Change) {
	d.rows[string(appendStateKey(nil, c.Kind, c.rowKey()))] = appendChange(nil, c)
}

// remove notes that a row is gone.
func (d *dirty) remove(k Kind, row key) {
	d.rows[string(appendStateKey(nil, k, row))] = nil
}

// putOffset notes the value of cell.
func (d *dirty) putOffset(cell *offsetCell, value int64) {
	if cell.generation == d.generation {
		d.offsets[cell.slot].value = value
		return
	}
	cell.generation, cell.slot = d.generation, len(d.offsets)
	d.offsets = append(d.offsets, dirtyOffset{key: cell.key, value: value})
}

// removeOffset notes that cell is gone; it must not be used again.
func (d *dirty) removeOffset(cell *offsetCell) {
	if cell.generation == d.generation {
		d.offsets[cell.slot].removed = true
	}
	d.remove(KindOffsetPut, cell.key)
}

// reset makes d ready to be the dirty set of a later generation.
func (d *dirty) reset() {
	clear(d.rows)
	clear(d.offsets)
	*d = dirty{rows: d.rows, offsets: d.offsets[:0]}
}

// cut returns what changed since the last cut and goes on with next, an empty set. It returns nil, and does not use next,
// when nothing changed.
func (t *Tables) cut(next *dirty) *dirty {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirty
	if !d.touched {
		return nil
	}
	d.meta = t.meta
	next.generation = d.generation + 1
	t.dirty = next
	return d
}

// maxStateKey is far below what bbolt allows. Nothing but uniqueness is asked of a key: the value holds the names too.
const maxStateKey = 1024

// appendStateKey appends the key of a row in state.db. Names come from clients and can be long; then it is a digest.
func appendStateKey(dst []byte, kind Kind, k key) []byte {
	start := len(dst)
	dst = append(dst, byte(kind))
	dst = appendString(dst, k.first)
	dst = appendString(dst, k.second)
	dst = binary.AppendVarint(dst, int64(k.queueID))
	if len(dst)-start > maxStateKey {
		sum := sha256.Sum256(dst[start:])
		dst = append(dst[:start+1], sum[:]...)
	}
	return dst
}
