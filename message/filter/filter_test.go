package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func mustCompile(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := Compile(text)
	if err != nil {
		t.Fatalf("Compile(%q): %v", text, err)
	}
	return e
}

func TestEvaluation(t *testing.T) {
	for _, c := range []struct {
		text    string
		message props
		want    byte // T true, F false, N null, E error
	}{
		// A property on the left of =.
		{"p = 'x'", nil, 'N'},
		{"p = 'x'", props{"p": "x"}, 'T'},
		{"p = 'x'", props{"p": "X"}, 'F'},
		{"p = ''", props{"p": ""}, 'T'},
		{"p = 5", props{"p": "5"}, 'T'},
		{"p = 5", props{"p": "+05"}, 'T'},
		{"p = 5", props{"p": "6"}, 'F'},
		{"p = 5", props{"p": "5.0"}, 'E'},
		{"p = 5.0", props{"p": "5"}, 'T'},
		{"p = 5", props{"p": "abc"}, 'E'},
		{"p = 5", props{"p": ""}, 'E'},
		{"p = 5", props{"p": " 5"}, 'E'},
		{"p = 5.0", props{"p": " 5 "}, 'T'},
		{"p <> 'x'", nil, 'N'},
		{"p <> 'x'", props{"p": "y"}, 'T'},
		{"p = q", nil, 'T'}, // Null equals null.
		{"p = q", props{"p": "1"}, 'F'},
		{"p = q", props{"q": "1"}, 'N'},
		{"p = q", props{"p": "1", "q": "1.0"}, 'F'},

		// A constant on the left.
		{"'x' = p", nil, 'F'},
		{"'x' = p", props{"p": "x"}, 'T'},
		{"5 = p", props{"p": "5"}, 'T'},
		{"5 = p", props{"p": "abc"}, 'E'},
		{"'x' <> p", nil, 'T'},
		{"'x' <> p", props{"p": "x"}, 'F'},

		// Booleans, on either side.
		{"p = TRUE", nil, 'N'},
		{"p = TRUE", props{"p": "tRuE"}, 'T'},
		{"p = TRUE", props{"p": "yes"}, 'F'},
		{"p = FALSE", props{"p": "yes"}, 'T'},
		{"TRUE = p", nil, 'F'},
		{"TRUE = p", props{"p": "True"}, 'T'},
		{"TRUE = p", props{"p": "yes"}, 'F'},
		{"TRUE <> p", props{"p": "yes"}, 'T'},
		{"FALSE = p", props{"p": "1"}, 'T'},
		{"(a > 1) = p", props{"a": "2", "p": "true"}, 'T'},
		{"a = q = p", props{"a": "2", "q": "3", "p": "false"}, 'T'},
		{"5 = TRUE", nil, 'F'},
		{"5 <> TRUE", nil, 'T'},

		// A bare property.
		{"p", nil, 'N'},
		{"p", props{"p": "true"}, 'F'},
		{"NOT p", props{"p": "true"}, 'T'},
		{"NOT p", nil, 'N'},
		{"p OR TRUE", nil, 'T'},

		// Ordering.
		{"p > 5", nil, 'N'},
		{"p > 5", props{"p": "6"}, 'T'},
		{"p > 5", props{"p": "5"}, 'F'},
		{"p >= 5", props{"p": "5"}, 'T'},
		{"p < 5", props{"p": "-6"}, 'T'},
		{"p <= 5", props{"p": "5"}, 'T'},
		{"5 < p", props{"p": "6"}, 'T'},
		{"5 < p", nil, 'N'},
		{"p > 5", props{"p": "5.5"}, 'E'},
		{"p > 5", props{"p": "3000000000"}, 'E'},
		{"p > 5.0", props{"p": "5.5"}, 'T'},
		{"p > 5.0", props{"p": "3000000000"}, 'T'},
		{"p > 5L", props{"p": "3000000000"}, 'E'}, // The suffix does not make it a Long.
		{"p > 2147483648", props{"p": "3000000000"}, 'T'},
		{"p > 2147483648", props{"p": "9223372036854775808"}, 'E'},
		{"p = -2147483648", props{"p": "-2147483648"}, 'T'},
		{"p > q", props{"p": "10", "q": "9"}, 'T'},
		{"p > q", props{"p": "10", "q": "x"}, 'E'},
		{"p > q", props{"p": "10"}, 'N'},
		{"5 > 4.5", nil, 'T'},
		{"5 = 5.0", nil, 'T'},
		{"3000000000 > 5", nil, 'T'},
		{"'5' = 5", nil, 'T'},
		{"p > -5", props{"p": "-4"}, 'T'},
		{"-p > 5", props{"p": "-9"}, 'N'}, // A property is not a number to be negated.
		{"p > 1.0", props{"p": "NaN"}, 'T'},
		{"p > 1.0", props{"p": "Infinity"}, 'T'},
		{"p > 1.0", props{"p": "1e400"}, 'T'},
		{"p > 1.0", props{"p": "inf"}, 'E'},
		{"p > 1.0", props{"p": "nan"}, 'E'},
		{"p > 1.0", props{"p": "1_0"}, 'E'},
		{"p > 1.0", props{"p": "0x_1p3"}, 'E'},
		{"p > 1.0", props{"p": "0x10"}, 'E'},
		{"p = 8.0", props{"p": "0x1p3"}, 'T'},
		{"p = 1.5", props{"p": "1.5f"}, 'T'},
		{"p = 1.5", props{"p": "1.5fd"}, 'E'},

		// A literal zero.
		{"p = 0.0", props{"p": "0"}, 'T'},
		{"p > 0.0", props{"p": "0.1"}, 'T'},
		{"p > .0e5", props{"p": "-1"}, 'F'},

		// BETWEEN and IN.
		{"p BETWEEN 1 AND 5", nil, 'N'},
		{"p BETWEEN 1 AND 5", props{"p": "1"}, 'T'},
		{"p BETWEEN 1 AND 5", props{"p": "5"}, 'T'},
		{"p BETWEEN 1 AND 5", props{"p": "6"}, 'F'},
		{"p BETWEEN 1 AND 5", props{"p": "x"}, 'E'},
		{"p BETWEEN q AND 5", props{"p": "9"}, 'F'}, // null AND false
		{"p BETWEEN q AND 5", props{"p": "2"}, 'N'},
		{"p NOT BETWEEN 1 AND 5", nil, 'N'},
		{"p NOT BETWEEN 1 AND 5", props{"p": "0"}, 'T'},
		{"p NOT BETWEEN 1 AND 5", props{"p": "5"}, 'F'},
		{"p IN ('a', 'b')", nil, 'N'},
		{"p IN ('a', 'b')", props{"p": "b"}, 'T'},
		{"p IN ('a', 'b')", props{"p": "B"}, 'F'},
		{"p NOT IN ('a', 'b')", nil, 'N'},
		{"p NOT IN ('a', 'b')", props{"p": "b"}, 'F'},
		{"p NOT IN ('a', 'b')", props{"p": "c"}, 'T'},

		// Searches.
		{"p CONTAINS 'b'", nil, 'F'},
		{"p CONTAINS 'b'", props{"p": "abc"}, 'T'},
		{"p CONTAINS 'B'", props{"p": "abc"}, 'F'},
		{"p CONTAINS ''", props{"p": "abc"}, 'F'},
		{"p NOT CONTAINS 'b'", nil, 'F'},
		{"p NOT CONTAINS 'b'", props{"p": "abc"}, 'F'},
		{"p NOT CONTAINS 'x'", props{"p": "abc"}, 'T'},
		{"p NOT CONTAINS ''", props{"p": "abc"}, 'F'},
		{"p STARTSWITH 'a'", props{"p": "abc"}, 'T'},
		{"p STARTSWITH 'b'", props{"p": "abc"}, 'F'},
		{"p NOT STARTSWITH 'b'", props{"p": "abc"}, 'T'},
		{"p NOT STARTSWITH 'b'", nil, 'F'},
		{"p ENDSWITH 'c'", props{"p": "abc"}, 'T'},
		{"p ENDSWITH 'b'", props{"p": "abc"}, 'F'},
		{"p NOT ENDSWITH 'b'", props{"p": "abc"}, 'T'},
		{"p NOT ENDSWITH 'b'", nil, 'F'},

		// Null.
		{"p IS NULL", nil, 'T'},
		{"p IS NULL", props{"p": ""}, 'F'},
		{"p IS NOT NULL", nil, 'F'},
		{"p IS NOT NULL", props{"p": ""}, 'T'},
		{"(p > 5) IS NULL", nil, 'T'},
		{"NULL", nil, 'N'},
		{"NOT NULL", nil, 'N'},
		{"NULL AND FALSE", nil, 'F'},
		{"NULL AND TRUE", nil, 'N'},
		{"NULL OR TRUE", nil, 'T'},
		{"NULL OR FALSE", nil, 'N'},

		// An error aborts all of the expression, but AND and OR look no further than they must.
		{"p = 5 OR q = 'x'", props{"p": "abc", "q": "x"}, 'E'},
		{"q = 'x' OR p = 5", props{"p": "abc", "q": "x"}, 'T'},
		{"q = 'y' OR p > 5", props{"p": "5.5", "q": "x"}, 'E'},
		{"q = 'y' AND p = 5", props{"p": "abc", "q": "x"}, 'F'},
		{"q = 'x' AND p = 5", props{"p": "abc", "q": "x"}, 'E'},
		{"NOT (p = 5)", props{"p": "abc"}, 'E'},
		{"(p = 5) IS NULL", props{"p": "abc"}, 'E'},
		{"(p = 5) CONTAINS 'x'", props{"p": "abc"}, 'E'},
		{"-(p = 5) IS NULL", props{"p": "abc"}, 'E'},
		{"q > -(p = 5)", props{"p": "abc"}, 'N'},
		{"q > -(p = 5)", props{"p": "abc", "q": "1"}, 'E'},
		{"q = (p = 5)", props{"p": "abc"}, 'E'},

		// Precedence and names.
		{"a = '1' OR b = '1' AND c = '1'", props{"a": "1", "b": "0", "c": "0"}, 'T'},
		{"(a = '1' OR b = '1') AND c = '1'", props{"a": "1", "b": "0", "c": "0"}, 'F'},
		{"NOT a = 5", props{"a": "6"}, 'F'}, // (NOT a) = 5
		{"a = 5", props{"A": "5"}, 'N'},
		{"TAGS = 'TagA' AND KEYS IS NOT NULL AND DELAY = 3", props{"TAGS": "TagA", "KEYS": "k", "DELAY": "3"}, 'T'},
		{"$_a1 = 'it''s'", props{"$_a1": "it's"}, 'T'},
		{"a bEtWeEn 1 aNd 2 oR nOt fAlSe", nil, 'T'},
		{"p = '订单'", props{"p": "订单"}, 'T'},

		// White space and comments.
		{"a -- remark\n = /* x */ '1'\t\r\f", props{"a": "1"}, 'T'},
		{"a='1'and/**/b='2'", props{"a": "1", "b": "2"}, 'T'},
		{"a = '/* x */ -- y'", props{"a": "/* x */ -- y"}, 'T'},
	} {
		e, err := Compile(c.text)
		if err != nil {
			t.Errorf("Compile(%q): %v", c.text, err)
			continue
		}
		if got := answer(e, c.message); got != c.want {
			t.Errorf("%q of %v = %c, want %c", c.text, c.message, got, c.want)
		}
		match, err := e.Eval(c.message)
		if match != (c.want == 'T') || (err != nil) != (c.want == 'E') || e.Match(c.message) != match {
			t.Errorf("%q of %v: Eval = %v, %v and Match = %v", c.text, c.message, match, err, e.Match(c.message))
		}
	}
}

