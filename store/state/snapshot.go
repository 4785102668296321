package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"github.com/castor-mq/castor/internal/vfs"
)

// A snapshot is
//
//	8      magic
//	frame  meta, which starts with the format version
//	frame  one row, as often as there are rows
//	frame  empty
//	8      number of rows
//	4      CRC-32C of everything before it
//
// with frames of an uvarint length and that many bytes. All integers are big-endian.
const snapshotMagic = "castorst"

const (
	// maxFrame bounds the length of a row that Restore believes; a row is part of a log record.
	maxFrame = 64 << 20
	// rowsPerTx bounds the memory of Restore: bbolt holds what a transaction writes.
	rowsPerTx = 4096
)

// ErrSnapshot is wrapped by Restore's errors about what it read.
var ErrSnapshot = errors.New("unusable state snapshot")

// Snapshot writes the last committed copy of the state to w and returns its applied offset. Commits and Apply go on
// meanwhile.
func (db *DB) Snapshot(w io.Writer) (applied int64, err error) {
	path := db.bolt.Path()
	defer guard(path, func(damaged error) { err = damaged })()
	var m meta
	err = db.bolt.View(func(tx *bolt.Tx) error {
		if err := readMeta(tx, path, &m); err != nil {
			return err
		}
		s := snapshotWriter{w: bufio.NewWriter(w), sum: crc32.New(castagnoli)}
		s.write([]byte(snapshotMagic))
		s.frame(m.append(nil))
		rows := uint64(0)
		err := eachRow(tx, path, func(_ *Change, encoded []byte) error {
			rows++
			s.frame(encoded)
			return s.err
		})
		if err != nil {
			return err
		}
		s.frame(nil)
		s.write(binary.BigEndian.AppendUint64(nil, rows))
		s.write(binary.BigEndian.AppendUint32(nil, s.sum.Sum32()))
		if s.err != nil {
			return s.err
		}
		return s.w.Flush()
	})
	if err != nil {
		return 0, fmt.Errorf("state snapshot: %w", err)
	}
	return m.applied, nil
}

// snapshotWriter keeps the first error.
type snapshotWriter struct {
	w      *bufio.Writer
	sum    hash.Hash32
	prefix [binary.MaxVarintLen64]byte
	err    error
}

func (s *snapshotWriter) write(b []byte) {
	if s.err == nil {
		s.sum.Write(b)
		_, s.err = s.w.Write(b)
	}
}

func (s *snapshotWriter) frame(b []byte) {
	s.write(s.prefix[:binary.PutUvarint(s.prefix[:], uint64(len(b)))])
	s.write(b)
}

// Restore makes the state file at path, which must not be open, from a snapshot, and returns its applied offset. r must end
// with the snapshot. An error leaves a file at path as it was; what r delivers is believed only after its checksum.
func Restore(r io.Reader, path string) (applied int64, err error) {
	temp := path + ".restore"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("restore state: %w", err)
	}
	applied, err = restore(r, temp)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err == nil {
		err = vfs.OS{}.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		os.Remove(temp)
		return 0, fmt.Errorf("restore state: %w", err)
	}
	return applied, nil
}

