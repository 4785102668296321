package broker

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/state"
)

// consumerBeat is a heartbeat of one consumer that wants every message of the topics.
func consumerBeat(id, group string, topics ...string) *body.HeartbeatData {
	c := body.ConsumerData{GroupName: group, ConsumeType: body.ConsumePassively, MessageModel: body.Clustering, ConsumeFromWhere: body.ConsumeFromLastOffset}
	for _, topic := range topics {
		c.SubscriptionDataSet = append(c.SubscriptionDataSet, body.SubscriptionData{Topic: topic, SubString: "*", ExpressionType: typeTag, SubVersion: 1})
	}
	return &body.HeartbeatData{ClientID: id, ConsumerDataSet: []body.ConsumerData{c}}
}

// beat sends a heartbeat and returns whether the client is to send its subscriptions again.
func (p *peer) beat(d *body.HeartbeatData) (stale bool) {
	p.b.t.Helper()
	var h header.HeartbeatResponse
	if err := p.ok(code.HeartBeat, nil, d).Decode(&h); err != nil {
		p.b.t.Fatal(err)
	}
	if !h.SupportV2.Or(false) || !h.SubChange.Ok {
		p.b.t.Fatalf("answer %+v", h)
	}
	return h.SubChange.V
}

// notified waits for a push about a group.
func (p *peer) notified(group string) {
	p.b.t.Helper()
	p.b.until("told of "+group, func() bool {
		select {
		case got := <-p.pushed:
			return got.code == code.NotifyConsumerIDsChanged && got.ext("consumerGroup") == group
		default:
			return false
		}
	})
}

// quiet checks that nothing more has been pushed. The barrier is a notice of a group of its own.
func (p *peer) quiet(barrier string) {
	p.b.t.Helper()
	p.beat(consumerBeat("barrier", barrier, "t"))
	for {
		got := <-p.pushed
		if got.ext("consumerGroup") == barrier {
			return
		}
		p.b.t.Errorf("pushed %s for %s", got.code, got.ext("consumerGroup"))
	}
}

func (p *peer) list(group string) []string {
	r := p.call(code.GetConsumerListByGroup, &header.GetConsumerListByGroupRequest{ConsumerGroup: group}, nil)
	if r.Err() != nil {
		return nil
	}
	return decode[body.GetConsumerListByGroupResponseBody](p.b.t, r.Body).ConsumerIDList
}

func TestMembersAreToldOfEachOther(t *testing.T) {
	b := startBroker(t, nil)
	one, two := b.connect(), b.connect()
	one.beat(consumerBeat("one", "g", "t"))
	one.notified("g")
	one.beat(consumerBeat("one", "g", "t"))
	one.quiet("barrier")
	two.beat(consumerBeat("two", "g", "t"))
	one.notified("g")
	two.notified("g")
	if diff := cmp.Diff([]string{"one", "two"}, one.list("g")); diff != "" {
		t.Error(diff)
	}
	two.beat(consumerBeat("two", "g", "t", "u")) // another set of topics
	one.notified("g")
	two.ok(code.UnregisterClient, &header.UnregisterClientRequest{ClientID: "two", ConsumerGroup: "g"}, nil)
	one.notified("g")
	two.beat(consumerBeat("two", "g", "t"))
	one.notified("g")
	two.Close()
	one.notified("g")
	if diff := cmp.Diff([]string{"one"}, one.list("g")); diff != "" {
		t.Error(diff)
	}
	one.ok(code.UnregisterClient, &header.UnregisterClientRequest{ClientID: "one", ConsumerGroup: "g"}, nil)
	one.refused(code.GetConsumerListByGroup, &header.GetConsumerListByGroupRequest{ConsumerGroup: "g"}, nil, code.SystemError, "no consumer for this group, g")
	one.refused(code.GetConsumerConnectionList, &header.GetConsumerConnectionListRequest{ConsumerGroup: "g"}, nil, code.ConsumerNotOnline, "the consumer group[g] not online")
}

func TestWhoIsNotTold(t *testing.T) {
	b := startBroker(t, nil)
	if err := b.commit(state.GroupPut(func() *body.SubscriptionGroupConfig {
		g := defaultGroup("silent")
		g.NotifyConsumerIdsChangedEnable = false
		return &g
	}())); err != nil {
		t.Fatal(err)
	}
	p := b.connect()
	broadcast := consumerBeat("id", "everybody", "t")
	broadcast.ConsumerDataSet[0].MessageModel = body.Broadcasting
	p.beat(broadcast)
	p.beat(consumerBeat("id", "silent", "t"))
	p.quiet("barrier")
	if !b.clients.consumerGroup("everybody").broadcasting() {
		t.Error("the group does not broadcast")
	}
}

