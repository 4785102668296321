package namesrv

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// FuzzRegistration: whatever a broker registers, what the table then answers can be read, and goes away with the broker.
func FuzzRegistration(f *testing.F) {
	f.Add(registerBody("T1", "T2"), "a", "h:1", int64(0), int32(513), true)
	f.Add([]byte(`{"topicConfigSerializeWrapper":{"topicConfigTable":{"":{"topicName":"x"},"k":{}},"topicQueueMappingInfoMap":{"k":{"bname":"a"}}}}`), "a", "h:1", int64(0), int32(513), false)
	f.Add([]byte(`{"topicConfigTable":{"T":{"perm":-1,"readQueueNums":-2147483648}}}`), "b/\\\"", "[::1]:1", int64(1), int32(20), true)
	s := &Server{log: zap.NewNop()}
	s.cfg.Store(testConf(nil))
	f.Fuzz(func(t *testing.T, data []byte, name, addr string, id int64, version int32, full bool) {
		h := registerHeader(name, id, addr)
		h.EnableActingMaster = header.Some(true)
		r, err := s.registration(&remoting.Request{Command: remoting.Command{Body: data, Version: code.Version(version)}}, h)
		if err != nil {
			return
		}
		r.Link, r.Full = "link", full
		b := newBench(t)
		if _, _, err := b.register(r); err != nil {
			return
		}
		if d := cmp.Diff(map[int64]string{id: addr}, b.members(name)); d != "" {
			t.Error(d)
		}
		for _, topic := range b.table.AllTopics() {
			route := b.route(topic)
			if len(route.QueueDatas) != 1 || len(route.BrokerDatas) != 1 || route.BrokerDatas[0].BrokerName != name {
				t.Errorf("route of %q: %+v", topic, route)
			}
		}
		b.disconnect("link")
		if topics, brokers := b.table.Len(); topics != 0 || brokers != 0 || len(b.table.groups) != 0 {
			t.Errorf("%d topics and %d brokers stay", topics, brokers)
		}
	})
}

// FuzzKVFile: a file is refused, or it can be changed and read again.
func FuzzKVFile(f *testing.F) {
	f.Add([]byte(`{"configTable":{"NS":{"k":"v"}}}`))
	f.Add([]byte(`{"configTable":{"NS":null}}`))
	f.Add([]byte(`{"configTable":{"NS":{"k":7,"l":{"m":1}}},"x":[]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		files := vfs.NewMem(clock.Real{})
		if err := files.WriteFileAtomic("/kv", text); err != nil {
			t.Fatal(err)
		}
		s, err := openKV(files, "/kv")
		if err != nil {
			return
		}
		if err := s.put("namespace", "key", "value"); err != nil {
			t.Fatal(err)
		}
		again, err := openKV(files, "/kv")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(s.namespace("namespace"), again.namespace("namespace")); d != "" {
			t.Error(d)
		}
	})
}

// BenchmarkRoute is what a lookup costs besides the frames.
func BenchmarkRoute(b *testing.B) {
	table := NewRouteTable()
	var v view
	for _, name := range []string{"a", "b", "c"} {
		r := reg(name, 0, name+":1", zone("z"))
		r.Topics["T1"] = body.TopicConfig{Perm: 6, ReadQueueNums: 8, WriteQueueNums: 8}
		_, fx, err := table.Register(r, clock.Real{}.Now())
		if err != nil {
			b.Fatal(err)
		}
		v.publish(table, &fx, nil, false)
	}
	b.Run("cached", func(b *testing.B) {
		for b.Loop() {
			v.route("T1", false, "")
		}
	})
	b.Run("encoded", func(b *testing.B) {
		for b.Loop() {
			v.route("T1", false, "z")
		}
	})
	b.Run("unknown", func(b *testing.B) {
		for b.Loop() {
			v.route("none", false, "")
		}
	})
}
