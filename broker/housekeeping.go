package broker

import (
	"context"
	"time"
)

// chore is a small piece of periodic work.
type chore struct {
	every time.Duration // whole seconds
	do    func(nowMs int64)
}

// chores lists what keeps the broker's own tables small.
func (b *Broker) chores() []chore {
	return []chore{
		{5 * time.Second, b.broadcasts.keep},
		{10 * time.Second, func(now int64) { b.clients.expire(now - b.conf.Load().ChannelExpiredTimeout) }},
		{time.Minute, b.locks.sweep},
	}
}

// housekeeping does the chores.
func (b *Broker) housekeeping(ctx context.Context) error {
	tick := b.clk.NewTicker(time.Second)
	defer tick.Stop()
	chores := b.chores()
	for n := time.Second; ; n += time.Second {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for _, c := range chores {
			if n%c.every == 0 {
				c.do(b.clk.NowMs())
			}
		}
	}
}
