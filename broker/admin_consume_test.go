package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// consumed is a broker with topic T of two queues: three messages in queue 0, none in queue 1; group G has consumed one of them
// and pulled all.
func consumed(t *testing.T, keys map[string]string) *testBroker {
	b := startBroker(t, keys)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 2), nil)
	for i := range 3 {
		b.client.send("T", 0, fmt.Sprint("m", i))
	}
	b.client.pull("G", "T", 0, 0)
	b.commitOffset("G", "T", 0, 1)
	return b
}

func mq(queue int32) body.MessageQueue {
	return body.MessageQueue{BrokerName: "b", Topic: "T", QueueID: queue}
}

func TestConsumeStats(t *testing.T) {
	b := consumed(t, nil)
	stats := func(h header.GetConsumeStatsRequest) body.ConsumeStats {
		h.ConsumerGroup = "G"
		return decode[body.ConsumeStats](t, b.client.ok(code.GetConsumeStats, &h, nil).Body)
	}
	for _, h := range []header.GetConsumeStatsRequest{{}, {Topic: "T"}, {TopicList: "T;none"}} {
		got := stats(h)
		stored := got.OffsetTable[mq(0)].LastTimestamp
		if now := b.clk.NowMs(); stored > now || stored < now-10_000 {
			t.Errorf("%+v: the last consumed message is of %d", h, stored)
		}
		if got.ConsumeTps <= 0 {
			t.Errorf("%+v: TPS %v", h, got.ConsumeTps)
		}
		want := map[body.MessageQueue]body.OffsetWrapper{mq(0): {BrokerOffset: 3, ConsumerOffset: 1, PullOffset: 3, LastTimestamp: stored}, mq(1): {}}
		if diff := cmp.Diff(want, got.OffsetTable); diff != "" {
			t.Errorf("%+v: %s", h, diff)
		}
	}
	if got := stats(header.GetConsumeStatsRequest{Topic: "none"}); len(got.OffsetTable) != 0 {
		t.Errorf("of an unknown topic: %+v", got)
	}
	list := decode[body.ConsumeStatsList](t, b.client.ok(code.GetBrokerConsumeStats, &header.GetConsumeStatsInBroker{}, nil).Body)
	if list.TotalDiff != 2 || list.TotalInflightDiff != 2 || list.BrokerAddr != b.Addr() || len(list.ConsumeStatsList) != len(b.store.State.Groups()) {
		t.Errorf("of the broker: %+v", list)
	}
	ordered := decode[body.ConsumeStatsList](t, b.client.ok(code.GetBrokerConsumeStats, &header.GetConsumeStatsInBroker{IsOrder: true}, nil).Body)
	if ordered.TotalDiff != 0 {
		t.Errorf("of ordered topics: %+v", ordered)
	}
	// A group that is online and has another subscription has left the topic.
	b.client.beat(consumerBeat("c", "G", "Other"))
	if got := stats(header.GetConsumeStatsRequest{Topic: "T"}); len(got.OffsetTable) != 0 {
		t.Errorf("of an abandoned topic: %+v", got)
	}
	if got := stats(header.GetConsumeStatsRequest{TopicList: "T"}); len(got.OffsetTable) != 2 {
		t.Errorf("of an abandoned topic by list: %+v", got)
	}
}

