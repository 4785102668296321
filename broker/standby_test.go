package broker

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestWhichReplicaIsTheStandby(t *testing.T) {
	for _, tt := range []struct {
		master int64
		set    []int64
		want   int64
	}{
		{1, []int64{1, 2, 3}, 2},
		{2, []int64{1, 2, 3}, 1},
		{3, []int64{3, 2}, 2},
		{2, []int64{2}, 0},
		{0, nil, 0},
		{1, []int64{9, 1, 4}, 4},
	} {
		if got := standbyOf(&replica.Role{Master: tt.master, SyncStateSet: tt.set}); got != tt.want {
			t.Errorf("master %d of %v: %d, want %d", tt.master, tt.set, got, tt.want)
		}
	}
}

func TestQueueOfTheStandbyIsAFixedOne(t *testing.T) {
	used := map[int32]int{}
	for i := range 400 {
		c := &body.TopicConfig{TopicName: fmt.Sprintf("topic-%d", i), WriteQueueNums: 8}
		q := standbyQueue(c)
		if q < 0 || q >= 8 || q != standbyQueue(&body.TopicConfig{TopicName: c.TopicName, WriteQueueNums: 8}) {
			t.Fatalf("%s: queue %d", c.TopicName, q)
		}
		used[q]++
	}
	for q := range int32(8) {
		if used[q] < 20 {
			t.Errorf("of 400 topics %d use queue %d", used[q], q)
		}
	}
}

func TestWhatIsRegisteredUnderTheSecondName(t *testing.T) {
	b := startBroker(t, map[string]string{"brokerPermission": "6"})
	own := func(name string, perm, read, write int32) *body.TopicConfig {
		return &body.TopicConfig{TopicName: name, Perm: perm, ReadQueueNums: read, WriteQueueNums: write, TopicFilterType: "SINGLE_TAG"}
	}
	ordered := own("ordered", 6, 8, 8)
	ordered.Order = true
	got := b.standby.table(map[string]*body.TopicConfig{"t": own("t", 6, 8, 8), "readonly": own("readonly", 4, 8, 8), "none": own("none", 6, 8, 0), "ordered": ordered})
	entry := func(name string, perm, write int32) body.TopicConfig {
		return body.TopicConfig{TopicName: name, Perm: perm, WriteQueueNums: write, TopicFilterType: "SINGLE_TAG"}
	}
	want := map[string]body.TopicConfig{"t": entry("t", 2, 1), "readonly": entry("readonly", 0, 0), "none": entry("none", 0, 0), "ordered": entry("ordered", 0, 0),
		selfTestTopic: entry(selfTestTopic, 0, 0), movedTopic: entry(movedTopic, 0, 0)}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	topics, _ := b.standby.topics()
	for _, name := range []string{autoCreateKey, "b", "DefaultCluster", "BenchmarkTest", "DefaultCluster" + replySuffix} {
		if topics[name] != nil {
			t.Errorf("%s is a system topic", name)
		}
	}
}

func TestStandbyRoute(t *testing.T) {
	g := startGroup(t, 3, nil)
	master, second, third := g.brokers[0], g.brokers[1], g.brokers[2]
	master.client.send("t", 0, "makes the topic")
	write := func() (addr string) {
		queues, masters := g.route("t")
		if q := queues["b.standby"]; q.WriteQueueNums != 1 || q.ReadQueueNums != 0 || q.Perm != permWrite {
			return ""
		}
		return masters["b.standby"]
	}
	master.until("the second replica is the standby", func() bool { return write() == second.Addr() })
	info := decode[body.ClusterInfo](t, g.ask(code.GetBrokerClusterInfo, nil))
	if len(info.BrokerAddrTable) != 1 || info.BrokerAddrTable["b"].BrokerAddrs[0] != master.Addr() {
		t.Errorf("the cluster is %+v", info)
	}

	fixed := standbyQueue(master.topics.get("t"))
	rc, sent := second.sendAs("b.standby", "t", 0, "by the standby")
	if rc != code.Success || sent.QueueID != fixed {
		t.Fatalf("answered %v %+v, want queue %d", rc, sent, fixed)
	}
	last := master.last("t", fixed)
	if string(last.Body()) != "by the standby" || last.QueueOffset() != sent.QueueOffset {
		t.Errorf("queue %d ends with %q at %d, answered was %d", fixed, last.Body(), last.QueueOffset(), sent.QueueOffset)
	}
	if _, sent := third.sendAs("b.standby", "t", 3, "as an earlier answer said"); sent.QueueID != 3 {
		t.Errorf("queue %d instead of 3", sent.QueueID)
	}
	if _, sent := second.sendAs("b", "t", 0, "by the first name"); sent.QueueID != 0 {
		t.Errorf("queue %d instead of 0", sent.QueueID)
	}
	batch := header.SendMessageRequestV2{ProducerGroup: "producers", Topic: "t", DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 4, BornTimestamp: 1, BName: "b.standby", Batch: header.Some(true)}
	var answer header.SendMessageResponse
	if err := second.client.ok(code.SendBatchMessage, &batch, batchOf("x", "y")).Decode(&answer); err != nil || answer.QueueID != fixed {
		t.Errorf("batch: %+v, %v", answer, err)
	}
	second.client.ok(code.ConsumerSendMsgBack, back("g", last.PhyOffset(), 1), nil)

	g.switchUnderLoad(master, second, "b.standby")
	third.until("the other replica is the standby", func() bool {
		m := g.master()
		return m != nil && write() == map[*testBroker]string{second: third.Addr(), third: second.Addr()}[m]
	})
	g.kill(third)
	second.until("nobody is the standby", func() bool { return write() == "" })
}

