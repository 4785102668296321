package broker

import (
	"context"
	"sync"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/queue"
)

// holds keeps the pulls that found nothing until a message arrives that they want, or their time is up (PullRequestHoldService).
// It is the store's Arrivals: Arrived and BatchEnd run on the dispatching goroutine, one at a time.
type holds struct {
	b *Broker

	mu     sync.Mutex
	queues map[*queue.Queue][]*heldPull
	count  int
	weight int         // of all that are held
	ready  []*heldPull // to be run again

	wake    chan struct{}
	stopped bool

	// of the dispatching goroutine
	dirty []*remoting.Conn // connections with answers to send
	last  *remoting.Conn   // that was answered
	alone int              // batches in a row that answered nobody but last
}

// heldPull is one parked pull.
type heldPull struct {
	ticket   remoting.Ticket
	h        header.PullMessageRequest // only what is needed to read again
	q        *queue.Queue
	filter   store.Filter
	flags    pullFlags
	deadline int64 // ms
	weight   int   // of maxHeld
}

// Bounds of what is held; a pull beyond them is answered PULL_NOT_FOUND.
const (
	maxHeld        = 200_000 // pulls at once, those with a long filter counting for several
	maxHeldOnQueue = 20_000  // pulls of one queue: each message that arrives there is shown to all of them
	heldText       = 256     // bytes of a filter's text that count as one pull more; what it is compiled to is several times as large
)

// sweepInterval is how often held pulls are compared with their queues regardless of filters: this is how a filtered consumer's
// offset moves past messages it does not want.
const sweepInterval = 5 * time.Second

func newHolds(b *Broker) *holds {
	return &holds{b: b, queues: map[*queue.Queue][]*heldPull{}, wake: make(chan struct{}, 1)}
}

// hold parks p. A message that has arrived meanwhile wakes it at once.
func (s *holds) hold(p *heldPull) bool {
	s.mu.Lock()
	if s.weight >= maxHeld || len(s.queues[p.q]) >= maxHeldOnQueue || s.stopped {
		s.mu.Unlock()
		return false
	}
	p.q.Watched.Store(true)
	s.queues[p.q] = append(s.queues[p.q], p)
	s.count++
	s.weight += p.weight
	first := s.count == 1
	if p.q.Max() > p.h.QueueOffset {
		s.takeLocked(p.q, func(h *heldPull) bool { return h == p })
	}
	s.mu.Unlock()
	if first {
		s.stir()
	}
	s.signal()
	return true
}

// Arrived is told of each message in a watched queue: pulls that want it are made ready.
func (s *holds) Arrived(q *queue.Queue, offset int64, tags int64, v *message.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takeLocked(q, func(p *heldPull) bool {
		return offset >= p.h.QueueOffset && (p.filter.Tags == nil || p.filter.Tags(tags)) && (p.filter.Props == nil || p.filter.Props(v.Properties()))
	})
}

// BatchEnd sends what has been answered, runs the ready pulls and tells whether one producer has been the only one for a while.
func (s *holds) BatchEnd() (alone bool) {
	if n := len(s.dirty); n == 1 && s.dirty[0] == s.last {
		s.alone++
	} else if n > 0 {
		s.last, s.alone = s.dirty[n-1], 0
	}
	for i, c := range s.dirty {
		c.Flush()
		s.dirty[i] = nil
	}
	s.dirty = s.dirty[:0]
	s.b.stats.batchEnd()
	s.runReady()
	return s.alone >= aloneBatches
}

// aloneBatches is how many batches in a row a connection must have for itself to count as alone.
const aloneBatches = 16

// runReady answers ready pulls: a few itself, which saves the time to wake somebody, unless they would have to wait for the disk;
// the others are left to run.
func (s *holds) runReady() {
	for range runHere {
		p := s.takeReady()
		if p == nil {
			return
		}
		if !s.b.pullAgain(p, true) {
			s.putReady(p)
			break
		}
	}
	s.signal()
}

// runHere is how many ready pulls the dispatching goroutine answers itself at the end of a batch.
const runHere = 4

func (s *holds) takeReady() (p *heldPull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.ready) - 1; n >= 0 {
		p, s.ready[n] = s.ready[n], nil
		s.ready = s.ready[:n]
	}
	return p
}

func (s *holds) putReady(p *heldPull) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, p)
}

// answered notes that a connection has something to send at the end of the batch.
func (s *holds) answered(c *remoting.Conn) {
	if n := len(s.dirty); n == 0 || s.dirty[n-1] != c {
		s.dirty = append(s.dirty, c)
	}
}

// takeLocked moves the pulls on q that want holds for to ready.
func (s *holds) takeLocked(q *queue.Queue, want func(*heldPull) bool) {
	list := s.queues[q]
	keep := list[:0]
	for _, p := range list {
		if want(p) {
			s.ready = append(s.ready, p)
			s.count--
			s.weight -= p.weight
		} else {
			keep = append(keep, p)
		}
	}
	clear(list[len(keep):])
	if len(keep) == 0 {
		delete(s.queues, q)
		q.Watched.Store(false)
		return
	}
	s.queues[q] = keep
}

func (s *holds) signal() {
	s.mu.Lock()
	some := len(s.ready) > 0
	s.mu.Unlock()
	if some {
		s.stir()
	}
}

// stir wakes the goroutine of run.
func (s *holds) stir() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// How often the deadlines of held pulls are looked at: while there are any, and while there are none.
const (
	holdTick = 50 * time.Millisecond
	holdRest = time.Second
)

func (s *holds) pace() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == 0 {
		return holdRest
	}
	return holdTick
}

// run answers pulls that have become ready and those whose time is up.
func (s *holds) run(ctx context.Context) error {
	pace := holdTick
	tick := s.b.clk.NewTicker(pace)
	defer tick.Stop()
	var swept int64
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			if p := s.pace(); p < pace {
				pace = p
				tick.Reset(p)
			}
		case <-tick.C:
			now := s.b.clk.NowMs()
			sweep := now-swept >= sweepInterval.Milliseconds()
			if sweep {
				swept = now
			}
			s.expire(now, sweep)
			pace = s.pace()
			tick.Reset(pace)
		}
		s.mu.Lock()
		ready := s.ready
		s.ready = nil
		s.mu.Unlock()
		for _, p := range ready {
			s.b.pullAgain(p, false)
		}
	}
}

// expire makes the pulls ready whose time is up; with sweep also those whose queue has grown.
func (s *holds) expire(now int64, sweep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.queues {
		s.takeLocked(q, func(p *heldPull) bool {
			return now >= p.deadline || !p.ticket.Conn.Alive() || sweep && q.Max() > p.h.QueueOffset
		})
	}
}

// release answers everything that is held, so that clients pull again and learn what has become of this broker.
func (s *holds) release() {
	s.mu.Lock()
	s.stopped = true
	for q := range s.queues {
		s.takeLocked(q, func(*heldPull) bool { return true })
	}
	ready := s.ready
	s.ready = nil
	s.mu.Unlock()
	for _, p := range ready {
		p.ticket.Reply(code.PullRetryImmediately, "the broker is stopping", &header.PullMessageResponse{NextBeginOffset: p.h.QueueOffset, MinOffset: p.q.Min(), MaxOffset: p.q.Max()}, nil)
	}
}

// held is how many pulls wait.
func (s *holds) held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
