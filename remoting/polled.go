package remoting

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

const (
	// pollBuffer is netpoll's buffer for one connection. It is small because idle connections keep it; what does not fit is
	// read into a buffer that all connections share.
	pollBuffer = 4 << 10
	readChunk  = 128 << 10
	// maxReads bounds how long one connection keeps its poller from the others. After a chunk that has taken more than slowChunk ms
	// it is their turn at once: its requests are dear ones, or refused ones that cost their sender less than the server.
	maxReads  = 8
	slowChunk = 1
)

// netpoll's pollers run the handlers themselves: nothing on that path blocks, so a request costs no change of goroutine. Half
// the processors poll, the others are for what requests set in motion. The settings are netpoll's, for the whole process.
var pollers struct {
	sync.Mutex
	running bool
}

// pollerDescriptors is how many descriptors netpoll takes for one poller.
const pollerDescriptors = 2

// startPollers has netpoll start its pollers, if it has not yet. It would do so by itself with the first connection, but panic then, and be of no
// use any more, when the process has no descriptors left for them; so whether there are enough is tried before.
func startPollers() error {
	pollers.Lock()
	defer pollers.Unlock()
	if pollers.running {
		return nil
	}
	n := (runtime.GOMAXPROCS(0) + 1) / 2
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	spare := make([]int, 0, n*pollerDescriptors)
	for err == nil && len(spare) < cap(spare) {
		var fd int
		if fd, err = unix.Dup(pair[0]); err == nil {
			spare = append(spare, fd)
		}
	}
	for _, fd := range spare {
		_ = unix.Close(fd)
	}
	if err != nil {
		return errors.Join(err, unix.Close(pair[1]))
	}
	_ = netpoll.Configure(netpoll.Config{
		PollerNum:    n,
		Runner:       func(_ context.Context, f func()) { f() },
		BufferSize:   pollBuffer,
		LoggerOutput: io.Discard, // what peers do wrong
	})
	first, err := netpoll.NewFDConnection(pair[1]) // an error has closed it
	if err != nil {
		return err
	}
	pollers.running = true
	return first.Close()
}

var readBuffers = sync.Pool{New: func() any { return new([readChunk]byte) }}

// polled is the transport over a netpoll connection. Bytes go out with send(2) on its descriptor; netpoll's own writer is used
// only for what the socket does not take at once.
type polled struct {
	conn netpoll.Connection
	fd   int
	// direct is set once only the poller calls onRequest: from then on nobody else reads, and the descriptor may be read past
	// netpoll.
	direct atomic.Bool
	bad    bool // onRequest only: the stream makes no sense, what still arrives is dropped

	gate sync.RWMutex // held for reading around a use of fd, for writing to close: the descriptor is not reused meanwhile
	shut bool
}

func (p *polled) trySend(b []byte) (n int, err error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return 0, ErrClosed
	}
	return sendNow(p.fd, b)
}

// sendNow writes to a socket, which is non-blocking, until it is full.
func sendNow(fd int, b []byte) (n int, err error) {
	for n < len(b) {
		m, err := unix.Write(fd, b[n:])
		switch err {
		case nil:
			n += m
		case unix.EINTR:
		case unix.EAGAIN:
			return n, nil
		default:
			return n, err
		}
	}
	return n, nil
}

// send copies b into netpoll's output buffer, so b is free even if it fails. netpoll's own write timeout must not be used: it
// panics on connections made from a descriptor, whose address it does not know.
func (p *polled) send(b []byte, deadline time.Time) error {
	timeout := time.AfterFunc(time.Until(deadline), p.close)
	defer timeout.Stop()
	_, err := p.conn.Write(b)
	return err
}

// close shuts the socket down; netpoll then sees the hang-up and frees the connection. Its own Close must not be used while the
// poller knows the connection: it waits for the poller to be done with it, and the poller may be what calls.
func (p *polled) close() { p.end(false) }

func (p *polled) abort() { p.end(true) }

