package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
)

const (
	// raftTick is raft's unit of time; an election begins after 500–1000 ms of a leader's silence.
	raftTick      = 50 * time.Millisecond
	electionTicks = 10
	// heartbeatTicks is how often a leader speaks.
	heartbeatTicks = 2
	// answerTicks is how long a caller waits for a quorum, as in Java (WAIT_TIMEOUT_OUT).
	answerTicks = int(5 * time.Second / raftTick)
	// memberTicks is the time between two looks at the quorum's own membership.
	memberTicks = int(200 * time.Millisecond / raftTick)
	// maxInbox bounds what waits for the node's goroutine; raft messages beyond it are lost, which raft takes.
	maxInbox = 4096

	maxMessage    = 1 << 20 // bytes of entries in one raft message
	snapshotBytes = 64 << 20
)

// Errors of asking the quorum.
var (
	errNotLeader = errors.New("this controller does not lead")
	errBusy      = errors.New("too many requests wait for the quorum")
	errTimeout   = errors.New("the quorum has not answered in time; whether the request was carried out is not known")
)

// nodeConfig is what a node needs.
type nodeConfig struct {
	Self    Member
	Peers   []Member // as configured, with Self
	Group   string
	Pending int // callers that may wait at once
	Store   *storage
	Clock   clock.Clock
	Log     *zap.Logger
	Seed    uint64 // random; tells this run of the process from all others
	Tick    time.Duration
	Compact int // the log is cut after this many entries
	// Send gives a message to the network. It does not block, and may lose it.
	Send func(to uint64, addr string, m *pb.Message)
	// Hello asks another member what it knows of this one.
	Hello func(ctx context.Context, m Member) (greeting, error)
	// Applied is called after each command that this node has proposed, on the node's goroutine.
	Applied func(Result)
	// Led is called there when leadership begins or ends.
	Led func(leading bool)
	// Proposed is called there with the time that a proposal has taken.
	Proposed func(took time.Duration, err error)
}

// Status is what a node knows of the quorum.
type Status struct {
	Role            raft.StateType
	Leader          Member // empty: none is known
	Leading         bool
	Term            uint64
	Commit, Applied uint64
	Members         []Member // in the order of their ids

	handing bool // leadership is being handed over
}

// node is one member of the quorum: one goroutine around raft.RawNode. All of its methods but run may be called from anywhere.
type node struct {
	nodeConfig
	id     uint64
	inbox  chan func()
	up     atomic.Bool // raft runs
	status atomic.Pointer[Status]

	mu    sync.RWMutex // guards state; only run writes
	state *State

	// Below, only run.
	rn       *raft.RawNode
	conf     *pb.ConfState
	seq      uint64
	now      int // ticks since the start
	pending  map[uint64]waiter
	newReads []waiter // for which no read index was asked yet
	reads    map[uint64][]waiter
	settled  []read // whose index is known, and not yet applied
	applied  uint64
	leading  bool
	fresh    int  // entries since the last snapshot
	joining  bool // a Join is on its way
	replayed bool // what the disk held is applied
}

// newNode restores the state from the storage.
func newNode(c nodeConfig) (*node, error) {
	n := &node{nodeConfig: c, id: raftID(c.Self.ID), inbox: make(chan func(), maxInbox), state: NewState(),
		pending: map[uint64]waiter{}, reads: map[uint64][]waiter{}}
	if c.Store.self != 0 && c.Store.self != n.id {
		return nil, fmt.Errorf("controller storage %s: it belongs to another controller than %s", c.Store.path, c.Self.ID)
	}
	snap, err := c.Store.Snapshot()
	if err == nil && !raft.IsEmptySnap(snap) {
		n.state, err = Restore(snap.GetData())
		n.applied, n.conf = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetConfState()
	}
	if err != nil {
		return nil, fmt.Errorf("controller storage %s: %w", c.Store.path, err)
	}
	n.status.Store(&Status{Members: n.members()})
	return n, nil
}

