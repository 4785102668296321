package fastjson

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type queue struct {
	Broker string `json:"brokerName"`
	ID     int32  `json:"queueId"`
}

type base struct {
	Inner string `json:"inner"`
}

type sample struct {
	base
	Text    string            `json:"text"`
	Int     int32             `json:"int"`
	Long    int64             `json:"long"`
	Byte    int8              `json:"byte"`
	Double  float64           `json:"double"`
	Flag    bool              `json:"flag"`
	Pointer *queue            `json:"pointer"`
	List    []queue           `json:"list"`
	Names   []string          `json:"names"`
	ByText  map[string]int64  `json:"byText"`
	ByID    map[int64]string  `json:"byId"`
	ByQueue map[queue]int64   `json:"byQueue"`
	Texts   map[string]string `json:"texts"`
	Any     any               `json:"any"`
	Short   string            `json:"s,alias=longName"`
	Tuned   *tuned            `json:"tuned"`
	Self    *sample           `json:"self"`
	hidden  string            //lint:ignore U1000 it must not be written
	Hidden  string
}

type tuned struct {
	Size int32  `json:"size"`
	Name string `json:"name"`
}

func (t *tuned) SetDefaults() { *t = tuned{Size: 16} }

type upper string

func (u *upper) UnmarshalFastJSON(raw []byte) error {
	var text string
	if err := Unmarshal(raw, &text); err != nil {
		return err
	}
	if text == "BAD" {
		return errors.New("bad text")
	}
	*u = upper(strings.ToUpper(text))
	return nil
}

