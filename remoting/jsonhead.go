package remoting

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/castor-mq/castor/remoting/code"
)

// The JSON form of a command header is the default of Java clients and so the hot path: it is read by hand, once, without
// allocation. What is tolerated beyond JSON is what fastjson2 tolerates in Java's servers (single quotes, comments, trailing
// commas, quoted numbers); unknown members may hold anything that has matching ends.

// parseJSON decodes the JSON form of a command header.
func (c *Command) parseJSON() error {
	s := jsonScan{b: c.head}
	s.expect('{')
	for first := true; s.next(first); first = false {
		key, _ := s.key()
		switch string(c.bytes(key)) {
		case "code":
			c.Code = s.int32()
		case "flag":
			c.Flag = s.int32()
		case "opaque":
			c.Opaque = s.int32()
		case "version":
			c.Version = code.Version(s.int32())
		case "language":
			c.Language = s.language()
		case "remark":
			c.Remark = c.bytes(c.text(&s))
		case "extFields":
			if err := c.parseJSONExt(&s); err != nil {
				return err
			}
		default:
			s.skip()
		}
	}
	if s.peek() == 0 && !s.bad && s.i == len(s.b) {
		return nil
	}
	return fmt.Errorf("%w: not the JSON of a command: %.80q", ErrHeader, s.b)
}

// parseJSONExt reads the object of ext fields. A number or boolean counts as its text, an object or array as its JSON; null is
// absent.
func (c *Command) parseJSONExt(s *jsonScan) error {
	if s.peek() != '{' {
		if string(s.scalar()) != "null" {
			s.fail()
		}
		return nil
	}
	s.i++
	c.ext = c.ext[:0]
	for first := true; s.next(first); first = false {
		key, val, ok := s.plainField()
		if !ok {
			if key, val, ok = c.field(s); !ok {
				continue
			}
		}
		if err := c.addExt(key, val); err != nil {
			return err
		}
	}
	return nil
}

// field reads one ext field of any form. It reports false if the value is null, and if there is no field.
func (c *Command) field(s *jsonScan) (key, val span, ok bool) {
	key, escaped := s.key()
	if escaped {
		key = c.unescape(key)
	}
	if q := s.peek(); q == '"' || q == '\'' {
		val = c.text(s)
	} else if val = s.skip(); string(c.bytes(val)) == "null" {
		return span{}, span{}, false
	}
	return key, val, !s.bad
}

// text reads a string value and removes its escapes; any other value is empty.
func (c *Command) text(s *jsonScan) span {
	if q := s.peek(); q != '"' && q != '\'' {
		s.skip()
		return span{}
	}
	raw, escaped := s.str()
	if escaped {
		return c.unescape(raw)
	}
	return raw
}

// jsonScan reads JSON text from the left. After anything that is not JSON, bad is set and nothing is left.
type jsonScan struct {
	b   []byte
	i   int
	bad bool
}

func (s *jsonScan) fail() { s.bad, s.i = true, len(s.b) }

// peek returns the next byte that is neither white space nor in a comment, 0 at the end.
func (s *jsonScan) peek() byte {
	if s.i < len(s.b) {
		if c := s.b[s.i]; c > ' ' && c != '/' {
			return c
		}
	}
	return s.peekSlow()
}

func (s *jsonScan) peekSlow() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\r', '\t':
			s.i++
		case '/':
			s.comment()
		default:
			return c
		}
	}
	return 0
}

func (s *jsonScan) comment() {
	rest, end := s.b[s.i:], "\n"
	switch {
	case len(rest) > 1 && rest[1] == '*':
		end = "*/"
	case len(rest) > 1 && rest[1] == '/':
	default:
		s.fail()
		return
	}
	n := bytes.Index(rest[2:], []byte(end))
	if n < 0 {
		s.fail()
		return
	}
	s.i += 2 + n + len(end)
}

func (s *jsonScan) expect(c byte) {
	if s.peek() != c {
		s.fail()
		return
	}
	s.i++
}

