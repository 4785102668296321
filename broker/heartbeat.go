package broker

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// Bounds of one client: its groups, the length of names that nothing else checks, and about how many bytes its subscriptions take.
const (
	maxHeartbeatGroups = 10_000
	maxClientName      = 1024
	maxSubscriptions   = 32 << 20
)

// weight is about how many bytes a subscription takes: its tags are kept as text, as names and as hashes.
func weight(list []body.SubscriptionData) (n int) {
	for i := range list {
		n += 256 + len(list[i].Topic) + 8*len(list[i].SubString)
	}
	return n
}

// handleHeartbeat serves HEART_BEAT (ClientManageProcessor). Groups that do not exist and may not be made are passed over.
func (b *Broker) handleHeartbeat(r *remoting.Request, _ *header.HeartbeatRequest) error {
	var d body.HeartbeatData
	if err := fastjson.Unmarshal(r.Body, &d); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if d.ClientID == "" || len(d.ClientID) > maxClientName || len(d.ConsumerDataSet)+len(d.ProducerDataSet) > maxHeartbeatGroups {
		return fmt.Errorf("heartbeat: client id %.99q with %d groups", d.ClientID, len(d.ConsumerDataSet)+len(d.ProducerDataSet))
	}
	if !b.clients.room(r.Conn, &d) {
		return code.New(code.InvalidParameter, "the heartbeats of a connection may bring %d groups and subscriptions of about %d bytes", maxHeartbeatGroups, maxSubscriptions)
	}
	accepted := make([]bool, len(d.ConsumerDataSet))
	for i := range d.ConsumerDataSet {
		var err error
		if accepted[i], err = b.prepareGroup(r, &d.ConsumerDataSet[i], d.WithoutSub); err != nil {
			return err
		}
	}
	m := member{conn: r.Conn, id: d.ClientID, language: r.Language, version: r.Version, seen: b.clk.NowMs(), fingerprint: d.HeartbeatFingerprint}
	stale := d.HeartbeatFingerprint == 0
	for i := range d.ConsumerDataSet {
		if accepted[i] {
			stale = b.clients.joinConsumer(m, &d.ConsumerDataSet[i], d.WithoutSub) || stale
		} else {
			stale = stale || d.WithoutSub
		}
	}
	if b.conf.Load().EnableRegisterProducer {
		for _, p := range d.ProducerDataSet {
			if p.GroupName != "" && len(p.GroupName) <= maxClientName {
				b.clients.joinProducer(m, p.GroupName)
			}
		}
	}
	return r.OK(&header.HeartbeatResponse{SupportV2: header.Some(true), SubChange: header.Some(stale)}, nil)
}

// askSubscriptions asks a consumer what it subscribes, since it knows better than its last heartbeat said. Java's client makes a new version of
// a subscription at every rebalance, and drops the heartbeat that should tell of it while another one is under way: the next comes 30 s later.
func (c *clients) askSubscriptions(conn *remoting.Conn, group string) {
	c.mu.Lock()
	s, g := c.sessions[conn], c.consumers[group]
	if s == nil || s.asked || g == nil || g.members[conn] == nil {
		c.mu.Unlock()
		return
	}
	s.asked = true
	m, name := *g.members[conn], g.name
	c.mu.Unlock()
	h := &header.GetConsumerRunningInfoRequest{ConsumerGroup: name, ClientID: m.id}
	c.b.ask(m, code.GetConsumerRunningInfo, h, nil, statusAnswers, func(r *remoting.Reply, err error) {
		c.mu.Lock()
		s.asked = false
		still := c.consumers[name] == g && g.members[conn] != nil
		c.mu.Unlock()
		if err == nil {
			err = r.Err()
		}
		var info body.ConsumerRunningInfo
		if err == nil {
			err = fastjson.Unmarshal(r.Body, &info)
		}
		v := g.view.Load()
		d := body.ConsumerData{GroupName: name, ConsumeType: v.consumeType, MessageModel: v.model, ConsumeFromWhere: v.from, SubscriptionDataSet: info.SubscriptionSet}
		if err != nil || !still || len(d.SubscriptionDataSet) == 0 || !c.room(conn, &body.HeartbeatData{ConsumerDataSet: []body.ConsumerData{d}}) {
			return // the next heartbeat tells
		}
		m.seen = c.b.clk.NowMs()
		c.joinConsumer(m, &d, false)
	})
}

// prepareGroup makes what a consumer of the group needs: the group and its retry topic. ok is false if the consumer is to be
// passed over.
func (b *Broker) prepareGroup(r *remoting.Request, d *body.ConsumerData, withoutSub bool) (ok bool, err error) {
	if d.ConsumeType == body.ConsumeActively && b.conf.Load().RejectPullConsumerEnable {
		return false, nil
	}
	cfg, err := b.group(r, d.GroupName)
	var refused *code.Error
	if errors.As(err, &refused) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, b.retryTopic(r, cfg, b.subscribesOrdered(d, withoutSub), d.UnitMode)
}

// subscribesOrdered tells whether a consumer wants a topic whose order is configured.
func (b *Broker) subscribesOrdered(d *body.ConsumerData, withoutSub bool) bool {
	ordered := func(topic string) bool {
		t := b.topics.get(topic)
		return t != nil && t.Order
	}
	if !withoutSub {
		for i := range d.SubscriptionDataSet {
			if ordered(d.SubscriptionDataSet[i].Topic) {
				return true
			}
		}
		return false
	}
	if g := b.clients.consumerGroup(d.GroupName); g != nil {
		for topic := range g.view.Load().subs {
			if ordered(topic) {
				return true
			}
		}
	}
	return false
}

