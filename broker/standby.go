package broker

import (
	"context"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/remoting/body"
)

// standbySuffix ends the second broker name of a group.
const standbySuffix = ".standby"

// standby is the second name of a group: one replica that is in sync and not the master registers under it, as if it were a master, with
// one write queue per topic and none to read from. A client that knows the master by an address where nobody answers tries its send
// again under another broker name, which is this one, and so reaches whoever is master by then.
//
// Which replica it is follows from what all know (standbyOf), so it moves with the roles. Whoever ceases to be it keeps the name for a
// while, so that the next one can take it: a name server gives an id to who registered last. Meanwhile he forwards as before, or serves
// if he has become the master.
//
// The queue of the second name is a fixed one of the topic's queues (standbyQueue): a producer that picks queues by an ordering key counts
// this one, too, and its messages must not be scattered.
type standby struct {
	b    *Broker
	name string
	wake chan struct{}

	// of run
	chosen bool
	until  time.Time // when it is given up after chosen has become false
	news   chan struct{}
	seen   atomic.Int64 // counter of the topics' version
	moved  time.Time    // when a role was last looked at

	mu    sync.Mutex
	at    map[string]*standbyEntry // by name server; only those where something has been done
	over  bool                     // this broker stops
	tasks sync.WaitGroup
}

// standbyEntry is what one name server knows. One task at a time works on it.
type standbyEntry struct {
	busy    bool
	known   map[string]*body.TopicConfig // what the registered table was made from; nil: not registered
	version body.DataVersion             // of the topics then
	renew   time.Time                    // when everything is registered again
	failed  bool
}

const (
	// standbyTick is how often is looked what is to be done that nobody has told of, standbyHaste the same while the roles have just changed.
	standbyTick  = time.Second
	standbyHaste = 100 * time.Millisecond
	// standbyLinger is how long the name is kept for the next one.
	standbyLinger = 2 * time.Second
	// standbyAgain is when everything is registered once more after a change of roles: a name server may have been told by the former
	// standby later than by this one, and Java's does not say that it has passed over a registration.
	standbyAgain = standbyLinger + time.Second
)

func newStandby(b *Broker) *standby {
	return &standby{b: b, name: b.conf.Load().BrokerName + standbySuffix, wake: make(chan struct{}, 1), news: make(chan struct{}, 1), at: map[string]*standbyEntry{}}
}

// is tells whether a client has chosen the second name of this broker's group.
func (s *standby) is(name string) bool { return name == s.name && s.b.replicas != nil }

// standbyOf is the id of the replica that takes the second name: the smallest in sync that is not the master; 0 for none.
func standbyOf(r *replica.Role) int64 {
	least := int64(0)
	for _, id := range r.SyncStateSet {
		if id != r.Master && (least == 0 || id < least) {
			least = id
		}
	}
	return least
}

// standbyQueue is the queue of a topic, one that has write queues, that the standby's only one stands for: the same at all times and on all brokers.
func standbyQueue(t *body.TopicConfig) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.TopicName))
	return int32(h.Sum32() % uint32(t.WriteQueueNums))
}

// standbyTable is what is registered: the users' topics. System topics stay out, since they belong to one broker or to its tools, and so
// does the default topic: clients derive the queues of new topics from it, also those to read from. An ordered topic, whose queues are
// configured one by one, gets no queue here. A topic without write permission is listed without a queue, for name servers that never drop
// a topic; and two topics always are, since Java's name server refuses a first registration of one.
func (s *standby) table(topics map[string]*body.TopicConfig) map[string]body.TopicConfig {
	out := make(map[string]body.TopicConfig, len(topics)+2)
	for _, name := range [...]string{selfTestTopic, movedTopic} {
		out[name] = body.TopicConfig{TopicName: name, TopicFilterType: "SINGLE_TAG"}
	}
	for name, t := range topics {
		own := body.TopicConfig{TopicName: name, TopicFilterType: t.TopicFilterType, TopicSysFlag: t.TopicSysFlag}
		if perm := t.Perm & s.b.conf.Load().BrokerPermission & permWrite; perm != 0 && t.WriteQueueNums > 0 && !t.Order {
			own.Perm, own.WriteQueueNums = perm, 1
		}
		out[name] = own
	}
	return out
}

// topics are the users' topics.
func (s *standby) topics() (map[string]*body.TopicConfig, body.DataVersion) {
	version := s.b.topics.version() // before the topics: what comes between is registered twice
	all := map[string]*body.TopicConfig{}
	for _, t := range s.b.store.State.Topics() {
		if !s.b.topics.isSystem(t.TopicName) {
			all[t.TopicName] = t
		}
	}
	return all, version
}

// roleChanged has the present role looked at. It does not block.
func (s *standby) roleChanged() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stateChanged has a change of topics looked at. It runs wherever state is applied.
func (s *standby) stateChanged() {
	if counter := s.b.topics.version().Counter; s.seen.Swap(counter) != counter {
		s.lookAgain()
	}
}

func (s *standby) lookAgain() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// serves tells whether this broker is the one that takes the second name now.
func (s *standby) serves() bool {
	g := s.b.replicas
	if g == nil || !s.b.conf.Load().StandbyRoute {
		return false
	}
	r := g.told.Load()
	return r != nil && r.Master != 0 && standbyOf(r) == g.member.ID()
}

// routeMemory is how long clients go on with a route that is no longer true: they ask every 30 s.
const routeMemory = 35 * time.Second

