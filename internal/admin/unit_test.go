package admin

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMainTellsFailures(t *testing.T) {
	t.Setenv("NAMESRV_ADDR", "")
	for _, c := range []struct {
		args   []string
		exit   int
		stdout string // how it starts
		stderr string // all of it
	}{
		{nil, 0, "usage: mqadmin COMMAND", ""},
		{[]string{"help"}, 0, "usage: mqadmin COMMAND", ""},
		{[]string{"help", "TOPICroute"}, 0, "usage: mqadmin topicRoute -t <topic> [-l]", ""},
		{[]string{"topicRoute", "-h"}, 0, "usage: mqadmin topicRoute", ""},
		{[]string{"topicRoute"}, 1, "usage: mqadmin topicRoute", "mqadmin topicRoute: missing required option: t\n"},
		{[]string{"nothing"}, 1, "", "mqadmin nothing: there is no command \"nothing\"; mqadmin help lists them\n"},
		{[]string{"createUser"}, 1, "", "mqadmin createUser: createUser is a command of RocketMQ's tool that this one does not have\n"},
		{[]string{"topicList", "x"}, 1, "", "mqadmin topicList: \"x\" belongs to no option and has no effect\nmqadmin topicList: no name server is known: give -n HOST:PORT or set NAMESRV_ADDR\n"},
	} {
		var stdout, stderr bytes.Buffer
		exit := Main(context.Background(), c.args, &stdout, &stderr)
		if exit != c.exit || !strings.HasPrefix(stdout.String(), c.stdout) || stderr.String() != c.stderr || (c.stdout == "") != (stdout.Len() == 0) {
			t.Errorf("%q: %d %.60q %q", c.args, exit, stdout.String(), stderr.String())
		}
	}
}

