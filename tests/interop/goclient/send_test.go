package goclient

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

func TestSendSync(t *testing.T) {
	t.Parallel()
	topic, p := newTopic(t, 1), newProducer(t)
	message := primitive.NewMessage(topic, []byte("body")).WithTag("TagA").WithKeys([]string{"k1", "k2"})
	message.WithProperty("colour", "grün")
	first := sendOne(t, p, message)
	second := sendOne(t, p, primitive.NewMessage(topic, []byte("next")))
	if second.QueueOffset != first.QueueOffset+1 {
		t.Errorf("queue offsets are %d and %d, want neighbours", first.QueueOffset, second.QueueOffset)
	}
	if first.MsgID == "" || len(first.OffsetMsgID) != 32 || first.OffsetMsgID == second.OffsetMsgID {
		t.Errorf("ids %q, %q and %q", first.MsgID, first.OffsetMsgID, second.OffsetMsgID)
	}
	got := collect(t, topic, 2)
	at := slices.IndexFunc(got, func(m *primitive.MessageExt) bool { return string(m.Body) == "body" })
	if at < 0 {
		t.Fatalf("the message is not among %v", got)
	}
	m := got[at]
	if m.GetTags() != "TagA" || m.GetKeys() != "k1 k2" || m.GetProperty("colour") != "grün" {
		t.Errorf("tags %q, keys %q, colour %q", m.GetTags(), m.GetKeys(), m.GetProperty("colour"))
	}
	if m.MsgId != first.MsgID || m.OffsetMsgId != first.OffsetMsgID || m.QueueOffset != first.QueueOffset {
		t.Errorf("consumed %s %s at %d, sent as %v", m.MsgId, m.OffsetMsgId, m.QueueOffset, first)
	}
	if m.StoreTimestamp < m.BornTimestamp-1000 || m.StoreHost != brokerAddr {
		t.Errorf("born %d, stored %d at %q, want the store host %q", m.BornTimestamp, m.StoreTimestamp, m.StoreHost, brokerAddr)
	}
}

func TestSendAsync(t *testing.T) {
	t.Parallel()
	const count = 50
	topic, p := newTopic(t, 4), newProducer(t)
	answers := make(chan error, count)
	for i := range count {
		asyncSend(t.Context(), p, primitive.NewMessage(topic, fmt.Appendf(nil, "async-%d", i)), answers)
	}
	for range count {
		must(t, <-answers)
	}
	collect(t, topic, count)
}

// asyncSend reports how the send ended. It sends again when the broker was busy.
func asyncSend(ctx context.Context, p rocketmq.Producer, message *primitive.Message, answers chan<- error) {
	err := p.SendAsync(ctx, func(ctx context.Context, r *primitive.SendResult, err error) {
		if busy(err) {
			asyncSend(ctx, p, message, answers)
			return
		}
		if err == nil && r.Status != primitive.SendOK {
			err = fmt.Errorf("answered %v", r)
		}
		answers <- err
	}, message)
	if err != nil {
		answers <- err
	}
}

func TestSendOneway(t *testing.T) {
	t.Parallel()
	const count = 10
	topic, p := newTopic(t, 4), newProducer(t)
	for i := range count {
		must(t, p.SendOneWay(t.Context(), primitive.NewMessage(topic, fmt.Appendf(nil, "oneway-%d", i))))
	}
	collect(t, topic, count)
}

func TestSendBatch(t *testing.T) {
	t.Parallel()
	const count = 10
	topic, p := newTopic(t, 4), newProducer(t)
	var batch []*primitive.Message
	for i := range count {
		batch = append(batch, primitive.NewMessage(topic, fmt.Appendf(nil, "batch-%d", i)).WithTag(fmt.Sprint("T", i)))
	}
	result := sendOne(t, p, batch...)
	if ids := strings.Split(result.OffsetMsgID, ","); len(ids) != count {
		t.Fatalf("answered %v", result)
	}
	got := collect(t, topic, count)
	for _, m := range got {
		index := m.QueueOffset - result.QueueOffset
		if m.Queue.QueueId != result.MessageQueue.QueueId || string(m.Body) != fmt.Sprintf("batch-%d", index) ||
			m.GetTags() != fmt.Sprint("T", index) {
			t.Errorf("%q with tag %q is at queue %d, offset %d; the batch began at %v", m.Body, m.GetTags(),
				m.Queue.QueueId, m.QueueOffset, result)
		}
	}
}

func TestSendCompressed(t *testing.T) {
	t.Parallel()
	topic, p := newTopic(t, 1), newProducer(t)
	body := bytes.Repeat([]byte("compressible "), 20_000)
	sendOne(t, p, primitive.NewMessage(topic, body))
	m := collect(t, topic, 1)[0]
	if !bytes.Equal(m.Body, body) {
		t.Errorf("the body came back with %d bytes, sent were %d", len(m.Body), len(body))
	}
	if int(m.StoreSize) >= len(body)/10 {
		t.Errorf("stored in %d bytes: the client did not compress", m.StoreSize)
	}
}

func TestSendTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	topic := newTopic(t, 1)
	p := newProducer(t, producer.WithRetry(0), producer.WithCompressMsgBodyOverHowmuch(64<<20))
	result, err := p.SendSync(t.Context(), primitive.NewMessage(topic, make([]byte, 4<<20+1)))
	if err == nil {
		t.Fatalf("a body above maxMessageSize was answered %v", result)
	}
	sendOne(t, p, primitive.NewMessage(topic, []byte("small")))
	if got := collect(t, topic, 1); string(got[0].Body) != "small" {
		t.Errorf("the first message of the topic has %d bytes", len(got[0].Body))
	}
}

func TestSendByShardingKey(t *testing.T) {
	t.Parallel()
	const count = 40
	topic, p := newTopic(t, 4), newProducer(t, producer.WithQueueSelector(producer.NewHashQueueSelector()))
	queueOf := map[string]int{}
	for i := range count {
		key := fmt.Sprint("key-", i%8)
		r := sendOne(t, p, primitive.NewMessage(topic, fmt.Appendf(nil, "sharded-%d", i)).WithShardingKey(key))
		if q, seen := queueOf[key]; seen && q != r.MessageQueue.QueueId {
			t.Errorf("%s went to queue %d and to queue %d", key, q, r.MessageQueue.QueueId)
		}
		queueOf[key] = r.MessageQueue.QueueId
	}
	for _, m := range collect(t, topic, count) {
		if m.Queue.QueueId != queueOf[m.GetShardingKey()] {
			t.Errorf("a message of %s came from queue %d, sent to %d", m.GetShardingKey(), m.Queue.QueueId, queueOf[m.GetShardingKey()])
		}
	}
}

func TestSendCreatesTheTopic(t *testing.T) {
	t.Parallel()
	topic, p := random("GoAuto"), newProducer(t)
	send(t, p, topic, "auto", 8)
	eventually(t, "the route of the topic", func() bool { return len(queuesOf(t, topic)) >= 4 })
	collect(t, topic, 8)
}
