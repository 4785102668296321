package robust

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// crowd opens n connections to an address.
func crowd(t *testing.T, addr string, n int) []*net.TCPConn {
	t.Helper()
	var all []*net.TCPConn
	for range n {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("after %d connections: %v", len(all), err)
		}
		all = append(all, nc.(*net.TCPConn))
	}
	t.Cleanup(func() { disperse(all) })
	return all
}

func disperse(all []*net.TCPConn) {
	for _, nc := range all {
		_ = nc.SetLinger(0) // no thousands of sockets in TIME_WAIT
		_ = nc.Close()
	}
}

// TestIdleConnections: thousands of connections that have said something, and thousands that have not, cost little and disturb
// nobody.
func TestIdleConnections(t *testing.T) {
	c := start(t, nil)
	n := size(3000, 1000)
	disperse(crowd(t, c.addr(), n)) // what is made once and kept
	for what, say := range map[string][]byte{
		"silent":                         nil,
		"with half a length":             {0, 0},
		"with half a frame":              request(header.JSON, 9999, 1, nil, make([]byte, 1000))[:600],
		"that have asked one question":   request(header.JSON, 9999, 1, nil, nil),
		"with a kilobyte of a big frame": append(binary.BigEndian.AppendUint32(nil, 16<<20-4), make([]byte, 1020)...),
	} {
		before := heap()
		var all []*net.TCPConn
		c.once(20, func() {
			all = crowd(t, c.addr(), n)
			for _, nc := range all {
				if _, err := nc.Write(say); err != nil {
					t.Fatal(err)
				}
			}
		})
		// Go's own side of the connections is counted, too.
		grew(t, fmt.Sprintf("%d connections %s", n, what), before, int64(n)*24<<10)
		disperse(all)
	}
	c.checkAll()
}

// TestPartialFrames: frames that are announced and sent all but for their last byte are held; a connection that does not end its
// frame is closed after the idle timeout although bytes arrive.
func TestPartialFrames(t *testing.T) {
	c := start(t, map[string]string{"serverChannelMaxIdleTimeSeconds": "1"})
	slow := crowd(t, c.addr(), size(200, 50))
	frame := request(header.JSON, 9999, 1, nil, make([]byte, 100_000))
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	c.while(20, func() {
		closed := 0
		for i := 0; closed < len(slow); i++ {
			closed = 0
			for _, nc := range slow {
				if _, err := nc.Write(frame[i : i+1]); err != nil {
					closed++
				}
			}
			if i > 200 {
				t.Errorf("of %d connections that send a byte every 50 ms %d are still open after 10 s", len(slow), len(slow)-closed)
				return
			}
			<-tick.C
		}
	})
	c.checkAll()
}

// TestMemoryOfPartialFrames: what a peer has sent of a frame is kept until it ends; all peers together may not fill the memory.
func TestMemoryOfPartialFrames(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a gigabyte; package remoting tests the same with a smaller limit")
	}
	c := start(t, nil)
	before := heap()
	const n = 60
	part := append(binary.BigEndian.AppendUint32(nil, 16<<20-4), make([]byte, 15<<20)...)
	var wg sync.WaitGroup
	all := crowd(t, c.addr(), n)
	c.once(20, func() {
		for _, nc := range all {
			wg.Go(func() {
				_ = nc.SetWriteDeadline(time.Now().Add(5 * time.Second)) // one that is closed may go on waiting for room
				_, _ = nc.Write(part)
			})
		}
		wg.Wait()
	})
	grew(t, fmt.Sprintf("%d frames of 15 of 16 MiB", n), before, maxPartial)
	disperse(all)
	until(t, "the memory is free again", func() bool { return heap()-before < 32<<20 })
	c.checkAll()
}

// maxPartial is what incomplete frames of all peers may hold, and a quarter for buffers that grow.
const maxPartial = 640 << 20

