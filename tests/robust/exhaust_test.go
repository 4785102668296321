package robust

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// pipeline sends n requests at once and returns how many were answered with each code.
func pipeline(t *testing.T, addr string, n int, make func(i int) []byte) map[code.Response]int {
	t.Helper()
	p := dial(t, addr)
	defer p.close()
	go func() {
		var buf []byte
		for i := range n {
			if buf = append(buf, make(i)...); len(buf) > 1<<20 || i == n-1 {
				p.write(buf)
				buf = buf[:0]
			}
		}
	}()
	got := map[code.Response]int{}
	for range n {
		cmd := p.mustReply()
		for !cmd.IsResponse() {
			cmd = p.mustReply()
		}
		got[code.Response(cmd.Code)]++
	}
	return got
}

// TestTopicsByAutoCreate makes topics by sending to them, as many as one likes: each costs a bounded number of bytes, and who does
// not use them does not wait for them.
func TestTopicsByAutoCreate(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	n := size(20_000, 400)
	c.once(20, func() {
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				got := pipeline(t, c.addr(), n/4, func(i int) []byte {
					return request(header.Binary, int32(code.SendMessage), int32(i), sendHeader(fmt.Sprintf("Flood-%d-%d", w, i), 0, ""), []byte("x"))
				})
				if got[code.Success]+got[code.SystemBusy] != n/4 {
					t.Errorf("answers: %v", got)
				}
			})
		}
		wg.Wait()
	})
	grew(t, fmt.Sprintf("%d topics", n), before, int64(n)*16<<10+24<<20)
	c.checkAll()
}

// TestGroupsByHeartbeat makes groups by heartbeat, many at once: nobody else's new group waits for them for ever.
func TestGroupsByHeartbeat(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	n := size(2000, 100)
	beats := 0
	p := dial(t, c.addr())
	c.while(20, func() {
		var d body.HeartbeatData
		d.ClientID = "flood"
		for i := range n {
			d.ConsumerDataSet = append(d.ConsumerDataSet, body.ConsumerData{GroupName: fmt.Sprintf("flood-%d-%d", beats, i), ConsumeType: body.ConsumePassively, MessageModel: body.Clustering,
				SubscriptionDataSet: []body.SubscriptionData{{Topic: victim, SubString: "*", ExpressionType: "TAG", SubVersion: 1}}})
		}
		beats++
		text := fastjson.Marshal(&d)
		var wg sync.WaitGroup
		for range 10 { // more than there are workers
			wg.Go(func() {
				q := dial(t, c.addr())
				q.ask(header.JSON, int32(code.HeartBeat), nil, text)
				q.close()
			})
		}
		// Somebody with a group of its own.
		q := dial(t, c.addr())
		one := fastjson.Marshal(&body.HeartbeatData{ClientID: "honest", ConsumerDataSet: []body.ConsumerData{{GroupName: fmt.Sprintf("honest-%d", beats), ConsumeType: body.ConsumePassively, MessageModel: body.Clustering}}})
		for tries := 1; ; tries++ {
			cmd := q.ask(header.JSON, int32(code.HeartBeat), nil, one)
			if cmd.Code == 0 {
				break
			}
			if tries == 20 {
				t.Errorf("no heartbeat of 20 was taken: %d %q", cmd.Code, cmd.Remark)
				break
			}
		}
		q.close()
		wg.Wait()
	})
	p.close()
	grew(t, fmt.Sprintf("%d groups", n*beats), before, int64(n*beats)*16<<10+24<<20)
	c.checkAll()
}

// TestOffsetCommits commits for queues that do not exist, a million times, and for those that do.
func TestOffsetCommits(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	before := heap()
	n := size(1_000_000, 40_000)
	commit := func(i int) []byte {
		return request(header.Binary, int32(code.UpdateConsumerOffset), int32(i), &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim,
			QueueID: header.Some(int32(i)), CommitOffset: header.Some(int64(i))}, nil)
	}
	c.once(20, func() {
		if got := pipeline(t, c.addr(), n, commit); got[code.Success] > 16 {
			t.Errorf("answers: %v", got)
		}
	})
	grew(t, fmt.Sprintf("%d commits", n), before, 16<<20)
	c.checkAll()
}

