package watchdog

import (
	"testing"
	"time"
)

// step is a look of the child: when, and what it has read before.
type step struct {
	ms    int
	bytes string
	kill  bool
}

// every makes looks from one time to another, 100 ms apart, that read bytes.
func every(from, to int, bytes string) (steps []step) {
	for ms := from; ms <= to; ms += 100 {
		steps = append(steps, step{ms: ms, bytes: bytes})
	}
	return steps
}

func join(parts ...[]step) (all []step) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestWatch(t *testing.T) {
	yes, no := "\x01", "\x00"
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"a process that speaks", every(100, 5000, yes)},
		{"a process that hangs", join(every(100, 500, yes), every(600, 1400, ""), []step{{1500, "", true}})},
		{"nobody else would do its work", join(every(100, 500, no), every(600, 5000, ""))},
		{"it never said", every(100, 5000, "")},
		{"the last byte counts", join(every(100, 500, yes), []step{{600, yes + no, false}}, every(700, 5000, ""))},
		{"the last byte counts, allowed", join(every(100, 500, no), []step{{600, no + yes, false}}, every(700, 1500, ""), []step{{1600, "", true}})},
		{"the machine stood still", join(every(100, 500, yes), []step{{60000, "", false}}, every(60100, 60700, ""), []step{{60800, "", true}})},
		{"the machine stood still, and the process goes on", join(every(100, 500, yes), []step{{9000, "", false}}, every(9100, 20000, yes))},
		{"the machine stands still again and again", join(every(100, 500, yes), []step{{5000, "", false}, {9000, yes, false}, {15000, "", false}, {20000, yes, false}})},
		{"the machine is slow, and the process hangs", join(every(100, 500, yes), []step{{1000, "", false}, {1500, "", false}, {2000, "", false}, {2500, "", true}})},
		{"it comes back in time", join(every(100, 500, yes), every(600, 1400, ""), every(1500, 2000, yes), every(2100, 2900, ""), []step{{3000, "", true}})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWatch(time.Second, 0)
			for _, s := range tt.steps {
				now := time.Duration(s.ms) * time.Millisecond
				w.Heard([]byte(s.bytes), now)
				if kill := w.Look(now); kill != s.kill {
					t.Fatalf("at %d ms, after %v: kill is %v", s.ms, w.Silence(), kill)
				}
			}
		})
	}
}

func TestTimeoutsBelowAFewBeatsAreLonger(t *testing.T) {
	w := NewWatch(time.Millisecond, 0)
	w.Heard([]byte{mayKill}, 0)
	for ms := time.Duration(100); ms < 700; ms += 100 {
		if w.Look(ms * time.Millisecond) {
			t.Fatalf("killed after %d ms", ms)
		}
	}
	if !w.Look(shortest) {
		t.Fatal("not killed")
	}
}
