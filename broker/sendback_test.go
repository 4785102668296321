package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/state"
)

// back sends the message at a log offset back.
func back(group string, phy int64, level int32) *header.ConsumerSendMsgBackRequest {
	return &header.ConsumerSendMsgBackRequest{Group: group, Offset: phy, DelayLevel: level}
}

// last is the newest message of a queue.
func (b *testBroker) last(topic string, queue int32) message.View {
	b.t.Helper()
	list := b.all(topic, queue)
	if len(list) == 0 {
		b.t.Fatalf("nothing in queue %d of %s", queue, topic)
	}
	return list[len(list)-1]
}

func (b *testBroker) putGroup(name string, set func(*body.SubscriptionGroupConfig)) {
	b.t.Helper()
	g := defaultGroup(name)
	set(&g)
	if err := b.commit(state.GroupPut(&g)); err != nil {
		b.t.Fatal(err)
	}
}

func TestSendBack(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	p := b.client
	p.send("t", 2, "body", message.PropUniqueKey, "KEY", message.PropTags, "tag", "user", "value")
	first := b.last("t", 2)
	p.ok(code.ConsumerSendMsgBack, back("g", first.PhyOffset(), 0), nil)
	if b.topics.get("%RETRY%g") == nil {
		t.Error("the retry topic was not made")
	}
	delayed := b.last(store.ScheduleTopic, firstRetryLevel-1)
	want := map[string]string{message.PropUniqueKey: "KEY", message.PropTags: "tag", "user": "value", message.PropMsgRegion: "DefaultRegion", message.PropTraceOn: "true",
		message.PropCluster: "DefaultCluster", message.PropRetryTopic: "t", message.PropOriginMessageID: offsetID(&first),
		message.PropDelay: "3", message.PropRealTopic: "%RETRY%g", message.PropRealQueueID: "0"}
	if diff := cmp.Diff(want, delayed.Properties().Map()); diff != "" {
		t.Error(diff)
	}
	if string(delayed.Body()) != "body" || delayed.ReconsumeTimes() != 1 || delayed.BornHost() != first.BornHost() || delayed.BornTimestamp() != first.BornTimestamp() {
		t.Error("the copy differs")
	}
	clk.Advance(10 * time.Second)
	b.until("the first retry", func() bool { clk.Advance(time.Second); return len(b.all("%RETRY%g", 0)) == 1 })
	retry := b.last("%RETRY%g", 0)
	delete(want, message.PropDelay)
	if diff := cmp.Diff(want, retry.Properties().Map()); diff != "" {
		t.Errorf("the retry: %s", diff)
	}
	if retry.ReconsumeTimes() != 1 {
		t.Errorf("reconsumed %d times", retry.ReconsumeTimes())
	}
	// The second retry keeps the first message's identity and takes the next level.
	p.ok(code.ConsumerSendMsgBack, back("g", retry.PhyOffset(), 0), nil)
	delayed = b.last(store.ScheduleTopic, firstRetryLevel)
	got := delayed.Properties().Map()
	if got[message.PropRetryTopic] != "t" || got[message.PropOriginMessageID] != offsetID(&first) || got[message.PropDelay] != "4" || delayed.ReconsumeTimes() != 2 {
		t.Errorf("the second retry: %v", got)
	}
	// An explicit level is taken as it is, one beyond the table as the last.
	p.ok(code.ConsumerSendMsgBack, back("g", first.PhyOffset(), 7), nil)
	p.ok(code.ConsumerSendMsgBack, back("g", first.PhyOffset(), 99), nil)
	if len(b.all(store.ScheduleTopic, 6)) != 1 || len(b.all(store.ScheduleTopic, 17)) != 1 {
		t.Error("explicit levels")
	}
}

