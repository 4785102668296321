package admin

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the list of commands in docs/admin.md anew")

const docsPath = "../../docs/admin.md"

// The list of commands in docs/admin.md stands between these lines.
const (
	listBegin = "<!-- Generated from the table of internal/admin: go test ./internal/admin -run Docs -update -->\n"
	listEnd   = "<!-- End of what is generated. -->\n"
)

func TestDocsListTheCommands(t *testing.T) {
	text, err := os.ReadFile(docsPath)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), listBegin)
	old, after, ends := strings.Cut(rest, listEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the list", docsPath)
	}
	var b strings.Builder
	b.WriteString("| command | what it does |\n|---|---|\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.name, c.brief)
	}
	if *update {
		if err := os.WriteFile(docsPath, []byte(before+listBegin+b.String()+listEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != b.String() {
		t.Errorf("%s is old: go test ./internal/admin -run Docs -update", docsPath)
	}
	for _, name := range absentCommands {
		if !strings.Contains(before+after, name) {
			t.Errorf("%s does not say that there is no %s", docsPath, name)
		}
	}
}
