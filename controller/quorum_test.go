package controller

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
)

// mesh is a quorum in this process, on disks of its own and with a network that can be cut.
type mesh struct {
	t     *testing.T
	peers []Member
	dirs  map[string]string
	seed  atomic.Uint64

	mu    sync.Mutex
	nodes map[string]*meshNode
	cut   map[string]bool // members that neither send nor receive
}

type meshNode struct {
	*node
	g *lifecycle.Group
}

func newMesh(t *testing.T, ids ...string) *mesh {
	m := &mesh{t: t, dirs: map[string]string{}, nodes: map[string]*meshNode{}, cut: map[string]bool{}}
	for _, id := range ids {
		m.peers = append(m.peers, Member{id, id + ":1"})
	}
	t.Cleanup(func() {
		for id := range m.nodes {
			m.kill(id)
		}
	})
	return m
}

func (m *mesh) find(raft uint64) (string, *node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, n := range m.nodes {
		if raftID(id) == raft && !m.cut[id] {
			return id, n.node
		}
	}
	return "", nil
}

// start starts a member on its disk, with the given peers or those of the mesh.
func (m *mesh) start(id string, peers ...Member) *node {
	m.t.Helper()
	if m.dirs[id] == "" {
		m.dirs[id] = m.t.TempDir()
	}
	if peers == nil {
		peers = m.peers
	}
	store, err := openStorage(m.dirs[id])
	if err != nil {
		m.t.Fatal(err)
	}
	store.keep = 5
	cfg := nodeConfig{Self: Member{id, id + ":1"}, Peers: peers, Group: "g", Pending: 100, Store: store, Clock: clock.Real{}, Log: zap.NewNop(),
		Seed: m.seed.Add(1), Tick: raftTick / 2, Compact: 20}
	cfg.Send = func(to uint64, _ string, msg *pb.Message) {
		m.mu.Lock()
		off := m.cut[id]
		m.mu.Unlock()
		data, err := proto.Marshal(msg)
		if _, n := m.find(to); n != nil && !off && err == nil {
			copied := new(pb.Message)
			if proto.Unmarshal(data, copied) == nil {
				n.step([]*pb.Message{copied})
			}
		}
	}
	cfg.Hello = func(_ context.Context, peer Member) (greeting, error) {
		if _, n := m.find(raftID(peer.ID)); n != nil {
			return n.greet(raftID(id)), nil
		}
		return greeting{}, errors.New("nobody there")
	}
	n, err := newNode(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go(id, n.run)
	m.mu.Lock()
	m.nodes[id] = &meshNode{n, g}
	m.mu.Unlock()
	return n
}

// kill stops a member without a goodbye and returns why it ended, if by itself.
func (m *mesh) kill(id string) error {
	m.mu.Lock()
	n := m.nodes[id]
	delete(m.nodes, id)
	m.mu.Unlock()
	err := n.g.Stop()
	if cerr := n.Store.close(); cerr != nil {
		m.t.Error(cerr)
	}
	return err
}

func (m *mesh) setCut(id string, off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut[id] = off
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(8 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// leader waits for one that all members but the excluded follow.
func (m *mesh) leader(except ...string) *node {
	m.t.Helper()
	var lead *node
	within(m.t, "a leader", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		lead = nil
		for id, n := range m.nodes {
			if n.status.Load().Leading && !m.cut[id] {
				lead = n.node
			}
		}
		for id, n := range m.nodes {
			if lead == nil || !m.cut[id] && n.status.Load().Leader != lead.Self {
				return false
			}
		}
		for _, id := range except {
			if lead.Self.ID == id {
				return false
			}
		}
		return true
	})
	return lead
}

// do proposes a command and waits for what comes of it.
func do(t *testing.T, n *node, c Command) (Result, error) {
	t.Helper()
	type outcome struct {
		res Result
		err error
	}
	ch := make(chan outcome, 1)
	n.propose(c, func(res Result, err error) { ch <- outcome{res, err} })
	select {
	case o := <-ch:
		return o.res, o.err
	case <-time.After(10 * time.Second):
		t.Fatal("a caller was forgotten")
		return Result{}, nil
	}
}

func must(t *testing.T, n *node, c Command) Result {
	t.Helper()
	res, err := do(t, n, c)
	if err != nil || res.Err != nil {
		t.Fatalf("%T: %v %v", c, err, res.Err)
	}
	return res
}

func readAt(t *testing.T, n *node) error {
	t.Helper()
	ch := make(chan error, 1)
	n.read(func(err error) { ch <- err })
	select {
	case err := <-ch:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("a reader was forgotten")
		return nil
	}
}

func groupAt(n *node, name string) (g *Group) {
	n.view(func(s *State) { g = s.Group(name) })
	return g
}

func applyN(i int) *ApplyID {
	return &ApplyID{Cluster: testCluster, Name: fmt.Sprintf("group-%d", i), ID: 1, CheckCode: "a:1;1"}
}

func TestQuorumSurvivesItsLeader(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	old := m.leader()
	must(t, old, applyN(1))
	if err := readAt(t, old); err != nil {
		t.Fatal(err)
	}
	m.kill(old.Self.ID) //nolint:errcheck // it was running
	next := m.leader()
	if err := readAt(t, next); err != nil || groupAt(next, "group-1") == nil {
		t.Fatalf("%v; group-1 is %v", err, groupAt(next, "group-1"))
	}
	must(t, next, applyN(2))
	back := m.start(old.Self.ID)
	within(t, "the old leader has caught up", func() bool { return groupAt(back, "group-2") != nil })
	for _, n := range m.nodes {
		if !n.status.Load().Leading {
			if _, err := do(t, n.node, applyN(3)); !errors.Is(err, errNotLeader) {
				t.Errorf("a follower took a command: %v", err)
			}
			if err := readAt(t, n.node); !errors.Is(err, errNotLeader) {
				t.Errorf("a follower answered: %v", err)
			}
		}
	}
}

func TestQuorumRestartsFromItsDisks(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	lead := m.leader()
	for i := range 50 { // more than one snapshot
		must(t, lead, applyN(i))
	}
	for _, p := range m.peers {
		if err := m.kill(p.ID); err != nil {
			t.Error(err)
		}
	}
	m.start("n0")
	m.start("n2")
	lead = m.leader()
	if err := readAt(t, lead); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if groupAt(lead, applyN(i).Name) == nil {
			t.Fatalf("group %d is lost", i)
		}
	}
}

// TestLostQuorumRefuses: nothing is half done, and a leader cut off from the others neither decides nor answers.
func TestLostQuorumRefuses(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	old := m.leader()
	must(t, old, applyN(1))
	m.setCut(old.Self.ID, true)
	written := make(chan error, 1)
	old.propose(applyN(2), func(_ Result, err error) { written <- err })
	if err := readAt(t, old); err == nil {
		t.Error("a leader without a quorum answered")
	}
	if err := <-written; err == nil {
		t.Error("a leader without a quorum decided")
	}
	next := m.leader(old.Self.ID)
	must(t, next, applyN(3))
	within(t, "the old leader gives up", func() bool { return !old.status.Load().Leading })
	m.setCut(old.Self.ID, false)
	within(t, "the old leader has caught up", func() bool { return groupAt(old, "group-3") != nil })
	if groupAt(old, "group-2") != nil || groupAt(next, "group-2") != nil {
		t.Error("what was refused was done")
	}
	if lead := m.leader(); lead.status.Load().Term != next.status.Load().Term {
		t.Error("the return of a member unseated the leader")
	}
}

func TestLateMemberGetsASnapshot(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	late := ""
	lead := m.leader()
	for _, p := range m.peers {
		if p.ID != lead.Self.ID {
			late = p.ID
		}
	}
	m.kill(late) //nolint:errcheck // it was running
	for i := range 60 {
		must(t, lead, applyN(i))
	}
	n := m.start(late)
	within(t, "the late member has caught up", func() bool { return groupAt(n, "group-59") != nil })
	if first, _ := n.Store.FirstIndex(); first < 20 {
		t.Errorf("its log begins at %d: it got entries and no snapshot", first)
	}
	must(t, m.leader(), applyN(60))
	if err := m.kill(late); err != nil {
		t.Error(err)
	}
	n = m.start(late)
	within(t, "it knows everything after a restart", func() bool { return groupAt(n, "group-60") != nil && groupAt(n, "group-0") != nil })
}

// TestMembersAreReplaced replaces one member by another while commands go on.
func TestMembersAreReplaced(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	lead := m.leader()
	for i := range 30 {
		must(t, lead, applyN(i))
	}
	gone := m.peers[0]
	if gone.ID == lead.Self.ID {
		gone = m.peers[1]
	}
	var wanted []Member
	for _, p := range append(m.peers, Member{"n3", "n3:1"}) {
		if p.ID != gone.ID {
			wanted = append(wanted, p)
		}
	}
	newcomer := m.start("n3", wanted...)
	m.kill(gone.ID) //nolint:errcheck // it was running
	must(t, lead, &WantMembers{wanted})
	within(t, "the newcomer is a member in the place of the one that is gone", func() bool {
		got := newcomer.status.Load().Members
		return len(got) == 3 && newcomer.status.Load().Leader.ID != "" && fmt.Sprint(got) == fmt.Sprint(byID(wanted))
	})
	must(t, m.leader(), applyN(30))
	within(t, "the newcomer knows everything", func() bool { return groupAt(newcomer, "group-30") != nil && groupAt(newcomer, "group-0") != nil })
	within(t, "it is known to have joined", func() bool {
		joined := false
		newcomer.view(func(s *State) { joined = s.quorum.Joined[raftID("n3")] && len(s.quorum.Learners) == 0 })
		return joined
	})
}

// TestLeaderCanBeRemoved: it hands over first.
func TestLeaderCanBeRemoved(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	old := m.leader()
	var wanted []Member
	for _, p := range m.peers {
		if p != old.Self {
			wanted = append(wanted, p)
		}
	}
	must(t, old, &WantMembers{wanted})
	within(t, "a quorum of the two others", func() bool {
		for _, p := range wanted {
			m.mu.Lock()
			st := m.nodes[p.ID].status.Load()
			m.mu.Unlock()
			if st.Leading {
				return fmt.Sprint(st.Members) == fmt.Sprint(byID(wanted))
			}
		}
		return false
	})
	m.kill(old.Self.ID) //nolint:errcheck // it was running
	must(t, m.leader(), applyN(1))
}

// TestMemberWithoutItsLogIsRefused: it may have acknowledged what nobody else has.
func TestMemberWithoutItsLogIsRefused(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	lead := m.leader()
	lost := m.peers[0]
	if lost == lead.Self {
		lost = m.peers[1]
	}
	within(t, "all have joined", func() bool {
		n := 0
		lead.view(func(s *State) { n = len(s.quorum.Joined) })
		return n == 3
	})
	m.kill(lost.ID) //nolint:errcheck // it was running
	if err := os.Remove(filepath.Join(m.dirs[lost.ID], storageFile)); err != nil {
		t.Fatal(err)
	}
	n := m.start(lost.ID)
	m.mu.Lock()
	g := m.nodes[lost.ID].g
	m.mu.Unlock()
	<-g.Context().Done()
	if err := m.kill(lost.ID); !errors.Is(err, ErrLostLog) {
		t.Errorf("got %v, want ErrLostLog", err)
	}
	if n.up.Load() {
		t.Error("it took part")
	}
	must(t, lead, applyN(1))
}

func TestLeadershipIsHandedOver(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	old := m.leader()
	ctx, cancel := context.WithTimeout(t.Context(), handOffTime)
	defer cancel()
	old.handOff(ctx)
	if old.status.Load().Leading || ctx.Err() != nil {
		t.Error("leadership was not handed over in time")
	}
	next := m.leader(old.Self.ID)
	next.transfer(old.id)
	within(t, "leadership is back", func() bool { return old.status.Load().Leading })
}

func TestQuorumOfOne(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0")
	must(t, func() *node { m.start("n0"); return m.leader() }(), applyN(1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	m.leader().handOff(ctx) // to nobody, at once
	if ctx.Err() != nil {
		t.Error("waited for a successor that there cannot be")
	}
	m.kill("n0") //nolint:errcheck // it was running
	m.start("n0")
	n := m.leader()
	if err := readAt(t, n); err != nil || groupAt(n, "group-1") == nil {
		t.Errorf("%v, %v", err, groupAt(n, "group-1"))
	}
}

// TestCallersAreBounded: more than the limit are told so, and none is forgotten.
func TestCallersAreBounded(t *testing.T) {
	t.Parallel()
	m := newMesh(t, "n0", "n1", "n2")
	for _, p := range m.peers {
		m.start(p.ID)
	}
	const callers = 2000
	for range 10 {
		lead := m.leader()
		var done, busy, failed atomic.Int64
		for i := range callers {
			lead.propose(applyN(i), func(_ Result, err error) {
				switch {
				case err == nil:
					done.Add(1)
				case errors.Is(err, errBusy):
					busy.Add(1)
				default:
					failed.Add(1)
				}
			})
		}
		within(t, "every caller has an answer", func() bool { return done.Load()+busy.Load()+failed.Load() == callers })
		if failed.Load() > 0 {
			continue // a busy machine has unseated the leader
		}
		if done.Load() < int64(lead.Pending)/2 || busy.Load() == 0 {
			t.Errorf("%d done, %d busy", done.Load(), busy.Load())
		}
		return
	}
	t.Error("no leader serves 2,000 callers to the end")
}
