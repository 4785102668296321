package controller

import (
	"maps"
	"slices"
	"strings"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/remoting/code"
)

const (
	// noMaster is the broker id of nobody; the controller gives ids from 1 on.
	noMaster = 0
	// maxMasterEpoch is the last epoch that is given away: it is an int32 on the wire.
	maxMasterEpoch = 1<<31 - 2
	// maxGroups and maxReplicas bound what registrations can make the quorum keep.
	maxGroups   = 65_536
	maxReplicas = 256
)

// Replica is one broker of a group.
type Replica struct {
	Addr string // host:port of its remoting server
	// CheckCode is what the broker made up when it applied for its id, "address;time": the same code may apply again.
	CheckCode string
	// Inherits says that the broker can be elected with a SyncStateSet of more than itself; see doc.go.
	Inherits bool `json:",omitempty"`
	// MinInSync is the smallest SyncStateSet with which the broker, as a master, acknowledges or confirms anything; 0 where it
	// does not promise that.
	MinInSync int32 `json:",omitempty"`
	// Incarnation tells one life of the broker's process from another; 0 where it does not say. See Starts.
	Incarnation int64 `json:",omitempty"`
	Attempt     int64 `json:",omitempty"` // of this life to register
	// Learner says that the broker never joins the SyncStateSet (asyncLearner).
	Learner bool `json:",omitempty"`
}

// Group is all that the quorum has decided about one broker name. A published Group never changes: State replaces it.
type Group struct {
	Cluster, Name     string
	NextID            int64 // above every id that was ever given
	Replicas          map[int64]Replica
	Master            int64 // noMaster: there is none
	MasterEpoch       int32 // 0: there never was one
	SyncStateSet      []int64
	SyncStateSetEpoch int32
	// Eligible are replicas that left the set when it became too small for anything to be confirmed without them. What was
	// acknowledged they hold, so they can be elected cleanly.
	Eligible []int64 `json:",omitempty"`
	// Doubtful are replicas that were in one of these two until they lost the end of their log, and without which nothing was confirmed
	// since. They count only when nobody is left who has lost nothing.
	Doubtful []int64 `json:",omitempty"`
}

// MasterAddr is the address of the master, or empty.
func (g *Group) MasterAddr() string { return g.Replicas[g.Master].Addr }

// electable are the replicas that may ever be master.
func (g *Group) electable() (ids []int64) {
	for id, r := range g.Replicas {
		if !r.Learner {
			ids = append(ids, id)
		}
	}
	return sorted(ids)
}

// inherits tells whether the group has replicas that can be elected with a set of more than themselves.
func (g *Group) inherits() bool {
	for _, r := range g.Replicas {
		if r.Inherits {
			return true
		}
	}
	return false
}

func (g *Group) clone() *Group {
	c := *g
	c.Replicas = maps.Clone(g.Replicas)
	c.SyncStateSet = slices.Clone(g.SyncStateSet)
	c.Eligible = slices.Clone(g.Eligible)
	c.Doubtful = slices.Clone(g.Doubtful)
	return &c
}

// confirms tells whether a set is large enough for the master to confirm anything.
func (g *Group) confirms(set []int64) bool {
	return g.Master != noMaster && len(set) >= int(g.Replicas[g.Master].MinInSync)
}

// setSyncStateSet replaces the set. Who leaves it while the master cannot confirm anything without him stays eligible.
func (g *Group) setSyncStateSet(set []int64) {
	left := without(g.SyncStateSet, set)
	if g.confirms(set) {
		g.Eligible, g.Doubtful = nil, nil
	} else {
		g.Eligible = without(sorted(append(left, g.Eligible...)), set)
		g.Doubtful = without(g.Doubtful, set)
	}
	g.SyncStateSet = set
	g.SyncStateSetEpoch++
}

// release takes a replica out of those that hold all that was acknowledged, as long as there are others.
func (g *Group) release(id int64) {
	set, eligible := without(g.SyncStateSet, []int64{id}), without(g.Eligible, []int64{id})
	if len(set)+len(eligible) == 0 {
		return
	}
	g.Eligible = eligible
	if len(set) < len(g.SyncStateSet) {
		g.SyncStateSet = set
		g.SyncStateSetEpoch++
	}
}

