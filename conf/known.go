package conf

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed javakeys.txt
var javaKeysText string

// JavaKey is a configuration key of Apache RocketMQ 5.5.0.
type JavaKey struct {
	Class, Name string
	// Type is the Java type.
	Type string
	// Default is Java's default; Null tells that it is null.
	Default string
	Null    bool
	// Important marks the keys that -m shows.
	Important bool
}

var javaKeys = sync.OnceValue(func() []JavaKey {
	var out []JavaKey
	for line := range strings.Lines(javaKeysText) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "#") {
			continue
		}
		parts := append(strings.SplitN(line, " ", 4), "")
		name, important := strings.CutPrefix(parts[1], "*")
		k := JavaKey{Class: parts[0], Name: name, Type: parts[2], Default: parts[3], Important: important}
		if k.Default == "null" {
			k.Default, k.Null = "", true
		}
		out = append(out, k)
	}
	return out
})

// catalogue is everything that is known about the keys of one component's file.
type catalogue struct {
	declared map[string]Key
	java     map[string]JavaKey // keys of the component's classes, declared or not
	foreign  map[string]JavaKey // keys of other classes
}

func newCatalogue(c Component) catalogue {
	cat := catalogue{declared: map[string]Key{}, java: map[string]JavaKey{}, foreign: map[string]JavaKey{}}
	for _, k := range Keys(c) {
		cat.declared[k.Name] = k
	}
	own := c.classes()
	for _, k := range javaKeys() {
		switch {
		case !slices.Contains(own.listed, k.Class) && !slices.Contains(own.accepted, k.Class):
			cat.foreign[k.Name] = k
		case cat.java[k.Name].Class == "": // of two classes with one key, the first in javakeys.txt counts
			cat.java[k.Name] = k
		}
	}
	return cat
}

// Unsupported returns the Java keys that c's file may hold and that no struct declares, ordered by class and key.
func Unsupported(c Component) []JavaKey {
	cat := newCatalogue(c)
	var out []JavaKey
	for name, k := range cat.java {
		if _, ok := cat.declared[name]; !ok {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b JavaKey) int {
		return strings.Compare(a.Class+" "+a.Name, b.Class+" "+b.Name)
	})
	return out
}

// refused are unsupported keys that must not be passed over: starting without what they ask for would lose data from
// sight or leave a protected broker open. The text says what to do instead.
var refused = map[string]string{
	"enableDLegerCommitLog":       "a DLedger commit log cannot be opened; use enableControllerMode=true and controllerAddr",
	"readOnlyCommitLogStorePaths": "messages in additional read-only directories would be missing",
	"authenticationEnabled":       "this broker cannot check users, and it does not start without the check that was asked for",
	"authorizationEnabled":        "this broker cannot check permissions, and it does not start without the check that was asked for",
}

// maxKeyLength bounds the work of nearest for hostile keys; the longest real key has 50 characters.
const maxKeyLength = 80

// nearest returns the known key that is most like name, or "" if none is like it.
func (cat catalogue) nearest(name string) string {
	if len(name) > maxKeyLength {
		return ""
	}
	best, bestDistance := "", 2+len(name)/8
	if len(name) < 6 {
		bestDistance = 2
	}
	consider := func(candidate string) {
		d := distance(strings.ToLower(name), strings.ToLower(candidate))
		if d < bestDistance || d == bestDistance && best != "" && candidate < best {
			best, bestDistance = candidate, d
		}
	}
	for k := range cat.declared {
		consider(k)
	}
	for k := range cat.java {
		if _, ok := cat.declared[k]; !ok {
			consider(k)
		}
	}
	return best
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours that make a into b (optimal string
// alignment over bytes).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
