package goclient

import (
	"context"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

// TestRequestReply asks a consumer for answers: the broker carries the reply to the client that asked. Replies to
// a client that has not sent its first heartbeat, a second after its start, are refused, so the first question is repeated.
func TestRequestReply(t *testing.T) {
	t.Parallel()
	topic, asker, replier := newTopic(t, 1), newProducer(t), newProducer(t)
	newConsumer(t, random("GoReplier"), topic, "*", func(ctx context.Context, ms ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		for _, m := range ms {
			reply, err := consumer.CreateReplyMessage(m, nil)
			if err != nil {
				t.Errorf("the request lacks a property: %v", err)
				continue
			}
			reply.Body = []byte("re: " + string(m.Body))
			_, _ = replier.SendSync(ctx, reply)
		}
		return consumer.ConsumeSuccess, nil
	})
	eventually(t, "the answer", func() bool {
		answer, err := asker.Request(t.Context(), time.Second, primitive.NewMessage(topic, []byte("one?")))
		if err == nil && string(answer.Body) != "re: one?" {
			t.Fatalf("answered %q", answer.Body)
		}
		return err == nil
	})
	async := make(chan string, 1)
	must(t, asker.RequestAsync(t.Context(), 30*time.Second, func(_ context.Context, m *primitive.Message, err error) {
		if err != nil {
			async <- err.Error()
			return
		}
		async <- string(m.Body)
	}, primitive.NewMessage(topic, []byte("two?"))))
	if got := <-async; got != "re: two?" {
		t.Errorf("the asynchronous request was answered %q", got)
	}
}

func TestRequestWithoutReplyTimesOut(t *testing.T) {
	t.Parallel()
	topic, asker := newTopic(t, 1), newProducer(t)
	if m, err := asker.Request(t.Context(), time.Second, primitive.NewMessage(topic, []byte("hello?"))); err == nil {
		t.Errorf("nobody listens, yet there is the answer %v", m)
	}
}
