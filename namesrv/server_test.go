package namesrv

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// TestEveryRequestHasARoute: the codes that Java's name server handles.
func TestEveryRequestHasARoute(t *testing.T) {
	s := &Server{}
	got := map[code.Request]bool{}
	for _, r := range s.routes() {
		got[r.Code] = true
	}
	want := map[code.Request]bool{}
	for _, c := range []code.Request{100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327, 901, 904} {
		want[c] = true
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestConnectionsEndTakesTheBroker(t *testing.T) {
	f := start(t, nil)
	first, second, other := f.newClient(), f.newClient(), f.newClient()
	f.register(first, "a", 0, "h1:1")
	f.register(other, "b", 0, "h2:1")
	f.register(second, "a", 0, "h1:1") // before the end of the first connection is noticed
	first.Close()
	other.Close()
	f.until("b is gone", func() bool { return len(f.lookup("T1").BrokerDatas) == 1 })
	if got := f.lookup("T1").BrokerDatas[0].BrokerName; got != "a" {
		t.Fatalf("%s is left", got)
	}
	second.Close()
	f.until("a is gone", func() bool { return f.lookup("T1") == nil })
}

func TestSilentBrokersExpireAndHeartbeatsKeepThem(t *testing.T) {
	f := start(t, func(c *conf.Namesrv) { c.ScanNotActiveBrokerInterval = 10 })
	quiet, alive := f.newClient(), f.newClient()
	for _, b := range []struct {
		name    string
		client  *remoting.Client
		timeout int64
	}{{"quiet", quiet, 200}, {"alive", alive, 1500}} {
		h := registerHeader(b.name, 0, b.name+":1")
		h.HeartbeatTimeoutMillis = header.Some(b.timeout)
		f.callBy(b.client, code.RegisterBroker, h, registerBody("T1", "T2"))
	}
	beat := &header.BrokerHeartbeatRequest{ClusterName: "C", BrokerName: "alive", BrokerAddr: "alive:1"}
	f.until("quiet is gone", func() bool {
		r := f.callBy(alive, code.BrokerHeartbeat, beat, nil)
		if _, ok := r.Ext(fieldRegistered); ok {
			t.Fatal("the heartbeat of a live broker is answered as that of an unknown one")
		}
		return len(f.lookup("T1").BrokerDatas) == 1
	})
	conn, err := alive.Conn(t.Context(), f.addr)
	if err != nil || !conn.Alive() {
		t.Fatal("the connection of the live broker is closed", err)
	}
	f.until("alive is gone as well", func() bool { return f.lookup("T1") == nil })
	f.until("its connection is closed", func() bool { return !conn.Alive() })
}

func TestHeartbeatOfAnUnknownBrokerAsksItToRegister(t *testing.T) {
	f := start(t, nil)
	beat := &header.BrokerHeartbeatRequest{ClusterName: "C", BrokerName: "a", BrokerAddr: "h1:1"}
	if got, _ := f.ok(code.BrokerHeartbeat, beat, nil).Ext("registered"); got != "false" {
		t.Errorf("registered=%q", got)
	}
	f.register(f.client, "a", 0, "h1:1")
	if _, ok := f.ok(code.BrokerHeartbeat, beat, nil).Ext("registered"); ok {
		t.Error("asked to register again")
	}
	version := fastjson.Marshal(&body.DataVersion{Counter: 1})
	r := f.ok(code.QueryDataVersion, &header.QueryDataVersionRequest{ClusterName: "C", BrokerName: "z", BrokerAddr: "h9:1"}, version)
	if got, _ := r.Ext("changed"); got != "true" || r.Body != nil {
		t.Errorf("changed=%q %q", got, r.Body)
	}
	r = f.ok(code.QueryDataVersion, &header.QueryDataVersionRequest{ClusterName: "C", BrokerName: "a", BrokerAddr: "h1:1"}, fastjson.Marshal(&body.DataVersion{}))
	if got, _ := r.Ext("changed"); got != "false" {
		t.Errorf("changed=%q", got)
	}
}

// asJava sends a registration as a broker in Java would: the frame's language is JAVA.
func (f *fixture) asJava(h *header.RegisterBrokerRequest, data []byte) *remoting.Command {
	f.t.Helper()
	conn := f.dial()
	frame := remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.RegisterBroker), Opaque: 7}, h, data)
	conn.send(bytes.Replace(frame, []byte(`"language":"GO"`), []byte(`"language": 0  `), 1))
	return conn.receive()
}

