package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// registrar tells the name servers of this broker and its topics: all of them at start and every period, one when it changes.
type registrar struct {
	b       *Broker
	mu      sync.Mutex
	servers map[string]*nameServer
	role    chan struct{} // the broker's role has changed

	ctx       context.Context // ends with unregister
	cancel    context.CancelFunc
	announces sync.WaitGroup // of inTime
}

// nameServer is told one thing after the other: what it was told last is what it goes by. A table of topics read before
// another registration and sent after it would take the newest topics from it.
type nameServer struct {
	turn chan struct{} // full while somebody reads topics and registers them
	seen atomic.Bool   // the last registration was taken; else the next heartbeat brings a full one

	wake chan struct{} // for attend
	due  atomic.Bool   // a full registration
}

func newRegistrar(b *Broker) *registrar {
	n := &registrar{b: b, servers: map[string]*nameServer{}, role: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

func (n *registrar) server(addr string) *nameServer {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.servers[addr]
	if s == nil {
		s = &nameServer{turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
		n.servers[addr] = s
	}
	return s
}

// inTurn calls f when nobody else registers with the name server, unless ctx ends before.
func (s *nameServer) inTurn(ctx context.Context, f func()) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		f()
	case <-ctx.Done():
	}
}

// run registers until ctx ends. Every name server is attended by a goroutine of its own: one that hangs must not keep the others waiting
// for a heartbeat, or they would forget this broker.
func (n *registrar) run(ctx context.Context) error {
	var attendants sync.WaitGroup
	defer attendants.Wait()
	attended := map[string]bool{}
	wake := func(register bool) {
		for _, addr := range n.addrs() {
			s := n.server(addr)
			if register {
				s.due.Store(true)
			}
			select {
			case s.wake <- struct{}{}:
			default:
			}
			if !attended[addr] {
				attended[addr] = true
				attendants.Go(func() { n.attend(ctx, addr, s) })
			}
		}
	}
	c := n.b.conf.Load()
	full := n.b.clk.NewTicker(min(max(ms(c.RegisterNameServerPeriod), 10*time.Second), time.Minute))
	defer full.Stop()
	beat := n.b.clk.NewTicker(ms(max(c.BrokerHeartbeatInterval, 100)))
	defer beat.Stop()
	for register := true; ; {
		wake(register)
		select {
		case <-ctx.Done():
			return nil
		case <-full.C:
			register = true
		case <-n.role:
			register = true
		case <-beat.C:
			register = false
		}
	}
}

// attend registers with a name server when that is due, or sends it a heartbeat, whenever it is woken.
func (n *registrar) attend(ctx context.Context, addr string, s *nameServer) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		if s.due.Swap(false) {
			n.registerFull(ctx, addr)
		} else {
			n.heartbeat(ctx, addr)
		}
	}
}

// roleChanged has everything registered anew, under the id of the new role. It does not block.
func (n *registrar) roleChanged() {
	select {
	case n.role <- struct{}{}:
	default:
	}
}

// addrs lists the name servers.
func (n *registrar) addrs() []string { return addresses(n.b.conf.Load().NamesrvAddr) }

// addresses splits a list of host:port.
func addresses(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == ' ' })
}

// each calls f for every name server at once and waits for all.
func (n *registrar) each(f func(addr string)) {
	var wg sync.WaitGroup
	for _, addr := range n.addrs() {
		wg.Go(func() { f(addr) })
	}
	wg.Wait()
}

// registerAll registers every topic with every name server.
func (n *registrar) registerAll(ctx context.Context) {
	n.each(func(addr string) { n.registerFull(ctx, addr) })
}

func (n *registrar) registerFull(ctx context.Context, addr string) {
	s := n.server(addr)
	s.inTurn(ctx, func() {
		id, known := n.b.brokerID()
		if !known {
			return
		}
		version := n.b.topics.version() // before the topics: a change in between shows as a version that is too old
		all := n.b.store.State.Topics()
		mark := markNone // a new master may not have all topics yet
		if id != 0 || n.b.reigns() {
			mark = markFull
		}
		err := n.register(ctx, addr, id, all, version, mark)
		was := s.seen.Swap(err == nil)
		switch {
		case err != nil && ctx.Err() == nil:
			n.b.log.Warn("registration with a name server failed: clients that ask it do not find this broker; check namesrvAddr and the network", zap.String("nameServer", addr), zap.Error(err))
		case err == nil && !was:
			n.b.log.Info("registered with a name server", zap.String("nameServer", addr), zap.Int("topics", len(all)))
		}
	})
}

// announceWait is how long a change of topics waits for the name servers. The answer to a client must not wait for one that is
// down; the registration itself goes on.
const announceWait = 400 * time.Millisecond

// topicsChanged registers topics with every name server. A topic that is gone leaves the routes with a full registration.
func (n *registrar) topicsChanged(names ...string) {
	n.inTime(func(ctx context.Context) { n.announce(ctx, names) })
}

