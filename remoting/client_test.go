package remoting

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/castor-mq/castor/remoting/code"
)

func TestClientSharesOneConnectionAndDialsAgain(t *testing.T) {
	var opened atomic.Int32
	rt := table(echoTable...)
	rt.OnOpen = func(*Conn) { opened.Add(1) }
	srv, stop := startServer(t, ServerConfig{}, rt)
	cl := newClient(t, nil)
	call := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := cl.Call(ctx, srv.at(), code.HeartBeat, nil, nil)
		return err
	}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := call(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if opened.Load() != 1 {
		t.Fatalf("%d connections", opened.Load())
	}
	cl.Drop(srv.at())
	if err := call(); err != nil || opened.Load() != 2 {
		t.Fatal(err, opened.Load())
	}
	for _, c := range srv.Conns() {
		c.Close()
	}
	eventually(t, "a new connection", func() bool { return call() == nil && opened.Load() == 3 })
	stop()
	eventually(t, "a failing call", func() bool { return call() != nil })
	cl.Close()
	if err := call(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestCallEndsWithItsContext(t *testing.T) {
	parked := make(chan Ticket, 1)
	srv, _ := startServer(t, ServerConfig{}, table(append([]Route{{Code: code.PullMessage, Serve: func(r *Request) error { parked <- r.Park(); return nil }}}, echoTable...)...))
	cl := newClient(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := cl.Call(ctx, srv.at(), code.PullMessage, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	tk := <-parked
	tk.Reply(code.Success, "late", nil, nil)
	if r, err := cl.Call(t.Context(), srv.at(), code.HeartBeat, nil, []byte("next")); err != nil || string(r.Body) != "next" {
		t.Fatal(r, err)
	}
	c, err := cl.Conn(t.Context(), srv.at())
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) > 0 {
		t.Fatalf("%d calls are remembered", len(c.calls))
	}
}

// TestClientAgainstSilentServer: a server that accepts and says nothing, not even in a TLS handshake.
func TestClientAgainstSilentServer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // nothing is to be learned
	plain, secure := newClient(t, nil), NewClient(nil, testTLS(t).client())
	for _, cl := range []*Client{plain, secure} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := cl.Call(ctx, ln.Addr().String(), code.HeartBeat, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		failed := make(chan error)
		go func() {
			_, err := cl.Call(context.Background(), ln.Addr().String(), code.HeartBeat, nil, nil)
			failed <- err
		}()
		start := time.Now()
		time.Sleep(time.Millisecond)
		cl.Close()
		if err := <-failed; err == nil || time.Since(start) > connectTimeout {
			t.Error(err)
		}
	}
}

func TestClientWithoutHandlerRefusesRequests(t *testing.T) {
	answer := make(chan *Reply, 1)
	srv, _ := startServer(t, ServerConfig{}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
		r.Conn.Go(code.GetConsumerRunningInfo, nil, nil, func(rep *Reply, err error) { answer <- rep })
		return r.OK(nil, nil)
	}}))
	cl := newClient(t, nil)
	if err := cl.Oneway(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil {
		t.Fatal(err)
	}
	if rep := <-answer; rep == nil || code.Response(rep.Code) != code.RequestCodeNotSupported || rep.Err() == nil {
		t.Fatalf("%+v", rep)
	}
}

func TestNobodyListens(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close()
	cl := newClient(t, nil)
	for range 2 {
		if err := cl.Oneway(t.Context(), ln.Addr().String(), code.HeartBeat, nil, nil); err == nil {
			t.Fatal("no error")
		}
	}
	if _, err := cl.Call(t.Context(), "no port", code.HeartBeat, nil, nil); err == nil {
		t.Fatal("no error")
	}
}
