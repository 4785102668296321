package conf

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUpdate(t *testing.T) {
	tests := []struct {
		name, text string
		changed    []string
		want       string // part of the error
		denied     bool
	}{
		{name: "nothing"},
		{name: "hot", text: "brokerPermission=4\n", changed: []string{"brokerPermission"}},
		{name: "several, in the order of declaration", text: "fileReservedTime=24\nflushDiskType=sync_flush\nnamesrvAddr=a:1;b:2",
			changed: []string{"namesrvAddr", "flushDiskType", "fileReservedTime"}},
		{name: "the same value", text: "fileReservedTime=72"},
		{name: "twice", text: "fileReservedTime=24\nfileReservedTime=72"},
		{name: "keys nobody knows", text: "nobodysKey=1\nnobodysOtherKey=1"},
		{name: "keys without effect, as they were shown", text: "pullMessageThreadPoolNums=20\nenableDLegerCommitLog=false"},
		{name: "a key without effect", text: "brokerPermission=4\npullMessageThreadPoolNums=64", want: "pullMessageThreadPoolNums: a key of Apache RocketMQ that has no effect here"},
		{name: "restart, the same value", text: "listenPort=10911\nmappedFileSizeCommitLog=1g"},
		{name: "restart, another value", text: "listenPort=10912", want: "listenPort: cannot be changed at run time; change the file and restart"},
		{name: "startup, another value", text: "mappedFileSizeCommitLog=2048k", want: "mappedFileSizeCommitLog: fixed while the store exists"},
		{name: "out of range", text: "diskMaxUsedSpaceRatio=101", want: "update:1: diskMaxUsedSpaceRatio=101: want a whole number from 1 to 100"},
		{name: "not a number", text: "fileReservedTime=", want: "fileReservedTime"},
		{name: "one of two is bad", text: "brokerPermission=4\nfileReservedTime=x", want: "fileReservedTime=x"},
		{name: "both are named", text: "tls.enable=true\nfileReservedTime=x", want: "tls.enable: cannot be changed"},
		{name: "secret as it was shown", text: "tls.server.keyPassword=******"},
		{name: "malformed", text: `a=\u`, want: "line 1"},
		{name: "contradiction", text: "controllerAddr=", want: "controllerAddr: enableControllerMode=true needs"},
		{name: "configBlackList", text: "configBlackList=", denied: true},
		{name: "rocketmqHome", text: "rocketmqHome=/tmp", denied: true},
		{name: "brokerConfigPath", text: "brokerPermission=4\nbrokerConfigPath=/etc/cron.d/x", denied: true},
		{name: "store path", text: "storePathRootDir=/", denied: true},
		{name: "a path nobody knows", text: "someNewPath=/", denied: true},
		{name: "another component's path", text: "kvConfigPath=/", denied: true},
		{name: "certificate", text: "tls.server.keyPath=/", denied: true},
		{name: "escaped key", text: `rocketmq\u0048ome=/tmp`, denied: true},
		{name: "on the configured list", text: "traceOn=true", denied: true},
	}
	cur := Default[Broker]()
	cur.ConfigBlackList += "; traceOn"
	cur.TLSServerKeyPassword = "secret"
	cur.EnableControllerMode, cur.ControllerAddr = true, "c:1"
	before := *cur
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next, changed, err := Update(cur, []byte(tt.text))
			if *cur != before {
				t.Fatal("the current configuration changed")
			}
			if failed := tt.want != "" || tt.denied; failed != (err != nil) || failed && (next != nil || changed != nil) {
				t.Fatalf("got %v, %v, %v", next, changed, err)
			}
			if errors.Is(err, ErrDenied) != tt.denied || tt.want != "" && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q, denied %t", err, tt.want, tt.denied)
			}
			if diff := cmp.Diff(tt.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
		})
	}
}

