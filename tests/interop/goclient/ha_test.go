package goclient

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// ask has the runner do something to the group of brokers, see ../ha/group.py.
func ask(t *testing.T, what string) {
	t.Helper()
	r, err := http.Get(os.Getenv("HA_CONTROL") + "/" + what)
	must(t, err)
	defer r.Body.Close()
	if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", what, text)
	}
}

// flow sends without a pause, whatever happens, and remembers what was acknowledged.
type flow struct {
	mu    sync.Mutex
	acked []*primitive.SendResult
	sent  []string // bodies of acked

	stop chan struct{}
	done chan struct{}
}

// startFlow sends a number until it is acknowledged, then the next one.
func startFlow(t *testing.T, p rocketmq.Producer, message func(body string) *primitive.Message) *flow {
	f := &flow{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for i := 0; ; {
			select {
			case <-f.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			body := fmt.Sprint(i)
			if r, err := p.SendSync(context.Background(), message(body)); err == nil && r.Status == primitive.SendOK {
				f.mu.Lock()
				f.acked, f.sent = append(f.acked, r), append(f.sent, body)
				f.mu.Unlock()
				i++
			}
		}
	}()
	t.Cleanup(f.end)
	return f
}

func (f *flow) end() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	<-f.done
}

func (f *flow) bodies() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

// more waits until so many more messages have been acknowledged.
func (f *flow) more(t *testing.T, count int) {
	t.Helper()
	before := len(f.bodies())
	eventually(t, fmt.Sprint(count, " more acknowledgements"), func() bool { return len(f.bodies()) >= before+count })
}

// haPart is what one kind of client does before the master is killed; it returns what must hold afterwards.
type haPart struct {
	name    string
	prepare func(t *testing.T) (check func(t *testing.T))
}

// TestHaMasterKilled kills the master under all parts at once.
func TestHaMasterKilled(t *testing.T) {
	parts := []haPart{
		{"concurrent", haConcurrent}, {"orderly", haOrderly}, {"filters", haFilters}, {"broadcast", haBroadcast}, {"retries", haRetries}, {"pull", haPull}, {"storm", haStorm},
	}
	checks := make([]func(*testing.T), len(parts))
	for i, part := range parts {
		checks[i] = part.prepare(t)
	}
	ask(t, "together")
	t.Run("after", func(t *testing.T) {
		for i, part := range parts {
			t.Run(part.name, func(t *testing.T) {
				t.Parallel()
				checks[i](t)
			})
		}
	})
}

// has waits until an inbox holds all bodies.
func (b *inbox) has(t *testing.T, bodies []string) {
	t.Helper()
	eventually(t, fmt.Sprint(len(bodies), " messages"), func() bool {
		got := b.distinct()
		return !slices.ContainsFunc(bodies, func(body string) bool { return got[body] == 0 })
	})
}

func haConcurrent(t *testing.T) func(*testing.T) {
	topic, p := newTopic(t, 4), newProducer(t)
	var got inbox
	newConsumer(t, random("GoHa"), topic, "*", got.accept)
	f := startFlow(t, p, func(body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) })
	f.more(t, 50)
	return func(t *testing.T) {
		f.more(t, 50)
		f.end()
		got.has(t, f.bodies())
	}
}

// haOrderly has two consumers share the queues of four keys.
func haOrderly(t *testing.T) func(*testing.T) {
	topic, group := newTopic(t, 4), random("GoHa")
	var got inbox
	for range 2 {
		newConsumer(t, group, topic, "*", got.accept, consumer.WithConsumerOrder(true))
	}
	return haKeys(t, topic, &got)
}

// haStorm has consumers of such queues come and go all the time, beside one that stays, so that the queues and their locks change hands while the
// master does.
func haStorm(t *testing.T) func(*testing.T) {
	topic, group := newTopic(t, 4), random("GoHa")
	var got inbox
	newConsumer(t, group, topic, "*", got.accept, consumer.WithConsumerOrder(true))
	ctx, stop := context.WithCancel(context.Background())
	var storm sync.WaitGroup
	for range 2 {
		storm.Go(func() {
			for ctx.Err() == nil {
				c, err := rocketmq.NewPushConsumer(consumer.WithNsResolver(resolver()), consumer.WithGroupName(group), consumer.WithInstance(random("GoStorm")), consumer.WithConsumerOrder(true),
					consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
				if err == nil && c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}, got.accept) == nil && c.Start() == nil {
					select {
					case <-ctx.Done():
					case <-time.After(500 * time.Millisecond):
					}
					_ = c.Shutdown()
				}
			}
		})
	}
	end := func() { stop(); storm.Wait() }
	t.Cleanup(end)
	check := haKeys(t, topic, &got)
	return func(t *testing.T) {
		time.AfterFunc(5*time.Second, stop) // it goes on with the next master
		check(t)
		end()
	}
}

