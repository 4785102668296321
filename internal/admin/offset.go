package admin

import (
	"errors"
	"maps"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func offsetCommands() []command {
	return []command{
		{"consumerProgress", "Shows how far a consumer group is, or lists all groups.", []option{
			{short: "g", long: "groupName", brief: "group; without it all are listed"},
			{short: "t", long: "topicName", brief: "only this topic"},
			{short: "s", long: "showClientIP", kind: yes, brief: "show which member has each queue"},
			routeBy(),
		}, nil, true, consumerProgress},
		{"resetOffsetByTime", "Has a consumer group go on from another time.", []option{
			option{short: "g", long: "group", brief: "group"}.must(), aTopic(),
			option{short: "s", long: "timestamp", kind: instant, brief: "now, milliseconds since 1970, yyyy-MM-dd#HH:mm:ss:SSS, or -1 for the end"}.must(),
			{short: "f", long: "force", kind: yes, brief: "also forwards; true if not given"},
			routeBy(),
			{short: "b", long: "broker", brief: "with -q: broker, host:port"},
			{short: "q", long: "queue", kind: number, brief: "only this queue of the broker -b"},
			{short: "o", long: "offset", kind: long, brief: "with -q: go on from this offset instead of the time"},
		}, nil, true, resetOffsetByTime},
		{"skipAccumulatedMessage", "Has a consumer group go on from the end of a topic.", []option{
			option{short: "g", long: "group", brief: "group"}.must(), aTopic(),
			{short: "f", long: "force", kind: yes, brief: "has no effect: the end is never behind"},
			routeBy(),
		}, nil, true, skipAccumulatedMessage},
		{"cloneGroupOffset", "Gives a consumer group the offsets of another one.", []option{
			option{short: "s", long: "srcGroup", brief: "group to copy from"}.must(),
			option{short: "d", long: "destGroup", brief: "group to copy to"}.must(), aTopic(),
			{short: "o", long: "offline", brief: "has no effect: neither group needs to be online"},
		}, nil, false, cloneGroupOffset},
	}
}

func resetOffsetByTime(t *tool) error {
	group, topic := t.given["g"], t.given["t"]
	ms, err := parseInstant(t.given["s"], t.clk.Now(), t.zone)
	if err != nil {
		return err
	}
	if t.given.has("q") {
		return t.resetQueue(group, topic, ms)
	}
	if t.given.has("o") || t.given.has("b") {
		return errors.New("options -b and -o want -q")
	}
	brokers, err := t.routeOf(topic)
	if err != nil {
		return err
	}
	force := t.given.yes("f", true)
	if !t.given.has(optJSON.long) {
		t.printf("start reset consumer offset by specified, group[%s], topic[%s], force[%t], timestamp(string)[%s], timestamp(long)[%d]\n", group, topic, force, t.given["s"], ms)
	}
	return t.resetTopic(brokers, group, topic, ms, force)
}

func skipAccumulatedMessage(t *tool) error {
	brokers, err := t.routeOf(t.given["t"])
	if err != nil {
		return err
	}
	return t.resetTopic(brokers, t.given["g"], t.given["t"], -1, true)
}

// resetTopic has the brokers of a topic set the offsets of a group, and prints them.
func (t *tool) resetTopic(brokers []replica, group, topic string, ms int64, force bool) error {
	offsets := map[body.MessageQueue]int64{}
	err := onEach(brokers, func(b replica) error {
		h := header.ResetOffsetRequest{Group: group, Topic: topic, Timestamp: ms, IsForce: force}
		done, err := decoded[body.ResetOffsetBody](t.call(b.addr, code.InvokeBrokerToResetOffset, &h, nil))
		if codeOf(err) == code.ConsumerNotOnline { // a broker without useServerSideResetOffset
			done, err = t.commitAt(b, group, topic, ms)
		}
		if err != nil {
			return err
		}
		maps.Copy(offsets, done.OffsetTable)
		return nil
	})
	const form = "%-40v  %-40v  %-40v"
	tb := t.table(form, form, "#brokerName", "#queueId", "#offset")
	for _, q := range sortedQueues(offsets) {
		tb.add(fit{q.BrokerName, 32}, q.QueueID, offsets[q])
	}
	tb.end(nil)
	return err
}

// commitAt sets the offsets of a group that is not online as a member would: it finds them and commits them.
func (t *tool) commitAt(b replica, group, topic string, ms int64) (*body.ResetOffsetBody, error) {
	stats, err := decoded[body.ConsumeStats](t.callFor(statsTimeout, b.addr, code.GetConsumeStats, &header.GetConsumeStatsRequest{ConsumerGroup: group, Topic: topic}, nil))
	if err != nil {
		return nil, err
	}
	done := &body.ResetOffsetBody{OffsetTable: map[body.MessageQueue]int64{}}
	for q := range stats.OffsetTable {
		offset, err := t.offsetAt(queue{q, b.addr}, ms)
		if err == nil {
			err = t.commit(queue{q, b.addr}, group, offset)
		}
		if err != nil {
			return nil, err
		}
		done.OffsetTable[q] = offset
	}
	return done, nil
}

// resetQueue sets the offset of one queue. Unlike RocketMQ's tool it can also set 0.
func (t *tool) resetQueue(group, topic string, ms int64) error {
	if !t.given.has("b") {
		return errors.New("option -q wants -b")
	}
	addr, id := t.given["b"], int32(t.given.number("q", 0))
	q := queue{body.MessageQueue{Topic: topic, QueueID: id}, addr}
	if !t.given.has(optJSON.long) {
		t.printf("start reset consumer offset by specified, group[%s], topic[%s], queueId[%d], broker[%s], timestamp(string)[%s], timestamp(long)[%d]\n", group, topic, id, addr,
			t.given["s"], ms)
	}
	offset := t.given.number("o", -1)
	if !t.given.has("o") {
		var err error
		if offset, err = t.offsetAt(q, ms); err != nil {
			return err
		}
	}
	if err := t.commit(q, group, offset); err != nil {
		return err
	}
	h := header.ResetOffsetRequest{Group: group, Topic: topic, QueueID: header.Some(id), Offset: header.Some(offset), Timestamp: -1, IsForce: true}
	if _, err := t.call(addr, code.InvokeBrokerToResetOffset, &h, nil); err != nil {
		return err
	}
	if t.given.has(optJSON.long) {
		t.printf("%s\n", fastjson.Marshal(map[string]int64{"offset": offset}))
		return nil
	}
	t.printf("reset consumer offset to %d\n", offset)
	return nil
}

func cloneGroupOffset(t *tool) error {
	from, to, topic := t.given["s"], t.given["d"], t.given["t"]
	stats, err := t.consumeStats(from, topic)
	if err != nil {
		return err
	}
	brokers, err := t.routeOf(topic)
	if err != nil {
		return err
	}
	addrs := map[string]string{}
	for _, b := range brokers {
		addrs[b.name] = b.addr
	}
	queues := sortedQueues(stats.OffsetTable)
	err = onEach(queues, func(q body.MessageQueue) error {
		return t.commit(queue{q, addrs[q.BrokerName]}, to, stats.OffsetTable[q].ConsumerOffset)
	})
	if err == nil {
		t.printf("clone group offset success. srcGroup[%s], destGroup=[%s], topic[%s]\n", from, to, topic)
	}
	return err
}

// queue is a queue and the broker that has it.
type queue struct {
	body.MessageQueue
	addr string
}

// offsetAt is the first offset that was stored at a time or later; a negative time means the end.
func (t *tool) offsetAt(q queue, ms int64) (int64, error) {
	if ms < 0 {
		return t.maxOffset(q)
	}
	var h header.SearchOffsetResponse
	err := into(&h)(t.call(q.addr, code.SearchOffsetByTimestamp, &header.SearchOffsetRequest{Topic: q.Topic, QueueID: q.QueueID, Timestamp: ms}, nil))
	return h.Offset, err
}

func (t *tool) minOffset(q queue) (int64, error) {
	var h header.GetMinOffsetResponse
	err := into(&h)(t.call(q.addr, code.GetMinOffset, &header.GetMinOffsetRequest{Topic: q.Topic, QueueID: q.QueueID}, nil))
	return h.Offset, err
}

func (t *tool) maxOffset(q queue) (int64, error) {
	var h header.GetMaxOffsetResponse
	err := into(&h)(t.call(q.addr, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: q.Topic, QueueID: q.QueueID}, nil))
	return h.Offset, err
}

// commit sets the offset of a group in a queue.
func (t *tool) commit(q queue, group string, offset int64) error {
	_, err := t.call(q.addr, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: q.Topic, QueueID: header.Some(q.QueueID),
		CommitOffset: header.Some(offset)}, nil)
	return err
}
