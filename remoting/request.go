package remoting

import (
	"errors"
	"time"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Body is a reply's body, appended under the connection's lock: AppendTo adds exactly Len bytes and does no I/O.
type Body interface {
	Len() int
	AppendTo(dst []byte) []byte
}

// Bytes is a body that is already in memory.
type Bytes []byte

// Len returns the number of bytes.
func (b Bytes) Len() int { return len(b) }

// AppendTo appends the bytes.
func (b Bytes) AppendTo(dst []byte) []byte { return append(dst, b...) }

// maxRemark bounds the text of an answer in bytes. Only one that repeats a huge name from the request is longer.
const maxRemark = 4 << 10

// What has become of a request.
const (
	fresh = iota
	replied
	parked
)

// Request is one request being served. It and all that it points to die when the handler returns; Park what is answered later.
type Request struct {
	Conn *Conn
	Command

	frame   []byte
	since   int64 // when it came, in nowMs
	state   byte
	lane    *Lane // that it runs in; nil: on the reader
	checked bool  // Router.Before has let it pass
	turn    *turn // in that lane, if it has them
}

// Age is how long ago the request came, to the millisecond.
func (r *Request) Age() time.Duration { return time.Duration(nowMs()-r.since) * time.Millisecond }

// Answer is what has become of a request, for those who count.
type Answer struct {
	Code    code.Request // NoRoute if nobody serves it
	Result  code.Response
	TookMs  int64
	Held    bool // it waited for something to happen
	Outcome Outcome
}

// NoRoute stands for all request codes without a route.
const NoRoute code.Request = -1

// Outcome tells whether the answer has gone out.
type Outcome byte

// The outcomes.
const (
	Sent        Outcome = iota
	Oneway              // the peer wants no answer
	Failed              // the handler failed; the answer says so
	Unreachable         // the connection has ended
)

// Ticket is the right to answer one request, once, from any goroutine. It is a plain value.
type Ticket struct {
	Conn   *Conn
	since  int64
	opaque int32
	code   code.Request
	enc    header.Encoding
	oneway bool
	held   bool
	failed bool
}

// Park tells that the request will be answered later through the ticket.
func (r *Request) Park() Ticket {
	r.state = parked
	return r.ticket()
}

func (r *Request) ticket() Ticket {
	return Ticket{Conn: r.Conn, since: r.since, opaque: r.Opaque, code: code.Request(r.Code), enc: r.Enc, oneway: r.IsOneway()}
}

// Hold is Park for a request that waits for something to happen, as a long poll does.
func (r *Request) Hold() Ticket {
	t := r.Park()
	t.held = true
	return t
}

// fail answers for a handler that failed.
func (r *Request) fail(rc code.Response, remark string) {
	t := r.ticket()
	t.failed = true
	t.put(rc, remark, nil, nil, nil)
	r.state = replied
}

// Reply answers the request. h may be nil.
func (r *Request) Reply(rc code.Response, remark string, h header.Appender, body []byte) {
	r.ticket().put(rc, remark, h, body, nil)
	r.state = replied
}

// OK answers SUCCESS with header and body, both of which may be nil.
func (r *Request) OK(h header.Appender, body []byte) error {
	r.Reply(code.Success, "", h, body)
	return nil
}

// ReplyBody answers with a body that is appended straight to the output.
func (r *Request) ReplyBody(rc code.Response, remark string, h header.Appender, body Body) {
	r.ticket().put(rc, remark, h, nil, body)
	r.state = replied
}

// release forgets the request and keeps memory for the next one.
func (r *Request) release() {
	r.Command.release()
	r.Conn, r.frame = nil, nil
}

// Reply answers and sends, unless the connection's reader is in a burst and will.
func (t Ticket) Reply(rc code.Response, remark string, h header.Appender, body Body) {
	t.put(rc, remark, h, nil, body)
	t.Conn.Flush()
}

// Put answers without sending; the caller calls Conn.Flush after the last of a row of answers.
func (t Ticket) Put(rc code.Response, remark string, h header.Appender, body Body) {
	t.put(rc, remark, h, nil, body)
}

// Fail answers with the code and remark of err.
func (t Ticket) Fail(err error) {
	rc, remark := Verdict(err)
	t.Reply(rc, remark, nil, nil)
}

func (t Ticket) put(rc code.Response, remark string, h header.Appender, b []byte, more Body) {
	outcome := Oneway
	if !t.oneway {
		rc, outcome = t.enqueue(rc, remark, h, b, more)
	}
	if t.failed && outcome == Sent {
		outcome = Failed
	}
	t.Conn.handler.Answered(Answer{
		Code: t.code, Result: rc, TookMs: nowMs() - t.since, Held: t.held, Outcome: outcome,
	})
}

// enqueue collects the answer, or another one if it is too large, and returns its code.
func (t Ticket) enqueue(rc code.Response, remark string, h header.Appender, b []byte, more Body) (code.Response, Outcome) {
	cmd := Command{Code: int32(rc), Flag: flagResponse, Opaque: t.opaque, Enc: t.enc}
	if remark != "" {
		cmd.Remark = []byte(remark[:min(len(remark), maxRemark)])
	}
	err := t.Conn.enqueue(&cmd, h, b, more) // a closed connection wants no answer
	if errors.Is(err, ErrTooLarge) {
		rc = code.SystemError
		cmd.Code, cmd.Remark = int32(rc), []byte("the reply is "+err.Error())
		err = t.Conn.enqueue(&cmd, nil, nil, nil)
	}
	if err != nil {
		return rc, Unreachable
	}
	return rc, Sent
}

// Verdict turns an error into the wire: the code and remark of a *code.Error inside it, else SYSTEM_ERROR and its text.
// It is the only place that does.
func Verdict(err error) (code.Response, string) {
	var e *code.Error
	if errors.As(err, &e) {
		return e.Code, e.Remark
	}
	var f *header.FieldError
	if errors.As(err, &f) {
		return code.InvalidParameter, f.Error()
	}
	return code.SystemError, err.Error()
}
