// Package clock is the seam between the code and time: production code uses Real, tests move a Manual.
package clock

import (
	"sync"
	"time"
)

// Clock tells the time. Components take one as an argument; only this package calls package time for the present.
type Clock interface {
	// Now returns the present.
	Now() time.Time
	// NowMs returns the present in milliseconds since 1970.
	NowMs() int64
	// NewTimer returns a timer that sends the time on its channel once, after d.
	NewTimer(d time.Duration) *Timer
	// NewTicker returns a ticker that sends the time on its channel every d, which must be positive.
	NewTicker(d time.Duration) *Ticker
	// AfterFunc runs f once, after d. The channel of the timer is nil.
	AfterFunc(d time.Duration, f func()) *Timer
}

// Timer is one event. It is used like a time.Timer, which itself cannot be driven by anything but the machine's clock.
type Timer struct {
	// C receives the time of the event. It is nil for AfterFunc.
	C <-chan time.Time

	engine interface {
		Stop() bool
		Reset(d time.Duration) bool
	}
}

// Stop prevents the event and tells whether it did. After Stop nothing is received from C.
func (t *Timer) Stop() bool { return t.engine.Stop() }

// Reset sets the event to d from now and tells whether an earlier one was still to come. A value of the earlier event is
// not received after Reset.
func (t *Timer) Reset(d time.Duration) bool { return t.engine.Reset(d) }

// Ticker is a repeated event. A tick that finds the last one not yet received is dropped.
type Ticker struct {
	// C receives the time of each tick.
	C <-chan time.Time

	engine interface {
		Stop()
		Reset(d time.Duration)
	}
}

// Stop ends the ticks. It does not close C.
func (t *Ticker) Stop() { t.engine.Stop() }

// Reset makes the next tick come d from now, then every d.
func (t *Ticker) Reset(d time.Duration) { t.engine.Reset(d) }

// Real is the machine's clock.
type Real struct{}

// Now returns the present with its monotonic reading.
func (Real) Now() time.Time { return time.Now() }

// NowMs returns the present in milliseconds since 1970.
func (Real) NowMs() int64 { return time.Now().UnixMilli() }

// NewTimer is time.NewTimer.
func (Real) NewTimer(d time.Duration) *Timer {
	t := time.NewTimer(d)
	return &Timer{C: t.C, engine: t}
}

// NewTicker is a time.NewTicker whose ticks, if d is alignFrom or more, fall on multiples of d since 1970, as those of all others do: a process
// that is idle is woken once for all of them. The first tick comes within d. The time of day is looked at once; what it does later changes
// nothing.
func (Real) NewTicker(d time.Duration) *Ticker {
	t := time.NewTicker(d)
	a := &aligned{ticker: t}
	if d >= alignFrom {
		a.Reset(d)
	}
	return &Ticker{C: t.C, engine: a}
}

const (
	// alignFrom is the shortest period of tickers that tick together.
	alignFrom = 50 * time.Millisecond
	// settling is how long after its first tick a ticker gets its period: that tick must be out.
	settling = time.Millisecond
)

// aligned is a ticker whose first period is shorter.
type aligned struct {
	ticker *time.Ticker

	mu    sync.Mutex
	first *time.Timer
	turn  int // of Reset
}

// Stop is time.Ticker's.
func (a *aligned) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	a.ticker.Stop()
}

// Reset is time.Ticker's, with its first tick within d.
func (a *aligned) Reset(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	turn := a.begin()
	if d < alignFrom {
		a.ticker.Reset(d)
		return
	}
	first := d - time.Duration(time.Now().UnixNano())%d
	a.ticker.Reset(first)
	a.first = time.AfterFunc(first+settling, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.turn == turn {
			a.ticker.Reset(d)
		}
	})
}

// begin forgets what was to come. The caller holds mu.
func (a *aligned) begin() (turn int) {
	if a.first != nil {
		a.first.Stop()
	}
	a.turn++
	return a.turn
}

// AfterFunc is time.AfterFunc: f runs in its own goroutine.
func (Real) AfterFunc(d time.Duration, f func()) *Timer {
	return &Timer{engine: time.AfterFunc(d, f)}
}
