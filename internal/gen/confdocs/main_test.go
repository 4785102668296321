package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

func TestDocumentIsUpToDate(t *testing.T) {
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, outName))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; go run ./internal/gen/confdocs (-want +got):\n%s", outName, diff)
	}
}

func TestDocumentHoldsRowsAndMeanings(t *testing.T) {
	text, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| `fileReservedTime` | `72` | h | ≥ 0 | hot | Age at which a file is deleted. |",
		"| `brokerRole` | `ASYNC_MASTER` |  | ASYNC_MASTER, SYNC_MASTER, SLAVE | restart |",
		"| `kvConfigPath` | `~/namesrv/kvConfig.json` |",
		"`enableDLegerCommitLog`,\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("missing: %s", want)
		}
	}
}

func TestFieldWithoutDocCommentIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "conf"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := generate(dir); err == nil || !strings.Contains(err.Error(), "no doc comment") {
		t.Errorf("got %v, want an error about a missing doc comment", err)
	}
}