func (p *polled) end(reset bool) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return
	}
	if reset { // when netpoll closes the descriptor
		_ = unix.SetsockoptLinger(p.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	_ = unix.Shutdown(p.fd, unix.SHUT_RDWR) // ENOTCONN if the peer was first
}

// closing runs before netpoll closes the descriptor.
func (p *polled) closing() {
	p.gate.Lock()
	p.shut = true
	p.gate.Unlock()
}

// reader takes what arrives on a polled connection.
type reader interface {
	onData(b []byte) error // keeps nothing of b
	incomplete() bool      // more of a frame is about to come
	since() int64          // nowMs when onData was called last
}

// start has a poller read the connection for r. bad is told an error of r, closed of the end, once, after which r is not called any more. After
// an error of start neither is.
func (p *polled) start(r reader, bad func(error), closed func()) (err error) {
	if err = startPollers(); err != nil {
		p.drop()
		return err
	}
	if p.conn, err = netpoll.NewFDConnection(p.fd); err != nil { // has closed fd
		p.closing()
		return err
	}
	_ = p.conn.AddCloseCallback(func(netpoll.Connection) error {
		p.closing()
		closed()
		return nil
	})
	_ = p.conn.SetOnRequest(func(context.Context, netpoll.Connection) error {
		if err := p.onRequest(r); err != nil {
			p.bad = true
			bad(err)
			p.abort()
		}
		return nil
	})
	if p.conn.IsActive() {
		p.direct.Store(true)
	} else {
		_ = p.conn.Close() // the poller saw the end before there was a handler and has left the rest to us
	}
	return nil
}

// drop closes a connection that was not started.
func (p *polled) drop() {
	p.closing()
	_ = unix.Close(p.fd)
}

// servePolled hands the connection's descriptor to netpoll and returns.
func (s *Server) servePolled(nc *net.TCPConn) {
	local, remote := nc.LocalAddr(), nc.RemoteAddr()
	fd, err := takeFD(nc)
	if err != nil {
		s.abandon(nc)
		return
	}
	p := &polled{fd: fd}
	c := newConn(&s.owner, p, local, remote)
	if !s.add(c, nc) {
		_ = unix.Close(fd)
		return
	}
	s.handler.Opened(c)
	if p.start(c, func(err error) { s.badStream(c, err) }, func() { s.remove(c) }) != nil {
		s.remove(c)
	}
}

// onRequest serves what netpoll has read and what the socket has besides.
func (p *polled) onRequest(c reader) error {
	r := p.conn.Reader()
	b, err := r.Next(r.Len())
	if err != nil || p.bad {
		return r.Release()
	}
	if !p.direct.Load() || len(b) >= readChunk {
		err = c.onData(b)
		_ = r.Release() // returns nil
		return err
	}
	buf := readBuffers.Get().(*[readChunk]byte)
	defer readBuffers.Put(buf)
	n := copy(buf[:], b)
	_ = r.Release()
	more := n >= pollBuffer/2
	for range maxReads {
		if more {
			n += readNow(p.fd, buf[n:])
		}
		if n == 0 {
			return nil
		}
		if err := c.onData(buf[:n]); err != nil {
			return err
		}
		if n < len(buf) && !c.incomplete() {
			return nil
		}
		if nowMs()-c.since() > slowChunk {
			return nil
		}
		n, more = 0, true
	}
	return nil // the poller comes back at once
}

// readNow reads what a socket has. 0 means that there is nothing, or that netpoll will see the end or the error.
func readNow(fd int, b []byte) int {
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EINTR {
			continue
		}
		return max(n, 0)
	}
}

// takeFD duplicates the descriptor of nc and closes nc.
func takeFD(nc *net.TCPConn) (int, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0, err
	}
	fd, derr := -1, error(nil)
	if err := raw.Control(func(old uintptr) { fd, derr = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return 0, err
	}
	if derr != nil {
		return 0, derr
	}
	_ = nc.Close()
	return fd, nil
}