func TestOneClientWithTwoConnections(t *testing.T) {
	b := startBroker(t, nil)
	old, young := b.connect(), b.connect()
	old.beat(consumerBeat("id", "g", "t"))
	young.beat(consumerBeat("id", "g", "t"))
	if diff := cmp.Diff([]string{"id"}, young.list("g")); diff != "" {
		t.Error(diff)
	}
	m, _ := b.clients.consumer("g", "id")
	if len(b.clients.membersOf("g")) != 2 || m.join != 2 {
		t.Errorf("members %+v, newest %+v", b.clients.membersOf("g"), m)
	}
	if n := b.logs.FilterMessageSnippet("same client id").Len(); n != 1 {
		t.Errorf("%d warnings", n)
	}
	old.Close()
	b.until("the old connection is gone", func() bool { return len(b.clients.membersOf("g")) == 1 })
}

func TestHeartbeatVersion2(t *testing.T) {
	b := startBroker(t, nil)
	p := b.connect()
	full := consumerBeat("id", "g", "t")
	if !p.beat(full) {
		t.Error("version 1: the client may leave its subscriptions out")
	}
	full.HeartbeatFingerprint = 7
	short := consumerBeat("id", "g")
	short.HeartbeatFingerprint, short.WithoutSub = 7, true
	if p.beat(full) || p.beat(short) {
		t.Error("the client must send again what the broker knows")
	}
	if b.clients.consumerGroup("g").subscription("t") == nil {
		t.Error("a heartbeat without subscriptions took them away")
	}
	other := b.connect()
	foreign := consumerBeat("other", "g", "t")
	foreign.HeartbeatFingerprint = 8
	if other.beat(foreign) || p.beat(short) {
		t.Error("the fingerprint of another client counts")
	}
	full.HeartbeatFingerprint = 9
	if !p.beat(full) || p.beat(full) {
		t.Error("a changed fingerprint is a change once")
	}
	b.restart()
	p, short.HeartbeatFingerprint = b.connect(), 9
	if !p.beat(short) {
		t.Error("after a restart the broker does not ask for the subscriptions")
	}
	if p.beat(full) || p.beat(short) {
		t.Error("the broker asks again")
	}
}

func TestSubscriptionsOfAGroup(t *testing.T) {
	b := startBroker(t, map[string]string{"enablePropertyFilter": "true"})
	p := b.connect()
	p.send("t", 0, "no")
	p.send("t", 0, "yes", "a", "7")
	set := func(topic, expression, kind string, version int64) *body.HeartbeatData {
		d := consumerBeat("id", "g", topic)
		s := &d.ConsumerDataSet[0].SubscriptionDataSet[0]
		s.SubString, s.ExpressionType, s.SubVersion = expression, kind, version
		return d
	}
	pull := header.PullMessageRequest{ConsumerGroup: "g", Topic: "t", MaxMsgNums: 32}
	p.refused(code.PullMessage, &pull, nil, code.SubscriptionNotExist, "group info not exist")
	p.beat(set("u", "*", typeTag, 1))
	p.refused(code.PullMessage, &pull, nil, code.SubscriptionNotExist, "subscription not exist")
	p.beat(set("t", "a > 5", typeSQL, 2))
	if diff := cmp.Diff([]string{"yes"}, bodies(p.records(p.ok(code.PullMessage, &pull, nil).Body))); diff != "" {
		t.Error(diff)
	}
	p.beat(set("t", "*", typeTag, 1)) // older
	if s := b.clients.consumerGroup("g").subscription("t"); s.data.SubString != "a > 5" {
		t.Errorf("an older subscription won: %+v", s.data)
	}
	if b.clients.consumerGroup("g").subscription("u") != nil {
		t.Error("the group still has the topic that the last heartbeat did not name")
	}
	pull.SubVersion = 3
	p.refused(code.PullMessage, &pull, nil, code.SubscriptionNotLatest, "not latest")
	pull.ExpressionType = typeSQL
	p.refused(code.PullMessage, &pull, nil, code.SubscriptionNotLatest, "not latest")
	pull.ExpressionType = typeTag // what the client wants the broker does not know, but the client does
	if diff := cmp.Diff([]string{"no", "yes"}, bodies(p.records(p.ok(code.PullMessage, &pull, nil).Body))); diff != "" {
		t.Error(diff)
	}
	p.beat(set("t", "a >", typeSQL, 3))
	p.refused(code.PullMessage, &pull, nil, code.FilterDataNotExist, "filter data")
}

