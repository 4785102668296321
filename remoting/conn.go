package remoting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Errors of a connection.
var (
	// ErrClosed is returned by calls on a connection that is closed, or that closes while they wait.
	ErrClosed = errors.New("connection closed")
	// ErrTooManyCalls is returned by calls on a connection that already waits for maxCalls replies.
	ErrTooManyCalls = errors.New("too many calls wait for a reply")
	// ErrTooLarge is returned by calls whose frame is larger than MaxFrame.
	ErrTooLarge = errors.New("larger than a frame may be")

	errFlood = errors.New("the peer sends requests and does not read the replies")
)

// maxHeld bounds the requests that wait for their peer to read.
const maxHeld = MaxFrame + 1<<20

// owner is what the connections of one Server or Client have in common.
type owner struct {
	handler     Handler
	known       forms          // of the headers that peers write
	sendTimeout time.Duration  // in which a slow peer must take sendChunk bytes
	maxPending  int            // bytes that a peer may leave unread
	maxKept     int64          // bytes that all peers together may leave unfinished or unread
	kept        atomic.Int64   // what they do
	shed        func()         // closes connections that keep much; nil if there is no limit
	senders     sync.WaitGroup // goroutines that send to slow peers
	turns       atomic.Int64   // bursts so far
	bell        *bell          // calls BurstEnd for several connections; nil if each does for itself
	maxBurst    atomic.Int64   // bytes of requests after which replies are sent, whatever else was read; 0: no limit
}

func newOwner(h Handler) owner {
	return owner{handler: h, sendTimeout: sendTimeout, maxPending: maxPending, maxKept: maxKept}
}

// Conn is one connection. All methods are safe for concurrent use.
type Conn struct {
	*owner
	tr     transport
	local  string
	remote string
	addr   net.Addr // peer, or what the PROXY protocol says it is
	Secure bool     // TLS

	// Data is the handler's own: what it knows of the peer. Set it from a handler or OnOpen.
	Data atomic.Value

	enc      atomic.Uint32 // serialization last seen from the peer
	version  atomic.Int32  // version last seen from the peer
	language atomic.Uint32
	active   atomic.Int64 // nowMs of the last read or write
	partial  atomic.Int64 // nowMs since which a frame is incomplete, 0 if none is
	full     atomic.Bool  // much output has been collected
	keptIn   atomic.Int64 // bytes of in
	keptOut  atomic.Int64 // bytes of output above highWater
	unread   atomic.Int64 // nowMs since which such output has not become less, 0 if there is none
	doomed   atomic.Bool  // closed to free memory

	reading sync.Mutex // serializes onData and resume
	in      []byte     // guarded by reading: an incomplete frame, or the requests that are held
	turn    int64      // guarded by reading: the last of owner.turns that was this connection's

	mu      sync.Mutex
	out     *header.Writer // frames to send; nil if there are none
	burst   bool           // the reader is serving requests and will flush
	sending bool           // somebody is in flush
	slow    bool           // the peer did not take everything at once: drain is running
	held    bool           // c.in holds requests that wait until drain has ended
	closed  bool
	onRead  []func() // who waits until the peer has read
	opaque  int32
	calls   map[int32]func(*Reply, error)
}

func newConn(o *owner, tr transport, local, remote net.Addr) *Conn {
	c := &Conn{owner: o, tr: tr, addr: remote, local: local.String(), remote: remote.String()}
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
func (c *Conn) PeerVersion() code.Version { return code.Version(c.version.Load()) }

// PeerLanguage returns the language that the peer announced last.
func (c *Conn) PeerLanguage() code.Language { return code.Language(c.language.Load()) }

// Encoding is the serialization that the peer used last; requests to it use the same.
func (c *Conn) Encoding() header.Encoding { return header.Encoding(c.enc.Load()) }

// UseEncoding sets the serialization of requests until the peer shows its own.
func (c *Conn) UseEncoding(e header.Encoding) { c.enc.Store(uint32(e)) }

// Alive tells whether the connection is open.
func (c *Conn) Alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.closed
}

// Close ends the connection. Calls that wait on it fail.
func (c *Conn) Close() { c.tr.close() }

func (c *Conn) touch() { c.active.Store(nowMs()) }

var started = time.Now()

// nowMs is the time by which connections are judged: ms since about the start of the process, never 0. It does not jump, and costs
// one reading of the clock where the time of day costs two.
func nowMs() int64 { return 1 + time.Since(started).Milliseconds() }

// idleSince returns when something last moved, or when the frame began that is still incomplete, in nowMs.
func (c *Conn) idleSince() int64 {
	if p := c.partial.Load(); p != 0 {
		return min(p, c.active.Load())
	}
	return c.active.Load()
}

// requests are the commands that readers parse into.
var requests = sync.Pool{New: func() any { return new(Request) }}

