package group

import (
	"slices"
	"testing"

	"github.com/castor-mq/castor/internal/dev"
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
	f.until("the learner has it", func() bool { return slices.Equal(f.texts(learner.Addr, topic, 0), []string{"to all"}) })

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
	f.until("the learner has it", func() bool {
		texts := f.texts(learner.Addr, topic, 0)
		return len(texts) > 0 && texts[len(texts)-1] == "to all again"
	})
}
