package controller

import (
	"cmp"
	"slices"
	"time"
)

// Broker names one replica.
type Broker struct {
	Group string // broker name
	ID    int64  // given by the controller
}

func compareBrokers(a, b Broker) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.ID, b.ID))
}

// Link identifies the connection of a heartbeat. Links are compared with ==.
type Link any

const (
	// defaultTimeout is how long a broker lives without a heartbeat if it does not say (controllerHeartBeatTimeoutMills).
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Hour
	// reportTTL is how long the word of another controller counts; it speaks every reportPeriod.
	reportTTL    = 1500 * time.Millisecond
	reportPeriod = 500 * time.Millisecond
	// introduced is how long a new leader listens to the others before it takes for dead whom it does not hear itself.
	introduced = 2 * reportPeriod
	// probePeriod is the time between two looks whether a broker whose connection has ended still listens.
	probePeriod = time.Second
	// tickPeriod is how often the table is asked to look at the time. A tick that comes later than standstill finds that the
	// process was stopped, and that what was sent meanwhile is still unread. A broker's timeout has to be longer than standstill
	// and the time between two of its heartbeats together.
	tickPeriod = 200 * time.Millisecond
	standstill = 2 * tickPeriod
	// forgetAfter is when a broker that is dead is dropped from the table.
	forgetAfter = time.Hour
	// lively is how long after a heartbeat nobody at another address may take a broker's id: two of Java's heartbeats.
	lively = 2 * time.Second
	// outlookPeriod is how long another controller must see more than this one before it is the better leader.
	outlookPeriod = 2 * time.Second
)

// vital is what is known of one broker.
type vital struct {
	Vitals
	seen      time.Time // last heartbeat that reached this controller; zero: none has
	began     time.Time // the first one after a silence
	timeout   time.Duration
	link      Link
	lost      bool // the link has ended
	refused   bool // and the broker's address refuses connections: the process is gone
	nextProbe time.Time
	sick      time.Time            // since when the broker says that it is; zero: it does not
	reports   map[string]time.Time // by other controller: until when its word counts
}

// here tells whether this controller takes the broker for alive by what it has seen itself.
func (v *vital) here(now time.Time) bool {
	return !v.seen.IsZero() && !v.refused && now.Before(v.seen.Add(v.timeout))
}

// there tells whether another controller does.
func (v *vital) there(now time.Time) bool {
	for _, until := range v.reports {
		if now.Before(until) {
			return true
		}
	}
	return false
}

// Liveness is the table of heartbeats. A broker is dead only when no controller of the quorum hears from it, so one broken
// link costs no election. Step is its only writer; it reads no clock, which must be a monotonic one.
type Liveness struct {
	brokers  map[Broker]*vital
	since    time.Time // when this controller began to answer for the table: the silence of others counts from then
	lastTick time.Time
	better   map[string]outlook // other controllers that see more
}

// outlook is the time for which a controller is known to see more than this one.
type outlook struct{ since, until time.Time }

// NewLiveness returns an empty table.
func NewLiveness(now time.Time) *Liveness {
	return &Liveness{brokers: map[Broker]*vital{}, since: now, lastTick: now, better: map[string]outlook{}}
}

// Event is something that happened.
type Event interface {
	step(l *Liveness, now time.Time) Asked
}

// Asked is what an event asks for.
type Asked struct {
	// Changed: a broker came to life, or may have died.
	Changed bool
	// Probe are brokers at whose addresses somebody should knock, and tell with Probed.
	Probe []Broker
}

// Step advances the table.
func (l *Liveness) Step(e Event, now time.Time) Asked { return e.step(l, now) }

func (l *Liveness) broker(b Broker) *vital {
	v := l.brokers[b]
	if v == nil {
		v = &vital{Vitals: unheard, timeout: defaultTimeout, reports: map[string]time.Time{}}
		l.brokers[b] = v
	}
	return v
}

