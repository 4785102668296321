package message

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/netip"
)

// ErrID is returned by ParseID for a text that is no offset message id.
var ErrID = errors.New("not an offset message id")

const upperHex = "0123456789ABCDEF"

// AppendID appends the offset message id: store host and log offset as 32 (IPv4) or 56 (IPv6) upper-case hex digits
// (MessageDecoder.createMessageId).
func AppendID(dst []byte, storeHost netip.AddrPort, phyOffset int64) []byte {
	var raw [28]byte
	b := appendHost(raw[:0], storeHost)
	b = binary.BigEndian.AppendUint64(b, uint64(phyOffset))
	for _, c := range b {
		dst = append(dst, upperHex[c>>4], upperHex[c&15])
	}
	return dst
}

// ParseID reads an offset message id.
func ParseID(id string) (storeHost netip.AddrPort, phyOffset int64, err error) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 && len(b) != 28 {
		return netip.AddrPort{}, 0, ErrID
	}
	n := len(b) - 8
	return readHost(b[:n]), int64(binary.BigEndian.Uint64(b[n:])), nil
}