// str returns the raw text between the quotes of the next string and whether it holds escapes.
func (s *jsonScan) str() (raw span, escaped bool) {
	q := s.peek()
	if q != '"' && q != '\'' {
		s.fail()
		return span{}, false
	}
	start := s.i + 1
	for i := start; ; i += 2 {
		i = quoteOrEscape(s.b, i, q)
		if i >= len(s.b) {
			s.fail()
			return span{}, false
		}
		if s.b[i] == q {
			s.i = i + 1
			return span{int32(start), int32(i - start)}, escaped
		}
		escaped = true
	}
}

// stops finds the first byte of w that is q or a backslash: the lowest set bit is its highest one. There is none if there is no
// such byte. In w^(q in each byte) the byte that is q is zero, and the lowest zero byte is the lowest that borrows.
func stops(w uint64, q byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	x, y := w^ones*uint64(q), w^ones*'\\'
	return ((x-ones)&^x | (y-ones)&^y) & highs
}

// quoteOrEscape returns the place of the first q or backslash in b[i:], len(b) or more if there is none.
func quoteOrEscape(b []byte, i int, q byte) int {
	for ; i+8 <= len(b); i += 8 {
		if m := stops(binary.LittleEndian.Uint64(b[i:]), q); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for i < len(b) && b[i] != q && b[i] != '\\' {
		i++
	}
	return i
}

// scalar returns the text of the next number, true, false or null.
func (s *jsonScan) scalar() []byte {
	s.peek()
	start := s.i
	for s.i < len(s.b) && isScalar(s.b[s.i]) {
		s.i++
	}
	if s.i == start {
		s.fail()
		return nil
	}
	return s.b[start:s.i:s.i]
}

func isScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// skip passes over one value of any kind and returns its text. It does not recurse: nesting costs nothing.
func (s *jsonScan) skip() span {
	s.peek()
	start := s.i
	for depth := 0; !s.bad; {
		switch s.peek() {
		case '"', '\'':
			s.str()
		case '{', '[':
			depth++
			s.i++
		case '}', ']':
			depth--
			s.i++
		case ',', ':':
			if depth == 0 {
				s.fail()
				break
			}
			s.i++
		default:
			s.scalar()
		}
		if depth < 0 {
			s.fail()
		}
		if depth == 0 {
			break
		}
	}
	if s.bad {
		return span{}
	}
	return span{int32(start), int32(s.i - start)}
}

// next reports whether one more member of an object begins; it consumes what stands before it, or the end of the object.
func (s *jsonScan) next(first bool) bool {
	c := s.peek()
	if !first && c == ',' {
		s.i++
		c = s.peek()
	} else if !first && c != '}' {
		s.fail()
	}
	if c == '}' {
		s.i++
		return false
	}
	return !s.bad
}

// key reads `"key":`.
func (s *jsonScan) key() (raw span, escaped bool) {
	raw, escaped = s.str()
	s.expect(':')
	return raw, escaped
}

// plainField reads `"key":"value"` if it stands there without blanks and escapes, which is what programs write. If not it does
// nothing.
func (s *jsonScan) plainField() (key, val span, ok bool) {
	b, i := s.b, s.i
	if i >= len(b) || b[i] != '"' {
		return span{}, span{}, false
	}
	k := quoteOrEscape(b, i+1, '"')
	if k+2 >= len(b) || b[k] != '"' || b[k+1] != ':' || b[k+2] != '"' {
		return span{}, span{}, false
	}
	v := quoteOrEscape(b, k+3, '"')
	if v >= len(b) || b[v] != '"' {
		return span{}, span{}, false
	}
	s.i = v + 1
	return span{int32(i + 1), int32(k - i - 1)}, span{int32(k + 3), int32(v - k - 3)}, true
}

// int32 reads a number, which may be quoted. A fraction is cut off; null is 0.
func (s *jsonScan) int32() int32 {
	raw := s.word()
	n, ok := parseInt32(raw)
	if !ok {
		if whole, fraction, found := bytes.Cut(raw, []byte(".")); found && len(bytes.Trim(fraction, "0123456789")) == 0 {
			n, ok = parseInt32(whole)
		}
	}
	if !ok && string(raw) != "null" {
		s.fail()
	}
	return n
}

// word returns the text of a number, true, false or null, or the raw text of a string.
func (s *jsonScan) word() []byte {
	if c := s.peek(); c != '"' && c != '\'' {
		return s.scalar()
	}
	raw, _ := s.str()
	return s.b[raw.at : raw.at+raw.size]
}

func parseInt32(b []byte) (int32, bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 10 {
		return 0, false
	}
	var n int64
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if neg {
		n = -n
	}
	if n != int64(int32(n)) {
		return 0, false
	}
	return int32(n), true
}

// language reads the name in any case or the ordinal. Whatever is unknown is OTHER: such clients are served like all others.
func (s *jsonScan) language() code.Language {
	if c := s.peek(); c != '"' && c != '\'' {
		if n, ok := parseInt32(s.scalar()); ok && n >= 0 && n <= int32(code.NodeJS) {
			return code.Language(n)
		}
		return code.Other
	}
	raw := s.word()
	switch string(raw) { // the two that matter, without a search
	case "JAVA":
		return code.Java
	case "GO":
		return code.Go
	}
	return code.ParseLanguage(string(raw[:min(len(raw), 16)]))
}

// unescape decodes the raw text of a JSON string into the command's scratch space. What it writes is not longer than what it
// reads (but for one broken escape at the end), so space of the header's size does for all strings of the header.
func (c *Command) unescape(text span) span {
	raw := c.bytes(text)
	if cap(c.scratch)-len(c.scratch) < len(raw) {
		c.scratch = slices.Grow(c.scratch, len(c.head))
	}
	start := len(c.scratch)
	dst := c.scratch
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			dst = append(dst, raw...)
			break
		}
		dst = append(dst, raw[:i]...)
		e := raw[i+1]
		raw = raw[i+2:]
		switch e {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			var r rune
			r, raw = unescapeRune(raw)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, e)
		}
	}
	c.scratch = dst
	return span{^int32(start), int32(len(dst) - start)}
}

