package replica

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var t0 = time.Unix(1_700_000_000, 0)

func at(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }

// three is a master of {1, 2, 3} with both others attached at 100.
func three() *Leader {
	l := NewLeader(1, 7, []int64{1, 2, 3}, 4, 2, 3*time.Second, t0)
	l.Attach(2, 20, 100, 0, false, t0)
	l.Attach(3, 30, 100, 0, false, t0)
	return l
}

func (l *Leader) mustAck(t *testing.T, id int64, session uint64, acked, end int64, now time.Time) {
	t.Helper()
	if !l.Ack(id, session, acked, end, now) {
		t.Fatalf("%d cannot have %d of %d", id, acked, end)
	}
}

func wants(t *testing.T, got []int64, want ...int64) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("asks for %v, want %v", got, want)
	}
}

func TestWatermark(t *testing.T) {
	l := NewLeader(1, 7, []int64{1, 2, 3}, 4, 2, time.Second, t0)
	if l.Watermark() != Unknown {
		t.Fatal("members that never came count as nothing")
	}
	l.Attach(2, 20, 100, 0, false, t0)
	if l.Watermark() != Unknown {
		t.Fatal("an absent member was passed over")
	}
	l.Attach(3, 30, 90, 0, false, t0)
	l.mustAck(t, 2, 20, 150, 200, t0)
	if l.Watermark() != 90 {
		t.Fatal(l.Watermark())
	}
	l.Detach(3, 29, t0) // an older connection of it
	l.mustAck(t, 3, 29, 200, 200, t0)
	if l.Watermark() != 90 {
		t.Fatal("a former connection counts", l.Watermark())
	}
	if l.Ack(3, 30, 201, 200, t0) || l.Ack(3, 30, 80, 200, t0) {
		t.Fatal("an acknowledgement of what is not there, or of less than before")
	}
	l.Detach(3, 30, t0)
	if l.Watermark() != Unknown {
		t.Fatal("a member without a connection counts")
	}
	alone := NewLeader(1, 7, []int64{1}, 4, 1, time.Second, t0)
	if alone.Watermark() != math.MaxInt64 {
		t.Fatal(alone.Watermark())
	}
	l = three()
	l.mustAck(t, 2, 20, 150, 200, t0)
	for copies, want := range []int64{100, math.MaxInt64, 150, 100, 100} {
		if l.Copies = copies; l.Watermark() != want {
			t.Errorf("%d copies: %d, want %d", copies, l.Watermark(), want)
		}
	}
	few := NewLeader(1, 7, []int64{1}, 4, 2, time.Second, t0)
	if few.Watermark() != Unknown || few.Enough() {
		t.Fatal("a set of one confirms where two are needed")
	}
}

func TestWhoLeavesTheSet(t *testing.T) {
	l := three()
	wants(t, l.Tick(100, at(50)))
	l.Detach(3, 30, at(100))
	wants(t, l.Tick(100, at(125)))
	wants(t, l.Tick(100, at(150)), 1, 2)
	if l.mustAck(t, 2, 20, 200, 200, at(460)); l.Watermark() != Unknown {
		t.Fatal("the smaller set counts before it is committed")
	}
	wants(t, l.Tick(200, at(500)), 1, 2) // until it is answered
	l.Unanswered(at(510))
	l.Refused(at(520)) // a former request may still arrive
	wants(t, l.Tick(200, at(550)), 1, 2)
	l.Committed([]int64{1, 2}, 3) // old news
	if set, epoch := l.Set(); len(set) != 3 || epoch != 4 {
		t.Fatal(set, epoch)
	}
	l.Committed([]int64{2, 1}, 5)
	if l.Watermark() != 200 {
		t.Fatal(l.Watermark())
	}
	wants(t, l.Tick(200, at(600)))
}

func TestWhoSaysSoLeavesTheSetAtOnce(t *testing.T) {
	l := three()
	l.Leave(3, 29) // a former connection
	wants(t, l.Tick(100, at(10)))
	l.Leave(3, 30)
	wants(t, l.Tick(100, at(20)), 1, 2)
	if l.mustAck(t, 2, 20, 200, 200, at(30)); l.Watermark() != 100 {
		t.Fatal("it does not count any more", l.Watermark())
	}
	l.mustAck(t, 3, 30, 200, 200, at(40))
	if l.Watermark() != 200 {
		t.Fatal(l.Watermark())
	}
}

func TestWhoHangsLeavesTheSet(t *testing.T) {
	l := three()
	for ms := 50; ms < 2000; ms += 50 { // nothing to acknowledge: nobody hangs
		wants(t, l.Tick(100, at(ms)))
	}
	l.mustAck(t, 2, 20, 300, 300, at(2010))
	wants(t, l.Tick(300, at(2400)))
	wants(t, l.Tick(300, at(2500)), 1, 2)
}

