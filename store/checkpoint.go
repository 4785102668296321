package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"strings"

	"github.com/castor-mq/castor/internal/vfs"
)

// checkpoint says from where the next start has to read the log. It lies in two slots of one file that are written in turn, each
// with a checksum, so that a torn write leaves the other.
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
	joining   bool  // the state is ahead of the log: see Store.Install
	boot      string
}

const (
	checkpointFile  = "castor.checkpoint"
	checkpointMagic = 0x43534350 // CSCP
	checkpointSlot  = 512        // one sector

	checkpointFixed = 4 + 5*8 + 1 + 1
	flagClean       = 1
	flagImporting   = 2
	flagGrouped     = 4
	flagWiping      = 8
	flagJoining     = 16
)

var errNoCheckpoint = errors.New("no checkpoint")

func (c *checkpoint) encode() []byte {
	b := make([]byte, 0, checkpointSlot)
	be := binary.BigEndian
	b = be.AppendUint32(b, checkpointMagic)
	for _, v := range []uint64{c.seq, uint64(c.soft), uint64(c.hard), uint64(c.durable), uint64(c.storeTime)} {
		b = be.AppendUint64(b, v)
	}
	flags := byte(0)
	for flag, set := range map[byte]bool{flagClean: c.clean, flagImporting: c.importing, flagGrouped: c.grouped, flagWiping: c.wiping, flagJoining: c.joining} {
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
	*c = checkpoint{seq: uint64(field(0)), soft: field(1), hard: field(2), durable: field(3), storeTime: field(4),
		clean: flags&flagClean != 0, importing: flags&flagImporting != 0, grouped: flags&flagGrouped != 0, wiping: flags&flagWiping != 0,
		joining: flags&flagJoining != 0, boot: string(b[checkpointFixed:n])}
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
	for ; len(b) >= checkpointSlot; b = b[checkpointSlot:] {
		var c checkpoint
		if c.decode(b) && (!found || c.seq > best.seq) {
			best, found = c, true
		}
	}
	if !found {
		return best, errNoCheckpoint
	}
	return best, nil
}

// writeCheckpoint writes c into the slot whose turn it is.
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
	c.seq = s.checkpoint.seq + 1
	_, err = f.WriteAt(c.encode(), int64(c.seq%2)*checkpointSlot)
	if err == nil && sync {
		err = f.SyncData()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		s.checkpoint = c
	}
	return err
}

// bootID tells one boot of the machine from another; empty where the kernel does not say, which counts as another boot.
func bootID(fsys vfs.FS) string {
	b, err := fsys.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
