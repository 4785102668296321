package namesrv

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/header"
)

// model says in the plainest way what is registered. It is slow and keeps no index.
type model struct {
	members []modelMember
	queues  map[[2]string]int32 // topic and broker name → registered permission
	names   map[string]modelName
	wiped   map[string]bool
	now     time.Time
}

type modelMember struct {
	cluster, name, addr string
	id, state, counter  int64
	link                Link
	deadline            time.Time
	timeout             time.Duration
}

type modelName struct {
	acting bool
	zone   string
}

func (m *model) of(name string) []modelMember {
	var out []modelMember
	for _, x := range m.members {
		if x.name == name {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b modelMember) int { return int(a.id - b.id) })
	return out
}

func (m *model) drop(gone func(modelMember) bool) {
	m.members = slices.DeleteFunc(m.members, gone)
	maps.DeleteFunc(m.queues, func(k [2]string, _ int32) bool { return len(m.of(k[1])) == 0 })
}

func (m *model) register(r *Registration) (accepted bool) {
	others := m.of(r.Name)
	if len(others) > 0 && others[0].cluster != r.Cluster {
		if slices.ContainsFunc(others, func(x modelMember) bool { return x.addr != r.Addr }) {
			return false
		}
		m.drop(func(x modelMember) bool { return x.name == r.Name })
		others = nil
	}
	mapped := false
	for _, x := range others {
		if x.id != r.ID {
			continue
		}
		mapped = true
		if x.addr != r.Addr && x.state > r.Version.StateVersion {
			m.drop(func(x modelMember) bool { return x.name == r.Name && x.addr == r.Addr })
			return false
		}
	}
	if !mapped && len(r.Topics) == 1 && !r.Full {
		return false
	}
	m.members = slices.DeleteFunc(m.members, func(x modelMember) bool { return x.name == r.Name && (x.addr == r.Addr || x.id == r.ID) })
	m.members = append(m.members, modelMember{r.Cluster, r.Name, r.Addr, r.ID, r.Version.StateVersion, r.Version.Counter, r.Link, m.now.Add(r.Timeout), r.Timeout})
	m.names[r.Name] = modelName{r.ActingMaster.V, r.Zone}
	if r.ID == 0 || r.ActingMaster.Ok && m.of(r.Name)[0].id == r.ID {
		behind := false // a standby of a master that knows better
		base, _ := strings.CutSuffix(r.Name, standbySuffix)
		for _, x := range m.of(base) {
			behind = behind || base != r.Name && x.id == 0 && x.counter > r.Version.Counter
		}
		for name, c := range r.Topics {
			_, mine := m.queues[[2]string{name, r.Name}]
			_, its := m.queues[[2]string{name, base}]
			if behind && (mine || !its) {
				continue
			}
			m.queues[[2]string{name, r.Name}] = c.Perm
			if r.WithStandby && len(m.of(r.Name+standbySuffix)) > 0 {
				m.queues[[2]string{name, r.Name + standbySuffix}] = c.Perm & 2
			}
		}
		if r.Full && r.ID == 0 && !behind {
			maps.DeleteFunc(m.queues, func(k [2]string, _ int32) bool {
				_, had := m.queues[[2]string{k[0], r.Name}]
				_, has := r.Topics[k[0]]
				return k[1] == r.Name+standbySuffix && had && !has
			})
			maps.DeleteFunc(m.queues, func(k [2]string, _ int32) bool { _, ok := r.Topics[k[0]]; return k[1] == r.Name && !ok })
		}
	}
	return true
}

// route is what a client should see of a topic.
func (m *model) route(topic string, support bool) *body.TopicRouteData {
	r := &body.TopicRouteData{}
	for _, name := range []string{"a", "a.standby", "b"} {
		perm, ok := m.queues[[2]string{topic, name}]
		if !ok {
			continue
		}
		members := m.of(name)
		if m.wiped[name] || m.wiped[strings.TrimSuffix(name, standbySuffix)] || m.names[name].acting && members[0].id != 0 {
			perm &^= 2
		}
		addrs := map[int64]string{}
		for i, x := range members {
			if i == 0 && x.id != 0 && support && m.names[name].acting && perm&2 == 0 {
				x.id = 0
			}
			addrs[x.id] = x.addr
		}
		r.QueueDatas = append(r.QueueDatas, body.QueueData{BrokerName: name, Perm: perm})
		r.BrokerDatas = append(r.BrokerDatas, body.BrokerData{
			BrokerName: name, Cluster: members[0].cluster, EnableActingMaster: m.names[name].acting, ZoneName: m.names[name].zone, BrokerAddrs: addrs,
		})
	}
	if len(r.QueueDatas) == 0 {
		return nil
	}
	return r
}

