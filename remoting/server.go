package remoting

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/lifecycle"
)

// TLSMode says which connections a server takes (tls.server.mode).
type TLSMode string

// The three modes of TlsSystemConfig.
const (
	TLSDisabled   TLSMode = "disabled"
	TLSPermissive TLSMode = "permissive"
	TLSEnforcing  TLSMode = "enforcing"
)

// ServerConfig is what a Server needs.
type ServerConfig struct {
	// Addr is host:port; port 0 takes a free one.
	Addr string
	// Mode and TLS: with a nil TLS, or one that returns nil, no TLS connection is taken. TLS is called per handshake, so
	// certificates can change.
	Mode TLSMode
	TLS  func() *tls.Config
	// IdleTimeout closes a connection without a byte in either direction, and one that sends a single frame for that long
	// (serverChannelMaxIdleTimeSeconds). 0 means 120 s.
	IdleTimeout time.Duration
	// MaxConns refuses more connections than this; 0 means three quarters of the files that the process may open, at most
	// 100,000: the others are for the store, which must not run out of them because somebody connects too often.
	MaxConns int
	// Count holds the number of connections of all servers that share one MaxConns; nil: this one shares it with none.
	Count *atomic.Int64
	// SendBuffer and ReceiveBuffer are sizes of the kernel's buffers in bytes; 0 leaves them to the kernel.
	SendBuffer, ReceiveBuffer int
	// ShareBursts has the bursts of many connections that take turns end together, when a poller has been through what it has got: for a handler
	// whose BurstEnd costs much.
	ShareBursts bool
	// Loop reads plain connections with goroutines ("std") or netpoll ("netpoll", the default).
	Loop string
}

// Server accepts connections and serves them with one handler.
type Server struct {
	owner
	cfg  ServerConfig
	log  *zap.Logger
	ln   net.Listener
	live sync.WaitGroup // connections

	mu      sync.Mutex
	conns   map[*Conn]struct{}
	opening map[net.Conn]struct{} // accepted, and not yet in conns
	stopped bool

	shedding sync.Mutex // one shed at a time
}

const (
	// firstByteTimeout bounds the wait for the first byte of a new connection.
	firstByteTimeout = 120 * time.Second
	// handshakeTimeout bounds the PROXY header and the TLS handshake.
	handshakeTimeout = 10 * time.Second
	// aliveTimeout is how long a peer's host may be silent about bytes that were sent to it.
	aliveTimeout = 30 * time.Second
)

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: aliveTimeout / 2, Interval: aliveTimeout / 6, Count: 3}

// NewServer binds the address. Nothing is accepted before Run.
func NewServer(cfg ServerConfig, h Handler, log *zap.Logger) (*Server, error) {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = maxConns()
	}
	if cfg.Count == nil {
		cfg.Count = new(atomic.Int64)
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 120 * time.Second
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(context.Background(), "tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	s := &Server{owner: newOwner(h), cfg: cfg, log: log, ln: ln, conns: map[*Conn]struct{}{}, opening: map[net.Conn]struct{}{}}
	s.owner.shed = s.shed
	return s, nil
}

func maxConns() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 100_000
	}
	return int(min(files.Cur-files.Cur/4, 100_000))
}

// Addr is the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.ln.Addr().(*net.TCPAddr) }

// SetBurst has replies sent after so many bytes of requests, even if more were read at once: the peer works on them meanwhile. 0: all replies to
// what was read at once are sent together, which is better where the end of a burst costs much (Handler.BurstEnd).
func (s *Server) SetBurst(bytes int64) { s.maxBurst.Store(bytes) }

// Close frees the address of a server that is never run.
func (s *Server) Close() { _ = s.ln.Close() }

// Run accepts until ctx ends, then closes every connection and waits for their readers.
func (s *Server) Run(ctx context.Context) error {
	if s.cfg.ShareBursts {
		bell, err := newBell(s.handler.BurstEnd)
		if err != nil {
			return errors.Join(err, s.ln.Close())
		}
		s.bell = bell
		defer bell.close()
	}
	g := lifecycle.New(ctx)
	g.Go("accept "+s.cfg.Addr, func(ctx context.Context) error { return s.accept(ctx, g) })
	g.Go("idle", s.closeIdle)
	<-g.Context().Done()
	_ = s.ln.Close()
	s.mu.Lock()
	s.stopped = true
	for nc := range s.opening {
		_ = nc.Close()
	}
	s.mu.Unlock()
	for _, c := range s.Conns() {
		c.Flush()
		c.Close()
	}
	err := g.Stop()
	s.live.Wait()
	s.senders.Wait()
	return err
}

// Conns returns the open connections.
func (s *Server) Conns() []*Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

func (s *Server) accept(ctx context.Context, g *lifecycle.Group) error {
	pause := time.Millisecond
	for {
		nc, err := s.ln.Accept()
		switch {
		case ctx.Err() != nil:
			if nc != nil {
				_ = nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // out of descriptors: wait for some to be closed
			s.log.Error("accept failed, raise the limit of open files (ulimit -n) if this repeats", zap.Error(err))
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, time.Second)
			continue
		}
		pause = time.Millisecond
		if !s.register(nc) {
			_ = nc.Close()
			continue
		}
		g.Go("connection", func(context.Context) error {
			s.open(nc.(*net.TCPConn))
			return nil
		})
	}
}

