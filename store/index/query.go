package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
)

// secondMs widens the window of a query: an entry has whole seconds since the begin of its file, up to 999 ms less than the
// record's store time.
const secondMs = 1000

// Query calls found with the log offsets of records that may have the key and a store time in [begin, end] ms, newest first, at
// most max of them, until it returns false. No offset comes twice. No lock is held meanwhile. Hashes collide, times are coarse
// and a truncated log takes records away, so the caller checks each record. A file that cannot be read does not keep the others
// from being searched; its error is returned in the end.
func (x *Index) Query(topic, key string, max int, begin, end int64, found func(phyOffset int64) bool) error {
	q := query{
		entries: reader{index: x, buf: make([]byte, pageEntries*entrySize)},
		hash:    HashTopic(topic).keyHash([]byte(key)), begin: begin, end: end, left: max, last: -1, found: found,
	}
	if begin > math.MinInt64+secondMs {
		q.begin -= secondMs
	}
	if end < math.MaxInt64-secondMs {
		q.end += secondMs
	}
	x.mu.Lock()
	files := x.files
	x.mu.Unlock()
	var err error
	for i := len(files) - 1; i >= 0 && q.left > 0; i-- {
		hdr, newest := x.chain(files[i], q.hash%x.cfg.Slots)
		if hdr.count > 1 && hdr.beginTime <= q.end && hdr.endTime >= q.begin {
			e := q.search(files[i], hdr, newest)
			if e != nil && !errors.Is(e, fs.ErrClosed) { // Closed: removed since the list was taken.
				err = errors.Join(err, fmt.Errorf("key index: %s: %w", files[i].path, e))
			}
		}
		if hdr.beginTime < q.begin {
			break
		}
	}
	return err
}

// onDisk stands for the number of an entry that is in a slot on disk.
const onDisk = -1

// chain returns the header of a file and the newest entry of a slot, or onDisk.
func (x *Index) chain(f *file, slot int32) (hdr header, newest int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if f.slots == nil {
		return f.hdr, onDisk
	}
	return f.hdr, f.slots[slot]
}

// query is one Query.
type query struct {
	entries    reader
	hash       int32
	begin, end int64 // ms, widened
	left       int   // how many more offsets; 0 ends the query
	last       int64 // the offset found last
	found      func(phyOffset int64) bool
}

// search walks the chain of the key in one file. As in IndexFile.selectPhyOffset it ends at an entry before the window.
func (q *query) search(f *file, hdr header, n int32) error {
	if n == onDisk {
		b := q.entries.buf[:slotSize]
		if err := readFull(f, b, f.slotOffset(int(q.hash%f.slotCount))); err != nil {
			return err
		}
		n = int32(binary.BigEndian.Uint32(b))
	}
	q.entries.open(f)
	for n > 0 && n < hdr.count && q.left > 0 {
		e, err := q.entries.at(n)
		if err != nil {
			return err
		}
		at := hdr.timeOf(n, e)
		if !e.validAt(n) || at < q.begin {
			return nil
		}
		if e.hash == q.hash && at <= q.end && e.phy != q.last {
			q.last = e.phy
			q.left--
			if !q.found(e.phy) {
				q.left = 0
			}
		}
		n = e.prev
	}
	return nil
}

// pageEntries is how many entries a reader reads at once: the members of a long chain are close together.
const pageEntries = 4096 / entrySize

// reader reads single entries of a file, in descending order at best.
type reader struct {
	index  *Index
	file   *file
	buf    []byte
	lo, hi int32 // entries in buf
}

func (r *reader) open(f *file) { r.file, r.lo, r.hi = f, 0, 0 }

// at returns entry n from memory or from the file. The error is fs.ErrClosed when it has been removed meanwhile.
func (r *reader) at(n int32) (entry, error) {
	if n < r.lo || n >= r.hi {
		var b [entrySize]byte
		r.index.mu.Lock()
		inMemory := n >= r.file.written
		gone := inMemory && r.file.chunkOf(n) >= len(r.file.chunks)
		if inMemory && !gone {
			copy(b[:], r.file.pendingLocked(n))
		}
		r.index.mu.Unlock()
		switch {
		case gone:
			return entry{}, fs.ErrClosed
		case inMemory:
			return decodeEntry(b[:]), nil
		}
		r.lo, r.hi = max(0, n+1-pageEntries), 0
		if err := readFull(r.file, r.buf[:(n+1-r.lo)*entrySize], r.file.entryOffset(r.lo)); err != nil {
			return entry{}, err
		}
		r.hi = n + 1
	}
	return decodeEntry(r.buf[(n-r.lo)*entrySize:]), nil
}
