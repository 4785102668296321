package broker

import (
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// requestOfProxy is the requestSource of a proxy that pulls for a broadcast consumer (RequestSource.PROXY_FOR_BROADCAST).
const requestOfProxy = 1

// broadcastSuffix makes the name under which the offsets of a group that broadcasts are committed. No group can be called so.
const broadcastSuffix = "@broadcast"

// broadcasts remembers where the members of broadcasting groups read (BroadcastOffsetManager). Such a consumer keeps its offsets
// itself; but a proxy has none to begin with, and a consumer that changes between a proxy and the broker has those of the other
// side. Both are told where to go on by an offset reset.
type broadcasts struct {
	b *Broker

	mu    sync.Mutex
	reads map[broadcastRead]*broadcastPlace
}

// broadcastRead is one queue that one client reads.
type broadcastRead struct {
	client string
	offsetKey
}

// clone is a key that may be kept: the names of a request die with it.
func (k broadcastRead) clone() broadcastRead {
	return broadcastRead{strings.Clone(k.client), k.offsetKey.clone()}
}

type broadcastPlace struct {
	offset int64
	proxy  bool  // the last pull came by a proxy
	pulled int64 // ms
}

// maxBroadcastReads bounds what is remembered; more readers start where their clients say.
const maxBroadcastReads = 1 << 18

func newBroadcasts(b *Broker) *broadcasts {
	return &broadcasts{b: b, reads: map[broadcastRead]*broadcastPlace{}}
}

// reader returns the client id of a pull for a broadcast consumer, "" if it is any other pull.
func (s *broadcasts) reader(conn *remoting.Conn, h *header.PullMessageRequest) string {
	proxy := h.RequestSource.Or(-1) == requestOfProxy
	if proxy && s.b.conf.Load().EnableBroadcastOffsetStore {
		if len(h.ProxyFrowardClientID) > maxClientName {
			return "" // the places of those that go by such a name are not remembered
		}
		return h.ProxyFrowardClientID
	}
	g := s.b.clients.consumerGroup(h.ConsumerGroup)
	if g == nil || !g.broadcasting() || !s.b.conf.Load().EnableBroadcastOffsetStore {
		return ""
	}
	return s.b.clients.memberID(h.ConsumerGroup, conn)
}

// start tells where a client is to read that has no offset, or that of another way to the broker. ok is false if it knows. The
// error is vfs.ErrWouldBlock if that must be read from disk and start may not block.
func (s *broadcasts) start(client string, h *header.PullMessageRequest, q *queue.Queue, mayBlock bool) (offset int64, ok bool, err error) {
	proxy := h.RequestSource.Or(-1) == requestOfProxy
	s.mu.Lock()
	place := s.reads[broadcastRead{client, offsetKey{h.ConsumerGroup, h.Topic, h.QueueID}}]
	changed := place != nil && place.proxy != proxy
	if place != nil {
		offset = place.offset
	}
	s.mu.Unlock()
	switch {
	case !changed && !(proxy && h.QueueOffset < 0):
		return 0, false, nil
	case place != nil:
		return offset, true, nil
	}
	if offset, ok = s.b.store.State.Offset(h.ConsumerGroup+broadcastSuffix, h.Topic, h.QueueID); ok || q == nil {
		return offset, true, nil
	}
	young, err := s.b.young(q, mayBlock)
	if err != nil || young {
		return 0, true, err
	}
	return q.Max(), true, nil
}

// pulled notes where a client reads.
func (s *broadcasts) pulled(client string, h *header.PullMessageRequest, p *store.Plan, rc code.Response) {
	offset := h.QueueOffset
	if rc == code.PullOffsetMoved {
		offset = p.Next
	}
	key := broadcastRead{client, offsetKey{h.ConsumerGroup, h.Topic, h.QueueID}}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := s.reads[key]
	if place == nil {
		if len(s.reads) >= maxBroadcastReads {
			return
		}
		place = &broadcastPlace{}
		s.reads[key.clone()] = place
	}
	place.offset, place.proxy, place.pulled = offset, h.RequestSource.Or(-1) == requestOfProxy, s.b.clk.NowMs()
}

// keep forgets clients that have gone or stopped to pull, and commits for each group where its slowest client reads.
func (s *broadcasts) keep(nowMs int64) {
	c := s.b.conf.Load()
	slowest := map[offsetKey]int64{}
	s.mu.Lock()
	for k, place := range s.reads {
		age := nowMs - place.pulled
		_, online := s.b.clients.consumer(k.group, k.client)
		if age > 1000*c.BroadcastOffsetExpireMaxSecond || !online && age > 1000*c.BroadcastOffsetExpireSecond {
			delete(s.reads, k)
			continue
		}
		if low, known := slowest[k.offsetKey]; !known || place.offset < low {
			slowest[k.offsetKey] = place.offset
		}
	}
	s.mu.Unlock()
	var changes []state.Change
	for k, offset := range slowest {
		group := k.group + broadcastSuffix
		if old, known := s.b.store.State.Offset(group, k.topic, k.queue); offset >= 0 && (!known || old != offset) {
			changes = append(changes, state.OffsetPut(group, k.topic, k.queue, offset))
		}
	}
	if len(changes) == 0 || !s.b.leads() {
		return
	}
	if err := s.b.store.Propose(nil, changes...); err != nil {
		s.b.log.Warn("offsets of broadcasting groups could not be stored", zap.Error(err), zap.Int("queues", len(changes)))
	}
}
