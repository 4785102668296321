package robust

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/state"
)

// forbiddenTopics are the broker's own: nobody else writes to them (broker.md 1.3).
var forbiddenTopics = []string{state.Topic, state.InternalPrefix, state.InternalPrefix + "x", store.ScheduleTopic, "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
	"TRANS_CHECK_MAX_TIME_TOPIC", "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster", "OFFSET_MOVED_EVENT", "SELF_TEST_TOPIC"}

// forgedOffset is a number that no time and no other offset looks like.
const forgedOffset = 31337_31337_31337

// forged is what a state record carries: a topic that nobody made, an offset of group, the end of a topic, an offset of a delay level.
func forged() []byte {
	return state.Append(nil, state.TopicPut(&body.TopicConfig{TopicName: "Forged", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 6, TopicFilterType: "SINGLE_TAG"}),
		state.OffsetPut(group, victim, 0, forgedOffset), state.TopicDelete(victim), state.DelayOffsetPut(1, forgedOffset))
}

// metadata is what a broker tells of its state.
func (c *cluster) metadata() map[string]string {
	m := map[string]string{}
	for _, rc := range []code.Request{code.GetAllTopicConfig, code.GetAllConsumerOffset, code.GetAllSubscriptionGroupConfig, code.GetAllDelayOffset, code.GetAllMessageRequestMode} {
		m[rc.String()] = string(c.must(rc, nil, nil).Body)
	}
	return m
}

// checkUnforged fails if any part of forged has taken effect.
func (c *cluster) checkUnforged(what string) {
	c.t.Helper()
	for name, text := range c.metadata() {
		if strings.Contains(text, "Forged") || strings.Contains(text, strconv.Itoa(forgedOffset)) {
			c.t.Errorf("%s: %s says %s", what, name, text)
		}
	}
	if c.must(code.GetTopicConfig, &header.GetTopicConfigRequest{Topic: victim}, nil).Code != 0 {
		c.t.Errorf("%s: the topic %s is gone", what, victim)
	}
}

// TestStateCannotBeWritten tries every way a message can take into a topic of the broker's own.
func TestStateCannotBeWritten(t *testing.T) {
	for _, validate := range []string{"true", "false"} { // of system topics in administrative requests
		t.Run("validate="+validate, func(t *testing.T) {
			c := start(t, map[string]string{"validateSystemTopicWhenUpdateTopic": validate, "messageDelayLevel": "1s 1s"})
			if _, err := c.send(victim, 0, []byte("x")); err != nil {
				t.Fatal(err)
			}
			c.must(code.PullMessage, pullHeader(victim, 0, 0), nil) // makes the group
			c.while(20, func() {
				for _, topic := range forbiddenTopics {
					writeEveryWay(c, topic)
				}
			})
			c.checkUnforged("at once")
			before := c.metadata()
			c.restart()
			c.checkUnforged("after a restart")
			if diff := cmp.Diff(before, c.metadata()); diff != "" {
				t.Errorf("a restart changes the metadata: %s", diff)
			}
			c.checkAll()
		})
	}
}

// writeEveryWay sends forged state to a topic: directly, in batches, as replies, and after making the topic by command.
func writeEveryWay(c *cluster, topic string) {
	c.t.Helper()
	if strings.HasPrefix(topic, state.InternalPrefix) {
		for _, h := range []*header.CreateTopicRequest{{Topic: topic, DefaultTopic: autoKey, ReadQueueNums: 8, WriteQueueNums: 8, Perm: 7, TopicFilterType: "SINGLE_TAG"}} {
			notDone(c, code.UpdateAndCreateTopic, h, nil)
			notDone(c, code.UpdateAndCreateStaticTopic, h, nil)
		}
		notDone(c, code.UpdateAndCreateTopicList, nil, fastjson.Marshal(&body.CreateTopicListRequestBody{TopicConfigList: []body.TopicConfig{{TopicName: topic, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 7}}}))
		c.want(code.TopicNotExist, code.PullMessage, pullHeader(topic, 0, 0), nil)
	}
	batch := message.AppendBatchItem(nil, 0, forged(), nil)
	for _, rc := range []code.Request{code.SendMessage, code.SendMessageV2, code.SendReplyMessage, code.SendReplyMessageV2} {
		h := sendHeader(topic, 0, "DELAY\x011\x02")
		var any header.Appender = h
		if rc == code.SendMessageV2 || rc == code.SendReplyMessageV2 {
			any = &header.SendMessageRequestV2{ProducerGroup: h.ProducerGroup, Topic: topic, DefaultTopic: autoKey, DefaultTopicQueueNums: 4}
		}
		c.want(code.NoPermission, rc, any, forged())
	}
	c.want(code.NoPermission, code.SendBatchMessage, batchHeader(topic, ""), batch)
	for _, name := range []string{"%RETRY%" + topic, "%DLQ%" + topic} { // legal names of other topics
		c.must(code.SendMessage, sendHeader(name, 0, ""), forged())
	}
}

