package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"github.com/castor-mq/castor/remoting/body"
)

// formatVersion is that of state.db and of snapshots.
const formatVersion = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errChecksum = errors.New("checksum does not match")

// seal appends data with its checksum before it. bbolt has no checksums of its own below its meta pages.
func seal(dst, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, crc32.Checksum(data, castagnoli)), data...)
}

// unseal returns the data of a sealed value, which it aliases.
func unseal(sealed []byte) ([]byte, error) {
	if len(sealed) < 4 || binary.BigEndian.Uint32(sealed) != crc32.Checksum(sealed[4:], castagnoli) {
		return nil, errChecksum
	}
	return sealed[4:], nil
}

// decodeRow decodes a change that puts a row; it aliases data.
func decodeRow(data []byte, c *Change) error {
	if err := decodeChange(data, c); err != nil {
		return err
	}
	if !c.Kind.isRow() {
		return fmt.Errorf("%w: %v is no row", ErrMalformed, c.Kind)
	}
	return nil
}

// ledger says which rows there are altogether: a damaged page can lose rows or show old ones, each of which is whole.
type ledger struct {
	rows uint64
	sum  uint64 // of the checksums of all rows
}

func (l *ledger) add(sealed []byte) {
	l.rows++
	l.sum += uint64(binary.BigEndian.Uint32(sealed))
}

func (l *ledger) subtract(sealed []byte) {
	l.rows--
	l.sum -= uint64(binary.BigEndian.Uint32(sealed))
}

func (l *ledger) append(dst []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, l.rows), l.sum)
}

// rowWriter changes rows in one transaction and keeps their ledger.
type rowWriter struct {
	rows, metas *bolt.Bucket
	ledger      ledger
}

func newRowWriter(tx *bolt.Tx) (*rowWriter, error) {
	rows, err := tx.CreateBucketIfNotExists(bucketRows)
	if err != nil {
		return nil, err
	}
	metas, err := tx.CreateBucketIfNotExists(bucketMeta)
	if err != nil {
		return nil, err
	}
	w := &rowWriter{rows: rows, metas: metas}
	if sealed := metas.Get(keyLedger); sealed != nil {
		if w.ledger, err = decodeLedger(sealed); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// write puts a row, or deletes it when encoded is nil.
func (w *rowWriter) write(k, encoded []byte) error {
	if old := w.rows.Get(k); len(old) >= 4 {
		w.ledger.subtract(old)
	}
	if encoded == nil {
		return w.rows.Delete(k)
	}
	sealed := seal(nil, encoded)
	w.ledger.add(sealed)
	return w.rows.Put(k, sealed)
}

// finish writes what belongs to the rows; it is called once before the transaction commits.
func (w *rowWriter) finish(m *meta) error {
	if err := w.metas.Put(keyLedger, seal(nil, w.ledger.append(nil))); err != nil {
		return err
	}
	return w.metas.Put(keyMeta, seal(nil, m.append(nil)))
}

func decodeLedger(sealed []byte) (ledger, error) {
	data, err := unseal(sealed)
	if err != nil || len(data) != 16 {
		return ledger{}, fmt.Errorf("ledger of rows: %w", errors.Join(err, ErrMalformed))
	}
	return ledger{rows: binary.BigEndian.Uint64(data), sum: binary.BigEndian.Uint64(data[8:])}, nil
}

// eachRow calls f for every row with its encoded form; both die with the call. It fails when the rows are not all that were
// written.
func eachRow(tx *bolt.Tx, path string, f func(c *Change, encoded []byte) error) error {
	rows, metas := tx.Bucket(bucketRows), tx.Bucket(bucketMeta)
	if metas == nil {
		return nil
	}
	want, err := decodeLedger(metas.Get(keyLedger))
	if err != nil || rows == nil {
		return &DamagedError{path, "there is no account of its rows", err}
	}
	var (
		c   Change
		key []byte
		got ledger
	)
	err = rows.ForEach(func(k, sealed []byte) error {
		encoded, err := unseal(sealed)
		if err == nil {
			err = decodeRow(encoded, &c)
		}
		if errors.Is(err, ErrNewer) {
			return fmt.Errorf("state file %s: row %q: %w", path, k, err)
		}
		if err != nil {
			return &DamagedError{path, fmt.Sprintf("row %q", k), err}
		}
		if key = appendStateKey(key[:0], c.Kind, c.rowKey()); !bytes.Equal(k, key) {
			return &DamagedError{path, fmt.Sprintf("row %q is that of %q", k, key), nil}
		}
		got.add(sealed)
		return f(&c, encoded)
	})
	if err == nil && got != want {
		return &DamagedError{path, fmt.Sprintf("it has %d rows of %d, or old ones", got.rows, want.rows), nil}
	}
	return err
}

func (m *meta) append(dst []byte) []byte {
	dst = append(dst, formatVersion)
	dst = binary.AppendVarint(dst, m.applied)
	dst = append(dst, byte(len(m.versions)))
	for _, v := range m.versions {
		dst = binary.AppendVarint(dst, v.StateVersion)
		dst = binary.AppendVarint(dst, v.Timestamp)
		dst = binary.AppendVarint(dst, v.Counter)
	}
	return dst
}

func (m *meta) decode(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("%w: empty", ErrMalformed)
	}
	if v := data[0]; v != formatVersion {
		return fmt.Errorf("format %d, known is %d: %w", v, formatVersion, ErrNewer)
	}
	d := decoder{data: data[1:]}
	applied := d.int64()
	if d.err == nil && (len(d.data) == 0 || int(d.data[0]) != len(m.versions)) {
		d.fail("number of data versions")
	}
	if d.err == nil {
		d.data = d.data[1:]
	}
	var versions [versionedEnd]body.DataVersion
	for i := range versions {
		versions[i] = body.DataVersion{StateVersion: d.int64(), Timestamp: d.int64(), Counter: d.int64()}
	}
	if d.err == nil && (len(d.data) > 0 || applied < 0) {
		d.fail("applied offset")
	}
	if d.err != nil {
		return d.err
	}
	*m = meta{applied: applied, versions: versions}
	return nil
}
