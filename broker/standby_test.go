package broker

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/remoting/body"
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
