package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/castor-mq/castor/remoting/header"
)

// Limits and constants of the protocol.
const (
	// MaxFrame is the largest frame in bytes, its four length bytes included (NettyDecoder, com.rocketmq.remoting.frameMaxLength).
	MaxFrame = 16 << 20
	// Version is announced in every command: the ordinal of V5_5_0 (MQVersion).
	Version = 513
	// Language is announced in every command: LanguageCode.GO.
	Language = 9

	flagResponse = 1
	flagOneway   = 2

	binaryFixed = 21 // fixed part of the binary header
)

// Errors of the frame and header parsers; each ends the connection.
var (
	ErrFrame  = errors.New("malformed frame")
	ErrHeader = errors.New("malformed command header")
)

// Command is the decoded header of one frame. Remark, Body and the ext fields alias the frame.
type Command struct {
	Code     int32
	Version  int32
	Opaque   int32
	Flag     int32
	Language byte // LanguageCode ordinal; langUnknown if the name is not known
	Enc      header.Encoding
	Remark   []byte
	Body     []byte

	ext     []byte // JSON: the text of the extFields object; binary: the map
	scratch []byte // unescaped JSON strings; older contents stay valid while referenced
}

// IsResponse tells a reply from a request.
func (c *Command) IsResponse() bool { return c.Flag&flagResponse != 0 }

// IsOneway tells whether the request wants no reply.
func (c *Command) IsOneway() bool { return c.Flag&flagOneway != 0 }

// Parse decodes a frame without its four length bytes into c, which keeps pointing into it.
func (c *Command) Parse(frame []byte) error {
	if len(frame) < 4 {
		return ErrFrame
	}
	word := binary.BigEndian.Uint32(frame)
	n := int(word & 0xFFFFFF)
	if n > len(frame)-4 {
		return fmt.Errorf("%w: header of %d bytes in a frame of %d", ErrFrame, n, len(frame))
	}
	*c = Command{Body: frame[4+n:], scratch: c.scratch[:0]}
	if len(c.Body) == 0 {
		c.Body = nil
	}
	switch word >> 24 {
	case 0:
		c.Enc = header.JSON
		return c.parseJSON(frame[4 : 4+n])
	case 1:
		c.Enc = header.Binary
		return c.parseBinary(frame[4 : 4+n])
	}
	return fmt.Errorf("%w: serialize type %d", ErrFrame, word>>24)
}

