package controller

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/code"
)

const (
	testCluster = "C"
	testGroup   = "broker-a"
)

// register gives ids 1 to n of the group.
func register(t testing.TB, s *State, n int) {
	t.Helper()
	for id := int64(1); id <= int64(n); id++ {
		addr := "10.0.0." + name(id) + ":10911"
		mustApply(t, s, &ApplyID{Cluster: testCluster, Name: testGroup, ID: id, CheckCode: addr + ";17"})
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id, Addr: addr})
	}
}

func mustApply(t testing.TB, s *State, c Command) Result {
	t.Helper()
	res := s.Apply(c)
	if res.Err != nil {
		t.Fatalf("%T: %v", c, res.Err)
	}
	return res
}

// three is a group of three with 1 as master and all in sync: epoch 1, epoch of the set 2.
func three(t testing.TB) *State {
	t.Helper()
	s := NewState()
	register(t, s, 3)
	mustApply(t, s, byBroker(1, 1, 2, 3))
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: 1, SyncStateSetEpoch: 1, SyncStateSet: []int64{1, 2, 3}, Alive: []int64{1, 2, 3}})
	return s
}

// lone is the same with only 1 in sync.
func lone(t testing.TB) *State {
	t.Helper()
	s := NewState()
	register(t, s, 3)
	mustApply(t, s, byBroker(1, 1, 2, 3))
	return s
}

func vitals(ids ...int64) map[int64]Vitals {
	out := map[int64]Vitals{}
	for _, id := range ids {
		out[id] = Vitals{Epoch: 1, MaxOffset: 100, Priority: math.MaxInt32}
	}
	return out
}

func byBroker(id int64, alive ...int64) *Elect {
	return &Elect{Name: testGroup, Trigger: ByBroker, Broker: id, Alive: vitals(alive...)}
}

func byOperator(id int64, alive ...int64) *Elect {
	return &Elect{Name: testGroup, Trigger: ByOperator, Broker: id, Alive: vitals(alive...)}
}

func byController(epoch int32, alive ...int64) *Elect {
	return &Elect{Name: testGroup, Trigger: ByController, MasterEpoch: epoch, Alive: vitals(alive...)}
}

func with(e *Elect, edit func(e *Elect)) *Elect {
	edit(e)
	return e
}

