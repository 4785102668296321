package controller

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/castor-mq/castor/internal/vfs"
)

const (
	storageFile = "raft.db"
	// lockTimeout is how long opening waits for another process to let go of the file.
	lockTimeout = time.Second
	// snapshotAfter is after how many entries the log is cut, and trailing how many stay even then, for members that are late.
	snapshotAfter = 10_000
	trailing      = 1_000
)

var (
	bucketRaft = []byte("raft")
	bucketLog  = []byte("log") // big-endian index → sealed entry

	keyFormat   = []byte("format")
	keyOwner    = []byte("owner") // → sealed cluster id, raft id of the member
	keyHard     = []byte("hard")  // → sealed hard state
	keySnapshot = []byte("snapshot")
)

// Errors of opening.
var (
	// ErrInUse is wrapped when another process has the file open.
	ErrInUse = errors.New("in use by another process")
	// ErrDamaged is wrapped when the file cannot be trusted. A member with a damaged file must not take part: what it has
	// acknowledged may be gone. Remove it from the quorum and add it again under another id.
	ErrDamaged = errors.New("damaged")
)

// storage keeps log, hard state and snapshot of one member: in memory for raft to read, in one bbolt file to survive. What is
// saved is durable when save returns. Only the node's goroutine uses it, but for cluster.
type storage struct {
	*raft.MemoryStorage
	db      *bolt.DB
	path    string
	cluster atomic.Uint64 // the quorum this member belongs to; 0: none yet; any goroutine may read it
	self    uint64        // raft id of the member; 0: it belongs to none yet
	bytes   int64         // of the entries since the last snapshot
	keep    uint64        // entries that stay behind a snapshot
	// present makes a snapshot of the state as it is. Members get that one and not the last that was stored: only the present
	// list of members is sure to hold the one that asks.
	present func() (*pb.Snapshot, error)
}

// openStorage opens or makes the file in dir. bbolt maps the file, so it is always one of the machine's.
func openStorage(dir string) (*storage, error) {
	fsys := vfs.OS{}
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("controller storage: %w", err)
	}
	s := &storage{MemoryStorage: raft.NewMemoryStorage(), keep: trailing, path: filepath.Join(dir, storageFile)}
	err := s.open()
	if err == nil {
		err = fsys.SyncDir(dir) // else a power loss could take the whole file away
	}
	if err != nil {
		return nil, fmt.Errorf("controller storage %s: %w", s.path, errors.Join(err, s.close()))
	}
	return s, nil
}

// open turns what bbolt panics with on a page of the wrong kind, and a fault in its mapping, into an error.
func (s *storage) open() (err error) {
	var file *os.File
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, p)
			if s.db == nil && file != nil {
				_ = file.Close() // frees the lock
			}
		}
	}()
	s.db, err = bolt.Open(s.path, 0o600, &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, perm)
			file = f
			return f, err
		}})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return ErrInUse
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return err
	}
	if err := s.db.Update(prepare); err != nil {
		return err
	}
	return s.db.View(s.load)
}

func (s *storage) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

func prepare(tx *bolt.Tx) error {
	if _, err := tx.CreateBucketIfNotExists(bucketLog); err != nil {
		return err
	}
	b, err := tx.CreateBucketIfNotExists(bucketRaft)
	if err != nil {
		return err
	}
	switch have := b.Get(keyFormat); {
	case have == nil:
		return b.Put(keyFormat, []byte{formatVersion})
	case len(have) != 1 || have[0] != formatVersion:
		return fmt.Errorf("version %v: %w", have, ErrFormat)
	}
	return nil
}

