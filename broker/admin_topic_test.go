package broker

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// hostileNames are names of topics and groups that must not be taken.
var hostileNames = []string{"", " ", "a b", "../../etc/passwd", "a/b", "a\x00b", "a\nb", "ü", "a.b", strings.Repeat("x", 5000)}

func newTopic(name string, queues int32) *header.CreateTopicRequest {
	return &header.CreateTopicRequest{Topic: name, DefaultTopic: autoCreateKey, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6, TopicFilterType: "SINGLE_TAG"}
}

func TestUpdateTopic(t *testing.T) {
	b := startBroker(t, nil)
	h := newTopic("T", 3)
	h.Attributes, h.Order = "+message.type=FIFO", true
	b.client.ok(code.UpdateAndCreateTopic, h, nil)
	want := body.TopicConfigAndQueueMapping{TopicConfig: body.TopicConfig{TopicName: "T", ReadQueueNums: 3, WriteQueueNums: 3, Perm: 6, Order: true,
		TopicFilterType: "SINGLE_TAG", Attributes: map[string]string{"message.type": "FIFO"}}}
	config := func() body.TopicConfigAndQueueMapping {
		return decode[body.TopicConfigAndQueueMapping](t, b.client.ok(code.GetTopicConfig, &header.GetTopicConfigRequest{Topic: "T"}, nil).Body)
	}
	if diff := cmp.Diff(want, config()); diff != "" {
		t.Fatal(diff)
	}
	version := b.topics.version()
	h.Attributes = ""
	b.client.ok(code.UpdateAndCreateTopic, h, nil)
	if b.topics.version() != version {
		t.Error("an update that changes nothing has made a new version")
	}
	h.ReadQueueNums, h.Perm = 5, 4
	want.ReadQueueNums, want.Perm = 5, 4
	b.client.ok(code.UpdateAndCreateTopic, h, nil)
	if diff := cmp.Diff(want, config()); diff != "" {
		t.Errorf("an update without attributes: %s", diff)
	}
	if b.topics.version().Counter != version.Counter+1 {
		t.Error("a change has not made one new version")
	}
	b.client.ok(code.UpdateAndCreateTopic, newTopic("%RETRY%G", 2), nil) // operators set their queues
	b.restart()
	if diff := cmp.Diff(want, config()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

func TestUpdateTopicIsRefused(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.GetSystemTopicListFromBroker, nil, nil) // it serves: its own topics and groups are there
	before := len(b.store.State.Topics())
	for _, name := range hostileNames {
		b.client.refused(code.UpdateAndCreateTopic, newTopic(name, 1), nil, code.InvalidParameter, "The specified topic")
	}
	for _, name := range []string{"SCHEDULE_TOPIC_XXXX", "TBW102", "rmq_sys_anything", "b", "DefaultCluster", "TRANS_CHECK_MAX_TIME_TOPIC"} {
		b.client.refused(code.UpdateAndCreateTopic, newTopic(name, 1), nil, code.InvalidParameter, "The topic["+name+"] is conflict with system topic.")
	}
	for _, n := range []int32{-1, math.MinInt32, math.MaxInt32, 1<<16 + 1} {
		b.client.refused(code.UpdateAndCreateTopic, newTopic("T", n), nil, code.InvalidParameter, "queues")
	}
	for _, c := range []struct {
		change func(*header.CreateTopicRequest)
		rc     code.Response
		remark string
	}{
		{func(h *header.CreateTopicRequest) { h.Perm = 8 }, code.InvalidParameter, "perm 8"},
		{func(h *header.CreateTopicRequest) { h.TopicFilterType = "X" }, code.InvalidParameter, "topicFilterType"},
		{func(h *header.CreateTopicRequest) { h.Attributes = "+message.type=MIXED" }, code.InvalidParameter, "MIXED message type is not supported."},
		{func(h *header.CreateTopicRequest) { h.Attributes = "+message.type=NOPE" }, code.SystemError, "value is not in set: ["},
		{func(h *header.CreateTopicRequest) { h.Attributes = "+cleanup.policy=COMPACTION" }, code.SystemError, "not supported"},
	} {
		h := newTopic("T", 1)
		c.change(h)
		b.client.refused(code.UpdateAndCreateTopic, h, nil, c.rc, c.remark)
	}
	if after := len(b.store.State.Topics()); after != before {
		t.Errorf("%d topics were made", after-before)
	}
}

func TestUpdateTopics(t *testing.T) {
	b := startBroker(t, nil)
	list := func(names ...string) *body.CreateTopicListRequestBody {
		var l body.CreateTopicListRequestBody
		for _, n := range names {
			l.TopicConfigList = append(l.TopicConfigList, body.TopicConfig{TopicName: n, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6})
		}
		return &l
	}
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T2", 1), nil)
	b.client.ok(code.UpdateAndCreateTopicList, nil, list("T1", "T2", "T3")) // T2 is unchanged, and not the end
	for _, name := range []string{"T1", "T2", "T3"} {
		if b.topics.get(name) == nil {
			t.Errorf("%s was not made", name)
		}
	}
	b.client.refused(code.UpdateAndCreateTopicList, nil, list("T4", "no good", "T5"), code.InvalidParameter, "no good")
	if b.topics.get("T4") != nil || b.topics.get("T5") != nil {
		t.Error("a part of a list that was refused was made")
	}
	var many []string
	for i := range maxList + 1 {
		many = append(many, fmt.Sprint("M", i))
	}
	b.client.refused(code.UpdateAndCreateTopicList, nil, list(many...), code.InvalidParameter, "too many")
	b.client.ok(code.UpdateAndCreateTopicList, nil, list(many[:300]...))
	for _, text := range []string{"", "{", "[]", `{"topicConfigList":[1]}`, `{"topicConfigList":` + strings.Repeat("[", 10_000)} {
		b.client.refused(code.UpdateAndCreateTopicList, nil, text, code.InvalidParameter, "body")
	}
}

func TestAllTopics(t *testing.T) {
	b := startBroker(t, nil)
	for i := range 7 {
		b.client.ok(code.UpdateAndCreateTopic, newTopic(fmt.Sprint("T", i), 1), nil)
	}
	get := func(h *header.GetAllTopicConfigRequest) (names []string, w body.TopicConfigAndMappingSerializeWrapper, total int32) {
		r := b.client.ok(code.GetAllTopicConfig, h, nil)
		var resp header.GetAllTopicConfigResponse
		if err := r.Decode(&resp); err != nil {
			t.Fatal(err)
		}
		w = decode[body.TopicConfigAndMappingSerializeWrapper](t, r.Body)
		for n, c := range w.TopicConfigTable {
			if n != c.TopicName {
				t.Errorf("%s is described as %s", n, c.TopicName)
			}
			names = append(names, n)
		}
		return sorted(names), w, resp.TotalTopicNum
	}
	whole, w, total := get(&header.GetAllTopicConfigRequest{})
	if int(total) != len(whole) || !slices.Contains(whole, "T6") || !slices.Contains(whole, autoCreateKey) || w.DataVersion != b.topics.version() {
		t.Fatalf("total %d, version %+v: %v", total, w.DataVersion, whole)
	}
	if slices.ContainsFunc(whole, isInternal) {
		t.Errorf("internal topics: %v", whole)
	}
	var paged []string
	version := ""
	for seq := int32(0); seq < total; seq += 3 {
		h := &header.GetAllTopicConfigRequest{TopicSeq: header.Some(seq), MaxTopicNum: header.Some[int32](3), DataVersion: version}
		names, w, _ := get(h)
		paged = append(paged, names...)
		version = string(fastjson.Marshal(&w.DataVersion))
	}
	if diff := cmp.Diff(whole, paged); diff != "" {
		t.Errorf("pages: %s", diff)
	}
	b.client.ok(code.UpdateAndCreateTopic, newTopic("A", 1), nil)
	first, _, _ := get(&header.GetAllTopicConfigRequest{TopicSeq: header.Some[int32](6), MaxTopicNum: header.Some[int32](3), DataVersion: version})
	if first[0] != "A" {
		t.Errorf("after a change the pages do not start over: %v", first)
	}
	for _, h := range []*header.GetAllTopicConfigRequest{{TopicSeq: header.Some[int32](-5)}, {TopicSeq: header.Some[int32](math.MaxInt32), DataVersion: "{"}, {MaxTopicNum: header.Some[int32](math.MinInt32)}} {
		if names, _, _ := get(h); len(names) != int(total)+1 {
			t.Errorf("%+v: %d topics", h, len(names))
		}
	}
}

func TestPage(t *testing.T) {
	version := body.DataVersion{Counter: 7}
	text := string(fastjson.Marshal(&version))
	some := header.Some[int32]
	for _, c := range []struct {
		seq, rows header.Opt[int32]
		version   string
		from, to  int
	}{
		{from: 0, to: 5000},
		{seq: some(0), version: text, from: 0, to: splitMetadataSize},
		{seq: some(4000), rows: some(10_000), version: text, from: 4000, to: 5000},
		{seq: some(4000), rows: some(10), version: text, from: 4000, to: 4010},
		{seq: some(4000), rows: some(10), version: "{}", from: 0, to: 10},
		{seq: some(math.MaxInt32), rows: some(10), version: text, from: 5000, to: 5000},
		{seq: some(-1), rows: some(-1), version: text, from: 0, to: splitMetadataSize},
	} {
		if from, to := page(5000, c.seq, c.rows, c.version, version); from != c.from || to != c.to {
			t.Errorf("%+v: %d to %d", c, from, to)
		}
	}
}

func TestDeleteTopic(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 1), nil)
	b.client.send("T", 0, "old")
	b.client.pull("G", "T", 0, 0)
	b.commitOffset("G", "T", 0, 1)
	for _, name := range []string{"%RETRY%G+T", "%RETRY%G_T", "%RETRY%H_T"} {
		if _, err := b.topics.ensure(name, 1, permRead|permWrite); err != nil { // clients cannot make the first
			t.Fatal(err)
		}
	}
	b.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "T"}, nil)
	for name, want := range map[string]bool{"T": false, "%RETRY%G+T": false, "%RETRY%G_T": false, "%RETRY%H_T": true} {
		if got := b.topics.get(name) != nil; got != want {
			t.Errorf("%s: there is %v, want %v", name, got, want)
		}
	}
	if _, ok := b.store.State.Offset("G", "T", 0); ok || b.offsets.pullOffset("G", "T", 0) != -1 {
		t.Error("offsets outlive their topic")
	}
	b.client.refused(code.GetTopicConfig, &header.GetTopicConfigRequest{Topic: "T"}, nil, code.TopicNotExist, "No topic in this broker. topic: T")
	b.client.refused(code.ViewBrokerStatsData, &header.ViewBrokerStatsDataRequest{StatsName: "TOPIC_PUT_NUMS", StatsKey: "T"}, nil, code.SystemError, "not exist")
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 1), nil)
	if resp := b.client.send("T", 0, "new"); resp.QueueOffset != 0 {
		t.Errorf("the first offset of a topic made anew is %d", resp.QueueOffset)
	}
	b.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "none"}, nil)
	end := b.store.Log.End()
	b.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: strings.Repeat("n", 1<<20)}, nil)
	b.client.ok(code.DeleteSubscriptionGroup, &header.DeleteSubscriptionGroupRequest{GroupName: strings.Repeat("n", 1<<20)}, nil)
	if grown := b.store.Log.End() - end; grown != 0 {
		t.Errorf("%d bytes were recorded about names that nobody can have", grown)
	}
	b.client.refused(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: " "}, nil, code.InvalidParameter, "The specified topic is blank.")
	b.client.refused(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "SELF_TEST_TOPIC"}, nil, code.InvalidParameter, "conflict with system topic")
	for _, name := range hostileNames[2:] {
		b.client.ok(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: name}, nil)
	}
}

