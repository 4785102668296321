package broker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const replies = "DefaultCluster_REPLY_TOPIC"

func replyTo(client string) *header.SendMessageRequestV2 {
	props := []string{message.PropMsgType, "reply", message.PropCorrelationID, "42", message.PropUniqueKey, "KEY"}
	if client != "" {
		props = append(props, message.PropReplyToClient, client)
	}
	return &header.SendMessageRequestV2{ProducerGroup: "repliers", Topic: replies, DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 4, BornTimestamp: 77, Flag: 5,
		Properties: propText(props...)}
}

// reply sends an answer and returns the broker's.
func (p *peer) reply(h *header.SendMessageRequestV2) (*remoting.Reply, header.SendMessageResponse) {
	p.b.t.Helper()
	r := p.call(code.SendReplyMessageV2, h, "answer")
	var resp header.SendMessageResponse
	if err := r.Decode(&resp); err != nil {
		p.b.t.Fatal(err)
	}
	return r, resp
}

func producerBeat(id string) *body.HeartbeatData {
	return &body.HeartbeatData{ClientID: id, ProducerDataSet: []body.ProducerData{{GroupName: "requesters"}}}
}

func TestReplyReachesTheRequester(t *testing.T) {
	b := startBroker(t, nil)
	requester, replier := b.connect(), b.connect()
	requester.beat(producerBeat("asker"))
	r, resp := replier.reply(replyTo("asker"))
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	got := <-requester.pushed
	if got.code != code.PushReplyMessageToClient || got.body != "answer" || got.ext("topic") != replies || got.ext("storeHost") != b.Addr() || got.ext("bornHost") == "" {
		t.Errorf("pushed %s %q", got.code, got.body)
	}
	props := message.Props(got.ext("properties")).Map()
	at := props[message.PropPushReplyTime]
	delete(props, message.PropPushReplyTime)
	want := map[string]string{message.PropMsgType: "reply", message.PropCorrelationID: "42", message.PropUniqueKey: "KEY", message.PropReplyToClient: "asker",
		message.PropMsgRegion: "DefaultRegion", message.PropTraceOn: "true"}
	if diff := cmp.Diff(want, props); diff != "" || at == "" {
		t.Error(diff, at)
	}
	stored := b.last(replies, 0)
	if resp.MsgID != offsetID(&stored) || resp.QueueOffset != 0 || string(stored.Body()) != "answer" || stored.Flag() != 5 || resp.MsgRegion != "DefaultRegion" {
		t.Errorf("%+v", resp)
	}
}

func TestReplyThatDoesNotGetThere(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	for client, remark := range map[string]string{
		"":       "reply message properties[REPLY_TO_CLIENT] is null",
		"nobody": "push reply message fail, channel of <nobody> not found.",
	} {
		before := len(b.all(replies, 0))
		r, resp := p.reply(replyTo(client))
		if code.Response(r.Code) != code.SystemError || string(r.Remark) != remark {
			t.Errorf("%q: %s %q", client, code.Response(r.Code), r.Remark)
		}
		if len(b.all(replies, 0)) != before+1 || resp.QueueOffset != int64(before) {
			t.Errorf("%q: the reply is not stored", client)
		}
	}
	p.refused(code.SendReplyMessageV2, &header.SendMessageRequestV2{Topic: halfTopic, DefaultTopic: autoCreateKey}, "x", code.NoPermission, "forbidden")
}

func TestReplyIsNotStored(t *testing.T) {
	b := startBroker(t, map[string]string{"storeReplyMessageEnable": "false"})
	requester := b.connect()
	requester.beat(producerBeat("asker"))
	r, resp := b.client.reply(replyTo("asker"))
	if err := r.Err(); err != nil || resp.MsgID != "0" || len(b.all(replies, 0)) != 0 {
		t.Errorf("%v %+v", err, resp)
	}
}

// silent is a client that does not answer what the broker pushes.
type silent struct{ got chan struct{} }

func (s silent) Opened(*remoting.Conn)    {}
func (s silent) BurstEnd()                {}
func (s silent) Answered(remoting.Answer) {}
func (s silent) Closed(*remoting.Conn)    {}
func (s silent) Serve(r *remoting.Request) {
	r.Park()
	s.got <- struct{}{}
}

func TestReplyToASilentRequester(t *testing.T) {
	for _, how := range []string{"times out", "disconnects"} {
		t.Run(how, func(t *testing.T) {
			clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
			b := startBrokerAt(t, clk, nil)
			h := silent{make(chan struct{}, 1)}
			requester := &peer{Client: remoting.NewClient(h, nil), b: b}
			defer requester.Close()
			requester.beat(producerBeat("asker"))
			done := make(chan *remoting.Reply, 1)
			go func() {
				r, _ := b.client.reply(replyTo("asker"))
				done <- r
			}()
			<-h.got
			if how == "disconnects" {
				requester.Close()
			}
			for {
				select {
				case r := <-done:
					if code.Response(r.Code) != code.SystemError || string(r.Remark) != "push reply message to askerfail." {
						t.Errorf("%s %q", code.Response(r.Code), r.Remark)
					}
					return
				case <-time.After(time.Millisecond):
					clk.Advance(100 * time.Millisecond)
				}
			}
		})
	}
}
