package controller

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// notifyWorkers is how many brokers are told at the same time, notifyTimeout bounds the connect to one (ControllerManager).
	notifyWorkers = 3
	notifyTimeout = 3 * time.Second
)

// notifier tells brokers of their roles with NOTIFY_BROKER_ROLE_CHANGED. A newer word for a broker replaces one that still
// waits. What is lost is made good by the brokers, who ask every few seconds.
type notifier struct {
	client *remoting.Client
	log    *zap.Logger
	ready  chan struct{} // one token per address that waits

	mu    sync.Mutex
	words map[string]*Group // by address: what to tell
	order []string          // addresses in words, the oldest first
}

func newNotifier(client *remoting.Client, log *zap.Logger) *notifier {
	return &notifier{client: client, log: log, words: map[string]*Group{}, ready: make(chan struct{}, maxGroups)}
}

func (n *notifier) run(g *lifecycle.Group) {
	for range notifyWorkers {
		g.Go("notifications", n.work)
	}
}

// tell queues a notification.
func (n *notifier) tell(addr string, g *Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waits := n.words[addr]
	if n.words[addr] = g; waits {
		return
	}
	n.order = append(n.order, addr)
	select {
	case n.ready <- struct{}{}:
	default: // more wait than workers will ever see as tokens; they take the rest with the next one
	}
}

func (n *notifier) take() (addr string, g *Group) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.order) == 0 {
		return "", nil
	}
	addr, n.order = n.order[0], n.order[1:]
	g = n.words[addr]
	delete(n.words, addr)
	return addr, g
}

func (n *notifier) work(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.ready:
		}
		for addr, g := n.take(); g != nil && ctx.Err() == nil; addr, g = n.take() {
			n.send(ctx, addr, g)
		}
	}
}

func (n *notifier) send(ctx context.Context, addr string, g *Group) {
	h := &header.NotifyBrokerRoleChangedRequest{
		MasterAddress: g.MasterAddr(), MasterEpoch: header.Some(g.MasterEpoch), SyncStateSetEpoch: header.Some(g.SyncStateSetEpoch),
		MasterBrokerID: header.Some(g.Master),
	}
	limited, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	if err := n.client.Oneway(limited, addr, code.NotifyBrokerRoleChanged, h, syncStateSet(g)); err != nil {
		n.log.Info("broker not told of the new master; it will ask", zap.String("broker", g.Name), zap.String("address", addr), zap.Error(err))
	}
}

// syncStateSet is the set as a body.
func syncStateSet(g *Group) []byte {
	return fastjson.Marshal(&body.SyncStateSet{SyncStateSet: g.SyncStateSet, SyncStateSetEpoch: g.SyncStateSetEpoch})
}
