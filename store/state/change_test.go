package state

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
)

func topicConfig(name string, queues int32) *body.TopicConfig {
	return &body.TopicConfig{
		TopicName: name, ReadQueueNums: queues, WriteQueueNums: queues, Perm: 6, TopicFilterType: "SINGLE_TAG",
		Attributes: map[string]string{"message.type": "FIFO"},
	}
}

func groupConfig(name string) *body.SubscriptionGroupConfig {
	c := new(body.SubscriptionGroupConfig)
	c.SetDefaults()
	c.GroupName = name
	c.Attributes = map[string]string{}
	c.SubscriptionDataSet = []body.SimpleSubscriptionData{{Topic: "T", Expression: "a > 1", ExpressionType: "SQL92", Version: 7}}
	return c
}

func requestMode(topic, group string) *body.SetMessageRequestModeRequestBody {
	return &body.SetMessageRequestModeRequestBody{Topic: topic, ConsumerGroup: group, Mode: body.ModePop, PopShareQueueNum: 2}
}

func filter(topic, group string) *Filter {
	return &Filter{
		Topic: topic, ConsumerGroup: group, Expression: "a > 1", ExpressionType: "SQL92", BornTime: 10, ClientVersion: 11,
		BloomFilterData: &BloomFilterData{BitNum: 112, BitPos: []int32{1, 2, 3}},
	}
}

// everyKind has one change of every kind.
func everyKind() []Change {
	return []Change{
		TopicPut(topicConfig("T", 8)),
		TopicDelete("T"),
		GroupPut(groupConfig("G")),
		GroupDelete("G", true),
		OffsetPut("G", "T", 3, 1<<40),
		ResetPut("G", "T", 1, 77),
		ResetTake("G", "T", 1),
		LockPut("G", "T", 2, "10.0.0.1@17#x", 1795967045820),
		LockDelete("G", "T", 2),
		DelayOffsetPut(18, 5),
		RequestModePut(requestMode("T", "G")),
		FilterPut(filter("T", "G")),
		FilterDead("T", "G", 99),
		ForbiddenPut("G", "T", 4),
		DeletedBefore("T", 1<<33),
	}
}

