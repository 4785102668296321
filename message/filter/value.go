package filter

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// kind is the type of a value. Numbers keep their Java type, because it decides which texts of a property can be compared
// with them: 5 reads the property as an Integer and 5.0 as a Double.
type kind uint8

const (
	kindNull kind = iota
	kindFailed
	kindBool
	kindInt
	kindLong
	kindDouble
	kindText
)

// value is what a node evaluates to. A failed value aborts the whole evaluation: str is the text that could not be
// converted and num the kind that was wanted. Four words are what the compiler still keeps in registers.
type value struct {
	kind kind
	num  int64 // A boolean (0 or 1), an integer, a long, or the bits of a double.
	str  string
}

// article names a kind for an error message.
func (k kind) article() string {
	switch k {
	case kindInt:
		return "an Integer"
	case kindLong:
		return "a Long"
	default:
		return "a Double"
	}
}

func truthValue(b bool) value {
	if b {
		return value{kind: kindBool, num: 1}
	}
	return value{kind: kindBool}
}

func doubleValue(f float64) value {
	return value{kind: kindDouble, num: int64(math.Float64bits(f))}
}

func (v value) is(b bool) bool { return v.kind == kindBool && (v.num == 1) == b }

func (v value) isNumber() bool {
	return v.kind == kindInt || v.kind == kindLong || v.kind == kindDouble
}

// void reports that nothing can be computed from v, so that it is the result.
func (v value) void() bool { return v.kind == kindNull || v.kind == kindFailed }

func (v value) asDouble() float64 {
	if v.kind == kindDouble {
		return math.Float64frombits(uint64(v.num))
	}
	return float64(v.num)
}

// equals compares two values that did not fail. Null equals null; otherwise a null on the left makes the result null and
// a null on the right makes it false, which is Java's asymmetry and visible to clients.
func equals(l, r value) value {
	if l.kind == kindNull || r.kind == kindNull {
		if l.kind == r.kind {
			return truthValue(true)
		}
		if l.kind == kindNull {
			return l
		}
		return truthValue(false)
	}
	l, r = align(l, r)
	switch {
	case l.kind == kindFailed:
		return l
	case r.kind == kindFailed:
		return r
	case l.kind == kindText:
		return truthValue(l.str == r.str)
	case (l.kind == kindBool) != (r.kind == kindBool):
		return truthValue(false)
	default:
		return truthValue(compareNumbers(l, r) == 0)
	}
}

// align converts a text that is compared with a value of another kind to that kind.
func align(l, r value) (value, value) {
	if l.kind == r.kind {
		return l, r
	}
	if l.kind == kindText {
		return convert(l.str, r.kind), r
	}
	if r.kind == kindText {
		return l, convert(r.str, l.kind)
	}
	return l, r
}

// compareNumbers orders two numbers, or two booleans, after widening. Doubles have Java's total order: -0.0 is less than
// 0.0, and NaN equals itself and is greater than everything else.
func compareNumbers(l, r value) int {
	if l.kind != kindDouble && r.kind != kindDouble {
		return cmp.Compare(l.num, r.num)
	}
	a, b := l.asDouble(), r.asDouble()
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b && a != 0:
		return 0
	default:
		return cmp.Compare(orderKey(a), orderKey(b))
	}
}

// orderKey orders the doubles that < does not: the zeros by sign, and NaN after all others.
func orderKey(f float64) int {
	switch {
	case math.IsNaN(f):
		return 2
	case math.Signbit(f) && f == 0:
		return -1
	default:
		return 0
	}
}

// convert reads a property's text as a value of kind k, or fails.
func convert(s string, k kind) value {
	switch k {
	case kindBool:
		return truthValue(strings.EqualFold(s, "true"))
	case kindInt, kindLong:
		n, ok := parseLong(s)
		if ok && (k == kindLong || n == int64(int32(n))) {
			return value{kind: k, num: n}
		}
	default:
		if f, ok := parseDouble(s); ok {
			return doubleValue(f)
		}
	}
	return value{kind: kindFailed, num: int64(k), str: s}
}

// parseLong accepts what Java's Long.parseLong does: an optional sign and digits. It is not strconv.ParseInt because that
// allocates its error, and a property that is no number is an everyday case.
func parseLong(s string) (n int64, ok bool) {
	negative := strings.HasPrefix(s, "-")
	if negative || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		d := int64(s[i]) - '0'
		if d < 0 || d > 9 || n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d // Negative, because only that side holds the smallest number.
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// parseDouble accepts what Java's Double.parseDouble does: surrounding control characters and spaces, NaN, Infinity,
// decimal and hexadecimal floats, and a type suffix. Too large is infinite and too small is zero.
func parseDouble(s string) (f float64, ok bool) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	digits := strings.TrimPrefix(s, "-")
	if digits == s {
		digits = strings.TrimPrefix(s, "+")
	}
	switch digits {
	case "NaN":
		return math.NaN(), true
	case "Infinity":
		return math.Inf(1 - 2*strings.Count(s, "-")), true
	}
	end := floatEnd(digits)
	suffix := digits[end:]
	if end == 0 || len(suffix) > 1 || !strings.Contains("fFdD", suffix) {
		return 0, false
	}
	// The shape is right, so the only error left is a range error, which comes with the value Java has.
	f, _ = strconv.ParseFloat(s[:len(s)-len(suffix)], 64)
	return f, true
}

// floatEnd returns the length of the longest unsigned float at the start of s, decimal or hexadecimal, or 0.
func floatEnd(s string) int {
	if len(s) > 1 && s[0] == '0' && s[1]|0x20 == 'x' {
		mantissa := mantissaEnd(s, 2, isHexDigit)
		end := exponentEnd(s, mantissa, 'p')
		if end == mantissa {
			return 0 // Java and strconv both want the exponent.
		}
		return end
	}
	mantissa := mantissaEnd(s, 0, isDigit)
	return exponentEnd(s, mantissa, 'e')
}

// mantissaEnd returns the end of digits with at most one point and at least one digit at s[i:], or 0.
func mantissaEnd(s string, i int, digit func(byte) bool) int {
	whole := spanEnd(s, i, digit)
	count, end := whole-i, whole
	if end < len(s) && s[end] == '.' {
		end = spanEnd(s, end+1, digit)
		count += end - whole - 1
	}
	if count == 0 {
		return 0
	}
	return end
}

// exponentEnd returns the end of the exponent at s[i:], or i when there is none. mark is its letter in lower case.
func exponentEnd(s string, i int, mark byte) int {
	if i == 0 || i >= len(s) || s[i]|0x20 != mark {
		return i
	}
	j := i + 1
	if j < len(s) && (s[j] == '+' || s[j] == '-') {
		j++
	}
	if end := spanEnd(s, j, isDigit); end > j {
		return end
	}
	return i
}

// spanEnd returns the end of the run of bytes of a class at s[i:].
func spanEnd(s string, i int, class func(byte) bool) int {
	for i < len(s) && class(s[i]) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHexDigit(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