// TestElections are the scenarios of Java's ReplicasInfoManagerTest and DLedgerControllerTest.
func TestElections(t *testing.T) {
	type want struct {
		code     code.Response
		master   int64
		epoch    int32
		set      []int64
		setEpoch int32
	}
	unclean := func(e *Elect) { e.Unclean = true }
	cases := []struct {
		name  string
		state func(testing.TB) *State
		steps []*Elect // of which the last one counts
		want  want
	}{
		{"another asks while the master lives", three, []*Elect{byBroker(2, 1, 2, 3)}, want{code.ControllerMasterStillExist, 1, 1, []int64{1, 2, 3}, 2}},
		{"the master asks again", three, []*Elect{byBroker(1, 1, 2, 3)}, want{code.ControllerMasterStillExist, 1, 1, []int64{1, 2, 3}, 2}},
		{"only 3 lives and asks", three, []*Elect{byBroker(3, 3)}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"an unknown broker asks", three, []*Elect{byBroker(9, 1, 2, 3)}, want{code.ControllerBrokerNeedToBeRegistered, 1, 1, []int64{1, 2, 3}, 2}},
		{"the controller asks while the master lives", three, []*Elect{byController(1, 1, 2, 3)}, want{code.ControllerMasterStillExist, 1, 1, []int64{1, 2, 3}, 2}},
		{"the higher epoch wins over the longer log", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) {
			e.Alive = map[int64]Vitals{2: {Epoch: 1, MaxOffset: 100}, 3: {Epoch: 0, MaxOffset: 200}}
		})}, want{code.Success, 2, 2, []int64{2}, 3}},
		{"the longer log wins", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) {
			e.Alive = map[int64]Vitals{2: {Epoch: 1, MaxOffset: 100}, 3: {Epoch: 1, MaxOffset: 200}}
		})}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"the longer log wins by more than an int holds", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) {
			e.Alive = map[int64]Vitals{2: {Epoch: 1, MaxOffset: 0}, 3: {Epoch: 1, MaxOffset: 3 << 30}}
		})}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"the smaller priority number wins", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) {
			e.Alive = map[int64]Vitals{2: {Epoch: 1, MaxOffset: 100, Priority: 2}, 3: {Epoch: 1, MaxOffset: 100, Priority: 1}}
		})}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"of equals the smaller id wins", three, []*Elect{byController(1, 2, 3)}, want{code.Success, 2, 2, []int64{2}, 3}},
		{"of equals the one that asks wins", three, []*Elect{byBroker(3, 2, 3)}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"an operator names a dead broker", three, []*Elect{byOperator(1, 2, 3)}, want{code.ControllerElectMasterFailed, 1, 1, []int64{1, 2, 3}, 2}},
		{"an operator names the living master", three, []*Elect{byOperator(1, 1, 2, 3)}, want{code.ControllerMasterStillExist, 1, 1, []int64{1, 2, 3}, 2}},
		{"an operator names a living slave", three, []*Elect{byOperator(3, 1, 2, 3)}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"an operator names an unknown broker", three, []*Elect{byOperator(9, 1, 2, 3)}, want{code.ControllerElectMasterFailed, 1, 1, []int64{1, 2, 3}, 2}},
		{"the old master is named when the new one is dead", three, []*Elect{
			byOperator(2, 1, 2, 3), with(byOperator(1, 1, 3), unclean),
		}, want{code.Success, 1, 3, []int64{1}, 4}},
		{"an operator cannot name one that lags while others live, not even uncleanly", lone, []*Elect{
			with(byOperator(2, 1, 2, 3), unclean),
		}, want{code.ControllerElectMasterFailed, 1, 1, []int64{1}, 1}},
		{"nobody in sync lives", lone, []*Elect{byController(1, 2, 3)}, want{code.ControllerMasterNotAvailable, noMaster, 2, []int64{1}, 1}},
		{"then one that lags asks", lone, []*Elect{byController(1, 2, 3), byBroker(2, 2, 3)}, want{code.ControllerElectMasterFailed, noMaster, 2, []int64{1}, 1}},
		{"then the old master is back", lone, []*Elect{byController(1, 2, 3), byBroker(1, 1, 2, 3)}, want{code.Success, 1, 3, []int64{1}, 2}},
		{"nobody in sync lives, and unclean elections are allowed", lone, []*Elect{with(byController(1, 2, 3), unclean)}, want{code.Success, 2, 2, []int64{2}, 2}},
		{"a command that comes too late", three, []*Elect{byBroker(3, 3), byController(1, 1, 2)}, want{code.Success, 3, 2, []int64{3}, 3}},
		{"replicas have seen a higher epoch", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) { e.KnownEpoch = 40 })}, want{code.Success, 2, 41, []int64{2}, 3}},
		{"no epoch is left", three, []*Elect{with(byController(1, 2, 3), func(e *Elect) { e.KnownEpoch = maxMasterEpoch })}, want{code.ControllerMasterNotAvailable, noMaster, 2, []int64{1, 2, 3}, 2}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := tc.state(t)
			var res Result
			for _, e := range tc.steps {
				res = s.Apply(e)
			}
			g := s.Group(testGroup)
			got := want{code.Success, g.Master, g.MasterEpoch, g.SyncStateSet, g.SyncStateSetEpoch}
			if res.Err != nil {
				got.code = res.Err.Code
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(want{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.code == code.ControllerMasterStillExist && res.Group != g {
				t.Error("the answer does not carry the master")
			}
		})
	}
}

func TestFirstElection(t *testing.T) {
	s := NewState()
	register(t, s, 3)
	if res := s.Apply(byOperator(2)); res.Err == nil || res.Err.Code != code.ControllerElectMasterFailed {
		t.Errorf("a dead broker was named: %v", res.Err)
	}
	longest := byBroker(1, 1, 2)
	longest.Alive[2] = Vitals{Epoch: 4, MaxOffset: 1 << 40}
	longest.KnownEpoch = 4
	g := mustApply(t, s, longest).Group
	if g.Master != 2 || g.MasterEpoch != 5 || !slices.Equal(g.SyncStateSet, []int64{2}) || g.SyncStateSetEpoch != 1 {
		t.Errorf("not the longest log of those that live: %+v", g)
	}
}

