package remoting

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// laneBytes bounds the frames that wait in one lane, whatever its capacity.
const laneBytes = 128 << 20

// Lane runs requests that may block: a bounded number at a time, a bounded number waiting, each for a bounded time. It is what
// Java's executors per processor are, with the same refusals (NettyRemotingAbstract, BrokerFastFailure).
type Lane struct {
	name     string
	workers  int
	capacity int
	maxWait  atomic.Int64  // ns; 0 means no limit
	ready    chan struct{} // holds one token per waiting request, so that workers can wait for it and for the end

	mu    sync.Mutex
	queue []laneTask // in the order of arrival
	bytes int        // of the frames in queue
}

type laneTask struct {
	rt    *Router
	route *Route
	r     *Request
	since time.Time
}

// NewLane returns a lane of workers goroutines; Run starts them. A request that has waited longer than maxWait is refused; 0
// means no limit.
func NewLane(name string, workers, capacity int, maxWait time.Duration) *Lane {
	l := &Lane{name: name, workers: workers, capacity: capacity, ready: make(chan struct{}, capacity)}
	l.SetMaxWait(maxWait)
	return l
}

// SetMaxWait changes the limit, also for requests that wait already.
func (l *Lane) SetMaxWait(d time.Duration) { l.maxWait.Store(int64(d)) }

// Run starts the workers in g; they end with it. What waits then is not answered.
func (l *Lane) Run(g *lifecycle.Group) {
	for range l.workers {
		g.Go("lane "+l.name, l.work)
	}
	g.Go("lane "+l.name+" overdue", l.refuseOverdue)
}

// Depth is how many requests wait.
func (l *Lane) Depth() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue)
}

// HeadWait is how long the oldest request has waited.
func (l *Lane) HeadWait() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return 0
	}
	return time.Since(l.queue[0].since)
}

// Capacity is how many may wait.
func (l *Lane) Capacity() int { return l.capacity }

// submit copies the request, because its frame belongs to the reader, and queues it.
func (l *Lane) submit(rt *Router, route *Route, r *Request) {
	own := &Request{Conn: r.Conn, frame: slices.Clone(r.frame), onLane: true, checked: r.checked}
	if err := own.Parse(own.frame); err != nil {
		panic("remoting: a frame that was parsed does not parse") // the parser depends on the frame alone
	}
	own.Code = r.Code
	if !l.push(laneTask{rt, route, own, time.Now()}) {
		r.Reply(code.SystemBusy, "[OVERLOAD]system busy, start flow control for a while", nil, nil)
		return
	}
	r.state = parked
}

func (l *Lane) push(t laneTask) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) >= l.capacity || l.bytes+len(t.r.frame) > laneBytes {
		return false
	}
	select {
	case l.ready <- struct{}{}:
	default: // tokens of requests that were refused
	}
	l.queue = append(l.queue, t)
	l.bytes += len(t.r.frame)
	return true
}

// pop takes the oldest request, if there is one that has waited for at least age.
func (l *Lane) pop(age time.Duration) (t laneTask, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 || age > 0 && time.Since(l.queue[0].since) < age {
		return laneTask{}, false
	}
	t = l.queue[0]
	l.queue[0] = laneTask{}
	l.queue = l.queue[1:]
	l.bytes -= len(t.r.frame)
	return t, true
}

func (l *Lane) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.ready:
		}
		if t, ok := l.pop(0); ok {
			l.serve(t)
		}
	}
}

// serve runs one request, or refuses it if it came too late.
func (l *Lane) serve(t laneTask) {
	if limit := time.Duration(l.maxWait.Load()); limit > 0 && time.Since(t.since) > limit {
		l.refuse(t)
		return
	}
	t.rt.run(t.route, t.r)
	t.rt.BurstEnd(t.r.Conn)
	t.r.Conn.Flush()
}

func (l *Lane) refuse(t laneTask) {
	t.r.Reply(code.SystemBusy, fmt.Sprintf("[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, period in queue: %dms, size of queue: %d",
		time.Since(t.since).Milliseconds(), l.Depth()), nil, nil)
	t.r.Conn.Flush()
}

// refuseOverdue answers what waits too long while all workers are blocked: a client is told before its own timeout.
func (l *Lane) refuseOverdue(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		pause := 500 * time.Millisecond // until somebody sets a limit
		if limit := time.Duration(l.maxWait.Load()); limit > 0 {
			for t, ok := l.pop(limit); ok; t, ok = l.pop(limit) {
				l.refuse(t)
			}
			pause = min(pause, max(limit/10, 10*time.Millisecond))
		}
		timer.Reset(pause)
	}
}