func TestMainCannotWrite(t *testing.T) {
	var stderr bytes.Buffer
	if exit := Main(context.Background(), nil, brokenPipe{}, &stderr); exit != 1 || stderr.String() != "mqadmin: broken pipe\n" {
		t.Errorf("%d %q", exit, stderr.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestNameServersAreTriedInTurn(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if exit := Main(context.Background(), []string{"topicList", "-n", "127.0.0.1:1;127.0.0.1:2"}, &stdout, &stderr); exit != 1 {
		t.Error("no failure")
	}
	if !strings.Contains(stderr.String(), "127.0.0.1:2") || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("stderr %q", stderr.String())
	}
}

func TestJSONIsJSON(t *testing.T) {
	for _, c := range []struct {
		line    string
		want    any
		answers map[code.Request]any
	}{
		{"clusterList --json -m", []any{map[string]any{"clusterName": "DefaultCluster", "brokerName": "broker-a", "inTotalYest": 0., "outTotalYest": 0., "inTotalToday": 7., "outTotalToday": 0.},
			map[string]any{"clusterName": "DefaultCluster", "brokerName": "broker-a", "inTotalYest": 0., "outTotalYest": 0., "inTotalToday": 7., "outTotalToday": 0.}},
			map[code.Request]any{code.GetBrokerClusterInfo: clusters, code.GetBrokerRuntimeInfo: body.KVTable{Table: map[string]string{"msgPutTotalTodayNow": "7"}}}},
		{"clusterList --json -c None", []any{}, map[code.Request]any{code.GetBrokerClusterInfo: clusters}},
		{"topicList --json", []any{"A", "B"}, map[code.Request]any{code.GetAllTopicListFromNameserver: body.TopicList{TopicList: []string{"B", "A"}}}},
		{"topicStatus --json -t T", []any{map[string]any{"brokerName": "broker-a", "qid": 3., "minOffset": 1., "maxOffset": 2., "lastUpdated": "1970-01-01 00:00:00,001"}},
			map[code.Request]any{code.GetRouteInfoByTopic: route, code.GetTopicStatsInfo: body.TopicStatsTable{OffsetTable: map[body.MessageQueue]body.TopicOffset{
				queueIn("T", 3): {MinOffset: 1, MaxOffset: 2, LastUpdateTimestamp: 1}}}}},
		{"brokerStatus --json -b B", map[string]any{"B": map[string]any{"k": "v"}}, map[code.Request]any{code.GetBrokerRuntimeInfo: body.KVTable{Table: map[string]string{"k": "v"}}}},
		{"getBrokerConfig --json -b B", map[string]any{"B": map[string]any{"k": "v"}}, map[code.Request]any{code.GetBrokerConfig: []byte("k=v\n")}},
	} {
		text, _, err := play(t, c.line, c.answers)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v\n%s", c.line, err, text)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.line, diff)
		}
	}
}

func TestMembersAreNamedAfterColumns(t *testing.T) {
	for column, want := range map[string]string{"#Broker Name": "brokerName", "#QID": "qid", "#InTPS(LOAD)": "inTPS", "#PCWait(ms)": "pcWait", "#brokerName": "brokerName", "#RT": "rt"} {
		if got := member(column); got != want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// TestPartialFailure: the others are done, the error names what failed.
func TestPartialFailure(t *testing.T) {
	out, _, err := play(t, "updateBrokerConfig -c DefaultCluster -a true -k a -v b", map[code.Request]any{code.GetBrokerClusterInfo: clusters,
		code.UpdateBrokerConfig: func(addr string, _ map[string]string) any {
			if addr == master {
				return &answerError{code: code.NoPermission, remark: "no\nway"}
			}
			return nil
		}})
	if want := "failed on 1 of 2 servers: CODE: 16  DESC: no BROKER: " + master; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if want := "update broker config success, " + slave + "\n"; out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

func TestUnknownClusterIsNamed(t *testing.T) {
	_, _, err := play(t, "updateTopic -c None -t T", map[code.Request]any{code.GetBrokerClusterInfo: clusters})
	if err == nil || !strings.Contains(err.Error(), `no broker of a cluster "None", but the clusters ["DefaultCluster"]`) {
		t.Errorf("error %v", err)
	}
}

// record is the message of 067-printMsgByQueue.
func record(t *testing.T, sysFlag int32, data []byte) []byte {
	t.Helper()
	var props []byte
	for _, p := range [][2]string{{"MSG_REGION", "DefaultRegion"}, {"__SHARDINGKEY", "0"}, {"UNIQ_KEY", "0A000001022B4E0E2F2A939553B90030"}, {"CLUSTER", "DefaultCluster"},
		{"TAGS", "Order"}, {"KEYS", "order-0"}, {"WAIT", "true"}, {"TRACE_ON", "true"}} {
		props = message.AppendProp(props, p[0], p[1])
	}
	d := message.Draft{Topic: "TopicOrder", SysFlag: sysFlag, BornTimestamp: 1795967237049, BornHost: netip.MustParseAddrPort("127.0.0.1:38496"),
		StoreHost: netip.MustParseAddrPort(master), Body: data, Properties: props}
	if err := d.Prepare(); err != nil {
		t.Fatal(err)
	}
	return d.Encode(nil, 0, 81693, 1795967237085)
}

func pullAnswers(data []byte) map[code.Request]any {
	return map[code.Request]any{code.GetRouteInfoByTopic: route, code.GetMinOffset: &header.GetMinOffsetResponse{}, code.GetMaxOffset: &header.GetMaxOffsetResponse{Offset: 1},
		code.PullMessage: pulledFrame{&header.PullMessageResponse{NextBeginOffset: 1, MaxOffset: 8}, data}}
}

func TestMessageLineIsThatOfRocketMQ(t *testing.T) {
	got, _, err := play(t, "printMsgByQueue -t TopicOrder -a broker-a -i 0 -p true -d true", pullAnswers(record(t, 0, []byte("step 0"))))
	if err != nil {
		t.Fatal(err)
	}
	byName := func(line string) string {
		return regexp.MustCompile(`\{[^{}]*=[^{}]*=[^{}]*\}, body`).ReplaceAllStringFunc(line, func(m string) string {
			items := strings.Split(m[1:strings.IndexByte(m, '}')], ", ")
			slices.Sort(items)
			return strings.Join(items, ", ")
		})
	}
	same(t, byName(strings.Split(golden(t, "067-printMsgByQueue"), "\n")[0]), byName(got))
}

func TestCountsAreThoseOfRocketMQ(t *testing.T) {
	got, _, err := playWith(t, nil, func(tool *tool) error {
		tool.showCounts(map[string]int{"TagA": 6, "TagH": 5, "TagC": 4, "TagB": 4})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, sorted(golden(t, "068-printMsgByQueue")), sorted(got))
}

func TestBodiesAreUnpacked(t *testing.T) {
	plain := bytes.Repeat([]byte("hello "), 100)
	pack := func(w interface {
		Write([]byte) (int, error)
		Close() error
	}) {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var z, l, s bytes.Buffer
	pack(zlib.NewWriter(&z))
	pack(lz4.NewWriter(&l))
	w, err := zstd.NewWriter(&s)
	if err != nil {
		t.Fatal(err)
	}
	pack(w)
	for name, c := range map[string]struct {
		flag int32
		data []byte
	}{"zlib, old": {0x1, z.Bytes()}, "zlib": {0x301, z.Bytes()}, "lz4": {0x101, l.Bytes()}, "zstd": {0x201, s.Bytes()}, "none": {0x300, plain}} {
		got, err := unpacked(c.flag, c.data, maxBody)
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %.20q, %v", name, got, err)
		}
		if c.flag&1 != 0 {
			if got, err := unpacked(c.flag, c.data[:len(c.data)/2], maxBody); err == nil {
				t.Errorf("%s: half of it is read as %d bytes", name, len(got))
			}
			if _, err := unpacked(c.flag, plain, maxBody); err == nil {
				t.Errorf("%s: text is taken for packed", name)
			}
		}
	}
	list, err := messages(record(t, 0x101, l.Bytes()), "b")
	if err != nil || len(list) != 1 || !bytes.Equal(list[0].body, plain) || list[0].sysFlag() != 0x100 {
		t.Errorf("a record with a packed body: %v", err)
	}
}

func TestHugeBodyIsRefused(t *testing.T) {
	var z, s bytes.Buffer
	packed := map[int32]*bytes.Buffer{0x1: &z, 0x201: &s}
	w, err := zstd.NewWriter(&s)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{zlib.NewWriter(&z), w} {
		if _, err := w.Write(make([]byte, 2<<10)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for flag, b := range packed {
		if got, err := unpacked(flag, b.Bytes(), 1<<10); err == nil {
			t.Errorf("flag %#x: %d bytes", flag, len(got))
		}
		if got, err := unpacked(flag, b.Bytes(), 2<<10); err != nil || len(got) != 2<<10 {
			t.Errorf("flag %#x: %d bytes, %v", flag, len(got), err)
		}
	}
}

func FuzzMessages(f *testing.F) {
	f.Add([]byte{}, int32(0))
	f.Add([]byte("\x00\x00\x00\x5b\xda\xa3\x20\xa7"), int32(1))
	f.Fuzz(func(t *testing.T, data []byte, flag int32) {
		_, _ = messages(data, "b")
		_, _ = unpacked(flag|1, data, 1<<20)
	})
}

// TestHostileIDsStayInTheirFolder: producers choose message ids, and the tool makes file names of them.
func TestHostileIDsStayInTheirFolder(t *testing.T) {
	for _, id := range []string{"../../etc/passwd", "..", ".", "", "a/b", "a\x00b", strings.Repeat("x", 1000), "10.0.0.1@group"} {
		name := fileName(id)
		if name == "" || name != filepath.Base(name) || name == ".." || name == "." || len(name) > 255 || strings.ContainsAny(name, "/\x00") {
			t.Errorf("%.40q becomes %.60q", id, name)
		}
	}
	if got := fileName("10.0.0.1@group"); got != "10.0.0.1@group" {
		t.Errorf("a harmless name becomes %q", got)
	}
}

func TestWriteFileDoesNotFollowLinks(t *testing.T) {
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "sub", "id")
	if err := errors.Join(os.WriteFile(victim, []byte("old"), 0o600), os.Mkdir(filepath.Dir(link), 0o755), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{victim: "old", link: "new"} {
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "sub", ".castor-*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestDoubleIsJavas(t *testing.T) {
	for f, want := range map[float64]string{0: "0.0", 1: "1.0", 0.25: "0.25", 1e7: "1.0E7", 12345678.5: "1.23456785E7", 1e-4: "1.0E-4", 0.001: "0.001", -3: "-3.0", 9999999: "9999999.0"} {
		if got := double(f); got != want {
			t.Errorf("%g: %s, want %s", f, got, want)
		}
	}
	if got := double(math.NaN()); got != "NaN" {
		t.Errorf("NaN: %s", got)
	}
}

func TestAttributes(t *testing.T) {
	got, err := attributes("+a=b, -c,+d=")
	if err != nil || !cmp.Equal(got, map[string]string{"+a": "b", "-c": "", "+d": ""}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"a=b", "+a", "-a=b", "+", "x"} {
		if got, err := attributes(bad); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestAllocate(t *testing.T) {
	var queues []body.MessageQueue
	for id := range int32(5) {
		queues = append(queues, queueIn("T", id))
	}
	got := allocate(slices.Clone(queues), []string{"c", "a", "b"})
	want := map[string][]body.MessageQueue{"a": queues[:2], "b": queues[2:4], "c": queues[4:]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := allocate(queues[:1:1], []string{"a", "b"}); len(got["a"]) != 1 || len(got["b"]) != 0 {
		t.Errorf("one queue for two: %v", got)
	}
}

func TestTracks(t *testing.T) {
	list, err := messages(record(t, 0, []byte("x")), "broker-a")
	if err != nil {
		t.Fatal(err)
	}
	m := list[0]
	members := func(subscription string, tags ...string) *body.ConsumerConnection {
		return &body.ConsumerConnection{SubscriptionTable: map[string]body.SubscriptionData{"TopicOrder": {ExpressionType: "TAG", SubString: subscription, TagsSet: tags}}}
	}
	at := func(broker string, offset int64) *body.ConsumeStats {
		q := queueIn("TopicOrder", 0)
		q.BrokerName = broker
		return &body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{q: {ConsumerOffset: offset}}}
	}
	for _, c := range []struct {
		want    string
		members *body.ConsumerConnection
		stats   *body.ConsumeStats
	}{
		{"NOT_CONSUME_YET", members("*"), at("broker-a", 0)},
		{"CONSUMED", members("*"), at("broker-a", 1)},
		{"CONSUMED", members("Order || B", "Order", "B"), at("broker-a", 1)},
		{"CONSUMED_BUT_FILTERED", members("A", "A"), at("broker-a", 1)},
		{"NOT_CONSUME_YET", members("*"), at("broker-b", 9)},
	} {
		if got := consumed(m, c.members, c.stats); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestSubscriptionsAndQueuesOfMembersAreCompared(t *testing.T) {
	info := func(sub string, queues ...int32) *body.ConsumerRunningInfo {
		i := &body.ConsumerRunningInfo{SubscriptionSet: []body.SubscriptionData{{Topic: "T", SubString: sub}}, MqTable: map[body.MessageQueue]body.ProcessQueueInfo{}}
		for _, q := range queues {
			i.MqTable[queueIn("T", q)] = body.ProcessQueueInfo{}
		}
		return i
	}
	for _, c := range []struct {
		a, b         *body.ConsumerRunningInfo
		same, shared bool
	}{{info("*", 0), info("*", 1), true, false}, {info("*", 0), info("A", 0), false, true}, {info("*"), info("*"), true, false}} {
		infos := map[string]*body.ConsumerRunningInfo{"a": c.a, "b": c.b}
		if same, shared := sameSubscriptions(infos), sharedQueue(infos); same != c.same || shared != c.shared {
			t.Errorf("same %t, shared %t, want %t and %t", same, shared, c.same, c.shared)
		}
	}
}

// TestRunningInfoIsThatOfRocketMQ takes the values from RocketMQ's text and has to make the same text of them.
func TestRunningInfoIsThatOfRocketMQ(t *testing.T) {
	text := golden(t, "042-consumerStatus")
	info := body.ConsumerRunningInfo{Properties: map[string]string{}, MqTable: map[body.MessageQueue]body.ProcessQueueInfo{},
		StatusTable: map[string]body.ConsumeStatus{"TopicTest": {}, "%RETRY%CG-hold": {}}, SubscriptionSet: []body.SubscriptionData{holders.SubscriptionTable["TopicTest"],
			holders.SubscriptionTable["%RETRY%CG-hold"]}}
	for _, m := range regexp.MustCompile(`(?m)^(\w+) *: (.*)$`).FindAllStringSubmatch(text, -1) {
		info.Properties[m[1]] = m[2]
	}
	ms := func(digits string) int64 {
		at, err := time.Parse("20060102150405.000", digits[:14]+"."+digits[14:])
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	line := regexp.MustCompile(`(?m)^(\S+) +broker-a +(\d) +ProcessQueueInfo \[commitOffset=(\d+),.*lastLockTimestamp=(\d+),.*lastPullTimestamp=(\d+), lastConsumeTimestamp=(\d+)\]$`)
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		id, _ := strconv.Atoi(m[2])
		offset, _ := strconv.ParseInt(m[3], 10, 64)
		info.MqTable[queueIn(m[1], int32(id))] = body.ProcessQueueInfo{CommitOffset: offset, Locked: true, LastLockTimestamp: ms(m[4]), LastPullTimestamp: ms(m[5]), LastConsumeTimestamp: ms(m[6])}
	}
	if len(info.MqTable) != 5 || len(info.Properties) < 50 {
		t.Fatalf("the golden text was not understood: %d queues, %d properties", len(info.MqTable), len(info.Properties))
	}
	got, _, err := play(t, "consumerStatus -g CG-hold -i 10.0.0.1@push-CG-hold -b 127.0.0.1:40911", map[code.Request]any{code.GetConsumerRunningInfo: info})
	if err != nil {
		t.Fatal(err)
	}
	properties := func(text string) string { // their order is that of a hash table
		head, rest, _ := strings.Cut(text, "\n\n\n")
		return sorted(head) + "\n\n\n" + rest
	}
	same(t, properties(text), properties(got))
}

func TestConsumerStatusIsThatOfRocketMQ(t *testing.T) {
	want := golden(t, "041-consumerStatus")
	t.Chdir(t.TempDir())
	got, _, err := play(t, "consumerStatus -g CG-hold -b 127.0.0.1:40911", map[code.Request]any{code.GetConsumerConnectionList: holders, code.GetConsumerRunningInfo: runningInfo})
	if err != nil {
		t.Fatal(err)
	}
	folder := strconv.FormatInt(goldenTime.UnixMilli(), 10)
	same(t, strings.ReplaceAll(want, "1795968043027", folder), got)
	if text, err := os.ReadFile(filepath.Join(folder, "10.0.0.1@push-CG-hold")); err != nil || !strings.HasPrefix(string(text), "#Consumer Properties#\n") {
		t.Errorf("file %.30q, %v", text, err)
	}
}

func TestSendIsShownAsByRocketMQ(t *testing.T) {
	got, _, err := play(t, "sendMessage -t TopicTest -p hello -k admin-key -c AdminTag", map[code.Request]any{code.GetRouteInfoByTopic: route,
		code.SendMessageV2: func(_ string, fields map[string]string) any {
			props := message.Props(fields["i"])
			if got := []string{string(props.Lookup("KEYS")), string(props.Lookup("TAGS")), string(props.Lookup("WAIT"))}; !slices.Equal(got, []string{"admin-key", "AdminTag", "true"}) {
				t.Errorf("properties %q", got)
			}
			return &header.SendMessageResponse{MsgID: "X", QueueID: 3}
		}})
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`[0-9A-F]{32}`)
	same(t, id.ReplaceAllString(golden(t, "054-sendMessage"), "ID"), id.ReplaceAllString(got, "ID"))
}

func TestPagesOfAPullEnd(t *testing.T) {
	answers := pullAnswers(nil)
	answers[code.GetMaxOffset] = &header.GetMaxOffsetResponse{Offset: 5}
	answers[code.PullMessage] = pulledFrame{&header.PullMessageResponse{NextBeginOffset: 0}, record(t, 0, nil)}
	if _, _, err := play(t, "printMsg -t TopicOrder", answers); err == nil || !strings.Contains(err.Error(), "does not get past offset 0") {
		t.Errorf("a broker that stays at an offset: %v", err)
	}
}

// TestOfflineGroupIsReset: a broker that leaves it to members answers 206, and the tool commits the offsets itself.
func TestOfflineGroupIsReset(t *testing.T) {
	committed := map[string]string{}
	got, _, err := play(t, "resetOffsetByTime -g CG-hold -t TopicTest -s 2026-11-29#16:00:00:000", map[code.Request]any{code.GetRouteInfoByTopic: route,
		code.InvokeBrokerToResetOffset: &answerError{code: code.ConsumerNotOnline}, code.SearchOffsetByTimestamp: &header.SearchOffsetResponse{Offset: 7},
		code.GetConsumeStats: body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{queueIn("TopicTest", 2): {}}},
		code.UpdateConsumerOffset: func(_ string, fields map[string]string) any {
			committed[fields["queueId"]] = fields["commitOffset"]
			return nil
		}})
	if err != nil || !cmp.Equal(committed, map[string]string{"2": "7"}) || !regexp.MustCompile(`(?m)^broker-a +2 +7 *$`).MatchString(got) {
		t.Errorf("committed %v, %v, printed\n%s", committed, err, got)
	}
}

func TestNewIDHoldsTheTime(t *testing.T) {
	_, _, err := playWith(t, nil, func(tool *tool) error {
		id := tool.newID()
		ms, err := strconv.ParseInt(id[20:28], 16, 64)
		if want := goldenTime.Sub(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)).Milliseconds(); err != nil || len(id) != 32 || ms != want {
			t.Errorf("id %s holds %d, want %d", id, ms, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCharsets(t *testing.T) {
	for name, want := range map[string]string{"": "\xe9", "utf-8": "\xe9", "ISO-8859-1": "é"} {
		if got, err := charset(name, []byte{0xe9}); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := charset("GBK", nil); err == nil {
		t.Error("GBK is taken")
	}
}

func TestGroupTextOfAllMembers(t *testing.T) {
	got := groupText(&body.SubscriptionGroupConfig{GroupName: "G", SubscriptionDataSet: []body.SimpleSubscriptionData{{Topic: "T", ExpressionType: "TAG", Expression: "*", Version: 1}},
		GroupRetryPolicy: body.GroupRetryPolicy{Type: body.RetryCustomized, CustomizedRetryPolicy: &body.CustomizedRetryPolicy{Next: []int64{1000, 5000}}}})
	for _, want := range []string{"customizedRetryPolicy=CustomizedRetryPolicy{next=[1000, 5000]}}", "subscriptionDataSet=[SimpleSubscriptionData{topic='T', expressionType='TAG', expression='*', version=1}]"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %s", got, want)
		}
	}
}

// TestIntervalRepeats: a command with an interval goes on until it is interrupted, and that is no failure.
func TestIntervalRepeats(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	rounds := 0
	_, _, err := playWith(t, nil, func(tool *tool) error {
		tool.ctx = ctx
		clk := tool.clk.(*clock.Manual)
		return tool.every(2, func() error {
			if rounds++; rounds == 3 {
				interrupt()
				return nil
			}
			go func() { // every waits on the clock only after this returns
				clk.BlockUntil(1)
				clk.Advance(2 * time.Second)
			}()
			return nil
		})
	})
	if err != nil || rounds != 3 {
		t.Errorf("%d rounds, %v", rounds, err)
	}
}
