package member

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestThreeBrokersJoin(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 3)
	r, master, others := trio(t, c.addrs)
	ids := []int64{master.ID(), others[0].ID(), others[1].ID()}
	slices.Sort(ids)
	if !slices.Equal(ids, []int64{1, 2, 3}) || !slices.Equal(r.SyncStateSet, ids) || r.Epoch != 1 || r.MasterAddr != master.cfg.Addr {
		t.Errorf("ids %v, role %+v", ids, r)
	}
	for _, p := range append(others, master) {
		p.mu.Lock()
		for i, r := range p.roles {
			if i > 0 && !r.newer(p.roles[i-1]) {
				t.Errorf("after %+v came %+v", p.roles[i-1], r)
			}
		}
		p.mu.Unlock()
		if p.MinInSync() != 2 {
			t.Errorf("promised %d", p.MinInSync())
		}
	}
}

func TestSetIsAltered(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	r, master, others := trio(t, c.addrs)
	old := Role{Epoch: r.Epoch, SetEpoch: r.SetEpoch - 1}
	if got, err := master.alter(old, r.SyncStateSet...); err != nil || got.SetEpoch != r.SetEpoch {
		t.Errorf("asked again for what is in force, as when the first answer was lost: %+v, %v", got, err)
	}
	if _, err := master.alter(old, master.ID()); !errors.Is(err, ErrFencedSetEpoch) {
		t.Errorf("older set epoch: %v", err)
	}
	if _, err := master.alter(Role{Epoch: r.Epoch - 1, SetEpoch: r.SetEpoch}, master.ID()); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("older epoch: %v", err)
	}
	if _, err := others[0].alter(r, others[0].ID()); !errors.Is(err, ErrFencedEpoch) {
		t.Errorf("not the master: %v", err)
	}
	var refused *code.Error
	if _, err := master.alter(r, master.ID(), 9); !errors.As(err, &refused) || refused.Code != code.ControllerInvalidReplicas {
		t.Errorf("unknown replica: %v", err)
	}
	if _, err := master.alter(r, others[0].ID()); !errors.As(err, &refused) || refused.Code != code.ControllerAlterSyncStateSetFailed {
		t.Errorf("without the master: %v", err)
	}
	smaller, err := master.alter(r, master.ID(), others[0].ID())
	if err != nil || smaller.SetEpoch != r.SetEpoch+1 {
		t.Fatalf("%+v, %v", smaller, err)
	}
	within(t, "all are told", func() bool { // by their next question
		return master.told().SetEpoch == smaller.SetEpoch && others[1].told().SetEpoch == smaller.SetEpoch
	})
	others[1].kill()
	within(t, "a dead replica is refused", func() bool {
		larger, err := master.alter(smaller, r.SyncStateSet...)
		if err == nil { // the controllers have not seen it die
			if smaller, err = master.alter(larger, smaller.SyncStateSet...); err != nil {
				t.Fatal(err)
			}
		}
		return errors.Is(err, ErrNotAlive)
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() //nolint:errcheck // a test's
	master.quorum.lead(silent.Addr().String())
	if _, err := master.alter(smaller, r.SyncStateSet...); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotAlive) {
		t.Errorf("refused after an attempt that was not answered, and may be carried out yet: %v", err)
	}
	c.stop(0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := master.AlterSyncStateSet(ctx, smaller.Epoch, smaller.SetEpoch, []int64{master.ID()}, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("without controllers: %v", err)
	}
}

// TestControllerLeaderDies: roles stay, and the set can be changed soon.
func TestControllerLeaderDies(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 3)
	r, master, others := trio(t, c.addrs)
	c.stop(c.leader())
	start := time.Now()
	smaller, err := master.alter(r, master.ID(), others[0].ID())
	if took := time.Since(start); err != nil || took > 2*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	all := append(others, master)
	within(t, "all are told", func() bool {
		return !slices.ContainsFunc(all, func(p *peer) bool { return p.told().SetEpoch != smaller.SetEpoch })
	})
	if now := agree(t, 0, all...); now.Epoch != r.Epoch {
		t.Errorf("%+v after %+v", now, r)
	}
}

