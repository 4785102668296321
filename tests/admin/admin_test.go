// Package admin runs every command of Castor's mqadmin once against a name server and a broker in this process.
package admin

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/admin"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait")) // they serve the process
}

// cluster is a name server, a broker, and a client that produces and consumes.
type cluster struct {
	t      *testing.T
	names  string
	broker string
	dir    string
	words  *strings.Replacer // what $NAMES in a command line stands for
	ran    map[string]bool   // commands
}

func start(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	g := lifecycle.New(context.Background())
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	nc, _, err := conf.Load[conf.Namesrv]("", map[string]string{"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": filepath.Join(dir, "kv.json"),
		"configStorePath": filepath.Join(dir, "namesrv.properties")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := namesrv.New(nc, namesrv.Options{Log: zap.NewNop(), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		t.Fatal(err)
	}
	g.Go("name server", ns.Run)
	bc, _, err := conf.Load[conf.Broker]("", map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1",
		"brokerName": "broker-a", "namesrvAddr": ns.Addr().String(), "storePathRootDir": filepath.Join(dir, "store"), "mappedFileSizeCommitLog": "16777216",
		"mappedFileSizeConsumeQueue": "200000", "maxHashSlotNum": "10000", "maxIndexNum": "40000"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(bc, broker.Options{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	g.Go("broker", b.Run)
	c := &cluster{t: t, names: ns.Addr().String(), broker: b.Addr(), dir: dir, ran: map[string]bool{}}
	c.words = strings.NewReplacer("$BROKER", c.broker, "$NAMES", c.names, "$DIR", dir)
	c.until("the broker to register", "topicList", "(?m)^TBW102$")
	return c
}

// patience bounds every wait of these tests.
const patience = 30 * time.Second

// run runs a command line and returns what it printed.
func (c *cluster) run(line string) (exit int, stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	words := strings.Split(c.words.Replace(line), " ")
	c.ran[words[0]] = true
	exit = admin.Main(ctx, append(words, "-n", c.names), &out, &errs)
	return exit, out.String(), errs.String()
}

// must runs a command that has to work, and checks what it prints. It returns the groups of the pattern.
func (c *cluster) must(line, pattern string) []string {
	c.t.Helper()
	exit, out, errs := c.run(line)
	found := regexp.MustCompile(c.words.Replace(pattern)).FindStringSubmatch(out)
	if exit != 0 || errs != "" || found == nil {
		c.t.Fatalf("%s\nexit %d, stderr %q, want output like\n%s\ngot\n%s", line, exit, errs, c.words.Replace(pattern), out)
	}
	return found[1:]
}

// refused runs a command that has to fail.
func (c *cluster) refused(line, pattern string) {
	c.t.Helper()
	exit, _, errs := c.run(line)
	if exit != 1 || strings.Count(errs, "\n") != 1 || !regexp.MustCompile(pattern).MatchString(errs) {
		c.t.Errorf("%s: exit %d, stderr %q, want one line like %s", line, exit, errs, pattern)
	}
}

// until repeats a command until its output is as wanted: routes follow a moment after the change.
func (c *cluster) until(what, line, pattern string) {
	c.t.Helper()
	var exit int
	var out, errs string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if exit, out, errs = c.run(line); exit == 0 && regexp.MustCompile(c.words.Replace(pattern)).MatchString(out) {
			return
		}
	}
	c.t.Fatalf("waited for %s: %s: exit %d, %s\n%s", what, line, exit, errs, out)
}

// member is a client that is online: a producer and a consumer, which answers what tools ask of it.
type member struct {
	client *remoting.Client
	info   body.ConsumerRunningInfo
}

func (m *member) Opened(*remoting.Conn)    {}
func (m *member) BurstEnd()                {}
func (m *member) Answered(remoting.Answer) {}
func (m *member) Closed(*remoting.Conn)    {}
func (m *member) Serve(r *remoting.Request) {
	switch code.Request(r.Code) {
	case code.GetConsumerRunningInfo:
		_ = r.OK(nil, fastjson.Marshal(&m.info))
	case code.ConsumeMessageDirectly:
		_ = r.OK(nil, fastjson.Marshal(&body.ConsumeMessageDirectlyResult{AutoCommit: true, ConsumeResult: body.CRSuccess, SpentTimeMills: 1}))
	default:
		r.Reply(code.Success, "", nil, nil)
	}
}

// join brings the member online in groups P and G, and has G read the topic T.
func (c *cluster) join() *member {
	c.t.Helper()
	m := &member{info: body.ConsumerRunningInfo{Properties: map[string]string{"messageModel": "CLUSTERING"}, SubscriptionSet: []body.SubscriptionData{{Topic: "T", SubString: "TagA"}},
		MqTable: map[body.MessageQueue]body.ProcessQueueInfo{}}}
	for id := range int32(2) {
		m.info.MqTable[body.MessageQueue{BrokerName: "broker-a", QueueID: id, Topic: "T"}] = body.ProcessQueueInfo{CommitOffset: 1}
	}
	m.client = remoting.NewClient(m, nil)
	c.t.Cleanup(m.client.Close)
	subscription := body.SubscriptionData{Topic: "T", SubString: "TagA", TagsSet: []string{"TagA"}, ExpressionType: "TAG", SubVersion: 1}
	m.call(c, code.HeartBeat, &header.HeartbeatRequest{}, fastjson.Marshal(&body.HeartbeatData{ClientID: "10.0.0.9@test", ProducerDataSet: []body.ProducerData{{GroupName: "P"}},
		ConsumerDataSet: []body.ConsumerData{{GroupName: "G", ConsumeType: body.ConsumePassively, MessageModel: body.Clustering, ConsumeFromWhere: body.ConsumeFromFirstOffset,
			SubscriptionDataSet: []body.SubscriptionData{subscription}}}}))
	return m
}

func (m *member) call(c *cluster, rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := m.client.Call(ctx, c.broker, rc, h, data)
	if err == nil {
		err = r.Err()
	}
	if err != nil {
		c.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// send sends a message to a queue of T and returns its two ids.
func (m *member) send(c *cluster, queue int32, tag, key, text string) (unique, offset string) {
	c.t.Helper()
	unique = fmt.Sprintf("%032X", len(text)+int(queue)<<8)
	props := message.AppendProp(message.AppendProp(message.AppendProp(nil, message.PropTags, tag), message.PropKeys, key), message.PropUniqueKey, unique)
	r := m.call(c, code.SendMessage, &header.SendMessageRequest{ProducerGroup: "P", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: queue, BornTimestamp: 1,
		Properties: string(props)}, []byte(text))
	var sent header.SendMessageResponse
	if err := r.Decode(&sent); err != nil {
		c.t.Fatal(err)
	}
	return unique, sent.MsgID
}

func (m *member) commit(c *cluster, queue int32, offset int64) {
	m.call(c, code.UpdateConsumerOffset, &header.UpdateConsumerOffsetRequest{ConsumerGroup: "G", Topic: "T", QueueID: header.Some(queue), CommitOffset: header.Some(offset)}, nil)
}

func TestEveryCommand(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	t.Chdir(t.TempDir())
	c := start(t)
	topics(c)
	m := c.join()
	m.send(c, 0, "TagA", "k0", "zero")
	unique, offset := m.send(c, 1, "TagB", "k1 both", "first")
	m.send(c, 1, "TagA", "k2 both", "second")
	m.commit(c, 0, 1)
	m.commit(c, 1, 1)
	messages(c, unique, offset)
	groups(c)
	servers(c)
	exports(c)
	goodbye(c)
	c.covered()
}

// ofGroups are the commands about controllers, which this broker does not have: tests/interop/ha runs them.
var ofGroups = []string{"getControllerMetaData", "getControllerConfig", "updateControllerConfig", "getSyncStateSet", "getBrokerEpoch", "electMaster", "cleanBrokerMetadata"}

// covered checks that every command of the table has run.
func (c *cluster) covered() {
	c.t.Helper()
	var out bytes.Buffer
	if exit := admin.Main(context.Background(), []string{"help"}, &out, &out); exit != 0 {
		c.t.Fatal(out.String())
	}
	list := regexp.MustCompile(`(?m)^   (\w+) `).FindAllStringSubmatch(out.String(), -1)
	if len(list) < 40 {
		c.t.Errorf("the help lists %d commands", len(list))
	}
	for _, m := range list {
		if !c.ran[m[1]] && !slices.Contains(ofGroups, m[1]) {
			c.t.Errorf("no case runs %s", m[1])
		}
	}
}
