package body

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/fastjson"
)

func registration() *RegisterBrokerBody {
	b := &RegisterBrokerBody{FilterServerList: []string{"10.0.0.9:1"}}
	w := &b.TopicConfigSerializeWrapper
	w.DataVersion = DataVersion{Counter: 3, StateVersion: 2, Timestamp: 1795967017672}
	w.TopicConfigTable = map[string]TopicConfig{
		"plain":  {TopicName: "plain", ReadQueueNums: 8, WriteQueueNums: 4, Perm: 6, TopicFilterType: "SINGLE_TAG"},
		"typed":  {TopicName: "typed", ReadQueueNums: 1, WriteQueueNums: 1, Perm: 7, TopicFilterType: "MULTI_TAG", Attributes: map[string]string{"message.type": "FIFO", "a b": "c d"}},
		"static": {TopicName: "static", ReadQueueNums: 2, WriteQueueNums: 2, Perm: 6, TopicFilterType: "SINGLE_TAG"},
	}
	w.TopicQueueMappingInfoMap = map[string]TopicQueueMappingInfo{
		"static": {BrokerName: "broker-a", CurrIDMap: map[int32]int32{0: 0, 3: 1}, Epoch: 7, Scope: "__global__", Topic: "static", TotalQueues: 4},
	}
	return b
}

func deflate(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRegisterBrokerBodyRoundTrips(t *testing.T) {
	for _, compressed := range []bool{false, true} {
		want := registration()
		got, err := DecodeRegisterBrokerBody(want.Encode(compressed))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(fastjson.Marshal(want)), string(fastjson.Marshal(got))); diff != "" {
			t.Errorf("compressed=%v -want +got:\n%s", compressed, diff)
		}
	}
}

func TestRegisterBrokerBodyCompressedLayout(t *testing.T) {
	z, err := zlib.NewReader(bytes.NewReader(registration().Encode(true)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	want := "\x00\x00\x00\x38" + `{"counter":3,"stateVersion":2,"timestamp":1795967017672}` +
		"\x00\x00\x00\x03" +
		"\x00\x00\x00\x19" + `plain 8 4 6 SINGLE_TAG {}` +
		"\x00\x00\x00\x1a" + `static 2 2 6 SINGLE_TAG {}` +
		"\x00\x00\x00\x39" + `typed 1 1 7 MULTI_TAG {"a b":"c d","message.type":"FIFO"}` +
		"\x00\x00\x00\x0e" + `["10.0.0.9:1"]` +
		"\x00\x00\x00\x01" +
		"\x00\x00\x00\x7c" + `{"bname":"broker-a","currIdMap":{"0":0,"3":1},"dirty":false,"epoch":7,"scope":"__global__","topic":"static","totalQueues":4}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRegisterBrokerBodyFromOldSender(t *testing.T) {
	text := appendBlock(nil, []byte(`{"counter":1,"timestamp":5}`))
	text = append(text, 0, 0, 0, 1)
	text = appendBlock(text, []byte("T 4 3 6 SINGLE_TAG"))
	text = appendBlock(text, []byte(`[]`))
	b, err := DecodeRegisterBrokerBody(deflate(t, text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]TopicConfig{"T": {TopicName: "T", ReadQueueNums: 4, WriteQueueNums: 3, Perm: 6, TopicFilterType: "SINGLE_TAG"}}
	if diff := cmp.Diff(want, b.TopicConfigSerializeWrapper.TopicConfigTable); diff != "" {
		t.Error(diff)
	}
	if v := b.TopicConfigSerializeWrapper.DataVersion; v != (DataVersion{Counter: 1, Timestamp: 5}) {
		t.Errorf("data version %+v", v)
	}
}

func TestRegisterBrokerBodyEmpty(t *testing.T) {
	b, err := DecodeRegisterBrokerBody(nil)
	if err != nil || len(b.TopicConfigSerializeWrapper.TopicConfigTable) != 0 {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestRegisterBrokerBodyRefuses(t *testing.T) {
	version := appendBlock(nil, []byte(`{}`))
	topic := func(line string) []byte {
		return deflate(t, append(appendBlock(append(version[:len(version):len(version)], 0, 0, 0, 1), []byte(line)), 0, 0, 0, 2, '[', ']'))
	}
	for name, data := range map[string][]byte{
		"no deflate stream":     {zlibMark, 0x9c, 1, 2, 3},
		"cut stream":            registration().Encode(true)[:40],
		"negative length":       deflate(t, []byte{0xff, 0xff, 0xff, 0xff}),
		"length over the end":   deflate(t, []byte{0, 0, 1, 0, '{', '}'}),
		"count over the end":    deflate(t, append(version[:len(version):len(version)], 0x7f, 0xff, 0xff, 0xff)),
		"data version no json":  deflate(t, appendBlock(nil, []byte(`[`))),
		"no topic count":        deflate(t, version),
		"topic of four words":   topic("T 4 3 6"),
		"topic without numbers": topic("T a 3 6 SINGLE_TAG"),
		"huge number":           topic("T 4294967296 3 6 SINGLE_TAG"),
		"bad attributes":        topic("T 4 3 6 SINGLE_TAG {"),
		"bad json":              []byte(`{"topicConfigSerializeWrapper":[]}`),
		"inflates too much":     deflate(t, make([]byte, maxInflatedSize+1)),
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := DecodeRegisterBrokerBody(data); err == nil {
				t.Errorf("accepted as %s", fastjson.Marshal(b))
			} else if strings.Contains(err.Error(), "\n") || errors.Unwrap(err) == nil {
				t.Errorf("poor error %q", err)
			}
		})
	}
}
