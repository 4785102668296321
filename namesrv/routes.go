package namesrv

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// masterID is the broker id of a master (MixAll.MASTER_ID).
	masterID = 0
	// permWrite is the write bit of a queue's permission (PermName).
	permWrite = 2
)

// Link identifies the connection of a registration. Links are compared with ==.
type Link any

// Registration is one REGISTER_BROKER. The table keeps none of its maps.
type Registration struct {
	Cluster, Name, Addr, HAAddr, Zone string
	ID                                int64
	// Timeout is how long the member lives without a sign of life.
	Timeout time.Duration
	// ActingMaster tells whether the slave with the lowest id stands in for a lost master. Brokers before 5.0 do not say.
	ActingMaster header.Opt[bool]
	Version      body.DataVersion
	Topics       map[string]body.TopicConfig           // by topic
	Mappings     map[string]body.TopicQueueMappingInfo // by topic; static topics only
	Filters      []string                              // filter servers; nil leaves them as they are
	// Full says that Topics is the whole table: what a master leaves out is gone.
	Full bool
	// WithStandby says that what these topics have under the name of the group's standby changes with them. Else clients that pick
	// queues by a key would see a topic without that queue for the moment until the standby registers it.
	WithStandby bool
	Link        Link
}

// Registered is the answer to a slave: where its master is. Both are empty for a master, and while there is none.
type Registered struct{ MasterAddr, MasterHAAddr string }

// Reason says why a broker joined or left.
type Reason string

// The reasons.
const (
	ReasonNew          Reason = "registered"
	ReasonPromoted     Reason = "changed its id"
	ReasonUnregistered Reason = "unregistered"
	ReasonClosed       Reason = "connection closed"
	ReasonExpired      Reason = "heartbeats stopped"
	ReasonReplaced     Reason = "replaced by another address"
	ReasonFenced       Reason = "fenced by a newer master epoch"
	ReasonMoved        Reason = "moved to another cluster"
)

// Event is a broker that joined or left, for the log.
type Event struct {
	Joined              bool
	Reason              Reason
	Cluster, Name, Addr string
	ID                  int64
	// Wiped: the broker joined while its write permission is taken away.
	Wiped bool
}

// Notice is one NOTIFY_MIN_BROKER_ID_CHANGE for each address in To.
type Notice struct {
	MinID                                    int64
	Name, MinAddr, OfflineAddr, JoinedHAAddr string
	To                                       []string
}

// Effects is what a change of the table asks for. The zero value asks for nothing.
type Effects struct {
	// Topics have changed or are gone; one may be listed twice.
	Topics []string
	// Brokers: what Brokers returns has changed.
	Brokers bool
	Events  []Event
	Notices []Notice
	// Close are connections to end, whose brokers fell silent.
	Close []Link
}

// Broker is what routes show of a broker name. It never changes.
type Broker struct {
	body.BrokerData
	// ReadOnly: the write bit of its queues is left out.
	ReadOnly bool
	Filters  map[string][]string // by address of the broker
}

func (b *Broker) equal(o *Broker) bool {
	return b.Cluster == o.Cluster && b.ZoneName == o.ZoneName && b.EnableActingMaster == o.EnableActingMaster &&
		b.ReadOnly == o.ReadOnly && maps.Equal(b.BrokerAddrs, o.BrokerAddrs) && maps.EqualFunc(b.Filters, o.Filters, slices.Equal)
}

// member is one broker process under one broker name.
type member struct {
	name       string
	id         int64
	at         place
	haAddr     string
	version    body.DataVersion
	filters    []string
	link       Link
	lastUpdate time.Time
	timeout    time.Duration
	leaves     time.Time // its connection has ended; zero: it has not
}

// place is where a heartbeat comes from. A process may be a member of two broker names: a replica that is also the standby.
type place struct{ cluster, addr string }

// group is all that is registered under one broker name.
type group struct {
	cluster, zone string
	acting        bool // the slave with the lowest id stands in for a lost master
	members       map[int64]*member
	topics        map[string]struct{} // that have a queue here
	view          *Broker
}

func (g *group) has(topic string) bool { _, ok := g.topics[topic]; return ok }

func (g *group) minID() int64 { return slices.Min(slices.Collect(maps.Keys(g.members))) }

func (g *group) at(addr string) []*member {
	var out []*member
	for _, m := range g.members {
		if m.at.addr == addr {
			out = append(out, m)
		}
	}
	return out
}

// RouteTable knows brokers and topics. It is not safe for concurrent use.
type RouteTable struct {
	topics   map[string]*Topic
	groups   map[string]*group // by broker name
	places   map[place][]*member
	wiped    map[string]bool // broker names without write permission, present or not
	lastScan time.Time
}

// NewRouteTable returns an empty table.
func NewRouteTable() *RouteTable {
	return &RouteTable{topics: map[string]*Topic{}, groups: map[string]*group{}, places: map[place][]*member{}, wiped: map[string]bool{}}
}

