package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Limits of the protocol.
const (
	// MaxFrame is the largest frame in bytes, its four length bytes included (NettyDecoder, com.rocketmq.remoting.frameMaxLength).
	MaxFrame = 16 << 20
	// maxExtFields bounds what a header full of tiny fields costs in memory. Real commands carry fewer than 40.
	maxExtFields = 1024

	flagResponse = 1
	flagOneway   = 2

	binaryFixed = 21 // fixed part of the binary header
)

// Errors of the frame and header parsers; each ends the connection.
var (
	ErrFrame  = errors.New("malformed frame")
	ErrHeader = errors.New("malformed command header")
)

// Command is the decoded header of one frame. Remark, Body and the ext fields alias the frame or memory of the command that
// the next Parse reuses.
type Command struct {
	Code     int32
	Version  code.Version
	Opaque   int32
	Flag     int32
	Language code.Language
	Enc      header.Encoding
	Remark   []byte
	Body     []byte // nil if there is none

	head    []byte // the header's text
	scratch []byte // JSON strings without their escapes
	ext     []extField
	form    *form // that the header has, nil if it was parsed
	strange int   // headers since release that had no known form
}

type extField struct{ key, val span }

// span is a piece of the header's text, or of scratch if at is negative: then it begins at ^at. Spans are a third of the size of
// slices and nothing to the garbage collector.
type span struct{ at, size int32 }

// bytes returns what s covers.
func (c *Command) bytes(s span) []byte {
	b, at := c.head, s.at
	if at < 0 {
		b, at = c.scratch, ^at
	}
	return b[at : at+s.size : at+s.size]
}

// IsResponse tells a reply from a request.
func (c *Command) IsResponse() bool { return c.Flag&flagResponse != 0 }

// IsOneway tells whether the request wants no reply.
func (c *Command) IsOneway() bool { return c.Flag&flagOneway != 0 }

// Parse decodes a frame without its four length bytes into c, which keeps pointing into it.
func (c *Command) Parse(frame []byte) error { return c.parse(frame, nil) }

// parse is Parse with the known forms of headers, if there are any.
func (c *Command) parse(frame []byte, known *forms) error {
	if len(frame) < 4 {
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(frame))
	}
	word := binary.BigEndian.Uint32(frame)
	n := int(word & 0xFFFFFF)
	if n > len(frame)-4 {
		return fmt.Errorf("%w: header of %d bytes in a frame of %d", ErrFrame, n, len(frame))
	}
	last, strange, ext, scratch := c.form, c.strange, c.ext[:0], c.scratch[:0]
	*c = Command{}
	c.Body, c.head, c.strange, c.ext, c.scratch = frame[4+n:], frame[4:4+n], strange, ext, scratch
	if len(c.Body) == 0 {
		c.Body = nil
	}
	switch enc := word >> 24; enc {
	case uint32(header.JSON):
		if known != nil {
			return known.parse(c, last)
		}
		return c.parseJSON()
	case uint32(header.Binary):
		c.Enc = header.Binary
		return c.parseBinary()
	default:
		return fmt.Errorf("%w: serialize type %d", ErrFrame, enc)
	}
}

func (c *Command) parseBinary() error {
	b := c.head
	if len(b) < binaryFixed {
		return fmt.Errorf("%w: %d bytes", ErrHeader, len(b))
	}
	c.Code = int32(int16(binary.BigEndian.Uint16(b)))
	c.Language = code.Language(b[2])
	c.Version = code.Version(int16(binary.BigEndian.Uint16(b[3:])))
	c.Opaque = int32(binary.BigEndian.Uint32(b[5:]))
	c.Flag = int32(binary.BigEndian.Uint32(b[9:]))
	remark := int(int32(binary.BigEndian.Uint32(b[13:])))
	b = b[17:]
	if remark < 0 || remark > len(b)-4 {
		return fmt.Errorf("%w: remark of %d bytes", ErrHeader, remark)
	}
	c.Remark, b = b[:remark:remark], b[remark:]
	ext := int(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	if ext < 0 || ext > len(b) {
		return fmt.Errorf("%w: ext fields of %d bytes", ErrHeader, ext)
	}
	return c.parseBinaryMap(b[:ext], int32(binaryFixed+remark))
}

// parseBinaryMap reads the ext fields, which begin at the given place of the header.
func (c *Command) parseBinaryMap(m []byte, at int32) error {
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
		if err := c.addExt(span{at + 2, int32(k)}, span{at + 6 + int32(k), int32(v)}); err != nil {
			return err
		}
		m, at = m[6+k+v:], at+int32(6+k+v)
	}
	return nil
}