func TestWhoIsTooSlowLeavesTheSet(t *testing.T) {
	l := three()
	end := int64(100)
	for ms := 50; ; ms += 50 {
		end += 1000
		l.mustAck(t, 2, 20, end, end, at(ms))
		l.mustAck(t, 3, 30, l.Acked(3)+1, end, at(ms)) // it moves, and falls behind
		if want := l.Tick(end, at(ms)); want != nil {
			if wants(t, want, 1, 2); ms < 3000 || ms > 3500 {
				t.Fatalf("after %d ms", ms)
			}
			return
		}
		if ms > 5000 {
			t.Fatal("it stays")
		}
	}
}

func TestConstantLoadIsNoLag(t *testing.T) {
	l := three()
	end := int64(100)
	for ms := 50; ms < 20_000; ms += 50 {
		last := end
		end += 1000
		l.mustAck(t, 2, 20, last, end, at(ms)) // always a little behind
		l.mustAck(t, 3, 30, last, end, at(ms))
		wants(t, l.Tick(end, at(ms)))
	}
}

func TestWhoEntersTheSet(t *testing.T) {
	l := NewLeader(1, 7, []int64{1, 2}, 4, 2, 3*time.Second, t0)
	l.Attach(2, 20, 1000, 0, false, t0)
	l.Attach(3, 30, 0, 0, false, t0)
	l.Attach(4, 40, 1000, 0, true, t0) // a learner never does
	far := int64(near) + 1000
	l.mustAck(t, 2, 20, far, far, t0)
	wants(t, l.Tick(far, at(50)))
	if l.Watermark() != far {
		t.Fatal("the set waits for a replica that is far behind")
	}
	l.mustAck(t, 3, 30, far-500, far, at(60))
	wants(t, l.Tick(far, at(100))) // invited; the barrier is far
	if l.Watermark() != far-500 {
		t.Fatal("what is sent now is confirmed without the newcomer", l.Watermark())
	}
	l.mustAck(t, 2, 20, far+1000, far+1000, at(110))
	l.mustAck(t, 3, 30, far-1, far+1000, at(120))
	wants(t, l.Tick(far+1000, at(150)))
	l.mustAck(t, 3, 30, far, far+1000, at(160))
	wants(t, l.Tick(far+1000, at(200)), 1, 2, 3)
	l.Refused(at(210))
	if l.Watermark() != far+1000 {
		t.Fatal("who was refused still counts", l.Watermark())
	}
}

// TestOneThatIsRefusedKeepsNobodyOut: newcomers are proposed one by one, with the life in which they have acknowledged.
func TestOneThatIsRefusedKeepsNobodyOut(t *testing.T) {
	l := NewLeader(1, 7, []int64{1}, 4, 1, 3*time.Second, t0)
	l.Attach(2, 20, 1000, 12, false, t0)
	l.Attach(3, 30, 1000, 13, false, t0)
	l.Tick(1000, at(50))
	wants(t, l.Tick(1000, at(60)), 1, 2)
	if lives := l.Lives([]int64{1, 2, 3, 4}); len(lives) != 2 || lives[2] != 12 || lives[3] != 13 {
		t.Fatal(lives)
	}
	l.Refused(at(70))
	l.Tick(1000, at(80))
	wants(t, l.Tick(1000, at(90)), 1, 3)
	l.Committed([]int64{1, 3}, 5)
	l.Detach(2, 20, at(95))
	l.Attach(2, 21, 1000, 14, false, at(100))
	l.Tick(1000, at(110))
	wants(t, l.Tick(1000, at(120)), 1, 2, 3)
	if lives := l.Lives([]int64{1, 2, 3}); lives[2] != 14 {
		t.Fatal(lives)
	}
}

func TestNewcomerThatStopsIsGivenUp(t *testing.T) {
	l := NewLeader(1, 7, []int64{1, 2}, 4, 2, 3*time.Second, t0)
	l.Attach(2, 20, 1000, 0, false, t0)
	l.Attach(3, 30, 900, 0, false, t0)
	wants(t, l.Tick(1000, at(50)))
	if l.Watermark() != 900 {
		t.Fatal(l.Watermark())
	}
	wants(t, l.Tick(1000, at(550)))
	if l.Watermark() != 1000 {
		t.Fatal("the newcomer still counts", l.Watermark())
	}
}

func TestNewcomerThatIsTooSlowIsGivenUp(t *testing.T) {
	l := NewLeader(1, 7, []int64{1, 2}, 4, 2, 3*time.Second, t0)
	l.Attach(2, 20, 9000, 0, false, t0)
	l.Attach(3, 30, 900, 0, false, t0)
	for ms := 50; ms <= 2100; ms += 50 {
		wants(t, l.Tick(9000, at(ms)))
		l.mustAck(t, 3, 30, int64(900+ms), 9000, at(ms))
	}
	if l.Watermark() != 9000 {
		t.Fatal("the newcomer still counts", l.Watermark())
	}
}

