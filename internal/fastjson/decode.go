package fastjson

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

const (
	// maxDepth limits how deep objects and arrays may nest where they are decoded. RocketMQ's bodies need 7.
	maxDepth = 64
	// growth and slack limit what a document may make the reader allocate beside strings: growth bytes per byte of text.
	// Honest documents stay under 8; "[{},{},…]" would otherwise turn 16 MiB into gigabytes.
	growth = 32
	slack  = 64 << 10
)

// Unmarshal reads one document into *v.
//
// It is as lenient as the Java reader, and in places more: see the package tests for the forms. Members that *v does not
// know are skipped at any depth; members that the document lacks, or has as null, keep their value (of a Defaulter: its
// default). A member given twice counts with its last value. Numbers, booleans and strings are converted into each other
// where the text allows; a fraction given for an integer is cut off. Into an any it decodes nil, bool, int64 (float64 when
// it has a fraction or does not fit), string, []any and map[string]any.
//
// An empty document is an error. Errors of syntax, type and size are *Error; v must be a non-nil pointer.
func Unmarshal(data []byte, v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("json: cannot decode into %T", v)
	}
	d := decoder{scanner: scanner{data: data}, limits: &limits{
		memory:  growth*len(data) + slack,
		refWork: refWorkPerByte*len(data) + refWorkSlack,
	}}
	if err := d.value(target.Elem()); err != nil {
		return err
	}
	if d.peek(); d.pos != len(data) {
		return d.unexpected("the end of the document")
	}
	return nil
}

// limits is what is left to spend on a document.
type limits struct {
	memory  int // bytes
	refWork int // bytes scanned for references
}

type decoder struct {
	scanner
	*limits
	depth       int
	inReference bool
}

// value decodes the value at the cursor into v, which is addressable.
func (d *decoder) value(v reflect.Value) error {
	c := d.peek()
	if c == 'n' && d.null() {
		switch v.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Interface:
			v.SetZero()
		}
		return nil
	}
	if c == '{' {
		if path, ok := d.reference(); ok {
			d.resolve(path, v)
			return nil
		}
	}
	if planOf(v.Type()).unmarshaler {
		return d.hook(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if err := d.charge(v.Type().Elem().Size()); err != nil {
			return err
		}
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem())
	case reflect.Interface:
		return d.dynamic(v)
	case reflect.Struct, reflect.Map:
		return d.container(v, '{')
	case reflect.Slice:
		return d.container(v, '[')
	default:
		return d.scalar(v)
	}
}

func (d *decoder) null() bool {
	start := d.pos
	if d.bare() == "null" {
		return true
	}
	d.pos = start
	return false
}

func (d *decoder) hook(v reflect.Value) error {
	raw, err := d.raw()
	if err != nil {
		return err
	}
	if err := v.Addr().Interface().(Unmarshaler).UnmarshalFastJSON(raw); err != nil {
		return d.wrap("", err)
	}
	return nil
}

// wrap places an error from outside of the document's text at the cursor. prefix says what was read.
func (d *decoder) wrap(prefix string, err error) error {
	reason := err.Error()
	var inner *Error
	if errors.As(err, &inner) {
		reason = inner.Reason // Its offset counts from elsewhere.
	}
	return d.fail("%s%s", prefix, reason)
}

// charge takes size bytes from what the document may allocate.
func (d *decoder) charge(size uintptr) error {
	if d.memory -= int(size); d.memory < 0 {
		return d.fail("the document expands too much")
	}
	return nil
}

// container decodes an object or an array into v. The empty string stands for null, as in fastjson.
func (d *decoder) container(v reflect.Value, open byte) error {
	switch c := d.peek(); c {
	case open:
	case '"', '\'':
		start := d.pos
		if text, err := d.quoted(); err != nil || text == "" {
			return err
		}
		d.pos = start
		fallthrough
	default:
		return d.unexpected(fmt.Sprintf("'%c' for %v", open, v.Type()))
	}
	if d.depth == maxDepth {
		return d.fail("nested deeper than %d", maxDepth)
	}
	d.depth++
	defer func() { d.depth-- }()
	d.pos++
	switch v.Kind() {
	case reflect.Struct:
		return d.object(v)
	case reflect.Map:
		return d.mapping(v)
	default:
		return d.list(v)
	}
}

// items calls item at each item up to the closing bracket end, and moves behind that.
func (d *decoder) items(end byte, item func() error) error {
	for d.peek() == ',' {
		d.pos++
	}
	for d.peek() != end {
		if err := item(); err != nil {
			return err
		}
		if err := d.separator(end); err != nil {
			return err
		}
	}
	d.pos++
	return nil
}

func (d *decoder) object(v reflect.Value) error {
	p := planOf(v.Type())
	if p.defaulter {
		v.Addr().Interface().(Defaulter).SetDefaults()
	}
	return d.items('}', func() error {
		key, err := d.key()
		if err != nil {
			return err
		}
		f, known := p.byName[key]
		if !known {
			return d.skip()
		}
		return d.value(v.FieldByIndex(f.index))
	})
}

func (d *decoder) mapping(v reflect.Value) error {
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	const overhead = 16 // of a map's entry; a guess
	return d.items('}', func() error {
		if err := d.charge(t.Key().Size() + t.Elem().Size() + overhead); err != nil {
			return err
		}
		key, elem := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if err := d.mapKey(key); err != nil {
			return err
		}
		if err := d.value(elem); err != nil {
			return err
		}
		v.SetMapIndex(key, elem)
		return nil
	})
}

