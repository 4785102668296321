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
	owner
	tls    *tls.Config
	enc    header.Encoding
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // dials and readers

	mu     sync.Mutex
	conns  map[string]*clientConn
	closed bool
}

// clientConn is a connection, or the attempt to open one.
type clientConn struct {
	ready chan struct{} // closed when conn or err is set
	conn  *Conn
	err   error
}

// connectTimeout bounds a dial with its TLS handshake (NettyClientConfig.connectTimeoutMillis).
const connectTimeout = 3 * time.Second

// NewClient returns a client. h serves requests that peers send on the client's connections; nil refuses them all. Connections
// are encrypted if cfg is not nil.
func NewClient(h Handler, cfg *tls.Config) *Client {
	if h == nil {
		h = refuser{}
	}
	cl := &Client{owner: newOwner(h), tls: cfg, conns: map[string]*clientConn{}}
	cl.ctx, cl.cancel = context.WithCancel(context.Background())
	return cl
}

// UseEncoding sets the serialization of requests; JSON is the default. Call it before the first request.
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
		go cl.run(addr, cc)
	}
	cl.mu.Unlock()
	select {
	case <-cc.ready:
		return cc.conn, cc.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connect to %s: %w", addr, ctx.Err())
	}
}

// run connects and then reads the connection until it ends.
func (cl *Client) run(addr string, cc *clientConn) {
	defer cl.wg.Done()
	nc, tcp, err := cl.dial(addr)
	if err != nil {
		cl.forget(addr, cc)
		cc.err = fmt.Errorf("connect to %s: %w", addr, err)
		close(cc.ready)
		return
	}
	c := newConn(&cl.owner, newStream(nc, tcp), nc.LocalAddr(), nc.RemoteAddr())
	c.Secure = cl.tls != nil
	c.UseEncoding(cl.enc)
	stop := context.AfterFunc(cl.ctx, c.Close)
	defer stop()
	cc.conn = c
	cl.handler.Opened(c)
	close(cc.ready)
	_ = readStream(c, nc) // whatever ended it, callers learn ErrClosed
	_ = nc.Close()
	cl.forget(addr, cc)
	c.onClosed()
}

// dial returns an open connection, and the TCP connection under it if it is not encrypted.
func (cl *Client) dial(addr string) (nc net.Conn, tcp *net.TCPConn, err error) {
	ctx, cancel := context.WithTimeout(cl.ctx, connectTimeout)
	defer cancel()
	d := net.Dialer{KeepAliveConfig: keepAlive}
	if nc, err = d.DialContext(ctx, "tcp", addr); err != nil {
		return nil, nil, err
	}
	tcp = nc.(*net.TCPConn)
	limitSilence(tcp)
	if cl.tls == nil {
		return nc, tcp, nil
	}
	cfg := cl.tls
	if cfg.ServerName == "" {
		host, _, _ := net.SplitHostPort(addr) // the dial has checked it
		cfg = cfg.Clone()
		cfg.ServerName = host
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, nil, err
	}
	return tc, nil, nil
}

// forget makes the next caller dial.
func (cl *Client) forget(addr string, cc *clientConn) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.conns[addr] == cc {
		delete(cl.conns, addr)
	}
}

// Drop closes the connection to addr, if there is one. The next call dials.
func (cl *Client) Drop(addr string) {
	cl.mu.Lock()
	cc := cl.conns[addr]
	cl.mu.Unlock()
	if cc == nil {
		return
	}
	select {
	case <-cc.ready:
		if cc.conn != nil {
			cl.forget(addr, cc)
			cc.conn.Close()
		}
	default: // still dialing
	}
}

// Close ends every connection and waits for their goroutines. Calls that wait fail.
func (cl *Client) Close() {
	cl.mu.Lock()
	cl.closed = true
	cl.mu.Unlock()
	cl.cancel()
	cl.wg.Wait()
	cl.senders.Wait()
}

// refuser answers every request with REQUEST_CODE_NOT_SUPPORTED.
type refuser struct{}

func (refuser) Opened(*Conn)     {}
func (refuser) BurstEnd()        {}
func (refuser) Closed(*Conn)     {}
func (refuser) Answered(Answer)  {}
func (refuser) Serve(r *Request) { notSupported(r) }
