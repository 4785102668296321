package controller

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// replicaInfo is GET_REPLICA_INFO.
func replicaInfoAt(f *fixture) (header.GetReplicaInfoResponse, body.SyncStateSet) {
	f.t.Helper()
	var h header.GetReplicaInfoResponse
	var set body.SyncStateSet
	r := f.ok(code.ControllerGetReplicaInfo, &header.GetReplicaInfoRequest{BrokerName: testGroup}, nil)
	if err := r.Decode(&h); err != nil {
		f.t.Fatal(err)
	}
	if err := fastjson.Unmarshal(r.Body, &set); err != nil {
		f.t.Fatal(err)
	}
	return h, set
}

// pair lets two brokers join; the first becomes master, with both in sync.
func pair(t *testing.T, all []*fixture, extra map[string]string) (master, slave *brokerProcess) {
	t.Helper()
	lead := leaderOf(t, all)
	master, slave = startBroker(t), startBroker(t)
	for _, b := range []*brokerProcess{master, slave} {
		b.join(lead, extra)
		b.beat(all...)
	}
	if r, h := master.ask(lead); r.Err() != nil || h.MasterBrokerID.V != master.id || h.MasterEpoch.V != 1 || h.MasterAddress != master.addr {
		t.Fatalf("first election: %v, %+v", r.Err(), h)
	}
	r, h := slave.ask(lead)
	if code.Response(r.Code) != code.ControllerMasterStillExist || h.MasterBrokerID.V != master.id || h.MasterEpoch.V != 1 || h.SyncStateSetEpoch.V != 1 {
		t.Fatalf("the other asks: %v, %+v", r.Err(), h)
	}
	want := &body.SyncStateSet{SyncStateSet: []int64{master.id, slave.id}, SyncStateSetEpoch: 1}
	if err := master.call(lead, code.ControllerAlterSyncStateSet, &header.AlterSyncStateSetRequest{BrokerName: testGroup, MasterBrokerID: master.id, MasterEpoch: 1}, fastjson.Marshal(want)).Err(); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestKilledMasterIsReplaced: the other is master when the connection ends, and is told so.
func TestKilledMasterIsReplaced(t *testing.T) {
	t.Parallel()
	all := quorum(t, 3, nil)
	master, slave := pair(t, all, nil)
	lead := leaderOf(t, all)
	master.kill()
	within(t, "the slave is told that it is master", func() bool {
		select {
		case h := <-slave.told:
			return h.MasterBrokerID.V == slave.id && h.MasterEpoch.V == 2 && h.MasterAddress == slave.addr
		default:
			return false
		}
	})
	h, set := replicaInfoAt(lead)
	if h.MasterBrokerID.V != slave.id || h.MasterEpoch.V != 2 || !slices.Equal(set.SyncStateSet, []int64{slave.id}) || set.SyncStateSetEpoch != 3 {
		t.Errorf("master %d of epoch %d, set %+v", h.MasterBrokerID.V, h.MasterEpoch.V, set)
	}
}

// TestTwinIsRefused: a broker with the id of another one that lives gets in when that one is gone, and its heartbeats do not count before.
func TestTwinIsRefused(t *testing.T) {
	t.Parallel()
	all := quorum(t, 1, nil)
	lead := leaderOf(t, all)
	one, twin := startBroker(t), startBroker(t)
	one.join(lead, map[string]string{fieldIncarnation: "4294967303"})
	twin.id = one.id
	register := func() *remoting.Reply {
		return twin.call(lead, code.ControllerRegisterBroker, plus{&header.RegisterBrokerToControllerRequest{ClusterName: twin.cluster, BrokerName: twin.name, BrokerID: twin.id, BrokerAddress: twin.addr},
			map[string]string{fieldIncarnation: "8589934600"}}, nil)
	}
	beat := func() *remoting.Reply {
		return twin.call(lead, code.BrokerHeartbeat, plus{&header.BrokerHeartbeatRequest{ClusterName: twin.cluster, BrokerName: twin.name, BrokerAddr: twin.addr, BrokerID: header.Some(twin.id)},
			map[string]string{fieldIncarnation: "8589934600"}}, nil)
	}
	if r := beat(); code.Response(r.Code) != code.ControllerBrokerNeedToBeRegistered {
		t.Fatal(r.Err())
	}
	if r := register(); code.Response(r.Code) != code.ControllerBrokerIDInvalid || !strings.Contains(string(r.Remark), one.addr) {
		t.Fatal(r.Err())
	}
	one.kill()
	within(t, "the id is free", func() bool { return register().Err() == nil })
	if err := beat().Err(); err != nil {
		t.Fatal(err)
	}
}

// TestOldCopyIsNotTrusted: a replica in sync that starts with less than it has said is out of the set.
func TestOldCopyIsNotTrusted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		epoch, offset string
		trusted       bool
	}{{"0", "100", true}, {"0", "101", true}, {"0", "99", false}, {"1", "99", true}, {"-1", "100", true}, {"-1", "101", false}} {
		all := quorum(t, 1, nil)
		lead := leaderOf(t, all)
		master, slave := pair(t, all, map[string]string{fieldInherits: "true", fieldIncarnation: "4294967303"})
		r := slave.call(lead, code.ControllerRegisterBroker, plus{&header.RegisterBrokerToControllerRequest{ClusterName: slave.cluster, BrokerName: slave.name, BrokerID: slave.id, BrokerAddress: slave.addr},
			map[string]string{fieldIncarnation: "8589934600", fieldEpoch: c.epoch, fieldMaxOffset: c.offset}}, nil)
		want := []int64{master.id}
		if c.trusted {
			want = append(want, slave.id)
		}
		if _, set := replicaInfoAt(lead); r.Err() != nil || !slices.Equal(set.SyncStateSet, want) {
			t.Errorf("with %+v: %v, set %v", c, r.Err(), set.SyncStateSet)
		}
	}
}

