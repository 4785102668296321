package broker

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/race"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// burst is what a client writes at once, and how to read the answers without allocating.
type burst struct {
	nc     net.Conn
	frames []byte
	count  int
	buf    []byte
}

func (b *burst) run(t testing.TB) {
	if _, err := b.nc.Write(b.frames); err != nil {
		t.Fatal(err)
	}
	for range b.count {
		if _, err := io.ReadFull(b.nc, b.buf[:4]); err != nil {
			t.Fatal(err)
		}
		n := int(binary.BigEndian.Uint32(b.buf))
		if _, err := io.ReadFull(b.nc, b.buf[:n]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoAllocationsPerMessage sends bursts of messages and pulls them again over a real connection: in the steady state nothing
// is allocated per message. What is left per burst comes from the background (timers, flushes).
func TestNoAllocationsPerMessage(t *testing.T) {
	if testing.Short() && race.Enabled {
		t.Skip("the race detector allocates")
	}
	cfg, _, err := conf.Load[conf.Broker]("", map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
		"brokerIP2": "127.0.0.1", "brokerName": "b", "storePathRootDir": t.TempDir(), "mappedFileSizeCommitLog": strconv.Itoa(256 << 20)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(cfg, Options{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go("broker", b.Run)
	defer func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}()
	const n = 64
	send := header.SendMessageRequestV2{ProducerGroup: "p", Topic: "BenchmarkTest", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 3, BornTimestamp: 1,
		Properties: "UNIQ_KEY\x017F0000010001ABCDEF0123456789ABCD\x02WAIT\x01true\x02TAGS\x01A\x02"}
	pull := header.PullMessageRequest{ConsumerGroup: "CID_ONSAPI_PULL", Topic: "BenchmarkTest", QueueID: 3, MaxMsgNums: 32, SysFlag: pullSubscription, Subscription: "*", ExpressionType: "TAG"}
	for _, enc := range []header.Encoding{header.JSON, header.Binary} {
		for _, c := range []struct {
			name string
			rc   code.Request
			h    header.Appender
			body []byte
			per  float64 // messages per burst
		}{
			{"send", code.SendMessageV2, &send, make([]byte, 1024), n},
			{"pull", code.PullMessage, &pull, nil, n * 32},
		} {
			nc, err := net.Dial("tcp", b.Addr())
			if err != nil {
				t.Fatal(err)
			}
			bu := &burst{nc: nc, count: n, buf: make([]byte, 1<<20)}
			for i := range int32(n) {
				bu.frames = remoting.AppendCommand(bu.frames, &remoting.Command{Code: int32(c.rc), Opaque: i, Enc: enc}, c.h, c.body)
			}
			for range 50 {
				bu.run(t)
			}
			per := testing.AllocsPerRun(200, func() { bu.run(t) }) / c.per
			t.Logf("%s, encoding %d: %.4f allocations per message", c.name, enc, per)
			if per > 0.1 {
				t.Errorf("%s, encoding %d: %.3f allocations per message", c.name, enc, per)
			}
			_ = nc.Close()
		}
	}
}
