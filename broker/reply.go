package broker

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// replyTimeout is how long a requester may take to confirm a reply.
const replyTimeout = 10 * time.Second

// replyOp is one reply on its way to the requester and, if it is to be stored, to the confirm offset. Who has sent it is answered
// when both have ended.
type replyOp struct {
	b      *Broker
	ticket remoting.Ticket

	mu      sync.Mutex
	left    int // of push and store
	pushed  bool
	refusal string // why the requester does not have the reply
	timer   *clock.Timer
	resp    header.SendMessageResponse
}

// handleReply serves SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2 (ReplyMessageProcessor): a message that answers another is
// pushed to the client that sent the other. The code of the answer says whether it got there; the header, where it is stored.
//
// A replica pushes to requesters that are connected to it, which have an old route, and stores nothing. The other replies are the
// master's.
func (b *Broker) handleReply(r *remoting.Request, h *header.SendMessageRequest) error {
	leads := b.leads()
	if !leads && !b.requesterHere(h) {
		return b.onMaster(remoting.On(b.handleReply))(r)
	}
	topic, err := b.checkSend(r, h)
	if err != nil {
		return b.refuseSend(r, err)
	}
	if h.QueueID < 0 {
		h.QueueID = rand.Int32N(max(topic.WriteQueueNums, 1))
	}
	msg := b.sends.get()
	if err := b.buildSingle(msg, r, h, topic); err != nil {
		b.sends.put(msg)
		return b.refuseSend(r, err)
	}
	op := &replyOp{b: b, ticket: r.Park(), left: 2}
	op.resp = header.SendMessageResponse{MsgID: "0", QueueID: h.QueueID, SendContext: b.sends.fixed.Load().context}
	op.push(r, h)
	if !leads || !b.conf.Load().StoreReplyMessageEnable {
		op.end(func() {})
	} else if err := b.append(msg, &storedReply{op, msg}); err != nil {
		b.log.Warn("a reply could not be stored", zap.Error(err))
		op.end(func() {})
	} else {
		return nil
	}
	b.sends.put(msg)
	return nil
}

// requesterHere tells whether the client that a reply is for is connected to this broker.
func (b *Broker) requesterHere(h *header.SendMessageRequest) bool {
	to, ok := message.Props(unsafe.Slice(unsafe.StringData(h.Properties), len(h.Properties))).Get(message.PropReplyToClient)
	return ok && b.clients.producer(to) != nil
}

// push sends the reply to the requester.
func (op *replyOp) push(r *remoting.Request, h *header.SendMessageRequest) {
	text := message.Props(unsafe.Slice(unsafe.StringData(h.Properties), len(h.Properties)))
	to, ok := text.Get(message.PropReplyToClient)
	if !ok {
		op.pushEnded("reply message properties[" + message.PropReplyToClient + "] is null")
		return
	}
	conn := op.b.clients.producer(to)
	if conn == nil {
		op.pushEnded("push reply message fail, channel of <" + to + "> not found.")
		return
	}
	refusal := "push reply message to " + to + "fail."
	forget := conn.Go(code.PushReplyMessageToClient, op.b.replyHeader(r, h, text), r.Body, func(reply *remoting.Reply, err error) {
		if err != nil || reply.Err() != nil {
			op.pushEnded(refusal)
			return
		}
		op.pushEnded("")
	})
	timer := op.b.clk.AfterFunc(replyTimeout, func() {
		forget()
		op.pushEnded(refusal)
	})
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.timer = timer; op.pushed {
		timer.Stop()
	}
}

// replyHeader is what the requester is told of the reply.
func (b *Broker) replyHeader(r *remoting.Request, h *header.SendMessageRequest, text message.Props) *header.ReplyMessageRequest {
	c, now := b.conf.Load(), b.clk.NowMs()
	props := text.Without(make([]byte, 0, len(text)+96), brokerOwned)
	props = message.AppendProp(props, message.PropMsgRegion, c.RegionId)
	props = message.AppendProp(props, message.PropTraceOn, strconv.FormatBool(c.TraceOn))
	props = message.AppendProp(props, message.PropPushReplyTime, strconv.FormatInt(now, 10))
	return &header.ReplyMessageRequest{ProducerGroup: h.ProducerGroup, Topic: h.Topic, DefaultTopic: h.DefaultTopic, DefaultTopicQueueNums: h.DefaultTopicQueueNums,
		QueueID: h.QueueID, SysFlag: h.SysFlag, BornTimestamp: h.BornTimestamp, Flag: h.Flag, Properties: string(props), ReconsumeTimes: h.ReconsumeTimes,
		UnitMode: h.UnitMode.Or(false), BornHost: r.Conn.RemoteAddr(), StoreHost: b.addr, StoreTimestamp: now}
}

// pushEnded notes once what has become of the push.
func (op *replyOp) pushEnded(refusal string) {
	op.mu.Lock()
	again := op.pushed
	op.pushed, op.refusal = true, refusal
	if op.timer != nil {
		op.timer.Stop()
	}
	op.mu.Unlock()
	if !again {
		op.end(func() {})
	}
}

// end notes that push or store has ended, and answers when both have.
func (op *replyOp) end(note func()) {
	op.mu.Lock()
	note()
	op.left--
	last := op.left == 0
	op.mu.Unlock()
	switch {
	case !last:
	case op.refusal == "":
		op.ticket.Reply(code.Success, "", &op.resp, nil)
	default:
		op.ticket.Reply(code.SystemError, op.refusal, &op.resp, nil)
	}
}

// storedReply is the waiter of the stored reply.
type storedReply struct {
	op  *replyOp
	msg *sendOp
}

// Done notes where the reply is stored.
func (s *storedReply) Done(err error) {
	s.op.end(func() {
		if err != nil {
			return
		}
		s.msg.fill()
		s.op.resp = s.msg.resp
		s.op.resp.MsgID, s.op.resp.TransactionID = strings.Clone(s.msg.resp.MsgID), ""
	})
	s.op.b.sends.put(s.msg)
}