// TestBigBatchOfOffsets commits for every queue of many topics at once: one client's commits must not make another's fail.
func TestBigBatchOfOffsets(t *testing.T) {
	c := start(t, map[string]string{"mappedFileSizeCommitLog": "1048576", "maxMessageSize": "65536"})
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	long := strings.Repeat("x", 110)
	for i := range 3 {
		c.want(code.Success, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: fmt.Sprintf("%s%d", long, i), DefaultTopic: autoKey, ReadQueueNums: 4000, WriteQueueNums: 4000, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
	}
	c.while(20, func() {
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				got := pipeline(t, c.addr(), 4000, func(q int) []byte {
					return request(header.Binary, int32(code.UpdateConsumerOffset), int32(q), &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: fmt.Sprintf("%s%d", long, i),
						QueueID: header.Some(int32(q)), CommitOffset: header.Some(time.Now().UnixNano())}, nil)
				})
				if got[code.Success] != 4000 {
					t.Errorf("answers: %v", got)
				}
			})
		}
		for i := range 20 {
			c.want(code.Success, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(i))}, nil)
		}
		wg.Wait()
	})
	c.checkAll()
}

// TestClientTables fills what a broker knows of its clients: ids, producer groups and subscriptions, as long and as many as one
// connection can say.
func TestClientTables(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	n := size(100, 4)
	peers := []*peer{dial(t, c.addr()), dial(t, c.addr())}
	c.once(20, func() {
		for beats := range n {
			p := peers[beats%2]
			d := body.HeartbeatData{ClientID: fmt.Sprintf("%d-%s", beats, strings.Repeat("c", 900))}
			for i := range 9000 {
				d.ProducerDataSet = append(d.ProducerDataSet, body.ProducerData{GroupName: fmt.Sprintf("p-%d-%d", beats, i)})
			}
			p.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&d))
			d = body.HeartbeatData{ClientID: strings.Repeat("c", 1<<20), ProducerDataSet: []body.ProducerData{{GroupName: fmt.Sprintf("%d%s", beats, strings.Repeat("g", 1<<20))}}}
			p.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&d))
			d = body.HeartbeatData{ClientID: "s", ConsumerDataSet: []body.ConsumerData{{GroupName: fmt.Sprintf("subscribers%d", beats%4), ConsumeType: body.ConsumePassively, MessageModel: body.Clustering}}}
			for i := range 10_000 {
				d.ConsumerDataSet[0].SubscriptionDataSet = append(d.ConsumerDataSet[0].SubscriptionDataSet, body.SubscriptionData{Topic: fmt.Sprintf("t-%d-%d", beats, i), SubString: "a||b||c", ExpressionType: "TAG", SubVersion: int64(beats)})
			}
			p.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&d))
			d.ConsumerDataSet[0].SubscriptionDataSet = []body.SubscriptionData{{Topic: strings.Repeat("t", 1<<20), SubString: strings.Repeat("a||", 1<<20), ExpressionType: "TAG", SubVersion: int64(beats)}}
			p.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&d))
		}
	})
	grew(t, fmt.Sprintf("%d heartbeats on %d connections", n*4, len(peers)), before, int64(len(peers))*40<<20)
	for _, p := range peers {
		p.close()
	}
	until(t, "the memory is free again", func() bool { return heap()-before < 24<<20 })
	c.checkAll()
}

// TestExpressions: expressions of 64 KiB and more, deep ones and dear ones, in heartbeats, checks and pulls.
func TestExpressions(t *testing.T) {
	c := start(t, nil)
	for i := range 100 {
		if r := c.must(code.SendMessage, sendHeader(victim, 0, "a\x01"+strings.Repeat("x", 1000)+"\x02n\x015\x02"), []byte(fmt.Sprint(i))); r.Code != 0 {
			t.Fatal(r.Err())
		}
	}
	exprs := map[string]code.Response{
		strings.Repeat("(", 400) + "n = 5" + strings.Repeat(")", 400):         code.Success,
		strings.Repeat("(", 100_000) + "n = 5" + strings.Repeat(")", 100_000): code.SubscriptionParseFailed,
		strings.Repeat("NOT ", 30_000) + "n = 5":                              code.SubscriptionParseFailed,
		"n = 5" + strings.Repeat(" OR n = 5", 7000):                           code.Success,
		"n = 5" + strings.Repeat(" AND n = 5", 6000):                          code.Success,
		"n = 5" + strings.Repeat(" = n", 10_000):                              code.SubscriptionParseFailed,
		"a IN ('" + strings.Repeat("x','", 13_000) + "x')":                    code.Success,
		"a = '" + strings.Repeat("x", 1<<20) + "'":                            code.SubscriptionParseFailed,
		"a CONTAINS '" + strings.Repeat("x", 60_000) + "'":                    code.Success,
		"":     code.SubscriptionParseFailed,
		"\x00": code.SubscriptionParseFailed,
		"n = 99999999999999999999999999999999999999": code.SubscriptionParseFailed,
		"n = 1e999": code.SubscriptionParseFailed,
		"a = '":     code.SubscriptionParseFailed,
	}
	before := heap()
	c.while(20, func() {
		for text, want := range exprs {
			h := pullHeader(victim, 0, 0)
			h.ExpressionType, h.Subscription = "SQL92", text
			r := c.must(code.PullMessage, h, nil)
			if got := code.Response(r.Code); want != code.Success && got != code.SubscriptionParseFailed || want == code.Success && got != code.Success && got != code.PullRetryImmediately {
				t.Errorf("pull with %.40q of %d bytes: %s %.80q", text, len(text), got, r.Remark)
			}
			check := &body.CheckClientRequestBody{ClientID: "c", Group: group, SubscriptionData: &body.SubscriptionData{Topic: victim, SubString: text, ExpressionType: "SQL92"}}
			if r := c.must(code.CheckClientConfig, nil, fastjson.Marshal(check)); (r.Code == 0) != (want == code.Success) {
				t.Errorf("check of %.40q of %d bytes: %d %.80q", text, len(text), r.Code, r.Remark)
			}
			d := body.HeartbeatData{ClientID: "c", ConsumerDataSet: []body.ConsumerData{{GroupName: group, ConsumeType: body.ConsumePassively, MessageModel: body.Clustering,
				SubscriptionDataSet: []body.SubscriptionData{{Topic: victim, SubString: text, ExpressionType: "SQL92", SubVersion: time.Now().UnixNano()}}}}}
			if r := c.must(code.HeartBeat, nil, fastjson.Marshal(&d)); r.Code != 0 && code.Response(r.Code) != code.InvalidParameter {
				t.Errorf("heartbeat with %.40q of %d bytes: %d %.80q", text, len(text), r.Code, r.Remark)
			}
		}
	})
	grew(t, "after expressions", before, 48<<20)
	c.checkAll()
}

