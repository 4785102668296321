package broker

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// registrar tells the name servers of this broker and its topics: all of them at start and every period, one when it changes.
type registrar struct {
	b    *Broker
	mu   sync.Mutex
	seen map[string]bool // name servers that took the last full registration
	role chan struct{}   // the broker's role has changed

	ctx       context.Context // ends with unregister
	cancel    context.CancelFunc
	announces sync.WaitGroup // of inTime
}

func newRegistrar(b *Broker) *registrar {
	n := &registrar{b: b, seen: map[string]bool{}, role: make(chan struct{}, 1)}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// run registers until ctx ends.
func (n *registrar) run(ctx context.Context) error {
	c := n.b.conf.Load()
	n.registerAll(ctx)
	period := min(max(ms(c.RegisterNameServerPeriod), 10*time.Second), time.Minute)
	full := n.b.clk.NewTicker(period)
	defer full.Stop()
	beat := n.b.clk.NewTicker(ms(max(c.BrokerHeartbeatInterval, 100)))
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-full.C:
			n.registerAll(ctx)
		case <-n.role:
			n.registerAll(ctx)
		case <-beat.C:
			n.heartbeat(ctx)
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
	id, known := n.b.brokerID()
	if !known {
		return
	}
	whole := id != 0 || n.b.reigns() // a new master may not have all topics yet
	var all []*body.TopicConfig
	all = append(all, n.b.store.State.Topics()...)
	err := n.register(ctx, addr, all, whole)
	n.mu.Lock()
	was := n.seen[addr]
	n.seen[addr] = err == nil
	n.mu.Unlock()
	switch {
	case err != nil && ctx.Err() == nil:
		n.b.log.Warn("registration with a name server failed: clients that ask it do not find this broker; check namesrvAddr and the network", zap.String("nameServer", addr), zap.Error(err))
	case err == nil && !was:
		n.b.log.Info("registered with a name server", zap.String("nameServer", addr), zap.Int("topics", len(all)))
	}
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
	n.announces.Go(func() {
		defer close(done)
		f(n.ctx)
	})
	timer := n.b.clk.NewTimer(announceWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (n *registrar) announce(ctx context.Context, names []string) {
	var topics []*body.TopicConfig
	for _, name := range names {
		t := n.b.topics.get(name)
		if t == nil {
			n.registerAll(ctx)
			return
		}
		topics = append(topics, t)
	}
	n.each(func(addr string) {
		if err := n.register(ctx, addr, topics, false); err != nil && ctx.Err() == nil {
			n.b.log.Warn("changed topics could not be registered; the next full registration brings them", zap.Strings("topics", names), zap.String("nameServer", addr), zap.Error(err))
		}
	})
}

// register sends REGISTER_BROKER. Permissions are masked by the broker's own.
func (n *registrar) register(ctx context.Context, addr string, topics []*body.TopicConfig, full bool) error {
	c := n.b.conf.Load()
	ctx, cancel := context.WithTimeout(ctx, ms(c.RegisterBrokerTimeoutMills))
	defer cancel()
	table := make(map[string]body.TopicConfig, len(topics))
	for _, t := range topics {
		own := *t
		own.Perm &= c.BrokerPermission | permInherit
		table[t.TopicName] = own
	}
	id, _ := n.b.brokerID()
	return n.registerAs(ctx, addr, c.BrokerName, id, n.b.topics.version(), table, full)
}

// registerAs registers under a name and an id.
func (n *registrar) registerAs(ctx context.Context, addr, name string, id int64, version body.DataVersion, topics map[string]body.TopicConfig, full bool) error {
	c := n.b.conf.Load()
	var rb body.RegisterBrokerBody
	w := &rb.TopicConfigSerializeWrapper
	w.TopicConfigTable, w.DataVersion = topics, version
	w.DataVersion.StateVersion = max(version.StateVersion, int64(n.b.epoch())) // name servers keep the latest master
	text := rb.Encode(c.CompressedRegister)
	h := header.RegisterBrokerRequest{BrokerName: name, BrokerAddr: n.b.addr, ClusterName: c.BrokerClusterName, BrokerID: id,
		HAServerAddr: n.b.haAddr(), HeartbeatTimeoutMillis: header.Some(c.BrokerNotActiveTimeoutMillis), Compressed: c.CompressedRegister}
	r, err := n.b.client.Call(ctx, addr, code.RegisterBroker, &registration{h, full}, text)
	if err == nil {
		err = r.Err()
	}
	return err
}

// registration marks a full table, so that our name server drops the topics that are not in it. Java's ignores the mark.
type registration struct {
	header.RegisterBrokerRequest
	full bool
}

// AppendFields appends the header and the mark.
func (h *registration) AppendFields(w *header.Writer) {
	h.RegisterBrokerRequest.AppendFields(w)
	if h.full {
		w.Bool("fullTable", true)
	}
}

// heartbeat keeps the registration alive, and registers again where a name server does not know this broker any more.
func (n *registrar) heartbeat(ctx context.Context) {
	c := n.b.conf.Load()
	id, known := n.b.brokerID()
	if !known {
		return
	}
	h := header.BrokerHeartbeatRequest{ClusterName: c.BrokerClusterName, BrokerAddr: n.b.addr, BrokerName: c.BrokerName, BrokerID: header.Some(id)}
	n.each(func(addr string) {
		ctx, cancel := context.WithTimeout(ctx, ms(c.SendHeartbeatTimeoutMillis))
		defer cancel()
		r, err := n.b.client.Call(ctx, addr, code.BrokerHeartbeat, &h, nil)
		registered := ""
		if err == nil {
			registered, _ = r.Ext("registered")
		}
		n.mu.Lock()
		lost := n.seen[addr] && err != nil
		if lost {
			n.seen[addr] = false
		}
		again := err == nil && (registered == "false" || !n.seen[addr])
		n.mu.Unlock()
		if lost {
			n.b.log.Warn("a name server does not answer", zap.String("nameServer", addr), zap.Error(err))
		}
		if again {
			n.registerFull(ctx, addr)
			n.b.standby.forgotten(addr)
		}
	})
}

// unregister takes leave.
func (n *registrar) unregister() {
	n.cancel()
	n.announces.Wait()
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
