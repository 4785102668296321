package store

import (
	"errors"
	"fmt"
	"math"
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
	each   func(at int64, v *message.View) error // Store.dispatch, made once
	last   *topicEntry
	topics map[string]*topicEntry

	// Of a start: records below these are in the queues and in the index.
	queuesFrom, indexFrom int64
	java                  *javaImport // nil unless a Java store is being taken over

	odd int // records that are in no queue
}

// topicEntry is what dispatch needs of a topic.
type topicEntry struct {
	name    string
	hash    index.TopicHash
	tags    index.TopicHash // of the keys under which tags are indexed (T#tags)
	deleted int64           // records below this log offset belong to a topic that was deleted by a Java broker
}

// dispatchTo brings every projection up to the log offset to.
func (s *Store) dispatchTo(to int64) error {
	from := s.dispatched.Load()
	end, err := s.Log.Scan(from, to, s.dispatcher.each)
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
	t := s.queued(at, v)
	if t == nil {
		return nil
	}
	props := keyProps(v.Properties())
	if at >= s.dispatcher.queuesFrom {
		if err := s.enqueue(at, v, t, &props); err != nil {
			return err
		}
	}
	if s.Index != nil && at >= s.dispatcher.indexFrom {
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
	return nil
}

// queued returns the topic of a message that belongs into a queue, nil if it does not.
func (s *Store) queued(at int64, v *message.View) *topicEntry {
	switch v.SysFlag() & message.FlagTransactionMask {
	case message.FlagPrepared, message.FlagRollback:
		return nil
	}
	if t := s.topicEntry(v.Topic()); at >= t.deleted {
		return t
	}
	return nil
}

// enqueue puts the unit of a record into its queue and tells who watches that.
func (s *Store) enqueue(at int64, v *message.View, t *topicEntry, props *dispatchProps) error {
	q := s.Queues.GetOrCreate(t.name, v.QueueID())
	if q == nil {
		s.oddRecord("a record of an impossible queue", at, v, nil)
		return nil
	}
	u := queue.Unit{Phy: at, Size: int32(v.Size()), Tags: int64(hashTags(props.tags))}
	if t.name == ScheduleTopic && props.delay != nil {
		u.Tags = v.StoreTimestamp() + s.DelayOf(parseLevel(props.delay)).Milliseconds()
	}
	offset := v.QueueOffset()
	for i := range batchSize(v, props) {
		if err := s.place(q, offset+i, u, v); err != nil {
			return err
		}
	}
	if s.arrivals != nil && q.Watched.Load() {
		s.arrivals.Arrived(q, offset, u.Tags, v)
	}
	return nil
}

// batchSize is how many queue offsets a record covers: one, or the messages of an inner batch (BatchConsumeQueue). Each of them
// has a unit that leads to the record.
func batchSize(v *message.View, props *dispatchProps) int64 {
	if v.SysFlag()&message.FlagInnerBatch == 0 || props.batch == nil {
		return 1
	}
	n, err := strconv.ParseInt(string(props.batch), 10, 16)
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// place puts one unit. In a log that Java has written, a topic that was deleted and made again starts over at 0; after a power loss
// a queue may hold units that never were. Otherwise an offset that is taken, or that no queue can have reached, is a damaged number.
func (s *Store) place(q *queue.Queue, offset int64, u queue.Unit, v *message.View) error {
	err := q.Put(offset, u)
	if errors.Is(err, queue.ErrTaken) && (offset == 0 || !s.holds(q, offset)) {
		q.Cut(offset)
		err = q.Put(offset, u)
	}
	if errors.Is(err, queue.ErrTaken) || errors.Is(err, queue.ErrOffset) {
		s.oddRecord("a record with an impossible queue offset", u.Phy, v, err)
		return nil
	}
	return err
}

// holds tells whether the unit at an offset of a queue leads to a record of that queue and offset.
func (s *Store) holds(q *queue.Queue, offset int64) bool {
	u, err := q.At(offset)
	if err != nil {
		return false
	}
	var v message.View
	if _, err = s.Log.Record(u.Phy, nil, &v); err != nil || string(v.Topic()) != q.Topic || v.QueueID() != q.ID {
		return false
	}
	props := keyProps(v.Properties())
	return offset >= v.QueueOffset() && offset < v.QueueOffset()+batchSize(&v, &props)
}

// oddRecord notes a record that is in no queue: the first, and then each time their number has doubled.
func (s *Store) oddRecord(what string, at int64, v *message.View, err error) {
	if s.dispatcher.odd++; s.dispatcher.odd&(s.dispatcher.odd-1) == 0 {
		s.log.Warn(what+" is in no consume queue", zap.Int64("phyOffset", at), zap.ByteString("topic", v.Topic()), zap.Int32("queue", v.QueueID()),
			zap.Int64("queueOffset", v.QueueOffset()), zap.Int("suchRecords", s.dispatcher.odd), zap.Error(err))
	}
}

// topicEntry finds the entry of a topic; the name in the record is borrowed.
func (s *Store) topicEntry(name []byte) *topicEntry {
	d := &s.dispatcher
	if d.last != nil && d.last.name == string(name) {
		return d.last
	}
	t := d.topics[string(name)]
	if t == nil {
		own := string(name)
		t = &topicEntry{name: own, hash: index.HashTopic(own), tags: index.HashTopic(own + "#T")}
		t.deleted, _ = s.State.DeletedBefore(own)
		if d.java != nil && !d.java.keeps(own) {
			t.deleted = math.MaxInt64
		}
		d.topics[own] = t
	}
	d.last = t
	return t
}

// dispatchProps are the properties that dispatch looks at.
type dispatchProps struct{ tags, keys, unique, delay, batch []byte }

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
		case message.PropInnerNum:
			d.batch = value
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
		if c.Kind != state.KindTopicDelete && c.Kind != state.KindDeletedBefore {
			return nil
		}
		s.forgetTopic(c.Topic)
		if at >= s.dispatcher.queuesFrom {
			s.Queues.Remove(c.Topic, end)
		}
		return nil
	}); err != nil {
		return fmt.Errorf("state record at %d: %w", at, err)
	}
	if err := s.State.Apply(v.Body(), end, v.StoreTimestamp()); err != nil {
		return fmt.Errorf("state record at %d: %w", at, err)
	}
	if s.onApply != nil {
		s.onApply()
	}
	return nil
}

func (s *Store) forgetTopic(name string) {
	delete(s.dispatcher.topics, name)
	s.dispatcher.last = nil
}
