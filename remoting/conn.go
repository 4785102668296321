package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/remoting/header"
)

// Limits per connection.
const (
	// maxPending is how many bytes a peer may leave unread before its connection is closed.
	maxPending = 64 << 20
	// sendTimeout bounds one blocking send to a peer that does not read.
	sendTimeout = 30 * time.Second
	// keepBuffer is the largest buffer that goes back to the pool.
	keepBuffer = 1 << 20
)

// ErrClosed is returned by calls on a connection that is closed, or that closes while they wait.
var ErrClosed = errors.New("connection closed")

// transport is the byte stream under a Conn.
type transport interface {
	// trySend writes what fits without blocking. n < len(p) with a nil error means that the peer is slow.
	trySend(p []byte) (n int, err error)
	// send writes all of p, blocking at most until the deadline.
	send(p []byte, deadline time.Time) error
	// close ends the stream; the reader then calls Conn.onClosed.
	close()
}

// Conn is one connection. All methods are safe for concurrent use, except that onData is called by its reader alone.
type Conn struct {
	handler Handler
	tr      transport
	local   string
	remote  string
	addr    net.Addr // peer, or what the PROXY protocol says it is
	Secure  bool     // TLS

	// Data is the handler's own: what it knows of the peer. Set it from a handler or OnOpen.
	Data atomic.Value

	enc      atomic.Uint32 // serialization last seen from the peer
	version  atomic.Int32  // version last seen from the peer
	language atomic.Uint32
	active   atomic.Int64 // unix ms of the last read or write

	in  []byte  // reader only: the beginning of an incomplete frame
	req Request // reader only: the request being served

	mu       sync.Mutex
	out      []byte // bytes to send
	burst    bool   // the reader is serving requests and will flush
	flushing bool   // somebody is sending
	closed   bool
	w        header.Writer // scratch of reply encoding
	calls    map[int32]*call
	opaque   int32
}

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

func getBuffer() []byte { return (*buffers.Get().(*[]byte))[:0] }

func putBuffer(b []byte) {
	if cap(b) >= 4<<10 && cap(b) <= keepBuffer {
		buffers.Put(&b)
	}
}

func newConn(h Handler, tr transport, local, remote net.Addr) *Conn {
	c := &Conn{handler: h, tr: tr, addr: remote, local: local.String(), remote: remote.String()}
	c.touch()
	return c
}

// RemoteAddr returns ip:port of the peer.
func (c *Conn) RemoteAddr() string { return c.remote }

// Peer returns the peer's address.
func (c *Conn) Peer() net.Addr { return c.addr }

// LocalAddr returns ip:port of this end.
func (c *Conn) LocalAddr() string { return c.local }

// PeerVersion returns the version that the peer announced last.
func (c *Conn) PeerVersion() int32 { return c.version.Load() }

// PeerLanguage returns the language that the peer announced last, a LanguageCode ordinal.
func (c *Conn) PeerLanguage() byte { return byte(c.language.Load()) }

// Alive tells whether the connection is open.
func (c *Conn) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed
}

// Close ends the connection. Calls that wait on it fail.
func (c *Conn) Close() { c.tr.close() }

func (c *Conn) touch() { c.active.Store(time.Now().UnixMilli()) }

// onData takes the next bytes of the stream, serves every complete frame in them, in order, and then sends what has been
// answered with one call. It keeps nothing of p. An error means that the stream makes no sense any more.
func (c *Conn) onData(p []byte) error {
	c.touch()
	c.mu.Lock()
	c.burst = true
	c.mu.Unlock()
	err := c.frames(p)
	c.handler.BurstEnd(c)
	c.mu.Lock()
	c.burst = false
	c.mu.Unlock()
	c.Flush()
	return err
}

func (c *Conn) frames(p []byte) (err error) {
	if len(c.in) > 0 {
		if p, err = c.completeFrame(p); p == nil || err != nil {
			return err
		}
	}
	for len(p) >= 4 {
		n, err := frameLength(p)
		if err != nil {
			return err
		}
		if len(p) < 4+n {
			break
		}
		if err := c.serve(p[4 : 4+n]); err != nil {
			return err
		}
		p = p[4+n:]
	}
	if len(p) > 0 {
		c.in = append(c.in, p...)
	}
	return nil
}

// frameLength reads and checks the length word: the bytes that follow it.
func frameLength(p []byte) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(p)))
	if n < 4 || n > MaxFrame-4 {
		return 0, fmt.Errorf("%w: length %d", ErrFrame, n)
	}
	return n, nil
}

