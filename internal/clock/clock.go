// Package clock is the seam between the code and time.
package clock

import "time"

// Clock tells the time. Components take one as an argument; only this package calls package time for the present.
type Clock interface {
	Now() time.Time
	NowMs() int64
	NewTimer(d time.Duration) *time.Timer
	NewTicker(d time.Duration) *time.Ticker
	AfterFunc(d time.Duration, f func()) *time.Timer
}

// Real is the machine's clock.
type Real struct{}

// Now returns the present with its monotonic reading.
func (Real) Now() time.Time { return time.Now() }

// NowMs returns the present in milliseconds since 1970.
func (Real) NowMs() int64 { return time.Now().UnixMilli() }

// NewTimer is time.NewTimer.
func (Real) NewTimer(d time.Duration) *time.Timer { return time.NewTimer(d) }

// NewTicker is time.NewTicker.
func (Real) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }

// AfterFunc is time.AfterFunc.
func (Real) AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }
