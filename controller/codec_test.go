package controller

import (
	"errors"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var someCommands = []Command{
	&ApplyID{"C", "g", 1, "a:1;2"},
	&Register{Cluster: "C", Name: "g", ID: 1, Addr: "a:1", Inherits: true, MinInSync: 2, Incarnation: 7, Attempt: 2, Torn: true, Learner: true},
	&AlterSyncStateSet{"g", 1, 2, 3, []int64{1, 2}, []int64{1, 2, 3}, map[int64]int64{2: 1 << 62}},
	&Elect{Cluster: "C", Name: "g", Trigger: ByController, MasterEpoch: 3, Alive: map[int64]Vitals{2: {1, 2, 3, true}}, KnownEpoch: 4, Unclean: true, Reason: "x"},
	&Clean{"C", "g", []int64{1}, true, []int64{2}},
	&WantMembers{[]Member{{"n0", "a:1"}}},
	&Join{7},
}

func TestCommandsSurviveTheLog(t *testing.T) {
	if len(someCommands) != len(commandKinds) {
		t.Fatalf("%d kinds, %d tested", len(commandKinds), len(someCommands))
	}
	for _, c := range someCommands {
		tk, got, err := decodeCommand(encodeCommand(ticket{3, 4}, c))
		if err != nil || tk != (ticket{3, 4}) {
			t.Fatalf("%T: %v, %v", c, tk, err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			if v.Field(i).IsZero() && v.Type() != reflect.TypeFor[Elect]() {
				t.Errorf("%T.%s is not tested", c, v.Type().Field(i).Name)
			}
		}
	}
}

// TestNewerEntriesStopTheMember: it would come to another state than those that understand them.
func TestNewerEntriesStopTheMember(t *testing.T) {
	data := encodeCommand(ticket{}, &Join{7})
	for _, edit := range []func(b []byte){func(b []byte) { b[0]++ }, func(b []byte) { b[1] = 200 }} {
		b := append([]byte(nil), data...)
		edit(b)
		if _, _, err := decodeCommand(b); !errors.Is(err, ErrFormat) {
			t.Errorf("got %v, want ErrFormat", err)
		}
	}
	snapshot := three(t).Snapshot()
	snapshot[0]++
	if _, err := Restore(snapshot); !errors.Is(err, ErrFormat) {
		t.Errorf("got %v, want ErrFormat", err)
	}
}

func TestEveryBitOfASnapshotCounts(t *testing.T) {
	good := three(t).Snapshot()
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		if _, err := Restore(bad); err == nil {
			t.Fatalf("byte %d may be anything", i)
		}
	}
	for i := range good {
		if _, err := Restore(good[:i]); err == nil {
			t.Fatalf("%d bytes are enough", i)
		}
	}
}

func TestEnvelope(t *testing.T) {
	want := envelope{What: whatRaft, Cluster: 1, From: 2, To: 3, Content: []byte("content")}
	good := want.append([]byte("before"))[len("before"):]
	got, err := parseEnvelope(good)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		if _, err := parseEnvelope(bad); !errors.Is(err, errStranger) {
			t.Fatalf("byte %d may be anything", i)
		}
		if _, err := parseEnvelope(good[:i]); !errors.Is(err, errStranger) {
			t.Fatalf("%d bytes are enough", i)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range someCommands {
		f.Add(encodeCommand(ticket{1, 2}, c))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, c, err := decodeCommand(data)
		if err != nil {
			return
		}
		s := NewState() // whatever it says, it does no harm
		register(t, s, 3)
		one := s.Apply(c)
		again, err := Restore(s.Snapshot())
		if err != nil {
			t.Fatalf("after %T %v: %v", c, one.Err, err)
		}
		if string(again.Snapshot()) != string(s.Snapshot()) {
			t.Fatal("the state does not survive its snapshot")
		}
	})
}

func FuzzRestore(f *testing.F) {
	f.Add(NewState().Snapshot())
	f.Add(three(f).Snapshot())
	f.Fuzz(func(_ *testing.T, data []byte) {
		if s, err := Restore(data); err == nil {
			_ = s.Snapshot()
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	index, from, to := uint64(5), uint64(1), uint64(2)
	msg, err := proto.Marshal(&pb.Message{Type: pb.MsgApp.Enum(), From: &from, To: &to, Index: &index, Entries: []*pb.Entry{{Index: &index, Data: []byte("x")}}})
	if err != nil {
		f.Fatal(err)
	}
	content := append([]byte{0, 0, 0, byte(len(msg))}, msg...)
	f.Add(content, uint64(1), byte(whatRaft))
	f.Add([]byte(`{"From":"n0","Alive":[{"Group":"broker-a","ID":1,"Epoch":3}]}`), raftID("n0"), byte(whatReport))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint64(1), byte(whatRaft))
	s := three(f)
	s.quorum.Members[raftID("n0")] = Member{"n0", "a:1"}
	f.Fuzz(func(t *testing.T, content []byte, from uint64, what byte) {
		_, _ = parseEnvelope(content)
		e, err := parseEnvelope((&envelope{What: what, Cluster: 1, From: from, To: 2, Content: content}).append(nil))
		if err != nil {
			t.Fatal(err)
		}
		msgs, err := e.messages()
		if err == nil && len(msgs) > len(content)/4 {
			t.Fatalf("%d messages in %d bytes", len(msgs), len(content))
		}
		r, err := s.report(e)
		if err == nil && (raftID(r.From) != from || len(r.Alive) > len(content)) {
			t.Fatalf("took the word of %q", r.From)
		}
	})
}
