package conf

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxText bounds a properties text. A file that Java has written with every key is below 32 KiB.
const maxText = 1 << 20

// Property is one key of a properties file with its value, both without escapes.
type Property struct {
	Key, Value string
	// Line is the 1-based line on which the key stands.
	Line int

	valueAt, end int // the value's place in the text, escapes included, line end excluded
	separated    bool
}

// ParseProperties reads a text in the format of java.util.Properties: # and ! comments, = or : or blanks between key and
// value, \ before a line end joins lines, \t \n \r \f \uXXXX escapes. Text that is not valid UTF-8 is read as ISO-8859-1,
// Java's encoding. Properties are returned in file order; a key that stands twice is returned twice, and the last one
// counts. ${...} is ordinary text. A malformed \uXXXX and a text of more than 1 MiB are errors.
func ParseProperties(text []byte) ([]Property, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("larger than %d bytes", maxText)
	}
	s := scanner{text: text, line: 1, latin1: !utf8.Valid(text)}
	if len(text) >= 3 && string(text[:3]) == "\ufeff" {
		s.off = 3
	}
	var out []Property
	for s.skipToKey() {
		p, ok, err := s.property()
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, p)
		}
	}
	return out, nil
}

// scanner reads logical lines: the natural lines that backslashes join.
type scanner struct {
	text   []byte
	off    int
	line   int
	latin1 bool
}

// skipToKey moves to the first character of the next line that holds a property; it reports false at the end.
func (s *scanner) skipToKey() bool {
	for s.off < len(s.text) {
		switch c := s.text[s.off]; {
		case isBlank(c):
			s.off++
		case isNewline(c):
			s.newline()
		case c == '#' || c == '!':
			for s.off < len(s.text) && !isNewline(s.text[s.off]) {
				s.off++
			}
		default:
			return true
		}
	}
	return false
}

// property reads a key and its value up to, not including, the line end. It reports false for a line of nothing but a
// joining backslash.
func (s *scanner) property() (Property, bool, error) {
	p := Property{Line: s.line}
	var key, value []byte
	var t token
	var err error
	for {
		if key, t, err = s.next(key); err != nil {
			return p, false, err
		}
		if t.isSeparator() {
			key = key[:len(key)-1]
		}
		if t.kind == atEnd || t.isSeparator() {
			break
		}
	}
	p.Key, p.separated = string(key), t.kind != atEnd
	hard := t.kind == plain && !isBlank(t.char) // = or : separates once, with any number of blanks around it
	for t.kind != atEnd {
		at := *s
		if value, t, err = s.next(value); err != nil {
			return p, false, err
		}
		again := t.isSeparator() && !(hard && !isBlank(t.char))
		if !again && t.kind != atEnd {
			*s = at // it belongs to the value
		}
		value = value[:0]
		if !again {
			break
		}
		hard = hard || !isBlank(t.char)
	}
	p.valueAt = s.off
	for t.kind != atEnd {
		if value, t, err = s.next(value); err != nil {
			return p, false, err
		}
	}
	p.Value, p.end = string(value), s.off
	return p, p.separated || len(key) > 0, nil
}

// token tells what next appended.
type token struct {
	kind int
	char byte // of a plain token
}

const (
	plain   = iota // one byte as it stands
	escaped        // the meaning of an escape: never a separator
	atEnd          // nothing: the end of the logical line
)

func (t token) isSeparator() bool {
	return t.kind == plain && (t.char == '=' || t.char == ':' || isBlank(t.char))
}

// next appends the next character of the logical line to dst.
func (s *scanner) next(dst []byte) ([]byte, token, error) {
	for s.off < len(s.text) {
		c := s.text[s.off]
		if isNewline(c) {
			break
		}
		s.off++
		if c != '\\' {
			if s.latin1 && c >= utf8.RuneSelf {
				return utf8.AppendRune(dst, rune(c)), token{plain, c}, nil
			}
			return append(dst, c), token{plain, c}, nil
		}
		if s.off == len(s.text) { // a backslash at the end of the file means nothing and is part of nothing
			s.off--
			s.text = s.text[:s.off]
			break
		}
		if !isNewline(s.text[s.off]) {
			dst, err := s.escape(dst)
			return dst, token{kind: escaped}, err
		}
		s.newline()
		for s.off < len(s.text) && isBlank(s.text[s.off]) {
			s.off++
		}
	}
	return dst, token{kind: atEnd}, nil
}

