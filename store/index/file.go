package index

import (
	"encoding/binary"
	"math"

	"github.com/castor-mq/castor/internal/vfs"
)

// The layout of a file: header, slots (i32, number of the newest entry of the chain), entries. All integers are big-endian.
const (
	headerSize = 40
	slotSize   = 4
	entrySize  = 20
)

const (
	// chunkEntries is how many entries a chunk of memory holds; chunk k of a file holds those from k*chunkEntries on.
	chunkEntries = 1 << chunkShift
	chunkShift   = 12
	chunkSize    = chunkEntries * entrySize

	// The slot table is written in pages of the file. Page p holds the slots [p*pageSlots-headerSlots, (p+1)*pageSlots-headerSlots).
	pageSlots   = 4096 / slotSize
	headerSlots = headerSize / slotSize
)

// header is IndexHeader. Times are store times in ms, offsets are of the log. count is the number of the next entry and starts
// at 1; slotsUsed counts the slots that are not 0.
type header struct {
	beginTime, endTime int64
	beginPhy, endPhy   int64
	slotsUsed, count   int32
}

func (h *header) encode(b []byte) {
	binary.BigEndian.PutUint64(b, uint64(h.beginTime))
	binary.BigEndian.PutUint64(b[8:], uint64(h.endTime))
	binary.BigEndian.PutUint64(b[16:], uint64(h.beginPhy))
	binary.BigEndian.PutUint64(b[24:], uint64(h.endPhy))
	binary.BigEndian.PutUint32(b[32:], uint32(h.slotsUsed))
	binary.BigEndian.PutUint32(b[36:], uint32(h.count))
}

func decodeHeader(b []byte) header {
	return header{
		beginTime: int64(binary.BigEndian.Uint64(b)),
		endTime:   int64(binary.BigEndian.Uint64(b[8:])),
		beginPhy:  int64(binary.BigEndian.Uint64(b[16:])),
		endPhy:    int64(binary.BigEndian.Uint64(b[24:])),
		slotsUsed: int32(binary.BigEndian.Uint32(b[32:])),
		count:     int32(binary.BigEndian.Uint32(b[36:])),
	}
}

// inherit is what a file without entries says: the end of the file before it.
func (h *header) inherit(last header) {
	h.beginTime, h.endTime, h.beginPhy, h.endPhy = last.endTime, last.endTime, last.endPhy, last.endPhy
}

// entry is one key of one record. seconds is the store time since the header's beginTime; prev is the next older entry of the
// same slot, 0 when there is none.
type entry struct {
	hash    int32
	phy     int64
	seconds int32
	prev    int32
}

func (e *entry) encode(b []byte) {
	_ = b[entrySize-1]
	binary.BigEndian.PutUint32(b, uint32(e.hash))
	binary.BigEndian.PutUint64(b[4:], uint64(e.phy))
	binary.BigEndian.PutUint32(b[12:], uint32(e.seconds))
	binary.BigEndian.PutUint32(b[16:], uint32(e.prev))
}

func decodeEntry(b []byte) entry {
	_ = b[entrySize-1]
	return entry{
		hash:    int32(binary.BigEndian.Uint32(b)),
		phy:     int64(binary.BigEndian.Uint64(b[4:])),
		seconds: int32(binary.BigEndian.Uint32(b[12:])),
		prev:    int32(binary.BigEndian.Uint32(b[16:])),
	}
}

// validAt tells whether e can be entry n of a file.
func (e *entry) validAt(n int32) bool {
	return e.hash >= 0 && e.phy >= 0 && e.seconds >= 0 && e.prev >= 0 && e.prev < n
}

// file is one index file. Index.mu guards what is not said to be the flusher's or constant.
type file struct {
	path      string // constant
	slotCount int32  // constant
	saved     header // flusher only: the header on disk

	disk vfs.File // nil before the first Flush

	hdr   header
	slots []int32  // each below hdr.count; nil in a file that is only read
	dirty []uint64 // one bit for each page of slots that differs from the disk

	// Entries below written are on disk, the others in chunks, of which the first holds entry number written.
	written int32
	chunks  [][]byte
}

func (f *file) pages() int { return pageOf(f.slotCount-1) + 1 }

func pageOf(slot int32) int { return (int(slot) + headerSlots) / pageSlots }

// pageRange returns the slots of a page.
func (f *file) pageRange(page int) (from, to int) {
	from = page*pageSlots - headerSlots
	return max(from, 0), min(from+pageSlots, int(f.slotCount))
}

func (f *file) slotOffset(slot int) int64 { return headerSize + int64(slot)*slotSize }

func (f *file) entryOffset(n int32) int64 { return f.slotOffset(int(f.slotCount)) + int64(n)*entrySize }

// chunkOf returns the position in chunks of entry n, which is not below written.
func (f *file) chunkOf(n int32) int { return int(n>>chunkShift) - int(f.written>>chunkShift) }

// pendingLocked returns the bytes of an entry that is not below written.
func (f *file) pendingLocked(n int32) []byte {
	return f.chunks[f.chunkOf(n)][n&(chunkEntries-1)*entrySize:][:entrySize]
}

// putLocked appends an entry, for which there is room in the file and in the chunks.
func (f *file) putLocked(p put) {
	h := &f.hdr
	if h.count == 1 {
		h.beginTime, h.beginPhy = p.time, p.phy
	}
	slot := p.hash % f.slotCount
	e := entry{hash: p.hash, phy: p.phy, seconds: h.secondsAt(p.time), prev: f.slots[slot]}
	e.encode(f.pendingLocked(h.count))
	if e.prev == 0 {
		h.slotsUsed++
	}
	f.slots[slot] = h.count
	f.markLocked(pageOf(slot))
	h.endTime, h.endPhy = p.time, p.phy
	h.count++
}

// secondsAt is the time of an entry as the format keeps it.
func (h *header) secondsAt(timestamp int64) int32 {
	if h.beginTime <= 0 || timestamp <= h.beginTime {
		return 0
	}
	return int32(min((timestamp-h.beginTime)/1000, math.MaxInt32))
}

// timeOf is the earliest store time (ms) that entry n may have had; the real one is less than a second later. The first entry
// has the begin time itself: Java computes its seconds from the time that the file inherited, which is no longer known.
func (h *header) timeOf(n int32, e entry) int64 {
	if n == 1 {
		return h.beginTime
	}
	return h.beginTime + int64(e.seconds)*1000
}

func (f *file) markLocked(page int) { f.dirty[page/64] |= 1 << (page % 64) }

// takeLocked clears a page's mark and tells whether there was one.
func (f *file) takeLocked(page int) bool {
	bit := uint64(1) << (page % 64)
	marked := f.dirty[page/64]&bit != 0
	f.dirty[page/64] &^= bit
	return marked
}

func (f *file) close() error {
	if f.disk == nil {
		return nil
	}
	return f.disk.Close()
}
