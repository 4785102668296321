package remoting

// redo is what an inline handler returns to be run again in a lane, where it may block.
type redo struct{ lane *Lane }

func (redo) Error() string { return "the request is to be served in a lane" }

// Redo makes the router run the handler of the present request again, in this lane. Return it from a handler that has found out
// that it must block, before anything has been answered; Request.OnLane then tells the second run from the first.
func (l *Lane) Redo() error { return redo{l} }

// OnLane tells whether the handler runs in a lane and may block.
func (r *Request) OnLane() bool { return r.lane != nil }

// In tells whether the handler runs in that lane.
func (r *Request) In(l *Lane) bool { return r.lane == l }
