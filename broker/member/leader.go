package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// callTimeout bounds one request to a controller. Java's brokers wait 3 s.
	callTimeout = time.Second
	// maxHops bounds the controllers that one call tries.
	maxHops = 4
	// fieldLeader is an ext field of CONTROLLER_NOT_LEADER by Castor's controllers: the leader's address.
	fieldLeader = "controllerLeaderAddress"
)

var errNoLeader = errors.New("no controller leads, or none that can be reached")

// quorum is the controllers, and which of them leads as far as is known.
type quorum struct {
	client *remoting.Client
	addrs  func() []string // host:port of each
	log    *zap.Logger
	work   *lifecycle.Group

	mu     sync.Mutex
	leader string // empty: not known
	heard  string // the leader that was answering when it was last asked, for the log
}

// word is what one controller says of the leader.
type word struct {
	from   string
	leader string // by its word; empty: it knows none, or did not answer
	leads  bool   // itself
}

// leaderBy returns the leader by what controllers have said so far, and whether the others need not be waited for. One that says
// that it leads is believed, at the address where it said so; then the one that most name.
func leaderBy(words []word, asked int) (leader string, sure bool) {
	votes := map[string]int{}
	for _, w := range words {
		if w.leads {
			return w.from, true
		}
		if w.leader == "" {
			continue
		}
		votes[w.leader]++
		if n := votes[w.leader]; n > votes[leader] || n == votes[leader] && w.leader < leader {
			leader = w.leader
		}
	}
	return leader, len(words) >= asked || 2*votes[leader] > asked
}

// call sends a request to the controller that leads and returns its answer. When the one that is taken for the leader does not answer,
// or says that it is not, the leader is looked for at once. An error does not mean that the request was not carried out.
func (q *quorum) call(ctx context.Context, rc code.Request, h header.Appender, data []byte) (*remoting.Reply, error) {
	r, _, err := q.try(ctx, rc, h, data)
	return r, err
}

// try is call. again says that the request was sent more than once: then an answer says nothing of the one before, which may be carried out yet.
func (q *quorum) try(ctx context.Context, rc code.Request, h header.Appender, data []byte) (answer *remoting.Reply, again bool, last error) {
	for range maxHops {
		addr, err := q.find(ctx)
		if err != nil {
			return nil, again, errors.Join(err, last)
		}
		r, err := q.ask(ctx, addr, rc, h, data)
		switch {
		case err == nil && code.Response(r.Code) != code.ControllerNotLeader:
			q.confirm(addr)
			return r, again, nil
		case ctx.Err() != nil:
			return nil, true, ctx.Err()
		case err != nil:
			q.replace(addr, "", err)
		default:
			hint, _ := r.Ext(fieldLeader)
			err = fmt.Errorf("%s: %w", addr, r.Err())
			q.replace(addr, hint, err)
		}
		again, last = true, err
	}
	return nil, again, last
}

// ask sends a request to one controller.
func (q *quorum) ask(ctx context.Context, addr string, rc code.Request, h header.Appender, data []byte) (*remoting.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return q.client.Call(ctx, addr, rc, h, data)
}

// find returns the leader. If none is known all controllers are asked at once.
func (q *quorum) find(ctx context.Context) (string, error) {
	if leader := q.current(); leader != "" {
		return leader, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	addrs := q.addrs()
	answers := make(chan word, len(addrs))
	for _, addr := range addrs {
		q.work.Go("controller leader", func(context.Context) error {
			answers <- q.metadata(ctx, addr)
			return nil
		})
	}
	var words []word
	leader, sure := leaderBy(nil, len(addrs))
	for !sure && ctx.Err() == nil {
		select {
		case w := <-answers:
			words = append(words, w)
			leader, sure = leaderBy(words, len(addrs))
		case <-ctx.Done():
		case <-q.work.Context().Done():
			return "", q.work.Context().Err()
		}
	}
	if leader == "" {
		return "", errNoLeader
	}
	q.lead(leader)
	return leader, nil
}

func (q *quorum) metadata(ctx context.Context, addr string) word {
	w := word{from: addr}
	var h header.GetMetaDataResponse
	if r, err := q.ask(ctx, addr, code.ControllerGetMetadataInfo, nil, nil); err == nil && r.Err() == nil && r.Decode(&h) == nil {
		w.leader, w.leads = h.ControllerLeaderAddress, h.IsLeader
	}
	return w
}

// current returns the leader if it is known.
func (q *quorum) current() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leader
}

// lead notes who is said to lead.
func (q *quorum) lead(addr string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leader = addr
}

// confirm notes that addr has answered as the leader does.
func (q *quorum) confirm(addr string) {
	q.mu.Lock()
	found := q.leader == addr && q.heard != addr
	if found {
		q.heard = addr
	}
	q.mu.Unlock()
	if found {
		q.log.Info("controller leader found", zap.String("address", addr))
	}
}

// replace notes that addr is not the leader any more, and who is, if that is known.
func (q *quorum) replace(addr, by string, why error) {
	q.mu.Lock()
	lost := q.heard == addr
	if lost {
		q.heard = ""
	}
	if q.leader == addr {
		q.leader = by
	}
	q.mu.Unlock()
	if lost {
		q.log.Warn("controller leader lost, looking for the next", zap.String("address", addr), zap.Error(why))
	}
}
