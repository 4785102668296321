package member

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// mute is a controller that takes connections and never answers.
func mute(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// fields are a header.
type fields map[string]string

func (f fields) AppendFields(w *header.Writer) {
	for k, v := range f {
		w.String(k, v)
	}
}

// script says how a false controller answers.
type script struct {
	code code.Response
	h    fields
	body string
}

// liar is a controller that answers as it is told, with one answer for each request.
func liar(t *testing.T, answers map[code.Request]script) (addr string, asked *atomic.Int32) {
	t.Helper()
	var routes []remoting.Route
	asked = new(atomic.Int32)
	for rc, s := range answers {
		routes = append(routes, remoting.Route{Code: rc, Serve: func(r *remoting.Request) error {
			asked.Add(1)
			r.Reply(s.code, "as told", s.h, remoting.Bytes([]byte(s.body)))
			return nil
		}})
	}
	srv, err := remoting.NewServer(remoting.ServerConfig{Addr: "127.0.0.1:0"}, remoting.NewRouter(zap.NewNop(), routes), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go("liar", srv.Run)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv.Addr().String(), asked
}

// TestFalseControllers: whatever they say there is an error and no role, and they are not besieged.
func TestFalseControllers(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("1", 1<<20)
	good := map[code.Request]script{
		code.ControllerGetMetadataInfo:   {h: fields{"isLeader": "true", "controllerLeaderAddress": "x:1"}},
		code.ControllerGetNextBrokerID:   {h: fields{"nextBrokerId": "1"}},
		code.ControllerApplyBrokerID:     {},
		code.ControllerRegisterBroker:    {},
		code.BrokerHeartbeat:             {},
		code.ControllerGetReplicaInfo:    {h: fields{"masterEpoch": "0"}, body: `{"syncStateSet":[],"syncStateSetEpoch":0}`},
		code.ControllerElectMaster:       {},
		code.ControllerAlterSyncStateSet: {body: `{"syncStateSet":[1],"syncStateSetEpoch":2}`},
	}
	for name, lie := range map[string]struct {
		about code.Request
		script
	}{
		"nobody leads":         {code.ControllerGetMetadataInfo, script{}},
		"no such leader":       {code.ControllerGetMetadataInfo, script{h: fields{"controllerLeaderAddress": "no such address"}}},
		"leads maybe":          {code.ControllerGetMetadataInfo, script{h: fields{"isLeader": "maybe"}}},
		"id is no number":      {code.ControllerGetNextBrokerID, script{h: fields{"nextBrokerId": "x"}}},
		"id is negative":       {code.ControllerGetNextBrokerID, script{h: fields{"nextBrokerId": "-5"}}},
		"id is huge":           {code.ControllerGetNextBrokerID, script{h: fields{"nextBrokerId": huge}}},
		"id never free":        {code.ControllerApplyBrokerID, script{code: code.ControllerBrokerIDInvalid}},
		"never registered":     {code.ControllerRegisterBroker, script{code: code.ControllerBrokerNeedToBeRegistered}},
		"never heard of":       {code.BrokerHeartbeat, script{code: code.ControllerBrokerNeedToBeRegistered}},
		"never a master":       {code.ControllerElectMaster, script{code: code.ControllerMasterStillExist}},
		"unknown code":         {code.ControllerGetReplicaInfo, script{code: -77}},
		"another leads":        {code.ControllerGetReplicaInfo, script{code: code.ControllerNotLeader, h: fields{fieldLeader: huge}}},
		"epoch is no number":   {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "{}"}}},
		"epoch too large":      {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "4294967296"}}},
		"master is negative":   {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1", "masterBrokerId": "-1"}}},
		"set is text":          {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1"}, body: `{"syncStateSet":"all"}`}},
		"set is of texts":      {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1"}, body: `{"syncStateSet":["a"]}`}},
		"set is no JSON":       {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1"}, body: "\x00\xff"}},
		"set is deep":          {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1"}, body: strings.Repeat("[", 1<<20)}},
		"set is large":         {code.ControllerGetReplicaInfo, script{h: fields{"masterEpoch": "1"}, body: `{"syncStateSet":[` + strings.Repeat("1,", 1<<20) + `1]}`}},
		"the altered is large": {code.ControllerAlterSyncStateSet, script{body: `{"syncStateSet":[` + huge + `]}`}},
		"altered without word": {code.ControllerAlterSyncStateSet, script{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answers := map[code.Request]script{lie.about: lie.script}
			for rc, s := range good {
				if _, ok := answers[rc]; !ok {
					answers[rc] = s
				}
			}
			addr, asked := liar(t, answers)
			p := startPeer(t, []string{addr}, nil)
			within(t, "it was asked", func() bool { return asked.Load() > 2 })
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			defer cancel()
			role, err := p.AlterSyncStateSet(ctx, 1, 1, []int64{1}, map[int64]int64{1: 5})
			if lie.about == code.ControllerAlterSyncStateSet && err == nil {
				t.Errorf("altered: %+v", role)
			}
			<-ctx.Done()
			p.hang()
			if lie.about != code.ControllerAlterSyncStateSet && p.told().Master != 0 && err != nil {
				t.Errorf("role %+v", p.told())
			}
			if n := asked.Load(); n > 150 {
				t.Errorf("asked %d times in half a second", n)
			}
		})
	}
}
