package clock

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ Clock = Real{}
	_ Clock = (*Manual)(nil)

	epoch = time.UnixMilli(1_700_000_000_000)
)

// received returns what lies in c without waiting.
func received(c <-chan time.Time) (time.Time, bool) {
	select {
	case at := <-c:
		return at, true
	default:
		return time.Time{}, false
	}
}

func TestManualStandsStillUntilAdvanced(t *testing.T) {
	m := NewManual(epoch)
	if m.Now() != epoch || m.NowMs() != 1_700_000_000_000 {
		t.Fatalf("now %v", m.Now())
	}
	m.Advance(1500 * time.Microsecond)
	if got := m.Now().Sub(epoch); got != 1500*time.Microsecond {
		t.Fatalf("moved by %v", got)
	}
	if got := m.NowMs(); got != 1_700_000_000_001 {
		t.Fatalf("NowMs %d", got)
	}
}

func TestManualFiresInOrderOfTimeThenOfArming(t *testing.T) {
	m := NewManual(epoch)
	var order []string
	var at []time.Duration
	note := func(name string) func() {
		return func() {
			order = append(order, name)
			at = append(at, m.Now().Sub(epoch))
		}
	}
	m.AfterFunc(3*time.Second, note("c"))
	m.AfterFunc(time.Second, note("a"))
	m.AfterFunc(3*time.Second, note("d"))
	m.AfterFunc(2*time.Second, func() {
		note("b")()
		m.AfterFunc(500*time.Millisecond, note("armed by b"))
	})
	m.AfterFunc(4*time.Second, note("too late"))
	m.Advance(3 * time.Second)
	if want := []string{"a", "b", "armed by b", "c", "d"}; !slices.Equal(order, want) {
		t.Fatalf("order %v, want %v", order, want)
	}
	want := []time.Duration{time.Second, 2 * time.Second, 2500 * time.Millisecond, 3 * time.Second, 3 * time.Second}
	if !slices.Equal(at, want) {
		t.Fatalf("times %v, want %v", at, want)
	}
	if m.Now() != epoch.Add(3*time.Second) {
		t.Fatalf("stands at %v", m.Now())
	}
}

func TestManualTimerStopAndReset(t *testing.T) {
	m := NewManual(epoch)
	timer := m.NewTimer(time.Second)
	m.Advance(999 * time.Millisecond)
	if _, ok := received(timer.C); ok {
		t.Fatal("fired early")
	}
	m.Advance(time.Millisecond)
	if at, ok := received(timer.C); !ok || at != epoch.Add(time.Second) {
		t.Fatalf("fired %v at %v", ok, at)
	}
	if timer.Stop() {
		t.Fatal("Stop of a finished timer said it stopped it")
	}
	if timer.Reset(time.Second) {
		t.Fatal("Reset of a finished timer said it was armed")
	}
	if !timer.Stop() {
		t.Fatal("Stop of an armed timer said it did not")
	}
	m.Advance(time.Hour)
	if _, ok := received(timer.C); ok {
		t.Fatal("a stopped timer fired")
	}
	timer.Reset(0)
	if _, ok := received(timer.C); !ok {
		t.Fatal("a timer of no duration did not fire at once")
	}
}

// A value that was sent but not received must not be taken for the event after Reset.
func TestManualResetDropsStaleValue(t *testing.T) {
	m := NewManual(epoch)
	timer := m.NewTimer(time.Second)
	m.Advance(time.Second)
	if !timer.Reset(time.Minute) {
		t.Fatal("Reset did not see the event that nobody received")
	}
	if _, ok := received(timer.C); ok {
		t.Fatal("stale value received")
	}
	m.Advance(time.Minute)
	if _, ok := received(timer.C); !ok {
		t.Fatal("did not fire after Reset")
	}
}

func TestManualAfterFuncOfNoDurationWaitsForAdvance(t *testing.T) {
	m := NewManual(epoch)
	ran := 0
	timer := m.AfterFunc(-time.Second, func() { ran++ })
	if ran != 0 {
		t.Fatal("ran inside AfterFunc")
	}
	m.Advance(0)
	m.Advance(0)
	if ran != 1 {
		t.Fatalf("ran %d times", ran)
	}
	timer.Reset(time.Second)
	m.Advance(time.Second)
	if ran != 2 {
		t.Fatalf("ran %d times after Reset", ran)
	}
}

