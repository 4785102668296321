package conf

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// javaEnvironment are the settings that Java takes from system properties and the environment; a file overrides them.
var javaEnvironment = []struct{ variable, key string }{
	{"rocketmq.home.dir", "rocketmqHome"},
	{"ROCKETMQ_HOME", "rocketmqHome"},
	{"rocketmq.namesrv.addr", "namesrvAddr"},
	{"NAMESRV_ADDR", "namesrvAddr"},
}

// Default returns the defaults of a component as its tags declare them. What depends on the machine or on other keys is
// empty (names, addresses, paths under the root directory, derived ports); Load fills it.
func Default[T any, P Of[T]]() *T {
	c := new(T)
	setDefaults(P(c), homeDir(nil))
	return c
}

func setDefaults(c Component, home string) {
	value := reflect.ValueOf(c).Elem()
	for _, k := range Keys(c) {
		text := k.Default
		if rest, ok := strings.CutPrefix(text, "~/"); ok {
			text = filepath.Join(home, rest)
		}
		if k.Type != "string" || text != "" {
			if !k.set(value, text) {
				panic(fmt.Sprintf("conf: the default of %s is not %s", k.Name, k.Want()))
			}
		}
	}
}

// Load builds a component's configuration. From weak to strong: defaults, Java's own environment variables (ROCKETMQ_HOME,
// NAMESRV_ADDR and their system properties), the properties file, ROCKETMQ_<KEY> variables, overrides (the command line,
// by key).
//
// file may be empty, and env (os.LookupEnv, for instance) may be nil. A value that does not parse, or values that contradict
// each other, are an error that names every culprit (*ValueError, joined). Everything else worth knowing is in the report,
// which is never nil.
func Load[T any, P Of[T]](file string, overrides map[string]string, env func(string) (string, bool)) (*T, *Report, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	c := new(T)
	home := homeDir(env)
	setDefaults(P(c), home)
	l := loader{catalogue: newCatalogue(P(c)), value: reflect.ValueOf(c).Elem(), report: &Report{}}
	l.environment(env, javaVariables(l.declared))
	if file != "" {
		if err := l.file(file); err != nil {
			return nil, l.report, fmt.Errorf("configuration file: %w", err)
		}
	}
	l.environment(env, keyVariables(l.declared))
	for _, key := range slices.Sorted(maps.Keys(overrides)) {
		l.set("command line", 0, key, overrides[key])
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, l.report, err
	}
	if file != "" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, l.report, fmt.Errorf("configuration file: %w", err)
		}
		*P(c).configFile() = abs
	}
	P(c).complete(home, l.report)
	if err := P(c).check(); err != nil {
		return nil, l.report, fmt.Errorf("configuration: %w", err)
	}
	return c, l.report, nil
}

// loader sets the keys of one component.
type loader struct {
	catalogue
	value  reflect.Value
	report *Report
	errs   []error
}

func (l *loader) set(source string, line int, key, text string) {
	if k, ok := l.declared[key]; ok {
		if !k.set(l.value, text) {
			l.errs = append(l.errs, &ValueError{source, line, key, text, k.Want()})
		}
		return
	}
	f := Finding{Kind: Unknown, Source: source, Line: line, Key: key, Value: text}
	if java, ok := l.java[key]; ok {
		if sameText(text, java) {
			return // what Apache RocketMQ writes into the file of every broker whose configuration was changed once
		}
		if reason, ok := refused[key]; ok {
			l.errs = append(l.errs, fmt.Errorf("%s: %s is not supported: %s", place(source, line), key, reason))
			return
		}
		f.Kind = NotSupported
	} else if java, ok := l.foreign[key]; ok {
		f.Detail = "a key of " + java.Class + ", which this process does not read"
	} else if near := l.nearest(key); near != "" {
		f.Detail = "did you mean " + near + "?"
	}
	l.report.add(f)
}

// sameText reports whether text is the default of an unsupported key. Java reads every text but true as false.
func sameText(text string, java JavaKey) bool {
	text = strings.TrimSpace(text)
	if java.Type == "boolean" {
		return strings.EqualFold(text, "true") == (java.Default == "true")
	}
	return text == java.Default
}

func (l *loader) file(path string) error {
	text, err := readFile(path)
	if err != nil {
		return err
	}
	properties, err := ParseProperties(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	lastLine := map[string]int{}
	for _, p := range properties {
		lastLine[p.Key] = p.Line
	}
	var comment xmlComment
	for _, p := range properties {
		if l.passOver(&comment, path, p) {
			continue
		}
		if last := lastLine[p.Key]; last != p.Line {
			l.report.add(Finding{Repeated, path, p.Line, p.Key, p.Value, fmt.Sprintf("line %d counts", last)})
			continue
		}
		l.set(path, p.Line, p.Key, p.Value)
	}
	return nil
}

// xmlComment follows <!-- ... --> blocks, which three sample files of Apache RocketMQ begin with. To a properties reader
// they are keys.
type xmlComment struct{ inside bool }

// passOver reports whether p is only a line of an XML comment. A key that the component knows counts even there, as in Java.
func (l *loader) passOver(c *xmlComment, source string, p Property) bool {
	if p.Key == "<!--" {
		c.inside = true
		l.report.add(Finding{Unknown, source, p.Line, p.Key, "", "properties files know no XML comments; use #"})
	}
	inside := c.inside
	if strings.Contains(p.Key, "-->") || strings.Contains(p.Value, "-->") {
		c.inside = false
	}
	_, declared := l.declared[p.Key]
	_, known := l.java[p.Key]
	return inside && !declared && !known
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxText+1)) // one more than ParseProperties takes
}

// variable is an environment variable that sets a key.
type variable struct{ name, key string }

// environment sets the keys whose variables exist and are not empty.
func (l *loader) environment(env func(string) (string, bool), variables []variable) {
	done := map[string]bool{}
	for _, v := range variables {
		if text, ok := env(v.name); ok && text != "" && !done[v.key] {
			done[v.key] = true
			l.set("environment "+v.name, 0, v.key, text)
		}
	}
}

func javaVariables(declared map[string]Key) []variable {
	var out []variable
	for _, e := range javaEnvironment {
		if _, ok := declared[e.key]; ok {
			out = append(out, variable{e.variable, e.key})
		}
	}
	return out
}

func keyVariables(declared map[string]Key) []variable {
	var out []variable
	for _, key := range slices.Sorted(maps.Keys(declared)) {
		out = append(out, variable{Variable(key), key})
	}
	return out
}

// Variable returns the environment variable that sets key: brokerIP1 is ROCKETMQ_BROKER_IP1.
func Variable(key string) string {
	out := []rune("ROCKETMQ_")
	text := []rune(key)
	for i, r := range text {
		if r == '.' {
			r = '_'
		}
		if unicode.IsUpper(r) && i > 0 && text[i-1] != '.' &&
			(!unicode.IsUpper(text[i-1]) || i+1 < len(text) && unicode.IsLower(text[i+1])) {
			out = append(out, '_')
		}
		out = append(out, unicode.ToUpper(r))
	}
	return string(out)
}

// homeDir returns the home directory of the process's user, Java's user.home.
func homeDir(env func(string) (string, bool)) string {
	if env != nil {
		if dir, ok := env("HOME"); ok && dir != "" {
			return dir
		}
	}
	if u, err := user.Current(); err == nil && u.HomeDir != "" {
		return u.HomeDir
	}
	return "."
}