func TestFencedBrokersAreToldOnlyIfTheyAreOurs(t *testing.T) {
	f := start(t, nil)
	epoch := func(n int64) []byte {
		b := body.RegisterBrokerBody{}
		b.TopicConfigSerializeWrapper.TopicConfigTable = topics("T1", "T2")
		b.TopicConfigSerializeWrapper.DataVersion.StateVersion = n
		return b.Encode(false)
	}
	f.ok(code.RegisterBroker, registerHeader("a", 0, "new:1"), epoch(2))
	if r := f.call(code.RegisterBroker, registerHeader("a", 0, "old:1"), epoch(1)); code.Response(r.Code) != code.ControllerFencedMasterEpoch {
		t.Errorf("ours got %d %s", r.Code, r.Remark)
	}
	if r := f.asJava(registerHeader("a", 0, "old:1"), epoch(1)); r.Code != 0 || len(extFields(r)) != 0 || r.Body != nil {
		t.Errorf("Java's got %d %v %q", r.Code, extFields(r), r.Body)
	}
	if got := f.lookup("T1").BrokerDatas[0].BrokerAddrs[0]; got != "new:1" {
		t.Errorf("the master is %s", got)
	}
}

func TestRegistrationBodies(t *testing.T) {
	whole := func(compressed bool) []byte {
		b := body.RegisterBrokerBody{}
		b.TopicConfigSerializeWrapper.TopicConfigTable = topics("T1", "T2")
		return b.Encode(compressed)
	}
	crc := func(b []byte) int32 { return int32(crc32.ChecksumIEEE(b) & 0x7FFFFFFF) }
	for _, tc := range []struct {
		name  string
		body  []byte
		crc   int32
		want  code.Response
		route bool
	}{
		{"plain", whole(false), 0, code.Success, true},
		{"checksum", whole(false), crc(whole(false)), code.Success, true},
		{"compressed, unannounced", whole(true), 0, code.Success, true},
		{"none", nil, 0, code.Success, false},
		{"wrong checksum", whole(false), 1, code.SystemError, false},
		{"checksum of nothing", nil, 1, code.SystemError, false},
		{"no JSON", []byte("{]"), 0, code.InvalidParameter, false},
		{"wrong types", []byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":7}}`), 0, code.InvalidParameter, false},
		{"deep", []byte(strings.Repeat(`{"a":`, 100_000)), 0, code.InvalidParameter, false},
		{"cut zlib", whole(true)[:20], 0, code.InvalidParameter, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := start(t, nil)
			h := registerHeader("a", 0, "h1:1")
			h.BodyCRC32 = tc.crc
			r := f.call(code.RegisterBroker, h, tc.body)
			if code.Response(r.Code) != tc.want || tc.want != 0 && len(r.Remark) == 0 {
				t.Errorf("got %d %q, want %s", r.Code, r.Remark, tc.want)
			}
			if (f.lookup("T1") != nil) != tc.route {
				t.Error("wrong route")
			}
		})
	}
}

func TestOldBrokersSendTheirTopicTableAlone(t *testing.T) {
	f := start(t, nil)
	frame := remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.RegisterBroker)}, registerHeader("a", 0, "h1:1"),
		fastjson.Marshal(&body.TopicConfigSerializeWrapper{TopicConfigTable: topics("T1", "T2")}))
	conn := f.dial()
	conn.send(bytes.Replace(frame, []byte(`"version":513`), []byte(`"version": 36`), 1))
	if r := conn.receive(); r.Code != 0 || f.lookup("T1") == nil {
		t.Errorf("got %d %s", r.Code, r.Remark)
	}
}