// TestIDs are those of Java's tests: next id, apply, register.
func TestIDs(t *testing.T) {
	apply := func(cluster string, id int64, check string) *ApplyID {
		return &ApplyID{Cluster: cluster, Name: testGroup, ID: id, CheckCode: check}
	}
	s := NewState()
	steps := []struct {
		c    Command
		want code.Response
	}{
		{apply(testCluster, 5, "a:1;9"), code.ControllerBrokerIDInvalid}, // the first id is 1
		{apply(testCluster, 1, "a:1;9"), code.Success},
		{apply(testCluster, 1, "a:1;9"), code.Success},                   // the answer was lost
		{apply(testCluster, 1, "b:1;9"), code.ControllerBrokerIDInvalid}, // taken
		{apply("other", 2, "b:1;9"), code.ControllerBrokerIDInvalid},
		{apply(testCluster, 0, "b:1;9"), code.ControllerBrokerIDInvalid},
		{apply(testCluster, -4, "b:1;9"), code.ControllerBrokerIDInvalid},
		{apply(testCluster, 7, "b:1;9"), code.ControllerBrokerIDInvalid},
		{apply(testCluster, math.MaxInt64, "b:1;9"), code.ControllerBrokerIDInvalid},
		{apply(testCluster, 2, "b:1;9"), code.Success},
		{&Register{Cluster: testCluster, Name: testGroup, ID: 2, Addr: "b:2"}, code.Success},
		{&Register{Cluster: testCluster, Name: testGroup, ID: 3, Addr: "b:2"}, code.ControllerBrokerNeedToBeRegistered},
		{&Register{Cluster: "other", Name: testGroup, ID: 2, Addr: "b:2"}, code.ControllerBrokerNeedToBeRegistered},
		{&Register{Cluster: testCluster, Name: "nobody", ID: 2, Addr: "b:2"}, code.ControllerBrokerNeedToBeRegistered},
	}
	for i, step := range steps {
		got := code.Success
		if res := s.Apply(step.c); res.Err != nil {
			got = res.Err.Code
		}
		if got != step.want {
			t.Errorf("step %d: got %d, want %d", i, got, step.want)
		}
	}
	want := map[int64]Replica{1: {Addr: "a:1", CheckCode: "a:1;9"}, 2: {Addr: "b:2", CheckCode: "b:1;9"}}
	if diff := cmp.Diff(want, s.Group(testGroup).Replicas); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	mustApply(t, s, &Clean{Name: testGroup, IDs: []int64{2}})
	for range 2 { // and one that comes with a cleaned id may have it again, which gives no other away
		if next := s.Group(testGroup).NextID; next != 3 {
			t.Errorf("next is %d", next)
		}
		mustApply(t, s, apply(testCluster, 2, "b:1;9"))
	}
}

// TestAlterSyncStateSet has the checks in Java's order.
func TestAlterSyncStateSet(t *testing.T) {
	base := AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: 1, SyncStateSetEpoch: 2, SyncStateSet: []int64{1, 2}, Alive: []int64{1, 2, 3}}
	cases := []struct {
		name string
		edit func(c *AlterSyncStateSet)
		want code.Response
	}{
		{"right", func(*AlterSyncStateSet) {}, code.Success},
		{"twice the same id", func(c *AlterSyncStateSet) { c.SyncStateSet = []int64{2, 1, 2} }, code.Success},
		{"unknown group", func(c *AlterSyncStateSet) { c.Name = "nobody" }, code.ControllerAlterSyncStateSetFailed},
		{"nothing new", func(c *AlterSyncStateSet) { c.SyncStateSet = []int64{3, 2, 1} }, code.ControllerAlterSyncStateSetFailed},
		{"not the master", func(c *AlterSyncStateSet) { c.Master = 2 }, code.ControllerInvalidMaster},
		{"old epoch", func(c *AlterSyncStateSet) { c.MasterEpoch = 0 }, code.ControllerFencedMasterEpoch},
		{"old epoch of the set", func(c *AlterSyncStateSet) { c.SyncStateSetEpoch = 1 }, code.ControllerFencedSyncStateSetEpoch},
		{"unknown replica", func(c *AlterSyncStateSet) { c.SyncStateSet = []int64{1, 77} }, code.ControllerInvalidReplicas},
		{"dead replica", func(c *AlterSyncStateSet) { c.Alive = []int64{1, 3} }, code.ControllerBrokerNotAlive},
		{"without the master", func(c *AlterSyncStateSet) { c.SyncStateSet = []int64{2} }, code.ControllerAlterSyncStateSetFailed},
		{"empty", func(c *AlterSyncStateSet) { c.SyncStateSet = nil }, code.ControllerAlterSyncStateSetFailed},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, c := three(t), base
			tc.edit(&c)
			res := s.Apply(&c)
			g, want := s.Group(testGroup), []int64{1, 2, 3}
			switch {
			case tc.want == code.Success && res.Err != nil, tc.want != code.Success && (res.Err == nil || res.Err.Code != tc.want):
				t.Fatalf("got %v, want %d", res.Err, tc.want)
			case tc.want == code.Success:
				want = []int64{1, 2}
			}
			if !slices.Equal(g.SyncStateSet, want) || g.SyncStateSetEpoch != int32(2+3-len(want)) {
				t.Errorf("set %v of epoch %d", g.SyncStateSet, g.SyncStateSetEpoch)
			}
		})
	}
	s := lone(t)
	s.Apply(byController(1, 2))
	if res := s.Apply(&AlterSyncStateSet{Name: testGroup, SyncStateSetEpoch: 1, MasterEpoch: 2}); res.Err == nil || res.Err.Code != code.ControllerInvalidMaster {
		t.Errorf("a set was changed without a master: %v", res.Err)
	}
}