func TestUnmarshal(t *testing.T) {
	long := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, test := range []struct {
		name, input string
		want        sample
	}{
		{"empty object", `{}`, sample{}},
		{"null", `null`, sample{}},
		{"blanks", " \t\r\n{ \"int\" : 1 , \"text\" : \"a\" } \n", sample{Int: 1, Text: "a"}},
		{"keys quoted, single-quoted, bare", `{"int":1,'long':2,text:'x'}`, sample{Int: 1, Long: 2, Text: "x"}},
		{"commas to spare", `{,"int":1,,"names":[,"a",,"b",],}`, sample{Int: 1, Names: []string{"a", "b"}}},
		{"comments", "/*a*/{/**/\"int\"/*b*/:1// c\n,//d\n\"long\":2}/*e", sample{Int: 1, Long: 2}},
		{"last of duplicates", `{"int":1,"int":2,"names":["a"],"names":["b"]}`, sample{Int: 2, Names: []string{"b"}}},
		{"case matters", `{"INT":1,"Text":"x"}`, sample{}},
		{"embedded struct", `{"inner":"x"}`, sample{base: base{"x"}}},
		{"alias", `{"longName":"x"}`, sample{Short: "x"}},
		{"name", `{"s":"x"}`, sample{Short: "x"}},
		{"fields without tag", `{"hidden":"x","Hidden":"y"}`, sample{}},
		{"numbers as text", `{"int":"5","long":" -6 ","double":"1.5"}`, sample{Int: 5, Long: -6, Double: 1.5}},
		{"text as number", `{"text":5.50}`, sample{Text: "5.50"}},
		{"text as boolean and object", `{"text":true,"texts":{"a":{"x":[1, 2]}}}`, sample{Text: "true", Texts: map[string]string{"a": `{"x":[1, 2]}`}}},
		{"booleans", `{"flag":"true"}`, sample{Flag: true}},
		{"boolean 1", `{"flag":1}`, sample{Flag: true}},
		{"boolean as number", `{"int":true,"double":true}`, sample{Int: 1, Double: 1}},
		{"empty text for anything", `{"int":"","double":"","flag":"","list":"","pointer":"","byId":""}`, sample{Pointer: &queue{}}},
		{"fractions cut off", `{"int":34.7,"long":-5.9e1}`, sample{Int: 34, Long: -59}},
		{"extremes", `{"long":-9223372036854775808,"int":2147483647,"byte":-128}`, sample{Long: math.MinInt64, Int: math.MaxInt32, Byte: -128}},
		{"exponent", `{"double":1.0E-5}`, sample{Double: 1e-5}},
		{"nulls", `{"int":null,"text":null,"list":null,"pointer":null,"any":null}`, sample{}},
		{"escapes", `{"text":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\'"}`, sample{Text: "\"\\/\b\f\n\r\té😀'"}},
		{"lone surrogates", `{"text":"\ud83dx\ude00"}`, sample{Text: "\uFFFDx\uFFFD"}},
		{"raw text", "{\"text\":\"é😀\u2028\n\"}", sample{Text: "é😀\u2028\n"}},
		{"bytes that are no text", "{\"text\":\"a\xff\xfeb\"}", sample{Text: "a\uFFFDb"}},
		{"bare integer keys", `{"byId":{0:"a",-1:"b"}}`, sample{ByID: map[int64]string{0: "a", -1: "b"}}},
		{"quoted integer keys", `{"byId":{"0":"a",'1':"b"}}`, sample{ByID: map[int64]string{0: "a", 1: "b"}}},
		{"object keys", `{"byQueue":{{"brokerName":"b","queueId":1}:5,{"queueId":2,"new":{3:4}} : 6}}`, sample{ByQueue: map[queue]int64{{"b", 1}: 5, {"", 2}: 6}}},
		{"object keys as text", `{"byQueue":{"{\"brokerName\":\"b\",\"queueId\":1}":5}}`, sample{ByQueue: map[queue]int64{{"b", 1}: 5}}},
		{"empty collections", `{"list":[],"byText":{},"byQueue":{}}`, sample{List: []queue{}, ByText: map[string]int64{}, ByQueue: map[queue]int64{}}},
		{"null element", `{"list":[null,{"queueId":1}]}`, sample{List: []queue{{}, {ID: 1}}}},
		{"unknown members", `{"a":{0:{{"x":1}:[1,{2:"}"}]}},"b":[[],[{}]],'c':"\"","d":-1.5,"e":/*]*/[],"int":1}`, sample{Int: 1}},
		{"deep unknown member", `{"a":` + long + `,"int":1}`, sample{Int: 1}},
		{"defaults", `{"tuned":{"name":"x"}}`, sample{Tuned: &tuned{16, "x"}}},
		{"null keeps the default", `{"tuned":{"size":null}}`, sample{Tuned: &tuned{Size: 16}}},
		{"any", `{"any":{"a":[1,2.5,"x",true,null,1e3],1:{{"q":1}:'y'}}}`, sample{Any: map[string]any{
			"a": []any{int64(1), 2.5, "x", true, nil, 1000.0}, "1": map[string]any{`{"q":1}`: "y"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			if err := Unmarshal([]byte(test.input), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(sample{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	for _, test := range []struct{ name, input, reason string }{
		{"nothing", "", "offset 0: unexpected end"},
		{"blanks only", "  /* x", "unexpected end"},
		{"array for object", "[]", "unexpected '['"},
		{"number for object", "5", "unexpected '5'"},
		{"text after the document", `{"int":1}xyz`, "offset 9: unexpected 'x', want the end"},
		{"two documents", `{}{}`, "offset 2"},
		{"byte order mark", "\uFEFF{}", "offset 0: unexpected '\\ufeff'"},
		{"NUL", "{\x00}", "unexpected '\\x00'"},
		{"open object", `{"int":1`, "unexpected end"},
		{"open array", `{"names":["a"`, "unexpected end"},
		{"open text", `{"text":"abc`, "unterminated"},
		{"backslash at the end", `{"text":"abc\`, "unterminated"},
		{"no colon", `{"int" 1}`, "want ':'"},
		{"no value", `{"int":}`, "want a value"},
		{"no key", `{:1}`, "want a key"},
		{"no comma", `{"int":1 "long":2}`, "want ',' or '}'"},
		{"no comma in array", `{"names":["a" "b"]}`, "want ',' or ']'"},
		{"wrong bracket", `{"names":["a"}`, "want"},
		{"wrong bracket in an unknown member", `{"x":[{]}`, "want a value"},
		{"open unknown member", `{"x":[{"a":1`, "unexpected end"},
		{"bad escape", `{"text":"\x"}`, "offset 9: invalid escape"},
		{"cut escape", `{"text":"\u12"}`, "invalid escape"},
		{"word", `{"text":abc}`, "want a value"},
		{"word for any", `{"any":abc}`, "want a value"},
		{"number with letters", `{"int":12ab}`, "want a value"},
		{"signs", `{"double":+-1}`, "want a value"},
		{"no number", `{"int":"abc"}`, `"abc" is no number`},
		{"int32 overflow", `{"int":4294967295}`, "overflows int32"},
		{"int64 overflow", `{"long":9223372036854775808}`, "overflows int64"},
		{"float for int64 overflow", `{"long":1e300}`, "overflows int64"},
		{"float overflow", `{"double":1e999}`, "out of range"},
		{"no boolean", `{"flag":"maybe"}`, "no boolean"},
		{"object for number", `{"int":{}}`, "want int32"},
		{"array for map", `{"byText":[]}`, "unexpected '['"},
		{"text for list", `{"list":"abc"}`, "want '['"},
		{"integer key", `{"byId":{"x":"a"}}`, "offset 9: key: \"x\" is no number"},
		{"object key broken", `{"byQueue":{"{x":1}}`, "key:"},
		{"object key of a wrong kind", `{"byQueue":{[1]:1}}`, "key:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			err := Unmarshal([]byte(test.input), &got)
			var own *Error
			if !errors.As(err, &own) {
				t.Fatalf("got %v, want an *Error; decoded %s", err, Marshal(got))
			}
			if !strings.Contains(err.Error(), test.reason) {
				t.Errorf("got %q, want %q in it", err, test.reason)
			}
		})
	}
}

func TestUnmarshalTarget(t *testing.T) {
	var fixed [2]int
	var shape interface{ Error() string }
	for _, v := range []any{nil, sample{}, (*sample)(nil), &fixed, &shape} {
		if err := Unmarshal([]byte(`[1]`), v); err == nil {
			t.Errorf("%T accepted", v)
		}
	}
}

func TestUnmarshalHook(t *testing.T) {
	var list []upper
	if err := Unmarshal([]byte(`["a",'b',5,null]`), &list); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]upper{"A", "B", "5", ""}, list); diff != "" {
		t.Error(diff)
	}
	if err := Unmarshal([]byte(`["BAD"]`), &list); err == nil || !strings.Contains(err.Error(), "bad text") {
		t.Errorf("got %v", err)
	}
}

func TestReferences(t *testing.T) {
	q := queue{"b", 1}
	const list = `{"list":[{"brokerName":"a"},{"brokerName":"b","queueId":1}],`
	both := []queue{{Broker: "a"}, q}
	for _, test := range []struct {
		name, input string
		want        sample
	}{
		{"element", list + `"pointer":{"$ref":"$.list[1]"}}`, sample{List: both, Pointer: &q}},
		{"forward", `{"pointer":{"$ref":"$.list[1]"},` + list[1:] + `}`, sample{List: both, Pointer: &q}},
		{"list", list + `"self":{"list":{"$ref":"$.list"}}}`, sample{List: both, Self: &sample{List: both}}},
		{"name with a dot", `{"texts":{"a.b":"x"},"self":{"text":"y","texts":{"$ref":"$.texts"}},"any":{"$ref":"$.self.texts"}}`,
			sample{Texts: map[string]string{"a.b": "x"}, Self: &sample{Text: "y", Texts: map[string]string{"a.b": "x"}}}},
		{"escaped name", `{"any":{"a.b":[{"queueId":1}]},"pointer":{'$ref':"$.any.a\\.b[0]"}}`,
			sample{Any: map[string]any{"a.b": []any{map[string]any{"queueId": int64(1)}}}, Pointer: &queue{ID: 1}}},
		{"in a key", list + `"byQueue":{{"$ref":"$.list[1]"}:7}}`, sample{List: both, ByQueue: map[queue]int64{q: 7}}},
		{"unknown", list + `"pointer":{"$ref":"$.list[9]"}}`, sample{List: both}},
		{"no path", list + `"pointer":{"$ref":"@"}}`, sample{List: both}},
		{"of a wrong kind", list + `"byText":{"$ref":"$.list"}}`, sample{List: both}},
		{"to itself", `{"self":{"$ref":"$.self"}}`, sample{}},
		{"to the whole", `{"int":1,"self":{"$ref":"$"}}`, sample{Int: 1, Self: &sample{Int: 1}}},
		{"a member of that name", `{"texts":{"$ref":1}}`, sample{Texts: map[string]string{"$ref": "1"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			if err := Unmarshal([]byte(test.input), &got); err != nil {
				t.Fatal(err)
			}
			if test.name == "name with a dot" {
				got.Any = nil // a reference to a reference stays open
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(sample{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDepthLimit(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	var v any
	if err := Unmarshal(nested(maxDepth), &v); err != nil {
		t.Error(err)
	}
	for _, n := range []int{maxDepth + 1, 1_000_000} {
		if err := Unmarshal(nested(n), &v); err == nil || !strings.Contains(err.Error(), "nested deeper") {
			t.Errorf("%d: %v", n, err)
		}
	}
}

func TestMemoryIsBoundedByTheInput(t *testing.T) {
	var list []sample
	if err := Unmarshal([]byte("["+strings.Repeat("{},", 100_000)+"]"), &list); err == nil || !strings.Contains(err.Error(), "expands too much") {
		t.Errorf("got %v after %d elements", err, len(list))
	}
	var offsets map[string]map[int32]int64
	if err := Unmarshal([]byte(`{"T@G":{`+strings.Repeat("0:1,", 100_000)+`}}`), &offsets); err != nil {
		t.Errorf("an honest document is refused: %v", err)
	}
}

// The work per byte must not grow with the document: without limits, each of these takes minutes.
func TestHostileDocumentsTakeLinearTime(t *testing.T) {
	const n = 50_000
	for _, input := range []string{
		strings.Repeat("/**/", n) + "{}",
		strings.Repeat(`{"x":`, n),
		"{" + strings.Repeat("/", n),
		`{"list":[` + strings.Repeat(`{"$ref":"$.x"},`, n) + `],"x":1}`,
	} {
		var v sample
		_ = Unmarshal([]byte(input), &v) // Some are accepted, some are not.
	}
}

func TestReferencesScanALimitedAmount(t *testing.T) {
	data := []byte(`{"list":[` + strings.Repeat(`{"$ref":"$.pointer"},`, 20_000) + `],"pointer":{"queueId":1}}`)
	limits := limits{memory: 1 << 30, refWork: 3 * len(data)}
	d := decoder{scanner: scanner{data: data}, limits: &limits}
	var v sample
	if err := d.value(reflect.ValueOf(&v).Elem()); err != nil {
		t.Fatal(err)
	}
	if len(v.List) != 20_000 || v.List[0].ID != 1 || v.List[19_999].ID != 0 {
		t.Errorf("%d elements, first %+v, last %+v", len(v.List), v.List[0], v.List[len(v.List)-1])
	}
	if limits.refWork < -len(data) {
		t.Errorf("scanned %d bytes too much", -limits.refWork)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, seed := range []string{
		`{"byQueue":{{"brokerName":"b","queueId":1}:5},"byId":{0:"a"},"any":[1,2.5,{"a":null}]}`,
		`{"list":[{"queueId":1}],"pointer":{"$ref":"$.list[0]"},x:/*c*/'y',}`,
		`{"byQueue":{"{\"brokerName\":\"b\"}":"5"},"text":"\ud83d\ude00\u0000","double":1e-9}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, fresh := range []func() any{func() any { return new(any) }, func() any { return new(sample) }} {
			v, back := fresh(), fresh()
			if Unmarshal(data, v) != nil {
				continue
			}
			text := Marshal(v)
			if err := Unmarshal(text, back); err != nil {
				t.Fatalf("own text refused: %v\n%s", err, text)
			}
			if again := Marshal(back); string(again) != string(text) {
				t.Fatalf("changes\n%s\n%s", text, again)
			}
		}
	})
}