func TestHostileNames(t *testing.T) {
	huge := strings.Repeat("x", maxName+1)
	for name, change := range map[string]func(h *header.RegisterBrokerRequest){
		"no broker name":     func(h *header.RegisterBrokerRequest) { h.BrokerName = "" },
		"no cluster":         func(h *header.RegisterBrokerRequest) { h.ClusterName = "" },
		"no address":         func(h *header.RegisterBrokerRequest) { h.BrokerAddr = "" },
		"huge broker name":   func(h *header.RegisterBrokerRequest) { h.BrokerName = huge },
		"huge zone":          func(h *header.RegisterBrokerRequest) { h.ZoneName = huge },
		"huge HA address":    func(h *header.RegisterBrokerRequest) { h.HAServerAddr = huge },
		"NUL in the name":    func(h *header.RegisterBrokerRequest) { h.BrokerName = "a\x00b" },
		"line in the name":   func(h *header.RegisterBrokerRequest) { h.ClusterName = "C\nD" },
		"no UTF-8":           func(h *header.RegisterBrokerRequest) { h.BrokerAddr = "h\xff:1" },
		"negative broker id": func(h *header.RegisterBrokerRequest) { h.BrokerID = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, nil)
			h := registerHeader("a", 0, "h1:1")
			change(h)
			conn := f.dial() // binary, so that what is no UTF-8 arrives
			conn.send(remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.RegisterBroker), Enc: header.Binary}, h, registerBody("T1", "T2")))
			r := conn.receive()
			if code.Response(r.Code) != code.InvalidParameter || len(r.Remark) == 0 || len(r.Remark) > 2048 {
				t.Errorf("got %d %q", r.Code, r.Remark)
			}
		})
	}
	t.Run("separators are characters like others", func(t *testing.T) {
		f := start(t, nil)
		odd := `;:,@%/\"{}[]é`
		f.ok(code.RegisterBroker, registerHeader("b"+odd, 0, "h"+odd), registerBody("T"+odd, "U"))
		r := f.lookup("T" + odd)
		if r == nil || r.BrokerDatas[0].BrokerName != "b"+odd || r.BrokerDatas[0].BrokerAddrs[0] != "h"+odd {
			t.Errorf("route %+v", r)
		}
		var info body.ClusterInfo
		if err := fastjson.Unmarshal(f.ok(code.GetBrokerClusterInfo, nil, nil).Body, &info); err != nil || len(info.BrokerAddrTable) != 1 {
			t.Error(info, err)
		}
	})
	t.Run("topics", func(t *testing.T) {
		f := start(t, nil)
		f.ok(code.RegisterBroker, registerHeader("a", 0, "h1:1"), registerBody("good", "fine", huge, "nul\x00", "new\nline"))
		if d := cmp.Diff([]string{"fine", "good"}, f.topics()); d != "" {
			t.Error(d)
		}
		r := f.call(code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: strings.Repeat("t", 1<<20)}, nil)
		if code.Response(r.Code) != code.TopicNotExist || len(r.Remark) > 1024 {
			t.Errorf("got %d, a remark of %d bytes", r.Code, len(r.Remark))
		}
		r = f.call(code.RegisterTopicInNamesrv, &header.RegisterTopicRequest{Topic: "a\x00"}, nil)
		if code.Response(r.Code) != code.InvalidParameter {
			t.Errorf("got %d %s", r.Code, r.Remark)
		}
	})
	t.Run("numbers", func(t *testing.T) {
		f := start(t, nil)
		r := f.call(code.RegisterBroker, with{registerHeader("a", 0, "h1:1"), "brokerId", "99999999999999999999"}, registerBody("T1", "T2"))
		if code.Response(r.Code) != code.InvalidParameter || !strings.Contains(string(r.Remark), "brokerId") {
			t.Errorf("got %d %s", r.Code, r.Remark)
		}
		h := registerHeader("a", 0, "h1:1")
		h.HeartbeatTimeoutMillis = header.Some(int64(1) << 62)
		f.ok(code.RegisterBroker, h, registerBody("T1", "T2"))
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := f.table.groups["a"].members[0].timeout; got != maxTimeout {
			t.Errorf("timeout %s", got)
		}
	})
}

