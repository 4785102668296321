package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

// badSuffix ends the name of a file that was set aside.
const badSuffix = ".bad"

// errUnfinished means that a crash has come between the creation of a file and its first header.
var errUnfinished = errors.New("unfinished")

// Open reads the headers of the files that are there and the slot table of the newest, to which entries are added if it is not
// full. A file that is damaged or of another size is renamed to *.bad and reported; the keys in it are not found any more. The
// error is that of the directory.
func Open(cfg Config, fsys vfs.FS, clk clock.Clock, log *zap.Logger) (*Index, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := errors.Join(fsys.MkdirAll(cfg.Dir), fsys.SyncDir(filepath.Dir(cfg.Dir))); err != nil {
		return nil, fmt.Errorf("key index: %w", err)
	}
	entries, err := fsys.ReadDir(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("key index: %w", err)
	}
	x := &Index{
		cfg: cfg, fs: fsys, clk: clk, log: log, maxChunks: memoryLimit / chunkSize,
		buf: make([]byte, ioSize), lost: noLoss,
	}
	for _, e := range entries {
		name := e.Name()
		n := parseName(strings.TrimSuffix(name, badSuffix))
		x.name = max(x.name, n)
		switch {
		case n == 0 || e.IsDir():
			log.Warn("a file that is no key index is ignored", zap.String("file", filepath.Join(cfg.Dir, name)))
		case !strings.HasSuffix(name, badSuffix):
			x.load(name)
		}
	}
	x.activate()
	_, end := x.LastUpdate()
	x.durable = end
	x.indexed.Store(end)
	return x, nil
}

// load appends a file to the list if it is sound.
func (x *Index) load(name string) {
	f := x.newFile(name)
	err := x.readHeader(f)
	if err == nil {
		if n := len(x.files); n > 0 && f.hdr == (header{count: 1}) {
			f.hdr.inherit(x.files[n-1].hdr)
		}
		f.saved, f.written = f.hdr, f.hdr.count
		x.files = append(slices.Clip(x.files), f)
		return
	}
	err = errors.Join(err, f.close())
	if !errors.Is(err, errUnfinished) {
		x.setAside(f, err)
		return
	}
	if err := x.fs.Remove(f.path); err != nil {
		x.log.Warn("an unfinished file of the key index stays", zap.Error(err))
	}
}

// setAside renames a file that is closed.
func (x *Index) setAside(f *file, reason error) {
	err := x.fs.Rename(f.path, f.path+badSuffix)
	if err == nil {
		err = x.fs.SyncDir(x.cfg.Dir)
	}
	x.log.Error("a file of the key index is set aside: queries by key miss the messages in it",
		zap.String("file", f.path+badSuffix), zap.NamedError("reason", reason), zap.Error(err))
}

// readHeader opens a file and reads and checks its header.
func (x *Index) readHeader(f *file) error {
	disk, err := x.fs.Open(f.path)
	if err != nil {
		return err
	}
	f.disk = disk
	size, err := disk.Size()
	if err != nil {
		return err
	}
	var b [headerSize]byte
	if _, err := disk.ReadAt(b[:], 0); err != nil && err != io.EOF {
		return err
	}
	f.hdr = decodeHeader(b[:])
	if f.hdr.count == 0 {
		f.hdr.count = 1
	}
	h := &f.hdr
	switch want := x.cfg.fileSize(); {
	case size != want && *h == header{count: 1}:
		return errUnfinished
	case size != want:
		return fmt.Errorf("%d bytes; %d slots (maxHashSlotNum) and %d entries (maxIndexNum) make %d", size, x.cfg.Slots, x.cfg.Entries, want)
	case h.count < 1 || h.count > x.cfg.Entries || h.slotsUsed < 0 || h.slotsUsed >= h.count:
		return fmt.Errorf("the header counts %d entries in %d slots", h.count, h.slotsUsed)
	case h.beginPhy < 0 || h.beginPhy > h.endPhy:
		return fmt.Errorf("the header says log offsets %d to %d", h.beginPhy, h.endPhy)
	}
	return nil
}

// activate makes the newest file the one that entries are added to, unless it is full. One that cannot be is set aside and the
// one before it takes its place. The caller holds io or is Open.
func (x *Index) activate() {
	for f := x.newest(); f != nil && f.hdr.count < x.cfg.Entries; f = x.newest() {
		err := x.makeWritable(f)
		if err == nil {
			x.mu.Lock()
			x.active = f
			x.mu.Unlock()
			return
		}
		x.discard(f, err)
	}
}

