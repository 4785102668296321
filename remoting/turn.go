package remoting

import "time"

// turn is a request's place among those of its connection in a lane whose workers would have them overtake each other.
type turn struct {
	before *turn         // of the request before it; nil: that was over when this one came
	over   chan struct{} // closed when the next one may go
	ended  bool
}

// AwaitTurn waits until each request that came before this one, on its connection and to its lane, has been sent on (Client.Forward) or is done, but
// no longer than within. It does not wait where the lane has no turns (Lane.InOrder).
func (r *Request) AwaitTurn(within time.Duration) {
	if r.turn == nil || r.turn.before == nil {
		return
	}
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-r.turn.before.over:
	case <-timer.C:
	}
	r.turn.before = nil
}

// GiveTurn lets the requests behind this one go, which may overtake it from now on. It is for who serves the request.
func (r *Request) GiveTurn() {
	if r.turn != nil && !r.turn.ended {
		r.turn.ended, r.turn.before = true, nil
		close(r.turn.over)
	}
}

// done ends the turn of a request that has been served or refused.
func (l *Lane) done(r *Request) {
	if r.turn == nil {
		return
	}
	r.GiveTurn()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[r.Conn] == r.turn {
		delete(l.last, r.Conn)
	}
}
