package broker

import (
	"bytes"
	crand "crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
)

// sendPath is what sends share.
type sendPath struct {
	ops      sync.Pool // *sendOp
	fixed    atomic.Pointer[sendFixed]
	uniqBase [8]byte // of the unique keys that the broker makes
	uniqNext atomic.Uint64
}

// sendFixed is what the configuration adds to every message and answer. It is immutable.
type sendFixed struct {
	suffix  []byte // properties, after a separator
	context header.SendContext
}

// configure takes a changed configuration.
func (p *sendPath) configure(c *conf.Broker) {
	suffix := []byte{message.PropSeparator}
	suffix = message.AppendProp(suffix, message.PropMsgRegion, c.RegionId)
	suffix = message.AppendProp(suffix, message.PropTraceOn, strconv.FormatBool(c.TraceOn))
	suffix = message.AppendProp(suffix, message.PropCluster, c.BrokerClusterName)
	p.fixed.Store(&sendFixed{suffix, header.SendContext{MsgRegion: c.RegionId, TraceOn: header.Some(c.TraceOn)}})
}

func (p *sendPath) init(b *Broker) {
	p.configure(b.conf.Load())
	_, _ = crand.Read(p.uniqBase[:])
	p.ops.New = func() any { return &sendOp{b: b} }
}

// sendOp is one send on its way to the confirm offset. It is pooled: nothing of it is used after Done.
type sendOp struct {
	b       *Broker
	ticket  remoting.Ticket
	drafts  []message.Draft
	entries []commitlog.Entry
	resp    header.SendMessageResponse
	queueID int32 // that the client asked for
	kind    messageKind
	props   []byte
	ids     []byte
	uniq    []byte
}

func (p *sendPath) get() *sendOp { return p.ops.Get().(*sendOp) }

func (p *sendPath) put(op *sendOp) {
	clear(op.drafts)
	clear(op.entries)
	op.drafts, op.entries = op.drafts[:0], op.entries[:0]
	op.props, op.ids, op.uniq = op.props[:0], op.ids[:0], op.uniq[:0]
	op.ticket, op.resp, op.kind = remoting.Ticket{}, header.SendMessageResponse{}, kindNormal
	if cap(op.drafts) <= 64 && cap(op.props) <= 64<<10 {
		p.ops.Put(op)
	}
}

// Done answers the producer. It runs where the confirm offset moved; the connection is flushed when the batch ends.
func (op *sendOp) Done(err error) {
	rc, remark := code.Success, ""
	switch {
	case errors.Is(err, store.ErrFlushTimeout):
		rc = code.FlushDiskTimeout
	case errors.Is(err, store.ErrReplicaTimeout):
		rc = code.FlushSlaveTimeout
	case err != nil:
		rc, remark = code.ServiceNotAvailable, err.Error()+"; whether the message was stored is unknown"
	}
	if rc != code.ServiceNotAvailable {
		op.b.stats.stored(op.drafts, op.kind, op.entries[0].StoreTimestamp)
	}
	op.fill()
	op.ticket.Put(rc, remark, &op.resp, nil)
	op.b.holds.answered(op.ticket.Conn)
	op.b.sends.put(op)
}

// fill makes the header of the answer: where the messages are. It aliases op.
func (op *sendOp) fill() {
	for i := range op.entries {
		if i > 0 {
			op.ids = append(op.ids, ',')
		}
		op.ids = message.AppendID(op.ids, op.drafts[i].StoreHost, op.entries[i].Phy)
	}
	op.resp = header.SendMessageResponse{
		MsgID:         unsafe.String(unsafe.SliceData(op.ids), len(op.ids)),
		QueueID:       op.queueID,
		QueueOffset:   op.entries[0].QueueOffset,
		TransactionID: unsafe.String(unsafe.SliceData(op.uniq), len(op.uniq)),
		SendContext:   op.b.sends.fixed.Load().context,
	}
}

