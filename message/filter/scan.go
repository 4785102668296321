package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// symbol is the type of a token. A keyword and an operator are their own text, in upper case.
type symbol string

const (
	symEnd     symbol = "end of text"
	symBad     symbol = "bad text" // The token's text is the reason.
	symName    symbol = "name"
	symString  symbol = "string"
	symDecimal symbol = "integer"
	symFloat   symbol = "float"
)

// token is a piece of an expression's text.
type token struct {
	symbol symbol
	text   string
	pos    int
	end    int // Where the next token's search begins.
}

// keywords cannot be property names. They are recognised in any case.
var keywords = map[string]bool{
	"NOT": true, "AND": true, "OR": true, "BETWEEN": true, "IN": true, "TRUE": true, "FALSE": true, "NULL": true,
	"IS": true, "CONTAINS": true, "STARTSWITH": true, "ENDSWITH": true,
}

// operators in the order they are tried: the longest first.
var operators = [...]string{"<>", "<=", ">=", "<", ">", "=", "(", ")", ",", "+", "-"}

// scanner cuts a text into tokens. It is a value: it has no position of its own.
type scanner struct {
	text string
	// lastLineEnd is the offset of the last line end, or -1. A "--" that no line end follows is two minus signs.
	lastLineEnd int
}

func newScanner(text string) scanner {
	return scanner{text: text, lastLineEnd: strings.LastIndexAny(text, "\r\n")}
}

// next returns the first token at or after pos. Tokens are as long as possible.
func (s scanner) next(pos int) token {
	pos = s.skip(pos)
	if pos == len(s.text) {
		return token{symbol: symEnd, pos: pos, end: pos}
	}
	rest := s.text[pos:]
	switch c := rest[0]; {
	case c == '\'':
		return s.quoted(pos)
	case isNameStart(c):
		n := spanEnd(rest, 0, isNamePart)
		if word := strings.ToUpper(rest[:n]); keywords[word] {
			return s.token(symbol(word), pos, n)
		}
		return s.token(symName, pos, n)
	case isDigit(c) || c == '.':
		if sym, n := number(rest); n > 0 {
			return s.token(sym, pos, n)
		}
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			return s.token(symbol(op), pos, len(op))
		}
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return token{symbol: symBad, text: fmt.Sprintf("unexpected character %q", r), pos: pos, end: pos}
}

func (s scanner) token(sym symbol, pos, size int) token {
	return token{symbol: sym, text: s.text[pos : pos+size], pos: pos, end: pos + size}
}

// skip returns the end of the white space and the comments at pos.
func (s scanner) skip(pos int) int {
	for pos < len(s.text) {
		rest := s.text[pos:]
		switch {
		case strings.IndexByte(" \t\n\r\f", rest[0]) >= 0:
			pos++
		case strings.HasPrefix(rest, "--") && pos < s.lastLineEnd:
			pos += strings.IndexAny(rest, "\r\n")
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				return pos // next refuses the slash.
			}
			pos += n + 4
		default:
			return pos
		}
	}
	return pos
}

// quoted scans a string; two quotes in it are one quote of its value.
func (s scanner) quoted(pos int) token {
	for i := pos + 1; i < len(s.text); i++ {
		if s.text[i] != '\'' {
			continue
		}
		if i+1 == len(s.text) || s.text[i+1] != '\'' {
			return s.token(symString, pos, i+1-pos)
		}
		i++
	}
	return token{symbol: symBad, text: "string without end", pos: pos, end: pos}
}

// number returns the type and the length of the number that s starts with; the length is 0 when there is none.
func number(s string) (symbol, int) {
	digits := spanEnd(s, 0, isDigit)
	end := exponentEnd(s, mantissaEnd(s, 0, isDigit), 'e')
	switch {
	case end > digits:
		return symFloat, end
	case digits == 0:
		return symFloat, 0
	case s[0] == '0':
		return symDecimal, 1 // A zero is a number of its own, without a suffix.
	case digits < len(s) && s[digits]|0x20 == 'l':
		return symDecimal, digits + 1
	default:
		return symDecimal, digits
	}
}

func isNameStart(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' || c == '_' || c == '$' }

func isNamePart(c byte) bool { return isNameStart(c) || isDigit(c) }
