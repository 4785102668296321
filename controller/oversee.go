package controller

import "time"

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