func TestCleanUnusedTopics(t *testing.T) {
	b := startBroker(t, nil)
	b.client.send("T", 0, "a")
	b.client.send("Kept", 0, "a")
	b.store.Queues.GetOrCreate("Orphan", 0)
	b.client.ok(code.CleanUnusedTopic, nil, nil)
	if b.store.Queues.Topic("Orphan") != nil {
		t.Error("the queues of an unknown topic are still there")
	}
	if b.store.Queues.Topic("Kept") == nil || b.store.Queues.Topic("T") == nil {
		t.Error("queues of known topics are gone")
	}
	b.client.ok(code.CleanExpiredConsumeQueue, nil, nil)
	b.client.ok(code.DeleteExpiredCommitLog, nil, nil)
	if got := bodies(b.all("Kept", 0)); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("young messages after cleaning: %v", got)
	}
}

func TestTopicStats(t *testing.T) {
	b := startBroker(t, nil)
	b.client.ok(code.UpdateAndCreateTopic, newTopic("T", 2), nil)
	b.client.send("T", 1, "a")
	b.client.send("T", 1, "b")
	r := b.client.ok(code.GetTopicStatsInfo, &header.GetTopicStatsInfoRequest{Topic: "T"}, nil)
	if !strings.HasPrefix(string(r.Body), `{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"lastUpdateTimestamp":0,"maxOffset":0,"minOffset":0},{`) {
		t.Errorf("not the form that tools read: %s", r.Body)
	}
	table := decode[body.TopicStatsTable](t, r.Body)
	q1 := table.OffsetTable[body.MessageQueue{BrokerName: "b", Topic: "T", QueueID: 1}]
	if now := b.clk.NowMs(); q1.MaxOffset != 2 || q1.MinOffset != 0 || q1.LastUpdateTimestamp > now || q1.LastUpdateTimestamp < now-10_000 || table.TopicPutTps <= 0 {
		t.Errorf("%+v", table)
	}
	for _, name := range append(hostileNames, "none") {
		b.client.refused(code.GetTopicStatsInfo, &header.GetTopicStatsInfoRequest{Topic: name}, nil, code.TopicNotExist, "not exist")
	}
}

func TestSystemTopics(t *testing.T) {
	b := startBroker(t, map[string]string{"autoCreateTopicEnable": "false"})
	list := decode[body.TopicList](t, b.client.ok(code.GetSystemTopicListFromBroker, nil, nil).Body)
	for _, want := range []string{"TBW102", "SELF_TEST_TOPIC", "BenchmarkTest", "SCHEDULE_TOPIC_XXXX", "b", "DefaultCluster", "DefaultCluster_REPLY_TOPIC",
		"RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT"} {
		if !slices.Contains(list.TopicList, want) {
			t.Errorf("%s is missing in %v", want, list.TopicList)
		}
	}
}
