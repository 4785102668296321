package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/commitlog"
)

func lockQueues(ids ...int32) (set []body.MessageQueue) {
	for _, id := range ids {
		set = append(set, body.MessageQueue{Topic: "t", BrokerName: "b", QueueID: id})
	}
	return set
}

// makeLockable makes the topic of lockQueues.
func (b *testBroker) makeLockable() {
	b.t.Helper()
	b.client.ok(code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: "t", ReadQueueNums: 10_000, WriteQueueNums: 10_000, Perm: permRead | permWrite}, nil)
}

// lock asks for queues and returns those that the client holds then.
func (p *peer) lock(client string, ids ...int32) (got []int32) {
	p.b.t.Helper()
	r := p.ok(code.LockBatchMQ, nil, &body.LockBatchRequestBody{ClientID: client, ConsumerGroup: "g", MqSet: lockQueues(ids...)})
	for _, mq := range decode[body.LockBatchResponseBody](p.b.t, r.Body).LockOKMQSet {
		got = append(got, mq.QueueID)
	}
	slices.Sort(got)
	return got
}

func (p *peer) unlock(client string, ids ...int32) {
	p.b.t.Helper()
	p.ok(code.UnlockBatchMQ, nil, &body.UnlockBatchRequestBody{ClientID: client, ConsumerGroup: "g", MqSet: lockQueues(ids...)})
}

func TestLocks(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	b.makeLockable()
	p := b.client
	held := func(what string, got []int32, want ...int32) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	held("free queues", p.lock("one", 0, 1), 0, 1)
	held("the queues of another", p.lock("two", 0, 1, 2), 2)
	p.unlock("two", 0)
	held("what only the owner can give back", p.lock("two", 0))
	p.unlock("one", 0)
	held("what the owner gave back", p.lock("two", 0), 0)
	if !b.locks.held("g") || b.locks.held("h") {
		t.Error("whose queues are locked")
	}
	clk.Advance(19 * time.Second)
	before := b.store.Dispatched()
	held("a renewal", p.lock("one", 1), 1)
	if b.store.Dispatched() != before {
		t.Error("a renewal after 19 s was written")
	}
	clk.Advance(2 * time.Second)
	held("a renewal", p.lock("one", 1), 1)
	if b.store.Dispatched() == before {
		t.Error("a renewal after 21 s was not written")
	}
	clk.Advance(39 * time.Second)
	held("expired after 60 s", p.lock("three", 0, 1, 2), 0, 2)
	b.restart()
	p = b.client
	held("after a restart", p.lock("one", 0, 1, 2), 1)
	clk.Advance(2 * time.Minute)
	if b.locks.held("g") {
		t.Error("an expired lock counts")
	}
	b.until("expired locks are swept", func() bool { clk.Advance(time.Second); return len(b.store.State.Locks()) == 0 })
}

func TestLockRequestsThatAreRefused(t *testing.T) {
	b := startBroker(t, nil)
	p := b.client
	if got := p.lock("one", 1); got != nil {
		t.Errorf("locked %v of a topic that does not exist", got)
	}
	b.makeLockable()
	if got := p.lock("one", 9_999, 10_000); len(got) != 1 {
		t.Errorf("locked %v", got)
	}
	p.refused(code.LockBatchMQ, nil, "{", code.SystemError, "lock")
	p.refused(code.LockBatchMQ, nil, &body.LockBatchRequestBody{ConsumerGroup: "g"}, code.InvalidParameter, "clientId")
	p.refused(code.UnlockBatchMQ, nil, &body.UnlockBatchRequestBody{ClientID: "c"}, code.InvalidParameter, "consumerGroup")
	if got := p.lock("one", -1); got != nil {
		t.Errorf("locked %v", got)
	}
	r := p.ok(code.LockBatchMQ, nil, &body.LockBatchRequestBody{ClientID: "c", ConsumerGroup: "g"})
	if string(r.Body) != `{"lockOKMQSet":[]}` {
		t.Errorf("%s", r.Body)
	}
	b.store.Log.SetMode(commitlog.TakesNothing, fmt.Errorf("no more writing"))
	if got := p.lock("one", 1); got != nil {
		t.Errorf("granted %v without a record", got)
	}
}

