package controller

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fixture is a running controller with a client.
type fixture struct {
	*Server
	t      *testing.T
	g      *lifecycle.Group
	client *remoting.Client
	addr   string
}

// nextPort goes round, so that no address is given twice while this process runs.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(20000)) }

// freeAddrs are addresses that nobody listens on, below the range from which outgoing connections take theirs.
func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	var lc net.ListenConfig
	var out []string
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+nextPort.Add(1)%20000)
		ln, err := lc.Listen(t.Context(), "tcp", addr)
		if err != nil {
			continue
		}
		defer ln.Close() //nolint:errcheck // it never accepted
		if out = append(out, addr); len(out) == n {
			return out
		}
	}
	t.Fatal("no free addresses")
	return nil
}

// testConf is the configuration of the member i of a quorum at the addresses.
func testConf(t *testing.T, addrs []string, i int) *conf.Controller {
	cfg := conf.Default[conf.Controller]()
	var peers []string
	for k, addr := range addrs {
		peers = append(peers, fmt.Sprintf("n%d-%s", k, addr))
	}
	cfg.BindAddress, cfg.ControllerDLegerGroup = "127.0.0.1", "group1"
	cfg.ControllerDLegerPeers, cfg.ControllerDLegerSelfId = strings.Join(peers, ";"), fmt.Sprintf("n%d", i)
	cfg.ControllerStorePath = filepath.Join(t.TempDir(), "DLedgerController")
	cfg.ConfigStorePath = "/home/controller/controller.properties"
	return cfg
}