// switchUnderLoad kills the master while another broker gets sends by the second name: none may be refused.
func (g *testGroup) switchUnderLoad(master, at *testBroker, name string) {
	g.t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for n := 0; !stop.Load(); n++ {
				began := time.Now()
				if rc, sent := at.sendAs(name, "t", 0, fmt.Sprintf("%d-%d", i, n)); rc != code.Success {
					g.t.Errorf("after %v: answered %v %s", time.Since(began), rc, sent.MsgID)
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	g.kill(master)
	at.until("another master", func() bool { return g.master() != nil })
}

func TestTopicsOfTheStandbyFollow(t *testing.T) {
	g := startGroup(t, 2, nil)
	master := g.brokers[0]
	master.client.send("first", 0, "x")
	has := func(topic string, queues int32) func() bool {
		return func() bool {
			all, _ := g.route(topic)
			q, ok := all["b.standby"]
			return ok && q.WriteQueueNums == queues
		}
	}
	master.until("the topic", has("first", 1))
	master.client.send("another", 0, "x")
	master.until("a new topic", has("another", 1))
	master.client.ok(code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: "another", DefaultTopic: autoCreateKey, ReadQueueNums: 4, WriteQueueNums: 4, Perm: permRead, TopicFilterType: "SINGLE_TAG"}, nil)
	master.until("a topic without write permission", has("another", 0))
	master.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "another"}, nil)
	master.until("a topic that is gone", func() bool {
		all, _ := g.route("another")
		_, ok := all["b.standby"]
		return !ok
	})
}

func TestStandbyRouteSwitchedOff(t *testing.T) {
	g := startGroup(t, 2, map[string]string{"standbyRoute": "false"})
	g.brokers[0].client.send("t", 0, "x")
	g.brokers[0].until("the topic", func() bool { all, _ := g.route("t"); return len(all) == 1 })
	if len(g.brokers[1].standby.at) != 0 || g.brokers[1].standby.serves() {
		t.Error("it is registered")
	}
}

func TestSendsThatCannotBeConfirmedAreRefusedAtOnce(t *testing.T) {
	g := startGroup(t, 2, nil)
	master, replica := g.brokers[0], g.brokers[1]
	master.client.send("t", 0, "x")
	master.until("another replica does the work of either", func() bool { return master.Replaceable() && replica.Replaceable() })
	g.kill(replica)
	master.until("it takes nothing", func() bool { return !master.replicas.node.Able() })
	began := time.Now()
	h := header.SendMessageRequestV2{ProducerGroup: "producers", Topic: "t", DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 4, BornTimestamp: 1}
	master.client.refused(code.SendMessageV2, &h, "y", code.ServiceNotAvailable, "too few replicas of b confirm")
	master.client.refused(code.ConsumerSendMsgBack, back("g", 0, 1), nil, code.ServiceNotAvailable, "too few replicas")
	if took := time.Since(began); took > time.Second {
		t.Errorf("that took %v", took)
	}
	if master.Replaceable() {
		t.Error("nobody else can do the master's work")
	}
	g.start(replica)
	master.until("it takes messages again", func() bool {
		return code.Response(master.client.call(code.SendMessageV2, &h, "z").Code) == code.Success
	})
}

// batchOf encodes messages as SEND_BATCH_MESSAGE does.
func batchOf(texts ...string) (out []byte) {
	for _, text := range texts {
		out = message.AppendBatchItem(out, 0, []byte(text), nil)
	}
	return out
}
