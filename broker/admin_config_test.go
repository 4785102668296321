package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func (b *testBroker) configText() map[string]string {
	b.t.Helper()
	got := map[string]string{}
	for line := range strings.Lines(string(b.client.ok(code.GetBrokerConfig, nil, nil).Body)) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			b.t.Errorf("no key=value: %q", line)
		}
		got[k] = v
	}
	return got
}

func TestConfig(t *testing.T) {
	b := startBroker(t, map[string]string{"tls.server.keyPassword": "hush"})
	text := b.configText()
	for k, want := range map[string]string{"brokerName": "b", "brokerClusterName": "DefaultCluster", "brokerRole": "ASYNC_MASTER", "maxMessageSize": "1048576",
		"flushDiskType": "ASYNC_FLUSH", "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h", "tls.server.keyPassword": conf.Mask} {
		if text[k] != want {
			t.Errorf("%s=%s, want %s", k, text[k], want)
		}
	}
	version := func() body.DataVersion {
		var resp header.GetBrokerConfigResponse
		if err := b.client.ok(code.GetBrokerConfig, nil, nil).Decode(&resp); err != nil {
			t.Fatal(err)
		}
		return decode[body.DataVersion](t, []byte(resp.Version))
	}
	before := version()
	b.client.ok(code.UpdateBrokerConfig, nil, "longPollingEnable=false\nshortPollingTimeMills=77\n")
	if after := version(); after.Counter != before.Counter+1 || after.Timestamp == 0 {
		t.Errorf("version %+v after %+v", after, before)
	}
	if c := b.conf.Load(); c.LongPollingEnable || c.ShortPollingTimeMills != 77 || b.configText()["shortPollingTimeMills"] != "77" {
		t.Error("the change has no effect")
	}
}

func TestUpdateConfigIsRefused(t *testing.T) {
	b := startBroker(t, nil)
	for _, key := range []string{"brokerConfigPath", "rocketmqHome", "configBlackList", "storePathRootDir"} {
		b.client.refused(code.UpdateBrokerConfig, nil, "shortPollingTimeMills=77\n"+key+"=x\n", code.NoPermission, "Can not update config in black list.")
	}
	for text, remark := range map[string]string{
		"shortPollingTimeMills=77\nmaxMessageSize=big\n": "maxMessageSize",
		"shortPollingTimeMills=77\nmaxMessageSize=-1\n":  "maxMessageSize",
		"shortPollingTimeMills=77\nlistenPort=1\n":       "listenPort",
		"flushDiskType=MAYBE":                            "flushDiskType",
		"a=\\u00":                                        "",
	} {
		b.client.refused(code.UpdateBrokerConfig, nil, text, code.InvalidParameter, remark)
	}
	if b.conf.Load().ShortPollingTimeMills == 77 {
		t.Error("a part of a change that was refused has an effect")
	}
	for _, text := range []string{"", "noSuchKey=1\n", "# nothing\n", strings.Repeat("k=v\n", 10_000)} { // tools send keys of other versions
		b.client.ok(code.UpdateBrokerConfig, nil, text)
	}
}

// TestUpdateConfigEditsTheFile checks that only the changed line of the user's file changes.
func TestUpdateConfigEditsTheFile(t *testing.T) {
	b := startBroker(t, nil)
	path := filepath.Join(t.TempDir(), "broker.conf")
	const text = "# mine\nbrokerName = b\n\nfileReservedTime=48\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := *b.conf.Load()
	c.BrokerConfigPath = path
	b.conf.Store(&c)
	b.client.ok(code.UpdateBrokerConfig, nil, "fileReservedTime=24\n")
	got, err := os.ReadFile(path)
	if want := strings.Replace(text, "48", "24", 1); err != nil || string(got) != want {
		t.Errorf("%v: the file is now\n%s", err, got)
	}
}

func TestUpdateConfigTakesEffect(t *testing.T) {
	b := startBroker(t, nil)
	send := &header.SendMessageRequestV2{Topic: "T", DefaultTopic: autoCreateKey, DefaultTopicQueueNums: 1}
	region := func() string {
		var resp header.SendMessageResponse
		if err := b.client.ok(code.SendMessageV2, send, "x").Decode(&resp); err != nil {
			t.Fatal(err)
		}
		return resp.MsgRegion
	}
	if got := region(); got != "DefaultRegion" {
		t.Fatal(got)
	}
	b.client.ok(code.UpdateBrokerConfig, nil, "regionId=north\nflushDiskType=SYNC_FLUSH\n")
	if got := region(); got != "north" {
		t.Errorf("region %q", got)
	}
	if end := b.store.Log.Flushed(); end < b.store.Queues.Get("T", 0).Max() || end == 0 {
		t.Error("a send did not wait for the disk")
	}
	version := b.topics.version()
	b.client.ok(code.UpdateBrokerConfig, nil, "brokerPermission=4\n")
	if b.topics.version().Counter <= version.Counter {
		t.Error("name servers are not told of the permission")
	}
	b.client.ok(code.UpdateBrokerConfig, nil, "autoCreateTopicEnable=false\n")
	send.Topic = "T2"
	b.client.refused(code.SendMessageV2, send, "x", code.TopicNotExist, "T2")
}