// TestFormerLife: what a replica has acknowledged before it started again does not bring it into the set; it may have lost that since (KIP-903).
func TestFormerLife(t *testing.T) {
	s := three(t)
	register := func(life int64, torn bool) {
		t.Helper()
		r := s.Group(testGroup).Replicas[2]
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: 2, Addr: r.Addr, Incarnation: life << 32, Torn: torn})
	}
	join := func(life int64) Result {
		g := s.Group(testGroup)
		return s.Apply(&AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch, SyncStateSet: []int64{1, 2, 3},
			Alive: []int64{1, 2, 3}, Lives: map[int64]int64{2: life << 32}})
	}
	register(10, false)
	register(11, true)
	if set := s.Group(testGroup).SyncStateSet; slices.Contains(set, 2) {
		t.Fatal("who has lost what it had is in the set", set)
	}
	if r := join(10); r.Err == nil || r.Err.Code != code.ControllerBrokerNotAlive {
		t.Errorf("it is in the set again for what it had: %v", r.Err)
	}
	if r := join(11); r.Err != nil {
		t.Error(r.Err)
	}
	register(12, false)
	g := s.Group(testGroup)
	if r := s.Apply(&AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch, SyncStateSet: []int64{1, 2},
		Alive: []int64{1, 2, 3}, Lives: map[int64]int64{2: 11 << 32}}); r.Err != nil {
		t.Errorf("who has lost nothing stays: %v", r.Err)
	}
}

// TestLateRegistration: a registration that was on its way for long changes nothing, and a disk that does not know of the last start is a copy.
func TestLateRegistration(t *testing.T) {
	const first, second, twin = 1<<32 | 7, 2<<32 | 8, 2<<32 | 9
	for name, c := range map[string]struct {
		incarnation, attempt int64
		torn                 bool
		late, trusted        bool
	}{
		"the next process":               {3 << 32, 1, false, false, true},
		"the next process, after a loss": {3 << 32, 1, true, false, false},
		"the same process":               {second, 6, false, false, true},
		"the same process, earlier":      {second, 4, false, true, true},
		"a former process":               {first, 9, true, true, true},
		"a copy of the disk":             {twin, 1, false, false, false},
		"a Java broker":                  {0, 0, false, false, true},
	} {
		s := three(t)
		register := func(incarnation, attempt int64, torn bool) Result {
			return s.Apply(&Register{Cluster: testCluster, Name: testGroup, ID: 2, Addr: "b:2", Incarnation: incarnation, Attempt: attempt, Torn: torn})
		}
		register(first, 1, false)
		register(second, 5, false)
		before := s.Group(testGroup)
		res := register(c.incarnation, c.attempt, c.torn)
		if g := s.Group(testGroup); res.Err != nil || res.Late != c.late || c.late != (g == before) || g.trusts(2) != c.trusted {
			t.Errorf("%s: %+v, late %t, trusted %t", name, res.Err, res.Late, g.trusts(2))
		}
	}
}

// TestClean are the scenarios of Java's tests.
func TestClean(t *testing.T) {
	cases := []struct {
		name string
		c    Clean
		want code.Response
		left []int64
	}{
		{"a living broker", Clean{Cluster: testCluster, IDs: []int64{1}, Alive: []int64{1}}, code.ControllerInvalidCleanBrokerMetadata, []int64{1, 2, 3}},
		{"a living group", Clean{Cluster: testCluster, Alive: []int64{2}}, code.ControllerInvalidCleanBrokerMetadata, []int64{1, 2, 3}},
		{"a dead broker", Clean{Cluster: testCluster, IDs: []int64{1}, Alive: []int64{2}}, code.Success, []int64{2, 3}},
		{"dead brokers", Clean{Cluster: testCluster, IDs: []int64{1, 2, 3}}, code.Success, nil},
		{"a dead group of any cluster", Clean{}, code.Success, nil},
		{"a living group by force", Clean{Living: true, Alive: []int64{1, 2, 3}}, code.Success, nil},
		{"a living broker by force", Clean{IDs: []int64{2, 9}, Living: true, Alive: []int64{1, 2, 3}}, code.Success, []int64{1, 3}},
		{"another cluster", Clean{Cluster: "other"}, code.ControllerInvalidCleanBrokerMetadata, []int64{1, 2, 3}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := three(t)
			tc.c.Name = testGroup
			res := s.Apply(&tc.c)
			if (res.Err != nil) != (tc.want != code.Success) || res.Err != nil && res.Err.Code != tc.want {
				t.Fatalf("got %v, want %d", res.Err, tc.want)
			}
			g := s.Group(testGroup)
			if g == nil {
				g = &Group{}
			}
			if left := slices.Sorted(maps.Keys(g.Replicas)); !slices.Equal(left, tc.left) {
				t.Errorf("left are %v, want %v", left, tc.left)
			}
			for _, id := range g.SyncStateSet {
				if _, ok := g.Replicas[id]; !ok {
					t.Errorf("%d is gone and still in the set", id)
				}
			}
			if len(tc.left) == 2 && g.SyncStateSetEpoch != 3 {
				t.Errorf("the epoch of the set is %d", g.SyncStateSetEpoch)
			}
			if len(tc.left) > 0 && !slices.Contains(tc.left, 1) && (g.Master != noMaster || g.MasterEpoch != 2) {
				t.Errorf("the cleaned master is still there: %d of epoch %d", g.Master, g.MasterEpoch)
			}
		})
	}
	if res := NewState().Apply(&Clean{Name: "nobody"}); res.Err == nil || res.Err.Code != code.ControllerInvalidCleanBrokerMetadata {
		t.Errorf("an unknown group was cleaned: %v", res.Err)
	}
}