// onData takes the next bytes of the stream, serves every complete frame in them, in order, and then sends what has been
// answered with one call. It keeps nothing of p. An error means that the stream makes no sense any more.
func (c *Conn) onData(p []byte) error {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.touch()
	c.mu.Lock()
	held := c.held
	c.burst = !held
	c.mu.Unlock()
	defer c.keepIn()
	if held {
		return c.hold(p)
	}
	return c.serveBurst(p)
}

// resume serves the requests that were held, unless the peer is slow again.
func (c *Conn) resume() error {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	ready := c.held && !c.slow
	if ready {
		c.held, c.burst = false, true
	}
	c.mu.Unlock()
	if !ready {
		return nil
	}
	p := c.in
	c.in = nil
	c.partial.Store(0)
	defer c.keepIn()
	return c.serveBurst(p)
}

// hold keeps requests until the peer has read its replies.
func (c *Conn) hold(p []byte) error {
	if len(c.in)+len(p) > maxHeld {
		return errFlood
	}
	c.in = append(c.in, p...)
	return nil
}

func (c *Conn) serveBurst(p []byte) error {
	r := requests.Get().(*Request)
	served, err := c.frames(r, p)
	r.release()
	requests.Put(r)
	if served {
		c.endBurst()
	}
	c.mu.Lock()
	c.burst = false
	c.flushLocked()
	return err
}

// endBurst calls BurstEnd, or has it called for this connection and others.
func (c *Conn) endBurst() {
	last := c.turn
	c.turn = c.turns.Add(1)
	if c.bell != nil && c.turn-last > crowd {
		c.bell.ring()
	} else {
		c.handler.BurstEnd()
	}
}

// crowd is how many bursts of others there must have been since a connection's last one for its next end to be shared with them.
const crowd = 8

// frames serves the complete frames of c.in and p and keeps the rest in c.in. It tells whether there was one.
func (c *Conn) frames(r *Request, p []byte) (served bool, err error) {
	if len(c.in) > 0 {
		if p, err = c.completeFrame(r, p); err != nil {
			return true, err
		}
		served = len(c.in) == 0
	}
	limit, since := c.maxBurst.Load(), 0
	for len(p) >= 4 {
		if limit > 0 && int64(since) >= limit {
			since = 0
			c.handler.BurstEnd()
			c.mu.Lock()
			c.flushLocked()
		}
		if c.full.Load() && c.pause() {
			break
		}
		n, err := frameLength(p)
		if err != nil {
			return served, err
		}
		if len(p) < 4+n {
			break
		}
		served = true
		if err := c.serve(r, p[4:4+n]); err != nil {
			return served, err
		}
		p = p[4+n:]
		since += 4 + n
	}
	if len(p) > 0 {
		c.in = append(c.in, p...)
		if c.partial.Load() == 0 {
			c.partial.Store(c.active.Load())
		}
	}
	return served, nil
}

// frameLength reads and checks the length word: the bytes that follow it.
func frameLength(p []byte) (int, error) {
	n := int(int32(binary.BigEndian.Uint32(p)))
	if n < 4 || n > MaxFrame-4 {
		return 0, fmt.Errorf("%w: length %d", ErrFrame, n)
	}
	return n, nil
}

// completeFrame adds to the incomplete frame what p has of it, serves it once it is whole, and returns the rest of p.
func (c *Conn) completeFrame(r *Request, p []byte) (rest []byte, err error) {
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
	frame := c.in[4:]
	if c.in = c.in[:0]; cap(c.in) > 64<<10 {
		c.in = nil
	}
	c.partial.Store(0)
	return p, c.serve(r, frame)
}

// serve handles one frame without its length word.
func (c *Conn) serve(r *Request, frame []byte) error {
	if err := r.parse(frame, &c.known); err != nil {
		return err
	}
	if r.IsResponse() {
		c.onReply(r.Opaque, frame)
		return nil
	}
	if uint32(r.Enc) != c.enc.Load() {
		c.enc.Store(uint32(r.Enc))
	}
	if int32(r.Version) != c.version.Load() || uint32(r.Language) != c.language.Load() {
		c.version.Store(int32(r.Version))
		c.language.Store(uint32(r.Language))
	}
	r.Conn, r.frame, r.since, r.state, r.checked = c, frame, c.active.Load(), fresh, false
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
	calls, out := c.calls, c.out
	c.calls, c.out = nil, nil
	c.mu.Unlock()
	c.putOutput(out)
	c.hasRead()
	c.reading.Lock()
	c.in = nil
	c.keepIn()
	c.reading.Unlock()
	for _, done := range calls {
		done(nil, ErrClosed)
	}
	c.handler.Closed(c)
}

// incomplete tells the reader whether a frame has begun and not ended.
func (c *Conn) incomplete() bool { return c.partial.Load() != 0 }

func (c *Conn) since() int64 { return c.active.Load() }
