package fastjson

import (
	"reflect"
	"strconv"
	"strings"
)

// Resolving a reference scans the document from its start, so a document full of references could cost its length
// squared. What all of them together may scan is limited; references beyond it stay zero.
const (
	refWorkPerByte = 4
	refWorkSlack   = 1 << 20
)

// reference recognizes {"$ref":"path"} at the cursor and moves behind it. fastjson 1.x writes it where it meets an
// instance for the second time, for example a subscription that two consumer groups of a client share.
func (d *decoder) reference() (path string, ok bool) {
	start := d.pos
	defer func() {
		if !ok {
			d.pos = start
		}
	}()
	d.pos++
	if c := d.peek(); c != '"' && c != '\'' {
		return "", false
	}
	if !strings.HasPrefix(string(d.data[d.pos+1:min(d.pos+5, len(d.data))]), "$ref") {
		return "", false
	}
	if key, err := d.key(); err != nil || key != "$ref" {
		return "", false
	}
	if c := d.peek(); c != '"' && c != '\'' {
		return "", false
	}
	path, err := d.quoted()
	if err != nil || d.peek() != '}' {
		return "", false
	}
	d.pos++
	return path, true
}

// resolve decodes the value at path into v. It leaves v alone when there is no such value or it does not fit, and also
// inside of another reference, which makes cycles and exponential growth impossible.
func (d *decoder) resolve(path string, v reflect.Value) {
	if d.inReference || d.refWork <= 0 {
		return
	}
	saved := *d
	d.inReference = true
	d.pos = 0
	found := d.seek(path)
	d.refWork -= d.pos
	if found {
		start := d.pos
		fresh := reflect.New(v.Type()).Elem()
		if d.value(fresh) == nil {
			v.Set(fresh)
		}
		d.refWork -= d.pos - start
	}
	*d = saved
}

// seek moves from the document's start to the value at path, which looks like $.a[0].b. In a name, a backslash takes the
// next character literally.
func (s *scanner) seek(path string) bool {
	rest, ok := strings.CutPrefix(path, "$")
	for ok && rest != "" {
		switch rest[0] {
		case '.':
			var name string
			name, rest = cutName(rest[1:])
			ok = s.enterMember(name)
		case '[':
			var index string
			index, rest, ok = strings.Cut(rest[1:], "]")
			n, err := strconv.Atoi(index)
			ok = ok && err == nil && s.enterElement(n)
		default:
			ok = false
		}
	}
	return ok
}

func cutName(path string) (name, rest string) {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; c {
		case '.', '[':
			return b.String(), path[i:]
		case '\\':
			if i++; i < len(path) {
				b.WriteByte(path[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// enterMember moves from an object to the value of its member name.
func (s *scanner) enterMember(name string) bool {
	if s.peek() != '{' {
		return false
	}
	s.pos++
	for s.separatorIn('}') {
		key, err := s.key()
		if err != nil {
			return false
		}
		if key == name {
			return true
		}
		if s.skip() != nil {
			return false
		}
	}
	return false
}

// enterElement moves from an array to its element n.
func (s *scanner) enterElement(n int) bool {
	if s.peek() != '[' || n < 0 {
		return false
	}
	s.pos++
	for s.separatorIn(']') {
		if n == 0 {
			return true
		}
		n--
		if s.skip() != nil {
			return false
		}
	}
	return false
}

// separatorIn moves over commas and tells whether another item follows.
func (s *scanner) separatorIn(end byte) bool {
	for s.peek() == ',' {
		s.pos++
	}
	return s.pos < len(s.data) && s.data[s.pos] != end
}