// TestGreedyPulls: a pull may ask for any number of messages; what it looks at is bounded.
func TestGreedyPulls(t *testing.T) {
	c := start(t, nil)
	batch := bytes.Repeat(message.AppendBatchItem(nil, 0, []byte("x"), message.Props("TAGS\x01other\x02")), 20_000)
	for range size(5, 2) {
		c.want(code.Success, code.SendBatchMessage, batchHeader(victim, ""), batch)
	}
	c.while(20, func() {
		for _, n := range []int32{1<<31 - 1, -1 << 31, 0, 1 << 20} {
			h := pullHeader(victim, 0, 0)
			h.MaxMsgNums, h.Subscription = n, "mine"
			r := c.want(code.PullRetryImmediately, code.PullMessage, h, nil)
			var resp header.PullMessageResponse
			if err := r.Decode(&resp); err != nil {
				t.Fatal(err)
			}
			if resp.NextBeginOffset > 10_000 {
				t.Errorf("a pull for %d messages has looked at %d", n, resp.NextBeginOffset)
			}
		}
	})
	c.checkAll()
}

// TestHeldPullsKeepLittle: a pull that is held keeps what it needs, not what it was sent.
func TestHeldPullsKeepLittle(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	h := pullHeader(victim, 0, 1)
	h.SysFlag, h.SuspendTimeoutMillis, h.Subscription, h.ProxyFrowardClientID = 6, 1<<62, strings.Repeat("a", 60<<10), strings.Repeat("p", 1<<20)
	frame := request(header.Binary, int32(code.PullMessage), 1, h, nil)
	p := dial(t, c.addr())
	n := size(400, 100)
	for range n {
		p.write(frame)
	}
	c.once(20, func() {})
	grew(t, fmt.Sprintf("%d held pulls of 1 MiB", n), before, int64(n)*256<<10+16<<20)
	p.close()
	until(t, "the memory is free again", func() bool { return heap()-before < 16<<20 })
	c.checkAll()
}

