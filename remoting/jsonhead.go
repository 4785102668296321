package remoting

import (
	"bytes"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// langUnknown stands for a language name that LanguageCode does not list; such clients are served like any other.
const langUnknown = 255

var languages = [...]string{"JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"}

// LanguageName returns the name of a LanguageCode ordinal, OTHER if it has none.
func LanguageName(l byte) string {
	if int(l) < len(languages) {
		return languages[l]
	}
	return "OTHER"
}

// maxDepth bounds nesting in the header's unknown members.
const maxDepth = 32

// jsonScan reads JSON text from the left. Every method leaves ok false once the text is not JSON.
type jsonScan struct {
	b  []byte
	ok bool
}

func (s *jsonScan) fail() { s.ok, s.b = false, nil }

func (s *jsonScan) space() {
	for len(s.b) > 0 && (s.b[0] == ' ' || s.b[0] == '\n' || s.b[0] == '\r' || s.b[0] == '\t') {
		s.b = s.b[1:]
	}
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *jsonScan) peek() byte {
	s.space()
	if len(s.b) == 0 {
		return 0
	}
	return s.b[0]
}

func (s *jsonScan) expect(c byte) {
	if s.peek() != c {
		s.fail()
		return
	}
	s.b = s.b[1:]
}

// str returns the raw text between the quotes of the next string and whether it holds escapes.
func (s *jsonScan) str() (raw []byte, escaped bool) {
	q := s.peek()
	if q != '"' && q != '\'' {
		s.fail()
		return nil, false
	}
	b := s.b[1:]
	i := bytes.IndexByte(b, q)
	if i < 0 {
		s.fail()
		return nil, false
	}
	if e := bytes.IndexByte(b[:i], '\\'); e < 0 {
		s.b = b[i+1:]
		return b[:i], false
	}
	for i = 0; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case q:
			s.b = b[i+1:]
			return b[:i], true
		}
	}
	s.fail()
	return nil, false
}

// scalar returns the text of the next number, true, false or null.
func (s *jsonScan) scalar() []byte {
	s.space()
	i := 0
	for i < len(s.b) && isScalar(s.b[i]) {
		i++
	}
	if i == 0 {
		s.fail()
		return nil
	}
	raw := s.b[:i]
	s.b = s.b[i:]
	return raw
}

func isScalar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// skip passes over one value of any kind and returns its text.
func (s *jsonScan) skip() []byte {
	start := s.b
	depth := 0
	for s.ok {
		switch c := s.peek(); c {
		case '"', '\'':
			s.str()
		case '{', '[':
			depth++
			s.b = s.b[1:]
			if depth > maxDepth {
				s.fail()
			}
			continue
		case '}', ']':
			depth--
			s.b = s.b[1:]
		case ',', ':':
			if depth == 0 {
				s.fail()
				break
			}
			s.b = s.b[1:]
			continue
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
	if !s.ok {
		return nil
	}
	return start[:len(start)-len(s.b)]
}

// member reads `"key":` or the end of the object. more is false at the end.
func (s *jsonScan) member(first bool) (key []byte, more bool) {
	c := s.peek()
	if !first && c == ',' {
		s.b = s.b[1:]
		c = s.peek()
	} else if !first && c != '}' {
		s.fail()
		return nil, false
	}
	if c == '}' {
		s.b = s.b[1:]
		return nil, false
	}
	key, _ = s.str()
	s.expect(':')
	return key, s.ok
}

// parseJSON decodes the JSON form of a command header. Unknown members are passed over; a number may be quoted.
func (c *Command) parseJSON(b []byte) error {
	s := jsonScan{b: b, ok: true}
	s.expect('{')
	for first := true; s.ok; first = false {
		key, more := s.member(first)
		if !more {
			break
		}
		switch string(key) {
		case "code":
			c.Code = s.int32()
		case "flag":
			c.Flag = s.int32()
		case "opaque":
			c.Opaque = s.int32()
		case "version":
			c.Version = s.int32()
		case "language":
			c.Language = s.language()
		case "remark":
			c.Remark = c.text(&s)
		case "extFields":
			c.ext = s.object()
		default:
			s.skip()
		}
	}
	if s.ok && s.peek() != 0 {
		s.fail()
	}
	if !s.ok {
		return fmt.Errorf("%w: not the JSON of a command: %.80q", ErrHeader, b)
	}
	return nil
}

func (s *jsonScan) int32() int32 {
	var raw []byte
	if c := s.peek(); c == '"' || c == '\'' {
		raw, _ = s.str()
	} else {
		raw = s.scalar()
	}
	if string(raw) == "null" {
		return 0
	}
	n, ok := parseInt32(raw)
	if !ok {
		s.fail()
	}
	return n
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
	return int32(n), n == int64(int32(n))
}

// language accepts the name in any case, the ordinal, and anything else as unknown.
func (s *jsonScan) language() byte {
	if c := s.peek(); c != '"' && c != '\'' {
		if n, ok := parseInt32(s.scalar()); ok && n >= 0 && int(n) < len(languages) {
			return byte(n)
		}
		return langUnknown
	}
	raw, _ := s.str()
	for i, name := range languages {
		if len(name) == len(raw) && bytes.EqualFold([]byte(name), raw) {
			return byte(i)
		}
	}
	return langUnknown
}

// object returns the text of the next object after checking that it can be walked, or nil for null.
func (s *jsonScan) object() []byte {
	if s.peek() != '{' {
		if string(s.scalar()) != "null" {
			s.fail()
		}
		return nil
	}
	start := s.b
	s.b = s.b[1:]
	for first := true; s.ok; first = false {
		if _, more := s.member(first); !more {
			break
		}
		s.skip()
	}
	if !s.ok {
		return nil
	}
	return start[1 : len(start)-len(s.b)]
}

// text reads a string value, unescaped; null is nil.
func (c *Command) text(s *jsonScan) []byte {
	if q := s.peek(); q != '"' && q != '\'' {
		s.skip()
		return nil
	}
	raw, escaped := s.str()
	if escaped {
		return c.unescape(raw)
	}
	return raw
}

// nextJSON yields the next ext field. A number or boolean counts as its text, an object or array as its JSON, null is absent.
func (it *extIter) nextJSON() bool {
	s := jsonScan{b: it.rest, ok: true}
	for len(it.rest) > 0 {
		if s.peek() == ',' {
			s.b = s.b[1:]
		}
		if s.peek() != '"' && s.peek() != '\'' {
			break // the closing brace
		}
		raw, escaped := s.str()
		if escaped {
			raw = it.c.unescape(raw)
		}
		it.key = raw
		s.expect(':')
		q := s.peek()
		if q == '"' || q == '\'' {
			it.val = it.c.text(&s)
		} else {
			it.val = s.skip()
		}
		it.rest = s.b
		if !s.ok {
			break
		}
		if string(it.val) != "null" || q == '"' {
			return true
		}
	}
	it.rest = nil
	return false
}

// unescape decodes the raw text of a JSON string into the command's scratch space.
func (c *Command) unescape(raw []byte) []byte {
	if cap(c.scratch)-len(c.scratch) < len(raw) {
		c.scratch = make([]byte, 0, max(1024, 2*len(raw)))
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
			r, raw = unescapeUnit(raw)
			if utf16.IsSurrogate(r) && len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				low, rest := unescapeUnit(raw[2:])
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					r, raw = both, rest
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, e)
		}
	}
	c.scratch = dst
	return dst[start:len(dst):len(dst)]
}

// unescapeUnit reads the four hex digits after \u.
func unescapeUnit(b []byte) (rune, []byte) {
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