func TestManualTicker(t *testing.T) {
	m := NewManual(epoch)
	ticker := m.NewTicker(time.Second)
	for i := range 3 {
		m.Advance(time.Second)
		if at, ok := received(ticker.C); !ok || at != epoch.Add(time.Duration(i+1)*time.Second) {
			t.Fatalf("tick %d: %v at %v", i, ok, at)
		}
	}
	m.Advance(10 * time.Second)
	if at, _ := received(ticker.C); at != epoch.Add(4*time.Second) {
		t.Fatalf("slow receiver got %v", at)
	}
	if _, ok := received(ticker.C); ok {
		t.Fatal("dropped ticks were kept")
	}
	ticker.Reset(time.Minute)
	m.Advance(59 * time.Second)
	if _, ok := received(ticker.C); ok {
		t.Fatal("ticked in the old period")
	}
	m.Advance(time.Second)
	if _, ok := received(ticker.C); !ok {
		t.Fatal("did not tick in the new period")
	}
	ticker.Stop()
	m.Advance(time.Hour)
	if _, ok := received(ticker.C); ok {
		t.Fatal("ticked after Stop")
	}
}

func TestManualBlockUntilWaitsForAnotherGoroutine(t *testing.T) {
	m := NewManual(epoch)
	got := make(chan time.Time)
	go func() {
		timer := m.NewTimer(time.Second)
		got <- <-timer.C
	}()
	m.BlockUntil(1)
	m.Advance(time.Second)
	if at := <-got; at != epoch.Add(time.Second) {
		t.Fatalf("fired at %v", at)
	}
}

func TestManualRefusesNonsense(t *testing.T) {
	m := NewManual(epoch)
	for name, f := range map[string]func(){
		"negative advance": func() { m.Advance(-1) },
		"ticker of zero":   func() { m.NewTicker(0) },
		"reset to zero":    func() { m.NewTicker(1).Reset(0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestReal(t *testing.T) {
	var c Clock = Real{}
	before := time.Now()
	if now := c.Now(); now.Before(before) {
		t.Fatalf("now %v is before %v", now, before)
	}
	if ms := c.NowMs(); ms < before.UnixMilli() {
		t.Fatalf("NowMs %d", ms)
	}
	<-c.NewTimer(time.Millisecond).C
	ticker := c.NewTicker(time.Millisecond)
	<-ticker.C
	<-ticker.C
	ticker.Stop()
	done := make(chan struct{})
	timer := c.AfterFunc(time.Hour, func() { close(done) })
	if !timer.Reset(0) {
		t.Fatal("the timer was not armed")
	}
	<-done
	if timer.Stop() {
		t.Fatal("stopped a timer that had fired")
	}
}

// TestRealTickersTickTogether: those of one period, whenever they began, and also after a Reset.
func TestRealTickersTickTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const d = 100 * time.Millisecond
		time.Sleep(37 * time.Millisecond)
		a := Real{}.NewTicker(d)
		defer a.Stop()
		time.Sleep(41 * time.Millisecond)
		b := Real{}.NewTicker(3 * d)
		defer b.Stop()
		b.Reset(d)
		for i := range 5 {
			began := time.Now()
			x, y := <-a.C, <-b.C
			if gap := y.Sub(x); gap < 0 || gap > settling {
				t.Errorf("tick %d: %v apart", i, gap)
			}
			if waited := time.Since(began); waited > d+settling {
				t.Errorf("tick %d came after %v", i, waited)
			}
		}
		b.Reset(d) // before its second tick
		b.Stop()
		time.Sleep(3 * d)
		select {
		case <-b.C:
			t.Error("a stopped ticker ticks")
		default:
		}
		for range 3 { // who resets at each tick gets each tick
			<-a.C
			a.Reset(d)
		}
		began := time.Now()
		<-a.C
		if waited := time.Since(began); waited > d {
			t.Errorf("after a reset a tick took %v", waited)
		}
	})
}
