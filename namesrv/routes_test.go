package namesrv

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// bench is a table with its view, which is fed by effects alone.
type bench struct {
	t     *testing.T
	table *RouteTable
	view  view
	order map[string]string
	// acting is supportActingMaster.
	acting bool
	now    time.Time
}

// disconnect ends connections, and lets the time pass in which who was there may be replaced.
func (b *bench) disconnect(links ...Link) Effects {
	fx, _ := b.table.Disconnect(links, b.now)
	b.apply(fx)
	late := b.apply(b.table.Depart(b.now.Add(replaceTime)))
	late.Events = append(fx.Events, late.Events...)
	late.Notices = append(fx.Notices, late.Notices...)
	return late
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, table: NewRouteTable(), now: time.Unix(1_700_000_000, 0)}
	b.apply(Effects{Brokers: true})
	return b
}

func (b *bench) apply(fx Effects) Effects {
	b.view.publish(b.table, &fx, b.order, b.acting)
	return fx
}

func (b *bench) register(r *Registration) (Registered, Effects, error) {
	out, fx, err := b.table.Register(r, b.now)
	return out, b.apply(fx), err
}

// join registers and fails the test if that is refused.
func (b *bench) join(r *Registration) (Registered, Effects) {
	b.t.Helper()
	out, fx, err := b.register(r)
	if err != nil {
		b.t.Fatalf("register %s %d at %s: %v", r.Name, r.ID, r.Addr, err)
	}
	return out, fx
}

// route returns the decoded route of a topic, nil if there is none, the same in both forms.
func (b *bench) route(topic string) *body.TopicRouteData {
	b.t.Helper()
	return b.routeIn(topic, "")
}

func (b *bench) routeIn(topic, zone string) *body.TopicRouteData {
	b.t.Helper()
	standard := decodeRoute(b.t, b.view.route(topic, false, zone))
	if d := cmp.Diff(standard, decodeRoute(b.t, b.view.route(topic, true, zone))); d != "" {
		b.t.Fatalf("the two forms of %s differ:\n%s", topic, d)
	}
	return standard
}

// perms returns the permission of a topic's queues by broker name.
func (b *bench) perms(topic string) map[string]int32 {
	b.t.Helper()
	out := map[string]int32{}
	if r := b.route(topic); r != nil {
		for _, q := range r.QueueDatas {
			out[q.BrokerName] = q.Perm
		}
	}
	return out
}

func (b *bench) members(name string) map[int64]string {
	if v := b.view.world.Load().brokers[name]; v != nil {
		return v.BrokerAddrs
	}
	return nil
}

type setting func(*Registration)

// reg describes a broker of cluster C with two topics, T1 and T2, of four queues.
func reg(name string, id int64, addr string, settings ...setting) *Registration {
	r := &Registration{Cluster: "C", Name: name, Addr: addr, HAAddr: "ha-" + addr, ID: id, Timeout: time.Minute, Link: addr, Topics: topics("T1", "T2")}
	for _, set := range settings {
		set(r)
	}
	return r
}

func topics(names ...string) map[string]body.TopicConfig {
	out := map[string]body.TopicConfig{}
	for _, name := range names {
		out[name] = body.TopicConfig{TopicName: name, Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}
	}
	return out
}

func has(names ...string) setting     { return func(r *Registration) { r.Topics = topics(names...) } }
func state(v int64) setting           { return func(r *Registration) { r.Version.StateVersion = v } }
func acting(on bool) setting          { return func(r *Registration) { r.ActingMaster = header.Some(on) } }
func cluster(name string) setting     { return func(r *Registration) { r.Cluster = name } }
func zone(name string) setting        { return func(r *Registration) { r.Zone = name } }
func link(l Link) setting             { return func(r *Registration) { r.Link = l } }
func timeout(d time.Duration) setting { return func(r *Registration) { r.Timeout = d } }
func filters(list ...string) setting  { return func(r *Registration) { r.Filters = list } }
func full(r *Registration)            { r.Full = true }
func perm(topic string, p int32) setting {
	return func(r *Registration) {
		c := r.Topics[topic]
		c.Perm = p
		r.Topics[topic] = c
	}
}

