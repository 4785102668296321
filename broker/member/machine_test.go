package member

import (
	"errors"
	"testing"
	"time"

	"github.com/castor-mq/castor/remoting/code"
)

var errSilent = errors.New("nobody answers")

func TestSteps(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	recently := now.Add(-amnesiaGrace / 2)
	for _, tc := range []struct {
		name    string
		at      step
		amnesia time.Time // since when
		a       answer
		want    step
		p       pause
	}{
		{"next id", askID, time.Time{}, answer{}, applyID, none},
		{"no leader", askID, time.Time{}, answer{err: errSilent}, askID, retry},
		{"name of another cluster", askID, time.Time{}, answer{code: code.ControllerBrokerIDInvalid}, askID, period},
		{"id given", applyID, time.Time{}, answer{}, register, none},
		{"a rival was faster", applyID, time.Time{}, answer{code: code.ControllerBrokerIDInvalid}, askID, retry},
		{"answer lost", applyID, time.Time{}, answer{err: errSilent}, applyID, retry},
		{"file not removed", applyID, time.Time{}, answer{err: errSilent, code: code.ControllerBrokerIDInvalid}, applyID, retry},
		{"registered", register, time.Time{}, answer{}, greet, none},
		{"unknown id", register, time.Time{}, answer{code: code.ControllerBrokerNeedToBeRegistered}, reclaimID, none},
		{"registration refused", register, time.Time{}, answer{code: code.InvalidParameter}, register, period},
		{"id given back", reclaimID, time.Time{}, answer{}, register, none},
		{"id refused", reclaimID, time.Time{}, answer{code: code.ControllerBrokerIDInvalid}, register, period},
		{"answer about the id lost", reclaimID, time.Time{}, answer{err: errSilent}, register, retry},
		{"heard", greet, time.Time{}, answer{}, ask, none},
		{"leader lags", greet, time.Time{}, answer{code: code.ControllerBrokerNeedToBeRegistered}, register, retry},
		{"leader gone", greet, time.Time{}, answer{err: errSilent}, greet, retry},
		{"master known", ask, time.Time{}, answer{}, ask, period},
		{"no master", ask, time.Time{}, answer{masterless: true}, elect, none},
		{"no master, and data lost", ask, time.Time{}, answer{masterless: true, amnesia: true}, ask, period},
		{"no master, and data lost just now", ask, recently, answer{masterless: true, amnesia: true}, ask, period},
		{"no master, and data lost long ago", ask, now.Add(-amnesiaGrace), answer{masterless: true, amnesia: true}, elect, none},
		{"no master, and data known again", ask, recently, answer{masterless: true}, elect, none},
		{"a master, and data lost", ask, now.Add(-amnesiaGrace), answer{amnesia: true}, ask, period},
		{"group unknown", ask, time.Time{}, answer{code: code.ControllerBrokerMetadataNotExist}, register, none},
		{"question unanswered", ask, time.Time{}, answer{err: errSilent}, ask, retry},
		{"question refused", ask, time.Time{}, answer{code: code.NoPermission}, ask, period},
		{"elected", elect, time.Time{}, answer{}, ask, none},
		{"master stays", elect, time.Time{}, answer{code: code.ControllerMasterStillExist}, ask, none},
		{"nobody elected", elect, time.Time{}, answer{code: code.ControllerElectMasterFailed}, ask, period},
		{"election of an unknown broker", elect, time.Time{}, answer{code: code.ControllerBrokerNeedToBeRegistered}, register, none},
		{"election unanswered", elect, time.Time{}, answer{err: errSilent}, ask, retry},
		{"unknown code", elect, time.Time{}, answer{code: 31337}, ask, period},
	} {
		m := machine{step: tc.at, amnesia: tc.amnesia}
		if p := m.next(tc.a, now); m.step != tc.want || p != tc.p {
			t.Errorf("%s: then %q after pause %d, want %q after %d", tc.name, m.step, p, tc.want, tc.p)
		}
	}
}

func TestFirstStep(t *testing.T) {
	own, applied := &identity{id: 1}, &identity{id: 2, checkCode: "a:1;1"}
	for _, tc := range []struct {
		own, applied *identity
		want         step
	}{{nil, nil, askID}, {nil, applied, applyID}, {own, nil, register}, {own, applied, register}} {
		if m := begin(tc.own, tc.applied); m.step != tc.want {
			t.Errorf("%v, %v: %q, want %q", tc.own, tc.applied, m.step, tc.want)
		}
	}
}

// TestStartHasNoPause: and answers that lead in a circle have one.
func TestStartHasNoPause(t *testing.T) {
	m, now := begin(nil, nil), time.Unix(1_000_000, 0)
	for _, masterless := range []bool{false, false, false, false, true, false, false} {
		last := m.step
		if p := m.next(answer{masterless: masterless}, now); p != none && last != ask {
			t.Errorf("pause %d after %q", p, last)
		}
	}
	if m.step != ask {
		t.Errorf("the start ends with %q", m.step)
	}
	paused := false
	for range 2 * maxHasty {
		paused = paused || m.next(answer{masterless: true}, now) != none
	}
	if !paused {
		t.Error("an election that comes to nothing is asked for without a pause")
	}
}

