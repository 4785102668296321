package filter

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxNesting limits the open parentheses and prefix operators at any place of an expression plus the comparisons in it
// that are chained without parentheses (a = b = c). It bounds the recursion of the parser and of eval.
const maxNesting = 500

// parser is a recursive descent over the grammar, one method per rule; the rules and the checks are those of Java's
// SelectorParser and ComparisonExpression. The first error ends the text, so that every rule returns soon; nodes made
// after it are never used.
type parser struct {
	scanner scanner
	token   token
	depth   int
	err     *CompileError
}

// orders are the comparisons of numbers.
var orders = map[symbol]accepts{
	"<":  {true, false, false},
	"<=": {true, true, false},
	">":  {false, false, true},
	">=": {false, true, true},
}

// searches are the tests of texts.
var searches = map[symbol]func(s, pattern string) bool{
	"CONTAINS":   strings.Contains,
	"STARTSWITH": strings.HasPrefix,
	"ENDSWITH":   strings.HasSuffix,
}

func parse(text string) (node, error) {
	p := &parser{scanner: newScanner(text)}
	p.advance()
	pos := p.token.pos
	root := p.condition(pos, p.or())
	p.expect(symEnd)
	if p.err != nil {
		return nil, p.err
	}
	return root, nil
}

// fail records the first error and returns a node to go on with.
func (p *parser) fail(pos int, format string, args ...any) node {
	if p.err == nil {
		p.err = &CompileError{Pos: pos, Reason: fmt.Sprintf(format, args...)}
	}
	p.token = token{symbol: symEnd, pos: len(p.scanner.text), end: len(p.scanner.text)}
	return &constant{}
}

// advance moves to the next token and returns the one it leaves.
func (p *parser) advance() token {
	t := p.token
	p.token = p.scanner.next(t.end)
	if p.token.symbol == symBad {
		p.fail(p.token.pos, "%s", p.token.text)
	}
	return t
}

// accept takes the next token if it is sym.
func (p *parser) accept(sym symbol) bool {
	if p.token.symbol != sym {
		return false
	}
	p.advance()
	return true
}

func (p *parser) expect(sym symbol) token {
	t := p.token
	if !p.accept(sym) {
		p.unexpected(string(sym))
	}
	return t
}

func (p *parser) unexpected(wanted string) node {
	found := string(p.token.symbol)
	if p.token.text != "" {
		found = fmt.Sprintf("%.32q", p.token.text)
	}
	return p.fail(p.token.pos, "expected %s, found %s", wanted, found)
}

// deeper counts a level of the tree. A rule that does not subtract it again has made the tree higher for good.
func (p *parser) deeper() {
	p.depth++
	if p.depth > maxNesting {
		p.fail(p.token.pos, "nested more than %d levels deep", maxNesting)
	}
}

func (p *parser) or() node  { return p.logic("OR", true, p.and) }
func (p *parser) and() node { return p.logic("AND", false, p.equality) }

// logic parses terms of a logical operator into one node, however many there are.
func (p *parser) logic(operator symbol, decisive bool, term func() node) node {
	pos := p.token.pos
	first := term()
	if p.token.symbol != operator {
		return first
	}
	terms := []node{p.condition(pos, first)}
	for p.accept(operator) {
		pos = p.token.pos
		terms = append(terms, p.condition(pos, term()))
	}
	return &logic{decisive: decisive, terms: terms}
}

func (p *parser) equality() node {
	left := p.comparison()
	for chained := false; ; chained = true {
		op := p.token
		switch op.symbol {
		case "=", "<>", "IS":
		default:
			return left
		}
		if chained {
			p.deeper()
		}
		p.advance()
		inverted := op.symbol == "<>"
		if op.symbol == "IS" {
			inverted = p.accept("NOT")
			p.expect("NULL")
			left = &equal{left: left, right: &constant{}}
		} else {
			left = p.equal(op.pos, left, p.comparison())
		}
		if inverted {
			left = &not{of: left}
		}
	}
}

// equal checks the operands of = and <>.
func (p *parser) equal(pos int, left, right node) node {
	l, leftConstant := left.(*constant)
	r, rightConstant := right.(*constant)
	if leftConstant && l.value.kind == kindNull || rightConstant && r.value.kind == kindNull {
		return p.fail(pos, "NULL cannot be compared, use IS NULL")
	}
	if leftConstant && rightConstant && l.value.kind == kindBool && r.value.kind != kindBool {
		return p.fail(pos, "a boolean cannot be compared with a constant of another type")
	}
	return &equal{left: left, right: right}
}

func (p *parser) comparison() node {
	left := p.unary()
	for chained := false; ; chained = true {
		op := p.token
		accepts, ordered := orders[op.symbol]
		switch {
		case ordered, op.symbol == "NOT", op.symbol == "BETWEEN", op.symbol == "IN", searches[op.symbol] != nil:
		default:
			return left
		}
		if chained {
			p.deeper()
		}
		p.advance()
		if ordered {
			left = p.compare(op.pos, accepts, left, p.unary())
			continue
		}
		inverted := op.symbol == "NOT"
		if inverted {
			op = p.advance()
		}
		left = p.predicate(op, left, inverted)
	}
}

