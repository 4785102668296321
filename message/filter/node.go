package filter

// node is one operation of an expression. eval computes its value for a message and never fails otherwise than by
// returning a failed value. Nodes are immutable.
type node interface {
	eval(p Properties) value
}

// constant is a literal.
type constant struct{ value value }

func (n *constant) eval(Properties) value { return n.value }

// property is a property of the message: a text, or null when it is missing.
type property struct{ name string }

func (n *property) eval(p Properties) value {
	s, ok := p.Get(n.name)
	if !ok {
		return value{}
	}
	return value{kind: kindText, str: s}
}

// negate is the minus sign. What is not a number becomes null, and so does every property.
type negate struct{ of node }

func (n *negate) eval(p Properties) value {
	v := n.of.eval(p)
	switch v.kind {
	case kindInt, kindLong:
		return value{kind: v.kind, num: -v.num}
	case kindDouble:
		return doubleValue(-v.asDouble())
	case kindFailed:
		return v
	default:
		return value{}
	}
}

// bare is a property in the place of a boolean. A text is not a boolean, so it is false, whatever it says.
type bare struct{ of *property }

func (n *bare) eval(p Properties) value {
	v := n.of.eval(p)
	if v.void() {
		return v
	}
	return truthValue(false)
}

// not inverts a boolean; null stays null.
type not struct{ of node }

func (n *not) eval(p Properties) value {
	v := n.of.eval(p)
	if v.void() {
		return v
	}
	return truthValue(v.is(false))
}

// logic is AND or OR over two terms or more, from left to right, in three-valued logic. decisive is the value of a term
// that decides the result: false for AND, true for OR.
type logic struct {
	decisive bool
	terms    []node
}

func (n *logic) eval(p Properties) value {
	result := truthValue(!n.decisive)
	for _, term := range n.terms {
		v := term.eval(p)
		if v.kind == kindFailed || v.is(n.decisive) {
			return v
		}
		if v.kind == kindNull {
			result = v
		}
	}
	return result
}

// equal is "=". IS NULL is equality with null.
type equal struct{ left, right node }

func (n *equal) eval(p Properties) value {
	l := n.left.eval(p)
	if l.kind == kindFailed {
		return l
	}
	r := n.right.eval(p)
	if r.kind == kindFailed {
		return r
	}
	return equals(l, r)
}

// accepts says for which order of the operands a comparison is true: less, equal, greater.
type accepts [3]bool

// compare is an ordering of two numbers. The right side is not evaluated when the left one is null.
type compare struct {
	accepts     accepts
	left, right node
}

func (n *compare) eval(p Properties) value {
	l := n.left.eval(p)
	if l.void() {
		return l
	}
	r := n.right.eval(p)
	if r.void() {
		return r
	}
	if l.kind == kindText && r.kind == kindText {
		// Texts have no order: two properties are compared as the numbers they must be.
		l = convert(l.str, kindDouble)
		r = convert(r.str, kindDouble)
	}
	l, r = align(l, r)
	if l.kind == kindFailed {
		return l
	}
	if r.kind == kindFailed {
		return r
	}
	return truthValue(n.accepts[1+compareNumbers(l, r)])
}

// member is [NOT] IN over the texts of a list.
type member struct {
	of     *property
	list   map[string]struct{}
	invert bool
}

func (n *member) eval(p Properties) value {
	v := n.of.eval(p)
	if v.void() {
		return v
	}
	_, found := n.list[v.str]
	return truthValue(found != n.invert)
}

// search is [NOT] CONTAINS, STARTSWITH and ENDSWITH. What is not a text, and an empty pattern, give false in both forms.
type search struct {
	of      node
	pattern string
	test    func(s, pattern string) bool
	invert  bool
}

func (n *search) eval(p Properties) value {
	if n.pattern == "" {
		return truthValue(false)
	}
	v := n.of.eval(p)
	if v.kind == kindFailed {
		return v
	}
	return truthValue(v.kind == kindText && n.test(v.str, n.pattern) != n.invert)
}
