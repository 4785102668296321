package conf

import (
	"fmt"
	"strings"
)

// Kind sorts the findings of a Report.
type Kind string

// The kinds of findings.
const (
	NotSupported Kind = "not supported" // a key of Apache RocketMQ that has no effect here
	Unknown      Kind = "unknown key"   // nobody's key: most likely a typing error
	Repeated     Kind = "given twice"   // an earlier value of the same key was overridden
	Adjusted     Kind = "adjusted"      // a value that was chosen or changed here
)

// Finding is something the operator should know about a configuration that was loaded all the same.
type Finding struct {
	Kind Kind
	// Source is the file, or the name of another origin; Line is 0 where there are no lines.
	Source string
	Line   int
	Key    string
	// Value is masked if the key is secret.
	Value string
	// Detail explains the finding in words; it may be empty.
	Detail string
}

// String returns the finding on one line.
func (f Finding) String() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(place(f.Source, f.Line) + ": ")
	}
	fmt.Fprintf(&b, "%s: %s=%s", f.Kind, quoteOdd(f.Key), quoteOdd(f.Value))
	if f.Detail != "" {
		b.WriteString(" (" + f.Detail + ")")
	}
	return b.String()
}

// Report collects what Load found. Printing it is the caller's task; so is the decision to stop (a strict mode).
type Report struct {
	Findings []Finding
}

func (r *Report) add(f Finding) {
	f.Value = masked(f.Key, f.Value)
	r.Findings = append(r.Findings, f)
}

func (r *Report) adjusted(key, value, detail string) {
	r.add(Finding{Kind: Adjusted, Key: key, Value: value, Detail: detail})
}

// ValueError tells that a key was given a value it does not take.
type ValueError struct {
	// Source is the file, or the name of another origin; Line is 0 where there are no lines.
	Source string
	Line   int
	Key    string
	Value  string
	// Want says in words which values the key takes.
	Want string
}

// Error implements error.
func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: %s=%s: want %s", place(e.Source, e.Line), e.Key, quoteOdd(masked(e.Key, e.Value)), e.Want)
}

func place(source string, line int) string {
	if line == 0 {
		return source
	}
	return fmt.Sprintf("%s:%d", source, line)
}

// maxShown bounds what a message shows of a hostile file.
const maxShown = 200

// quoteOdd returns text as it is if it is short and printable, and quoted and cut otherwise.
func quoteOdd(text string) string {
	short := text
	if len(short) > maxShown {
		short = short[:maxShown] + "..."
	}
	if quoted := fmt.Sprintf("%q", short); quoted != `"`+short+`"` || short == "" || strings.TrimSpace(short) != short {
		return quoted
	}
	return short
}
