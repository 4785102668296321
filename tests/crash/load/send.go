package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	connections = 3
	inFlight    = 64
	patience    = 20 * time.Second // for an answer of a broker that lives

	group       = "CrashGroup"
	baseTopics  = 2
	baseQueues  = 4
	newTopics   = 3                      // topics made on the way that get messages at a time
	createEvery = 150 * time.Millisecond // a topic
	commitEvery = 3 * time.Millisecond   // a consumer offset
)

// errGone means that the broker has closed the connection, which is what this load waits for.
var errGone = errors.New("the broker is gone")

// sender is one run of sends.
type sender struct {
	number int32
	rec    *recorder

	acked, refused, committed, created, total atomic.Int64

	mu     sync.Mutex
	resend []*attempt
	places []place         // where messages go
	latest map[place]int64 // one past the highest offset acknowledged
}

// send sends over several connections until the broker is gone, ctx ends or limit is over.
func send(ctx context.Context, addr, log string, h *history, number int32, limit time.Duration) (err error) {
	rec, err := openRecorder(log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()
	s := &sender{number: number, rec: rec, resend: h.unanswered(), latest: map[place]int64{}}
	resent := len(s.resend)
	clients := make([]*remoting.Client, connections)
	for i := range clients {
		clients[i] = remoting.NewClient(nil, nil)
		defer clients[i].Close()
	}
	admin, err := clients[0].Conn(ctx, addr)
	if err != nil {
		return err
	}
	if err := s.prepare(ctx, admin); err != nil && !errors.Is(err, errGone) {
		return err
	}
	fmt.Println("loading")
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i, cl := range clients {
		g.Go(func() error {
			c, err := cl.Conn(ctx, addr)
			if err != nil {
				return errGone
			}
			return s.stream(ctx, c, int32(i))
		})
	}
	g.Go(func() error { return s.commit(ctx, admin) })
	g.Go(func() error { return s.create(ctx, admin) })
	if err = g.Wait(); errors.Is(err, errGone) {
		err = nil
	}
	fmt.Printf("%d sent, %d of them again, %d acknowledged, %d refused, %d offsets, %d topics\n", s.total.Load(), resent-len(s.resend), s.acked.Load(),
		s.refused.Load(), s.committed.Load(), s.created.Load())
	return err
}

// prepare creates the consumer group and the topics that get most of the messages.
func (s *sender) prepare(ctx context.Context, c *remoting.Conn) error {
	var config body.SubscriptionGroupConfig
	config.SetDefaults()
	config.GroupName = group
	b, err := json.Marshal(&config)
	if err != nil {
		return err
	}
	if err := call(ctx, c, code.UpdateAndCreateSubscriptionGroup, nil, b); err != nil {
		return err
	}
	for i := range baseTopics {
		if err := s.createTopic(ctx, c, fmt.Sprintf("Crash%d", i), baseQueues); err != nil {
			return err
		}
	}
	return nil
}

// call sends a request and wants SUCCESS. It returns errGone if the connection ends.
func call(ctx context.Context, c *remoting.Conn, rc code.Request, h header.Appender, body []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	r, err := c.Call(ctx, rc, h, body)
	if errors.Is(err, remoting.ErrClosed) {
		return errGone
	}
	if err != nil {
		return err
	}
	return r.Err()
}

func (s *sender) createTopic(ctx context.Context, c *remoting.Conn, topic string, queues int32) error {
	s.rec.note(lineTopic, topic, queues)
	h := header.CreateTopicRequest{Topic: topic, DefaultTopic: "TBW102", ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6,
		TopicFilterType: "SINGLE_TAG", TopicSysFlag: header.Some[int32](0)}
	if err := call(ctx, c, code.UpdateAndCreateTopic, &h, nil); err != nil {
		return err
	}
	s.rec.note(lineCreated, topic, queues)
	s.created.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range queues {
		s.places = append(s.places, place{topic, q})
	}
	if extra := len(s.places) - baseTopics*baseQueues - newTopics; extra > 0 {
		base := s.places[: baseTopics*baseQueues : baseTopics*baseQueues]
		s.places = append(base, s.places[len(base)+extra:]...)
	}
	return nil
}

// create makes a topic now and then.
func (s *sender) create(ctx context.Context, c *remoting.Conn) error {
	return every(ctx, createEvery, func(n int) error {
		return s.createTopic(ctx, c, fmt.Sprintf("CrashNew-%d-%d", s.number, n), 1)
	})
}

// commit commits the offset behind an acknowledged message again and again.
func (s *sender) commit(ctx context.Context, c *remoting.Conn) error {
	return every(ctx, commitEvery, func(int) error {
		s.mu.Lock()
		p := s.places[rand.IntN(len(s.places))]
		offset := s.latest[p]
		s.mu.Unlock()
		if offset == 0 {
			return nil
		}
		s.rec.note(lineCommit, p.topic, p.queue, offset)
		h := header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: p.topic, QueueID: header.Some(p.queue), CommitOffset: header.Some(offset)}
		if err := call(ctx, c, code.UpdateConsumerOffset, &h, nil); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		s.rec.note(lineCommitted, p.topic, p.queue, offset)
		s.committed.Add(1)
		return nil
	})
}

