package message

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
)

// Magic codes of a record (MessageDecoder, MessageVersion, CommitLog.BLANK_MAGIC_CODE).
const (
	MagicV1    uint32 = 0xDAA320A7
	MagicV2    uint32 = 0xDAA320AB
	MagicBlank uint32 = 0xCBD43194
)

// System flag bits (MessageSysFlag).
const (
	FlagCompressed      = 0x1
	FlagMultiTags       = 0x2
	FlagPrepared        = 0x4
	FlagCommit          = 0x8
	FlagRollback        = 0xC
	FlagTransactionMask = 0xC
	FlagBornV6          = 0x10
	FlagStoreV6         = 0x20
	FlagNeedUnwrap      = 0x40
	FlagInnerBatch      = 0x80
)

// Sizes of a record.
const (
	// FixedSize is a V1 record without body, topic and properties whose hosts are both IPv4.
	FixedSize = 91
	// BlankSize is the blank record that ends a segment; there is always room for one.
	BlankSize = 8
	// MaxTopicV1 is the longest topic of a V1 record: its length is a signed byte.
	MaxTopicV1 = 127
	// MaxProperties is the longest property text.
	MaxProperties = 32767
	v6Extra       = 12
)

// Offsets of the fields before the first host.
const (
	atMagic     = 4
	atBodyCRC   = 8
	atQueueID   = 12
	atFlag      = 16
	atQueueOff  = 20
	atPhyOff    = 28
	atSysFlag   = 36
	atBornTime  = 40
	atBornHost  = 48
	afterBornV4 = 56
)

// Errors of View.Parse and View.Verify.
var (
	ErrShort   = errors.New("record is cut off")
	ErrMagic   = errors.New("no record magic")
	ErrLengths = errors.New("record lengths disagree")
	ErrCRC     = errors.New("checksum does not match")
	ErrOffset  = errors.New("record belongs to another offset")
	ErrHoled   = errors.New("record has a hole")
)

// BodyCRC is the checksum that a record carries for its body: CRC-32 (IEEE) without the top bit.
func BodyCRC(body []byte) uint32 { return crc32.ChecksumIEEE(body) & 0x7FFFFFFF }

// View reads one record. It aliases the bytes that Parse was given.
type View struct {
	b       []byte
	bodyAt  int32
	bodyLen int32
	topicAt int32
	propAt  int32
	bornLen int32 // 8 or 20
}