// A replica whose disk is full connects again and again and takes nothing. As long as it was proposed each time, nothing was confirmed.
func TestNewcomerThatComesAndGoesStopsNobody(t *testing.T) {
	l := NewLeader(1, 7, []int64{1, 2}, 4, 2, 3*time.Second, t0)
	l.Attach(2, 20, 900, 0, false, t0)
	end := int64(1000)
	for session := range uint64(50) {
		now := at(int(session) * 100)
		l.Attach(3, 30+session, 900, 0, false, now)
		wants(t, l.Tick(end, now))
		if end > 3000 && l.Watermark() != end-100 {
			t.Fatal("it is waited for", l.Watermark())
		}
		l.Detach(3, 30+session, now.Add(time.Millisecond))
		end += 100
		l.mustAck(t, 2, 20, end-100, end, now.Add(2*time.Millisecond))
		if l.Watermark() != end-100 {
			t.Fatal("it counts when it has gone", l.Watermark())
		}
	}
}

// TestSetKeepsWhatIsConfirmed is I1 and I7 under random events: at any time every member of the committed set, and of any set that may
// be committed next, has all that has ever been confirmed.
func TestSetKeepsWhatIsConfirmed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const replicas = 4
		logs := map[int64]int64{2: 0, 3: 0, 4: 0}
		sessions := map[int64]uint64{}
		l := NewLeader(1, 7, []int64{1}, 1, rapid.IntRange(1, 2).Draw(t, "min"), time.Second, t0)
		if rapid.Bool().Draw(t, "three") {
			l = NewLeader(1, 7, []int64{1, 2, 3}, 1, 2, time.Second, t0)
		}
		now, end, confirmed, next := 0, int64(0), int64(0), uint64(1)
		setEpoch := int32(1)
		var asked []int64 // what the controllers may still commit, at setEpoch
		for range 300 {
			now += rapid.IntRange(0, 120).Draw(t, "ms")
			id := int64(rapid.IntRange(2, replicas).Draw(t, "id"))
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0:
				end += int64(rapid.IntRange(1, 100).Draw(t, "bytes"))
			case 1:
				sessions[id], next = next, next+1
				l.Attach(id, sessions[id], logs[id], 0, false, at(now))
			case 2:
				l.Detach(id, sessions[id], at(now))
				sessions[id] = 0
			case 3, 4:
				if sessions[id] != 0 {
					logs[id] += int64(rapid.IntRange(0, int(end-logs[id])).Draw(t, "copied"))
					if !l.Ack(id, sessions[id], logs[id], end, at(now)) {
						t.Fatal("a true acknowledgement was refused")
					}
				}
			case 5:
				if want := l.Tick(end, at(now)); want != nil {
					asked = want
					l.Unanswered(at(now))
				}
			case 6:
				if asked != nil {
					setEpoch++
					l.Committed(asked, setEpoch)
					asked = nil
				}
			}
			confirmed = max(confirmed, min(end, l.Watermark()))
			set, _ := l.Set()
			for _, s := range [][]int64{set, asked} {
				for _, id := range s {
					if id != 1 && logs[id] < confirmed {
						t.Fatalf("%d is confirmed, %d in %v has %d", confirmed, id, s, logs[id])
					}
				}
			}
		}
	})
}

func TestWhatCannotBeConfirmedIsNotTaken(t *testing.T) {
	able := func(l *Leader, ms int, want bool) {
		t.Helper()
		if l.Tick(200, at(ms)); l.Able(at(ms)) != want {
			t.Fatalf("after %d ms: able is %v", ms, !want)
		}
	}
	l := three()
	able(l, 10, true)
	l.Detach(3, 30, at(20))
	for ms := 30; ms <= 1000; ms += 10 { // the controllers do not answer
		l.mustAck(t, 2, 20, 200, 200, at(ms))
		able(l, ms, true)
	}
	l.mustAck(t, 2, 20, 200, 200, at(1100))
	able(l, 1100, false)
	l.Committed([]int64{1, 2}, 5)
	able(l, 1110, true)
	l.Detach(2, 20, at(1120))
	able(l, 1130, true)
	able(l, 1160, true)
	able(l, 1450, true)
	able(l, 1470, false)
	l.Attach(2, 21, 200, 0, false, at(1480))
	able(l, 1490, true)
	l.Committed([]int64{1}, 6)
	able(l, 1500, false)

	l = three()
	l.Copies = 1
	l.Detach(3, 30, at(20))
	for ms := 30; ms <= 2000; ms += 10 {
		l.mustAck(t, 2, 20, 200, 200, at(ms))
		able(l, ms, true)
	}

	l = NewLeader(1, 7, []int64{1, 2, 3}, 4, 2, time.Second, t0) // nobody has come yet
	able(l, 1000, true)
	able(l, 1010, true)
	able(l, 1400, false)
}
