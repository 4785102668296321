package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	pullCount   = 1024
	sampled     = 40 // keys that are queried
	lastSampled = 20 // how many of them are of the last acknowledged messages
	maxProblems = 20 // that are printed
)

// verifier compares a broker with a history.
type verifier struct {
	h        *history
	c        *remoting.Conn
	found    int
	problems []string
	omitted  int
}

// verify checks every promise of the package's comment and prints what was looked at.
func verify(ctx context.Context, addr string, h *history, seed uint64) error {
	cl := remoting.NewClient(nil, nil)
	defer cl.Close()
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return err
	}
	v := &verifier{h: h, c: c}
	queues := 0
	for _, topic := range slices.Sorted(maps.Keys(h.asked)) {
		n, err := v.topic(ctx, topic)
		if err != nil {
			return err
		}
		for q := range n {
			if err := v.queue(ctx, place{topic, q}); err != nil {
				return err
			}
		}
		queues += int(n)
	}
	acked := v.attempts()
	if err := v.keys(ctx, acked, rand.New(rand.NewPCG(seed, 0))); err != nil {
		return err
	}
	if err := v.commits(ctx); err != nil {
		return err
	}
	fmt.Printf("%d messages in %d queues, %d acknowledged, %d offsets\n", v.found, queues, len(acked), len(h.commits))
	if len(v.problems) == 0 {
		return nil
	}
	for _, p := range v.problems {
		fmt.Println("problem:", p)
	}
	return fmt.Errorf("%d problems", len(v.problems)+v.omitted)
}

func (v *verifier) problem(format string, args ...any) {
	if len(v.problems) == maxProblems {
		v.omitted++
		return
	}
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// ask sends a request. found is false if it was refused with the code none.
func (v *verifier) ask(ctx context.Context, rc code.Request, h header.Appender, to header.Setter, none code.Response) (r *remoting.Reply, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r, err = v.c.Call(ctx, rc, h, nil); err != nil {
		return nil, false, err
	}
	if none != code.Success && code.Response(r.Code) == none {
		return r, false, nil
	}
	if err = r.Err(); err == nil && to != nil {
		err = r.Decode(to)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", rc, err)
	}
	return r, true, nil
}

// topic returns how many queues a topic has (C6).
func (v *verifier) topic(ctx context.Context, topic string) (queues int32, err error) {
	_, found, err := v.ask(ctx, code.GetTopicConfig, &header.GetTopicConfigRequest{Topic: topic}, nil, code.TopicNotExist)
	if err != nil {
		return 0, err
	}
	want, answered := v.h.topics[topic]
	if answered && !found {
		v.problem("the creation of topic %s was answered, and it does not exist", topic)
	}
	return want, nil
}

// queue reads a queue from its first offset to its last (C1, C2, C3).
func (v *verifier) queue(ctx context.Context, p place) error {
	var low header.GetMinOffsetResponse
	var high header.GetMaxOffsetResponse
	if _, _, err := v.ask(ctx, code.GetMinOffset, &header.GetMinOffsetRequest{Topic: p.topic, QueueID: p.queue}, &low, 0); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if _, _, err := v.ask(ctx, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: p.topic, QueueID: p.queue}, &high, 0); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	if low.Offset != 0 && high.Offset != low.Offset {
		v.problem("%s begins at offset %d", p, low.Offset)
	}
	before := map[[2]int32]int64{} // by run and connection: the last sequence number
	for at := low.Offset; at < high.Offset; {
		next, err := v.pull(ctx, p, at, before)
		if err != nil {
			return fmt.Errorf("%s from offset %d: %w", p, at, err)
		}
		if next <= at {
			v.problem("%s has nothing at offset %d, and ends at %d", p, at, high.Offset)
			return nil
		}
		at = next
	}
	return nil
}

// pull reads some messages from an offset on and returns the offset behind the last.
func (v *verifier) pull(ctx context.Context, p place, at int64, before map[[2]int32]int64) (next int64, err error) {
	const subscription = 4 // PullSysFlag
	h := header.PullMessageRequest{ConsumerGroup: group, Topic: p.topic, QueueID: p.queue, QueueOffset: at, MaxMsgNums: pullCount,
		SysFlag: subscription, Subscription: "*", ExpressionType: "TAG"}
	r, _, err := v.ask(ctx, code.PullMessage, &h, nil, 0)
	if err != nil {
		return at, err
	}
	for rest := r.Body; len(rest) > 0; at++ {
		var m message.View
		if err := m.Parse(rest); err != nil {
			return at, err
		}
		rest = rest[m.Size():]
		if m.QueueOffset() != at || string(m.Topic()) != p.topic || m.QueueID() != p.queue {
			v.problem("%s offset %d: the message there says %s-%d offset %d", p, at, m.Topic(), m.QueueID(), m.QueueOffset())
		}
		v.message(p, &m, before)
	}
	return at, nil
}

