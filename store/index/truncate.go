package index

import (
	"errors"
	"fmt"
	"io/fs"
)

// Truncate drops the entries of records at or above logEnd, so that putting may start again there. Nobody may call Put or
// SetIndexed meanwhile. After it Indexed is at most logEnd; it is less when damage was found, and then putting starts there.
func (x *Index) Truncate(logEnd int64) error {
	x.io.Lock()
	defer x.io.Unlock()
	x.link()
	if x.poison != nil {
		return x.poison
	}
	end, err := x.truncateFiles(logEnd)
	x.activate()
	x.durable = min(x.durable, end)
	x.indexed.Store(min(x.indexed.Load(), end))
	x.mu.Lock()
	if x.lost >= end {
		x.lost = noLoss
	}
	x.mu.Unlock()
	return err
}

// truncateFiles drops whole files, newest first, and then the end of one. What it removes is gone for good when it returns: a
// file that comes back after a crash would pass for one of the records that are appended to the log next.
func (x *Index) truncateFiles(logEnd int64) (end int64, err error) {
	end = logEnd
	removed := false
	for f := x.newest(); f != nil; f = x.newest() {
		if f.hdr.count == 1 || f.hdr.beginPhy >= logEnd {
			if err := x.remove(f); err != nil {
				return end, err
			}
			removed = true
			continue
		}
		if f.hdr.endPhy < logEnd {
			break
		}
		err := x.makeWritable(f)
		if err == nil {
			err = x.cut(f, logEnd)
		}
		if err == nil {
			break
		}
		if x.poison != nil {
			return end, err
		}
		x.discard(f, err)
		_, end = x.LastUpdate()
		end = min(end, logEnd)
	}
	if removed {
		err = x.fs.SyncDir(x.cfg.Dir)
	}
	return end, err
}

// cut drops the newest entries of a file until the last one is below logEnd. Each gives its slot back to its predecessor. The
// header on disk goes first: entries that it counts must not be overwritten (I3).
func (x *Index) cut(f *file, logEnd int64) error {
	entries := reader{index: x, buf: make([]byte, pageEntries*entrySize)}
	entries.open(f)
	hdr := f.hdr
	for n := hdr.count - 1; ; n-- {
		e, err := entries.at(n)
		if err != nil {
			return err
		}
		if n > 0 && e.validAt(n) && e.phy < logEnd {
			if err := hdr.cutAfter(e, n+1); err != nil {
				return err
			}
			break
		}
		if n == 0 || !e.validAt(n) || f.slots[e.hash%f.slotCount] != n {
			return fmt.Errorf("entry %d is in no chain", n)
		}
		if e.prev == 0 {
			hdr.slotsUsed--
		}
		x.mu.Lock()
		f.slots[e.hash%f.slotCount] = e.prev
		f.markLocked(pageOf(e.hash % f.slotCount))
		x.mu.Unlock()
	}
	for slot, n := range f.slots { // two slots that name one entry, of which it has given back its own only
		if n >= hdr.count {
			return fmt.Errorf("slot %d names entry %d of another", slot, n)
		}
	}
	x.mu.Lock()
	f.hdr = hdr
	if hdr.count > f.written {
		x.freeLocked(f, f.chunkOf(hdr.count-1)+1, len(f.chunks))
	} else {
		x.freeLocked(f, 0, len(f.chunks))
		f.written = hdr.count
	}
	x.mu.Unlock()
	if f.saved.count <= hdr.count {
		return nil
	}
	if err := x.writeHeader(f, hdr); err != nil {
		return err
	}
	return x.writeSlots(f, hdr.count)
}

// RemoveBefore removes the oldest files whose records all lie below minPhy, the start of the log; never the newest file, which
// tells where the index ends.
func (x *Index) RemoveBefore(minPhy int64) error {
	x.io.Lock()
	defer x.io.Unlock()
	removed := false
	for f := x.oldestBefore(minPhy); f != nil; f = x.oldestBefore(minPhy) {
		if err := x.remove(f); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return x.fs.SyncDir(x.cfg.Dir)
}

// oldestBefore returns the oldest file if it ends below minPhy and is not the newest.
func (x *Index) oldestBefore(minPhy int64) *file {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.files) < 2 || x.files[0].hdr.endPhy >= minPhy {
		return nil
	}
	return x.files[0]
}

// remove deletes a file.
func (x *Index) remove(f *file) error {
	if f.disk != nil {
		if err := x.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("key index: %w", err)
		}
	}
	x.mu.Lock()
	x.forgetLocked(f)
	x.mu.Unlock()
	if err := f.close(); err != nil {
		return fmt.Errorf("key index: %w", err)
	}
	return nil
}