// inheriting makes all replicas of the group such that can be elected with a set, and confirm nothing with fewer than min.
func inheriting(t *testing.T, s *State, minInSync int32) {
	t.Helper()
	for id, r := range s.Group(testGroup).Replicas {
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id, Addr: r.Addr, Inherits: true, MinInSync: minInSync})
	}
}

func TestSetIsInherited(t *testing.T) {
	s := three(t)
	inheriting(t, s, 0)
	g := mustApply(t, s, byController(1, 2, 3)).Group
	if g.Master != 2 || !slices.Equal(g.SyncStateSet, []int64{2, 3}) || g.Eligible != nil {
		t.Errorf("master %d, set %v, eligible %v", g.Master, g.SyncStateSet, g.Eligible)
	}
	g = mustApply(t, s, byOperator(3, 2, 3)).Group
	if g.Master != 3 || !slices.Equal(g.SyncStateSet, []int64{2, 3}) || g.SyncStateSetEpoch != 4 {
		t.Errorf("master %d, set %v of epoch %d", g.Master, g.SyncStateSet, g.SyncStateSetEpoch)
	}
}

// TestEligible follows replicas that leave a set that has become too small to confirm anything.
func TestEligible(t *testing.T) {
	s := three(t)
	inheriting(t, s, 2)
	shrink := func(epoch, setEpoch int32, set ...int64) *Group {
		t.Helper()
		master := s.Group(testGroup).Master
		return mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: master, MasterEpoch: epoch, SyncStateSetEpoch: setEpoch, SyncStateSet: set, Alive: []int64{1, 2, 3}}).Group
	}
	if g := shrink(1, 2, 1, 2); g.Eligible != nil {
		t.Errorf("two can confirm, and yet %v are eligible", g.Eligible)
	}
	if g := shrink(1, 3, 1); !slices.Equal(g.Eligible, []int64{2}) {
		t.Errorf("eligible %v, want 2", g.Eligible)
	}
	snapshot := s.Snapshot()
	res := mustApply(t, s, byController(1, 2, 3))
	if res.Group.Master != 2 || res.Election.Basis != FromELR || !slices.Equal(res.Group.SyncStateSet, []int64{2}) || !slices.Equal(res.Group.Eligible, []int64{1}) {
		t.Errorf("got %+v", res.Group)
	}
	if res := s.Apply(byBroker(3, 3)); res.Err == nil {
		t.Error("3 was elected, which lacks what 1 and 2 have confirmed")
	}
	if g := shrink(2, 5, 2, 3); g.Eligible != nil {
		t.Errorf("two can confirm again, and yet %v are eligible", g.Eligible)
	}
	s, err := Restore(snapshot)
	if err != nil {
		t.Fatal(err)
	}
	mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: 1, Addr: "10.0.0.1:10911", Inherits: true, MinInSync: 1})
	if g := s.Group(testGroup); g.Eligible != nil {
		t.Errorf("the master may confirm alone now, and yet %v are eligible", g.Eligible)
	}
}

func TestUncleanElectionForgetsTheOthers(t *testing.T) {
	s := three(t)
	inheriting(t, s, 3)
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: 1, SyncStateSetEpoch: 2, SyncStateSet: []int64{1, 2}, Alive: []int64{1, 2, 3}})
	if g := mustApply(t, s, &Clean{Name: testGroup, IDs: []int64{3}}).Group; g.Eligible != nil {
		t.Errorf("%v are eligible and cleaned", g.Eligible)
	}
	mustApply(t, s, &ApplyID{Cluster: testCluster, Name: testGroup, ID: 4, CheckCode: "x:1;1"})
	mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: 4, Addr: "x:1", Inherits: true, MinInSync: 2})
	e := byController(1, 4)
	e.Unclean = true
	res := mustApply(t, s, e)
	if res.Election.Basis != FromRest || res.Group.Master != 4 || !slices.Equal(res.Group.SyncStateSet, []int64{4}) || res.Group.Eligible != nil {
		t.Errorf("got %+v by %q", res.Group, res.Election.Basis)
	}
}

