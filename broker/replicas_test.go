package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// testGroup is a master and a replica that a controller in this process has made so.
type testGroup struct {
	controller      string
	master, replica *testBroker
}

func startGroup(t *testing.T, keys map[string]string) *testGroup {
	t.Helper()
	g := &testGroup{controller: startController(t)}
	var brokers []*testBroker
	for range 2 {
		own := map[string]string{"enableControllerMode": "true", "controllerAddr": g.controller, "haListenPort": "0", "minInSyncReplicas": "1"}
		maps.Copy(own, keys)
		brokers = append(brokers, startBroker(t, own))
	}
	whole := func(m, r *testBroker) bool {
		s := m.replicas.node.Status()
		return m.leads() && len(s.Role.SyncStateSet) == 2 && r.replicas.node.Status().From != ""
	}
	brokers[0].until("a master and a replica in sync", func() bool { return whole(brokers[0], brokers[1]) || whole(brokers[1], brokers[0]) })
	if g.master, g.replica = brokers[0], brokers[1]; !whole(g.master, g.replica) {
		g.master, g.replica = g.replica, g.master
	}
	return g
}

// startController runs a quorum of one and returns its address.
func startController(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // its members are named before it listens
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	cfg := conf.Default[conf.Controller]()
	cfg.BindAddress, cfg.ControllerDLegerGroup, cfg.ControllerDLegerSelfId, cfg.ControllerDLegerPeers = "127.0.0.1", "group1", "n0", "n0-"+addr
	cfg.ControllerStorePath, cfg.ConfigStorePath = filepath.Join(t.TempDir(), "data"), "/controller.properties"
	s, err := controller.New(cfg, controller.Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.NewMem(clock.Real{})})
	if err != nil {
		t.Fatal(err)
	}
	run := lifecycle.New(context.Background())
	run.Go("controller", s.Run)
	t.Cleanup(func() {
		if err := run.Stop(); err != nil {
			t.Error(err)
		}
	})
	return addr
}

func TestForwardedSendKeepsTheClientsAddress(t *testing.T) {
	g := startGroup(t, map[string]string{"autoCreateTopicEnable": "true"})
	g.replica.client.send("T", 0, "by the replica")
	c, err := g.replica.client.Conn(t.Context(), g.replica.Addr())
	if err != nil {
		t.Fatal(err)
	}
	list := g.master.all("T", 0)
	if len(list) != 1 || list[0].BornHost().String() != c.LocalAddr() {
		t.Fatalf("stored %d messages, born at %v, want %s", len(list), list[0].BornHost(), c.LocalAddr())
	}
	g.master.client.send("T", 0, "at the master")
	c, err = g.master.client.Conn(t.Context(), g.master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if got := g.master.all("T", 0)[1].BornHost().String(); got != c.LocalAddr() {
		t.Errorf("born at %s, want %s", got, c.LocalAddr())
	}
}

func TestReplicaServesWhoHasAnOldRoute(t *testing.T) {
	g := startGroup(t, map[string]string{"autoCreateTopicEnable": "true"})
	r := g.replica.client
	r.send("T", 0, "one")
	r.send("T", 0, "two")
	for _, p := range []*peer{r, g.master.client} { // consumers send their heartbeats to every broker of a group
		p.ok(code.HeartBeat, nil, body.HeartbeatData{ClientID: "c", ConsumerDataSet: []body.ConsumerData{{GroupName: "G", ConsumeType: body.ConsumePassively, MessageModel: body.Clustering,
			SubscriptionDataSet: []body.SubscriptionData{{Topic: "T", SubString: "*"}}}}})
	}
	r.ok(code.GetConsumerListByGroup, &header.GetConsumerListByGroupRequest{ConsumerGroup: "G"}, nil)
	g.replica.until("both messages pulled from the replica", func() bool {
		_, list := r.pull("G", "T", 0, 0)
		return len(list) == 2
	})
	g.master.client.ok(code.UpdateAndCreateSubscriptionGroup, nil, defaultGroup("G"))
	commit := header.UpdateConsumerOffsetRequest{ConsumerGroup: "G", Topic: "T", QueueID: header.Some[int32](0), CommitOffset: header.Some[int64](2)}
	r.ok(code.UpdateConsumerOffset, &commit, nil)
	for name, p := range map[string]*peer{"master": g.master.client, "replica": r} {
		var got header.QueryConsumerOffsetResponse
		if err := p.ok(code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: "G", Topic: "T", QueueID: 0}, nil).Decode(&got); err != nil || got.Offset != 2 {
			t.Errorf("offset at the %s: %v, %v", name, got.Offset, err)
		}
	}
}

