package goclient

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func TestPushConcurrent(t *testing.T) {
	t.Parallel()
	const count = 500
	topic, p := newTopic(t, 4), newProducer(t)
	var got inbox
	newConsumer(t, random("GoGroup"), topic, "*", got.accept, consumer.WithConsumeMessageBatchMaxSize(8))
	send(t, p, topic, "concurrent", count)
	eventually(t, "all messages", func() bool { return len(got.distinct()) == count })
	for body, times := range got.distinct() {
		if times != 1 {
			t.Errorf("%s was consumed %d times without a failure", body, times)
		}
	}
}

// TestPushOrderly also refuses one message once: it must come again before its successors.
func TestPushOrderly(t *testing.T) {
	t.Parallel()
	const keys, perKey = 4, 25
	topic := newTopic(t, 2)
	p := newProducer(t, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for i := range keys * perKey {
		message := primitive.NewMessage(topic, fmt.Appendf(nil, "%d", i/keys))
		sendOne(t, p, message.WithShardingKey(fmt.Sprint("key-", i%keys)))
	}
	var mu sync.Mutex
	order, refused, total := map[string][]string{}, false, 0
	c := newConsumer(t, random("GoOrderly"), topic, "*", func(_ context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		mu.Lock()
		defer mu.Unlock()
		for _, m := range ms {
			if key := m.GetShardingKey(); key == "key-1" && string(m.Body) == "7" && !refused {
				refused = true
				return consumer.SuspendCurrentQueueAMoment, nil
			} else {
				order[key] = append(order[key], string(m.Body))
				total++
			}
		}
		return consumer.ConsumeSuccess, nil
	}, consumer.WithConsumerOrder(true), consumer.WithSuspendCurrentQueueTimeMillis(100*time.Millisecond))
	eventually(t, "all messages", func() bool { mu.Lock(); defer mu.Unlock(); return total >= keys*perKey })
	must(t, c.Shutdown())
	if !refused {
		t.Error("the message to be refused never came")
	}
	for key, bodies := range order {
		for i, body := range bodies {
			if body != fmt.Sprint(i) {
				t.Fatalf("%s was consumed as %v", key, bodies)
			}
		}
	}
}

// filtered sends 30 messages and a last one that matches to a single queue, and returns what the selector let
// through. One consuming goroutine keeps the order of the queue, so the last message proves the end.
func filtered(t *testing.T, selector consumer.MessageSelector) []string {
	t.Helper()
	topic, p := newTopic(t, 1), newProducer(t)
	for i := range 31 {
		m := primitive.NewMessage(topic, fmt.Appendf(nil, "%d", i)).WithTag(fmt.Sprint("Tag", i%3))
		m.WithProperty("index", fmt.Sprint(i))
		m.WithProperty("colour", []string{"red", "blue"}[i%2])
		sendOne(t, p, m)
	}
	var got inbox
	subscribe(t, random("GoFilter"), topic, selector, got.accept, consumer.WithConsumeGoroutineNums(1))
	eventually(t, "the last message", func() bool { return slices.Contains(got.bodies(), "30") })
	return got.bodies()
}

func TestPushTags(t *testing.T) {
	t.Parallel()
	var want []string
	for i := range 31 {
		if i%3 != 1 {
			want = append(want, fmt.Sprint(i))
		}
	}
	if got := filtered(t, consumer.MessageSelector{Type: consumer.TAG, Expression: "Tag0 || Tag2"}); !slices.Equal(got, want) {
		t.Errorf("consumed %v, want %v", got, want)
	}
}

func TestPushSQL92(t *testing.T) {
	t.Parallel()
	var want []string
	for i := range 31 {
		if i > 10 && i%2 == 0 && i%3 != 2 {
			want = append(want, fmt.Sprint(i))
		}
	}
	expression := "index > 10 AND colour = 'red' AND TAGS IN ('Tag0', 'Tag1')"
	if got := filtered(t, consumer.MessageSelector{Type: consumer.SQL92, Expression: expression}); !slices.Equal(got, want) {
		t.Errorf("consumed %v, want %v", got, want)
	}
}

func TestBroadcasting(t *testing.T) {
	t.Parallel()
	const count = 40
	topic, group, p := newTopic(t, 4), random("GoBroadcast"), newProducer(t)
	var one, two inbox
	newConsumer(t, group, topic, "*", one.accept, consumer.WithConsumerModel(consumer.BroadCasting))
	newConsumer(t, group, topic, "*", two.accept, consumer.WithConsumerModel(consumer.BroadCasting))
	send(t, p, topic, "broadcast", count)
	eventually(t, "all messages at both consumers", func() bool {
		return len(one.distinct()) == count && len(two.distinct()) == count
	})
}

// broadcastFrom starts a broadcasting consumer on a topic that holds old messages and sends new ones until the
// consumer sees one. A broadcasting consumer keeps no offsets at the broker, so it asks for its place in the
// queue: for the end, or for a point of time.
func broadcastFrom(t *testing.T, options ...consumer.Option) []string {
	t.Helper()
	topic, p := newTopic(t, 1), newProducer(t)
	send(t, p, topic, "old", 5)
	boundary := time.Now().Truncate(time.Second).Add(time.Second)
	eventually(t, "the next second", func() bool { return time.Now().After(boundary.Add(100 * time.Millisecond)) })
	send(t, p, topic, "marker", 1)
	var got inbox
	newConsumer(t, random("GoBroadcast"), topic, "*", got.accept, append(options, consumer.WithConsumeGoroutineNums(1),
		consumer.WithConsumerModel(consumer.BroadCasting), consumer.WithConsumeTimestamp(boundary.UTC().Format("20060102150405")))...)
	eventually(t, "a new message", func() bool {
		send(t, p, topic, "new", 1)
		return slices.Contains(got.bodies(), "new-0")
	})
	return got.bodies()
}

func TestBroadcastingFromLastOffset(t *testing.T) {
	t.Parallel()
	if got := broadcastFrom(t, consumer.WithConsumeFromWhere(consumer.ConsumeFromLastOffset)); got[0] != "new-0" {
		t.Errorf("consumed %v, want only messages sent after the start", got)
	}
}

func TestBroadcastingFromTimestamp(t *testing.T) {
	t.Parallel()
	if got := broadcastFrom(t, consumer.WithConsumeFromWhere(consumer.ConsumeFromTimestamp)); got[0] != "marker-0" {
		t.Errorf("consumed %v, want the messages from the timestamp on", got)
	}
}

// TestRebalance lets a second consumer join a group and leave it again. Messages flow all the time; none may be
// lost, and the queues a consumer reads show how they are divided.
func TestRebalance(t *testing.T) {
	t.Parallel()
	const queues = 8
	topic, group, p := newTopic(t, queues), random("GoRebalance"), newProducer(t)
	var first, second inbox
	sent := map[string]bool{}
	step := func(what string, divided func() bool) {
		t.Helper()
		eventually(t, what, func() bool {
			prefix := random("flow")
			send(t, p, topic, prefix, queues)
			for i := range queues {
				sent[fmt.Sprintf("%s-%d", prefix, i)] = true
			}
			return divided()
		})
	}
	newConsumer(t, group, topic, "*", first.accept)
	step("one consumer with all queues", func() bool { return len(readFrom(&first, 0)) == queues })
	leaver, started := newConsumer(t, group, topic, "*", second.accept), time.Now()
	step("the second consumer with half of the queues", func() bool { return len(readFrom(&second, 0)) == queues/2 })
	mark := len(first.all())
	leave(t, started, leaver)
	step("the first consumer with all queues again", func() bool { return len(readFrom(&first, mark)) == queues })
	eventually(t, "every message at one of the two", func() bool {
		one, two := first.distinct(), second.distinct()
		for body := range sent {
			if one[body]+two[body] == 0 {
				return false
			}
		}
		return true
	})
}

// readFrom returns the queues of all messages of a box from position start on.
func readFrom(b *inbox, start int) map[int]bool {
	queues := map[int]bool{}
	for _, m := range b.all()[start:] {
		queues[m.Queue.QueueId] = true
	}
	return queues
}
