package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait")) // they serve the process
}

// testBroker is a running broker with a client. It has small files, no name server and no second port.
type testBroker struct {
	*Broker
	t      testing.TB
	keys   map[string]string // of its configuration
	clk    clock.Clock
	client *peer
	logs   *observer.ObservedLogs // warnings and errors

	group *lifecycle.Group
}

// startBroker runs a broker with these keys on top of the usual ones until the test ends.
func startBroker(t testing.TB, keys map[string]string) *testBroker {
	t.Helper()
	return startBrokerAt(t, clock.Real{}, keys)
}

func startBrokerAt(t testing.TB, clk clock.Clock, keys map[string]string) *testBroker {
	t.Helper()
	all := map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
		"brokerName": "b", "storePathRootDir": t.TempDir(), "mappedFileSizeCommitLog": "4194304", "mappedFileSizeConsumeQueue": "20000",
		"maxHashSlotNum": "1000", "maxIndexNum": "4000", "maxMessageSize": "1048576"}
	maps.Copy(all, keys)
	b := &testBroker{t: t, keys: all, clk: clk}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *testBroker) start() {
	b.t.Helper()
	cfg, _, err := conf.Load[conf.Broker]("", b.keys, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	b.logs = logs
	if b.Broker, err = New(cfg, Options{Log: zap.New(core), Clock: b.clk}); err != nil {
		b.t.Fatal(err)
	}
	b.group = lifecycle.New(context.Background())
	b.group.Go("broker", b.Run)
	b.client = b.connect()
}

func (b *testBroker) stop() {
	if b.group == nil {
		return
	}
	if err := b.group.Stop(); err != nil {
		b.t.Error(err)
	}
	b.group = nil
}

// restart stops the broker and starts it again on the same store.
func (b *testBroker) restart() {
	b.t.Helper()
	b.stop()
	b.start()
}

// peer is one client process: a connection, and what the broker sends on it.
type peer struct {
	*remoting.Client
	b      *testBroker
	pushed chan push
}

// push is a request of the broker.
type push struct {
	code code.Request
	body string
	ext  func(name string) string
}

// connect returns a client with a connection of its own.
func (b *testBroker) connect() *peer {
	p := &peer{b: b, pushed: make(chan push, 1000)}
	p.Client = remoting.NewClient(p, nil)
	b.t.Cleanup(p.Close)
	return p
}

func (p *peer) Opened(*remoting.Conn)    {}
func (p *peer) BurstEnd()                {}
func (p *peer) Answered(remoting.Answer) {}
func (p *peer) Closed(*remoting.Conn)    {}

// Serve notes a request of the broker and answers it.
func (p *peer) Serve(r *remoting.Request) {
	got := map[string]string{}
	for _, name := range []string{"consumerGroup", "topic", "properties", "bornHost", "storeHost", "queueId", "group", "timestamp"} {
		if v, ok := r.Ext(name); ok {
			got[name] = strings.Clone(v)
		}
	}
	p.pushed <- push{code.Request(r.Code), string(r.Body), func(name string) string { return got[name] }}
	_ = r.OK(nil, nil)
}

// call sends a request and returns the answer, whatever its code.
func (p *peer) call(rc code.Request, h header.Appender, body any) *remoting.Reply {
	p.b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := p.Call(ctx, p.b.Addr(), rc, h, textOf(body))
	if err != nil {
		p.b.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// textOf is the body of a request: bytes and strings as they are, anything else as JSON.
func textOf(body any) []byte {
	switch v := body.(type) {
	case nil:
		return nil
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return fastjson.Marshal(body)
}

// ok is call for an answer that must be a success.
func (p *peer) ok(rc code.Request, h header.Appender, body any) *remoting.Reply {
	p.b.t.Helper()
	r := p.call(rc, h, body)
	if err := r.Err(); err != nil {
		p.b.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// refused checks the code of an answer and a part of its remark.
func (p *peer) refused(rc code.Request, h header.Appender, body any, want code.Response, remark string) {
	p.b.t.Helper()
	r := p.call(rc, h, body)
	if code.Response(r.Code) != want || !strings.Contains(string(r.Remark), remark) {
		p.b.t.Fatalf("%s: answered %s %q, want %s %q", rc, code.Response(r.Code), r.Remark, want, remark)
	}
}

// send stores a message and returns what the broker says of it. props are names and values in turn.
func (p *peer) send(topic string, queue int32, body string, props ...string) header.SendMessageResponse {
	p.b.t.Helper()
	h := header.SendMessageRequestV2{ProducerGroup: "producers", Topic: topic, DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 4, QueueID: queue,
		BornTimestamp: p.b.clk.NowMs(), Properties: propText(props...)}
	r := p.ok(code.SendMessageV2, &h, body)
	var resp header.SendMessageResponse
	if err := r.Decode(&resp); err != nil {
		p.b.t.Fatal(err)
	}
	return resp
}

func propText(props ...string) string {
	var text []byte
	for i := 0; i < len(props); i += 2 {
		text = message.AppendProp(text, props[i], props[i+1])
	}
	return string(text)
}

// pull reads a queue from offset on, without waiting, as a consumer of every message.
func (p *peer) pull(group, topic string, queue int32, offset int64) (code.Response, []message.View) {
	p.b.t.Helper()
	r := p.call(code.PullMessage, pullRequest(group, topic, queue, offset), nil)
	return code.Response(r.Code), p.records(r.Body)
}

// records parses the messages of a body.
func (p *peer) records(text []byte) (all []message.View) {
	p.b.t.Helper()
	for len(text) > 0 {
		var v message.View
		if err := v.Parse(text); err != nil {
			p.b.t.Fatal(err)
		}
		all = append(all, v)
		text = text[v.Size():]
	}
	return all
}

// all returns every message of a queue, straight from the store.
func (b *testBroker) all(topic string, queue int32) (list []message.View) {
	b.t.Helper()
	q := b.store.Queues.Get(topic, queue)
	if q == nil {
		return nil
	}
	for at := q.Min(); at < q.Max(); at++ {
		u, err := q.At(at)
		if err != nil {
			b.t.Fatal(err)
		}
		var v message.View
		if _, err := b.store.Log.Record(u.Phy, nil, &v); err != nil {
			b.t.Fatal(err)
		}
		list = append(list, v)
	}
	return list
}

// until waits for a condition.
func (b *testBroker) until(what string, ok func() bool) {
	b.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("still not: %s", what)
		}
	}
}

// bodies are the bodies of messages, for comparisons.
func bodies(list []message.View) (all []string) {
	for _, v := range list {
		all = append(all, string(v.Body()))
	}
	return all
}

// decode reads a body.
func decode[T any](t testing.TB, text []byte) T {
	t.Helper()
	var v T
	if err := fastjson.Unmarshal(text, &v); err != nil {
		t.Fatal(fmt.Errorf("%w in %s", err, text))
	}
	return v
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

// pullRequest asks for every message of a queue from offset on.
func pullRequest(group, topic string, queue int32, offset int64) *header.PullMessageRequest {
	return &header.PullMessageRequest{ConsumerGroup: group, Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32, SysFlag: pullSubscription,
		Subscription: "*", ExpressionType: typeTag}
}
