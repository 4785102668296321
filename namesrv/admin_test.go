package namesrv

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func (f *fixture) kvValue(namespace, key string) string {
	f.t.Helper()
	v, _ := f.call(code.GetKVConfig, &header.GetKVConfigRequest{Namespace: namespace, Key: key}, nil).Ext("value")
	return v
}

func TestKVConfigSurvivesARestart(t *testing.T) {
	files := vfs.NewMem(clock.Real{})
	t.Run("before", func(t *testing.T) {
		f := startOn(t, Options{FS: files}, nil)
		kv("NS", "k", "v")(f)
		kv("NS", "k2", "old")(f)
		kv("NS", "k2", "né\"w")(f)
		f.ok(code.DeleteKVConfig, &header.DeleteKVConfigRequest{Namespace: "NS", Key: "k"}, nil)
		f.ok(code.DeleteKVConfig, &header.DeleteKVConfigRequest{Namespace: "NS", Key: "never"}, nil)
	})
	text, err := files.ReadFile("/home/namesrv/kvConfig.json")
	if err != nil || string(text) != `{"configTable":{"NS":{"k2":"né\"w"}}}` {
		t.Errorf("file %s, %v", text, err)
	}
	t.Run("after", func(t *testing.T) {
		f := startOn(t, Options{FS: files}, nil)
		if got := f.kvValue("NS", "k2"); got != "né\"w" {
			t.Errorf("got %q", got)
		}
		f.ok(code.DeleteKVConfig, &header.DeleteKVConfigRequest{Namespace: "NS", Key: "k2"}, nil)
		r := f.call(code.GetKVListByNamespace, &header.GetKVListByNamespaceRequest{Namespace: "NS"}, nil)
		if string(r.Body) != `{"table":{}}` {
			t.Errorf("an emptied namespace lists as %d %s", r.Code, r.Body)
		}
	})
}