func static(topic string, epoch int64) setting {
	return func(r *Registration) {
		r.Mappings = map[string]body.TopicQueueMappingInfo{topic: {
			BrokerName: r.Name, Topic: topic, Epoch: epoch, Scope: "__global__", TotalQueues: 2, CurrIDMap: map[int32]int32{0: 0, 1: 3},
		}}
	}
}

func codeOf(err error) code.Response {
	var e *code.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return code.Success
}

func TestRouteOfAMasterAndItsSlave(t *testing.T) {
	b := newBench(t)
	out, fx := b.join(reg("a", 0, "h1:1", zone("z1"), filters("f1")))
	if out != (Registered{}) || len(fx.Events) != 1 || !fx.Events[0].Joined {
		t.Errorf("master: %+v, %+v", out, fx.Events)
	}
	out, _ = b.join(reg("a", 1, "h2:1", zone("z1"), has()))
	if want := (Registered{"h1:1", "ha-h1:1"}); out != want {
		t.Errorf("the slave was told %+v", out)
	}
	want := &body.TopicRouteData{
		BrokerDatas: []body.BrokerData{{
			BrokerName: "a", Cluster: "C", ZoneName: "z1", BrokerAddrs: map[int64]string{0: "h1:1", 1: "h2:1"},
		}},
		QueueDatas:        []body.QueueData{{BrokerName: "a", Perm: 6, ReadQueueNums: 4, WriteQueueNums: 4}},
		FilterServerTable: map[string][]string{"h1:1": {"f1"}},
	}
	if d := cmp.Diff(want, b.route("T1")); d != "" {
		t.Error(d)
	}
	if b.route("T3") != nil {
		t.Error("an unknown topic has a route")
	}
}

// TestRenewalChangesNothing: what a broker repeats every 30 seconds must not invalidate a single answer.
func TestRenewalChangesNothing(t *testing.T) {
	b := newBench(t)
	r := reg("a", 0, "h1:1", static("T1", 1), filters("f"))
	b.join(r)
	before := b.view.route("T1", false, "")
	if _, fx := b.join(r); !cmp.Equal(fx, Effects{}) {
		t.Errorf("effects %+v", fx)
	}
	if after := b.view.route("T1", false, ""); &before[0] != &after[0] {
		t.Error("the answer was encoded again")
	}
	_, fx := b.join(reg("a", 0, "h1:1", static("T1", 1), perm("T2", 4)))
	if d := cmp.Diff(Effects{Topics: []string{"T2"}}, fx); d != "" {
		t.Error(d)
	}
	if after := b.view.route("T1", false, ""); &before[0] != &after[0] {
		t.Error("another topic's answer was encoded again")
	}
}

func TestBrokerNameBelongsToOneCluster(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	_, _, err := b.register(reg("a", 1, "h2:1", cluster("D")))
	if codeOf(err) != code.InvalidParameter {
		t.Errorf("got %v", err)
	}
	if got := b.members("a"); len(got) != 1 {
		t.Errorf("members %v", got)
	}
	// The same process may come back with another cluster name.
	b.join(reg("a", 0, "h1:1", cluster("D"), has("T2", "T3")))
	if b.route("T1") != nil || b.route("T2").BrokerDatas[0].Cluster != "D" {
		t.Error("the broker's old life shows")
	}
}

func TestPromotedSlaveLeavesItsOldID(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	b.join(reg("a", 1, "h2:1"))
	b.apply(b.table.Unregister("C", "a", "h1:1"))
	_, fx := b.join(reg("a", 0, "h2:1", state(1)))
	if d := cmp.Diff(map[int64]string{0: "h2:1"}, b.members("a")); d != "" {
		t.Error(d)
	}
	if len(fx.Events) != 1 || fx.Events[0].Reason != ReasonPromoted {
		t.Errorf("events %+v", fx.Events)
	}
}