func TestConsumeTimeSpan(t *testing.T) {
	b := consumed(t, nil)
	got := decode[body.QueryConsumeTimeSpanBody](t, b.client.ok(code.QueryConsumeTimeSpan, &header.QueryConsumeTimeSpanRequest{Topic: "T", Group: "G"}, nil).Body)
	if len(got.ConsumeTimeSpanSet) != 2 {
		t.Fatalf("%+v", got)
	}
	s := got.ConsumeTimeSpanSet[0]
	now := b.clk.NowMs()
	if s.MinTimeStamp < now-10_000 || s.MaxTimeStamp < s.MinTimeStamp || s.ConsumeTimeStamp != s.MinTimeStamp || s.DelayTime < 0 || s.DelayTime > 10_000 {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(body.QueueTimeSpan{MessageQueue: mq(1)}, got.ConsumeTimeSpanSet[1]); diff != "" {
		t.Errorf("of an empty queue: %s", diff)
	}
	b.client.refused(code.QueryConsumeTimeSpan, &header.QueryConsumeTimeSpanRequest{Topic: "none", Group: "G"}, nil, code.TopicNotExist, "topic[none] not exist")
}

func TestWhoConsumesWhat(t *testing.T) {
	b := consumed(t, nil)
	b.client.beat(consumerBeat("c", "Online", "T"))
	groups := decode[body.GroupList](t, b.client.ok(code.QueryTopicConsumeByWho, &header.QueryTopicConsumeByWhoRequest{Topic: "T"}, nil).Body)
	if diff := cmp.Diff([]string{"G", "Online"}, groups.GroupList); diff != "" {
		t.Error(diff)
	}
	topics := decode[body.TopicList](t, b.client.ok(code.QueryTopicsByConsumer, &header.QueryTopicsByConsumerRequest{Group: "G"}, nil).Body)
	if diff := cmp.Diff(body.TopicList{BrokerAddr: b.Addr(), TopicList: []string{"T"}}, topics); diff != "" {
		t.Error(diff)
	}
	for group, want := range map[string]bool{"Online": true, "G": false, "none": false} {
		r := b.client.ok(code.QuerySubscriptionByConsumer, &header.QuerySubscriptionByConsumerRequest{Group: group, Topic: "T"}, nil)
		got := decode[body.QuerySubscriptionResponseBody](t, r.Body)
		if (got.SubscriptionData != nil) != want || got.Group != group || got.Topic != "T" {
			t.Errorf("%s: %s", group, r.Body)
		}
	}
	for _, name := range hostileNames {
		if got := decode[body.GroupList](t, b.client.ok(code.QueryTopicConsumeByWho, &header.QueryTopicConsumeByWhoRequest{Topic: name}, nil).Body); len(got.GroupList) > 0 {
			t.Errorf("%q is consumed by %v", name, got.GroupList)
		}
	}
}

func TestCloneOffsets(t *testing.T) {
	b := consumed(t, nil)
	b.client.send("T2", 0, "x")
	b.commitOffset("G", "T2", 0, 1)
	b.client.ok(code.CloneGroupOffset, &header.CloneGroupOffsetRequest{SrcGroup: "G", DestGroup: "Copy1", Topic: "T"}, nil)
	b.client.ok(code.CloneGroupOffset, &header.CloneGroupOffsetRequest{SrcGroup: "G", DestGroup: "Copy2"}, nil)
	got := []int64{b.offset("Copy1", "T", 0), b.offset("Copy1", "T2", 0), b.offset("Copy2", "T", 0), b.offset("Copy2", "T2", 0)}
	if diff := cmp.Diff([]int64{1, -1, 1, 1}, got); diff != "" {
		t.Error(diff)
	}
	b.client.ok(code.CloneGroupOffset, &header.CloneGroupOffsetRequest{SrcGroup: "none", DestGroup: "Copy3"}, nil)
	for _, name := range hostileNames {
		b.client.refused(code.CloneGroupOffset, &header.CloneGroupOffsetRequest{SrcGroup: "G", DestGroup: name}, nil, code.InvalidParameter, "The specified group")
	}
}

func TestCorrectionOffset(t *testing.T) {
	b := consumed(t, nil)
	b.commitOffset("Ahead", "T", 0, 3)
	b.commitOffset("Behind", "T", 0, 0)
	ask := func(compare, filter string) map[int32]int64 {
		r := b.client.ok(code.QueryCorrectionOffset, &header.QueryCorrectionOffset{Topic: "T", CompareGroup: compare, FilterGroups: filter}, nil)
		return decode[body.QueryCorrectionOffsetBody](t, r.Body).CorrectionOffsets
	}
	if diff := cmp.Diff(map[int32]int64{0: 0}, ask("G", "")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int32]int64{0: math.MaxInt64}, ask("Behind", "Behind")); diff != "" {
		t.Error(diff)
	}
	if b.offset("Behind", "T", 0) != 0 {
		t.Error("the question has deleted offsets")
	}
}

