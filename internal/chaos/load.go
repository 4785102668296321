package chaos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	topic = "ChaosTopic"
	reads = "chaos-readers"
)

// load keeps producers and a committer at work, and remembers what was acknowledged. Each producer owns a queue and sends numbers in
// order, the next one when the last was acknowledged: what the queue holds must be those numbers in order, some of them repeated.
type load struct {
	c         *Cluster
	client    *remoting.Client
	producers []*producer
	master    atomic.Pointer[string]
	wg        sync.WaitGroup
	stop      context.CancelFunc
	pulse     pulse
	failed    atomic.Int64 // sends that were not acknowledged
	committed []int64      // by queue: the last offset whose commit was acknowledged
	failures  struct {
		sync.Mutex
		all []error
	}
}

type producer struct {
	l     *load
	queue int32
	sent  uint64 // numbers that were acknowledged: all below it
}

// startLoad makes the topic and starts n producers, each of which waits for pause after an acknowledgement.
func startLoad(ctx context.Context, c *Cluster, n int, pause time.Duration) (*load, error) {
	l := &load{c: c, client: remoting.NewClient(nil, nil), committed: make([]int64, n)}
	addr, err := c.Route(ctx)
	if err != nil {
		return nil, err
	}
	l.master.Store(&addr)
	h := header.CreateTopicRequest{Topic: topic, DefaultTopic: "TBW102", ReadQueueNums: int32(n), WriteQueueNums: int32(n), Perm: 6, TopicFilterType: "SINGLE_TAG"}
	if err := l.call(ctx, addr, code.UpdateAndCreateTopic, &h, nil, nil); err != nil {
		return nil, fmt.Errorf("make the topic: %w", err)
	}
	g := body.SubscriptionGroupConfig{}
	g.SetDefaults()
	g.GroupName = reads
	if err := l.call(ctx, addr, code.UpdateAndCreateSubscriptionGroup, nil, fastjson.Marshal(&g), nil); err != nil {
		return nil, fmt.Errorf("make the group: %w", err)
	}
	ctx, l.stop = context.WithCancel(ctx)
	for i := range n {
		p := &producer{l: l, queue: int32(i)}
		l.producers = append(l.producers, p)
		l.wg.Go(func() { p.run(ctx, pause) })
	}
	l.wg.Go(func() { l.commit(ctx) })
	return l, nil
}

// sendTimeout is a default producer's (DefaultMQProducer.sendMsgTimeout).
const sendTimeout = 3 * time.Second

func (l *load) call(ctx context.Context, addr string, rc code.Request, h header.Appender, data []byte, answer header.Setter) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	r, err := l.client.Call(ctx, addr, rc, h, data)
	if err == nil {
		err = r.Err()
	}
	if err == nil && answer != nil {
		err = r.Decode(answer)
	}
	return err
}

// find looks for the master: where the controllers say, or else where the name server does.
func (l *load) find(ctx context.Context) {
	if g, err := l.c.Replicas(ctx); err == nil && g.MasterAddress != "" {
		l.master.Store(&g.MasterAddress)
	}
}

func (p *producer) run(ctx context.Context, pause time.Duration) {
	b := make([]byte, 100)
	h := header.SendMessageRequest{ProducerGroup: "chaos", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: p.queue, BornTimestamp: time.Now().UnixMilli(),
		Properties: string(message.AppendProp(nil, message.PropTags, "t"))}
	for ctx.Err() == nil {
		binary.BigEndian.PutUint64(b, p.sent)
		var sent header.SendMessageResponse
		err := p.l.call(ctx, *p.l.master.Load(), code.SendMessage, &h, b, &sent)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			p.l.failed.Add(1)
			p.l.find(ctx)
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		p.sent++
		p.l.pulse.beat()
		sleep(ctx, pause)
	}
}

