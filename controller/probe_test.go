package controller

import (
	"net"
	"testing"
	"time"
)

// TestProbeWaitsForTheListenersEnd: the kernel closes the connections of a killed process before its listener, so the first
// knock is often taken.
func TestProbeWaitsForTheListenersEnd(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	listen := func() net.Listener {
		ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		return ln
	}
	dying := listen()
	time.AfterFunc(knockWait/4, func() { _ = dying.Close() })
	if !nobodyAt(t.Context(), dying.Addr().String()) {
		t.Error("a listener that closes while it is probed counts as a broker")
	}
	if nobodyAt(t.Context(), listen().Addr().String()) {
		t.Error("a broker that is silent counts as gone")
	}
	full := listen() // a broker that takes no more connections
	knocks := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for c, err := full.Accept(); err == nil; c, err = full.Accept() {
			knocks++
			_ = c.Close()
		}
	}()
	if nobodyAt(t.Context(), full.Addr().String()) {
		t.Error("a broker that closes connections counts as gone")
	}
	_ = full.Close()
	if <-done; knocks != maxKnocks {
		t.Errorf("%d knocks, want %d", knocks, maxKnocks)
	}
}
