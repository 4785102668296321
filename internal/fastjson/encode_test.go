package fastjson

import (
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type shouted string

func (s shouted) AppendFastJSON(dst []byte) []byte { return append(append(dst, '!'), s...) }

type written struct {
	Zulu  string           `json:"zulu"`
	Alpha string           `json:"alpha,omitempty"`
	List  []int32          `json:"list"`
	Must  []string         `json:"must,nonnil"`
	Map   map[int32]string `json:"map"`
	Need  map[string]int64 `json:"need,nonnil"`
	Ptr   *queue           `json:"ptr"`
	Any   any              `json:"any"`
}

func TestMarshal(t *testing.T) {
	for _, test := range []struct {
		name string
		enc  Encoder
		v    any
		want string
	}{
		{"nil", Encoder{}, nil, `null`},
		{"zero struct", Encoder{}, written{}, `{"must":[],"need":{},"zulu":""}`},
		{"empty collections", Encoder{}, &written{List: []int32{}, Map: map[int32]string{}, Alpha: "a"}, `{"alpha":"a","list":[],"map":{},"must":[],"need":{},"zulu":""}`},
		{"pointer and any", Encoder{}, written{Ptr: &queue{"b", 1}, Any: true}, `{"any":true,"must":[],"need":{},"ptr":{"brokerName":"b","queueId":1},"zulu":""}`},
		{"integer keys", Encoder{}, map[int64]string{10: "c", 9: "b", -1: "a"}, `{"-1":"a","9":"b","10":"c"}`},
		{"integer keys bare", Encoder{UnquotedIntKeys: true}, map[int32]int64{10: 3, 9: 2}, `{9:2,10:3}`},
		{"text keys", Encoder{UnquotedIntKeys: true}, map[string]int64{"b": 1, "a\"": 2}, `{"a\"":2,"b":1}`},
		{"object keys", Encoder{Pretty: true}, map[queue]int64{{"b", 2}: 1, {"b", 1}: 2}, "{\n\t{\"brokerName\":\"b\",\"queueId\":1}:2,\n\t{\"brokerName\":\"b\",\"queueId\":2}:1\n}"},
		{"nil elements", Encoder{}, []*queue{nil}, `[null]`},
		{"nil collections inside", Encoder{}, map[string][]string{"a": nil}, `{"a":[]}`},
		{"tree", Encoder{}, map[string]any{"b": []any{int64(1), 2.5, nil, "x"}, "a": map[string]any{}}, `{"a":{},"b":[1,2.5,null,"x"]}`},
		{"hook", Encoder{}, []shouted{"a", "b"}, `[!a,!b]`},
		{"embedded", Encoder{}, struct {
			base
			A int64 `json:"zz"`
		}{base{"x"}, 1}, `{"inner":"x","zz":1}`},
		{"text", Encoder{}, "\"\\/\b\f\n\r\t\x01\x7fé😀\u2028\xff", `"\"\\/\b\f\n\r\t\u0001` + "\x7fé😀\u2028\uFFFD" + `"`},
		{"text for browsers", Encoder{BrowserCompatible: true}, "a/é😀\u2028", `"a\/\u00e9\ud83d\ude00\u2028"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(test.enc.Marshal(test.v))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestMarshalDoubles(t *testing.T) {
	for f, want := range map[float64]string{
		0: "0.0", 1: "1.0", -1.5: "-1.5", 0.001: "0.001", 8.333333333333334e-4: "8.333333333333334E-4", 1e-10: "1.0E-10",
		9999999: "9999999.0", 1e7: "1.0E7", 1.25e100: "1.25E100", 0.01670201927413024: "0.01670201927413024",
		math.Inf(1): "null", math.MaxFloat64: "1.7976931348623157E308",
	} {
		if got := string(Marshal(f)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := string(Marshal(math.NaN())); got != "null" {
		t.Errorf("NaN: %s", got)
	}
	if got := string(Marshal(float32(0.1))); got != "0.1" {
		t.Errorf("float32: %s", got)
	}
}

func TestAppendMarshal(t *testing.T) {
	if got := string(AppendMarshal([]byte("x"), []string{"a"})); got != `x["a"]` {
		t.Error(got)
	}
}

func TestMarshalPanicsOnTypesWithoutText(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Marshal(make(chan int))
}

type delayOffsets struct {
	DataVersion struct {
		Counter      int64 `json:"counter"`
		StateVersion int64 `json:"stateVersion"`
		Timestamp    int64 `json:"timestamp"`
	} `json:"dataVersion"`
	OffsetTable map[int32]int64 `json:"offsetTable"`
}

type orderInfos struct {
	Count int32                          `json:"orderInfoCount"`
	Level string                         `json:"orderedConsumptionLevel"`
	Table map[string]map[int32]orderInfo `json:"table"`
}

type orderInfo struct {
	AttemptID string          `json:"a"`
	Commit    int64           `json:"cm"`
	Invisible int64           `json:"i"`
	Last      int64           `json:"l"`
	Offsets   []int64         `json:"o"`
	Consumed  map[int64]int32 `json:"oc"`
	PopTime   int64           `json:"popTime"`
}

// The files are config files of Apache RocketMQ 5.5.0.
func TestPrettyIsJavasConfigFormat(t *testing.T) {
	for name, v := range map[string]any{
		"delayOffset.json":        new(delayOffsets),
		"consumerOrderInfo.json":  new(orderInfos),
		"messageRequestMode.json": new(any),
	} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := Unmarshal(text, v); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(text), string(Encoder{Pretty: true, UnquotedIntKeys: true}.Marshal(v))); diff != "" {
			t.Errorf("%s -Java +ours:\n%s", name, diff)
		}
	}
}