// handleSend serves SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE (SendMessageProcessor).
func (b *Broker) handleSend(r *remoting.Request, h *header.SendMessageRequest) error {
	if err := b.send(r, h); err != nil {
		return b.refuseSend(r, err)
	}
	return nil
}

// refuseSend answers a send that was refused for a reason that the producer can mend; clients read region and trace switch from
// such answers too.
func (b *Broker) refuseSend(r *remoting.Request, err error) error {
	var refused *code.Error
	if errors.As(err, &refused) && refused.Code != code.SystemError {
		r.Reply(refused.Code, refused.Remark, &b.sends.fixed.Load().context, nil)
		return nil
	}
	return err
}

func (b *Broker) send(r *remoting.Request, h *header.SendMessageRequest) error {
	if err := b.unconfirmable(); err != nil {
		return err
	}
	topic, err := b.checkSend(r, h)
	if err != nil {
		return err
	}
	toStandby := h.QueueID == 0 && b.standby.is(h.BName) // another id is that of an earlier answer
	if h.QueueID < 0 || toStandby {
		if topic.WriteQueueNums <= 0 {
			return code.New(code.InvalidParameter, "topic[%s] has no write queue", h.Topic)
		}
		if toStandby {
			h.QueueID = standbyQueue(topic)
		} else {
			h.QueueID = rand.Int32N(topic.WriteQueueNums)
		}
	}
	op := b.sends.get()
	op.queueID = h.QueueID
	if h.Batch.Or(false) {
		err = b.buildBatch(op, r, h, topic)
	} else {
		err = b.buildSingle(op, r, h, topic)
	}
	if err == nil {
		op.ticket = r.Park()
		err = b.append(op, op)
	}
	if err != nil {
		b.sends.put(op)
		return err
	}
	return nil
}

// append stores the drafts of op and has w told when they are confirmed.
func (b *Broker) append(op *sendOp, w store.Waiter) error {
	op.entries = slices.Grow(op.entries, len(op.drafts))
	for i := range op.drafts {
		d := &op.drafts[i]
		if err := d.Prepare(); err != nil {
			return code.New(code.MessageIllegal, "%v: the message is illegal, maybe msg body or properties length not matched. msg body length limit %dB, msg properties length limit 32KB.",
				err, b.conf.Load().MaxMessageSize)
		}
		q := b.store.Queues.GetOrCreate(d.Topic, d.QueueID)
		if q == nil {
			return code.New(code.InvalidParameter, "queueId[%d] is illegal", d.QueueID)
		}
		op.entries = append(op.entries, commitlog.Entry{Draft: d, Next: &q.Next})
	}
	return b.putError(b.store.Append(op.entries, w))
}

// putError says on the wire why nothing was stored.
func (b *Broker) putError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, commitlog.ErrTooLarge):
		return code.New(code.MessageIllegal, "%v", err)
	case errors.Is(err, store.ErrBusy):
		return code.New(code.SystemBusy, "[OVERLOAD]system busy, start flow control for a while")
	case errors.Is(err, commitlog.ErrBehind):
		return code.New(code.SystemBusy, "[PC_SYNCHRONIZED]broker busy, start flow control for a while")
	}
	log, rest := b.store.DiskUsed()
	return code.New(code.ServiceNotAvailable, "service not available now. It may be caused by one of the following reasons: the broker's disk is full CL: %5.2f CQ: %5.2f INDEX: %5.2f, messages are put to the slave, message store has been shut down, etc: %v",
		float64(log)/100, float64(rest)/100, float64(rest)/100, err)
}