// TestSilentMasterIsReplaced: its connections stay, its heartbeats stop.
func TestSilentMasterIsReplaced(t *testing.T) {
	t.Parallel()
	all := quorum(t, 1, nil)
	master, slave := pair(t, all, map[string]string{fieldInherits: "true"})
	master.fallSilent(all...)
	within(t, "the slave is master", func() bool {
		slave.beat(all...)
		h, _ := replicaInfoAt(all[0])
		return h.MasterBrokerID.V == slave.id && h.MasterEpoch.V == 2
	})
}

// TestMasterThatOnlyOthersHearIsKept: one broken link is no election; the controller that hears all leads.
func TestMasterThatOnlyOthersHearIsKept(t *testing.T) {
	t.Parallel()
	all := quorum(t, 3, nil)
	master, slave := pair(t, all, nil)
	deaf := leaderOf(t, all)
	master.fallSilent(all...)
	others := slices.DeleteFunc(slices.Clone(all), func(f *fixture) bool { return f == deaf })
	within(t, "another controller leads", func() bool {
		master.beat(others...)
		slave.beat(all...)
		return others[0].Status().Leading || others[1].Status().Leading
	})
	lead := leaderOf(t, all)
	master.beat(others...)
	slave.beat(all...)
	if h, _ := replicaInfoAt(lead); h.MasterBrokerID.V != master.id || h.MasterEpoch.V != 1 {
		t.Errorf("the master lost its office: %+v", h)
	}
}

// TestLeaderIsStopped: it hands over, and the next one knows everything.
func TestLeaderIsStopped(t *testing.T) {
	t.Parallel()
	all := quorum(t, 3, nil)
	master, slave := pair(t, all, nil)
	old := leaderOf(t, all)
	before, setBefore := replicaInfoAt(old)
	if err := old.stop(); err != nil {
		t.Fatal(err)
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(f *fixture) bool { return f == old })
	lead := leaderOf(t, rest)
	after, setAfter := replicaInfoAt(lead)
	if diff := cmp.Diff(before, after) + cmp.Diff(setBefore, setAfter); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	if h := <-master.told; h.MasterBrokerID.V != master.id {
		t.Errorf("told of %d", h.MasterBrokerID.V)
	}
	master.kill()
	within(t, "the next leader replaces a master too", func() bool {
		slave.beat(rest...)
		h, _ := replicaInfoAt(lead)
		return h.MasterBrokerID.V == slave.id
	})
}

func TestFollowersRefuseAndSayWhoLeads(t *testing.T) {
	t.Parallel()
	all := quorum(t, 3, nil)
	lead := leaderOf(t, all)
	for _, f := range all {
		var meta header.GetMetaDataResponse
		if err := f.ok(code.ControllerGetMetadataInfo, nil, nil).Decode(&meta); err != nil {
			t.Fatal(err)
		}
		if meta.ControllerLeaderAddress != lead.addr || meta.ControllerLeaderID != lead.node.Self.ID || meta.IsLeader != (f == lead) ||
			strings.Count(meta.Peers, ";") != 3 || meta.Group != "group1" {
			t.Errorf("%s says %+v", f.addr, meta)
		}
		if f == lead {
			continue
		}
		for _, rc := range []code.Request{code.ControllerGetReplicaInfo, code.ControllerElectMaster, code.ControllerGetNextBrokerID, code.CleanBrokerData} {
			r := f.call(rc, nil, nil)
			hint, _ := r.Ext(fieldLeader)
			if code.Response(r.Code) != code.ControllerNotLeader || hint != lead.addr {
				t.Errorf("%s: code %d, leader %q", rc, r.Code, hint)
			}
		}
	}
}

