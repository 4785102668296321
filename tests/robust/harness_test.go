package robust

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait"), // they serve the process
		goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(built) // the program, if a test has built it
			os.Exit(code)
		}))
}

// patience bounds every wait of these tests: only a server that has stopped answering uses it up.
const patience = 60 * time.Second

// Names that tests share.
const (
	autoKey = "TBW102"
	victim  = "Victim" // the topic of hostile sends that are legal
	group   = "readers"
)

// cluster is a name server and a broker in this process.
type cluster struct {
	t    testing.TB
	dir  string
	keys map[string]string
	fs   vfs.FS
	logs *observer.ObservedLogs // errors

	names   *namesrv.Server
	broker  *broker.Broker
	address string // of the broker
	client  *remoting.Client

	ng, bg *lifecycle.Group
	sent   ledger
}

// start runs a cluster until the test ends. keys go on top of the broker's usual ones.
func start(t testing.TB, keys map[string]string) *cluster {
	return startOn(t, vfs.OS{}, t.TempDir(), keys)
}

func startOn(t testing.TB, fs vfs.FS, dir string, keys map[string]string) *cluster {
	t.Helper()
	c := &cluster{t: t, fs: fs, dir: dir, client: remoting.NewClient(nil, nil)}
	t.Cleanup(c.client.Close)
	core, logs := observer.New(zap.ErrorLevel)
	c.logs = logs
	nc, _, err := conf.Load[conf.Namesrv]("", map[string]string{"listenPort": "0", "bindAddress": "127.0.0.1",
		"kvConfigPath": filepath.Join(t.TempDir(), "kv.json"), "configStorePath": filepath.Join(t.TempDir(), "namesrv.properties")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.names, err = namesrv.New(nc, namesrv.Options{Log: zap.New(core), Clock: clock.Real{}, FS: vfs.OS{}}); err != nil {
		t.Fatal(err)
	}
	c.ng = lifecycle.New(context.Background())
	c.ng.Go("name server", c.names.Run)
	c.keys = map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
		"brokerName": "b", "namesrvAddr": c.names.Addr().String(), "storePathRootDir": filepath.Join(dir, "store"), "mappedFileSizeCommitLog": "67108864",
		"mappedFileSizeConsumeQueue": "200000", "maxHashSlotNum": "10000", "maxIndexNum": "40000", "enablePropertyFilter": "true"}
	maps.Copy(c.keys, keys)
	c.startBroker()
	t.Cleanup(func() {
		c.stopBroker()
		if err := c.ng.Stop(); err != nil {
			t.Error(err)
		}
		c.checkLogs()
	})
	return c
}

func (c *cluster) startBroker() {
	c.t.Helper()
	cfg, _, err := conf.Load[conf.Broker]("", c.keys, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	core, logs := observer.New(zap.ErrorLevel)
	c.checkLogs()
	c.logs = logs
	if c.broker, err = broker.New(cfg, broker.Options{Log: zap.New(core), FS: c.fs}); err != nil {
		c.t.Fatal(err)
	}
	c.address = c.broker.Addr()
	c.bg = lifecycle.New(context.Background())
	c.bg.Go("broker", c.broker.Run)
}

func (c *cluster) stopBroker() {
	if c.bg == nil {
		return
	}
	if err := c.bg.Stop(); err != nil {
		c.t.Errorf("the broker did not stop cleanly: %v", err)
	}
	c.bg = nil
}

// restart stops the broker in order and starts it again on the same store.
func (c *cluster) restart() {
	c.t.Helper()
	c.stopBroker()
	c.startBroker()
}

// checkLogs fails the test if a handler panicked or forgot to answer (R2).
func (c *cluster) checkLogs() {
	if c.logs == nil {
		return
	}
	for _, e := range c.logs.All() {
		switch e.Message {
		case "handler panicked", "handler did not answer", "handler failed after its answer":
			c.t.Errorf("%s: %v", e.Message, e.ContextMap())
		}
	}
}

func (c *cluster) addr() string { return c.address }

// call sends a request of a well-behaved client.
func (c *cluster) call(rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.client.Call(ctx, c.addr(), rc, h, body)
}

// must is call for an answer that has to come.
func (c *cluster) must(rc code.Request, h header.Appender, body []byte) *remoting.Reply {
	c.t.Helper()
	r, err := c.call(rc, h, body)
	if err != nil {
		c.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// want checks the code of an answer.
func (c *cluster) want(want code.Response, rc code.Request, h header.Appender, body []byte) *remoting.Reply {
	c.t.Helper()
	r := c.must(rc, h, body)
	if code.Response(r.Code) != want {
		c.t.Errorf("%s was answered %s %.200q, want %s", rc, code.Response(r.Code), r.Remark, want)
	}
	return r
}

// sendHeader is a plain send.
func sendHeader(topic string, queue int32, props string) *header.SendMessageRequest {
	return &header.SendMessageRequest{ProducerGroup: "producers", Topic: topic, DefaultTopic: autoKey, DefaultTopicQueueNums: 4, QueueID: queue,
		BornTimestamp: 1, Properties: props}
}

// pullHeader reads everything of a queue from offset on, without waiting.
func pullHeader(topic string, queue int32, offset int64) *header.PullMessageRequest {
	return &header.PullMessageRequest{ConsumerGroup: group, Topic: topic, QueueID: queue, QueueOffset: offset, MaxMsgNums: 32, SysFlag: 4,
		Subscription: "*", ExpressionType: "TAG"}
}

// receipt is one acknowledged message.
type receipt struct {
	topic  string
	queue  int32
	offset int64
	body   []byte
	phy    int64 // in the log
	id     string
}

// ledger holds what was acknowledged.
type ledger struct {
	mu   sync.Mutex
	list []receipt
}

func (l *ledger) add(r receipt) {
	l.mu.Lock()
	l.list = append(l.list, r)
	l.mu.Unlock()
}

func (l *ledger) all() []receipt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]receipt(nil), l.list...)
}

// send stores a message, which must succeed, and notes it.
func (c *cluster) send(topic string, queue int32, body []byte) (receipt, error) {
	r, err := c.call(code.SendMessage, sendHeader(topic, queue, ""), body)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return receipt{}, fmt.Errorf("send: %w", err)
	}
	var sent header.SendMessageResponse
	if err := r.Decode(&sent); err != nil {
		return receipt{}, err
	}
	_, phy, err := message.ParseID(sent.MsgID)
	if err != nil {
		return receipt{}, err
	}
	got := receipt{topic, sent.QueueID, sent.QueueOffset, body, phy, sent.MsgID}
	c.sent.add(got)
	return got, nil
}

