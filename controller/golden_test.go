package controller

import (
	"slices"
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

// captured is the group of the captures in some state: two brokers of HaCluster.
func captured(master int64, epoch int32, setEpoch int32, set ...int64) *State {
	s := NewState()
	s.groups["broker-b"] = &Group{
		Cluster: "HaCluster", Name: "broker-b", NextID: 3, Master: master, MasterEpoch: epoch, SyncStateSet: set, SyncStateSetEpoch: setEpoch,
		Replicas: map[int64]Replica{1: {Addr: "127.0.0.1:40911", CheckCode: "127.0.0.1:40911;1"}, 2: {Addr: "127.0.0.1:41911", CheckCode: "127.0.0.1:41911;1"}},
	}
	return s
}

// scenarios replay captured exchanges, in this order, against one controller. Both brokers live.
var scenarios = []struct {
	name  string
	state func() *State
	steps []int
}{
	{"heartbeats", func() *State { return captured(1, 1, 1, 1) }, []int{459}},
	{"the slave joins the set", func() *State { return captured(1, 1, 1, 1) }, []int{471}},
	{"the slave joins the set, binary", func() *State { return captured(1, 1, 1, 1) }, []int{478}},
	{"refused changes of the set", func() *State { return captured(1, 1, 2, 1, 2) }, []int{472, 473, 474, 475, 476, 477}},
	{"a deposed master", func() *State { return captured(1, 3, 5, 1) }, []int{479}},
	{"an operator's election", func() *State { return captured(2, 2, 4, 1, 2) }, []int{480, 483}},
	{"an operator's election, binary", func() *State { return captured(2, 2, 4, 1, 2) }, []int{484, 485}},
	{"other elections", func() *State { return captured(1, 1, 2, 1, 2) }, []int{481, 482}},
	{"registration without a master", func() *State { return captured(noMaster, 0, 0) }, []int{486}},
	{"registration without a master, binary", func() *State { return captured(noMaster, 0, 0) }, []int{490}},
	{"registration with a master", func() *State { return captured(1, 1, 1, 1) }, []int{487, 491, 488, 489, 496}},
	{"replica info", func() *State { return captured(1, 1, 2, 1, 2) }, []int{492, 495}},
	{"sync state data", func() *State { return captured(2, 2, 4, 1, 2) }, []int{499, 500, 501, 502, 503}},
	{"configuration", func() *State { return nil }, []int{509, 510, 511, 512}},
	{"cleaning", func() *State { return captured(1, 1, 2, 1, 2) }, []int{515, 516, 517, 518}},
	{"ids", func() *State { return captured(1, 1, 2, 1, 2) }, []int{519, 522, 521, 523, 493}},
	{"first ids, binary", func() *State { return nil }, []int{520, 524}},
}

// TestCapturedExchanges sends what Java sent and expects what Java answered.
func TestCapturedExchanges(t *testing.T) {
	xs := capture.Read(t, "testdata/frames.tsv")
	replayed := map[int]bool{
		458: true, 460: true, // heartbeats without an answer: TestCapturedHeartbeats
		494: true, 497: true, 498: true, 508: true, 513: true, 514: true, // see the other tests of this file
	}
	for _, sc := range scenarios {
		for _, n := range sc.steps {
			replayed[n] = true
		}
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			f := alone(t, sc.state(), nil)
			f.bothLive()
			conn := dial(t, f.addr)
			for _, n := range sc.steps {
				conn.send(xs[n].Request)
				got := conn.receive()
				if got == nil {
					t.Fatalf("%d: no answer", n)
				}
				compare(t, n, parse(t, xs[n].Reply[4:]), got)
			}
		})
	}
	for n, x := range xs {
		if !replayed[n] {
			t.Errorf("%d %s is not replayed", n, x.Name)
		}
	}
}

// bothLive lets the brokers of the captures live, if they are known.
func (f *fixture) bothLive() {
	for _, id := range []int64{1, 2} {
		h := &header.BrokerHeartbeatRequest{ClusterName: "HaCluster", BrokerName: "broker-b", BrokerAddr: "x", BrokerID: header.Some(id), Epoch: header.Some(int32(1))}
		f.call(code.BrokerHeartbeat, h, nil)
	}
}

// compare wants Java's code, remark, fields and body. Members that Java does not send are allowed where they are ours.
func compare(t *testing.T, n int, want, got *remoting.Command) {
	t.Helper()
	if got.Code != want.Code || got.Flag != want.Flag || string(got.Remark) != string(want.Remark) {
		t.Errorf("%d: got code %d, flag %d, %q; want code %d, flag %d, %q", n, got.Code, got.Flag, got.Remark, want.Code, want.Flag, want.Remark)
	}
	if d := cmp.Diff(extFields(want), extFields(got)); d != "" {
		t.Errorf("%d: fields (-Java +ours):\n%s", n, d)
	}
	if (len(want.Body) == 0) != (len(got.Body) == 0) {
		t.Fatalf("%d: body %q, want %q", n, got.Body, want.Body)
	}
	if len(want.Body) == 0 {
		return
	}
	var w, g map[string]any
	if err := fastjson.Unmarshal(want.Body, &w); err != nil {
		t.Fatal(err)
	}
	if err := fastjson.Unmarshal(got.Body, &g); err != nil {
		t.Fatal(err)
	}
	for _, ours := range []string{"brokerAddrs", "brokerName", "cluster"} { // see body.ElectMasterResponseBody
		delete(g, ours)
	}
	if d := cmp.Diff(w, g); d != "" {
		t.Errorf("%d: body (-Java +ours):\n%s", n, d)
	}
}