// distrust takes out a replica that may lack the end of what it had acknowledged. When there is no other one, those that were taken out
// before are as good: whoever has the longest log has most of it.
func (g *Group) distrust(id int64) {
	if !g.trusts(id) {
		return
	}
	if g.release(id); !g.trusts(id) {
		if !g.confirms(g.SyncStateSet) {
			g.Doubtful = sorted(append(g.Doubtful, id))
		}
	} else if len(g.Doubtful) > 0 {
		g.Eligible, g.Doubtful = sorted(append(g.Doubtful, id)), nil
		if len(g.SyncStateSet) > 0 {
			g.SyncStateSet = nil
			g.SyncStateSetEpoch++
		}
	}
}

// trusts tells whether a replica counts as one that holds all that was acknowledged.
func (g *Group) trusts(id int64) bool {
	return slices.Contains(g.SyncStateSet, id) || slices.Contains(g.Eligible, id)
}

// dismiss leaves the group without a master. The epoch rises as in Java: brokers see that something has changed, and ask.
func (g *Group) dismiss() {
	g.Master = noMaster
	g.MasterEpoch = min(g.MasterEpoch+1, maxMasterEpoch)
}

// Member is one controller of the quorum.
type Member struct {
	ID   string // as in controllerDLegerPeers
	Addr string
}

// State is the replicated state: the groups, and who belongs to the quorum. It is pure and not safe for concurrent use.
// Equal commands in equal order give equal states, on every member and in every replay.
type State struct {
	groups map[string]*Group // by broker name
	quorum Quorum
}

// Quorum is what the members have agreed on about themselves.
type Quorum struct {
	Members  map[uint64]Member // by raft id
	Learners []uint64          `json:",omitempty"` // those without a vote
	// Wanted is the quorum that an operator has asked for; empty when that is none but the present one.
	Wanted []Member `json:",omitempty"`
	// Joined are the raft ids that have taken part: their disks are not empty unless something was lost.
	Joined map[uint64]bool
}

// NewState returns the state of a new quorum.
func NewState() *State {
	return &State{groups: map[string]*Group{}, quorum: Quorum{Members: map[uint64]Member{}, Joined: map[uint64]bool{}}}
}

// Group returns a group, or nil.
func (s *State) Group(name string) *Group { return s.groups[name] }

// Names returns the names of all groups in order.
func (s *State) Names() []string { return slices.Sorted(maps.Keys(s.groups)) }

// Result is what a command has come to.
type Result struct {
	// Err is why the command was refused, nil if it was not. MASTER_STILL_EXIST is a refusal too.
	Err *code.Error
	// Group is the group after the command, nil if there is none.
	Group *Group
	// Election is set by an Elect that decided something.
	Election *Election
	// Late: a Register was made before the one that is known, and has changed nothing.
	Late bool
}

func refuse(c code.Response, format string, args ...any) Result {
	return Result{Err: code.New(c, format, args...)}
}

// Command is one entry of the raft log.
type Command interface {
	apply(s *State) Result
}

// Apply executes a command.
func (s *State) Apply(c Command) Result { return c.apply(s) }

// publish makes g the present state of its group.
func (s *State) publish(g *Group) Result {
	s.groups[g.Name] = g
	return Result{Group: g}
}

// ApplyID reserves a broker id, CONTROLLER_APPLY_BROKER_ID. Asking again with the same check code succeeds.
type ApplyID struct {
	Cluster, Name string
	ID            int64
	CheckCode     string
}

func (c *ApplyID) apply(s *State) Result {
	g := s.groups[c.Name]
	switch {
	case g == nil && c.ID != 1:
		return refuse(code.ControllerBrokerIDInvalid, "Broker-set: %s hasn't been registered in controller, but broker try to apply brokerId: %d", c.Name, c.ID)
	case g == nil && len(s.groups) >= maxGroups:
		return refuse(code.ControllerBrokerIDInvalid, "%d broker names are registered, no more are taken", maxGroups)
	case g == nil:
		g = &Group{Cluster: c.Cluster, Name: c.Name, NextID: 1, Replicas: map[int64]Replica{}}
	case g.Cluster != c.Cluster:
		return refuse(code.ControllerBrokerIDInvalid, "broker name %s belongs to cluster %s", c.Name, g.Cluster)
	}
	r, taken := g.Replicas[c.ID]
	switch {
	case taken && r.CheckCode == c.CheckCode:
		return Result{Group: g}
	case taken, c.ID < 1, c.ID > g.NextID:
		return refuse(code.ControllerBrokerIDInvalid, "Fail to apply brokerId: %d in broker-set: %s", c.ID, c.Name)
	case len(g.Replicas) >= maxReplicas:
		return refuse(code.ControllerBrokerIDInvalid, "broker name %s has %d replicas, no more are taken", c.Name, maxReplicas)
	}
	g = g.clone()
	addr, _, _ := strings.Cut(c.CheckCode, ";")
	g.Replicas[c.ID] = Replica{Addr: addr, CheckCode: c.CheckCode}
	g.NextID = max(g.NextID, c.ID+1)
	return s.publish(g)
}

