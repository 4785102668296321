package bench

import (
	"context"
	"net/netip"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fakeBroker is a name server and a broker that keeps messages in memory. The hooks let a test make it wrong.
type fakeBroker struct {
	addr string

	mu     sync.Mutex
	onPut  func(h *header.SendMessageResponse) error // before a send is answered
	onGet  func(record []byte)                       // before a record is sent to a consumer
	queues map[string][][][]byte                     // topic → queue → records
	phy    int64
	parked []parkedPull
}

type parkedPull struct {
	ticket remoting.Ticket
	h      header.PullMessageRequest
}

func startFake(t *testing.T) *fakeBroker {
	t.Helper()
	b := &fakeBroker{queues: map[string][][][]byte{}}
	router := remoting.NewRouter(zap.NewNop(), []remoting.Route{
		{Code: code.GetBrokerClusterInfo, Serve: b.clusterInfo},
		{Code: code.UpdateAndCreateTopic, Serve: remoting.On(b.createTopic)},
		{Code: code.SendMessageV2, Serve: remoting.On(b.send)},
		{Code: code.PullMessage, Serve: remoting.On(b.pull)},
		{Code: code.GetMinOffset, Serve: remoting.On(func(r *remoting.Request, _ *header.GetMinOffsetRequest) error {
			return r.OK(&header.GetMinOffsetResponse{}, nil)
		})},
		{Code: code.GetMaxOffset, Serve: remoting.On(func(r *remoting.Request, h *header.GetMaxOffsetRequest) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return r.OK(&header.GetMaxOffsetResponse{Offset: int64(len(b.queues[h.Topic][h.QueueID]))}, nil)
		})},
	})
	srv, err := remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0", Loop: "std"}, router, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	b.addr = srv.Addr().String()
	g := lifecycle.New(context.Background())
	g.Go("server", srv.Run)
	t.Cleanup(func() { _ = g.Stop() })
	return b
}

func (b *fakeBroker) hook(onPut func(h *header.SendMessageResponse) error, onGet func(record []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onPut, b.onGet = onPut, onGet
}

// stored returns how many messages a topic holds.
func (b *fakeBroker) stored(topic string) (count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.queues[topic] {
		count += len(q)
	}
	return count
}

// target returns a target for the fake, closed at the end of the test.
func (b *fakeBroker) target(t *testing.T) *target {
	t.Helper()
	to, err := newTarget(t.Context(), clock.Real{}, b.addr, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(to.client.Close)
	return to
}

func (b *fakeBroker) clusterInfo(r *remoting.Request) error {
	return r.OK(nil, fastjson.Marshal(&body.ClusterInfo{BrokerAddrTable: map[string]body.BrokerData{
		"broker-a": {BrokerName: "broker-a", BrokerAddrs: map[int64]string{0: b.addr}},
		"broker-b": {BrokerName: "broker-b", BrokerAddrs: map[int64]string{0: "127.0.0.1:1"}},
		"a-slave":  {BrokerName: "a-slave", BrokerAddrs: map[int64]string{1: "127.0.0.1:1"}},
	}}))
}

func (b *fakeBroker) createTopic(r *remoting.Request, h *header.CreateTopicRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues[h.Topic] = make([][][]byte, h.WriteQueueNums)
	return r.OK(nil, nil)
}

func (b *fakeBroker) send(r *remoting.Request, h *header.SendMessageRequest) error {
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	b.mu.Lock()
	defer b.mu.Unlock()
	queues := b.queues[h.Topic]
	if int(h.QueueID) >= len(queues) {
		return code.New(code.TopicNotExist, "no queue %d of %s", h.QueueID, h.Topic)
	}
	offset := int64(len(queues[h.QueueID]))
	answer := header.SendMessageResponse{
		MsgID: string(message.AppendID(nil, host, b.phy)), QueueID: h.QueueID, QueueOffset: offset,
		TransactionID: "7F000001CA5708B20E2F000000000001",
	}
	if b.onPut != nil {
		if err := b.onPut(&answer); err != nil {
			return err
		}
	}
	d := message.Draft{
		Topic: h.Topic, QueueID: h.QueueID, BornTimestamp: h.BornTimestamp, BornHost: host, StoreHost: host,
		Body: r.Body, Properties: []byte(h.Properties),
	}
	if err := d.Prepare(); err != nil {
		return err
	}
	record := d.Encode(nil, offset, b.phy, h.BornTimestamp)
	b.phy += int64(len(record))
	queues[h.QueueID] = append(queues[h.QueueID], record)
	for _, p := range b.parked {
		h, batch := b.read(&p.h)
		p.ticket.Reply(code.Success, "", h, remoting.Bytes(batch))
	}
	b.parked = nil
	return r.OK(&answer, nil)
}

func (b *fakeBroker) pull(r *remoting.Request, h *header.PullMessageRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	answer, batch := b.read(h)
	switch {
	case len(batch) > 0:
		return r.OK(answer, batch)
	case h.SysFlag&pullSuspend != 0:
		own := *h
		own.Topic = string([]byte(h.Topic))
		b.parked = append(b.parked, parkedPull{r.Park(), own})
		return nil
	}
	r.Reply(code.PullNotFound, "", answer, nil)
	return nil
}

func (b *fakeBroker) read(h *header.PullMessageRequest) (*header.PullMessageResponse, []byte) {
	queue := b.queues[h.Topic][h.QueueID]
	from := min(h.QueueOffset, int64(len(queue)))
	to := min(from+int64(h.MaxMsgNums), int64(len(queue)))
	var batch []byte
	for _, record := range queue[from:to] {
		at := len(batch)
		batch = append(batch, record...)
		if b.onGet != nil {
			b.onGet(batch[at:])
		}
	}
	return &header.PullMessageResponse{NextBeginOffset: to, MaxOffset: int64(len(queue))}, batch
}