// every calls f with 0, 1, … until it fails or ctx ends.
func every(ctx context.Context, d time.Duration, f func(n int) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := f(n); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// stream sends over one connection and waits for the last answers.
func (s *sender) stream(ctx context.Context, c *remoting.Conn, conn int32) error {
	window := make(chan struct{}, inFlight)
	var gone atomic.Bool
	for seq := int64(0); ctx.Err() == nil && !gone.Load(); seq++ {
		window <- struct{}{}
		a := s.next(id{s.number, conn, seq})
		s.rec.note(lineSent, a.id, a.topic, a.queue, a.key)
		s.total.Add(1)
		c.Go(code.SendMessageV2, a.header(), a.body(), func(r *remoting.Reply, err error) {
			if errors.Is(err, remoting.ErrClosed) {
				gone.Store(true)
			}
			s.answered(a, r, err)
			<-window
		})
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for range inFlight {
		select {
		case window <- struct{}{}:
		case <-timer.C:
			return fmt.Errorf("connection %d: no answer for %s", conn, patience)
		}
	}
	if gone.Load() {
		return errGone
	}
	return nil
}

// next is what to send under the name i: a message that got no answer, or a new one.
func (s *sender) next(i id) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.resend) > 0 {
		old := s.resend[0]
		s.resend = s.resend[1:]
		return &attempt{id: i, place: old.place, key: old.key}
	}
	return &attempt{id: i, place: s.places[rand.IntN(len(s.places))], key: i}
}

func (a *attempt) header() *header.SendMessageRequestV2 {
	props := message.AppendProp(nil, message.PropUniqueKey, a.key.String())
	props = message.AppendProp(props, message.PropTags, "tag"+strconv.FormatInt(a.seq%10, 10))
	return &header.SendMessageRequestV2{ProducerGroup: "CrashProducer", Topic: a.topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4,
		QueueID: a.queue, BornTimestamp: time.Now().UnixMilli(), Properties: string(props), ReconsumeTimes: header.Some[int32](0),
		UnitMode: header.Some(false), Batch: header.Some(false)}
}

// answered notes an acknowledgement. Any other answer leaves open whether the message is stored.
func (s *sender) answered(a *attempt, r *remoting.Reply, err error) {
	if err != nil {
		return
	}
	var h header.SendMessageResponse
	if err = r.Err(); err == nil {
		err = r.Decode(&h)
	}
	if err != nil {
		s.refused.Add(1)
		s.rec.note(lineRefused, a.id, strconv.Quote(err.Error()))
		return
	}
	s.acked.Add(1)
	s.rec.note(lineAcked, a.id, h.QueueOffset)
	s.mu.Lock()
	s.latest[a.place] = max(s.latest[a.place], h.QueueOffset+1)
	s.mu.Unlock()
}
