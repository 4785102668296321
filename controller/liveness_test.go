package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// bench drives a table by hand.
type bench struct {
	*Liveness
	t   testing.TB
	now time.Time
}

func newBench(t testing.TB) *bench {
	now := time.Unix(1_000_000, 0)
	return &bench{NewLiveness(now), t, now}
}

func broker(id int64) Broker { return Broker{testGroup, id} }

func (b *bench) beat(id int64, link Link) Asked {
	return b.Step(&Heartbeat{Broker: broker(id), Vitals: &Vitals{Epoch: 1, MaxOffset: 100}, Timeout: 3 * time.Second, Link: link}, b.now)
}

// pass lets time pass in ticks.
func (b *bench) pass(d time.Duration) (asked Asked) {
	for end := b.now.Add(d); b.now.Before(end); {
		b.now = b.now.Add(tickPeriod)
		a := b.Step(&Tick{}, b.now)
		asked.Changed = asked.Changed || a.Changed
		asked.Probe = append(asked.Probe, a.Probe...)
	}
	return asked
}

func (b *bench) report(from string, ids ...int64) Asked {
	r := &Report{From: from}
	for _, id := range ids {
		r.Alive = append(r.Alive, Sighting{broker(id), Vitals{Epoch: 2, MaxOffset: 200}})
	}
	return b.Step(r, b.now)
}

// want checks who is alive, dead, or neither.
func (b *bench) want(id int64, state string) {
	b.t.Helper()
	got := "unheard"
	switch alive, dead := b.Alive(broker(id), b.now), b.Dead(broker(id), b.now); {
	case alive && dead:
		got = "both"
	case alive:
		got = "alive"
	case dead:
		got = "dead"
	}
	if got != state {
		b.t.Errorf("broker %d is %s, want %s (%s)", id, got, state, b.Why(broker(id), b.now))
	}
}

// TestSilence: a broker is dead after its own timeout, not before, whatever the wall clock does (rocketmq 10416).
func TestSilence(t *testing.T) {
	b := newBench(t)
	if !b.beat(1, "c1").Changed {
		t.Error("a new broker is no change")
	}
	b.pass(2800 * time.Millisecond)
	if b.beat(1, "c1").Changed {
		t.Error("a heartbeat of a living broker is a change")
	}
	b.pass(2800 * time.Millisecond)
	b.want(1, "alive")
	if !b.pass(400 * time.Millisecond).Changed {
		t.Error("a death by silence is no change")
	}
	b.want(1, "dead")
	b.beat(1, "c2")
	b.want(1, "alive")
}

func TestTimeoutsAreBounded(t *testing.T) {
	b := newBench(t)
	b.Step(&Heartbeat{Broker: broker(1), Timeout: 10000 * time.Hour}, b.now)
	b.now = b.now.Add(maxTimeout)
	b.want(1, "dead")
	b.Step(&Heartbeat{Broker: broker(2)}, b.now)
	b.now = b.now.Add(defaultTimeout)
	b.want(2, "dead")
}

// TestShortTimeouts: with heartbeats every 200 ms and a timeout of 800 ms no stop of the controller's own process kills a
// broker, whether it is taken for a standstill or not.
func TestShortTimeouts(t *testing.T) {
	const period, timeout = 200 * time.Millisecond, 800 * time.Millisecond
	for pause := tickPeriod; pause < 3*time.Second; pause += 50 * time.Millisecond {
		b := newBench(t)
		b.Step(&Heartbeat{Broker: broker(1), Vitals: &Vitals{}, Timeout: timeout}, b.now)
		b.now = b.now.Add(period)
		b.Step(&Tick{}, b.now)
		b.now = b.now.Add(pause) // the heartbeats that have come meanwhile are read after the tick
		b.Step(&Tick{}, b.now)
		if !b.Alive(broker(1), b.now) {
			t.Errorf("dead after a stop of %v", pause)
		}
	}
	b := newBench(t)
	b.pass(reportTTL) // else others are asked first
	b.Step(&Heartbeat{Broker: broker(1), Vitals: &Vitals{}, Timeout: timeout}, b.now)
	b.pass(timeout - tickPeriod)
	b.want(1, "alive")
	b.pass(tickPeriod)
	b.want(1, "dead")
}

// TestLinkOfEarlierConnection: the late end of a connection that the broker has left proves nothing (rocketmq 11045).
func TestLinkOfEarlierConnection(t *testing.T) {
	b := newBench(t)
	b.beat(1, "old")
	b.beat(1, "new")
	if asked := b.Step(&LinkEnded{"old"}, b.now); asked.Changed || asked.Probe != nil {
		t.Errorf("the end of an old connection asked for %+v", asked)
	}
	b.want(1, "alive")
}

