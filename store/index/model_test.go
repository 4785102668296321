package index

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

// message is a record of the log that the model keeps.
type message struct {
	phy, time int64
	keys      []string
}

// model is a log, its index on a disk that may crash, and what is promised about them.
type model struct {
	t   *rapid.T
	cfg Config
	clk *clock.Manual
	fs  *vfs.Mem
	x   *Index

	log      []message
	from     int64 // messages below may be gone: RemoveBefore
	end, now int64
	serial   int
	durable  int64
}

func newModel(t *rapid.T) *model {
	cfg := rapid.SampledFrom([]Config{
		{Dir: "/index", Slots: 1, Entries: 2},
		{Dir: "/index", Slots: 7, Entries: 12},
		{Dir: "/index", Slots: 3000, Entries: 40},
		{Dir: "/index", Slots: 2100, Entries: 6000},
	}).Draw(t, "config")
	m := &model{t: t, cfg: cfg, clk: newClock(), now: startMs}
	m.fs = vfs.NewMem(m.clk)
	m.open()
	return m
}

func (m *model) open() {
	x, err := Open(m.cfg, m.fs, m.clk, zap.NewNop())
	must(m.t, err)
	m.x = x
}

// put appends messages to the log and indexes them. Time may stand still, and a message may have no key or one key twice.
func (m *model) put() {
	n := rapid.IntRange(1, 8).Draw(m.t, "messages")
	if m.cfg.Entries > 1000 {
		n *= 150
	}
	for range n {
		m.serial++
		m.now += int64(m.serial%3) * 700
		msg := message{phy: m.end, time: m.now}
		for k := range m.serial % 4 {
			msg.keys = append(msg.keys, fmt.Sprintf("key-%d", m.serial*7*k%5))
		}
		m.log = append(m.log, msg)
		m.index(msg)
		m.end += int64(100 + m.serial%50)
	}
	m.x.SetIndexed(m.end)
	m.clk.Advance(time.Duration(n%2) * time.Millisecond)
}

func (m *model) index(msg message) {
	for _, key := range msg.keys {
		m.x.Put(HashTopic("topic"), []byte(key), msg.phy, msg.time)
	}
}

func (m *model) flush() {
	sync := rapid.Bool().Draw(m.t, "sync")
	durable, err := m.x.Flush(sync)
	must(m.t, err)
	if sync && durable != m.end {
		m.t.Fatalf("durable to %d of %d", durable, m.end)
	}
	m.durable = max(m.durable, durable)
}

// cutLog truncates the log somewhere; what is appended next has other keys than what was there.
func (m *model) cutLog() {
	if len(m.log) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.log)-1).Draw(m.t, "cut")
	if rapid.Bool().Draw(m.t, "short") {
		i = max(i, len(m.log)-3)
	}
	m.end = m.log[i].phy
	m.log = m.log[:i]
	m.serial += 1000
	m.durable = min(m.durable, m.end)
	must(m.t, m.x.Truncate(m.end))
	if got := m.x.Indexed(); got != m.end {
		m.t.Fatalf("indexed %d after a cut at %d", got, m.end)
	}
	if _, phy := m.x.LastUpdate(); phy >= m.end && phy != 0 {
		m.t.Fatalf("the index ends at %d after a cut at %d", phy, m.end)
	}
}

func (m *model) removeBefore() {
	m.from = rapid.Int64Range(m.from, max(m.from, m.end)).Draw(m.t, "from")
	must(m.t, m.x.RemoveBefore(m.from))
}

func (m *model) reopen() {
	must(m.t, m.x.Close())
	m.durable = m.end
	m.open()
	m.recover(true)
}

