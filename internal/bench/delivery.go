package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/message"
)

// delivered collects what a long-polling consumer sees of a send load.
type delivered struct {
	latency tally
	count   atomic.Int64
}

// runLatency sends at a low rate to one queue and measures the time from when a message is due to when a long-polling
// consumer has it.
func runLatency(ctx context.Context, t *target, l *sendLoad) (*Result, error) {
	conns, err := openSend(t, l)
	defer closeSend(conns)
	if err != nil {
		return nil, err
	}
	_, next, err := t.bounds(ctx, l.Topic, 0)
	if err != nil {
		return nil, err
	}
	d := delivered{latency: newTally()}
	sending := newTimetable(t.clk, l.Warmup, l.Duration)
	pull := &pullLoad{
		Topic: l.Topic, Queues: []queueBounds{{next, next}}, Conns: 1, Batch: 32, Suspend: true,
		Each: func(v *message.View, now time.Time) {
			if due := sending.start.Add(stampOf(v)); sending.covers(due) {
				d.latency.count(now.Sub(due), now)
			}
			d.count.Add(1)
		},
	}
	p, err := startPull(ctx, t, pull, newTimetable(t.clk, 0, l.Warmup+l.Duration+2*drainTime))
	if err != nil {
		return nil, err
	}
	r, err := driveSend(ctx, conns, l, sending)
	if err == nil {
		err = awaitDelivery(ctx, t, next, l, &d)
	}
	total, _, broken := p.finish()
	if err := errors.Join(broken, err); err != nil {
		return nil, err
	}
	d.latency.violations, d.latency.first = total.violations+r.Violations, cmp.Or(total.first, r.FirstViolation)
	out := d.latency.result(time.Duration(r.Seconds*float64(time.Second)), cpuTimes{})
	out.BrokerCPU, out.ClientCPU, out.Errors = r.BrokerCPU, r.ClientCPU, r.Errors
	return out, nil
}

// awaitDelivery waits until everything that was stored from offset start on has been delivered.
func awaitDelivery(ctx context.Context, t *target, start int64, l *sendLoad, d *delivered) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	for {
		_, next, err := t.bounds(ctx, l.Topic, 0)
		if err != nil {
			return err
		}
		if d.count.Load() >= next-start {
			return nil
		}
		if err := sleep(ctx, t.clk, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d messages were delivered: %w", d.count.Load(), next-start, err)
		}
	}
}

// CatchupResult is the outcome of the catchup load.
type CatchupResult struct {
	Alone    *Result `json:"alone"`    // the producer by itself
	Together *Result `json:"together"` // the producer while the consumer reads
	Consumer *Result `json:"consumer"`
	// ConsumerBytes is how much the consumer was given.
	ConsumerBytes int64 `json:"consumer_bytes"`
}

func (r *CatchupResult) failed() bool {
	return r.Alone.failed() || r.Together.failed() || r.Consumer.failed()
}

// runCatchup runs a producer alone, then again while a consumer reads the topic old from its beginning.
func runCatchup(ctx context.Context, t *target, l *sendLoad, old string, queues int32, conns int) (*CatchupResult, error) {
	bounds, err := t.waitReadable(ctx, old, queues, 1)
	if err != nil {
		return nil, err
	}
	out := &CatchupResult{}
	if out.Alone, err = runSend(ctx, t, l); err != nil {
		return nil, err
	}
	times := newTimetable(t.clk, 0, l.Warmup+l.Duration)
	p, err := startPull(ctx, t, &pullLoad{Topic: old, Queues: bounds, Conns: conns, Batch: 32}, times)
	if err != nil {
		return nil, err
	}
	beside := *l
	beside.Warmup, beside.Cut = 0, p.ended // what comes after the last old message is no longer measured
	together, err := runSend(ctx, t, &beside)
	total, bytes, broken := p.finish()
	if err := errors.Join(broken, err); err != nil {
		return nil, err
	}
	took := total.last.Sub(times.start)
	out.Together, out.Consumer, out.ConsumerBytes = together, total.result(took, cpuTimes{}), bytes
	return out, nil
}