func TestJavasKVFileIsRead(t *testing.T) {
	for name, text := range map[string]string{
		"compact": `{"configTable":{"ORDER_TOPIC_CONFIG":{"T1":"a:4"}}}`,
		"pretty":  "{\n\t\"configTable\":{\"ORDER_TOPIC_CONFIG\":{\"T1\":\"a:4\"\n\t\t}\n\t}\n}\n",
		"empty":   "",
		"no":      `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			files := vfs.NewMem(clock.Real{})
			_ = files.MkdirAll("/home/namesrv")
			if err := files.WriteFileAtomic("/home/namesrv/kvConfig.json", []byte(text)); err != nil {
				t.Fatal(err)
			}
			f := startOn(t, Options{FS: files}, nil)
			if got := f.kvValue(orderNamespace, "T1"); (got == "a:4") != strings.Contains(text, "T1") {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestFailedWriteChangesNothing(t *testing.T) {
	f := start(t, nil)
	kv("NS", "k", "v")(f)
	f.files.Inject(func(op vfs.Op, _ string, _, _ int64) error {
		if op == vfs.OpRename {
			return errors.New("disk failure")
		}
		return nil
	})
	if r := f.call(code.PutKVConfig, &header.PutKVConfigRequest{Namespace: "NS", Key: "k", Value: "w"}, nil); code.Response(r.Code) != code.SystemError {
		t.Errorf("put: %d %s", r.Code, r.Remark)
	}
	if got := f.kvValue("NS", "k"); got != "v" {
		t.Errorf("got %q", got)
	}
	if r := f.call(code.UpdateNamesrvConfig, nil, []byte("orderMessageEnable=true")); code.Response(r.Code) != code.SystemError || f.cfg.Load().OrderMessageEnable {
		t.Errorf("configuration: %d %s", r.Code, r.Remark)
	}
}

func TestKVConfigIsBounded(t *testing.T) {
	f := start(t, nil)
	big := strings.Repeat("x", 9<<20)
	kv("NS", "first", big)(f)
	r := f.call(code.PutKVConfig, &header.PutKVConfigRequest{Namespace: "NS", Key: "second", Value: big}, nil)
	if code.Response(r.Code) != code.InvalidParameter || f.kvValue("NS", "second") != "" {
		t.Errorf("got %d %s", r.Code, r.Remark)
	}
}

func TestOrderConfiguration(t *testing.T) {
	f := start(t, nil)
	kv(orderNamespace, "T1", "a:4")(f)
	r := f.register(f.client, "a", 0, "h1:1")
	if string(r.Body) != `{"table":{"T1":"a:4"}}` {
		t.Errorf("a broker was told %s", r.Body)
	}
	if got := f.lookup("T1").OrderTopicConf; got != "" {
		t.Errorf("got %q while orderMessageEnable is off", got)
	}
	f.ok(code.UpdateNamesrvConfig, nil, []byte("orderMessageEnable=true\nreturnOrderTopicConfigToBroker=false"))
	if got := f.lookup("T1").OrderTopicConf; got != "a:4" {
		t.Errorf("got %q", got)
	}
	kv(orderNamespace, "T1", "a:8")(f)
	if got := f.lookup("T1").OrderTopicConf; got != "a:8" {
		t.Errorf("got %q after a change", got)
	}
	f.ok(code.DeleteKVConfig, &header.DeleteKVConfigRequest{Namespace: orderNamespace, Key: "T1"}, nil)
	if got := f.lookup("T1").OrderTopicConf; got != "" {
		t.Errorf("got %q after the end", got)
	}
	if r := f.register(f.client, "a", 0, "h1:1"); r.Body != nil {
		t.Errorf("a broker was told %s", r.Body)
	}
}

func TestConfigurationChanges(t *testing.T) {
	f := start(t, nil)
	_ = f.files.MkdirAll("/home/namesrv")
	if err := f.files.WriteFileAtomic("/home/namesrv/namesrv.properties", []byte("# mine\nlistenPort=9876\n")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text string
		want code.Response
	}{
		{"supportActingMaster=true", code.Success},
		{"supportActingMaster=true\nunknownKey=1", code.Success},
		{"supportActingMaster=perhaps", code.InvalidParameter},
		{"listenPort=1", code.InvalidParameter},
		{"orderMessageEnable=true\nkvConfigPath=/x", code.NoPermission},
		{"configBlackList=", code.NoPermission},
	} {
		if r := f.call(code.UpdateNamesrvConfig, nil, []byte(tc.text)); code.Response(r.Code) != tc.want {
			t.Errorf("%q: got %d %s", tc.text, r.Code, r.Remark)
		}
	}
	text, err := f.files.ReadFile("/home/namesrv/namesrv.properties")
	if d := cmp.Diff("# mine\nlistenPort=9876\nsupportActingMaster=true\n", string(text)); d != "" || err != nil {
		t.Error(d, err)
	}
	if r := f.ok(code.GetNamesrvConfig, nil, nil); !strings.Contains(string(r.Body), "supportActingMaster=true\n") || f.cfg.Load().OrderMessageEnable {
		t.Errorf("configuration %s", r.Body)
	}
	if !f.view.world.Load().acting {
		t.Error("routes do not know")
	}
}

func TestSwitchedOffLists(t *testing.T) {
	f := start(t, func(c *conf.Namesrv) { c.EnableAllTopicList, c.EnableTopicList = false, false })
	for _, rc := range []code.Request{
		code.GetAllTopicListFromNameserver, code.GetTopicsByCluster, code.GetUnitTopicList, code.GetHasUnitSubTopicList, code.GetHasUnitSubUnunitTopicList,
	} {
		if r := f.call(rc, &header.GetTopicsByClusterRequest{Cluster: "C"}, nil); code.Response(r.Code) != code.SystemError || string(r.Remark) != "disable" {
			t.Errorf("%s: %d %s", rc, r.Code, r.Remark)
		}
	}
	if r := f.call(code.GetSystemTopicListFromNS, nil, nil); r.Err() != nil {
		t.Error(r.Err())
	}
}

func TestDeleteTopicWithBrokerRegistration(t *testing.T) {
	f := start(t, func(c *conf.Namesrv) { c.DeleteTopicWithBrokerRegistration = true })
	send := func(static bool, names ...string) {
		b := body.RegisterBrokerBody{}
		b.TopicConfigSerializeWrapper.TopicConfigTable = topics(names...)
		if static {
			b.TopicConfigSerializeWrapper.TopicQueueMappingInfoMap = map[string]body.TopicQueueMappingInfo{"S": {BrokerName: "a", Topic: "S"}}
		}
		f.ok(code.RegisterBroker, registerHeader("a", 0, "h1:1"), b.Encode(false))
	}
	send(false, "T1", "T2")
	send(true, "S", "T3") // with static topics nothing is deleted
	if d := cmp.Diff([]string{"S", "T1", "T2", "T3"}, f.topics()); d != "" {
		t.Error(d)
	}
	send(false, "T2", "T3")
	if d := cmp.Diff([]string{"T2", "T3"}, f.topics()); d != "" {
		t.Error(d)
	}
}
