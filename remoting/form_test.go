package remoting

import (
	"fmt"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// says is all that a command says, one field a line, in the order of the frame.
func says(c *Command) string {
	var b strings.Builder
	fmt.Fprintln(&b, c.Code, c.Flag, c.Opaque, int32(c.Version), c.Language, c.Enc)
	fmt.Fprintf(&b, "%q %q\n", c.Remark, c.Body)
	c.EachExt(func(key, val []byte) bool {
		fmt.Fprintf(&b, "%q %q\n", key, val)
		return true
	})
	return b.String()
}

// formFrom returns the form of a header, nil if it has none.
func formFrom(text []byte) *form {
	var c Command
	if c.Parse(frameOf(header.JSON, string(text), "")) != nil {
		return nil
	}
	return formOf(&c)
}

// matched holds text against f and reports whether it has the form. If so it must say what the general parser finds in it.
func matched(t *testing.T, f *form, text []byte) bool {
	t.Helper()
	got := Command{head: text, scratch: []byte("of the last one"), ext: make([]extField, 3)}
	if !f.match(&got) {
		return false
	}
	var want Command
	if err := want.Parse(frameOf(header.JSON, string(text), "")); err != nil {
		t.Fatalf("%s has the form and does not parse: %v", text, err)
	}
	if says(&got) != says(&want) {
		t.Fatalf("%s\nsays by its form: %s\nand parsed: %s", text, says(&got), says(&want))
	}
	for range 2 { // the second type is not the one whose fields the form knows
		sameDecoded[header.SendMessageRequest](t, &got, &want)
		sameDecoded[header.PullMessageRequest](t, &got, &want)
	}
	return true
}

func sameDecoded[H any, P interface {
	*H
	header.Setter
}](t *testing.T, a, b *Command) {
	t.Helper()
	var x, y H
	errX, errY := a.Decode(P(&x)), b.Decode(P(&y))
	if fmt.Sprint(x, errX) != fmt.Sprint(y, errY) {
		t.Fatalf("%s is by its form %+v, %v\nand parsed %+v, %v", a.head, x, errX, y, errY)
	}
}

const formSeed = `{"code":310,"extFields":{"a":"PG","b":"Topic","e":"3","i":"K\u0001v\u0002","n":""},"flag":0,"language":"JAVA","opaque":12,"serializeTypeCurrentRPC":"JSON","version":513}`

func TestForms(t *testing.T) {
	f := formFrom([]byte(formSeed))
	for _, tc := range []struct {
		old, new string
		match    bool
	}{
		{"", "", true},
		{"12", "7", true},
		{"12", "2147483647", true},
		{"12", "-5", true},
		{"12", "2147483648", false},
		{"12", "1e2", false},
		{"12", "1.0", false},
		{"12", "1-2", false},
		{"12", "", false},
		{"12", `"12"`, false},
		{"12", "null", false},
		{"12", " 12", false},
		{`"3"`, `"-3"`, true},
		{`"3"`, `"x"`, true}, // an error of Decode
		{`"3"`, `"99999999999"`, true},
		{"PG", "", true},
		{"PG", "another, much longer group", true},
		{"PG", `a\"b`, true},
		{"PG", `\\`, true},
		{"PG", `\\\"`, true},
		{"PG", `a"b`, false},
		{"PG", `a\`, false},
		{`"PG"`, `null`, false},
		{`"PG"`, `5`, false},
		{`"PG"`, `'PG'`, false},
		{`K\u0001v`, `\u0001Kv`, true},
		{`K\u0001v`, `Kv`, true},
		{`K\u0001v`, `K\u000Av\u000e\u00e9\n`, true},
		{`K\u0001v`, `K\u000"v`, false},
		{`v\u0002`, `v\ud83d\ude00\u12`, true},
		{`v\u0002`, `v\u000`, true},
		{"310", "311", false},
		{`"flag":0`, `"flag":1`, false},
		{`"flag":0`, `"code":9`, false},
		{`"b"`, `"a"`, false},
		{`"b"`, `"B"`, false},
		{`513}`, `513} `, false},
		{`513}`, `513`, false},
		{`,"flag"`, `,"extFields":{},"flag"`, false},
	} {
		if got := matched(t, f, []byte(strings.Replace(formSeed, tc.old, tc.new, 1))); got != tc.match {
			t.Errorf("%s instead of %s: has the form: %v", tc.new, tc.old, got)
		}
	}
}

func TestFormsOfOtherWriters(t *testing.T) {
	for text, has := range map[string]bool{
		`{"code":105,"language":"GO","version":317,"opaque":5,"flag":0,"remark":"","extFields":{"topic":"T","a":"","a":"2"}}`: true,
		"{ \"code\" : 105, // a comment\n 'extFields' : { \"topic\" : \"T\" } , \"opaque\" : 5 }":                             true,
		`{"code":105,"code":106,"extFields":null,"opaque":5,"x":{"opaque":[6]}}`:                                              false,
		`{"code":105,"opaque":5,"extFields":{}}`:                                                                              true,
		`{"code":105,"opaque":"5"}`:                                                                                           false,
		`{"code":105,"opaque":5,"opaque":6}`:                                                                                  false,
		`{"code":105,"extFields":{"a":"1"},"extFields":{"b":"2"}}`:                                                            false,
		`{"code":105,"extFields":{"a":1}}`:                                                                                    false,
		`{"code":105,"extFields":{"a":'1'}}`:                                                                                  false,
		`{"code":105,"extFields":{"\u0061":"1"}}`:                                                                             false,
		`{"code":105,"remark":"r","opaque":5}`:                                                                                false,
		`{"code":105,"opaque":5,"x":"` + strings.Repeat("x", maxFormText) + `"}`:                                              false,
		`{"code":105,"extFields":{` + strings.Repeat(`"":"",`, maxFormFields+1) + `"a":"v"}}`:                                 false,
		`{"code":105,"extFields":{"a":"` + strings.Repeat("x", 2*maxFormText) + `"},"opaque":5}`:                              true,
	} {
		f := formFrom([]byte(text))
		if (f != nil) != has {
			t.Errorf("%s: has a form: %v", text, f != nil)
		}
		if f != nil && !matched(t, f, []byte(text)) {
			t.Errorf("%s does not have its own form", text)
		}
	}
}

// TestFormsAreLearnedRarely counts what is learned of headers that do not repeat, and of those that do.
func TestFormsAreLearnedRarely(t *testing.T) {
	var known forms
	learned := func() (n int) {
		for i := range known {
			for k := range known[i].ways {
				if known[i].ways[k].Load() != nil {
					n++
				}
			}
		}
		return n
	}
	parse := func(key string) {
		var c Command
		text := fmt.Sprintf(`{"code":310,"extFields":{"a":"%s","%s":"v"},"opaque":1}`, key, key)
		if err := c.parse(frameOf(header.JSON, text, "b"), &known); err != nil || len(c.ext) != 2 || c.Code != 310 || string(c.Body) != "b" {
			t.Fatal(err, says(&c))
		}
	}
	misses := func() (n uint32) {
		for i := range known {
			n += known[i].misses.Load()
		}
		return n
	}
	for i := range 10 * formRest {
		parse(fmt.Sprint("k", i))
	}
	if learned() != formWays || misses() != 10*formRest {
		t.Errorf("%d forms, %d misses", learned(), misses())
	}
	for range 2 * formRest {
		parse("new")
	}
	if n := misses() - 10*formRest; n > formRest {
		t.Errorf("a form that comes all the time was learned after %d", n)
	}
	var c Command
	before := misses()
	for i := range 3 * formTry {
		text := fmt.Sprintf(`{"code":310,"extFields":{"x%d":"v"},"opaque":1}`, i)
		if err := c.parse(frameOf(header.JSON, text, ""), &known); err != nil || len(c.ext) != 1 {
			t.Fatal(err, says(&c))
		}
	}
	if n := misses() - before; n != formTry {
		t.Errorf("%d headers of one burst were held against the forms in vain", n)
	}
	for _, bad := range []string{`{"code":1,"extFields":{"a":`, `{"code":"x","opaque":1,"flag":2}`} {
		if err := c.parse(frameOf(header.JSON, bad, ""), &known); err == nil {
			t.Errorf("%s parses", bad)
		}
	}
}

func TestGoldenFramesHaveForms(t *testing.T) {
	var known forms
	var got Command // one after the other, as of one connection
	for range 2 {
		for i, g := range goldenFrames(t) {
			if i%7 == 0 { // the end of a burst
				got.release()
			}
			var want Command
			if err := got.parse(g.raw[4:], &known); err != nil {
				t.Fatalf("%s: %v", g.File, err)
			}
			if err := want.Parse(g.raw[4:]); err != nil || says(&got) != says(&want) {
				t.Fatalf("%s: %v: %s, want %s", g.File, err, says(&got), says(&want))
			}
			if f := formFrom(want.head); want.Enc == header.JSON && want.Language != code.Other && len(want.Remark) == 0 && f == nil {
				t.Errorf("%s has no form: %s", g.File, want.head)
			} else if f != nil && !matched(t, f, want.head) {
				t.Errorf("%s does not have its own form: %s", g.File, want.head)
			}
		}
	}
}

// FuzzForms replaces cut bytes of a header by others and holds the result against the form of the first.
func FuzzForms(f *testing.F) {
	for _, g := range goldenFrames(f)[:60] {
		var c Command
		if c.Parse(g.raw[4:]) == nil && c.Enc == header.JSON {
			f.Add(c.head, uint16(40), uint16(1), []byte("x"))
		}
	}
	for i, put := range []string{`"`, `\`, `\"`, `\u0001`, `\u000`, `-1`, `1e5`, `","b":"`, "null", `,"opaque":7`, `,"extFields":{}`} {
		f.Add([]byte(formSeed), uint16(30+9*i), uint16(i), []byte(put))
		f.Add([]byte(formSeed), uint16(strings.Index(formSeed, "12")), uint16(1), []byte(put))
	}
	f.Add([]byte("{'x':[{}],/**/\"opaque\" :5 , \"extFields\":{\"k\":\"\\ud83d\\ude00\"} }\n"), uint16(50), uint16(6), []byte(`\u12`))
	f.Fuzz(func(t *testing.T, seed []byte, at, cut uint16, put []byte) {
		known := formFrom(seed)
		if known == nil {
			return
		}
		if !matched(t, known, seed) {
			t.Fatalf("%q does not have its own form", seed)
		}
		i := min(int(at), len(seed))
		k := min(i+int(cut), len(seed))
		matched(t, known, []byte(string(seed[:i])+string(put)+string(seed[k:])))
	})
}