func TestFiltersAreInTheState(t *testing.T) {
	b := startBroker(t, map[string]string{"enablePropertyFilter": "true"})
	p := b.connect()
	p.send("t", 0, "x")
	beat := func(expression string, version int64) {
		d := consumerBeat("id", "g", "t")
		d.ConsumerDataSet[0].SubscriptionDataSet = []body.SubscriptionData{{Topic: "t", SubString: expression, ExpressionType: typeSQL, SubVersion: version}}
		p.beat(d)
	}
	filter := func() string {
		f, ok := b.store.State.Filter("t", "g")
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%s %d dead %v", f.Expression, f.ClientVersion, f.Dead())
	}
	for _, step := range []struct {
		expression string
		version    int64
		want       string
	}{
		{"a > 1", 5, "a > 1 5 dead false"},
		{"a > 2", 5, "a > 1 5 dead false"},
		{"a > 2", 6, "a > 2 6 dead false"},
		{"a >", 7, "a > 2 6 dead true"},
		{"a > 3", 8, "a > 3 8 dead false"},
	} {
		beat(step.expression, step.version)
		if got := filter(); got != step.want {
			t.Errorf("after %q version %d: %s, want %s", step.expression, step.version, got, step.want)
		}
	}
	written := b.store.Dispatched()
	beat("a > 3", 8)
	if got := b.store.Dispatched(); got != written {
		t.Errorf("a heartbeat that changes nothing wrote %d bytes", got-written)
	}
	p.Close()
	b.until("the filter is dead", func() bool { return filter() == "a > 3 8 dead true" })
}

func TestHeartbeatMakesGroupAndRetryTopic(t *testing.T) {
	b := startBroker(t, nil)
	p := b.connect()
	retry := func(group string) (queues int32, order bool) {
		c := b.topics.get(message.RetryPrefix + group)
		if c == nil {
			return 0, false
		}
		return c.ReadQueueNums, c.Order
	}
	p.beat(consumerBeat("id", "g", "ordered"))
	if _, ok := b.store.State.Group("g"); !ok {
		t.Error("the group was not made")
	}
	if n, order := retry("g"); n != 1 || order {
		t.Errorf("retry topic: %d queues, order %v", n, order)
	}
	g := defaultGroup("g")
	g.RetryQueueNums = 4
	p.send("ordered", 0, "x")
	ordered := *b.topics.get("ordered")
	ordered.Order = true
	none := defaultGroup("none")
	none.RetryQueueNums = 0
	if err := b.commit(state.GroupPut(&g), state.TopicPut(&ordered), state.GroupPut(&none)); err != nil {
		t.Fatal(err)
	}
	p.beat(consumerBeat("id", "g", "ordered"))
	p.beat(consumerBeat("id", "none", "ordered"))
	if n, order := retry("g"); n != 4 || !order {
		t.Errorf("retry topic: %d queues, order %v", n, order)
	}
	if n, _ := retry("none"); n != 0 {
		t.Errorf("a group without retries got %d retry queues", n)
	}
	written := b.store.Dispatched()
	short := consumerBeat("id", "g")
	short.HeartbeatFingerprint, short.WithoutSub = 1, true
	p.beat(short)
	if got := b.store.Dispatched(); got != written {
		t.Error("a heartbeat that changes nothing changed the retry topic")
	}
	g.RetryQueueNums = 2
	if err := b.commit(state.GroupPut(&g)); err != nil {
		t.Fatal(err)
	}
	p.beat(consumerBeat("id", "g", "ordered"))
	if n, _ := retry("g"); n != 4 {
		t.Errorf("the retry topic shrank to %d queues", n)
	}
}

