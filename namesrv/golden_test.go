package namesrv

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/capture"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// scenario replays captured exchanges, in this order, against one server. A step is a number or a func(*fixture).
type scenario struct {
	name  string
	steps []any
}

// as prepares the broker of the captures, broker-a of DefaultCluster.
func as(edit func(h *header.RegisterBrokerRequest, b *body.RegisterBrokerBody)) func(*fixture) {
	return func(f *fixture) {
		h := registerHeader("broker-a", 0, "127.0.0.1:40911")
		h.ClusterName = "DefaultCluster"
		var b body.RegisterBrokerBody
		edit(h, &b)
		if err := f.call(code.RegisterBroker, with{h, fieldFullTable, "true"}, b.Encode(false)).Err(); err != nil {
			f.t.Fatal(err)
		}
	}
}

func queues(name string, n int32) func(*fixture) {
	return func(f *fixture) {
		route := &body.TopicRouteData{QueueDatas: []body.QueueData{{BrokerName: "broker-a", Perm: 6, ReadQueueNums: n, WriteQueueNums: n}}}
		f.ok(code.RegisterTopicInNamesrv, &header.RegisterTopicRequest{Topic: name}, body.EncodeRoute(route, false))
	}
}

func kv(namespace, key, value string) func(*fixture) {
	return func(f *fixture) {
		f.ok(code.PutKVConfig, &header.PutKVConfigRequest{Namespace: namespace, Key: key, Value: value}, nil)
	}
}

// knows prepares a broker whose topics are those that the captured reply lists.
func knows(xs map[int]capture.Exchange, n int) func(*fixture) {
	return func(f *fixture) {
		var list body.TopicList
		if err := fastjson.Unmarshal(parse(f.t, xs[n].Reply[4:]).Body, &list); err != nil {
			f.t.Fatal(err)
		}
		as(func(_ *header.RegisterBrokerRequest, b *body.RegisterBrokerBody) {
			b.TopicConfigSerializeWrapper.TopicConfigTable = topics(list.TopicList...)
		})(f)
	}
}

// registeredWith prepares a broker whose data version is the one that the captured reply holds.
func registeredWith(xs map[int]capture.Exchange, n int) func(*fixture) {
	return func(f *fixture) {
		as(func(_ *header.RegisterBrokerRequest, b *body.RegisterBrokerBody) {
			if err := fastjson.Unmarshal(parse(f.t, xs[n].Reply[4:]).Body, &b.TopicConfigSerializeWrapper.DataVersion); err != nil {
				f.t.Fatal(err)
			}
		})(f)
	}
}

func scenarios(xs map[int]capture.Exchange) []scenario {
	return []scenario{
		{"acting master and slave", []any{209, 210, 457, 217, 219, 214}},
		{"binary master and slave", []any{212, 213, 216}},
		{"master alone", []any{212, 218, 226, 215, 219}},
		{"single topic of an unknown broker", []any{211}},
		{"routes", []any{212, 213, queues("TopicPop", 2), queues("TopicTest", 4), 220, 221, 222, 223, 224, 225, 227, 451, 452, 314, 315}},
		{"write permission", []any{212, 251, 252, 400, 401}},
		{"all topics", []any{knows(xs, 253), 253, knows(xs, 254), 254}},
		{"topics of a cluster", []any{knows(xs, 299), 299, knows(xs, 300), 300}},
		{"unit topics", []any{212, 357, 358, 359, 360, 361, 362}},
		{"topics", []any{212, 281, 282, 277, 278, 279, 280}},
		{"key-value configuration", []any{
			201, 203, 204, 206, 283, 285, 284, 286, 207, 202, kv("ORDER_TOPIC_CONFIG", "AdminTopic", "broker-a:4"), 205, 208,
		}},
		{"configuration", []any{376, 377, 378, 379, 380, 381}},
		{"data versions", []any{
			registeredWith(xs, 388), 388, registeredWith(xs, 389), 389, registeredWith(xs, 390), 390, registeredWith(xs, 391), 391,
		}},
	}
}

// TestCapturedExchanges sends what Java sent and expects what Java answered.
func TestCapturedExchanges(t *testing.T) {
	xs := capture.Read(t, "testdata/frames.tsv")
	replayed := map[int]bool{461: true, 462: true} // notifications, see TestNotifications
	for _, sc := range scenarios(xs) {
		t.Run(sc.name, func(t *testing.T) {
			f := start(t, func(c *conf.Namesrv) { c.RocketmqHome = "/srv" })
			conn := f.dial()
			for _, step := range sc.steps {
				if prepare, ok := step.(func(*fixture)); ok {
					prepare(f)
					continue
				}
				n := step.(int)
				replayed[n] = true
				x := xs[n]
				conn.send(x.Request)
				if x.Reply == nil {
					continue // were it answered, the next exchange would read that answer
				}
				t.Run(fmt.Sprintf("%d %s", n, x.Name), func(t *testing.T) { compare(t, x, conn.receive()) })
			}
		})
	}
	for n, x := range xs {
		if !replayed[n] {
			t.Errorf("%d %s was not replayed", n, x.Name)
		}
	}
}

