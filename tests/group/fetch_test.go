package group

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/dev"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// elect has the controllers make a broker the master.
func (f *fixture) elect(b *dev.Broker) {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.Conf["storePathRootDir"], "brokerIdentity"))
	if err != nil {
		f.t.Fatal(err)
	}
	parts := strings.Split(string(text), "#") // cluster, name, id
	id, err := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	h := header.ElectMasterRequest{ClusterName: parts[0], BrokerName: dev.Group, BrokerID: id, DesignateElect: true, InvokeTime: time.Now().UnixMilli()}
	for _, c := range f.Controllers { // one of them leads
		_, err = f.call(c, code.ControllerElectMaster, &h, nil)
		if err == nil {
			break
		}
	}
	if err != nil {
		f.t.Fatal(err)
	}
	for limit := time.Now().Add(20 * time.Second); f.master("") != b.Addr; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatal("it is not elected")
		}
	}
}

// TestReplicaThatLostEverything: a replica comes back without its store when the others have deleted the beginning of their logs. It
// fetches everything, can be elected, and then has the topics, the offsets, and the numbers of queues whose messages are all gone.
func TestReplicaThatLostEverything(t *testing.T) {
	f := start(t, map[string]string{"mappedFileSizeCommitLog": "262144", "fileReservedTime": "0", "diskMaxUsedSpaceRatio": "100", "diskSpaceCleanForciblyRatio": "100",
		"diskSpaceWarningLevelRatio": "100"})
	master := f.master("")
	f.makeTopic(master, "Old")
	f.makeTopic(master, "New")
	for i := range 7 {
		if err := f.send(master, "Old", 2, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	g := body.SubscriptionGroupConfig{}
	g.SetDefaults()
	g.GroupName = "readers"
	f.must(master, code.UpdateAndCreateSubscriptionGroup, nil, fastjson.Marshal(&g))
	f.must(master, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: "readers", Topic: "Old", QueueID: header.Some(int32(2)), CommitOffset: header.Some(int64(5))}, nil)
	for i := range 400 {
		if err := f.send(master, "New", 1, fmt.Sprint(i, strings.Repeat("x", 4000))); err != nil {
			t.Fatal(err)
		}
	}
	lost := f.Brokers[0]
	if lost.Addr == master {
		lost = f.Brokers[1]
	}
	f.Kill(lost)
	f.Ended(lost)
	root := lost.Conf["storePathRootDir"]
	files, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range files {
		if e.Name() != "brokerIdentity" {
			if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	var first header.GetMinOffsetResponse
	for limit := time.Now().Add(20 * time.Second); first.Offset == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("nothing expires")
		}
		f.must(master, code.DeleteExpiredCommitLog, nil, nil)
		if err := f.must(master, code.GetMinOffset, &header.GetMinOffsetRequest{Topic: "New", QueueID: 1}, nil).Decode(&first); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.StartAgain(lost); err != nil {
		t.Fatal(err)
	}
	f.whole()
	f.elect(lost)
	if got := f.textsFrom(lost.Addr, "New", 1, first.Offset); len(got) != 400-int(first.Offset) || !strings.HasPrefix(got[len(got)-1], "399x") {
		t.Errorf("%d messages from %d on", len(got), first.Offset)
	}
	var offset header.QueryConsumerOffsetResponse
	if err := f.must(lost.Addr, code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: "readers", Topic: "Old", QueueID: 2}, nil).Decode(&offset); err != nil || offset.Offset != 5 {
		t.Errorf("offset %d %v", offset.Offset, err)
	}
	h := header.SendMessageRequest{ProducerGroup: "p", Topic: "Old", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 2, BornTimestamp: 1,
		Properties: string(message.AppendProp(nil, message.PropTags, "t"))}
	var sent header.SendMessageResponse
	if err := f.must(lost.Addr, code.SendMessage, &h, []byte("later")).Decode(&sent); err != nil || sent.QueueOffset != 7 {
		t.Errorf("the queue goes on at %d: %v", sent.QueueOffset, err)
	}
	if got := f.textsFrom(lost.Addr, "Old", 2, 7); len(got) != 1 || got[0] != "later" {
		t.Error(got)
	}
}