// register reports whether there is room for one more connection.
func (s *Server) register(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	if s.cfg.Count.Add(1) > int64(s.cfg.MaxConns) {
		s.cfg.Count.Add(-1)
		return false
	}
	s.opening[nc] = struct{}{}
	return true
}

// abandon closes a connection that does not come to be served.
func (s *Server) abandon(nc net.Conn) {
	_ = nc.Close()
	s.mu.Lock()
	delete(s.opening, nc)
	s.mu.Unlock()
	s.cfg.Count.Add(-1)
}

// add makes an opening connection one of the served. If the server stops it reports false.
func (s *Server) add(c *Conn, nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.opening, nc)
	if s.stopped {
		s.cfg.Count.Add(-1)
		return false
	}
	s.conns[c] = struct{}{}
	s.live.Add(1)
	return true
}

// remove is called once for each connection that was added, when its stream has ended.
func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.cfg.Count.Add(-1)
	c.onClosed()
	s.live.Done()
}

// open looks at the first byte of a connection and gives it to the loop that fits: TLS and proxied ones to a goroutine (this
// one), plain ones to netpoll. No frame starts with the first byte of a TLS record or of a PROXY header: read as a length,
// all are beyond the frame limit.
func (s *Server) open(nc *net.TCPConn) {
	first, err := peek(nc, firstByteTimeout)
	if err != nil {
		s.abandon(nc)
		return
	}
	s.tune(nc)
	_ = nc.SetReadDeadline(time.Now().Add(handshakeTimeout)) // if this fails the read does
	stream, peer, past := net.Conn(nc), nc.RemoteAddr(), nc
	if isProxyHeader(first) {
		br := bufio.NewReaderSize(nc, maxProxyHeader)
		if peer, first, err = readProxied(br, peer); err != nil {
			s.log.Warn("bad PROXY protocol header", zap.Stringer("peer", nc.RemoteAddr()), zap.Error(err))
			s.abandon(nc)
			return
		}
		stream = bufferedConn{nc, br}
	}
	secure := first == 0x16
	if secure {
		stream, past = s.handshake(stream), nil
	}
	if stream == nil || !secure && s.cfg.Mode == TLSEnforcing {
		s.abandon(nc)
		return
	}
	_ = nc.SetReadDeadline(time.Time{})
	if stream == nc && s.cfg.Loop != "std" {
		s.servePolled(nc)
		return
	}
	c := newConn(&s.owner, newStream(stream, past), nc.LocalAddr(), peer)
	c.Secure = secure
	s.serveStream(c, stream, nc)
}

// tune sets the socket's options.
func (s *Server) tune(nc *net.TCPConn) {
	if s.cfg.SendBuffer > 0 {
		_ = nc.SetWriteBuffer(s.cfg.SendBuffer)
	}
	if s.cfg.ReceiveBuffer > 0 {
		_ = nc.SetReadBuffer(s.cfg.ReceiveBuffer)
	}
	limitSilence(nc)
}

// handshake returns the decrypted stream, or nil if there is none to be had.
func (s *Server) handshake(nc net.Conn) net.Conn {
	if s.cfg.TLS == nil || s.cfg.Mode == TLSDisabled {
		return nil
	}
	cfg := s.cfg.TLS()
	if cfg == nil {
		return nil
	}
	tc := tls.Server(nc, cfg)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		s.log.Warn("TLS handshake failed", zap.Stringer("peer", nc.RemoteAddr()), zap.Error(err))
		return nil
	}
	return tc
}

// serveStream serves a connection on the calling goroutine until it ends.
func (s *Server) serveStream(c *Conn, stream net.Conn, nc *net.TCPConn) {
	if !s.add(c, nc) {
		_ = nc.Close()
		return
	}
	s.handler.Opened(c)
	if err := readStream(c, stream); err != nil {
		s.badStream(c, err)
		reset(stream)
	}
	_ = stream.Close()
	s.remove(c)
}

// closeIdle ends connections on which nothing has moved for the idle timeout.
func (s *Server) closeIdle(ctx context.Context) error {
	tick := time.NewTicker(max(s.cfg.IdleTimeout/12, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			limit := nowMs() - s.cfg.IdleTimeout.Milliseconds()
			for _, c := range s.Conns() {
				if c.idleSince() < limit {
					c.Close()
				}
			}
		}
	}
}

func (s *Server) badStream(c *Conn, err error) {
	s.log.Warn("connection closed: the peer does not speak the protocol", zap.String("peer", c.remote), zap.Error(err))
}

// peek waits for the first byte of a connection without consuming it.
func peek(nc *net.TCPConn, timeout time.Duration) (byte, error) {
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0, err
	}
	if err := nc.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	var buf [1]byte
	n := 0
	var perr error
	err = raw.Read(func(fd uintptr) bool {
		n, _, perr = unix.Recvfrom(int(fd), buf[:], unix.MSG_PEEK)
		return perr != unix.EAGAIN && perr != unix.EINTR
	})
	switch {
	case err != nil:
		return 0, err
	case perr != nil:
		return 0, perr
	case n <= 0:
		return 0, net.ErrClosed
	}
	return buf[0], nil
}