func compare(t *testing.T, x capture.Exchange, got *remoting.Command) {
	t.Helper()
	want, request := parse(t, x.Reply[4:]), parse(t, x.Request[4:])
	want.Enc = request.Enc // Java answers in its own serialization
	if code.Request(request.Code) == code.GetBrokerMemberGroup {
		want.Remark = nil // a text that Java forgets there
	}
	if got.Code != want.Code || got.Opaque != want.Opaque || got.Flag != want.Flag || got.Enc != want.Enc || string(got.Remark) != string(want.Remark) {
		t.Errorf("got  %d %d %d %d %q\nwant %d %d %d %d %q", got.Code, got.Opaque, got.Flag, got.Enc, got.Remark,
			want.Code, want.Opaque, want.Flag, want.Enc, want.Remark)
	}
	gotExt, wantExt := extFields(got), extFields(want)
	gotBody, wantBody := any(string(got.Body)), any(string(want.Body))
	switch x.Name {
	case "WIPE_WRITE_PERM_OF_BROKER", "ADD_WRITE_PERM_OF_BROKER": // the numbers depend on what was registered
		for k := range wantExt {
			if n, err := strconv.Atoi(gotExt[k]); err != nil || n < 10 {
				t.Errorf("%s is %q", k, gotExt[k])
			}
			gotExt[k], wantExt[k] = "", ""
		}
	case "GET_BROKER_CLUSTER_INFO": // we quote integer keys
		gotBody, wantBody = decoded[body.ClusterInfo](t, got), decoded[body.ClusterInfo](t, want)
	case "GET_BROKER_MEMBER_GROUP":
		gotBody, wantBody = decoded[body.GetBrokerMemberGroupResponseBody](t, got), decoded[body.GetBrokerMemberGroupResponseBody](t, want)
	case "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "GET_TOPICS_BY_CLUSTER", "GET_SYSTEM_TOPIC_LIST_FROM_NS": // Java's order is that of a hash
		list := decoded[body.TopicList](t, want)
		slices.Sort(list.TopicList)
		gotBody, wantBody = decoded[body.TopicList](t, got), list
	case "GET_NAMESRV_CONFIG":
		gotBody, wantBody = keys(t, got), keys(t, want)
	}
	if d := cmp.Diff(wantExt, gotExt); d != "" {
		t.Errorf("ext fields:\n%s", d)
	}
	if d := cmp.Diff(wantBody, gotBody); d != "" {
		t.Errorf("body:\n%s", d)
	}
}

func decoded[T any](t *testing.T, cmd *remoting.Command) T {
	t.Helper()
	var v T
	if err := fastjson.Unmarshal(cmd.Body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// keys returns the keys of a properties text; ours may have more than Java's, so those are left out.
func keys(t *testing.T, cmd *remoting.Command) []string {
	t.Helper()
	properties, err := conf.ParseProperties(cmd.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range properties {
		if !strings.HasPrefix(p.Key, "tls.") {
			out = append(out, p.Key)
		}
	}
	slices.Sort(out)
	return out
}

// TestNotifications compares what is sent to brokers with what Java sends.
func TestNotifications(t *testing.T) {
	xs := capture.Read(t, "testdata/frames.tsv")
	f := start(t, func(c *conf.Namesrv) { c.NotifyMinBrokerIdChanged = true })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close() //nolint:errcheck // the test is over
	slave := ln.Addr().String()
	join := func(id int64, addr string) {
		h := registerHeader("broker-a", id, addr)
		h.EnableActingMaster, h.HAServerAddr = header.Some(true), "10.0.0.1:40912"
		f.ok(code.RegisterBroker, h, registerBody("T1", "T2"))
	}
	join(0, "127.0.0.1:40911")
	join(1, slave)
	f.ok(code.UnregisterBroker, &header.UnRegisterBrokerRequest{ClusterName: "C", BrokerName: "broker-a", BrokerAddr: "127.0.0.1:40911"}, nil)
	nc, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close() //nolint:errcheck // the test is over
	conn := raw{t, nc}
	expect := func(n int) {
		t.Helper()
		want, got := parse(t, xs[n].Request[4:]), conn.receive()
		if got.Code != want.Code || got.Flag != want.Flag || got.Body != nil {
			t.Errorf("got code %d, flag %d", got.Code, got.Flag)
		}
		fields := extFields(want)
		for k, v := range fields {
			fields[k] = strings.ReplaceAll(v, "127.0.0.1:41911", slave)
		}
		fields["brokerName"] = "broker-a" // Java leaves it out
		if d := cmp.Diff(fields, extFields(got)); d != "" {
			t.Errorf("%d:\n%s", n, d)
		}
	}
	expect(461) // the master has left
	join(0, "127.0.0.1:40911")
	expect(462) // it is back
}