func decodeAll(t *testing.T, record []byte) []Change {
	t.Helper()
	var out []Change
	if err := Each(record, func(c Change) error {
		out = append(out, c.Clone())
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestEveryKindRoundTrips(t *testing.T) {
	changes := everyKind()
	seen := map[Kind]bool{}
	for _, c := range changes {
		seen[c.Kind] = true
	}
	for k := Kind(1); k < kindEnd; k++ {
		if k.known() && !seen[k] {
			t.Errorf("everyKind lacks %v", k)
		}
	}
	record := Append(nil, changes...)
	if diff := cmp.Diff(changes, decodeAll(t, record)); diff != "" {
		t.Error(diff)
	}
	var grown []byte
	for _, c := range changes {
		grown = Append(grown, c)
	}
	if !bytes.Equal(grown, record) {
		t.Error("a body that was built change by change differs")
	}
}

func TestLengthsAroundOneByte(t *testing.T) {
	for size := 115; size < 130; size++ {
		want := []Change{TopicDelete(strings.Repeat("n", size)), OffsetPut("G", "T", 0, int64(size))}
		if diff := cmp.Diff(want, decodeAll(t, Append(nil, want...))); diff != "" {
			t.Fatalf("%d bytes: %s", size, diff)
		}
	}
	want := []Change{TopicDelete(strings.Repeat("n", 1<<20)), TopicDelete("")}
	if !cmp.Equal(decodeAll(t, Append(nil, want...)), want) {
		t.Error("a large name does not round trip")
	}
}

func TestEachRefuses(t *testing.T) {
	good := Append(nil, OffsetPut("G", "T", 1, 2))
	with := func(b ...byte) []byte { return append([]byte{bodyVersion}, b...) }
	tests := []struct {
		name   string
		record []byte
		want   error
		text   string
	}{
		{"nothing", nil, ErrMalformed, "empty"},
		{"a newer version", []byte{2}, ErrNewer, "version 2"},
		{"an unknown kind", with(1, 200), ErrNewer, "unknown kind 200"},
		{"kind 0", with(1, 0), ErrNewer, "unknown kind 0"},
		{"an empty change", with(0), ErrMalformed, "empty"},
		{"a length beyond the end", with(100, 2), ErrMalformed, "length of the change"},
		{"an endless length", with(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), ErrMalformed, "length"},
		{"a huge name", with(6, byte(KindTopicDelete), 0xff, 0xff, 0xff, 0xff, 0x0f), ErrMalformed, "length of a text"},
		{"a torn change", good[:len(good)-1], ErrMalformed, "length of the change"},
		{"a missing field", with(2, byte(KindTopicDelete), 0, 1, byte(KindTopicDelete)), ErrMalformed, "length of a text"},
		{"a field too many", with(3, byte(KindTopicDelete), 0, 0), ErrMalformed, "1 bytes behind"},
		{"a queue id of 33 bits", with(8, byte(KindDelayOffsetPut), 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0), ErrMalformed, "32 bits"},
		{"a boolean of 2", with(3, byte(KindGroupDelete), 0, 2), ErrMalformed, "boolean"},
		{"bad JSON", with(4, byte(KindTopicPut), 2, '{', 'x'), ErrMalformed, "TopicPut"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Each(tt.record, func(Change) error { return nil })
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v", err)
			}
		})
	}
	stop := errors.New("stop")
	if err := Each(good, func(Change) error { return stop }); err != stop {
		t.Errorf("the callback's error: got %v", err)
	}
}

// TestUnusedKindsAreRefused: nothing takes a change of a kind whose number is not in use, between the used ones or beyond them.
func TestUnusedKindsAreRefused(t *testing.T) {
	for _, k := range []Kind{0, 6, 16, 17, 18, 20, 21, 255} {
		record := append(Append(nil, OffsetPut("G", "T", 0, 1)), 1, byte(k))
		tables := NewTables()
		var c Change
		for what, err := range map[string]error{
			"each": Each(record, func(Change) error { return nil }), "apply": tables.Apply(record, 1, 1), "row": decodeRow([]byte{byte(k)}, &c),
		} {
			if want := fmt.Sprintf("unknown kind %d:", k); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", what, err, want)
			}
		}
		if len(tables.Changes()) > 0 || tables.Applied() != 0 {
			t.Errorf("a record with %v was applied", k)
		}
		if k.known() || k.isRow() {
			t.Errorf("%v: known %v, a row %v", k, k.known(), k.isRow())
		}
	}
}

func TestKindNames(t *testing.T) {
	if KindOffsetPut.String() != "OffsetPut" || Kind(99).String() != "kind 99" {
		t.Errorf("got %v and %v", KindOffsetPut, Kind(99))
	}
}

// FuzzEach checks that any bytes are refused or mean changes that encode and decode to themselves, and that tables accept
// exactly what Each accepts.
func FuzzEach(f *testing.F) {
	f.Add(Append(nil, everyKind()...))
	for _, c := range everyKind() {
		f.Add(Append(nil, c))
	}
	f.Add([]byte{})
	f.Add([]byte{bodyVersion})
	f.Add([]byte{bodyVersion, 2, 200, 0})
	f.Add(bytes.Replace(Append(nil, GroupPut(groupConfig("G"))), []byte("CUSTOMIZED"), []byte("UNHEARD_OF"), 1))
	f.Add(bytes.Replace(Append(nil, everyKind()...), []byte(`"POP"`), []byte(`"PUP"`), 1))
	f.Fuzz(func(t *testing.T, record []byte) {
		tables := NewTables()
		applyErr := tables.Apply(record, 1, 1)
		var changes []Change
		err := Each(record, func(c Change) error {
			changes = append(changes, c.Clone())
			return nil
		})
		if (err == nil) != (applyErr == nil) {
			t.Fatalf("Each says %v, Apply %v", err, applyErr)
		}
		if err != nil {
			if len(tables.Changes()) > 0 || tables.Applied() != 0 {
				t.Fatal("a refused record was applied")
			}
			return
		}
		again := Append(nil, changes...)
		var second []Change
		if err := Each(again, func(c Change) error {
			second = append(second, c.Clone())
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, Append(nil, second...)) {
			t.Fatal("encoding is not stable")
		}
	})
}