// Parse checks the structure of the record at the start of b and points v at it. Nothing but lengths and magic is verified.
func (v *View) Parse(b []byte) error {
	if len(b) < FixedSize {
		return ErrShort
	}
	magic := binary.BigEndian.Uint32(b[atMagic:])
	if magic != MagicV1 && magic != MagicV2 {
		return ErrMagic
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < FixedSize || size > len(b) {
		if size < FixedSize {
			return ErrLengths
		}
		return ErrShort
	}
	b = b[:size:size]
	flag := binary.BigEndian.Uint32(b[atSysFlag:])
	born, store := int32(8), int32(8)
	if flag&FlagBornV6 != 0 {
		born = 20
	}
	if flag&FlagStoreV6 != 0 {
		store = 20
	}
	at := atBornHost + born + 8 + store + 4 + 8
	if int(at)+4 > size {
		return ErrLengths
	}
	bodyLen := int32(binary.BigEndian.Uint32(b[at:]))
	if bodyLen < 0 || int64(at)+4+int64(bodyLen)+1 > int64(size) {
		return ErrLengths
	}
	body := at + 4
	at = body + bodyLen
	var topicLen int32
	if magic == MagicV1 {
		topicLen = int32(int8(b[at]))
		at++
	} else {
		if int(at)+2 > size {
			return ErrLengths
		}
		topicLen = int32(int16(binary.BigEndian.Uint16(b[at:])))
		at += 2
	}
	if topicLen < 0 || int(at)+int(topicLen)+2 > size {
		return ErrLengths
	}
	prop := at + topicLen
	propLen := int32(int16(binary.BigEndian.Uint16(b[prop:])))
	if propLen < 0 || int(prop)+2+int(propLen) != size {
		return ErrLengths
	}
	*v = View{b: b, bodyAt: body, bodyLen: bodyLen, topicAt: at, propAt: prop, bornLen: born}
	return nil
}

// Verify checks what recovery and replication rely on: the record's own offset, the body's checksum and, where the record
// carries one, the checksum of the whole record.
func (v *View) Verify(phyOffset int64) error {
	if v.PhyOffset() != phyOffset {
		return fmt.Errorf("%w: it says %d at %d", ErrOffset, v.PhyOffset(), phyOffset)
	}
	if v.StoreTimestamp() <= 0 {
		return fmt.Errorf("%w: no store time", ErrHoled)
	}
	if v.bodyLen > 0 && BodyCRC(v.Body()) != binary.BigEndian.Uint32(v.b[atBodyCRC:]) {
		return fmt.Errorf("%w: body", ErrCRC)
	}
	if sum, ok := recordCRC(v.Properties()); ok && sum != crc32.ChecksumIEEE(v.b[:len(v.b)-crcReserve])&0x7FFFFFFF {
		return fmt.Errorf("%w: record", ErrCRC)
	}
	return nil
}

// Holed tells whether topic or properties hold a zero byte. No client of RocketMQ writes one and no checksum covers them, so in
// bytes that were never synced it means that a part of the record did not reach the disk.
func (v *View) Holed() bool {
	return len(v.Topic()) == 0 || bytes.IndexByte(v.Topic(), 0) >= 0 || bytes.IndexByte(v.Properties(), 0) >= 0
}

// Bytes returns the whole record.
func (v *View) Bytes() []byte { return v.b }

// Size is the length of the record.
func (v *View) Size() int { return len(v.b) }

// V2 tells whether the topic length has two bytes.
func (v *View) V2() bool { return binary.BigEndian.Uint32(v.b[atMagic:]) == MagicV2 }

// QueueID is the queue the message was stored in.
func (v *View) QueueID() int32 { return int32(binary.BigEndian.Uint32(v.b[atQueueID:])) }

// Flag is the user's flag.
func (v *View) Flag() int32 { return int32(binary.BigEndian.Uint32(v.b[atFlag:])) }

// QueueOffset is the message's index in its queue.
func (v *View) QueueOffset() int64 { return int64(binary.BigEndian.Uint64(v.b[atQueueOff:])) }

// PhyOffset is the record's position in the CommitLog.
func (v *View) PhyOffset() int64 { return int64(binary.BigEndian.Uint64(v.b[atPhyOff:])) }

// SysFlag holds the bits of MessageSysFlag.
func (v *View) SysFlag() int32 { return int32(binary.BigEndian.Uint32(v.b[atSysFlag:])) }

// BornTimestamp is the producer's clock in ms.
func (v *View) BornTimestamp() int64 { return int64(binary.BigEndian.Uint64(v.b[atBornTime:])) }

// BornHost is the producer's address.
func (v *View) BornHost() netip.AddrPort { return readHost(v.b[atBornHost : atBornHost+v.bornLen]) }

func (v *View) storeAt() int32 { return atBornHost + v.bornLen }

// StoreTimestamp is the broker's clock in ms.
func (v *View) StoreTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(v.b[v.storeAt():]))
}

// StoreHost is the broker's advertised address.
func (v *View) StoreHost() netip.AddrPort { return readHost(v.b[v.storeAt()+8 : v.bodyAt-16]) }

// ReconsumeTimes is 0 for a new message and one more for each time a consumer sent it back.
func (v *View) ReconsumeTimes() int32 { return int32(binary.BigEndian.Uint32(v.b[v.bodyAt-16:])) }

