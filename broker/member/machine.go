package member

import (
	"time"

	"github.com/castor-mq/castor/remoting/code"
)

// step is what a member does next.
type step uint8

const (
	askID      step = iota // ask for the next free id, and note in brokerIdentity-temp that it is applied for
	applyID                // apply for it, and write brokerIdentity
	reclaimID              // apply for the id of brokerIdentity, which the controllers do not know any more
	register               // say where the broker is
	greet                  // give the leader a heartbeat, so that it counts the broker as alive
	ask                    // ask who is master
	elect                  // ask for an election
	countSteps = iota
)

// String returns the step for log lines.
func (s step) String() string {
	return [countSteps]string{"ask for an id", "apply for the id", "apply for the former id", "register", "say that this broker lives",
		"ask who is master", "ask for an election"}[s]
}

// pause is what lies between two steps.
type pause uint8

const (
	none   pause = iota
	retry        // nobody answered, or somebody else was faster
	period       // the answer holds for a while
)

// amnesiaGrace is how long a member waits before it asks for an election by controllers that know no master and fewer epochs than its
// log. They have lost their data, so they do not know whose log is complete, and elect the best among those they hear.
const amnesiaGrace = 10 * time.Second

// answer is what came of a step.
type answer struct {
	err        error         // there was no usable answer, or a file could not be written
	code       code.Response // of the answer
	remark     string        // and what it says beside
	masterless bool          // of ask: the group has no master
	amnesia    bool          // of ask: its epoch is below one in this broker's log
}

// machine is the order of the steps. It is pure: next is its only writer.
type machine struct {
	step    step
	amnesia time.Time // since when the controllers are known to have lost their data; zero: they have not
	hasty   int       // steps since the last pause
}

// begin returns the first step of a broker with these files.
func begin(own, applied *identity) machine {
	switch {
	case own != nil:
		return machine{step: register}
	case applied != nil:
		return machine{step: applyID}
	}
	return machine{step: askID}
}

// maxHasty bounds the steps without a pause; a start has seven. Controllers whose answers do not fit together are not besieged.
const maxHasty = 8

// next takes the answer to the present step and goes on to the next, after a pause.
func (m *machine) next(a answer, now time.Time) pause {
	p := m.turn(a, now)
	if m.hasty++; p == none && m.hasty >= maxHasty {
		p = period
	}
	if p != none {
		m.hasty = 0
	}
	return p
}

// turn goes on to the next step.
func (m *machine) turn(a answer, now time.Time) pause {
	ok := a.err == nil && a.code == code.Success
	switch m.step {
	case askID:
		return m.when(ok, applyID, a)
	case applyID:
		if a.err == nil && a.code == code.ControllerBrokerIDInvalid {
			m.step = askID // somebody else has got it
			return retry
		}
		return m.when(ok, register, a)
	case reclaimID:
		m.step = register
		if !ok {
			return hold(a)
		}
		return none
	case register:
		return m.unlessUnknown(ok, greet, reclaimID, a)
	case greet:
		if p := m.unlessUnknown(ok, ask, register, a); m.step != register {
			return p
		}
		return retry // a controller that has just begun to lead may not have applied everything yet
	case ask:
		return m.asked(ok, a, now)
	}
	m.step = ask // after elect
	if ok || a.err == nil && a.code == code.ControllerMasterStillExist {
		return none
	}
	return m.unlessUnknown(false, ask, register, a)
}

// asked goes on after ask.
func (m *machine) asked(ok bool, a answer, now time.Time) pause {
	switch {
	case a.err == nil && a.code == code.ControllerBrokerMetadataNotExist:
		m.step = register
		return none
	case !ok:
		return hold(a)
	case !a.amnesia:
		m.amnesia = time.Time{}
	case m.amnesia.IsZero():
		m.amnesia = now
	}
	if !a.masterless || a.amnesia && now.Before(m.amnesia.Add(amnesiaGrace)) {
		return period
	}
	m.step = elect
	return none
}

// again registers anew: the controllers do not know the broker, or something else of it. A start goes on as it was.
func (m *machine) again() {
	if m.step == ask || m.step == elect {
		m.step = register
	}
}

// when goes to a step if the present one is done.
func (m *machine) when(done bool, next step, a answer) pause {
	if !done {
		return hold(a)
	}
	m.step = next
	return none
}

// unlessUnknown is when for steps that only a registered broker can do.
func (m *machine) unlessUnknown(done bool, next, unknown step, a answer) pause {
	if a.err == nil && a.code == code.ControllerBrokerNeedToBeRegistered {
		m.step = unknown
		return none
	}
	return m.when(done, next, a)
}

// hold is the pause before the same step: a refusal is not asked for again at once, since each may cost the quorum an entry.
func hold(a answer) pause {
	if a.err != nil {
		return retry
	}
	return period
}
