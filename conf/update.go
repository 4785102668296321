package conf

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// ErrDenied tells that a run-time change names a key that must not be changed that way. It is answered NO_PERMISSION, as
// Java answers for its black list.
var ErrDenied = errors.New("key cannot be changed at run time")

// Update applies a run-time change, properties text, to a copy of cur, and returns the copy with the names of the keys
// whose value is another now, in the order of declaration. cur stays as it is. On an error nothing applies.
//
// Any key that is a path, that is declared apply:"deny" or that stands on configBlackList makes the whole change fail with
// ErrDenied, whatever its value, as in Java. Keys that nobody knows are ignored: tools send them. A value outside the
// key's type or range, or another value for a key that is not hot or has no effect here, is an error (Java answers success and does nothing). A
// secret whose value is Mask is left alone, so that a configuration that was shown can be sent back.
func Update[T any, P Of[T]](cur *T, text []byte) (next *T, changed []string, err error) {
	properties, err := ParseProperties(text)
	if err != nil {
		return nil, nil, err
	}
	cat := newCatalogue(P(cur))
	if err := cat.checkDenied(reflect.ValueOf(cur).Elem(), properties); err != nil {
		return nil, nil, err
	}
	copied := *cur
	var errs []error
	for _, p := range properties {
		k, ok := cat.declared[p.Key]
		java, known := cat.java[p.Key]
		switch {
		case IsSecret(p.Key) && p.Value == Mask:
		case !ok && known && p.Value != java.Default:
			errs = append(errs, fmt.Errorf("%s: a key of Apache RocketMQ that has no effect here", p.Key))
		case !ok:
		case !k.set(reflect.ValueOf(&copied).Elem(), p.Value):
			errs = append(errs, &ValueError{"update", p.Line, p.Key, p.Value, k.Want()})
		}
	}
	for _, k := range Keys(P(cur)) {
		switch {
		case k.text(reflect.ValueOf(cur).Elem()) == k.text(reflect.ValueOf(&copied).Elem()):
		case k.Apply == Hot:
			changed = append(changed, k.Name)
		case k.Apply == Startup:
			errs = append(errs, fmt.Errorf("%s: fixed while the store exists; it cannot be changed at run time", k.Name))
		default:
			errs = append(errs, fmt.Errorf("%s: cannot be changed at run time; change the file and restart", k.Name))
		}
	}
	if err := errors.Join(append(errs, P(&copied).check())...); err != nil {
		return nil, nil, err
	}
	return &copied, changed, nil
}

func (cat catalogue) checkDenied(component reflect.Value, properties []Property) error {
	blackList := split(cat.declared["configBlackList"].text(component), ";")
	for _, p := range properties {
		if cat.declared[p.Key].Apply == Deny || slices.Contains(blackList, p.Key) ||
			strings.Contains(strings.ToLower(p.Key), "path") {
			return fmt.Errorf("%s: %w", quoteOdd(p.Key), ErrDenied)
		}
	}
	return nil
}

// Values returns the current values of keys, as EditFile wants them. Keys that c does not declare are left out.
func Values(c Component, keys []string) map[string]string {
	out := map[string]string{}
	for _, k := range Keys(c) {
		if slices.Contains(keys, k.Name) {
			out[k.Name] = k.text(reflect.ValueOf(c).Elem())
		}
	}
	return out
}

// Text returns all keys of c sorted, one key=value a line, in the form the processes answer when their configuration is
// asked for (Java: Configuration.getAllConfigsFormatString): the keys that c declares with their values, and the other keys
// of the Java classes with Java's defaults. As in Java, keys that are null there and not given here are missing. Secrets
// are masked.
func Text(c Component) []byte {
	var out []byte
	for _, p := range list(c) {
		out = AppendProperty(out, p.Key, p.Value)
	}
	return out
}

// Important returns the declared keys that -m shows, sorted. Secrets are masked.
func Important(c Component) []Property {
	cat := newCatalogue(c)
	return slices.DeleteFunc(list(c), func(p Property) bool {
		_, declared := cat.declared[p.Key]
		return !declared || !cat.java[p.Key].Important
	})
}

func list(c Component) []Property {
	var out []Property
	cat, listed := newCatalogue(c), c.classes().listed
	for _, k := range cat.declared {
		value := k.text(reflect.ValueOf(c).Elem())
		if java, known := cat.java[k.Name]; value != "" || known && !java.Null {
			out = append(out, Property{Key: k.Name, Value: masked(k.Name, value)})
		}
	}
	for _, k := range cat.java {
		if _, ok := cat.declared[k.Name]; !ok && !k.Null && slices.Contains(listed, k.Class) {
			out = append(out, Property{Key: k.Name, Value: masked(k.Name, k.Default)})
		}
	}
	slices.SortFunc(out, func(a, b Property) int { return strings.Compare(a.Key, b.Key) })
	return out
}
