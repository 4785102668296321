package remoting

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// fields is a header of any fields.
type fields map[string]string

func (f fields) AppendFields(w *header.Writer) {
	for k, v := range f {
		w.String(k, v)
	}
}

func (f fields) IndexOf([]byte) int { return 0 }

func (f fields) SetAt(_ int, key, val []byte) error {
	f[string(key)] = string(val)
	return nil
}

func extOf(c *Command) fields {
	f := fields{}
	c.EachExt(func(key, val []byte) bool {
		f[string(key)] = string(val)
		return true
	})
	return f
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// goldenFrame is a captured frame and what it says.
type goldenFrame struct {
	raw    []byte // with the length bytes
	File   string
	Header struct {
		Serialize, Language         string
		Code, Version, Opaque, Flag int32
		Remark                      string
		ExtFields                   fields
	}
	BodyLength int
}

func goldenFrames(t testing.TB) []goldenFrame {
	raw, err := os.ReadFile("testdata/frames.bin")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/frames.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []goldenFrame
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		n := 4 + binary.BigEndian.Uint32(raw)
		all[i].raw, raw = raw[:n], raw[n:]
	}
	if len(all) < 100 || len(raw) > 0 {
		t.Fatalf("%d frames, %d bytes left", len(all), len(raw))
	}
	return all
}

func TestGoldenFramesParseAndComeBack(t *testing.T) {
	for _, g := range goldenFrames(t) {
		var c Command
		if err := c.Parse(g.raw[4:]); err != nil {
			t.Fatalf("%s: %v", g.File, err)
		}
		got := fmt.Sprintln(c.Code, c.Language, int32(c.Version), c.Opaque, c.Flag, string(c.Remark), len(c.Body))
		want := fmt.Sprintln(g.Header.Code, g.Header.Language, g.Header.Version, g.Header.Opaque, g.Header.Flag, g.Header.Remark, g.BodyLength)
		if got != want || (c.Enc == header.Binary) != (g.Header.Serialize == "ROCKETMQ") {
			t.Fatalf("%s: %s, want %s", g.File, got, want)
		}
		if c.IsResponse() != strings.Contains(g.File, ".resp.") {
			t.Fatalf("%s: a response: %v", g.File, c.IsResponse())
		}
		if d := cmp.Diff(g.Header.ExtFields, extOf(&c)); d != "" && len(g.Header.ExtFields)+len(extOf(&c)) > 0 {
			t.Fatalf("%s: ext fields (-want +got):\n%s", g.File, d)
		}
		mustComeBack(t, &c)
	}
}

// mustComeBack encodes c in both forms and compares what parses from it. The sender's language and version are ours then.
func mustComeBack(t *testing.T, c *Command) {
	t.Helper()
	for _, enc := range []header.Encoding{header.JSON, header.Binary} {
		out := *c
		out.Enc = enc
		ext := extOf(c)
		frame := AppendCommand([]byte("before"), &out, ext, c.Body)[len("before"):]
		if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 {
			t.Fatalf("length %d of a frame of %d", n, len(frame))
		}
		var back Command
		if err := back.Parse(frame[4:]); err != nil {
			t.Fatalf("%v: %v in %q", enc, err, frame)
		}
		want := []any{c.Code, code.Go, code.Current, c.Opaque, c.Flag, enc, string(c.Remark), string(c.Body), ext}
		got := []any{back.Code, back.Language, back.Version, back.Opaque, back.Flag, back.Enc, string(back.Remark), string(back.Body), extOf(&back)}
		if enc == header.Binary {
			want[0] = int32(int16(c.Code))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%v (-want +got):\n%s", enc, d)
		}
	}
}

func frameOf(enc header.Encoding, head, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(enc)<<24|uint32(len(head)))
	return append(append(b, head...), body...)
}

// TestJSONForms holds our reader against Java's.
func TestJSONForms(t *testing.T) {
	wider := map[string]bool{ // Java closes the connection, we accept
		"unknown field holding an object with unquoted integer keys": true, "language ordinal 14": true,
	}
	var forms []struct {
		Case, Input, Language, Remark string
		OK                            bool
		Code, Version, Flag, Opaque   int32
		ExtFields                     map[string]*string
	}
	readJSON(t, "testdata/json-forms.json", &forms)
	for _, f := range forms {
		var c Command
		err := c.Parse(frameOf(header.JSON, f.Input, ""))
		if (err == nil) != (f.OK || wider[f.Case]) {
			t.Errorf("%s: %v, Java accepts: %v", f.Case, err, f.OK)
		}
		if err != nil || !f.OK {
			continue
		}
		want := fields{}
		for k, v := range f.ExtFields {
			if v != nil { // Java keeps a key without a value, which means the same
				want[k] = *v
			}
		}
		if f.Language == "null" {
			f.Language = "OTHER"
		}
		a := fmt.Sprintln(c.Code, c.Language, int32(c.Version), c.Flag, c.Opaque, string(c.Remark), extOf(&c))
		b := fmt.Sprintln(f.Code, f.Language, f.Version, f.Flag, f.Opaque, f.Remark, want)
		if a != b {
			t.Errorf("%s: %s, Java reads %s", f.Case, a, b)
		}
	}
}

