package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

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
