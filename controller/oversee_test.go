package controller

import (
	"testing"
	"time"
)

// TestPlan: an election is due exactly when the master is gone and somebody could follow, or when the loss is not recorded.
func TestPlan(t *testing.T) {
	cases := []struct {
		name  string
		state func(testing.TB) *State
		alive []int64
		want  int // elections
	}{
		{"the master lives, a slave does not (rocketmq 8380)", three, []int64{1, 2}, 0},
		{"all live", three, []int64{1, 2, 3}, 0},
		{"the master is dead (rocketmq 10875)", three, []int64{2, 3}, 1},
		{"all are dead", three, nil, 1},
		{"nobody in sync lives, recorded", func(t testing.TB) *State {
			s := lone(t)
			s.Apply(byController(1, 2))
			return s
		}, []int64{2, 3}, 0},
		{"a replica in sync is back (rocketmq 6382)", func(t testing.TB) *State {
			s := lone(t)
			s.Apply(byController(1, 2))
			return s
		}, []int64{1, 2}, 1},
		{"there never was a master", func(t testing.TB) *State {
			s := NewState()
			register(t, s, 3)
			return s
		}, []int64{1, 2, 3}, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s, b := tc.state(t), newBench(t)
			b.pass(defaultTimeout)
			for _, id := range tc.alive {
				b.beat(id, "c")
			}
			due := Plan(s, b.Liveness, b.now, false)
			if len(due) != tc.want {
				t.Fatalf("%d elections are due, want %d", len(due), tc.want)
			}
			for range 3 { // whatever is due is due until it is done
				if again := Plan(s, b.Liveness, b.now, false); len(again) != tc.want {
					t.Errorf("%d elections are due when asked again", len(again))
				}
			}
			for _, e := range due {
				s.Apply(e)
			}
			if left := Plan(s, b.Liveness, b.now, false); len(left) != 0 {
				t.Errorf("still due after the election: %+v", left[0])
			}
		})
	}
}

// TestPlanWaitsForTheUnheard: a controller that has just started does not depose anybody.
func TestPlanWaitsForTheUnheard(t *testing.T) {
	s, b := three(t), newBench(t)
	b.beat(2, "c")
	if due := Plan(s, b.Liveness, b.now, false); len(due) != 0 {
		t.Errorf("the master was given no time: %+v", due[0])
	}
	for end := b.now.Add(defaultTimeout); b.now.Before(end); b.pass(time.Second) {
		b.beat(2, "c")
	}
	if due := Plan(s, b.Liveness, b.now, false); len(due) != 1 {
		t.Errorf("%d elections are due", len(due))
	}
}

func TestBallotKnowsEpochsOfTheDead(t *testing.T) {
	s, b := three(t), newBench(t)
	b.Step(&Heartbeat{Broker: broker(1), Vitals: &Vitals{Epoch: 9}, Timeout: time.Second}, b.now)
	b.pass(2 * time.Second)
	b.beat(2, "c")
	due := Plan(s, b.Liveness, b.now, false)
	if len(due) != 1 {
		t.Fatalf("%d elections are due", len(due))
	}
	if g := mustApply(t, s, due[0]).Group; g.Master != 2 || g.MasterEpoch != 10 {
		t.Errorf("master %d of epoch %d, want 2 of 10", g.Master, g.MasterEpoch)
	}
}

// TestRecess: a relief after a quiet time is followed soon by the next one, if that is necessary, and a group that nobody can help is left alone
// for longer and longer, until its master has changed for another reason.
func TestRecess(t *testing.T) {
	now, epoch := time.Now(), int32(0)
	var r recess
	relieve := func(after time.Duration) {
		t.Helper()
		epoch++
		if now = now.Add(after); !r.over(epoch, now) {
			t.Fatalf("%v after the last relief is too early for the next", after)
		}
		r = r.next(epoch, now)
	}
	relieve(0)
	for _, quick := range []time.Duration{firstRecess, 2 * firstRecess, 4 * firstRecess, 8 * firstRecess, 16 * firstRecess, longestRecess, longestRecess} {
		if r.over(epoch, now.Add(quick-1)) || r.over(epoch+1, now.Add(quick-1)) {
			t.Fatalf("the recess is shorter than %v", quick)
		}
		relieve(quick)
	}
	relieve(2*longestRecess + calm + 1)
	relieve(firstRecess)
	relieve(2 * firstRecess)
	epoch++ // another election
	relieve(0)
	if r.Duration != firstRecess {
		t.Errorf("a relief that follows another election has a recess of %v", r.Duration)
	}
}