// run takes part in the quorum until ctx ends, or until the storage fails.
func (n *node) run(ctx context.Context) error {
	fresh, err := n.begin(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if n.rn, err = raft.NewRawNode(n.raftConfig()); err != nil {
		return err
	}
	if fresh {
		if err := n.rn.Bootstrap(n.firstMembers()); err != nil {
			return err
		}
	}
	n.Store.present = n.snapshot
	n.up.Store(true)
	defer n.up.Store(false)
	tick := n.Clock.NewTicker(n.Tick)
	defer tick.Stop()
	defer n.failAll(errNotLeader)
	if err := n.settle(); err != nil {
		return err
	}
	n.replayed = true
	n.checkMembers()
	if v := n.conf.GetVoters(); len(v) == 1 && v[0] == n.id {
		_ = n.rn.Campaign() // there is nobody to wait for; if it fails the clock will see to it
	}
	for {
		if err := n.settle(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			n.tick()
		case f := <-n.inbox:
			f()
			for range len(n.inbox) { // whatever waits becomes one batch: one fsync, one read index
				(<-n.inbox)()
			}
		}
		n.askReadIndex()
	}
}

// checkMembers says when the file names other members than there are, which does not change the quorum, and when some members
// would look for others on their own machines.
func (n *node) checkMembers() {
	known := n.state.quorum.Members
	same, local := len(known) == len(n.Peers), 0
	for _, m := range n.Peers {
		same = same && known[raftID(m.ID)].ID == m.ID
		if addr, err := netip.ParseAddrPort(m.Addr); err == nil && addr.Addr().IsLoopback() {
			local++
		}
	}
	if local > 0 && local < len(n.Peers) {
		n.Log.Warn("controllerDLegerPeers holds loopback addresses beside others: brokers and controllers on other machines will not find those members")
	}
	if !same && len(known) > 0 {
		n.Log.Warn("controllerDLegerPeers names other members than the quorum has; to change the quorum give them to the leader (mqadmin updateControllerConfig)",
			zap.Any("members", n.members()))
	}
}

// settle does all that raft asks for.
func (n *node) settle() error {
	for n.rn.HasReady() {
		if err := n.ready(); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) raftConfig() *raft.Config {
	return &raft.Config{
		ID: n.id, ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks, Storage: n.Store, Applied: n.applied,
		MaxSizePerMsg: maxMessage, MaxCommittedSizePerReady: maxMessage, MaxUncommittedEntriesSize: snapshotBytes, MaxInflightMsgs: 256,
		CheckQuorum: true, PreVote: true, ReadOnlyOption: raft.ReadOnlySafe, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: raftLogger{n.Log.Sugar()},
	}
}

func (n *node) firstMembers() []raft.Peer {
	var peers []raft.Peer
	for _, m := range byID(n.Peers) {
		peers = append(peers, raft.Peer{ID: raftID(m.ID), Context: m.context()})
	}
	return peers
}

// post runs f on the node's goroutine, unless too much waits for it.
func (n *node) post(f func()) bool {
	if !n.up.Load() {
		return false
	}
	select {
	case n.inbox <- f:
		return true
	default:
		return false
	}
}

// step takes messages of other members.
func (n *node) step(msgs []*pb.Message) {
	n.post(func() {
		for _, m := range msgs {
			_ = n.rn.Step(m) // refuses what is out of place; the sender's next message sorts it out
		}
	})
}

// view shows the state as this member knows it. f must not keep what it is given but for the groups.
func (n *node) view(f func(s *State)) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	f(n.state)
}

// transfer hands leadership to another member, if this one leads and the other is up to date soon.
func (n *node) transfer(to uint64) {
	n.post(func() {
		if n.leading && to != n.id {
			n.rn.TransferLeader(to)
		}
	})
}

// handOff makes the most advanced other voter the leader, and returns when it is, when there is nobody, or when ctx ends.
func (n *node) handOff(ctx context.Context) {
	begun := make(chan struct{})
	if !n.post(func() { n.abdicate(); n.publish(); close(begun) }) {
		return
	}
	select {
	case <-begun:
	case <-ctx.Done():
		return
	}
	tick := n.Clock.NewTicker(n.Tick / 5)
	defer tick.Stop()
	for st := n.status.Load(); st.Leading && st.handing; st = n.status.Load() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// abdicate begins to hand leadership over, if there is somebody.
func (n *node) abdicate() {
	best, match := uint64(0), uint64(0)
	n.rn.WithProgress(func(id uint64, typ raft.ProgressType, p tracker.Progress) {
		if id != n.id && typ == raft.ProgressTypePeer && p.RecentActive && p.Match > match {
			best, match = id, p.Match
		}
	})
	if n.leading && best != 0 {
		n.rn.TransferLeader(best)
	}
}

// unreachable tells raft that a message was lost.
func (n *node) unreachable(id uint64) {
	n.post(func() { n.rn.ReportUnreachable(id) })
}

// snapshotSent tells raft what became of a snapshot on its way to a member.
func (n *node) snapshotSent(id uint64, ok bool) {
	how := raft.SnapshotFailure
	if ok {
		how = raft.SnapshotFinish
	}
	n.post(func() { n.rn.ReportSnapshot(id, how) })
}

func (n *node) tick() {
	n.now++
	n.rn.Tick()
	for seq, w := range n.pending {
		if n.now >= w.until {
			delete(n.pending, seq)
			n.finish(w, Result{}, errTimeout)
		}
	}
	for seq, ws := range n.reads {
		if n.now >= ws[0].until {
			delete(n.reads, seq)
			fail(ws, errTimeout)
		}
	}
	if n.leading && n.now%memberTicks == 0 {
		n.tendMembers()
	}
}

// tendMembers takes the next step towards the wanted quorum, and records who has joined it.
func (n *node) tendMembers() {
	last, _ := n.Store.LastIndex() // in memory
	match := map[uint64]uint64{}
	n.rn.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
		if id == n.id || p.RecentActive {
			match[id] = p.Match
		}
	})
	for id, m := range match {
		if m > 0 && !n.state.quorum.Joined[id] && !n.joining {
			n.joining = true
			n.start(&Join{ID: id}, waiter{done: func(Result, error) { n.joining = false }, since: n.Clock.Now()})
		}
	}
	const near = 100 // entries that a newcomer may lack when it gets its vote
	switch s := nextStep(n.state.quorum, n.conf, n.id, func(id uint64) bool { return match[id] > 0 && match[id]+near >= last }); {
	case s.change != nil:
		if err := n.rn.ProposeConfChange(s.change); err != nil {
			n.Log.Debug("change of the quorum put off", zap.Error(err))
		}
	case s.leader != 0:
		n.rn.TransferLeader(s.leader)
	}
}

