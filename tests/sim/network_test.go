package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// controllersAt is the place of the controllers in the network; machines are 1 to 3.
const controllersAt = 0

// network carries bytes between machines. Time is virtual; everything is under mu, which nobody holds while waiting.
type network struct {
	mu        sync.Mutex
	rng       *rand.Rand
	cut       map[[2]int64]bool // from, to: nothing passes
	frozen    map[int64]bool    // the machine's process is stopped
	slow      map[[2]int64]time.Duration
	listeners map[int64]*listener
	conns     map[*end]bool
	wake      chan struct{} // closed at each change of cut or frozen
	window    int           // bytes under way before a writer waits
}

func newNetwork(rng *rand.Rand) *network {
	return &network{rng: rng, cut: map[[2]int64]bool{}, frozen: map[int64]bool{}, slow: map[[2]int64]time.Duration{}, listeners: map[int64]*listener{},
		conns: map[*end]bool{}, wake: make(chan struct{}), window: 64<<10 + rng.IntN(1<<20)}
}

// change runs f and wakes everybody.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.wake)
	n.wake = make(chan struct{})
	for e := range n.conns {
		e.stir()
	}
}

// open waits until neither the machine is frozen nor, with to, the way is cut.
func (n *network) open(ctx context.Context, at int64, ways ...[2]int64) error {
	for {
		n.mu.Lock()
		wake, ok := n.wake, !n.frozen[at]
		for _, w := range ways {
			ok = ok && !n.cut[w]
		}
		n.mu.Unlock()
		if ok {
			return ctx.Err()
		}
		select {
		case <-wake:
		case <-ctx.Done():
			n.thawed(at)
			return ctx.Err()
		}
	}
}

// thawed waits until the machine is not frozen.
func (n *network) thawed(at int64) {
	for {
		n.mu.Lock()
		wake, ok := n.wake, !n.frozen[at]
		n.mu.Unlock()
		if ok {
			return
		}
		<-wake
	}
}

func (n *network) delayLocked(from, to int64) time.Duration {
	return 50*time.Microsecond + time.Duration(n.rng.Int64N(int64(time.Millisecond))) + n.slow[[2]int64{from, to}]
}

// chance is true once in that many times.
func (n *network) chance(times int) bool { return n.upTo(times-1) == 0 }

// upTo is a number from 0 to most.
func (n *network) upTo(most int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.IntN(most + 1)
}

// pause waits as long as a message takes from one place to another.
func (n *network) pause(from, to int64) {
	n.mu.Lock()
	d := n.delayLocked(from, to)
	n.mu.Unlock()
	time.Sleep(d)
}

type address int64

func (a address) Network() string { return "sim" }
func (a address) String() string  { return fmt.Sprintf("r%d", int64(a)) }

// listener is a machine's replication port.
type listener struct {
	n      *network
	at     int64
	queue  []*end
	closed bool
}

func (n *network) listen(at int64) *listener {
	l := &listener{n: n, at: at}
	n.mu.Lock()
	n.listeners[at] = l
	n.mu.Unlock()
	return l
}

func (l *listener) Addr() net.Addr { return address(l.at) }

func (l *listener) Close() error {
	l.n.change(func() {
		l.closed = true
		if l.n.listeners[l.at] == l {
			delete(l.n.listeners, l.at)
		}
		for _, e := range l.queue {
			e.resetLocked()
		}
		l.queue = nil
	})
	return nil
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		l.n.mu.Lock()
		wake := l.n.wake
		switch {
		case l.closed:
			l.n.mu.Unlock()
			return nil, net.ErrClosed
		case len(l.queue) > 0 && !l.n.frozen[l.at]:
			e := l.queue[0]
			l.queue = l.queue[1:]
			l.n.mu.Unlock()
			return e, nil
		}
		l.n.mu.Unlock()
		<-wake
	}
}

func (n *network) dial(ctx context.Context, from, to int64) (net.Conn, error) {
	if err := n.open(ctx, from, [2]int64{from, to}, [2]int64{to, from}); err != nil {
		return nil, err
	}
	n.pause(from, to)
	n.mu.Lock()
	l := n.listeners[to]
	if l == nil {
		n.mu.Unlock()
		return nil, syscall.ECONNREFUSED
	}
	a, b := &end{n: n, at: from, other: to, wake: make(chan struct{})}, &end{n: n, at: to, other: from, wake: make(chan struct{})}
	a.peer, b.peer = b, a
	n.conns[a], n.conns[b] = true, true
	l.queue = append(l.queue, b)
	n.mu.Unlock()
	n.change(func() {})
	return a, nil
}

// kill ends all connections of a machine. The others hear of it unless the way to them is cut.
func (n *network) kill(at int64) {
	n.change(func() {
		if l := n.listeners[at]; l != nil {
			l.closed = true
			delete(n.listeners, at)
		}
		for e := range n.conns {
			if e.at == at {
				e.resetLocked()
			}
		}
	})
}

