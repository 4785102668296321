package namesrv

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
)

func TestHeartbeat(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 1, "h1:1"))
	b.join(reg("a.standby", 0, "h1:1"))
	for _, tc := range []struct {
		cluster, name, addr string
		known               bool
	}{
		{"C", "a", "h1:1", true},
		{"C", "a.standby", "h1:1", true},
		{"C", "", "h1:1", true},
		{"C", "b", "h1:1", false},
		{"C", "a", "h2:1", false},
		{"D", "a", "h1:1", false},
	} {
		if got := b.table.Heartbeat(tc.cluster, tc.name, tc.addr, b.now); got != tc.known {
			t.Errorf("%+v: known %t", tc, got)
		}
	}
}

// scan moves the time on in steps of a second, each with a scan, and returns when each broker name was gone.
func (b *bench) scan(seconds int, each func(second int)) map[string]int {
	gone := map[string]int{}
	for i := range seconds {
		b.now = b.now.Add(time.Second)
		if each != nil {
			each(i + 1)
		}
		for _, e := range b.apply(b.table.Expire(b.now, time.Second)).Events {
			if e.Reason != ReasonExpired {
				b.t.Errorf("event %+v", e)
			}
			gone[e.Name] = i + 1
		}
	}
	return gone
}

func TestExpiry(t *testing.T) {
	b := newBench(t)
	b.join(reg("quiet", 0, "h1:1", timeout(10*time.Second)))
	b.join(reg("patient", 0, "h2:1", timeout(20*time.Second)))
	b.join(reg("alive", 0, "h3:1", timeout(10*time.Second)))
	b.join(reg("renewed", 0, "h4:1", timeout(10*time.Second)))
	b.join(reg("base", 1, "h5:1", timeout(10*time.Second)))
	b.join(reg("base.standby", 0, "h5:1", timeout(10*time.Second)))
	gone := b.scan(30, func(second int) {
		b.table.Heartbeat("C", "alive", "h3:1", b.now)
		b.table.Heartbeat("C", "base", "h5:1", b.now) // keeps both names of the process
		if second == 5 {
			b.join(reg("renewed", 0, "h4:1", timeout(10*time.Second)))
		}
	})
	if d := cmp.Diff(map[string]int{"quiet": 11, "patient": 21, "renewed": 16}, gone); d != "" {
		t.Error(d)
	}
	if b.perms("T1")["quiet"] != 0 || b.perms("T1")["alive"] != 6 {
		t.Errorf("routes %v", b.perms("T1"))
	}
}

func TestExpiryClosesConnectionsThatNobodyElseUses(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", timeout(5*time.Second), link("shared")))
	b.join(reg("b", 0, "h2:1", link("shared")))
	b.join(reg("c", 0, "h3:1", timeout(5*time.Second), link("own")))
	b.join(reg("d", 0, "h4:1", timeout(5*time.Second), link("own")))
	b.table.Expire(b.now, 6*time.Second)
	b.now = b.now.Add(6 * time.Second)
	if d := cmp.Diff([]Link{"own"}, b.apply(b.table.Expire(b.now, 6*time.Second)).Close); d != "" {
		t.Error(d)
	}
}

// TestStandstillOfTheProcessIsNotSilenceOfTheBrokers: after a pause of the machine the heartbeats lie unread in the sockets.
func TestStandstillOfTheProcessIsNotSilenceOfTheBrokers(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", timeout(10*time.Second)))
	b.scan(3, nil)
	b.now = b.now.Add(time.Hour)
	b.join(reg("b", 0, "h2:1", timeout(10*time.Second))) // read after the pause, before the scan
	if fx := b.table.Expire(b.now, time.Second); fx.Events != nil {
		t.Fatalf("left: %+v", fx.Events)
	}
	if d := cmp.Diff(map[string]int{"a": 7, "b": 11}, b.scan(20, nil)); d != "" {
		t.Error(d)
	}
}

func TestDisconnectGoesByTheConnectionOfTheLastRegistration(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", link("first")))
	b.join(reg("a", 0, "h1:1", link("second")))
	b.table.Heartbeat("C", "a", "h1:1", b.now)
	if fx := b.disconnect("first"); fx.Events != nil {
		t.Errorf("left: %+v", fx.Events)
	}
	fx := b.disconnect("second", "unknown")
	if d := cmp.Diff([]Event{{Reason: ReasonClosed, Cluster: "C", Name: "a", Addr: "h1:1"}}, fx.Events); d != "" {
		t.Error(d)
	}
	if b.route("T1") != nil {
		t.Error("the route is still there")
	}
}

func TestDisconnectTakesBothNamesOfAProcess(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	b.join(reg("a", 1, "h2:1"))
	b.join(reg("a.standby", 0, "h2:1"))
	b.disconnect("h2:1")
	if got := b.view.world.Load().brokers; len(got) != 1 || len(got["a"].BrokerAddrs) != 1 {
		t.Errorf("brokers %v", got)
	}
}

