package broker

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/header"
)

// Java's clients send a query to one address of every broker name of a topic, and join the answers. Two of those addresses may be of one
// group: the standby's, and that of the master, present or former, whichever the client knows. Only one of them may find something.
const (
	// echoPause is how long a replica waits before it asks the master, so that what the client asks the master itself comes first.
	echoPause = 100 * time.Millisecond
	// echoMemory is how long a master remembers who has asked what.
	echoMemory = time.Second
)

// query is what a client asks.
type query struct {
	client     netip.Addr
	topic, key string
	max        int32
	begin, end int64
}

// answered is a query that was.
type answered struct {
	query uint64         // a hash
	from  netip.AddrPort // the client, or the replica that has forwarded it
	at    time.Time
}

// echoes remembers the last queries that were answered.
type echoes struct {
	seed maphash.Seed
	mu   sync.Mutex
	ring [256]answered
	next int
}

func newEchoes() *echoes { return &echoes{seed: maphash.MakeSeed()} }

// is tells whether a forwarded query is the echo of one that has just been answered on another way. One answer has one echo.
func (e *echoes) is(q query, from netip.AddrPort, forwarded bool, now time.Time) bool {
	h := maphash.Comparable(e.seed, q)
	e.mu.Lock()
	defer e.mu.Unlock()
	if forwarded {
		for i, a := range e.ring {
			if a.query == h && a.from != from && now.Sub(a.at) < echoMemory {
				e.ring[i] = answered{}
				return true
			}
		}
	}
	e.ring[e.next] = answered{h, from, now}
	e.next = (e.next + 1) % len(e.ring)
	return false
}

// unlessEcho has a query that comes to a replica served by the master, after a pause. A standby answers nothing when all clients know the
// master by now.
func (b *Broker) unlessEcho(serve func(*remoting.Request) error) func(*remoting.Request) error {
	fresh := b.onFresh(serve)
	later := b.orInLane(serve, func(r *remoting.Request) error {
		r.GiveTurn()
		time.Sleep(echoPause)
		return fresh(r)
	})
	return func(r *remoting.Request) error {
		if b.standby.echoes() {
			return notFound(r)
		}
		return later(r)
	}
}

// isEcho tells whether the client has got the answer to a query already.
func (b *Broker) isEcho(r *remoting.Request, h *header.QueryMessageRequest) bool {
	if b.replicas == nil {
		return false
	}
	_, forwarded := r.Ext(hop)
	return b.echoes.is(query{b.bornHost(r).Addr(), h.Topic, h.Key, h.MaxNum, h.BeginTimestamp, h.EndTimestamp}, peerOf(r), forwarded, b.clk.Now())
}
