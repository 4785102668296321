package remoting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/race"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// startServer runs a server until the test ends; stop ends it before.
func startServer(t testing.TB, cfg ServerConfig, h Handler) (srv *Server, stop func()) {
	t.Helper()
	cfg.Addr = "127.0.0.1:0"
	srv, err := NewServer(cfg, h, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return srv, run(t, srv)
}

func run(t testing.TB, srv *Server) (stop func()) {
	g := lifecycle.New(context.Background())
	g.Go("server", srv.Run)
	stop = sync.OnceFunc(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func table(routes ...Route) *Router { return NewRouter(zap.NewNop(), routes) }

func echo(r *Request) error { return r.OK(nil, r.Body) }

var echoTable = []Route{{Code: code.HeartBeat, Serve: echo}}

// onBothLoops runs a test with both.
func onBothLoops(t *testing.T, f func(t *testing.T, loop string)) {
	for _, loop := range []string{"netpoll", "std"} {
		t.Run(loop, func(t *testing.T) { f(t, loop) })
	}
}

func newClient(t *testing.T, h Handler) *Client {
	cl := NewClient(h, nil)
	t.Cleanup(cl.Close)
	return cl
}

func (s *Server) at() string { return s.Addr().String() }

// eventually waits for a condition that something else brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s did not happen", what)
}

// mustClose reads until the peer has closed the connection.
func mustClose(t *testing.T, nc net.Conn) (read []byte) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(10 * time.Second))
	read, err := io.ReadAll(nc)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		t.Fatal("still open")
	}
	return read
}

func TestRepliesMirrorTheEncodingAtAnySize(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		for _, enc := range []header.Encoding{header.JSON, header.Binary} {
			cl := newClient(t, nil)
			cl.UseEncoding(enc)
			for _, size := range []int{0, 1, 1000, 4096 - 100, 100_000, 3<<20 + 1} {
				body := bytes.Repeat([]byte{byte(size)}, size)
				r, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, body)
				if err != nil {
					t.Fatal(err)
				}
				if r.Err() != nil || !bytes.Equal(r.Body, body) || r.Enc != enc || r.Version != code.Current || r.Language != code.Go {
					t.Fatalf("%v, %d of %d bytes, %v", r.Err(), len(r.Body), size, r.Enc)
				}
			}
		}
	})
}

// parking answers what it has got when a burst ends.
type parking struct {
	handlerFunc
	mu      sync.Mutex
	waiting []Ticket
	ends    int
}

func (p *parking) Serve(r *Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, r.Park())
}

func (p *parking) BurstEnd() {
	p.mu.Lock()
	all := p.waiting
	p.waiting = nil
	p.ends++
	p.mu.Unlock()
	for _, t := range all {
		t.Reply(code.Success, "", nil, nil)
	}
}

// TestSharedBursts: nobody waits for ever when many connections take turns, and the ends become fewer.
func TestSharedBursts(t *testing.T) {
	const conns, calls = 64, 200
	onBothLoops(t, func(t *testing.T, loop string) {
		h := &parking{}
		srv, _ := startServer(t, ServerConfig{Loop: loop, ShareBursts: true}, h)
		var wg sync.WaitGroup
		for range conns {
			cl := newClient(t, nil)
			wg.Go(func() {
				for range calls {
					if r, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil || r.Err() != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.ends == 0 || h.ends >= conns*calls {
			t.Errorf("%d ends for %d requests", h.ends, conns*calls)
		}
	})
}

func TestPipelinedRequestsAreServedInOrder(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		nc := dialRaw(t, srv.at())
		const total = 3000
		go func() {
			var p []byte
			for i := range int32(total) {
				p = append(p, request(i, int(i%977))...)
				if i%100 == 99 {
					_, _ = nc.Write(p) // what is not written is missed below
					p = p[:0]
				}
			}
		}()
		for i := range int32(total) {
			var c Command
			if err := c.Parse(readFrame(t, nc)); err != nil || c.Opaque != i || len(c.Body) != int(i%977) {
				t.Fatalf("%d: %v, opaque %d, %d bytes", i, err, c.Opaque, len(c.Body))
			}
		}
	})
}

func TestUnknownCodeKeepsTheConnection(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		cl := newClient(t, nil)
		for _, want := range []struct {
			rc     code.Request
			is     code.Response
			remark string
		}{{9999, code.RequestCodeNotSupported, " request type 9999 not supported"}, {-1, code.RequestCodeNotSupported, " request type -1 not supported"}, {code.HeartBeat, code.Success, ""}} {
			r, err := cl.Call(t.Context(), srv.at(), want.rc, nil, nil)
			if err != nil || code.Response(r.Code) != want.is || string(r.Remark) != want.remark {
				t.Fatalf("code %d: %v %v", want.rc, r, err)
			}
		}
		if n := len(srv.Conns()); n != 1 {
			t.Fatalf("%d connections", n)
		}
	})
}