func TestJudge(t *testing.T) {
	const now = 1_000_000
	for _, tt := range []struct {
		owner string
		left  int64
		sure  bool
		want  lockVerdict
	}{
		{"", 0, true, lockClaimed},
		{"", lockLive, false, lockRefused}, // being given back
		{"me", lockLive, true, lockHeld},
		{"me", lockLive - lockRest, true, lockHeld},
		{"me", lockLive - lockRest - 1, true, lockRenewed},
		{"me", lockTrust, true, lockRenewed},
		{"me", lockTrust - 1, true, lockClaimed},
		{"me", lockLive, false, lockClaimed},
		{"me", 0, true, lockClaimed},
		{"other", 1, true, lockRefused},
		{"other", lockLive, false, lockRefused},
		{"other", 0, true, lockClaimed},
		{"other", -5, true, lockClaimed},
	} {
		if got := judge(tt.owner, now+tt.left, tt.sure, "me", now); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// TestLockModel compares with what a map would do: one owner at a time, who keeps the lock for a minute from when it was last
// written, which is at most 20 s before the last renewal.
func TestLockModel(t *testing.T) {
	clk := clock.NewManual(time.UnixMilli(1_700_000_000_000))
	b := startBrokerAt(t, clk, nil)
	b.makeLockable()
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++ // queues of their own for every check
		type claim struct {
			owner   string
			written int64
		}
		model := map[int32]claim{}
		client := rapid.SampledFrom([]string{"one", "two", "three"})
		queues := rapid.Map(rapid.SliceOfNDistinct(rapid.Int32Range(0, 3), 1, 4, rapid.ID), func(ids []int32) []int32 {
			for i := range ids {
				ids[i] += int32(4 * round)
			}
			return ids
		})
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				who, ids, now := client.Draw(t, "client"), queues.Draw(t, "queues"), clk.NowMs()
				var want []int32
				swept := false // the broker may be deleting one that expired long ago, and refuses its queue meanwhile
				for _, id := range ids {
					c := model[id]
					swept = swept || c.owner != "" && c.written+2*lockLive <= now
					if c.owner != "" && c.owner != who && c.written+lockLive > now {
						continue
					}
					if c.owner != who || now-c.written > lockRest {
						model[id] = claim{who, now}
					}
					want = append(want, id)
				}
				slices.Sort(want)
				got := b.client.lock(who, ids...)
				if swept {
					b.until("old locks are swept", func() bool { got = b.client.lock(who, ids...); return len(got) >= len(want) })
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s locks %v: %s", who, ids, diff)
				}
			},
			"unlock": func(t *rapid.T) {
				who, ids := client.Draw(t, "client"), queues.Draw(t, "queues")
				for _, id := range ids {
					if model[id].owner == who {
						delete(model, id)
					}
				}
				b.client.unlock(who, ids...)
			},
			"wait": func(t *rapid.T) {
				clk.Advance(time.Duration(rapid.IntRange(1, 40).Draw(t, "s")) * time.Second)
			},
		})
	})
}

// TestManyClientsAskAtOnce has many clients ask for one queue at the same time: one gets it.
func TestManyClientsAskAtOnce(t *testing.T) {
	b := startBroker(t, map[string]string{"flushDiskType": "SYNC_FLUSH"}) // records are confirmed later than they are appended
	b.makeLockable()
	const clients = 8
	var all []*peer
	for range clients {
		all = append(all, b.connect())
	}
	for queue := range int32(20) {
		got := make(chan int, clients)
		for i, p := range all {
			go func() { got <- len(p.lock(fmt.Sprint("client", i), queue)) }()
		}
		owners := 0
		for range clients {
			owners += <-got
		}
		if owners != 1 {
			t.Fatalf("queue %d has %d owners", queue, owners)
		}
	}
}