func start(t *testing.T, cfg *conf.Controller) *fixture {
	t.Helper()
	s, err := New(cfg, Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.NewMem(clock.Real{})})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Server: s, t: t, client: remoting.NewClient(nil, nil), addr: s.Addr().String(), g: lifecycle.New(context.Background())}
	f.g.Go("controller", s.Run)
	t.Cleanup(func() {
		f.client.Close()
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// stop ends the controller as SIGTERM does.
func (f *fixture) stop() error { return f.g.Stop() }

// alone starts a quorum of one, with the given state if there is one, and waits until it leads.
func alone(t *testing.T, state *State, set func(*conf.Controller)) *fixture {
	t.Helper()
	cfg := testConf(t, freeAddrs(t, 1), 0)
	if set != nil {
		set(cfg)
	}
	if state != nil {
		install(t, cfg, state)
	}
	f := start(t, cfg)
	within(t, "it leads", func() bool { return f.Status().Leading && f.isTold() })
	return f
}

// isTold tells whether the overseer has seen that this controller leads.
func (f *fixture) isTold() bool { return !f.led.Load() }

// install writes a state to the disk of a quorum of one.
func install(t *testing.T, cfg *conf.Controller, state *State) {
	t.Helper()
	members, err := parseMembers(cfg.ControllerDLegerPeers)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStorage(cfg.ControllerStorePath)
	if err != nil {
		t.Fatal(err)
	}
	id := raftID(members[0].ID)
	state.quorum.Members[id] = members[0]
	snap := snapshotAt(10, 1, string(state.Snapshot()))
	snap.Metadata.ConfState = &pb.ConfState{Voters: []uint64{id}}
	err = errors.Join(s.setOwner(clusterID(cfg.ControllerDLegerGroup, members), id), s.save(hard(1, 0, 10), snap, nil), s.close())
	if err != nil {
		t.Fatal(err)
	}
}

// quorum starts n controllers and waits until they have a leader.
func quorum(t *testing.T, n int, set func(*conf.Controller)) []*fixture {
	t.Helper()
	addrs := freeAddrs(t, n)
	var all []*fixture
	for i := range addrs {
		cfg := testConf(t, addrs, i)
		if set != nil {
			set(cfg)
		}
		all = append(all, start(t, cfg))
	}
	leaderOf(t, all)
	return all
}

// leaderOf waits for the leader that all of them follow.
func leaderOf(t *testing.T, all []*fixture) (lead *fixture) {
	t.Helper()
	within(t, "a leader", func() bool {
		lead = nil
		for _, f := range all {
			if f.Status().Leading && f.isTold() {
				lead = f
			}
		}
		for _, f := range all {
			if lead == nil || f.Status().Leader.ID != lead.node.Self.ID {
				return false
			}
		}
		return true
	})
	return lead
}

// call sends a request and fails the test if there is no reply.
func (f *fixture) call(rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	r, err := f.client.Call(ctx, f.addr, rc, h, data)
	if err != nil {
		f.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// ok is call for requests that must succeed.
func (f *fixture) ok(rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	r := f.call(rc, h, data)
	if err := r.Err(); err != nil {
		f.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// hear has brokers of a state that was installed live for as long as the test.
func (f *fixture) hear(ids ...int64) {
	f.t.Helper()
	for _, id := range ids {
		f.ok(code.BrokerHeartbeat, &header.BrokerHeartbeatRequest{ClusterName: testCluster, BrokerName: testGroup, BrokerAddr: fmt.Sprintf("10.0.0.%d:10911", id),
			BrokerID: header.Some(id), HeartbeatTimeoutMillis: header.Some(maxTimeout.Milliseconds())}, nil)
	}
}

// extFields are the ext fields of a command.
func extFields(c *remoting.Command) map[string]string {
	out := map[string]string{}
	c.EachExt(func(k, v []byte) bool { out[string(k)] = string(v); return true })
	return out
}

// brokerProcess is a broker as a controller sees one: it heartbeats, and hears of its role.
type brokerProcess struct {
	t       *testing.T
	cluster string
	name    string
	id      int64
	addr    string
	timeout time.Duration // after which its silence counts
	client  *remoting.Client
	srv     *remoting.Server
	run     *lifecycle.Group
	told    chan *header.NotifyBrokerRoleChangedRequest
	bodies  chan []byte
}

func startBroker(t *testing.T) *brokerProcess {
	t.Helper()
	b := &brokerProcess{t: t, cluster: testCluster, name: testGroup, timeout: maxTimeout, client: remoting.NewClient(nil, nil), run: lifecycle.New(context.Background()),
		told: make(chan *header.NotifyBrokerRoleChangedRequest, 64), bodies: make(chan []byte, 64)}
	routes := []remoting.Route{{Code: code.NotifyBrokerRoleChanged, Serve: remoting.On(func(r *remoting.Request, h *header.NotifyBrokerRoleChangedRequest) error {
		own := *h
		b.told <- &own
		b.bodies <- append([]byte(nil), r.Body...)
		return r.OK(nil, nil)
	})}}
	var err error
	if b.srv, err = remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0"}, remoting.NewRouter(zap.NewNop(), routes), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	b.addr = b.srv.Addr().String()
	b.run.Go("broker", b.srv.Run)
	t.Cleanup(b.kill)
	return b
}

// kill ends the process as the kernel does: its sockets are closed.
func (b *brokerProcess) kill() {
	if err := b.run.Stop(); err != nil {
		b.t.Error(err)
	}
	b.client.Close()
}

func (b *brokerProcess) call(f *fixture, rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	r, err := b.client.Call(ctx, f.addr, rc, h, data)
	if err != nil {
		b.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// join goes through a broker's first start: next id, apply, register, heartbeat.
func (b *brokerProcess) join(lead *fixture, extra map[string]string) {
	b.t.Helper()
	var next header.GetNextBrokerIdResponse
	r := b.call(lead, code.ControllerGetNextBrokerID, &header.GetNextBrokerIdRequest{ClusterName: b.cluster, BrokerName: b.name}, nil)
	if err := errors.Join(r.Err(), r.Decode(&next)); err != nil {
		b.t.Fatal(err)
	}
	b.id = next.NextBrokerID
	for _, step := range []struct {
		rc code.Request
		h  header.Appender
	}{
		{code.ControllerApplyBrokerID, &header.ApplyBrokerIdRequest{ClusterName: b.cluster, BrokerName: b.name, AppliedBrokerID: b.id, RegisterCheckCode: b.addr + ";1"}},
		{code.ControllerRegisterBroker, plus{&header.RegisterBrokerToControllerRequest{ClusterName: b.cluster, BrokerName: b.name, BrokerID: b.id, BrokerAddress: b.addr}, extra}},
	} {
		if err := b.call(lead, step.rc, step.h, nil).Err(); err != nil {
			b.t.Fatalf("%s: %v", step.rc, err)
		}
	}
	b.beat(lead)
}

// plus adds ext fields to a header.
type plus struct {
	header.Appender
	more map[string]string
}

func (p plus) AppendFields(w *header.Writer) {
	p.Appender.AppendFields(w)
	for k := range maps.Keys(p.more) {
		w.String(k, p.more[k])
	}
}

// beat sends a heartbeat to each controller.
func (b *brokerProcess) beat(to ...*fixture) {
	b.t.Helper()
	for _, f := range to {
		h := &header.BrokerHeartbeatRequest{ClusterName: b.cluster, BrokerName: b.name, BrokerAddr: b.addr, BrokerID: header.Some(b.id),
			Epoch: header.Some(int32(0)), MaxOffset: header.Some(int64(100)), HeartbeatTimeoutMillis: header.Some(b.timeout.Milliseconds())}
		within(b.t, "the controller knows the broker", func() bool {
			return b.call(f, code.BrokerHeartbeat, h, nil).Err() == nil
		})
	}
}

// fallSilent is a last heartbeat, from which on a second of silence counts.
func (b *brokerProcess) fallSilent(to ...*fixture) {
	b.t.Helper()
	b.timeout = time.Second
	b.beat(to...)
}

// ask is CONTROLLER_ELECT_MASTER by the broker itself.
func (b *brokerProcess) ask(f *fixture) (*remoting.Reply, *header.ElectMasterResponse) {
	b.t.Helper()
	out := new(header.ElectMasterResponse)
	r := b.call(f, code.ControllerElectMaster, &header.ElectMasterRequest{ClusterName: b.cluster, BrokerName: b.name, BrokerID: b.id}, nil)
	if err := r.Decode(out); err != nil {
		b.t.Fatal(err)
	}
	return r, out
}

// raw is a connection whose bytes the test writes itself.
type raw struct {
	t *testing.T
	net.Conn
}

func dial(t *testing.T, addr string) raw {
	t.Helper()
	var d net.Dialer
	nc, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return raw{t, nc}
}

func (c raw) send(frame []byte) {
	c.t.Helper()
	if _, err := c.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next frame, or nil if the peer has closed.
func (c raw) receive() *remoting.Command {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		c.t.Fatal(err)
	}
	return parse(c.t, frame)
}

func parse(t *testing.T, frame []byte) *remoting.Command {
	t.Helper()
	c := new(remoting.Command)
	if err := c.Parse(frame); err != nil {
		t.Fatal(err)
	}
	return c
}
