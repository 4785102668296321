package member

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of these tests wait for a clock
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait")) // they serve the process
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(8 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// nextPort goes round, so that no address is given twice while this process runs.
var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32N(10000)) }

// freeAddrs are addresses that nobody listens on, below the range from which outgoing connections take theirs.
func freeAddrs(t *testing.T, n int) (out []string) {
	t.Helper()
	var lc net.ListenConfig
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+nextPort.Add(1)%10000)
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

// controllers are a quorum in this process.
type controllers struct {
	t     *testing.T
	addrs []string
	dirs  []string
	nodes []*controller.Server
	runs  []*lifecycle.Group
	since time.Time // when one of them leads
}

func startControllers(t *testing.T, n int) *controllers {
	t.Helper()
	c := &controllers{t: t, addrs: freeAddrs(t, n), nodes: make([]*controller.Server, n), runs: make([]*lifecycle.Group, n)}
	for i := range n {
		c.dirs = append(c.dirs, t.TempDir())
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range n {
			c.stop(i)
		}
	})
	c.leader()
	c.since = time.Now()
	return c
}

func (c *controllers) start(i int) {
	c.t.Helper()
	var peers []string
	for k, addr := range c.addrs {
		peers = append(peers, fmt.Sprintf("n%d-%s", k, addr))
	}
	cfg := conf.Default[conf.Controller]()
	cfg.BindAddress, cfg.ControllerDLegerGroup = "127.0.0.1", "group1"
	cfg.ControllerDLegerPeers, cfg.ControllerDLegerSelfId = strings.Join(peers, ";"), fmt.Sprintf("n%d", i)
	cfg.ControllerStorePath, cfg.ConfigStorePath = filepath.Join(c.dirs[i], "DLedgerController"), "/controller.properties"
	s, err := controller.New(cfg, controller.Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.NewMem(clock.Real{})})
	if err != nil {
		c.t.Fatal(err)
	}
	c.nodes[i], c.runs[i] = s, lifecycle.New(context.Background())
	c.runs[i].Go("controller", s.Run)
}

// stop ends a controller; stopping it again does nothing.
func (c *controllers) stop(i int) {
	if err := c.runs[i].Stop(); err != nil {
		c.t.Error(err)
	}
}

// leader waits for the one that leads.
func (c *controllers) leader() (lead int) {
	c.t.Helper()
	within(c.t, "a controller leads", func() bool {
		lead = slices.IndexFunc(c.nodes, func(s *controller.Server) bool { return s.Status().Leading })
		return lead >= 0
	})
	return lead
}

// peer is a broker with a member, and nothing else.
type peer struct {
	*Member
	t      *testing.T
	cfg    Config
	fs     vfs.FS
	client *remoting.Client
	served *lifecycle.Group
	run    *lifecycle.Group
	least  atomic.Int32
	torn   atomic.Bool

	mu     sync.Mutex
	roles  []Role
	vitals Vitals
}

func (p *peer) Vitals() Vitals {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.vitals
}

func (p *peer) SetRole(r Role) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.roles = append(p.roles, r)
}

// told returns the last role.
func (p *peer) told() (last Role) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.roles); n > 0 {
		last = p.roles[n-1]
	}
	return last
}

// startPeer starts a broker, on the disk of another one if fs is not nil.
func startPeer(t *testing.T, addrs []string, fs vfs.FS) *peer {
	t.Helper()
	if fs == nil {
		fs = vfs.NewMem(clock.Real{})
	}
	p := &peer{t: t, fs: fs, client: remoting.NewClient(nil, nil), served: lifecycle.New(context.Background()), run: lifecycle.New(context.Background()),
		vitals: Vitals{Epoch: -1, Healthy: true}}
	p.least.Store(2)
	routes := []remoting.Route{{Code: code.NotifyBrokerRoleChanged, Serve: remoting.On(func(r *remoting.Request, h *header.NotifyBrokerRoleChangedRequest) error {
		var set body.SyncStateSet
		if err := fastjson.Unmarshal(r.Body, &set); err != nil {
			return err
		}
		p.Notified(h.MasterEpoch.Or(0), h.SyncStateSetEpoch.Or(0), h.MasterBrokerID.Or(0), strings.Clone(h.MasterAddress), set.SyncStateSet)
		return r.OK(nil, nil)
	})}}
	srv, err := remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0"}, remoting.NewRouter(zap.NewNop(), routes), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	p.cfg = Config{
		Cluster: "C", Name: "broker-a", Addr: srv.Addr().String(), IdentityFile: path, Controllers: func() []string { return addrs },
		MinInSync: p.least.Load, Priority: func() int32 { return 1 }, HeartbeatTimeout: 800 * time.Millisecond, AskPeriod: 5 * time.Second,
		Torn: p.torn.Load, Mended: func() { p.torn.Store(false) },
	}
	p.Member = New(p.cfg, p.client, p, fs, clock.Real{}, zap.NewNop())
	p.served.Go("server", srv.Run)
	p.run.Go("member", p.Run)
	t.Cleanup(p.kill)
	return p
}

// hang makes the broker silent; its connections stay.
func (p *peer) hang() {
	if err := p.run.Stop(); err != nil {
		p.t.Error(err)
	}
}

// kill ends the process as the kernel does: its sockets are closed.
func (p *peer) kill() {
	if err := p.served.Stop(); err != nil {
		p.t.Error(err)
	}
	p.client.Close()
	p.hang()
}

// agree waits until all know one master in an epoch above after, and returns their role.
func agree(t *testing.T, after int32, peers ...*peer) (r Role) {
	t.Helper()
	within(t, "all agree on a master", func() bool {
		r = peers[0].told()
		for _, p := range peers {
			if got := p.told(); got.Master == 0 || got.Epoch <= after || got.Epoch != r.Epoch || got.SetEpoch != r.SetEpoch {
				return false
			}
		}
		return true
	})
	for _, p := range peers {
		if got := p.told(); got.Master != r.Master || got.MasterAddr != r.MasterAddr || !slices.Equal(got.SyncStateSet, r.SyncStateSet) {
			t.Errorf("%+v and %+v in one epoch", got, r)
		}
	}
	return r
}

// withID returns the one that has the id, and the others.
func withID(id int64, peers ...*peer) (one *peer, others []*peer) {
	for _, p := range peers {
		if p.ID() == id {
			one = p
		} else {
			others = append(others, p)
		}
	}
	return one, others
}

// trio starts three brokers that agree, with all of them in sync.
func trio(t *testing.T, addrs []string) (r Role, master *peer, others []*peer) {
	t.Helper()
	all := []*peer{startPeer(t, addrs, nil), startPeer(t, addrs, nil), startPeer(t, addrs, nil)}
	r = agree(t, 0, all...)
	master, others = withID(r.Master, all...)
	ids := []int64{all[0].ID(), all[1].ID(), all[2].ID()}
	within(t, "the set can grow", func() bool { // once all controllers have heard all brokers
		var err error
		r, err = master.alter(r, ids...)
		return err == nil
	})
	agree(t, 0, all...)
	return r, master, others
}

func (p *peer) alter(r Role, set ...int64) (Role, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 4*time.Second)
	defer cancel()
	return p.AlterSyncStateSet(ctx, r.Epoch, r.SetEpoch, set, nil)
}
