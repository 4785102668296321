package remoting

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// laneConn is a connection to a table whose code 1 runs in l.
func laneConn(l *Lane, serve func(r *Request) error) (*Conn, *narrow) {
	out := newNarrow(1 << 30)
	return connTo(NewRouter(zap.NewNop(), []Route{{Code: 1, Lane: l, Serve: serve}}), out), out
}

func ask(t *testing.T, c *Conn, opaque int32, body string) {
	t.Helper()
	if err := c.onData(AppendCommand(nil, &Command{Code: 1, Opaque: opaque}, nil, []byte(body))); err != nil {
		t.Fatal(err)
	}
}

func (n *narrow) await(t *testing.T, count int) []Command {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		n.mu.Lock()
		all := parseAll(t, append([]byte(nil), n.got...))
		n.mu.Unlock()
		if len(all) >= count {
			return all
		}
	}
	t.Fatalf("no %d replies", count)
	return nil
}

func TestLaneOwnsItsRequests(t *testing.T) {
	l := NewLane("test", 1, 10, 0)
	c, out := laneConn(l, func(r *Request) error { return r.OK(nil, append([]byte("re: "), r.Body...)) })
	for i := range int32(10) {
		ask(t, c, i, strings.Repeat("x", int(i)))
	}
	if l.Depth() != 10 || l.Capacity() != 10 {
		t.Fatal(l.Depth(), l.Capacity())
	}
	ask(t, c, 10, "")
	if all := out.await(t, 1); all[0].Opaque != 10 || code.Response(all[0].Code) != code.SystemBusy || !strings.HasPrefix(string(all[0].Remark), "[OVERLOAD]") {
		t.Fatalf("%+v", all[0])
	}
	g := lifecycle.New(context.Background())
	l.Run(g)
	for i, r := range out.await(t, 11)[1:] {
		if r.Opaque != int32(i) || string(r.Body) != "re: "+strings.Repeat("x", i) {
			t.Errorf("%d: %d %q", i, r.Opaque, r.Body)
		}
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestLaneBoundsBytes(t *testing.T) {
	l := NewLane("test", 0, 1000, 0)
	c, _ := laneConn(l, nil)
	l.bytes = laneBytes - 1000
	for i, want := range []int{0, 1, 1, 2} {
		if ask(t, c, int32(i), strings.Repeat("x", []int{1000, 500, 500, 100}[i])); l.Depth() != want {
			t.Fatalf("%d: %d requests wait, want %d", i, l.Depth(), want)
		}
	}
}

// TestLaneIsFair: a connection with many requests delays itself, not the others, and gives way when the lane is full.
func TestLaneIsFair(t *testing.T) {
	l := NewLane("test", 1, 10, 0)
	served := make(chan string, 20)
	serve := func(r *Request) error {
		served <- string(r.Body)
		return r.OK(nil, nil)
	}
	greedy, greedyOut := laneConn(l, serve)
	modest, modestOut := laneConn(l, serve)
	for i := range int32(10) {
		ask(t, greedy, i, "greedy")
	}
	ask(t, modest, 1, "modest")
	ask(t, modest, 2, "modest")
	for i, r := range greedyOut.await(t, 2) {
		if r.Opaque != 9-int32(i) || !strings.HasPrefix(string(r.Remark), "[OVERLOAD]") {
			t.Errorf("%d: %d %s", r.Opaque, r.Code, r.Remark)
		}
	}
	g := lifecycle.New(context.Background())
	l.Run(g)
	greedyOut.await(t, 10)
	modestOut.await(t, 2)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	close(served)
	var order []string
	for s := range served {
		order = append(order, s[:1])
	}
	if got := strings.Join(order, ""); got != "gmgmgggggg" {
		t.Errorf("served in the order %s", got)
	}
	if len(l.lines) != 0 || l.bytes != 0 || l.count != 0 {
		t.Errorf("left behind: %d lines, %d bytes, %d requests", len(l.lines), l.bytes, l.count)
	}
}

// TestOverdueRequestsAreRefusedInTime: also while every worker is blocked.
// TestLaneWaitsForSlowPeers: a connection whose peer does not read gets one large answer more and then no turn, the others go on, and
// it goes on when its peer reads.
func TestLaneWaitsForSlowPeers(t *testing.T) {
	l := NewLane("test", 1, 100, 0)
	big := make([]byte, highWater)
	serve := func(r *Request) error { return r.OK(nil, big) }
	deaf, reading := laneConn(l, serve)
	deafOut := newNarrow(0)
	deaf.tr = deafOut
	other := connTo(deaf.handler, reading)
	for i := range int32(20) {
		ask(t, deaf, i, "")
		ask(t, other, i, "")
	}
	g := lifecycle.New(context.Background())
	l.Run(g)
	reading.await(t, 20)
	if left := l.Depth(); left < 17 {
		t.Fatalf("%d requests of a peer that reads nothing were answered", 20-left)
	}
	for deadline := time.Now().Add(5 * time.Second); len(deafOut.replies(t)) < 20; {
		select {
		case deafOut.allow <- struct{}{}:
		case <-time.After(10 * time.Millisecond): // the last may be on its way
			if time.Now().After(deadline) {
				t.Fatalf("%d answers arrived", len(deafOut.replies(t)))
			}
		}
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	deaf.senders.Wait()
}

// TestLaneForgetsClosedPeers: what waited for a peer that closes instead of reading leaves the lane.
func TestLaneForgetsClosedPeers(t *testing.T) {
	l := NewLane("test", 1, 100, 0)
	c, _ := laneConn(l, func(r *Request) error { return r.OK(nil, make([]byte, highWater)) })
	c.tr = newNarrow(0)
	for i := range int32(20) {
		ask(t, c, i, "")
	}
	g := lifecycle.New(context.Background())
	l.Run(g)
	for l.Depth() > 18 { // one answer is being sent, one waits
		time.Sleep(time.Millisecond)
	}
	c.Close()
	c.onClosed()
	for deadline := time.Now().Add(5 * time.Second); l.Depth() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d requests still wait", l.Depth())
		}
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	c.senders.Wait()
}

func TestOverdueRequestsAreRefusedInTime(t *testing.T) {
	l := NewLane("test", 1, 10, 50*time.Millisecond)
	release := make(chan struct{})
	c, out := laneConn(l, func(r *Request) error {
		<-release
		return r.OK(nil, nil)
	})
	g := lifecycle.New(context.Background())
	l.Run(g)
	for i := range int32(4) {
		ask(t, c, i, "")
	}
	for _, r := range out.await(t, 3) {
		if r.Opaque == 0 || code.Response(r.Code) != code.SystemBusy || !strings.HasPrefix(string(r.Remark), "[TIMEOUT_CLEAN_QUEUE]") {
			t.Errorf("%d: %d %s", r.Opaque, r.Code, r.Remark)
		}
	}
	close(release)
	if all := out.await(t, 4); all[3].Opaque != 0 || all[3].Code != 0 {
		t.Fatalf("%+v", all[3])
	}
	ask(t, c, 9, "")
	if all := out.await(t, 5); all[4].Opaque != 9 || all[4].Code != 0 {
		t.Fatalf("%+v", all[4])
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestRedoRunsTheHandlerInALane(t *testing.T) {
	l := NewLane("test", 1, 10, 0)
	out := newNarrow(1 << 30)
	checks := 0
	rt := NewRouter(zap.NewNop(), []Route{{Code: 1, Serve: func(r *Request) error {
		if !r.OnLane() {
			return l.Redo()
		}
		return r.OK(nil, r.Body)
	}}})
	rt.Before = func(*Request) error { checks++; return nil }
	c := connTo(rt, out)
	ask(t, c, 5, "again")
	g := lifecycle.New(context.Background())
	l.Run(g)
	if all := out.await(t, 1); all[0].Opaque != 5 || string(all[0].Body) != "again" {
		t.Fatalf("%+v", all[0])
	}
	if err := g.Stop(); err != nil || checks != 1 {
		t.Fatal(err, checks)
	}
}
