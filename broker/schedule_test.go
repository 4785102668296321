package broker

import (
	"context"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

func TestDelayedMessages(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	p := b.client
	p.send("t", 3, "later", message.PropDelay, "2", message.PropUniqueKey, "KEY", message.PropTags, "tag")
	p.send("t", 3, "sooner", message.PropDelay, "1")
	p.send("t", 3, "now")
	if diff := cmp.Diff([]string{"now"}, bodies(b.all("t", 3))); diff != "" {
		t.Fatal(diff)
	}
	clk.Advance(999 * time.Millisecond)
	if n := len(b.all("t", 3)); n != 1 {
		t.Fatalf("%d messages before the first is due", n)
	}
	clk.Advance(time.Millisecond)
	b.until("the first delayed message", func() bool { clk.Advance(0); return len(b.all("t", 3)) == 2 })
	for range 4 {
		clk.Advance(time.Second)
	}
	b.until("the second delayed message", func() bool { clk.Advance(time.Millisecond); return len(b.all("t", 3)) == 3 })
	if diff := cmp.Diff([]string{"now", "sooner", "later"}, bodies(b.all("t", 3))); diff != "" {
		t.Fatal(diff)
	}
	got := b.last("t", 3)
	props := got.Properties().Map()
	if _, ok := props[message.PropDelay]; ok || props[message.PropRealTopic] != "t" || props[message.PropRealQueueID] != "3" || props[message.PropTags] != "tag" || props[message.PropUniqueKey] != "KEY" {
		t.Errorf("%v", props)
	}
	if diff := cmp.Diff(map[int32]int64{1: 1, 2: 1}, b.store.State.DelayOffsets()); diff != "" {
		t.Error(diff)
	}
	b.restart()
	p = b.client
	p.send("t", 3, "after the restart", message.PropDelay, "1")
	b.until("delivered after the restart", func() bool { clk.Advance(100 * time.Millisecond); return len(b.all("t", 3)) == 4 })
	clk.Advance(10 * time.Second)
	p.send("t", 3, "barrier", message.PropDelay, "1")
	b.until("the barrier", func() bool {
		clk.Advance(100 * time.Millisecond)
		return string(func() []byte { v := b.last("t", 3); return v.Body() }()) == "barrier"
	})
	if diff := cmp.Diff([]string{"now", "sooner", "later", "after the restart", "barrier"}, bodies(b.all("t", 3))); diff != "" {
		t.Fatal(diff)
	}
}

// TestDelayWakesConsumer is about the machine's clock, and about a consumer that waits for the first message. How late a delivery
// may be is a matter of dueIn (TestDueIn).
func TestDelayWakesConsumer(t *testing.T) {
	b := startBroker(t, nil)
	for range 3 {
		b.client.send("t", 0, "x", message.PropDelay, "1")
	}
	h := *pullRequest("g", "t", 0, 0)
	h.SysFlag, h.SuspendTimeoutMillis = h.SysFlag|pullSuspend, 9000
	if got := b.client.records(b.client.ok(code.PullMessage, &h, nil).Body); len(got) == 0 {
		t.Error("the consumer was not woken")
	}
	b.until("all are delivered", func() bool { return len(b.all("t", 0)) == 3 })
	for i, v := range b.all("t", 0) {
		delayed := b.all(store.ScheduleTopic, 0)[i]
		if early := delayed.StoreTimestamp() + 1000 - v.StoreTimestamp(); early > 0 {
			t.Errorf("%d ms early", early)
		}
	}
}

func TestDueIn(t *testing.T) {
	const now = 1_700_000_000_000
	for _, tt := range []struct {
		due  int64
		want time.Duration
	}{
		{now - 5, 0}, {now, 0}, {now + 1, time.Millisecond}, {now + 1000, time.Second},
		{now + 1001, 0}, // the clock was set back
		{0, 0},
	} {
		if got := dueIn(tt.due, now, time.Second); got != tt.want {
			t.Errorf("due %d: %v, want %v", tt.due-now, got, tt.want)
		}
	}
}

func TestDelayedMessagesWithoutATarget(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	p := b.client
	for _, topic := range []string{"gone", "t", "shrunk"} {
		p.send(topic, 3, topic, message.PropDelay, "1")
	}
	shrunk := *b.topics.get("shrunk")
	shrunk.ReadQueueNums, shrunk.WriteQueueNums = 2, 2
	if err := b.commit(state.TopicDelete("gone"), state.TopicPut(&shrunk)); err != nil {
		t.Fatal(err)
	}
	clk.Advance(time.Second)
	b.until("the messages behind it are delivered", func() bool {
		clk.Advance(time.Millisecond)
		return len(b.all("t", 3)) == 1 && len(b.all("shrunk", 1)) == 1
	})
	if b.store.Queues.Get("gone", 3) != nil || b.logs.FilterMessageSnippet("no topic any more").Len() != 1 {
		t.Error("the message of a deleted topic")
	}
}

// TestDeliveryIsTriedAgain: what cannot be stored now is delivered when it can.
func TestDeliveryIsTriedAgain(t *testing.T) {
	d := newDelays(t)
	d.put("t", 1, "a")
	d.clk.Advance(time.Second)
	d.store.Log.SetMode(commitlog.TakesNothing, fmt.Errorf("not now"))
	if _, err := d.delays.step(d.clk.NowMs()); err == nil {
		t.Fatal("no error")
	}
	d.store.Log.SetMode(commitlog.TakesOwn, nil)
	d.run()
	if diff := cmp.Diff([]string{"a"}, d.delivered("t")); diff != "" {
		t.Error(diff)
	}
}

// TestDeliveryDoesNotWaitForConfirmation: what has been appended and is not confirmed yet is not delivered again.
func TestDeliveryDoesNotWaitForConfirmation(t *testing.T) {
	d := newDelays(t)
	d.close()
	d.keys = map[string]string{"flushDiskType": "SYNC_FLUSH"}
	d.open()
	flush := func() {
		if err := d.store.Log.Flush(); err != nil {
			t.Fatal(err)
		}
		d.store.Advance()
	}
	topic := body.TopicConfig{TopicName: "t", ReadQueueNums: 1, WriteQueueNums: 1, Perm: permRead | permWrite}
	if err := d.store.Propose(nil, state.TopicPut(&topic)); err != nil {
		t.Fatal(err)
	}
	flush()
	d.put("t", 1, "a")
	d.put("t", 1, "b")
	flush()
	d.clk.Advance(time.Second)
	d.run()
	d.run()
	if got := d.delivered("t"); got != nil {
		t.Errorf("%v can be read before it is confirmed", got)
	}
	flush()
	d.run()
	if diff := cmp.Diff([]string{"a", "b"}, d.delivered("t")); diff != "" {
		t.Error(diff)
	}
}

// delays is a broker that is not running: its schedule is moved step by step.
type delays struct {
	*Broker
	t    testing.TB
	dir  string
	keys map[string]string // of the configuration, besides the usual ones
	clk  *clock.Manual
}

func newDelays(t testing.TB) *delays {
	t.Helper()
	d := &delays{t: t, dir: t.TempDir(), clk: clock.NewManual(time.UnixMilli(1_700_000_000_000))}
	d.open()
	t.Cleanup(func() { d.close() })
	return d
}

func (d *delays) open() {
	keys := map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
		"brokerIP2": "127.0.0.1", "brokerName": "b", "storePathRootDir": d.dir, "mappedFileSizeCommitLog": "65536", "mappedFileSizeConsumeQueue": "2000",
		"maxHashSlotNum": "100", "maxIndexNum": "400", "messageDelayLevel": "1s 3s 10s"}
	maps.Copy(keys, d.keys)
	cfg, _, err := conf.Load[conf.Broker]("", keys, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if d.Broker, err = New(cfg, Options{Log: zap.NewNop(), Clock: d.clk}); err != nil {
		d.t.Fatal(err)
	}
	if d.store.Log.End() > 0 {
		return
	}
	if err := d.topics.createSystem(); err != nil {
		d.t.Fatal(err)
	}
}

// close lets the broker run for no time at all.
func (d *delays) close() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Run(ctx); err != nil {
		d.t.Error(err)
	}
}