// A consumer that still comes to a replica must not be sent back with every pull: only the master can note that it has been.
func TestReplicaLeavesResetsToTheMaster(t *testing.T) {
	g := startGroup(t, map[string]string{"autoCreateTopicEnable": "true"})
	m, r := g.master.client, g.replica.client
	for i := range 4 {
		m.send("T", 0, fmt.Sprint(i))
	}
	m.ok(code.UpdateAndCreateSubscriptionGroup, nil, defaultGroup("G"))
	m.ok(code.InvokeBrokerToResetOffset, &header.ResetOffsetRequest{Topic: "T", Group: "G", IsForce: true, Offset: header.Some[int64](1), QueueID: header.Some[int32](0)}, nil)
	g.replica.until("the reset at the replica", func() bool { _, ok := g.replica.store.State.Reset("G", "T", 0); return ok })
	for range 2 {
		if rc, list := r.pull("G", "T", 0, 3); rc != code.Success || len(list) != 1 {
			t.Fatalf("the replica answers %s with %d messages, want the one from offset 3 on", rc, len(list))
		}
	}
	if rc, _ := m.pull("G", "T", 0, 3); rc != code.PullOffsetMoved {
		t.Errorf("the master answers %s", rc)
	}
}

// Replies find requesters that are connected where the reply is sent to, and those at the master.
func TestReplyAtReplica(t *testing.T) {
	g := startGroup(t, nil)
	for name, requester := range map[string]*peer{"at the master": g.master.connect(), "at the replica": g.replica.connect()} {
		requester.beat(producerBeat(name))
		if r := g.replica.client.call(code.SendReplyMessageV2, replyTo(name), "answer"); r.Err() != nil {
			t.Errorf("a reply to a requester %s: %v", name, r.Err())
			continue
		}
		if got := <-requester.pushed; got.code != code.PushReplyMessageToClient || got.body != "answer" {
			t.Errorf("pushed %s %q", got.code, got.body)
		}
	}
	g.replica.client.refused(code.SendReplyMessageV2, replyTo("nobody"), "answer", code.SystemError, "channel of <nobody> not found")
	if warned := g.replica.logs.FilterMessage("a reply could not be stored").Len(); warned > 0 {
		t.Errorf("%d warnings about replies that a replica does not store", warned)
	}
}

func TestToolsSeeWhoIsMaster(t *testing.T) {
	g := startGroup(t, nil)
	for b, active := range map[*testBroker]string{g.master: "true", g.replica: "false"} {
		info := decode[body.KVTable](t, b.client.ok(code.GetBrokerRuntimeInfo, nil, nil).Body)
		if got := info.Table["brokerActive"]; got != active {
			t.Errorf("brokerActive is %s, want %s", got, active)
		}
	}
	before := time.Now().Add(-time.Minute).UnixMilli()
	info := decode[body.HARuntimeInfo](t, g.replica.client.ok(code.GetBrokerHAStatus, nil, nil).Body)
	if c := info.HAClientRuntimeInfo; info.Master || c.MasterAddr != g.master.haAddr() || c.LastReadTimestamp < before || c.LastWriteTimestamp < before {
		t.Errorf("a replica tells of its master %+v, want the address %s", c, g.master.haAddr())
	}
	info = decode[body.HARuntimeInfo](t, g.master.client.ok(code.GetBrokerHAStatus, nil, nil).Body)
	if !info.Master || info.InSyncSlaveNums != 1 || len(info.HAConnectionInfo) != 1 {
		t.Errorf("the master tells %+v", info)
	}
	for _, want := range []string{"", "the log is damaged"} {
		info := decode[body.KVTable](t, g.replica.client.ok(code.GetBrokerRuntimeInfo, nil, nil).Body)
		if got := info.Table["sick"]; got != want || g.replica.replicas.Vitals().Healthy != (want == "") {
			t.Errorf("a replica says that it is sick: %q, want %q; healthy %t", got, want, g.replica.replicas.Vitals().Healthy)
		}
		g.replica.store.Unreadable(0, errors.New("a test"))
	}
}