func TestResetOffset(t *testing.T) {
	b := consumed(t, nil)
	reset := func(h header.ResetOffsetRequest) map[body.MessageQueue]int64 {
		t.Helper()
		h.Group, h.Topic = "G", "T"
		return decode[body.ResetOffsetBody](t, b.client.ok(code.InvokeBrokerToResetOffset, &h, nil).Body).OffsetTable
	}
	for _, c := range []struct {
		h    header.ResetOffsetRequest
		want map[body.MessageQueue]int64
	}{
		{header.ResetOffsetRequest{Timestamp: 0}, map[body.MessageQueue]int64{mq(0): 0, mq(1): 0}},
		{header.ResetOffsetRequest{Timestamp: -1}, map[body.MessageQueue]int64{mq(0): 3, mq(1): 0}},
		{header.ResetOffsetRequest{Timestamp: b.clk.NowMs() + 1e6}, map[body.MessageQueue]int64{mq(0): 3, mq(1): 0}},
		{header.ResetOffsetRequest{QueueID: header.Some[int32](0), Offset: header.Some[int64](2)}, map[body.MessageQueue]int64{mq(0): 2}},
		{header.ResetOffsetRequest{QueueID: header.Some[int32](0), Offset: header.Some[int64](-1), Timestamp: 0}, map[body.MessageQueue]int64{mq(0): 0}},
		{header.ResetOffsetRequest{QueueID: header.Some[int32](0), Offset: header.Some[int64](4)}, map[body.MessageQueue]int64{mq(0): 4}},
	} {
		if diff := cmp.Diff(c.want, reset(c.h)); diff != "" {
			t.Errorf("%+v: %s", c.h, diff)
		}
		for q, want := range c.want {
			if got := b.offset("G", "T", q.QueueID); got != want {
				t.Errorf("%+v: the offset is %d", c.h, got)
			}
		}
	}
	// A commit of what was read before does not count; the next pull learns the offset, and then commits count again.
	reset(header.ResetOffsetRequest{Timestamp: 0})
	r := b.client.ok(code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: "G", Topic: "T", QueueID: header.Some[int32](0), CommitOffset: header.Some[int64](3)}, nil)
	if string(r.Remark) != "Offset has been previously reset" || b.offset("G", "T", 0) != 0 {
		t.Errorf("a commit over a pending reset: %q, offset %d", r.Remark, b.offset("G", "T", 0))
	}
	b.restart()
	r = b.client.call(code.PullMessage, pullRequest("G", "T", 0, 3), nil)
	var resp header.PullMessageResponse
	if err := r.Decode(&resp); err != nil || code.Response(r.Code) != code.PullOffsetMoved || resp.NextBeginOffset != 0 {
		t.Errorf("the pull after the reset: %v, next %d, %v", code.Response(r.Code), resp.NextBeginOffset, err)
	}
	b.until("the reset is taken", func() bool { _, pending := b.store.State.Reset("G", "T", 0); return !pending })
	b.commitOffset("G", "T", 0, 2)
	if got := b.offset("G", "T", 0); got != 2 {
		t.Errorf("a commit after the reset: %d", got)
	}
}

func TestResetOffsetIsRefused(t *testing.T) {
	b := consumed(t, nil)
	h := func(topic, group string, queue int32, offset int64) *header.ResetOffsetRequest {
		return &header.ResetOffsetRequest{Topic: topic, Group: group, QueueID: header.Some(queue), Offset: header.Some(offset)}
	}
	for _, name := range append(hostileNames, "none") {
		b.client.refused(code.InvokeBrokerToResetOffset, h(name, "G", -1, -1), nil, code.TopicNotExist, "does not exist")
		b.client.refused(code.InvokeBrokerToResetOffset, h("T", name, -1, -1), nil, code.SubscriptionGroupNotExist, "not exist")
	}
	b.client.refused(code.InvokeBrokerToResetOffset, h("T", "G", 0, 5), nil, code.SystemError, "Target offset 5 not in consume queue range [0-3]")
	b.client.refused(code.InvokeBrokerToResetOffset, h("T", "G", 0, -7), nil, code.SystemError, "Target offset -7 not in consume queue range [0-3]")
	b.client.refused(code.InvokeBrokerToResetOffset, h("T", "G", math.MaxInt32, 0), nil, code.InvalidParameter, "queueId")
	if len(b.store.State.Resets()) > 0 || b.offset("G", "T", 0) != 1 {
		t.Error("a reset that was refused had an effect")
	}
}

