package controller

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/remoting/code"
)

// Vitals are what a broker last said of its log.
type Vitals struct {
	Epoch     int32 // the last master epoch in its log; -1: none
	MaxOffset int64 // the end of its log
	Priority  int32 // the smaller number is preferred
	// Sick: the broker's disk is full or hangs, its log is damaged or does not reach its state yet, or it is a master whose replicas do not confirm what it takes.
	// Whoever is not goes before it.
	Sick bool `json:",omitempty"`
}

// unheard are the vitals of a broker that lives but has not spoken of its log yet.
var unheard = Vitals{Epoch: -1, MaxOffset: -1, Priority: 1<<31 - 1}

// Trigger says who wants an election.
type Trigger string

// The three triggers.
const (
	ByController Trigger = "controller" // the master is gone
	ByBroker     Trigger = "broker"     // a broker asks who is master and would be it
	ByOperator   Trigger = "operator"   // a broker was named
)

// Elect settles who is master of a group. It carries all that the leader knew when it asked, so that every member comes to the
// same decision.
type Elect struct {
	Cluster, Name string
	Trigger       Trigger
	Broker        int64 // who asks, or who was named
	// MasterEpoch is the epoch whose master is to be replaced, 0 for any; a command that comes too late changes nothing.
	MasterEpoch int32
	Alive       map[int64]Vitals
	KnownEpoch  int32 // the largest epoch that any replica, alive or not, has reported
	Unclean     bool  // a replica that may lack acknowledged messages can be elected when no other lives
	Reason      string
}

// Basis says why a replica may become master.
type Basis string

// The bases, from the best to the worst.
const (
	InSync   Basis = "in the SyncStateSet"
	FromELR  Basis = "left the SyncStateSet after the last message that could be confirmed"
	First    Basis = "first master of the group"
	FromRest Basis = "unclean: acknowledged messages may be lost"
)

// Election is the outcome of an Elect, for the log and the metrics.
type Election struct {
	Trigger   Trigger
	Reason    string
	Outcome   string // one of the election_result labels of Java's ControllerMetricsConstant
	OldMaster int64
	Basis     Basis // of the new master
}

// The outcomes.
const (
	NewMaster  = "new_master_elected"
	KeepMaster = "keep_current_master"
	NoMaster   = "no_master_elected"
)

func (c *Elect) apply(s *State) Result {
	g := s.groups[c.Name]
	if g == nil || c.Cluster != "" && g.Cluster != c.Cluster {
		return refuse(code.ControllerBrokerNeedToBeRegistered, "Broker hasn't been registered")
	}
	if _, known := g.Replicas[c.Broker]; c.Trigger == ByBroker && !known {
		return refuse(code.ControllerBrokerNeedToBeRegistered, "Broker hasn't been registered")
	}
	if c.MasterEpoch != 0 && c.MasterEpoch != g.MasterEpoch {
		return Result{Group: g} // somebody else has elected meanwhile
	}
	e := &Election{Trigger: c.Trigger, Reason: c.Reason, OldMaster: g.Master}
	winner, basis := c.choose(g)
	epoch := max(g.MasterEpoch, c.KnownEpoch)
	switch {
	case winner != noMaster && winner == g.Master:
		e.Outcome = KeepMaster
		return Result{Group: g, Election: e, Err: code.New(code.ControllerMasterStillExist,
			"The old master %d is still alive, not need to elect new master for broker %s", g.Master, g.Name)}
	case winner != noMaster && epoch < maxMasterEpoch:
		e.Outcome, e.Basis = NewMaster, basis
		g = c.crown(g.clone(), winner, basis, epoch+1)
		s.groups[g.Name] = g
		return Result{Group: g, Election: e}
	}
	e.Outcome = NoMaster
	if c.Trigger != ByController || g.Master == noMaster {
		return Result{Group: g, Election: e, Err: code.New(code.ControllerElectMasterFailed, "Failed to elect a new master")}
	}
	g = g.clone()
	g.dismiss()
	s.groups[g.Name] = g
	return Result{Group: g, Election: e, Err: code.New(code.ControllerMasterNotAvailable, "Old master has down and failed to elect a new broker master")}
}

// crown makes winner the master. Who was in sync, lives and is well stays in sync, unless the winner cannot start with such a set or
// its log may be another one than theirs.
func (c *Elect) crown(g *Group, winner int64, basis Basis, epoch int32) *Group {
	set := []int64{winner}
	if g.Replicas[winner].Inherits && (basis == InSync || basis == FromELR) {
		for _, id := range g.SyncStateSet {
			if v, alive := c.Alive[id]; alive && !v.Sick {
				set = append(set, id)
			}
		}
	}
	g.Master, g.MasterEpoch = winner, epoch
	if bugs.SameEpoch {
		g.MasterEpoch = max(1, epoch-1)
	}
	g.setSyncStateSet(sorted(set))
	if basis == FromRest || basis == First {
		g.Eligible, g.Doubtful = nil, nil // their logs may end differently
	}
	return g
}

// tier are replicas that may become master for the same reason.
type tier struct {
	ids   []int64
	basis Basis
}

// choose returns the replica that shall be master: the present one if it lives and no other is named, else the best of the
// best kind of replica of which one lives. Java: DefaultElectPolicy.
func (c *Elect) choose(g *Group) (winner int64, basis Basis) {
	named := int64(noMaster)
	if c.Trigger == ByOperator {
		named = c.Broker
	}
	if g.MasterEpoch == 0 {
		return c.best(g.electable(), named), First
	}
	tiers := []tier{{g.SyncStateSet, InSync}, {g.Eligible, FromELR}}
	if bugs.ElectAnybody {
		return c.best(slices.Collect(maps.Keys(g.Replicas)), named), InSync
	}
	for _, t := range tiers {
		if named != noMaster && c.best(t.ids, named) != noMaster {
			return named, t.basis
		}
	}
	if c.Unclean {
		tiers = append(tiers, tier{g.electable(), FromRest})
	}
	for _, t := range tiers {
		if c.best(t.ids, noMaster) == noMaster {
			continue
		}
		if _, alive := c.Alive[g.Master]; alive && named == noMaster && slices.Contains(t.ids, g.Master) {
			return g.Master, t.basis
		}
		return c.best(t.ids, named), t.basis
	}
	return noMaster, ""
}

// best returns the living replica that is not sick, with the highest epoch, then the longest log, then the smallest priority number; of equals
// the one that asks, then the one with the smallest id. Named, it can only be that one.
func (c *Elect) best(ids []int64, named int64) int64 {
	winner := int64(noMaster)
	for _, id := range ids {
		v, alive := c.Alive[id]
		if !alive || named != noMaster && id != named {
			continue
		}
		w := c.Alive[winner]
		if winner == noMaster || cmp.Or(
			cmp.Compare(healthy(w), healthy(v)), cmp.Compare(w.Epoch, v.Epoch), cmp.Compare(w.MaxOffset, v.MaxOffset), cmp.Compare(v.Priority, w.Priority),
			cmp.Compare(c.rank(id), c.rank(winner)), cmp.Compare(id, winner)) < 0 {
			winner = id
		}
	}
	return winner
}

func healthy(v Vitals) int {
	if v.Sick {
		return 0
	}
	return 1
}

// rank puts the broker that asks before the others.
func (c *Elect) rank(id int64) int {
	if c.Trigger == ByBroker && id == c.Broker {
		return 0
	}
	return 1
}

// name writes an id as Java writes one that may be null.
func name(id int64) string {
	if id == noMaster {
		return "null"
	}
	return strconv.FormatInt(id, 10)
}