// newest returns the newest file, nil when there is none. Its header may be read while nobody puts.
func (x *Index) newest() *file {
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := len(x.files); n > 0 {
		return x.files[n-1]
	}
	return nil
}

// discard sets the newest file aside.
func (x *Index) discard(f *file, reason error) {
	x.mu.Lock()
	x.forgetLocked(f)
	x.mu.Unlock()
	x.setAside(f, errors.Join(reason, f.close()))
}

// makeWritable brings the slots of a file into memory, built again when those on disk do not agree with the header (I3).
func (x *Index) makeWritable(f *file) error {
	if f.slots != nil {
		return nil
	}
	slots := make([]int32, x.cfg.Slots)
	dirty := make([]uint64, f.pages()/64+1)
	sound, err := x.readSlots(f, slots)
	if err != nil {
		return err
	}
	hdr := f.hdr
	if !sound {
		clear(slots)
		if hdr, err = x.rebuildSlots(f, slots); err != nil {
			return err
		}
		for page := range f.pages() {
			dirty[page/64] |= 1 << (page % 64)
		}
		x.log.Warn("the slots of a key index file are built again from its entries", zap.String("file", f.path),
			zap.Int32("entries", hdr.count-1), zap.Int32("before", f.hdr.count-1))
	}
	if hdr != f.hdr {
		if err := x.writeHeader(f, hdr); err != nil {
			return err
		}
	}
	x.mu.Lock()
	f.hdr, f.slots, f.dirty, f.written = hdr, slots, dirty, hdr.count
	x.mu.Unlock()
	return x.writeSlots(f, hdr.count)
}

// readSlots reads the slot table and tells whether it agrees with the header, and that with the last entry. Slots that are 0 are
// not touched, so a table that is mostly empty costs little memory.
func (x *Index) readSlots(f *file, slots []int32) (sound bool, err error) {
	used := int32(0)
	for i := 0; i < len(slots); {
		b := x.buf[:min(len(slots)-i, ioSize/slotSize)*slotSize]
		if err := readFull(f, b, f.slotOffset(i)); err != nil {
			return false, err
		}
		for ; len(b) > 0; i, b = i+1, b[slotSize:] {
			n := int32(binary.BigEndian.Uint32(b))
			if n < 0 || n >= f.hdr.count {
				return false, nil
			}
			if n != 0 {
				slots[i] = n
				used++
			}
		}
	}
	if last := f.hdr.count - 1; last > 0 {
		b := x.buf[:entrySize]
		if err := readFull(f, b, f.entryOffset(last)); err != nil {
			return false, err
		}
		if e := decodeEntry(b); !e.validAt(last) || e.phy != f.hdr.endPhy {
			return false, nil
		}
	}
	return used == f.hdr.slotsUsed, nil
}

// rebuildSlots fills slots from the entries and returns the header that belongs to them. What follows the first entry that does
// not fit to those before it is cut off: it was lost in a crash.
func (x *Index) rebuildSlots(f *file, slots []int32) (header, error) {
	hdr := f.hdr
	hdr.slotsUsed, hdr.count = 0, 1
	last := entry{phy: hdr.beginPhy}
	const perRead = ioSize / entrySize
	for n := int32(1); n < f.hdr.count; {
		b := x.buf[:min(f.hdr.count-n, perRead)*entrySize]
		if err := readFull(f, b, f.entryOffset(n)); err != nil {
			return hdr, err
		}
		for ; len(b) > 0; n, b = n+1, b[entrySize:] {
			e := decodeEntry(b)
			if !e.validAt(n) || e.phy < last.phy || e.prev != slots[e.hash%f.slotCount] {
				return hdr, hdr.cutAfter(last, n)
			}
			if e.prev == 0 {
				hdr.slotsUsed++
			}
			slots[e.hash%f.slotCount] = n
			last = e
			hdr.count++
		}
	}
	if f.hdr.count > 1 && last.phy != f.hdr.endPhy {
		return hdr, hdr.cutAfter(last, f.hdr.count)
	}
	return hdr, nil
}

// cutAfter makes last, entry count-1, the last one of the header. The exact store time of that entry is not known any more.
func (h *header) cutAfter(last entry, count int32) error {
	if count <= 1 {
		return errors.New("no entry is sound")
	}
	h.count, h.endPhy = count, last.phy
	h.endTime = min(h.endTime, h.timeOf(count-1, last)+999)
	return nil
}

// readFull reads len(b) bytes of a file, which has them unless it is damaged.
func readFull(f *file, b []byte, off int64) error {
	_, err := f.disk.ReadAt(b, off)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
