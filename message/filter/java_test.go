package filter

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// props are a message's properties.
type props map[string]string

func (p props) Get(name string) (string, bool) {
	v, ok := p[name]
	return v, ok
}

// answer is the letter of testdata/answers.txt for what e says about p.
func answer(e *Expr, p Properties) byte {
	switch v := e.root.eval(p); v.kind {
	case kindNull:
		return 'N'
	case kindFailed:
		return 'E'
	case kindBool:
		return "FT"[v.num]
	}
	return '?'
}

// TestJavaAnswers compares every expression of answers.txt with what Java makes of it. The deliberate differences of the
// package comment are left out: ClassCastException (C) here, and a literal zero, of which the file has none.
func TestJavaAnswers(t *testing.T) {
	const name = "testdata/answers.txt"
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var messages []props
	var compiled, refused int
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "{") {
			var p props
			if err := json.Unmarshal([]byte(line), &p); err != nil {
				t.Fatal(err)
			}
			messages = append(messages, p)
			continue
		}
		want, quoted, _ := strings.Cut(line, " ")
		var text string
		if err := json.Unmarshal([]byte(quoted), &text); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e, err := Compile(text)
		if want == "refused" || want == "prefix" {
			refused++
			if err == nil {
				t.Errorf("Compile(%q) = nil error, Java: %s", text, want)
			}
			continue
		}
		if err != nil {
			t.Errorf("Compile(%q): %v, Java compiles it", text, err)
			continue
		}
		compiled++
		for i, p := range messages {
			if got := answer(e, p); got != want[i] && want[i] != 'C' {
				t.Errorf("%q of %v = %c, Java: %c", text, p, got, want[i])
			}
		}
	}
	if len(messages) == 0 || compiled < 500 || refused < 100 {
		t.Fatalf("%s has %d messages, %d good and %d bad expressions", name, len(messages), compiled, refused)
	}
}