// load fills the memory.
func (s *storage) load(tx *bolt.Tx) error {
	b := tx.Bucket(bucketRaft)
	if v := b.Get(keyOwner); v != nil {
		ids, err := unseal(v)
		if err != nil || len(ids) != 16 {
			return fmt.Errorf("%w: owner: %v", ErrDamaged, err)
		}
		s.cluster.Store(binary.BigEndian.Uint64(ids))
		s.self = binary.BigEndian.Uint64(ids[8:])
	}
	hard, snap := new(pb.HardState), new(pb.Snapshot)
	if err := errors.Join(loadMessage(b.Get(keyHard), hard), loadMessage(b.Get(keySnapshot), snap)); err != nil {
		return err
	}
	if !raft.IsEmptySnap(snap) {
		if err := s.ApplySnapshot(snap); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	next := snap.GetMetadata().GetIndex() + 1
	var entries []*pb.Entry
	c := tx.Bucket(bucketLog).Cursor()
	for k, v := c.Seek(logKey(next)); k != nil; k, v = c.Next() {
		e := new(pb.Entry)
		if err := loadMessage(v, e); err != nil {
			return err
		}
		if e.GetIndex() != next || binary.BigEndian.Uint64(k) != next {
			return fmt.Errorf("%w: entry %d is missing", ErrDamaged, next)
		}
		entries = append(entries, e)
		s.bytes += int64(len(v))
		next++
	}
	if hard.GetCommit() >= next {
		return fmt.Errorf("%w: the log ends before %d, which is committed", ErrDamaged, hard.GetCommit())
	}
	if raft.IsEmptyHardState(hard) {
		return s.Append(entries)
	}
	// The commit index alone is never saved: it is learned again. But what is in a snapshot is committed.
	hard.Commit = proto.Uint64(max(hard.GetCommit(), snap.GetMetadata().GetIndex()))
	return errors.Join(s.Append(entries), s.SetHardState(hard))
}

func loadMessage(sealed []byte, m proto.Message) error {
	if sealed == nil {
		return nil
	}
	data, err := unseal(sealed)
	if err == nil {
		err = proto.Unmarshal(data, m)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

func putMessage(b *bolt.Bucket, key []byte, m proto.Message) error {
	data, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return b.Put(key, seal(data))
}

func logKey(index uint64) []byte { return binary.BigEndian.AppendUint64(nil, index) }

// Snapshot implements raft.Storage.
func (s *storage) Snapshot() (*pb.Snapshot, error) {
	if s.present != nil {
		return s.present()
	}
	return s.MemoryStorage.Snapshot()
}

// empty tells whether this member has never written a log: it is new, or it has lost its disk.
func (s *storage) empty() bool {
	last, _ := s.LastIndex() // in memory: it does not fail
	return last == 0
}

// setOwner records, once, to which member of which quorum the file belongs.
func (s *storage) setOwner(cluster, self uint64) error {
	err := s.db.Update(func(tx *bolt.Tx) error {
		ids := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, cluster), self)
		return tx.Bucket(bucketRaft).Put(keyOwner, seal(ids))
	})
	if err != nil {
		return fmt.Errorf("controller storage %s: %w", s.path, err)
	}
	s.cluster.Store(cluster)
	s.self = self
	return nil
}

// save makes a Ready durable in one transaction: a snapshot of the leader, entries, hard state, each if there is one. Entries
// replace all that were there from the index of the first on.
func (s *storage) save(hard *pb.HardState, snap *pb.Snapshot, entries []*pb.Entry) error {
	size := int64(0)
	err := s.db.Update(func(tx *bolt.Tx) error {
		meta, log := tx.Bucket(bucketRaft), tx.Bucket(bucketLog)
		if !raft.IsEmptySnap(snap) {
			if err := errors.Join(putMessage(meta, keySnapshot, snap), cut(log, 0, math.MaxUint64)); err != nil {
				return err
			}
		}
		if len(entries) > 0 {
			log.FillPercent = 0.9 // keys only ever grow
			if err := cut(log, entries[0].GetIndex(), math.MaxUint64); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if err := putMessage(log, logKey(e.GetIndex()), e); err != nil {
				return err
			}
			size += int64(len(e.GetData()))
		}
		if raft.IsEmptyHardState(hard) {
			return nil
		}
		return putMessage(meta, keyHard, hard)
	})
	if err != nil {
		return fmt.Errorf("controller storage %s: %w", s.path, err)
	}
	if !raft.IsEmptySnap(snap) {
		s.bytes = 0
		if err := s.ApplySnapshot(snap); err != nil {
			return fmt.Errorf("snapshot %d: %w", snap.GetMetadata().GetIndex(), err)
		}
	}
	s.bytes += size
	if !raft.IsEmptyHardState(hard) {
		_ = s.SetHardState(hard) // in memory
	}
	return s.Append(entries)
}

// cut removes the entries with lo <= index < hi.
func cut(log *bolt.Bucket, lo, hi uint64) error {
	c := log.Cursor()
	for k, _ := c.Seek(logKey(lo)); k != nil && binary.BigEndian.Uint64(k) < hi; k, _ = c.Seek(logKey(lo)) {
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// compact stores a snapshot of the state at index and drops the log behind it but for the last entries.
func (s *storage) compact(index uint64, conf *pb.ConfState, state []byte) error {
	snap, err := s.CreateSnapshot(index, conf, state)
	if err != nil {
		return fmt.Errorf("snapshot %d: %w", index, err)
	}
	first := index - min(index, s.keep)
	err = s.db.Update(func(tx *bolt.Tx) error {
		return errors.Join(putMessage(tx.Bucket(bucketRaft), keySnapshot, snap), cut(tx.Bucket(bucketLog), 0, first))
	})
	if err != nil {
		return fmt.Errorf("controller storage %s: snapshot %d: %w", s.path, index, err)
	}
	s.bytes = 0
	if err := s.Compact(first); err != nil && !errors.Is(err, raft.ErrCompacted) {
		return err
	}
	return nil
}
