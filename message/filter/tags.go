package filter

import (
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Tags is a parsed tag subscription. It is immutable and safe for concurrent use.
type Tags struct {
	all   bool
	names []string // sorted, distinct
	codes []int32  // sorted, distinct
}

// ParseTags parses a tag list: tags separated by "||", trimmed, empty ones dropped. An absent list, which a caller passes
// as "", and "*" mean every message. A list of nothing but separators is an error, as in Java (FilterAPI). The result does
// not alias sub.
func ParseTags(sub string) (*Tags, error) {
	if sub == "" || sub == "*" {
		return &Tags{all: true}, nil
	}
	if err := checkSize(sub); err != nil {
		return nil, err
	}
	parts := strings.Split(strings.Clone(sub), "||")
	if strings.Join(parts, "") == "" {
		return nil, &CompileError{Reason: "no tag between the separators"}
	}
	t := &Tags{}
	for _, part := range parts {
		// Java's trim: every character up to the space, and no other white space.
		name := strings.TrimFunc(part, func(r rune) bool { return r <= ' ' })
		if name != "" {
			t.names = append(t.names, name)
			t.codes = append(t.codes, HashCode(name))
		}
	}
	slices.Sort(t.names)
	slices.Sort(t.codes)
	t.names = slices.Compact(t.names)
	t.codes = slices.Compact(t.codes)
	return t, nil
}

// All reports whether the subscription takes every message.
func (t *Tags) All() bool { return t.all }

// MatchCode reports whether a consume queue entry with this tags code may be a subscribed message. Only the low 32 bits
// count. A message without tags has the code 0.
func (t *Tags) MatchCode(code int64) bool {
	if t.all {
		return true
	}
	_, found := slices.BinarySearch(t.codes, int32(code))
	return found
}

// Names returns the tags in ascending order, none when All. The caller must not modify it.
func (t *Tags) Names() []string { return t.names }

// Codes returns the distinct hash codes of the tags in ascending order, none when All. The caller must not modify it.
func (t *Tags) Codes() []int32 { return t.codes }

// HashCode is Java's String.hashCode of a UTF-8 text: h = 31*h + unit over its UTF-16 code units. A byte that is not part
// of valid UTF-8 counts as U+FFFD. The tags code of a message is the HashCode of its TAGS property, sign-extended.
func HashCode[T ~string | ~[]byte](s T) int32 {
	var h int32
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			h = 31*h + int32(c)
			i++
			continue
		}
		var encoded [utf8.UTFMax]byte
		r, size := utf8.DecodeRune(encoded[:copy(encoded[:], s[i:])])
		if utf16.RuneLen(r) == 2 {
			high, low := utf16.EncodeRune(r)
			h = 31*h + high
			r = low
		}
		h = 31*h + r
		i += size
	}
	return h
}