func TestBounds(t *testing.T) {
	s := NewState()
	for i := range maxReplicas + 1 {
		id := int64(i + 1)
		res := s.Apply(&ApplyID{Cluster: testCluster, Name: testGroup, ID: id, CheckCode: name(id) + ";1"})
		if (res.Err != nil) != (i >= maxReplicas) {
			t.Fatalf("replica %d: %v", id, res.Err)
		}
	}
}

func TestSnapshotRestoresEverything(t *testing.T) {
	s := three(t)
	inheriting(t, s, 2)
	mustApply(t, s, &ApplyID{Cluster: testCluster, Name: "broker-b", ID: 1, CheckCode: "b:1;1"})
	mustApply(t, s, &WantMembers{[]Member{{"n0", "a:1"}}})
	mustApply(t, s, &Join{ID: 5})
	s.quorum.Members[5] = Member{"n0", "a:1"}
	s.quorum.Learners = []uint64{6}
	got, err := Restore(s.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got, cmp.AllowUnexported(State{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if string(got.Snapshot()) != string(s.Snapshot()) {
		t.Error("equal states have different snapshots")
	}
}

// TestTorn: who has lost with the power what it had acknowledged is not elected before it has it again.
func TestTorn(t *testing.T) {
	s := three(t)
	inheriting(t, s, 2)
	again := func(id, life int64, torn bool) *Group {
		t.Helper()
		return mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id, Addr: s.Group(testGroup).Replicas[id].Addr, Inherits: true, MinInSync: 2,
			Incarnation: life, Torn: torn}).Group
	}
	for id := int64(1); id <= 3; id++ {
		again(id, 10, false)
	}
	if g := again(2, 10, true); !slices.Equal(g.SyncStateSet, []int64{1, 2, 3}) {
		t.Errorf("set %v: a broker that registers twice in one life has not lost anything meanwhile", g.SyncStateSet)
	}
	if g := again(2, 11, true); !slices.Equal(g.SyncStateSet, []int64{1, 3}) || g.SyncStateSetEpoch != 4 || g.Master != 1 {
		t.Errorf("%+v: 2 is still in sync", g)
	}
	if g := again(1, 11, true); !slices.Equal(g.SyncStateSet, []int64{3}) || g.Master != noMaster || g.Eligible != nil {
		t.Errorf("%+v: the master that was torn is trusted", g)
	}
	if res := s.Apply(byBroker(1, 1, 2)); res.Err == nil {
		t.Error("one was elected that may lack what was acknowledged")
	}
	if g := again(3, 11, true); len(g.SyncStateSet) != 0 || !slices.Equal(g.Eligible, []int64{1, 3}) || g.Doubtful != nil {
		t.Errorf("%+v: 1 and 3 are as good as each other; without 2 something may have been confirmed", g)
	}
	longest := &Elect{Name: testGroup, Trigger: ByController, MasterEpoch: s.Group(testGroup).MasterEpoch,
		Alive: map[int64]Vitals{1: {Epoch: 1, MaxOffset: 300}, 2: {Epoch: 1, MaxOffset: 900}, 3: {Epoch: 1, MaxOffset: 200}}}
	if g := mustApply(t, s, longest).Group; g.Master != 1 {
		t.Errorf("%+v: 1 has the longest log of those that may have all", g)
	}
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: s.Group(testGroup).MasterEpoch, SyncStateSetEpoch: s.Group(testGroup).SyncStateSetEpoch,
		SyncStateSet: []int64{1, 2}, Alive: []int64{1, 2, 3}})
	again(2, 12, true)
	if g := s.Group(testGroup); !slices.Equal(g.Doubtful, []int64{2}) {
		t.Errorf("%+v: nothing is confirmed without 2", g)
	}
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: s.Group(testGroup).MasterEpoch, SyncStateSetEpoch: s.Group(testGroup).SyncStateSetEpoch,
		SyncStateSet: []int64{1, 3}, Alive: []int64{1, 2, 3}})
	if g := again(1, 12, true); !slices.Equal(g.SyncStateSet, []int64{3}) || !slices.Equal(g.Doubtful, []int64{1}) {
		t.Errorf("%+v: 3 is left, and confirmed something without 2", g)
	}
}

