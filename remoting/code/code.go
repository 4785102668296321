// Package code names the numbers of RocketMQ's remoting protocol: request and response codes, languages and versions; and it
// holds Error, by which a handler says which response code an error means.
package code

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"strconv"
)

// Request is the code of a request. Its zero value is no request.
type Request int32

// String returns Java's name, or the number of an unknown code.
func (c Request) String() string {
	if name, ok := requestNames[c]; ok {
		return name
	}
	return strconv.Itoa(int(c))
}

// Requests yields all known request codes in no order, so that a server's table can be checked for gaps.
func Requests() iter.Seq[Request] { return maps.Keys(requestNames) }

// FromBinary returns the request that a code of the binary header means. That header has 16 bits for it and Java drops the
// upper half of the larger codes (those of POP and of lite topics), so 3442 is POP_MESSAGE. None of the numbers left over is
// a code of its own.
func FromBinary(c int16) Request {
	if wide := droppedBits | Request(uint16(c)); requestNames[wide] != "" {
		return wide
	}
	return Request(c)
}

// droppedBits is the upper half of every code that does not fit 16 bits: all are between 200050 and 200151.
const droppedBits Request = 200050 &^ math.MaxUint16

// Response is the code of a response. Its zero value is Success.
type Response int32

// String returns Java's name, or the number of an unknown code.
func (c Response) String() string {
	if name, ok := responseNames[c]; ok {
		return name
	}
	return strconv.Itoa(int(c))
}

// Error is an error that a client gets as this response code and remark. Every other error becomes SystemError.
type Error struct {
	Code   Response
	Remark string // people read it and some tools look for words in it; it holds no secrets
}

// New returns an *Error whose remark is formatted as by fmt.Sprintf.
func New(c Response, format string, args ...any) *Error {
	return &Error{Code: c, Remark: fmt.Sprintf(format, args...)}
}

func (e *Error) Error() string { return e.Code.String() + ": " + e.Remark }