func TestFencing(t *testing.T) {
	for _, tc := range []struct {
		name             string
		holder, newcomer int64
		fenced           bool
	}{
		{"older epoch", 5, 4, true},
		{"same epoch", 5, 5, false},
		{"newer epoch", 5, 6, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.join(reg("a", 0, "new:1", state(tc.holder)))
			b.join(reg("a", 2, "old:1", state(tc.newcomer)))
			_, fx, err := b.register(reg("a", 0, "old:1", state(tc.newcomer), has("T1", "X")))
			if (err != nil) != tc.fenced || tc.fenced && codeOf(err) != code.ControllerFencedMasterEpoch {
				t.Fatalf("got %v", err)
			}
			holder := "old:1"
			if tc.fenced {
				holder = "new:1"
			}
			if d := cmp.Diff(map[int64]string{0: holder}, b.members("a")); d != "" {
				t.Error(d)
			}
			if (b.route("X") == nil) != tc.fenced {
				t.Error("topics of a fenced broker must not count")
			}
			if left := slices.ContainsFunc(fx.Events, func(e Event) bool { return !e.Joined }); !left {
				t.Errorf("nobody left: %+v", fx.Events)
			}
			if known := b.table.Heartbeat("C", "a", "old:1", b.now); known == tc.fenced {
				t.Errorf("the newcomer's heartbeat is known: %t", known)
			}
		})
	}
}

func TestSingleTopicOfAnUnknownBrokerIsAnIncrement(t *testing.T) {
	b := newBench(t)
	if _, _, err := b.register(reg("a", 0, "h1:1", has("T1"))); codeOf(err) != code.SystemError || err.(*code.Error).Remark != "register broker failed" {
		t.Fatalf("got %v", err)
	}
	if b.members("a") != nil || len(b.table.groups) != 0 {
		t.Error("a refused registration left something behind")
	}
	b.join(reg("b", 0, "h2:1", has("T1"), full)) // ours say that the table is whole
	b.join(reg("c", 0, "h3:1", has()))
	b.join(reg("c", 0, "h3:1", has("T1"))) // an increment of a known broker
	if got := b.perms("T1"); len(got) != 2 {
		t.Errorf("got %v", got)
	}
	if _, _, err := b.register(reg("c", 1, "h4:1", has("T1"))); err == nil {
		t.Error("an increment for an id that is not mapped was taken")
	}
}

