package remoting

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// stream is the transport over a net.Conn: TLS, proxied and dialed connections.
type stream struct {
	nc net.Conn
}

// trySend leaves everything to send: a net.Conn has no write that does not block.
func (s *stream) trySend([]byte) (int, error) { return 0, nil }

func (s *stream) send(p []byte, deadline time.Time) error {
	_ = s.nc.SetWriteDeadline(deadline)
	_, err := s.nc.Write(p)
	return err
}

func (s *stream) close() { _ = s.nc.Close() }

// readBuffer is the first size of a stream's read buffer; it grows to 64 KiB while reads fill it.
const readBuffer = 4 << 10

// readStream feeds c until its stream ends. It blocks.
func readStream(c *Conn, nc net.Conn) error {
	buf := make([]byte, readBuffer)
	for {
		n, err := nc.Read(buf)
		if n > 0 {
			if err := c.onData(buf[:n]); err != nil {
				return err
			}
			if n == len(buf) && n < 64<<10 {
				buf = make([]byte, 2*n)
			}
		}
		if err != nil {
			return nil
		}
	}
}

// serveStream serves a connection on the calling goroutine until it ends.
func (s *Server) serveStream(nc net.Conn, peer net.Addr, secure bool) {
	c := newConn(s.handler, &stream{nc}, nc.LocalAddr(), peer)
	c.Secure = secure
	if !s.add(c) {
		_ = nc.Close()
		return
	}
	s.handler.Opened(c)
	if err := readStream(c, nc); err != nil {
		s.badStream(c, err)
	}
	_ = nc.Close()
	s.remove(c)
}

// peek waits for the first bytes of a connection without consuming them. It returns at least one.
func peek(nc *net.TCPConn, timeout time.Duration) ([]byte, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	_ = nc.SetReadDeadline(time.Now().Add(timeout))
	defer nc.SetReadDeadline(time.Time{}) //nolint:errcheck // an error here means a closed connection, which the next read shows
	buf := make([]byte, 16)
	n := 0
	var perr error
	err = raw.Read(func(fd uintptr) bool {
		n, _, perr = unix.Recvfrom(int(fd), buf, unix.MSG_PEEK)
		return perr != unix.EAGAIN
	})
	switch {
	case err != nil:
		return nil, err
	case perr != nil:
		return nil, perr
	case n <= 0:
		return nil, net.ErrClosed
	}
	return buf[:n], nil
}