func TestJSONEscapesAndOddities(t *testing.T) {
	for _, f := range []struct {
		text   string
		remark string
		ext    fields
	}{
		{`{"remark":"a\"b\\c\/d\n\t\r\b\fé😀","extFields":{}}`, "a\"b\\c/d\n\t\r\b\fé😀", fields{}},
		{`{"remark":"\ud83d","extFields":{"":"","k":"\u0001\u0002"}}`, "\uFFFD", fields{"": "", "k": "\x01\x02"}},
		{`{"remark":"\u12","extFields":null}`, "\uFFFD", fields{}},
		{`{"remark":5,"extFields":{"a":null,"b":'null',"c":"null"}}`, "", fields{"b": "null", "c": "null"}},
		{`{"extFields":{"a":1,"a":2,"n":-1.5e3,"t":true,"l":[1,{"x":"]"}],"o":{"k":"v"},}}`, "",
			fields{"a": "2", "n": "-1.5e3", "t": "true", "l": `[1,{"x":"]"}]`, "o": `{"k":"v"}`}},
		{" {\n\t'extFields' : { 'k' : 'it\\'s' } // end\n}\n ", "", fields{"k": "it's"}},
		{`{"extFields":{"k\u0041":"v","k":"` + strings.Repeat(`x\ny`, 500) + `"}}`, "", fields{"kA": "v", "k": strings.Repeat("x\ny", 500)}},
	} {
		var c Command
		if err := c.Parse(frameOf(header.JSON, f.text, "")); err != nil {
			t.Errorf("%s: %v", f.text, err)
			continue
		}
		if d := cmp.Diff(f.ext, extOf(&c)); d != "" || string(c.Remark) != f.remark {
			t.Errorf("%s: remark %q, ext fields (-want +got):\n%s", f.text, c.Remark, d)
		}
		viaDecode := fields{}
		if err := c.Decode(viaDecode); err != nil || !cmp.Equal(viaDecode, f.ext) {
			t.Errorf("%s: Decode: %v %v", f.text, viaDecode, err)
		}
		for k, v := range f.ext {
			if got, ok := c.Ext(k); !ok || got != v {
				t.Errorf("%s: Ext(%q) = %q, %v", f.text, k, got, ok)
			}
		}
	}
}

