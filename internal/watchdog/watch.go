package watchdog

import "time"

const (
	// beat is the time between two bytes, and between two looks of the child.
	beat = 200 * time.Millisecond
	// most is what one look adds to the silence at most. A look that comes later than that was held up, and so may the process have been:
	// a machine that stands still, or is slow, is no process that hangs.
	most = 250 * time.Millisecond
	// shortest is the smallest timeout: more than a beat, a late byte and a machine that stands still make together.
	shortest = 700 * time.Millisecond
)

// mayKill is the byte that allows it; any other forbids it.
const mayKill = 1

// Watch decides whether a process hangs. Times are the child's monotonic clock, from any zero.
type Watch struct {
	timeout time.Duration
	silence time.Duration // since the last byte, as far as the child was awake
	looked  time.Duration
	allowed bool
}

// NewWatch begins at now. Until it hears something nothing is allowed.
func NewWatch(timeout, now time.Duration) *Watch {
	return &Watch{timeout: max(timeout, shortest), looked: now}
}

// Heard takes what the process has written since the last time: the last byte counts.
func (w *Watch) Heard(bytes []byte, now time.Duration) {
	if len(bytes) > 0 {
		w.silence, w.looked, w.allowed = 0, now, bytes[len(bytes)-1] == mayKill
	}
}

// Look tells whether the process is to be killed. It is called once a beat, after Heard.
func (w *Watch) Look(now time.Duration) (kill bool) {
	w.silence += min(now-w.looked, most)
	w.looked = now
	return w.allowed && w.silence >= w.timeout
}

// Silence is how long nothing has been heard, without the time in which the child was held up.
func (w *Watch) Silence() time.Duration { return w.silence }
