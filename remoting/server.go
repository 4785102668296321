package remoting

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

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
	// Mode and TLS: with a nil TLS no TLS connection is taken. TLS is called per handshake, so certificates can change.
	Mode TLSMode
	TLS  func() *tls.Config
	// IdleTimeout closes a connection without a byte in either direction (serverChannelMaxIdleTimeSeconds).
	IdleTimeout time.Duration
	// MaxConns refuses more connections than this; 0 means 100,000.
	MaxConns int
	// Loop reads plain connections with goroutines ("std") or netpoll ("netpoll", the default).
	Loop string
}

// Server accepts connections and serves them with one handler.
type Server struct {
	cfg     ServerConfig
	log     *zap.Logger
	handler Handler
	ln      net.Listener

	mu       sync.Mutex
	conns    map[*Conn]struct{}
	sniffing map[net.Conn]struct{}
	stopped  bool
}

// sniffTimeout bounds the wait for the first byte of a new connection, and the TLS handshake.
const sniffTimeout = 120 * time.Second

// NewServer binds the address. Nothing is accepted before Run.
func NewServer(cfg ServerConfig, h Handler, log *zap.Logger) (*Server, error) {
	if cfg.MaxConns == 0 {
		cfg.MaxConns = 100_000
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 120 * time.Second
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Addr, err)
	}
	return &Server{cfg: cfg, log: log, handler: h, ln: ln, conns: map[*Conn]struct{}{}, sniffing: map[net.Conn]struct{}{}}, nil
}

// Addr is the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.ln.Addr().(*net.TCPAddr) }

// Run accepts until ctx ends, then closes every connection and waits for their readers.
func (s *Server) Run(ctx context.Context) error {
	g := lifecycle.New(ctx)
	g.Go("accept "+s.cfg.Addr, func(ctx context.Context) error { return s.accept(ctx, g) })
	g.Go("idle", func(ctx context.Context) error { return s.closeIdle(ctx) })
	<-g.Context().Done()
	_ = s.ln.Close()
	s.mu.Lock()
	s.stopped = true
	for nc := range s.sniffing {
		_ = nc.Close()
	}
	all := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		c.Flush()
		c.Close()
	}
	return g.Stop()
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
		s.mu.Lock()
		full := len(s.conns)+len(s.sniffing) >= s.cfg.MaxConns || s.stopped
		if !full {
			s.sniffing[nc] = struct{}{}
		}
		s.mu.Unlock()
		if full {
			_ = nc.Close()
			continue
		}
		g.Go("connection "+nc.RemoteAddr().String(), func(context.Context) error {
			s.open(nc.(*net.TCPConn))
			return nil
		})
	}
}

// open looks at the first bytes of a connection and gives it to the loop that fits: TLS and proxied ones to a goroutine (this
// one), plain ones to netpoll.
func (s *Server) open(nc *net.TCPConn) {
	first, err := peek(nc, sniffTimeout)
	s.mu.Lock()
	delete(s.sniffing, nc)
	stopped := s.stopped
	s.mu.Unlock()
	if err != nil || stopped {
		_ = nc.Close()
		return
	}
	isTLS := first[0] == 0x16
	switch {
	case isProxyHeader(first):
		s.serveProxied(nc)
	case isTLS && (s.cfg.TLS == nil || s.cfg.Mode == TLSDisabled):
		_ = nc.Close()
	case !isTLS && s.cfg.Mode == TLSEnforcing:
		_ = nc.Close()
	case isTLS:
		s.serveStream(tls.Server(nc, s.cfg.TLS()), nc.RemoteAddr(), true)
	case s.cfg.Loop == "std":
		s.serveStream(nc, nc.RemoteAddr(), false)
	default:
		s.servePolled(nc)
	}
}

// serveProxied reads a PROXY protocol header and goes on with what follows it; the announced source counts as the peer.
func (s *Server) serveProxied(nc *net.TCPConn) {
	br := bufio.NewReaderSize(nc, 4096)
	_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	src, err := readProxyHeader(br)
	var first []byte
	if err == nil {
		first, err = br.Peek(1)
	}
	_ = nc.SetReadDeadline(time.Time{})
	if err != nil {
		s.log.Warn("bad PROXY protocol header", zap.Stringer("peer", nc.RemoteAddr()), zap.Error(err))
		_ = nc.Close()
		return
	}
	if src == nil {
		src = nc.RemoteAddr()
	}
	stream := net.Conn(bufferedConn{nc, br})
	isTLS := first[0] == 0x16
	if isTLS && s.cfg.TLS == nil || !isTLS && s.cfg.Mode == TLSEnforcing {
		_ = nc.Close()
		return
	}
	if isTLS {
		stream = tls.Server(stream, s.cfg.TLS())
	}
	s.serveStream(stream, src, isTLS)
}

// bufferedConn reads through a reader that may have read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (b bufferedConn) Read(p []byte) (int, error) { return b.r.Read(p) }

func (s *Server) add(c *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *Conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	c.onClosed()
}

// closeIdle ends connections on which nothing has moved for the idle timeout.
func (s *Server) closeIdle(ctx context.Context) error {
	tick := time.NewTicker(max(s.cfg.IdleTimeout/12, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			limit := now.Add(-s.cfg.IdleTimeout).UnixMilli()
			for _, c := range s.Conns() {
				if c.active.Load() < limit {
					c.Close()
				}
			}
		}
	}
}

func (s *Server) badStream(c *Conn, err error) {
	s.log.Warn("connection closed: the peer does not speak the protocol", zap.String("peer", c.remote), zap.Error(err))
}