func TestRuntime(t *testing.T) {
	b := consumed(t, nil)
	table := decode[body.KVTable](t, b.client.ok(code.GetBrokerRuntimeInfo, nil, nil).Body).Table
	keys, err := os.ReadFile("testdata/runtime_keys.txt") // of a Java broker
	if err != nil {
		t.Fatal(err)
	}
	for key := range strings.Lines(string(keys)) {
		if key = strings.TrimSpace(key); table[key] == "" {
			t.Errorf("%s is missing", key)
		}
	}
	var number float64
	for _, key := range strings.Fields(`bootTimestamp earliestMessageTimeStamp putMessageTimesTotal putMessageSizeTotal putMessageAverageSize dispatchBehindBytes
		commitLogMinOffset commitLogMaxOffset commitLogDiskRatio consumeQueueDiskRatio timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps
		timerDequeueTps pageCacheLockTimeMills sendThreadPoolQueueHeadWaitTimeMills putTps getTransferredTps msgPutTotalTodayNow brokerVersion`) {
		if _, err := fmt.Sscanf(table[key], "%g", &number); err != nil {
			t.Errorf("%s is no number: %q", key, table[key])
		}
	}
	for key, want := range map[string]string{"msgPutTotalTodayNow": "3", "msgGetTotalTodayNow": "3", "putMessageTimesTotal": "3", "brokerActive": "true", "brokerVersionDesc": "V5_5_0",
		"msgPutTotalTodayMorning": "0", "pullThreadPoolQueueSize": "0", "pullThreadPoolQueueCapacity": "100000"} {
		if table[key] != want {
			t.Errorf("%s is %q, want %q", key, table[key], want)
		}
	}
	if p := strings.Fields(table["putTps"]); len(p) != 3 {
		t.Errorf("putTps %q", table["putTps"])
	}
}

func TestBinarySize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 756: "756 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 252 << 30: "252.0 GiB", 1 << 62: "4.0 EiB"} {
		if got := binarySize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestOtherAdminRequests(t *testing.T) {
	b := consumed(t, nil)
	ha := decode[body.HARuntimeInfo](t, b.client.ok(code.GetBrokerHAStatus, nil, nil).Body)
	if !ha.Master || ha.MasterCommitLogMaxOffset != b.store.Log.End() || ha.InSyncSlaveNums != 0 || len(ha.HAConnectionInfo) != 0 {
		t.Errorf("%+v", ha)
	}
	b.client.refused(code.GetBrokerEpochCache, nil, nil, code.SystemError, "this request only for controllerMode ")
	if r := b.client.ok(code.SetCommitLogReadMode, &header.SetCommitLogReadModeRequest{ReadAheadMode: "0"}, nil); string(r.Remark) != "set commitlog readahead mode success, mode: 0" {
		t.Errorf("%q", r.Remark)
	}
	for _, mode := range []string{"1", "", "x"} {
		b.client.refused(code.SetCommitLogReadMode, &header.SetCommitLogReadModeRequest{ReadAheadMode: mode}, nil, code.InvalidParameter, "mode")
	}
	check := decode[body.CheckRocksdbCqWriteResult](t, b.client.ok(code.CheckRocksDBCQWriteProgress, &header.CheckRocksdbCqWriteProgressRequest{Topic: "T"}, nil).Body)
	if check.CheckStatus != 0 {
		t.Errorf("%+v", check)
	}
	if r := b.client.ok(code.ExportRocksDBConfigToJSON, &header.ExportRocksDBConfigToJsonRequest{ConfigType: "topics"}, nil); string(r.Remark) != "export done." {
		t.Errorf("%q", r.Remark)
	}
	// What other processes serve, and what this broker has not.
	for _, rc := range []code.Request{13, 22, 23, 27, 47, 209, 210, 211, 212, 213, 214, 301, 302, code.AddBroker, code.RemoveBroker, code.ControllerElectMaster,
		code.AuthCreateUser, code.AuthListACL, code.UpdateAndCreateStaticTopic, 99_999, -1} {
		b.client.refused(rc, nil, nil, code.RequestCodeNotSupported, fmt.Sprintf(" request type %d not supported", rc))
	}
}
