package remoting

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Client keeps one connection per address and dials again when one has ended. It is safe for concurrent use.
type Client struct {
	handler Handler
	tls     *tls.Config
	enc     header.Encoding

	mu     sync.Mutex
	conns  map[string]*clientConn
	closed bool
	wg     sync.WaitGroup
}

type clientConn struct {
	ready chan struct{} // closed when conn or err is set
	conn  *Conn
	err   error
}

// connectTimeout bounds a dial (NettyClientConfig.connectTimeoutMillis).
const connectTimeout = 3 * time.Second

// NewClient returns a client. h serves requests that peers send on the client's connections; nil refuses them all.
func NewClient(h Handler, cfg *tls.Config) *Client {
	if h == nil {
		h = refuser{}
	}
	return &Client{handler: h, tls: cfg, conns: map[string]*clientConn{}}
}

// UseEncoding sets the serialization of requests on connections dialed from now on; JSON is the default.
func (cl *Client) UseEncoding(e header.Encoding) { cl.enc = e }

// Call sends a request to addr and waits for the reply.
func (cl *Client) Call(ctx context.Context, addr string, rc code.Request, h header.Appender, body []byte) (*Reply, error) {
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return c.Call(ctx, rc, h, body)
}

// Oneway sends a request that wants no reply.
func (cl *Client) Oneway(ctx context.Context, addr string, rc code.Request, h header.Appender, body []byte) error {
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return err
	}
	return c.Oneway(rc, h, body)
}

// Conn returns the connection to addr, dialing it if there is none. Concurrent callers share one dial.
func (cl *Client) Conn(ctx context.Context, addr string) (*Conn, error) {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return nil, ErrClosed
	}
	cc := cl.conns[addr]
	if cc == nil {
		cc = &clientConn{ready: make(chan struct{})}
		cl.conns[addr] = cc
		cl.wg.Add(1)
		go cl.dial(addr, cc)
	}
	cl.mu.Unlock()
	select {
	case <-cc.ready:
		return cc.conn, cc.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to %s: %w", addr, ctx.Err())
	}
}

// dial connects and then reads the connection until it ends.
func (cl *Client) dial(addr string, cc *clientConn) {
	defer cl.wg.Done()
	nc, err := net.DialTimeout("tcp", addr, connectTimeout)
	if err == nil && cl.tls != nil {
		nc = tls.Client(nc, cl.tls)
	}
	cl.mu.Lock()
	if err == nil && cl.closed {
		_ = nc.Close()
		err = ErrClosed
	}
	if err != nil {
		delete(cl.conns, addr)
		cl.mu.Unlock()
		cc.err = fmt.Errorf("connect to %s: %w", addr, err)
		close(cc.ready)
		return
	}
	c := newConn(cl.handler, &stream{nc}, nc.LocalAddr(), nc.RemoteAddr())
	c.UseEncoding(cl.enc)
	cc.conn = c
	cl.mu.Unlock()
	close(cc.ready)
	cl.handler.Opened(c)
	_ = readStream(c, nc) // whatever ended it, callers learn ErrClosed
	_ = nc.Close()
	cl.mu.Lock()
	if cl.conns[addr] == cc {
		delete(cl.conns, addr)
	}
	cl.mu.Unlock()
	c.onClosed()
}

// Drop closes the connection to addr, if there is one.
func (cl *Client) Drop(addr string) {
	cl.mu.Lock()
	cc := cl.conns[addr]
	cl.mu.Unlock()
	if cc != nil && cc.conn != nil {
		cc.conn.Close()
	}
}

// Close ends every connection and waits for their readers.
func (cl *Client) Close() {
	cl.mu.Lock()
	cl.closed = true
	for _, cc := range cl.conns {
		if cc.conn != nil {
			cc.conn.Close()
		}
	}
	cl.mu.Unlock()
	cl.wg.Wait()
}

// refuser answers every request with REQUEST_CODE_NOT_SUPPORTED.
type refuser struct{}

func (refuser) Opened(*Conn)   {}
func (refuser) BurstEnd(*Conn) {}
func (refuser) Closed(*Conn)   {}
func (refuser) Serve(r *Request) {
	r.Reply(code.RequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", r.Code), nil, nil)
}
