package remoting

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// laneBytes bounds the frames that wait in one lane, whatever its capacity.
const laneBytes = 128 << 20

// Lane runs requests that may block: a bounded number at a time, a bounded number waiting, each for a bounded time. It is what
// Java's executors per processor are, with the same refusals (NettyRemotingAbstract, BrokerFastFailure).
//
// Connections take turns, and when the lane is full the one that has most in it loses its last request: who sends a thousand requests
// at once waits for them himself. A connection whose peer leaves answers unread has no turn until it reads.
type Lane struct {
	name     string
	workers  int
	capacity int
	maxWait  atomic.Int64 // ns; 0 means no limit
	givesWay bool
	ready    chan struct{} // holds one token per waiting request, so that workers can wait for it and for the end

	mu    sync.Mutex
	lines map[*Conn]*laneLine // of the connections that wait
	last  map[*Conn]*turn     // of the newest request of each connection, until that is over; nil: there are no turns
	turns []*laneLine         // whose turn is next; a line that has become empty meanwhile is passed over
	count int                 // of waiting requests
	runs  int                 // requests that run
	bytes int                 // that they hold
}

// laneLine holds the waiting requests of one connection in the order of arrival.
type laneLine struct {
	tasks []laneTask
	bytes int
}

type laneTask struct {
	rt    *Router
	route *Route
	r     *Request
	since time.Time
}

// size is what the task holds in bytes, more or less: a header of tiny fields takes more than its frame.
func (t *laneTask) size() int { return len(t.r.frame) + cap(t.r.ext)*int(unsafe.Sizeof(extField{})) }

// NewLane returns a lane of workers goroutines; Run starts them. A request that has waited longer than maxWait is refused; 0
// means no limit.
func NewLane(name string, workers, capacity int, maxWait time.Duration) *Lane {
	l := &Lane{name: name, workers: workers, capacity: capacity, ready: make(chan struct{}, capacity), lines: map[*Conn]*laneLine{}}
	l.SetMaxWait(maxWait)
	return l
}

// GiveWay has the lane's threads leave the processors to all others of the process and the machine that want them: for long work
// that must not slow short work down, and must not be what others wait for: BurstEnd is not called for it. Call it before Run.
func (l *Lane) GiveWay() { l.givesWay = true }

// InOrder gives each request a turn (Request.AwaitTurn). Call it before Run.
func (l *Lane) InOrder() { l.last = map[*Conn]*turn{} }

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
	return l.count
}

// Busy is how many requests wait or run.
func (l *Lane) Busy() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count + l.runs
}

// HeadWait is how long the oldest request has waited.
func (l *Lane) HeadWait() (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		wait = max(wait, time.Since(line.tasks[0].since))
	}
	return wait
}

// Capacity is how many may wait.
func (l *Lane) Capacity() int { return l.capacity }

// submit copies the request, because its frame belongs to the reader, and queues it.
func (l *Lane) submit(rt *Router, route *Route, r *Request) {
	own := &Request{Conn: r.Conn, frame: slices.Clone(r.frame), since: r.since, lane: l, checked: r.checked}
	if err := own.parse(own.frame, &r.Conn.known); err != nil {
		panic("remoting: a frame that was parsed does not parse") // the parser depends on the frame alone
	}
	own.Code = r.Code
	dropped, ok := l.push(laneTask{rt, route, own, time.Now()})
	if !ok {
		r.Reply(code.SystemBusy, overload, nil, nil)
		return
	}
	r.state = parked
	if dropped != nil {
		l.done(dropped)
		dropped.Reply(code.SystemBusy, overload, nil, nil)
		dropped.Conn.Flush()
	}
}

const overload = "[OVERLOAD]system busy, start flow control for a while"

// push queues a task. If the lane is full it takes the place of the last one of the connection that has most in the lane, which is
// returned, or is not taken, if that connection is its own.
func (l *Lane) push(t laneTask) (dropped *Request, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own, size := l.lines[t.r.Conn], t.size()
	held := size
	if own != nil {
		held += own.bytes
	}
	if l.count >= l.capacity || l.bytes+size > laneBytes {
		var most *laneLine
		for _, line := range l.lines {
			if most == nil || line.bytes > most.bytes {
				most = line
			}
		}
		if most == nil || most == own || most.bytes <= held {
			return nil, false
		}
		dropped = l.takeLocked(most, len(most.tasks)-1).r
	}
	l.addToken()
	if own == nil {
		own = &laneLine{}
		l.lines[t.r.Conn] = own
		l.turns = append(l.turns, own)
	}
	if l.last != nil {
		t.r.turn = &turn{before: l.last[t.r.Conn], over: make(chan struct{})}
		l.last[t.r.Conn] = t.r.turn
	}
	own.tasks = append(own.tasks, t)
	own.bytes += size
	l.count++
	l.bytes += size
	return dropped, true
}

// takeLocked takes the i-th task of a line, the first or the last.
func (l *Lane) takeLocked(line *laneLine, i int) laneTask {
	t := line.tasks[i]
	line.tasks[i] = laneTask{}
	if i == 0 {
		line.tasks = line.tasks[1:]
	} else {
		line.tasks = line.tasks[:i]
	}
	size := t.size()
	line.bytes -= size
	l.count--
	l.bytes -= size
	if len(line.tasks) == 0 {
		delete(l.lines, t.r.Conn)
	}
	return t
}

// pop takes the oldest request of the connection whose turn it is.
func (l *Lane) pop() (t laneTask, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.turns) > 0 {
		line := l.turns[0]
		l.turns[0] = nil
		l.turns = l.turns[1:]
		if len(line.tasks) == 0 || line.tasks[0].r.Conn.waitUntilRead(func() { l.giveTurn(line) }) {
			continue
		}
		t = l.takeLocked(line, 0)
		l.runs++
		if len(line.tasks) > 0 {
			l.turns = append(l.turns, line)
		}
		return t, true
	}
	return laneTask{}, false
}

// giveTurn lets a line go on whose peer has read its answers.
func (l *Lane) giveTurn(line *laneLine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turns = append(l.turns, line)
	for range line.tasks {
		l.addToken()
	}
}

// addToken says that a request waits. When there is no room, tokens of requests that were refused are left.
func (l *Lane) addToken() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// overdue takes the requests that have waited for at least age.
func (l *Lane) overdue(age time.Duration) (all []laneTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		for len(line.tasks) > 0 && time.Since(line.tasks[0].since) >= age {
			all = append(all, l.takeLocked(line, 0))
		}
	}
	l.turns = slices.DeleteFunc(l.turns, func(line *laneLine) bool { return len(line.tasks) == 0 })
	return all
}

func (l *Lane) work(ctx context.Context) error {
	if l.givesWay {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		LowerPriority()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.ready:
		}
		if t, ok := l.pop(); ok {
			l.serve(t)
			l.done(t.r)
			l.mu.Lock()
			l.runs--
			l.mu.Unlock()
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
	if !l.givesWay {
		t.rt.BurstEnd()
	}
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
			for _, t := range l.overdue(limit) {
				l.refuse(t)
				l.done(t.r)
			}
			pause = min(pause, max(limit/10, 10*time.Millisecond))
		}
		timer.Reset(pause)
	}
}
