package replica

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/castor-mq/castor/internal/bugs"
)

// Limits of a master's patience.
const (
	// rejoin is how long a member of the set may be without a connection before it leaves the set: as long as a replica needs to
	// find a new master.
	rejoin = time.Second
	// lost is the same for a member that was connected to this master.
	lost = 30 * time.Millisecond
	// blocked is how long a member may hold up the confirm offset without acknowledging anything.
	blocked = 500 * time.Millisecond
	// entering is how long a proposed member may take to reach the end of the log.
	entering = 2 * time.Second
	// settle is how long a request that was not answered may still be under way to the controllers.
	settle = 5 * time.Second
	// hopeless is how long what comes is taken although too few members are there to confirm it, and stuck the same while a member
	// is there no more and the controllers do not say that they can do without it.
	hopeless = 300 * time.Millisecond
	stuck    = time.Second
	// near is how far behind the end a replica may be to be proposed, in bytes, and recent how long ago it must have had the whole log: what comes
	// then waits for it.
	near   = 4 << 20
	recent = 200 * time.Millisecond
)

// Unknown is the watermark while nothing may be confirmed.
const Unknown = int64(-1)

// Leader is what a master of one epoch knows of the other replicas. It is pure: times and the end of the log are told to it.
type Leader struct {
	Self      int64
	Epoch     int32
	MinInSync int           // the smallest set with which anything is confirmed
	MaxLag    time.Duration // haMaxTimeSlaveNotCatchup
	// Copies is how many replicas of the set, this one included, must have what is confirmed; 0 means all. With fewer than all an
	// election can lose what was confirmed.
	Copies int

	set      []int64 // committed, sorted, with self
	setEpoch int32
	newest   int32   // epoch of a set that somebody knows: while ours is older nothing is confirmed
	proposed []int64 // nil if nothing is
	sent     bool    // the proposal is with the controllers: it may be committed
	unsure   time.Time
	barrier  int64 // before that, newcomers must have the log up to here,
	since    time.Time

	hurt  time.Time // since when members of the set are not there; zero if all are
	fewer bool      // and without them it is too small

	peers map[int64]*peer
	start time.Time
}

// peer is one other replica.
type peer struct {
	session uint64 // of the connection that counts; 0: none
	acked   int64  // Unknown until it has said
	life    int64  // that it had when it connected; 0: it does not say
	learner bool
	leaving bool      // it has said that it stops
	gone    time.Time // since when there is no connection
	moved   time.Time // when acked grew last, or had nothing to grow to
	caught  time.Time // the last time whose end of the log it is known to have reached
	mark    int64     // the end of the log at the time marked: caught will be that when acked is this
	marked  time.Time
	refused time.Time // when the controllers last refused to have it in the set
}

// NewLeader begins an epoch with the set that the controllers have committed.
func NewLeader(self int64, epoch int32, set []int64, setEpoch int32, minInSync int, maxLag time.Duration, now time.Time) *Leader {
	l := &Leader{Self: self, Epoch: epoch, MinInSync: minInSync, MaxLag: maxLag, peers: map[int64]*peer{}, start: now}
	l.Committed(set, setEpoch)
	return l
}

func (l *Leader) peer(id int64) *peer {
	p := l.peers[id]
	if p == nil {
		p = &peer{acked: Unknown, gone: l.start}
		l.peers[id] = p
	}
	return p
}

// Set is the committed set and its epoch.
func (l *Leader) Set() ([]int64, int32) { return l.set, l.setEpoch }

// Committed takes a set that the controllers have committed. An older one is ignored.
func (l *Leader) Committed(set []int64, setEpoch int32) {
	if l.set != nil && setEpoch <= l.setEpoch {
		return
	}
	l.set, l.setEpoch = slices.Sorted(slices.Values(set)), setEpoch
	l.proposed, l.sent, l.unsure = nil, false, time.Time{}
}

// Newer tells that somebody knows a set of that epoch. The controllers have taken somebody out: who has started again and may have lost what he
// had acknowledged, or whom an operator has removed. Newer reports whether that is news.
func (l *Leader) Newer(setEpoch int32) bool {
	if setEpoch <= max(l.setEpoch, l.newest) {
		return false
	}
	l.newest = setEpoch
	return true
}