// echoes tells whether a client that asks every broker name of a topic asks the master, too: then it would get everything twice. Who has still got a
// dead master's address asks only here.
func (s *standby) echoes() bool {
	if !s.serves() {
		return false
	}
	t := s.b.replicas.term.Load()
	return !t.master && t.role.Master != 0 && time.Since(t.began) > routeMemory
}

// run keeps the registrations as they must be.
func (s *standby) run(ctx context.Context) error {
	defer s.tasks.Wait()
	if s.b.replicas == nil || !s.b.conf.Load().StandbyRoute {
		return nil
	}
	tick := s.b.clk.NewTicker(standbyTick)
	defer tick.Stop()
	for {
		moved := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-s.news:
		case <-s.wake:
			moved = true
		}
		s.look(ctx, moved)
		if s.b.clk.Now().Sub(s.moved) < 2*standbyLinger {
			tick.Reset(standbyHaste)
		} else {
			tick.Reset(standbyTick)
		}
	}
}

// look starts what is to be done.
func (s *standby) look(ctx context.Context, moved bool) {
	now := s.b.clk.Now()
	if moved {
		s.moved = now
	}
	was := s.chosen
	if r := s.b.replicas.told.Load(); r != nil && r.Master != 0 { // while there is no master all stays as it is
		s.chosen = s.serves()
	}
	if was && !s.chosen {
		s.until = now.Add(standbyLinger)
	}
	want := s.chosen || now.Before(s.until)
	version := s.b.topics.version()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	if want {
		for _, addr := range s.b.names.addrs() {
			if s.at[addr] == nil {
				s.at[addr] = &standbyEntry{}
			}
		}
	}
	for addr, e := range s.at {
		if moved && s.chosen {
			e.renew = now
		}
		if again := s.moved.Add(standbyAgain); e.renew.After(again) && now.Before(again) {
			e.renew = again
		}
		var do func(context.Context, string, *standbyEntry)
		switch {
		case e.busy:
		case !want && e.known != nil:
			do = s.giveUp
		case s.chosen && !now.Before(e.renew):
			do = s.registerAll
		case s.chosen && e.known != nil && e.version != version:
			do = s.registerChanged
		}
		if do != nil {
			e.busy = true
			s.tasks.Go(func() {
				do(ctx, addr, e)
				s.mu.Lock()
				e.busy = false
				s.mu.Unlock()
				if s.b.topics.version() != version {
					s.lookAgain()
				}
			})
		}
	}
}

func (s *standby) register(ctx context.Context, addr string, topics map[string]*body.TopicConfig, version body.DataVersion, m mark) error {
	if r := s.b.replicas.told.Load(); r != nil {
		version.StateVersion = int64(r.Epoch) // the role may not be taken up yet
	}
	version.Timestamp++ // Java's name server keeps one version per address, and passes over changed topics if it is the same as before
	return s.b.names.registerAs(ctx, addr, s.name, 0, version, s.table(topics), m)
}

func (s *standby) registerAll(ctx context.Context, addr string, e *standbyEntry) {
	topics, version := s.topics()
	err := s.register(ctx, addr, topics, version, markFull)
	s.mu.Lock()
	defer s.mu.Unlock()
	first, again := e.known == nil && err == nil, e.failed
	e.renew, e.failed = s.b.clk.Now().Add(ms(s.b.conf.Load().RegisterNameServerPeriod)), err != nil
	switch {
	case err == nil:
		e.known, e.version = topics, version
	case ctx.Err() == nil:
		e.known, e.renew = nil, s.b.clk.Now().Add(time.Second)
		if !again {
			s.b.log.Warn("the standby route could not be registered", zap.String("nameServer", addr), zap.Error(err))
		}
	}
	if first {
		s.b.log.Info("this broker is the standby: sends of clients that do not reach the master come here", zap.String("name", s.name), zap.String("nameServer", addr))
	}
}

// registerChanged registers what has changed since the last time.
func (s *standby) registerChanged(ctx context.Context, addr string, e *standbyEntry) {
	topics, version := s.topics()
	s.mu.Lock()
	known := e.known
	s.mu.Unlock()
	changed := map[string]*body.TopicConfig{}
	for name, t := range topics {
		if known[name] != t {
			changed[name] = t
		}
	}
	gone := false
	for name := range known {
		gone = gone || topics[name] == nil
	}
	var err error
	switch {
	case gone:
		s.registerAll(ctx, addr, e)
		return
	case len(changed) > 0:
		err = s.register(ctx, addr, changed, version, markNone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		e.renew = s.b.clk.Now().Add(time.Second)
	} else if e.known != nil {
		e.known = topics
	}
	e.version = version
}

// giveUp unregisters. Java's name server forgets the address then, not only the name, so the first name is registered again.
func (s *standby) giveUp(ctx context.Context, addr string, e *standbyEntry) {
	s.unregister(addr)
	s.b.names.registerFull(ctx, addr)
}

// stop has nothing registered any more.
func (s *standby) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// unregister takes the second name from a name server, if it is registered there.
func (s *standby) unregister(addr string) {
	s.mu.Lock()
	e := s.at[addr]
	known := e != nil && e.known != nil
	if known {
		e.known = nil
	}
	s.mu.Unlock()
	if !known {
		return
	}
	if err := s.b.names.unregisterAs(context.Background(), addr, s.name, 0); err != nil {
		s.b.log.Warn("could not unregister the standby route", zap.String("nameServer", addr), zap.Error(err))
	}
}

// forgotten tells that a name server knows nothing of this broker any more.
func (s *standby) forgotten(addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.at[addr]; e != nil {
		e.renew = time.Time{}
	}
}
