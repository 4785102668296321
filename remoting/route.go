package remoting

import (
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Handler serves the requests of connections. Serve and BurstEnd run on the connection's reader and must not block.
type Handler interface {
	Opened(c *Conn)
	Serve(r *Request)
	// BurstEnd is called after all complete frames of one read have been served, before what was answered is sent.
	BurstEnd(c *Conn)
	Closed(c *Conn)
}

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

	frame []byte
	state byte
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
	r.state = replied
	r.ticket().put(rc, remark, h, Bytes(body))
}

// OK answers SUCCESS with header and body, both of which may be nil.
func (r *Request) OK(h header.Appender, body []byte) error {
	r.Reply(code.Success, "", h, body)
	return nil
}

// ReplyBody answers with a body that is appended straight to the output.
func (r *Request) ReplyBody(rc code.Response, remark string, h header.Appender, body Body) {
	r.state = replied
	r.ticket().put(rc, remark, h, body)
}

// Reply answers and sends, unless the connection's reader is in a burst and will.
func (t Ticket) Reply(rc code.Response, remark string, h header.Appender, body Body) {
	t.put(rc, remark, h, body)
	t.Conn.Flush()
}

// Put answers without sending; the caller calls Conn.Flush after the last of a row of answers.
func (t Ticket) Put(rc code.Response, remark string, h header.Appender, body Body) {
	t.put(rc, remark, h, body)
}

// Fail answers with the code and remark of err.
func (t Ticket) Fail(err error) {
	rc, remark := Verdict(err)
	t.Reply(rc, remark, nil, nil)
}

func (t Ticket) put(rc code.Response, remark string, h header.Appender, body Body) {
	if t.oneway {
		return
	}
	cmd := Command{Code: int32(rc), Flag: flagResponse, Opaque: t.opaque, Enc: t.enc}
	if remark != "" {
		cmd.Remark = []byte(remark)
	}
	_ = t.Conn.enqueue(&cmd, h, body) // a closed connection wants no answer
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

// Route is one row of a server's table: which code is served how.
type Route struct {
	Code  code.Request
	Lane  *Lane // nil: inline, on the connection's reader; the handler must not block
	Serve func(r *Request) error
}

// On makes a handler with a typed header out of f. The header is decoded from the ext fields and dies with the request.
func On[H any, P interface {
	*H
	header.Setter
	Reset()
}](f func(r *Request, h P) error) func(r *Request) error {
	pool := sync.Pool{New: func() any { return P(new(H)) }}
	return func(r *Request) error {
		h := pool.Get().(P)
		err := r.Decode(h)
		if err == nil {
			err = f(r, h)
		}
		h.Reset()
		pool.Put(h)
		return err
	}
}

// Router is the Handler that serves by a table.
type Router struct {
	log    *zap.Logger
	routes map[int32]*Route

	// Hooks, each may be nil.
	OnOpen   func(c *Conn)
	OnClose  func(c *Conn)
	OnBurst  func(c *Conn)
	Before   func(r *Request) error // an error refuses the request
	Observed func(r *Request, rc code.Response)
}

// NewRouter checks the table (no code twice) and returns its router.
func NewRouter(log *zap.Logger, table []Route) *Router {
	rt := &Router{log: log, routes: make(map[int32]*Route, len(table))}
	for i := range table {
		if _, dup := rt.routes[int32(table[i].Code)]; dup {
			panic(fmt.Sprintf("request code %d has two routes", table[i].Code))
		}
		rt.routes[int32(table[i].Code)] = &table[i]
	}
	return rt
}

// Opened is called for each new connection.
func (rt *Router) Opened(c *Conn) {
	if rt.OnOpen != nil {
		rt.OnOpen(c)
	}
}

// Closed is called once when a connection has ended.
func (rt *Router) Closed(c *Conn) {
	if rt.OnClose != nil {
		rt.OnClose(c)
	}
}

// BurstEnd is called after the frames of one read.
func (rt *Router) BurstEnd(c *Conn) {
	if rt.OnBurst != nil {
		rt.OnBurst(c)
	}
}

// Serve runs the route of the request's code, or answers REQUEST_CODE_NOT_SUPPORTED.
func (rt *Router) Serve(r *Request) {
	route := rt.routes[r.Code]
	if route == nil && r.Enc == header.Binary {
		r.Code = int32(code.FromBinary(int16(r.Code)))
		route = rt.routes[r.Code]
	}
	if route == nil {
		r.Reply(code.RequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", r.Code), nil, nil)
		return
	}
	if route.Lane != nil {
		route.Lane.submit(rt, route, r)
		return
	}
	rt.run(route, r)
}

// run calls the handler and answers for it if it failed, or if it forgot to.
func (rt *Router) run(route *Route, r *Request) {
	defer func() {
		if p := recover(); p != nil {
			rt.log.Error("handler panicked", zap.Stringer("request", route.Code), zap.String("peer", r.Conn.remote), zap.Any("panic", p), zap.Stack("stack"))
			if r.state == fresh {
				r.Reply(code.SystemError, fmt.Sprintf("%s: internal error: %v", route.Code, p), nil, nil)
			}
		}
	}()
	var err error
	if rt.Before != nil {
		err = rt.Before(r)
	}
	if err == nil {
		err = route.Serve(r)
	}
	switch {
	case err != nil:
		rc, remark := Verdict(err)
		r.Reply(rc, remark, nil, nil)
	case r.state == fresh:
		rt.log.Error("handler did not answer", zap.Stringer("request", route.Code))
		r.Reply(code.SystemError, "not set any response code", nil, nil)
	}
}
