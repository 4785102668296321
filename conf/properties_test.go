package conf

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestParseProperties(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Property
	}{
		{"empty", "", nil},
		{"separators", "a=1\nb:2\nc 3\nd = 4\ne : 5\nf\t6\ng", []Property{
			{Key: "a", Value: "1", Line: 1}, {Key: "b", Value: "2", Line: 2}, {Key: "c", Value: "3", Line: 3},
			{Key: "d", Value: "4", Line: 4}, {Key: "e", Value: "5", Line: 5}, {Key: "f", Value: "6", Line: 6}, {Key: "g", Line: 7},
		}},
		{"only the first separator separates", "a==b\nc= :d\ne  = = f", []Property{
			{Key: "a", Value: "=b", Line: 1}, {Key: "c", Value: ":d", Line: 2}, {Key: "e", Value: "= f", Line: 3},
		}},
		{"trailing blanks belong to the value", "a = 1 \t\nb=x y\f", []Property{
			{Key: "a", Value: "1 \t", Line: 1}, {Key: "b", Value: "x y\f", Line: 2},
		}},
		{"comments and blank lines", "# a=1\n  ! b=2\n\n \t\nc=#3\n#joined\\\nd=4", []Property{
			{Key: "c", Value: "#3", Line: 5}, {Key: "d", Value: "4", Line: 7},
		}},
		{"joined lines", "a=1\\\n   2\\\r\n\t3\nb=x\\\n#y\nlo\\\n  ng=1", []Property{
			{Key: "a", Value: "123", Line: 1}, {Key: "b", Value: "x#y", Line: 4}, {Key: "long", Value: "1", Line: 6},
		}},
		{"an even number of backslashes does not join", "a=x\\\\\nb=1", []Property{
			{Key: "a", Value: `x\`, Line: 1}, {Key: "b", Value: "1", Line: 2},
		}},
		{"a blank line ends a joined one", "a=1\\\n\nb=2\\", []Property{
			{Key: "a", Value: "1", Line: 1}, {Key: "b", Value: "2", Line: 3},
		}},
		{"line ends", "a=1\rb=2\r\nc=3\n\rd=4", []Property{
			{Key: "a", Value: "1", Line: 1}, {Key: "b", Value: "2", Line: 2}, {Key: "c", Value: "3", Line: 3}, {Key: "d", Value: "4", Line: 5},
		}},
		{"escapes", `a\ b\=c\:d=\t\n\r\f\\ \q\#`, []Property{{Key: "a b=c:d", Value: "\t\n\r\f\\ q#", Line: 1}}},
		{"escaped blank begins a value", `a=\  x`, []Property{{Key: "a", Value: "  x", Line: 1}}},
		{"unicode", `a=\u00e4\uD83D\ude80\uD83Dx\u0000`, []Property{{Key: "a", Value: "ä🚀\ufffdx\x00", Line: 1}}},
		{"surrogates that are no pair", `a=\uD83D\u0041`, []Property{{Key: "a", Value: "\ufffdA", Line: 1}}},
		{"UTF-8", "schlüssel=wert→\n", []Property{{Key: "schlüssel", Value: "wert→", Line: 1}}},
		{"ISO-8859-1", "a=\xe4\nb\xfc=\\\xdf", []Property{{Key: "a", Value: "ä", Line: 1}, {Key: "bü", Value: "ß", Line: 2}}},
		{"byte order mark", "\ufeffa=1", []Property{{Key: "a", Value: "1", Line: 1}}},
		{"no expansion", "a=${b}$\\{c}", []Property{{Key: "a", Value: "${b}${c}", Line: 1}}},
		{"twice", "a=1\na=2", []Property{{Key: "a", Value: "1", Line: 1}, {Key: "a", Value: "2", Line: 2}}},
		{"empty key", "=1\n: 2", []Property{{Value: "1", Line: 1}, {Value: "2", Line: 2}}},
		{"nothing but a joining backslash", "\\\n\na=1\n\\", []Property{{Key: "a", Value: "1", Line: 3}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseProperties([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Property{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParsePropertiesRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"short escape", "a=1\nb=\\u12", "line 2"},
		{"escape without digits", `a=\u12x4`, "line 1"},
		{"signed escape", `a=\u+123`, "line 1"},
		{"second of a pair", `a=\uD83D\u12`, "line 1"},
		{"too much text", strings.Repeat("a", maxText+1), "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseProperties([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestAppendPropertyIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, value := rapid.String().Draw(t, "key"), rapid.String().Draw(t, "value")
		line := AppendProperty(nil, key, value)
		for _, c := range line {
			if c > '~' {
				t.Fatalf("%q holds a byte outside ASCII", line)
			}
		}
		got, err := ParseProperties(line)
		if err != nil || len(got) != 1 || got[0].Key != key || got[0].Value != value {
			t.Fatalf("%q is read as %+v, %v", line, got, err)
		}
	})
}

func TestEditProperties(t *testing.T) {
	tests := []struct {
		name, text string
		changes    map[string]string
		want       string
	}{
		{"in place", "# top\na = 1\n\n  b : 2 # no comment\nc=3\n", map[string]string{"b": "20", "a": ""}, "# top\na = \n\n  b : 20\nc=3\n"},
		{"added at the end", "a=1", map[string]string{"z": "26", "b": "2"}, "a=1\nb=2\nz=26\n"},
		{"into nothing", "", map[string]string{"a": "1"}, "a=1\n"},
		{"the last one counts", "a=1\na=2\n", map[string]string{"a": "3"}, "a=1\na=3\n"},
		{"joined lines", "a=1\\\n  2\nb=3", map[string]string{"a": "9"}, "a=9\nb=3"},
		{"key alone", "a\nb  \nc", map[string]string{"a": "1", "b": "2", "c": "3"}, "a=1\nb  2\nc=3"},
		{"line ends stay", "a=1\r\nb=2\r\n", map[string]string{"a": "3"}, "a=3\r\nb=2\r\n"},
		{"after a joining backslash at the end", "a=1\\", map[string]string{"b": "2"}, "a=1\\\n\nb=2\n"},
		{"after a joined end", "a=1\\\r\n", map[string]string{"b": "2"}, "a=1\\\r\n\nb=2\n"},
		{"escapes", "a=1\n", map[string]string{"a": " C:\\x\n→"}, "a=\\ C:\\\\x\\n\\u2192\n"},
		{"ISO-8859-1 stays", "# \xe4\na=\xfc\nb=1\n", map[string]string{"b": "2"}, "# \xe4\na=\xfc\nb=2\n"},
		{"nothing to do", "a=1\\", nil, "a=1\\"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := EditProperties([]byte(tt.text), tt.changes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if _, err := EditProperties([]byte(`a=\u`), nil); err == nil {
		t.Error("malformed text was edited")
	}
}

// effective returns what a text means: the last value of every key.
func effective(t interface{ Fatal(...any) }, text []byte) map[string]string {
	properties, err := ParseProperties(text)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, p := range properties {
		out[p.Key] = p.Value
	}
	return out
}

// checkEdit sets one key of text and expects that key, and no other, to change.
func checkEdit(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, text []byte, key, value string) {
	want := effective(t, text)
	edited, err := EditProperties(text, map[string]string{key: value})
	if err != nil {
		t.Fatal(err)
	}
	want[key] = value
	if len(edited) > maxText {
		return
	}
	if diff := cmp.Diff(want, effective(t, edited)); diff != "" {
		t.Fatalf("%q, edited to %q (-want +got):\n%s", text, edited, diff)
	}
}

func TestEditPropertiesChangesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "=", ":", " ", "\t", "\\", "\n", "\r\n", "\r", "#", "!", "\\u0041", "ä"}))
		text := []byte(strings.Join(pieces.Draw(t, "text"), ""))
		if _, err := ParseProperties(text); err != nil {
			t.Skip("malformed")
		}
		checkEdit(t, text, rapid.StringMatching("[ab]{0,2}").Draw(t, "key"), rapid.String().Draw(t, "value"))
	})
}

func FuzzProperties(f *testing.F) {
	f.Add([]byte("a=1\nb : 2\\\n  3\n# c\n"), "a", "x")
	f.Add([]byte("\\"), "", " ")
	f.Add([]byte("a\\u00e4=\xff\\\r\n"), "b", "→")
	f.Add([]byte("k=\\uD83D\\uDE00\n=\n:"), "k", "\\")
	f.Fuzz(func(t *testing.T, text []byte, key, value string) {
		properties, err := ParseProperties(text)
		if err != nil {
			return
		}
		var written []byte
		for _, p := range properties {
			if p.Line < 1 || p.Line > bytes.Count(text, []byte{'\n'})+bytes.Count(text, []byte{'\r'})+1 {
				t.Fatalf("line %d", p.Line)
			}
			written = AppendProperty(written, p.Key, p.Value)
		}
		if len(written) > maxText {
			return
		}
		again, err := ParseProperties(written)
		if err != nil {
			t.Fatal(err)
		}
		ignore := []cmp.Option{cmpopts.IgnoreUnexported(Property{}), cmpopts.IgnoreFields(Property{}, "Line")}
		if diff := cmp.Diff(properties, again, ignore...); diff != "" {
			t.Fatalf("%q, written as %q (-want +got):\n%s", text, written, diff)
		}
		valid := strings.ToValidUTF8(key, "\ufffd")
		checkEdit(t, text, valid, strings.ToValidUTF8(value, "\ufffd"))
	})
}

func BenchmarkParseProperties(b *testing.B) {
	var text []byte
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range javaKeys() {
		text = AppendProperty(text, k.Name, strings.Repeat("x", r.IntN(20)))
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := ParseProperties(text); err != nil {
			b.Fatal(err)
		}
	}
}
