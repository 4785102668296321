package header

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestRoundTrip encodes any header and decodes it again, in both encodings.
func TestRoundTrip(t *testing.T) {
	for name, newHeader := range allHeaders() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				h := newHeader()
				fill(t, reflect.ValueOf(h).Elem())
				for _, enc := range []Encoding{JSON, Binary} {
					w := Writer{}
					w.Reset(nil, enc)
					h.AppendFields(&w)
					fields, err := written(&w)
					if err != nil {
						t.Fatal(err)
					}
					if w.Any() != (len(fields) > 0) {
						t.Fatalf("Any is %v with %d fields", w.Any(), len(fields))
					}
					got := newHeader()
					for k, v := range fields {
						if err := Set(got, []byte(k), []byte(v)); err != nil {
							t.Fatal(err)
						}
					}
					if d := cmp.Diff(h, got); d != "" {
						t.Fatalf("encoding %d: %s", enc, d)
					}
				}
			})
		})
	}
}

// fill draws a value for every field, embedded ones included.
func fill(t *rapid.T, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		name := v.Type().Field(i).Name
		switch p := f.Addr().Interface().(type) {
		case *string:
			*p = rapid.String().Draw(t, name)
		case *bool:
			*p = rapid.Bool().Draw(t, name)
		case *int32:
			*p = rapid.Int32().Draw(t, name)
		case *int64:
			*p = rapid.Int64().Draw(t, name)
		case *Opt[bool]:
			*p = opt(t, name, rapid.Bool())
		case *Opt[int32]:
			*p = opt(t, name, rapid.Int32())
		case *Opt[int64]:
			*p = opt(t, name, rapid.Int64())
		default:
			fill(t, f)
		}
	}
}

func opt[T any](t *rapid.T, name string, g *rapid.Generator[T]) Opt[T] {
	if !rapid.Bool().Draw(t, name+" is present") {
		return Opt[T]{}
	}
	return Some(g.Draw(t, name))
}

func TestIntegers(t *testing.T) {
	for _, tc := range []struct {
		val            string
		want           int64
		ok32, ok64     bool
		optionalAbsent bool
	}{
		{val: "0", want: 0, ok32: true, ok64: true},
		{val: "+7", want: 7, ok32: true, ok64: true},
		{val: "-0012", want: -12, ok32: true, ok64: true},
		{val: "2147483647", want: math.MaxInt32, ok32: true, ok64: true},
		{val: "-2147483648", want: math.MinInt32, ok32: true, ok64: true},
		{val: "2147483648", want: 1 << 31, ok64: true},
		{val: "-2147483649", want: -1<<31 - 1, ok64: true},
		{val: "9223372036854775807", want: math.MaxInt64, ok64: true},
		{val: "-9223372036854775808", want: math.MinInt64, ok64: true},
		{val: "9223372036854775808"},
		{val: "-9223372036854775809"},
		{val: "18446744073709551617"},
		{val: strings.Repeat("9", 1000)},
		{val: "", optionalAbsent: true},
		{val: "-"}, {val: "+"}, {val: "--1"}, {val: "1 "}, {val: " 1"}, {val: "1.0"}, {val: "0x1"}, {val: "1_0"}, {val: "null"},
	} {
		var pull PullMessageRequest
		check := func(key string, ok bool, got func() int64) {
			t.Helper()
			err := Set(&pull, []byte(key), []byte(tc.val))
			var fe *FieldError
			switch {
			case ok && (err != nil || got() != tc.want):
				t.Errorf("%s=%q: got %d, %v", key, tc.val, got(), err)
			case !ok && !errors.As(err, &fe):
				t.Errorf("%s=%q: got %d, %v", key, tc.val, got(), err)
			case !ok && (fe.Field != key || !strings.HasPrefix(tc.val, fe.Value) || len(fe.Value) > maxShownValue):
				t.Errorf("%s=%q: got %#v", key, tc.val, fe)
			}
		}
		check("queueId", tc.ok32, func() int64 { return int64(pull.QueueID) })
		check("queueOffset", tc.ok64, func() int64 { return pull.QueueOffset })
		pull.MaxMsgBytes = Some[int32](5)
		check("maxMsgBytes", tc.ok32 || tc.optionalAbsent, func() int64 { return int64(pull.MaxMsgBytes.V) })
		if pull.MaxMsgBytes.Ok != tc.ok32 {
			t.Errorf("maxMsgBytes=%q: present is %v", tc.val, pull.MaxMsgBytes.Ok)
		}
	}
}

