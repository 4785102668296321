package remoting

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// TestForwardedInOrder: what a connection sends arrives in that order at the server to which a lane forwards it, although many forward at a time
// and each waits for its answer.
func TestForwardedInOrder(t *testing.T) {
	const n = 2000
	var mu sync.Mutex
	var came []uint32
	far, _ := startServer(t, ServerConfig{}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, binary.BigEndian.Uint32(r.Body))
		return r.OK(nil, nil)
	}}))
	l := NewLane("test", 16, n+1, 0)
	l.InOrder()
	g := lifecycle.New(context.Background())
	l.Run(g)
	t.Cleanup(func() { _ = g.Stop() })
	cl := newClient(t, nil)
	near, _ := startServer(t, ServerConfig{}, table(Route{Code: code.HeartBeat, Lane: l, Serve: func(r *Request) error {
		r.AwaitTurn(time.Minute)
		return cl.Forward(context.Background(), far.at(), r, "hop")
	}}))
	c, err := cl.Conn(t.Context(), near.at())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range uint32(n) {
		body := binary.BigEndian.AppendUint32(nil, i)
		if i%2 == 0 {
			if err := c.Oneway(code.HeartBeat, nil, body); err != nil {
				t.Fatal(err)
			}
			continue
		}
		wg.Add(1)
		c.Go(code.HeartBeat, nil, body, func(r *Reply, err error) {
			if err != nil || r.Err() != nil {
				t.Error(err, r)
			}
			wg.Done()
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for i, got := range came {
		if got != uint32(i) {
			t.Fatalf("%d came as number %d", got, i)
		}
	}
	if len(came) != n {
		t.Fatal(len(came))
	}
	eventually(t, "no turn left", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.last) == 0 })
}

// TestTurnsEnd: who is refused, or waits for too long, keeps nobody waiting.
func TestTurnsEnd(t *testing.T) {
	l := NewLane("test", 4, 10, 20*time.Millisecond)
	l.InOrder()
	block := make(chan struct{})
	c, out := laneConn(l, func(r *Request) error {
		switch r.Opaque {
		case 0:
			<-block
		case 1:
			r.AwaitTurn(time.Millisecond)
		default:
			r.AwaitTurn(time.Minute)
		}
		return r.OK(nil, nil)
	})
	g := lifecycle.New(context.Background())
	l.Run(g)
	for i := range int32(3) {
		ask(t, c, i, "")
	}
	out.await(t, 2) // 1 has not waited for 0, and 2 only for 1
	close(block)
	out.await(t, 3)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for i := range int32(10) {
		ask(t, c, 10+i, "")
	}
	ask(t, c, 20, "") // there is no room for it
	for _, late := range l.overdue(0) {
		l.refuse(late)
		l.done(late.r)
	}
	if len(l.last) != 0 {
		t.Fatal("turns are left")
	}
}