func TestDeadLetters(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	p.send("t", 0, "body", message.PropUniqueKey, "KEY")
	first := b.last("t", 0)
	h := back("g", first.PhyOffset(), -1)
	p.ok(code.ConsumerSendMsgBack, h, nil)
	dead := b.last("%DLQ%g", 0)
	want := map[string]string{message.PropUniqueKey: "KEY", message.PropMsgRegion: "DefaultRegion", message.PropTraceOn: "true", message.PropCluster: "DefaultCluster",
		message.PropRetryTopic: "t", message.PropOriginMessageID: offsetID(&first), message.PropDLQOriginTopic: "t", message.PropDLQOriginID: "KEY"}
	if diff := cmp.Diff(want, dead.Properties().Map()); diff != "" {
		t.Error(diff)
	}
	if c := b.topics.get("%DLQ%g"); c.Perm != permRead|permWrite || c.WriteQueueNums != 1 || dead.ReconsumeTimes() != 1 {
		t.Errorf("topic %+v", c)
	}
	h = back("g", first.PhyOffset(), 1)
	h.MaxReconsumeTimes = header.Some[int32](0)
	p.ok(code.ConsumerSendMsgBack, h, nil) // the client's own limit
	b.putGroup("impatient", func(g *body.SubscriptionGroupConfig) { g.RetryMaxTimes = 0 })
	p.ok(code.ConsumerSendMsgBack, back("impatient", first.PhyOffset(), 1), nil) // the group's
	if len(b.all("%DLQ%g", 0)) != 2 || len(b.all("%DLQ%impatient", 0)) != 1 || b.store.Queues.Get(store.ScheduleTopic, 0) != nil {
		t.Error("an exhausted message was not dead at once")
	}
}

func TestSendBackThatIsRefused(t *testing.T) {
	b := startBroker(t, map[string]string{"autoCreateSubscriptionGroup": "false"})
	p := b.client
	p.send("t", 0, "one", message.PropUniqueKey, "KEY")
	first := b.last("t", 0)
	p.refused(code.ConsumerSendMsgBack, back("unknown", 0, 0), nil, code.SubscriptionGroupNotExist, "subscription group not exist, unknown")
	b.putGroup("g", func(*body.SubscriptionGroupConfig) {})
	b.putGroup("none", func(g *body.SubscriptionGroupConfig) { g.RetryQueueNums = 0 })
	end := b.store.Log.End()
	p.ok(code.ConsumerSendMsgBack, back("none", first.PhyOffset(), 0), nil)
	if b.store.Log.End() != end {
		t.Error("a group without retries got one")
	}
	for _, phy := range []int64{-1, 1, 1 << 40, first.PhyOffset() + 4, 0} { // at 0 is a record of the broker's own
		p.refused(code.ConsumerSendMsgBack, back("g", phy, 0), nil, code.SystemError, fmt.Sprintf("look message by offset failed, %d", phy))
	}
	for id, ok := range map[string]bool{"": true, "KEY": true, offsetID(&first): true, "OTHER": false, string(message.AppendID(nil, first.StoreHost(), 0)): false} {
		h := back("g", first.PhyOffset(), 0)
		h.OriginMsgID = id
		if got := p.call(code.ConsumerSendMsgBack, h, nil); (got.Err() == nil) != ok {
			t.Errorf("message id %q: %v", id, got.Err())
		}
	}
	closed := *b.topics.get("%RETRY%g")
	closed.Perm = permRead
	if err := b.commit(state.TopicPut(&closed)); err != nil {
		t.Fatal(err)
	}
	p.refused(code.ConsumerSendMsgBack, back("g", first.PhyOffset(), 0), nil, code.NoPermission, "the topic[%RETRY%g] sending message is forbidden")
}

func TestSendBackOfAColdRecord(t *testing.T) {
	b := startBroker(t, nil)
	b.client.send("t", 0, "body")
	b.restart() // what an earlier process wrote is read from disk
	v := b.last("t", 0)
	b.client.ok(code.ConsumerSendMsgBack, back("g", v.PhyOffset(), 1), nil)
	if got := b.last(store.ScheduleTopic, 0); string(got.Body()) != "body" {
		t.Errorf("%q", got.Body())
	}
}

// TestRetriesUseTheQueuesThatExist: a group that wants more retry queues than its topic has yet loses nothing.
func TestRetriesUseTheQueuesThatExist(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	p.send("t", 0, "body")
	v := b.last("t", 0)
	p.ok(code.ConsumerSendMsgBack, back("g", v.PhyOffset(), 1), nil) // makes the topic, with one queue
	b.putGroup("g", func(g *body.SubscriptionGroupConfig) { g.RetryQueueNums = 8 })
	for range 20 {
		p.ok(code.ConsumerSendMsgBack, back("g", v.PhyOffset(), 1), nil)
	}
	for _, v := range b.all(store.ScheduleTopic, 0) {
		if id, _ := v.Properties().Get(message.PropRealQueueID); id != "0" {
			t.Errorf("a retry goes to queue %s", id)
		}
	}
	p.beat(consumerBeat("id", "g", "t")) // grows the topic
	used := map[string]bool{}
	for range 200 {
		p.ok(code.ConsumerSendMsgBack, back("g", v.PhyOffset(), 2), nil)
	}
	for _, v := range b.all(store.ScheduleTopic, 1) {
		id, _ := v.Properties().Get(message.PropRealQueueID)
		used[id] = true
	}
	if len(used) != 8 {
		t.Errorf("%d of 8 retry queues are used", len(used))
	}
}

