package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// Bits of a pull's sysFlag (PullSysFlag).
	pullSuspend      = 2
	pullSubscription = 4
	// suspendTime is how long a broker may hold a long poll; official push consumers ask for as much.
	suspendTime = 15 * time.Second
)

// pullLoad describes a load of pulls: every queue has one request in flight, on one of the connections.
type pullLoad struct {
	Topic  string
	Queues []queueBounds // what to read, by queue id
	Conns  int
	Batch  int32 // messages per request
	// Suspend makes the pulls long polls, which wait for messages at the end of a queue.
	Suspend bool
	// Again starts a queue over when it has been read to its end; otherwise its end is the end of its pulls.
	Again bool
	// Each, if set, is called with every record and the time it came. The connection's goroutine calls it.
	Each func(v *message.View, now time.Time)
}

// stream is the reading of one queue. It has one request in flight.
type stream struct {
	queue  int32
	bounds queueBounds
	next   int64 // the offset asked for
	phy    int64 // log offset of the last record, -1 for none
	asked  time.Time
}

// pullConn is one connection of a pull load.
type pullConn struct {
	load    *pullLoad
	times   *timetable
	nc      net.Conn
	in      *frameReader
	broker  string
	streams []*stream
	waiting int // streams with a request in flight
	out     []byte
	cmd     remoting.Command
	view    message.View
	bytes   int64
	tally
}

// pullers runs the connections of a pull load.
type pullers struct {
	conns []*pullConn
	group *errgroup.Group
	ended chan struct{} // closed when every connection has ended
	stop  *atomic.Bool
}

// startPull connects and starts to pull. The caller calls finish.
func startPull(ctx context.Context, t *target, l *pullLoad, times *timetable) (*pullers, error) {
	p := &pullers{ended: make(chan struct{}), stop: &times.stop}
	for i := range min(l.Conns, len(l.Queues)) {
		nc, err := net.Dial("tcp", t.addr)
		if err != nil {
			p.close()
			return nil, err
		}
		c := &pullConn{load: l, times: times, nc: nc, in: newFrameReader(nc), broker: t.name, tally: newTally()}
		for q := i; q < len(l.Queues); q += l.Conns {
			b := l.Queues[q]
			c.streams = append(c.streams, &stream{queue: int32(q), bounds: b, next: b.first, phy: -1})
		}
		p.conns = append(p.conns, c)
	}
	var gctx context.Context
	p.group, gctx = errgroup.WithContext(ctx)
	for _, c := range p.conns {
		p.group.Go(func() error { return c.run(gctx) })
	}
	go func() {
		_ = p.group.Wait() // finish returns the error
		close(p.ended)
	}()
	return p, nil
}

// finish ends the pulls, long polls at once, and returns what all connections saw.
func (p *pullers) finish() (*tally, int64, error) {
	p.stop.Store(true)
	for _, c := range p.conns {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, which wakes the reader too
	}
	<-p.ended
	p.close()
	total, bytes := newTally(), int64(0)
	for _, c := range p.conns {
		total.add(&c.tally)
		bytes += c.bytes
	}
	return &total, bytes, p.group.Wait()
}

func (p *pullers) close() {
	for _, c := range p.conns {
		_ = c.nc.Close() // nothing is left to be lost
	}
}

// run pulls until the timetable's end, or until every queue has been read.
func (c *pullConn) run(ctx context.Context) error {
	unblock := context.AfterFunc(ctx, func() { _ = c.nc.Close() })
	defer unblock()
	for i := range c.streams {
		c.ask(i)
	}
	for c.waiting > 0 {
		if len(c.out) > 0 {
			if _, err := c.nc.Write(c.out); err != nil {
				return err
			}
			c.out = c.out[:0]
		}
		if err := c.in.fill(); isTimeout(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("pull connection: %w", err)
		}
		if err := c.receive(); err != nil {
			return err
		}
	}
	return nil
}

func (c *pullConn) receive() error {
	now := c.times.clk.Now()
	for {
		frame, err := c.in.next()
		if frame == nil {
			return err
		}
		if err := c.cmd.Parse(frame); err != nil {
			return err
		}
		i := int(c.cmd.Opaque - opaqueBase)
		if !c.cmd.IsResponse() || i < 0 || i >= len(c.streams) {
			return fmt.Errorf("%w: opaque %d is not in flight", errReply, c.cmd.Opaque)
		}
		c.waiting--
		s := c.streams[i]
		if err := c.take(s, now); err != nil {
			return fmt.Errorf("pull of queue %d from offset %d: %w", s.queue, s.next, err)
		}
		if s.next >= s.bounds.next && c.load.Again {
			s.next, s.phy = s.bounds.first, -1
		}
		if (s.next < s.bounds.next || c.load.Suspend) && !c.times.over(now) {
			c.ask(i)
		}
	}
}