func TestResetOffsetByClients(t *testing.T) {
	b := consumed(t, map[string]string{"useServerSideResetOffset": "false"})
	h := &header.ResetOffsetRequest{Topic: "T", Group: "G", Timestamp: -1}
	b.client.refused(code.InvokeBrokerToResetOffset, h, nil, code.SystemError, "THe consumer group <G> not exist") // no offset in queue 1
	b.commitOffset("G", "T", 1, 0)
	b.client.refused(code.InvokeBrokerToResetOffset, h, nil, code.ConsumerNotOnline, "not online")
	member, tool := b.connect(), b.connect()
	member.beat(consumerBeat("c", "G", "T"))
	pushed := func() push {
		t.Helper()
		for {
			select {
			case p := <-member.pushed:
				if p.code == code.ResetConsumerClientOffset {
					return p
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the member was not told")
			}
		}
	}
	for force, want := range map[bool]int64{false: 1, true: 3} {
		h.IsForce = force
		got := decode[body.ResetOffsetBody](t, tool.ok(code.InvokeBrokerToResetOffset, h, nil).Body)
		if diff := cmp.Diff(map[body.MessageQueue]int64{mq(0): want, mq(1): 0}, got.OffsetTable); diff != "" {
			t.Errorf("force %v: %s", force, diff)
		}
		p := pushed()
		if p.body != string(fastjson.Marshal(&got)) || p.ext("group") != "G" || p.ext("topic") != "T" || p.ext("timestamp") != "-1" {
			t.Errorf("force %v: the member was told %q", force, p.body)
		}
	}
	if b.offset("G", "T", 0) != 1 {
		t.Error("the broker has changed the offset itself")
	}
	forC := fastjson.Marshal(resetBodyForC(map[body.MessageQueue]int64{mq(0): 3}))
	if want := `{"offsetTable":[{"brokerName":"b","offset":3,"queueId":0,"topic":"T"}]}`; string(forC) != want {
		t.Errorf("for C++ clients: %s", forC)
	}
}

// answering is a client that answers the broker's questions itself.
type answering struct {
	*peer
	answer func(r *remoting.Request) error
}

func (a *answering) Serve(r *remoting.Request) {
	if err := a.answer(r); err != nil {
		rc, remark := remoting.Verdict(err)
		r.Reply(rc, remark, nil, nil)
	}
}

func (b *testBroker) connectAnswering(answer func(r *remoting.Request) error) *peer {
	p := b.connect()
	p.Client = remoting.NewClient(&answering{p, answer}, nil)
	b.t.Cleanup(p.Close)
	return p
}

func TestRunningInfo(t *testing.T) {
	b := startBroker(t, nil)
	ask := func(client string) *header.GetConsumerRunningInfoRequest {
		return &header.GetConsumerRunningInfoRequest{ConsumerGroup: "G", ClientID: client, JstackEnable: true}
	}
	const odd = `{"jstack":"not " valid","properties":{}}` // as a Go client's
	asked := make(chan string, 10)
	member := b.connectAnswering(func(r *remoting.Request) error {
		if code.Request(r.Code) != code.GetConsumerRunningInfo {
			return nil
		}
		id, _ := r.Ext("clientId")
		stack, _ := r.Ext("jstackEnable")
		asked <- strings.Clone(id + stack)
		r.Reply(code.Success, "", nil, []byte(odd))
		return nil
	})
	b.client.refused(code.GetConsumerRunningInfo, ask("c"), nil, code.SystemError, "The Consumer <G> <c> not online")
	member.beat(consumerBeat("c", "G", "T"))
	r := b.client.ok(code.GetConsumerRunningInfo, ask("c"), nil)
	if question := <-asked; string(r.Body) != odd || question != "ctrue" {
		t.Errorf("the answer is not passed on as it came: %s; the client was asked %q", r.Body, question)
	}
	b.client.refused(code.GetConsumerRunningInfo, ask("other"), nil, code.SystemError, "The Consumer <G> <other> not online")

	failing := b.connectAnswering(func(*remoting.Request) error { return code.New(code.SystemBusy, "not now") })
	failing.beat(consumerBeat("f", "G", "T"))
	b.client.refused(code.GetConsumerRunningInfo, ask("f"), nil, code.SystemBusy, "not now")
	leaving := b.connectAnswering(func(r *remoting.Request) error { // it goes away when it is asked
		if r.Park(); code.Request(r.Code) == code.GetConsumerRunningInfo {
			r.Conn.Close()
		}
		return nil
	})
	leaving.beat(consumerBeat("s", "G", "T"))
	b.client.refused(code.GetConsumerRunningInfo, ask("s"), nil, code.SystemError, "consumer <G> <s>: ")
}

func TestAskedClientIsSilent(t *testing.T) {
	b := startBroker(t, nil)
	silent := b.connectAnswering(func(r *remoting.Request) error { r.Park(); return nil })
	silent.beat(consumerBeat("s", "G", "T"))
	m, err := b.consumerFor("G", "s")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 2)
	b.ask(m, code.GetConsumerRunningInfo, nil, nil, 10*time.Millisecond, func(_ *remoting.Reply, err error) { done <- err })
	if err := <-done; err != errNoAnswer {
		t.Errorf("%v", err)
	}
	silent.Close()
	b.until("the client is gone", func() bool { return len(b.clients.membersOf("G")) == 0 })
	if len(done) > 0 {
		t.Error("told twice")
	}
}

