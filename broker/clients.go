package broker

import (
	"context"
	"strings"
	"sync"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store/state"
)

// clients knows who is connected: producers and consumers by group, and what the groups subscribe.
type clients struct {
	b *Broker

	mu     sync.RWMutex
	groups map[string]*consumerGroup
}

// consumerGroup is what is known of a group that is online.
type consumerGroup struct {
	mu    sync.RWMutex
	model body.MessageModel
	subs  map[string]*subscription
}

func newClients(b *Broker) *clients { return &clients{b: b, groups: map[string]*consumerGroup{}} }

func (c *clients) consumerGroup(name string) *consumerGroup {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.groups[name]
}

func (g *consumerGroup) broadcasting() bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.model == body.Broadcasting
}

func (g *consumerGroup) subscription(topic string) *subscription {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.subs[topic]
}

func (c *clients) closed(conn *remoting.Conn) {}

func (c *clients) run(ctx context.Context) error { <-ctx.Done(); return nil }

// holdsLock tells whether any queue of the group is locked by a consumer.
func (c *clients) holdsLock(group string) bool { return false }

// defaultGroup is the configuration of a group that nobody has configured.
func defaultGroup(name string) body.SubscriptionGroupConfig {
	var g body.SubscriptionGroupConfig
	g.SetDefaults()
	g.GroupName = name
	return g
}

// createGroup makes a group with the default configuration.
func (b *Broker) createGroup(name string) (*body.SubscriptionGroupConfig, error) {
	g := defaultGroup(strings.Clone(name))
	if err := b.commit(state.GroupPut(&g)); err != nil {
		return nil, err
	}
	c, _ := b.store.State.Group(name)
	return c, nil
}
