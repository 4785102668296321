package conf

import (
	gotoken "go/token"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var components = []Component{&Broker{}, &Namesrv{}, &Controller{}}

func TestDeclarationsAreSound(t *testing.T) {
	for _, c := range components {
		typ := reflect.TypeOf(c).Elem()
		fields, keys, variables := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, k := range Keys(c) {
			name := typ.Name() + "." + k.Field
			if fields[k.Field] || keys[k.Name] || variables[Variable(k.Name)] {
				t.Errorf("%s: field, key or variable stands twice", name)
			}
			fields[k.Field], keys[k.Name], variables[Variable(k.Name)] = true, true, true
			if k.Field != fieldName(k.Name) || !gotoken.IsExported(k.Field) {
				t.Errorf("%s: want the field name %s", name, fieldName(k.Name))
			}
			if !slices.Contains([]Apply{Hot, Restart, Startup, Deny}, k.Apply) {
				t.Errorf("%s: apply %q", name, k.Apply)
			}
			if !slices.Contains([]string{"string", "bool", "int32", "int64"}, k.Type) {
				t.Errorf("%s: type %s", name, k.Type)
			}
			if _, ok := forms[k.form]; k.form != "" && !ok {
				t.Errorf("%s: form %q", name, k.form)
			}
			for _, bound := range []string{k.Min, k.Max} {
				if _, err := strconv.ParseInt(bound, 10, 64); bound != "" && err != nil {
					t.Errorf("%s: bound %q", name, bound)
				}
			}
			if strings.Contains(strings.ToLower(k.Name), "path") != (k.Apply == Deny) && k.Name != "rocketmqHome" && k.Name != "configBlackList" {
				t.Errorf("%s: apply %q", name, k.Apply)
			}
		}
		if n := reflect.VisibleFields(typ); len(fields) == 0 || len(n) <= len(fields) {
			t.Errorf("%s: %d keys in %d fields", typ.Name(), len(fields), len(n))
		}
	}
}

func fieldName(key string) string {
	key = strings.Replace(key, "tls", "TLS", 1)
	var out strings.Builder
	for part := range strings.SplitSeq(key, ".") {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}

// Every key that Java has too carries Java's type and default, but for those below.
func TestDefaultsAreJavas(t *testing.T) {
	differ := map[string]string{
		"brokerConfigPath":     "Java keeps the path elsewhere",
		"haListenPort":         "Java's 10912 is replaced while the broker starts",
		"listenPort":           "set by each process while it starts",
		"minInSyncReplicas":    "0 chooses by the size of the set",
		"allAckInSyncStateSet": "Java's default loses acknowledged messages",

		"haMaxTimeSlaveNotCatchup":        "a replica that lags holds up producers, who give up after 3 s",
		"controllerHeartBeatTimeoutMills": "heartbeats come five times as often, and a master that hangs is missed within a second",
		"storePathRootDir":                "below the home directory",
		"kvConfigPath":                    "below the home directory",
		"configStorePath":                 "below the home directory",
	}
	types := map[string]string{"boolean": "bool", "int": "int32", "long": "int64"}
	seen := map[string]bool{}
	for _, c := range components {
		cat := newCatalogue(c)
		for _, k := range Keys(c) {
			java, ok := cat.java[k.Name]
			if !ok {
				continue
			}
			if want := types[java.Type]; want != "" && k.Type != want || want == "" && k.Type != "string" {
				t.Errorf("%s is %s, in Java %s", k.Name, k.Type, java.Type)
			}
			if k.Default != java.Default {
				seen[k.Name] = true
				if differ[k.Name] == "" {
					t.Errorf("%s defaults to %q, in Java to %q", k.Name, k.Default, java.Default)
				}
			}
		}
	}
	for name := range differ {
		if !seen[name] {
			t.Errorf("%s is listed without need", name)
		}
	}
}

// TestKeysAreRead: a key that nobody reads is none of ours. Java's keys need not be declared: they are listed with Java's defaults, and reported when
// they are set.
func TestKeysAreRead(t *testing.T) {
	var source strings.Builder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			source.Write(text)
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.(\w+)`).FindAllStringSubmatch(source.String(), -1) {
		used[m[1]] = true
	}
	for _, c := range components {
		for _, k := range Keys(c) {
			if !used[k.Field] && k.Apply != Deny { // those are looked up by their names
				t.Errorf("nobody reads %s", k.Name)
			}
		}
	}
}

func TestJavaKeys(t *testing.T) {
	count := map[string]int{}
	for _, k := range javaKeys() {
		count[k.Class]++
		if k.Name == "" || k.Type == "" || len(k.Name) > maxKeyLength || strings.ContainsAny(k.Name+k.Type, " *") {
			t.Errorf("malformed: %+v", k)
		}
	}
	want := map[string]int{"BrokerConfig": 243, "MessageStoreConfig": 219, "NettyServerConfig": 18, "NettyClientConfig": 20,
		"NamesrvConfig": 22, "ControllerConfig": 27, "JraftConfig": 7, "AuthConfig": 26, "BrokerContainerConfig": 9, "System": 6, "Removed": 6}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	broker := newCatalogue(&Broker{})
	if k := broker.java["messageDelayLevel"]; k.Default != "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h" || k.Important {
		t.Errorf("messageDelayLevel: %+v", k)
	}
	if k := broker.java["namesrvAddr"]; !k.Null || !k.Important || k.Default != "" {
		t.Errorf("namesrvAddr: %+v", k)
	}
	for name := range refused {
		if _, ok := broker.java[name]; !ok {
			t.Errorf("%s is refused, but no key of a broker", name)
		}
		if _, ok := broker.declared[name]; ok {
			t.Errorf("%s is refused, but declared", name)
		}
	}
}

func TestNearest(t *testing.T) {
	tests := []struct{ key, want string }{
		{"brokerNmae", "brokerName"},
		{"brokername", "brokerName"},
		{"mapedFileSizeCommitLog", "mappedFileSizeCommitLog"},
		{"autoCreateTopicsEnabled", "autoCreateTopicEnable"},
		{"namesrvAddrs", "namesrvAddr"},
		{"fileReservedTimes", "fileReservedTime"},
		{"tls.server.certpath", "tls.server.certPath"},
		{"sendMessageThreadPoolNum", "sendMessageThreadPoolNums"},
		{"a", ""},
		{"", ""},
		{"somethingElseEntirely", ""},
		{strings.Repeat("brokerName", 1000), ""},
	}
	cat := newCatalogue(&Broker{})
	for _, tt := range tests {
		if got := cat.nearest(tt.key); got != tt.want {
			t.Errorf("nearest(%.40q) is %q, want %q", tt.key, got, tt.want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abd", 1}, {"abc", "acb", 1}, {"abc", "bc", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 1}}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) is %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestVariable(t *testing.T) {
	tests := []struct{ key, want string }{
		{"brokerIP1", "ROCKETMQ_BROKER_IP1"},
		{"checkCRCOnRecover", "ROCKETMQ_CHECK_CRC_ON_RECOVER"},
		{"tls.server.need.client.auth", "ROCKETMQ_TLS_SERVER_NEED_CLIENT_AUTH"},
		{"namesrvAddr", "ROCKETMQ_NAMESRV_ADDR"},
		{"controllerDLegerSelfId", "ROCKETMQ_CONTROLLER_D_LEGER_SELF_ID"},
	}
	for _, tt := range tests {
		if got := Variable(tt.key); got != tt.want {
			t.Errorf("Variable(%q) is %q, want %q", tt.key, got, tt.want)
		}
	}
}

func TestSecrets(t *testing.T) {
	for _, key := range []string{"tls.server.keyPassword", "tls.client.keyPassword", "initAuthenticationUser", "innerClientAuthenticationCredentials",
		"accessKey", "secretKey", "metricsGrpcExporterHeader"} {
		if !IsSecret(key) {
			t.Errorf("%s is no secret", key)
		}
	}
	for _, c := range components {
		for _, k := range Keys(c) {
			if IsSecret(k.Name) != strings.HasSuffix(k.Name, "Password") {
				t.Errorf("%s: secret %t", k.Name, IsSecret(k.Name))
			}
		}
	}
	b := Default[Broker]()
	b.TLSServerKeyPassword = "hunter2"
	if text := string(Text(b)); strings.Contains(text, "hunter2") || !strings.Contains(text, "tls.server.keyPassword="+Mask+"\n") {
		t.Error("the password is shown")
	}
}

func TestDelayLevels(t *testing.T) {
	got, err := DelayLevels(" 1s  5m 2h\t1d 0s")
	want := []time.Duration{time.Second, 5 * time.Minute, 2 * time.Hour, 24 * time.Hour, 0}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"", "  ", "1", "s", "-1s", "1.5s", "1w", "1S", "10001d", "2147483648s", "9999999999999999999s", "1s;2s"} {
		if got, err := DelayLevels(text); err == nil {
			t.Errorf("DelayLevels(%q) is %v", text, got)
		}
	}
}

func TestHours(t *testing.T) {
	got, err := Hours("04;;16 ; 0")
	if diff := cmp.Diff([]int{4, 16, 0}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"24", "-1", "four", "4,5", "4:00"} {
		if got, err := Hours(text); err == nil {
			t.Errorf("Hours(%q) is %v", text, got)
		}
	}
}

func TestSize(t *testing.T) {
	tests := []struct {
		text string
		want int64
	}{{"0", 0}, {"1073741824", 1 << 30}, {"1g", 1 << 30}, {"64K", 65536}, {"2MiB", 2 << 20}, {"3kb", 3072}, {"1t", 1 << 40}, {"5b", 5},
		{"-1k", -1024}, {"9223372036854775807", math.MaxInt64}, {"8388607t", 8388607 << 40}}
	for _, tt := range tests {
		if got, err := Size(tt.text); got != tt.want || err != nil {
			t.Errorf("Size(%q) is %d, %v, want %d", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "k", "1 k", "1x", "1kk", "1ki", "1.5g", "8388608t", "9223372036854775808", "0x10"} {
		if got, err := Size(text); err == nil {
			t.Errorf("Size(%q) is %d", text, got)
		}
	}
}

func TestAddrs(t *testing.T) {
	got, err := Addrs("a:1; 10.0.0.1:65535 ;[::1]:9876;")
	if diff := cmp.Diff([]string{"a:1", "10.0.0.1:65535", "[::1]:9876"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"a", ":1", "a:", "a:0", "a:65536", "::1:9876", "a:1,b:2", "http://a"} {
		if got, err := Addrs(text); err == nil {
			t.Errorf("Addrs(%q) is %v", text, got)
		}
	}
}

func TestLists(t *testing.T) {
	peers, err := Peers("n0-10.0.0.1:9878;n1-host-with-dashes:9868")
	if diff := cmp.Diff([]Peer{{"n0", "10.0.0.1:9878"}, {"n1", "host-with-dashes:9868"}}, peers); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	labels, err := Labels("zone:a,_x1:b:c")
	if diff := cmp.Diff([]Label{{"zone", "a"}, {"_x1", "b:c"}}, labels); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{"a", "1a:b", ":b", "a-b:c", "ä:b"} {
		if got, err := Labels(text); err == nil {
			t.Errorf("Labels(%q) is %v", text, got)
		}
	}
}