var (
	modelTopics   = []string{"T1", "T2", "T3", "T4"}
	modelNames    = []string{"a", "a.standby", "b"}
	modelClusters = []string{"C", "C", "C", "D"}
	modelAddrs    = []string{"h1:1", "h2:1", "h3:1"}
	modelLinks    = []Link{"l1", "l2", "l3", "l4"}
)

// machine runs the table and the model side by side.
type machine struct {
	bench  *bench
	model  *model
	joined map[string]bool // by name, id and address, as the events tell
}

func (m *machine) after(rt *rapid.T, fx Effects) {
	m.bench.apply(fx)
	for _, e := range fx.Events {
		if e.Joined {
			for k := range m.joined { // a changed id is told by the join alone
				if e.Reason == ReasonPromoted && strings.HasPrefix(k, e.Name+"/") && strings.HasSuffix(k, "/"+e.Addr) {
					delete(m.joined, k)
				}
			}
			m.joined[fmt.Sprintf("%s/%d/%s", e.Name, e.ID, e.Addr)] = true
		} else if k := fmt.Sprintf("%s/%d/%s", e.Name, e.ID, e.Addr); !m.joined[k] {
			rt.Fatalf("%s left without having joined", k)
		} else {
			delete(m.joined, k)
		}
	}
}

func (m *machine) register(rt *rapid.T) {
	r := &Registration{
		Cluster: rapid.SampledFrom(modelClusters).Draw(rt, "cluster"), Name: rapid.SampledFrom(modelNames).Draw(rt, "name"),
		Addr: rapid.SampledFrom(modelAddrs).Draw(rt, "addr"), ID: rapid.Int64Range(0, 2).Draw(rt, "id"),
		Timeout: time.Duration(rapid.IntRange(1, 5).Draw(rt, "timeout")) * time.Second, Link: rapid.SampledFrom(modelLinks).Draw(rt, "link"),
		Version: body.DataVersion{StateVersion: rapid.Int64Range(0, 2).Draw(rt, "state"), Counter: rapid.Int64Range(0, 2).Draw(rt, "counter")}, Topics: map[string]body.TopicConfig{},
		Full: rapid.Bool().Draw(rt, "full"), WithStandby: rapid.Bool().Draw(rt, "with standby"), Zone: rapid.SampledFrom([]string{"", "z"}).Draw(rt, "zone"),
	}
	if rapid.Bool().Draw(rt, "new broker") {
		r.ActingMaster = header.Some(rapid.Bool().Draw(rt, "acting"))
	}
	for _, name := range modelTopics {
		if rapid.Bool().Draw(rt, name) {
			r.Topics[name] = body.TopicConfig{TopicName: name, Perm: rapid.Int32Range(4, 7).Draw(rt, "perm"), WriteQueueNums: 1}
		}
	}
	accepted := m.model.register(r)
	_, fx, err := m.bench.table.Register(r, m.model.now)
	if m.after(rt, fx); (err == nil) != accepted {
		rt.Fatalf("register %+v: %v, the model accepts: %t", r, err, accepted)
	}
}

func (m *machine) heartbeat(rt *rapid.T) {
	cluster, addr := rapid.SampledFrom(modelClusters).Draw(rt, "cluster"), rapid.SampledFrom(modelAddrs).Draw(rt, "addr")
	known := false
	for i := range m.model.members {
		if x := &m.model.members[i]; x.cluster == cluster && x.addr == addr {
			x.deadline, known = m.model.now.Add(x.timeout), true
		}
	}
	if got := m.bench.table.Heartbeat(cluster, "", addr, m.model.now); got != known {
		rt.Fatalf("heartbeat %s %s: known %t, want %t", cluster, addr, got, known)
	}
}

func (m *machine) leave(rt *rapid.T) {
	cluster, name, addr := rapid.SampledFrom(modelClusters).Draw(rt, "cluster"), rapid.SampledFrom(modelNames).Draw(rt, "name"), rapid.SampledFrom(modelAddrs).Draw(rt, "addr")
	m.model.drop(func(x modelMember) bool { return x.cluster == cluster && x.name == name && x.addr == addr })
	m.after(rt, m.bench.table.Unregister(cluster, name, addr))
}

