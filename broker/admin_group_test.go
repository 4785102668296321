package broker

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// commitOffset commits as a consumer does, and waits for the answer. The group is made first.
func (b *testBroker) commitOffset(group, topic string, queue int32, offset int64) {
	b.t.Helper()
	b.client.ok(code.GetSubscriptionGroupConfig, &header.GetSubscriptionGroupConfigRequest{Group: group}, nil)
	b.client.ok(code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: topic, QueueID: header.Some(queue), CommitOffset: header.Some(offset)}, nil)
}

func (b *testBroker) offset(group, topic string, queue int32) int64 {
	offset, ok := b.store.State.Offset(group, topic, queue)
	if !ok {
		return -1
	}
	return offset
}

func TestUpdateGroup(t *testing.T) {
	b := startBroker(t, nil)
	c := defaultGroup("G")
	c.RetryMaxTimes, c.ConsumeFromMinEnable = 3, false
	c.GroupRetryPolicy = body.GroupRetryPolicy{Type: body.RetryExponential, ExponentialRetryPolicy: &body.ExponentialRetryPolicy{Initial: 1, Max: 2, Multiplier: 3}}
	b.client.ok(code.UpdateAndCreateSubscriptionGroup, nil, &c)
	get := func() body.SubscriptionGroupConfig {
		return decode[body.SubscriptionGroupConfig](t, b.client.ok(code.GetSubscriptionGroupConfig, &header.GetSubscriptionGroupConfigRequest{Group: "G"}, nil).Body)
	}
	c.Attributes = map[string]string{}
	if diff := cmp.Diff(c, get()); diff != "" {
		t.Error(diff)
	}
	b.restart()
	if diff := cmp.Diff(c, get()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

func TestUpdateGroupGrowsTheRetryTopic(t *testing.T) {
	b := startBroker(t, nil)
	retry := message.RetryPrefix + "G"
	b.client.ok(code.UpdateAndCreateTopic, newTopic(retry, 1), nil)
	c := defaultGroup("G")
	for _, n := range []int32{4, 2} { // it never shrinks
		c.RetryQueueNums = n
		b.client.ok(code.UpdateAndCreateSubscriptionGroup, nil, &c)
		if got := b.topics.get(retry); got.ReadQueueNums != 4 || got.WriteQueueNums != 4 {
			t.Errorf("retryQueueNums %d: %+v", n, got)
		}
	}
}

func TestUpdateGroupIsRefused(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.GetSystemTopicListFromBroker, nil, nil) // it serves: its own topics and groups are there
	before := len(b.store.State.Groups())
	for _, name := range hostileNames {
		c := defaultGroup(name)
		b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, &c, code.InvalidParameter, "The specified group")
		b.client.refused(code.UpdateAndCreateSubscriptionGroupList, nil, &body.SubscriptionGroupList{GroupConfigList: []body.SubscriptionGroupConfig{defaultGroup("Good"), c}}, code.InvalidParameter, "The specified group")
	}
	c := defaultGroup(strings.Repeat("g", maxGroup+1))
	b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, &c, code.InvalidParameter, "longer than group max length")
	for _, n := range []int32{-1, math.MaxInt32} {
		c := defaultGroup("G")
		c.RetryQueueNums = n
		b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, &c, code.InvalidParameter, "queues")
	}
	c = defaultGroup("G")
	c.Attributes = map[string]string{"+x": "1"}
	b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, &c, code.SystemError, "unsupported key: x")
	c = defaultGroup("G")
	c.SubscriptionDataSet = []body.SimpleSubscriptionData{{Topic: strings.Repeat("t", maxConfig)}}
	b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, &c, code.InvalidParameter, "the limit is 65536")
	for _, text := range []string{"", "null", "[", `{"groupName":{}}`} {
		b.client.refused(code.UpdateAndCreateSubscriptionGroup, nil, text, code.InvalidParameter, "")
	}
	many := body.SubscriptionGroupList{GroupConfigList: make([]body.SubscriptionGroupConfig, maxList+1)}
	b.client.refused(code.UpdateAndCreateSubscriptionGroupList, nil, &many, code.InvalidParameter, "too many")
	if after := len(b.store.State.Groups()); after != before {
		t.Errorf("%d groups were made", after-before)
	}
}