// TestRestartedMasterPromisesLess: a broker that starts does not know yet how many replicas there are. What its former life has promised holds
// for what that has confirmed.
func TestRestartedMasterPromisesLess(t *testing.T) {
	s := three(t)
	for id, r := range s.Group(testGroup).Replicas {
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id, Addr: r.Addr, Inherits: true, MinInSync: 2, Incarnation: 10})
	}
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: 1, SyncStateSetEpoch: 2, SyncStateSet: []int64{1}, Alive: []int64{1, 2, 3}})
	addr := s.Group(testGroup).Replicas[1].Addr
	g := mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: 1, Addr: addr, Inherits: true, MinInSync: 1, Incarnation: 11, Torn: true}).Group
	if g.Master != noMaster || len(g.SyncStateSet) != 0 || !slices.Equal(g.Eligible, []int64{2, 3}) {
		t.Errorf("%+v: 2 and 3 have all that was confirmed, and 1 may not", g)
	}
	if g := mustApply(t, s, byBroker(1, 1, 3)).Group; g.Master != 3 {
		t.Errorf("master %d", g.Master)
	}
}

// TestLearner: it is never in the set and never elected, not even as the first or the last one.
func TestLearner(t *testing.T) {
	s := NewState()
	learner := func(id int64, yes bool) Result {
		return s.Apply(&Register{Cluster: testCluster, Name: testGroup, ID: id, Addr: fmt.Sprintf("l:%d", id), Inherits: true, Learner: yes})
	}
	for id := range int64(3) {
		mustApply(t, s, &ApplyID{Cluster: testCluster, Name: testGroup, ID: id + 1, CheckCode: fmt.Sprintf("l:%d;1", id+1)})
	}
	learner(1, true)
	alive := map[int64]Vitals{1: {Epoch: 9, MaxOffset: 900}}
	if r := s.Apply(&Elect{Name: testGroup, Trigger: ByBroker, Broker: 1, Alive: alive}); r.Group.Master != noMaster {
		t.Fatal("a learner is the first master")
	}
	learner(2, false)
	learner(3, false)
	alive[2], alive[3] = Vitals{}, Vitals{}
	g := mustApply(t, s, &Elect{Name: testGroup, Trigger: ByBroker, Broker: 2, Alive: alive}).Group
	if g.Master != 2 {
		t.Fatalf("master %d", g.Master)
	}
	alter := func(set ...int64) Result {
		g := s.Group(testGroup)
		return s.Apply(&AlterSyncStateSet{Name: testGroup, Master: g.Master, MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch, SyncStateSet: set, Alive: []int64{1, 2, 3}})
	}
	if r := alter(1, 2); r.Err == nil || r.Err.Code != code.ControllerInvalidReplicas {
		t.Errorf("a learner is in the set: %v", r.Err)
	}
	if r := learner(2, true); r.Err == nil {
		t.Error("whoever alone has everything became a learner")
	}
	if r := alter(2, 3); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := s.Apply(&Elect{Name: testGroup, Trigger: ByOperator, Broker: 1, Alive: alive}); r.Group.Master != 2 {
		t.Error("an operator made a learner master")
	}
	if g := learner(3, true).Group; !slices.Equal(g.SyncStateSet, []int64{2}) {
		t.Errorf("the set is %v", g.SyncStateSet)
	}
	delete(alive, 2)
	g = s.Apply(&Elect{Name: testGroup, Trigger: ByController, MasterEpoch: s.Group(testGroup).MasterEpoch, Alive: alive, Unclean: true}).Group
	if g.Master != noMaster {
		t.Errorf("learner %d is master", g.Master)
	}
	if got := g.electable(); !slices.Equal(got, []int64{2}) {
		t.Errorf("electable are %v", got)
	}
}

var sickEpoch = time.UnixMilli(1_700_000_000_000)