func TestTopicsComeFromTheMasterOrThePrimeSlave(t *testing.T) {
	for _, tc := range []struct {
		name  string
		ids   []int64 // registered in this order, each with topics T<id>, U<id>
		old   bool    // brokers that do not say whether they act
		taken []string
	}{
		{"master", []int64{0}, true, []string{"T0", "U0"}},
		{"slave of a master", []int64{0, 1}, false, []string{"T0", "U0"}},
		{"prime slave", []int64{1}, false, []string{"T1", "U1"}},
		{"old slave", []int64{1}, true, nil},
		{"second slave", []int64{1, 2}, false, []string{"T1", "U1"}},
		{"new prime slave", []int64{2, 1}, false, []string{"T1", "T2", "U1", "U2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			for _, id := range tc.ids {
				n := string('0' + rune(id))
				r := reg("a", id, "h"+n+":1", has("T"+n, "U"+n))
				if !tc.old {
					r.ActingMaster = header.Some(false)
				}
				b.join(r)
			}
			if d := cmp.Diff(tc.taken, b.table.AllTopics()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestFullTableRemovesWhatItLeavesOut(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", has("T1", "T2", "T3"), static("T2", 1), full))
	b.join(reg("b", 0, "h2:1", has("T1", "T2")))
	b.join(reg("a", 0, "h1:1", has("T4"))) // an increment removes nothing
	if d := cmp.Diff([]string{"T1", "T2", "T3", "T4"}, b.table.AllTopics()); d != "" {
		t.Error(d)
	}
	b.join(reg("a", 1, "h3:1", has("T1", "T9"), full, acting(true))) // nor does a slave
	b.join(reg("a", 0, "h1:1", has("T1", "T4"), full))
	if d := cmp.Diff([]string{"T1", "T2", "T4"}, b.table.AllTopics()); d != "" {
		t.Error(d)
	}
	if r := b.route("T2"); len(r.QueueDatas) != 1 || r.QueueDatas[0].BrokerName != "b" || r.TopicQueueMappingByBroker != nil {
		t.Errorf("T2: %+v", r)
	}
}

func TestStaticTopics(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", static("T1", 1)))
	b.join(reg("b", 0, "h2:1", static("T1", 1)))
	if got := b.route("T1").TopicQueueMappingByBroker; len(got) != 2 || got["a"].CurrIDMap[1] != 3 {
		t.Errorf("mappings %+v", got)
	}
	b.join(reg("a", 0, "h1:1", static("T1", 2)))
	if got := b.route("T1").TopicQueueMappingByBroker["a"].Epoch; got != 2 {
		t.Errorf("epoch %d", got)
	}
	b.join(reg("a", 0, "h1:1")) // says nothing of mappings
	if got := b.route("T1").TopicQueueMappingByBroker; len(got) != 2 {
		t.Errorf("mappings %+v", got)
	}
	b.join(reg("a", 0, "h1:1", full))
	b.apply(b.table.DeleteTopic("T2", ""))
	b.apply(b.table.Unregister("C", "b", "h2:1"))
	if got := b.route("T1").TopicQueueMappingByBroker; got != nil {
		t.Errorf("mappings %+v", got)
	}
}

func TestRegistrationOwnsItsMaps(t *testing.T) {
	b := newBench(t)
	r := reg("a", 0, "h1:1", static("T1", 1), filters("f"))
	b.join(r)
	want := b.route("T1")
	r.Filters[0] = "x"
	r.Mappings["T1"].CurrIDMap[0] = 99
	delete(r.Topics, "T1")
	b.apply(Effects{Brokers: true, Topics: []string{"T1"}}) // forget the cached answer
	if d := cmp.Diff(want, b.route("T1")); d != "" {
		t.Error(d)
	}
}

func TestFilterServers(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", filters("f1", "f2")))
	b.join(reg("a", 0, "h1:1")) // says nothing
	if got := b.route("T1").FilterServerTable; len(got["h1:1"]) != 2 {
		t.Errorf("got %v", got)
	}
	b.join(reg("a", 0, "h1:1", filters()))
	b.join(reg("a", 0, "h1:1", func(r *Registration) { r.Filters = []string{} }))
	if got := b.route("T1").FilterServerTable; len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestActingMaster(t *testing.T) {
	setup := func(t *testing.T, support bool) *bench {
		b := newBench(t)
		b.acting = support
		b.apply(Effects{Brokers: true})
		b.join(reg("a", 0, "h1:1", acting(true), has("T1", "rmq_sys_SYNC_BROKER_MEMBER_a")))
		b.join(reg("a", 1, "h2:1", acting(true), has("T1", "rmq_sys_SYNC_BROKER_MEMBER_a")))
		b.join(reg("a", 2, "h3:1", acting(true), has("T1", "rmq_sys_SYNC_BROKER_MEMBER_a")))
		b.disconnect("h1:1")
		return b
	}
	f := func(name string, support bool, want map[int64]string) {
		t.Run(name, func(t *testing.T) {
			b := setup(t, support)
			r := b.route("T1")
			if d := cmp.Diff(want, r.BrokerDatas[0].BrokerAddrs); d != "" {
				t.Error(d)
			}
			if r.QueueDatas[0].Perm != 4 {
				t.Errorf("perm %d, want read only", r.QueueDatas[0].Perm)
			}
			if d := cmp.Diff(map[int64]string{1: "h2:1", 2: "h3:1"}, b.route("rmq_sys_SYNC_BROKER_MEMBER_a").BrokerDatas[0].BrokerAddrs); d != "" {
				t.Error(d)
			}
			b.join(reg("a", 1, "h2:1", acting(true), has("T1", "T2"))) // the prime slave's own registration does not change that
			if p := b.perms("T1")["a"]; p != 4 {
				t.Errorf("perm %d after the slave's registration", p)
			}
			b.join(reg("a", 0, "h1:1", acting(true), has("T1", "T2")))
			if d := cmp.Diff(map[int64]string{0: "h1:1", 1: "h2:1", 2: "h3:1"}, b.route("T1").BrokerDatas[0].BrokerAddrs); d != "" {
				t.Error(d)
			}
			if p := b.perms("T1")["a"]; p != 6 {
				t.Errorf("perm %d with a master", p)
			}
		})
	}
	f("supported", true, map[int64]string{0: "h2:1", 2: "h3:1"})
	f("not supported", false, map[int64]string{1: "h2:1", 2: "h3:1"})
	t.Run("brokers that do not act", func(t *testing.T) {
		b := newBench(t)
		b.acting = true
		b.apply(Effects{Brokers: true})
		b.join(reg("a", 0, "h1:1"))
		b.join(reg("a", 1, "h2:1"))
		b.disconnect("h1:1")
		if _, ok := b.route("T1").BrokerDatas[0].BrokerAddrs[0]; ok || b.perms("T1")["a"] != 6 {
			t.Errorf("route %+v", b.route("T1"))
		}
	})
}

func TestMinBrokerIDNotices(t *testing.T) {
	type step struct {
		name string
		do   func(b *bench) Effects
		want []Notice
	}
	join := func(id int64, addr string) func(*bench) Effects {
		return func(b *bench) Effects { _, fx := b.join(reg("a", id, addr, acting(true))); return fx }
	}
	leave := func(addr string) func(*bench) Effects {
		return func(b *bench) Effects { return b.disconnect(addr) }
	}
	steps := []step{
		{"the first registration never counts", join(2, "h3:1"), nil},
		{"a higher id", join(3, "h4:1"), nil},
		{"a lower id: tell those that were there", join(1, "h2:1"),
			[]Notice{{Name: "a", MinID: 1, MinAddr: "h2:1", JoinedHAAddr: "ha-h2:1", To: []string{"h3:1", "h4:1"}}}},
		{"the master", join(0, "h1:1"),
			[]Notice{{Name: "a", MinID: 0, MinAddr: "h1:1", JoinedHAAddr: "ha-h1:1", To: []string{"h2:1", "h3:1", "h4:1"}}}},
		{"a member leaves that is not the lowest", leave("h3:1"), nil},
		{"the lowest leaves: tell the others", leave("h1:1"),
			[]Notice{{Name: "a", MinID: 1, MinAddr: "h2:1", OfflineAddr: "h1:1", To: []string{"h2:1", "h4:1"}}}},
		{"so it goes on", leave("h2:1"),
			[]Notice{{Name: "a", MinID: 3, MinAddr: "h4:1", OfflineAddr: "h2:1", To: []string{"h4:1"}}}},
		{"a lone slave becomes master: tell itself", join(0, "h4:1"),
			[]Notice{{Name: "a", MinID: 0, MinAddr: "h4:1", JoinedHAAddr: "ha-h4:1", To: []string{"h4:1"}}}},
		{"the last one", leave("h4:1"), nil},
	}
	b := newBench(t)
	for _, s := range steps {
		if d := cmp.Diff(s.want, s.do(b).Notices); d != "" {
			t.Errorf("%s:\n%s", s.name, d)
		}
	}
	t.Run("only groups that act hear of a leave", func(t *testing.T) {
		b := newBench(t)
		b.join(reg("a", 0, "h1:1"))
		b.join(reg("a", 1, "h2:1"))
		if fx := b.disconnect("h1:1"); fx.Notices != nil {
			t.Errorf("got %+v", fx.Notices)
		}
	})
	t.Run("two leave at once", func(t *testing.T) {
		b := newBench(t)
		for id, addr := range []string{"h1:1", "h2:1", "h3:1"} {
			b.join(reg("a", int64(id), addr, acting(true)))
		}
		fx := b.disconnect("h1:1", "h2:1")
		if len(fx.Notices) != 1 || fx.Notices[0].MinAddr != "h3:1" {
			t.Errorf("got %+v", fx.Notices)
		}
	})
}

func TestZones(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", zone("z1"), filters("f1")))
	b.join(reg("b", 0, "h2:1", zone("z2"), filters("f2")))
	b.join(reg("c", 0, "h3:1", zone("z2")))
	b.join(reg("c", 1, "h4:1", zone("z2")))
	b.disconnect("h3:1")
	names := func(zone string) []string {
		r := b.routeIn("T1", zone)
		brokers, queues := []string{}, []string{}
		for _, d := range r.BrokerDatas {
			brokers = append(brokers, d.BrokerName)
		}
		for _, q := range r.QueueDatas {
			queues = append(queues, q.BrokerName)
		}
		if !slices.Equal(brokers, queues) {
			t.Errorf("zone %s: brokers %v, queues %v", zone, brokers, queues)
		}
		for addr := range r.FilterServerTable {
			if !slices.ContainsFunc(r.BrokerDatas, func(d body.BrokerData) bool { return slices.Contains(slices.Collect(maps.Values(d.BrokerAddrs)), addr) }) {
				t.Errorf("zone %s: filter servers of %s", zone, addr)
			}
		}
		return brokers
	}
	for zone, want := range map[string][]string{
		"":   {"a", "b", "c"},
		"z1": {"a", "c"}, // the slave of a lost master serves every zone
		"Z2": {"b", "c"},
		"z9": {"c"},
	} {
		if d := cmp.Diff(want, names(zone)); d != "" {
			t.Errorf("zone %s: %s", zone, d)
		}
	}
	b.disconnect("h4:1")
	if r := b.routeIn("T1", "z9"); r == nil || len(r.BrokerDatas) != 0 {
		t.Errorf("a zone without brokers: %+v", r)
	}
}

func TestOrderConfigIsPartOfTheRoute(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	if got := b.route("T1").OrderTopicConf; got != "" {
		t.Errorf("got %q", got)
	}
	b.order = map[string]string{"T1": "a:4"}
	b.apply(Effects{Brokers: true})
	if got := b.route("T1").OrderTopicConf; got != "a:4" {
		t.Errorf("got %q", got)
	}
}

func TestWritePermission(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", has("T1", "T2", "T3"), perm("T2", 7), perm("T3", 4)))
	b.join(reg("b", 0, "h2:1"))
	n, fx := b.table.WipeWrite("a")
	b.apply(fx)
	expect := func(when string, want map[string]map[string]int32) {
		t.Helper()
		for topic, perms := range want {
			if d := cmp.Diff(perms, b.perms(topic)); d != "" {
				t.Errorf("%s: %s: %s", when, topic, d)
			}
		}
	}
	wiped := map[string]map[string]int32{"T1": {"a": 4, "b": 6}, "T2": {"a": 5, "b": 6}, "T3": {"a": 4}}
	expect("wiped", wiped)
	if n != 3 {
		t.Errorf("wiped %d topics", n)
	}
	b.join(reg("a", 0, "h1:1", has("T1", "T2", "T3"), perm("T2", 7), perm("T3", 4), state(9)))
	expect("registered again", wiped)
	b.disconnect("h1:1")
	_, fx = b.join(reg("a", 0, "h1:1", has("T1", "T2", "T3"), perm("T2", 7), perm("T3", 4)))
	expect("back after an absence", wiped)
	if len(fx.Events) != 1 || !fx.Events[0].Wiped {
		t.Errorf("events %+v", fx.Events)
	}
	n, fx = b.table.AddWrite("a")
	b.apply(fx)
	expect("given back", map[string]map[string]int32{"T1": {"a": 6, "b": 6}, "T2": {"a": 7, "b": 6}, "T3": {"a": 4}})
	if n != 3 {
		t.Errorf("gave %d topics back", n)
	}
	if n, _ := b.table.WipeWrite("nobody"); n != 0 || len(b.table.wiped) != 0 {
		t.Error("an unknown broker name was remembered")
	}
}

// TestTopicComesWithTheQueueOfItsStandby: the number of a topic's queues must not change a moment after it has come.
func TestTopicComesWithTheQueueOfItsStandby(t *testing.T) {
	with := func(r *Registration) { r.WithStandby = true }
	order := func(r *Registration) {
		for name, c := range r.Topics {
			c.Order = true
			r.Topics[name] = c
		}
	}
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", has("T1", "T2"), full))
	b.join(reg("a", 0, "h1:1", has("T3"), with)) // there is no standby
	b.join(reg("a.standby", 0, "h2:1", has("T1", "T2"), full))
	b.join(reg("a", 0, "h1:1", has("T4", "T5"), with))
	b.join(reg("a", 0, "h1:1", has("T6"), with, order))
	b.join(reg("a", 0, "h1:1", has("T7")))
	queues := func(topic string) (names []string, write int32) {
		if r := b.route(topic); r != nil {
			for _, q := range r.QueueDatas {
				names = append(names, q.BrokerName)
				if q.BrokerName == "a.standby" {
					write += q.WriteQueueNums
					if q.ReadQueueNums != 0 || q.Perm&^2 != 0 {
						t.Errorf("%s: the standby's %+v", topic, q)
					}
				}
			}
		}
		return names, write
	}
	for topic, want := range map[string]int32{"T4": 1, "T5": 1, "T6": 0} {
		if names, write := queues(topic); len(names) != 2 || write != want {
			t.Errorf("%s: %v, %d queues of the standby", topic, names, write)
		}
	}
	for _, topic := range []string{"T3", "T7"} {
		if names, _ := queues(topic); len(names) != 1 {
			t.Errorf("%s: %v", topic, names)
		}
	}
	b.join(reg("a", 0, "h1:1", has("T1", "T5"), full)) // and goes with it
	if d := cmp.Diff([]string{"T1", "T5"}, b.table.AllTopics()); d != "" {
		t.Error(d)
	}
}

// TestStandbyThatIsBehind registers what it knows: that must not take from clients what the master has registered.
func TestStandbyThatIsBehind(t *testing.T) {
	at := func(counter int64) func(*Registration) {
		return func(r *Registration) { r.Version.Counter = counter }
	}
	with := func(r *Registration) { r.WithStandby = true }
	readonly := func(r *Registration) {
		for name, c := range r.Topics {
			c.Perm = 4
			r.Topics[name] = c
		}
	}
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", has("T1", "T2", "T3"), full, at(3)))
	b.join(reg("a.standby", 0, "h2:1", has("T1", "T2", "T3"), full, at(3)))
	b.join(reg("a", 0, "h1:1", has("T4"), with, at(4)))
	b.join(reg("a", 0, "h1:1", has("T1"), with, readonly, at(5)))
	b.join(reg("a", 0, "h1:1", has("T1", "T2", "T4"), full, at(6))) // without T3
	b.join(reg("a.standby", 0, "h3:1", has("T1", "T2", "T3"), full, at(3)))
	write := func(topic string) (n int) {
		for name, perm := range b.perms(topic) {
			if strings.HasSuffix(name, standbySuffix) && perm&2 != 0 {
				n++
			}
		}
		return n
	}
	if d := cmp.Diff([]string{"T1", "T2", "T4"}, b.table.AllTopics()); d != "" {
		t.Error(d)
	}
	if write("T1") != 0 || write("T2") != 1 || write("T4") != 1 {
		t.Errorf("T1: %v, T2: %v, T4: %v", b.perms("T1"), b.perms("T2"), b.perms("T4"))
	}
	b.join(reg("a.standby", 0, "h3:1", has("T2", "T4"), full, at(6))) // it knows as much as the master
	if _, ok := b.perms("T1")["a.standby"]; ok {
		t.Errorf("T1: %v", b.perms("T1"))
	}
}
