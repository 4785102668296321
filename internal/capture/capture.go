// Package capture reads exchanges between real clients and RocketMQ's own servers that were captured for tests. The file is a table:
// number, name, request and reply, both in base64 with their length bytes; the reply is - if there was none.
package capture

import (
	"bufio"
	"encoding/base64"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Exchange is a captured request and its reply, nil if there was none.
type Exchange struct {
	Name           string
	Request, Reply []byte
}

// Read returns the exchanges of a file by their numbers.
func Read(t *testing.T, path string) map[int]Exchange {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // read only
	out := map[int]Exchange{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) < 4 {
			t.Fatalf("%s: %q has %d columns", path, lines.Text(), len(f))
		}
		n, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[n] = Exchange{Name: f[1], Request: decode(t, f[2]), Reply: decode(t, f[3])}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	if text == "-" {
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