// TestSickMaster: a healthy member of the set takes its place, and whoever is sick is elected only if nobody else can be.
func TestSickMaster(t *testing.T) {
	s, l, now := NewState(), NewLiveness(sickEpoch), sickEpoch
	for id := range int64(3) {
		mustApply(t, s, &ApplyID{Cluster: testCluster, Name: testGroup, ID: id + 1, CheckCode: fmt.Sprintf("b:%d;1", id+1)})
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id + 1, Addr: fmt.Sprintf("b:%d", id+1), Inherits: true})
	}
	hear := func(sick ...int64) {
		for id := int64(1); id <= 3; id++ {
			l.Step(&Heartbeat{Broker: Broker{testGroup, id}, Vitals: &Vitals{Epoch: 1, MaxOffset: 100 - id, Sick: slices.Contains(sick, id)}, Link: id}, now)
		}
	}
	hear()
	mustApply(t, s, &Elect{Name: testGroup, Trigger: ByBroker, Broker: 1, Alive: map[int64]Vitals{1: {}}})
	g := s.Group(testGroup)
	mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: 1, MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch, SyncStateSet: []int64{1, 2, 3}, Alive: []int64{1, 2, 3}})
	relief := func() int64 {
		for _, e := range Relief(s, l, now) {
			return e.Broker
		}
		return noMaster
	}
	pass := func(sick ...int64) { // a second, with heartbeats
		for range 5 {
			now = now.Add(200 * time.Millisecond)
			hear(sick...)
		}
	}
	if to := relief(); to != noMaster {
		t.Errorf("a healthy master is to hand over to %d", to)
	}
	hear(1)
	if to := relief(); to != noMaster {
		t.Errorf("a master that has just become sick is to hand over to %d", to)
	}
	pass(1)
	if to := relief(); to != 2 {
		t.Errorf("the sick master is to hand over to %d", to)
	}
	pass(1, 2)
	if to := relief(); to != 3 {
		t.Errorf("the sick master is to hand over to %d", to)
	}
	e := Relief(s, l, now)[0]
	if g := mustApply(t, s, e).Group; g.Master != 3 || !slices.Equal(g.SyncStateSet, []int64{3}) {
		t.Errorf("master %d, set %v", g.Master, g.SyncStateSet)
	}
	pass(1, 2, 3)
	if to := relief(); to != noMaster {
		t.Errorf("a sick master is to hand over to sick replica %d", to)
	}
	pass()
	if to := relief(); to != noMaster {
		t.Errorf("a master that is well again is to hand over to %d", to)
	}
	alter := func(set ...int64) {
		t.Helper()
		g := s.Group(testGroup)
		mustApply(t, s, &AlterSyncStateSet{Name: testGroup, Master: g.Master, MasterEpoch: g.MasterEpoch, SyncStateSetEpoch: g.SyncStateSetEpoch, SyncStateSet: set, Alive: []int64{1, 2, 3}})
	}
	alter(1, 2, 3)
	g = s.Group(testGroup)
	if g := mustApply(t, s, &Elect{Name: testGroup, Trigger: ByController, MasterEpoch: g.MasterEpoch,
		Alive: map[int64]Vitals{1: {Epoch: 2, MaxOffset: 200, Sick: true}, 2: {Epoch: 2, MaxOffset: 100}}}).Group; g.Master != 2 {
		t.Errorf("%d was elected, not the healthy replica", g.Master)
	}
	alter(1, 2)
	if g := mustApply(t, s, &Elect{Name: testGroup, Trigger: ByController, MasterEpoch: g.MasterEpoch + 1, Alive: map[int64]Vitals{1: {Sick: true}}}).Group; g.Master != 1 {
		t.Errorf("%d was elected, not the only one that lives", g.Master)
	}

	// A master that has been cut off from its replicas has taken them out of the set, and confirms nothing any more.
	for id := range int64(3) {
		mustApply(t, s, &Register{Cluster: testCluster, Name: testGroup, ID: id + 1, Addr: fmt.Sprintf("b:%d", id+1), Inherits: true, MinInSync: 2})
	}
	alter(1, 2, 3)
	alter(1)
	for _, id := range []int64{2, 3} {
		l.Step(&LinkEnded{Link: id}, now)
		l.Step(&Probed{Broker: Broker{testGroup, id}, Refused: true}, now)
	}
	now = now.Add(time.Second)
	hear(1)
	now = now.Add(200 * time.Millisecond)
	hear(1)
	if to := relief(); to != noMaster {
		t.Errorf("a master that waited for replicas is to hand over to %d, which has just come back", to)
	}
	pass(1)
	due := Relief(s, l, now)
	if len(due) != 1 || due[0].Broker != 2 {
		t.Fatalf("%d masters are to be replaced", len(due))
	}
	if r := mustApply(t, s, due[0]); r.Group.Master != 2 || r.Election.Basis != FromELR || !slices.Equal(r.Group.SyncStateSet, []int64{2}) {
		t.Errorf("master %d (%s), set %v", r.Group.Master, r.Election.Basis, r.Group.SyncStateSet)
	}
	if r := mustApply(t, s, due[0]); r.Group.Master != 2 || r.Election != nil {
		t.Errorf("master %d (%+v): a relief that comes too late changes nothing", r.Group.Master, r.Election)
	}
	alter(2, 3)
	pass(1, 2)
	if to := relief(); to != noMaster {
		t.Errorf("one replica is not enough, and %d was to be master", to)
	}

	// It took them out of the set one after the other: the last one is elected, and has the first one back.
	alter(2)
	pass(2)
	if to := relief(); to != 3 {
		t.Errorf("the master is to hand over to %d, want the one that left the set last", to)
	}
}
