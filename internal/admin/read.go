package admin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func readCommands() []command {
	begin := option{short: "b", long: "beginTimestamp", kind: instant, brief: "stored at this time or later: milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS"}
	end := option{short: "e", long: "endTimestamp", kind: instant, brief: "stored before this time"}
	charsetName := option{short: "c", long: "charsetName", brief: "charset of bodies, UTF-8 if not given"}
	tags := option{short: "s", long: "subExpression", brief: "only messages with these tags: TagA || TagB"}
	return []command{
		{"printMsg", "Prints the messages of a topic.", []option{
			aTopic(), charsetName, tags, begin, end, {short: "d", long: "printBody", kind: yes, brief: "with bodies; true if not given"},
			{short: "l", long: "lmqParentTopic", brief: "find the brokers by the route of this topic instead"},
		}, nil, false, printMsg},
		{"printMsgByQueue", "Prints or counts the messages of a queue.", []option{
			aTopic(), option{short: "a", long: "brokerName", brief: "broker name"}.must(), option{short: "i", long: "queueId", kind: number, brief: "queue"}.must(),
			charsetName, tags, begin, end, {short: "p", long: "print msg", kind: yes, brief: "print them; false if not given"},
			{short: "d", long: "printBody", kind: yes, brief: "with bodies; false if not given"},
			{short: "f", long: "calculate", kind: yes, brief: "count them by tag; false if not given"},
		}, nil, false, printMsgByQueue},
		{"consumeMessage", "Reads messages of a topic and prints them.", []option{
			aTopic(), {short: "b", long: "brokerName", brief: "only from this broker name"}, {short: "i", long: "queueId", kind: number, brief: "with -b: only from this queue"},
			{short: "o", long: "offset", kind: long, brief: "with -i: from this offset on"}, {short: "g", long: "consumerGroup", brief: "as this group; its offsets stay as they are"},
			{short: "s", long: "beginTimestamp", kind: instant, brief: "stored at this time or later: milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS"},
			{short: "e", long: "endTimestamp", kind: instant, brief: "up to the first message that was stored at this time or later"},
			{short: "c", long: "MessageNumber", kind: number, brief: "at most so many of each queue, 128 if not given"},
		}, nil, false, consumeMessage},
	}
}

// toolsGroup is the consumer group of tools (MixAll.TOOLS_CONSUMER_GROUP). Its offsets are never committed.
const toolsGroup = "TOOLS_CONSUMER"

// maxBatch is the number of messages that a pull asks for.
const maxBatch = 32

// queuesOf lists the queues that consumers read.
func (t *tool) queuesOf(topic string) (list []queue, err error) {
	d, err := t.route(topic)
	if err != nil {
		return nil, err
	}
	addrs := map[string]string{}
	for _, b := range routed(d) {
		addrs[b.name] = b.addr
	}
	for _, q := range d.QueueDatas {
		if q.Perm&permRead == 0 || addrs[q.BrokerName] == "" {
			continue
		}
		for id := range q.ReadQueueNums {
			list = append(list, queue{body.MessageQueue{BrokerName: q.BrokerName, QueueID: id, Topic: topic}, addrs[q.BrokerName]})
		}
	}
	slices.SortStableFunc(list, func(a, b queue) int { return cmp.Compare(a.BrokerName, b.BrokerName) })
	return list, nil
}

// queueOf is one queue of a topic on a broker, whether or not consumers may read it.
func (t *tool) queueOf(topic, broker string, id int32) (queue, error) {
	d, err := t.route(topic)
	if err != nil {
		return queue{}, err
	}
	for _, b := range routed(d) {
		if b.name == broker {
			return queue{body.MessageQueue{BrokerName: broker, QueueID: id, Topic: topic}, b.addr}, nil
		}
	}
	return queue{}, fmt.Errorf("the topic %s is on no broker %q", topic, broker)
}

// pulled is the answer to a pull.
type pulled struct {
	status string // of Java's PullStatus
	next   int64
	found  []*msg
}

// pullStatus are the codes of answers to pulls.
var pullStatus = map[code.Response]string{code.Success: "FOUND", code.PullNotFound: "NO_NEW_MSG", code.PullRetryImmediately: "NO_MATCHED_MSG", code.PullOffsetMoved: "OFFSET_ILLEGAL"}

// pull reads messages from a queue, without waiting for any. Those whose tags the expression does not name are left out.
func (t *tool) pull(group string, q queue, offset int64, most int32, tags string) (*pulled, error) {
	const hasSubscription = 4 // PullSysFlag
	h := header.PullMessageRequest{ConsumerGroup: group, Topic: q.Topic, QueueID: q.QueueID, QueueOffset: offset, MaxMsgNums: most, SysFlag: hasSubscription,
		Subscription: tags, ExpressionType: "TAG"}
	r, err := t.exchange(answerTimeout, q.addr, code.PullMessage, &h, nil)
	if err != nil {
		return nil, err
	}
	p := &pulled{status: pullStatus[code.Response(r.Code)], next: offset}
	if p.status == "" {
		return nil, refusal(r, q.addr)
	}
	var at header.PullMessageResponse
	if err := r.Decode(&at); err != nil {
		return nil, err
	}
	p.next = at.NextBeginOffset
	if p.status == "FOUND" {
		list, err := messages(r.Body, q.BrokerName)
		if err != nil {
			return nil, err
		}
		for _, m := range list { // consumers are shown these, too
			m.props["MIN_OFFSET"], m.props["MAX_OFFSET"] = fmt.Sprint(at.MinOffset), fmt.Sprint(at.MaxOffset)
		}
		p.found = slices.DeleteFunc(list, func(m *msg) bool { return !m.tagged(tags) })
	}
	if p.next <= offset && (p.status == "FOUND" || p.status == "NO_MATCHED_MSG") {
		return nil, fmt.Errorf("broker %s does not get past offset %d", q.addr, offset)
	}
	return p, nil
}