// crash ends the broker at some point of one of its operations, maybe together with the machine.
func (m *model) crash() {
	mode := rapid.SampledFrom([]vfs.CrashMode{vfs.CrashKeep, vfs.CrashDrop, vfs.CrashMix, vfs.CrashTear}).Draw(m.t, "mode")
	seed := rapid.Uint64().Draw(m.t, "seed")
	at := rapid.IntRange(0, 20).Draw(m.t, "operation")
	var after *vfs.Mem
	m.fs.Inject(func(vfs.Op, string, int64, int64) error {
		if at--; at < 0 && after == nil {
			after = m.fs.CrashClone(rand.New(rand.NewPCG(seed, 1)), mode)
		}
		return nil
	})
	rapid.SampledFrom([]func(){m.flush, m.cutLog, m.removeBefore, func() { must(m.t, m.x.Close()) }}).Draw(m.t, "during")()
	m.fs.Inject(nil)
	if after == nil {
		after = m.fs.CrashClone(rand.New(rand.NewPCG(seed, 1)), mode)
	} else {
		m.durable = 0 // It may have grown after the crash.
	}
	m.fs = after
	m.open()
	m.recover(mode != vfs.CrashTear)
}

// recover does what the store does at its start. Unless a sector was torn everything that was durable must be there, in sound
// files.
func (m *model) recover(sound bool) {
	for _, name := range list(m.t, m.fs, m.cfg.Dir) {
		if !strings.HasSuffix(name, badSuffix) {
			continue
		}
		if sound {
			m.t.Fatalf("%s was set aside", name)
		}
		must(m.t, m.fs.Remove(m.cfg.Dir+"/"+name))
	}
	if sound {
		for _, msg := range slices.Backward(m.log) {
			if msg.phy < m.durable && msg.phy >= m.from && len(msg.keys) > 0 {
				if m.x.Indexed() < msg.phy {
					m.t.Fatalf("the index ends at %d, message %d was durable", m.x.Indexed(), msg.phy)
				}
				break
			}
		}
	}
	must(m.t, m.x.Truncate(min(m.x.Indexed(), m.end)))
	from := m.x.Indexed()
	m.durable = min(m.durable, from)
	for _, msg := range m.log {
		if msg.phy >= from {
			m.index(msg)
		}
	}
	m.x.SetIndexed(m.end)
}

// check asks for a key in a window and compares what is left after looking at the messages.
func (m *model) check() {
	key := fmt.Sprintf("key-%d", rapid.IntRange(0, 5).Draw(m.t, "key"))
	begin, end := int64(0), int64(math.MaxInt64)
	if rapid.Bool().Draw(m.t, "window") {
		begin = rapid.Int64Range(startMs-5000, m.now+5000).Draw(m.t, "begin")
		end = begin + rapid.Int64Range(0, 20_000).Draw(m.t, "length")
	}
	want := []int64{}
	byPhy := map[int64]message{}
	for _, msg := range slices.Backward(m.log) {
		byPhy[msg.phy] = msg
		if msg.phy >= m.from && slices.Contains(msg.keys, key) && msg.time >= begin && msg.time <= end {
			want = append(want, msg.phy)
		}
	}
	got := []int64{}
	for _, phy := range ask(m.t, m.x, "topic", key, math.MaxInt, begin, end) {
		msg, there := byPhy[phy]
		if there && !slices.Contains(msg.keys, key) || !there && phy >= m.from {
			m.t.Fatalf("%d has not %s", phy, key)
		}
		if phy >= m.from && msg.time >= begin && msg.time <= end {
			got = append(got, phy)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("%s in [%d, %d]: -want +got\n%s", key, begin, end, diff)
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"put":          func(t *rapid.T) { m.t = t; m.put() },
			"flush":        func(t *rapid.T) { m.t = t; m.flush() },
			"truncate":     func(t *rapid.T) { m.t = t; m.cutLog() },
			"removeBefore": func(t *rapid.T) { m.t = t; m.removeBefore() },
			"reopen":       func(t *rapid.T) { m.t = t; m.reopen() },
			"crash":        func(t *rapid.T) { m.t = t; m.crash() },
			"":             func(t *rapid.T) { m.t = t; m.check() },
		})
	})
}
