package broker

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Time that clients have to answer what a tool asks them through the broker (Broker2Client). Nothing waits with them.
const (
	clientAnswers = 10 * time.Second
	statusAnswers = 2500 * time.Millisecond
)

// subscribers lists the groups online that subscribe a topic.
func (c *clients) subscribers(topic string) (groups []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for name, g := range c.consumers {
		if g.subscription(topic) != nil {
			groups = append(groups, name)
		}
	}
	return groups
}

// maxAsked bounds the questions that one connection has not answered. Each may bring a whole message: with more of them a client
// that is slow to read would lose its connection to somebody else's questions.
const maxAsked = 8

// asked counts the unanswered questions by connection.
type asked struct {
	mu sync.Mutex
	by map[*remoting.Conn]int
}

// begin counts one more question, unless there are too many.
func (a *asked) begin(conn *remoting.Conn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[conn] >= maxAsked {
		return false
	}
	a.by[conn]++
	return true
}

func (a *asked) end(conn *remoting.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by[conn]--; a.by[conn] == 0 {
		delete(a.by, conn)
	}
}

// ask sends a request to a client. done is called once: with the answer or an error, after timeout with errNoAnswer.
func (b *Broker) ask(m member, rc code.Request, h header.Appender, text []byte, timeout time.Duration, done func(*remoting.Reply, error)) {
	if !b.asked.begin(m.conn) {
		done(nil, errAsked)
		return
	}
	var once sync.Once
	answer := func(reply *remoting.Reply, err error) {
		once.Do(func() {
			b.asked.end(m.conn)
			done(reply, err)
		})
	}
	forget := m.conn.Go(rc, h, text, answer)
	b.clk.AfterFunc(timeout, func() {
		forget()
		answer(nil, errNoAnswer)
	})
}

var (
	errNoAnswer = code.New(code.ConsumeMsgTimeout, "the client does not answer")
	errAsked    = code.New(code.SystemBusy, "the client has %d questions to answer already", maxAsked)
)

// pass has a client answer the request of a tool. The answer is passed on as it comes: a Go client's is no valid JSON if it holds
// a stack dump.
func (b *Broker) pass(r *remoting.Request, m member, h header.Appender, group string, text []byte) {
	ticket := r.Park()
	b.ask(m, code.Request(r.Code), h, text, clientAnswers, func(reply *remoting.Reply, err error) {
		switch {
		case err == errAsked:
			ticket.Fail(err)
		case err == errNoAnswer:
			ticket.Fail(code.New(code.ConsumeMsgTimeout, "consumer <%s> <%s> Timeout: no answer in %v", group, m.id, clientAnswers))
		case err != nil:
			ticket.Fail(code.New(code.SystemError, "consumer <%s> <%s>: %v", group, m.id, err))
		default:
			ticket.Reply(code.Response(reply.Code), string(reply.Remark), nil, remoting.Bytes(reply.Body))
		}
	})
}

// consumerFor finds a member of a group that can be asked.
func (b *Broker) consumerFor(group, id string) (member, error) {
	m, ok := b.clients.consumer(group, id)
	if !ok {
		return m, code.New(code.SystemError, "The Consumer <%s> <%s> not online", shown(group), shown(id))
	}
	if m.version < code.V3_1_8Snapshot {
		return m, code.New(code.SystemError, "The Consumer <%s> Version <%s> too low to finish, please upgrade it to %s", m.id, m.version, code.V3_1_8Snapshot)
	}
	return m, nil
}

// handleRunningInfo serves GET_CONSUMER_RUNNING_INFO.
func (b *Broker) handleRunningInfo(r *remoting.Request, h *header.GetConsumerRunningInfoRequest) error {
	m, err := b.consumerFor(h.ConsumerGroup, h.ClientID)
	if err != nil {
		return err
	}
	b.pass(r, m, h, h.ConsumerGroup, nil)
	return nil
}

// handleConsumeDirectly serves CONSUME_MESSAGE_DIRECTLY: a client consumes one message of the log now.
func (b *Broker) handleConsumeDirectly(r *remoting.Request, h *header.ConsumeMessageDirectlyResultRequest) error {
	m, err := b.consumerFor(h.ConsumerGroup, h.ClientID)
	if err != nil {
		return err
	}
	_, phy, err := message.ParseID(h.MsgID)
	if err != nil {
		return code.New(code.InvalidParameter, "msgId %s: %v", shown(h.MsgID), err)
	}
	var v message.View
	if !b.record(phy, &v) {
		return code.New(code.SystemError, "there is no message at the log offset %d", phy)
	}
	own := *h
	own.BrokerName = b.conf.Load().BrokerName
	if c := b.topics.get(h.Topic); c != nil {
		own.TopicSysFlag = header.Some(c.TopicSysFlag)
	}
	if g, ok := b.store.State.Group(h.ConsumerGroup); ok {
		own.GroupSysFlag = header.Some(g.GroupSysFlag)
	}
	b.pass(r, m, &own, h.ConsumerGroup, v.Bytes())
	return nil
}

// handleConsumerStatus serves INVOKE_BROKER_TO_GET_CONSUMER_STATUS: each member, or the one that is named, tells how far it is.
// Members that do not answer in time are left out.
func (b *Broker) handleConsumerStatus(r *remoting.Request, h *header.GetConsumerStatusRequest) error {
	var asked []member
	for _, m := range b.clients.membersOf(h.Group) {
		if m.version < code.V3_0_7Snapshot {
			return code.New(code.SystemError, "The Client does not support this feature, version=%s", m.version)
		}
		if h.ClientAddr == "" || h.ClientAddr == m.id {
			asked = append(asked, m)
		}
	}
	if len(asked) == 0 {
		return code.New(code.SystemError, "No Any Consumer online in the consumer group: [%s]", shown(h.Group))
	}
	s := &statusRound{ticket: r.Park(), left: len(asked), table: map[string]map[body.MessageQueue]int64{}}
	question := header.GetConsumerStatusRequest{Topic: h.Topic, Group: h.Group}
	for _, m := range asked {
		b.ask(m, code.GetConsumerStatusFromClient, &question, nil, statusAnswers, func(reply *remoting.Reply, err error) {
			if err == nil {
				err = reply.Err()
			}
			var status body.GetConsumerStatusBody
			if err == nil {
				err = fastjson.Unmarshal(reply.Body, &status)
			}
			if err != nil {
				b.log.Warn("a client did not tell its offsets", zap.String("client", m.id), zap.Error(err))
			}
			s.add(m.id, status.MessageQueueTable)
		})
	}
	return nil
}

// statusRound gathers the answers of the members.
type statusRound struct {
	ticket remoting.Ticket

	mu    sync.Mutex
	left  int
	table map[string]map[body.MessageQueue]int64
}

// add takes the answer of one member, nil if it gave none, and answers the tool after the last.
func (s *statusRound) add(id string, offsets map[body.MessageQueue]int64) {
	s.mu.Lock()
	if offsets != nil {
		s.table[id] = offsets
	}
	s.left--
	last := s.left == 0
	s.mu.Unlock()
	if last {
		s.ticket.Reply(code.Success, "", nil, remoting.Bytes(fastjson.Marshal(&body.GetConsumerStatusBody{ConsumerTable: s.table})))
	}
}