// members returns who belongs to the quorum, with addresses as the configuration gives them if it does.
func (n *node) members() []Member {
	var out []Member
	for id := range n.state.quorum.Members {
		out = append(out, n.member(id))
	}
	if out == nil {
		return byID(n.Peers)
	}
	return byID(out)
}

func (n *node) member(id uint64) Member {
	for _, m := range n.Peers {
		if raftID(m.ID) == id {
			return m
		}
	}
	return n.state.quorum.Members[id]
}

func (n *node) addr(id uint64) string { return n.member(id).Addr }

// raftLogger gives raft's own log lines to zap: what it calls information is of use only when raft itself is in question.
type raftLogger struct{ s *zap.SugaredLogger }

func (l raftLogger) Debug(v ...any)              { l.s.Debug(v...) }
func (l raftLogger) Debugf(f string, v ...any)   { l.s.Debugf(f, v...) }
func (l raftLogger) Info(v ...any)               { l.s.Debug(v...) }
func (l raftLogger) Infof(f string, v ...any)    { l.s.Debugf(f, v...) }
func (l raftLogger) Warning(v ...any)            { l.s.Warn(v...) }
func (l raftLogger) Warningf(f string, v ...any) { l.s.Warnf(f, v...) }
func (l raftLogger) Error(v ...any)              { l.s.Error(v...) }
func (l raftLogger) Errorf(f string, v ...any)   { l.s.Errorf(f, v...) }
func (l raftLogger) Fatal(v ...any)              { l.s.Panic(v...) }
func (l raftLogger) Fatalf(f string, v ...any)   { l.s.Panicf(f, v...) }
func (l raftLogger) Panic(v ...any)              { l.s.Panic(v...) }
func (l raftLogger) Panicf(f string, v ...any)   { l.s.Panicf(f, v...) }