// retryTopic makes the retry topic of a group, or brings it up to date: it never shrinks, since messages may lie in every queue.
func (b *Broker) retryTopic(r *remoting.Request, cfg *body.SubscriptionGroupConfig, order, unit bool) error {
	if !b.leads() {
		return nil // the consumer says the same to the master
	}
	name, queues := message.RetryPrefix+cfg.GroupName, cfg.RetryQueueNums
	upToDate := func() bool {
		t := b.topics.get(name)
		return queues <= 0 || t != nil && t.ReadQueueNums >= queues && t.WriteQueueNums >= queues && t.Order == order
	}
	if upToDate() {
		return nil
	}
	if !r.OnLane() {
		return b.lanes.admin.Redo()
	}
	_, err := b.topics.put(func() (*body.TopicConfig, error) {
		old := b.topics.get(name)
		if upToDate() {
			return old, nil
		}
		t := body.TopicConfig{TopicName: name, Perm: permRead | permWrite, TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}}
		if unit {
			t.TopicSysFlag = sysFlagUnitSub
		}
		if old != nil {
			t = *old
		}
		t.ReadQueueNums, t.WriteQueueNums, t.Order = max(t.ReadQueueNums, queues), max(t.WriteQueueNums, queues), order
		return &t, nil
	})
	return err
}

// sysFlagUnitSub marks a topic that is subscribed from other units (TopicSysFlag).
const sysFlagUnitSub = 2

// defaultGroup is the configuration of a group that nobody has configured.
func defaultGroup(name string) body.SubscriptionGroupConfig {
	var g body.SubscriptionGroupConfig
	g.SetDefaults()
	g.GroupName = name
	return g
}

// createGroup makes a group with the default configuration, unless somebody else just has.
func (b *Broker) createGroup(name string) (*body.SubscriptionGroupConfig, error) {
	b.clients.creating.Lock()
	defer b.clients.creating.Unlock()
	if c, ok := b.store.State.Group(name); ok {
		return c, nil
	}
	g := defaultGroup(strings.Clone(name))
	if err := b.commit(state.GroupPut(&g)); err != nil {
		return nil, err
	}
	c, _ := b.store.State.Group(name)
	return c, nil
}

// keepFilters writes the SQL92 expressions of a group to the state, where tools see them (ConsumerFilterManager). Pulls do not
// need them: a subscription carries its compiled expression.
func (c *clients) keepFilters(group string, old, view *groupView) {
	if old != nil && maps.Equal(old.subs, view.subs) {
		return
	}
	var changes []state.Change
	now := c.b.clk.NowMs()
	for topic, s := range view.subs {
		if isTag(s.data.ExpressionType) || c.b.topics.get(topic) == nil { // what is written is never deleted: no names without end
			continue
		}
		f, known := c.b.store.State.Filter(topic, group)
		switch {
		case s.err != nil && known && !f.Dead():
			changes = append(changes, state.FilterDead(topic, group, now))
		case s.err == nil && (!known || f.Dead() || s.data.SubVersion > f.ClientVersion):
			changes = append(changes, state.FilterPut(&state.Filter{BornTime: now, ClientVersion: s.data.SubVersion, ConsumerGroup: group,
				Expression: s.data.SubString, ExpressionType: s.data.ExpressionType, Topic: topic}))
		}
	}
	if old != nil {
		for topic, s := range old.subs {
			if !isTag(s.data.ExpressionType) && view.subs[topic] == nil {
				changes = append(changes, state.FilterDead(topic, group, now))
			}
		}
	}
	c.proposeFilters(group, changes)
}

// killFilters marks the filters of a group that has no member left.
func (c *clients) killFilters(group string) {
	var changes []state.Change
	now := c.b.clk.NowMs()
	for _, f := range c.b.store.State.Filters() {
		if f.ConsumerGroup == group && !f.Dead() {
			changes = append(changes, state.FilterDead(f.Topic, group, now))
		}
	}
	c.proposeFilters(group, changes)
}

func (c *clients) proposeFilters(group string, changes []state.Change) {
	if len(changes) == 0 || !c.b.leads() {
		return
	}
	if err := c.b.store.Propose(nil, changes...); err != nil {
		c.b.log.Warn("the filters of a group could not be stored: tools do not see them", zap.String("group", group), zap.Error(err))
	}
}

// handleUnregister serves UNREGISTER_CLIENT.
func (b *Broker) handleUnregister(r *remoting.Request, h *header.UnregisterClientRequest) error {
	b.clients.leave(r.Conn, h.ProducerGroup, h.ConsumerGroup)
	return r.OK(nil, nil)
}

// handleCheckClient serves CHECK_CLIENT_CONFIG: a consumer asks whether its expression will be understood.
func (b *Broker) handleCheckClient(r *remoting.Request) error {
	var q body.CheckClientRequestBody
	if len(r.Body) > 0 {
		if err := fastjson.Unmarshal(r.Body, &q); err != nil {
			return fmt.Errorf("check client config: %w", err)
		}
	}
	if q.SubscriptionData == nil || isTag(q.SubscriptionData.ExpressionType) {
		return r.OK(nil, nil)
	}
	if !b.conf.Load().EnablePropertyFilter {
		return code.New(code.SystemError, "The broker does not support consumer to filter message by %s", q.SubscriptionData.ExpressionType)
	}
	if _, err := b.filters.Compile(q.SubscriptionData.SubString); err != nil {
		return code.New(code.SubscriptionParseFailed, "%v", err)
	}
	return r.OK(nil, nil)
}