func TestEvalNamesTheValue(t *testing.T) {
	for text, want := range map[string]string{
		"p > 5":          `filter: property value "abc" is not an Integer`,
		"p > 3000000000": `filter: property value "abc" is not a Long`,
		"p > 5.5":        `filter: property value "abc" is not a Double`,
		"q > p":          `filter: property value "abc" is not a Double`,
	} {
		_, err := mustCompile(t, text).Eval(props{"p": "abc", "q": "1"})
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := mustCompile(t, "p > 5").Eval(props{"p": strings.Repeat("x", 1<<20)}); len(err.Error()) > 200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestCompileRefuses(t *testing.T) {
	for _, c := range []struct {
		text   string
		pos    int
		reason string
	}{
		// The result is not a boolean.
		{"5", 0, "not a condition"},
		{"'x'", 0, "not a condition"},
		{"-a", 0, "not a condition"},
		{"b AND 'x'", 6, "not a condition"},
		{"5 OR b", 0, "not a condition"},
		{"NOT 5", 0, "not a condition"},

		// Operands of an ordering.
		{"a > '5'", 2, "only numbers"},
		{"'5' < a", 4, "only numbers"},
		{"a >= TRUE", 2, "only numbers"},
		{"a <= NULL", 2, "only numbers"},
		{"a > (b = 5)", 2, "only numbers"},
		{"NOT a > 5", 6, "only numbers"},
		{"a > 5 > 3", 6, "only numbers"},

		// Operands of an equality.
		{"a = NULL", 2, "use IS NULL"},
		{"NULL <> a", 5, "use IS NULL"},
		{"TRUE = 5", 5, "another type"},
		{"FALSE <> 'x'", 6, "another type"},

		// BETWEEN and IN.
		{"a BETWEEN NULL AND 5", 2, "only numbers"},
		{"a BETWEEN 5 AND NULL", 2, "only numbers"},
		{"a NOT BETWEEN 'a' AND 'b'", 6, "only numbers"},
		{"a BETWEEN 10 AND 1", 2, "lower bound"},
		{"a BETWEEN 5.5 AND 5", 2, "lower bound"},
		{"a BETWEEN 5", 11, "expected AND"},
		{"5 IN ('5')", 2, "IN wants a property"},
		{"-a IN ('5')", 3, "IN wants a property"},
		{"a IN ()", 6, "expected string"},
		{"a IN (5)", 6, "expected string"},
		{"a IN ('5',)", 10, "expected string"},
		{"a IN ('5'", 9, "expected )"},
		{"a CONTAINS 5", 11, "expected string"},
		{"a NOT NULL", 6, "after NOT"},
		{"a IS 5", 5, "expected NULL"},
		{"a IS NOT TRUE", 9, "expected NULL"},

		// Numbers.
		{"a = 9223372036854775808", 4, "outside 64 bits"},
		{"a = -9223372036854775808", 5, "outside 64 bits"},
		{"a = 1e309", 4, "range of a double"},
		{"a = 1e-400", 4, "range of a double"},
		{"a = 05", 5, "expected end of text"},
		{"a = 0L", 5, "expected end of text"},
		{"a = 5LL", 6, "expected end of text"},

		// What Java ignores after the longest prefix, and what the grammar does not have.
		{"foo bar", 4, "expected end of text"},
		{"a = 1)", 5, "expected end of text"},
		{"a LIKE 'x'", 2, "expected end of text"},
		{"a + 1 > 2", 2, "expected end of text"},
		{"a-b = 5", 1, "expected end of text"},
		{"a = 5 -- remark", 6, "expected end of text"},
		{"a != 5", 2, `unexpected character '!'`},
		{"a == 5", 3, "expected an operand"},
		{"a = \"x\"", 4, `unexpected character '"'`},
		{"a.b = 5", 1, `unexpected character '.'`},
		{"a/b = 5", 1, `unexpected character '/'`},
		{"1a = 5", 0, "not a condition"},
		{"订 = 5", 0, `unexpected character '订'`},
		{"CONTAINS = 5", 0, "expected an operand"},
		{"STARTSWITH IS NULL", 0, "expected an operand"},
		{"a OR ENDSWITH", 5, "expected an operand"},

		// Unfinished texts.
		{"", 0, "expected an operand, found end of text"},
		{" /* x */ -- y\n", 14, "expected an operand"},
		{"a = ", 4, "expected an operand"},
		{"(a", 2, "expected )"},
		{"a = 'x", 4, "string without end"},
		{"a = 'x''", 4, "string without end"},
		{"a = 5 /* x", 6, `unexpected character '/'`},
		{"/*/ a", 0, `unexpected character '/'`},
	} {
		_, err := Compile(c.text)
		var got *CompileError
		if !errors.As(err, &got) {
			t.Errorf("Compile(%q) = %v, want a CompileError", c.text, err)
			continue
		}
		if got.Pos != c.pos || !strings.Contains(got.Reason, c.reason) {
			t.Errorf("Compile(%q) = %v, want byte %d: %s", c.text, err, c.pos, c.reason)
		}
	}
}

func TestCompileLimits(t *testing.T) {
	repeat := strings.Repeat
	for _, c := range []struct {
		name, text string
		ok         bool
	}{
		{"longest text", "a" + repeat(" ", maxTextBytes-1), true},
		{"too long", "a" + repeat(" ", maxTextBytes), false},
		{"most parentheses", repeat("(", maxNesting-1) + "a" + repeat(")", maxNesting-1), true},
		{"too many parentheses", repeat("(", maxNesting) + "a" + repeat(")", maxNesting), false},
		{"open parentheses", repeat("(", maxTextBytes), false},
		{"prefixes", repeat("NOT ", maxTextBytes/4-1) + "a", false},
		{"minus signs", "a=" + repeat("-", maxTextBytes-3) + "5", false},
		{"plus signs", repeat("+", maxTextBytes-1) + "a", false},
		{"equality chain", "a" + repeat("=a", maxTextBytes/2-1), false},
		{"null chain", "a" + repeat(" IS NULL", maxTextBytes/8-1), false},
		{"search chain", "a" + repeat(" CONTAINS ''", 5000), false},
		{"short chain", "a" + repeat(" IS NULL", 100), true},
		{"chains in parentheses", repeat("(", 100) + "a" + repeat(repeat(" IS NULL", 100)+")", 100), false},
		{"many terms", "a" + repeat(" AND a", maxTextBytes/6-1), true},
		{"many list members", "a IN (''" + repeat(",''", maxTextBytes/3-3) + ")", true},
		{"many line ends", repeat("--\n", maxTextBytes/3-1) + "a", true},
	} {
		e, err := Compile(c.text)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if e != nil {
			e.Match(props{"a": "1"})
		}
	}
}

func TestCompileKeepsNothingOfTheCaller(t *testing.T) {
	text := []byte("name = 'value'")
	e := mustCompile(t, unsafeString(text))
	copy(text, "xxxxxxxxxxxxxxxx")
	if !e.Match(props{"name": "value"}) {
		t.Error("the expression changed with the text")
	}
}

func TestCache(t *testing.T) {
	var c Cache
	good, err := c.Compile("a = 1")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.Compile("a = 1"); again != good {
		t.Error("a cached expression is compiled again")
	}
	_, err1 := c.Compile("a = ")
	_, err2 := c.Compile("a = ")
	if err1 == nil || err1 != err2 {
		t.Errorf("errors are not cached: %v, %v", err1, err2)
	}
	for i := range 10 * cacheEntries {
		if _, err := c.Compile(fmt.Sprintf("a = %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.results) != cacheEntries {
		t.Errorf("%d entries, want %d", len(c.results), cacheEntries)
	}
	if _, err := c.Compile(strings.Repeat("a", maxTextBytes+1)); err == nil {
		t.Error("a text over the limit compiles")
	}
	for text := range c.results {
		if len(text) > maxTextBytes {
			t.Error("a text over the limit is cached")
		}
	}
}

func TestCacheKeepsNothingOfTheCaller(t *testing.T) {
	var c Cache
	text := []byte("a = '1'")
	if _, err := c.Compile(unsafeString(text)); err != nil {
		t.Fatal(err)
	}
	copy(text, "b = '2'")
	e, err := c.Compile("a = '1'")
	if err != nil || !e.Match(props{"a": "1"}) || len(c.results) != 1 {
		t.Errorf("the cache changed with the text: %v, %v", err, c.results)
	}
}

func TestCacheAndExprAreSafeForConcurrentUse(t *testing.T) {
	var c Cache
	done := make(chan error)
	const workers = 8
	for w := range workers {
		go func() {
			for i := range 500 {
				want := fmt.Sprint((i + w) % (cacheEntries + 20))
				e, err := c.Compile("a = '" + want + "'")
				if err == nil && !e.Match(props{"a": want}) {
					err = fmt.Errorf("the expression for %s does not match it", want)
				}
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	var message Properties = props{"region": "eu", "price": "12.5", "n": "7", "flag": "true", "tag": "订单", "bad": "abc"}
	for _, text := range []string{
		"region = 'eu' AND price BETWEEN 10.0 AND 20.0",
		"region IN ('us', 'eu', 'cn') OR n > 5",
		"tag CONTAINS '单' AND NOT (n = 8) AND flag = TRUE AND missing IS NULL",
		"region STARTSWITH 'e' AND region NOT ENDSWITH 'x' AND n < price AND missing <> 'x'",
		"TRUE = flag AND -5 < n",
		"bad > 5 OR n = 7",
		"bad > 5.0 OR n = 7",
		"n < bad",
	} {
		e := mustCompile(t, text)
		if n := testing.AllocsPerRun(100, func() { e.Match(message) }); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	e := mustCompile(b, "region = 'eu' AND price BETWEEN 10.0 AND 20.0 AND kind IN ('a', 'b')")
	message := props{"region": "eu", "price": "12.5", "kind": "b"}
	b.ReportAllocs()
	for b.Loop() {
		e.Match(message)
	}
}

func BenchmarkCompile(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustCompile(b, "region = 'eu' AND price BETWEEN 10.0 AND 20.0 AND kind IN ('a', 'b')")
	}
}

func BenchmarkHashCode(b *testing.B) {
	for b.Loop() {
		HashCode("order-created-eu")
	}
}
