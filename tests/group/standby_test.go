package group

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/dev"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const standbyName = dev.Group + ".standby"

// until waits for a condition.
func (f *fixture) until(what string, ok func() bool) {
	f.t.Helper()
	for !ok() {
		select {
		case <-f.ctx.Done():
			f.t.Fatalf("still not: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// standbyOf asks the name server for the standby of a topic, and its queue there.
func (f *fixture) standbyOf(topic string) (addr string, q body.QueueData) {
	f.t.Helper()
	r, err := f.client.Call(f.ctx, f.Names, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: topic}, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	var d body.TopicRouteData
	if r.Err() != nil || fastjson.Unmarshal(r.Body, &d) != nil {
		return "", q
	}
	for i, b := range d.BrokerDatas {
		if b.BrokerName == standbyName {
			return b.BrokerAddrs[0], d.QueueDatas[i]
		}
	}
	return "", q
}

// awaitStandby waits until there is one, and another than not.
func (f *fixture) awaitStandby(topic, not string) (addr string) {
	f.t.Helper()
	f.until("a standby other than "+not, func() bool {
		addr, _ = f.standbyOf(topic)
		return addr != "" && addr != not
	})
	return addr
}

// sendAs sends to a queue of a broker name.
func (f *fixture) sendAs(addr, name, topic string, queue int32, text string) (sent header.SendMessageResponse, err error) {
	h := header.SendMessageRequestV2{ProducerGroup: "p", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: queue, BornTimestamp: 1, BName: name}
	r, err := f.call(addr, code.SendMessageV2, &h, []byte(text))
	if err == nil {
		err = r.Decode(&sent)
	}
	return sent, err
}

// TestStandbyTakesSends: one replica is a second broker name for producers, and what it takes is where the answer says.
func TestStandbyTakesSends(t *testing.T) {
	f := start(t, nil)
	const topic = "Standby"
	master := f.master("")
	f.makeTopic(master, topic)
	at := f.awaitStandby(topic, "")
	if _, q := f.standbyOf(topic); at == master || q.WriteQueueNums != 1 || q.ReadQueueNums != 0 || q.Perm != 2 {
		t.Errorf("the standby is %s with %+v, the master %s", at, q, master)
	}
	var info body.ClusterInfo
	if err := fastjson.Unmarshal(f.must(f.Names, code.GetBrokerClusterInfo, nil, nil).Body, &info); err != nil || len(info.BrokerAddrTable) != 1 {
		t.Errorf("the cluster shows %+v, %v", info, err)
	}
	first, err := f.sendAs(at, standbyName, topic, 0, "first")
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.sendAs(at, standbyName, topic, 0, "second")
	if err != nil || second.QueueID != first.QueueID || second.QueueOffset != first.QueueOffset+1 {
		t.Errorf("%+v follows %+v, %v: the order of a key is lost", second, first, err)
	}
	batch := header.SendMessageRequestV2{ProducerGroup: "p", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, BornTimestamp: 1, BName: standbyName, Batch: header.Some(true)}
	var sent header.SendMessageResponse
	err = f.must(at, code.SendBatchMessage, &batch, message.AppendBatchItem(nil, 0, []byte("batch"), nil)).Decode(&sent)
	if err != nil || sent.QueueID != first.QueueID || sent.QueueOffset != first.QueueOffset+2 {
		t.Errorf("%+v follows %+v, %v", sent, second, err)
	}
	if got := f.texts(master, topic, first.QueueID); fmt.Sprint(got) != "[first second batch]" {
		t.Errorf("the queue has %v", got)
	}
	other := (first.QueueID + 1) % 4
	if other != 0 { // a queue that an earlier answer has named
		if sent, err := f.sendAs(at, standbyName, topic, other, "x"); err != nil || sent.QueueID != other {
			t.Errorf("%+v instead of queue %d, %v", sent, other, err)
		}
	}
}

// TestStandbyRefusesNothingDuringASwitch: whoever holds the second name, what comes by it is stored by the next master.
func TestStandbyRefusesNothingDuringASwitch(t *testing.T) {
	f := start(t, nil)
	const topic = "Standby"
	f.makeTopic(f.master(""), topic)
	for range 2 {
		master := f.master("")
		at := f.awaitStandby(topic, master)
		f.sendThrough(at, topic, func() {
			f.Kill(f.Broker(master))
			f.master(master)
		})
		if err := f.StartAgain(f.Broker(master)); err != nil {
			t.Fatal(err)
		}
		f.whole()
	}
}

// sendThrough does something while producers send by the second name.
func (f *fixture) sendThrough(at, topic string, do func()) {
	f.t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				began := time.Now()
				if _, err := f.sendAs(at, standbyName, topic, 0, "x"); err != nil {
					f.t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
		})
	}
	do()
	stop.Store(true)
	wg.Wait()
}

// TestMembersOfAGroupSeeOneList: clients ask any broker name of a route who consumes, also the standby, and share queues by what they hear.
func TestMembersOfAGroupSeeOneList(t *testing.T) {
	f := start(t, nil)
	const topic = "Shared"
	master := f.master("")
	f.makeTopic(master, topic)
	beat := body.HeartbeatData{ClientID: "one", ConsumerDataSet: []body.ConsumerData{{GroupName: "c", ConsumeType: body.ConsumePassively, MessageModel: body.Clustering,
		SubscriptionDataSet: []body.SubscriptionData{{Topic: topic, SubString: "*", ExpressionType: "TAG"}}}}}
	f.must(master, code.HeartBeat, nil, fastjson.Marshal(&beat)) // to the master alone: the replicas have just been started, say
	for _, b := range f.Brokers {
		var list body.GetConsumerListByGroupResponseBody
		r := f.must(b.Addr, code.GetConsumerListByGroup, &header.GetConsumerListByGroupRequest{ConsumerGroup: "c"}, nil)
		if err := fastjson.Unmarshal(r.Body, &list); err != nil || fmt.Sprint(list.ConsumerIDList) != "[one]" {
			t.Errorf("%s lists %v %v", b.Addr, list.ConsumerIDList, err)
		}
	}
}

// TestStandbyMoves: with the master, and away from a replica that is gone; the last broker has none.
func TestStandbyMoves(t *testing.T) {
	f := start(t, nil)
	const topic = "Standby"
	master := f.master("")
	f.makeTopic(master, topic)
	at := f.awaitStandby(topic, "")
	f.Kill(f.Broker(at))
	next := f.awaitStandby(topic, at)
	if next == master {
		t.Error("the master is its own standby")
	}
	f.Kill(f.Broker(next))
	f.until("nobody is the standby", func() bool { addr, _ := f.standbyOf(topic); return addr == "" })
}

// TestTopicsOfTheStandbyFollow: new ones, such that may not be written to any more, and those that are gone.
func TestTopicsOfTheStandbyFollow(t *testing.T) {
	f := start(t, nil)
	master := f.master("")
	f.makeTopic(master, "First")
	f.awaitStandby("First", "")
	f.makeTopic(master, "Second")
	f.until("a new topic", func() bool { _, q := f.standbyOf("Second"); return q.WriteQueueNums == 1 })
	f.must(master, code.UpdateAndCreateTopic, &header.CreateTopicRequest{Topic: "Second", DefaultTopic: "TBW102", ReadQueueNums: 4, WriteQueueNums: 4, Perm: 4, TopicFilterType: "SINGLE_TAG"}, nil)
	f.until("a topic without write permission", func() bool {
		addr, q := f.standbyOf("Second")
		return addr != "" && q.WriteQueueNums == 0 && q.Perm == 0
	})
	f.must(master, code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: "Second"}, nil)
	f.until("a topic that is gone", func() bool { addr, _ := f.standbyOf("Second"); return addr == "" })
}

// TestStandbyRouteSwitchedOff: nobody registers twice.
func TestStandbyRouteSwitchedOff(t *testing.T) {
	f := start(t, map[string]string{"standbyRoute": "false"})
	f.makeTopic(f.master(""), "Alone")
	var all body.BrokerMemberGroup
	r := f.must(f.Names, code.GetBrokerMemberGroup, &header.GetBrokerMemberGroupRequest{ClusterName: "DefaultCluster", BrokerName: standbyName}, nil)
	if err := fastjson.Unmarshal(r.Body, &all); err != nil || len(all.BrokerAddrs) != 0 {
		t.Errorf("%+v %v", all, err)
	}
}

// TestSendsThatCannotBeConfirmedAreRefusedAtOnce: not after the producer's timeout, and only as long as it is so.
func TestSendsThatCannotBeConfirmedAreRefusedAtOnce(t *testing.T) {
	f := start(t, nil)
	const topic = "Few"
	master := f.master("")
	f.makeTopic(master, topic)
	var replicas []*dev.Broker
	for _, b := range f.Brokers {
		if b.Addr != master {
			replicas = append(replicas, b)
			f.Kill(b)
		}
	}
	refused := func() bool {
		err := f.send(master, topic, 0, "x")
		var e *code.Error
		return errors.As(err, &e) && e.Code == code.ServiceNotAvailable
	}
	f.until("sends are refused", refused)
	began := time.Now()
	for range 10 {
		if !refused() {
			t.Error("a send was not refused")
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("ten refusals took %v", took)
	}
	if err := f.StartAgain(replicas[0]); err != nil {
		t.Fatal(err)
	}
	f.until("sends are taken again", func() bool { return f.send(master, topic, 0, "x") == nil })
}