// TestDelayedForgeries gives messages the properties by which the broker sends them through a delay: they arrive where they were
// sent to and nowhere else.
func TestDelayedForgeries(t *testing.T) {
	c := start(t, map[string]string{"messageDelayLevel": "1s 1s"})
	if _, err := c.send(victim, 0, []byte("first")); err != nil {
		t.Fatal(err)
	}
	sent := map[string]bool{}
	n := 0
	c.once(20, func() {
		for _, real := range forbiddenTopics {
			for _, props := range []string{
				"REAL_TOPIC\x01" + real + "\x02REAL_QID\x010\x02DELAY\x011\x02",
				"DELAY\x011\x02REAL_TOPIC\x01" + real + "\x02REAL_QID\x013",
				"DELAY\x011\x02X\x01\x02REAL_TOPIC\x01" + real,
				"DELAY\x0199999999999999999999\x02REAL_TOPIC\x01" + real + "\x02",
				"DELAY\x01-5\x02REAL_TOPIC\x01" + real + "\x02",
				"REAL_TOPIC\x01" + real + "\x02INNER_NUM\x015\x02INNER_BASE\x017\x02INNER_MULTI_DISPATCH\x01" + real + ",%LMQ%x\x02",
				"TIMER_DELIVER_MS\x011\x02REAL_TOPIC\x01" + real + "\x02TIMER_OUT_MS\x011\x02",
				"__transactionId__\x01x\x02PGROUP\x01p\x02REAL_TOPIC\x01" + real + "\x02POP_CK\x01a b c\x02__CRC32#\x011234567890\x02",
			} {
				text := fmt.Sprintf("forged %d", n)
				n++
				h := sendHeader(victim, 1, props)
				h.SysFlag = -1
				if r := c.must(code.SendMessage, h, []byte(text)); r.Code != 0 {
					t.Errorf("%q: %d %q", props, r.Code, r.Remark)
				}
				sent[text] = true
			}
		}
	})
	until(t, "every message has arrived", func() bool { return maxOffset(c, victim, 1) >= int64(n) })
	if got := maxOffset(c, victim, 1); got != int64(n) {
		t.Errorf("%d messages have arrived, %d were sent", got, n)
	}
	for at := int64(0); at < int64(n); {
		r := c.want(code.Success, code.PullMessage, pullHeader(victim, 1, at), nil)
		for b := r.Body; len(b) > 0; at++ {
			var v message.View
			if err := v.Parse(b); err != nil {
				t.Fatal(err)
			}
			if !sent[string(v.Body())] {
				t.Errorf("%q has arrived twice, or was never sent", v.Body())
			}
			delete(sent, string(v.Body()))
			if v.SysFlag()&(message.FlagTransactionMask|message.FlagInnerBatch|message.FlagNeedUnwrap) != 0 {
				t.Errorf("a message is stored with the flags %#x of the broker's own", v.SysFlag())
			}
			b = b[v.Size():]
		}
	}
	c.checkUnforged("after delays")
	c.checkAll()
}

// TestForgedSendBacks: a consumer names a message by its place in the log. What is not a message that consumers get does not come
// back as one: state records, the inside of messages, the end of the log.
func TestForgedSendBacks(t *testing.T) {
	c := start(t, map[string]string{"messageDelayLevel": "1s 1s"})
	first, err := c.send(victim, 0, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	inside := recordInside(c, forged())
	end := first.phy + c.sizeOf(first)
	retries := func() (n int64) {
		for q := range int32(4) {
			n += maxOffset(c, "%RETRY%"+group, q) + maxOffset(c, "%DLQ%"+group, q)
		}
		return n
	}
	c.while(20, func() {
		for at := int64(-2); at < end; at++ {
			if at == first.phy {
				continue
			}
			h := &header.ConsumerSendMsgBackRequest{Offset: at, Group: group, DelayLevel: int32(at%3) - 1}
			if r := c.must(code.ConsumerSendMsgBack, h, nil); r.Code == 0 {
				t.Fatalf("what lies at %d of %d was sent back", at, end)
			}
		}
		for _, at := range []int64{1 << 62, -1 << 63, 1<<63 - 1, end + 1<<40} {
			notDone(c, code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Offset: at, Group: group}, nil)
		}
		for _, group := range []string{state.Topic, "", "../x", strings.Repeat("x", 1<<16)} {
			c.must(code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Offset: inside, Group: group}, nil)
		}
		if r := c.must(code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Offset: inside, Group: group}, nil); r.Code == 0 {
			t.Errorf("a record inside of a message was sent back")
		}
		if r := c.must(code.ViewMessageByID, &header.ViewMessageRequest{Offset: inside}, nil); r.Code == 0 {
			t.Errorf("a record inside of a message can be viewed")
		}
	})
	if n := retries(); n != 0 {
		t.Errorf("%d messages have come back", n)
	}
	c.checkUnforged("after send-backs")
	c.checkAll()
}

