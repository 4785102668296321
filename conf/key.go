package conf

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Component is one of the structs that stand for a process: *Broker, *Namesrv, *Controller.
type Component interface {
	// classes names the Java classes whose keys the component's file may hold.
	classes() classes
	// configFile is the field that holds the path of the component's own file.
	configFile() *string
	// complete fills what was left empty and depends on the machine or on other keys.
	complete(home string, r *Report)
	// check finds values that contradict each other.
	check() error
}

// Of is a pointer to T that is a Component.
type Of[T any] interface {
	*T
	Component
}

// classes are Java configuration classes: those that the process answers when its configuration is asked for, and others
// whose keys it reads from the same file.
type classes struct{ listed, accepted []string }

// Apply says what a change of a key at run time does.
type Apply string

// The values of the tag apply.
const (
	Hot     Apply = "hot"     // takes effect at once
	Restart Apply = "restart" // refused: change the file, then restart
	Startup Apply = "startup" // refused: chosen when the store or the cluster was made, and best left alone
	Deny    Apply = "deny"    // refused with ErrDenied, as Java's black list
)

// Key describes one configuration key, as the tags of its field declare it.
type Key struct {
	Name     string // the key
	Field    string // the Go field
	Group    string // the Go struct that declares the field
	Type     string // string, bool, int32, int64
	Default  string
	Unit     string
	Min, Max string
	Enum     []string
	Apply    Apply

	form  string
	index []int
	words map[string]string // other spelling in lower case → word of Enum
}

// Keys returns the keys that c declares, in the order of declaration.
func Keys(c Component) []Key {
	var out []Key
	for _, f := range reflect.VisibleFields(reflect.TypeOf(c).Elem()) {
		if name, ok := f.Tag.Lookup("conf"); ok {
			out = append(out, newKey(name, f, reflect.TypeOf(c).Elem()))
		}
	}
	return out
}

func newKey(name string, f reflect.StructField, owner reflect.Type) Key {
	k := Key{
		Name: name, Field: f.Name, Type: f.Type.Name(), index: f.Index, form: f.Tag.Get("form"),
		Default: f.Tag.Get("default"), Unit: f.Tag.Get("unit"), Min: f.Tag.Get("min"), Max: f.Tag.Get("max"),
		Apply: Apply(f.Tag.Get("apply")), Group: owner.FieldByIndex(f.Index[:1]).Name,
	}
	for _, word := range split(f.Tag.Get("enum"), ",") {
		spellings := strings.Split(word, "|")
		k.Enum = append(k.Enum, spellings[0])
		for _, s := range spellings {
			if k.words == nil {
				k.words = map[string]string{}
			}
			k.words[strings.ToLower(s)] = spellings[0]
		}
	}
	return k
}

// Want says in words which values the key takes.
func (k Key) Want() string {
	switch {
	case k.Enum != nil:
		return "one of " + strings.Join(k.Enum, ", ")
	case k.form != "":
		return forms[k.form].want
	case k.Type == "bool":
		return "true or false"
	case k.Type == "string":
		return "text"
	}
	want := "a whole number"
	if k.Unit == "B" {
		want = "a number of bytes"
	}
	switch {
	case k.Min != "" && k.Max != "":
		return want + " from " + k.Min + " to " + k.Max
	case k.Min != "":
		return want + " not below " + k.Min
	}
	return want
}

// set puts the value of text into the key's field of component; it reports false when text is not what Want says.
func (k Key) set(component reflect.Value, text string) bool {
	field := component.FieldByIndex(k.index)
	text = strings.TrimSpace(text)
	switch k.Type {
	case "bool":
		value := strings.EqualFold(text, "true")
		if !value && !strings.EqualFold(text, "false") {
			return false
		}
		field.SetBool(value)
	case "int32", "int64":
		n, ok := k.number(text)
		if !ok || field.OverflowInt(n) {
			return false
		}
		field.SetInt(n)
	default:
		if k.Enum != nil {
			word, ok := k.words[strings.ToLower(text)]
			if !ok {
				return false
			}
			text = word
		}
		if k.form != "" && forms[k.form].check(text) != nil {
			return false
		}
		field.SetString(text)
	}
	return true
}

func (k Key) number(text string) (int64, bool) {
	var n int64
	var err error
	if k.Unit == "B" {
		n, err = Size(text)
	} else {
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		return 0, false
	}
	if low, err := strconv.ParseInt(k.Min, 10, 64); err == nil && n < low {
		return 0, false
	}
	if high, err := strconv.ParseInt(k.Max, 10, 64); err == nil && n > high {
		return 0, false
	}
	return n, true
}

// text returns the value of the key's field in component.
func (k Key) text(component reflect.Value) string {
	return fmt.Sprint(component.FieldByIndex(k.index).Interface())
}

// Mask stands in place of a secret wherever a configuration is shown.
const Mask = "******"

// IsSecret reports whether the values of a key must not be shown. It also covers keys that no struct declares.
func IsSecret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"password", "secret", "accesskey", "credential", "initauthenticationuser", "exporterheader"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

func masked(key, value string) string {
	if value != "" && IsSecret(key) {
		return Mask
	}
	return value
}
