package broker

import (
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/state"
)

// lag is how far a group is behind in a topic. Ages are in ms.
type lag struct {
	group, topic    string
	behind, age     int64 // not consumed: behind the committed offset
	inflight        int64 // pulled and not consumed
	ready, readyAge int64 // not pulled
}

// eachLag emits a value of each group and topic. As in Java, retries are left out. Unlike in Java, a group that is offline is
// not: that is when somebody should hear of it.
func (s *scrape) eachLag(value func(*lag) float64) {
	if s.lags == nil {
		s.lags = s.b.lags(s.limit)
	}
	for i := range s.lags {
		l := &s.lags[i]
		s.add(value(l), l.group, l.topic, "false", yesNo(s.b.topics.isSystem(l.topic) || isSystemGroup(l.group)))
	}
}

// lags looks at all committed offsets, at most those of limit groups and topics, and of one more so that it shows. A queue without an offset counts as consumed.
func (b *Broker) lags(limit int) []lag {
	all := []lag{}
	times := b.storeTimes()
	for offsets := b.store.State.AllOffsets(); len(offsets) > 0 && len(all) <= limit; { // by group and topic
		n := 1
		for n < len(offsets) && offsets[n].Group == offsets[0].Group && offsets[n].Topic == offsets[0].Topic {
			n++
		}
		if l, ok := b.lagOf(offsets[:n], times); ok {
			all = append(all, l)
		}
		offsets = offsets[n:]
	}
	return all
}

// lagOf adds up the queues of one group and topic.
func (b *Broker) lagOf(offsets []state.QueueOffset, times storeTimes) (l lag, ok bool) {
	l = lag{group: offsets[0].Group, topic: offsets[0].Topic}
	c := b.topics.get(l.topic)
	if _, known := b.store.State.Group(l.group); !known || c == nil || message.IsRetryTopic(l.topic) {
		return l, false
	}
	now := b.clk.NowMs()
	for _, o := range offsets {
		q := b.store.Queues.Get(l.topic, o.QueueID)
		if q == nil || o.QueueID >= c.ReadQueueNums {
			continue
		}
		end := q.Max()
		consumed := min(max(o.Offset, q.Min()), end)
		pulled := min(max(consumed, b.offsets.pullOffset(l.group, l.topic, o.QueueID)), end)
		l.behind += end - consumed
		l.inflight += pulled - consumed
		l.ready += end - pulled
		if consumed < end {
			if t := times.at(q, consumed); t > 0 {
				l.age = max(l.age, now-t)
			}
		}
		if pulled < end {
			if t := times.at(q, pulled); t > 0 {
				l.readyAge = max(l.readyAge, now-t)
			}
		}
	}
	return l, true
}
