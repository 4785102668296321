package controller

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fields is a header of any fields.
type fields map[string]string

func (f fields) AppendFields(w *header.Writer) { plus{header.Appender(none{}), f}.AppendFields(w) }

type none struct{}

func (none) AppendFields(*header.Writer) {}

// TestHostileRequests: whatever is sent, there is a clear answer, nothing changes, and the controller goes on.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	f := alone(t, three(t), nil)
	f.hear(1, 2, 3)
	before := f.groupOf(testGroup)
	long := strings.Repeat("x", 70_000)
	headers := []fields{
		nil,
		{"brokerName": testGroup, "clusterName": testCluster, "brokerId": "-9223372036854775808", "appliedBrokerId": "9223372036854775807", "registerCheckCode": "x",
			"brokerAddress": "a:1", "masterBrokerId": "-1", "masterEpoch": "2147483647", "designateElect": "true", "brokerControllerIdsToClean": "1"},
		{"brokerName": testGroup, "brokerId": "one", "appliedBrokerId": "1.5", "masterEpoch": "x", "masterBrokerId": "", "brokerControllerIdsToClean": "a;b"},
		{"brokerName": long, "clusterName": long, "brokerAddress": long, "registerCheckCode": long, "appliedBrokerId": "1", "brokerId": "1"},
		{"brokerName": "new\nline", "clusterName": "\x00", "registerCheckCode": "\xff", "appliedBrokerId": "1", "brokerId": "1", "brokerAddress": "\t"},
		{"brokerName": testGroup, "clusterName": "other", "brokerId": "1", "appliedBrokerId": "4", "registerCheckCode": "x;y", "brokerAddress": "a:1", "epoch": "2147483647"},
		{"brokerName": testGroup, "clusterName": testCluster, "brokerId": "1", "epoch": "2147483646", "appliedBrokerId": "1", "registerCheckCode": "x", "brokerAddress": "",
			"brokerControllerIdsToClean": strings.Repeat("1;", 1000)},
	}
	bodies := [][]byte{nil, []byte("{"), []byte("[[[[[[[["), []byte(`{"syncStateSet":[1],"syncStateSetEpoch":"x"}`), []byte(`{"syncStateSet":{}}`),
		fastjson.Marshal(&body.SyncStateSet{SyncStateSet: make([]int64, 1000)}), bytes.Repeat([]byte{0}, 1000), []byte("a=\\u12")}
	codes := []code.Request{
		code.ControllerAlterSyncStateSet, code.ControllerRegisterBroker, code.ControllerGetReplicaInfo, code.ControllerGetSyncStateData,
		code.ControllerGetNextBrokerID, code.ControllerApplyBrokerID, code.CleanBrokerData, code.BrokerHeartbeat, code.UpdateControllerConfig,
		1014, 1018, code.SendMessage, -1,
	}
	reads := []code.Request{code.ControllerAlterSyncStateSet, code.ControllerGetSyncStateData, code.UpdateControllerConfig}
	for _, rc := range codes {
		for i, h := range headers {
			for k, data := range bodies {
				if k > 0 && !slices.Contains(reads, rc) {
					continue // no body is read
				}
				r := f.call(rc, h, data)
				if r.Err() != nil && len(r.Remark) == 0 || len(r.Remark) > 1000 {
					t.Errorf("%s, header %d, body %d: code %d and a remark of %d bytes", rc, i, k, r.Code, len(r.Remark))
				}
			}
		}
	}
	f.node.view(func(s *State) {
		if s.Group(testGroup) != before || len(s.Names()) != 1 {
			t.Errorf("the state has changed: %v, %+v", s.Names(), s.Group(testGroup))
		}
	})
	f.ok(code.ControllerGetReplicaInfo, &header.GetReplicaInfoRequest{BrokerName: testGroup}, nil)
}