// bodyPlace is where the body of a record begins whose hosts are IPv4 addresses.
const bodyPlace = message.FixedSize - 3

// sizeOf is the size of a stored message's record.
func (c *cluster) sizeOf(r receipt) int64 {
	c.t.Helper()
	var v message.View
	if err := v.Parse(c.want(code.Success, code.PullMessage, pullHeader(r.topic, r.queue, r.offset), nil).Body); err != nil {
		c.t.Fatal(err)
	}
	return int64(v.Size())
}

// recordInside stores a message whose body is a whole record that says its own place in the log, and returns that place.
func recordInside(c *cluster, text []byte) int64 {
	c.t.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:1")
	for range 100 {
		probe, err := c.send(victim, 0, []byte("probe"))
		if err != nil {
			c.t.Fatal(err)
		}
		// The next record lies behind the probe unless somebody else writes in between.
		at := probe.phy + c.sizeOf(probe) + bodyPlace
		d := message.Draft{Topic: victim, BornHost: host, StoreHost: host, Body: text, Properties: []byte("REAL_TOPIC\x01" + state.Topic + "\x02REAL_QID\x010\x02")}
		if err := d.Prepare(); err != nil {
			c.t.Fatal(err)
		}
		sent, err := c.send(victim, 0, d.Encode(nil, 0, at, 1))
		if err != nil {
			c.t.Fatal(err)
		}
		if sent.phy+bodyPlace == at {
			return at
		}
	}
	c.t.Fatal("no luck with the place of a record")
	return 0
}

// TestForgedCounts: how often a message has been consumed is what its producer says. Sent back it waits, or is dead, whatever that is.
func TestForgedCounts(t *testing.T) {
	c := start(t, nil)
	for _, count := range []int32{-1 << 31, -100, -4, -3, -1, 15, 16, 17, 1<<31 - 2, 1<<31 - 1} {
		h := sendHeader(victim, 0, "DELAY\x01x\x02MAX_RECONSUME_TIMES\x01-1\x02")
		h.ReconsumeTimes = header.Some(count)
		r := c.want(code.Success, code.SendMessage, h, []byte("x"))
		var sent header.SendMessageResponse
		if err := r.Decode(&sent); err != nil {
			t.Fatal(err)
		}
		_, phy, err := message.ParseID(sent.MsgID)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int32{0, 1<<31 - 1, -1 << 31} {
			for _, level := range []int32{0, 1<<31 - 1, -1 << 31} {
				c.want(code.Success, code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Offset: phy, Group: group, DelayLevel: level, MaxReconsumeTimes: header.Some(limit)}, nil)
			}
		}
		h.Topic = "%RETRY%" + group // a consumer's own send-back
		c.must(code.SendMessage, h, []byte("x"))
	}
	c.checkAll()
}

// TestForgedOffsets: offsets, resets and locks of the broker's own topics.
func TestForgedOffsets(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	c.must(code.PullMessage, pullHeader(victim, 0, 0), nil)
	for _, queue := range []int32{-1, -1 << 31, 1 << 16, 1<<31 - 1} {
		c.want(code.InvalidParameter, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(queue), CommitOffset: header.Some(int64(forgedOffset))}, nil)
	}
	c.want(code.InvalidParameter, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: victim, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(-1))}, nil)
	c.want(code.TopicNotExist, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: state.Topic, QueueID: header.Some(int32(0)), CommitOffset: header.Some(int64(forgedOffset))}, nil)
	for _, h := range []*header.ResetOffsetRequest{
		{Topic: state.Topic, Group: group, Timestamp: 1, QueueID: header.Some(int32(0)), Offset: header.Some(int64(forgedOffset))},
		{Topic: victim, Group: group, Timestamp: 1, QueueID: header.Some(int32(0)), Offset: header.Some(int64(forgedOffset))},
		{Topic: victim, Group: group, Timestamp: 1, QueueID: header.Some(int32(1 << 20)), Offset: header.Some(int64(forgedOffset))},
		{Topic: victim, Group: "nobody", Timestamp: 1},
		{Topic: victim, Group: group, Timestamp: -1 << 62, QueueID: header.Some(int32(1<<31 - 1))},
	} {
		notDone(c, code.InvokeBrokerToResetOffset, h, nil)
	}
	c.checkUnforged("after offsets")
	if got := c.metadata()[code.GetAllConsumerOffset.String()]; strings.Contains(got, strconv.Itoa(1<<31-1)) || strings.Contains(got, strconv.Itoa(1<<20)) {
		t.Errorf("offsets of impossible queues are kept: %s", got)
	}
	c.checkAll()
}
