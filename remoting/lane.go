package remoting

import (
	"context"
	"fmt"
	"time"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// Lane runs requests that may block: a bounded number at a time, a bounded number waiting, each for a bounded time. It is what
// Java's executors per processor are, with the same refusals.
type Lane struct {
	name    string
	queue   chan laneTask
	workers int
	maxWait time.Duration
}

type laneTask struct {
	rt    *Router
	route *Route
	r     *Request
	since time.Time
}

// NewLane returns a lane of workers goroutines; Run starts them. A request that has waited longer than maxWait is refused.
func NewLane(name string, workers, capacity int, maxWait time.Duration) *Lane {
	return &Lane{name: name, queue: make(chan laneTask, capacity), workers: workers, maxWait: maxWait}
}

// Run starts the workers in g; they end with it.
func (l *Lane) Run(g *lifecycle.Group) {
	for range l.workers {
		g.Go("lane "+l.name, func(ctx context.Context) error {
			for {
				select {
				case t := <-l.queue:
					l.work(t)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
}

// Depth is how many requests wait.
func (l *Lane) Depth() int { return len(l.queue) }

// Capacity is how many may wait.
func (l *Lane) Capacity() int { return cap(l.queue) }

// submit copies the request, because its frame belongs to the reader, and queues it.
func (l *Lane) submit(rt *Router, route *Route, r *Request) {
	own := &Request{Conn: r.Conn, frame: append([]byte(nil), r.frame...)}
	if err := own.Parse(own.frame); err != nil {
		r.Reply(code.SystemError, err.Error(), nil, nil)
		return
	}
	own.Code = r.Code
	select {
	case l.queue <- laneTask{rt, route, own, time.Now()}:
		r.state = parked
	default:
		r.Reply(code.SystemBusy, "[OVERLOAD]system busy, start flow control for a while", nil, nil)
	}
}

func (l *Lane) work(t laneTask) {
	if waited := time.Since(t.since); l.maxWait > 0 && waited > l.maxWait {
		t.r.Reply(code.SystemBusy, fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d",
			waited.Milliseconds(), len(l.queue)), nil, nil)
	} else {
		t.rt.run(t.route, t.r)
	}
	t.rt.BurstEnd(t.r.Conn)
	t.r.Conn.Flush()
}
