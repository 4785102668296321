// Package header declares the custom headers of RocketMQ's remoting commands (the "ext fields") as plain structs.
//
// Each struct is the only declaration of its header: the field tag names the key on the wire, and headers_gen.go, written
// by internal/gen/headers, holds the codec. Nothing here uses reflection at run time.
//
// Tag form: `h:"key[,required][,alias=otherKey]"`. Field types: string, bool, int32, int64 and Opt of the last three (absent
// differs from zero: Java's boxed types). An embedded struct contributes its fields (Java's RpcRequestHeader family).
//
// Decoding does not insist on required fields, since Java does not either and clients omit some; a handler refuses what it
// cannot do without. Encoding writes numbers and booleans that are not Opt, and required strings, in any case, and leaves out
// other strings that are empty: on the wire an empty string and none are the same.
//
// Ownership: strings of a decoded header whose declaration carries the directive //header:alias point into the frame and
// die with the request; Clone the header, or strings.Clone whatever is kept. All other headers own their strings.
//
// Java: org.apache.rocketmq.remoting.protocol.header.
package header

import (
	"strconv"
	"unicode/utf8"
)

// Setter takes ext fields. Its fields have numbers, for those who know the keys in advance.
type Setter interface {
	// IndexOf returns the number of the field with that key, -1 if there is none.
	IndexOf(key []byte) int
	// SetAt sets field i, which has that key. A number below 0 is ignored. The error is a *FieldError.
	SetAt(i int, key, val []byte) error
}

// Set sets the field with that key; unknown keys are ignored. The error is a *FieldError.
func Set(h Setter, key, val []byte) error { return h.SetAt(h.IndexOf(key), key, val) }

// Appender writes its present fields in declaration order.
type Appender interface {
	AppendFields(w *Writer)
}

// Header is both.
type Header interface {
	Setter
	Appender
}

// Opt is a value that may be absent. The zero value is absent.
type Opt[T any] struct {
	V  T
	Ok bool
}

// Some returns a present value.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Ok: true} }

// Or returns the value, or def if it is absent.
func (o Opt[T]) Or(def T) T {
	if o.Ok {
		return o.V
	}
	return def
}

// Encoding is the form of a command header on the wire: the serialize type of RemotingCommand.
type Encoding byte

// The two forms.
const (
	JSON   Encoding = 0
	Binary Encoding = 1 // "ROCKETMQ"
)

// Writer appends ext fields in one of the two encodings. For JSON it writes the members with a leading comma each except the
// first: `"k":"v","k2":"v2"`, every value a JSON string. For Binary it writes int16 key length, key, int32 value length, value.
type Writer struct {
	Buf  []byte
	Enc  Encoding
	some bool
}

// Reset prepares w to append to buf.
func (w *Writer) Reset(buf []byte, enc Encoding) { w.Buf, w.Enc, w.some = buf, enc, false }

// Any reports whether a field has been written since Reset.
func (w *Writer) Any() bool { return w.some }

// String appends one field. An empty value is written as such.
func (w *Writer) String(key, val string) {
	if w.Enc == Binary {
		w.binKey(key, len(val))
		w.Buf = append(w.Buf, val...)
		return
	}
	w.jsonKey(key)
	w.Buf = AppendJSONString(w.Buf, val)
}

// Bytes appends one field.
func (w *Writer) Bytes(key string, val []byte) {
	if w.Enc == Binary {
		w.binKey(key, len(val))
		w.Buf = append(w.Buf, val...)
		return
	}
	w.jsonKey(key)
	w.Buf = AppendJSONString(w.Buf, val)
}

// Int appends a decimal number.
func (w *Writer) Int(key string, v int64) {
	if w.Enc == Binary {
		var tmp [20]byte
		s := strconv.AppendInt(tmp[:0], v, 10)
		w.binKey(key, len(s))
		w.Buf = append(w.Buf, s...)
		return
	}
	w.jsonKey(key)
	w.Buf = append(strconv.AppendInt(append(w.Buf, '"'), v, 10), '"')
}

// Bool appends true or false.
func (w *Writer) Bool(key string, v bool) {
	if v {
		w.String(key, "true")
	} else {
		w.String(key, "false")
	}
}

func (w *Writer) binKey(key string, n int) {
	w.some = true
	w.Buf = append(w.Buf, byte(len(key)>>8), byte(len(key)))
	w.Buf = append(w.Buf, key...)
	w.Buf = append(w.Buf, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func (w *Writer) jsonKey(key string) {
	b := w.Buf
	if w.some {
		b = append(b, ',')
	}
	w.some = true
	b = append(b, '"')
	b = append(b, key...)
	w.Buf = append(b, '"', ':')
}

const hexDigits = "0123456789abcdef"

// AppendJSONString appends s as a JSON string: quotes, backslash and control characters escaped, everything else raw UTF-8,
// as fastjson2 writes it. Bytes that are not UTF-8 become U+FFFD, as in Java, so that the peer can read the document.
func AppendJSONString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := plain(s); i < len(s); i++ {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				start = i + 1
			}
			i += n - 1
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// plain returns how many bytes of s, in eights, are printable ASCII that needs no escape. In a byte of w that is below ' ' the first
// difference borrows, in one that is a quote or backslash the others do; what is after such a byte does not matter.
func plain[T string | []byte](s T) (n int) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(s); n += 8 {
		b := s[n : n+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		q, e := w^ones*'"', w^ones*'\\'
		if (w|(w-ones*' ')|(q-ones)|(e-ones))&highs != 0 {
			break
		}
	}
	return n
}
