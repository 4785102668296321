package broker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// clients knows who is connected: producers and consumers by group, and what the groups subscribe (ConsumerManager,
// ProducerManager).
type clients struct {
	b *Broker

	mu        sync.RWMutex
	consumers map[string]*consumerGroup
	producers map[string]members
	sessions  map[*remoting.Conn]*session
	byID      map[string][]channel // connections of producers by client id, the newest last
	joins     int64                // counts memberships
	changed   map[string]struct{}  // consumer groups whose members are still to be told

	creating sync.Mutex    // one creation of a group at a time
	wake     chan struct{} // something is in changed
}

// members are the connections of a group.
type members map[*remoting.Conn]*member

// member is one connection in one group.
type member struct {
	conn        *remoting.Conn
	id          string // client id
	language    code.Language
	version     code.Version
	seen        int64 // ms, the last heartbeat
	join        int64 // grows with every membership: the newest connection of a client id has the largest
	fingerprint int32 // of the last heartbeat; 0 before version 2 of it
}

// session is what one connection belongs to.
type session struct {
	consumers map[string]int // the weight of the last subscription that it has brought
	weight    int            // of all of them
	producers map[string]struct{}
	asked     bool // it is being asked for its subscriptions
}

// channel counts the producer groups that a connection is in under one client id. Only with the last is the client gone.
type channel struct {
	conn   *remoting.Conn
	groups int
}

// consumerGroup is a group that is online: it has at least one member.
type consumerGroup struct {
	name    string
	view    atomic.Pointer[groupView]
	members members // guarded by clients.mu
}

// groupView is what the last heartbeat said of the group. It is immutable.
type groupView struct {
	consumeType body.ConsumeType
	model       body.MessageModel
	from        body.ConsumeFromWhere
	subs        map[string]*subscription // by topic
}

func newClients(b *Broker) *clients {
	return &clients{b: b, consumers: map[string]*consumerGroup{}, producers: map[string]members{}, sessions: map[*remoting.Conn]*session{},
		byID: map[string][]channel{}, changed: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// consumerGroup returns a group that is online, nil if it is not.
func (c *clients) consumerGroup(name string) *consumerGroup {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.consumers[name]
}

// broadcasting tells whether each member gets all messages.
func (g *consumerGroup) broadcasting() bool { return g.view.Load().model == body.Broadcasting }

// subscription returns what the group wants of a topic, nil if it has not subscribed it.
func (g *consumerGroup) subscription(topic string) *subscription { return g.view.Load().subs[topic] }

// membersOf lists the members of a consumer group, the oldest first.
func (c *clients) membersOf(group string) []member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if g := c.consumers[group]; g != nil {
		return g.members.list()
	}
	return nil
}

// producersOf lists the members of a producer group, the oldest first.
func (c *clients) producersOf(group string) []member {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.producers[group].list()
}

// producerGroups names the producer groups that are online.
func (c *clients) producerGroups() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.producers))
}

// consumerGroups names the consumer groups that are online.
func (c *clients) consumerGroups() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.consumers))
}

func (m members) list() []member {
	all := make([]member, 0, len(m))
	for _, one := range m {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b member) int { return int(a.join - b.join) })
	return all
}

// consumer returns the newest connection of a client in a consumer group.
func (c *clients) consumer(group, id string) (found member, ok bool) {
	for _, m := range c.membersOf(group) {
		if m.id == id {
			found, ok = m, true
		}
	}
	return found, ok
}

// memberID returns the client id of a connection in a consumer group, "" if it is not in it.
func (c *clients) memberID(group string, conn *remoting.Conn) string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if g := c.consumers[group]; g != nil && g.members[conn] != nil {
		return g.members[conn].id
	}
	return ""
}

// producer returns the newest connection of a client that is in any producer group, nil if there is none.
func (c *clients) producer(id string) *remoting.Conn {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if list := c.byID[id]; len(list) > 0 {
		return list[len(list)-1].conn
	}
	return nil
}

// joinProducer enters a producer, or notes that it is still there.
func (c *clients) joinProducer(m member, group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.producers[group]
	if list == nil {
		list = members{}
		c.producers[group] = list
	}
	old := list[m.conn]
	if old == nil || old.id != m.id {
		if old != nil {
			c.releaseLocked(old.id, m.conn)
		}
		c.retainLocked(m.id, m.conn)
	}
	c.enterLocked(list, m)
	c.sessionLocked(m.conn).producers[group] = struct{}{}
	c.dropIfClosedLocked(m.conn)
}

