package replica

import (
	"errors"
	"fmt"
)

// logs is what a replica knows of its own log and of the master's when the master has not simply told it to go on.
type logs struct {
	Min, End  int64 // own
	Confirmed int64 // own
	MasterMin int64
	MasterEnd int64
	Void      bool // ours is the beginning of a log that the installed state does not belong to
	// Common is an offset up to which both can be the same at most. Above the beginnings of both logs more may have to be compared.
	Common int64
}

// step is what brings a replica's log to where the master's goes on with it.
type step byte

const (
	// stepCut removes the log from Common on, and compares again.
	stepCut step = iota + 1
	// stepStartOver drops everything for a snapshot and the log from where the master's begins.
	stepStartOver
)

// errStay means that the log must stay as it is until a person has looked at it.
var errStay = errors.New("this broker keeps its log and waits")

// align decides what happens to a log that does not go on where the master's does. What is dropped is either older than what the
// master has, or was never acknowledged, or is in the master's log.
//
// The regions of the master's log [MasterMin, MasterEnd] name the cases, by where Min and End of ours lie: 1 below, 2 inside, 3 above.
func (l logs) align() (step, error) {
	switch {
	case l.End > l.Min && l.Min > l.MasterEnd: // 3-3
		return 0, fmt.Errorf("%w: it begins at %d, behind the end of the master's at %d, which has lost its disk or has that of another group: "+
			"give the master its disk back or elect another one, or empty this store to accept the loss", errStay, l.Min, l.MasterEnd)
	case l.Confirmed > l.MasterEnd:
		return 0, fmt.Errorf("%w: up to %d it was acknowledged, and the master's ends at %d: "+
			"elect another master, or empty this store to accept the loss", errStay, l.Confirmed, l.MasterEnd)
	case l.End < l.MasterMin, l.End == l.Min, l.Void: // 1-1, or nothing to lose
		return stepStartOver, nil
	case l.Common < l.MasterMin, l.Common < l.Min: // they part where one of them is not any more
		return stepStartOver, nil
	case l.Common < l.Confirmed:
		return 0, fmt.Errorf("%w: it parts from the master's at %d, and was acknowledged up to %d: "+
			"elect another master, or empty this store to accept the loss", errStay, l.Common, l.Confirmed)
	case l.Common >= l.End:
		return 0, errFrame // nothing to cut: the master's answer makes no sense
	}
	return stepCut, nil
}
