package goclient

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// newGroup makes the broker know a group before it is used, by a consumer that comes and goes. Otherwise the
// first consumer has no route to the group's retry topic until its 30 second poll.
func newGroup(t *testing.T, topic string) string {
	t.Helper()
	group, started := random("GoRetry"), time.Now()
	c := newConsumer(t, group, topic, "never", new(inbox).accept)
	eventually(t, "the route of the retry topic", func() bool { return len(queuesOf(t, "%RETRY%"+group)) > 0 })
	leave(t, started, c)
	return group
}

// TestRetry refuses every delivery of one message and the first delivery of another. The first ends in the dead
// letter queue after maxReconsumeTimes retries, the second is consumed at its first retry.
func TestRetry(t *testing.T) {
	t.Parallel()
	topic, p := newTopic(t, 1), newProducer(t)
	group := newGroup(t, topic)
	var mu sync.Mutex
	seen := map[string][]*primitive.MessageExt{}
	newConsumer(t, group, topic, "*", func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		m := ms[0]
		seen[string(m.Body)] = append(seen[string(m.Body)], m)
		if string(m.Body) == "late" && m.ReconsumeTimes > 0 {
			return consumer.ConsumeSuccess, nil
		}
		if c, ok := primitive.GetConcurrentlyCtx(ctx); ok {
			c.DelayLevelWhenNextConsume = 1
		}
		return consumer.ConsumeRetryLater, nil
	}, consumer.WithMaxReconsumeTimes(1))
	dead := sendOne(t, p, primitive.NewMessage(topic, []byte("dead")).WithTag("T").WithKeys([]string{"dead-key"}))
	late := sendOne(t, p, primitive.NewMessage(topic, []byte("late")))
	start := time.Now()
	eventually(t, "two deliveries of both messages", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen["dead"]) >= 2 && len(seen["late"]) >= 2
	})
	if gone := time.Since(start); gone < 900*time.Millisecond {
		t.Errorf("the retries came after %v, level 1 is one second", gone)
	}
	dlq := "%DLQ%" + group
	eventually(t, "the dead letter queue", func() bool { return len(queuesOf(t, dlq)) >= 1 })
	letter := collect(t, dlq, 1)[0]
	if string(letter.Body) != "dead" || letter.GetTags() != "T" || letter.GetKeys() != "dead-key" ||
		letter.GetProperty("ORIGIN_MESSAGE_ID") != dead.OffsetMsgID && letter.GetProperty("ORIGIN_MESSAGE_ID") != dead.MsgID {
		t.Errorf("the dead letter is %v, sent as %v", letter, dead)
	}
	mu.Lock()
	defer mu.Unlock()
	for body, sent := range map[string]*primitive.SendResult{"dead": dead, "late": late} {
		if len(seen[body]) != 2 {
			t.Errorf("%q was delivered %d times, want 2", body, len(seen[body]))
		}
		retry := seen[body][1]
		if retry.ReconsumeTimes != 1 || retry.Topic != topic || retry.MsgId != sent.MsgID {
			t.Errorf("the retry of %q has reconsumeTimes %d, topic %s, id %s; sent as %v", body, retry.ReconsumeTimes,
				retry.Topic, retry.MsgId, sent)
		}
	}
}

func TestDelayLevel(t *testing.T) {
	t.Parallel()
	topic, p := newTopic(t, 1), newProducer(t)
	var mu sync.Mutex
	arrival := map[string]time.Duration{}
	newConsumer(t, random("GoDelay"), topic, "*", func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range ms {
			arrival[string(m.Body)] = time.Since(time.UnixMilli(m.BornTimestamp))
			if m.Topic != topic || m.GetProperty("REAL_TOPIC") != "" && m.GetProperty("REAL_TOPIC") != topic {
				t.Errorf("%q came from topic %s", m.Body, m.Topic)
			}
		}
		return consumer.ConsumeSuccess, nil
	})
	sendOne(t, p, primitive.NewMessage(topic, []byte("level 2")).WithDelayTimeLevel(2))
	sendOne(t, p, primitive.NewMessage(topic, []byte("level 1")).WithDelayTimeLevel(1))
	sendOne(t, p, primitive.NewMessage(topic, []byte("level 0")))
	eventually(t, "all messages", func() bool { mu.Lock(); defer mu.Unlock(); return len(arrival) == 3 })
	mu.Lock()
	defer mu.Unlock()
	// Level 2 means 2 seconds in the interop cluster and 5 by default. The broker counts whole milliseconds from its
	// store time; the upper bounds leave room for a busy machine.
	for body, due := range map[string][2]time.Duration{
		"level 0": {0, 2 * time.Second}, "level 1": {time.Second, 4 * time.Second}, "level 2": {2 * time.Second, 9 * time.Second},
	} {
		if arrival[body] < due[0]-10*time.Millisecond || arrival[body] > due[1] {
			t.Errorf("%q came after %v, due between %v and %v", body, arrival[body], due[0], due[1])
		}
	}
}
