package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"
	"strings"

	"github.com/castor-mq/castor/internal/vfs"
)

// checkpoint says from where the next start has to read the log. It lies in one of two slots of a file, each with a checksum. One of them is
// always durable and whole: what is written goes to the other, and takes its place once it is synced.
//
// soft holds after the death of this process: what was handed to the kernel. hard and durable hold after a power loss: what was
// synced. Which of them counts is told by boot, the kernel's id of this boot of the machine. The index keeps its own offset.
type checkpoint struct {
	seq       uint64
	soft      int64 // queues and state are written up to here
	hard      int64 // queues and state are synced up to here
	durable   int64 // the log is synced up to here; -1 if that is not known
	storeTime int64 // of the last record, in ms
	clean     bool  // everything was flushed and closed
	importing bool  // a Java store is being taken over
	grouped   bool  // written by a member of a group: what is above soft need not be confirmed
	wiping    bool  // everything is being dropped: see Store.Reset
	lazy      bool  // what was confirmed need not have been synced here
	torn      bool  // see Store.Torn
	joining   bool  // the state is ahead of the log: see Store.Install
	dubious   bool  // see Store.Sound
	sound     int64 // of a dubious log: it holds what was appended below it
	damaged   int64 // see Store.damaged
	boot      string

	slot int64 // that it was read from, or synced to
}

const (
	checkpointFile  = "castor.checkpoint"
	checkpointMagic = 0x43534352 // CSCR
	checkpointSlot  = 512        // one sector

	checkpointFixed = 4 + 7*8 + 1 + 1
	flagClean       = 1
	flagImporting   = 2
	flagGrouped     = 4
	flagWiping      = 8
	flagLazy        = 32
	flagTorn        = 64
	flagJoining     = 16
	flagDubious     = 128
)

var errNoCheckpoint = errors.New("no checkpoint")

func (c *checkpoint) encode() []byte {
	b := make([]byte, 0, checkpointSlot)
	be := binary.BigEndian
	b = be.AppendUint32(b, checkpointMagic)
	for _, v := range []uint64{c.seq, uint64(c.soft), uint64(c.hard), uint64(c.durable), uint64(c.storeTime), uint64(c.sound), uint64(c.damaged)} {
		b = be.AppendUint64(b, v)
	}
	flags := byte(0)
	for flag, set := range map[byte]bool{flagClean: c.clean, flagImporting: c.importing, flagGrouped: c.grouped, flagWiping: c.wiping, flagLazy: c.lazy, flagTorn: c.torn, flagJoining: c.joining, flagDubious: c.dubious} {
		if set {
			flags |= flag
		}
	}
	b = append(b, flags, byte(len(c.boot)))
	b = append(b, c.boot...)
	b = be.AppendUint32(b, crc32.ChecksumIEEE(b))
	return append(b, make([]byte, checkpointSlot-len(b))...)
}

func (c *checkpoint) decode(b []byte) bool {
	be := binary.BigEndian
	if len(b) < checkpointSlot || be.Uint32(b) != checkpointMagic {
		return false
	}
	n := checkpointFixed + int(b[checkpointFixed-1])
	if crc32.ChecksumIEEE(b[:n]) != be.Uint32(b[n:]) {
		return false
	}
	field := func(i int) int64 { return int64(be.Uint64(b[4+8*i:])) }
	flags := b[checkpointFixed-2]
	*c = checkpoint{seq: uint64(field(0)), soft: field(1), hard: field(2), durable: field(3), storeTime: field(4), sound: field(5), damaged: field(6),
		clean: flags&flagClean != 0, importing: flags&flagImporting != 0, grouped: flags&flagGrouped != 0, wiping: flags&flagWiping != 0,
		lazy: flags&flagLazy != 0, torn: flags&flagTorn != 0, joining: flags&flagJoining != 0, dubious: flags&flagDubious != 0, boot: string(b[checkpointFixed:n])}
	return true
}

// readCheckpoint returns the newer of the two slots; errNoCheckpoint if there is none.
func readCheckpoint(fsys vfs.FS, path string) (best checkpoint, err error) {
	b, err := fsys.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return best, errNoCheckpoint
	}
	if err != nil {
		return best, err
	}
	found := false
	for slot := int64(0); len(b) >= checkpointSlot; slot++ {
		var c checkpoint
		if c.decode(b) && (!found || c.seq > best.seq) {
			best, found = c, true
			best.slot = slot
		}
		b = b[checkpointSlot:]
	}
	if !found {
		return best, errNoCheckpoint
	}
	return best, nil
}

// keepCheckpoint makes durable what readCheckpoint has read: the process may have died before that was.
func (s *Store) keepCheckpoint() error {
	f, err := s.fs.Open(s.Dir(checkpointFile))
	if err != nil {
		return err
	}
	return errors.Join(f.SyncData(), f.Close())
}

// writeCheckpoint writes c into the slot that need not stay.
func (s *Store) writeCheckpoint(c checkpoint, sync bool) error {
	path := s.Dir(checkpointFile)
	f, err := s.fs.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		sync = true // with the directory
		if f, err = s.fs.Create(path); err == nil {
			err = s.fs.SyncDir(s.cfg.Root)
		}
	}
	if err != nil {
		return err
	}
	c.lazy, c.damaged = c.lazy || !s.live.Load().syncFlush, s.damaged.Load()
	c.seq = s.checkpoint.seq + 1
	slot := 1 - s.checkpoint.slot
	c.slot = s.checkpoint.slot
	_, err = f.WriteAt(c.encode(), slot*checkpointSlot)
	if err == nil && sync {
		err = f.SyncData()
		c.slot = slot
	}
	if err = errors.Join(err, f.Close()); err == nil {
		s.checkpoint = c
		s.noteSound()
	}
	return err
}

// noteSound has Sound say what the checkpoint does.
func (s *Store) noteSound() {
	to := int64(math.MaxInt64)
	if s.checkpoint.dubious {
		to = s.checkpoint.sound
	}
	s.soundTo.Store(to)
}

// bootID tells one boot of the machine from another; empty where the kernel does not say, which counts as another boot.
func bootID(fsys vfs.FS) string {
	b, err := fsys.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
