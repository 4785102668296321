package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// read pulls and returns the code and where to go on.
func (p *peer) read(h *header.PullMessageRequest) string {
	p.b.t.Helper()
	r := p.call(code.PullMessage, h, nil)
	var resp header.PullMessageResponse
	if err := r.Decode(&resp); err != nil {
		p.b.t.Fatal(err)
	}
	return fmt.Sprintf("%s %d", code.Response(r.Code), resp.NextBeginOffset)
}

func TestBroadcastOffsets(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	p := b.client
	for i := range 10 {
		p.send("t", 0, fmt.Sprint(i))
	}
	beat := consumerBeat("direct", "g", "t")
	beat.ConsumerDataSet[0].MessageModel = body.Broadcasting
	p.beat(beat)
	direct := func(offset int64) *header.PullMessageRequest {
		h := pullRequest("g", "t", 0, offset)
		h.MaxMsgNums = 1
		return h
	}
	proxied := func(client string, offset int64) *header.PullMessageRequest {
		h := direct(offset)
		h.RequestSource, h.ProxyFrowardClientID = header.Some[int32](requestOfProxy), client
		return h
	}
	for _, step := range []struct {
		name string
		h    *header.PullMessageRequest
		want string
	}{
		{"a consumer knows where it is", direct(3), "SUCCESS 4"},
		{"a proxy does not: a young queue from its begin", proxied("new", -1), "PULL_OFFSET_MOVED 0"},
		{"and goes on", proxied("new", 0), "SUCCESS 1"},
		{"a proxy that has lost the offset", proxied("new", -1), "PULL_OFFSET_MOVED 0"},
		{"a consumer goes on", direct(4), "SUCCESS 5"},
		{"it has moved behind a proxy", proxied("direct", 0), "PULL_OFFSET_MOVED 4"},
		{"and goes on there", proxied("direct", 4), "SUCCESS 5"},
		{"further", proxied("direct", 7), "SUCCESS 8"},
		{"and back", direct(2), "PULL_OFFSET_MOVED 7"},
	} {
		if got := p.read(step.h); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
	p.read(proxied("new", 2))
	b.broadcasts.keep(clk.NowMs())
	if offset, _ := b.store.State.Offset("g@broadcast", "t", 0); offset != 2 {
		t.Errorf("committed %d, the slowest is at 2", offset)
	}
	if got := p.read(proxied("newer", -1)); got != "PULL_OFFSET_MOVED 2" {
		t.Errorf("a client that is new starts at %s", got)
	}
	clk.Advance(121 * time.Second)
	b.broadcasts.keep(clk.NowMs())
	if n := len(b.broadcasts.reads); n != 1 { // the one that is connected
		t.Errorf("%d are remembered", n)
	}
	clk.Advance(180 * time.Second)
	b.broadcasts.keep(clk.NowMs())
	if n := len(b.broadcasts.reads); n != 0 {
		t.Errorf("%d are remembered", n)
	}
}

func TestOthersAreNoBroadcastReaders(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	p.send("t", 0, "x")
	p.beat(consumerBeat("id", "g", "t"))
	p.read(pullRequest("g", "t", 0, 0))
	p.read(pullRequest("nobody", "t", 0, 0))
	if n := len(b.broadcasts.reads); n != 0 {
		t.Errorf("%d are remembered", n)
	}
}