// checkSend makes Java's checks in Java's order and returns the topic, which it creates if that is allowed.
func (b *Broker) checkSend(r *remoting.Request, h *header.SendMessageRequest) (*body.TopicConfig, error) {
	if h.ProducerGroup == "" && h.Topic == "" { // an empty topic alone is an illegal one
		return nil, missing("producerGroup")
	}
	c := b.conf.Load()
	if c.StartAcceptSendRequestTimeStamp > 0 && b.clk.NowMs() < c.StartAcceptSendRequestTimeStamp {
		return nil, code.New(code.SystemError, "broker unable to service, until %s", time.UnixMilli(c.StartAcceptSendRequestTimeStamp).Format(time.DateTime))
	}
	topic := b.topics.get(h.Topic)
	if c.BrokerPermission&permWrite == 0 && topic != nil && topic.Order {
		return nil, code.New(code.NoPermission, "the broker[%s] sending message is forbidden", c.BrokerIP1)
	}
	if topic == nil {
		if err := validateTopic(h.Topic); err != nil {
			return nil, err
		}
	}
	if sendForbidden(h.Topic) {
		return nil, code.New(code.NoPermission, "Sending message to topic[%s] is forbidden.", h.Topic)
	}
	if topic == nil {
		if !r.OnLane() {
			return nil, b.lanes.admin.Redo()
		}
		var err error
		if topic, err = b.topics.autoCreate(h.Topic, h.DefaultTopic, h.DefaultTopicQueueNums, unitFlag(h)); err != nil {
			return nil, err
		}
		if topic == nil {
			return nil, code.New(code.TopicNotExist, "topic[%s] not exist, apply first please!%s", h.Topic, faq)
		}
	}
	if h.QueueID >= max(topic.WriteQueueNums, topic.ReadQueueNums) {
		return nil, code.New(code.InvalidParameter, "request queueId[%d] is illegal, TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%d] Producer: %s",
			h.QueueID, topic.TopicName, topic.ReadQueueNums, topic.WriteQueueNums, topic.Perm, r.Conn.RemoteAddr())
	}
	return topic, nil
}

// missing says that a request lacks a field, in the words of Java's decoder (CFNotNull).
func missing(field string) error {
	return code.New(code.SystemError, "the custom field <%s> is null", field)
}

// unitFlag is the topicSysFlag of a topic made by a send (TopicSysFlag).
func unitFlag(h *header.SendMessageRequest) int32 {
	switch {
	case !h.UnitMode.Or(false):
		return 0
	case message.IsRetryTopic(h.Topic):
		return 2
	}
	return 1
}

// peerOf is who has sent a request.
func peerOf(r *remoting.Request) netip.AddrPort {
	if a, ok := r.Conn.Peer().(*net.TCPAddr); ok {
		return message.Unmapped(a.AddrPort())
	}
	return netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
}

// bornHost is the address of the client as records store it: the peer's, or the one that a replica has forwarded a request for.
func (b *Broker) bornHost(r *remoting.Request) netip.AddrPort {
	peer := peerOf(r)
	if b.replicas == nil || !b.replicas.node.HasReplicaAt(peer.Addr()) {
		return peer
	}
	if text, ok := r.Ext(hop); ok {
		if client, err := netip.ParseAddrPort(text); err == nil && client.Addr().Zone() == "" {
			return message.Unmapped(client)
		}
	}
	return peer
}

