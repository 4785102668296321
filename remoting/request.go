package remoting

import (
	"errors"

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
	state   byte
	onLane  bool
	checked bool          // Router.Before has let it pass
	result  code.Response // of the reply
}

// Ticket is the right to answer one request, once, from any goroutine. It is a plain value.
type Ticket struct {
	Conn   *Conn
	opaque int32
	enc    header.Encoding
	oneway bool
}

// Park tells that the request will be answered later through the ticket.
func (r *Request) Park() Ticket {
	r.state = parked
	return r.ticket()
}

func (r *Request) ticket() Ticket {
	return Ticket{Conn: r.Conn, opaque: r.Opaque, enc: r.Enc, oneway: r.IsOneway()}
}

// Reply answers the request. h may be nil.
func (r *Request) Reply(rc code.Response, remark string, h header.Appender, body []byte) {
	r.ticket().put(rc, remark, h, body, nil)
	r.state, r.result = replied, rc
}

// OK answers SUCCESS with header and body, both of which may be nil.
func (r *Request) OK(h header.Appender, body []byte) error {
	r.Reply(code.Success, "", h, body)
	return nil
}

// ReplyBody answers with a body that is appended straight to the output.
func (r *Request) ReplyBody(rc code.Response, remark string, h header.Appender, body Body) {
	r.ticket().put(rc, remark, h, nil, body)
	r.state, r.result = replied, rc
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
	if t.oneway {
		return
	}
	cmd := Command{Code: int32(rc), Flag: flagResponse, Opaque: t.opaque, Enc: t.enc}
	if remark != "" {
		cmd.Remark = []byte(remark[:min(len(remark), maxRemark)])
	}
	err := t.Conn.enqueue(&cmd, h, b, more) // a closed connection wants no answer
	if errors.Is(err, ErrTooLarge) {
		cmd.Code, cmd.Remark = int32(code.SystemError), []byte("the reply is "+err.Error())
		_ = t.Conn.enqueue(&cmd, nil, nil, nil)
	}
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