// TestAskingIsASignOfLife: the first heartbeat of a Java broker may come after its question.
func TestAskingIsASignOfLife(t *testing.T) {
	t.Parallel()
	s := NewState()
	register(t, s, 2)
	f := alone(t, s, nil)
	b := startBroker(t)
	b.id = 2
	if r, h := b.ask(f); r.Err() != nil || h.MasterBrokerID.V != 2 {
		t.Errorf("%v, %+v", r.Err(), h)
	}
	b.id = 7
	if r, _ := b.ask(f); code.Response(r.Code) != code.ControllerBrokerNeedToBeRegistered {
		t.Errorf("a broker without an id got %v", r.Err())
	}
}

// TestRestartedControllerDeposesNobody: it has heard of nobody yet.
func TestRestartedControllerDeposesNobody(t *testing.T) {
	t.Parallel()
	f := alone(t, three(t), nil)
	b := startBroker(t)
	b.id = 2
	if r, _ := b.ask(f); code.Response(r.Code) != code.ControllerElectMasterFailed {
		t.Errorf("a slave that asks too early got %v", r.Err())
	}
	b.id = 1
	if r, h := b.ask(f); code.Response(r.Code) != code.ControllerMasterStillExist || h.MasterEpoch.V != 1 {
		t.Errorf("the master got %v, %+v", r.Err(), h)
	}
}

func TestInheritedSet(t *testing.T) {
	t.Parallel()
	all := quorum(t, 1, nil)
	master, slave := pair(t, all, map[string]string{fieldInherits: "true", fieldMinInSync: "2"})
	if g := all[0].groupOf(testGroup); !g.Replicas[1].Inherits || g.Replicas[1].MinInSync != 2 {
		t.Errorf("known is %+v", g.Replicas)
	}
	slave.beat(all...)
	master.beat(all...)
	h := &header.ElectMasterRequest{ClusterName: testCluster, BrokerName: testGroup, BrokerID: slave.id, DesignateElect: true}
	var got body.ElectMasterResponseBody
	if err := fastjson.Unmarshal(all[0].ok(code.ControllerElectMaster, h, nil).Body, &got); err != nil {
		t.Fatal(err)
	}
	addrs := map[int64]string{master.id: master.addr, slave.id: slave.addr}
	want := body.ElectMasterResponseBody{
		SyncStateSet: []int64{master.id, slave.id}, BrokerAddrs: addrs, BrokerName: testGroup, Cluster: testCluster,
		BrokerMemberGroup: &body.BrokerMemberGroup{BrokerAddrs: addrs, BrokerName: testGroup, Cluster: testCluster},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"0", "-1", "x", "99999999999", "257"} {
		r := slave.call(all[0], code.ControllerRegisterBroker, plus{&header.RegisterBrokerToControllerRequest{
			ClusterName: testCluster, BrokerName: testGroup, BrokerID: slave.id, BrokerAddress: slave.addr}, map[string]string{fieldMinInSync: bad}}, nil)
		if code.Response(r.Code) != code.InvalidParameter {
			t.Errorf("%s %q: %v", fieldMinInSync, bad, r.Err())
		}
	}
}

func TestConfigurationIsChanged(t *testing.T) {
	t.Parallel()
	f := alone(t, nil, nil)
	for text, want := range map[string]code.Response{
		"enableElectUncleanMaster=true\n":                       code.Success,
		"notifyBrokerRoleChanged=false\nnobodysKey=1\n":         code.Success,
		"configStorePath=/tmp/x\n":                              code.NoPermission,
		"rocketmqHome=/tmp/x\n":                                 code.NoPermission,
		"configBlackList=\n":                                    code.NoPermission,
		"enableElectUncleanMaster=maybe\n":                      code.InvalidParameter,
		"scanNotActiveBrokerInterval=77\n":                      code.InvalidParameter, // not at run time
		"controllerDLegerPeers=n0\n":                            code.InvalidParameter,
		"controllerDLegerPeers=n0-a:1\nelectMasterMaxRetry=1\n": code.InvalidParameter,
	} {
		if r := f.call(code.UpdateControllerConfig, nil, []byte(text)); code.Response(r.Code) != want {
			t.Errorf("%q: %v, want %d", text, r.Err(), want)
		}
	}
	if cfg := f.cfg.Load(); !cfg.EnableElectUncleanMaster || cfg.NotifyBrokerRoleChanged {
		t.Error("the change is not in force")
	}
	text, err := f.fs.ReadFile(f.cfg.Load().ConfigStorePath)
	if err != nil || !strings.Contains(string(text), "enableElectUncleanMaster=true") {
		t.Errorf("file %q, %v", text, err)
	}
	if shown := f.ok(code.GetControllerConfig, nil, nil).Body; !strings.Contains(string(shown), "enableElectUncleanMaster=true\n") {
		t.Errorf("shown is\n%s", shown)
	}
}