// Unanswered tells that nobody knows what has become of the proposal. It may still be committed, so it counts.
func (l *Leader) Unanswered(now time.Time) {
	l.unsure = now.Add(settle)
	if bugs.ForgetUnanswered {
		l.proposed, l.sent = nil, false
	}
}

// Refused tells that the controllers have not taken the proposal. One that was sent before, and not answered, may still arrive.
func (l *Leader) Refused(now time.Time) {
	for _, id := range l.proposed {
		if !slices.Contains(l.set, id) {
			l.peer(id).refused = now
		}
	}
	if now.After(l.unsure) {
		l.proposed, l.sent = nil, false
	}
}

// Attach starts a connection of a replica, in a life of it, whose log ends at end, the same as ours below. Earlier connections of it do not count any more.
func (l *Leader) Attach(id int64, session uint64, end, life int64, learner bool, now time.Time) {
	p := l.peer(id)
	*p = peer{session: session, acked: end, life: life, learner: learner, moved: now, mark: math.MaxInt64, caught: p.caught, refused: p.refused}
	if p.caught.IsZero() {
		p.caught = now
	}
}

// Detach ends a connection. Who was about to join the set is not waited for.
func (l *Leader) Detach(id int64, session uint64, now time.Time) {
	p := l.peer(id)
	if p.session != session {
		return
	}
	p.session, p.acked, p.gone = 0, Unknown, now
	if l.joins(id) {
		l.proposed = nil
	}
}

// joins tells whether a replica is proposed, and the controllers do not know of it.
func (l *Leader) joins(id int64) bool {
	return !l.sent && slices.Contains(l.proposed, id) && !slices.Contains(l.set, id)
}

// Ack takes an acknowledgement. It reports whether it can be true: nobody has more than we have, or less than he had.
func (l *Leader) Ack(id int64, session uint64, acked, end int64, now time.Time) bool {
	p := l.peer(id)
	if p.session != session {
		return true // of a former connection
	}
	if acked > end || acked < p.acked {
		return false
	}
	if acked > p.acked {
		p.moved = now
	}
	if p.acked = acked; acked >= p.mark {
		p.caught, p.mark = p.marked, math.MaxInt64
	}
	return true
}

// Leave notes that a replica is about to stop. Until it has left the set it counts as before.
func (l *Leader) Leave(id int64, session uint64) {
	if p := l.peer(id); p.session == session {
		p.leaving = true
	}
}

// Watermark is what every other replica that must have it has: Unknown while nothing may be confirmed, MaxInt64 when nobody
// else must have anything.
func (l *Leader) Watermark() int64 {
	if !l.Enough() {
		return Unknown
	}
	if l.Copies > 0 {
		return l.some()
	}
	low := int64(math.MaxInt64)
	for i, ids := range [2][]int64{l.set, l.proposed} {
		for _, id := range ids {
			if id == l.Self || bugs.SkipUnion && i > 0 {
				continue
			}
			p := l.peers[id]
			if bugs.SkipAbsent && p == nil || bugs.CountUnknown && p != nil && p.acked == Unknown {
				continue
			}
			if p == nil || p.acked == Unknown {
				return Unknown
			}
			if bugs.MaxWatermark && low != math.MaxInt64 {
				low = max(low, p.acked)
				continue
			}
			low = min(low, p.acked)
		}
	}
	return low
}

// some is what Copies-1 other members of the set have, as many as there are.
func (l *Leader) some() int64 {
	var acked []int64
	for _, id := range l.set {
		if id != l.Self {
			acked = append(acked, l.peer(id).acked)
		}
	}
	slices.Sort(acked)
	n := min(l.Copies-1, len(acked))
	if n == 0 {
		return math.MaxInt64
	}
	return acked[len(acked)-n]
}

// Enough tells whether the set is as large as it must be, and not known to be out of date.
func (l *Leader) Enough() bool {
	return l.setEpoch >= l.newest && (len(l.set) >= l.MinInSync || bugs.IgnoreMinInSync)
}

// Able tells whether what comes now can be expected to be confirmed soon, as of the last Tick.
func (l *Leader) Able(now time.Time) bool {
	switch {
	case !l.Enough():
		return false
	case l.hurt.IsZero():
		return true
	case l.fewer:
		return now.Sub(l.hurt) <= hopeless
	}
	return l.Copies > 0 || now.Sub(l.hurt) <= stuck
}

