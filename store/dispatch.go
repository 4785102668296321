package store

import (
	"fmt"
	"net/netip"
	"strconv"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/index"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// ScheduleTopic holds delayed messages, one queue per delay level (TopicValidator.RMQ_SYS_SCHEDULE_TOPIC).
const ScheduleTopic = "SCHEDULE_TOPIC_XXXX"

var noHost = netip.AddrPortFrom(netip.AddrFrom4([4]byte{}), 0)

// dispatcher carries records to the projections. Only the goroutine that advances uses it.
type dispatcher struct {
	last   *topicEntry
	topics map[string]*topicEntry
}

// topicEntry is what dispatch needs of a topic.
type topicEntry struct {
	name string
	hash index.TopicHash
	tags index.TopicHash // of the keys under which tags are indexed (T#tags)
}

// dispatchTo brings every projection up to the log offset to.
func (s *Store) dispatchTo(to int64) error {
	from := s.dispatched.Load()
	end, err := s.Log.Scan(from, to, s.dispatch)
	if err != nil {
		return fmt.Errorf("dispatch: %w", err)
	}
	if end != to {
		return fmt.Errorf("dispatch: the record at %d is not whole at %d", end, to)
	}
	if s.Index != nil {
		s.Index.SetIndexed(to)
	}
	s.dispatched.Store(to)
	return nil
}

// dispatch hands one record to the projections.
func (s *Store) dispatch(at int64, v *message.View) error {
	s.stats.Dispatched.Add(1)
	if topic := v.Topic(); string(topic) == state.Topic {
		return s.applyState(at, v)
	}
	switch v.SysFlag() & message.FlagTransactionMask {
	case message.FlagPrepared, message.FlagRollback:
		return nil
	}
	t := s.dispatcher.topic(v.Topic())
	q := s.Queues.GetOrCreate(t.name, v.QueueID())
	if q == nil {
		s.log.Warn("a record of an impossible queue is in no consume queue", zap.Int64("phyOffset", at), zap.String("topic", t.name), zap.Int32("queue", v.QueueID()))
		return nil
	}
	props := keyProps(v.Properties())
	tags := int64(hashTags(props.tags))
	if t.name == ScheduleTopic && props.delay != nil {
		tags = v.StoreTimestamp() + s.DelayOf(parseLevel(props.delay)).Milliseconds()
	}
	offset := v.QueueOffset()
	q.Put(offset, queue.Unit{Phy: at, Size: int32(v.Size()), Tags: tags})
	if s.Index != nil {
		stored := v.StoreTimestamp()
		if props.unique != nil {
			s.Index.Put(t.hash, props.unique, at, stored)
		}
		if props.keys != nil {
			message.EachKey(props.keys, func(key []byte) { s.Index.Put(t.hash, key, at, stored) })
		}
		if props.tags != nil {
			s.Index.Put(t.tags, props.tags, at, stored)
		}
	}
	if s.arrivals != nil && q.Watched.Load() {
		s.arrivals.Arrived(q, offset, tags, v)
	}
	return nil
}

// topic finds the entry of a topic; the name in the record is borrowed.
func (d *dispatcher) topic(name []byte) *topicEntry {
	if d.last != nil && d.last.name == string(name) {
		return d.last
	}
	t := d.topics[string(name)]
	if t == nil {
		own := string(name)
		t = &topicEntry{name: own, hash: index.HashTopic(own), tags: index.HashTopic(own + "#T")}
		d.topics[own] = t
	}
	d.last = t
	return t
}

// dispatchProps are the properties that dispatch looks at.
type dispatchProps struct{ tags, keys, unique, delay []byte }

func keyProps(p message.Props) (d dispatchProps) {
	p.Each(func(name, value []byte) bool {
		switch string(name) {
		case message.PropTags:
			d.tags = value
		case message.PropKeys:
			d.keys = value
		case message.PropUniqueKey:
			d.unique = value
		case message.PropDelay:
			d.delay = value
		}
		return true
	})
	return d
}

func parseLevel(b []byte) int {
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return 0
	}
	return n
}

// applyState applies a record of state changes, and drops the queues of topics that it deletes. The tables pass over a record
// that they have seen; queues must still be dropped, since the projections are not equally far.
func (s *Store) applyState(at int64, v *message.View) error {
	end := at + int64(v.Size())
	if err := state.Each(v.Body(), func(c state.Change) error {
		if c.Kind == state.KindTopicDelete {
			delete(s.dispatcher.topics, c.Topic)
			s.dispatcher.last = nil
			return s.Queues.Remove(c.Topic)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("state record at %d: %w", at, err)
	}
	if err := s.State.Apply(v.Body(), end, v.StoreTimestamp()); err != nil {
		return fmt.Errorf("state record at %d: %w", at, err)
	}
	return nil
}