func TestMalformedFramesAreRefused(t *testing.T) {
	binaryHead := func(remark, ext int32, tail string) string {
		b := make([]byte, 13, 64)
		b = binary.BigEndian.AppendUint32(b, uint32(remark))
		b = binary.BigEndian.AppendUint32(b, uint32(ext))
		return string(b) + tail
	}
	many := strings.Repeat(`"k":"",`, maxExtFields+1)
	for name, frame := range map[string][]byte{
		"empty":                   {},
		"three bytes":             {0, 0, 0},
		"header beyond the frame": {0, 0, 0, 5, '{', '}'},
		"serialize type 2":        {2, 0, 0, 0},
		"serialize type 255":      {255, 0, 0, 0},
		"no header":               {0, 0, 0, 0},
		"no binary header":        {1, 0, 0, 0},
		"JSON cut":                frameOf(header.JSON, `{"code":34`, ""),
		"string cut":              frameOf(header.JSON, `{"code`, ""),
		"escape cut":              frameOf(header.JSON, `{"remark":"\`, ""),
		"comment cut":             frameOf(header.JSON, `{/* "code":34}`, ""),
		"a slash":                 frameOf(header.JSON, `{"code":34}/`, ""),
		"two values":              frameOf(header.JSON, `{"code":1 2}`, ""),
		"no comma":                frameOf(header.JSON, `{"code":1"flag":2}`, ""),
		"comma alone":             frameOf(header.JSON, `{,}`, ""),
		"word as code":            frameOf(header.JSON, `{"code":true}`, ""),
		"long code":               frameOf(header.JSON, `{"code":99999999999999999999}`, ""),
		"code not whole":          frameOf(header.JSON, `{"code":1.x}`, ""),
		"list of ext fields":      frameOf(header.JSON, `{"extFields":[]}`, ""),
		"text of ext fields":      frameOf(header.JSON, `{"extFields":"{}"}`, ""),
		"ext field without value": frameOf(header.JSON, `{"extFields":{"k":}}`, ""),
		"ext field without colon": frameOf(header.JSON, `{"extFields":{"k" "v"}}`, ""),
		"closed too often":        frameOf(header.JSON, `{"x":]}`, ""),
		"many ext fields":         frameOf(header.JSON, `{"extFields":{`+many+`}}`, ""),
		"short binary":            frameOf(header.Binary, binaryHead(0, 0, "")[:20], ""),
		"negative remark":         frameOf(header.Binary, binaryHead(-1, 0, ""), ""),
		"remark too long":         frameOf(header.Binary, binaryHead(1, 0, ""), ""),
		"negative map":            frameOf(header.Binary, binaryHead(0, -1, ""), ""),
		"map too long":            frameOf(header.Binary, binaryHead(0, 1, ""), ""),
		"huge map":                frameOf(header.Binary, binaryHead(0, 1<<31-1, ""), ""),
		"map of one byte":         frameOf(header.Binary, binaryHead(0, 1, "\x00"), ""),
		"negative key":            frameOf(header.Binary, binaryHead(0, 6, "\xff\xff\x00\x00\x00\x00"), ""),
		"key too long":            frameOf(header.Binary, binaryHead(0, 6, "\x00\x01\x00\x00\x00\x00"), ""),
		"negative value":          frameOf(header.Binary, binaryHead(0, 6, "\x00\x00\xff\xff\xff\xff"), ""),
		"value too long":          frameOf(header.Binary, binaryHead(0, 6, "\x00\x00\x00\x00\x00\x01"), ""),
	} {
		var c Command
		if err := c.Parse(frame); !errors.Is(err, ErrFrame) && !errors.Is(err, ErrHeader) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostileHeadersCostLittle(t *testing.T) {
	const size = 128 << 10
	for name, text := range map[string]string{
		"nested lists":  `{"x":` + strings.Repeat("[", size) + strings.Repeat("]", size) + `}`,
		"nested fields": `{"extFields":{"k":` + strings.Repeat(`{"k":`, size/5) + "1" + strings.Repeat("}", size/5) + `}}`,
		"one value":     `{"extFields":{"k":"` + strings.Repeat(`\u0001`, size/6) + `"}}`,
		"escaped keys":  `{"extFields":{` + strings.TrimSuffix(strings.Repeat(`"\u0041`+strings.Repeat("k", 100)+`":"",`, maxExtFields), ",") + `}}`,
	} {
		frame := frameOf(header.JSON, text, "")
		var c Command
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.Parse(frame)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; err != nil || got > uint64(2*len(text)+maxExtFields*128) {
			t.Errorf("%s: %v, %d bytes allocated for a header of %d", name, err, got, len(text))
		}
	}
}

func TestAnnouncedVersionIsCurrent(t *testing.T) {
	if want := fmt.Sprintf(`"version":%d}`, code.Current); !strings.HasSuffix(jsonTail, want) {
		t.Fatalf("%s, want %s", jsonTail, want)
	}
}

func TestReusedCommandForgets(t *testing.T) {
	var c Command
	full := AppendCommand(nil, &Command{Code: 7, Opaque: 5, Flag: 1, Remark: []byte("r\n")}, fields{"k": "v"}, []byte("body"))
	if err := c.Parse(full[4:]); err != nil {
		t.Fatal(err)
	}
	if err := c.Parse(frameOf(header.JSON, "{}", "")); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Command{}, c, cmp.FilterPath(func(p cmp.Path) bool {
		return p.String() == "ext" || p.String() == "head" || p.String() == "scratch"
	}, cmp.Ignore()), cmp.AllowUnexported(Command{})); d != "" || len(c.ext) > 0 {
		t.Fatal(d, c.ext)
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range goldenFrames(f)[:60] {
		f.Add(g.raw[4:])
	}
	f.Add(frameOf(header.JSON, `{/**/"code":'5',"extFields":{"a":[{}],'b':"\u00e9",},}`, "x"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var c Command
		if err := c.Parse(frame); err != nil {
			return
		}
		size := len(c.Remark) + len(c.Body)
		utf := true // JSON turns other bytes into U+FFFD
		c.EachExt(func(key, val []byte) bool {
			size += len(key) + len(val)
			utf = utf && isPlain(key) && isPlain(val)
			return true
		})
		if size > len(frame) {
			t.Fatalf("%d bytes out of %d", size, len(frame))
		}
		if utf && isPlain(c.Remark) && len(frame) < 1<<15 {
			mustComeBack(t, &c)
		}
	})
}

// isPlain tells whether b needs no escape in JSON (the header package's writer puts keys down as they are).
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
