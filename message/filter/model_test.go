package filter

import (
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func unsafeString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// outcome is a result in the reference: T, F, N or E.
type outcome byte

// and is three-valued AND with an error that only a false on its left hides.
func (l outcome) and(r outcome) outcome {
	switch {
	case l == 'F' || l == 'E':
		return l
	case r == 'F' || r == 'E':
		return r
	case l == 'N' || r == 'N':
		return 'N'
	}
	return 'T'
}

func (l outcome) not() outcome {
	switch l {
	case 'T':
		return 'F'
	case 'F':
		return 'T'
	}
	return l
}

// or is de Morgan's, so that the reference has one table only.
func (l outcome) or(r outcome) outcome { return l.not().and(r.not()).not() }

var modelMessage = props{"yes": "1", "text": "x"}

// atoms are conditions with a known outcome for modelMessage.
var atoms = map[outcome][]string{
	'T': {"TRUE", "yes = 1", "missing IS NULL", "text CONTAINS 'x'", "'y' <> missing"},
	'F': {"FALSE", "yes > 1", "text", "missing CONTAINS 'x'", "'y' = missing"},
	'N': {"NULL", "missing", "missing > 1", "missing NOT IN ('x')", "NOT missing"},
	'E': {"text = 1", "text < yes", "1.5 <> text", "yes BETWEEN text AND 3"},
}

// condition draws an expression, without parentheses around it only where its precedence allows, and its outcome.
func condition(t *rapid.T, depth int) (string, outcome) {
	choice := rapid.IntRange(0, 9).Draw(t, "choice")
	if depth == 0 || choice < 2 {
		want := rapid.SampledFrom([]outcome{'T', 'F', 'N', 'E'}).Draw(t, "outcome")
		return rapid.SampledFrom(atoms[want]).Draw(t, "atom"), want
	}
	if choice < 4 {
		inner, o := condition(t, depth-1)
		return "NOT (" + inner + ")", o.not()
	}
	operator := "AND"
	fold := outcome.and
	if choice < 7 {
		operator, fold = "OR", outcome.or
	}
	var terms []string
	var result outcome
	for i := range rapid.IntRange(2, 5).Draw(t, "terms") {
		term, o := condition(t, depth-1)
		// An OR in an AND needs parentheses; everything else may have them.
		if operator == "AND" && strings.Contains(term, " OR ") || rapid.Bool().Draw(t, "parenthesis") {
			term = "(" + term + ")"
		}
		terms = append(terms, term)
		if i == 0 {
			result = o
		} else {
			result = fold(result, o)
		}
	}
	return strings.Join(terms, " "+operator+" "), result
}

func TestThreeValuedLogicModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := condition(t, 3)
		e, err := Compile(text)
		if err != nil {
			t.Fatalf("Compile(%q): %v", text, err)
		}
		if got := answer(e, modelMessage); got != byte(want) {
			t.Fatalf("%q = %c, want %c", text, got, want)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"a = 5", "a <> 'it''s' AND b NOT IN ('x','y') OR NOT (c BETWEEN -1 AND 2.5e3)", "a CONTAINS 'x' IS NOT NULL",
		"-- x\na /* y */ > .5", "((a", "a = 'x", "a = --5", "TRUE = b", "+a NOT STARTSWITH ''", "\x00\xff", "a = 1e400",
	} {
		f.Add(text)
	}
	message := props{"a": "5", "b": "true", "c": "x"}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Compile(text)
		if err != nil {
			if ce := err.(*CompileError); ce.Pos < 0 || ce.Pos > len(text) || ce.Reason == "" || len(ce.Error()) > 300 {
				t.Fatalf("Compile(%q) = %#v", text, ce)
			}
			return
		}
		got := outcome(answer(e, message))
		inverse, err := Compile("NOT (" + text + ")")
		if err != nil {
			if strings.Contains(err.Error(), "nested") || len(text) > maxTextBytes-10 {
				return
			}
			t.Fatalf("%q compiles, but NOT of it: %v", text, err)
		}
		if back := outcome(answer(inverse, message)); back != got.not() {
			t.Fatalf("%q = %c, but NOT of it = %c", text, got, back)
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, v := range []string{"5", "-5.5", "abc", "", " 5 ", "0x1.8p3f", "NaN", "-Infinity", "1e400", "9223372036854775808", "TRUE", "٣"} {
		f.Add(v, "5")
	}
	var exprs []*Expr
	for _, text := range []string{
		"a = 5", "a > 5", "a = 3000000000", "a = 5.5", "a < 0.0", "5 <> a", "a > b", "a = b", "a = TRUE", "a",
		"a BETWEEN b AND 9.5", "a NOT BETWEEN 1 AND 2", "a IN ('5', 'abc')", "a CONTAINS '5' OR b NOT ENDSWITH 'x'",
	} {
		exprs = append(exprs, mustCompile(f, text))
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		message := props{"a": a, "b": b}
		for i, e := range exprs {
			match, err := e.Eval(message)
			if match != e.Match(message) || match && err != nil || answer(e, message) == '?' {
				t.Fatalf("expression %d: Eval = %v, %v, Match = %v", i, match, err, e.Match(message))
			}
		}
		n, ok := parseLong(a)
		if want, err := strconv.ParseInt(a, 10, 64); ok != (err == nil) || ok && n != want {
			t.Fatalf("parseLong(%q) = %d, %v, strconv: %d, %v", a, n, ok, want, err)
		}
	})
}