// Register records what a broker says of itself at its start, CONTROLLER_REGISTER_BROKER.
type Register struct {
	Cluster, Name string
	ID            int64
	Addr          string
	Inherits      bool  `json:",omitempty"`
	MinInSync     int32 `json:",omitempty"`
	Incarnation   int64 `json:",omitempty"`
	Attempt       int64 `json:",omitempty"` // rises with each registration of a life
	Learner       bool  `json:",omitempty"`
	// Torn says that the broker may lack the end of what it had acknowledged in its former life.
	Torn bool `json:",omitempty"`
}

// Starts is the upper half of an incarnation, in which a broker counts, on its disk, how often it has started. The lower half is drawn.
func Starts(incarnation int64) int64 { return incarnation >> 32 }

// before tells whether the registration was made before the one that is known: by a former process, or earlier by the same one. It has been on its
// way for long.
func (c *Register) before(r Replica) bool {
	switch c.Incarnation {
	case 0:
		return false
	case r.Incarnation:
		return c.Attempt < r.Attempt
	}
	return Starts(c.Incarnation) < Starts(r.Incarnation)
}

// torn tells whether who starts may lack what it had acknowledged in a former life. Its disk is a copy if it does not know of that one.
func (c *Register) torn(r Replica) bool {
	return c.Incarnation != r.Incarnation && (c.Torn && !bugs.TrustTorn || r.Incarnation != 0 && Starts(c.Incarnation) == Starts(r.Incarnation))
}

func (c *Register) apply(s *State) Result {
	g := s.groups[c.Name]
	if g == nil || g.Cluster != c.Cluster {
		return refuse(code.ControllerBrokerNeedToBeRegistered, "Broker-set: %s hasn't been registered in controller", c.Name)
	}
	r, ok := g.Replicas[c.ID]
	if !ok {
		return refuse(code.ControllerBrokerNeedToBeRegistered, "BrokerId: %d hasn't been registered in broker-set: %s", c.ID, c.Name)
	}
	next := Replica{Addr: c.Addr, CheckCode: r.CheckCode, Inherits: c.Inherits, MinInSync: c.MinInSync, Incarnation: c.Incarnation, Attempt: c.Attempt, Learner: c.Learner}
	if c.before(r) && !bugs.LateRegistration {
		return Result{Group: g, Late: true}
	}
	if next == r {
		return Result{Group: g}
	}
	g = g.clone()
	if c.Learner {
		if g.release(c.ID); g.trusts(c.ID) {
			return refuse(code.ControllerBrokerIDInvalid, "broker %d of %s alone has all that was acknowledged: it cannot become a learner before another replica is in the syncStateSet", c.ID, c.Name)
		}
	}
	g.Replicas[c.ID] = next
	switch {
	case c.ID != g.Master || bugs.ResumeEpoch:
	case r.Incarnation != 0 && next.Incarnation != r.Incarnation:
		g.dismiss() // it has started again, and may lack what it had confirmed: whoever has the longest log is to be elected
	case next.MinInSync != r.MinInSync:
		g.Eligible, g.Doubtful = nil, nil // the master may have confirmed without them
	}
	if c.torn(r) {
		g.distrust(c.ID)
		g.SyncStateSetEpoch++ // a master that knows its former life may have asked for it
	}
	return s.publish(g)
}

// AlterSyncStateSet is a master's wish to change its set, CONTROLLER_ALTER_SYNC_STATE_SET: compare and set on both epochs.
// The checks stand in Java's order (ReplicasInfoManager.alterSyncStateSet), since brokers act on the code.
type AlterSyncStateSet struct {
	Name                string
	Master              int64
	MasterEpoch         int32
	SyncStateSetEpoch   int32
	SyncStateSet, Alive []int64
	// Lives are the incarnations in which members have acknowledged what the master counts, as far as they say.
	Lives map[int64]int64 `json:",omitempty"`
}