func TestRegisterAgain(t *testing.T) {
	for s := range step(countSteps) {
		m := machine{step: s}
		m.again()
		want := s
		if s == ask || s == elect {
			want = register
		}
		if m.step != want || s.String() == "" {
			t.Errorf("after %q comes %q", s, m.step)
		}
	}
}

func TestLeaderBy(t *testing.T) {
	for _, tc := range []struct {
		name   string
		words  []word
		asked  int
		leader string
		sure   bool
	}{
		{"nobody to ask", nil, 0, "", true},
		{"nobody has answered", nil, 3, "", false},
		{"one that leads", []word{{"a", "advertised", true}}, 3, "a", true},
		{"one follower", []word{{"b", "a", false}}, 3, "a", false},
		{"most followers", []word{{"b", "a", false}, {"c", "a", false}}, 3, "a", true},
		{"followers disagree", []word{{"b", "a", false}, {"c", "b", false}}, 3, "a", false},
		{"the last decides", []word{{"b", "a", false}, {"c", "b", false}, {"a", "b", false}}, 3, "b", true},
		{"a tie", []word{{"b", "x", false}, {"c", "b", false}, {"a", "", false}}, 3, "b", true},
		{"no leader yet", []word{{"a", "", false}, {"b", "", false}, {"c", "", false}}, 3, "", true},
		{"the leader is not asked", []word{{"b", "a", false}}, 1, "a", true},
	} {
		if leader, sure := leaderBy(tc.words, tc.asked); leader != tc.leader || sure != tc.sure {
			t.Errorf("%s: %q, %v, want %q, %v", tc.name, leader, sure, tc.leader, tc.sure)
		}
	}
}

func TestRoles(t *testing.T) {
	role := func(epoch, setEpoch int32, master int64) Role {
		r := Role{Epoch: epoch, SetEpoch: setEpoch, Master: master}
		if master != 0 {
			r.MasterAddr = "a:1"
		}
		return r
	}
	moved := role(3, 3, 1)
	moved.MasterAddr = "b:1"
	for _, tc := range []struct {
		name             string
		r, old           Role
		newer, otherwise bool
	}{
		{"first", role(1, 1, 1), Role{}, true, false},
		{"the same", role(3, 3, 1), role(3, 3, 1), false, false},
		{"next epoch", role(4, 4, 2), role(3, 3, 1), true, false},
		{"next epoch without a master", role(4, 3, 0), role(3, 3, 1), true, false},
		{"next epoch, older set", role(4, 1, 2), role(3, 3, 1), true, false},
		{"next set", role(3, 4, 1), role(3, 3, 1), true, false},
		{"older set", role(3, 2, 1), role(3, 3, 1), false, false},
		{"older epoch", role(2, 9, 1), role(3, 3, 1), false, true},
		{"other address", moved, role(3, 3, 1), true, false},
		{"second master of an epoch", role(3, 4, 2), role(3, 3, 1), true, true},
		{"empty controllers", Role{}, role(3, 3, 1), false, true},
	} {
		if n, c := tc.r.newer(tc.old), tc.r.contradicts(tc.old); n != tc.newer || c != tc.otherwise {
			t.Errorf("%s: newer %v, contradicts %v", tc.name, n, c)
		}
	}
}

func TestImpossibleRoles(t *testing.T) {
	for _, tc := range []struct {
		name            string
		epoch, setEpoch int32
		master          int64
		addr            string
		set             []int64
		ok              bool
	}{
		{"none", 0, 0, 0, "", nil, true},
		{"a master", 1, 1, 2, "a:1", []int64{3, 2, 1}, true},
		{"no master any more", 2, 1, 0, "", []int64{2}, true},
		{"negative epoch", -1, 0, 0, "", nil, false},
		{"negative set epoch", 1, -1, 1, "a:1", nil, false},
		{"negative master", 1, 1, -1, "a:1", nil, false},
		{"master without an epoch", 0, 0, 1, "a:1", nil, false},
		{"master without an address", 1, 1, 1, "", nil, false},
		{"member 0", 1, 1, 1, "a:1", []int64{1, 0}, false},
		{"member twice", 1, 1, 1, "a:1", []int64{1, 1}, false},
		{"far too many", 1, 1, 1, "a:1", make([]int64, 100_000), false},
	} {
		r, err := newRole(tc.epoch, tc.setEpoch, tc.master, tc.addr, tc.set)
		if (err == nil) != tc.ok || err == nil && len(r.SyncStateSet) > 1 && r.SyncStateSet[0] != 1 || err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: %v, %v", tc.name, r, err)
		}
	}
}
