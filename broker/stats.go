package broker

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
)

// stats counts what passes through the broker, by topic and by group (BrokerStatsManager, StoreStatsService). The request path
// adds to atomics in rows that it finds without allocation; everything else is done when somebody looks, and by one goroutine
// that samples the counts for averages over time.
type stats struct {
	b      *Broker
	topics rows[string, topicStats]
	groups rows[groupTopic, groupStats]
	calls  rows[answerKind, callTimes]

	in, out    traffic      // of all topics
	found      atomic.Int64 // pulls that got messages
	missed     atomic.Int64 // pulls that got none
	putTimes   latencies    // from the append to the answer
	topicMakes durations    // of creations of topics
	groupMakes durations

	batchMs int64 // the time of the present batch of answers; dispatching goroutine only

	mu    sync.Mutex
	rates rates
	days  mornings
}

// groupTopic names what a group does with a topic.
type groupTopic struct{ group, topic string }

// messageKind is the metrics' message_type.
type messageKind int

// The kinds of messages.
const (
	kindNormal messageKind = iota
	kindFIFO
	kindDelay
	kindTransaction
	messageKinds
)

var kindNames = [messageKinds]string{"normal", "fifo", "delay", "transaction"}

// sizeBounds are the upper bounds of the buckets of rocketmq_message_size, in bytes.
var sizeBounds = [...]int{1 << 10, 4 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20}

// count is what went through at some time: messages, their bytes, and the requests that carried them.
type count struct{ messages, bytes, calls int64 }

// traffic is a count that grows.
type traffic struct{ messages, bytes, calls atomic.Int64 }

func (t *traffic) add(messages, bytes int64) {
	t.messages.Add(messages)
	t.bytes.Add(bytes)
	t.calls.Add(1)
}

func (t *traffic) count() count {
	return count{t.messages.Load(), t.bytes.Load(), t.calls.Load()}
}

// topicStats is what was stored in a topic.
type topicStats struct {
	calls atomic.Int64
	kinds [messageKinds]kindStats
	past  history
}

type kindStats struct {
	bytes atomic.Int64
	sizes [len(sizeBounds) + 1]atomic.Int64 // messages by size; the last are larger than every bound
}

func (k *kindStats) messages() (n int64) {
	for i := range k.sizes {
		n += k.sizes[i].Load()
	}
	return n
}

func (t *topicStats) count() (c count) {
	for i := range t.kinds {
		c.messages += t.kinds[i].messages()
		c.bytes += t.kinds[i].bytes.Load()
	}
	c.calls = t.calls.Load()
	return c
}

// groupStats is what a group got of a topic, sent back, and lost to its dead letters.
type groupStats struct {
	got      traffic
	pastGot  history
	back     traffic
	pastBack history
	dead     atomic.Int64
}

func newStats(b *Broker) *stats {
	s := &stats{b: b}
	s.topics.limit, s.groups.limit, s.calls.limit = maxRows, maxRows, maxRows
	s.calls.clone = func(k answerKind) answerKind { return k }
	s.topics.clone = strings.Clone
	s.groups.clone = func(k groupTopic) groupTopic { return groupTopic{strings.Clone(k.group), strings.Clone(k.topic)} }
	now := b.clk.Now()
	s.rates.add(rateSample{at: now.UnixMilli()})
	s.days.roll(now, s.dayCount())
	return s
}

// rows is a table of counters. A table that is full counts what has no row in one that is not shown.
type rows[K comparable, V any] struct {
	clone func(K) K
	limit int
	rest  V

	mu  sync.RWMutex
	all map[K]*V

	dropped atomic.Int64 // counts that went to rest
}

// maxRows is the limit of a table; it is the number of series that Java's exporter allows a metric (metricsOtelCardinalityLimit).
const maxRows = 50_000

// of returns the row of k, which is borrowed.
func (r *rows[K, V]) of(k K) *V {
	r.mu.RLock()
	v := r.all[k]
	r.mu.RUnlock()
	if v != nil {
		return v
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v = r.all[k]; v != nil {
		return v
	}
	if len(r.all) >= r.limit {
		r.dropped.Add(1)
		return &r.rest
	}
	if r.all == nil {
		r.all = map[K]*V{}
	}
	v = new(V)
	r.all[r.clone(k)] = v
	return v
}

// get returns the row of k, nil if nothing was counted.
func (r *rows[K, V]) get(k K) *V {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.all[k]
}

// snapshot returns the present rows.
func (r *rows[K, V]) snapshot() map[K]*V {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.all)
}

// forget drops the rows that gone holds for.
func (r *rows[K, V]) forget(gone func(K) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.all, func(k K, _ *V) bool { return gone(k) })
}