// escape appends the meaning of the escape whose backslash was read.
func (s *scanner) escape(dst []byte) ([]byte, error) {
	c := s.text[s.off]
	s.off++
	switch c {
	case 't':
		return append(dst, '\t'), nil
	case 'n':
		return append(dst, '\n'), nil
	case 'r':
		return append(dst, '\r'), nil
	case 'f':
		return append(dst, '\f'), nil
	case 'u':
		r, err := s.hex()
		if err != nil {
			return dst, err
		}
		if utf16.IsSurrogate(r) && s.off+1 < len(s.text) && s.text[s.off] == '\\' && s.text[s.off+1] == 'u' {
			first := s.off
			s.off += 2
			low, err := s.hex()
			if err != nil {
				return dst, err
			}
			pair := utf16.DecodeRune(r, low)
			if pair == utf8.RuneError {
				s.off = first // not a pair: the second stands for itself
			}
			r = pair
		}
		return utf8.AppendRune(dst, r), nil
	}
	if s.latin1 && c >= utf8.RuneSelf {
		return utf8.AppendRune(dst, rune(c)), nil
	}
	return append(dst, c), nil
}

func (s *scanner) hex() (rune, error) {
	if s.off+4 <= len(s.text) {
		if n, err := strconv.ParseUint(string(s.text[s.off:s.off+4]), 16, 16); err == nil {
			s.off += 4
			return rune(n), nil
		}
	}
	return 0, fmt.Errorf("line %d: \\u is not followed by four hexadecimal digits", s.line)
}

func (s *scanner) newline() {
	if s.text[s.off] == '\r' && s.off+1 < len(s.text) && s.text[s.off+1] == '\n' {
		s.off++
	}
	s.off++
	s.line++
}

func isBlank(c byte) bool   { return c == ' ' || c == '\t' || c == '\f' }
func isNewline(c byte) bool { return c == '\n' || c == '\r' }

// AppendProperty appends the line key=value, escaped so that ParseProperties and java.util.Properties read it back,
// whatever the encoding: everything outside printable ASCII is written \uXXXX.
func AppendProperty(dst []byte, key, value string) []byte {
	dst = appendEscaped(dst, key, true)
	dst = append(dst, '=')
	dst = appendEscaped(dst, value, false)
	return append(dst, '\n')
}

func appendEscaped(dst []byte, text string, isKey bool) []byte {
	for i, r := range text {
		switch {
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\\', (r == ' ' || r == '=' || r == ':') && (isKey || i == 0), isKey && (r == '#' || r == '!'):
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				dst = fmt.Appendf(dst, "\\u%04X", unit)
			}
		}
	}
	return dst
}

// EditProperties sets keys of a properties text: only the values of these keys change, comments, order and spelling of
// everything else stay. A key that stands twice is changed where it counts, in its last line; a missing key is added at
// the end.
func EditProperties(text []byte, changes map[string]string) ([]byte, error) {
	properties, err := ParseProperties(text)
	if err != nil {
		return nil, err
	}
	last := map[string]Property{}
	for _, p := range properties {
		last[p.Key] = p
	}
	var edits []Property
	var added []string
	for key := range changes {
		if p, ok := last[key]; ok {
			edits = append(edits, p)
		} else {
			added = append(added, key)
		}
	}
	sort.Slice(edits, func(i, j int) bool { return edits[i].valueAt < edits[j].valueAt })
	slices.Sort(added)

	var out []byte
	from := 0
	for _, p := range edits {
		out = append(out, text[from:p.valueAt]...)
		if !p.separated {
			out = append(out, '=')
		}
		out = appendEscaped(out, changes[p.Key], false)
		from = p.end
	}
	out = append(out, text[from:]...)
	if len(added) > 0 {
		out = endLine(out)
	}
	for _, key := range added {
		out = AppendProperty(out, key, changes[key])
	}
	return out, nil
}

// endLine makes sure that what is appended to text begins a line of its own, even if text ends with a joining backslash.
func endLine(text []byte) []byte {
	natural := bytes.TrimRight(text, "\r\n")
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n') // also after a CR: with what follows it might make one line end
	}
	if bytes.HasSuffix(natural, []byte{'\\'}) {
		text = append(text, '\n')
	}
	return text
}
