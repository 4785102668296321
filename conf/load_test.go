package conf

import (
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func environment(pairs ...string) func(string) (string, bool) {
	m := map[string]string{"HOME": "/home/op"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) (string, bool) { v, ok := m[name]; return v, ok }
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load[T any, P Of[T]](t *testing.T, text string, env ...string) (*T, *Report) {
	t.Helper()
	c, r, err := Load[T, P](writeFile(t, text), nil, environment(env...))
	if err != nil {
		t.Fatal(err)
	}
	return c, r
}

func TestLoadBrokerFile(t *testing.T) {
	b, r, err := Load[Broker]("testdata/broker.properties", nil, environment())
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(b.BrokerConfigPath) || !strings.HasSuffix(b.BrokerConfigPath, "testdata/broker.properties") {
		t.Errorf("brokerConfigPath is %q", b.BrokerConfigPath)
	}
	b.BrokerConfigPath = "/etc/castor/broker.properties"
	golden(t, "broker.text", Text(b))

	var report strings.Builder
	for _, f := range r.Findings {
		report.WriteString(f.String() + "\n")
	}
	golden(t, "broker.report", []byte(report.String()))

	var important strings.Builder
	for _, p := range Important(b) {
		important.WriteString(p.Key + "=" + p.Value + "\n")
	}
	golden(t, "broker.important", []byte(important.String()))
}

func TestLoadOtherComponents(t *testing.T) {
	n, r := load[Namesrv](t, "listenPort=9886\norderMessageEnable=true\nclientRequestThreadPoolNums=8\nbrokerName=x\n", "ROCKETMQ_HOME", "/opt/rmq")
	n.ConfigStorePath = "/etc/castor/namesrv.properties"
	golden(t, "namesrv.text", Text(n))
	want := []Finding{{Unknown, "", 4, "brokerName", "x", "a key of BrokerConfig, which this process does not read"}}
	for i := range r.Findings {
		r.Findings[i].Source = ""
	}
	if diff := cmp.Diff(want, r.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	c, _ := load[Controller](t, "controllerDLegerGroup=g\ncontrollerDLegerPeers=n0-127.0.0.1:9878;n1-127.0.0.1:9868\ncontrollerDLegerSelfId=n1\ncontrollerType=jraft")
	c.ConfigStorePath = "/etc/castor/controller.properties"
	golden(t, "controller.text", Text(c))
}

func TestTextIsAPropertiesFileThatLoadsAgain(t *testing.T) {
	first, _ := load[Broker](t, "brokerName=a\nbrokerIP1=10.0.0.1\nbrokerIP2=10.0.0.1\nhaListenPort=7\nmessageDelayLevel=1s 2h")
	second, r := load[Broker](t, string(Text(first)))
	second.BrokerConfigPath = first.BrokerConfigPath
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	if len(r.Findings) != 0 {
		t.Errorf("findings: %v", r.Findings)
	}
}

func TestSourcesFromWeakToStrong(t *testing.T) {
	type sources struct {
		file      string
		env       []string
		overrides map[string]string
	}
	tests := []struct {
		name string
		s    sources
		want string
	}{
		{"default", sources{}, ""},
		{"environment", sources{env: []string{"NAMESRV_ADDR", "e:1"}}, "e:1"},
		{"system property before variable", sources{env: []string{"rocketmq.namesrv.addr", "p:1", "NAMESRV_ADDR", "e:1"}}, "p:1"},
		{"file over environment", sources{"namesrvAddr=f:1", []string{"NAMESRV_ADDR", "e:1"}, nil}, "f:1"},
		{"key variable over file", sources{"namesrvAddr=f:1", []string{"ROCKETMQ_NAMESRV_ADDR", "k:1"}, nil}, "k:1"},
		{"command line over all", sources{"namesrvAddr=f:1", []string{"ROCKETMQ_NAMESRV_ADDR", "k:1"}, map[string]string{"namesrvAddr": "c:1"}}, "c:1"},
		{"an empty variable is none", sources{env: []string{"ROCKETMQ_NAMESRV_ADDR", ""}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, _, err := Load[Broker](writeFile(t, tt.s.file), tt.s.overrides, environment(tt.s.env...))
			if err != nil {
				t.Fatal(err)
			}
			if b.NamesrvAddr != tt.want {
				t.Errorf("got %q, want %q", b.NamesrvAddr, tt.want)
			}
		})
	}
}

func TestLoadWithoutFileOrEnvironment(t *testing.T) {
	b, _, err := Load[Broker]("", map[string]string{"storePathRootDir": "/data"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/data/commitlog", "/data/epochFileCheckpoint", "/data/brokerIdentity"}
	if diff := cmp.Diff(want, []string{b.StorePathCommitLog, b.StorePathEpochFile, b.StorePathBrokerIdentity}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if net.ParseIP(strings.Trim(b.BrokerIP1, "[]")) == nil || b.BrokerIP2 != b.BrokerIP1 {
		t.Errorf("brokerIP1=%q brokerIP2=%q", b.BrokerIP1, b.BrokerIP2)
	}
	if b.BrokerName == "" || b.HaListenPort != 10912 || b.FastListenPort != 10909 {
		t.Errorf("brokerName=%q haListenPort=%d fastListenPort=%d", b.BrokerName, b.HaListenPort, b.FastListenPort)
	}
}

func TestDerivedValues(t *testing.T) {
	b, r := load[Broker](t, "listenPort=30911\nfastListenPort=-1\nhaListenPort=5000\nbrokerId=3\nbrokerIP1=1.1.1.1\nbrokerIP2=1.1.1.2\nstorePathCommitLog=/log")
	if b.FastListenPort != -1 || b.HaListenPort != 5000 || b.BrokerId != 0 || b.StorePathCommitLog != "/log" || b.StorePathRootDir != "/home/op/store" {
		t.Errorf("got %+v %+v", b.Identity, b.Store)
	}
	if len(r.Findings) != 1 || r.Findings[0].Kind != Adjusted || r.Findings[0].Key != "brokerId" {
		t.Errorf("findings: %v", r.Findings)
	}
	free, _ := load[Broker](t, "listenPort=0")
	if free.HaListenPort != 0 || free.FastListenPort != 0 {
		t.Errorf("with a free port: haListenPort=%d fastListenPort=%d", free.HaListenPort, free.FastListenPort)
	}
}

// The files of a Java cluster in each of its modes load without an unknown key.
func TestFilesOfEveryModeLoad(t *testing.T) {
	common := "brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\nlistenPort=20876\n" +
		"namesrvAddr=127.0.0.1:19876\nstorePathRootDir=/r\nstorePathCommitLog=/r/commitlog\ndiskMaxUsedSpaceRatio=95\nenablePropertyFilter=true\n"
	tests := []struct {
		name, text string
		id         int64
	}{
		{"single", "brokerId=0\nflushDiskType=ASYNC_FLUSH\nbrokerRole=ASYNC_MASTER\n", 0},
		{"sync flush", "brokerId=0\nflushDiskType=SYNC_FLUSH\nbrokerRole=ASYNC_MASTER\n", 0},
		{"master of itself", "brokerId=0\nbrokerRole=SYNC_MASTER\n", 0},
		{"controller", "brokerId=-1\nbrokerRole=ASYNC_MASTER\nenableControllerMode=true\ncontrollerAddr=127.0.0.1:21876;127.0.0.1:21886\n" +
			"allAckInSyncStateSet=true\nminInSyncReplicas=2\ninSyncReplicas=2\n", -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, r := load[Broker](t, common+tt.text)
			if len(r.Findings) != 0 || b.BrokerId != tt.id {
				t.Errorf("brokerId=%d, findings %v", b.BrokerId, r.Findings)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"words for numbers", "a=1\nfileReservedTime=48h", ":2: fileReservedTime=48h: want a whole number not below 0"},
		{"out of range", "listenPort=70000", ":1: listenPort=70000: want a whole number from 0 to 65535"},
		{"too large for an int", "maxTransferCountOnMessageInMemory=2147483648", "want a whole number"},
		{"too large for a long", "startAcceptSendRequestTimeStamp=9223372036854775808", "want a whole number"},
		{"size overflow", "mappedFileSizeCommitLog=8388608t", "want a number of bytes not below 4096"},
		{"not a boolean", "enablePropertyFilter=yes", "want true or false"},
		{"nothing for a boolean", "enablePropertyFilter=", `enablePropertyFilter="": want true or false`},
		{"not an enum", "flushDiskType=SOMETIMES", "want one of ASYNC_FLUSH, SYNC_FLUSH"},
		{"not an address", "namesrvAddr=localhost", "want host:port, separated by semicolons"},
		{"not a delay", "messageDelayLevel=1s 5x", "want numbers with s, m, h or d"},
		{"not an hour", "deleteWhen=04;24", "want hours from 0 to 23"},
		{"not a label", "metricsLabel=a=b", "want name:value"},
		{"malformed text", "a=\\u1", "line 1: \\u is not followed"},
		{"slave without controllers", "brokerRole=SLAVE\nbrokerId=1", "brokerRole: a SLAVE without controllers is not supported"},
		{"copies without controllers", "brokerRole=SYNC_MASTER\nminInSyncReplicas=2", "a SYNC_MASTER without controllers has no second copy"},
		{"controllers missing", "enableControllerMode=true", "controllerAddr: enableControllerMode=true needs"},
		{"several commit log directories", "storePathCommitLog=/a,/b", "several directories is not supported"},
		{"DLedger", "enableDLegerCommitLog=true", ":1: enableDLegerCommitLog is not supported: a DLedger"},
		{"authentication", "authenticationEnabled = true", "does not start without the check"},
		{"too large", strings.Repeat("#", maxText+2), "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, r, err := Load[Broker](writeFile(t, tt.text), nil, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
			if b != nil || r == nil {
				t.Errorf("got configuration %v, report %v", b, r)
			}
		})
	}
	if _, _, err := Load[Broker](filepath.Join(t.TempDir(), "missing"), nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestLoadNamesEveryBadValue(t *testing.T) {
	path := writeFile(t, "listenPort=x\nbrokerId=y\n")
	_, _, err := Load[Broker](path, map[string]string{"deleteWhen": "noon"}, environment("ROCKETMQ_BROKER_PERMISSION", "9"))
	var got []ValueError
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var v *ValueError
		if !errors.As(e, &v) {
			t.Fatalf("%v is no ValueError", e)
		}
		got = append(got, *v)
	}
	want := []ValueError{
		{path, 1, "listenPort", "x", "a whole number from 0 to 65535"},
		{path, 2, "brokerId", "y", "a whole number not below -1"},
		{"environment ROCKETMQ_BROKER_PERMISSION", 0, "brokerPermission", "9", "a whole number from 0 to 7"},
		{"command line", 0, "deleteWhen", "noon", "hours from 0 to 23, separated by semicolons"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestControllerRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"no peers", "controllerType=jRaft\njRaftServerId=localhost:9881", "controllerDLegerPeers: missing"},
		{"not a peer", "controllerDLegerPeers=n0-a:1\ncontrollerDLegerSelfId=n1", `"n1" is none of controllerDLegerPeers`},
		{"twice", "controllerDLegerPeers=n0-a:1;n0-b:1\ncontrollerDLegerSelfId=n0", "want id-host:port"},
		{"no id", "controllerDLegerPeers=a:1", "want id-host:port"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := Load[Controller](writeFile(t, tt.text), nil, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestSampleFilesWithXMLCommentLoad(t *testing.T) {
	text := "<!--\n  Licensed to the Apache Software Foundation (ASF) under one or more\n  listenPort=9886\n  limitations under the License.\n  -->\n" +
		"orderMessageEnable=true\nlicensed=1\n"
	n, r := load[Namesrv](t, text)
	if n.ListenPort != 9886 || !n.OrderMessageEnable {
		t.Errorf("got %+v", n.NameServer)
	}
	var keys []string
	for _, f := range r.Findings {
		keys = append(keys, f.Key)
	}
	if diff := cmp.Diff([]string{"<!--", "licensed"}, keys); diff != "" {
		t.Errorf("reported keys (-want +got):\n%s", diff)
	}
}

func TestReportShowsNoSecretAndNoRawText(t *testing.T) {
	_, r := load[Broker](t, "brokerIP1=1.1.1.1\nbrokerIP2=1.1.1.1\ninitAuthenticationUser={\"password\":\"hunter2\"}\nx\\u001b[2J="+strings.Repeat("v", 1000))
	if len(r.Findings) != 2 {
		t.Fatalf("findings: %v", r.Findings)
	}
	for _, f := range r.Findings {
		if s := f.String(); strings.Contains(s, "hunter2") || strings.Contains(s, "\x1b") || len(s) > 500 {
			t.Errorf("shown: %q", s)
		}
	}
}

func TestDefaultDependsOnNoOtherKey(t *testing.T) {
	b := Default[Broker]()
	if b.StorePathCommitLog != "" || b.BrokerIP1 != "" || b.HaListenPort != 0 || b.FileReservedTime != 72 {
		t.Errorf("got %+v", b)
	}
	if !strings.HasSuffix(b.StorePathRootDir, "/store") || strings.Contains(b.StorePathRootDir, "~") {
		t.Errorf("storePathRootDir is %q", b.StorePathRootDir)
	}
}