// Tick looks at the time, and returns the set that the controllers shall be asked for, nil if none. It is asked for again at each
// tick until Committed or Refused is told.
func (l *Leader) Tick(end int64, now time.Time) []int64 {
	for _, p := range l.peers {
		switch {
		case p.session != 0 && p.acked >= end:
			p.moved, p.caught, p.mark = now, now, math.MaxInt64
		case p.mark == math.MaxInt64:
			p.mark, p.marked = end, now
		}
	}
	keep := l.keep(end, now)
	l.fewer = len(keep) < l.MinInSync
	if len(keep) == len(l.set) {
		l.hurt = time.Time{}
	} else if l.hurt.IsZero() {
		l.hurt = now
	}
	if l.sent {
		return l.proposed
	}
	if len(keep) < len(l.set) {
		l.proposed, l.sent = keep, true
		if bugs.ShrinkEarly {
			l.set = keep
		}
		return keep
	}
	switch {
	case l.proposed == nil:
		l.invite(end, now)
	case l.entered():
		l.sent = true
		return l.proposed
	case now.Sub(l.since) > entering || slices.ContainsFunc(l.proposed, func(id int64) bool { return l.joins(id) && l.left(l.peer(id), end, now) }):
		l.proposed = nil
	}
	return nil
}

// Calm tells whether everybody is in the set, connected, and has the whole log: then nothing can happen before something is told.
func (l *Leader) Calm(end int64) bool {
	for id, p := range l.peers {
		if p.leaving || p.session == 0 || p.acked < end || !p.learner && !slices.Contains(l.set, id) {
			return false
		}
	}
	return l.proposed == nil && len(l.peers) >= len(l.set)-1
}

// entered tells whether all that are proposed have reached the barrier.
func (l *Leader) entered() bool {
	for _, id := range l.proposed {
		if id != l.Self && l.peer(id).acked < l.barrier && !bugs.NoBarrier {
			return false
		}
	}
	return true
}

// keep is the set without those that have been left behind.
func (l *Leader) keep(end int64, now time.Time) (keep []int64) {
	for _, id := range l.set {
		if id == l.Self || !l.left(l.peer(id), end, now) {
			keep = append(keep, id)
		}
	}
	return keep
}

func (l *Leader) left(p *peer, end int64, now time.Time) bool {
	switch {
	case p.leaving:
		return true
	case p.session == 0 && p.gone == l.start:
		return now.Sub(p.gone) > rejoin
	case p.session == 0:
		return now.Sub(p.gone) > lost
	case p.acked < end && now.Sub(p.moved) > blocked:
		return true
	}
	return now.Sub(p.caught) > l.MaxLag
}

// invite proposes a replica that is about as far as the log: of several the one that was not refused, or longest ago.
func (l *Leader) invite(end int64, now time.Time) {
	var best int64
	for id, p := range l.peers {
		if p.session == 0 || p.learner || slices.Contains(l.set, id) || end-p.acked > near || now.Sub(p.caught) > recent || l.left(p, end, now) {
			continue
		}
		if best == 0 || cmp.Or(p.refused.Compare(l.peers[best].refused), cmp.Compare(id, best)) < 0 {
			best = id
		}
	}
	if best != 0 {
		l.proposed, l.barrier, l.since = slices.Sorted(slices.Values(append(slices.Clone(l.set), best))), end, now
	}
}

// Lives says in which lives the replicas of a set have acknowledged what counts. The controllers must know the same of who is to join it: a connection
// outlives the power of the other side, and so do acknowledgements of what that has lost (KIP-903).
func (l *Leader) Lives(set []int64) map[int64]int64 {
	lives := map[int64]int64{}
	for _, id := range set {
		if p := l.peers[id]; p != nil && p.session != 0 && p.life != 0 {
			lives[id] = p.life
		}
	}
	return lives
}

// Behind is how long ago each connected replica is known to have had the whole log.
func (l *Leader) Behind(end int64, now time.Time) map[int64]time.Duration {
	all := map[int64]time.Duration{}
	for id, p := range l.peers {
		switch {
		case p.session == 0:
		case p.acked >= end:
			all[id] = 0
		default:
			all[id] = now.Sub(p.caught)
		}
	}
	return all
}

// Acked is how far a replica is, Unknown if it is not connected.
func (l *Leader) Acked(id int64) int64 { return l.peer(id).acked }