// haKeys sends to one queue per key. Everything must be consumed, the first time in order.
func haKeys(t *testing.T, topic string, got *inbox) func(*testing.T) {
	p := newProducer(t, producer.WithQueueSelector(producer.NewManualQueueSelector()))
	queues := queuesOf(t, topic)
	var flows []*flow
	for key := range 4 {
		flows = append(flows, startFlow(t, p, func(body string) *primitive.Message {
			m := primitive.NewMessage(topic, fmt.Appendf(nil, "%d:%s", key, body))
			m.Queue = queues[key]
			return m
		}))
	}
	for _, f := range flows {
		f.more(t, 20)
	}
	return func(t *testing.T) {
		var sent []string
		for key, f := range flows {
			f.more(t, 20)
			f.end()
			for _, body := range f.bodies() {
				sent = append(sent, fmt.Sprint(key, ":", body))
			}
		}
		got.has(t, sent)
		next, seen := map[string]int{}, map[string]bool{}
		for _, body := range got.bodies() {
			key, number, _ := strings.Cut(body, ":")
			if n, _ := strconv.Atoi(number); !seen[body] {
				if n != next[key] {
					t.Fatalf("key %s: %d was consumed, %d comes next", key, n, next[key])
				}
				next[key], seen[body] = n+1, true
			}
		}
	}
}

func haFilters(t *testing.T) func(*testing.T) {
	topic, p := newTopic(t, 2), newProducer(t)
	var tags, sql inbox
	newConsumer(t, random("GoHa"), topic, "Tag1 || Tag2", tags.accept)
	subscribe(t, random("GoHa"), topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: "n > 6"}, sql.accept)
	digit := func(body string) string { return body[len(body)-1:] }
	f := startFlow(t, p, func(body string) *primitive.Message {
		m := primitive.NewMessage(topic, []byte(body)).WithTag("Tag" + digit(body))
		m.WithProperty("n", digit(body))
		return m
	})
	f.more(t, 30)
	return func(t *testing.T) {
		f.more(t, 30)
		f.end()
		for box, want := range map[*inbox]string{&tags: "12", &sql: "789"} {
			wanted := slices.DeleteFunc(f.bodies(), func(body string) bool { return !strings.Contains(want, digit(body)) })
			box.has(t, wanted)
			for _, body := range box.bodies() {
				if !strings.Contains(want, digit(body)) {
					t.Errorf("%s was not selected and came", body)
				}
			}
		}
	}
}

func haBroadcast(t *testing.T) func(*testing.T) {
	topic, group, p := newTopic(t, 2), random("GoHa"), newProducer(t)
	var one, two inbox
	for _, box := range []*inbox{&one, &two} {
		newConsumer(t, group, topic, "*", box.accept, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	f := startFlow(t, p, func(body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) })
	f.more(t, 30)
	return func(t *testing.T) {
		f.more(t, 30)
		f.end()
		one.has(t, f.bodies())
		two.has(t, f.bodies())
	}
}

// haRetries refuses every message once; messages with a delay come, too.
func haRetries(t *testing.T) func(*testing.T) {
	topic, p := newTopic(t, 2), newProducer(t)
	group := newGroup(t, topic)
	var got inbox
	newConsumer(t, group, topic, "*", func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		if ms[0].ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater, nil
		}
		return got.accept(ctx, ms...)
	})
	f := startFlow(t, p, func(body string) *primitive.Message {
		return primitive.NewMessage(topic, []byte(body)).WithDelayTimeLevel(1)
	})
	f.more(t, 30)
	return func(t *testing.T) {
		f.more(t, 30)
		f.end()
		got.has(t, f.bodies())
	}
}

// haPull reads every acknowledged message at the offset that its answer named.
func haPull(t *testing.T) func(*testing.T) {
	topic, p := newTopic(t, 1), newProducer(t)
	c, queue := newPullConsumer(t, random("GoHa"), topic), queuesOf(t, topic)[0]
	f := startFlow(t, p, func(body string) *primitive.Message { return primitive.NewMessage(topic, []byte(body)) })
	f.more(t, 30)
	return func(t *testing.T) {
		f.more(t, 30)
		f.end()
		for i, r := range f.acked {
			var found []*primitive.MessageExt
			eventually(t, "a pull", func() bool {
				pulled, err := c.PullFrom(t.Context(), queue, r.QueueOffset, 1)
				if err == nil {
					found = pulled.GetMessageExts()
				}
				return len(found) == 1
			})
			if string(found[0].Body) != f.sent[i] {
				t.Fatalf("offset %d holds %s, %s was acknowledged there", r.QueueOffset, found[0].Body, f.sent[i])
			}
		}
	}
}
