package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
)

// greeting is what a member tells another one that starts without a log.
type greeting struct {
	Cluster uint64 // the quorum that the speaker belongs to; 0: none yet, it starts as well
	First   uint64 // the quorum that the speaker would found
	Standing
}

// Standing is the place of a controller in a quorum.
type Standing string

// The places.
const (
	Stranger Standing = "stranger"
	Learner  Standing = "learner"  // was added, and has no vote yet
	Expected Standing = "expected" // votes, and has never taken part
	Voter    Standing = "voter"    // has voted or acknowledged: without its log it cannot come back
)

const (
	// helloPeriod is the time between two rounds of greetings.
	helloPeriod = 200 * time.Millisecond
	// helloNotice is how often the wait is logged, in rounds.
	helloNotice = 50
)

// Errors of a start that cannot be mended by waiting.
var (
	// ErrLostLog is wrapped when a member that has taken part in its quorum starts without a log. It may have acknowledged what
	// nobody else has, so it must not take part as if nothing had been.
	ErrLostLog = errors.New("the quorum knows this controller, but its log is gone: remove it from the quorum and add it under another id")
	// ErrOtherQuorum is wrapped when the members are configured for different quorums.
	ErrOtherQuorum = errors.New("configured for another quorum: controllerDLegerGroup and the ids of controllerDLegerPeers must be the same everywhere")
)

// begin finds out how a member without a log starts: as a founder of the quorum (fresh), once a majority of the founders is
// there; or as a newcomer who gets the log from the leader. A member with a log goes on with it.
func (n *node) begin(ctx context.Context) (fresh bool, err error) {
	if !n.Store.empty() {
		return false, nil
	}
	tick := n.Clock.NewTicker(helloPeriod)
	defer tick.Stop()
	for round := 0; ; round++ {
		cluster, fresh, err := n.decide(n.greetAll(ctx), round%helloNotice == helloNotice-1)
		if err != nil {
			return false, err
		}
		if cluster != 0 {
			return fresh, n.Store.setOwner(cluster, n.id)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}

func (n *node) greetAll(ctx context.Context) map[string]greeting {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	type heard struct {
		id string
		greeting
		err error
	}
	answers := make(chan heard, len(n.Peers))
	g := lifecycle.New(limited)
	for _, m := range n.Peers {
		g.Go("hello to "+m.ID, func(ctx context.Context) error {
			h := heard{id: m.ID, err: errSelf}
			if m.ID != n.Self.ID {
				h.greeting, h.err = n.Hello(ctx, m)
			}
			answers <- h
			return nil
		})
	}
	out := map[string]greeting{}
	for range n.Peers {
		if h := <-answers; h.err == nil {
			out[h.id] = h.greeting
		}
	}
	_ = g.Stop() // they have all answered
	return out
}

var errSelf = errors.New("self")

// decide returns the quorum to belong to, or 0 while that is not clear. It is pure but for the log.
func (n *node) decide(greetings map[string]greeting, notice bool) (cluster uint64, fresh bool, err error) {
	own := clusterID(n.Group, n.Peers)
	founders := 1
	said := map[Standing]uint64{} // in the quorum of this id
	for id, g := range greetings {
		switch {
		case g.Cluster != 0:
			said[g.Standing] = g.Cluster
		case g.First == own:
			founders++
		case notice:
			n.Log.Warn("another controller starts too", zap.String("controller", id), zap.Error(ErrOtherQuorum))
		}
	}
	switch {
	case said[Voter] != 0: // even if others have not heard of it yet
		return 0, false, ErrLostLog
	case said[Learner] != 0:
		return said[Learner], false, nil
	case said[Expected] != 0 && said[Expected] != own:
		return 0, false, ErrOtherQuorum
	case said[Expected] != 0, said[Stranger] == 0 && founders > len(n.Peers)/2:
		return own, true, nil
	case said[Stranger] != 0 && notice:
		n.Log.Warn("the quorum does not know this controller; name it in controllerDLegerPeers of the leader (mqadmin updateControllerConfig)")
	case notice:
		n.Log.Info("waiting for a majority of controllers to start the quorum", zap.Int("present", founders), zap.Int("of", len(n.Peers)))
	}
	return 0, false, nil
}

// greet answers the hello of a controller that starts without a log.
func (n *node) greet(id uint64) greeting {
	g := greeting{First: clusterID(n.Group, n.Peers), Standing: Stranger}
	if !n.up.Load() {
		return g
	}
	g.Cluster = n.Store.cluster.Load()
	n.view(func(s *State) {
		_, member := s.quorum.Members[id]
		switch {
		case member && s.quorum.Joined[id] && !slices.Contains(s.quorum.Learners, id):
			g.Standing = Voter
		case member && slices.Contains(s.quorum.Learners, id):
			g.Standing = Learner
		case member:
			g.Standing = Expected
		}
	})
	return g
}

func (g greeting) encode() []byte {
	text, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("controller: %v", err)) // plain data
	}
	return text
}
