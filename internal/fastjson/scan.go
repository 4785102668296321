package fastjson

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Error says where and why a document was refused.
type Error struct {
	Offset int // in bytes from the start of the document
	Reason string
}

func (e *Error) Error() string {
	return fmt.Sprintf("json: offset %d: %s", e.Offset, e.Reason)
}

// scanner cuts a document into tokens. pos never exceeds len(data).
type scanner struct {
	data []byte
	pos  int
}

func (s *scanner) fail(format string, args ...any) error {
	return &Error{Offset: s.pos, Reason: fmt.Sprintf(format, args...)}
}

func (s *scanner) unexpected(want string) error {
	if s.pos == len(s.data) {
		return s.fail("unexpected end of the document, want %s", want)
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail("unexpected %q, want %s", r, want)
}

// peek skips blanks and comments and returns the byte at the cursor without consuming it, or 0 at the end. (A NUL byte in
// the document is refused by whoever looks at it, because no token starts with it.)
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r', '\f':
			s.pos++
		case '/':
			if !s.comment() {
				return c
			}
		default:
			return c
		}
	}
	return 0
}

// comment skips a comment at the cursor; one that does not end takes the rest of the document.
func (s *scanner) comment() bool {
	rest := s.data[s.pos:]
	if len(rest) < 2 {
		return false
	}
	var end string
	switch rest[1] {
	case '*':
		end = "*/"
	case '/':
		end = "\n"
	default:
		return false
	}
	_, after, _ := bytes.Cut(rest[2:], []byte(end))
	s.pos = len(s.data) - len(after)
	return true
}

// bare returns the run of bytes at the cursor up to the next delimiter: a number, a literal or an unquoted key. It is
// empty when the cursor stands on a delimiter.
func (s *scanner) bare() string {
	start := s.pos
	for s.pos < len(s.data) && !isDelimiter(s.data[s.pos]) {
		s.pos++
	}
	return string(s.data[start:s.pos])
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', '\f', ',', ':', '{', '}', '[', ']', '"', '\'', '/', 0:
		return true
	}
	return false
}

// quoted returns the text of the string at the cursor, which stands on its opening quote of either kind. Bytes that are
// no UTF-8 become U+FFFD, as in Java.
func (s *scanner) quoted() (string, error) {
	start := s.pos + 1
	escaped, err := s.skipQuoted()
	if err != nil {
		return "", err
	}
	text := s.data[start : s.pos-1]
	if !escaped {
		return strings.ToValidUTF8(string(text), "\uFFFD"), nil
	}
	plain, ok := unescape(text)
	if !ok {
		s.pos = start
		return "", s.fail("invalid escape in a string")
	}
	return strings.ToValidUTF8(plain, "\uFFFD"), nil
}

// skipQuoted moves behind the string at the cursor and tells whether it holds escapes.
func (s *scanner) skipQuoted() (escaped bool, err error) {
	quote := s.data[s.pos]
	for i := s.pos + 1; i < len(s.data); i++ {
		switch s.data[i] {
		case quote:
			s.pos = i + 1
			return escaped, nil
		case '\\':
			escaped = true
			i++
		}
	}
	return false, s.fail("unterminated string")
}

func unescape(text []byte) (string, bool) {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out = append(out, text[i])
			continue
		}
		i++ // skipQuoted has seen that a byte follows.
		switch c := text[i]; c {
		case '"', '\'', '\\', '/':
			out = append(out, c)
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r, size := unescapeRune(text[i-1:])
			if size == 0 {
				return "", false
			}
			out = utf8.AppendRune(out, r)
			i += size - 2
		default:
			return "", false
		}
	}
	return string(out), true
}

// unescapeRune reads \uXXXX, or two of them when they are a surrogate pair; a lone surrogate is U+FFFD. size is the number
// of bytes read, 0 when they are malformed.
func unescapeRune(text []byte) (r rune, size int) {
	first, ok := hexUnit(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(first) {
		return first, 6
	}
	if second, ok := hexUnit(text[6:]); ok {
		if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
			return r, 12
		}
	}
	return utf8.RuneError, 6
}

func hexUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}

// skip moves behind the value at the cursor, whatever it holds. It checks brackets and strings only, and does not recurse:
// a member nobody knows can neither break the document nor exhaust the stack.
func (s *scanner) skip() error {
	var open []byte // the closing bracket of each open one
	for {
		switch c := s.peek(); c {
		case '"', '\'':
			if _, err := s.skipQuoted(); err != nil {
				return err
			}
		case '{':
			open = append(open, '}')
			s.pos++
		case '[':
			open = append(open, ']')
			s.pos++
		case '}', ']':
			if len(open) == 0 || open[len(open)-1] != c {
				return s.unexpected("a value")
			}
			open = open[:len(open)-1]
			s.pos++
		case ',', ':':
			if len(open) == 0 {
				return s.unexpected("a value")
			}
			s.pos++
		default:
			if s.bare() == "" {
				return s.unexpected("a value")
			}
		}
		if len(open) == 0 {
			return nil
		}
	}
}

// raw returns the text of the value at the cursor. It aliases the document.
func (s *scanner) raw() ([]byte, error) {
	s.peek()
	start := s.pos
	err := s.skip()
	return s.data[start:s.pos], err
}

// key returns a member's key and moves behind the colon. An object or array used as a key is returned as its text.
func (s *scanner) key() (string, error) {
	var key string
	var err error
	switch s.peek() {
	case '"', '\'':
		key, err = s.quoted()
	case '{', '[':
		var text []byte
		text, err = s.raw()
		key = string(text)
	default:
		if key = s.bare(); key == "" {
			err = s.unexpected("a key")
		}
	}
	if err != nil {
		return "", err
	}
	return key, s.colon()
}

func (s *scanner) colon() error {
	if s.peek() != ':' {
		return s.unexpected("':'")
	}
	s.pos++
	return nil
}

// separator moves behind the commas at the cursor. More of them than needed are accepted, as fastjson does, but between
// two items there must be one.
func (s *scanner) separator(end byte) error {
	c := s.peek()
	if c != ',' && c != end {
		return s.unexpected(fmt.Sprintf("',' or '%c'", end))
	}
	for s.peek() == ',' {
		s.pos++
	}
	return nil
}
