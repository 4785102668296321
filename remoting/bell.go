package remoting

import (
	"context"
	"sync/atomic"

	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"
)

// bell has a poller call a function when it has been through the events that it has got already.
type bell struct {
	fd   int // of a pair of sockets; the poller reads the other one
	rung atomic.Bool
}

// newBell returns a bell that has f called. f must not block.
func newBell(f func()) (*bell, error) {
	if err := startPollers(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, err
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true)
	}
	b := &bell{fd: pair[0]}
	conn, err := netpoll.NewFDConnection(pair[1]) // an error has closed it
	if err != nil {
		_ = unix.Close(pair[0])
		return nil, err
	}
	return b, conn.SetOnRequest(func(context.Context, netpoll.Connection) error {
		r := conn.Reader()
		_ = r.Skip(r.Len())
		_ = r.Release()
		b.rung.Store(false)
		f()
		return nil
	})
}

// ring has f called once, from now on.
func (b *bell) ring() {
	if !b.rung.Swap(true) {
		_, _ = unix.Write(b.fd, []byte{1}) // there is room: what it holds was read before the next ring
	}
}

// close ends the bell. Nobody may ring it any more.
func (b *bell) close() { _ = unix.Close(b.fd) }
