package remoting

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func startServer(t *testing.T, cfg ServerConfig, table []Route) *Server {
	t.Helper()
	cfg.Addr = "127.0.0.1:0"
	srv, err := NewServer(cfg, NewRouter(zap.NewNop(), table), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go("server", srv.Run)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

func echo(r *Request) error { return r.OK(nil, r.Body) }

func TestEchoOverBothLoopsAndEncodings(t *testing.T) {
	for _, loop := range []string{"netpoll", "std"} {
		for _, enc := range []header.Encoding{header.JSON, header.Binary} {
			t.Run(fmt.Sprint(loop, enc), func(t *testing.T) {
				srv := startServer(t, ServerConfig{Loop: loop}, []Route{{Code: code.HeartBeat, Serve: echo}})
				cl := NewClient(nil, nil)
				cl.UseEncoding(enc)
				defer cl.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				for i := range 100 {
					body := make([]byte, i*1000)
					r, err := cl.Call(ctx, srv.Addr().String(), code.HeartBeat, nil, body)
					if err != nil {
						t.Fatal(err)
					}
					if r.Code != 0 || len(r.Body) != len(body) || r.Enc != enc || r.Version != code.Current {
						t.Fatalf("reply %+v", r.Command)
					}
				}
			})
		}
	}
}

func TestUnknownCodeKeepsTheConnection(t *testing.T) {
	srv := startServer(t, ServerConfig{}, []Route{{Code: code.HeartBeat, Serve: echo}})
	cl := NewClient(nil, nil)
	defer cl.Close()
	for _, want := range []struct {
		rc code.Request
		is code.Response
	}{{9999, code.RequestCodeNotSupported}, {code.HeartBeat, code.Success}} {
		r, err := cl.Call(t.Context(), srv.Addr().String(), want.rc, nil, nil)
		if err != nil || code.Response(r.Code) != want.is {
			t.Fatalf("code %d: %v %v", want.rc, r, err)
		}
	}
}

func TestGarbageClosesTheConnection(t *testing.T) {
	srv := startServer(t, ServerConfig{}, []Route{{Code: code.HeartBeat, Serve: echo}})
	for name, bytes := range map[string][]byte{
		"negative length":  {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0},
		"length 3":         {0, 0, 0, 3, 0, 0, 0},
		"too long":         {0x01, 0, 0, 0, 0, 0, 0, 0},
		"header too long":  {0, 0, 0, 8, 0, 0, 0, 5, 0, 0, 0, 0},
		"serialize type 2": {0, 0, 0, 8, 2, 0, 0, 4, 0, 0, 0, 0},
		"not JSON":         {0, 0, 0, 8, 0, 0, 0, 4, 'a', 'b', 'c', 'd'},
		"short binary":     {0, 0, 0, 8, 1, 0, 0, 4, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close() //nolint:errcheck // the server closes it
			if _, err := nc.Write(bytes); err != nil {
				t.Fatal(err)
			}
			_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
			if n, err := nc.Read(make([]byte, 10)); err == nil || n > 0 {
				t.Fatalf("read %d bytes, %v", n, err)
			} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
				t.Fatal("still open")
			}
		})
	}
}

func TestParkedRequestIsAnsweredLater(t *testing.T) {
	parked := make(chan Ticket, 1)
	srv := startServer(t, ServerConfig{}, []Route{{Code: code.PullMessage, Serve: func(r *Request) error { parked <- r.Park(); return nil }}})
	cl := NewClient(nil, nil)
	defer cl.Close()
	go func() { tk := <-parked; tk.Reply(code.PullNotFound, "later", nil, nil) }()
	r, err := cl.Call(t.Context(), srv.Addr().String(), code.PullMessage, nil, nil)
	if err != nil || r.Code != int32(code.PullNotFound) || string(r.Remark) != "later" {
		t.Fatal(r, err)
	}
}

func TestServerCallsTheClient(t *testing.T) {
	srv := startServer(t, ServerConfig{}, []Route{{Code: code.HeartBeat, Serve: func(r *Request) error {
		c, tk := r.Conn, r.Park()
		c.Go(code.GetConsumerRunningInfo, nil, []byte("q"), func(rep *Reply, err error) { tk.Reply(code.Success, "", nil, Bytes(rep.Body)) })
		return nil
	}}})
	cl := NewClient(NewRouter(zap.NewNop(), []Route{{Code: code.GetConsumerRunningInfo, Serve: func(r *Request) error { return r.OK(nil, []byte("answer to "+string(r.Body))) }}}), nil)
	defer cl.Close()
	r, err := cl.Call(t.Context(), srv.Addr().String(), code.HeartBeat, nil, nil)
	if err != nil || string(r.Body) != "answer to q" {
		t.Fatal(r, err)
	}
}
