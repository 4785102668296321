package fastjson

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoder says how to write. The zero value is what bodies use: compact, integer map keys quoted (every reader accepts
// them, and the Java tools fail on bare ones inside members they do not know), non-ASCII characters as UTF-8.
type Encoder struct {
	UnquotedIntKeys   bool // {0:"a"}, fastjson's own form
	BrowserCompatible bool // non-ASCII characters as \uXXXX and / as \/
	Pretty            bool // one member or element a line, indented by tabs, as in Java's config files
}

// Marshal returns the text of v. It panics on types that have no text, which is a fault of the program.
func Marshal(v any) []byte { return Encoder{}.Append(nil, v) }

// AppendMarshal appends the text of v to dst.
func AppendMarshal(dst []byte, v any) []byte { return Encoder{}.Append(dst, v) }

// Marshal returns the text of v.
func (e Encoder) Marshal(v any) []byte { return e.Append(nil, v) }

// Append appends the text of v to dst.
func (e Encoder) Append(dst []byte, v any) []byte {
	w := writer{Encoder: e, buf: dst}
	w.value(reflect.ValueOf(v))
	return w.buf
}

type writer struct {
	Encoder
	buf    []byte
	indent int
}

func (w *writer) value(v reflect.Value) {
	if !v.IsValid() {
		w.buf = append(w.buf, "null"...)
		return
	}
	if planOf(v.Type()).marshaler {
		w.buf = v.Interface().(Marshaler).AppendFastJSON(w.buf)
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.value(v.Elem())
	case reflect.Struct:
		w.object(v)
	case reflect.Map:
		w.mapping(v)
	case reflect.Slice:
		w.list(v)
	case reflect.String:
		w.string(v.String())
	case reflect.Bool:
		w.buf = strconv.AppendBool(w.buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.buf = strconv.AppendInt(w.buf, v.Int(), 10)
	case reflect.Float32, reflect.Float64:
		w.float(v.Float(), v.Type().Bits())
	default:
		panic(fmt.Sprintf("fastjson: cannot write %v", v.Type()))
	}
}

func (w *writer) object(v reflect.Value) {
	p := planOf(v.Type())
	n := 0
	w.buf = append(w.buf, '{')
	for i := range p.fields {
		f := &p.fields[i]
		member := v.FieldByIndex(f.index)
		if !f.written(member) {
			continue
		}
		w.begin(n, w.Pretty)
		w.string(f.name)
		w.buf = append(w.buf, ':')
		w.nested(member)
		n++
	}
	w.end('}', n > 0 && w.Pretty)
}

type mapEntry struct {
	text  []byte // of the key
	key   reflect.Value
	value reflect.Value
}

func (w *writer) mapping(v reflect.Value) {
	entries := make([]mapEntry, 0, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		entries = append(entries, mapEntry{w.keyText(iter.Key()), iter.Key(), iter.Value()})
	}
	slices.SortFunc(entries, func(a, b mapEntry) int {
		if a.key.CanInt() {
			return cmp.Compare(a.key.Int(), b.key.Int())
		}
		return bytes.Compare(a.text, b.text)
	})
	w.buf = append(w.buf, '{')
	for i, e := range entries {
		w.begin(i, w.Pretty)
		w.buf = append(w.buf, e.text...)
		w.buf = append(w.buf, ':')
		w.nested(e.value)
	}
	w.end('}', len(entries) > 0 && w.Pretty)
}

// keyText returns a key as it stands in the text, quotes included.
func (w *writer) keyText(key reflect.Value) []byte {
	k := writer{Encoder: w.Encoder}
	k.Pretty = false
	if key.CanInt() && !w.UnquotedIntKeys {
		k.string(strconv.FormatInt(key.Int(), 10))
	} else {
		k.value(key)
	}
	return k.buf
}

// list writes numbers on one line even in pretty texts, as Java does.
func (w *writer) list(v reflect.Value) {
	lines := w.Pretty && v.Len() > 0
	if k := v.Type().Elem().Kind(); k >= reflect.Int && k <= reflect.Float64 {
		lines = false
	}
	w.buf = append(w.buf, '[')
	for i := range v.Len() {
		w.begin(i, lines)
		w.nested(v.Index(i))
	}
	w.end(']', lines)
}

// begin separates item i from what stands before it.
func (w *writer) begin(i int, lines bool) {
	if i > 0 {
		w.buf = append(w.buf, ',')
	}
	if lines {
		w.line(w.indent + 1)
	}
}

func (w *writer) nested(v reflect.Value) {
	w.indent++
	w.value(v)
	w.indent--
}

func (w *writer) end(bracket byte, lines bool) {
	if lines {
		w.line(w.indent)
	}
	w.buf = append(w.buf, bracket)
}

func (w *writer) line(indent int) {
	w.buf = append(w.buf, '\n')
	for range indent {
		w.buf = append(w.buf, '\t')
	}
}

// float writes as Java's Double.toString does: a fraction always, and an exponent outside of [0.001, 10 million). What is
// no number is null.
func (w *writer) float(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.buf = append(w.buf, "null"...)
		return
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-3 || abs >= 1e7) {
		format = 'E'
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, format, -1, bits), "E")
	w.buf = append(w.buf, mantissa...)
	if !strings.Contains(mantissa, ".") {
		w.buf = append(w.buf, ".0"...)
	}
	if format == 'E' {
		e, _ := strconv.Atoi(exponent) // FormatFloat pads it with zeros and a plus sign.
		w.buf = strconv.AppendInt(append(w.buf, 'E'), int64(e), 10)
	}
}

func (w *writer) string(s string) {
	w.buf = append(w.buf, '"')
	start := 0 // of what is not yet copied
	for i, r := range s {
		if r >= utf8.RuneSelf && r != utf8.RuneError && !w.BrowserCompatible {
			continue
		}
		if r >= ' ' && r < utf8.RuneSelf && r != '"' && r != '\\' && (r != '/' || !w.BrowserCompatible) {
			continue
		}
		w.buf = append(w.buf, s[start:i]...)
		_, size := utf8.DecodeRuneInString(s[i:])
		start = i + size
		w.escape(r)
	}
	w.buf = append(w.buf, s[start:]...)
	w.buf = append(w.buf, '"')
}

func (w *writer) escape(r rune) {
	switch r {
	case '"', '\\', '/':
		w.buf = append(w.buf, '\\', byte(r))
	case '\b':
		w.buf = append(w.buf, `\b`...)
	case '\f':
		w.buf = append(w.buf, `\f`...)
	case '\n':
		w.buf = append(w.buf, `\n`...)
	case '\r':
		w.buf = append(w.buf, `\r`...)
	case '\t':
		w.buf = append(w.buf, `\t`...)
	default:
		if r == utf8.RuneError && !w.BrowserCompatible {
			w.buf = utf8.AppendRune(w.buf, r)
			return
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			w.buf = fmt.Appendf(w.buf, `\u%04x`, unit)
		}
	}
}