func TestEmptyAndUnparsableBodies(t *testing.T) {
	f := start(t, nil)
	f.register(f.client, "a", 0, "h1:1")
	for _, tc := range []struct {
		rc   code.Request
		body string
		want code.Response
	}{
		{code.QueryDataVersion, "", code.InvalidParameter},
		{code.QueryDataVersion, "[", code.InvalidParameter},
		{code.RegisterTopicInNamesrv, "{", code.InvalidParameter},
		{code.RegisterTopicInNamesrv, "", code.Success},
		{code.UpdateNamesrvConfig, "", code.Success},
		{code.UpdateNamesrvConfig, `a=\uZZZZ`, code.InvalidParameter},
		{code.PutKVConfig, "", code.SystemError},
		{code.DeleteKVConfig, "", code.SystemError},
		{code.GetKVConfig, "", code.QueryNotFound},
		{code.UnregisterBroker, "", code.Success},
		{code.DeleteTopicInNamesrv, "", code.Success},
		{code.GetBrokerMemberGroup, "", code.Success},
		{code.Request(9999), "", code.RequestCodeNotSupported},
	} {
		h := with{&header.RegisterTopicRequest{Topic: "N"}, "x", "y"}
		if r := f.call(tc.rc, h, []byte(tc.body)); code.Response(r.Code) != tc.want {
			t.Errorf("%s %q: got %d %s", tc.rc, tc.body, r.Code, r.Remark)
		}
	}
	if f.lookup("T1") == nil {
		t.Error("the broker is gone")
	}
}

