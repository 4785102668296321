package robust

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// hostileNames are no names of topics or groups.
var hostileNames = []string{"", " ", "\t\n", "..", ".", "../../escape", "/etc/passwd", "a/b", `a\b`, "a b", "a\x00b", "\x00", "a\x01b\x02c", "a@b", "topic@group", "a,b", "a;b", "a:b",
	"\xff\xfe", "\xc0\xaf", "тема", "😀", "%RETRY%../../x", "%DLQ%/x", "%RETRY%a+b", "~", "$HOME", "a\r\nb", "NUL.", strings.Repeat("x", 64<<10), strings.Repeat("\xff", 64<<10),
	strings.Repeat("../", 1000), "%RETRY%" + strings.Repeat("x", 249), strings.Repeat("x", 256)}

// longTopics are too long for topics only.
var longTopics = []string{strings.Repeat("x", 128), strings.Repeat("x", 255)}

func TestHostileTopics(t *testing.T) {
	c := start(t, nil)
	batch := message.AppendBatchItem(nil, 0, []byte("x"), nil)
	before := heap()
	c.while(20, func() {
		for _, name := range append(slices.Clone(hostileNames), longTopics...) {
			c.want(code.InvalidParameter, code.SendMessage, sendHeader(name, 0, ""), []byte("x"))
			c.want(code.InvalidParameter, code.SendBatchMessage, batchHeader(name, ""), batch)
			c.want(code.TopicNotExist, code.PullMessage, pullHeader(name, 0, 0), nil)
			c.want(code.TopicNotExist, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: group, Topic: name, QueueID: header.Some(int32(0)),
				CommitOffset: header.Some(int64(1))}, nil)
			for _, rc := range []code.Request{code.UpdateAndCreateTopic, code.UpdateAndCreateStaticTopic} {
				notDone(c, rc, &header.CreateTopicRequest{Topic: name, DefaultTopic: autoKey, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG"}, nil)
			}
			notDone(c, code.UpdateAndCreateTopicList, nil, fastjson.Marshal(&body.CreateTopicListRequestBody{TopicConfigList: []body.TopicConfig{
				{TopicName: name, ReadQueueNums: 1, WriteQueueNums: 1, Perm: 6, TopicFilterType: "SINGLE_TAG"}}}))
			c.must(code.DeleteTopicInBroker, &header.DeleteTopicRequest{Topic: name}, nil)
			c.must(code.QueryConsumerOffset, &header.QueryConsumerOffsetRequest{ConsumerGroup: group, Topic: name}, nil)
			c.must(code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: name}, nil)
			c.must(code.SearchOffsetByTimestamp, &header.SearchOffsetRequest{Topic: name}, nil)
			c.must(code.GetTopicStatsInfo, &header.GetTopicStatsInfoRequest{Topic: name}, nil)
		}
	})
	grew(t, "after hostile topics", before, 16<<20)
	c.checkAll()
	checkTopics(c)
	checkDisk(c)
}

// notDone checks that a request is refused.
func notDone(c *cluster, rc code.Request, h header.Appender, b []byte) {
	c.t.Helper()
	if r := c.must(rc, h, b); r.Code == 0 {
		c.t.Errorf("%s was done: %+v %.60q", rc, h, b)
	}
}

func TestHostileGroupsAndClients(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	before := heap()
	c.while(20, func() {
		for _, name := range hostileNames {
			h := pullHeader(victim, 0, 0)
			h.ConsumerGroup = name
			unknown := code.SubscriptionGroupNotExist
			if name == "" { // the field is missing
				unknown = code.SystemError
			}
			c.want(unknown, code.PullMessage, h, nil)
			c.want(code.SubscriptionGroupNotExist, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: name, Topic: victim, QueueID: header.Some(int32(0)),
				CommitOffset: header.Some(int64(1))}, nil)
			p := dial(t, c.addr())
			for _, client := range []string{"c", name} {
				d := body.HeartbeatData{ClientID: client, ProducerDataSet: []body.ProducerData{{GroupName: name}}, ConsumerDataSet: []body.ConsumerData{{GroupName: name,
					ConsumeType: body.ConsumePassively, MessageModel: body.Clustering, SubscriptionDataSet: []body.SubscriptionData{{Topic: name, SubString: name, ExpressionType: name}}}}}
				p.ask(header.JSON, int32(code.HeartBeat), nil, fastjson.Marshal(&d))
				p.ask(header.JSON, int32(code.LockBatchMQ), nil, fastjson.Marshal(&body.LockBatchRequestBody{ConsumerGroup: name, ClientID: client, MqSet: []body.MessageQueue{{Topic: name, QueueID: -1}}}))
			}
			p.ask(header.Binary, int32(code.UnregisterClient), fields{"clientID", name, "producerGroup", name, "consumerGroup", name}, nil)
			p.close()
			notDone(c, code.UpdateAndCreateSubscriptionGroup, nil, fastjson.Marshal(&body.SubscriptionGroupConfig{GroupName: name}))
			c.must(code.DeleteSubscriptionGroup, &header.DeleteSubscriptionGroupRequest{GroupName: name, CleanOffset: true}, nil)
			c.must(code.CloneGroupOffset, &header.CloneGroupOffsetRequest{SrcGroup: group, DestGroup: name, Topic: victim, Offline: true}, nil)
			c.must(code.ConsumerSendMsgBack, &header.ConsumerSendMsgBackRequest{Group: name}, nil)
		}
	})
	grew(t, "after hostile groups", before, 16<<20)
	c.checkAll()
	checkTopics(c)
	checkDisk(c)
}

