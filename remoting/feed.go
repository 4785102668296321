package remoting

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Feed is a connection of another protocol that is read as those of a Server are: by a poller, without a goroutine that waits for it.
type Feed struct {
	tr     transport
	begin  func() error
	drop   func() // instead of begin
	take   func(b []byte) error
	closed func(err error)
	once   sync.Once
	last   atomic.Int64 // nowMs
}

// TryWriter is a connection, not of TCP, that can be written to without waiting. It is read by a goroutine.
type TryWriter interface {
	net.Conn
	// TryWrite writes what fits: n < len(p) without an error says that no more does now.
	TryWrite(p []byte) (n int, err error)
}

// NewFeed takes over nc, a TCP connection or a TryWriter; nothing is read before Start. After an error nc is closed.
func NewFeed(nc net.Conn) (*Feed, error) {
	f := new(Feed)
	switch nc := nc.(type) {
	case *net.TCPConn:
		fd, err := takeFD(nc)
		if err != nil {
			_ = nc.Close()
			return nil, err
		}
		p := &polled{fd: fd}
		f.tr, f.drop = p, p.drop
		f.begin = func() error { return p.start(f, f.end, func() { f.end(nil) }) }
	case TryWriter:
		_ = nc.SetDeadline(time.Time{}) // polled ones have none
		t := trying{&stream{nc: nc}, nc}
		f.tr, f.drop = t, t.close
		f.begin = func() error {
			go f.read(nc)
			return nil
		}
	default:
		_ = nc.Close()
		return nil, fmt.Errorf("remoting: %T cannot be written to without waiting", nc)
	}
	return f, nil
}

// Start gives take what was read before, and then begins to read. take is given what arrives, in order and one piece after the other, from
// the calling goroutine or another one, perhaps before Start returns; it keeps nothing of b, must not block, and ends the connection by an
// error. closed is called once when the connection has ended, with the error of take, if any, and take not after it. After an error of Start
// the connection is closed, and closed not called.
func (f *Feed) Start(before []byte, take func(b []byte) error, closed func(err error)) error {
	f.take, f.closed = take, closed
	if len(before) > 0 {
		if err := take(before); err != nil {
			f.drop()
			return err
		}
	}
	return f.begin()
}

// TryWrite writes what the connection takes at once: n < len(b) without an error says that it takes no more now. One call at a time, and
// none during Write. It needs no Start.
func (f *Feed) TryWrite(b []byte) (n int, err error) { return f.tr.trySend(b) }

// Write writes all of b, and closes the connection if that takes longer than until the deadline. Call it after Start.
func (f *Feed) Write(b []byte, deadline time.Time) error { return f.tr.send(b, deadline) }

// Close ends the connection. It does not wait: take may be running, or run again. Before Start it only has the connection end at Start.
func (f *Feed) Close() { f.tr.close() }

func (f *Feed) onData(b []byte) error {
	f.last.Store(nowMs())
	return f.take(b)
}

func (f *Feed) incomplete() bool { return false }
func (f *Feed) since() int64     { return f.last.Load() }

func (f *Feed) end(err error) { f.once.Do(func() { f.closed(err) }) }

func (f *Feed) read(nc net.Conn) {
	buf := make([]byte, readBufferMax)
	for {
		n, err := nc.Read(buf)
		if n > 0 {
			if err := f.onData(buf[:n]); err != nil {
				f.end(err)
				break
			}
		}
		if err != nil {
			break
		}
	}
	_ = nc.Close()
	f.end(nil)
}

// trying is the transport over a TryWriter.
type trying struct {
	*stream
	w TryWriter
}

func (t trying) trySend(p []byte) (int, error) { return t.w.TryWrite(p) }
