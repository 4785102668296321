package controller

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// machine applies random commands to two states, one of which goes through snapshots and the log's encoding, and checks the
// invariants of the package after each.
type machine struct {
	s, twin *State
	before  map[string]*Group
	masters map[office]int64 // who was master
}

// office is mastership of one epoch.
type office struct {
	group string
	epoch int32
}

func (m *machine) ids(t *rapid.T) []int64 {
	return rapid.SliceOfNDistinct(rapid.Int64Range(1, 5), 0, 5, rapid.ID).Draw(t, "ids")
}

func (m *machine) command(t *rapid.T) Command {
	group := rapid.SampledFrom([]string{"broker-a", "broker-b"}).Draw(t, "group")
	id := rapid.Int64Range(0, 5).Draw(t, "id")
	g := m.s.Group(group)
	if g == nil {
		g = &Group{}
	}
	near := func(v int32) int32 { return v + int32(max(0, rapid.IntRange(-1, 5).Draw(t, "off")-4)) } // mostly right
	switch rapid.IntRange(0, 9).Draw(t, "command") {
	case 0, 1:
		return &ApplyID{Cluster: testCluster, Name: group, ID: max(g.NextID, 1) - id/4, CheckCode: fmt.Sprint("a:", id)}
	case 2:
		return &Register{Cluster: testCluster, Name: group, ID: id, Addr: fmt.Sprint("a:", id), Inherits: rapid.Bool().Draw(t, "inherits"),
			MinInSync: rapid.Int32Range(0, 3).Draw(t, "min")}
	case 3, 4, 5:
		set := append(m.ids(t), g.Master)
		return &AlterSyncStateSet{Name: group, Master: g.Master, MasterEpoch: near(g.MasterEpoch), SyncStateSetEpoch: near(g.SyncStateSetEpoch),
			SyncStateSet: set, Alive: []int64{1, 2, 3, 4, 5}}
	case 6:
		return &Clean{Name: group, IDs: m.ids(t)[:0], Living: true, Alive: m.ids(t)}
	case 7:
		return &Clean{Name: group, IDs: append(m.ids(t), id), Living: rapid.Bool().Draw(t, "living"), Alive: m.ids(t)}
	default:
		e := &Elect{Name: group, Trigger: rapid.SampledFrom([]Trigger{ByController, ByBroker, ByOperator}).Draw(t, "trigger"), Broker: id,
			MasterEpoch: near(g.MasterEpoch), Alive: map[int64]Vitals{}, KnownEpoch: rapid.Int32Range(-1, 50).Draw(t, "known"),
			Unclean: rapid.IntRange(0, 3).Draw(t, "unclean") == 0}
		for _, id := range m.ids(t) {
			e.Alive[id] = Vitals{Epoch: rapid.Int32Range(-1, 3).Draw(t, "epoch"), MaxOffset: rapid.Int64Range(-1, 3).Draw(t, "offset")}
		}
		return e
	}
}

func (m *machine) step(t *rapid.T) {
	c := m.command(t)
	_, copied, err := decodeCommand(encodeCommand(ticket{1, 2}, c))
	if err != nil {
		t.Fatal(err)
	}
	res, twin := m.s.Apply(c), m.twin.Apply(copied)
	if diff := cmp.Diff(res, twin); diff != "" {
		t.Fatalf("two members came to different results (-one +other):\n%s", diff)
	}
	if e, ok := c.(*Elect); ok && res.Election != nil {
		m.checkElection(t, e, res)
	}
	m.check(t, res)
}

