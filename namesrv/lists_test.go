package namesrv

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
)

func TestTopicLists(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", has("T1", "T2")))
	b.join(reg("b", 0, "h2:1", has("T2", "T3"), cluster("D")))
	b.join(reg("c", 1, "h3:1", has()))
	for cluster, want := range map[string][]string{"C": {"T1", "T2"}, "D": {"T2", "T3"}, "E": nil} {
		if d := cmp.Diff(want, b.table.TopicsByCluster(cluster)); d != "" {
			t.Errorf("cluster %s: %s", cluster, d)
		}
	}
	if d := cmp.Diff([]string{"T1", "T2", "T3"}, b.table.AllTopics()); d != "" {
		t.Error(d)
	}
}

func TestUnitTopics(t *testing.T) {
	b := newBench(t)
	r := reg("a", 0, "h1:1", has("none", "unit", "sub", "both"))
	for name, flag := range map[string]int32{"unit": flagUnit, "sub": flagUnitSub, "both": flagUnit | flagUnitSub} {
		c := r.Topics[name]
		c.TopicSysFlag = flag
		r.Topics[name] = c
	}
	b.join(r)
	got := b.table.TopicsByFlag(func(flag int32) bool { return flag&flagUnitSub != 0 })
	if d := cmp.Diff([]string{"both", "sub"}, got); d != "" {
		t.Error(d)
	}
}

func TestClusterListingLeavesStandbysOut(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	b.join(reg("a", 1, "h2:1"))
	b.join(reg("a.standby", 0, "h2:1"))
	b.join(reg("lone.standby", 0, "h3:1", cluster("D"))) // a name that merely ends so
	brokers := b.table.Brokers()
	want := body.ClusterInfo{
		BrokerAddrTable:  map[string]body.BrokerData{"a": brokers["a"].BrokerData, "lone.standby": brokers["lone.standby"].BrokerData},
		ClusterAddrTable: map[string][]string{"C": {"a"}, "D": {"lone.standby"}},
	}
	if d := cmp.Diff(want, clusterInfo(brokers)); d != "" {
		t.Error(d)
	}
	list := systemTopics(brokers)
	if d := cmp.Diff(body.TopicList{BrokerAddr: "h1:1", TopicList: []string{"C", "D", "a", "lone.standby"}}, list); d != "" {
		t.Error(d)
	}
	if len(b.route("T1").BrokerDatas) != 3 {
		t.Error("routes need the standby name")
	}
}

func TestWipedBrokersTakeNothingByTheirStandby(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	b.join(reg("a.standby", 0, "h2:1"))
	_, fx := b.table.WipeWrite("a")
	b.apply(fx)
	if d := cmp.Diff(map[string]int32{"a": 4, "a.standby": 4}, b.perms("T1")); d != "" {
		t.Error(d)
	}
	_, fx = b.table.AddWrite("a")
	b.apply(fx)
	if d := cmp.Diff(map[string]int32{"a": 6, "a.standby": 6}, b.perms("T1")); d != "" {
		t.Error(d)
	}
}

func TestDeleteTopic(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1", static("T1", 1)))
	b.join(reg("b", 0, "h2:1", cluster("D")))
	b.apply(b.table.DeleteTopic("T1", "E"))
	if len(b.perms("T1")) != 2 {
		t.Error("deleted from a cluster that has no such topic")
	}
	b.apply(b.table.DeleteTopic("T1", "C"))
	if r := b.route("T1"); len(r.QueueDatas) != 1 || r.QueueDatas[0].BrokerName != "b" || r.TopicQueueMappingByBroker != nil {
		t.Errorf("route %+v", r)
	}
	b.apply(b.table.DeleteTopic("T2", ""))
	if b.route("T2") != nil {
		t.Error("T2 is still there")
	}
	b.join(reg("a", 0, "h1:1")) // the broker still has it: the same version brings it back
	if len(b.perms("T2")) != 1 {
		t.Error("a registration does not bring the topic back")
	}
}

func TestRegisterTopic(t *testing.T) {
	b := newBench(t)
	b.join(reg("a", 0, "h1:1"))
	q := func(broker string) body.QueueData {
		return body.QueueData{BrokerName: broker, Perm: 6, ReadQueueNums: 2, WriteQueueNums: 2}
	}
	fx, known := b.table.RegisterTopic("N", []body.QueueData{q("a"), q("stranger")})
	if b.apply(fx); known || b.route("N") != nil {
		t.Error("an unknown broker name was taken")
	}
	fx, known = b.table.RegisterTopic("N", []body.QueueData{q("a")})
	if b.apply(fx); !known || b.perms("N")["a"] != 6 {
		t.Error("the topic has no route")
	}
	b.disconnect("h1:1")
	if len(b.table.AllTopics()) != 0 {
		t.Error("the topic outlives its broker")
	}
}