func TestConsumersThatArePassedOver(t *testing.T) {
	b := startBroker(t, map[string]string{"autoCreateSubscriptionGroup": "false", "rejectPullConsumerEnable": "true"})
	known := defaultGroup("known")
	if err := b.commit(state.GroupPut(&known)); err != nil {
		t.Fatal(err)
	}
	p := b.connect()
	d := consumerBeat("id", "unknown", "t")
	d.ConsumerDataSet = append(d.ConsumerDataSet, consumerBeat("id", "known", "t").ConsumerDataSet...)
	d.ConsumerDataSet = append(d.ConsumerDataSet, consumerBeat("id", "bad name", "t").ConsumerDataSet...)
	p.beat(d)
	d.WithoutSub, d.HeartbeatFingerprint = true, 3
	if !p.beat(d) {
		t.Error("the subscriptions of a group that was passed over are not asked for")
	}
	puller := consumerBeat("id", "known", "t")
	puller.ConsumerDataSet[0].ConsumeType = body.ConsumeActively
	b.connect().beat(puller)
	if got := b.clients.consumerGroups(); !slices.Equal(got, []string{"known"}) || len(p.list("known")) != 1 {
		t.Errorf("groups %v", got)
	}
}

// TestHeartbeatsOfOtherClients are the forms that clients in other languages send.
func TestHeartbeatsOfOtherClients(t *testing.T) {
	b := startBroker(t, nil)
	for name, text := range map[string]string{
		"go": `{"clientID":"go","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"go","consumeType":"CONSUME_PASSIVELY","messageModel":"Clustering",` +
			`"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"classFilterMode":false,"topic":"t","subString":"a || b","tagsSet":["a","b"],"codeSet":["97","98"],"subVersion":5,"expressionType":"TAG"}],"unitMode":false}]}`,
		"cpp":     `{"clientID":"cpp","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"cpp","messageModel":1,"subscriptionDataSet":[{"subString":"*","topic":"t"}]}],"producerDataSet":[]}`,
		"minimal": `{"clientID":"m","consumerDataSet":[{"groupName":"minimal"}]}`,
		"nothing": `{"clientID":"n"}`,
	} {
		p := b.connect()
		p.ok(code.HeartBeat, nil, text)
		if name != "nothing" && len(p.list(name)) != 1 {
			t.Errorf("%s: no member", name)
		}
	}
	p := b.connect()
	for _, text := range []string{"", "{", `{"clientID":""}`, `{"consumerDataSet":[]}`, `{"clientID":"x","consumerDataSet":7}`} {
		p.refused(code.HeartBeat, nil, text, code.SystemError, "heartbeat")
	}
}

func TestProducerConnections(t *testing.T) {
	b := startBroker(t, nil)
	one, two := b.connect(), b.connect()
	beat := func(p *peer, id string, groups ...string) {
		d := &body.HeartbeatData{ClientID: id}
		for _, g := range groups {
			d.ProducerDataSet = append(d.ProducerDataSet, body.ProducerData{GroupName: g})
		}
		p.beat(d)
	}
	beat(one, "id", "p", "CLIENT_INNER_PRODUCER")
	beat(two, "other", "p")
	r := one.ok(code.GetProducerConnectionList, &header.GetProducerConnectionListRequest{ProducerGroup: "p"}, nil)
	var ids []string
	for _, c := range decode[body.ProducerConnection](t, r.Body).ConnectionSet {
		ids = append(ids, c.ClientID+" "+c.Language)
	}
	if diff := cmp.Diff([]string{"id GO", "other GO"}, ids); diff != "" {
		t.Error(diff)
	}
	info := decode[body.ProducerTableInfo](t, one.ok(code.GetAllProducerInfo, nil, nil).Body)
	if len(info.Data) != 2 || len(info.Data["p"]) != 2 || info.Data["p"][0].RemoteIP[0] != '/' {
		t.Errorf("%+v", info)
	}
	one.refused(code.GetProducerConnectionList, &header.GetProducerConnectionListRequest{ProducerGroup: "q"}, nil, code.SystemError, "the producer group[q] not exist")
	// Only when the last group of a client is gone can it not be reached any more.
	one.ok(code.UnregisterClient, &header.UnregisterClientRequest{ClientID: "id", ProducerGroup: "p"}, nil)
	if b.clients.producer("id") == nil {
		t.Error("the client is in a group and cannot be reached")
	}
	one.ok(code.UnregisterClient, &header.UnregisterClientRequest{ClientID: "id", ProducerGroup: "CLIENT_INNER_PRODUCER"}, nil)
	if b.clients.producer("id") != nil {
		t.Error("the client is in no group and can be reached")
	}
	beat(one, "id", "p")
	first := b.clients.producer("id")
	beat(two, "id", "p") // reconnected under the same name
	if b.clients.producer("id") == first || b.clients.producer("other") != nil {
		t.Error("the newest connection does not win")
	}
	two.Close()
	b.until("the old connection is used again", func() bool { return b.clients.producer("id") == first })
}