// TestLinkEnded: the end of a connection is evidence and not proof. A refused connection is.
func TestLinkEnded(t *testing.T) {
	b := newBench(t)
	b.beat(1, "c")
	b.beat(2, "c")
	if asked := b.Step(&LinkEnded{"c"}, b.now); !slices.Equal(asked.Probe, []Broker{broker(1), broker(2)}) {
		t.Errorf("asked for %+v, want probes of both", asked)
	}
	b.Step(&Probed{broker(1), false}, b.now) // it still listens, or its host is silent
	b.want(1, "alive")
	if asked := b.pass(probePeriod); !slices.Contains(asked.Probe, broker(1)) {
		t.Errorf("no second probe: %+v", asked)
	}
	if !b.Step(&Probed{broker(1), true}, b.now).Changed {
		t.Error("a death by refusal is no change")
	}
	b.want(2, "alive")
	b.want(1, "dead")
	b.beat(1, "c2")
	b.want(1, "alive")
	if asked := b.Step(&Probed{broker(1), true}, b.now); asked.Changed {
		t.Error("the late answer to a probe killed a broker that has come back")
	}
	b.want(1, "alive")
}

// TestOneBrokenLinkIsNoDeath: what another controller hears counts as well (rocketmq 4800, 4835).
func TestOneBrokenLinkIsNoDeath(t *testing.T) {
	b := newBench(t)
	b.beat(1, "c")
	for range 10 {
		b.report("n1", 1)
		b.pass(reportPeriod)
	}
	b.want(1, "alive")
	if v := b.Known(broker(1)); v.MaxOffset != 200 {
		t.Errorf("known is %+v, not what the other controller has heard since", v)
	}
	b.report("n2", 1)
	if b.report("n1").Changed != true {
		t.Error("a controller that lost sight is no change")
	}
	b.want(1, "alive") // n2 still sees it
	b.report("n2")
	b.want(1, "dead")
}

func TestReportOfSilentControllerExpires(t *testing.T) {
	b := newBench(t)
	b.report("n1", 1)
	b.want(1, "alive")
	b.pass(reportTTL)
	b.want(1, "unheard")
	b.pass(defaultTimeout)
	b.want(1, "dead")
}

// TestNewLeaderListensFirst: who has not been heard of yet may have been heard by others (rocketmq 5712).
func TestNewLeaderListensFirst(t *testing.T) {
	b := newBench(t)
	b.pass(time.Hour)
	b.beat(2, "c")
	b.pass(4 * time.Second)
	b.want(2, "dead")
	b.beat(3, "c3")
	b.Step(&LinkEnded{"c3"}, b.now)
	b.Step(&Probed{broker(3), true}, b.now)
	b.Step(&Lead{}, b.now)
	b.want(1, "unheard") // never heard of
	b.want(2, "unheard") // silent here: another controller may report it in a moment
	b.want(3, "dead")    // gone for certain
	b.pass(reportTTL)
	b.want(2, "dead")
	b.want(1, "unheard")
	b.pass(defaultTimeout)
	b.want(1, "dead")
}

// TestStandstill: a process that was stopped finds unread heartbeats, not dead brokers.
func TestStandstill(t *testing.T) {
	b := newBench(t)
	b.beat(1, "c")
	b.report("n1", 2)
	b.now = b.now.Add(time.Minute)
	b.Step(&Tick{}, b.now)
	b.want(1, "alive")
	b.want(2, "alive")
	b.pass(3 * time.Second)
	b.want(1, "dead")
	if b.Alive(broker(2), b.now) {
		t.Error("a report lived for ever")
	}
}

func TestVitalsMayGoDown(t *testing.T) {
	b := newBench(t)
	b.Step(&Heartbeat{Broker: broker(1), Vitals: &Vitals{Epoch: 3, MaxOffset: 500}}, b.now)
	b.Step(&Heartbeat{Broker: broker(1), Vitals: &Vitals{Epoch: 2, MaxOffset: 300}}, b.now)
	b.Step(&Heartbeat{Broker: broker(1)}, b.now)
	if v := b.Known(broker(1)); v != (Vitals{Epoch: 2, MaxOffset: 300}) {
		t.Errorf("a truncated log is known as %+v", v)
	}
}