// TestQuorumGrows adds a controller to one that runs alone, by mqadmin's updateControllerConfig.
func TestQuorumGrows(t *testing.T) {
	t.Parallel()
	addrs := freeAddrs(t, 2)
	first := start(t, testConf(t, addrs[:1], 0))
	leaderOf(t, []*fixture{first})
	first.ok(code.ControllerApplyBrokerID, &header.ApplyBrokerIdRequest{ClusterName: testCluster, BrokerName: testGroup, AppliedBrokerID: 1, RegisterCheckCode: "a:1;1"}, nil)
	second := start(t, testConf(t, addrs, 1))
	peers := fmt.Sprintf("controllerDLegerPeers=n0-%s;n1-%s\n", addrs[0], addrs[1])
	first.ok(code.UpdateControllerConfig, nil, []byte(peers))
	within(t, "the second votes", func() bool {
		voters := 0
		second.node.view(func(s *State) { voters = len(s.quorum.Members) - len(s.quorum.Learners) })
		return voters == 2
	})
	if err := first.stop(); err != nil { // it hands over, though the second is alone then and can only finish what was begun
		t.Fatal(err)
	}
	if g := second.groupOf(testGroup); g == nil {
		t.Error("the second does not know the brokers")
	}
}

func TestMetricsAreServed(t *testing.T) {
	t.Parallel()
	f := alone(t, three(t), func(c *conf.Controller) {
		c.MetricsExporterType, c.MetricsPromExporterPort, c.MetricsLabel = "PROM", 0, "zone:a"
	})
	f.call(code.ControllerElectMaster, &header.ElectMasterRequest{ClusterName: testCluster, BrokerName: testGroup, BrokerID: 1}, nil)
	f.call(code.ControllerGetReplicaInfo, &header.GetReplicaInfoRequest{BrokerName: "nobody"}, nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.MetricsAddr().String()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	common := fmt.Sprintf(`address="%s",`, f.addr)
	for _, want := range []string{
		"role{" + common + `group="group1",peer_id="n0",zone="a"} 3`,
		"active_broker_num{" + common + `broker_set="broker-a",cluster="C",group="group1",peer_id="n0",zone="a"} 1`,
		"election_total{" + common + `broker_set="broker-a",cluster="C",election_result="keep_current_master"`,
		`request_total{` + common + `group="group1",peer_id="n0",request_handle_status="success",request_type="CONTROLLER_ELECT_MASTER",zone="a"} 1`,
		`request_handle_status="failed",request_type="CONTROLLER_GET_REPLICA_INFO"`,
		"request_latency_bucket{", "request_latency_microseconds_count{", "dledger_op_total{", `dLedger_operation_status="success"`,
		"dledger_disk_usage{", "rocketmq_controller_master_epoch{", "rocketmq_controller_sync_state_set_size{",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("missing: %s", want)
		}
	}
}

// TestFailedStartLeavesNothing: goleak sees the rest.
func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	opts := Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.NewMem(clock.Real{})}
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // it never accepted
	running := alone(t, nil, nil)
	for name, edit := range map[string]func(c *conf.Controller){
		"no peers":      func(c *conf.Controller) { c.ControllerDLegerPeers = "" },
		"port taken":    func(c *conf.Controller) { c.ControllerDLegerPeers = "n0-" + taken.Addr().String() },
		"storage taken": func(c *conf.Controller) { c.ControllerStorePath = running.cfg.Load().ControllerStorePath },
		"metrics taken": func(c *conf.Controller) {
			c.MetricsExporterType, c.MetricsPromExporterPort = "PROM", int32(taken.Addr().(*net.TCPAddr).Port)
		},
		"no such address": func(c *conf.Controller) { c.BindAddress = "203.0.113.1" },
	} {
		cfg := testConf(t, freeAddrs(t, 1), 0)
		edit(cfg)
		if s, err := New(cfg, opts); err == nil {
			s.Close()
			t.Errorf("%s: started", name)
		}
	}
	s, err := New(testConf(t, freeAddrs(t, 1), 0), opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Close() // never run
	s, err = New(testConf(t, freeAddrs(t, 3), 0), opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil { // stopped before it found the others
		t.Error(err)
	}
}

func TestQuorumSpeaksTLS(t *testing.T) {
	all := quorum(t, 3, func(c *conf.Controller) { c.TLSServerMode, c.TLSTestModeEnable, c.TLSEnable = "enforcing", true, true })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := all[0].client.Call(ctx, all[0].addr, code.ControllerGetMetadataInfo, nil, nil); err == nil {
		t.Error("a plain connection was served")
	}
}