func TestSilentClientsAreDropped(t *testing.T) {
	b := startBroker(t, nil)
	silent, other := b.connect(), b.connect()
	silent.beat(consumerBeat("silent", "g", "t"))
	silent.beat(&body.HeartbeatData{ClientID: "silent", ProducerDataSet: []body.ProducerData{{GroupName: "p"}}})
	b.until("time passes", func() bool { return b.clk.NowMs() > b.clients.producersOf("p")[0].seen+1 })
	other.beat(consumerBeat("other", "g", "t"))
	silent.notified("g")
	other.notified("g")
	b.clients.expire(b.clients.membersOf("g")[1].seen)
	other.notified("g")
	if diff := cmp.Diff([]string{"other"}, other.list("g")); diff != "" {
		t.Error(diff)
	}
	if len(b.clients.producersOf("p")) != 0 || b.clients.producer("silent") != nil {
		t.Error("the producer is still there")
	}
	b.until("the connection is closed", func() bool {
		b.clients.mu.RLock()
		defer b.clients.mu.RUnlock()
		return len(b.clients.sessions) == 1
	})
}

func TestCheckClientConfig(t *testing.T) {
	for _, on := range []string{"true", "false"} {
		b := startBroker(t, map[string]string{"enablePropertyFilter": on})
		check := func(kind, expression string) *body.CheckClientRequestBody {
			return &body.CheckClientRequestBody{ClientID: "id", Group: "g", SubscriptionData: &body.SubscriptionData{Topic: "t", SubString: expression, ExpressionType: kind}}
		}
		p := b.connect()
		p.ok(code.CheckClientConfig, nil, check(typeTag, "a"))
		p.ok(code.CheckClientConfig, nil, nil)
		if on == "false" {
			p.refused(code.CheckClientConfig, nil, check(typeSQL, "a > 1"), code.SystemError, "The broker does not support consumer to filter message by SQL92")
			continue
		}
		p.ok(code.CheckClientConfig, nil, check(typeSQL, "a > 1"))
		p.refused(code.CheckClientConfig, nil, check(typeSQL, "a >"), code.SubscriptionParseFailed, "filter")
	}
}

// TestNewerSubscriptionIsAskedFor: a client that pulls with a newer SQL92 subscription than its heartbeats have told is asked for it.
func TestNewerSubscriptionIsAskedFor(t *testing.T) {
	b := startBroker(t, map[string]string{"enablePropertyFilter": "true"})
	var asked, silent atomic.Int32
	p := b.connectAnswering(func(r *remoting.Request) error {
		if code.Request(r.Code) != code.GetConsumerRunningInfo {
			return nil
		}
		asked.Add(1)
		if silent.Load() > 0 {
			r.Park()
			return nil
		}
		r.Reply(code.Success, "", nil, []byte(`{"mqTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"commitOffset":0}},"properties":{},"statusTable":{},"subscriptionSet":[`+
			`{"classFilterMode":false,"codeSet":[],"expressionType":"SQL92","subString":"a > 3","subVersion":8,"tagsSet":[],"topic":"t"}]}`))
		return nil
	})
	p.send("t", 0, "no")
	p.send("t", 0, "yes", "a", "4")
	d := consumerBeat("id", "g", "t")
	s := &d.ConsumerDataSet[0].SubscriptionDataSet[0]
	s.SubString, s.ExpressionType, s.SubVersion = "a > 5", typeSQL, 2
	p.beat(d)
	pull := header.PullMessageRequest{ConsumerGroup: "g", Topic: "t", MaxMsgNums: 32, SubVersion: 8, ExpressionType: typeSQL}
	silent.Store(1)
	for range 5 {
		p.refused(code.PullMessage, &pull, nil, code.SubscriptionNotLatest, "not latest")
	}
	b.until("the client was asked", func() bool { return asked.Load() > 0 })
	if n := asked.Load(); n != 1 {
		t.Errorf("the client was asked %d times at once", n)
	}
	silent.Store(0)
	b.until("the subscription is known", func() bool {
		r, err := p.Call(t.Context(), b.Addr(), code.PullMessage, &pull, nil)
		return err == nil && code.Response(r.Code) == code.Success && cmp.Equal([]string{"yes"}, bodies(p.records(r.Body)))
	})
	other := b.connect() // it is no member
	other.refused(code.PullMessage, &header.PullMessageRequest{ConsumerGroup: "g", Topic: "t", MaxMsgNums: 32, SubVersion: 9, ExpressionType: typeSQL}, nil,
		code.SubscriptionNotLatest, "not latest")
}