// Heartbeat is a BROKER_HEARTBEAT, or another request that only the broker itself makes: then it leaves Vitals as they are.
type Heartbeat struct {
	Broker
	*Vitals
	Timeout time.Duration // 0: as before
	Link    Link
}

func (e *Heartbeat) step(l *Liveness, now time.Time) Asked {
	v := l.broker(e.Broker)
	was := v.here(now)
	if !was {
		v.began = now
	}
	v.seen, v.link, v.lost, v.refused = now, e.Link, false, false
	if e.Timeout > 0 {
		v.timeout = min(e.Timeout, maxTimeout)
	}
	if e.Vitals != nil {
		v.Vitals = *e.Vitals // also when they went down: a log can be truncated
		switch {
		case !v.Sick:
			v.sick = time.Time{}
		case v.sick.IsZero():
			v.sick = now
		}
	}
	return Asked{Changed: !was}
}

// LinkEnded is a connection that is closed. What came over it before proves nothing: the broker may have another one.
type LinkEnded struct{ Link Link }

func (e *LinkEnded) step(l *Liveness, now time.Time) Asked {
	var out Asked
	for b, v := range l.brokers {
		if v.link == e.Link && !v.lost {
			v.lost, v.nextProbe = true, now.Add(probePeriod)
			out.Probe = append(out.Probe, b)
		}
	}
	slices.SortFunc(out.Probe, compareBrokers)
	return out
}

// Probed is the answer to Asked.Probe. Only a refusal proves something: a host without the process.
type Probed struct {
	Broker
	Refused bool
}

func (e *Probed) step(l *Liveness, now time.Time) Asked {
	v := l.brokers[e.Broker]
	if v == nil || !v.lost || !e.Refused {
		return Asked{}
	}
	was := v.here(now) || v.there(now)
	v.refused = true
	clear(v.reports) // what others said before: they may be gone themselves
	return Asked{Changed: was}
}

// Sighting is one broker that a controller takes for alive.
type Sighting struct {
	Broker
	Vitals
}

// Report is all that another controller takes for alive by its own experience.
type Report struct {
	From  string
	Alive []Sighting
}

func (e *Report) step(l *Liveness, now time.Time) Asked {
	listed := make(map[Broker]bool, len(e.Alive))
	var out Asked
	for _, s := range e.Alive {
		listed[s.Broker] = true
		v := l.broker(s.Broker)
		out.Changed = out.Changed || !v.there(now) && !v.here(now)
		v.reports[e.From] = now.Add(reportTTL)
		if !v.here(now) {
			v.Vitals = s.Vitals
		}
	}
	for b, v := range l.brokers {
		if _, had := v.reports[e.From]; had && !listed[b] {
			delete(v.reports, e.From)
			out.Changed = true
		}
	}
	l.compare(e.From, listed, now)
	return out
}

// compare notes since when another controller has seen all that this one sees, and more.
func (l *Liveness) compare(from string, listed map[Broker]bool, now time.Time) {
	more, less := false, false
	for b, v := range l.brokers {
		more = more || listed[b] && !v.here(now)
		less = less || !listed[b] && v.here(now)
	}
	o, ok := l.better[from]
	if !ok || !now.Before(o.until) {
		o.since = now
	}
	o.until = now.Add(reportTTL)
	if l.better[from] = o; !more || less {
		delete(l.better, from)
	}
}

// Lead starts this controller's time as a leader: a broker that it has never heard of may still speak up.
type Lead struct{}

func (*Lead) step(l *Liveness, now time.Time) Asked {
	l.since = now
	clear(l.better)
	return Asked{Changed: true}
}

// Tick lets time pass. It is to be called every tickPeriod; when it is called much later the brokers get the lost time back.
type Tick struct{}

