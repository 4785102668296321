package index

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.uber.org/zap"
)

// ioSize is the most that one read or write moves, apart from chunks.
const ioSize = 64 << 10

// Flush moves the entries that wait in memory to the files. With sync it makes everything durable that was indexed before the
// call and makes the files complete: slots, then headers. It returns the log offset up to which the index is durable, that of the
// last call with sync; the log is to be put again from there, or from Indexed after Open, when the broker was killed. After an
// error the rest waits for the next call, except after a failed sync: then no call succeeds until the index is opened again.
// Put goes on meanwhile.
func (x *Index) Flush(sync bool) (durable int64, err error) {
	x.io.Lock()
	defer x.io.Unlock()
	err = x.flush(sync)
	return x.durable, err
}

func (x *Index) flush(sync bool) error {
	if x.poison != nil {
		return x.poison
	}
	to := x.indexed.Load() // What was put before it is seen below.
	var pending []*file
	x.mu.Lock()
	to = min(to, x.lost)
	for _, f := range x.files {
		if f.slots != nil {
			pending = append(pending, f)
		}
	}
	dropped, lost := x.dropped, x.lost
	x.mu.Unlock()
	if dropped > x.reported {
		x.log.Error("the key index drops entries because its disk is too slow or refuses writes: queries by key miss messages until the broker is started again",
			zap.Int64("entries", dropped-x.reported), zap.Int64("firstPhyOffset", lost))
		x.reported = dropped
	}
	for _, f := range pending { // Oldest first, so that a file on disk never follows an unfinished one (I1).
		if err := x.flushFile(f, sync); err != nil {
			return err
		}
	}
	if sync {
		x.durable = max(x.durable, to)
	}
	return nil
}

// flushFile writes one file. The header goes last and only after a sync, so that it never counts what a crash can take (I3).
func (x *Index) flushFile(f *file, sync bool) error {
	x.mu.Lock()
	hdr := f.hdr
	x.mu.Unlock()
	if hdr != f.saved {
		if err := x.create(f); err != nil {
			return err
		}
		if err := x.writeEntries(f, hdr.count); err != nil {
			return err
		}
	}
	if !sync {
		return nil
	}
	if hdr != f.saved {
		if err := x.writeSlots(f, hdr.count); err != nil {
			return err
		}
		if err := x.sync(f); err != nil {
			return err
		}
		if err := x.writeHeader(f, hdr); err != nil {
			return err
		}
	}
	if hdr.count >= x.cfg.Entries {
		x.mu.Lock()
		f.slots, f.dirty = nil, nil
		x.freeLocked(f, 0, len(f.chunks))
		x.mu.Unlock()
	}
	return nil
}

// create makes the file on disk unless it is there. A crash before its first header leaves what Open knows as unfinished.
func (x *Index) create(f *file) error {
	if f.disk != nil {
		return nil
	}
	disk, err := x.fs.Create(f.path)
	if err != nil {
		return fmt.Errorf("key index: %w", err)
	}
	err = disk.Truncate(x.cfg.fileSize())
	if err == nil {
		err = x.fs.SyncDir(x.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("key index: create: %w", errors.Join(err, disk.Close(), x.fs.Remove(f.path)))
	}
	x.mu.Lock()
	f.disk = disk
	x.mu.Unlock()
	return nil
}

// writeEntries writes the entries below count. The chunks are written as they are: Put only adds behind count.
func (x *Index) writeEntries(f *file, count int32) error {
	for {
		x.mu.Lock()
		from := f.written
		if from >= count {
			x.mu.Unlock()
			return nil
		}
		chunk := f.chunks[0]
		x.mu.Unlock()
		first := from &^ (chunkEntries - 1)
		to := min(count, first+chunkEntries)
		if _, err := f.disk.WriteAt(chunk[(from-first)*entrySize:(to-first)*entrySize], f.entryOffset(from)); err != nil {
			return fmt.Errorf("key index: %w", err)
		}
		x.mu.Lock()
		if to == first+chunkEntries {
			x.freeLocked(f, 0, 1)
		}
		f.written = to
		x.mu.Unlock()
	}
}

// writeSlots writes the pages that differ from the disk, as they were when the file had count entries.
func (x *Index) writeSlots(f *file, count int32) error {
	for page := 0; page < f.pages(); {
		first, next, data := x.copySlots(f, page, count)
		page = next
		if len(data) == 0 {
			continue
		}
		from, _ := f.pageRange(first)
		if _, err := f.disk.WriteAt(data, f.slotOffset(from)); err != nil {
			x.mu.Lock()
			for ; first < next; first++ {
				f.markLocked(first)
			}
			x.mu.Unlock()
			return fmt.Errorf("key index: %w", err)
		}
	}
	return nil
}

// copySlots finds the next marked pages that follow one another, clears their marks and returns their slots. The lock is held
// for a page at a time.
func (x *Index) copySlots(f *file, page int, count int32) (first, next int, data []byte) {
	first, data = page, x.buf[:0]
	for next = page; next < f.pages() && len(data)+pageSlots*slotSize <= ioSize; next++ {
		x.mu.Lock()
		marked := f.takeLocked(next)
		if marked {
			data = f.appendPageLocked(data, next, count)
		}
		x.mu.Unlock()
		if marked {
			continue
		}
		if len(data) > 0 {
			break
		}
		first = next + 1
	}
	return first, next, data
}

// appendPageLocked appends the slots of a page as they were at count. A slot that has moved on keeps its page marked, and its
// chain leads back to what it was: the entries since then are in memory.
func (f *file) appendPageLocked(data []byte, page int, count int32) []byte {
	from, to := f.pageRange(page)
	for _, n := range f.slots[from:to] {
		if n >= count {
			f.markLocked(page)
		}
		for n >= count {
			n = decodeEntry(f.pendingLocked(n)).prev
		}
		data = binary.BigEndian.AppendUint32(data, uint32(n))
	}
	return data
}

// writeHeader makes hdr the header on disk. What it counts is durable.
func (x *Index) writeHeader(f *file, hdr header) error {
	var b [headerSize]byte
	hdr.encode(b[:])
	if _, err := f.disk.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("key index: %w", err)
	}
	if err := x.sync(f); err != nil {
		return err
	}
	f.saved = hdr
	return nil
}

func (x *Index) sync(f *file) error {
	if err := f.disk.SyncData(); err != nil {
		x.poison = fmt.Errorf("key index: sync %s: %w", f.path, err)
		return x.poison
	}
	return nil
}