// errFenced answers a registration for an id that a broker of a newer master epoch holds. Java answers SUCCESS.
var errFenced = code.New(code.ControllerFencedMasterEpoch, "the id is held by a broker of a newer master epoch")

// Register adds or renews a member. The effects apply even when an error is returned; the error is a *code.Error.
// Java: RouteInfoManager.registerBroker.
func (t *RouteTable) Register(r *Registration, now time.Time) (Registered, Effects, error) {
	var fx Effects
	g := t.groups[r.Name]
	if g != nil && g.cluster != r.Cluster {
		if len(g.at(r.Addr)) < len(g.members) {
			return Registered{}, fx, code.New(code.InvalidParameter, "broker name %s belongs to cluster %s", r.Name, g.cluster)
		}
		t.leave(slices.Collect(maps.Values(g.members)), ReasonMoved, &fx)
		g = nil
	}
	var earlier []*member // the same process under another id: a slave that was promoted
	var holder *member
	joinsBelow := false
	if g != nil {
		holder = g.members[r.ID]
		joinsBelow = r.ID < g.minID()
		earlier = slices.DeleteFunc(g.at(r.Addr), func(m *member) bool { return m.id == r.ID })
	}
	if holder != nil && holder.at.addr != r.Addr && holder.version.StateVersion > r.Version.StateVersion {
		t.leave(earlier, ReasonFenced, &fx)
		return Registered{}, fx, errFenced
	}
	if holder == nil && len(r.Topics) == 1 && !r.Full {
		return Registered{}, fx, code.New(code.SystemError, "register broker failed") // a change that came before the table
	}
	if g == nil {
		g = &group{cluster: r.Cluster, members: map[int64]*member{}, topics: map[string]struct{}{}}
		t.groups[r.Name] = g
	}
	t.enter(g, r, holder, earlier, &fx).renew(r, now)
	g.acting, g.zone = r.ActingMaster.Or(false), r.Zone
	if r.ID == masterID || r.ActingMaster.Ok && r.ID == g.minID() {
		t.takeTopics(g, r, &fx)
	}
	t.refresh(r.Name, g, &fx)
	if joinsBelow {
		fx.Notices = append(fx.Notices, g.notice(r.Name, "", r.HAAddr))
	}
	var out Registered
	if master := g.members[masterID]; master != nil && r.ID != masterID {
		out = Registered{MasterAddr: master.at.addr, MasterHAAddr: master.haAddr}
	}
	return out, fx, nil
}

// enter returns the member of the registration, after it has taken the place of holder and of its own earlier ids.
func (t *RouteTable) enter(g *group, r *Registration, holder *member, earlier []*member, fx *Effects) *member {
	reason := ReasonNew
	for _, m := range earlier {
		t.remove(g, m)
		reason = ReasonPromoted
	}
	if holder != nil {
		if holder.at.addr == r.Addr {
			return holder
		}
		t.remove(g, holder)
		fx.Events = append(fx.Events, holder.event(false, ReasonReplaced))
	}
	m := &member{name: r.Name, id: r.ID, at: place{r.Cluster, r.Addr}}
	g.members[m.id] = m
	t.places[m.at] = append(t.places[m.at], m)
	e := m.event(true, reason)
	e.Wiped = t.wiped[r.Name]
	fx.Events = append(fx.Events, e)
	return m
}

func (m *member) renew(r *Registration, now time.Time) {
	m.haAddr, m.version, m.link, m.timeout, m.lastUpdate, m.leaves = r.HAAddr, r.Version, r.Link, r.Timeout, now, time.Time{}
	if r.Filters != nil {
		m.filters = slices.Clone(r.Filters)
	}
}

func (m *member) event(joined bool, reason Reason) Event {
	return Event{Joined: joined, Reason: reason, Cluster: m.at.cluster, Name: m.name, Addr: m.at.addr, ID: m.id}
}

// remove takes a member out of its group, which may be empty then, and out of the index.
func (t *RouteTable) remove(g *group, m *member) {
	delete(g.members, m.id)
	rest := slices.DeleteFunc(t.places[m.at], func(o *member) bool { return o == m })
	if t.places[m.at] = rest; len(rest) == 0 {
		delete(t.places, m.at)
	}
}

