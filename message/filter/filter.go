package filter

import (
	"fmt"
	"strings"
)

// maxTextBytes limits the text of an expression and of a tag list.
const maxTextBytes = 64 << 10

// Properties gives a message's user and system properties by exact, case-sensitive name. ok is false when the message
// does not have the property; an empty value is a value.
type Properties interface {
	Get(name string) (value string, ok bool)
}

// Expr is a compiled SQL92 selector. It is immutable and safe for concurrent use.
type Expr struct {
	root node
}

// CompileError says where and why a text is not an expression or a tag list.
type CompileError struct {
	// Pos is a byte offset in the text.
	Pos    int
	Reason string
}

// Error returns the position and the reason.
func (e *CompileError) Error() string {
	return fmt.Sprintf("filter: at byte %d: %s", e.Pos, e.Reason)
}

// Compile parses and checks a selector. Every error is a *CompileError. The expression does not alias text.
func Compile(text string) (*Expr, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	root, err := parse(strings.Clone(text))
	if err != nil {
		return nil, err
	}
	return &Expr{root: root}, nil
}

// Match reports whether the expression is true for the message. False, null and an evaluation error do not match.
func (e *Expr) Match(p Properties) bool {
	return e.root.eval(p).is(true)
}

// Eval is Match that also tells why an evaluation had to be given up, such as a property that is compared with a number
// and is not one. The error repeats for every such message, so a caller logs it once per expression.
func (e *Expr) Eval(p Properties) (match bool, err error) {
	v := e.root.eval(p)
	if v.kind == kindFailed {
		return false, fmt.Errorf("filter: property value %.64q is not %s", v.str, kind(v.num).article())
	}
	return v.is(true), nil
}

func checkSize(text string) error {
	if len(text) > maxTextBytes {
		return &CompileError{Pos: maxTextBytes, Reason: fmt.Sprintf("longer than %d bytes", maxTextBytes)}
	}
	return nil
}
