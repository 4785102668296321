package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// slowNames is a name server that answers registrations when it is told to.
type slowNames struct {
	*remoting.Server
	mu     sync.Mutex
	slow   bool
	parked []remoting.Ticket
	asked  map[code.Request]int
	topics map[string]bool // as the last registrations have it
	t      *testing.T
}

func newSlowNames(t *testing.T) *slowNames {
	s := &slowNames{t: t, asked: map[code.Request]int{}, topics: map[string]bool{}}
	var err error
	s.Server, err = remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0"}, remoting.NewRouter(zap.NewNop(), []remoting.Route{
		{Code: code.RegisterBroker, Serve: s.register}, {Code: code.BrokerHeartbeat, Serve: s.other}, {Code: code.UnregisterBroker, Serve: s.other}}), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(t.Context())
	g.Go("name server", s.Run)
	t.Cleanup(func() { _ = g.Stop() })
	return s
}

func (s *slowNames) other(r *remoting.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[code.Request(r.Code)]++
	return r.OK(nil, nil)
}

func (s *slowNames) register(r *remoting.Request) error {
	text, err := body.DecodeRegisterBrokerBody(slices.Clone(r.Body))
	if err != nil {
		s.t.Error(err)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[code.RegisterBroker]++
	if full, _ := r.Ext("fullTable"); full == "true" {
		clear(s.topics)
	}
	for name := range text.TopicConfigSerializeWrapper.TopicConfigTable {
		s.topics[name] = true
	}
	if !s.slow {
		return r.OK(nil, nil)
	}
	s.parked = append(s.parked, r.Park())
	return nil
}

// answer answers what waits and, with ever, whatever will come.
func (s *slowNames) answer(ever bool) (answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.parked {
		t.Reply(code.Success, "", nil, nil)
	}
	answered, s.parked, s.slow = len(s.parked), nil, !ever
	return answered
}

func (s *slowNames) count(rc code.Request) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[rc]
}

func (s *slowNames) knows() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.topics)), func(name string) bool { return !strings.HasPrefix(name, "T-") })
}

// TestRegistrationsComeOneAfterTheOther: a full table that was read before a topic came must not reach a name server after it.
func TestRegistrationsComeOneAfterTheOther(t *testing.T) {
	names := newSlowNames(t)
	b := startBroker(t, map[string]string{"namesrvAddr": names.Addr().String()})
	b.until("the broker is registered", func() bool { return b.names.server(names.Addr().String()).seen.Load() })
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T-gone", 1), nil)
	names.answer(false)
	before := names.count(code.RegisterBroker)
	var clients sync.WaitGroup
	clients.Go(func() { b.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "T-gone"}, nil) })
	b.until("the full table is under way", func() bool { return names.count(code.RegisterBroker) > before })
	for _, name := range []string{"T-1", "T-2"} {
		clients.Go(func() { b.connect().ok(code.UpdateAndCreateTopic, newTopic(name, 1), nil) })
	}
	clients.Wait() // they do not wait for a name server for ever
	for want := 1; want <= 3; want++ {
		b.until("a registration waits", func() bool { return names.count(code.RegisterBroker) == before+want })
		if n := names.answer(want == 3); n != 1 {
			t.Fatalf("%d registrations at once", n)
		}
	}
	if got := names.knows(); !slices.Equal(got, []string{"T-1", "T-2"}) {
		t.Errorf("the name server knows %v", got)
	}
}

// TestHungNameServer gets no topic, and nothing of it reaches the others; when it answers again it gets everything.
func TestHungNameServer(t *testing.T) {
	hung, well := newSlowNames(t), newSlowNames(t)
	b := startBroker(t, map[string]string{"namesrvAddr": hung.Addr().String() + ";" + well.Addr().String(), "brokerHeartbeatInterval": "100"})
	b.until("the broker is registered", func() bool {
		return b.names.server(hung.Addr().String()).seen.Load() && b.names.server(well.Addr().String()).seen.Load()
	})
	hung.answer(false)
	b.names.roleChanged()
	b.until("a registration hangs", func() bool { hung.mu.Lock(); defer hung.mu.Unlock(); return len(hung.parked) > 0 })
	beats := well.count(code.BrokerHeartbeat)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T-1", 1), nil)
	if got := well.knows(); !slices.Equal(got, []string{"T-1"}) {
		t.Errorf("the other name server knows %v", got)
	}
	b.until("heartbeats of the other", func() bool { return well.count(code.BrokerHeartbeat) > beats+2 })
	hung.answer(true)
	b.until("all is registered", func() bool { return slices.Equal(hung.knows(), []string{"T-1"}) })
}

// TestTopicsChangeWhileTheBrokerStops: requests are still served while it takes leave.
func TestTopicsChangeWhileTheBrokerStops(t *testing.T) {
	b := startBroker(t, nil)
	for range 300 {
		n := newRegistrar(b.Broker)
		var changes sync.WaitGroup
		for range 3 {
			changes.Go(func() {
				for n.ctx.Err() == nil {
					n.inTime(func(context.Context) {})
				}
			})
		}
		n.stop()
		n.inTime(func(context.Context) { t.Error("something has begun after the end") })
		changes.Wait()
	}
}