// put sends a delayed message.
func (d *delays) put(topic string, level int, text string) {
	d.t.Helper()
	if _, err := d.topics.ensure(topic, 1, permRead|permWrite); err != nil {
		d.t.Fatal(err)
	}
	m := message.Draft{Topic: topic, BornTimestamp: 1, BornHost: d.storeHost, StoreHost: d.storeHost, Body: []byte(text), Properties: []byte(propText(message.PropDelay, fmt.Sprint(level)))}
	m.MoreProperties = d.Broker.delay(nil, &m, level)
	if err := m.Prepare(); err != nil {
		d.t.Fatal(err)
	}
	q := d.store.Queues.GetOrCreate(m.Topic, m.QueueID)
	if err := d.store.Append([]commitlog.Entry{{Draft: &m, Next: &q.Next}}, nil); err != nil {
		d.t.Fatal(err)
	}
	d.store.Advance()
}

// run delivers everything that is due and returns when the next look is.
func (d *delays) run() time.Duration {
	d.t.Helper()
	for {
		wait, err := d.delays.step(d.clk.NowMs())
		if err != nil {
			d.t.Fatal(err)
		}
		if wait > 0 {
			return wait
		}
	}
}

func (d *delays) delivered(topic string) (all []string) {
	q := d.store.Queues.Get(topic, 0)
	for at := int64(0); q != nil && at < q.Max(); at++ {
		u, err := q.At(at)
		if err != nil {
			d.t.Fatal(err)
		}
		var v message.View
		if _, err := d.store.Log.Record(u.Phy, nil, &v); err != nil {
			d.t.Fatal(err)
		}
		all = append(all, string(v.Body()))
	}
	return all
}