// predicate parses what follows a comparison's word op.
func (p *parser) predicate(op token, left node, inverted bool) node {
	switch op.symbol {
	case "BETWEEN":
		return p.between(op.pos, left, inverted)
	case "IN":
		return p.in(op.pos, left, inverted)
	}
	if test := searches[op.symbol]; test != nil {
		return &search{of: left, pattern: p.str(), test: test, invert: inverted}
	}
	return p.fail(op.pos, "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH after NOT")
}

// compare checks the operands of an ordering: only numbers and properties have one.
func (p *parser) compare(pos int, accepts accepts, left, right node) node {
	for _, operand := range [...]node{left, right} {
		if c, ok := operand.(*constant); ok && !c.value.isNumber() || !ok && isCondition(operand) {
			return p.fail(pos, "only numbers and properties can be ordered")
		}
	}
	return &compare{accepts: accepts, left: left, right: right}
}

func (p *parser) between(pos int, of node, inverted bool) node {
	low := p.unary()
	p.expect("AND")
	high := p.unary()
	if inverted {
		return &logic{decisive: true, terms: []node{
			p.compare(pos, orders["<"], of, low), p.compare(pos, orders[">"], of, high),
		}}
	}
	n := &logic{decisive: false, terms: []node{
		p.compare(pos, orders[">="], of, low), p.compare(pos, orders["<="], of, high),
	}}
	l, lowConstant := low.(*constant)
	h, highConstant := high.(*constant)
	if lowConstant && highConstant && compareNumbers(l.value, h.value) > 0 {
		return p.fail(pos, "the lower bound is above the upper bound")
	}
	return n
}

func (p *parser) in(pos int, left node, inverted bool) node {
	of, ok := left.(*property)
	if !ok {
		return p.fail(pos, "IN wants a property on its left")
	}
	list := make(map[string]struct{})
	p.expect("(")
	for more := true; more; more = p.accept(",") {
		list[p.str()] = struct{}{}
	}
	p.expect(")")
	return &member{of: of, list: list, invert: inverted}
}

// unary is where every recursion of the grammar passes. NOT binds tighter than a comparison here: NOT a > 5 is an error.
func (p *parser) unary() node {
	p.deeper()
	defer func() { p.depth-- }()
	switch op := p.token; op.symbol {
	case "+":
		p.advance()
		return p.unary()
	case "-":
		p.advance()
		return &negate{of: p.unary()}
	case "NOT":
		p.advance()
		return &not{of: p.condition(op.pos, p.unary())}
	}
	return p.primary()
}

func (p *parser) primary() node {
	t := p.token
	switch t.symbol {
	case symString:
		return &constant{value{kind: kindText, str: p.str()}}
	case symDecimal:
		p.advance()
		return p.decimal(t)
	case symFloat:
		p.advance()
		return p.float(t)
	case symName:
		p.advance()
		return &property{name: t.text}
	case "TRUE", "FALSE":
		p.advance()
		return &constant{truthValue(t.symbol == "TRUE")}
	case "NULL":
		p.advance()
		return &constant{}
	case "(":
		p.advance()
		inner := p.or()
		p.expect(")")
		return inner
	}
	return p.unexpected("an operand")
}

// decimal makes an Integer if the literal fits and a Long otherwise; the suffix L does not make it a Long.
func (p *parser) decimal(t token) node {
	n, ok := parseLong(strings.TrimRight(t.text, "lL"))
	if !ok {
		return p.fail(t.pos, "integer outside 64 bits")
	}
	if n > math.MaxInt32 {
		return &constant{value{kind: kindLong, num: n}}
	}
	return &constant{value{kind: kindInt, num: n}}
}

func (p *parser) float(t token) node {
	f, err := strconv.ParseFloat(t.text, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(t.text), "e")
	if err != nil || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return p.fail(t.pos, "float outside the range of a double")
	}
	return &constant{doubleValue(f)}
}

// str takes a string and returns its value.
func (p *parser) str() string {
	t := p.expect(symString)
	if t.symbol != symString {
		return ""
	}
	return strings.ReplaceAll(t.text[1:len(t.text)-1], "''", "'")
}

// condition returns n as a boolean, which it must be: by its kind, or as a bare property.
func (p *parser) condition(pos int, n node) node {
	if of, ok := n.(*property); ok {
		return &bare{of: of}
	}
	if !isCondition(n) {
		return p.fail(pos, "not a condition: expected a comparison, a property, TRUE or FALSE")
	}
	return n
}

// isCondition reports whether n is known to be a boolean or null.
func isCondition(n node) bool {
	switch n := n.(type) {
	case *constant:
		return n.value.kind == kindBool || n.value.kind == kindNull
	case *property, *negate:
		return false
	default:
		return true
	}
}