// ask puts the next request of a stream into out.
func (c *pullConn) ask(i int) {
	s := c.streams[i]
	h := header.PullMessageRequest{
		ConsumerGroup: group, Topic: c.load.Topic, QueueID: s.queue, QueueOffset: s.next, MaxMsgNums: c.load.Batch,
		SysFlag: pullSubscription, Subscription: "*", ExpressionType: "TAG",
		TopicRequest: header.TopicRequest{RpcRequest: header.RpcRequest{BName: c.broker}},
	}
	if c.load.Suspend {
		h.SysFlag |= pullSuspend
		h.SuspendTimeoutMillis = suspendTime.Milliseconds()
	}
	cmd := remoting.Command{Code: int32(code.PullMessage), Opaque: int32(opaqueBase + i), Enc: header.JSON}
	c.out = remoting.AppendCommand(c.out, &cmd, &h, nil)
	s.asked = c.times.clk.Now()
	c.waiting++
}

// take checks one reply and moves its stream on.
func (c *pullConn) take(s *stream, now time.Time) error {
	var h header.PullMessageResponse
	if err := c.cmd.Decode(&h); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	switch rc := code.Response(c.cmd.Code); rc {
	case code.Success:
	case code.PullNotFound, code.PullRetryImmediately:
		if h.NextBeginOffset != s.next {
			c.violate("queue %d: nothing found at offset %d, but sent on to %d", s.queue, s.next, h.NextBeginOffset)
		}
		return nil
	default:
		return code.New(rc, "%s", c.cmd.Remark)
	}
	rest := c.cmd.Body
	if len(rest) == 0 {
		return errors.New("found, but no message came")
	}
	counts := c.times.measures(now)
	for len(rest) > 0 {
		if err := c.view.Parse(rest); err != nil {
			return err
		}
		c.checkRecord(s)
		rest = rest[c.view.Size():]
		if counts {
			c.count(now.Sub(s.asked), now)
		}
		if c.load.Each != nil {
			c.load.Each(&c.view, now)
		}
	}
	c.bytes += int64(len(c.cmd.Body))
	if h.NextBeginOffset != s.next {
		c.violate("queue %d: messages up to offset %d, but sent on to %d", s.queue, s.next-1, h.NextBeginOffset)
		s.next = h.NextBeginOffset
	}
	return nil
}

// checkRecord checks the record under the view, which is the next one of its stream.
func (c *pullConn) checkRecord(s *stream) {
	v := &c.view
	phy := v.PhyOffset()
	if err := v.Verify(phy); err != nil {
		c.violate("queue %d offset %d: %v", s.queue, s.next, err)
	}
	if v.QueueOffset() != s.next || v.QueueID() != s.queue || string(v.Topic()) != c.load.Topic {
		c.violate("offset %d of queue %d of %s came where offset %d of queue %d of %s was due",
			v.QueueOffset(), v.QueueID(), v.Topic(), s.next, s.queue, c.load.Topic)
	}
	if phy <= s.phy {
		c.violate("queue %d offset %d: log offset %d after %d", s.queue, s.next, phy, s.phy)
	}
	s.phy = phy
	s.next++
}

// stampOf returns when a message of a send load was due, since the load began.
func stampOf(v *message.View) time.Duration {
	if len(v.Body()) < minBody {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint64(v.Body()))
}

// runPull pulls everything again and again for the given time.
func runPull(ctx context.Context, t *target, l *pullLoad, warmup, duration time.Duration, pids []int) (*Result, error) {
	times := newTimetable(t.clk, warmup, duration)
	p, err := startPull(ctx, t, l, times)
	if err != nil {
		return nil, err
	}
	took, spent, err := p.measure(ctx, times, pids)
	total, _, broken := p.finish()
	if err := errors.Join(broken, err); err != nil {
		return nil, err
	}
	return total.result(took, spent), nil
}

// measure waits for the end of the load and measures from the time the timetable says.
func (p *pullers) measure(ctx context.Context, times *timetable, pids []int) (time.Duration, cpuTimes, error) {
	read, err := times.meter(ctx, pids)
	if err != nil {
		return 0, cpuTimes{}, err
	}
	timer := times.clk.NewTimer(times.end.Sub(times.clk.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
	case <-ctx.Done():
	}
	times.stop.Store(true)
	return read()
}