func TestUnregister(t *testing.T) {
	for _, tc := range []struct {
		name, cluster, broker, addr string
		left                        map[int64]string
	}{
		{"slave", "C", "a", "h2:1", map[int64]string{0: "h1:1"}},
		{"master", "C", "a", "h1:1", map[int64]string{1: "h2:1"}},
		{"another cluster", "D", "a", "h1:1", map[int64]string{0: "h1:1", 1: "h2:1"}},
		{"another name", "C", "x", "h1:1", map[int64]string{0: "h1:1", 1: "h2:1"}},
		{"another address", "C", "a", "h3:1", map[int64]string{0: "h1:1", 1: "h2:1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.join(reg("a", 0, "h1:1"))
			b.join(reg("a", 1, "h2:1"))
			b.apply(b.table.Unregister(tc.cluster, tc.broker, tc.addr))
			if d := cmp.Diff(tc.left, b.members("a")); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestReplacedAddressLeavesNothing: Java keeps the live entry of an address that lost its id for ever.
func TestReplacedAddressLeavesNothing(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	_, fx := b.join(reg("a", 0, "h2:1"))
	if len(fx.Events) != 2 || fx.Events[0].Reason != ReasonReplaced {
		t.Errorf("events %+v", fx.Events)
	}
	if b.table.Heartbeat("C", "a", "h1:1", b.now) {
		t.Error("the replaced address is still known")
	}
	if _, brokers := b.table.Len(); brokers != 1 {
		t.Errorf("%d brokers", brokers)
	}
}

func TestVersion(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 1, "h1:1", state(3)))
	b.join(reg("a.standby", 0, "h1:1", state(4)))
	for name, want := range map[string]int64{"a": 3, "a.standby": 4} {
		if v, ok := b.table.Version("C", name, "h1:1"); !ok || v != (body.DataVersion{StateVersion: want}) {
			t.Errorf("%s: %+v %t", name, v, ok)
		}
	}
	if _, ok := b.table.Version("C", "other", "h1:1"); !ok {
		t.Error("Java asks by address alone")
	}
	if _, ok := b.table.Version("C", "a", "h9:1"); ok {
		t.Error("an unknown address has a version")
	}
}

// TestWhoMayBeReplacedStaysForAMoment: a master with replicas, and a standby, so that nobody is told of a topic without queues.
func TestWhoMayBeReplacedStaysForAMoment(t *testing.T) {
	setup := func() *bench {
		b := newBench(t)
		b.join(reg("a", 0, "h1:1", has("T", "U")))
		b.join(reg("a", 1, "h2:1"))
		b.join(reg("a", 2, "h3:1"))
		b.join(reg("a.standby", 0, "h2:1", has("T", "U")))
		return b
	}
	addrs := func(b *bench, name string) map[int64]string {
		for _, d := range b.route("T").BrokerDatas {
			if d.BrokerName == name {
				return d.BrokerAddrs
			}
		}
		return nil
	}
	end := func(b *bench, links ...Link) (wait bool) {
		fx, wait := b.table.Disconnect(links, b.now)
		b.apply(fx)
		return wait
	}
	b := setup()
	if !end(b, "h1:1") {
		t.Error("nobody is waited for")
	}
	if got := addrs(b, "a"); got[0] != "h1:1" {
		t.Errorf("the master has left at once: %v", got)
	}
	if b.table.Heartbeat("C", "a", "h1:1", b.now) {
		t.Error("a broker whose connection has ended need not register again")
	}
	b.join(reg("a", 0, "h2:1", has("T", "U"))) // it was 1
	if got := addrs(b, "a"); !maps.Equal(got, map[int64]string{0: "h2:1", 2: "h3:1"}) {
		t.Errorf("after the replacement: %v", got)
	}
	b.apply(b.table.Depart(b.now.Add(time.Hour)))
	if got := addrs(b, "a"); got[0] != "h2:1" {
		t.Errorf("the new master has left: %v", got)
	}

	b = setup()
	end(b, "h2:1") // a replica that is the standby
	if got := addrs(b, "a"); !maps.Equal(got, map[int64]string{0: "h1:1", 2: "h3:1"}) {
		t.Errorf("a replica has not left: %v", got)
	}
	if got := addrs(b, "a.standby"); got[0] != "h2:1" {
		t.Errorf("the standby has left at once: %v", got)
	}
	b.join(reg("a.standby", 0, "h3:1", has("T", "U")))
	b.apply(b.table.Depart(b.now.Add(time.Hour)))
	if got := addrs(b, "a.standby"); got[0] != "h3:1" {
		t.Errorf("the new standby is not there: %v", got)
	}

	b = setup()
	end(b, "h1:1")
	b.join(reg("a", 0, "h1:1", has("T", "U"))) // a new connection
	b.apply(b.table.Depart(b.now.Add(time.Hour)))
	if got := addrs(b, "a"); got[0] != "h1:1" {
		t.Errorf("a master that has come back has left: %v", got)
	}
	if end(b, "h1:1", "h2:1", "h3:1"); addrs(b, "a") != nil {
		t.Error("a group that is gone has not left")
	}
}