// TestRetrySentAsAMessage is how a consumer sends back that got no answer, and how an ordered one gives up.
func TestRetrySentAsAMessage(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	send := func(group string, times, limit int32) {
		t.Helper()
		h := header.SendMessageRequestV2{ProducerGroup: "p", Topic: "%RETRY%" + group, DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 1, BornTimestamp: 1,
			ReconsumeTimes: header.Some(times), MaxReconsumeTimes: header.Some(limit),
			Properties: propText(message.PropRetryTopic, "t", message.PropUniqueKey, "KEY", message.PropDelay, "4")}
		p.ok(code.SendMessageV2, &h, "body")
	}
	send("g", 3, 3)
	if len(b.all(store.ScheduleTopic, 3)) != 1 {
		t.Error("the last try was not delayed")
	}
	send("g", 4, 3)
	dead := b.last("%DLQ%g", 0)
	got := dead.Properties().Map()
	if got[message.PropDelay] != "-1" || got[message.PropDLQOriginTopic] != "t" || got[message.PropDLQOriginID] != "KEY" {
		t.Errorf("%v", got)
	}
	b.makeLockable()
	p.lock("owner", 0)
	send("g", 3, 3)
	if len(b.all("%DLQ%g", 0)) != 2 {
		t.Error("an ordered consumer's message is not dead after its last try")
	}
	b.putGroup("ordered", func(g *body.SubscriptionGroupConfig) { g.ConsumeMessageOrderly = true })
	send("ordered", 2, 3)
	if len(b.all(store.ScheduleTopic, 3)) != 2 {
		t.Error("an ordered group has tries left")
	}
	send("ordered", 3, 3)
	if len(b.all("%DLQ%ordered", 0)) != 1 {
		t.Error("an ordered group without locks")
	}
}

// TestRetryLadder sends a message back again and again, as consumers with any limits and levels may, until it is dead.
func TestRetryLadder(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, map[string]string{"messageDelayLevel": "1s 2s 3s 4s 5s 6s"})
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		topic, group := fmt.Sprint("topic", round), fmt.Sprint("group", round)
		limit := rapid.Int32Range(0, 5).Draw(t, "limit of the group")
		b.putGroup(group, func(g *body.SubscriptionGroupConfig) { g.RetryMaxTimes = limit })
		own := rapid.Bool().Draw(t, "limit of the client")
		if own {
			limit = rapid.Int32Range(0, 5).Draw(t, "limit")
		}
		b.client.send(topic, 0, "body", message.PropUniqueKey, "KEY")
		v := b.last(topic, 0)
		for times := int32(0); ; times++ {
			h := back(group, v.PhyOffset(), rapid.Int32Range(-1, 8).Draw(t, "level"))
			if own {
				h.MaxReconsumeTimes = header.Some(limit)
			}
			b.client.ok(code.ConsumerSendMsgBack, h, nil)
			if h.DelayLevel < 0 || times >= limit {
				if dead := b.last("%DLQ%"+group, 0); dead.ReconsumeTimes() != times+1 || string(dead.Properties().Lookup(message.PropDLQOriginTopic)) != topic {
					t.Fatalf("dead after %d times: %v", times, dead.Properties().Map())
				}
				return
			}
			level := h.DelayLevel
			if level == 0 {
				level = firstRetryLevel + times
			}
			clk.Advance(time.Duration(min(level, 6))*time.Second - time.Millisecond)
			if n := len(b.all("%RETRY%"+group, 0)); n != int(times) {
				t.Fatalf("%d retries a millisecond before number %d is due", n, times+1)
			}
			b.until("the next retry", func() bool { clk.Advance(time.Millisecond); return len(b.all("%RETRY%"+group, 0)) > int(times) })
			v = b.last("%RETRY%"+group, 0)
			if got := v.Properties().Map(); v.ReconsumeTimes() != times+1 || got[message.PropRetryTopic] != topic || got[message.PropUniqueKey] != "KEY" || string(v.Body()) != "body" {
				t.Fatalf("retry %d: %v", times+1, got)
			}
		}
	})
}

func TestRequestsWithoutFields(t *testing.T) {
	b := startBroker(t, nil)
	for _, rc := range []code.Request{code.SendMessageV2, code.PullMessage, code.QueryConsumerOffset, code.ViewMessageByID, code.SendReplyMessageV2} {
		b.client.refused(rc, nil, nil, code.SystemError, "")
	}
}