// TestBinaryCodesAreWidened: Java cuts POP's codes to 16 bits.
func TestBinaryCodesAreWidened(t *testing.T) {
	var got atomic.Int32
	srv, _ := startServer(t, ServerConfig{}, table(Route{Code: code.PopMessage, Serve: func(r *Request) error { got.Store(r.Code); return echo(r) }}))
	cl := newClient(t, nil)
	cl.UseEncoding(header.Binary)
	if r, err := cl.Call(t.Context(), srv.at(), code.PopMessage, nil, nil); err != nil || r.Err() != nil || got.Load() != int32(code.PopMessage) {
		t.Fatal(r, err, got.Load())
	}
}

func TestGarbageClosesTheConnection(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		good := newClient(t, nil)
		for name, garbage := range map[string][]byte{
			"negative length":  {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
			"length 3":         {0, 0, 0, 3, 0, 0, 0},
			"too long":         {0x01, 0, 0, 0, 0, 0, 0, 0},
			"header too long":  {0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0},
			"serialize type 2": {0, 0, 0, 8, 2, 0, 0, 4, 0, 0, 0, 0},
			"not JSON":         {0, 0, 0, 8, 0, 0, 0, 4, 'a', 'b', 'c', 'd'},
			"short binary":     {0, 0, 0, 8, 1, 0, 0, 4, 0, 0, 0, 0},
			"HTTP":             []byte("GET / HTTP/1.1\r\n\r\n"),
			"bad PROXY header": []byte("PROXY nonsense\r\n"),
			"TLS":              {0x16, 3, 1, 0, 0},
		} {
			nc := dialRaw(t, srv.at())
			if _, err := nc.Write(garbage); err != nil {
				t.Fatal(err)
			}
			if got := mustClose(t, nc); len(got) > 0 {
				t.Errorf("%s: answered %q", name, got)
			}
			if _, err := good.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil {
				t.Fatalf("%s: others suffer: %v", name, err)
			}
		}
		eventually(t, "the end of the bad connections", func() bool { return len(srv.Conns()) == 1 })
	})
}

// TestGarbageAfterRequests: what was asked before is answered.
func TestGarbageAfterRequests(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		nc := dialRaw(t, srv.at())
		if _, err := nc.Write(append(request(5, 100), 0xFF, 0xFF, 0xFF, 0xFF)); err != nil {
			t.Fatal(err)
		}
		if all := parseAll(t, mustClose(t, nc)); len(all) != 1 || all[0].Opaque != 5 {
			t.Fatalf("%+v", all)
		}
	})
}

func TestHalfClosedConnectionGetsItsReply(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		for range 50 {
			nc := dialRaw(t, srv.at()).(*net.TCPConn)
			if _, err := nc.Write(request(5, 10_000)); err != nil {
				t.Fatal(err)
			}
			if err := nc.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if all := parseAll(t, mustClose(t, nc)); len(all) != 1 || len(all[0].Body) != 10_000 {
				t.Fatalf("%d replies", len(all))
			}
		}
		eventually(t, "the end of the connections", func() bool { return len(srv.Conns()) == 0 })
	})
}

func TestIdleAndDribblingConnectionsAreClosed(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop, IdleTimeout: 150 * time.Millisecond}, table(echoTable...))
		idle, dribbling, busy := dialRaw(t, srv.at()), dialRaw(t, srv.at()), dialRaw(t, srv.at())
		if _, err := idle.Write(request(1, 0)); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			slow := request(2, 1000)
			for i := range slow {
				_, _ = dribbling.Write(slow[i : i+1])
				_, _ = busy.Write(request(3, 0))
				select {
				case <-time.After(10 * time.Millisecond):
				case <-stop:
					return
				}
			}
		})
		if all := parseAll(t, mustClose(t, idle)); len(all) != 1 {
			t.Errorf("%d replies", len(all))
		}
		if got := mustClose(t, dribbling); len(got) > 0 {
			t.Errorf("answered %q", got)
		}
		eventually(t, "the end of both and not of the busy one", func() bool { return len(srv.Conns()) == 1 })
		close(stop)
		wg.Wait()
	})
}

