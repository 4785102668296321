package broker

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// testGroup is a name server, a controller and brokers of the name b, in this process.
type testGroup struct {
	t       testing.TB
	names   string
	brokers []*testBroker
	kills   map[*testBroker]context.CancelCauseFunc
}

func startGroup(t testing.TB, brokers int, keys map[string]string) *testGroup {
	t.Helper()
	g := &testGroup{t: t, kills: map[*testBroker]context.CancelCauseFunc{}}
	work := lifecycle.New(context.Background())
	t.Cleanup(func() {
		if err := work.Stop(); err != nil {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	nc := load[conf.Namesrv](t, map[string]string{"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": filepath.Join(dir, "kv.json"),
		"configStorePath": filepath.Join(dir, "namesrv.properties")})
	names, err := namesrv.New(nc, namesrv.Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		t.Fatal(err)
	}
	g.names = names.Addr().String()
	work.Go("name server", names.Run)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	cc := load[conf.Controller](t, map[string]string{"controllerDLegerGroup": "test", "controllerDLegerPeers": "n0-" + addr, "controllerDLegerSelfId": "n0", "bindAddress": "127.0.0.1",
		"controllerStorePath": filepath.Join(dir, "controller"), "configStorePath": filepath.Join(dir, "controller.properties")})
	quorum, err := controller.New(cc, controller.Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		t.Fatal(err)
	}
	work.Go("controller", quorum.Run)
	all := map[string]string{"enableControllerMode": "true", "controllerAddr": addr, "namesrvAddr": g.names, "haListenPort": "-1"}
	for k, v := range keys {
		all[k] = v
	}
	for i := range brokers {
		b := &testBroker{t: t, clk: clock.Real{}, keys: map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
			"brokerName": "b", "storePathRootDir": t.TempDir(), "mappedFileSizeCommitLog": "4194304", "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}}
		for k, v := range all {
			b.keys[k] = v
		}
		g.brokers = append(g.brokers, b)
		g.start(b)
		t.Cleanup(b.stop)
		b.until("in sync", func() bool { return g.inSync() == i+1 }) // so ids are given in order
	}
	return g
}

func load[T any, P conf.Of[T]](t testing.TB, keys map[string]string) *T {
	t.Helper()
	c, _, err := conf.Load[T, P]("", keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (g *testGroup) start(b *testBroker) {
	g.t.Helper()
	ctx, kill := context.WithCancelCause(context.Background())
	g.kills[b] = kill
	b.startIn(ctx)
}

// kill ends a broker without its telling anybody.
func (g *testGroup) kill(b *testBroker) {
	g.t.Helper()
	g.kills[b](ErrKilled)
	b.stop()
}

// master is the broker that serves as master, nil if there is none.
func (g *testGroup) master() *testBroker {
	for _, b := range g.brokers {
		if b.group != nil && b.leads() {
			return b
		}
	}
	return nil
}

// inSync is how many brokers are in the set.
func (g *testGroup) inSync() int {
	if m := g.master(); m != nil {
		return len(m.replicas.node.Status().Role.SyncStateSet)
	}
	return 0
}

// route asks the name server for a topic: the queues and the master's address of every broker name.
func (g *testGroup) route(topic string) (queues map[string]body.QueueData, masters map[string]string) {
	g.t.Helper()
	queues, masters = map[string]body.QueueData{}, map[string]string{}
	r := g.ask(code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: topic})
	if r == nil {
		return queues, masters
	}
	d := decode[body.TopicRouteData](g.t, r)
	for _, q := range d.QueueDatas {
		queues[q.BrokerName] = q
	}
	for _, b := range d.BrokerDatas {
		masters[b.BrokerName] = b.BrokerAddrs[0]
	}
	return queues, masters
}

// ask returns the body of the name server's answer, nil if it is no success.
func (g *testGroup) ask(rc code.Request, h header.Appender) []byte {
	g.t.Helper()
	for _, b := range g.brokers {
		if b.group != nil {
			r, err := b.client.Call(g.t.Context(), g.names, rc, h, nil)
			if err != nil {
				g.t.Fatal(err)
			}
			if r.Err() != nil {
				return nil
			}
			return r.Body
		}
	}
	g.t.Fatal("no broker runs")
	return nil
}

// sendAs sends to the second name of the group at a broker and returns the answer.
func (b *testBroker) sendAs(name, topic string, queue int32, text string) (code.Response, header.SendMessageResponse) {
	b.t.Helper()
	h := header.SendMessageRequestV2{ProducerGroup: "producers", Topic: topic, DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 4, QueueID: queue, BornTimestamp: b.clk.NowMs(), BName: name}
	r := b.client.call(code.SendMessageV2, &h, text)
	var resp header.SendMessageResponse
	if r.Err() == nil {
		if err := r.Decode(&resp); err != nil {
			b.t.Fatal(err)
		}
	} else {
		resp.MsgID = string(r.Remark)
	}
	return code.Response(r.Code), resp
}
