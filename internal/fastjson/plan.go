package fastjson

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Marshaler is implemented, on the value receiver, by types that write their own text. AppendFastJSON appends one value.
type Marshaler interface {
	AppendFastJSON(dst []byte) []byte
}

// Unmarshaler is implemented, on the pointer receiver, by types that read their own text. raw is one value without
// surrounding blanks, is never null, and belongs to the reader: implementations copy what they keep.
type Unmarshaler interface {
	UnmarshalFastJSON(raw []byte) error
}

// Defaulter is implemented, on the pointer receiver, by structs whose members have other defaults than zero. The reader
// calls it before it reads the object.
type Defaulter interface {
	SetDefaults()
}

var (
	marshalerType   = reflect.TypeFor[Marshaler]()
	unmarshalerType = reflect.TypeFor[Unmarshaler]()
	defaulterType   = reflect.TypeFor[Defaulter]()
)

// plan is what reflection tells about a type once and for all.
type plan struct {
	marshaler   bool
	unmarshaler bool
	defaulter   bool
	fields      []field          // of a struct, sorted by name
	byName      map[string]field // of a struct, with aliases
}

// field is one member of a struct or of a struct embedded in it.
type field struct {
	name      string
	alias     string
	index     []int
	omitEmpty bool
	nonNil    bool
}

// plans caches a *plan per reflect.Type. A plan never changes, so the cache is no state anybody can observe.
var plans sync.Map

// noPlan serves all unnamed and predeclared types: they have neither methods nor tagged fields.
var noPlan plan

func planOf(t reflect.Type) *plan {
	if t.PkgPath() == "" && t.Kind() != reflect.Struct {
		return &noPlan
	}
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(t, newPlan(t))
	return p.(*plan)
}

func newPlan(t reflect.Type) *plan {
	p := &plan{
		marshaler:   t.Implements(marshalerType),
		unmarshaler: reflect.PointerTo(t).Implements(unmarshalerType),
		defaulter:   reflect.PointerTo(t).Implements(defaulterType),
	}
	if t.Kind() != reflect.Struct {
		return p
	}
	p.fields = appendFields(nil, t, nil)
	slices.SortFunc(p.fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	p.byName = make(map[string]field, len(p.fields))
	for _, f := range p.fields {
		if _, taken := p.byName[f.name]; taken {
			panic(fmt.Sprintf("fastjson: %v has two fields named %q", t, f.name))
		}
		p.byName[f.name] = f
		if f.alias != "" {
			p.byName[f.alias] = f
		}
	}
	return p
}

// appendFields lists the tagged fields of t and of the structs it embeds; prefix is the way to t from the outermost struct.
func appendFields(fields []field, t reflect.Type, prefix []int) []field {
	for i := range t.NumField() {
		sf := t.Field(i)
		index := append(slices.Clone(prefix), i)
		if sf.Anonymous && sf.Type.Kind() == reflect.Struct {
			fields = appendFields(fields, sf.Type, index)
			continue
		}
		tag := sf.Tag.Get("json")
		if tag == "" || tag == "-" || !sf.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		f := field{name: name, index: index}
		for option := range strings.SplitSeq(options, ",") {
			switch key, value, _ := strings.Cut(option, "="); key {
			case "":
			case "alias":
				f.alias = value
			case "omitempty":
				f.omitEmpty = true
			case "nonnil":
				f.nonNil = true
			default:
				panic(fmt.Sprintf("fastjson: %v.%s: unknown tag option %q", t, sf.Name, option))
			}
		}
		fields = append(fields, f)
	}
	return fields
}

// written tells whether the writer emits the field when it holds v.
func (f *field) written(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil()
	case reflect.Map, reflect.Slice:
		return f.nonNil || !v.IsNil()
	default:
		return !f.omitEmpty || !v.IsZero()
	}
}
