package goclient

import (
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

func TestAdminTopic(t *testing.T) {
	t.Parallel()
	topic, a := newTopic(t, 3), newAdmin(t)
	listed := func() bool {
		list, err := a.FetchAllTopicList(t.Context())
		must(t, err)
		return slices.Contains(list.TopicList, topic)
	}
	eventually(t, "the topic in the list", listed)
	must(t, a.CreateTopic(t.Context(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(brokerAddr),
		admin.WithReadQueueNums(5), admin.WithWriteQueueNums(5)))
	eventually(t, "the new number of queues", func() bool {
		used, p := map[int]bool{}, newProducer(t)
		for _, r := range send(t, p, topic, "spread", 5) {
			used[r.MessageQueue.QueueId] = true
		}
		return len(used) == 5
	})
	must(t, a.DeleteTopic(t.Context(), admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(brokerAddr)))
	eventually(t, "the topic gone from the list", func() bool { return !listed() })
	// The client reports no error when the broker refuses, so only the effect counts.
	_ = a.CreateTopic(t.Context(), admin.WithTopicCreate("bad topic!"), admin.WithBrokerAddrCreate(brokerAddr))
	list, err := a.FetchAllTopicList(t.Context())
	must(t, err)
	if slices.Contains(list.TopicList, "bad topic!") {
		t.Error("a topic with an illegal name was created")
	}
}

func TestAdminGroups(t *testing.T) {
	t.Parallel()
	topic, group := newTopic(t, 1), random("GoGroup")
	newConsumer(t, group, topic, "*", new(inbox).accept)
	eventually(t, "the group among all groups", func() bool {
		groups, err := newAdmin(t).GetAllSubscriptionGroup(t.Context(), brokerAddr, 5*time.Second)
		must(t, err)
		config, ok := groups.SubscriptionGroupTable[group]
		if ok && (!config.ConsumeEnable || config.RetryQueueNums != 1 || config.RetryMaxTimes != 16) {
			t.Fatalf("the group was made as %+v", config)
		}
		return ok
	})
}