// checkElection: I3, and that one who is named is elected or nobody.
func (m *machine) checkElection(t *rapid.T, e *Elect, res Result) {
	old := m.before[e.Name]
	if res.Election.Outcome != NewMaster {
		if res.Group.Master != noMaster && res.Group.Master != old.Master {
			t.Fatalf("%s, and another master", res.Election.Outcome)
		}
		return
	}
	winner := res.Group.Master
	if _, alive := e.Alive[winner]; !alive {
		t.Fatalf("%d was elected and is dead", winner)
	}
	if e.Trigger == ByOperator && e.Broker != noMaster && winner != e.Broker {
		t.Fatalf("%d was elected when %d was named", winner, e.Broker)
	}
	clean := slices.Contains(old.SyncStateSet, winner) || slices.Contains(old.Eligible, winner)
	lives := slices.ContainsFunc(slices.Concat(old.SyncStateSet, old.Eligible), func(id int64) bool { _, ok := e.Alive[id]; return ok })
	if old.MasterEpoch > 0 && !clean && (!e.Unclean || lives) {
		t.Fatalf("%d was elected from outside of %v and %v", winner, old.SyncStateSet, old.Eligible)
	}
	if len(without(res.Group.SyncStateSet, append(old.SyncStateSet, winner))) > 0 {
		t.Fatalf("an election put somebody into the set: %v after %v", res.Group.SyncStateSet, old.SyncStateSet)
	}
	if !res.Group.Replicas[winner].Inherits && len(res.Group.SyncStateSet) != 1 {
		t.Fatalf("%d cannot start with %v", winner, res.Group.SyncStateSet)
	}
}

// check: I1, I2 and I5, and that refusals change nothing.
func (m *machine) check(t *rapid.T, res Result) {
	for name, g := range m.s.groups {
		old := m.before[name]
		if old != nil && old.NextID > g.NextID || old != nil && old.Cluster != g.Cluster {
			t.Fatalf("%s: next id %d after %d", name, g.NextID, old.NextID)
		}
		if old != nil && (g.MasterEpoch < old.MasterEpoch || g.Master != old.Master && g.MasterEpoch == old.MasterEpoch) {
			t.Fatalf("%s: master %d of epoch %d after %d of %d", name, g.Master, g.MasterEpoch, old.Master, old.MasterEpoch)
		}
		if old != nil && (g.SyncStateSetEpoch < old.SyncStateSetEpoch || !slices.Equal(g.SyncStateSet, old.SyncStateSet) && g.SyncStateSetEpoch == old.SyncStateSetEpoch) {
			t.Fatalf("%s: set %v of epoch %d after %v of %d", name, g.SyncStateSet, g.SyncStateSetEpoch, old.SyncStateSet, old.SyncStateSetEpoch)
		}
		for _, id := range slices.Concat(g.SyncStateSet, g.Eligible) {
			if _, ok := g.Replicas[id]; !ok {
				t.Fatalf("%s: %d is in a set and not registered", name, id)
			}
		}
		if g.Master != noMaster && !slices.Contains(g.SyncStateSet, g.Master) || !slices.IsSorted(g.SyncStateSet) {
			t.Fatalf("%s: master %d, set %v", name, g.Master, g.SyncStateSet)
		}
		for id := range g.Replicas {
			if id < 1 || id >= g.NextID {
				t.Fatalf("%s: replica %d and next id %d", name, id, g.NextID)
			}
		}
		if g.Master != noMaster {
			o := office{name, g.MasterEpoch}
			if was, ok := m.masters[o]; ok && was != g.Master {
				t.Fatalf("%s: two masters of epoch %d: %d and %d", name, g.MasterEpoch, was, g.Master)
			}
			m.masters[o] = g.Master
		}
	}
	maps.DeleteFunc(m.masters, func(o office, _ int64) bool { return m.s.groups[o.group] == nil }) // a cleaned group begins anew
	refused := res.Err != nil && (res.Election == nil || res.Election.OldMaster == noMaster || res.Group.Master != noMaster)
	if refused && !maps.Equal(m.before, m.s.groups) {
		t.Fatalf("refused with %v, and yet something changed", res.Err)
	}
	m.before = maps.Clone(m.s.groups)
}

func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{s: NewState(), twin: NewState(), before: map[string]*Group{}, masters: map[office]int64{}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			m.step(t)
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				var err error
				if m.twin, err = Restore(m.twin.Snapshot()); err != nil {
					t.Fatal(err)
				}
			}
		}
		if string(m.s.Snapshot()) != string(m.twin.Snapshot()) {
			t.Fatal("two members came to different states")
		}
	})
}
