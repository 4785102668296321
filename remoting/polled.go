package remoting

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// netpoll's pollers run the handlers themselves: nothing on that path blocks, so a request costs no change of goroutine.
var configurePollers = sync.OnceFunc(func() {
	_ = netpoll.Configure(netpoll.Config{Runner: func(_ context.Context, f func()) { f() }})
})

// polled is the transport over a netpoll connection. Bytes go out with send(2) on its descriptor; netpoll's own writer is used
// only for what the socket does not take at once.
type polled struct {
	conn netpoll.Connection
	fd   int
	gate sync.RWMutex // held for reading around a send, for writing to close: the descriptor is not reused under a send
	shut bool
}

func (p *polled) trySend(b []byte) (n int, err error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if p.shut {
		return 0, ErrClosed
	}
	for n < len(b) {
		m, err := unix.SendmsgN(p.fd, b[n:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return n, nil
		case err != nil:
			return n, err
		}
		n += m
	}
	return n, nil
}

func (p *polled) send(b []byte, deadline time.Time) error {
	_ = p.conn.SetWriteTimeout(time.Until(deadline))
	w := p.conn.Writer()
	if _, err := w.WriteBinary(b); err != nil {
		return err
	}
	return w.Flush()
}

// close shuts the socket down; netpoll then sees the hang-up and frees the connection. Its own Close must not be used: it waits
// for the poller to be done with the connection, and the poller may be what calls.
func (p *polled) close() {
	p.gate.RLock()
	defer p.gate.RUnlock()
	if !p.shut {
		_ = unix.Shutdown(p.fd, unix.SHUT_RDWR)
	}
}

// closing runs before netpoll closes the descriptor.
func (p *polled) closing() {
	p.gate.Lock()
	p.shut = true
	p.gate.Unlock()
}

// servePolled hands the connection's descriptor to netpoll and returns.
func (s *Server) servePolled(nc *net.TCPConn) {
	configurePollers()
	fd, err := takeFD(nc)
	if err != nil {
		_ = nc.Close()
		return
	}
	pc, err := netpoll.NewFDConnection(fd)
	if err != nil {
		_ = unix.Close(fd)
		return
	}
	p := &polled{conn: pc, fd: fd}
	c := newConn(s.handler, p, nc.LocalAddr(), nc.RemoteAddr())
	_ = pc.AddCloseCallback(func(netpoll.Connection) error {
		p.closing()
		s.remove(c)
		return nil
	})
	if !s.add(c) {
		p.close()
		return
	}
	s.handler.Opened(c)
	bad := false
	_ = pc.SetOnRequest(func(_ context.Context, pc netpoll.Connection) error {
		r := pc.Reader()
		b, err := r.Next(r.Len())
		if err == nil && !bad {
			err = c.onData(b)
		}
		_ = r.Release()
		if err != nil {
			bad = true // what still arrives before the close is dropped
			s.badStream(c, err)
			p.close()
		}
		return nil
	})
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
