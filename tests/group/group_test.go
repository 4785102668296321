// Package group tests a group of brokers as clients see it, with the master dying in the middle. Everything runs in this process.
package group

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/internal/dev"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fixture is a cluster and a client of it.
type fixture struct {
	t *testing.T
	*dev.Cluster
	ctx    context.Context
	client *remoting.Client
}

func start(t *testing.T, keys map[string]string) *fixture {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	all := map[string]string{"mappedFileSizeCommitLog": "16777216", "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}
	for k, v := range keys {
		all[k] = v
	}
	c, err := dev.Start(ctx, dev.Options{Dir: t.TempDir(), Log: zap.NewNop(), Keys: all})
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, Cluster: c, ctx: ctx, client: remoting.NewClient(nil, nil)}
	t.Cleanup(f.client.Close)
	f.whole()
	return f
}

// whole waits until all brokers are in sync.
func (f *fixture) whole() {
	f.t.Helper()
	if err := f.AwaitSet(f.ctx, f.client, dev.Replicas); err != nil {
		f.t.Fatal(err)
	}
}

// master waits for another master than not.
func (f *fixture) master(not string) string {
	f.t.Helper()
	addr, err := f.Master(f.ctx, f.client, not)
	if err != nil {
		f.t.Fatal(err)
	}
	return addr
}

func (f *fixture) call(addr string, rc code.Request, h header.Appender, data []byte) (*remoting.Reply, error) {
	r, err := f.client.Call(f.ctx, addr, rc, h, data)
	if err == nil {
		err = r.Err()
	}
	return r, err
}

func (f *fixture) must(addr string, rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	r, err := f.call(addr, rc, h, data)
	if err != nil {
		f.t.Fatalf("%s to %s: %v", rc, addr, err)
	}
	return r
}

func (f *fixture) send(addr, topic string, queue int32, text string) error {
	h := header.SendMessageRequest{ProducerGroup: "p", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: queue, BornTimestamp: 1,
		Properties: string(message.AppendProp(nil, message.PropTags, "t"))}
	_, err := f.call(addr, code.SendMessage, &h, []byte(text))
	return err
}

// texts pulls a queue to its end: of a new master, to that of what it has taken over.
func (f *fixture) texts(addr, topic string, queue int32) (all []string) {
	f.t.Helper()
	f.must(addr, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: topic, QueueID: queue}, nil) // answered when that is confirmed
	return f.textsFrom(addr, topic, queue, 0)
}

func (f *fixture) textsFrom(addr, topic string, queue int32, offset int64) (all []string) {
	f.t.Helper()
	for {
		h := header.PullMessageRequest{ConsumerGroup: "c", Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32, SysFlag: 4, Subscription: "*", ExpressionType: "TAG"}
		r, err := f.client.Call(f.ctx, addr, code.PullMessage, &h, nil)
		if err != nil {
			f.t.Fatal(err)
		}
		if code.Response(r.Code) == code.PullNotFound {
			return all
		}
		if r.Err() != nil {
			f.t.Fatalf("pull of %s at %d: %v", topic, offset, r.Err())
		}
		var v message.View
		for b := r.Body; len(b) > 0; b = b[v.Size():] {
			if err := v.Parse(b); err != nil {
				f.t.Fatal(err)
			}
			all = append(all, string(v.Body()))
			offset++
		}
	}
}