func (*Tick) step(l *Liveness, now time.Time) Asked {
	lost := now.Sub(l.lastTick)
	if lost < standstill {
		lost = 0
	}
	var out Asked
	for b, v := range l.brokers {
		alive := v.here(l.lastTick) || v.there(l.lastTick)
		if !v.seen.IsZero() {
			v.seen = earlier(v.seen.Add(lost), now)
		}
		for from, until := range v.reports {
			v.reports[from] = earlier(until.Add(lost), now.Add(reportTTL))
		}
		switch {
		case v.here(now) || v.there(now):
			out.Changed = out.Changed || !alive
		case alive:
			out.Changed = true
		case now.Sub(v.seen) > forgetAfter && now.Sub(l.since) > forgetAfter:
			delete(l.brokers, b)
		}
		if v.lost && v.here(now) && !now.Before(v.nextProbe) {
			v.nextProbe = now.Add(probePeriod)
			out.Probe = append(out.Probe, b)
		}
	}
	l.since = earlier(l.since.Add(lost), now)
	l.lastTick = now
	slices.SortFunc(out.Probe, compareBrokers)
	return out
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Alive tells whether any controller hears from the broker.
func (l *Liveness) Alive(b Broker, now time.Time) bool {
	v := l.brokers[b]
	return v != nil && (v.here(now) || v.there(now))
}

// Dead tells whether the broker is known to be gone. A broker that is neither alive nor dead has not been heard of yet, by a
// controller that has only begun to listen, or may still be reported by another one.
func (l *Liveness) Dead(b Broker, now time.Time) bool {
	v := l.brokers[b]
	listened := now.Sub(l.since)
	switch {
	case l.Alive(b, now):
		return false
	case v == nil || v.seen.IsZero():
		return listened >= defaultTimeout
	default:
		return v.refused || listened >= introduced
	}
}

// Lively tells whether the broker spoke to this controller a moment ago, over a connection that has not ended.
func (l *Liveness) Lively(b Broker, now time.Time) bool {
	v := l.brokers[b]
	return v != nil && !v.lost && now.Sub(v.seen) < lively
}

// Why says in words why a broker is not alive.
func (l *Liveness) Why(b Broker, now time.Time) string {
	v := l.brokers[b]
	switch {
	case l.Alive(b, now):
		return "it lives"
	case v == nil || v.seen.IsZero():
		return "no controller has heard from it"
	case v.refused:
		return "its process is gone: the connection ended, and its address refuses new ones"
	}
	return "its heartbeats stopped"
}

// SickFor is how long a broker has said, to this controller, that it is sick.
func (l *Liveness) SickFor(b Broker, now time.Time) time.Duration {
	if v := l.brokers[b]; v != nil && v.here(now) && !v.sick.IsZero() {
		return now.Sub(v.sick)
	}
	return 0
}

// back tells whether this controller hears a broker again since not long ago.
func (l *Liveness) back(b Broker, now time.Time) bool {
	v := l.brokers[b]
	return v != nil && v.here(now) && now.Sub(v.began) < reliefAfter
}

// Seen returns what this controller takes for alive by its own experience, for a Report.
func (l *Liveness) Seen(now time.Time) []Sighting {
	var out []Sighting
	for b, v := range l.brokers {
		if v.here(now) {
			out = append(out, Sighting{b, v.Vitals})
		}
	}
	slices.SortFunc(out, func(a, b Sighting) int { return compareBrokers(a.Broker, b.Broker) })
	return out
}

// Known returns the vitals of a replica as last reported, also of a dead one.
func (l *Liveness) Known(b Broker) Vitals {
	if v := l.brokers[b]; v != nil {
		return v.Vitals
	}
	return unheard
}

// BetterLeader returns another controller that has for a while seen all brokers that this one sees, and more; or "".
func (l *Liveness) BetterLeader(now time.Time) string {
	best, since := "", now.Add(-outlookPeriod)
	for from, o := range l.better {
		if !o.since.After(since) && now.Before(o.until) {
			best, since = from, o.since
		}
	}
	return best
}