// joinConsumer enters a consumer, or notes that it is still there, and takes what it says of its group. withoutSub keeps the
// subscriptions as they are. stale tells that the client must send them: it has changed them or the broker does not know them.
func (c *clients) joinConsumer(m member, d *body.ConsumerData, withoutSub bool) (stale bool) {
	for {
		g := c.consumerGroup(d.GroupName)
		var seen *groupView
		if g != nil {
			seen = g.view.Load()
		}
		next, topicsChanged := c.nextView(seen, d, withoutSub)
		stale, done := c.tryJoin(m, g, seen, next, topicsChanged, d.GroupName, withoutSub)
		if done {
			if !withoutSub {
				c.brought(m.conn, d.GroupName, weight(d.SubscriptionDataSet))
			}
			c.keepFilters(d.GroupName, seen, next)
			return stale
		}
	}
}

// nextView is what a heartbeat makes of a view, nil if the group has not been online. It is computed outside the lock, since
// expressions are compiled here.
func (c *clients) nextView(seen *groupView, d *body.ConsumerData, withoutSub bool) (next *groupView, topicsChanged bool) {
	next = &groupView{consumeType: d.ConsumeType, model: d.MessageModel, from: d.ConsumeFromWhere}
	var known map[string]*subscription
	if seen != nil {
		known = seen.subs
	}
	if withoutSub {
		next.subs = known
		return next, false
	}
	next.subs = make(map[string]*subscription, len(d.SubscriptionDataSet))
	for i := range d.SubscriptionDataSet {
		s := &d.SubscriptionDataSet[i]
		old := known[s.Topic]
		topicsChanged = topicsChanged || old == nil
		if old != nil && s.SubVersion <= old.data.SubVersion {
			next.subs[s.Topic] = old
		} else {
			next.subs[s.Topic] = c.b.newSubscription(s)
		}
	}
	return next, topicsChanged || len(next.subs) != len(known)
}

// brought notes the weight of the subscription that a connection has brought for a group.
func (c *clients) brought(conn *remoting.Conn, group string, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[conn]; s != nil {
		if old, joined := s.consumers[group]; joined {
			s.consumers[group] = weight
			s.weight += weight - old
		}
	}
}

// room tells whether a heartbeat keeps its connection within the bounds of one client, the groups of earlier ones included. It
// looks at the groups of the heartbeat only: whoever sends many small ones must not be dearer than others.
func (c *clients) room(conn *remoting.Conn, d *body.HeartbeatData) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s := c.sessions[conn]
	if s == nil {
		s = &session{}
	}
	groups, weights := len(s.consumers)+len(s.producers), s.weight
	seen := make(map[string]struct{}, len(d.ConsumerDataSet))
	for i := range d.ConsumerDataSet {
		g := &d.ConsumerDataSet[i]
		old, known := s.consumers[g.GroupName]
		if !known {
			groups++
		}
		if d.WithoutSub {
			continue
		}
		weights += weight(g.SubscriptionDataSet)
		if _, twice := seen[g.GroupName]; !twice {
			weights -= old
			seen[g.GroupName] = struct{}{}
		}
	}
	for _, p := range d.ProducerDataSet {
		if _, known := s.producers[p.GroupName]; !known {
			groups++
		}
	}
	return groups <= maxHeartbeatGroups && weights <= maxSubscriptions
}

// tryJoin enters m into the group g, which is nil if it was not online, unless the group has changed since seen.
func (c *clients) tryJoin(m member, g *consumerGroup, seen, next *groupView, topicsChanged bool, name string, withoutSub bool) (stale, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.consumers[name] != g || g != nil && g.view.Load() != seen {
		return false, false
	}
	if g == nil {
		g = &consumerGroup{name: name, members: members{}}
		c.consumers[name] = g
	}
	g.view.Store(next)
	old := g.members[m.conn]
	switch {
	case m.fingerprint == 0:
		stale = true
	case withoutSub:
		stale = old == nil || old.fingerprint != m.fingerprint || next.subs == nil
	case old != nil:
		stale = old.fingerprint != 0 && old.fingerprint != m.fingerprint
	}
	if old == nil {
		c.warnOfTwinLocked(g, &m)
	}
	c.enterLocked(g.members, m)
	c.sessionLocked(m.conn).consumers[name] += 0
	if old == nil || topicsChanged {
		c.changedLocked(g)
	}
	c.dropIfClosedLocked(m.conn)
	return stale, true
}

// warnOfTwinLocked tells of two connections with one client id: either a client has reconnected and its old connection is not
// known to be dead yet, or two clients go by the same name and will both be given the same queues.
func (c *clients) warnOfTwinLocked(g *consumerGroup, m *member) {
	for _, other := range g.members {
		if other.id == m.id {
			c.b.log.Warn("two connections have the same client id: if it lasts, two consumers share queues; give them different instance names",
				zap.String("group", g.name), zap.String("clientId", m.id), zap.String("old", other.conn.RemoteAddr()), zap.String("new", m.conn.RemoteAddr()))
			return
		}
	}
}

func (c *clients) enterLocked(list members, m member) {
	if old := list[m.conn]; old != nil {
		m.join = old.join
	} else {
		c.joins++
		m.join = c.joins
	}
	list[m.conn] = &m
}