// TestStrangersAreRefused: who is no member of this quorum is not heard, and harms nobody.
func TestStrangersAreRefused(t *testing.T) { // not beside others: a busy machine unseats leaders too
	all := quorum(t, 3, nil)
	lead := leaderOf(t, all)
	term := lead.Status().Term
	self, member, cluster := lead.node.id, all[0].node.id, lead.store.cluster.Load()
	if lead == all[0] {
		member = all[1].node.id
	}
	raftBody := func(m string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(m))), m...) }
	msgHup := "\x08\x00\x10\x01\x18\x01"
	cases := map[string][]byte{
		"nothing":                    nil,
		"text":                       []byte("GET / HTTP/1.1\r\n\r\n"),
		"another quorum":             (&envelope{whatRaft, cluster + 1, member, self, nil}).append(nil),
		"no quorum":                  (&envelope{whatRaft, 0, member, self, nil}).append(nil),
		"meant for another":          (&envelope{whatRaft, cluster, member, self + 1, nil}).append(nil),
		"length beyond the end":      (&envelope{whatRaft, cluster, member, self, []byte{0xff, 0xff, 0xff, 0xff}}).append(nil),
		"no message":                 (&envelope{whatRaft, cluster, member, self, raftBody("\xff\xff\xff")}).append(nil),
		"a word of raft to itself":   (&envelope{whatRaft, cluster, member, self, raftBody(msgHup)}).append(nil),
		"report of no member":        (&envelope{whatReport, cluster, 7, self, []byte(`{"From":"n9"}`)}).append(nil),
		"report in another's name":   (&envelope{whatReport, cluster, member, self, []byte(`{"From":"n9"}`)}).append(nil),
		"report that is none":        (&envelope{whatReport, cluster, member, self, []byte(`[`)}).append(nil),
		"hello meant for another":    (&envelope{whatHello, 0, member, self + 1, nil}).append(nil),
		"larger than a head, no sum": bytes.Repeat([]byte("CSQR\x01"), 100),
	}
	for name, data := range cases {
		if r := lead.call(quorumCode, nil, data); code.Response(r.Code) != code.NoPermission || len(r.Remark) == 0 {
			t.Errorf("%s: %v", name, r.Err())
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	conn := dial(t, lead.addr)
	for range 200 { // oneway: there is no answer to wait for
		data := make([]byte, rng.IntN(300))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		conn.send(remoting.AppendCommand(nil, &remoting.Command{Code: int32(quorumCode), Flag: 2}, nil, data))
	}
	conn.send(remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.ControllerGetMetadataInfo)}, nil, nil))
	if conn.receive() == nil {
		t.Fatal("the connection was closed")
	}
	if st := lead.Status(); !st.Leading || st.Term != term {
		t.Errorf("strangers have unseated the leader: %+v", st)
	}
}

// TestUnregisteredHeartbeatsCostNothing: names that nobody has registered are not kept.
func TestUnregisteredHeartbeatsCostNothing(t *testing.T) {
	t.Parallel()
	f := alone(t, three(t), nil)
	for i := range 50 {
		h := &header.BrokerHeartbeatRequest{ClusterName: testCluster, BrokerName: "group-" + name(int64(i)+1), BrokerAddr: "a:1", BrokerID: header.Some(int64(1))}
		if r := f.call(code.BrokerHeartbeat, h, nil); code.Response(r.Code) != code.ControllerBrokerNeedToBeRegistered {
			t.Fatal(r.Err())
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.table.brokers); n != 0 {
		t.Errorf("%d brokers are kept", n)
	}
}

// TestSlowBrokerHoldsNobodyUp: notifications wait for one broker at a time, newer words replace older ones.
func TestSlowBrokerHoldsNobodyUp(t *testing.T) {
	n := newNotifier(nil, nil)
	for i := range int32(1000) {
		n.tell("a:1", &Group{MasterEpoch: i})
	}
	n.tell("b:1", &Group{MasterEpoch: 7})
	if addr, g := n.take(); addr != "a:1" || g.MasterEpoch != 999 {
		t.Errorf("%s is told of epoch %d", addr, g.MasterEpoch)
	}
	if addr, g := n.take(); addr != "b:1" || g.MasterEpoch != 7 {
		t.Errorf("%s is told of epoch %d", addr, g.MasterEpoch)
	}
	if _, g := n.take(); g != nil {
		t.Error("somebody is told twice")
	}
}

// TestUnreachablePeersDoNotBlock: a controller whose peers are not there answers all the same.
func TestUnreachablePeersDoNotBlock(t *testing.T) {
	t.Parallel()
	f := start(t, testConf(t, freeAddrs(t, 3), 0))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, rc := range []code.Request{code.ControllerGetMetadataInfo, code.GetControllerConfig, code.ControllerGetReplicaInfo} {
		r, err := f.client.Call(ctx, f.addr, rc, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want := rc == code.ControllerGetReplicaInfo; want != (code.Response(r.Code) == code.ControllerNotLeader) {
			t.Errorf("%s: %v", rc, r.Err())
		}
	}
}