// buildSingle makes the draft of one message.
func (b *Broker) buildSingle(op *sendOp, r *remoting.Request, h *header.SendMessageRequest, topic *body.TopicConfig) error {
	if r.Body == nil {
		return code.New(code.SystemError, "the message has no body")
	}
	if len(r.Body) > int(b.conf.Load().MaxMessageSize) {
		return code.New(code.MessageIllegal, "the message is illegal, maybe msg body or properties length not matched. msg body length limit %dB, msg properties length limit 32KB.", b.conf.Load().MaxMessageSize)
	}
	p, err := scanProps(message.Props(unsafe.Slice(unsafe.StringData(h.Properties), len(h.Properties))))
	if err != nil {
		return err
	}
	op.drafts = append(op.drafts, message.Draft{
		Topic: topic.TopicName, QueueID: h.QueueID, Flag: h.Flag, SysFlag: sysFlag(h, topic), BornTimestamp: h.BornTimestamp,
		BornHost: b.bornHost(r), StoreHost: b.storeHost, ReconsumeTimes: h.ReconsumeTimes.Or(0), Body: r.Body,
		CRC: b.conf.Load().EnabledAppendPropCRC,
	})
	d := &op.drafts[0]
	if message.IsRetryTopic(h.Topic) {
		if err := b.retrySend(r, h, d, &p); err != nil {
			return err
		}
	}
	if p.transaction && !(h.ReconsumeTimes.Or(0) > 0 && p.delay > 0) {
		return code.New(code.NoPermission, "the broker[%s] sending transaction message is forbidden", b.conf.Load().BrokerIP1)
	}
	return b.finishProps(op, d, &p)
}

// finishProps renders the property text: the client's, the broker's additions, and what a delay needs.
func (b *Broker) finishProps(op *sendOp, d *message.Draft, p *sendProps) error {
	text := []byte(p.text)
	if p.dirty {
		text = p.text.Without(nil, brokerOwned)
	}
	if p.unique == nil {
		op.uniq = b.sends.uniqueKey(op.uniq)
		op.props = append(op.props, message.PropSeparator)
		op.props = message.AppendProp(op.props, message.PropUniqueKey, op.uniq)
	} else {
		op.uniq = append(op.uniq, p.unique...)
	}
	add := b.sends.fixed.Load().suffix
	if len(op.props) > 0 {
		add = add[1:]
	}
	op.props = append(op.props, add...)
	op.kind = p.kind()
	if p.delay > 0 {
		op.props = b.delay(op.props, d, p.delay)
	} else if err := b.timer(p); err != nil {
		return err
	}
	d.Properties, d.MoreProperties = text, op.props
	if n := len(text); n == 0 || text[n-1] == message.PropSeparator {
		d.MoreProperties = op.props[1:]
	}
	return nil
}

// delay sends a message through the queue of a delay level and appends the properties that say where it goes then
// (HookUtils.transformDelayLevelMessage).
func (b *Broker) delay(props []byte, d *message.Draft, level int) []byte {
	level = min(level, b.store.MaxDelayLevel())
	props = message.AppendProp(props, message.PropRealTopic, d.Topic)
	props = message.AppendProp(props, message.PropRealQueueID, strconv.Itoa(int(d.QueueID)))
	d.Topic, d.QueueID = store.ScheduleTopic, int32(level-1)
	return props
}

// timer refuses what only a timer could deliver; a time that has passed makes an ordinary message.
func (b *Broker) timer(p *sendProps) error {
	if p.timer == nil {
		return nil
	}
	at, err := strconv.ParseInt(string(p.timer), 10, 64)
	if err != nil {
		return code.New(code.MessageIllegal, "timer message illegal, the delay time should not be negative or unparsable")
	}
	if p.timerAbsolute && at <= b.clk.NowMs() || !p.timerAbsolute && at <= 0 {
		return nil
	}
	return code.New(code.SystemError, "accurate timer message is not enabled, timerWheelEnable is false")
}

// sysFlag takes from the client what is the client's to say.
func sysFlag(h *header.SendMessageRequest, topic *body.TopicConfig) int32 {
	f := h.SysFlag &^ (message.FlagBornV6 | message.FlagStoreV6 | message.FlagNeedUnwrap | message.FlagInnerBatch | message.FlagTransactionMask)
	if topic.TopicFilterType == "MULTI_TAG" {
		f |= message.FlagMultiTags
	}
	return f
}

// sendProps is what a send needs to know of the client's properties.
type sendProps struct {
	text          message.Props
	unique        []byte
	timer         []byte
	timerAbsolute bool
	transaction   bool
	ordered       bool // has a sharding key
	dirty         bool // holds properties that the broker writes itself, or that are never stored
	delay         int
}

