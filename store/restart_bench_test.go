package store

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
)

// BenchmarkOpen measures starts: of a new store, of one that was stopped in order, and of one whose process was killed.
func BenchmarkOpen(b *testing.B) {
	config := func(dir string) Config {
		c := testConfig(dir, false)
		c.SegmentSize, c.QueueFile, c.IndexSlots, c.IndexItems = 1<<30, 6_000_000, 5_000_000, 20_000_000
		return c
	}
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			s := openStore(b, config(b.TempDir()), vfs.OS{})
			b.StopTimer()
			s.stop()
			b.StartTimer()
		}
	})
	for _, c := range []struct {
		name        string
		bytes, body int
		kill        bool
	}{
		{"stopped/2GiB", 2 << 30, 1000, false},
		{"killed/2GiB", 2 << 30, 1000, true},
		{"killed/2GiB-100B", 2 << 30, 100, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			s := openStore(b, config(dir), vfs.OS{})
			fillBytes(b, s, c.bytes, c.body)
			for b.Loop() {
				if c.kill {
					s.kill()
				} else {
					s.stop()
				}
				start := time.Now()
				var err error
				if s.Store, err = Open(config(dir), vfs.OS{}, clock.Real{}, benchLogger()); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/open")
				s.g = nil
				s = &testStore{Store: s.Store, t: b, g: newGroup(s.Store)}
			}
			s.stop()
		})
	}
}

func benchLogger() *zap.Logger {
	if os.Getenv("VERBOSE") == "" {
		return zap.NewNop()
	}
	l, _ := zap.NewDevelopment()
	return l
}

// fillBytes appends messages to eight queues.
func fillBytes(b *testing.B, s *testStore, total, body int) {
	d := &message.Draft{Topic: "T", BornHost: testHost, StoreHost: testHost, Body: make([]byte, body)}
	for i := 0; total > 0; i++ {
		d.QueueID = int32(i % 8)
		d.Properties = fmt.Appendf(d.Properties[:0], "UNIQ_KEY\x01%032d\x02TAGS\x01A\x02", i)
		e := entry(b, d)
		e[0].Next = &s.Queues.GetOrCreate("T", d.QueueID).Next
		if err := s.Append(e, nil); err != nil {
			b.Fatal(err)
		}
		if i%64 == 0 {
			s.Advance()
		}
		total -= d.Size()
	}
	s.Advance()
}