// TestMasterDies: killed, and silent.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*peer){"killed": (*peer).kill, "silent": (*peer).hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startControllers(t, 3)
			r, master, others := trio(t, c.addrs)
			within(t, "the leader may take silent brokers for dead", func() bool { return time.Since(c.since) > 2500*time.Millisecond })
			start := time.Now()
			end(master)
			now := agree(t, r.Epoch, others...)
			t.Logf("%s: told after %v", name, time.Since(start))
			if now.Epoch != r.Epoch+1 || now.Master == r.Master || len(now.SyncStateSet) != 2 {
				t.Errorf("%+v after %+v", now, r)
			}
			back := startPeer(t, c.addrs, master.fs)
			if got := agree(t, r.Epoch, append(others, back)...); got.Master != now.Master || back.ID() != r.Master {
				t.Errorf("back as %d under %+v", back.ID(), got)
			}
		})
	}
}

func TestIdentityIsKept(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	first := startPeer(t, c.addrs, nil)
	agree(t, 0, first)
	first.kill()
	again := startPeer(t, c.addrs, first.fs)
	agree(t, 0, again)
	if again.ID() != 1 {
		t.Errorf("the id is %d after a restart", again.ID())
	}
	if err := first.fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	again.kill()
	lost := startPeer(t, c.addrs, first.fs)
	within(t, "it has a new id", func() bool { return lost.ID() == 2 })
}

// TestAnswerToApplicationLost: who starts with an application of its own gets what it has applied for.
func TestAnswerToApplicationLost(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	fs := vfs.NewMem(clock.Real{})
	write(t, fs, path+"-temp", "C#broker-a#1#127.0.0.1:1;5")
	p := startPeer(t, c.addrs, fs)
	agree(t, 0, p)
	write(t, fs, path+"-temp", "C#broker-a#1#127.0.0.1:1;5")
	if err := fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.kill()
	again := startPeer(t, c.addrs, fs)
	agree(t, 0, again)
	rivalFS := vfs.NewMem(clock.Real{})
	write(t, rivalFS, path+"-temp", "C#broker-a#1#127.0.0.1:2;5")
	rival := startPeer(t, c.addrs, rivalFS)
	within(t, "a rival gets another id", func() bool { return rival.ID() == 2 })
	if again.ID() != 1 {
		t.Errorf("the id is %d", again.ID())
	}
}

// TestControllersLoseTheirData: the broker keeps its id, and its role until there is one in a later epoch.
func TestControllersLoseTheirData(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	p := startPeer(t, c.addrs, nil)
	r := agree(t, 0, p)
	p.mu.Lock()
	p.vitals.Epoch = 7 // from a life before
	p.mu.Unlock()
	c.stop(0)
	c.dirs[0] = t.TempDir()
	c.start(0)
	within(t, "the controllers know the broker", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := p.client.Call(ctx, c.addrs[0], code.BrokerHeartbeat, p.heartbeat(), nil)
		return err == nil && r.Err() == nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	h := &header.ElectMasterRequest{ClusterName: "C", BrokerName: "broker-a", BrokerID: 1, DesignateElect: true}
	if reply, err := p.client.Call(ctx, c.addrs[0], code.ControllerElectMaster, h, nil); err != nil || reply.Err() != nil {
		t.Fatalf("an operator's election: %v, %v", reply, err)
	}
	if now := agree(t, r.Epoch, p); now.Epoch != 8 || p.ID() != 1 {
		t.Errorf("role %+v, id %d", now, p.ID())
	}
}

func TestPromiseIsRenewed(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	p := startPeer(t, c.addrs, nil)
	agree(t, 0, p)
	p.least.Store(1)
	within(t, "the controllers know of the smaller minimum", func() bool { return p.MinInSync() == 1 })
}

// TestDisown: who says that he is about to drop what he had acknowledged leaves the set, and can come back.
func TestDisown(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 1)
	r, master, others := trio(t, c.addrs)
	p := others[0]
	p.torn.Store(true)
	p.Disown()
	within(t, "the controllers know", func() bool { return !p.torn.Load() && !slices.Contains(p.told().SyncStateSet, p.ID()) })
	within(t, "the master knows", func() bool { return master.told().SetEpoch == p.told().SetEpoch })
	if got := master.told(); got.Epoch != r.Epoch || got.Master != master.ID() {
		t.Fatalf("another role: %+v", got)
	}
	if _, err := master.alter(r, master.ID()); !errors.Is(err, ErrFencedSetEpoch) {
		t.Errorf("a wish from before: %v", err)
	}
	again, err := master.alter(master.told(), r.SyncStateSet...)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "it is told that it is back", func() bool { return p.told().SetEpoch == again.SetEpoch })
}