// PreparedOffset is the log offset of the half message that a COMMIT record belongs to.
func (v *View) PreparedOffset() int64 { return int64(binary.BigEndian.Uint64(v.b[v.bodyAt-12:])) }

// Body is the stored body, possibly compressed.
func (v *View) Body() []byte { return v.b[v.bodyAt : v.bodyAt+v.bodyLen] }

// Topic is the topic's name.
func (v *View) Topic() []byte { return v.b[v.topicAt:v.propAt] }

// Properties is the property text; see Props.
func (v *View) Properties() Props { return Props(v.b[v.propAt+2:]) }

func readHost(b []byte) netip.AddrPort {
	ip, _ := netip.AddrFromSlice(b[:len(b)-4])
	return netip.AddrPortFrom(ip, uint16(binary.BigEndian.Uint32(b[len(b)-4:])))
}

func appendHost(dst []byte, h netip.AddrPort) []byte {
	if h.Addr().Is4() {
		a := h.Addr().As4()
		dst = append(dst, a[:]...)
	} else {
		a := h.Addr().As16()
		dst = append(dst, a[:]...)
	}
	return binary.BigEndian.AppendUint32(dst, uint32(h.Port()))
}

// Unmapped returns the address with an IPv4 address in its short form, as records store it.
func Unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// Draft is a message that is about to be appended. Its slices are borrowed until the append returns. The property text is the
// concatenation of Properties and MoreProperties.
type Draft struct {
	Topic          string
	QueueID        int32
	Flag           int32
	SysFlag        int32 // host bits are set by Prepare
	BornTimestamp  int64
	BornHost       netip.AddrPort
	StoreHost      netip.AddrPort
	ReconsumeTimes int32
	PreparedOffset int64
	Body           []byte
	Properties     []byte
	MoreProperties []byte
	// CRC asks for a checksum of the whole record in its last property (enabledAppendPropCRC).
	CRC bool

	size    int
	bodyCRC uint32
	v2      bool
	sepCRC  bool // the property text needs a separator before the checksum
}

// ErrProperties is returned by Prepare for a property text over MaxProperties.
var ErrProperties = errors.New("properties are too long")

// Prepare computes what can be computed before the append lock: sizes and the body's checksum.
func (d *Draft) Prepare() error {
	props := len(d.Properties) + len(d.MoreProperties)
	d.sepCRC = false
	if d.CRC {
		if props > 0 && d.lastProp() != PropSeparator {
			d.sepCRC = true
			props++
		}
		props += crcReserve
	}
	if props > MaxProperties {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrProperties, props, MaxProperties)
	}
	d.SysFlag &^= FlagBornV6 | FlagStoreV6
	d.size = FixedSize + len(d.Body) + len(d.Topic) + props
	if !d.BornHost.Addr().Is4() {
		d.SysFlag |= FlagBornV6
		d.size += v6Extra
	}
	if !d.StoreHost.Addr().Is4() {
		d.SysFlag |= FlagStoreV6
		d.size += v6Extra
	}
	if d.v2 = len(d.Topic) > MaxTopicV1; d.v2 {
		d.size++
	}
	d.bodyCRC = BodyCRC(d.Body)
	return nil
}

func (d *Draft) lastProp() byte {
	if n := len(d.MoreProperties); n > 0 {
		return d.MoreProperties[n-1]
	}
	return d.Properties[len(d.Properties)-1]
}

// Size is the length of the record, known after Prepare.
func (d *Draft) Size() int { return d.size }

