package broker

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
)

func TestAllocate(t *testing.T) {
	queues := readQueues(nil, "b", "T", 5)
	ids := []string{"a", "b", "c"}
	for _, c := range []struct {
		strategy, id string
		want         []int32
	}{
		{"AVG", "a", []int32{0, 1}}, {"AVG", "b", []int32{2, 3}}, {"AVG", "c", []int32{4}},
		{"AVG_BY_CIRCLE", "a", []int32{0, 3}}, {"AVG_BY_CIRCLE", "b", []int32{1, 4}}, {"AVG_BY_CIRCLE", "c", []int32{2}},
		{"AVG", "x", nil}, {"MACHINE_ROOM", "a", nil}, {"", "a", nil},
	} {
		var got []int32
		for _, mq := range allocate(c.strategy, c.id, ids, queues) {
			got = append(got, mq.QueueID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s: %s", c.strategy, c.id, diff)
		}
	}
}

// TestAllocateGivesEachQueueOnce checks for any numbers of members and queues that each queue has one owner and that nobody has
// two more than another.
func TestAllocateGivesEachQueueOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queues := readQueues(nil, "b", "T", rapid.Int32Range(0, 50).Draw(t, "queues"))
		var ids []string
		for i := range rapid.IntRange(1, 60).Draw(t, "members") {
			ids = append(ids, fmt.Sprintf("c%02d", i))
		}
		strategy := rapid.SampledFrom([]string{"AVG", "AVG_BY_CIRCLE"}).Draw(t, "strategy")
		owners := map[body.MessageQueue]int{}
		least, most := len(queues), 0
		for _, id := range ids {
			mine := allocate(strategy, id, ids, queues)
			least, most = min(least, len(mine)), max(most, len(mine))
			for _, mq := range mine {
				owners[mq]++
			}
		}
		for _, mq := range queues {
			if owners[mq] != 1 {
				t.Fatalf("%v has %d owners", mq, owners[mq])
			}
		}
		if len(owners) != len(queues) || most-least > 1 {
			t.Fatalf("%d queues have owners, who have %d to %d", len(owners), least, most)
		}
	})
}

func ask(topic, client string, model body.MessageModel) *body.QueryAssignmentRequestBody {
	return &body.QueryAssignmentRequestBody{Topic: topic, ConsumerGroup: "G", ClientID: client, StrategyName: "AVG", MessageModel: model}
}

func TestQueryAssignment(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 4), nil)
	c1, c2 := b.connect(), b.connect()
	c1.beat(consumerBeat("c1", "G", "T"))
	c2.beat(consumerBeat("c2", "G", "T"))
	get := func(q *body.QueryAssignmentRequestBody) (ids []int32) {
		t.Helper()
		for _, a := range decode[body.QueryAssignmentResponseBody](t, b.client.ok(code.QueryAssignment, nil, q).Body).MessageQueueAssignments {
			if a.Mode != body.ModePull || a.MessageQueue.BrokerName != "b" {
				t.Errorf("%+v", a)
			}
			ids = append(ids, a.MessageQueue.QueueID)
		}
		return ids
	}
	for client, want := range map[string][]int32{"c1": {0, 1}, "c2": {2, 3}, "none": nil} {
		if diff := cmp.Diff(want, get(ask("T", client, body.Clustering))); diff != "" {
			t.Errorf("%s: %s", client, diff)
		}
	}
	if got := get(ask("T", "c1", body.Broadcasting)); len(got) != 4 {
		t.Errorf("of a broadcast: %v", got)
	}
	if got := get(ask("none", "c1", body.Clustering)); len(got) != 0 {
		t.Errorf("of an unknown topic: %v", got)
	}
	b.client.ok(code.UpdateBrokerConfig, nil, "defaultMessageRequestMode=POP\n")
	b.client.refused(code.QueryAssignment, nil, ask("T", "c1", body.Clustering), code.SystemError, "POP is not supported")
	get(ask("%RETRY%G", "c1", body.Clustering)) // retries are pulled
	b.client.refused(code.QueryAssignment, nil, "{", code.InvalidParameter, "body")
}

// TestAssignmentOfAllBrokers asks a broker whose name server knows another one too.
func TestAssignmentOfAllBrokers(t *testing.T) {
	var asked atomic.Int32
	names, err := remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0"}, remoting.NewRouter(zap.NewNop(), []remoting.Route{{Code: code.GetRouteInfoByTopic, Serve: func(r *remoting.Request) error {
		asked.Add(1)
		return r.OK(nil, fastjson.Marshal(&body.TopicRouteData{QueueDatas: []body.QueueData{
			{BrokerName: "z", ReadQueueNums: 1, Perm: 6}, {BrokerName: "b", ReadQueueNums: 2, Perm: 6}, {BrokerName: "w", ReadQueueNums: 9, Perm: 2}, {BrokerName: "x", ReadQueueNums: -1, Perm: 6}}}))
	}}}), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(t.Context())
	g.Go("name server", names.Run)
	t.Cleanup(func() { _ = g.Stop() })
	b := startBroker(t, map[string]string{"namesrvAddr": names.Addr().String()})
	b.client.beat(consumerBeat("c", "G", "T"))
	for range 3 {
		got := decode[body.QueryAssignmentResponseBody](t, b.client.ok(code.QueryAssignment, nil, ask("T", "c", body.Clustering)).Body).MessageQueueAssignments
		if len(got) != 3 || got[0].MessageQueue != mq(0) || got[2].MessageQueue.BrokerName != "z" {
			t.Errorf("%+v", got)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the name server was asked %d times", n)
	}
}