func TestBooleans(t *testing.T) {
	for val, want := range map[string]bool{"true": true, "TRUE": true, "tRuE": true, "false": false, "1": false, "yes": false, " true": false} {
		var h ResetOffsetRequest
		var q QueryConsumerOffsetRequest
		h.IsForce = !want
		if err := errors.Join(Set(&h, []byte("isForce"), []byte(val)), Set(&q, []byte("setZeroIfNotFound"), []byte(val))); err != nil {
			t.Fatal(err)
		}
		if h.IsForce != want || q.SetZeroIfNotFound != Some(want) {
			t.Errorf("%q: got %v and %v", val, h.IsForce, q.SetZeroIfNotFound)
		}
	}
	q := QueryConsumerOffsetRequest{SetZeroIfNotFound: Some(true)}
	if err := Set(&q, []byte("setZeroIfNotFound"), nil); err != nil || q.SetZeroIfNotFound.Ok {
		t.Errorf("an empty value: %v, %v", q.SetZeroIfNotFound, err)
	}
}

// TestSendNames: one type reads both spellings, and the two types convert.
func TestSendNames(t *testing.T) {
	v2 := SendMessageRequestV2{
		ProducerGroup: "PG", Topic: "T", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 3, BornTimestamp: 12,
		Properties: "KEYS\x01k\x02", ReconsumeTimes: Some[int32](0), Batch: Some(false), BName: "broker-a",
	}
	v1 := SendMessageRequest(v2)
	for enc, want := range map[Encoding]string{
		JSON: `"a":"PG","b":"T","c":"TBW102","d":"4","e":"3","f":"0","g":"12","h":"0","i":"KEYS\u0001k\u0002","j":"0","m":"false","n":"broker-a"`,
		Binary: "\x00\x01a\x00\x00\x00\x02PG\x00\x01b\x00\x00\x00\x01T\x00\x01c\x00\x00\x00\x06TBW102\x00\x01d\x00\x00\x00\x014\x00\x01e\x00\x00\x00\x013" +
			"\x00\x01f\x00\x00\x00\x010\x00\x01g\x00\x00\x00\x0212\x00\x01h\x00\x00\x00\x010\x00\x01i\x00\x00\x00\x07KEYS\x01k\x02\x00\x01j\x00\x00\x00\x010" +
			"\x00\x01m\x00\x00\x00\x05false\x00\x01n\x00\x00\x00\x08broker-a",
	} {
		var w Writer
		w.Reset(nil, enc)
		v2.AppendFields(&w)
		if d := cmp.Diff(want, string(w.Buf)); d != "" {
			t.Errorf("encoding %d: %s", enc, d)
		}
	}
	for _, a := range []Appender{&v1, &v2} {
		var w Writer
		w.Reset(nil, Binary)
		a.AppendFields(&w)
		fields, err := written(&w)
		if err != nil {
			t.Fatal(err)
		}
		var got SendMessageRequest
		for k, v := range fields {
			if err := Set(&got, []byte(k), []byte(v)); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(v1, got); d != "" {
			t.Errorf("%T: %s", a, d)
		}
	}
}

func TestStringOwnership(t *testing.T) {
	frame := []byte("TopicTest")
	var hot PullMessageRequest
	var cold DeleteTopicRequest
	if err := errors.Join(Set(&hot, []byte("topic"), frame), Set(&cold, []byte("topic"), frame)); err != nil {
		t.Fatal(err)
	}
	clone := hot.Clone()
	copy(frame, "xxxxxxxxx")
	if hot.Topic != "xxxxxxxxx" || clone.Topic != "TopicTest" || cold.Topic != "TopicTest" {
		t.Errorf("aliased %q, cloned %q, owned %q", hot.Topic, clone.Topic, cold.Topic)
	}
}

// TestClone changes the frame behind every string of every aliased header.
func TestClone(t *testing.T) {
	cloned := 0
	for name, newHeader := range allHeaders() {
		h := newHeader()
		clone := reflect.ValueOf(h).MethodByName("Clone")
		if !clone.IsValid() {
			continue
		}
		cloned++
		frame := []byte("1")
		for _, key := range keysOf(reflect.TypeOf(h).Elem()) {
			if err := Set(h, []byte(key), frame); err != nil {
				t.Fatal(err)
			}
		}
		before := fmt.Sprintf("%v", reflect.ValueOf(h).Elem())
		c := clone.Call(nil)[0]
		frame[0] = '2'
		if after := fmt.Sprintf("%v", c); after != before {
			t.Errorf("%s: the clone was %s and is %s", name, before, after)
		}
	}
	if cloned < 9 {
		t.Errorf("only %d aliased headers", cloned)
	}
}

// keysOf returns the keys that are written, embedded structs included.
func keysOf(typ reflect.Type) []string {
	var keys []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			keys = append(keys, keysOf(f.Type)...)
			continue
		}
		key, _, _ := strings.Cut(f.Tag.Get("h"), ",")
		keys = append(keys, key)
	}
	return keys
}