// TestScheduleModel compares with a list per level: messages are delivered once, in order, not before they are due and at the
// first look after, over restarts and deaths of the process.
func TestScheduleModel(t *testing.T) {
	d := newDelays(t)
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		m := delayModel{delays: d, topic: fmt.Sprint("topic", round)} // of its own for every check
		d.clk.Advance(10 * time.Second)
		d.run() // what the check before has left
		for _, op := range rapid.SliceOfN(rapid.SampledFrom([]string{"send", "send", "send", "send", "send", "wait", "wait", "wait", "wait", "wait", "restart", "kill"}), 1, 10).Draw(t, "ops") {
			switch op {
			case "send":
				for range rapid.IntRange(1, 100).Draw(t, "messages") {
					m.send(rapid.IntRange(1, 3).Draw(t, "level"))
				}
			case "wait":
				m.wait(t, time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms"))*time.Millisecond)
			case "restart":
				d.close()
				d.open()
			case "kill":
				d.kill()
			}
			m.check(t)
		}
	})
}

// kill goes on with what a process that died now would leave.
func (d *delays) kill() {
	d.t.Helper()
	left := d.t.TempDir()
	if err := os.CopyFS(left, os.DirFS(d.dir)); err != nil {
		d.t.Fatal(err)
	}
	d.close()
	d.dir = left
	d.open()
}

type delayModel struct {
	*delays
	topic   string
	sent    int
	waiting [4][]delayedMessage
	want    []string
}

type delayedMessage struct {
	body string
	due  int64
}

func (m *delayModel) send(level int) {
	m.sent++
	text := fmt.Sprintf("%d/%d", level, m.sent)
	m.put(m.topic, level, text)
	m.waiting[level] = append(m.waiting[level], delayedMessage{text, m.clk.NowMs() + m.store.DelayOf(level).Milliseconds()})
}

func (m *delayModel) wait(t *rapid.T, d time.Duration) {
	m.clk.Advance(d)
	for level, list := range m.waiting {
		for len(list) > 0 && list[0].due <= m.clk.NowMs() {
			m.want = append(m.want, list[0].body)
			list = list[1:]
		}
		m.waiting[level] = list
	}
	next := m.run()
	for _, list := range m.waiting {
		if len(list) > 0 && next > time.Duration(list[0].due-m.clk.NowMs())*time.Millisecond || next > maxScheduleSleep {
			t.Fatalf("sleeps %v and oversleeps", next)
		}
	}
}

func (m *delayModel) check(t *rapid.T) {
	got := m.delivered(m.topic)
	if diff := cmp.Diff(sorted(m.want), sorted(got)); diff != "" {
		t.Fatal(diff)
	}
	var last [4]int
	for _, body := range got {
		var level, number int
		if _, err := fmt.Sscanf(body, "%d/%d", &level, &number); err != nil || number <= last[level] {
			t.Fatalf("%s after %d", body, last[level])
		}
		last[level] = number
	}
}