func TestAllGroups(t *testing.T) {
	b := startBroker(t, nil)
	var list body.SubscriptionGroupList
	for i := range 35 {
		list.GroupConfigList = append(list.GroupConfigList, defaultGroup(fmt.Sprintf("G%04d", i)))
	}
	b.client.ok(code.UpdateAndCreateSubscriptionGroupList, nil, &list)
	b.client.ok(code.UpdateAndGetGroupForbidden, &header.UpdateGroupForbiddenRequest{Group: "G0001", Topic: "T", Readable: header.Some(false)}, nil)
	seen := map[string]bool{}
	version, total := "", int32(1)
	for seq := int32(0); seq < total; {
		r := b.client.ok(code.GetAllSubscriptionGroupConfig, &header.GetAllSubscriptionGroupRequest{GroupSeq: header.Some(seq), MaxGroupNum: header.Some[int32](10), DataVersion: version}, nil)
		var resp header.GetAllSubscriptionGroupResponse
		if err := r.Decode(&resp); err != nil {
			t.Fatal(err)
		}
		w := decode[body.SubscriptionGroupWrapper](t, r.Body)
		if w.ForbiddenTable["G0001"]["T"] != forbiddenRead {
			t.Fatalf("forbidden: %v", w.ForbiddenTable)
		}
		for name := range w.SubscriptionGroupTable {
			seen[name] = true
		}
		if len(w.SubscriptionGroupTable) > 10 {
			t.Fatalf("a page of %d", len(w.SubscriptionGroupTable))
		}
		seq += int32(len(w.SubscriptionGroupTable))
		version, total = string(fastjson.Marshal(&w.DataVersion)), resp.TotalGroupNum
	}
	if len(seen) != 35+len(systemGroups) {
		t.Errorf("%d groups in the pages", len(seen))
	}
}

func TestGroupConfig(t *testing.T) {
	ask := func(name string) *header.GetSubscriptionGroupConfigRequest {
		return &header.GetSubscriptionGroupConfigRequest{Group: name}
	}
	b := startBroker(t, nil)
	b.client.ok(code.GetSubscriptionGroupConfig, ask("New"), nil) // makes it
	if _, ok := b.store.State.Group("New"); !ok {
		t.Error("the group was not made")
	}
	for _, name := range hostileNames {
		b.client.refused(code.GetSubscriptionGroupConfig, ask(name), nil, code.SubscriptionGroupNotExist, "No group in this broker")
	}
	b = startBroker(t, map[string]string{"autoCreateSubscriptionGroup": "false"})
	b.client.refused(code.GetSubscriptionGroupConfig, ask("New"), nil, code.SubscriptionGroupNotExist, "No group in this broker")
}

func TestDeleteGroup(t *testing.T) {
	b := startBroker(t, nil)
	b.client.send("T", 0, "a")
	for _, clean := range []bool{false, true} {
		b.client.pull("G", "T", 0, 0)
		b.commitOffset("G", "T", 0, 1)
		b.client.ok(code.DeleteSubscriptionGroup, &header.DeleteSubscriptionGroupRequest{GroupName: "G", CleanOffset: clean}, nil)
		if _, ok := b.store.State.Group("G"); ok {
			t.Error("the group is still there")
		}
		if gone := b.offset("G", "T", 0) == -1 && b.offsets.pullOffset("G", "T", 0) == -1; gone != clean {
			t.Errorf("cleanOffset %v: the offsets are gone: %v", clean, gone)
		}
	}
	for _, name := range append(hostileNames, "none") {
		b.client.ok(code.DeleteSubscriptionGroup, &header.DeleteSubscriptionGroupRequest{GroupName: name, CleanOffset: true}, nil)
	}
}

func TestForbidden(t *testing.T) {
	b := startBroker(t, nil)
	b.putGroup("G", func(*body.SubscriptionGroupConfig) {})
	ask := func(topic string, readable header.Opt[bool]) body.GroupForbidden {
		r := b.client.ok(code.UpdateAndGetGroupForbidden, &header.UpdateGroupForbiddenRequest{Group: "G", Topic: topic, Readable: readable}, nil)
		return decode[body.GroupForbidden](t, r.Body)
	}
	ask("T2", header.Some(false))
	for _, readable := range []bool{false, true} {
		ask("T1", header.Some(readable))
		if got := ask("T1", header.Opt[bool]{}); got != (body.GroupForbidden{Group: "G", Topic: "T1", Readable: readable}) {
			t.Errorf("%+v, want readable %v", got, readable)
		}
	}
	if ask("T2", header.Opt[bool]{}).Readable {
		t.Error("allowing one topic allowed another")
	}
	b.restart()
	if ask("T2", header.Opt[bool]{}).Readable {
		t.Error("forgotten by a restart")
	}
	b.client.refused(code.UpdateAndGetGroupForbidden, &header.UpdateGroupForbiddenRequest{Group: "none", Topic: "T"}, nil, code.SubscriptionGroupNotExist, "not exist")
	b.client.refused(code.UpdateAndGetGroupForbidden, &header.UpdateGroupForbiddenRequest{Group: "G", Topic: "a b", Readable: header.Some(false)}, nil, code.InvalidParameter, "a b")
}