// TestHungControllers: two of five take connections and never answer, one address is of nobody.
func TestHungControllers(t *testing.T) {
	t.Parallel()
	c := startControllers(t, 3)
	addrs := append(freeAddrs(t, 1), c.addrs...)
	for range 2 {
		addrs = append([]string{mute(t)}, addrs...)
	}
	start := time.Now()
	r, master, others := trio(t, addrs)
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("a start took %v", took)
	}
	start = time.Now()
	others[0].kill()
	if _, err := master.alter(r, master.ID(), others[1].ID()); err != nil || time.Since(start) > time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	within(t, "the brokers have lived longer than their timeout", func() bool { return time.Since(start) > 1500*time.Millisecond })
	if now := agree(t, 0, master, others[1]); now.Epoch != r.Epoch {
		t.Errorf("%+v: a master whose heartbeats to two controllers hang was taken for dead", now)
	}
}

func TestNotifications(t *testing.T) {
	log := &peer{vitals: Vitals{Epoch: 3}}
	m := New(Config{Cluster: "C", Name: "b", Controllers: func() []string { return nil }}, nil, log, nil, clock.Real{}, zap.NewNop())
	set := []int64{1, 2}
	m.Notified(5, 5, 2, "b:1", set)
	if m.known().Epoch != 0 {
		t.Error("believed before the broker has an id")
	}
	m.id.Store(1)
	m.Notified(5, 5, 1, "a:1", set)
	if m.known().Epoch != 0 {
		t.Error("believed before this life has asked: it can be the mastership of the former one")
	}
	m.asked.Store(true)
	for _, tc := range []struct {
		name            string
		epoch, setEpoch int32
		master          int64
		addr            string
		want            int32 // epoch
		asks            bool
	}{
		{"below the log", 2, 2, 2, "b:1", 0, true},
		{"first", 5, 5, 2, "b:1", 5, true},
		{"twice", 5, 5, 2, "b:1", 5, false},
		{"late", 4, 9, 1, "a:1", 5, false},
		{"newer set", 5, 6, 2, "b:1", 5, true},
		{"impossible", 9, 9, -1, "b:1", 5, false},
		{"no master", 6, 6, 0, "", 6, true},
	} {
		m.Notified(tc.epoch, tc.setEpoch, tc.master, tc.addr, set)
		asks := false
		select {
		case <-m.wake:
			asks = true
		default:
		}
		if got := m.known(); got.Epoch != tc.want || asks != tc.asks || got.SetEpoch > 6 {
			t.Errorf("%s: %+v, asks %v", tc.name, got, asks)
		}
	}
}

// TestRefusedStarts: what only an operator can put right.
func TestRefusedStarts(t *testing.T) {
	for name, edit := range map[string]func(c *Config, fs vfs.FS){
		"name":     func(c *Config, _ vfs.FS) { c.Name = "a#b" },
		"cluster":  func(c *Config, _ vfs.FS) { c.Cluster = "" },
		"identity": func(_ *Config, fs vfs.FS) { write(t, fs, path, "D#broker-a#1") },
		"temp":     func(_ *Config, fs vfs.FS) { write(t, fs, path+"-temp", "rubbish") },
	} {
		fs := vfs.NewMem(clock.Real{})
		cfg := Config{Cluster: "C", Name: "broker-a", Addr: "a:1", IdentityFile: path, Controllers: func() []string { return nil }}
		edit(&cfg, fs)
		cl := remoting.NewClient(nil, nil)
		if err := New(cfg, cl, nil, fs, clock.Real{}, zap.NewNop()).Run(t.Context()); err == nil {
			t.Errorf("%s: it runs", name)
		}
		cl.Close()
	}
}
