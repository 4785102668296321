package remoting

import (
	"cmp"
	"slices"

	"go.uber.org/zap"
)

// maxKept bounds what all peers of a server together make it keep: frames that have not ended, requests behind answers that are not
// read, and such answers above highWater. Each peer has a bound of its own; this one is for many peers at once. It is what a thousand
// of them keep in the middle of half a megabyte each.
const maxKept = 512 << 20

// keepIn accounts for incomplete frames and held requests. The caller holds reading.
func (c *Conn) keepIn() {
	if n := int64(len(c.in)); n != c.keptIn.Load() {
		c.keep(n - c.keptIn.Swap(n))
	}
}

// keepOut accounts for delta bytes of output above highWater.
func (c *Conn) keepOut(delta int) {
	if delta == 0 {
		return
	}
	switch n := c.keptOut.Add(int64(delta)); {
	case n == 0:
		c.unread.Store(0)
	case delta < 0 || n == int64(delta):
		c.unread.Store(nowMs())
	}
	c.keep(int64(delta))
}

// over is the part of n bytes of output that counts.
func over(n int) int { return max(0, n-highWater) }

// keep accounts for delta bytes. If all peers keep too much the connections go that have kept something longest: whoever sends and
// reads at all keeps nothing for long.
func (c *Conn) keep(delta int64) {
	if all := c.owner.kept.Add(delta); delta > 0 && all > c.owner.maxKept && c.owner.shed != nil {
		c.owner.shed()
	}
}

// keepsSince is since when the connection has kept something without any progress, in nowMs.
func (c *Conn) keepsSince() int64 {
	partial, unread := c.partial.Load(), c.unread.Load()
	if partial == 0 || unread != 0 && unread < partial {
		return unread
	}
	return partial
}

// shed has those connections closed that have kept something longest, until the others keep three quarters of what they may. The
// memory is free when their readers have seen the end.
func (s *Server) shed() {
	if !s.shedding.TryLock() {
		return
	}
	s.senders.Add(1)
	go func() { // the end of an encrypted connection may take its time
		defer s.senders.Done()
		defer s.shedding.Unlock()
		s.shedOldest()
	}()
}

func (s *Server) shedOldest() {
	type keeper struct {
		c            *Conn
		since, bytes int64
	}
	var list []keeper
	total := int64(0)
	for _, c := range s.Conns() {
		if n := c.keptIn.Load() + c.keptOut.Load(); n > 0 && !c.doomed.Load() {
			list = append(list, keeper{c, c.keepsSince(), n})
			total += n
		}
	}
	if total <= s.maxKept {
		return
	}
	slices.SortFunc(list, func(a, b keeper) int { return cmp.Compare(a.since, b.since) })
	closed, before := 0, total
	for _, k := range list {
		if total <= s.maxKept/4*3 {
			break
		}
		k.c.doomed.Store(true)
		k.c.tr.abort()
		closed++
		total -= k.bytes
	}
	s.log.Warn("peers leave too much unfinished or unread: those were closed that have done so longest",
		zap.Int("connections", closed), zap.Int64("bytes", before-total), zap.Int64("limit", s.maxKept))
}
