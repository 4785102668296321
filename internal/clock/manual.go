package clock

import (
	"sync"
	"time"
)

// Manual is a clock for tests. Time stands still until Advance moves it. It is safe for concurrent use.
type Manual struct {
	mu      sync.Mutex
	changed sync.Cond // signalled when pending grows
	now     time.Time
	seq     uint64 // orders the events of one instant by their arming
	pending map[*event]struct{}
}

// NewManual returns a clock that stands at start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start, pending: map[*event]struct{}{}}
	m.changed.L = &m.mu
	return m
}

// Now returns the time that the clock stands at.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// NowMs returns the time that the clock stands at, in milliseconds since 1970.
func (m *Manual) NowMs() int64 { return m.Now().UnixMilli() }

// NewTimer returns a timer that fires when Advance reaches d from now, or at once when d is not positive.
func (m *Manual) NewTimer(d time.Duration) *Timer {
	e := m.start(&event{clock: m, c: make(chan time.Time, 1)}, d)
	return &Timer{C: e.c, engine: e}
}

// NewTicker returns a ticker that fires whenever Advance passes a multiple of d from now.
func (m *Manual) NewTicker(d time.Duration) *Ticker {
	mustBePositive(d)
	e := m.start(&event{clock: m, c: make(chan time.Time, 1), period: d}, d)
	return &Ticker{C: e.c, engine: ticks{e}}
}

// AfterFunc runs f inside the Advance that reaches d from now; when d is not positive, inside the next Advance.
// Running f there and not in a goroutine of its own is what makes a test repeatable.
func (m *Manual) AfterFunc(d time.Duration, f func()) *Timer {
	return &Timer{engine: m.start(&event{clock: m, f: f}, d)}
}

// Advance moves the clock by d, which must not be negative, and fires what becomes due: in the order of time, and in the
// order of arming for one instant. Each event sees the clock at its own time. No lock is held while a function runs, so
// it may use the clock; what it arms within d is fired as well.
func (m *Manual) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: Advance by a negative duration")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	target := m.now.Add(d)
	for e := m.nextLocked(target); e != nil; e = m.nextLocked(target) {
		if e.at.After(m.now) {
			m.now = e.at
		}
		if f := m.fireLocked(e); f != nil {
			m.mu.Unlock()
			f()
			m.mu.Lock()
		}
	}
	if target.After(m.now) {
		m.now = target
	}
}

// BlockUntil waits until at least n timers and tickers are armed. A test calls it before Advance when the timers are
// armed by another goroutine.
func (m *Manual) BlockUntil(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.pending) < n {
		m.changed.Wait()
	}
}

// nextLocked returns the first event that is due at target. A test has few events, so a scan is good enough.
func (m *Manual) nextLocked(target time.Time) *event {
	var first *event
	for e := range m.pending {
		if e.at.After(target) {
			continue
		}
		if first == nil || e.at.Before(first.at) || e.at.Equal(first.at) && e.seq < first.seq {
			first = e
		}
	}
	return first
}

// fireLocked sends the event or returns the function to run once the lock is free.
func (m *Manual) fireLocked(e *event) func() {
	if e.period > 0 {
		m.armLocked(e, e.at.Add(e.period))
	} else {
		delete(m.pending, e)
	}
	if e.f != nil {
		return e.f
	}
	select {
	case e.c <- m.now:
	default: // The last tick was not received: this one is dropped, as time.Ticker does.
	}
	return nil
}

func (m *Manual) armLocked(e *event, at time.Time) {
	m.seq++
	e.at, e.seq = at, m.seq
	m.pending[e] = struct{}{}
	m.changed.Broadcast()
}

func (m *Manual) start(e *event, d time.Duration) *event {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.setLocked(d)
	return e
}

// event is an armed or finished timer. The fields at and seq are guarded by clock.mu.
type event struct {
	clock  *Manual
	f      func()         // of AfterFunc, else nil
	c      chan time.Time // of timers and tickers; sent to and drained under clock.mu
	period time.Duration  // of tickers, else 0; guarded by clock.mu
	at     time.Time
	seq    uint64
}

// Stop disarms the event and drops a value that nobody received; both count as stopped, as in package time.
func (e *event) Stop() bool {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	return e.stopLocked()
}

// Reset arms the event anew.
func (e *event) Reset(d time.Duration) bool {
	e.clock.mu.Lock()
	defer e.clock.mu.Unlock()
	was := e.stopLocked()
	e.setLocked(d)
	return was
}

func (e *event) stopLocked() bool {
	_, was := e.clock.pending[e]
	delete(e.clock.pending, e)
	select {
	case <-e.c: // A nil channel, of AfterFunc, is never ready.
		was = true
	default:
	}
	return was
}

// setLocked arms the event d from now. A channel is served at once when d has passed already; a function is not, since
// the caller may hold locks that it needs.
func (e *event) setLocked(d time.Duration) {
	m := e.clock
	m.armLocked(e, m.now.Add(max(d, 0)))
	if d <= 0 && e.f == nil {
		m.fireLocked(e)
	}
}

// ticks gives an event the method set of a ticker.
type ticks struct{ e *event }

// Stop ends the ticks.
func (t ticks) Stop() { t.e.Stop() }

// Reset changes the period and starts it now.
func (t ticks) Reset(d time.Duration) {
	mustBePositive(d)
	t.e.clock.mu.Lock()
	defer t.e.clock.mu.Unlock()
	t.e.stopLocked()
	t.e.period = d
	t.e.setLocked(d)
}

func mustBePositive(d time.Duration) {
	if d <= 0 {
		panic("clock: a ticker needs a positive period")
	}
}
