package broker

import (
	"fmt"
	"time"
)

// promise is what decides how durable an acknowledged message is.
type promise struct {
	group     bool // controller mode
	master    bool
	set       int // replicas in sync, with the master
	minInSync int
	copies    int // that must have a message; 0: the whole set
	syncFlush bool
	flush     time.Duration // of asynchronous flushes
}

// String says in words what an acknowledgement means now.
func (p promise) String() string {
	where := fmt.Sprintf("in memory, on disk about %v later", p.flush)
	if p.syncFlush {
		where = "on disk"
	}
	need := p.set
	if p.copies > 0 {
		need = min(p.copies, p.set)
	}
	switch {
	case !p.group:
		return "one broker has the message, " + where + "; there is no other copy"
	case !p.master:
		return "this broker is a replica: the master acknowledges"
	case p.set < p.minInSync:
		return fmt.Sprintf("nothing is acknowledged: %s in sync, %d are needed (minInSyncReplicas)", replicasAre(p.set), p.minInSync)
	case need < p.set:
		return fmt.Sprintf("%d of %d replicas in sync have the message, %s; a switch can lose it (allAckInSyncStateSet=false)", need, p.set, where)
	case p.set == 1:
		return "the master alone has the message, " + where + ": no other replica is in sync"
	}
	return fmt.Sprintf("all %d replicas in sync have the message, %s; it survives the loss of %d of them", p.set, where, p.set-1)
}

func replicasAre(n int) string {
	if n == 1 {
		return "1 replica is"
	}
	return fmt.Sprintf("%d replicas are", n)
}

// promise is this broker's.
func (b *Broker) promise() promise {
	c := b.conf.Load()
	p := promise{syncFlush: c.FlushDiskType == "SYNC_FLUSH", flush: ms(c.FlushIntervalCommitLog)}
	if b.replicas != nil {
		s := b.replicas.node.Status()
		p.group, p.master, p.set = true, s.Master, len(s.Role.SyncStateSet)
		p.minInSync, p.copies = b.replicas.minInSync(&s.Role), b.replicas.copies()
	}
	return p
}