func TestReset(t *testing.T) {
	h := PullMessageRequest{Topic: "T", QueueID: 1, MaxMsgBytes: Some[int32](1), TopicRequest: TopicRequest{Lo: Some(true)}}
	h.Reset()
	if d := cmp.Diff(PullMessageRequest{}, h); d != "" {
		t.Error(d)
	}
}

func TestUnknownKeyIsIgnored(t *testing.T) {
	for name, newHeader := range allHeaders() {
		h := newHeader()
		if err := Set(h, []byte("noSuchKey"), []byte("x")); err != nil || !reflect.ValueOf(h).Elem().IsZero() {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
}

// TestFieldNumbers compares the numbers of the fields with the order in which they are declared.
func TestFieldNumbers(t *testing.T) {
	for name, newHeader := range allHeaders() {
		for i, key := range keysOf(reflect.TypeOf(newHeader()).Elem()) {
			if got := newHeader().IndexOf([]byte(key)); got != i {
				t.Errorf("%s: %s is field %d, want %d", name, key, got, i)
			}
		}
	}
}

// TestJSONString writes any bytes and reads them with the standard library, which replaces what is not UTF-8 likewise.
func TestJSONString(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "raw")
		doc := AppendJSONString(nil, raw)
		var got string
		if err := json.Unmarshal(doc, &got); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
		if !utf8.Valid(doc) || got != string([]rune(string(raw))) {
			t.Fatalf("%q became %q", raw, got)
		}
	})
	frame := []byte("Größe\x01\xff")
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { AppendJSONString(buf, frame) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUpper(t *testing.T) {
	for val, want := range map[string]bool{"upper": true, "UPPER": true, "lower": false, "": false, "x": false} {
		if h := (SearchOffsetRequest{BoundaryType: val}); h.Upper() != want {
			t.Errorf("%q: got %v", val, !want)
		}
	}
}

type keyValue struct{ key, val []byte }

func pairs(kv ...string) []keyValue {
	var out []keyValue
	for i := 0; i < len(kv); i += 2 {
		out = append(out, keyValue{[]byte(kv[i]), []byte(kv[i+1])})
	}
	return out
}

var hotFields = map[string][]keyValue{
	"SendMessageRequest": pairs("a", "PG", "b", "TopicTest", "c", "TBW102", "d", "4", "e", "0", "f", "0", "g", "1795967458853", "h", "0",
		"i", "TAGS\x01TagA\x02", "j", "0", "k", "false", "l", "16", "m", "false", "n", "broker-a"),
	"PullMessageRequest": pairs("consumerGroup", "CG", "topic", "TopicTest", "queueId", "1", "queueOffset", "123", "maxMsgNums", "32",
		"sysFlag", "3", "commitOffset", "100", "suspendTimeoutMillis", "15000", "subscription", "*", "subVersion", "1795967458853",
		"expressionType", "TAG", "maxMsgBytes", "2147483647", "bname", "broker-a", "lo", "false"),
	"PopMessageRequest": pairs("consumerGroup", "CG", "topic", "TopicTest", "queueId", "-1", "maxMsgNums", "32", "invisibleTime", "60000",
		"pollTime", "15000", "bornTime", "1795967458853", "initMode", "0", "order", "false", "attemptId", "x"),
	"AckMessageRequest":           pairs("consumerGroup", "CG", "topic", "TopicTest", "queueId", "0", "extraInfo", "0 1 2", "offset", "9"),
	"UpdateConsumerOffsetRequest": pairs("consumerGroup", "CG", "topic", "TopicTest", "queueId", "0", "commitOffset", "9"),
	"QueryConsumerOffsetRequest":  pairs("consumerGroup", "CG", "topic", "TopicTest", "queueId", "0", "setZeroIfNotFound", "false"),
	"GetMaxOffsetRequest":         pairs("topic", "TopicTest", "queueId", "0", "committed", "true"),
	"GetMinOffsetRequest":         pairs("topic", "TopicTest", "queueId", "0"),
	"SearchOffsetRequest":         pairs("topic", "TopicTest", "queueId", "0", "timestamp", "1795967458853", "boundaryType", "lower"),
}

func TestHotHeadersDoNotAllocate(t *testing.T) {
	all := allHeaders()
	for name, fields := range hotFields {
		h := all[name]()
		decode := testing.AllocsPerRun(100, func() {
			for _, kv := range fields {
				if err := Set(h, kv.key, kv.val); err != nil {
					t.Fatal(err)
				}
			}
		})
		if decode != 0 {
			t.Errorf("%s: decoding costs %v allocations", name, decode)
		}
		for _, enc := range []Encoding{JSON, Binary} {
			var w Writer
			buf := make([]byte, 0, 4096)
			encode := testing.AllocsPerRun(100, func() {
				w.Reset(buf, enc)
				h.AppendFields(&w)
			})
			if encode != 0 {
				t.Errorf("%s: encoding %d costs %v allocations", name, enc, encode)
			}
		}
	}
}

// FuzzSet gives one field to every header. Whatever is accepted must survive encoding and decoding.
func FuzzSet(f *testing.F) {
	for _, kv := range hotFields["PullMessageRequest"] {
		f.Add(kv.key, kv.val)
	}
	f.Add([]byte("queueId"), []byte("-99999999999999999999"))
	f.Add([]byte("lo"), []byte{})
	f.Add([]byte{}, []byte{0xff, 0})
	f.Fuzz(func(t *testing.T, key, val []byte) {
		for name, newHeader := range allHeaders() {
			h := newHeader()
			if err := Set(h, key, val); err != nil {
				var fe *FieldError
				if !errors.As(err, &fe) || fe.Field != string(key) {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			var w Writer
			w.Reset(nil, Binary)
			h.AppendFields(&w)
			fields, err := written(&w)
			if err != nil {
				t.Fatal(err)
			}
			got := newHeader()
			for k, v := range fields {
				if err := Set(got, []byte(k), []byte(v)); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(h, got); d != "" {
				t.Fatalf("%s: %s", name, d)
			}
		}
	})
}

func BenchmarkSet(b *testing.B) {
	for name, fields := range hotFields {
		f := allHeaders()[name]
		b.Run(name, func(b *testing.B) {
			h := f()
			b.ReportAllocs()
			for b.Loop() {
				for _, kv := range fields {
					if err := Set(h, kv.key, kv.val); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkAppendFields(b *testing.B) {
	for name, fields := range hotFields {
		h := allHeaders()[name]()
		for _, kv := range fields {
			if err := Set(h, kv.key, kv.val); err != nil {
				b.Fatal(err)
			}
		}
		for _, enc := range []Encoding{JSON, Binary} {
			b.Run(fmt.Sprintf("%s/%d", name, enc), func(b *testing.B) {
				var w Writer
				buf := make([]byte, 0, 4096)
				b.ReportAllocs()
				for b.Loop() {
					w.Reset(buf, enc)
					h.AppendFields(&w)
				}
			})
		}
	}
}
