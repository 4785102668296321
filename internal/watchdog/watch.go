package watchdog

import "time"

const (
	// beat is the time between two bytes, and between two looks of the child.
	beat = 100 * time.Millisecond
	// late is how long a look may be overdue before the child takes it that everything has stood still, not only the process.
	late = 150 * time.Millisecond
	// shortest is the smallest timeout: less would be noise.
	shortest = 5 * beat
)

// mayKill is the byte that allows it; any other forbids it.
const mayKill = 1

// Watch decides whether a process hangs. Times are the child's monotonic clock, from any zero.
type Watch struct {
	timeout time.Duration
	heard   time.Duration // the last byte, or when the process began to have a chance to send one
	looked  time.Duration
	allowed bool
}

// NewWatch begins at now. Until it hears something nothing is allowed.
func NewWatch(timeout, now time.Duration) *Watch {
	return &Watch{timeout: max(timeout, shortest), heard: now, looked: now}
}

// Heard takes what the process has written since the last time: the last byte counts.
func (w *Watch) Heard(bytes []byte, now time.Duration) {
	if len(bytes) > 0 {
		w.heard, w.allowed = now, bytes[len(bytes)-1] == mayKill
	}
}

// Look tells whether the process is to be killed. It is called after Heard, once a beat; when it is called late, the child was held up,
// and the process may have been, too, so its time begins anew.
func (w *Watch) Look(now time.Duration) (kill bool) {
	if now-w.looked > beat+late {
		w.heard = now
	}
	w.looked = now
	return w.allowed && w.Silence(now) >= w.timeout
}

// Silence is how long nothing has been heard.
func (w *Watch) Silence(now time.Duration) time.Duration { return now - w.heard }