func TestCapturedHeartbeats(t *testing.T) {
	t.Parallel()
	xs := capture.Read(t, "testdata/frames.tsv")
	for _, n := range []int{458, 460} {
		f := alone(t, captured(1, 1, 1, 1), nil)
		conn := dial(t, f.addr)
		conn.send(xs[n].Request)
		conn.send(xs[459].Request) // it has an answer, and comes second
		if got := conn.receive(); got == nil || code.Response(got.Code) != code.ControllerInvalidRequest {
			t.Fatalf("%d: got %v", n, got)
		}
		f.mu.Lock()
		alive, v := f.table.Alive(Broker{"broker-b", 1}, f.clock.Now()), f.table.brokers[Broker{"broker-b", 1}]
		f.mu.Unlock()
		if !alive || v.Epoch != -1 || v.MaxOffset != 0 || v.timeout.Milliseconds() != 3000 {
			t.Errorf("%d: alive %v, known %+v", n, alive, v)
		}
	}
}

// TestCapturedFollower: a member that has no leader, and so is none, refuses.
func TestCapturedFollower(t *testing.T) {
	t.Parallel()
	xs := capture.Read(t, "testdata/frames.tsv")
	f := start(t, testConf(t, freeAddrs(t, 3), 2))
	conn := dial(t, f.addr)
	conn.send(xs[494].Request)
	compare(t, 494, parse(t, xs[494].Reply[4:]), conn.receive())
}

func TestCapturedMetadata(t *testing.T) {
	xs := capture.Read(t, "testdata/frames.tsv")
	members := []Member{{"n0", "127.0.0.1:39878"}, {"n1", "127.0.0.1:39868"}, {"n2", "127.0.0.1:39858"}}
	st := &Status{Leader: members[1], Members: members}
	for _, n := range []int{497, 498} {
		got := parse(t, remoting.AppendCommand(nil, &remoting.Command{}, st.metadata("group1"), nil)[4:])
		if d := cmp.Diff(extFields(parse(t, xs[n].Reply[4:])), extFields(got)); d != "" {
			t.Errorf("%d (-Java +ours):\n%s", n, d)
		}
	}
}

// TestCapturedConfiguration: every key that Java shows is shown.
func TestCapturedConfiguration(t *testing.T) {
	t.Parallel()
	xs := capture.Read(t, "testdata/frames.tsv")
	f := alone(t, nil, nil)
	keys := func(text []byte) (out []string) {
		properties, err := conf.ParseProperties(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range properties {
			out = append(out, p.Key)
		}
		return out
	}
	ours := keys(f.ok(code.GetControllerConfig, nil, nil).Body)
	noFields := []string{"jraftConfig", "listenPort", "rocketmqHome"} // an object's address; fixed by the peers; empty
	for _, n := range []int{513, 514} {
		for _, key := range keys(parse(t, xs[n].Reply[4:]).Body) {
			if !slices.Contains(ours, key) && !slices.Contains(noFields, key) {
				t.Errorf("%d: %s is missing", n, key)
			}
		}
	}
}

// TestCapturedNotification: what a broker is told when it becomes master.
func TestCapturedNotification(t *testing.T) {
	t.Parallel()
	want := parse(t, capture.Read(t, "testdata/frames.tsv")[508].Request[4:])
	b := startBroker(t)
	s := captured(1, 1, 2, 1, 2)
	s.groups["broker-b"].Replicas[2] = Replica{Addr: b.addr}
	f := alone(t, s, nil)
	b.cluster, b.name, b.id = "HaCluster", "broker-b", 2
	b.beat(f)
	f.ok(code.ControllerElectMaster, &header.ElectMasterRequest{ClusterName: "HaCluster", BrokerName: "broker-b", BrokerID: 2, DesignateElect: true}, nil)
	got := <-b.told
	for got.MasterBrokerID.V != 2 { // it was told of the old one when this controller began to lead
		got = <-b.told
		<-b.bodies
	}
	fields := extFields(parse(t, remoting.AppendCommand(nil, &remoting.Command{}, got, nil)[4:]))
	fields["masterAddress"] = strings.ReplaceAll(fields["masterAddress"], b.addr, "127.0.0.1:41911")
	if d := cmp.Diff(extFields(want), fields); d != "" {
		t.Errorf("(-Java +ours):\n%s", d)
	}
	var set, wantSet body.SyncStateSet
	if err := fastjson.Unmarshal(<-b.bodies, &set); err != nil {
		t.Fatal(err)
	}
	if err := fastjson.Unmarshal(want.Body, &wantSet); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(wantSet, set); d != "" {
		t.Errorf("(-Java +ours):\n%s", d)
	}
}
