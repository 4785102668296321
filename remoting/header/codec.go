package header

//go:generate go run ../../internal/gen/headers .

import (
	"bytes"
	"math"
	"strconv"
	"unsafe"
)

// FieldError says that the value of a known field does not parse. Value is cut to 64 bytes.
type FieldError struct {
	Field string
	Value string
}

func (e *FieldError) Error() string {
	return "header field " + e.Field + ": bad value " + strconv.Quote(e.Value)
}

// maxShownValue bounds what a hostile value puts into logs and remarks.
const maxShownValue = 64

func badValue(key, val []byte) error {
	return &FieldError{Field: string(key), Value: string(val[:min(len(val), maxShownValue)])}
}

// aliasString returns a string that shares the memory of b and so dies with the frame.
func aliasString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// parseBool is Java's Boolean.parseBoolean: everything but "true" in any case is false.
func parseBool(val []byte) bool { return len(val) == 4 && bytes.EqualFold(val, []byte("true")) }

func parseOptBool(val []byte) Opt[bool] {
	return Opt[bool]{V: parseBool(val), Ok: len(val) > 0}
}

func setInt[T int32 | int64](p *T, key, val []byte) error {
	v, ok := parseInt(val)
	if !ok || int64(T(v)) != v {
		return badValue(key, val)
	}
	*p = T(v)
	return nil
}

// setOptInt takes an empty value for an absent one: Java's binary header cannot tell them apart.
func setOptInt[T int32 | int64](p *Opt[T], key, val []byte) error {
	if len(val) == 0 {
		*p = Opt[T]{}
		return nil
	}
	p.Ok = true
	if err := setInt(&p.V, key, val); err != nil {
		*p = Opt[T]{}
		return err
	}
	return nil
}

// parseInt reads a decimal int64 with an optional sign, as Long.parseLong does. It collects the negative value, whose range
// is the larger one.
func parseInt(b []byte) (int64, bool) {
	neg := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		neg = b[0] == '-'
		b = b[1:]
	}
	if len(b) == 0 {
		return 0, false
	}
	if len(b) < 19 { // does not overflow
		return parseShort(b, neg)
	}
	var v int64
	for _, c := range b {
		d := int64(c) - '0'
		if d < 0 || d > 9 || v < math.MinInt64/10 || v*10 < math.MinInt64+d {
			return 0, false
		}
		v = v*10 - d
	}
	if neg {
		return v, true
	}
	if v == math.MinInt64 {
		return 0, false
	}
	return -v, true
}

func parseShort(b []byte, neg bool) (v int64, ok bool) {
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		v = v*10 + int64(d)
	}
	if neg {
		v = -v
	}
	return v, true
}

func appendNonEmpty(w *Writer, key, val string) {
	if val != "" {
		w.String(key, val)
	}
}

func appendOptInt[T int32 | int64](w *Writer, key string, v Opt[T]) {
	if v.Ok {
		w.Int(key, int64(v.V))
	}
}

func appendOptBool(w *Writer, key string, v Opt[bool]) {
	if v.Ok {
		w.Bool(key, v.V)
	}
}