// breakOne resets a connection between two machines, or makes it half-open: what is sent vanishes.
func (n *network) breakOne(a, b int64, half bool) {
	n.change(func() {
		for e := range n.conns {
			if e.at == a && e.other == b {
				if half {
					e.deaf, e.peer.deaf = true, true
				} else {
					e.resetLocked()
				}
			}
		}
	})
}

type chunk struct {
	at time.Time
	b  []byte // nil: the other end has closed
}

// end is one end of a connection. It holds what is under way to it.
type end struct {
	n         *network
	peer      *end
	at, other int64
	in        []chunk
	size      int  // of in
	deaf      bool // what is sent to it vanishes
	closed    bool
	reset     bool // by the other end, or the network
	rd, wd    time.Time
	wake      chan struct{}
}

func (e *end) stir() {
	close(e.wake)
	e.wake = make(chan struct{})
}

// resetLocked ends both ends; the other one learns of it unless the way is cut: then it is half-open.
func (e *end) resetLocked() {
	e.closed = true
	delete(e.n.conns, e)
	e.stir()
	if p := e.peer; !p.closed {
		if e.n.cut[[2]int64{e.at, e.other}] {
			p.deaf = true
		} else {
			p.reset = true
		}
		p.stir()
	}
}

func (e *end) LocalAddr() net.Addr  { return address(e.at) }
func (e *end) RemoteAddr() net.Addr { return address(e.other) }

func (e *end) Close() error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	e.closed = true
	delete(e.n.conns, e)
	e.sendLocked(nil)
	e.peer.stir()
	e.stir()
	return nil
}

func (e *end) sendLocked(b []byte) {
	p := e.peer
	if p.deaf || p.closed {
		return
	}
	at := time.Now().Add(e.n.delayLocked(e.at, e.other))
	if k := len(p.in); k > 0 && at.Before(p.in[k-1].at) {
		at = p.in[k-1].at
	}
	p.in = append(p.in, chunk{at, b})
	p.size += len(b)
	p.stir()
}

var errReset = errors.New("connection reset")

func (e *end) Read(p []byte) (int, error) {
	for {
		e.n.mu.Lock()
		now, wake, until := time.Now(), e.wake, time.Time{}
		frozen, cut := e.n.frozen[e.at], e.n.cut[[2]int64{e.other, e.at}]
		if e.closed {
			e.n.mu.Unlock()
			return 0, net.ErrClosed
		}
		if !frozen {
			if n, err := e.readLocked(p, now, cut); n > 0 || err != nil {
				e.n.mu.Unlock()
				return n, err
			}
			until = e.rd
			if len(e.in) > 0 && !cut && (until.IsZero() || e.in[0].at.Before(until)) {
				until = e.in[0].at
			}
		}
		e.n.mu.Unlock()
		await(wake, until)
	}
}

func (e *end) readLocked(p []byte, now time.Time, cut bool) (int, error) {
	switch {
	case len(e.in) > 0 && !cut && !e.in[0].at.After(now):
		if e.in[0].b == nil {
			return 0, io.EOF
		}
		n := copy(p, e.in[0].b)
		e.size -= n
		if e.in[0].b = e.in[0].b[n:]; len(e.in[0].b) == 0 {
			e.in = e.in[1:]
		}
		e.peer.stir()
		return n, nil
	case e.reset:
		return 0, errReset
	case !e.rd.IsZero() && !now.Before(e.rd):
		return 0, os.ErrDeadlineExceeded
	}
	return 0, nil
}

func (e *end) Write(p []byte) (int, error) {
	for {
		n, wake, until, err := e.write(p)
		if n > 0 || err != nil {
			return n, err
		}
		await(wake, until)
	}
}

// TryWrite is Write without waiting (remoting.TryWriter). Like a socket's it may take a part.
func (e *end) TryWrite(p []byte) (int, error) {
	if len(p) > 64 && e.n.chance(20) {
		p = p[:e.n.upTo(len(p))]
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, _, _, err := e.write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	}
	return n, err
}

// write sends p, or tells what to wait for, and until when at most.
func (e *end) write(p []byte) (n int, wake chan struct{}, until time.Time, err error) {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	switch {
	case e.closed:
		err = net.ErrClosed
	case e.n.frozen[e.at]:
	case e.reset, e.peer.closed && !e.n.cut[[2]int64{e.at, e.other}]:
		err = errReset
	case !e.wd.IsZero() && !time.Now().Before(e.wd):
		err = os.ErrDeadlineExceeded
	case e.peer.size < e.n.window:
		e.sendLocked(append([]byte{}, p...))
		n = len(p)
	default:
		until = e.wd
	}
	return n, e.wake, until, err
}

func await(wake chan struct{}, until time.Time) {
	if until.IsZero() {
		<-wake
		return
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	}
}

func (e *end) SetDeadline(t time.Time) error {
	return errors.Join(e.SetReadDeadline(t), e.SetWriteDeadline(t))
}

func (e *end) SetReadDeadline(t time.Time) error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	e.rd = t
	e.stir()
	return nil
}

func (e *end) SetWriteDeadline(t time.Time) error {
	e.n.mu.Lock()
	defer e.n.mu.Unlock()
	e.wd = t
	e.stir()
	return nil
}