// TestManyHeldPulls holds tens of thousands of pulls on one queue that no message satisfies. Each message is shown to all of them, so
// there is a limit; who comes too late is told that there is nothing.
func TestManyHeldPulls(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	const n, held = 25_000, 20_000
	h := pullHeader(victim, 0, 1)
	h.SysFlag, h.SuspendTimeoutMillis, h.Subscription = 6, 60_000, "nobody"
	p := dial(t, c.addr())
	c.once(50, func() {
		go func() {
			var burst []byte
			for i := range int32(n) {
				burst = append(burst, request(header.Binary, int32(code.PullMessage), i, h, nil)...)
			}
			p.write(burst)
		}()
		for range n - held {
			if cmd := p.mustReply(); code.Response(cmd.Code) != code.PullNotFound {
				t.Fatalf("answered %d %q", cmd.Code, cmd.Remark)
			}
		}
		for i := range 200 { // with everybody looking on
			if _, err := c.send(victim, 0, []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
	})
	p.close()
	c.checkAll()
}

// TestLongLists: requests that name a topic or a group a million times.
func TestLongLists(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	c.want(code.Success, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(1))}, nil)
	before := heap()
	lists := map[string]fields{}
	for _, unit := range []string{"BenchmarkTest;", ";", ",", "x,", "+a=b,", "-a,"} {
		lists[unit] = fields{"consumerGroup", group, "topic", victim, "topicList", strings.Repeat(unit, size(8<<20, 1<<20)/len(unit)), "filterGroups", strings.Repeat(unit, size(6<<20, 1<<20)/len(unit)), "compareGroup", group,
			"attributes", strings.Repeat(unit, 1<<20/len(unit)), "readQueueNums", "1", "writeQueueNums", "1", "perm", "6", "topicFilterType", "SINGLE_TAG"}
	}
	codes := []code.Request{code.GetConsumeStats, code.QueryCorrectionOffset, code.UpdateAndCreateTopic}
	c.while(5, func() {
		var wg sync.WaitGroup
		for _, rc := range codes {
			for _, f := range lists {
				wg.Go(func() {
					p := dial(t, c.addr())
					p.ask(header.Binary, int32(rc), f, nil)
					p.close()
				})
			}
		}
		wg.Wait()
	})
	grew(t, "after long lists", before, 48<<20)
	c.checkAll()
}

// TestRememberedNames: tables that remember what was asked for, by names of any length.
func TestRememberedNames(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	before := heap()
	n := 0
	p := dial(t, c.addr())
	c.while(20, func() {
		for range size(50, 10) {
			n++
			long := fmt.Sprintf("%d%s", n, strings.Repeat("x", 1<<20))
			p.ask(header.Binary, int32(code.QueryAssignment), nil, fastjson.Marshal(&body.QueryAssignmentRequestBody{Topic: long, ConsumerGroup: group, ClientID: "c", StrategyName: "AVG"}))
			h := pullHeader(victim, 0, 0)
			h.RequestSource, h.ProxyFrowardClientID = header.Some(int32(1)), long
			p.write(request(header.Binary, int32(code.PullMessage), 1, h, nil))
			p.mustReply()
			p.ask(header.Binary, int32(code.LockBatchMQ), nil, fastjson.Marshal(&body.LockBatchRequestBody{ConsumerGroup: long, ClientID: long, MqSet: []body.MessageQueue{{Topic: long}}}))
			p.ask(header.Binary, int32(code.DeleteTopicInBroker), fields{"topic", long}, nil)
			p.ask(header.Binary, int32(code.DeleteSubscriptionGroup), fields{"groupName", long, "cleanOffset", "true"}, nil)
			p.ask(header.Binary, int32(code.SetMessageRequestMode), nil, fastjson.Marshal(&body.SetMessageRequestModeRequestBody{Topic: fmt.Sprintf("none-%d", n), ConsumerGroup: group, Mode: body.ModePull}))
		}
	})
	p.close()
	grew(t, fmt.Sprintf("%d names of 1 MiB", n), before, 24<<20)
	if text := c.metadata()[code.GetAllMessageRequestMode.String()]; strings.Contains(text, "none-") {
		t.Errorf("modes of topics that do not exist are kept: %.200s", text)
	}
	c.checkAll()
}

// TestManyLocks asks for queues that do not exist, as many as one can name: none is granted, and nothing is kept of them.
func TestManyLocks(t *testing.T) {
	c := start(t, nil)
	before := heap()
	n := size(50, 5)
	p := dial(t, c.addr())
	c.once(20, func() {
		for i := range n {
			q := body.LockBatchRequestBody{ConsumerGroup: fmt.Sprintf("g%d", i), ClientID: "c"}
			for id := range int32(10_000) {
				q.MqSet = append(q.MqSet, body.MessageQueue{Topic: fmt.Sprintf("topic-%d", id), BrokerName: "b", QueueID: id})
			}
			cmd := p.ask(header.JSON, int32(code.LockBatchMQ), nil, fastjson.Marshal(&q))
			if string(cmd.Body) != `{"lockOKMQSet":[]}` {
				t.Errorf("granted %.200q", cmd.Body)
			}
		}
		q := body.LockBatchRequestBody{ConsumerGroup: "g", ClientID: "c", MqSet: make([]body.MessageQueue, 10_001)}
		if cmd := p.ask(header.JSON, int32(code.LockBatchMQ), nil, fastjson.Marshal(&q)); code.Response(cmd.Code) != code.InvalidParameter {
			t.Errorf("10,001 queues: %d %q", cmd.Code, cmd.Remark)
		}
	})
	p.close()
	grew(t, fmt.Sprintf("%d locks", n*10_000), before, 8<<20)
	c.checkAll()
}
