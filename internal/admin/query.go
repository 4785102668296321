package admin

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func queryCommands() []command {
	id := option{short: "i", long: "msgId", brief: "id of the message"}.must()
	group := option{short: "g", long: "consumerGroup", brief: "with -d: have a member of this group consume the message now"}
	client := option{short: "d", long: "clientId", brief: "with -g: the member"}
	format := option{short: "f", long: "bodyFormat", brief: "show the body, too, as text in this charset"}
	return []command{
		{"queryMsgById", "Shows a message by the id that a broker gave it.", []option{
			aTopic(), option{short: "i", long: "msgId", brief: "offset id; several with commas"}.must(), group, client,
			{short: "s", long: "sendMessage", kind: yes, brief: "send the message again"},
			{short: "u", long: "unitName", brief: "has no effect"}, format, routeBy(),
		}, nil, false, queryMsgByID},
		{"queryMsgByKey", "Finds messages by one of their keys.", []option{
			aTopic(), option{short: "k", long: "msgKey", brief: "key"}.must(),
			{short: "b", long: "beginTimestamp", kind: long, brief: "stored at this time or later, in milliseconds since 1970"},
			{short: "e", long: "endTimestamp", kind: long, brief: "stored at this time or earlier"},
			{short: "m", long: "maxNum", kind: number, brief: "messages from each broker, 64 if not given"}, routeBy(),
			{short: "p", long: "keyType", brief: "K for keys, T for tags"},
			{short: "l", long: "lastKey", brief: "go on behind this #IndexKey of an earlier answer"},
		}, nil, true, queryMsgByKey},
		{"queryMsgByUniqueKey", "Shows a message by the id that its producer gave it.", []option{
			id, group, client, aTopic(),
			{short: "a", long: "showAll", kind: none, brief: "show all messages with the id, 32 at most"}, routeBy(),
			{short: "s", long: "startTime", kind: long, brief: "stored at this time or later, in milliseconds since 1970"},
			{short: "e", long: "endTime", kind: long, brief: "stored at this time or earlier"},
		}, nil, false, queryMsgByUniqueKey},
		{"queryMsgByOffset", "Shows the message at an offset of a queue.", []option{
			aTopic(), option{short: "b", long: "brokerName", brief: "broker name"}.must(),
			option{short: "i", long: "queueId", kind: number, brief: "queue"}.must(),
			option{short: "o", long: "offset", kind: long, brief: "offset"}.must(), format,
			{short: "r", long: "routeTopic", brief: "find the broker by the route of this topic instead"},
		}, nil, false, queryMsgByOffset},
		{"queryCq", "Shows entries of a queue and what the filter of a group makes of them.", []option{
			aTopic(), option{short: "q", long: "queue", kind: number, brief: "queue"}.must(),
			option{short: "i", long: "index", kind: long, brief: "first offset"}.must(),
			{short: "c", long: "count", kind: number, brief: "how many, 10 if not given"},
			{short: "b", long: "broker", brief: "broker, host:port"}, {short: "g", long: "consumer", brief: "group"},
		}, nil, false, queryCq},
	}
}

// query finds messages by a key on every broker of a topic, oldest first. No message is an error.
func (t *tool) query(topic string, h header.QueryMessageRequest) (found []*msg, err error) {
	brokers, err := t.routeOf(topic)
	if err != nil {
		return nil, err
	}
	h.Topic = topic
	for _, b := range brokers {
		r, err := t.call(b.addr, code.QueryMessage, &h, nil)
		if codeOf(err) == code.QueryNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		list, err := messages(r.Body, b.name)
		if err != nil {
			return nil, err
		}
		found = append(found, slices.DeleteFunc(list, func(m *msg) bool { return !m.answers(&h) })...)
	}
	if len(found) == 0 {
		return nil, errNoMessage
	}
	slices.SortStableFunc(found, func(a, b *msg) int { return cmp.Compare(a.view.StoreTimestamp(), b.view.StoreTimestamp()) })
	return found, nil
}

var errNoMessage = &answerError{code: code.NoMessage, remark: "query message by key finished, but no message."}

// answers tells whether a message has the key that was asked for: the index of a Java broker holds hashes only.
func (m *msg) answers(h *header.QueryMessageRequest) bool {
	switch {
	case h.UniqueKeyQuery.V:
		return m.id() == h.Key
	case h.IndexType == "T":
		return m.props[message.PropTags] == h.Key
	}
	return slices.Contains(strings.Fields(m.props[message.PropKeys]), h.Key)
}

func queryMsgByKey(t *tool) error {
	h := header.QueryMessageRequest{Key: t.given["k"], MaxNum: int32(t.given.number("m", 64)), BeginTimestamp: t.given.number("b", 0),
		EndTimestamp: t.given.number("e", math.MaxInt64), IndexType: t.given.or("p", "K"), LastKey: t.given["l"], UniqueKeyQuery: header.Some(false)}
	found, err := t.query(t.given["t"], h)
	if err == nil {
		t.showFound(found, &h)
	}
	return err
}

// showFound prints what a query by key found. The last column is the key of RocketMQ 5.5's index, from which -l goes on.
func (t *tool) showFound(found []*msg, h *header.QueryMessageRequest) {
	const form = "%-50v %4v %40v %-200v"
	const hour = 3600 * 1000
	tb := t.table(form, form, "#Message ID", "#QID", "#Offset", "#IndexKey")
	for _, m := range found {
		v := &m.view
		key := fmt.Sprintf("%d@%s@%s@%s@%s@%d", v.StoreTimestamp()/hour*hour, v.Topic(), h.IndexType, h.Key, m.id(), v.PhyOffset())
		tb.add(m.id(), v.QueueID(), v.QueueOffset(), key)
	}
	tb.end(nil)
}

