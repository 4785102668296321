package bench

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
)

// openLoop sends on time, whatever the replies do. A message that finds every slot taken is sent as soon as one is free, and
// its latency counts from the time it was due: slowness cannot hide by slowing the load down.
func (c *sendConn) openLoop(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.sendOnTime(ctx) })
	g.Go(func() error {
		defer close(c.freed)
		for {
			more, err := c.receive()
			if !more {
				return err
			}
			select {
			case c.freed <- struct{}{}:
			default:
			}
		}
	})
	return g.Wait()
}

// sendOnTime sends message k of this connection at start + (k × connections + index) / rate.
func (c *sendConn) sendOnTime(ctx context.Context) error {
	step := float64(time.Second) / c.load.Rate
	for k := 0; ; {
		due := c.times.start.Add(time.Duration(step * (float64(k)*float64(c.load.Conns) + float64(c.index))))
		now := c.times.clk.Now()
		if due.After(now) && !c.times.over(now) {
			if err := c.write(); err != nil {
				return err
			}
			if err := pace(ctx, c.times.clk, min(due.Sub(now), c.times.end.Sub(now))); err != nil {
				return err
			}
			continue
		}
		if c.prepare(due, now) {
			k++
			if c.load.Coalesce {
				continue
			}
		} else if c.finished() {
			return c.finish()
		} else if err := c.awaitSlot(ctx); err != nil {
			return err
		}
		if err := c.write(); err != nil {
			return err
		}
	}
}

// pace sleeps d to within some 50 µs. Timers of the runtime are late by up to 1 ms, which would count as the broker's.
func pace(ctx context.Context, clk clock.Clock, d time.Duration) error {
	const late = time.Millisecond
	if d > 2*late {
		return sleep(ctx, clk, d-late)
	}
	left := unix.NsecToTimeval(d.Nanoseconds())
	_, _ = unix.Select(0, nil, nil, nil, &left) // a signal may cut it short; the caller looks at the clock again
	return ctx.Err()
}

// awaitSlot sends what is ready and waits for the reader to free a slot.
func (c *sendConn) awaitSlot(ctx context.Context) error {
	if err := c.write(); err != nil {
		return err
	}
	select {
	case <-c.freed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *sendConn) finished() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// finish sends what is ready and, if no reply is to come, wakes the reader, which waits for one.
func (c *sendConn) finish() error {
	if err := c.write(); err != nil {
		return err
	}
	if c.idle() {
		return c.nc.SetReadDeadline(c.times.start)
	}
	return nil
}
