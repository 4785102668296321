package remoting

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"time"
)

// ends returns the two ends of a TCP connection.
func ends(t *testing.T) (a, b net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // it has done its work
	a = dialRaw(t, ln.Addr().String())
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return a, b
}

// collector is the user of a Feed.
type collector struct {
	mu   sync.Mutex
	got  []byte
	more chan struct{}
	over chan error
	fail error // of take, once something has come
}

func newCollector() *collector {
	return &collector{more: make(chan struct{}, 1), over: make(chan error, 1)}
}

func (c *collector) take(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, b...)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return c.fail
}

func (c *collector) closed(err error) { c.over <- err }

func (c *collector) await(t *testing.T, want []byte) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		c.mu.Lock()
		done := bytes.Equal(c.got, want)
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-c.more:
		case <-limit:
			t.Fatalf("%d bytes came, not %d", len(c.got), len(want))
		}
	}
}

func (c *collector) ended(t *testing.T) error {
	t.Helper()
	select {
	case err := <-c.over:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the end was not told")
		return nil
	}
}

func TestFeed(t *testing.T) {
	a, b := ends(t)
	f, err := NewFeed(b)
	if err != nil {
		t.Fatal(err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if _, err := a.Write([]byte("there ")); err != nil { // before anybody reads
		t.Fatal(err)
	}
	c := newCollector()
	if err := f.Start([]byte("first "), c.take, c.closed); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write(big); err != nil {
		t.Fatal(err)
	}
	want := append([]byte("first there "), big...)
	c.await(t, want)

	n := 0 // until the socket is full
	for k := 1; k > 0; n += k {
		if k, err = f.TryWrite(big); err != nil {
			t.Fatal(err)
		}
	}
	back := newCollector()
	wrote := make(chan error, 1)
	go func() { wrote <- f.Write([]byte("end"), time.Now().Add(10*time.Second)) }()
	buf := make([]byte, 1<<20)
	for len(back.got) < n+3 {
		k, err := a.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		back.got = append(back.got, buf[:k]...)
	}
	if err := <-wrote; err != nil || !bytes.HasSuffix(back.got, []byte("end")) {
		t.Fatalf("%v, or what was written late is not the end", err)
	}

	f.Close()
	if err := c.ended(t); err != nil {
		t.Errorf("closed with %v", err)
	}
	if _, err := f.TryWrite(big); err == nil {
		t.Error("a closed feed was written to")
	}
}

func TestFeedEnds(t *testing.T) {
	odd := errors.New("odd")
	for name, c := range map[string]struct {
		fail error
		act  func(a net.Conn, f *Feed)
	}{
		"by the peer":               {nil, func(a net.Conn, _ *Feed) { _ = a.Close() }},
		"by what is said":           {odd, func(a net.Conn, _ *Feed) { _, _ = a.Write([]byte("x")) }},
		"by a peer that has spoken": {nil, func(a net.Conn, _ *Feed) { _, _ = a.Write([]byte("x")); _ = a.Close() }},
		"before it starts":          {nil, func(net.Conn, *Feed) {}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := ends(t)
			f, err := NewFeed(b)
			if err != nil {
				t.Fatal(err)
			}
			u := newCollector()
			u.fail = c.fail
			if name == "before it starts" {
				f.Close()
			}
			if err := f.Start(nil, u.take, u.closed); err != nil {
				t.Fatal(err)
			}
			c.act(a, f)
			if err := u.ended(t); !errors.Is(err, c.fail) {
				t.Errorf("ended with %v, not %v", err, c.fail)
			}
			if _, err := a.Read(make([]byte, 1)); err == nil {
				t.Error("the connection is still there")
			}
		})
	}
	t.Run("by what was said before", func(t *testing.T) {
		a, b := ends(t)
		f, err := NewFeed(b)
		if err != nil {
			t.Fatal(err)
		}
		u := newCollector()
		u.fail = odd
		if err := f.Start([]byte("x"), u.take, u.closed); !errors.Is(err, odd) {
			t.Fatalf("%v", err)
		}
		if _, err := a.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
	t.Run("of another kind", func(t *testing.T) {
		a, b := net.Pipe()
		if _, err := NewFeed(a); err == nil {
			t.Error("a pipe was taken")
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("it is still open")
		}
	})
}
