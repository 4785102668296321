package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/lifecycle"
)

// serve runs a broker in this process until the test ends and returns its address.
func serve(t *testing.T) string {
	t.Helper()
	cfg, _, err := conf.Load[conf.Broker]("", map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
		"brokerIP2": "127.0.0.1", "storePathRootDir": filepath.Join(t.TempDir(), "store"), "mappedFileSizeCommitLog": "16777216"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.New(cfg, broker.Options{Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	g := lifecycle.New(context.Background())
	g.Go("broker", b.Run)
	t.Cleanup(func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	})
	return b.Addr()
}

// TestVerifyNoticesEveryKindOfLoss compares a broker with what it was told, and with histories in which it was told more.
func TestVerifyNoticesEveryKindOfLoss(t *testing.T) {
	addr := serve(t)
	log := filepath.Join(t.TempDir(), "log")
	read := func() *history {
		t.Helper()
		h, err := readHistory(log)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for run := range 2 {
		if err := send(t.Context(), addr, log, read(), int32(run), 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := verify(t.Context(), addr, read(), 1); err != nil {
		t.Fatal(err)
	}
	ghost := place{"Crash0", 1}
	for _, c := range []struct {
		name   string
		change func(h *history)
	}{
		{"a message that is not there", func(h *history) {
			a := &attempt{id: id{9, 9, 9}, place: ghost, key: id{9, 9, 9}, offset: 1 << 40}
			h.byID[a.id], h.attempts = a, append(h.attempts, a)
		}},
		{"another offset", func(h *history) { h.attempts[7].offset++ }},
		{"another key", func(h *history) { h.attempts[7].key.seq++ }},
		{"another queue", func(h *history) { h.attempts[7].queue ^= 1 }},
		{"a message that nobody sent", func(h *history) { delete(h.byID, h.attempts[7].id) }},
		{"a message that is there twice", func(h *history) { h.attempts[7].stored = 1 }},
		{"an offset that went back", func(h *history) { h.commits[ghost] = &commit{1 << 40, 1 << 40} }},
		{"an offset that nobody asked for", func(h *history) {
			for p := range h.commits {
				h.commits[p] = &commit{-1, 0}
				return
			}
		}},
		{"a topic that is gone", func(h *history) { h.asked["Gone"], h.topics["Gone"] = true, 0 }},
	} {
		h := read()
		c.change(h)
		if err := verify(t.Context(), addr, h, 1); err == nil || !strings.Contains(err.Error(), "problems") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestUnansweredAreSentAgain(t *testing.T) {
	h, err := readHistory("absent")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"sent 1.0.0 T 0 1.0.0", "sent 1.0.1 T 1 1.0.1", "sent 1.1.0 T 2 1.1.0", "acked 1.0.0 5", `refused 1.0.1 "busy"`,
		"sent 2.0.0 T 1 1.0.1", "sent 2.0.1 T 2 1.1.0", "acked 2.0.1 7", "topic T 4", "created T 4", "commit T 1 10", "committed T 1 10", "commit T 1 12"} {
		if err := h.apply(line); err != nil {
			t.Fatal(line, err)
		}
	}
	got := h.unanswered()
	if len(got) != 1 || got[0].id != (id{2, 0, 0}) || got[0].key != (id{1, 0, 1}) || got[0].place != (place{"T", 1}) {
		t.Fatal(got)
	}
	if c := h.commits[place{"T", 1}]; *c != (commit{10, 12}) || h.topics["T"] != 4 {
		t.Fatal(c, h.topics)
	}
	for _, line := range []string{"", "sent 1.0 T 0 1.0.0", "sent 1.0.0 T x 1.0.0", "acked 9.9.9 1", "commit T x 1", "what"} {
		if err := h.apply(line); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}

func TestBodiesDifferAndRepeat(t *testing.T) {
	a := id{1, 2, 3}
	if !slices.Equal(a.body(), a.body()) || slices.Equal(a.body()[len(a.String()):], id{1, 2, 4}.body()[len(a.String()):]) {
		t.Fatal("bodies do not follow from names")
	}
	if !strings.HasPrefix(string(a.body()), "1.2.3 ") {
		t.Fatalf("%q", a.body()[:10])
	}
}
