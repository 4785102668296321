package remoting

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// stream is the transport over a net.Conn: TLS, proxied and dialed connections, and plain ones with the std loop.
type stream struct {
	nc net.Conn

	// trySend's, which has one caller at a time; raw is nil for TLS.
	raw  syscall.RawConn
	try  func(fd uintptr) bool
	p    []byte
	n    int
	serr error
}

// newStream returns the transport of nc. tcp is the connection under it if bytes may be written past nc, else nil.
func newStream(nc net.Conn, tcp *net.TCPConn) *stream {
	s := &stream{nc: nc}
	if tcp == nil {
		return s
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		s.raw = raw
		s.try = func(fd uintptr) bool {
			s.n, s.serr = sendNow(int(fd), s.p)
			return true
		}
	}
	return s
}

// trySend leaves everything to send if the stream is encrypted: crypto/tls has no write that does not block.
func (s *stream) trySend(p []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	s.p = p
	err := s.raw.Write(s.try)
	s.p = nil
	if err != nil {
		return 0, err
	}
	return s.n, s.serr
}

func (s *stream) send(p []byte, deadline time.Time) error {
	_ = s.nc.SetWriteDeadline(deadline) // if this fails the write does
	_, err := s.nc.Write(p)
	_ = s.nc.SetWriteDeadline(time.Time{}) // trySend minds it too
	return err
}

func (s *stream) close() { _ = s.nc.Close() }

func (s *stream) abort() { reset(s.nc) }

// reset ends the TCP connection under nc without a word, also one that is encrypted.
func reset(nc net.Conn) {
	for {
		switch c := nc.(type) {
		case *tls.Conn:
			nc = c.NetConn()
		case bufferedConn:
			nc = c.Conn
		case *net.TCPConn:
			_ = c.SetLinger(0)
			_ = c.Close()
			return
		default:
			_ = nc.Close()
			return
		}
	}
}

// Sizes of a stream's read buffer: it grows while reads fill it.
const (
	readBufferMin = 4 << 10
	readBufferMax = 64 << 10
)

// readStream feeds c until its stream ends. It blocks. An error means that the peer does not speak the protocol.
func readStream(c *Conn, nc net.Conn) error {
	buf := make([]byte, readBufferMin)
	for {
		n, err := nc.Read(buf)
		if n > 0 {
			if err := c.onData(buf[:n]); err != nil {
				return err
			}
			if n == len(buf) && n < readBufferMax {
				buf = make([]byte, 2*n)
			}
		}
		if err != nil {
			return nil
		}
	}
}