// read pulls one message back and compares it.
func (c *cluster) read(want receipt) error {
	r, err := c.call(code.PullMessage, pullHeader(want.topic, want.queue, want.offset), nil)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		return fmt.Errorf("pull %s-%d from %d: %w", want.topic, want.queue, want.offset, err)
	}
	var v message.View
	if err := v.Parse(r.Body); err != nil {
		return err
	}
	if v.QueueOffset() != want.offset || !bytes.Equal(v.Body(), want.body) {
		return fmt.Errorf("%s-%d at %d: got %.40q at %d, want %.40q", want.topic, want.queue, want.offset, v.Body(), v.QueueOffset(), want.body)
	}
	return nil
}

// checkAll reads every acknowledged message, restarts the broker and reads them again (R5).
func (c *cluster) checkAll() {
	c.t.Helper()
	for _, when := range []string{"after the attack", "after a restart"} {
		for _, r := range c.sent.all() {
			if err := c.read(r); err != nil {
				c.t.Fatalf("%s: %v", when, err)
			}
		}
		if when == "after the attack" {
			c.restart()
		}
	}
}

// once is while for an attack that is run once.
func (c *cluster) once(rounds int, attack func()) {
	c.t.Helper()
	over := false
	c.while(rounds, func() {
		if over {
			time.Sleep(time.Millisecond) // the well-behaved client has not had its rounds yet
			return
		}
		attack()
		over = true
	})
}

// while runs attack, again and again if it is short, until a well-behaved client has sent and read rounds messages meanwhile,
// each of which must succeed (R4).
func (c *cluster) while(rounds int, attack func()) {
	c.t.Helper()
	var done atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	g := lifecycle.New(ctx)
	topic := "Quiet" + strconv.Itoa(len(c.sent.all()))
	g.Go("bystander", func(ctx context.Context) error {
		for ctx.Err() == nil {
			n := done.Load()
			sent, err := c.send(topic, int32(n%4), []byte(fmt.Sprintf("round %d", n)))
			if err == nil {
				err = c.read(sent)
			}
			if err != nil {
				return fmt.Errorf("after %d rounds: %w", n, err)
			}
			done.Add(1)
		}
		return nil
	})
	for end := time.Now().Add(patience); ; {
		attack()
		if done.Load() >= int64(rounds) || g.Context().Err() != nil {
			break
		}
		if time.Now().After(end) {
			c.t.Errorf("the well-behaved client had only %d answers of %d", done.Load(), rounds)
			break
		}
	}
	cancel()
	if err := g.Stop(); err != nil && !errors.Is(err, context.Canceled) {
		c.t.Errorf("the well-behaved client suffers: %v", err)
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first clears pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + int64(m.StackInuse)
}

// grew checks that memory has grown by no more than limit bytes (R3).
func grew(t testing.TB, what string, before, limit int64) {
	t.Helper()
	now := heap() - before
	t.Logf("%s: %+.1f MiB", what, float64(now)/(1<<20))
	if now > limit {
		t.Errorf("%s: memory grew by %d bytes, at most %d are allowed", what, now, limit)
	}
}

// size picks the number for a full or a -short run.
func size(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// kill starts the broker on a copy of the store as it is on disk while the broker runs: what a broker finds that was killed.
func (c *cluster) kill() {
	c.t.Helper()
	was := c.keys["storePathRootDir"]
	copied := filepath.Join(c.t.TempDir(), "store")
	if err := os.CopyFS(copied, os.DirFS(was)); err != nil {
		c.t.Fatal(err)
	}
	c.stopBroker()
	c.keys["storePathRootDir"] = copied
	c.startBroker()
}