// mapKey decodes a key into v and moves behind the colon. A struct's key may be the object or a string holding its text.
func (d *decoder) mapKey(v reflect.Value) error {
	if v.Kind() == reflect.Struct && d.peek() == '{' {
		if err := d.value(v); err != nil {
			return err
		}
		return d.colon()
	}
	start := d.pos
	text, err := d.key()
	if err != nil {
		return err
	}
	if v.Kind() == reflect.Struct {
		inner := decoder{scanner: scanner{data: []byte(text)}, limits: d.limits, depth: d.depth, inReference: true}
		err = inner.value(v)
	} else {
		err = setScalar(v, text)
	}
	if err != nil {
		d.pos = start
		return d.wrap("key: ", err)
	}
	return nil
}

func (d *decoder) list(v reflect.Value) error {
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	size := v.Type().Elem().Size()
	return d.items(']', func() error {
		if err := d.charge(size); err != nil {
			return err
		}
		n := v.Len()
		v.Grow(1)
		v.SetLen(n + 1)
		elem := v.Index(n)
		elem.SetZero()
		return d.value(elem)
	})
}

// dynamic decodes a value whose type the document decides.
func (d *decoder) dynamic(v reflect.Value) error {
	if v.NumMethod() != 0 {
		return d.fail("cannot decode into %v", v.Type())
	}
	var x any
	var err error
	switch d.peek() {
	case '{':
		var m map[string]any
		err = d.value(reflect.ValueOf(&m).Elem())
		x = m
	case '[':
		var a []any
		err = d.value(reflect.ValueOf(&a).Elem())
		x = a
	case '"', '\'':
		x, err = d.quoted()
	default:
		x, err = d.literal()
	}
	if err != nil {
		return err
	}
	v.Set(reflect.ValueOf(x))
	return nil
}

// literal decodes an unquoted value into a bool, int64 or float64.
func (d *decoder) literal() (any, error) {
	start := d.pos
	text := d.bare()
	switch {
	case text == "true", text == "false":
		return text == "true", nil
	case isNumber(text):
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return i, nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	}
	d.pos = start
	return nil, d.unexpected("a value")
}

// scalar decodes a number, boolean or string into v. A string also takes an object or array, as its text.
func (d *decoder) scalar(v reflect.Value) error {
	start := d.pos
	var text string
	var err error
	switch d.peek() {
	case '"', '\'':
		text, err = d.quoted()
	case '{', '[':
		if v.Kind() != reflect.String {
			return d.unexpected(v.Type().String())
		}
		var raw []byte
		raw, err = d.raw()
		text = string(raw)
	default:
		if text = d.bare(); text != "true" && text != "false" && !isNumber(text) {
			d.pos = start
			return d.unexpected("a value")
		}
	}
	if err != nil {
		return err
	}
	if err := setScalar(v, text); err != nil {
		d.pos = start
		return d.wrap("", err)
	}
	return nil
}

// setScalar sets v to what text says, whether it was quoted or not.
func setScalar(v reflect.Value, text string) error {
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	text = strings.TrimSpace(text)
	switch v.Kind() {
	case reflect.Bool:
		switch strings.ToLower(text) {
		case "true", "1":
			v.SetBool(true)
		case "false", "0", "", "null":
			v.SetBool(false)
		default:
			return fmt.Errorf("%.40q is no boolean", text)
		}
	case reflect.Float32, reflect.Float64:
		f, err := parseFloat(text)
		if err != nil {
			return err
		}
		v.SetFloat(f)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := parseInt(text)
		if err != nil {
			return err
		}
		if v.OverflowInt(i) {
			return fmt.Errorf("%d overflows %v", i, v.Type())
		}
		v.SetInt(i)
	default:
		return fmt.Errorf("cannot decode into %v", v.Type())
	}
	return nil
}

func parseFloat(text string) (float64, error) {
	switch text {
	case "", "null", "false":
		return 0, nil
	case "true":
		return 1, nil
	}
	if !isNumber(text) {
		return 0, fmt.Errorf("%.40q is no number", text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is out of range", text)
	}
	return f, nil
}

func parseInt(text string) (int64, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	f, err := parseFloat(text)
	if err != nil {
		return 0, err
	}
	if f < math.MinInt64 || f >= math.MaxInt64 {
		return 0, fmt.Errorf("%.40q overflows int64", text)
	}
	return int64(f), nil
}

// isNumber tells whether text is a decimal number in JSON's form, leading zeros and a plus sign admitted.
func isNumber(text string) bool {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		text = text[1:]
	}
	digits := 0
	take := func() {
		for digits = 0; text != "" && text[0] >= '0' && text[0] <= '9'; digits++ {
			text = text[1:]
		}
	}
	take()
	whole := digits
	if strings.HasPrefix(text, ".") {
		text = text[1:]
		take()
		whole += digits
	}
	if whole == 0 {
		return false
	}
	if text != "" && (text[0] == 'e' || text[0] == 'E') {
		text = text[1:]
		if text != "" && (text[0] == '+' || text[0] == '-') {
			text = text[1:]
		}
		take()
		return text == "" && digits > 0
	}
	return text == ""
}
