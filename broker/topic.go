package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/state"
)

// Permission bits of topics and brokers (PermName).
const (
	permInherit = 1
	permWrite   = 2
	permRead    = 4
)

// Names that mean something (TopicValidator, MixAll).
const (
	autoCreateKey = "TBW102"
	selfTestTopic = "SELF_TEST_TOPIC"
	halfTopic     = "RMQ_SYS_TRANS_HALF_TOPIC"
	opTopic       = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
	checkMaxTopic = "TRANS_CHECK_MAX_TIME_TOPIC"
	movedTopic    = "OFFSET_MOVED_EVENT"
	timerTopic    = "rmq_sys_wheel_timer"
	systemPrefix  = "rmq_sys_"
	revivePrefix  = "rmq_sys_REVIVE_LOG_"
	memberPrefix  = "rmq_sys_SYNC_BROKER_MEMBER_"
	replySuffix   = "_REPLY_TOPIC"
	faq           = " See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
)

// Name lengths (TopicValidator, Validators).
const (
	maxTopic      = 127
	maxName       = 512 // of a topic or group, whoever made it; nothing is recorded about longer names
	maxGroupTopic = 255 // %RETRY% and %DLQ%
	maxGroup      = 120
)

// topics makes topics: the broker's own at start, others on the first send or on command.
type topics struct {
	b      *Broker
	mu     sync.Mutex // one creation at a time
	system map[string]bool
}

func newTopics(b *Broker) *topics {
	t := &topics{b: b, system: map[string]bool{}}
	for _, c := range t.systemTopics() {
		t.system[c.TopicName] = true
	}
	return t
}

// get returns the configuration of a topic. It is immutable.
func (t *topics) get(name string) *body.TopicConfig {
	c, _ := t.b.store.State.Topic(name)
	return c
}

// version stamps the topics for name servers.
func (t *topics) version() body.DataVersion { return t.b.store.State.Version(state.VersionTopics) }

// systemTopics lists the topics that every broker has (TopicConfigManager.init).
func (t *topics) systemTopics() []body.TopicConfig {
	c := t.b.conf.Load()
	rw := func(on bool) int32 {
		if on {
			return permInherit | permRead | permWrite
		}
		return permInherit
	}
	one := func(name string, queues, perm int32) body.TopicConfig {
		return body.TopicConfig{TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm, TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}}
	}
	list := []body.TopicConfig{
		one(selfTestTopic, 1, permRead|permWrite),
		one("BenchmarkTest", 1024, permRead|permWrite),
		one(c.BrokerClusterName, 16, rw(c.ClusterTopicEnable)),
		one(c.BrokerName, 1, rw(c.BrokerTopicEnable)),
		one(movedTopic, 1, permRead|permWrite),
		one(store.ScheduleTopic, int32(t.b.store.MaxDelayLevel()), permRead|permWrite),
		one(c.BrokerClusterName+replySuffix, 1, permRead|permWrite),
		one(memberPrefix+c.BrokerName, 1, permInherit),
		one(halfTopic, 1, permRead|permWrite),
		one(opTopic, 1, permRead|permWrite),
	}
	if c.AutoCreateTopicEnable {
		list = append(list, one(autoCreateKey, c.DefaultTopicQueueNums, permInherit|permRead|permWrite))
	}
	if c.TraceTopicEnable {
		list = append(list, one(c.MsgTraceTopicName, 1, permRead|permWrite))
	}
	return list
}

