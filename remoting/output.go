package remoting

import (
	"fmt"
	"sync"
	"time"

	"github.com/castor-mq/castor/remoting/header"
)

// Limits of what a connection has to send.
const (
	// highWater is how much output is collected before it is sent in the middle of a burst. If the peer does not take it, no
	// more of its requests are served until it does.
	highWater = 256 << 10
	// maxPending is how many bytes a peer may leave unread before its connection is closed. Answers to parked requests and
	// requests of our own can exceed highWater.
	maxPending = 64 << 20
	// sendTimeout bounds the time in which a slow peer must take sendChunk bytes.
	sendTimeout = 30 * time.Second
	sendChunk   = 256 << 10
	// keepBuffer is the largest buffer that goes back to the pool.
	keepBuffer = 2 * highWater
)

// transport is the byte stream under a Conn.
type transport interface {
	// trySend writes what fits without blocking. n < len(p) with a nil error means that the peer is slow.
	trySend(p []byte) (n int, err error)
	// send writes all of p, blocking at most until the deadline. It is not called during trySend, nor the other way round.
	send(p []byte, deadline time.Time) error
	// close ends the stream; the reader then calls Conn.onClosed.
	close()
	// abort is close by reset: what is not sent yet is dropped, and a peer that only writes learns of the end, too. After an
	// orderly end such a peer can wait for room for a minute, and the kernel keeps what it has sent for as long.
	abort()
}

var outputs = sync.Pool{New: func() any { return &header.Writer{Buf: make([]byte, 0, 16<<10)} }}

// putOutput gives up a buffer of output.
func (c *Conn) putOutput(w *header.Writer) {
	if w == nil {
		return
	}
	c.keepOut(-over(len(w.Buf)))
	if cap(w.Buf) <= keepBuffer {
		w.Buf = w.Buf[:0]
		outputs.Put(w)
	}
}

// enqueue collects one frame without sending it. The body is b followed by more, which may be nil.
func (c *Conn) enqueue(cmd *Command, h header.Appender, b []byte, more Body) error {
	pending, err := c.collect(cmd, h, b, more)
	return c.limit(pending, err)
}

func (c *Conn) collect(cmd *Command, h header.Appender, b []byte, more Body) (pending int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock() // h and more are the handler's code and may panic
	if c.closed {
		return 0, ErrClosed
	}
	return c.appendLocked(cmd, h, b, more)
}

// limit closes the connection when too much is pending.
func (c *Conn) limit(pending int, err error) error {
	if pending <= c.maxPending {
		return err
	}
	c.tr.abort()
	return fmt.Errorf("%w: the peer left %d bytes unread", ErrClosed, pending)
}

// appendLocked appends one frame to the output and returns how much is pending. If the frame is too large or its body panics
// the output is as before.
func (c *Conn) appendLocked(cmd *Command, h header.Appender, b []byte, more Body) (pending int, err error) {
	if c.out == nil {
		c.out = outputs.Get().(*header.Writer)
	}
	w := c.out
	start, whole := len(w.Buf), false
	defer func() {
		if !whole {
			w.Buf = w.Buf[:start]
		}
	}()
	size := len(b)
	if more != nil {
		size += more.Len()
	}
	appendHead(w, cmd, h, size)
	head := len(w.Buf)
	if n := head - start + size; n > MaxFrame {
		return start, fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	w.Buf = append(w.Buf, b...)
	if more != nil {
		w.Buf = more.AppendTo(w.Buf)
	}
	if len(w.Buf)-head != size {
		panic(fmt.Sprintf("remoting: a body of %d bytes appended %d", size, len(w.Buf)-head))
	}
	whole = true
	c.keepOut(over(len(w.Buf)) - over(start))
	if len(w.Buf) >= highWater && !c.full.Load() {
		c.full.Store(true)
	}
	return len(w.Buf), nil
}

// Flush sends what is pending. It never blocks: what a slow peer does not take at once is sent by a goroutine of its own.
// While the reader serves a burst of requests it does nothing, because the reader flushes at the end.
func (c *Conn) Flush() {
	c.mu.Lock()
	if c.burst {
		c.mu.Unlock()
		return
	}
	c.flushLocked()
}

// flushLocked sends what is pending unless somebody else is at it. It unlocks c.mu.
func (c *Conn) flushLocked() {
	if c.sending || c.closed || c.out == nil {
		c.mu.Unlock()
		return
	}
	c.sending = true
	for c.out != nil && !c.closed {
		w := c.takeLocked()
		c.mu.Unlock()
		n, err := c.tr.trySend(w.Buf)
		if err == nil && n < len(w.Buf) {
			c.startDrain(w, n)
			return
		}
		c.putOutput(w)
		if err != nil {
			c.Close() // sending stays true: nothing more can be sent
			return
		}
		c.mu.Lock()
	}
	c.sending = false
	c.mu.Unlock()
}

func (c *Conn) takeLocked() *header.Writer {
	w := c.out
	c.out = nil
	c.full.Store(false)
	return w
}

// pause sends in the middle of a burst. It reports whether the rest of the burst must wait because the peer does not read.
func (c *Conn) pause() bool {
	c.mu.Lock()
	if !c.slow {
		c.flushLocked()
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	c.held = c.slow && c.full.Load()
	return c.held
}

// waitUntilRead has again called, and returns true, if the peer has so much unread that it is to be served no more until it reads.
// The connection's end counts as reading.
func (c *Conn) waitUntilRead(again func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := c.slow && c.full.Load() && !c.closed
	if wait {
		c.onRead = append(c.onRead, again)
	}
	return wait
}

// hasRead lets those go on who wait in waitUntilRead.
func (c *Conn) hasRead() {
	c.mu.Lock()
	waiting := c.onRead
	c.onRead = nil
	c.mu.Unlock()
	for _, again := range waiting {
		again()
	}
}

// startDrain hands w.Buf[n:] to a goroutine that blocks. c.sending is set.
func (c *Conn) startDrain(w *header.Writer, n int) {
	c.mu.Lock()
	if c.closed { // the owner may have stopped waiting
		c.mu.Unlock()
		c.putOutput(w)
		return
	}
	c.slow = true
	c.senders.Add(1)
	c.mu.Unlock()
	go c.drain(w, n)
}

// drain sends w.Buf[n:] and all that is collected meanwhile, and then serves what was held.
func (c *Conn) drain(w *header.Writer, n int) {
	defer c.senders.Done()
	defer c.hasRead()
	for {
		err := c.sendAll(w.Buf[n:])
		c.putOutput(w)
		if err != nil {
			c.tr.abort()
			return
		}
		c.mu.Lock()
		if c.closed || c.out == nil {
			break
		}
		w, n = c.takeLocked(), 0
		c.mu.Unlock()
		c.hasRead()
	}
	c.sending, c.slow = false, false
	held := c.held
	c.mu.Unlock()
	if held && c.resume() != nil {
		c.tr.abort()
	}
}

func (c *Conn) sendAll(p []byte) error {
	for len(p) > 0 {
		n := min(sendChunk, len(p))
		if err := c.tr.send(p[:n], time.Now().Add(c.sendTimeout)); err != nil {
			return err
		}
		c.touch()
		p = p[n:]
	}
	return nil
}