// TestConnectStorms: connections that come and go at once, in order and by reset.
func TestConnectStorms(t *testing.T) {
	c := start(t, nil)
	before := heap()
	question := request(header.JSON, 9999, 1, nil, nil)
	c.while(50, func() {
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range size(300, 50) {
					nc, err := net.Dial("tcp", c.addr())
					if err != nil {
						t.Error(err)
						return
					}
					if i%3 > 0 {
						_, _ = nc.Write(question[:len(question)*(i%3)/2])
					}
					if (w+i)%2 == 0 {
						_ = nc.(*net.TCPConn).SetLinger(0)
					}
					_ = nc.Close()
				}
			})
		}
		wg.Wait()
	})
	until(t, "the memory is free again", func() bool { return heap()-before < 8<<20 })
	c.checkAll()
}

// TestDeafConsumers: connections that pull big messages, thousands of requests deep, and never read an answer.
func TestDeafConsumers(t *testing.T) {
	c := start(t, nil)
	for range 4 {
		if _, err := c.send(victim, 0, bytes.Repeat([]byte("x"), 4<<20)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 32 {
		if _, err := c.send(victim, 1, bytes.Repeat([]byte{byte(i)}, 8<<10)); err != nil {
			t.Fatal(err)
		}
	}
	// The first pulls make their group, on a lane: answers come from there and from the connections' own readers.
	n := size(32, 8)
	before := heap()
	var all []*net.TCPConn
	c.once(20, func() {
		all = crowd(t, c.addr(), n)
		var wg sync.WaitGroup
		for i, nc := range all {
			wg.Go(func() {
				_ = nc.SetWriteDeadline(time.Now().Add(2 * time.Second))
				for j := range int32(10_000) {
					if _, err := nc.Write(request(header.Binary, int32(code.PullMessage), j, pullHeader(victim, int32(i%2), 0), nil)); err != nil {
						return // it does not take more
					}
				}
			})
		}
		wg.Wait()
	})
	// A deaf peer may hold 256 KiB of answers, one answer more, the kernel's copy, and its own requests.
	grew(t, fmt.Sprintf("%d deaf consumers", n), before, int64(n)*24<<20)
	disperse(all)
	until(t, "the memory is free again", func() bool { return heap()-before < 48<<20 })
	c.checkAll()
}

// TestHeldPullsAllWake: many pulls held on one queue; a big message wakes them all, and nobody reads the answers.
func TestHeldPullsAllWake(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	n := size(16, 8)
	all := crowd(t, c.addr(), n)
	before := heap()
	h := pullHeader(victim, 0, 1)
	h.SysFlag, h.SuspendTimeoutMillis = 6, 60_000
	for _, nc := range all {
		var burst []byte
		for j := range int32(1000) {
			burst = append(burst, request(header.Binary, int32(code.PullMessage), j, h, nil)...)
		}
		if _, err := nc.Write(burst); err != nil {
			t.Fatal(err)
		}
	}
	c.once(20, func() {
		if _, err := c.send(victim, 0, bytes.Repeat([]byte("x"), 4<<20)); err != nil {
			t.Error(err)
		}
	})
	grew(t, fmt.Sprintf("%d held pulls woken by 4 MiB", n*1000), before, int64(n)*80<<20)
	disperse(all)
	until(t, "the memory is free again", func() bool { return heap()-before < 64<<20 })
	c.checkAll()
}

// TestDeepPipelines: 10,000 requests before the first answer is read: each is answered once.
func TestDeepPipelines(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	before := heap()
	c.while(20, func() {
		for _, rc := range []code.Request{code.SendMessage, code.PullMessage, code.GetMaxOffset, code.SearchOffsetByTimestamp} {
			p := dial(t, c.addr())
			var all []byte
			for i := range int32(n) {
				var h header.Appender = pullHeader(victim, 0, 0)
				var b []byte
				switch rc {
				case code.SendMessage:
					h, b = sendHeader(victim, 2, ""), []byte("deep")
				case code.GetMaxOffset:
					h = &header.GetMaxOffsetRequest{Topic: victim}
				case code.SearchOffsetByTimestamp:
					h = &header.SearchOffsetRequest{Topic: victim, Timestamp: 1}
				}
				all = append(all, request(both[i%2], int32(rc), i, h, b)...)
			}
			go p.write(all)
			seen := make([]bool, n)
			for range n {
				cmd := p.mustReply()
				if seen[cmd.Opaque] {
					t.Fatalf("%s: %d was answered twice", rc, cmd.Opaque)
				}
				seen[cmd.Opaque] = true
				if got := code.Response(cmd.Code); got != code.Success && got != code.SystemBusy {
					t.Fatalf("%s: %s %q", rc, got, cmd.Remark)
				}
			}
			p.close()
		}
	})
	grew(t, "after deep pipelines", before, 24<<20)
	c.checkAll()
}

// TestOnewayFloods: requests that want no answer get none, whatever becomes of them.
func TestOnewayFloods(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	const n = 20_000
	rounds := int64(0)
	c.while(20, func() {
		p := dial(t, c.addr())
		var all []byte
		for i := range n {
			switch i % 5 {
			case 0:
				all = append(all, oneway(header.JSON, 9999, nil, nil)...)
			case 1:
				all = append(all, oneway(header.Binary, int32(code.SendMessage), sendHeader(victim, 3, ""), []byte("oneway"))...)
			case 2:
				all = append(all, oneway(header.JSON, int32(code.SendMessage), sendHeader("bad name", 0, ""), []byte("x"))...)
			case 3:
				all = append(all, oneway(header.JSON, int32(code.SearchOffsetByTimestamp), fields{"topic", victim, "timestamp", "x"}, nil)...)
			case 4:
				all = append(all, oneway(header.JSON, int32(code.HeartBeat), nil, []byte("garbage"))...)
			}
		}
		all = append(all, request(header.JSON, 9999, 77, nil, nil)...)
		go p.write(all)
		if cmd := p.mustReply(); cmd.Opaque != 77 {
			t.Errorf("a request that wants no answer was answered %d %q", cmd.Code, cmd.Remark)
		}
		p.close()
		rounds++
	})
	grew(t, "after oneway floods", before, 24<<20)
	if got := maxOffset(c, victim, 3); got != rounds*n/5 {
		t.Errorf("%d of %d oneway messages were stored", got, rounds*n/5)
	}
	c.checkAll()
}

// TestQuestionsToASlowConsumer: tools have a consumer answer questions through the broker. Who asks all the time for big messages
// to be consumed does not cost the consumer its connection.
func TestQuestionsToASlowConsumer(t *testing.T) {
	c := start(t, nil)
	big, err := c.send(victim, 0, make([]byte, 4<<20))
	if err != nil {
		t.Fatal(err)
	}
	consumer := dial(t, c.addr())
	consumer.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&body.HeartbeatData{ClientID: "slow", ConsumerDataSet: []body.ConsumerData{{GroupName: group, ConsumeType: body.ConsumePassively, MessageModel: body.Clustering}}}))
	question := &header.ConsumeMessageDirectlyResultRequest{ConsumerGroup: group, ClientID: "slow", MsgID: big.id}
	p := dial(t, c.addr())
	before := heap()
	const n = 200
	c.once(20, func() {
		for i := range int32(n) {
			p.write(remoting.AppendCommand(nil, &remoting.Command{Code: int32(code.ConsumeMessageDirectly), Opaque: i}, question, nil))
		}
		busy := 0
		for range n - 8 { // eight wait for the consumer
			if cmd := p.mustReply(); code.Response(cmd.Code) == code.SystemBusy {
				busy++
			}
		}
		if busy != n-8 {
			t.Errorf("%d of %d questions were refused", busy, n)
		}
	})
	grew(t, "with questions that nobody answers", before, 96<<20)
	consumer.alive("the consumer's connection")
	p.close()
	consumer.close()
	c.checkAll()
}