func (c *AlterSyncStateSet) apply(s *State) Result {
	const rejecting = "Rejecting alter syncStateSet request because the "
	g := s.groups[c.Name]
	if g == nil {
		return refuse(code.ControllerAlterSyncStateSetFailed, "Broker metadata is not existed")
	}
	set := sorted(c.SyncStateSet)
	switch {
	case slices.Equal(set, g.SyncStateSet):
		return refuse(code.ControllerAlterSyncStateSetFailed, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet")
	case g.Master == noMaster || g.Master != c.Master:
		return refuse(code.ControllerInvalidMaster, rejecting+"current leader is:{%s}, not {%d}", name(g.Master), c.Master)
	case g.MasterEpoch != c.MasterEpoch:
		return refuse(code.ControllerFencedMasterEpoch, rejecting+"current master epoch is:{%d}, not {%d}", g.MasterEpoch, c.MasterEpoch)
	case g.SyncStateSetEpoch != c.SyncStateSetEpoch:
		return refuse(code.ControllerFencedSyncStateSetEpoch, rejecting+"current syncStateSet epoch is:{%d}, not {%d}", g.SyncStateSetEpoch, c.SyncStateSetEpoch)
	}
	for _, id := range set {
		switch r, ok := g.Replicas[id]; {
		case !ok:
			return refuse(code.ControllerInvalidReplicas, rejecting+"replicas {%d} don't exist", id)
		case r.Learner:
			return refuse(code.ControllerInvalidReplicas, rejecting+"replicas {%d} are learners", id)
		}
		if !slices.Contains(c.Alive, id) {
			return refuse(code.ControllerBrokerNotAlive, rejecting+"replicas {%d} don't alive", id)
		}
		life, said := c.Lives[id]
		if now := g.Replicas[id].Incarnation; said && now != life && now != 0 && !slices.Contains(g.SyncStateSet, id) && !bugs.FormerLife {
			return refuse(code.ControllerBrokerNotAlive, rejecting+"replicas {%d} have started again since", id)
		}
	}
	if !slices.Contains(set, g.Master) {
		return refuse(code.ControllerAlterSyncStateSetFailed, rejecting+"newSyncStateSet don't contains origin leader {%d}", g.Master)
	}
	g = g.clone()
	g.setSyncStateSet(set)
	return s.publish(g)
}

// Clean removes replicas, or without IDs the whole group, CLEAN_BROKER_DATA.
type Clean struct {
	Cluster string // empty: any
	Name    string
	IDs     []int64
	Living  bool    // also those that live
	Alive   []int64 // of the group
}

func (c *Clean) apply(s *State) Result {
	g := s.groups[c.Name]
	if g == nil || c.Cluster != "" && g.Cluster != c.Cluster {
		return refuse(code.ControllerInvalidCleanBrokerMetadata, "Broker %s is not existed,clean broker data failure.", c.Name)
	}
	for _, id := range c.IDs {
		if !c.Living && slices.Contains(c.Alive, id) {
			return refuse(code.ControllerInvalidCleanBrokerMetadata, "Broker [%s,  %d] is still alive, clean up failure", c.Name, id)
		}
	}
	if !c.Living && len(c.IDs) == 0 && len(c.Alive) > 0 {
		return refuse(code.ControllerInvalidCleanBrokerMetadata, "Broker %s is still alive, clean up failure", c.Name)
	}
	g = g.clone()
	for _, id := range c.IDs {
		delete(g.Replicas, id)
	}
	if len(c.IDs) == 0 || len(g.Replicas) == 0 {
		delete(s.groups, c.Name)
		return Result{}
	}
	if slices.Contains(c.IDs, g.Master) {
		g.dismiss()
	}
	g.Eligible, g.Doubtful = without(g.Eligible, c.IDs), without(g.Doubtful, c.IDs)
	if set := without(g.SyncStateSet, c.IDs); len(set) < len(g.SyncStateSet) {
		g.SyncStateSet = set
		g.SyncStateSetEpoch++
	}
	return s.publish(g)
}

// WantMembers records the quorum that an operator asks for. The leader then brings it about, one change at a time.
type WantMembers struct{ Members []Member }

func (c *WantMembers) apply(s *State) Result {
	s.quorum.Wanted = c.Members
	return Result{}
}

// Join records that a member has taken part in the quorum.
type Join struct{ ID uint64 }

func (c *Join) apply(s *State) Result {
	s.quorum.Joined[c.ID] = true
	return Result{}
}

// sorted returns the ids in order, each once.
func sorted(ids []int64) []int64 {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}

// without returns the ids that are not in gone; nil if there are none.
func without(ids, gone []int64) (out []int64) {
	for _, id := range ids {
		if !slices.Contains(gone, id) {
			out = append(out, id)
		}
	}
	return out
}