// TestPeerThatNeverReads costs little memory, is closed, and the others do not notice.
func TestPeerThatNeverReads(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, err := NewServer(ServerConfig{Addr: "127.0.0.1:0", Loop: loop}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
			return r.OK(nil, make([]byte, 64<<10))
		}}), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		srv.sendTimeout = 300 * time.Millisecond
		run(t, srv)
		bad := dialRaw(t, srv.at())
		_ = bad.(*net.TCPConn).SetReadBuffer(4096)
		p := bytes.Repeat(request(1, 0), 2000) // asks for 128 MB
		go bad.Write(p)                        //nolint:errcheck // fails when the server closes
		good := newClient(t, nil)
		seen := false
		eventually(t, "the end of the connection", func() bool {
			if r, err := good.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil || len(r.Body) != 64<<10 {
				t.Fatal(err)
			}
			for _, c := range srv.Conns() {
				c.mu.Lock()
				if c.slow {
					seen = true
				}
				if c.out != nil && len(c.out.Buf) > 2*highWater {
					t.Errorf("%d bytes wait", len(c.out.Buf))
				}
				c.mu.Unlock()
			}
			return seen && len(srv.Conns()) == 1
		})
	})
}

func TestReplyLargerThanTheSocketTakesArrives(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop, SendBuffer: 64 << 10}, table(echoTable...))
		nc := dialRaw(t, srv.at())
		const total = 10
		go func() {
			for i := range int32(total) {
				_, _ = nc.Write(request(i, 256<<10)) // what is not written is missed below
			}
		}()
		for i := range int32(total) {
			if i%8 == 0 {
				time.Sleep(5 * time.Millisecond) // a slow reader
			}
			var c Command
			if err := c.Parse(readFrame(t, nc)); err != nil || c.Opaque != i || len(c.Body) != 256<<10 {
				t.Fatalf("%d: %v, opaque %d, %d bytes", i, err, c.Opaque, len(c.Body))
			}
		}
	})
}

func TestStopWithParkedRequests(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		parked := make(chan Ticket, 100)
		var closed atomic.Int32
		rt := table(Route{Code: code.PullMessage, Serve: func(r *Request) error { parked <- r.Park(); return nil }})
		rt.OnClose = func(*Conn) { closed.Add(1) }
		srv, stop := startServer(t, ServerConfig{Loop: loop}, rt)
		var wg sync.WaitGroup
		for range 10 {
			cl := newClient(t, nil)
			wg.Go(func() {
				if _, err := cl.Call(t.Context(), srv.at(), code.PullMessage, nil, nil); !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		var tickets []Ticket
		for range 10 {
			tickets = append(tickets, <-parked)
		}
		stop()
		if closed.Load() != 10 {
			t.Errorf("%d connections have ended", closed.Load())
		}
		for _, tk := range tickets {
			tk.Reply(code.Success, "late", nil, nil)
		}
		wg.Wait()
		if _, err := net.Dial("tcp", srv.at()); err == nil {
			t.Error("still listening")
		}
	})
}

func TestStopDoesNotWaitForSilentPeers(t *testing.T) {
	srv, stop := startServer(t, ServerConfig{}, table(echoTable...))
	for _, start := range []string{"", "P", "PROXY TCP4", "\r", "\x00", "\x00\x00"} {
		if _, err := dialRaw(t, srv.at()).Write([]byte(start)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "accept", func() bool {
		srv.mu.Lock()
		defer srv.mu.Unlock()
		return len(srv.conns) == 2 && len(srv.opening) == 4
	})
	start := time.Now()
	if stop(); time.Since(start) > 5*time.Second {
		t.Fatalf("took %v", time.Since(start))
	}
}

func TestParkedRequestIsAnsweredLater(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		parked := make(chan Ticket, 1)
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(Route{Code: code.PullMessage, Serve: func(r *Request) error { parked <- r.Park(); return nil }}))
		cl := newClient(t, nil)
		go func() { tk := <-parked; tk.Reply(code.PullNotFound, "later", nil, nil) }()
		r, err := cl.Call(t.Context(), srv.at(), code.PullMessage, nil, nil)
		if err != nil || r.Code != int32(code.PullNotFound) || string(r.Remark) != "later" {
			t.Fatal(r, err)
		}
	})
}

func TestServerCallsTheClient(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
			c, tk := r.Conn, r.Park()
			c.Go(code.GetConsumerRunningInfo, nil, []byte("q"), func(rep *Reply, err error) { tk.Reply(code.Success, "", nil, Bytes(rep.Body)) })
			return nil
		}}))
		cl := newClient(t, table(Route{Code: code.GetConsumerRunningInfo, Serve: func(r *Request) error {
			return r.OK(nil, fmt.Append(nil, "answer to ", string(r.Body), " in ", r.Enc))
		}}))
		cl.UseEncoding(header.Binary)
		r, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil)
		if err != nil || string(r.Body) != "answer to q in 1" {
			t.Fatal(r, err)
		}
	})
}