func TestRouteForms(t *testing.T) {
	f := start(t, nil)
	h := registerHeader("a", 0, "h1:1")
	h.ZoneName = "z"
	f.ok(code.RegisterBroker, h, registerBody("T1", "T2"))
	for _, tc := range []struct {
		name, version string
		h             header.GetRouteInfoRequest
		want          string
	}{
		{"Java 5", "513", header.GetRouteInfoRequest{}, `{"0":"h1:1"}`},
		{"the first that reads standard JSON", "401", header.GetRouteInfoRequest{}, `{"0":"h1:1"}`},
		{"the last that does not", "400", header.GetRouteInfoRequest{}, `{0:"h1:1"}`},
		{"Go client", "317", header.GetRouteInfoRequest{}, `{0:"h1:1"}`},
		{"Go client that asks for it", "317", header.GetRouteInfoRequest{AcceptStandardJSONOnly: header.Some(true)}, `{"0":"h1:1"}`},
		{"own zone, old client", "317", header.GetRouteInfoRequest{ZoneMode: "true", ZoneName: " Z "}, `{0:"h1:1"}`},
		{"own zone", "513", header.GetRouteInfoRequest{ZoneMode: "TRUE", ZoneName: "z"}, `{"0":"h1:1"}`},
		{"another zone", "513", header.GetRouteInfoRequest{ZoneMode: "true", ZoneName: "y"}, `"brokerDatas":[],`},
		{"zone mode without a zone", "513", header.GetRouteInfoRequest{ZoneMode: "true", ZoneName: " "}, `{"0":"h1:1"}`},
		{"a zone without zone mode", "513", header.GetRouteInfoRequest{ZoneName: "y"}, `{"0":"h1:1"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.h.Topic = "T1"
			conn := f.dial()
			frame := remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.GetRouteInfoByTopic)}, &tc.h, nil)
			conn.send(bytes.Replace(frame, []byte(`"version":513`), []byte(`"version":`+tc.version), 1))
			if r := conn.receive(); r.Code != 0 || !bytes.Contains(r.Body, []byte(tc.want)) {
				t.Errorf("got %d %s", r.Code, r.Body)
			}
		})
	}
}

func TestNotReadyWhileBrokersAreAwaited(t *testing.T) {
	clk := clock.NewManual(time.Unix(1_700_000_000, 0))
	f := startOn(t, Options{Clock: clk}, func(c *conf.Namesrv) { c.NeedWaitForService, c.WaitSecondsForService = true, 45 })
	f.register(f.client, "a", 0, "h1:1")
	ask := func() *remoting.Reply {
		return f.call(code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: "T1"}, nil)
	}
	if r := ask(); code.Response(r.Code) != code.SystemError || string(r.Remark) != "name server not ready" {
		t.Errorf("got %d %s", r.Code, r.Remark)
	}
	clk.Advance(45 * time.Second)
	if err := ask().Err(); err != nil {
		t.Error(err)
	}
}

// TestLookupsDoNotWaitForChanges: not even for one that never ends.
func TestLookupsDoNotWaitForChanges(t *testing.T) {
	f := start(t, func(c *conf.Namesrv) { c.OrderMessageEnable = true })
	f.register(f.client, "a", 0, "h1:1")
	f.mu.Lock()
	defer f.mu.Unlock()
	other := f.newClient()
	for _, c := range []struct {
		rc code.Request
		h  header.Appender
	}{
		{code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: "T1"}},
		{code.GetBrokerClusterInfo, nil},
		{code.GetBrokerMemberGroup, &header.GetBrokerMemberGroupRequest{BrokerName: "a"}},
	} {
		if err := f.callBy(other, c.rc, c.h, nil).Err(); err != nil {
			t.Errorf("%s: %v", c.rc, err)
		}
	}
}

func TestLogSaysWhoCameAndWentAndWhy(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	f := startOn(t, Options{Log: zap.New(core)}, nil)
	f.register(f.client, "a", 0, "h1:1")
	f.register(f.client, "a", 0, "h1:1")
	f.ok(code.UnregisterBroker, &header.UnRegisterBrokerRequest{ClusterName: "C", BrokerName: "a", BrokerAddr: "h1:1"}, nil)
	var got []string
	for _, e := range logs.FilterMessageSnippet("broker ").All() {
		got = append(got, fmt.Sprint(e.Message, " ", e.ContextMap()["broker"], " ", e.ContextMap()["address"], " ", e.ContextMap()["reason"]))
	}
	if d := cmp.Diff([]string{"broker joined a h1:1 registered", "broker left a h1:1 unregistered"}, got); d != "" {
		t.Error(d)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	f := startOn(t, Options{Registry: registry}, nil)
	f.register(f.client, "a", 0, "h1:1")
	f.register(f.client, "b", 0, "h2:1")
	f.lookup("T1")
	f.lookup("none")
	f.ok(code.UnregisterBroker, &header.UnRegisterBrokerRequest{ClusterName: "C", BrokerName: "b", BrokerAddr: "h2:1"}, nil)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, x := range family.Metric {
			name := *family.Name
			for _, l := range x.Label {
				name += " " + *l.Value
			}
			got[name] = x.GetCounter().GetValue() + x.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"rocketmq_namesrv_brokers": 1, "rocketmq_namesrv_topics": 2, "rocketmq_namesrv_registrations_total accepted": 2,
		"rocketmq_namesrv_route_requests_total found": 1, "rocketmq_namesrv_route_requests_total unknown": 1,
		"rocketmq_namesrv_broker_departures_total unregistered": 1,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := newMetrics(registry); err == nil {
		t.Error("the same metrics were registered twice")
	}
}

func TestNewRefuses(t *testing.T) {
	broken := vfs.NewMem(clock.Real{})
	_ = broken.MkdirAll("/home/namesrv")
	_ = broken.WriteFileAtomic("/home/namesrv/kvConfig.json", []byte("{broken"))
	failing := vfs.NewMem(clock.Real{})
	failing.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if op == vfs.OpReadFile {
			return errors.New("disk failure")
		}
		return nil
	})
	for _, tc := range []struct {
		name  string
		files vfs.FS
		set   func(*conf.Namesrv)
	}{
		{"a broken key-value file", broken, nil},
		{"a disk that fails", failing, nil},
		{"clusterTest", vfs.NewMem(clock.Real{}), func(c *conf.Namesrv) { c.ClusterTest = true }},
		{"an address of another machine", vfs.NewMem(clock.Real{}), func(c *conf.Namesrv) { c.BindAddress = "192.0.2.1" }},
	} {
		if _, err := New(testConf(tc.set), Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: tc.files}); err == nil {
			t.Errorf("%s was accepted", tc.name)
		}
	}
}