// commit commits growing offsets and looks that none goes back.
func (l *load) commit(ctx context.Context) {
	for next := int64(1); ctx.Err() == nil; next++ {
		for q := range l.committed {
			addr := *l.master.Load()
			h := header.UpdateConsumerOffsetRequest{ConsumerGroup: reads, Topic: topic, QueueID: header.Some(int32(q)), CommitOffset: header.Some(next)}
			if l.call(ctx, addr, code.UpdateConsumerOffset, &h, nil, nil) == nil {
				l.committed[q] = next
			}
			var is header.QueryConsumerOffsetResponse
			ask := header.QueryConsumerOffsetRequest{ConsumerGroup: reads, Topic: topic, QueueID: int32(q)}
			if l.call(ctx, addr, code.QueryConsumerOffset, &ask, nil, &is) == nil && is.Offset < l.committed[q] {
				l.fail(fmt.Errorf("queue %d: offset %d was committed, %s says %d", q, l.committed[q], addr, is.Offset))
			}
		}
		sleep(ctx, 5*time.Millisecond)
	}
}

func (l *load) fail(err error) {
	l.failures.Lock()
	defer l.failures.Unlock()
	l.failures.all = append(l.failures.all, err)
}

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// end stops the load.
func (l *load) end() {
	l.stop()
	l.wg.Wait()
	l.client.Close()
}

// pulse measures the time without an acknowledgement, of all producers together.
type pulse struct {
	sync.Mutex
	last  time.Time
	worst time.Duration
	count int
}

func (p *pulse) beat() {
	p.Lock()
	defer p.Unlock()
	now := time.Now()
	if !p.last.IsZero() {
		p.worst = max(p.worst, now.Sub(p.last))
	}
	p.last = now
	p.count++
}

// reset begins to measure; a silence that has begun counts from its beginning.
func (p *pulse) reset() {
	p.Lock()
	defer p.Unlock()
	p.worst, p.count = 0, 0
}

// restart begins to measure now.
func (p *pulse) restart() {
	p.Lock()
	defer p.Unlock()
	p.worst, p.last = 0, time.Now()
}

// read returns the longest silence since reset, also one that goes on, and the number of acknowledgements.
func (p *pulse) read() (time.Duration, int) {
	p.Lock()
	defer p.Unlock()
	return max(p.worst, time.Since(p.last)), p.count
}

// await waits until n acknowledgements have come since reset.
func (p *pulse) await(ctx context.Context, n int) error {
	for {
		if _, count := p.read(); count >= n {
			return nil
		}
		if sleep(ctx, 10*time.Millisecond); ctx.Err() != nil {
			return errors.New("nothing is acknowledged any more")
		}
	}
}

// Verdict is what is in the queues, compared with what was acknowledged.
type Verdict struct {
	Acked, Lost, Repeated, Disordered uint64
}

// check reads every queue to its end.
func (l *load) check(ctx context.Context) (v Verdict, err error) {
	client := remoting.NewClient(nil, nil)
	defer client.Close()
	for _, p := range l.producers {
		v.Acked += p.sent
		next := uint64(0)
		err := each(ctx, client, *l.master.Load(), topic, p.queue, func(at *message.View) {
			switch n := binary.BigEndian.Uint64(at.Body()); {
			case n == next:
				next++
			case n < next:
				v.Repeated++
			default:
				v.Disordered += n - next
				next = n + 1
			}
		})
		if err != nil {
			return v, err
		}
		if next < p.sent {
			v.Lost += p.sent - next
		}
	}
	l.failures.Lock()
	defer l.failures.Unlock()
	return v, errors.Join(l.failures.all...)
}

// each reads a queue from its beginning to its end.
func each(ctx context.Context, client *remoting.Client, addr, topic string, queue int32, f func(at *message.View)) error {
	for offset := int64(0); ; {
		h := header.PullMessageRequest{ConsumerGroup: reads, Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32, SysFlag: 4, Subscription: "*", ExpressionType: "TAG"}
		r, err := client.Call(ctx, addr, code.PullMessage, &h, nil)
		if err != nil {
			return err
		}
		if code.Response(r.Code) == code.PullNotFound {
			return nil
		}
		if code.Response(r.Code) != code.Success {
			return fmt.Errorf("queue %d at %d: %w", queue, offset, r.Err())
		}
		var at message.View
		for data := r.Body; len(data) > 0; data = data[at.Size():] {
			if err := at.Parse(data); err != nil {
				return err
			}
			if at.QueueOffset() != offset {
				return fmt.Errorf("queue %d: offset %d where %d was expected", queue, at.QueueOffset(), offset)
			}
			offset++
			f(&at)
		}
	}
}