func (c *Command) addExt(key, val span) error {
	if len(c.ext) == maxExtFields {
		return fmt.Errorf("%w: more than %d ext fields", ErrHeader, maxExtFields)
	}
	c.ext = append(c.ext, extField{key, val})
	return nil
}

// EachExt calls f with every ext field in the order of the frame until f returns false. Of a key that comes twice the later
// value counts. Keys and values die with the frame.
func (c *Command) EachExt(f func(key, val []byte) bool) {
	for _, e := range c.ext {
		if !f(c.bytes(e.key), c.bytes(e.val)) {
			return
		}
	}
}

// Decode hands every ext field to h. The first field whose value does not parse is returned after all others have been set.
func (c *Command) Decode(h header.Setter) error {
	var index []int
	if c.form != nil {
		index = c.form.index(c, h)
	}
	var first error
	for i, e := range c.ext {
		key := c.bytes(e.key)
		at := 0
		if index != nil {
			at = index[i]
		} else {
			at = h.IndexOf(key)
		}
		if err := h.SetAt(at, key, c.bytes(e.val)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Ext returns one ext field as a string of its own.
func (c *Command) Ext(key string) (string, bool) {
	for i := len(c.ext) - 1; i >= 0; i-- {
		if string(c.bytes(c.ext[i].key)) == key {
			return string(c.bytes(c.ext[i].val)), true
		}
	}
	return "", false
}

// release forgets what c points to and keeps the memory that the next Parse can use.
func (c *Command) release() {
	ext, scratch := c.ext, c.scratch
	if cap(scratch) > 64<<10 {
		scratch = nil
	}
	*c = Command{ext: ext[:0], scratch: scratch[:0]}
}

// AppendCommand appends a whole frame: header c (Code, Flag, Opaque, Remark, Enc), the fields of h (which may be nil) and body.
func AppendCommand(dst []byte, c *Command, h header.Appender, body []byte) []byte {
	w := header.Writer{Buf: dst}
	appendHead(&w, c, h, len(body))
	return append(w.Buf, body...)
}

// appendHead appends length, header word and header of a frame whose body of bodyLen bytes follows.
func appendHead(w *header.Writer, c *Command, h header.Appender, bodyLen int) {
	start := len(w.Buf)
	w.Reset(append(w.Buf, 0, 0, 0, 0, 0, 0, 0, 0), c.Enc)
	if c.Enc == header.JSON {
		appendJSONHead(w, c, h)
	} else {
		appendBinaryHead(w, c, h)
	}
	n := len(w.Buf) - start - 8
	binary.BigEndian.PutUint32(w.Buf[start:], uint32(4+n+bodyLen))
	binary.BigEndian.PutUint32(w.Buf[start+4:], uint32(c.Enc)<<24|uint32(n))
}

// jsonTail ends the header; its version is code.Current, which a test checks.
const jsonTail = `,"serializeTypeCurrentRPC":"JSON","version":513}`

func appendJSONHead(w *header.Writer, c *Command, h header.Appender) {
	w.Buf = append(w.Buf, `{"code":`...)
	w.Buf = strconv.AppendInt(w.Buf, int64(c.Code), 10)
	if h != nil {
		mark := len(w.Buf)
		w.Buf = append(w.Buf, `,"extFields":{`...)
		h.AppendFields(w)
		if w.Buf = append(w.Buf, '}'); !w.Any() {
			w.Buf = w.Buf[:mark]
		}
	}
	w.Buf = append(w.Buf, `,"flag":`...)
	w.Buf = strconv.AppendInt(w.Buf, int64(c.Flag), 10)
	w.Buf = append(w.Buf, `,"language":"GO","opaque":`...)
	w.Buf = strconv.AppendInt(w.Buf, int64(c.Opaque), 10)
	if len(c.Remark) > 0 {
		w.Buf = append(w.Buf, `,"remark":`...)
		w.Buf = header.AppendJSONString(w.Buf, c.Remark)
	}
	w.Buf = append(w.Buf, jsonTail...)
}

func appendBinaryHead(w *header.Writer, c *Command, h header.Appender) {
	b := binary.BigEndian.AppendUint16(w.Buf, uint16(c.Code))
	b = append(b, byte(code.Go))
	b = binary.BigEndian.AppendUint16(b, uint16(code.Current))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Opaque))
	b = binary.BigEndian.AppendUint32(b, uint32(c.Flag))
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Remark)))
	b = append(b, c.Remark...)
	at := len(b)
	w.Buf = append(b, 0, 0, 0, 0)
	if h != nil {
		h.AppendFields(w)
	}
	binary.BigEndian.PutUint32(w.Buf[at:], uint32(len(w.Buf)-at-4))
}