func restore(r io.Reader, path string) (applied int64, err error) {
	// Nobody reads the file before it is complete: one sync at the end is enough.
	db, err := bolt.Open(path, filePerm, &bolt.Options{Timeout: lockTimeout, NoSync: true, FreelistType: bolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	m, err := fill(db, r, func(*Change) {})
	if err != nil {
		return 0, err
	}
	return m.applied, db.Sync()
}

// fill puts the rows of a snapshot into a state file that has none, and calls each for every row, which dies with the call.
func fill(db *bolt.DB, r io.Reader, each func(c *Change)) (m meta, err error) {
	s, m, err := beginSnapshot(r)
	if err != nil {
		return m, err
	}
	rows := uint64(0)
	for more := true; more; {
		err := db.Update(func(tx *bolt.Tx) error {
			n, err := s.rows(tx, &m, each)
			rows += n
			more = n == rowsPerTx
			return err
		})
		if err != nil {
			return m, err
		}
	}
	return m, s.end(rows)
}

// CheckSnapshot reads a snapshot, which must end with r, and returns its applied offset. What it has accepted Install accepts.
func CheckSnapshot(r io.Reader) (applied int64, err error) {
	s, m, err := beginSnapshot(r)
	var c Change
	rows := uint64(0)
	for ; err == nil; rows++ {
		encoded := s.frame()
		if s.err == nil && len(encoded) == 0 {
			return m.applied, s.end(rows)
		}
		if err = s.err; err == nil {
			err = snapshotError(decodeRow(encoded, &c))
		}
	}
	return 0, err
}

// Install replaces the whole state, in memory and in state.db, by a snapshot, which must end with r, and returns its applied offset. To
// readers a row is the old one or the new one. Nobody may call Apply meanwhile. After an error, or a crash on the way, the state file is
// of no use: see Remove.
func (db *DB) Install(r io.Reader) (applied int64, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.bolt.NoSync = true // one sync at the end
	defer func() { db.bolt.NoSync = false }()
	if err = db.bolt.Update(deleteRows); err != nil {
		return 0, fmt.Errorf("install state: %w", err)
	}
	fresh := db.tables.sibling()
	m, err := fill(db.bolt, r, fresh.set)
	if err == nil {
		err = db.bolt.Sync()
	}
	if err != nil {
		return 0, fmt.Errorf("install state: %w", err)
	}
	db.pending, db.spare = nil, newDirty()
	db.tables.become(fresh, m)
	return m.applied, nil
}

// snapshotReader keeps the first error, after which it returns nil.
type snapshotReader struct {
	r   *bufio.Reader
	sum hash.Hash32
	buf bytes.Buffer
	err error
}

// beginSnapshot reads what stands before the rows.
func beginSnapshot(r io.Reader) (s snapshotReader, m meta, err error) {
	s = snapshotReader{r: bufio.NewReader(r), sum: crc32.New(castagnoli)}
	if magic := s.fixed(len(snapshotMagic)); s.err == nil && string(magic) != snapshotMagic {
		return s, m, fmt.Errorf("%w: it does not start like one", ErrSnapshot)
	}
	head := s.frame()
	if s.err != nil {
		return s, m, s.err
	}
	return s, m, snapshotError(m.decode(head))
}

// snapshotError says of what it is that err is wrong.
func snapshotError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrSnapshot, err)
}

// fixed reads n bytes, which die with the next call.
func (s *snapshotReader) fixed(n int) []byte {
	s.buf.Reset()
	// The buffer grows with what arrives, not with what a length promises.
	if s.err == nil {
		_, s.err = io.CopyN(&s.buf, s.r, int64(n))
	}
	if s.err != nil {
		s.err = fmt.Errorf("%w: %w", ErrSnapshot, noEOF(s.err))
		return nil
	}
	s.sum.Write(s.buf.Bytes())
	return s.buf.Bytes()
}

func (s *snapshotReader) frame() []byte {
	if s.err != nil {
		return nil
	}
	size, err := binary.ReadUvarint(s.r)
	if err == nil && size > maxFrame {
		err = fmt.Errorf("a frame of %d bytes", size)
	}
	if err != nil {
		s.err = fmt.Errorf("%w: %w", ErrSnapshot, noEOF(err))
		return nil
	}
	s.sum.Write(binary.AppendUvarint(nil, size))
	return s.fixed(int(size))
}

// rows puts up to rowsPerTx rows and returns how many there were before the empty frame.
func (s *snapshotReader) rows(tx *bolt.Tx, m *meta, each func(c *Change)) (n uint64, err error) {
	w, err := newRowWriter(tx)
	if err != nil {
		return 0, err
	}
	var c Change
	for ; n < rowsPerTx; n++ {
		encoded := s.frame()
		if s.err != nil {
			return n, s.err
		}
		if len(encoded) == 0 {
			break
		}
		if err := decodeRow(encoded, &c); err != nil {
			return n, snapshotError(err)
		}
		each(&c)
		if err := w.write(appendStateKey(nil, c.Kind, c.rowKey()), encoded); err != nil {
			return n, err
		}
	}
	return n, w.finish(m)
}

// end checks what follows the empty frame.
func (s *snapshotReader) end(rows uint64) error {
	count := s.fixed(8)
	if s.err == nil && binary.BigEndian.Uint64(count) != rows {
		return fmt.Errorf("%w: %d rows of %d", ErrSnapshot, rows, binary.BigEndian.Uint64(count))
	}
	sum := s.sum.Sum32()
	if got := s.fixed(4); s.err == nil && binary.BigEndian.Uint32(got) != sum {
		return fmt.Errorf("%w: %w", ErrSnapshot, errChecksum)
	}
	if s.err != nil {
		return s.err
	}
	if _, err := s.r.ReadByte(); err != io.EOF {
		return fmt.Errorf("%w: more bytes than the snapshot", ErrSnapshot)
	}
	return nil
}

// noEOF names an end that came too early.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