// kind is the type that metrics count the message under (TopicMessageType.parseFromMessageProperty).
func (p *sendProps) kind() messageKind {
	switch {
	case p.transaction:
		return kindTransaction
	case p.delay > 0 || p.timer != nil:
		return kindDelay
	case p.ordered:
		return kindFIFO
	}
	return kindNormal
}

// brokerOwned tells the properties that a client's text must not carry into the log.
func brokerOwned(name []byte) bool {
	switch string(name) {
	case message.PropPopCK, message.PropMsgRegion, message.PropTraceOn, message.PropCluster, message.PropCRC32:
		return true
	}
	return strings.HasPrefix(string(name), message.TransientPrefix)
}

// scanProps reads the text once.
func scanProps(text message.Props) (p sendProps, err error) {
	p.text = text
	text.Each(func(name, value []byte) bool {
		switch string(name) {
		case message.PropUniqueKey:
			p.unique = value
		case message.PropDelay:
			p.delay, _ = strconv.Atoi(string(value))
		case message.PropTransaction:
			p.transaction = string(value) == "true"
		case message.PropShardingKey:
			p.ordered = true
		case message.PropTimerDelaySec:
			p.timer, p.timerAbsolute = value, false
		case message.PropTimerDelayMs:
			if p.timer == nil || p.timerAbsolute {
				p.timer, p.timerAbsolute = value, false
			}
		case message.PropTimerDeliverMs:
			if p.timer == nil {
				p.timer, p.timerAbsolute = value, true
			}
		default:
			p.dirty = p.dirty || brokerOwned(name)
		}
		return true
	})
	if bytes.IndexByte(text, 0) >= 0 {
		return p, code.New(code.MessageIllegal, "the properties hold a zero byte")
	}
	return p, nil
}

// uniqueKey makes a key for a message that came without one: 32 hex digits, as clients make them.
func (p *sendPath) uniqueKey(dst []byte) []byte {
	var raw [16]byte
	copy(raw[:8], p.uniqBase[:])
	n := p.uniqNext.Add(1)
	for i := range 8 {
		raw[8+i] = byte(n >> (56 - 8*i))
	}
	return hex.AppendEncode(dst, raw[:])
}

// buildBatch makes the drafts of SEND_BATCH_MESSAGE.
func (b *Broker) buildBatch(op *sendOp, r *remoting.Request, h *header.SendMessageRequest, topic *body.TopicConfig) error {
	limit := int(b.conf.Load().MaxMessageSize)
	switch {
	case len(h.Topic) > maxTopic:
		return code.New(code.MessageIllegal, "message topic length too long %d", len(h.Topic))
	case message.IsRetryTopic(h.Topic):
		return code.New(code.MessageIllegal, "batch request does not support retry group %s", h.Topic)
	case len(r.Body) > limit:
		return code.New(code.MessageIllegal, "the batch has %d bytes, the limit is %d", len(r.Body), limit)
	}
	own, err := scanProps(message.Props(h.Properties))
	if err != nil {
		return err
	}
	if own.transaction || own.delay > 0 || h.SysFlag&message.FlagTransactionMask != 0 {
		return code.New(code.MessageIllegal, "a batch can be neither delayed nor transactional")
	}
	batch := message.Batch(r.Body)
	n, err := batch.Count()
	switch {
	case err != nil:
		return code.New(code.MessageIllegal, "%v", err)
	case n == 0:
		return code.New(code.MessageIllegal, "the batch is empty")
	}
	op.drafts = slices.Grow(op.drafts, n)
	for range n {
		item, _, _ := batch.Next()
		p, err := scanProps(item.Properties)
		if err != nil {
			return err
		}
		if p.delay > 0 || p.timer != nil || p.transaction {
			return code.New(code.MessageIllegal, "a message of a batch can be neither delayed nor transactional")
		}
		if p.dirty {
			p.text = p.text.Without(nil, brokerOwned)
		}
		op.drafts = append(op.drafts, message.Draft{
			Topic: topic.TopicName, QueueID: h.QueueID, Flag: item.Flag, SysFlag: sysFlag(h, topic), BornTimestamp: h.BornTimestamp,
			BornHost: b.bornHost(r), StoreHost: b.storeHost, ReconsumeTimes: h.ReconsumeTimes.Or(0), Body: item.Body,
			Properties: p.text, CRC: b.conf.Load().EnabledAppendPropCRC,
		})
	}
	op.uniq = append(op.uniq, own.unique...)
	return nil
}