// validName tells what a topic may be called.
func validName(name string) bool {
	return name != "" && len(name) <= 255 && strings.Trim(name, "%|_-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// checkTopics looks at the topics that a broker tells tools of, and a name server.
func checkTopics(c *cluster) {
	c.t.Helper()
	r := c.must(code.GetAllTopicConfig, nil, nil)
	if code.Response(r.Code) == code.RequestCodeNotSupported {
		c.t.Log("topics cannot be listed")
		return
	}
	var w body.TopicConfigAndMappingSerializeWrapper
	if err := fastjson.Unmarshal(r.Body, &w); err != nil {
		c.t.Fatal(err)
	}
	for name := range w.TopicConfigTable {
		if !validName(name) {
			c.t.Errorf("there is a topic %.60q", name)
		}
	}
}

// checkDisk looks for files where none belong.
func checkDisk(c *cluster) {
	c.t.Helper()
	entries, err := os.ReadDir(c.dir)
	if err != nil || len(entries) != 1 {
		c.t.Errorf("beside the store: %v %v", entries, err)
	}
	queues, err := os.ReadDir(filepath.Join(c.dir, "store", "consumequeue"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, q := range queues {
		if !validName(q.Name()) {
			c.t.Errorf("a queue folder %q", q.Name())
		}
	}
}

// TestHostileNamesAtTheNameServer: a broker may register with nonsense; routes of others stay.
func TestHostileNamesAtTheNameServer(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	addr := c.names.Addr().String()
	ask := func() *remoting.Command {
		p := dial(t, addr)
		defer p.close()
		return p.ask(header.JSON, int32(code.GetRouteInfoByTopic), fields{"topic", victim, "acceptStandardJsonOnly", "true"}, nil)
	}
	until(t, "the broker is registered", func() bool { return ask().Code == 0 })
	route := func() *body.TopicRouteData {
		cmd := ask()
		d := new(body.TopicRouteData)
		if cmd.Code != 0 || fastjson.Unmarshal(cmd.Body, d) != nil {
			t.Fatalf("no route: %d %q", cmd.Code, cmd.Remark)
		}
		return d
	}
	before := heap()
	c.while(20, func() {
		p := dial(t, addr)
		for _, name := range hostileNames {
			topics := body.RegisterBrokerBody{}
			topics.TopicConfigSerializeWrapper.TopicConfigTable = map[string]body.TopicConfig{name: {TopicName: name, ReadQueueNums: 1 << 30, WriteQueueNums: -5, Perm: 6}}
			text := topics.Encode(false)
			for _, f := range []fields{
				{"brokerName", name, "brokerAddr", name, "clusterName", name, "haServerAddr", name, "brokerId", "0"},
				{"brokerName", "evil", "brokerAddr", "127.0.0.1:1", "clusterName", "evil", "haServerAddr", name, "brokerId", "-1"},
				{"brokerName", "evil", "brokerAddr", "127.0.0.1:1", "clusterName", "evil", "haServerAddr", "", "brokerId", "9223372036854775807", "heartbeatTimeoutMillis", "9223372036854775807"},
			} {
				p.ask(header.JSON, int32(code.RegisterBroker), f, text)
				p.ask(header.JSON, int32(code.RegisterBroker), f, []byte{0x78, 0x9c, 1, 2, 3})
				p.ask(header.JSON, int32(code.UnregisterBroker), f, nil)
				p.ask(header.JSON, int32(code.BrokerHeartbeat), f, nil)
			}
			p.ask(header.JSON, int32(code.DeleteTopicInNamesrv), fields{"topic", name}, nil)
			p.ask(header.JSON, int32(code.GetRouteInfoByTopic), fields{"topic", name}, nil)
			p.ask(header.JSON, int32(code.WipeWritePermOfBroker), fields{"brokerName", name}, nil)
		}
		p.close()
	})
	grew(t, "after hostile registrations", before, 32<<20)
	if d := route(); len(d.BrokerDatas) != 1 || d.BrokerDatas[0].BrokerAddrs[0] != c.addr() {
		t.Errorf("the route has become %+v", d)
	}
	c.checkAll()
}

// TestInflatedRegistrations: a registration may be compressed; a bomb is refused.
func TestInflatedRegistrations(t *testing.T) {
	c := start(t, nil)
	p := dial(t, c.names.Addr().String())
	bomb := deflated(bytes.Repeat([]byte{0}, 48<<20))
	t.Logf("48 MiB in %d bytes", len(bomb))
	before := heap()
	c.once(5, func() {
		cmd := p.ask(header.Binary, int32(code.RegisterBroker), fields{"brokerName", "b2", "brokerAddr", "127.0.0.1:1", "clusterName", "x", "haServerAddr", "", "brokerId", "0", "compressed", "true"}, bomb)
		if got := code.Response(cmd.Code); got != code.InvalidParameter && got != code.SystemError {
			t.Errorf("answered %s", got)
		}
	})
	grew(t, "after compressed bombs", before, 48<<20)
}