// Of all keys of all components, a change at run time takes effect for the hot ones only.
func TestUpdateReachesHotKeysOnly(t *testing.T) {
	checkHotKeys[Broker](t)
	checkHotKeys[Namesrv](t)
	c := Default[Controller]()
	c.ControllerDLegerPeers, c.ControllerDLegerSelfId = "n0-a:1", "n0"
	for _, k := range Keys(c) {
		checkHotKey(t, c, k)
	}
}

func checkHotKeys[T any, P Of[T]](t *testing.T) {
	cur := Default[T, P]()
	for _, k := range Keys(P(cur)) {
		checkHotKey[T, P](t, cur, k)
	}
}

func checkHotKey[T any, P Of[T]](t *testing.T, cur *T, k Key) {
	t.Helper()
	value := another(k)
	next, changed, err := Update[T, P](cur, AppendProperty(nil, k.Name, value))
	if k.Apply == Hot {
		if err != nil || len(changed) != 1 || changed[0] != k.Name {
			t.Errorf("%s=%s: changed %v, %v", k.Name, value, changed, err)
		} else if got := Values(P(next), changed)[k.Name]; got != value {
			t.Errorf("%s is %q, want %q", k.Name, got, value)
		}
		return
	}
	if err == nil || errors.Is(err, ErrDenied) != (k.Apply == Deny) {
		t.Errorf("%s=%s (%s): got %v", k.Name, value, k.Apply, err)
	}
}

// another returns a valid value of k that is not its default.
func another(k Key) string {
	switch {
	case k.Enum != nil:
		for _, word := range k.Enum {
			if word != k.Default {
				return word
			}
		}
	case k.Type == "bool" && k.Default == "true":
		return "false"
	case k.Type == "bool":
		return "true"
	case k.form == "hours":
		return "05"
	case k.form == "delays":
		return "3s"
	case k.form == "addrs":
		return "x:1"
	case k.form == "peers":
		return "n0-x:1"
	case k.form == "labels":
		return "a:b"
	case k.Type == "string":
		return "x"
	case k.Default != k.Min && k.Min != "":
		return k.Min
	}
	return "7"
}

type memFiles struct {
	files map[string]string
	fail  error
}

func (m *memFiles) MkdirAll(string) error { return nil }

func (m *memFiles) ReadFile(path string) ([]byte, error) {
	text, ok := m.files[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

func (m *memFiles) WriteFileAtomic(path string, data []byte) error {
	if m.fail == nil {
		m.files[path] = string(data)
	}
	return m.fail
}

func TestUpdateThenEditFile(t *testing.T) {
	m := &memFiles{files: map[string]string{"/broker.conf": "# mine\nfileReservedTime = 48\nnobodysKey=1\n"}}
	cur, _ := load[Broker](t, m.files["/broker.conf"])
	next, changed, err := Update(cur, []byte("fileReservedTime=24\nbrokerPermission=4\nmaxMessageSize=8m"))
	if err != nil {
		t.Fatal(err)
	}
	if err := EditFile(m, "/broker.conf", Values(next, changed)); err != nil {
		t.Fatal(err)
	}
	want := "# mine\nfileReservedTime = 24\nnobodysKey=1\nbrokerPermission=4\nmaxMessageSize=8388608\n"
	if diff := cmp.Diff(want, m.files["/broker.conf"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEditFile(t *testing.T) {
	m := &memFiles{files: map[string]string{"/bad": `a=\u`}}
	if err := EditFile(m, "/dir/new", map[string]string{"a": "1"}); err != nil || m.files["/dir/new"] != "a=1\n" {
		t.Errorf("missing file: %q, %v", m.files["/dir/new"], err)
	}
	if err := EditFile(m, "/bad", map[string]string{"a": "1"}); err == nil || m.files["/bad"] != `a=\u` {
		t.Errorf("malformed file: %q, %v", m.files["/bad"], err)
	}
	m.fail = errors.New("disk full")
	if err := EditFile(m, "/dir/new", map[string]string{"a": "2"}); !errors.Is(err, m.fail) {
		t.Errorf("got %v", err)
	}
}