// stored counts messages of one request that were stored and confirmed. It runs where the confirm offset moved, like batchEnd.
func (s *stats) stored(drafts []message.Draft, kind messageKind, storedMs int64) {
	row := s.topics.of(drafts[0].Topic)
	row.calls.Add(1)
	k := &row.kinds[kind]
	var bytes int64
	for i := range drafts {
		size := drafts[i].Size()
		bytes += int64(size)
		k.sizes[sizeBucket(size)].Add(1)
	}
	k.bytes.Add(bytes)
	s.in.add(int64(len(drafts)), bytes)
	if s.batchMs == 0 {
		s.batchMs = s.b.clk.NowMs()
	}
	s.putTimes.add(s.batchMs - storedMs)
}

// batchEnd ends a batch of answers: the next one looks at the clock again.
func (s *stats) batchEnd() { s.batchMs = 0 }

func sizeBucket(size int) int {
	i := 0
	for i < len(sizeBounds) && size > sizeBounds[i] {
		i++
	}
	return i
}

// delivered counts a message that the broker itself stored in the topic it was meant for (delayed, or of a transaction).
func (s *stats) delivered(topic string, kind messageKind, size int) {
	row := s.topics.of(topic)
	row.calls.Add(1)
	row.kinds[kind].bytes.Add(int64(size))
	row.kinds[kind].sizes[sizeBucket(size)].Add(1)
	s.in.add(1, int64(size))
}

// pulled counts what a pull got.
func (s *stats) pulled(group, topic string, messages, bytes int) {
	if messages == 0 {
		s.missed.Add(1)
		return
	}
	s.found.Add(1)
	s.out.add(int64(messages), int64(bytes))
	s.groups.of(groupTopic{group, topic}).got.add(int64(messages), int64(bytes))
}

// sentBack counts a message that a consumer returned for another try; topic is the one it was first sent to.
func (s *stats) sentBack(group, topic string, size int) {
	s.groups.of(groupTopic{group, topic}).back.add(1, int64(size))
}

// deadLettered counts a message that went to the dead letters of a group; topic is the one it was first sent to.
func (s *stats) deadLettered(group, topic string) {
	s.groups.of(groupTopic{group, topic}).dead.Add(1)
}

// forgetTopic drops what was counted for a topic that is deleted.
func (s *stats) forgetTopic(topic string) {
	s.topics.forget(func(t string) bool { return t == topic })
	s.groups.forget(func(k groupTopic) bool { return k.topic == topic })
}

// forgetGroup drops what was counted for a group that is deleted.
func (s *stats) forgetGroup(group string) {
	s.groups.forget(func(k groupTopic) bool { return k.group == group })
}

// answerKind is what rocketmq_rpc_latency tells apart.
type answerKind struct {
	code    code.Request
	result  code.Response
	held    bool
	outcome remoting.Outcome
}

// callBounds are the upper bounds of the buckets of rocketmq_rpc_latency, in ms.
var callBounds = [...]int64{1, 3, 5, 7, 10, 100, 1000, 2000, 3000}

// callTimes are the times of requests from their arrival to their answer.
type callTimes struct {
	buckets [len(callBounds) + 1]atomic.Int64
	sum     atomic.Int64 // ms
}

// answered counts an answer. Any goroutine may call it.
func (s *stats) answered(a remoting.Answer) {
	row := s.calls.of(answerKind{a.Code, a.Result, a.Held, a.Outcome})
	i := 0
	for i < len(callBounds) && a.TookMs > callBounds[i] {
		i++
	}
	row.buckets[i].Add(1)
	if a.TookMs > 0 {
		row.sum.Add(a.TookMs)
	}
}

// run samples the counts.
func (s *stats) run(ctx context.Context) error {
	tick := s.b.clk.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.sampleRates()
		if n%10 == 0 {
			s.sampleHistory(s.b.clk.NowMs())
		}
		if n%60 == 0 {
			s.putTimes.mark()
		}
	}
}

func (s *stats) sampleRates() {
	now := s.b.clk.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rates.add(rateSample{now.UnixMilli(), s.in.messages.Load(), s.found.Load(), s.missed.Load(), s.out.messages.Load()})
	s.days.roll(now, s.dayCount())
}

func (s *stats) sampleHistory(nowMs int64) {
	for _, t := range s.topics.snapshot() {
		t.past.add(nowMs, t.count())
	}
	for _, g := range s.groups.snapshot() {
		g.pastGot.add(nowMs, g.got.count())
		g.pastBack.add(nowMs, g.back.count())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rates.in.add(nowMs, s.in.count())
	s.rates.out.add(nowMs, s.out.count())
}

func (s *stats) dayCount() dayCount { return dayCount{s.in.messages.Load(), s.out.messages.Load()} }