// scan reads a queue from offset lo on, up to and without hi.
func (t *tool) scan(q queue, lo, hi int64, tags string, f func(*msg) error) error {
	for lo < hi {
		p, err := t.pull(toolsGroup, q, lo, maxBatch, tags)
		if err != nil {
			return err
		}
		for _, m := range p.found {
			if m.view.QueueOffset() >= hi {
				return nil
			}
			if err := f(m); err != nil {
				return err
			}
		}
		if p.status == "NO_NEW_MSG" || p.status == "OFFSET_ILLEGAL" && p.next <= lo {
			t.printf("%s print msg finished. status=%s, offset=%d\n", queueText(q.MessageQueue), p.status, lo)
			return nil
		}
		lo = p.next
	}
	return nil
}

// span is the part of a queue between two times, which may be missing.
func (t *tool) span(q queue, begin, end string) (lo, hi int64, err error) {
	for _, side := range []struct {
		key  string
		to   *int64
		edge func(queue) (int64, error)
	}{{begin, &lo, t.minOffset}, {end, &hi, t.maxOffset}} {
		if !t.given.has(side.key) {
			if *side.to, err = side.edge(q); err != nil {
				return 0, 0, err
			}
			continue
		}
		ms, err := parseInstant(t.given[side.key], t.clk.Now(), t.zone)
		if err != nil {
			return 0, 0, err
		}
		if *side.to, err = t.offsetAt(q, ms); err != nil {
			return 0, 0, err
		}
	}
	return lo, hi, nil
}

func printMsg(t *tool) error {
	queues, err := t.queuesOf(t.given.or("l", t.given["t"]))
	if err != nil {
		return err
	}
	withBody := t.given.yes("d", true)
	for _, q := range queues {
		q.Topic = t.given["t"]
		lo, hi, err := t.span(q, "b", "e")
		if err != nil {
			return err
		}
		t.printf("minOffset=%d, maxOffset=%d, %s\n", lo, hi, queueText(q.MessageQueue))
		err = t.scan(q, lo, hi, t.given.or("s", "*"), func(m *msg) error { return t.printLine(m, withBody, t.given["c"]) })
		if err != nil {
			return err
		}
		t.printf("--------------------------------------------------------\n")
	}
	return nil
}

func printMsgByQueue(t *tool) error {
	q, err := t.queueOf(t.given["t"], t.given["a"], int32(t.given.number("i", 0)))
	if err != nil {
		return err
	}
	lo, hi, err := t.span(q, "b", "e")
	if err != nil {
		return err
	}
	counts := map[string]int{}
	err = t.scan(q, lo, hi, t.given.or("s", "*"), func(m *msg) error {
		if tag, ok := m.props["TAGS"]; ok {
			counts[tag]++
		}
		if !t.given.yes("p", false) {
			return nil
		}
		return t.printLine(m, t.given.yes("d", false), t.given["c"])
	})
	if err == nil && t.given.yes("f", false) {
		t.showCounts(counts)
	}
	return err
}

// showCounts prints how many messages each tag has, the most frequent one first.
func (t *tool) showCounts(counts map[string]int) {
	var tags []string
	for tag := range counts {
		tags = append(tags, tag)
	}
	slices.SortFunc(tags, func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) })
	for _, tag := range tags {
		t.printf("Tag: %-30s Count: %d\n", tag, counts[tag])
	}
}

func consumeMessage(t *tool) error {
	if t.given.has("i") && !t.given.has("b") || t.given.has("o") && !t.given.has("i") {
		return errors.New("option -i wants -b, and -o wants -i")
	}
	most := t.given.number("c", 128)
	if most <= 0 {
		return fmt.Errorf("option -c wants a number above 0, not %d", most)
	}
	queues, err := t.queuesOf(t.given["t"])
	if err != nil {
		return err
	}
	if t.given.has("b") {
		queues = slices.DeleteFunc(queues, func(q queue) bool {
			return q.BrokerName != t.given["b"] || t.given.has("i") && int64(q.QueueID) != t.given.number("i", 0)
		})
		if len(queues) == 0 {
			return fmt.Errorf("the topic has no such queue on broker %q", t.given["b"])
		}
	}
	for _, q := range queues {
		if err := t.consumeQueue(q, most); err != nil {
			return err
		}
	}
	return nil
}

// consumeQueue prints at most so many messages of a queue. As in RocketMQ's tool the message at the upper bound is one of them.
func (t *tool) consumeQueue(q queue, most int64) error {
	lo, hi, err := t.span(q, "s", "e")
	if err != nil {
		return err
	}
	if t.given.has("o") {
		lo = t.given.number("o", 0)
		if lo > hi {
			t.printf("%s no matched msg, offset=%d\n", queueText(q.MessageQueue), lo)
			return nil
		}
	}
	if hi-lo > most {
		t.printf("only the older %d messages will be shown\n", most)
		hi = lo + most - 1
	}
	for lo <= hi {
		p, err := t.pull(t.given.or("g", toolsGroup), q, lo, int32(min(hi-lo+1, maxBatch)), "*")
		if err != nil {
			return err
		}
		switch p.status {
		case "FOUND":
			t.printf("Consume ok\n")
		case "NO_MATCHED_MSG":
		default:
			t.printf("%s print msg finished. status=%s, offset=%d\n", queueText(q.MessageQueue), p.status, lo)
			return nil
		}
		for _, m := range p.found {
			if err := t.printLine(m, true, ""); err != nil {
				return err
			}
		}
		lo = p.next
	}
	return nil
}
