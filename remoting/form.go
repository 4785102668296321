package remoting

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// A program writes the same JSON header all its life: only the values of ext fields and the opaque differ. What the general parser
// has understood is kept as a form, and the next header is held against the forms that are known before it is parsed. A form is
// all text but those values; where the text is the same and each value ends where its string does, the general parser would go the
// same way, so what it would find is known.

// forms are the forms that the connections of one Server or Client have in common. They need no lock and have a fixed number.
type forms [1 << formBits]formBucket

const (
	formBits = 6
	formWays = 4
	formRest = 64 // of the headers that nothing matches, once a bucket is full, one in so many replaces a form
	formTry  = 8  // after so many of them in one burst the rest of it is parsed without a look

	maxFormFields = 64
	maxFormText   = 1 << 10 // bytes, without values
)

// formBucket holds the forms whose text begins in about the same way: those of one code, if there are no more codes than buckets.
type formBucket struct {
	ways   [formWays]atomic.Pointer[form]
	misses atomic.Uint32
}

// parse is parseJSON with a look at the known forms first, of which the one of the header before is the most likely.
func (t *forms) parse(c *Command, last *form) error {
	if c.strange == formTry || len(c.head) < 24 {
		return c.parseJSON()
	}
	if last != nil && last.match(c) {
		return nil
	}
	word := binary.LittleEndian.Uint64(c.head[8:]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(c.head[16:]), 29)
	b := &t[word*0x9E3779B97F4A7C15>>(64-formBits)]
	for i := range b.ways {
		if f := b.ways[i].Load(); f != nil && f != last && f.match(c) {
			return nil
		}
	}
	c.strange++
	c.scratch = c.scratch[:0]
	if err := c.parseJSON(); err != nil {
		return err
	}
	b.learn(c)
	return nil
}

// learn keeps the form of a header that has been parsed. Traffic that does not repeat itself makes it do so rarely.
func (b *formBucket) learn(c *Command) {
	n := b.misses.Add(1) - 1
	if n >= formWays {
		if n%formRest != 0 {
			return
		}
		n /= formRest
	}
	if f := formOf(c); f != nil {
		b.ways[n%formWays].Store(f)
	}
}

// form is the text of a header around its values, and what that text says.
type form struct {
	parts  []formPart
	tail   string // after the last value
	fields int    // how many of the values are ext fields

	code     int32
	flag     int32
	version  code.Version
	language code.Language

	indexes atomic.Pointer[formIndexes]
}

// formIndexes are the numbers of the fields of a form in the type of header that was decoded first. There is one such type, since
// one form is of one code.
type formIndexes struct {
	of reflect.Type
	at []int
}

// formPart is a value, quotes excluded, and the text before it.
type formPart struct {
	word, mask uint64 // the first eight bytes of the text, or as many as it has
	rest       string // the others
	size       int32  // of the text
	back       int32  // the key begins so many bytes before the value
	key        int32  // its size; notKey if the value is the opaque

	// usual is the size of the value when the form was learned, and stop what stops finds in one of that size, 0 if it is 8 or more.
	// Where that is right again the processor need not wait for the end of one value before it looks at the next.
	usual int32
	stop  uint64
}

const notKey = -1

// match sets c as the general parser would and reports true if its header has the form.
func (f *form) match(c *Command) bool {
	b, i := c.head, 0
	if !bytes.HasSuffix(b, []byte(f.tail)) {
		return false
	}
	c.scratch = c.scratch[:0]
	c.ext = slices.Grow(c.ext[:0], f.fields)
	ext, n, opaque := c.ext[:f.fields], 0, int32(0)
	for k := range f.parts {
		p := &f.parts[k]
		if len(b)-i < 8 || (binary.LittleEndian.Uint64(b[i:])^p.word)&p.mask != 0 {
			return false
		}
		if p.rest != "" && !bytes.HasPrefix(b[i+8:], []byte(p.rest)) {
			return false
		}
		i += int(p.size)
		if p.key == notKey {
			from, ok := i, false
			i = numberEnd(b, i)
			if opaque, ok = parseInt32(b[from:i]); !ok {
				return false
			}
			continue
		}
		stop := uint64(0)
		if i+8 <= len(b) { // most values are short
			stop = stops(binary.LittleEndian.Uint64(b[i:]), '"')
		}
		end := i
		switch {
		case stop == 0:
			if end = quoteOrEscape(b, i, '"'); end >= len(b) {
				return false
			}
		case stop&(p.stop|(p.stop-1)) == p.stop:
			end += int(p.usual)
		default:
			end += bits.TrailingZeros64(stop) / 8
		}
		val := span{int32(i), int32(end - i)}
		if b[end] == '\\' {
			if val, end = c.escaped(i); end >= len(b) {
				return false
			}
		}
		ext[n] = extField{span{int32(i) - p.back, p.key}, val}
		n, i = n+1, end
	}
	if i != len(b)-len(f.tail) {
		return false
	}
	c.ext, c.form = ext, f
	c.Code, c.Flag, c.Opaque, c.Version, c.Language = f.code, f.flag, opaque, f.version, f.language
	return true
}

