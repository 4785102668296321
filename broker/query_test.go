package broker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// collides is a key with the index hash of the key "BB" in the same topic: String.hashCode of "Aa" is that of "BB".
const collides = "Aa"

func TestQueryByKey(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	p := b.client
	start := clk.NowMs()
	sent := func(topic, body, keys, unique string) {
		p.send(topic, 0, body, message.PropKeys, keys, message.PropUniqueKey, unique)
		clk.Advance(100 * time.Millisecond)
	}
	sent("t", "0", "BB other", "U0")
	sent("t", "1", collides, "U1")
	sent("other", "2", "BB", "U2")
	sent("t", "3", "x BB BB", "U3")
	sent("t", "4", "", "BB")
	for _, tt := range []struct {
		name       string
		h          header.QueryMessageRequest
		begin, end int64 // after the start, in ms
		want       []string
	}{
		{"a key, oldest first", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 10}, 0, 1000, []string{"0", "3", "4"}},
		{"the other of two with one hash", header.QueryMessageRequest{Topic: "t", Key: collides, MaxNum: 10, IndexType: "K", LastKey: "page"}, 0, 1000, []string{"1"}},
		{"another topic", header.QueryMessageRequest{Topic: "other", Key: "BB", MaxNum: 10}, 0, 1000, []string{"2"}},
		{"from a millisecond on", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 10}, 300, 1000, []string{"3", "4"}},
		{"after it", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 10}, 301, 1000, []string{"4"}},
		{"up to a millisecond", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 10}, 0, 300, []string{"0", "3"}},
		{"before it", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 10}, 0, 299, []string{"0"}},
		{"the newest two", header.QueryMessageRequest{Topic: "t", Key: "BB", MaxNum: 2}, 0, 1000, []string{"3", "4"}},
		{"no number", header.QueryMessageRequest{Topic: "t", Key: "BB"}, 0, 1000, []string{"0", "3", "4"}},
		{"by unique key", header.QueryMessageRequest{Topic: "t", Key: "U3", MaxNum: 1, UniqueKeyQuery: header.Some(true), IndexType: "U"}, 0, 1000, []string{"3"}},
	} {
		tt.h.BeginTimestamp, tt.h.EndTimestamp = start+tt.begin, start+tt.end
		r := p.ok(code.QueryMessage, &tt.h, nil)
		if diff := cmp.Diff(tt.want, bodies(p.records(r.Body))); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		var resp header.QueryMessageResponse
		if err := r.Decode(&resp); err != nil || resp.IndexLastUpdateTimestamp == 0 || resp.IndexLastUpdatePhyoffset == 0 {
			t.Errorf("%s: %+v %v", tt.name, resp, err)
		}
	}
	none := header.QueryMessageRequest{Topic: "t", Key: "none", MaxNum: 1, EndTimestamp: math.MaxInt64}
	p.refused(code.QueryMessage, &none, nil, code.QueryNotFound, "can not find message, maybe time range not correct")
}

func TestQueryLimits(t *testing.T) {
	b := startBroker(t, map[string]string{"maxMsgsNumBatch": "5", "defaultQueryMaxNum": "3"})
	p := b.client
	for i := range 10 {
		p.send("t", 0, fmt.Sprint(i), message.PropKeys, "k")
	}
	h := header.QueryMessageRequest{Topic: "t", Key: "k", MaxNum: 100, EndTimestamp: math.MaxInt64}
	if got := len(p.records(p.ok(code.QueryMessage, &h, nil).Body)); got != 5 {
		t.Errorf("%d messages", got)
	}
	h.UniqueKeyQuery = header.Some(true)
	if got := len(p.records(p.ok(code.QueryMessage, &h, nil).Body)); got != 3 {
		t.Errorf("%d messages", got)
	}
}

func TestQueryAnswersAreSmallEnoughForAFrame(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	large := make([]byte, 1<<20)
	for range 10 {
		p.send("t", 1, string(large), message.PropKeys, "large")
	}
	h := header.QueryMessageRequest{Topic: "t", Key: "large", MaxNum: 100, EndTimestamp: math.MaxInt64}
	if got := len(p.ok(code.QueryMessage, &h, nil).Body); got > maxQueryBytes || got < maxQueryBytes-2<<20 {
		t.Errorf("%d bytes", got)
	}
}

func TestQueryWithoutAnIndex(t *testing.T) {
	b := startBroker(t, map[string]string{"messageIndexEnable": "false"})
	b.client.send("t", 0, "x", message.PropKeys, "k")
	h := header.QueryMessageRequest{Topic: "t", Key: "k", MaxNum: 1, EndTimestamp: math.MaxInt64}
	b.client.refused(code.QueryMessage, &h, nil, code.QueryNotFound, "")
}

func TestViewMessage(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	_, phy, err := message.ParseID(p.send("t", 0, "body").MsgID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"body"}, bodies(p.records(p.ok(code.ViewMessageByID, &header.ViewMessageRequest{Offset: phy, Topic: "t"}, nil).Body))); diff != "" {
		t.Error(diff)
	}
	for _, at := range []int64{-1, 0, phy + 1, phy - 4, b.store.Log.End(), math.MaxInt64} { // 0 is a record of the broker's own
		p.refused(code.ViewMessageByID, &header.ViewMessageRequest{Offset: at}, nil, code.SystemError, fmt.Sprintf("can not find message by the offset, %d", at))
	}
}