// escaped reads the string of the header that begins at i, which holds escapes, and returns it and where its closing quote stands;
// len(head) or more if there is none. The separators of properties, which each send has, are read on the way.
func (c *Command) escaped(i int) (val span, end int) {
	b, start, from := c.head, len(c.scratch), i
	c.scratch = slices.Grow(c.scratch, len(b)-i+8)
	dst := c.scratch[:cap(c.scratch)]
	for n := start; i+8 <= len(b); {
		w := binary.LittleEndian.Uint64(b[i:])
		binary.LittleEndian.PutUint64(dst[n:], w)
		k := 8
		if m := stops(w, '"'); m != 0 {
			k = bits.TrailingZeros64(m) / 8
		}
		i, n = i+k, n+k
		if k == 8 {
			continue
		}
		if b[i] == '"' {
			c.scratch = dst[:n]
			return span{^int32(start), int32(n - start)}, i
		}
		if i+6 > len(b) || string(b[i:i+5]) != `\u000` || b[i+5]-'0' > 9 {
			break
		}
		dst[n] = b[i+5] - '0'
		i, n = i+6, n+1
	}
	for end = quoteOrEscape(b, from, '"'); end < len(b) && b[end] == '\\'; {
		end = quoteOrEscape(b, end+2, '"')
	}
	if end >= len(b) {
		return span{}, end
	}
	return c.unescape(span{int32(from), int32(end - from)}), end
}

// unescapeRune reads the four hex digits after \u, and the second half of a surrogate pair if there is one.
func unescapeRune(b []byte) (rune, []byte) {
	r, rest := hex4(b)
	if utf16.IsSurrogate(r) && len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		low, after := hex4(rest[2:])
		if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
			return both, after
		}
	}
	return r, rest
}

// hex4 reads four hex digits. If there are not four it takes what is there for an unreadable character.
func hex4(b []byte) (rune, []byte) {
	if len(b) < 4 {
		return utf8.RuneError, nil
	}
	var r rune
	for _, d := range b[:4] {
		r <<= 4
		switch {
		case d >= '0' && d <= '9':
			r |= rune(d - '0')
		case d >= 'a' && d <= 'f':
			r |= rune(d-'a') + 10
		case d >= 'A' && d <= 'F':
			r |= rune(d-'A') + 10
		default:
			return utf8.RuneError, b[4:]
		}
	}
	return r, b[4:]
}