func (v *verifier) message(p place, m *message.View, before map[[2]int32]int64) {
	at := m.QueueOffset()
	v.found++
	if err := m.Verify(m.PhyOffset()); err != nil {
		v.problem("%s offset %d, log offset %d: %v", p, at, m.PhyOffset(), err)
		return
	}
	name, _, _ := bytes.Cut(m.Body(), []byte(" "))
	i, err := parseID(string(name))
	a := v.h.byID[i]
	switch {
	case err != nil:
		v.problem("%s offset %d: a body that nobody sent: %v", p, at, err)
		return
	case a == nil || a.place != p:
		v.problem("%s offset %d: message %s was not sent there", p, at, i)
		return
	case !bytes.Equal(m.Body(), i.body()):
		v.problem("%s offset %d: the body of message %s is not what was sent", p, at, i)
	case string(m.Properties().Lookup(message.PropUniqueKey)) != a.key.String():
		v.problem("%s offset %d: message %s has the key %s, want %s", p, at, i, m.Properties().Lookup(message.PropUniqueKey), a.key)
	case a.offset >= 0 && a.offset != at:
		v.problem("%s offset %d: message %s was acknowledged at offset %d", p, at, i, a.offset)
	}
	if a.stored++; a.stored > 1 {
		v.problem("%s offset %d: message %s is there %d times", p, at, i, a.stored)
	}
	from := [2]int32{i.run, i.conn}
	if last, ok := before[from]; ok && last >= i.seq {
		v.problem("%s offset %d: message %s comes after number %d of its connection", p, at, i, last)
	}
	before[from] = i.seq
}

// attempts returns the acknowledged attempts, each of which must have been found (C1).
func (v *verifier) attempts() (acked []*attempt) {
	for _, a := range v.h.attempts {
		if a.offset < 0 {
			continue
		}
		acked = append(acked, a)
		if a.stored == 0 {
			v.problem("message %s was acknowledged at %s offset %d and is not there", a.id, a.place, a.offset)
		}
	}
	return acked
}

// keys queries some of the acknowledged messages by their keys, the last ones among them (C4).
func (v *verifier) keys(ctx context.Context, acked []*attempt, rng *rand.Rand) error {
	for n := range min(sampled, len(acked)) {
		a := acked[rng.IntN(len(acked))]
		if n < lastSampled {
			a = acked[len(acked)-1-n]
		}
		h := header.QueryMessageRequest{Topic: a.topic, Key: a.key.String(), MaxNum: 64, EndTimestamp: math.MaxInt64, UniqueKeyQuery: header.Some(true)}
		r, found, err := v.ask(ctx, code.QueryMessage, &h, nil, code.QueryNotFound)
		if err != nil {
			return err
		}
		if !found || !holds(r.Body, a) {
			v.problem("message %s at %s offset %d is not found by its key %s", a.id, a.place, a.offset, a.key)
		}
	}
	return nil
}

func holds(records []byte, a *attempt) bool {
	for len(records) > 0 {
		var m message.View
		if m.Parse(records) != nil {
			return false
		}
		if m.QueueOffset() == a.offset && m.QueueID() == a.queue {
			return true
		}
		records = records[m.Size():]
	}
	return false
}

// commits asks for every offset that was committed (C5).
func (v *verifier) commits(ctx context.Context) error {
	for p, c := range v.h.commits {
		var got header.QueryConsumerOffsetResponse
		h := header.QueryConsumerOffsetRequest{ConsumerGroup: group, Topic: p.topic, QueueID: p.queue, SetZeroIfNotFound: header.Some(false)}
		_, found, err := v.ask(ctx, code.QueryConsumerOffset, &h, &got, code.QueryNotFound)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if !found {
			got.Offset = -1
		}
		if got.Offset < c.answered || got.Offset > c.asked {
			v.problem("%s: the committed offset is %d; %d was answered, %d asked for", p, got.Offset, c.answered, c.asked)
		}
	}
	return nil
}