// retrySend handles a message that a consumer sends to its retry topic itself (SendMessageProcessor.handleRetryAndDLQ): after
// its last try it goes to the dead letters at once.
func (b *Broker) retrySend(r *remoting.Request, h *header.SendMessageRequest, d *message.Draft, p *sendProps) error {
	group, _, _ := strings.Cut(strings.TrimPrefix(h.Topic, message.RetryPrefix), "+")
	cfg, err := b.group(r, group)
	if err != nil {
		return err
	}
	limit := cfg.RetryMaxTimes
	if r.Version >= versionMaxReconsume && h.MaxReconsumeTimes.Ok {
		limit = h.MaxReconsumeTimes.V
	}
	// An ordered consumer sends a message here that has failed its last time, others one that they want again. Locks tell which
	// it is, and for a group that is configured so its orderly consumption: locks may have expired.
	exhausted := d.ReconsumeTimes > limit || cfg.ConsumeMessageOrderly && d.ReconsumeTimes >= limit
	if !exhausted && !b.locks.held(group) {
		return nil
	}
	if !r.OnLane() {
		return b.lanes.admin.Redo()
	}
	dlq, err := b.topics.ensure(message.DLQPrefix+group, 1, permRead|permWrite)
	if err != nil {
		return fmt.Errorf("create the dead letter topic: %w", err)
	}
	d.Topic, d.QueueID = dlq.TopicName, 0
	b.stats.deadLettered(cfg.GroupName, string(p.text.Lookup(message.PropRetryTopic)))
	b.deadLetter(p)
	return nil
}

// versionMaxReconsume is V3_4_9: from it on clients may set their own limit of retries.
const versionMaxReconsume = 121

// deadLetter rewrites the properties of a message that goes to a dead letter topic: no delay, and where it came from.
func (b *Broker) deadLetter(p *sendProps) {
	text := p.text.Without(nil, func(name []byte) bool {
		switch string(name) {
		case message.PropDelay, message.PropDLQOriginTopic, message.PropDLQOriginID, message.PropRealTopic, message.PropRealQueueID:
			return true
		}
		return brokerOwned(name)
	})
	text = message.AppendProp(text, message.PropDelay, "-1")
	text = message.AppendProp(text, message.PropDLQOriginTopic, p.text.Lookup(message.PropRetryTopic))
	text = message.AppendProp(text, message.PropDLQOriginID, p.unique)
	p.text, p.delay, p.dirty = text, 0, false
}

// group returns the configuration of a consumer group, made on the spot if that is allowed.
func (b *Broker) group(r *remoting.Request, name string) (*body.SubscriptionGroupConfig, error) {
	if c, ok := b.store.State.Group(name); ok {
		return c, nil
	}
	if !b.conf.Load().AutoCreateSubscriptionGroup || validateGroup(name) != nil {
		return nil, code.New(code.SubscriptionGroupNotExist, "subscription group not exist, %s%s", name, faq)
	}
	if !b.leads() {
		g := defaultGroup(strings.Clone(name)) // the consumer comes to the master, too
		return &g, nil
	}
	if !r.OnLane() {
		return nil, b.lanes.admin.Redo()
	}
	return b.createGroup(name)
}