func TestConsumeDirectly(t *testing.T) {
	b := consumed(t, nil)
	type question struct {
		ext  map[string]string
		body []byte
	}
	asked := make(chan question, 10)
	member := b.connectAnswering(func(r *remoting.Request) error {
		if code.Request(r.Code) != code.ConsumeMessageDirectly {
			return nil
		}
		ext := map[string]string{}
		for _, name := range []string{"brokerName", "topicSysFlag", "groupSysFlag", "msgId"} {
			v, _ := r.Ext(name)
			ext[name] = strings.Clone(v)
		}
		asked <- question{ext, slices.Clone(r.Body)}
		r.Reply(code.Success, "", nil, fastjson.Marshal(&body.ConsumeMessageDirectlyResult{ConsumeResult: "CR_SUCCESS"}))
		return nil
	})
	member.beat(consumerBeat("c", "G", "T"))
	id := b.client.send("T", 1, "direct").MsgID
	h := &header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: "G", ClientID: "c", MsgID: id, Topic: "T"}
	result := decode[body.ConsumeMessageDirectlyResult](t, b.client.ok(code.ConsumeMessageDirectly, h, nil).Body)
	if result.ConsumeResult != "CR_SUCCESS" {
		t.Errorf("%+v", result)
	}
	q := <-asked
	if all := b.client.records(q.body); len(all) != 1 || string(all[0].Body()) != "direct" {
		t.Errorf("the client got %q", q.body)
	}
	if diff := cmp.Diff(map[string]string{"brokerName": "b", "topicSysFlag": "0", "groupSysFlag": "0", "msgId": id}, q.ext); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "xyz", id[:31], strings.Repeat("Z", 32)} {
		b.client.refused(code.ConsumeMessageDirectly, &header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: "G", ClientID: "c", MsgID: bad}, nil, code.InvalidParameter, "msgId")
	}
	for _, tail := range []string{"0000000000000001", "7FFFFFFFFFFFFFFF", "FFFFFFFFFFFFFFFF"} {
		b.client.refused(code.ConsumeMessageDirectly, &header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: "G", ClientID: "c", MsgID: id[:16] + tail}, nil, code.SystemError, "no message")
	}
	b.client.refused(code.ConsumeMessageDirectly, &header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: "G", ClientID: "x", MsgID: id}, nil, code.SystemError, "not online")
}

func TestConsumerStatus(t *testing.T) {
	b := startBroker(t, nil)
	ask := func(client string) *header.GetConsumerStatusRequest {
		return &header.GetConsumerStatusRequest{Topic: "T", Group: "G", ClientAddr: client}
	}
	b.client.refused(code.InvokeBrokerToGetConsumerStatus, ask(""), nil, code.SystemError, "No Any Consumer online in the consumer group: [G]")
	for id, offset := range map[string]int64{"c1": 1, "c2": 2, "broken": -1} {
		p := b.connectAnswering(func(r *remoting.Request) error {
			switch {
			case code.Request(r.Code) != code.GetConsumerStatusFromClient:
			case offset < 0:
				r.Reply(code.Success, "", nil, []byte("{"))
			default:
				r.Reply(code.Success, "", nil, fastjson.Marshal(&body.GetConsumerStatusBody{MessageQueueTable: map[body.MessageQueue]int64{mq(0): offset}}))
			}
			return nil
		})
		p.beat(consumerBeat(id, "G", "T"))
	}
	got := decode[body.GetConsumerStatusBody](t, b.client.ok(code.InvokeBrokerToGetConsumerStatus, ask(""), nil).Body)
	if diff := cmp.Diff(map[string]map[body.MessageQueue]int64{"c1": {mq(0): 1}, "c2": {mq(0): 2}}, got.ConsumerTable); diff != "" {
		t.Error(diff)
	}
	got = decode[body.GetConsumerStatusBody](t, b.client.ok(code.InvokeBrokerToGetConsumerStatus, ask("c2"), nil).Body)
	if len(got.ConsumerTable) != 1 || got.ConsumerTable["c2"] == nil {
		t.Errorf("of one client: %+v", got)
	}
}

