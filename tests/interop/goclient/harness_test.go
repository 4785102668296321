package goclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/admin"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// caseDeadline bounds the waiting of one test. The slowest step is the client's rebalance, every 20 seconds.
const caseDeadline = 60 * time.Second

var (
	namesrv    = os.Getenv("NAMESRV")
	brokerAddr = os.Getenv("BROKER_ADDR")
)

func TestMain(m *testing.M) {
	if namesrv == "" || brokerAddr == "" {
		fmt.Println("NAMESRV and BROKER_ADDR are not set: nothing to test")
		return
	}
	if os.Getenv("ROCKETMQ_GO_LOG_LEVEL") == "" {
		rlog.SetLogLevel("fatal")
	}
	os.Exit(m.Run())
}

// must fails the test when a step of its preparation fails.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func random(prefix string) string {
	b := make([]byte, 6)
	rand.Read(b)
	return prefix + "_" + hex.EncodeToString(b)
}

func resolver() primitive.NsResolver {
	return primitive.NewPassthroughResolver([]string{namesrv})
}

// theAdmin is shared: the client library keeps one instance for all of them.
var theAdmin = sync.OnceValues(func() (admin.Admin, error) {
	return admin.NewAdmin(admin.WithResolver(resolver()))
})

func newAdmin(t *testing.T) admin.Admin {
	t.Helper()
	a, err := theAdmin()
	must(t, err)
	return a
}

// newTopic creates a topic and waits until its route is known; the topic is deleted when the test ends.
func newTopic(t *testing.T, queues int) string {
	t.Helper()
	topic, a := random("GoTopic"), newAdmin(t)
	eventually(t, "the creation of a topic", func() bool {
		return a.CreateTopic(t.Context(), admin.WithTopicCreate(topic), admin.WithBrokerAddrCreate(brokerAddr),
			admin.WithReadQueueNums(queues), admin.WithWriteQueueNums(queues)) == nil
	})
	t.Cleanup(func() {
		_ = a.DeleteTopic(context.Background(), admin.WithTopicDelete(topic), admin.WithBrokerAddrDelete(brokerAddr))
	})
	eventually(t, "the route of a new topic", func() bool { return len(queuesOf(t, topic)) >= queues }) // a group has one more, of its standby
	return topic
}

// queuesOf returns the queues of a topic that can be written to, none when the topic is unknown.
func queuesOf(t *testing.T, topic string) []*primitive.MessageQueue {
	t.Helper()
	queues, err := newAdmin(t).FetchPublishMessageQueues(t.Context(), topic)
	if err != nil {
		return nil
	}
	return queues
}

func newProducer(t *testing.T, options ...producer.Option) rocketmq.Producer {
	t.Helper()
	group := random("GoProducer")
	p, err := rocketmq.NewProducer(append([]producer.Option{producer.WithNsResolver(resolver()),
		producer.WithGroupName(group), producer.WithInstanceName(group),
		producer.WithSendMsgTimeout(caseDeadline / 4)}, options...)...)
	must(t, err)
	must(t, p.Start())
	t.Cleanup(func() { _ = p.Shutdown() })
	return p
}

// send sends bodies prefix-0, prefix-1, … one by one and returns the answers.
func send(t *testing.T, p rocketmq.Producer, topic, prefix string, count int) []*primitive.SendResult {
	t.Helper()
	results := make([]*primitive.SendResult, count)
	for i := range results {
		results[i] = sendOne(t, p, primitive.NewMessage(topic, fmt.Appendf(nil, "%s-%d", prefix, i)))
	}
	return results
}

// sendOne sends a message, or several as a batch. A broker under load refuses with SYSTEM_BUSY what it has not
// stored; the Java client sends again then, this one leaves it to the application.
func sendOne(t *testing.T, p rocketmq.Producer, messages ...*primitive.Message) *primitive.SendResult {
	t.Helper()
	var result *primitive.SendResult
	eventually(t, "a broker that is not busy", func() bool {
		var err error
		if result, err = p.SendSync(t.Context(), messages...); busy(err) {
			return false
		}
		must(t, err)
		return true
	})
	if result.Status != primitive.SendOK {
		t.Fatalf("the send was answered %v, want SEND_OK", result)
	}
	return result
}

func busy(err error) bool { return err != nil && strings.Contains(err.Error(), "CODE: 2,") }

// inbox collects what a consumer was given.
type inbox struct {
	mu       sync.Mutex
	messages []*primitive.MessageExt
}

func (b *inbox) accept(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = append(b.messages, messages...)
	return consumer.ConsumeSuccess, nil
}

func (b *inbox) all() []*primitive.MessageExt {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*primitive.MessageExt(nil), b.messages...)
}

func (b *inbox) bodies() []string {
	var bodies []string
	for _, m := range b.all() {
		bodies = append(bodies, string(m.Body))
	}
	return bodies
}

// distinct counts the different bodies: a redelivered message is allowed and counts once.
func (b *inbox) distinct() map[string]int {
	counts := map[string]int{}
	for _, body := range b.bodies() {
		counts[body]++
	}
	return counts
}

type handler = func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error)

// newConsumer starts a push consumer that reads from the first offset. Its clean-up may run after the test has
// stopped it by itself: a second Shutdown does nothing.
func newConsumer(t *testing.T, group, topic, tags string, handle handler, options ...consumer.Option) rocketmq.PushConsumer {
	t.Helper()
	return subscribe(t, group, topic, consumer.MessageSelector{Type: consumer.TAG, Expression: tags}, handle, options...)
}

func subscribe(t *testing.T, group, topic string, selector consumer.MessageSelector, handle handler,
	options ...consumer.Option) rocketmq.PushConsumer {
	t.Helper()
	c, err := rocketmq.NewPushConsumer(append([]consumer.Option{consumer.WithNsResolver(resolver()),
		consumer.WithGroupName(group), consumer.WithInstance(random("GoConsumer")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}, options...)...)
	must(t, err)
	must(t, c.Subscribe(topic, selector, handle))
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Shutdown() })
	return c
}

// newPullConsumer starts a consumer that pulls by itself.
func newPullConsumer(t *testing.T, group, topic string) rocketmq.PullConsumer {
	t.Helper()
	c, err := rocketmq.NewPullConsumer(consumer.WithNsResolver(resolver()), consumer.WithGroupName(group),
		consumer.WithInstance(random("GoPull")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	must(t, err)
	must(t, c.Subscribe(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}))
	must(t, c.Start())
	t.Cleanup(func() { _ = c.Shutdown() })
	return c
}

// leave shuts a consumer down whose group is used further, once the heartbeats of its start are over: the last one
// comes a second after it. The Java broker registers a client again for two minutes when it handles a heartbeat
// after the connection has closed, and the group's other members then miss the queues of that ghost.
func leave(t *testing.T, started time.Time, c interface{ Shutdown() error }) {
	t.Helper()
	eventually(t, "the end of the client's start", func() bool { return time.Since(started) > 2*time.Second })
	must(t, c.Shutdown())
}

// collect reads the first count messages of a topic with a consumer of its own.
func collect(t *testing.T, topic string, count int) []*primitive.MessageExt {
	t.Helper()
	var got inbox
	c := newConsumer(t, random("GoReader"), topic, "*", got.accept)
	eventually(t, fmt.Sprintf("%d messages of %s", count, topic), func() bool { return len(got.distinct()) >= count })
	must(t, c.Shutdown())
	return got.all()
}

// eventually polls a condition until it holds or the deadline of the case has passed.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(caseDeadline); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", caseDeadline, what)
		}
	}
}