func TestBetterLeader(t *testing.T) {
	steady := func(b *bench, d time.Duration, n1, n2 []int64) {
		for range int(d / reportPeriod) {
			b.beat(2, "c")
			b.report("n1", n1...)
			b.report("n2", n2...)
			b.pass(reportPeriod)
		}
	}
	cases := []struct {
		name   string
		n1, n2 []int64
		want   string
	}{
		{"all see the same", []int64{2}, []int64{2}, ""},
		{"one sees more", []int64{1, 2}, []int64{2}, "n1"},
		{"one sees other brokers", []int64{1}, []int64{2}, ""},
		{"one sees less", []int64{}, []int64{2}, ""},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			steady(b, outlookPeriod/2, tc.n1, tc.n2)
			if got := b.BetterLeader(b.now); got != "" {
				t.Errorf("%q is better already", got)
			}
			steady(b, outlookPeriod/2+reportPeriod, tc.n1, tc.n2)
			if got := b.BetterLeader(b.now); got != tc.want {
				t.Errorf("%q is better, want %q", got, tc.want)
			}
			b.pass(reportTTL)
			if got := b.BetterLeader(b.now); got != "" {
				t.Errorf("%q is silent, and better", got)
			}
		})
	}
}

func TestDeadBrokersAreForgotten(t *testing.T) {
	b := newBench(t)
	b.beat(1, "c")
	for range 4 {
		b.now = b.now.Add(standstill - 1) // not a standstill
		b.Step(&Tick{}, b.now)
	}
	for end := b.now.Add(forgetAfter); b.now.Before(end); b.now = b.now.Add(standstill - 1) {
		b.Step(&Tick{}, b.now)
	}
	b.pass(time.Second)
	if len(b.brokers) != 0 {
		t.Errorf("%d brokers are kept", len(b.brokers))
	}
}

// TestSightings: a controller reports only what it has heard itself, or two would keep a dead broker alive for each other.
func TestSightings(t *testing.T) {
	b := newBench(t)
	b.beat(2, "c")
	b.beat(1, "c")
	b.report("n1", 3)
	want := []Sighting{{broker(1), Vitals{Epoch: 1, MaxOffset: 100}}, {broker(2), Vitals{Epoch: 1, MaxOffset: 100}}}
	if diff := cmp.Diff(want, b.Seen(b.now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLivenessAgainstModel compares the table with the plainest account of who was heard when.
func TestLivenessAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		l := NewLiveness(now)
		type account struct {
			here, n1, n2 time.Time // until when each controller's word counts
			link         int
			gone         bool
		}
		model := map[Broker]*account{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			b := broker(int64(rapid.IntRange(1, 3).Draw(t, "broker")))
			m := model[b]
			if m == nil {
				m = &account{}
				model[b] = m
			}
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0:
				m.link++
				l.Step(&Heartbeat{Broker: b, Vitals: &Vitals{}, Timeout: 3 * time.Second, Link: link(b, m.link)}, now)
				m.here, m.gone = now.Add(3*time.Second), false
			case 1:
				old := rapid.IntRange(0, 1).Draw(t, "old")
				l.Step(&LinkEnded{link(b, m.link-old)}, now)
				l.Step(&Probed{b, true}, now)
				if m.gone = m.gone || old == 0 && m.link > 0; m.gone {
					m.n1, m.n2 = time.Time{}, time.Time{} // said before
				}
			case 2:
				from := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "from")
				listed := rapid.SliceOfNDistinct(rapid.Int64Range(1, 3), 0, 3, rapid.ID).Draw(t, "listed")
				r := &Report{From: from}
				for _, id := range listed {
					r.Alive = append(r.Alive, Sighting{Broker: broker(id)})
				}
				l.Step(r, now)
				for id := int64(1); id <= 3; id++ {
					until := time.Time{}
					if slices.Contains(listed, id) {
						until = now.Add(reportTTL)
					}
					if model[broker(id)] == nil {
						model[broker(id)] = &account{}
					}
					if from == "n1" {
						model[broker(id)].n1 = until
					} else {
						model[broker(id)].n2 = until
					}
				}
			default:
				for range rapid.IntRange(1, 8).Draw(t, "ticks") {
					now = now.Add(tickPeriod)
					l.Step(&Tick{}, now)
				}
			}
			for b, m := range model {
				want := now.Before(m.here) && !m.gone || now.Before(m.n1) || now.Before(m.n2)
				if got := l.Alive(b, now); got != want {
					t.Fatalf("%v: alive is %v, want %v", b, got, want)
				}
				if l.Alive(b, now) && l.Dead(b, now) {
					t.Fatalf("%v is alive and dead", b)
				}
			}
		}
	})
}

func link(b Broker, n int) Link { return fmt.Sprint(b, n) }

// TestReportOfBeforeTheEnd: the last words of a controller that died together with a broker do not keep the broker alive, what another
// one says afterwards does.
func TestReportOfBeforeTheEnd(t *testing.T) {
	b := newBench(t)
	b.beat(1, "link")
	b.report("n1", 1)
	b.Step(&LinkEnded{"link"}, b.now)
	b.Step(&Probed{broker(1), true}, b.now)
	b.Step(&Lead{}, b.now)
	b.want(1, "dead")
	b.report("n2", 1)
	b.want(1, "alive")
}
