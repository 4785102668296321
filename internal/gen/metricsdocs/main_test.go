package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestUpToDate fails when the table of metrics has changed and nobody has run the generator.
func TestUpToDate(t *testing.T) {
	got, err := os.ReadFile(filepath.Join("..", "..", "..", outName))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, generate()) {
		t.Fatalf("%s is old: go run ./internal/gen/metricsdocs", outName)
	}
}
