package bench

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/castor-mq/castor/remoting/code"
)

// slot is a place for one request in flight.
type slot struct {
	opaque int32 // of the request in flight; 0 if there is none
	queue  int32
	floor  int64     // the reply's offset is above this: it was acknowledged before the send
	due    time.Time // when the message was to be sent
}

// sendConn is one connection of a send load.
type sendConn struct {
	load   *sendLoad
	index  int
	nc     net.Conn
	in     *frameReader
	frames *frames
	form   replyForm
	times  *timetable
	out    []byte // requests that wait for the write; the sender's

	mu sync.Mutex
	// guarded by mu, because an open loop sends and receives on two goroutines
	slots  []slot
	free   []int32
	acked  []int64     // by queue: the highest offset acknowledged, -1 for none
	seen   []offsetSet // by queue
	left   int64       // messages still to be sent
	queue  int32       // of the next message
	serial int64
	ended  bool // nothing more is sent
	tally

	freed chan struct{} // tells the open loop's writer that a slot has become free
}

func newSendConn(l *sendLoad, index int, nc net.Conn, f *frames) *sendConn {
	c := &sendConn{
		load: l, index: index, nc: nc, in: newFrameReader(nc), frames: f, tally: newTally(),
		slots: make([]slot, l.InFlight), acked: make([]int64, l.Queues), seen: make([]offsetSet, l.Queues),
		left: 1<<63 - 1, queue: int32(index) % l.Queues, freed: make(chan struct{}, 1),
		serial: int64(index) << 34, // connections do not share unique keys
	}
	if l.Messages > 0 {
		c.left = sharePerConn(l.Messages, index, l.Conns)
	}
	for i := range c.slots {
		c.free = append(c.free, int32(i))
	}
	for q := range c.acked {
		c.acked[q] = -1
	}
	return c
}

// run sends until the timetable says stop and waits for the last replies.
func (c *sendConn) run(ctx context.Context, times *timetable) error {
	c.times = times
	if err := c.nc.SetReadDeadline(times.end.Add(drainTime)); err != nil {
		return err
	}
	unblock := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	defer unblock()
	err := error(nil)
	if c.load.Rate > 0 {
		err = c.openLoop(ctx)
	} else {
		err = c.closedLoop()
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *sendConn) closedLoop() error {
	for {
		if err := c.sendFree(); err != nil {
			return err
		}
		if more, err := c.receive(); !more {
			return err
		}
	}
}

// sendFree fills every free slot and sends.
func (c *sendConn) sendFree() error {
	now := c.times.clk.Now()
	for c.prepare(now, now) {
		if c.load.Coalesce {
			continue
		}
		if err := c.write(); err != nil {
			return err
		}
		now = c.times.clk.Now()
	}
	return c.write()
}

// prepare puts the next message into a free slot and its request into out. It returns false if there is no free slot, and if
// the load is over at now.
func (c *sendConn) prepare(due, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || c.times.over(now) {
		c.ended = true
		return false
	}
	if len(c.free) == 0 {
		return false
	}
	i := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	s := &c.slots[i]
	turn := int32(c.serial % ((opaqueMax-opaqueBase)/int64(len(c.slots)) - 1))
	*s = slot{opaque: opaqueBase + turn*int32(len(c.slots)) + i, queue: c.queue, floor: c.acked[c.queue], due: due}
	c.out = c.frames.append(c.out, &outgoing{
		opaque: s.opaque, queue: s.queue, bornMs: now.UnixMilli(), serial: c.serial, stamp: int64(due.Sub(c.times.start)),
	})
	c.serial++
	c.left--
	if c.queue++; c.queue == int32(len(c.acked)) {
		c.queue = 0
	}
	return true
}

func (c *sendConn) write() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.nc.Write(c.out)
	c.out = c.out[:0]
	return err
}

// receive reads once and takes the replies. more is false when the last one has come or is waited for no longer.
func (c *sendConn) receive() (more bool, err error) {
	if c.idle() {
		return false, nil
	}
	if err := c.in.fill(); isTimeout(err) {
		c.giveUp()
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("connection %d: %w", c.index, err)
	}
	now := c.times.clk.Now()
	counts := c.times.measures(now)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		frame, err := c.in.next()
		if err != nil {
			return false, err
		}
		if frame == nil {
			return true, nil
		}
		r, err := c.form.parse(frame)
		if err != nil {
			return false, err
		}
		c.take(&r, now, counts)
	}
}

// take checks one reply and frees its slot.
func (c *sendConn) take(r *sendReply, now time.Time, counts bool) {
	i := int(r.opaque-opaqueBase) % len(c.slots)
	if r.opaque < opaqueBase || c.slots[i].opaque != r.opaque {
		c.violate("a reply with opaque %d, which is not in flight", r.opaque)
		return
	}
	s := c.slots[i]
	c.slots[i].opaque = 0
	c.free = append(c.free, int32(i))
	if r.code != code.Success {
		c.fail(r.code)
		return
	}
	if counts {
		c.count(now.Sub(s.due), now)
	}
	if r.queue != s.queue {
		c.violate("a message for queue %d was stored in queue %d", s.queue, r.queue)
		return
	}
	if r.offset <= s.floor {
		c.violate("queue %d: offset %d was given out after offset %d had been acknowledged", s.queue, r.offset, s.floor)
	}
	if !c.seen[s.queue].add(r.offset) {
		c.violate("queue %d: offset %d was given out twice", s.queue, r.offset)
	}
	c.acked[s.queue] = max(c.acked[s.queue], r.offset)
}

// idle tells whether nothing is in flight and nothing will be.
func (c *sendConn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended && len(c.free) == len(c.slots)
}

// giveUp counts what is still in flight as lost.
func (c *sendConn) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.slots) - len(c.free); n > 0 {
		c.errors[lost] += int64(n)
	}
}
