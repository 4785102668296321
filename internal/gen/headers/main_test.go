package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedFileIsUpToDate(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "remoting", "header")
	want, err := generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, outName))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stale: run go generate ./remoting/header", outName)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	src := `package header
type Plain struct { A int }
type Generic[T any] struct { V T }
type Base struct { NS string ` + "`h:\"ns\"`" + ` }
//header:alias
type Hot struct {
	ID Opt[int32] ` + "`h:\"id,required,alias=i\"`" + `
	Base
}`
	if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(dir); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(dir, outName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"case \"id\", \"i\":\n\t\treturn 0",
		"case \"ns\":\n\t\treturn 1",
		"case 0:\n\t\treturn setOptInt(&h.ID, key, val)",
		"case 1:\n\t\th.NS = aliasString(val)",
		"case 0:\n\t\th.NS = string(val)",
		"appendOptInt(w, \"id\", h.ID)",
		"c.NS = strings.Clone(h.NS)",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(string(out), "Plain") || strings.Contains(string(out), "Generic") {
		t.Error("a struct without tags got a codec")
	}
}

func TestMistakesAreReported(t *testing.T) {
	for _, tc := range []struct{ body, want string }{
		{"A string `h:\"a\"`; B string `h:\"a\"`", `key "a" used twice`},
		{"A string `h:\"a,alias=b\"`; B string `h:\"b\"`", `key "b" used twice`},
		{"A string `h:\"a\"`; B string", "field B has no tag"},
		{"A float32 `h:\"a\"`", "a field is a string"},
		{"A Opt[string] `h:\"a\"`", "a field is a string"},
		{"A Opt[Opt[bool]] `h:\"a\"`", "a field is a string"},
		{"A string `h:\"a,optional\"`", `unknown tag option "optional"`},
		{"A string `h:\"a,alias=x-y\"`", `bad key "x-y"`},
		{"A string `h:\"\"`", `bad key ""`},
		{"A string `h:\"a\"`; Missing", "an embedded field must be a struct of this package"},
		{"A, B string `h:\"a\"`", "one name per field"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte("package header\ntype X struct { "+tc.body+" }"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.body, err, tc.want)
		}
	}
}
