package namesrv

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fixture is a running name server with a client.
type fixture struct {
	*Server
	t      *testing.T
	files  *vfs.Mem
	client *remoting.Client
	addr   string
}

func testConf(set func(*conf.Namesrv)) *conf.Namesrv {
	cfg := conf.Default[conf.Namesrv]()
	cfg.BindAddress, cfg.ListenPort = "127.0.0.1", 0
	cfg.KvConfigPath, cfg.ConfigStorePath = "/home/namesrv/kvConfig.json", "/home/namesrv/namesrv.properties"
	if set != nil {
		set(cfg)
	}
	return cfg
}

func start(t *testing.T, set func(*conf.Namesrv)) *fixture {
	t.Helper()
	return startOn(t, Options{}, set)
}

// startOn fills the options that are not given.
func startOn(t *testing.T, opts Options, set func(*conf.Namesrv)) *fixture {
	t.Helper()
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Clock == nil {
		opts.Clock = clock.Real{}
	}
	if opts.FS == nil {
		opts.FS = vfs.NewMem(clock.Real{})
	}
	s, err := New(testConf(set), opts)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Server: s, t: t, files: opts.FS.(*vfs.Mem), client: remoting.NewClient(nil, nil), addr: s.Addr().String()}
	g := lifecycle.New(context.Background())
	g.Go("name server", s.Run)
	t.Cleanup(func() {
		f.client.Close()
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// call sends a request and fails the test if there is no reply.
func (f *fixture) call(rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	return f.callBy(f.client, rc, h, data)
}

func (f *fixture) callBy(client *remoting.Client, rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 10*time.Second)
	defer cancel()
	r, err := client.Call(ctx, f.addr, rc, h, data)
	if err != nil {
		f.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// ok is call for requests that must succeed.
func (f *fixture) ok(rc code.Request, h header.Appender, data []byte) *remoting.Reply {
	f.t.Helper()
	r := f.call(rc, h, data)
	if err := r.Err(); err != nil {
		f.t.Fatalf("%s: %v", rc, err)
	}
	return r
}

// newClient returns a client that has connections of its own.
func (f *fixture) newClient() *remoting.Client {
	c := remoting.NewClient(nil, nil)
	f.t.Cleanup(c.Close)
	return c
}

func registerHeader(name string, id int64, addr string) *header.RegisterBrokerRequest {
	return &header.RegisterBrokerRequest{BrokerName: name, BrokerAddr: addr, ClusterName: "C", HAServerAddr: "ha-" + addr, BrokerID: id}
}

func registerBody(names ...string) []byte {
	b := body.RegisterBrokerBody{}
	b.TopicConfigSerializeWrapper.TopicConfigTable = topics(names...)
	return b.Encode(false)
}

// register registers a broker of cluster C with two topics, T1 and T2.
func (f *fixture) register(client *remoting.Client, name string, id int64, addr string) *remoting.Reply {
	f.t.Helper()
	r := f.callBy(client, code.RegisterBroker, registerHeader(name, id, addr), registerBody("T1", "T2"))
	if err := r.Err(); err != nil {
		f.t.Fatal(err)
	}
	return r
}

// lookup returns the route of a topic, nil if the answer is that there is none.
func (f *fixture) lookup(topic string) *body.TopicRouteData {
	f.t.Helper()
	r := f.call(code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: topic}, nil)
	if code.Response(r.Code) == code.TopicNotExist {
		return nil
	}
	if err := r.Err(); err != nil {
		f.t.Fatal(err)
	}
	return decodeRoute(f.t, r.Body)
}

// topics returns the list of all topics.
func (f *fixture) topics() []string {
	f.t.Helper()
	var list body.TopicList
	if err := fastjson.Unmarshal(f.ok(code.GetAllTopicListFromNameserver, nil, nil).Body, &list); err != nil {
		f.t.Fatal(err)
	}
	return list.TopicList
}

// until waits for a condition.
func (f *fixture) until(what string, condition func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(8 * time.Second); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not in time: %s", what)
		}
	}
}

// raw is a connection on which frames are sent as they are.
type raw struct {
	t *testing.T
	net.Conn
}

func (f *fixture) dial() raw {
	f.t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	f.t.Cleanup(func() { _ = nc.Close() })
	return raw{f.t, nc}
}

func (c raw) send(frame []byte) {
	c.t.Helper()
	if _, err := c.Write(frame); err != nil {
		c.t.Fatal(err)
	}
}

func (c raw) receive() *remoting.Command {
	c.t.Helper()
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		c.t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	if _, err := io.ReadFull(c, frame); err != nil {
		c.t.Fatal(err)
	}
	return parse(c.t, frame)
}

// parse decodes a frame without its length bytes.
func parse(t *testing.T, frame []byte) *remoting.Command {
	t.Helper()
	cmd := new(remoting.Command)
	if err := cmd.Parse(frame); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func extFields(cmd *remoting.Command) map[string]string {
	out := map[string]string{}
	cmd.EachExt(func(key, val []byte) bool {
		out[string(key)] = string(val)
		return true
	})
	return out
}

// with is a header with one more ext field.
type with struct {
	header.Appender
	key, val string
}

func (w with) AppendFields(out *header.Writer) {
	w.Appender.AppendFields(out)
	out.String(w.key, w.val)
}
