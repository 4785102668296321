package group

import (
	"bytes"
	"slices"
	"testing"

	"github.com/castor-mq/castor/internal/dev"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// TestLearner: a replica with asyncLearner gets everything, is in no set, holds nothing up, and is not elected (the slave with asyncLearner of
// RocketMQ's AutoSwitchHATest).
func TestLearner(t *testing.T) {
	f := start(t, nil)
	const topic = "Learning"
	master := f.master("")
	f.makeTopic(master, topic)
	i := slices.IndexFunc(f.Brokers, func(b *dev.Broker) bool { return b.Addr != master })
	learner := f.Brokers[i]
	f.Kill(learner)
	learner.Conf["asyncLearner"] = "true"
	if err := f.StartAgain(learner); err != nil {
		t.Fatal(err)
	}
	if err := f.AwaitSet(f.ctx, f.client, dev.Replicas-1); err != nil {
		t.Fatal(err)
	}
	if err := f.send(f.master(""), topic, 0, "to all"); err != nil {
		t.Fatal(err)
	}
	has := func(text string) func() bool {
		return func() bool {
			h := header.PullMessageRequest{ConsumerGroup: "c", Topic: topic, QueueID: 0, MaxMsgNums: 32, SysFlag: 4, Subscription: "*", ExpressionType: "TAG"}
			r, err := f.client.Call(f.ctx, learner.Addr, code.PullMessage, &h, nil)
			return err == nil && r.Err() == nil && bytes.Contains(r.Body, []byte(text)) // before it has the topic it says that there is none
		}
	}
	f.until("the learner has it", has("to all"))

	f.Kill(f.Broker(master))
	next := f.master(master)
	if next == learner.Addr {
		t.Fatal("the learner was elected")
	}
	f.until("sends are refused: a learner is no second copy", func() bool { return f.send(next, topic, 0, "to nobody") != nil })
	if err := f.StartAgain(f.Broker(master)); err != nil {
		t.Fatal(err)
	}
	if err := f.AwaitSet(f.ctx, f.client, dev.Replicas-1); err != nil {
		t.Fatal(err)
	}
	f.until("sends are taken again", func() bool { return f.send(f.master(""), topic, 0, "to all again") == nil })
	f.until("the learner has it", has("to all again"))
}
