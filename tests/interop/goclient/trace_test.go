package goclient

import (
	"slices"
	"strings"
	"testing"

	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

// TestTrace lets a producer and a consumer write traces and looks for the three records of one message.
func TestTrace(t *testing.T) {
	t.Parallel()
	topic, traces := newTopic(t, 1), newTopic(t, 1)
	config := &primitive.TraceConfig{TraceTopic: traces, GroupName: random("GoTracer"), Access: primitive.Local, Resolver: resolver()}
	p := newProducer(t, producer.WithTrace(config))
	var got inbox
	newConsumer(t, random("GoTraced"), topic, "*", got.accept, consumer.WithTrace(config))
	sent := sendOne(t, p, primitive.NewMessage(topic, []byte("traced")).WithKeys([]string{"trace-key"}))
	if !sent.TraceOn || sent.RegionID != "DefaultRegion" {
		t.Errorf("the answer says traceOn %v, region %q", sent.TraceOn, sent.RegionID)
	}
	var records inbox
	newConsumer(t, random("GoReader"), traces, "*", records.accept)
	eventually(t, "the records Pub, SubBefore and SubAfter", func() bool {
		var kinds []string
		for _, m := range records.all() {
			for record := range strings.SplitSeq(string(m.Body), "\x02") {
				if strings.Contains(record, sent.MsgID) && strings.Contains(m.GetKeys(), sent.MsgID) {
					kinds = append(kinds, strings.Split(record, "\x01")[0])
				}
			}
		}
		return slices.Contains(kinds, "Pub") && slices.Contains(kinds, "SubBefore") && slices.Contains(kinds, "SubAfter")
	})
}