func (f *fixture) makeTopic(addr, name string) {
	f.t.Helper()
	f.must(addr, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: name, DefaultTopic: "TBW102", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
}

// TestWhatWasAnsweredSurvives: a topic, a group, an offset, a lock and messages, answered right before the master is gone.
func TestWhatWasAnsweredSurvives(t *testing.T) {
	f := start(t, nil)
	old := f.master("")
	const topic, group = "Late", "late-group"
	f.makeTopic(old, topic)
	g := body.SubscriptionGroupConfig{}
	g.SetDefaults()
	g.GroupName = group
	f.must(old, code.UpdateAndCreateSubscriptionGroup, nil, fastjson.Marshal(&g))
	var want []string
	for i := range 50 {
		text := fmt.Sprint("m", i)
		if err := f.send(old, topic, 1, text); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
	}
	f.must(old, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: topic, QueueID: header.Some(int32(1)), CommitOffset: header.Some(int64(33))}, nil)
	queue := body.MessageQueue{Topic: topic, BrokerName: dev.Group, QueueID: 1}
	lock := func(addr, client string) []body.MessageQueue {
		r := f.must(addr, code.LockBatchMQ, &header.LockBatchMqRequest{}, fastjson.Marshal(&body.LockBatchRequestBody{ConsumerGroup: group, ClientID: client, MqSet: []body.MessageQueue{queue}}))
		var got body.LockBatchResponseBody
		if err := fastjson.Unmarshal(r.Body, &got); err != nil {
			t.Fatal(err)
		}
		return got.LockOKMQSet
	}
	if len(lock(old, "one")) != 1 {
		t.Fatal("no lock")
	}
	f.Kill(f.Broker(old))
	next := f.master(old)
	if got := f.texts(next, topic, 1); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("messages %v", got)
	}
	var offset header.QueryConsumerOffsetResponse
	if err := f.must(next, code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: group, Topic: topic, QueueID: 1}, nil).Decode(&offset); err != nil || offset.Offset != 33 {
		t.Errorf("offset %d %v", offset.Offset, err)
	}
	if len(lock(next, "two")) != 0 || len(lock(next, "one")) != 1 {
		t.Error("the lock has another owner")
	}
	if err := f.send(next, topic, 1, "after"); err != nil {
		t.Error(err)
	}
	if got := f.texts(next, topic, 1); len(got) != 51 || got[50] != "after" {
		t.Errorf("queue offsets do not go on: %d messages", len(got))
	}
	if err := f.StartAgain(f.Broker(old)); err != nil {
		t.Fatal(err)
	}
	f.whole()
}

// TestAnyReplicaServes: whoever is asked, the answer is the master's.
func TestAnyReplicaServes(t *testing.T) {
	f := start(t, nil)
	master := f.master("")
	f.makeTopic(master, "Any")
	for i, b := range f.Brokers {
		if err := f.send(b.Addr, "Any", 0, fmt.Sprint(i)); err != nil {
			t.Errorf("send to %s: %v", b.Addr, err)
		}
	}
	f.makeTopic(f.Brokers[0].Addr, "Any1")
	f.makeTopic(f.Brokers[1].Addr, "Any2")
	if got := f.texts(master, "Any", 0); len(got) != 3 {
		t.Errorf("%v", got)
	}
	for _, b := range f.Brokers {
		var h header.GetMaxOffsetResponse
		if err := f.must(b.Addr, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: "Any", QueueID: 0}, nil).Decode(&h); err != nil || h.Offset != 3 {
			t.Errorf("%s: max offset %d %v", b.Addr, h.Offset, err)
		}
	}
}

// TestStrangersAtTheReplicationPort: noise and forged hellos are refused, and the group goes on.
func TestStrangersAtTheReplicationPort(t *testing.T) {
	f := start(t, nil)
	master := f.master("")
	f.makeTopic(master, "Strange")
	var ha header.ExchangeHAInfoResponse
	if err := f.must(master, code.ExchangeBrokerHAInfo, &header.ExchangeHAInfoRequest{}, nil).Decode(&ha); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 100_000)
	_, _ = rand.Read(noise)
	for name, say := range map[string][]byte{
		"nothing": nil, "noise": noise, "http": []byte("GET / HTTP/1.1\r\n\r\n"), "a huge frame": {0x7F, 0xFF, 0xFF, 0xFF, 1},
		"a classic slave": make([]byte, 8), "a Java slave in controller mode": {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2},
	} {
		nc, err := net.Dial("tcp", ha.MasterHAAddress)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = nc.Write(say)
		if got, err := io.ReadAll(nc); len(got) > 1<<10 || err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		_ = nc.Close()
		if err := f.send(master, "Strange", 0, name); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	f.whole()
}

// TestMetricsOfAGroup: every metric of replication is served.
func TestMetricsOfAGroup(t *testing.T) {
	f := start(t, map[string]string{"metricsExporterType": "PROM", "metricsPromExporterPort": "0"})
	f.master("")
	text := ""
	for _, b := range f.Brokers {
		r, err := http.Get("http://" + b.Metrics() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		text += string(all)
	}
	for _, m := range broker.Metrics() {
		if m.Grouped && !strings.Contains(text, m.Name+"{") {
			t.Errorf("%s is not served", m.Name)
		}
	}
}