// takeTopics sets the queues of the broker name from a registration. Java edits a topic only when the data version differs or
// the topic lacks the broker; comparing what is edited comes to the same.
func (t *RouteTable) takeTopics(g *group, r *Registration, fx *Effects) {
	standby, ahead := t.groups[r.Name+standbySuffix], t.aheadOf(r)
	for name, c := range r.Topics {
		if ahead != nil && (g.has(name) || !ahead.has(name)) {
			continue
		}
		t.setQueue(name, body.QueueData{
			BrokerName: r.Name, Perm: c.Perm, ReadQueueNums: c.ReadQueueNums, WriteQueueNums: c.WriteQueueNums, TopicSysFlag: c.TopicSysFlag,
		}, fx)
		if info, ok := r.Mappings[name]; ok || r.Full {
			t.setMapping(name, r.Name, info, ok, fx)
		}
		if r.WithStandby && standby != nil {
			t.setQueue(name, standbyQueue(r.Name+standbySuffix, &c), fx)
		}
	}
	if !r.Full || r.ID != masterID || ahead != nil {
		return // a slave's table may lag behind what the master registered
	}
	for name := range g.topics {
		if _, ok := r.Topics[name]; ok {
			continue
		}
		t.dropQueue(name, r.Name, fx)
		if standby != nil && standby.has(name) {
			t.dropQueue(name, r.Name+standbySuffix, fx)
		}
	}
}

// aheadOf returns the group whose standby registers, if its master has registered newer topics: a replica learns of changes a moment later
// than it may have to register. Then it changes nothing of topics that it has already, and adds none that the master does not have.
func (t *RouteTable) aheadOf(r *Registration) *group {
	name, ok := strings.CutSuffix(r.Name, standbySuffix)
	g := t.groups[name]
	if !ok || g == nil || g.members[masterID] == nil || r.Version.Counter >= g.members[masterID].version.Counter {
		return nil
	}
	return g
}

// standbyQueue is what the standby of a group has of a topic: a queue to write to, if the topic has any and they are not in order.
func standbyQueue(broker string, c *body.TopicConfig) body.QueueData {
	q := body.QueueData{BrokerName: broker, TopicSysFlag: c.TopicSysFlag}
	if perm := c.Perm & permWrite; perm != 0 && c.WriteQueueNums > 0 && !c.Order {
		q.Perm, q.WriteQueueNums = perm, 1
	}
	return q
}

// refresh rebuilds what routes show of a broker name.
func (t *RouteTable) refresh(name string, g *group, fx *Effects) {
	v := &Broker{Filters: map[string][]string{}, BrokerData: body.BrokerData{
		BrokerAddrs: make(map[int64]string, len(g.members)), BrokerName: name, Cluster: g.cluster, EnableActingMaster: g.acting, ZoneName: g.zone,
	}}
	for id, m := range g.members {
		v.BrokerAddrs[id] = m.at.addr
		if len(m.filters) > 0 {
			v.Filters[m.at.addr] = m.filters
		}
	}
	base, _ := strings.CutSuffix(name, standbySuffix)
	v.ReadOnly = t.wiped[name] || t.wiped[base] || g.acting && g.members[masterID] == nil
	if g.view == nil || !g.view.equal(v) {
		g.view, fx.Brokers = v, true
	}
}

// notice tells the members of a group who has the lowest id: all of them when one has left, or when there is only one; else
// those that were there before.
func (g *group) notice(name, offlineAddr, haAddr string) Notice {
	least := g.minID()
	n := Notice{MinID: least, Name: name, MinAddr: g.members[least].at.addr, OfflineAddr: offlineAddr, JoinedHAAddr: haAddr}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if id != least || offlineAddr != "" || len(g.members) == 1 {
			n.To = append(n.To, g.members[id].at.addr)
		}
	}
	return n
}

// Brokers returns all broker names.
func (t *RouteTable) Brokers() map[string]*Broker {
	out := make(map[string]*Broker, len(t.groups))
	for name, g := range t.groups {
		out[name] = g.view
	}
	return out
}

// Version returns the data version of a registration, preferably that under name if the address has several.
func (t *RouteTable) Version(cluster, name, addr string) (v body.DataVersion, ok bool) {
	for _, m := range t.places[place{cluster, addr}] {
		if !ok || m.name == name {
			v, ok = m.version, true
		}
	}
	return v, ok
}

// WipeWrite takes the write permission of a known broker name, and of its standby name, away, until AddWrite, whatever it registers. It
// returns the number of its topics. Java's wipe ends with the next changed registration.
func (t *RouteTable) WipeWrite(name string) (topics int, fx Effects) {
	g := t.groups[name]
	if g == nil {
		return 0, fx
	}
	t.wiped[name] = true
	t.refreshBoth(name, g, &fx)
	return len(g.topics), fx
}

// refreshBoth is refresh for a broker name and its standby name: what is sent to that goes to the same group.
func (t *RouteTable) refreshBoth(name string, g *group, fx *Effects) {
	if g != nil {
		t.refresh(name, g, fx)
	}
	if standby := t.groups[name+standbySuffix]; standby != nil {
		t.refresh(name+standbySuffix, standby, fx)
	}
}

// AddWrite gives it back: the permissions are again those that the broker registered. Java sets all to read and write.
func (t *RouteTable) AddWrite(name string) (topics int, fx Effects) {
	delete(t.wiped, name)
	g := t.groups[name]
	t.refreshBoth(name, g, &fx)
	if g == nil { // its standby may be there
		return 0, fx
	}
	return len(g.topics), fx
}