func numberEnd(b []byte, i int) int {
	for i < len(b) && (b[i] >= '0' && b[i] <= '9' || b[i] == '-') {
		i++
	}
	return i
}

// index returns the numbers of the fields in headers of h's type, nil if others are known.
func (f *form) index(c *Command, h header.Setter) []int {
	x := f.indexes.Load()
	if x == nil {
		x = &formIndexes{of: reflect.TypeOf(h)}
		for _, e := range c.ext {
			x.at = append(x.at, h.IndexOf(c.bytes(e.key)))
		}
		f.indexes.Store(x)
	}
	if x.of != reflect.TypeOf(h) {
		return nil
	}
	return x.at
}

// formOf returns the form of a header that has been parsed, nil if it is one that programs do not write.
func formOf(c *Command) *form {
	if len(c.Remark) > 0 || len(c.ext) > maxFormFields {
		return nil
	}
	s := jsonScan{b: c.head}
	l := formLearner{s: &s, f: &form{code: c.Code, flag: c.Flag, version: c.Version, language: c.Language}}
	s.expect('{')
	for first := true; s.next(first); first = false {
		key, _ := s.key()
		ok := true
		switch string(c.bytes(key)) {
		case "opaque":
			ok = l.opaque()
		case "extFields":
			ok = l.ext()
		default:
			s.skip()
		}
		if !ok {
			return nil
		}
	}
	return l.end()
}

// formLearner collects the parts of a form from the header that s reads.
type formLearner struct {
	s      *jsonScan
	f      *form
	from   int // where the text since the last value begins
	size   int // of all text
	number bool
	fields bool
}

// opaque reads a number without quotes.
func (l *formLearner) opaque() bool {
	l.s.peek()
	at := l.s.i
	if _, ok := parseInt32(l.s.scalar()); l.number || !ok {
		return false
	}
	l.number = true
	l.value(span{int32(at), int32(l.s.i - at)}, span{int32(at), notKey})
	return true
}

// ext reads an object of strings.
func (l *formLearner) ext() bool {
	if l.fields || l.s.peek() != '{' {
		return false
	}
	l.fields = true
	l.s.i++
	for first := true; l.s.next(first); first = false {
		key, escaped := l.s.key()
		if escaped || l.s.peek() != '"' {
			return false
		}
		val, _ := l.s.str()
		l.value(val, key)
		l.f.fields++
	}
	return true
}

func (l *formLearner) value(val, key span) {
	text := l.text(int(val.at))
	var word [8]byte
	n := copy(word[:], text)
	l.f.parts = append(l.f.parts, formPart{
		word: binary.LittleEndian.Uint64(word[:]),
		mask: ^uint64(0) >> (64 - 8*n),
		rest: text[n:],
		size: int32(len(text)),
		back: val.at - key.at,
		key:  key.size,

		usual: val.size,
		stop:  0x80 << (8 * val.size),
	})
	l.from = int(val.at + val.size)
}

// text returns the text since the last value, unless there is too much.
func (l *formLearner) text(to int) string {
	if l.size += to - l.from; l.size > maxFormText {
		return ""
	}
	return string(l.s.b[l.from:to])
}

func (l *formLearner) end() *form {
	l.f.tail = l.text(len(l.s.b))
	if l.size > maxFormText {
		return nil
	}
	return l.f
}
