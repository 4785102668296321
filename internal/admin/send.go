package admin

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func sendCommands() []command {
	return []command{
		{"sendMessage", "Sends a message.", []option{
			aTopic(), option{short: "p", long: "body", brief: "body"}.must(), {short: "k", long: "key", brief: "keys with blanks"}, {short: "c", long: "tags", brief: "tag"},
			{short: "b", long: "broker", brief: "to this broker name"}, {short: "i", long: "qid", kind: number, brief: "with -b: to this queue"},
			{short: "m", long: "msgTraceEnable", kind: yes, brief: "true is refused: this tool writes no traces"},
		}, nil, true, sendMessage},
		{"checkMsgSendRT", "Sends messages and shows how long each took.", []option{
			aTopic(), {short: "a", long: "amount", kind: long, brief: "messages, 100 if not given"}, {short: "s", long: "size", kind: number, brief: "bytes of each, 128 if not given"},
		}, nil, true, checkMsgSendRT},
	}
}

// autoCreateTopic is the topic whose queues producers use for one that does not exist yet.
const autoCreateTopic = "TBW102"

// sendersGroup is the producer group of this tool.
const sendersGroup = "TOOLS_PRODUCER"

// writable lists the queues that producers send to. A topic that does not exist has those with which a broker would create it.
func (t *tool) writable(topic string) (list []queue, err error) {
	d, err := t.route(topic)
	most := int32(1 << 20)
	if codeOf(err) == code.TopicNotExist {
		most = newTopicQueues
		d, err = t.route(autoCreateTopic)
	}
	if err != nil {
		return nil, err
	}
	master := map[string]string{}
	for _, b := range routed(d) {
		if b.id == 0 {
			master[b.name] = b.addr
		}
	}
	for _, q := range d.QueueDatas {
		if q.Perm&permWrite == 0 || master[q.BrokerName] == "" {
			continue
		}
		for id := range min(q.WriteQueueNums, most) {
			list = append(list, queue{body.MessageQueue{BrokerName: q.BrokerName, QueueID: id, Topic: topic}, master[q.BrokerName]})
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no broker takes messages of the topic %s", topic)
	}
	return list, nil
}

// newTopicQueues is how many queues producers ask for when their send creates a topic (DefaultMQProducer.defaultTopicQueueNums).
const newTopicQueues = 4

// sendStatus are the codes of answers to sends after which the message is stored.
var sendStatus = map[code.Response]string{code.Success: "SEND_OK", code.FlushDiskTimeout: "FLUSH_DISK_TIMEOUT", code.FlushSlaveTimeout: "FLUSH_SLAVE_TIMEOUT",
	code.SlaveNotAvailable: "SLAVE_NOT_AVAILABLE"}

// sent is the answer to a send.
type sent struct {
	queue
	status, id, offsetID string
	offset               int64
}

// text is SendResult.toString.
func (s *sent) text() string {
	return fmt.Sprintf("SendResult [sendStatus=%s, msgId=%s, offsetMsgId=%s, messageQueue=%s, queueOffset=%d, recallHandle=null]", s.status, s.id, s.offsetID,
		queueText(s.MessageQueue), s.offset)
}

// send sends a message to a queue. props are its properties as text, with a unique key that the caller knows as id.
func (t *tool) send(q queue, id string, props, data []byte) (*sent, error) {
	h := header.SendMessageRequestV2{ProducerGroup: sendersGroup, Topic: q.Topic, DefaultTopic: autoCreateTopic, DefaultTopicQueueNums: newTopicQueues, QueueID: q.QueueID,
		BornTimestamp: t.clk.NowMs(), Properties: string(props), ReconsumeTimes: header.Some[int32](0), UnitMode: header.Some(false), Batch: header.Some(false),
		BName: q.BrokerName}
	r, err := t.exchange(answerTimeout, q.addr, code.SendMessageV2, &h, data)
	if err != nil {
		return nil, err
	}
	s := &sent{queue: q, status: sendStatus[code.Response(r.Code)], id: id}
	if s.status == "" {
		return nil, refusal(r, q.addr)
	}
	var stored header.SendMessageResponse
	err = r.Decode(&stored)
	s.QueueID, s.offset, s.offsetID = stored.QueueID, stored.QueueOffset, stored.MsgID
	return s, err
}

func sendMessage(t *tool) error {
	if t.given.has("i") && !t.given.has("b") {
		return errors.New("option -i wants -b")
	}
	if t.given.yes("m", false) {
		return errors.New("this tool writes no message traces: leave -m out")
	}
	queues, err := t.writable(t.given["t"])
	if err != nil {
		return err
	}
	queues = slices.DeleteFunc(queues, func(q queue) bool {
		return t.given.has("b") && q.BrokerName != t.given["b"] || t.given.has("i") && int64(q.QueueID) != t.given.number("i", 0)
	})
	if len(queues) == 0 {
		return fmt.Errorf("the topic has no such queue on broker %q", t.given["b"])
	}
	id := t.newID()
	props := message.AppendProp(nil, message.PropKeys, t.given["k"])
	props = message.AppendProp(props, message.PropUniqueKey, id)
	props = message.AppendProp(props, message.PropWait, "true")
	props = message.AppendProp(props, message.PropTags, t.given["c"])
	s, err := t.send(queues[mathrand.IntN(len(queues))], id, props, []byte(t.given["p"]))
	if err == nil {
		t.showSent(s)
	}
	return err
}

func (t *tool) showSent(s *sent) {
	const form = "%-32v  %-4v  %-20v    %v"
	tb := t.table(form, form, "#Broker Name", "#QID", "#Send Result", "#MsgId")
	tb.add(s.BrokerName, s.QueueID, s.status, s.id)
	tb.end(nil)
}

// resend sends a message again, with its keys, tags and user's properties.
func (t *tool) resend(m *msg) error {
	queues, err := t.writable(string(m.view.Topic()))
	if err != nil {
		return err
	}
	brokers := map[string]bool{message.PropMsgRegion: true, message.PropTraceOn: true, message.PropCluster: true}
	props := m.view.Properties().Without(nil, func(name []byte) bool { return brokers[string(name)] })
	s, err := t.send(queues[mathrand.IntN(len(queues))], m.id(), props, m.body)
	if err == nil {
		t.printf("prepare resend msg. originalMsgId=%s\n%s\n", m.id(), s.text())
	}
	return err
}

func checkMsgSendRT(t *tool) error {
	amount, size := t.given.number("a", 100), t.given.number("s", 128)
	const most = 1 << 22
	if amount <= 0 || size <= 0 || size > most {
		return fmt.Errorf("options -a and -s want numbers above 0, -s one up to %d", most)
	}
	queues, err := t.writable(t.given["t"])
	if err != nil {
		return err
	}
	const form = "%-32v  %-4v  %-20v    %v"
	tb := t.table(form, form, "#Broker Name", "#QID", "#Send Result", "#RT")
	data := bytes.Repeat([]byte("hello"), int(size)/5+1)[:size]
	var spent time.Duration // without the first one, which includes the connection
	var failed error
	for i := range amount {
		q, id := queues[int(i)%len(queues)], t.newID()
		props := message.AppendProp(message.AppendProp(nil, message.PropUniqueKey, id), message.PropWait, "true")
		begin := t.clk.Now()
		_, err := t.send(q, id, props, data)
		took := t.clk.Now().Sub(begin)
		if err != nil {
			failed = err
		}
		if i > 0 {
			spent += took
		}
		tb.add(q.BrokerName, q.QueueID, err == nil, took.Milliseconds())
	}
	tb.end(func() { t.printf("Avg RT: %.2f\n", float64(spent.Microseconds())/1000/float64(max(1, amount-1))) })
	return failed
}

// newID makes a producer's message id like Java's MessageClientIDSetter: 4 bytes of address, 2 of process, 4 that tell programs of a
// host apart, milliseconds since the month began, and a counter. Tools read the time from it.
func (t *tool) newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	binary.BigEndian.PutUint16(b[4:], uint16(os.Getpid()))
	now := t.clk.Now().In(t.zone)
	month := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, t.zone)
	binary.BigEndian.PutUint32(b[10:], uint32(now.Sub(month).Milliseconds()))
	return strings.ToUpper(fmt.Sprintf("%x", b))
}
