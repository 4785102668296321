package remoting

import (
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Handler serves the requests of connections. Serve must not block. One connection's calls of Serve by its reader never overlap.
type Handler interface {
	Opened(c *Conn)
	Serve(r *Request)
	// BurstEnd is called after all complete frames of one read, or as many as Server.SetBurst says, have been served, before what was answered is
	// sent; with ServerConfig.ShareBursts once for the reads of several connections, and what was answered before may have been sent. A Lane calls
	// it after each request of its own. Calls may overlap each other and Serve.
	BurstEnd()
	Closed(c *Conn)
	// Answered is told of every answer, by whoever gives it.
	Answered(a Answer)
}

// Route is one row of a server's table: which code is served how.
type Route struct {
	Code  code.Request
	Lane  *Lane                  // nil: inline, on the connection's reader; the handler must not block
	Serve func(r *Request) error // answers, parks, or returns the error to answer with
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
	low    [lowCodes]*Route // nearly all codes
	routes map[int32]*Route // the others

	// Hooks, each may be nil. Set them before the first connection.
	OnOpen   func(c *Conn)
	OnClose  func(c *Conn)
	OnBurst  func()                 // see Handler.BurstEnd
	Before   func(r *Request) error // an error refuses the request
	OnAnswer func(a Answer)         // see Handler.Answered
}

// lowCodes is above every code but those of POP and of lite topics.
const lowCodes = 4096

// NewRouter returns the router of a table. A code that has two routes is a programming error and panics.
func NewRouter(log *zap.Logger, table []Route) *Router {
	rt := &Router{log: log, routes: map[int32]*Route{}}
	for i := range table {
		c := int32(table[i].Code)
		if rt.route(c) != nil {
			panic(fmt.Sprintf("request code %d has two routes", c))
		}
		if c >= 0 && c < lowCodes {
			rt.low[c] = &table[i]
		} else {
			rt.routes[c] = &table[i]
		}
	}
	return rt
}

func (rt *Router) route(c int32) *Route {
	if c >= 0 && c < lowCodes {
		return rt.low[c]
	}
	return rt.routes[c]
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
func (rt *Router) BurstEnd() {
	if rt.OnBurst != nil {
		rt.OnBurst()
	}
}

// Answered is called for each answer.
func (rt *Router) Answered(a Answer) {
	if rt.OnAnswer == nil {
		return
	}
	if rt.route(int32(a.Code)) == nil {
		a.Code = NoRoute
	}
	rt.OnAnswer(a)
}

// Serve runs the route of the request's code, or answers REQUEST_CODE_NOT_SUPPORTED.
func (rt *Router) Serve(r *Request) {
	route := rt.route(r.Code)
	if route == nil && r.Enc == header.Binary {
		r.Code = int32(code.FromBinary(int16(r.Code)))
		route = rt.route(r.Code)
	}
	switch {
	case route == nil:
		notSupported(r)
	case route.Lane != nil:
		route.Lane.submit(rt, route, r)
	default:
		rt.run(route, r)
	}
}

func notSupported(r *Request) {
	r.Reply(code.RequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", r.Code), nil, nil)
}

// run calls the handler and answers for it if it failed, or if it forgot to.
func (rt *Router) run(route *Route, r *Request) {
	defer rt.survive(route, r)
	var err error
	if rt.Before != nil && !r.checked {
		err = rt.Before(r)
		r.checked = true
	}
	if err == nil {
		err = route.Serve(r)
	}
	if again, ok := err.(redo); ok && r.state == fresh {
		again.lane.submit(rt, route, r)
		return
	}
	switch {
	case err != nil && r.state == replied:
		rt.log.Error("handler failed after its answer", zap.Stringer("request", route.Code), zap.Error(err))
	case err != nil:
		if rc, remark := Verdict(err); rc == code.SystemError {
			r.fail(rc, remark)
		} else {
			r.Reply(rc, remark, nil, nil)
		}
	case r.state == fresh:
		rt.log.Error("handler did not answer", zap.Stringer("request", route.Code))
		r.fail(code.SystemError, "not set any response code")
	}
}

// survive is deferred: a handler that panics costs its own request, not the process.
func (rt *Router) survive(route *Route, r *Request) {
	p := recover()
	if p == nil {
		return
	}
	rt.log.Error("handler panicked", zap.Stringer("request", route.Code), zap.String("peer", r.Conn.remote), zap.Any("panic", p), zap.Stack("stack"))
	if r.state == fresh {
		r.fail(code.SystemError, fmt.Sprintf("%s: internal error: %v", route.Code, p))
	}
}