func (c *Command) parseBinary(b []byte) error {
	if len(b) < binaryFixed {
		return fmt.Errorf("%w: %d bytes", ErrHeader, len(b))
	}
	c.Code = int32(int16(binary.BigEndian.Uint16(b)))
	c.Language = b[2]
	c.Version = int32(int16(binary.BigEndian.Uint16(b[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(b[5:]))
	c.Flag = int32(binary.BigEndian.Uint32(b[9:]))
	remark := int(int32(binary.BigEndian.Uint32(b[13:])))
	b = b[17:]
	if remark < 0 || remark > len(b)-4 {
		return fmt.Errorf("%w: remark of %d bytes", ErrHeader, remark)
	}
	c.Remark, b = b[:remark], b[remark:]
	ext := int(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	if ext < 0 || ext > len(b) {
		return fmt.Errorf("%w: ext fields of %d bytes", ErrHeader, ext)
	}
	c.ext = b[:ext]
	return checkBinaryMap(c.ext)
}

// checkBinaryMap makes sure that every later walk over the map stays inside it.
func checkBinaryMap(m []byte) error {
	for len(m) > 0 {
		if len(m) < 2 {
			return fmt.Errorf("%w: ext field key", ErrHeader)
		}
		k := int(int16(binary.BigEndian.Uint16(m)))
		if k < 0 || len(m) < 2+k+4 {
			return fmt.Errorf("%w: ext field key of %d bytes", ErrHeader, k)
		}
		v := int(int32(binary.BigEndian.Uint32(m[2+k:])))
		if v < 0 || v > len(m)-6-k {
			return fmt.Errorf("%w: ext field value of %d bytes", ErrHeader, v)
		}
		m = m[6+k+v:]
	}
	return nil
}

// EachExt calls f with every ext field in order until f returns false. Keys and values die with the frame.
func (c *Command) EachExt(f func(key, val []byte) bool) {
	it := extIter{c: c, rest: c.ext}
	for it.next() {
		if !f(it.key, it.val) {
			return
		}
	}
}

// Decode hands every ext field to h. The first field whose value does not parse is returned after all others have been set.
func (c *Command) Decode(h header.Setter) error {
	var first error
	it := extIter{c: c, rest: c.ext}
	for it.next() {
		if err := h.SetField(it.key, it.val); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Ext returns one ext field as a string of its own.
func (c *Command) Ext(key string) (string, bool) {
	it := extIter{c: c, rest: c.ext}
	val, ok := "", false
	for it.next() {
		if string(it.key) == key {
			val, ok = string(it.val), true
		}
	}
	return val, ok
}

// extIter walks the ext fields of a command whose structure has been checked by Parse.
type extIter struct {
	c        *Command
	rest     []byte
	key, val []byte
}

func (it *extIter) next() bool {
	if it.c.Enc == header.JSON {
		return it.nextJSON()
	}
	if len(it.rest) == 0 {
		return false
	}
	m := it.rest
	k := int(binary.BigEndian.Uint16(m))
	v := int(binary.BigEndian.Uint32(m[2+k:]))
	it.key, it.val, it.rest = m[2:2+k], m[6+k:6+k+v], m[6+k+v:]
	return true
}

// frameStart appends the length and header words and returns where they are.
func frameStart(dst []byte) ([]byte, int) {
	return append(dst, 0, 0, 0, 0, 0, 0, 0, 0), len(dst)
}

// AppendCommand appends a whole frame: header c (Code, Flag, Opaque, Remark, Enc), the fields of h (which may be nil) and body.
func AppendCommand(dst []byte, c *Command, h header.Appender, body []byte) []byte {
	var w header.Writer
	dst = appendHead(dst, &w, c, h, len(body))
	return append(dst, body...)
}

// appendHead appends length, header word and header of a frame whose body of bodyLen bytes follows.
func appendHead(dst []byte, w *header.Writer, c *Command, h header.Appender, bodyLen int) []byte {
	dst, start := frameStart(dst)
	if c.Enc == header.JSON {
		dst = appendJSONHead(dst, w, c, h)
	} else {
		dst = appendBinaryHead(dst, w, c, h)
	}
	n := len(dst) - start - 8
	binary.BigEndian.PutUint32(dst[start:], uint32(4+n+bodyLen))
	binary.BigEndian.PutUint32(dst[start+4:], uint32(c.Enc)<<24|uint32(n))
	return dst
}

func appendJSONHead(dst []byte, w *header.Writer, c *Command, h header.Appender) []byte {
	dst = append(dst, `{"code":`...)
	dst = strconv.AppendInt(dst, int64(c.Code), 10)
	if h != nil {
		mark := len(dst)
		dst = append(dst, `,"extFields":{`...)
		w.Reset(dst, header.JSON)
		h.AppendFields(w)
		if dst = append(w.Buf, '}'); !w.Any() {
			dst = dst[:mark]
		}
	}
	dst = append(dst, `,"flag":`...)
	dst = strconv.AppendInt(dst, int64(c.Flag), 10)
	dst = append(dst, `,"language":"GO","opaque":`...)
	dst = strconv.AppendInt(dst, int64(c.Opaque), 10)
	if len(c.Remark) > 0 {
		dst = append(dst, `,"remark":`...)
		dst = header.AppendJSONString(dst, c.Remark)
	}
	return append(dst, `,"serializeTypeCurrentRPC":"JSON","version":513}`...)
}

func appendBinaryHead(dst []byte, w *header.Writer, c *Command, h header.Appender) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(c.Code))
	dst = append(dst, Language)
	dst = binary.BigEndian.AppendUint16(dst, Version)
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Opaque))
	dst = binary.BigEndian.AppendUint32(dst, uint32(c.Flag))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(c.Remark)))
	dst = append(dst, c.Remark...)
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	if h != nil {
		w.Reset(dst, header.Binary)
		h.AppendFields(w)
		dst = w.Buf
	}
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}