func (c *clients) sessionLocked(conn *remoting.Conn) *session {
	s := c.sessions[conn]
	if s == nil {
		s = &session{consumers: map[string]int{}, producers: map[string]struct{}{}}
		c.sessions[conn] = s
	}
	return s
}

// dropIfClosedLocked undoes a join that came too late: a heartbeat that waited in a lane while its connection ended.
func (c *clients) dropIfClosedLocked(conn *remoting.Conn) {
	if !conn.Alive() {
		c.dropLocked(conn)
	}
}

func (c *clients) retainLocked(id string, conn *remoting.Conn) {
	list := c.byID[id]
	if i := slices.IndexFunc(list, func(ch channel) bool { return ch.conn == conn }); i >= 0 {
		list[i].groups++
		return
	}
	c.byID[id] = append(list, channel{conn, 1})
}

func (c *clients) releaseLocked(id string, conn *remoting.Conn) {
	list := c.byID[id]
	i := slices.IndexFunc(list, func(ch channel) bool { return ch.conn == conn })
	if i < 0 {
		return
	}
	if list[i].groups--; list[i].groups > 0 {
		return
	}
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(c.byID, id)
		return
	}
	c.byID[id] = list
}

// leave takes a connection out of a producer group and a consumer group; an empty name means none.
func (c *clients) leave(conn *remoting.Conn, producerGroup, consumerGroup string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaveProducerLocked(conn, producerGroup)
	c.leaveConsumerLocked(conn, consumerGroup)
	if s := c.sessions[conn]; s != nil && len(s.consumers)+len(s.producers) == 0 {
		delete(c.sessions, conn)
	}
}

func (c *clients) leaveProducerLocked(conn *remoting.Conn, group string) {
	list := c.producers[group]
	m := list[conn]
	if m == nil {
		return
	}
	c.releaseLocked(m.id, conn)
	delete(c.sessions[conn].producers, group)
	if delete(list, conn); len(list) == 0 {
		delete(c.producers, group)
	}
}

func (c *clients) leaveConsumerLocked(conn *remoting.Conn, group string) {
	g := c.consumers[group]
	if g == nil || g.members[conn] == nil {
		return
	}
	s := c.sessions[conn]
	s.weight -= s.consumers[group]
	delete(s.consumers, group)
	if delete(g.members, conn); len(g.members) == 0 {
		delete(c.consumers, group)
	}
	c.changedLocked(g)
}

// changedLocked has the members of a group told, or, if it has none left, its filters marked as dead.
func (c *clients) changedLocked(g *consumerGroup) {
	c.changed[g.name] = struct{}{}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *clients) dropLocked(conn *remoting.Conn) {
	s := c.sessions[conn]
	if s == nil {
		return
	}
	for group := range s.producers {
		c.leaveProducerLocked(conn, group)
	}
	for group := range s.consumers {
		c.leaveConsumerLocked(conn, group)
	}
	delete(c.sessions, conn)
}

// closed forgets a connection.
func (c *clients) closed(conn *remoting.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(conn)
}

// expire takes those out of their groups who have not been heard of since before, and closes the connections that nothing is
// left on (ClientHousekeepingService).
func (c *clients) expire(before int64) {
	c.mu.Lock()
	var idle []*remoting.Conn
	for conn, s := range c.sessions {
		for group := range s.producers {
			if c.producers[group][conn].seen < before {
				c.leaveProducerLocked(conn, group)
			}
		}
		for group := range s.consumers {
			if c.consumers[group].members[conn].seen < before {
				c.leaveConsumerLocked(conn, group)
			}
		}
		if len(s.consumers)+len(s.producers) == 0 {
			idle = append(idle, conn)
			delete(c.sessions, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range idle {
		c.b.log.Info("a client sends no heartbeats: its connection is closed", zap.String("client", conn.RemoteAddr()))
		conn.Close()
	}
}

// run tells the members of changed groups. What changes while it does is told once.
func (c *clients) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
			c.notify()
		}
	}
}

func (c *clients) notify() {
	c.mu.Lock()
	groups := slices.Collect(maps.Keys(c.changed))
	clear(c.changed)
	c.mu.Unlock()
	for _, name := range groups {
		g := c.consumerGroup(name)
		if g == nil {
			c.killFilters(name)
			continue
		}
		if g.broadcasting() || !c.wantsNotice(name) {
			continue
		}
		for _, m := range c.membersOf(name) {
			// A connection that has ended takes its member along.
			_ = m.conn.Oneway(code.NotifyConsumerIDsChanged, &header.NotifyConsumerIdsChangedRequest{ConsumerGroup: name}, nil)
		}
	}
}

// wantsNotice tells whether broker and group want their members told of changes.
func (c *clients) wantsNotice(group string) bool {
	cfg, ok := c.b.store.State.Group(group)
	return c.b.conf.Load().NotifyConsumerIdsChangedEnable && (!ok || cfg.NotifyConsumerIdsChangedEnable)
}
