package controller

import (
	"fmt"
	"slices"
	"time"
)

// Plan returns the elections that are due: those of groups whose master is gone, if a replica could take over or if the loss
// is not recorded yet. It looks at what is and not at what has happened, so nothing that was missed or failed stays undone.
// A group that never had a master waits for its brokers to ask.
func Plan(s *State, l *Liveness, now time.Time, unclean bool) []*Elect {
	var out []*Elect
	for _, name := range s.Names() {
		g := s.Group(name)
		if g.MasterEpoch == 0 || g.Master != noMaster && !l.Dead(Broker{name, g.Master}, now) {
			continue
		}
		e := Ballot(g, l, now)
		e.Trigger, e.MasterEpoch, e.Unclean, e.Reason = ByController, g.MasterEpoch, unclean, "there is no master"
		if g.Master != noMaster {
			e.Reason = l.Why(Broker{name, g.Master}, now)
		}
		if winner, _ := e.choose(g); winner != noMaster || g.Master != noMaster {
			out = append(out, e)
		}
	}
	return out
}

// reliefAfter is how long a master may be sick before another replica takes its place, although there are enough others: those who have just come
// back may be what it lacks.
const reliefAfter = 300 * time.Millisecond

// recess is the time after a relief in which the master that it has brought is left alone. It doubles as long as one relief follows the other, so that
// a group none of whose members can confirm anything does not change its master all the time.
type recess struct {
	from time.Time
	time.Duration
	epoch int32 // of the master that was replaced
}

const (
	firstRecess   = 500 * time.Millisecond
	longestRecess = 10 * time.Second
	// calm is how long after a recess nothing must have happened for the next relief to count as the first one.
	calm = 2 * time.Second
)

// follows tells whether there was no other election since the relief, until the master of an epoch is to be replaced.
func (r recess) follows(epoch int32) bool { return epoch <= r.epoch+1 }

func (r recess) over(epoch int32, now time.Time) bool {
	return !r.follows(epoch) || now.Sub(r.from) >= r.Duration
}

// next is the recess after the relief, now, of the master of an epoch.
func (r recess) next(epoch int32, now time.Time) recess {
	if !r.follows(epoch) || now.Sub(r.from) > 2*r.Duration+calm {
		return recess{now, firstRecess, epoch}
	}
	return recess{now, min(2*r.Duration, longestRecess), epoch}
}

// Relief returns the elections by which healthy replicas that have all that was acknowledged take the place of masters that live and are sick, where
// enough others are healthy, too, for anything to be confirmed without the master: they need not be in sync yet.
func Relief(s *State, l *Liveness, now time.Time) []*Elect {
	var out []*Elect
	for _, name := range s.Names() {
		g := s.Group(name)
		if g.Master == noMaster || l.SickFor(Broker{name, g.Master}, now) < reliefAfter {
			continue
		}
		e := Ballot(g, l, now)
		others := slices.DeleteFunc(without(g.electable(), []int64{g.Master}), func(id int64) bool {
			v, alive := e.Alive[id]
			return !alive || v.Sick || l.back(Broker{name, id}, now)
		})
		best := e.best(slices.DeleteFunc(slices.Clone(others), func(id int64) bool { return !g.trusts(id) }), noMaster)
		if best == noMaster || len(others) < int(g.Replicas[best].MinInSync) {
			continue
		}
		e.Trigger, e.Broker, e.MasterEpoch, e.Reason = ByOperator, best, g.MasterEpoch, fmt.Sprintf("master %d is sick: its disk is full or hangs, its log is damaged, or its replicas do not confirm what it takes", g.Master)
		out = append(out, e)
	}
	return out
}

// Ballot returns an election of the group with what is known of its replicas.
func Ballot(g *Group, l *Liveness, now time.Time) *Elect {
	e := &Elect{Cluster: g.Cluster, Name: g.Name, Alive: map[int64]Vitals{}}
	for id := range g.Replicas {
		b := Broker{g.Name, id}
		v := l.Known(b)
		if l.Alive(b, now) {
			e.Alive[id] = v
		}
		e.KnownEpoch = max(e.KnownEpoch, v.Epoch)
	}
	return e
}

// Living returns the replicas of a group that are not known to be dead.
func Living(g *Group, l *Liveness, now time.Time) (ids []int64) {
	if g == nil {
		return nil
	}
	for id := range g.Replicas {
		if !l.Dead(Broker{g.Name, id}, now) {
			ids = append(ids, id)
		}
	}
	return sorted(ids)
}