func TestQueryQueue(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 1), nil)
	for i := range 400 {
		b.client.send("T", 0, "m", "TAGS", []string{"A", "B"}[i%2])
	}
	d := consumerBeat("c", "G", "T")
	d.ConsumerDataSet[0].SubscriptionDataSet[0].SubString = "A"
	b.client.beat(d)
	ask := func(index int64, count int32, group string) (body.QueryConsumeQueueResponseBody, *remoting.Reply) {
		r := b.client.ok(code.QueryConsumeQueue, &header.QueryConsumeQueueRequest{Topic: "T", Index: index, Count: count, ConsumerGroup: group}, nil)
		if len(r.Body) == 0 {
			return body.QueryConsumeQueueResponseBody{}, r
		}
		return decode[body.QueryConsumeQueueResponseBody](t, r.Body), r
	}
	got, _ := ask(2, 3, "G")
	if got.MinQueueIndex != 0 || got.MaxQueueIndex != 400 || len(got.QueueData) != 3 || got.FilterData != "null" || got.SubscriptionData == nil {
		t.Fatalf("%+v", got)
	}
	for i, unit := range got.QueueData {
		if tags, pass := int64('A'+i%2), i%2 == 0; unit.TagsCode != tags || unit.Eval != pass || unit.PhysicSize <= 0 {
			t.Errorf("unit %d: %+v", i, unit)
		}
	}
	for count, want := range map[int32]int{0: queueUnits, -5: queueUnits, math.MaxInt32: maxQueueUnits} {
		if got, _ := ask(0, count, ""); len(got.QueueData) != want || got.SubscriptionData != nil {
			t.Errorf("count %d: %d units", count, len(got.QueueData))
		}
	}
	if got, _ := ask(398, 10, "none"); len(got.QueueData) != 2 || got.FilterData != "none@T is not online!" {
		t.Errorf("at the end: %+v", got)
	}
	for _, index := range []int64{-1, 400, math.MaxInt64, math.MinInt64} {
		if _, r := ask(index, 1, ""); len(r.Body) != 0 || string(r.Remark) != fmt.Sprintf("Index %d of 0@T is not exist!", index) {
			t.Errorf("index %d: %q %s", index, r.Remark, r.Body)
		}
	}
	for _, name := range append(hostileNames, "none") {
		b.client.refused(code.QueryConsumeQueue, &header.QueryConsumeQueueRequest{Topic: name, QueueID: 7}, nil, code.SystemError, "is not exist!")
	}
}

func TestRequestModes(t *testing.T) {
	b := startBroker(t, nil)
	set := func(topic, group string, mode body.MessageRequestMode) *body.SetMessageRequestModeRequestBody {
		return &body.SetMessageRequestModeRequestBody{Topic: topic, ConsumerGroup: group, Mode: mode}
	}
	b.client.refused(code.SetMessageRequestMode, nil, set("T", "G", body.ModePull), code.TopicNotExist, "T")
	b.client.send("T", 0, "x")
	b.client.ok(code.SetMessageRequestMode, nil, set("T", "G", body.ModePull))
	b.client.refused(code.SetMessageRequestMode, nil, set("T", "G", body.ModePop), code.SystemError, "POP is not supported")
	b.client.refused(code.SetMessageRequestMode, nil, set("%RETRY%G", "G", body.ModePull), code.NoPermission, "retry topic is not allowed to set mode")
	b.client.refused(code.SetMessageRequestMode, nil, set("a b", "G", body.ModePull), code.InvalidParameter, "a b")
	b.client.refused(code.SetMessageRequestMode, nil, set("T", "a b", body.ModePull), code.SubscriptionGroupNotExist, "")
	b.client.refused(code.SetMessageRequestMode, nil, "{", code.InvalidParameter, "body")
	r := b.client.ok(code.GetAllMessageRequestMode, nil, nil)
	if want := `{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"PULL","popShareQueueNum":0,"topic":"T"}}}}`; string(r.Body) != want {
		t.Errorf("%s", r.Body)
	}
}

func TestTablesForSlaves(t *testing.T) {
	b := consumed(t, nil)
	offsets := decode[body.ConsumerOffsetSerializeWrapper](t, b.client.ok(code.GetAllConsumerOffset, nil, nil).Body)
	if diff := cmp.Diff(map[string]map[int32]int64{"T@G": {0: 1}}, offsets.OffsetTable); diff != "" {
		t.Error(diff)
	}
	decode[body.DelayOffsetSerializeWrapper](t, b.client.ok(code.GetAllDelayOffset, nil, nil).Body)
}
