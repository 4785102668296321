package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const adminTimeout = 30 * time.Second

// target is the broker under load and the requests around a load.
type target struct {
	clk    clock.Clock
	client *remoting.Client
	addr   string
	name   string // broker name; empty if only the address is known
}

// newTarget finds the broker: at addr, or the first master that the name server namesrv knows. The caller closes the client.
func newTarget(ctx context.Context, clk clock.Clock, namesrv, addr string) (*target, error) {
	t := &target{clk: clk, client: remoting.NewClient(nil, nil), addr: addr}
	if addr != "" {
		return t, nil
	}
	if namesrv == "" {
		return nil, errors.New("which broker? Give -n NAMESRV or -b BROKER")
	}
	var info body.ClusterInfo
	r, err := t.call(ctx, namesrv, code.GetBrokerClusterInfo, nil)
	if err == nil {
		err = fastjson.Unmarshal(r.Body, &info)
	}
	if err != nil {
		t.client.Close()
		return nil, fmt.Errorf("ask name server %s: %w", namesrv, err)
	}
	names := make([]string, 0, len(info.BrokerAddrTable))
	for name, data := range info.BrokerAddrTable {
		if data.BrokerAddrs[0] != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.client.Close()
		return nil, fmt.Errorf("name server %s knows no master", namesrv)
	}
	t.name = slices.Min(names)
	t.addr = info.BrokerAddrTable[t.name].BrokerAddrs[0]
	return t, nil
}

func (t *target) call(ctx context.Context, addr string, rc code.Request, h header.Appender) (*remoting.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	r, err := t.client.Call(ctx, addr, rc, h, nil)
	if err != nil {
		return nil, err
	}
	return r, r.Err()
}

// createTopic creates a topic or sets its number of queues.
func (t *target) createTopic(ctx context.Context, topic string, queues int32) error {
	const readWrite = 6
	h := header.CreateTopicRequest{
		Topic: topic, DefaultTopic: defaultTopic, ReadQueueNums: queues, WriteQueueNums: queues, Perm: readWrite,
		TopicFilterType: "SINGLE_TAG", TopicSysFlag: header.Some[int32](0),
	}
	if _, err := t.call(ctx, t.addr, code.UpdateAndCreateTopic, &h); err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}

// bounds returns the first offset of a queue and the one after the last.
func (t *target) bounds(ctx context.Context, topic string, queue int32) (first, next int64, err error) {
	var low header.GetMinOffsetResponse
	var high header.GetMaxOffsetResponse
	for _, ask := range []struct {
		rc code.Request
		h  header.Appender
		to header.Setter
	}{
		{code.GetMinOffset, &header.GetMinOffsetRequest{Topic: topic, QueueID: queue}, &low},
		{code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: topic, QueueID: queue}, &high},
	} {
		r, err := t.call(ctx, t.addr, ask.rc, ask.h)
		if err == nil {
			err = r.Decode(ask.to)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("offsets of queue %d of %s: %w", queue, topic, err)
		}
	}
	return low.Offset, high.Offset, nil
}

// waitReadable waits until the queues of a topic hold at least count messages: brokers show messages to consumers a little
// after they have acknowledged them.
func (t *target) waitReadable(ctx context.Context, topic string, queues int32, count int64) ([]queueBounds, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	for {
		all := make([]queueBounds, queues)
		sum := int64(0)
		for q := range all {
			first, next, err := t.bounds(ctx, topic, int32(q))
			if err != nil {
				return nil, err
			}
			all[q] = queueBounds{first, next}
			sum += next - first
		}
		if sum >= count {
			return all, nil
		}
		if err := sleep(ctx, t.clk, 20*time.Millisecond); err != nil {
			return nil, fmt.Errorf("%d of %d messages of %s are readable: %w", sum, count, topic, err)
		}
	}
}

// queueBounds is the first offset of a queue and the one after the last.
type queueBounds struct{ first, next int64 }

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, clk clock.Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