func (m *machine) disconnect(rt *rapid.T) {
	links := rapid.SliceOfN(rapid.SampledFrom(modelLinks), 1, 3).Draw(rt, "links")
	m.model.drop(func(x modelMember) bool { return slices.Contains(links, x.link) })
	fx, _ := m.bench.table.Disconnect(links, m.model.now)
	late := m.bench.table.Depart(m.model.now.Add(replaceTime))
	m.after(rt, Effects{Topics: append(fx.Topics, late.Topics...), Brokers: fx.Brokers || late.Brokers, Events: append(fx.Events, late.Events...),
		Notices: append(fx.Notices, late.Notices...)})
}

func (m *machine) second(rt *rapid.T) {
	m.model.now = m.model.now.Add(time.Second)
	m.model.drop(func(x modelMember) bool { return m.model.now.After(x.deadline) })
	fx := m.bench.table.Expire(m.model.now, time.Second)
	for _, l := range fx.Close {
		if slices.ContainsFunc(m.model.members, func(x modelMember) bool { return x.link == l }) {
			rt.Fatalf("connection %v is closed under a live broker", l)
		}
	}
	m.after(rt, fx)
}

func (m *machine) deleteTopic(rt *rapid.T) {
	topic, cluster := rapid.SampledFrom(modelTopics).Draw(rt, "topic"), rapid.SampledFrom([]string{"", "C", "D"}).Draw(rt, "cluster")
	maps.DeleteFunc(m.model.queues, func(k [2]string, _ int32) bool {
		return k[0] == topic && (cluster == "" || m.model.of(k[1])[0].cluster == cluster)
	})
	m.after(rt, m.bench.table.DeleteTopic(topic, cluster))
}

func (m *machine) write(rt *rapid.T) {
	name := rapid.SampledFrom(modelNames).Draw(rt, "name")
	if rapid.Bool().Draw(rt, "wipe") {
		if len(m.model.of(name)) > 0 {
			m.model.wiped[name] = true
		}
		_, fx := m.bench.table.WipeWrite(name)
		m.after(rt, fx)
		return
	}
	delete(m.model.wiped, name)
	_, fx := m.bench.table.AddWrite(name)
	m.after(rt, fx)
}

func (m *machine) check(rt *rapid.T) {
	for i, topic := range modelTopics {
		got := decodeRoute(m.bench.t, m.bench.view.route(topic, i%2 == 0, ""))
		if d := cmp.Diff(m.model.route(topic, m.bench.acting), got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(body.QueueData{}, "WriteQueueNums")); d != "" {
			rt.Fatalf("%s:\n%s", topic, d)
		}
	}
	joined := map[string]bool{}
	for _, x := range m.model.members {
		joined[fmt.Sprintf("%s/%d/%s", x.name, x.id, x.addr)] = true
	}
	if d := cmp.Diff(joined, m.joined); d != "" {
		rt.Fatalf("events:\n%s", d)
	}
	m.checkInvariants(rt)
}

// checkInvariants checks the indexes of the table against each other.
func (m *machine) checkInvariants(rt *rapid.T) {
	t := m.bench.table
	members := 0
	for name, g := range t.groups {
		if len(g.members) == 0 {
			rt.Fatalf("%s has no member", name)
		}
		for id, x := range g.members {
			members++
			if x.name != name || x.id != id || x.at.cluster != g.cluster || !slices.Contains(t.places[x.at], x) {
				rt.Fatalf("member %+v of %s is not where it belongs", x, name)
			}
		}
		for topic := range g.topics {
			if !slices.ContainsFunc(t.topics[topic].Queues, func(q body.QueueData) bool { return q.BrokerName == name }) {
				rt.Fatalf("%s lists topic %s", name, topic)
			}
		}
	}
	for topic, x := range t.topics {
		for _, q := range x.Queues {
			if _, ok := t.groups[q.BrokerName].topics[topic]; !ok {
				rt.Fatalf("%s does not list topic %s", q.BrokerName, topic)
			}
		}
	}
	if _, n := t.Len(); n != members || len(m.model.members) != members {
		rt.Fatalf("%d members, %d by place, %d in the model", members, n, len(m.model.members))
	}
}

func TestTableBehavesLikeTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		b.acting = rapid.Bool().Draw(rt, "support acting master")
		b.apply(Effects{Brokers: true})
		m := &machine{bench: b, joined: map[string]bool{}, model: &model{
			queues: map[[2]string]int32{}, names: map[string]modelName{}, wiped: map[string]bool{}, now: b.now,
		}}
		rt.Repeat(map[string]func(*rapid.T){
			"": m.check, "register": m.register, "register too": m.register, "heartbeat": m.heartbeat, "unregister": m.leave,
			"disconnect": m.disconnect, "second": m.second, "delete": m.deleteTopic, "write": m.write,
		})
	})
}