// byUniqueKey finds the messages that carry a producer's id.
func (t *tool) byUniqueKey(topic, id string, begin, end int64) ([]*msg, error) {
	const most = 32
	return t.query(topic, header.QueryMessageRequest{Key: id, MaxNum: most, BeginTimestamp: begin, EndTimestamp: end, UniqueKeyQuery: header.Some(true)})
}

func queryMsgByUniqueKey(t *tool) error {
	found, err := t.byUniqueKey(t.given["t"], t.given["i"], t.given.number("s", 0), t.given.number("e", math.MaxInt64))
	if err != nil {
		return err
	}
	if t.given.has("d") {
		return t.consumeNow(found[0])
	}
	if !t.given.has("a") {
		found = found[:1]
	}
	for _, m := range found {
		if err := t.describe(m, false); err != nil {
			return err
		}
		if err := t.tracks(m); err != nil {
			return err
		}
	}
	return nil
}

// byID reads the message that an offset id names, or else one whose producer gave it that id.
func (t *tool) byID(topic, id string) (*msg, error) {
	addr, offset, err := message.ParseID(id)
	if err == nil {
		r, err := t.call(addr.String(), code.ViewMessageByID, &header.ViewMessageRequest{Topic: topic, Offset: offset}, nil)
		if err == nil {
			list, err := messages(r.Body, "")
			if err == nil && len(list) == 0 {
				err = errNoMessage
			}
			if err != nil {
				return nil, err
			}
			return list[0], nil
		}
	}
	found, err := t.byUniqueKey(topic, id, 0, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func queryMsgByID(t *tool) error {
	return onEach(splitList(t.given["i"], ","), func(id string) error {
		m, err := t.byID(t.given["t"], id)
		if err != nil {
			return err
		}
		if t.given.has("d") {
			return t.consumeNow(m)
		}
		if t.given.yes("s", false) {
			return t.resend(m)
		}
		if err := t.describe(m, true); err != nil {
			return err
		}
		return t.tracks(m)
	})
}

// consumeNow has one member of a group consume a message and prints its verdict.
func (t *tool) consumeNow(m *msg) error {
	if !t.given.has("g") {
		return errors.New("option -d wants -g")
	}
	h := header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: t.given["g"], ClientID: t.given["d"], MsgID: m.offsetID(), Topic: string(m.view.Topic())}
	r, err := decoded[body.ConsumeMessageDirectlyResult](t.callFor(statsTimeout, m.view.StoreHost().String(), code.ConsumeMessageDirectly, &h, nil))
	if err == nil {
		t.printf("ConsumeMessageDirectlyResult [order=%t, autoCommit=%t, consumeResult=%s, remark=%s, spentTimeMills=%d]\n", r.Order, r.AutoCommit,
			notGiven(string(r.ConsumeResult)), notGiven(r.Remark), r.SpentTimeMills)
	}
	return err
}

func queryMsgByOffset(t *tool) error {
	q, err := t.queueOf(t.given.or("r", t.given["t"]), t.given["b"], int32(t.given.number("i", 0)))
	if err != nil {
		return err
	}
	q.Topic = t.given["t"]
	p, err := t.pull(toolsGroup, q, t.given.number("o", 0), 1, "*")
	if err != nil || len(p.found) == 0 {
		return err
	}
	if err := t.describe(p.found[0], true); err != nil {
		return err
	}
	return t.tracks(p.found[0])
}

func queryCq(t *tool) error {
	addr := t.given["b"]
	if addr == "" {
		brokers, err := t.routeOf(t.given["t"])
		if err != nil {
			return err
		}
		if len(brokers) == 0 {
			return errors.New("the topic has no broker")
		}
		addr = brokers[0].addr
	}
	h := header.QueryConsumeQueueRequest{Topic: t.given["t"], QueueID: int32(t.given.number("q", 0)), Index: t.given.number("i", 0), Count: int32(t.given.number("c", 10)),
		ConsumerGroup: t.given["g"]}
	r, err := decoded[body.QueryConsumeQueueResponseBody](t.call(addr, code.QueryConsumeQueue, &h, nil))
	if err == nil {
		t.showUnits(r, h.Index)
	}
	return err
}

func (t *tool) showUnits(r *body.QueryConsumeQueueResponseBody, first int64) {
	rule := strings.Repeat("=", 38)
	if r.SubscriptionData != nil {
		t.printf("Subscription data: \n%s\n%s\n", fastjson.Encoder{Pretty: true}.Marshal(r.SubscriptionData), rule)
	}
	if r.SubscriptionData != nil || r.FilterData != "" {
		t.printf("Filter data: \n%s\n%s\n", notGiven(r.FilterData), rule)
	}
	t.printf("Queue data: \nmax: %d, min: %d\n%s\n", r.MaxQueueIndex, r.MinQueueIndex, rule)
	for i, u := range r.QueueData {
		t.printf("idx: %d\nConsumeQueueData{physicOffset=%d, physicSize=%d, tagsCode=%d, extendDataJson='%s', bitMap='%s', eval=%t, msg='%s'}\n%s\n", first+int64(i), u.PhysicOffset,
			u.PhysicSize, u.TagsCode, notGiven(u.ExtendDataJSON), notGiven(u.BitMap), u.Eval, notGiven(u.Msg), rule)
	}
}