// createSystem makes the topics and groups that are missing. It returns when they are in the state.
func (t *topics) createSystem() error {
	var changes []state.Change
	for _, c := range t.systemTopics() {
		if old := t.get(c.TopicName); old == nil || old.Perm != c.Perm && c.TopicName != autoCreateKey {
			changes = append(changes, state.TopicPut(&c))
		}
	}
	for _, g := range systemGroups {
		if _, ok := t.b.store.State.Group(g); !ok {
			cfg := defaultGroup(g)
			changes = append(changes, state.GroupPut(&cfg))
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return t.b.commit(changes...)
}

// systemGroups exist on every broker (SubscriptionGroupManager.init).
var systemGroups = []string{"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL",
	"CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"}

// isSystem tells the topics that users may not administrate.
func (t *topics) isSystem(name string) bool {
	return t.system[name] || name == checkMaxTopic || name == autoCreateKey || strings.HasPrefix(name, systemPrefix)
}

// systemNames lists the names of isSystem that are topics, or may become some.
func (t *topics) systemNames() []string {
	names := slices.AppendSeq([]string{checkMaxTopic, autoCreateKey, timerTopic}, maps.Keys(t.system))
	slices.Sort(names)
	return slices.Compact(names)
}

// sendForbidden tells the topics that clients may not send to. Timers and pop state would break if they could.
func sendForbidden(name string) bool {
	switch name {
	case store.ScheduleTopic, halfTopic, opTopic, checkMaxTopic, selfTestTopic, movedTopic, timerTopic:
		return true
	}
	return strings.HasPrefix(name, revivePrefix) || strings.HasPrefix(name, state.InternalPrefix)
}

// validateTopic checks a name; the error is what Java's TopicValidator says, with INVALID_PARAMETER.
func validateTopic(name string) error {
	if strings.TrimSpace(name) == "" {
		return code.New(code.InvalidParameter, "The specified topic is blank.")
	}
	if badNameByte(name) >= 0 {
		return code.New(code.InvalidParameter, "The specified topic: %s, contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$", shown(name))
	}
	limit := maxTopic
	if message.IsRetryTopic(name) || strings.HasPrefix(name, message.DLQPrefix) {
		limit = maxGroupTopic
	}
	if len(name) > limit {
		return code.New(code.InvalidParameter, "The specified topic is longer than topic max length.")
	}
	return nil
}

// validateGroup checks a group's name.
func validateGroup(name string) error {
	if strings.TrimSpace(name) == "" {
		return code.New(code.InvalidParameter, "The specified group is blank.")
	}
	if badNameByte(name) >= 0 {
		return code.New(code.InvalidParameter, "The specified group: %s, contains illegal characters, allowing only ^[%%|a-zA-Z0-9_-]+$", shown(name))
	}
	if len(name) > maxGroup {
		return code.New(code.InvalidParameter, "The specified group is longer than group max length %d.", maxGroup)
	}
	return nil
}

// shown bounds what an answer repeats of a name that is not valid.
func shown(name string) string { return name[:min(len(name), maxGroupTopic)] }

// badNameByte returns the index of the first byte that names may not hold, -1 if there is none.
func badNameByte(name string) int {
	for i := range len(name) {
		if !nameBytes[name[i]] {
			return i
		}
	}
	return -1
}

var nameBytes = func() (ok [256]bool) {
	for _, c := range "%|_-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" {
		ok[c] = true
	}
	return ok
}()

// commit proposes changes, as one record unless they are many, and waits until they are confirmed and applied. It blocks: never
// call it on a connection's reader.
func (b *Broker) commit(changes ...state.Change) error {
	if len(changes) == 0 {
		return nil
	}
	w := make(waitErr, 1)
	for ; len(changes) > maxChanges; changes = changes[maxChanges:] {
		if err := b.store.Propose(nil, changes[:maxChanges]...); err != nil {
			return err
		}
	}
	if err := b.store.Propose(w, changes...); err != nil {
		return err
	}
	timer := b.clk.NewTimer(commitTimeout)
	defer timer.Stop()
	select {
	case err := <-w:
		return err
	case <-timer.C:
		return fmt.Errorf("a change of the broker's state was not confirmed in %v; it may still take effect", commitTimeout)
	}
}

// commitTimeout leaves time to answer a client that gives up after three seconds.
const commitTimeout = 2500 * time.Millisecond

// maxChanges bounds a record. It is even, so that changes made in pairs stay together.
const maxChanges = 4096

// waitErr is a store.Waiter for one goroutine that blocks.
type waitErr chan error

// Done hands over the outcome.
func (w waitErr) Done(err error) { w <- err }

// onDone is a store.Waiter that calls a function.
type onDone func(err error)

// Done calls it.
func (f onDone) Done(err error) { f(err) }

// autoCreate makes a topic on its first send. nil means that it may not be made.
func (t *topics) autoCreate(name, defaultTopic string, queues, sysFlag int32) (*body.TopicConfig, error) {
	return t.put(func() (*body.TopicConfig, error) { return t.autoConfig(name, defaultTopic, queues, sysFlag), nil })
}

// autoConfig is the configuration of a topic that a send makes (TopicConfigManager.createTopicInSendMessageMethod).
func (t *topics) autoConfig(name, defaultTopic string, queues, sysFlag int32) *body.TopicConfig {
	if c := t.get(name); c != nil {
		return c
	}
	var c body.TopicConfig
	def := t.get(defaultTopic)
	inherit := def != nil && def.Perm&permInherit != 0 && (defaultTopic != autoCreateKey || t.b.conf.Load().AutoCreateTopicEnable)
	switch {
	case inherit:
		c = body.TopicConfig{Perm: def.Perm &^ permInherit, TopicFilterType: def.TopicFilterType, WriteQueueNums: max(0, min(queues, def.WriteQueueNums))}
	case message.IsRetryTopic(name):
		c = body.TopicConfig{Perm: permRead | permWrite, TopicFilterType: "SINGLE_TAG", WriteQueueNums: 1}
	default:
		return nil
	}
	c.TopicName, c.ReadQueueNums, c.TopicSysFlag, c.Attributes = strings.Clone(name), c.WriteQueueNums, sysFlag, map[string]string{}
	return &c
}

// ensure makes a topic of a group (retry, dead letters) if it is missing.
func (t *topics) ensure(name string, queues, perm int32) (*body.TopicConfig, error) {
	if c := t.get(name); c != nil {
		return c, nil
	}
	return t.put(func() (*body.TopicConfig, error) {
		if c := t.get(name); c != nil {
			return c, nil
		}
		return &body.TopicConfig{TopicName: strings.Clone(name), ReadQueueNums: queues, WriteQueueNums: queues, Perm: perm,
			TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{}}, nil
	})
}

// put stores the topic that decide returns; see putAll.
func (t *topics) put(decide func() (*body.TopicConfig, error)) (*body.TopicConfig, error) {
	var c *body.TopicConfig
	err := t.putAll(func() (list []*body.TopicConfig, err error) {
		if c, err = decide(); c != nil {
			list = append(list, c)
		}
		return list, err
	})
	if err != nil || c == nil {
		return nil, err
	}
	return t.get(c.TopicName), nil
}

// putAll stores the topics that decide returns, passing over those that are there already, and tells the name servers. decide is
// called while no other topic changes.
func (t *topics) putAll(decide func() ([]*body.TopicConfig, error)) error {
	start := t.b.clk.Now()
	t.mu.Lock()
	names, err := t.putAllLocked(decide)
	t.mu.Unlock()
	if len(names) == 0 {
		return err
	}
	t.b.stats.topicMakes.add(t.b.clk.Now().Sub(start), err, t.isSystem(names[0]))
	t.b.names.topicsChanged(names...)
	return err
}

// putAllLocked returns the names of the topics that it stored or tried to.
func (t *topics) putAllLocked(decide func() ([]*body.TopicConfig, error)) (names []string, err error) {
	list, err := decide()
	if err != nil {
		return nil, err
	}
	var changes []state.Change
	for _, c := range list {
		if t.get(c.TopicName) != c {
			changes = append(changes, state.TopicPut(c))
			names = append(names, c.TopicName)
		}
	}
	return names, t.b.commit(changes...)
}