// inTime runs f and returns when it has, or when announceWait is over.
func (n *registrar) inTime(f func(ctx context.Context)) {
	done := make(chan struct{})
	n.mu.Lock()
	if n.ctx.Err() != nil { // the broker takes leave
		n.mu.Unlock()
		return
	}
	n.announces.Go(func() {
		defer close(done)
		f(n.ctx)
	})
	n.mu.Unlock()
	timer := n.b.clk.NewTimer(announceWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (n *registrar) announce(ctx context.Context, names []string) {
	if slices.ContainsFunc(names, func(name string) bool { return n.b.topics.get(name) == nil }) {
		n.registerAll(ctx)
		return
	}
	mark := markNone
	if n.b.replicas != nil && n.b.conf.Load().StandbyRoute && !slices.ContainsFunc(names, n.b.topics.isSystem) {
		mark = markStandby
	}
	n.each(func(addr string) {
		s := n.server(addr)
		s.inTurn(ctx, func() {
			if !s.seen.Load() {
				return // a full registration follows
			}
			version := n.b.topics.version()
			var topics []*body.TopicConfig
			for _, name := range names {
				if t := n.b.topics.get(name); t != nil { // else it has been deleted since, which is a registration of its own
					topics = append(topics, t)
				}
			}
			if len(topics) == 0 {
				return
			}
			id, _ := n.b.brokerID()
			if err := n.register(ctx, addr, id, topics, version, mark); err != nil && ctx.Err() == nil {
				s.seen.Store(false)
				n.b.log.Warn("changed topics could not be registered; a full registration brings them", zap.Strings("topics", names), zap.String("nameServer", addr), zap.Error(err))
			}
		})
	})
}

// register sends REGISTER_BROKER. Permissions are masked by the broker's own.
func (n *registrar) register(ctx context.Context, addr string, id int64, topics []*body.TopicConfig, version body.DataVersion, m mark) error {
	c := n.b.conf.Load()
	table := make(map[string]body.TopicConfig, len(topics))
	for _, t := range topics {
		own := *t
		own.Perm &= c.BrokerPermission | permInherit
		table[t.TopicName] = own
	}
	return n.registerAs(ctx, addr, c.BrokerName, id, version, table, m)
}

// registerAs registers under a name and an id.
func (n *registrar) registerAs(ctx context.Context, addr, name string, id int64, version body.DataVersion, topics map[string]body.TopicConfig, m mark) error {
	c := n.b.conf.Load()
	ctx, cancel := context.WithTimeout(ctx, ms(c.RegisterBrokerTimeoutMills))
	defer cancel()
	var rb body.RegisterBrokerBody
	w := &rb.TopicConfigSerializeWrapper
	w.TopicConfigTable, w.DataVersion = topics, version
	w.DataVersion.StateVersion = max(version.StateVersion, int64(n.b.epoch())) // name servers keep the latest master
	text := rb.Encode(c.CompressedRegister)
	h := header.RegisterBrokerRequest{BrokerName: name, BrokerAddr: n.b.addr, ClusterName: c.BrokerClusterName, BrokerID: id,
		HAServerAddr: n.b.haAddr(), HeartbeatTimeoutMillis: header.Some(c.BrokerNotActiveTimeoutMillis), Compressed: c.CompressedRegister}
	r, err := n.b.client.Call(ctx, addr, code.RegisterBroker, &registration{h, m}, text)
	if err == nil {
		err = r.Err()
	}
	return err
}

// mark tells our name server more of a registration. Java's ignores it.
type mark string

const (
	markNone mark = ""
	// markFull: the table is whole, what it leaves out is gone.
	markFull mark = "fullTable"
	// markStandby: the topics have, or lose, a queue under the name of the group's standby at the same time. Else a producer that
	// picks queues by a key would see their number change a moment after the topic has come.
	markStandby mark = "withStandby"
)

// registration is a REGISTER_BROKER with its mark.
type registration struct {
	header.RegisterBrokerRequest
	mark mark
}

// AppendFields appends the header and the mark.
func (h *registration) AppendFields(w *header.Writer) {
	h.RegisterBrokerRequest.AppendFields(w)
	if h.mark != markNone {
		w.Bool(string(h.mark), true)
	}
}

// heartbeat keeps the registration alive, and registers again if the name server does not know this broker any more.
func (n *registrar) heartbeat(ctx context.Context, addr string) {
	id, known := n.b.brokerID()
	if !known {
		return
	}
	s, c := n.server(addr), n.b.conf.Load()
	h := header.BrokerHeartbeatRequest{ClusterName: c.BrokerClusterName, BrokerAddr: n.b.addr, BrokerName: c.BrokerName, BrokerID: header.Some(id)}
	limited, cancel := context.WithTimeout(ctx, ms(c.SendHeartbeatTimeoutMillis))
	defer cancel()
	r, err := n.b.client.Call(limited, addr, code.BrokerHeartbeat, &h, nil)
	if err != nil {
		if s.seen.Swap(false) {
			n.b.log.Warn("a name server does not answer", zap.String("nameServer", addr), zap.Error(err))
		}
		return
	}
	if registered, _ := r.Ext("registered"); registered == "false" || !s.seen.Load() {
		n.registerFull(ctx, addr)
		n.b.standby.forgotten(addr)
	}
}

// stop ends what changes of topics have begun. Nothing begins any more.
func (n *registrar) stop() {
	n.mu.Lock()
	n.cancel()
	n.mu.Unlock()
	n.announces.Wait()
}

// unregister takes leave.
func (n *registrar) unregister() {
	n.stop()
	n.b.standby.stop()
	c := n.b.conf.Load()
	id, known := n.b.brokerID()
	if !known {
		return
	}
	n.each(func(addr string) {
		n.b.standby.unregister(addr)
		if err := n.unregisterAs(context.Background(), addr, c.BrokerName, id); err != nil {
			n.b.log.Warn("could not unregister", zap.String("nameServer", addr), zap.Error(err))
		}
	})
}

func (n *registrar) unregisterAs(ctx context.Context, addr, name string, id int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	h := header.UnRegisterBrokerRequest{BrokerName: name, BrokerAddr: n.b.addr, ClusterName: n.b.conf.Load().BrokerClusterName, BrokerID: id}
	_, err := n.b.client.Call(ctx, addr, code.UnregisterBroker, &h, nil)
	return err
}