func TestMoreConnectionsThanAllowedAreClosed(t *testing.T) {
	var count atomic.Int64
	srv, _ := startServer(t, ServerConfig{MaxConns: 2, Count: &count}, table(echoTable...))
	other, _ := startServer(t, ServerConfig{MaxConns: 2, Count: &count}, table(echoTable...))
	a, b := newClient(t, nil), newClient(t, nil)
	for cl, at := range map[*Client]string{a: srv.at(), b: other.at()} {
		if _, err := cl.Call(t.Context(), at, code.HeartBeat, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{srv.at(), other.at()} {
		if got := mustClose(t, dialRaw(t, at)); len(got) > 0 {
			t.Fatalf("%q", got)
		}
	}
	a.Close()
	eventually(t, "room", func() bool {
		cl := NewClient(nil, nil)
		defer cl.Close()
		_, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil)
		return err == nil
	})
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("no /proc")
	}
	return len(all)
}

// TestConnectionsComeAndGo in all the ways connections do, and leave nothing behind.
func TestConnectionsComeAndGo(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		var opened, closed atomic.Int64
		rt := table(append([]Route{{Code: code.PullMessage, Serve: func(r *Request) error { r.Park(); return nil }}}, echoTable...)...)
		rt.OnOpen = func(*Conn) { opened.Add(1) }
		rt.OnClose = func(*Conn) { closed.Add(1) }
		srv, _ := startServer(t, ServerConfig{Loop: loop}, rt)
		warm := newClient(t, nil)
		if _, err := warm.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil {
			t.Fatal(err)
		}
		files, goroutines := openFiles(t), runtime.NumGoroutine()
		total := 3000
		if testing.Short() || race.Enabled {
			total = 600
		}
		var wg sync.WaitGroup
		for worker := range 10 {
			wg.Go(func() {
				for i := range total / 10 {
					comeAndGo(t, srv.at(), i*10+worker)
				}
			})
		}
		wg.Wait()
		eventually(t, "the end of all connections", func() bool {
			return len(srv.Conns()) == 1 && opened.Load() == closed.Load()+1 && openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
		})
		if opened.Load() < int64(total/2) {
			t.Errorf("only %d connections were served", opened.Load())
		}
	})
}

func comeAndGo(t *testing.T, addr string, i int) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return
	}
	defer nc.Close() //nolint:errcheck // nothing is to be learned
	frame := request(int32(i), i%5000)
	switch i % 6 {
	case 0: // says nothing
	case 1: // says a part
		_, _ = nc.Write(frame[:len(frame)/2])
	case 2: // asks and does not wait
		_, _ = nc.Write(frame)
	case 3: // asks and resets
		_, _ = nc.Write(frame)
		_ = nc.(*net.TCPConn).SetLinger(0)
	case 4: // asks and reads
		_, _ = nc.Write(frame)
		readReply(t, nc, int32(i))
	case 5: // leaves a parked request behind
		_, _ = nc.Write(AppendCommand(nil, &Command{Code: int32(code.PullMessage)}, nil, nil))
		_, _ = nc.Write(frame)
		readReply(t, nc, int32(i))
	}
}

func readReply(t *testing.T, nc net.Conn, opaque int32) {
	_ = nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 4)
	if _, err := io.ReadFull(nc, head); err != nil {
		t.Error(err)
		return
	}
	n, err := frameLength(head)
	frame := make([]byte, max(n, 0))
	var c Command
	if _, rerr := io.ReadFull(nc, frame); err != nil || rerr != nil || c.Parse(frame) != nil || c.Opaque != opaque {
		t.Errorf("%v %v, opaque %d, want %d", err, rerr, c.Opaque, opaque)
	}
}

// TestConnectionsClosedFromEverySide: handlers, other goroutines, the peer and the server at the same time.
func TestConnectionsClosedFromEverySide(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		rt := table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
			if r.Opaque%50 == 49 {
				go r.Conn.Close()
				r.Conn.Close()
			}
			return r.OK(nil, make([]byte, 5000))
		}})
		srv, stop := startServer(t, ServerConfig{Loop: loop}, rt)
		cl := newClient(t, nil)
		var wg sync.WaitGroup
		var good atomic.Int32
		for range 8 {
			wg.Go(func() {
				for i := range 200 {
					r, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, nil)
					if err == nil && len(r.Body) == 5000 {
						good.Add(1)
					}
					if i%70 == 69 {
						cl.Drop(srv.at())
					}
				}
			})
		}
		wg.Go(func() {
			eventually(t, "some replies", func() bool { return good.Load() > 100 })
			stop()
		})
		wg.Wait()
		if n := len(srv.Conns()); n != 0 {
			t.Errorf("%d connections left", n)
		}
	})
}