// Encode appends the record, exactly Size bytes, with the offsets and time that the append assigns.
func (d *Draft) Encode(dst []byte, queueOffset, phyOffset, storeTimestamp int64) []byte {
	start := len(dst)
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(d.size))
	if d.v2 {
		dst = be.AppendUint32(dst, MagicV2)
	} else {
		dst = be.AppendUint32(dst, MagicV1)
	}
	dst = be.AppendUint32(dst, d.bodyCRC)
	dst = be.AppendUint32(dst, uint32(d.QueueID))
	dst = be.AppendUint32(dst, uint32(d.Flag))
	dst = be.AppendUint64(dst, uint64(queueOffset))
	dst = be.AppendUint64(dst, uint64(phyOffset))
	dst = be.AppendUint32(dst, uint32(d.SysFlag))
	dst = be.AppendUint64(dst, uint64(d.BornTimestamp))
	dst = appendHost(dst, d.BornHost)
	dst = be.AppendUint64(dst, uint64(storeTimestamp))
	dst = appendHost(dst, d.StoreHost)
	dst = be.AppendUint32(dst, uint32(d.ReconsumeTimes))
	dst = be.AppendUint64(dst, uint64(d.PreparedOffset))
	dst = be.AppendUint32(dst, uint32(len(d.Body)))
	dst = append(dst, d.Body...)
	if d.v2 {
		dst = be.AppendUint16(dst, uint16(len(d.Topic)))
	} else {
		dst = append(dst, byte(len(d.Topic)))
	}
	dst = append(dst, d.Topic...)
	at := len(dst)
	dst = append(dst, 0, 0)
	dst = append(dst, d.Properties...)
	dst = append(dst, d.MoreProperties...)
	if d.CRC {
		if d.sepCRC {
			dst = append(dst, PropSeparator)
		}
		be.PutUint16(dst[at:], uint16(len(dst)-at-2+crcReserve))
		return appendRecordCRC(dst, start)
	}
	be.PutUint16(dst[at:], uint16(len(dst)-at-2))
	return dst
}

// PutBlank writes the blank record that fills the rest of a segment, remaining bytes from here.
func PutBlank(dst []byte, remaining int) {
	binary.BigEndian.PutUint32(dst, uint32(remaining))
	binary.BigEndian.PutUint32(dst[4:], MagicBlank)
}

// IsBlank tells whether b starts with a blank record.
func IsBlank(b []byte) bool {
	return len(b) >= BlankSize && binary.BigEndian.Uint32(b[atMagic:]) == MagicBlank
}

// The checksum of a whole record is its last property: name, separator, ten digits from the least significant one, separator
// (MessageConst.PROPERTY_CRC32, UtilAll.createCrc32).
const (
	crcName    = "__CRC32#"
	crcReserve = len(crcName) + 1 + 10 + 1
)

func appendRecordCRC(dst []byte, start int) []byte {
	sum := crc32.ChecksumIEEE(dst[start:]) & 0x7FFFFFFF
	dst = append(dst, crcName...)
	dst = append(dst, NameSeparator)
	for range 10 {
		dst = append(dst, byte('0'+sum%10))
		sum /= 10
	}
	return append(dst, PropSeparator)
}

// recordCRC reads the checksum at the end of a property text. It must be a property of its own: a client may end the value of
// another one like that, and a record that does not match its checksum would be cut off by recovery, with all that follows it.
func recordCRC(p Props) (sum uint32, ok bool) {
	at := len(p) - crcReserve
	if at < 0 || at > 0 && p[at-1] != PropSeparator {
		return 0, false
	}
	p = p[at:]
	if string(p[:len(crcName)]) != crcName || p[len(crcName)] != NameSeparator || p[crcReserve-1] != PropSeparator {
		return 0, false
	}
	var n uint64
	for i := 9; i >= 0; i-- {
		c := p[len(crcName)+1+i]
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return uint32(n), n <= 0x7FFFFFFF
}

// StoreTimeAt reads the store time from the first 88 bytes of a record (fewer for an IPv4 born host), 0 if b is too short.
func StoreTimeAt(b []byte) int64 {
	if len(b) < afterBornV4+8 {
		return 0
	}
	at := afterBornV4
	if binary.BigEndian.Uint32(b[atSysFlag:])&FlagBornV6 != 0 {
		at += v6Extra
	}
	if len(b) < at+8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}
