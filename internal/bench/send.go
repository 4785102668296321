package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/castor-mq/castor/internal/clock"
)

// drainTime is how long replies are waited for after the last send.
const drainTime = 10 * time.Second

// sendLoad describes a load of sends.
type sendLoad struct {
	Topic    string
	Queues   int32
	Size     int // of a body, bytes
	Conns    int
	InFlight int // requests of one connection that wait for their replies
	// Coalesce writes all requests that may be sent at a time with one write instead of one each.
	Coalesce bool
	// Rate makes it an open loop: messages per second of all connections. 0 sends whenever a place is free.
	Rate float64
	// Messages ends the load after as many sends, unless 0.
	Messages int64
	Warmup   time.Duration // sends without measuring
	Duration time.Duration // sends measured, at most
	Pids     []int         // processes whose processor time is measured
	// Cut, if set, ends the sending early when it is closed.
	Cut <-chan struct{}
}

// timetable says when a load starts, when measuring starts, and when nothing more is sent. stop makes the end come early.
type timetable struct {
	clk              clock.Clock
	start, from, end time.Time
	stop             atomic.Bool
}

func newTimetable(clk clock.Clock, warmup, duration time.Duration) *timetable {
	start := clk.Now()
	return &timetable{clk: clk, start: start, from: start.Add(warmup), end: start.Add(warmup + duration)}
}

// over tells whether nothing more is to be sent at now.
func (t *timetable) over(now time.Time) bool { return !now.Before(t.end) || t.stop.Load() }

// covers tells whether now is in the measured time.
func (t *timetable) covers(now time.Time) bool { return !now.Before(t.from) && now.Before(t.end) }

// measures tells whether a reply that came at now, the present, counts.
func (t *timetable) measures(now time.Time) bool { return t.covers(now) && !t.stop.Load() }

// meter waits until measuring starts and reads the processor times; the returned function reads them again and returns the
// measured time and what was spent in it.
func (t *timetable) meter(ctx context.Context, pids []int) (func() (time.Duration, cpuTimes, error), error) {
	if err := sleep(ctx, t.clk, t.from.Sub(t.clk.Now())); err != nil {
		return nil, err
	}
	before, err := readCPU(pids)
	if err != nil {
		return nil, err
	}
	return func() (time.Duration, cpuTimes, error) {
		took := t.clk.Now().Sub(t.from)
		after, err := readCPU(pids)
		return min(took, t.end.Sub(t.from)), after.since(before), err
	}, nil
}

// runSend runs a load against a topic that exists.
func runSend(ctx context.Context, t *target, l *sendLoad) (*Result, error) {
	conns, err := openSend(t, l)
	defer closeSend(conns)
	if err != nil {
		return nil, err
	}
	return driveSend(ctx, conns, l, newTimetable(t.clk, l.Warmup, l.Duration))
}

// openSend connects. The caller closes, also after an error.
func openSend(t *target, l *sendLoad) ([]*sendConn, error) {
	f, err := newFrames(l.Topic, t.name, l.Queues, l.Size)
	if err != nil {
		return nil, err
	}
	var conns []*sendConn
	for i := range l.Conns {
		nc, err := net.Dial("tcp", t.addr)
		if err != nil {
			return conns, err
		}
		conns = append(conns, newSendConn(l, i, nc, f))
	}
	return conns, nil
}

func closeSend(conns []*sendConn) {
	for _, c := range conns {
		_ = c.nc.Close() // nothing is left to be lost
	}
}

// driveSend runs a load by a timetable.
func driveSend(ctx context.Context, conns []*sendConn, l *sendLoad, times *timetable) (*Result, error) {
	g, gctx := errgroup.WithContext(ctx)
	for _, c := range conns {
		g.Go(func() error { return c.run(gctx, times) })
	}
	took, spent, err := supervise(gctx, times, l, g)
	if err != nil {
		return nil, err
	}
	total := newTally()
	for _, c := range conns {
		total.add(&c.tally)
	}
	checkOffsets(&total, conns)
	return total.result(took, spent), nil
}

// supervise measures while the connections of g send and waits for their end.
func supervise(ctx context.Context, times *timetable, l *sendLoad, g *errgroup.Group) (time.Duration, cpuTimes, error) {
	done := make(chan error, 1)
	read, err := times.meter(ctx, l.Pids)
	if err != nil {
		times.stop.Store(true)
		if broken := g.Wait(); broken != nil {
			err = broken // why ctx has ended
		}
		return 0, cpuTimes{}, err
	}
	go func() { done <- g.Wait() }()
	timer := times.clk.NewTimer(times.end.Sub(times.clk.Now()))
	defer timer.Stop()
	var ended error
	finished := false
	select {
	case <-timer.C:
	case <-l.Cut:
	case ended = <-done:
		finished = true
	}
	times.stop.Store(true)
	took, spent, err := read()
	if !finished {
		ended = <-done
	}
	return took, spent, errors.Join(ended, err)
}

// checkOffsets checks the acknowledged offsets of all connections together.
func checkOffsets(total *tally, conns []*sendConn) {
	for q := range conns[0].seen {
		var all offsetSet
		for _, c := range conns {
			if twice := all.merge(&c.seen[q]); twice > 0 {
				total.violate("%d offsets of queue %d were acknowledged on two connections", twice, q)
			}
		}
		if gaps := all.gaps(); gaps > 0 && len(total.errors) == 0 {
			total.violate("queue %d has %d gaps between acknowledged offsets although no send failed", q, gaps)
		}
	}
}

// isTimeout tells whether a read ended by its deadline.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// sharePerConn returns the messages that connection i of n sends.
func sharePerConn(messages int64, i, n int) int64 {
	share := messages / int64(n)
	if int64(i) < messages%int64(n) {
		share++
	}
	return share
}

func (l *sendLoad) check() error {
	for _, c := range []struct {
		bad  bool
		text string
	}{
		{l.Topic == "", "a topic is needed: -t TOPIC"},
		{l.Queues < 1 || l.Queues >= maxQueues, fmt.Sprintf("--queues is from 1 to %d", maxQueues-1)},
		{l.Size < minBody || l.Size > maxBody, fmt.Sprintf("--size is from %d to %d", minBody, maxBody)},
		{l.Conns < 1 || l.Conns > 10_000, "--conns is from 1 to 10000"},
		{l.InFlight < 1 || l.InFlight > 65_536, "--inflight is from 1 to 65536"},
		{l.Rate < 0, "--rate is not negative"},
		{l.Messages < 0, "--messages is not negative"},
		{l.Messages > 0 && l.Warmup > 0, "--messages are all measured: leave out --warmup"},
		{l.Duration <= 0 || l.Warmup < 0, "--seconds is positive and --warmup is not negative"},
	} {
		if c.bad {
			return errors.New(c.text)
		}
	}
	return nil
}