// completeFrame adds p to the incomplete frame, serves it once it is whole, and returns what is left of p (nil if nothing).
func (c *Conn) completeFrame(p []byte) ([]byte, error) {
	if need := 4 - len(c.in); need > 0 {
		need = min(need, len(p))
		c.in, p = append(c.in, p[:need]...), p[need:]
		if len(c.in) < 4 {
			return nil, nil
		}
	}
	n, err := frameLength(c.in)
	if err != nil {
		return nil, err
	}
	need := min(4+n-len(c.in), len(p))
	c.in, p = append(c.in, p[:need]...), p[need:] // grows with what really arrives, never with what is announced
	if len(c.in) < 4+n {
		return nil, nil
	}
	err = c.serve(c.in[4:])
	if c.in = c.in[:0]; cap(c.in) > 64<<10 {
		c.in = nil
	}
	if len(p) == 0 {
		p = nil
	}
	return p, err
}

// serve handles one frame without its length word.
func (c *Conn) serve(frame []byte) error {
	r := &c.req
	if err := r.Parse(frame); err != nil {
		return err
	}
	if r.IsResponse() {
		c.onReply(&r.Command)
		return nil
	}
	if uint32(r.Enc) != c.enc.Load() {
		c.enc.Store(uint32(r.Enc))
	}
	if r.Version != c.version.Load() {
		c.version.Store(r.Version)
		c.language.Store(uint32(r.Language))
	}
	r.Conn, r.state, r.frame = c, fresh, frame
	c.handler.Serve(r)
	return nil
}

// onClosed is called once by the reader when the stream has ended.
func (c *Conn) onClosed() {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return
	}
	c.closed = true
	calls := c.calls
	c.calls = nil
	out := c.out
	c.out = nil
	c.mu.Unlock()
	putBuffer(out)
	for _, call := range calls {
		call.fail(ErrClosed)
	}
	c.handler.Closed(c)
}

// enqueue runs add on the pending output, under the lock, and sends it unless the reader is about to.
func (c *Conn) enqueue(cmd *Command, h header.Appender, body Body) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	if c.out == nil {
		c.out = getBuffer()
	}
	n := 0
	if body != nil {
		n = body.Len()
	}
	c.out = appendHead(c.out, &c.w, cmd, h, n)
	c.w.Buf = nil
	if body != nil {
		c.out = body.AppendTo(c.out)
	}
	over := len(c.out) > maxPending
	c.mu.Unlock()
	if over {
		c.Close()
		return fmt.Errorf("%w: the peer left %d bytes unread", ErrClosed, maxPending)
	}
	return nil
}

// Flush sends what is pending. It never blocks: the rest of what a slow peer does not take is sent by a goroutine of its own.
// While the reader serves a burst of requests it does nothing, because the reader flushes at the end.
func (c *Conn) Flush() {
	c.mu.Lock()
	if c.burst || c.flushing || c.closed || len(c.out) == 0 {
		c.mu.Unlock()
		return
	}
	c.flushing = true
	for len(c.out) > 0 && !c.closed {
		buf := c.out
		c.out = nil
		c.mu.Unlock()
		n, err := c.tr.trySend(buf)
		if err == nil && n < len(buf) {
			go c.drain(buf, n)
			return
		}
		putBuffer(buf)
		if err != nil {
			c.Close()
		}
		c.mu.Lock()
		if err != nil {
			break
		}
	}
	c.flushing = false
	c.mu.Unlock()
}

// drain sends buf[n:] and everything after it with blocking calls.
func (c *Conn) drain(buf []byte, n int) {
	for {
		err := c.tr.send(buf[n:], time.Now().Add(sendTimeout))
		putBuffer(buf)
		if err != nil {
			c.Close()
		}
		c.touch()
		c.mu.Lock()
		if err != nil || c.closed || len(c.out) == 0 {
			c.flushing = false
			c.mu.Unlock()
			return
		}
		buf, n = c.out, 0
		c.out = nil
		c.mu.Unlock()
	}
}

// Encoding is the serialization that the peer used last; requests to it use the same.
func (c *Conn) Encoding() header.Encoding { return header.Encoding(c.enc.Load()) }

// UseEncoding sets the serialization of requests until the peer shows its own.
func (c *Conn) UseEncoding(e header.Encoding) { c.enc.Store(uint32(e)) }
