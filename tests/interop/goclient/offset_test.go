package goclient

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func TestPullFrom(t *testing.T) {
	t.Parallel()
	const count = 20
	topic, p := newTopic(t, 1), newProducer(t)
	send(t, p, topic, "pull", count)
	c, queue := newPullConsumer(t, random("GoPull"), topic), queuesOf(t, topic)[0]
	var got []string
	for offset := int64(0); offset < count; {
		r, err := c.PullFrom(t.Context(), queue, offset, 7)
		must(t, err)
		if r.Status != primitive.PullFound || r.MinOffset != 0 || r.MaxOffset != count || r.NextBeginOffset <= offset {
			t.Fatalf("the pull at %d was answered %v with status %d", offset, r, r.Status)
		}
		for _, m := range r.GetMessageExts() {
			got = append(got, string(m.Body))
		}
		offset = r.NextBeginOffset
	}
	var want []string
	for i := range count {
		want = append(want, fmt.Sprint("pull-", i))
	}
	if !slices.Equal(got, want) {
		t.Errorf("pulled %v", got)
	}
	r, err := c.PullFrom(t.Context(), queue, count+100, 1)
	must(t, err)
	if r.Status != primitive.PullOffsetIllegal || r.NextBeginOffset != count {
		t.Errorf("a pull behind the end was answered %v with status %d", r, r.Status)
	}
}

// TestPullPoll acknowledges what it polls; a second consumer of the group goes on from there.
func TestPullPoll(t *testing.T) {
	t.Parallel()
	topic, group, p := newTopic(t, 2), random("GoPoll"), newProducer(t)
	for _, prefix := range []string{"before", "after"} {
		send(t, p, topic, prefix, 20)
		c, got, started := newPullConsumer(t, group, topic), map[string]bool{}, time.Now()
		eventually(t, "all polled messages", func() bool {
			request, err := c.Poll(t.Context(), time.Second)
			if consumer.IsNoNewMsgError(err) {
				return false
			}
			must(t, err)
			for _, m := range request.GetMsgList() {
				got[string(m.Body)] = true
			}
			c.ACK(t.Context(), request, consumer.ConsumeSuccess)
			return len(got) >= 20
		})
		must(t, c.PersistOffset(t.Context(), topic))
		leave(t, started, c)
		for i := range 20 {
			if !got[fmt.Sprintf("%s-%d", prefix, i)] {
				t.Fatalf("polled %v, want only the messages %s", got, prefix)
			}
		}
	}
}

// TestCommitAndQueryOffset commits an offset with one client and asks for it with another.
func TestCommitAndQueryOffset(t *testing.T) {
	t.Parallel()
	topic, group, p := newTopic(t, 1), random("GoOffset"), newProducer(t)
	send(t, p, topic, "offset", 10)
	writer, queue := newPullConsumer(t, group, topic), queuesOf(t, topic)[0]
	// The client persists only offsets of queues it was assigned: poll once, so that the assignment has happened.
	_, err := writer.Poll(t.Context(), caseDeadline)
	must(t, err)
	must(t, writer.UpdateOffset(queue, 7))
	must(t, writer.PersistOffset(t.Context(), topic))
	eventually(t, "the committed offset", func() bool {
		// A fresh client each time: one that has asked keeps the answer.
		reader := newPullConsumer(t, group, topic)
		got, err := reader.CurrentOffset(queue)
		must(t, err)
		must(t, reader.Shutdown())
		return got == 7
	})
}

// TestResume stops a push consumer and starts it anew: it continues where it stopped.
func TestResume(t *testing.T) {
	t.Parallel()
	const count = 50
	topic, group, p := newTopic(t, 4), random("GoResume"), newProducer(t)
	for _, prefix := range []string{"first", "second"} {
		send(t, p, topic, prefix, count)
		var got inbox
		c, started := newConsumer(t, group, topic, "*", got.accept), time.Now()
		eventually(t, "the messages "+prefix, func() bool { return len(got.distinct()) >= count })
		leave(t, started, c)
		for i := range count {
			if body := fmt.Sprintf("%s-%d", prefix, i); got.distinct()[body] != 1 {
				t.Fatalf("%s was consumed %d times; all: %v", body, got.distinct()[body], got.bodies())
			}
		}
	}
}
