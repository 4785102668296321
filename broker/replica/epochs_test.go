package replica

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestEpochFileOfJava(t *testing.T) {
	for _, c := range []struct {
		text string
		want Epochs
	}{
		{"2\n773307083\n7-7000\n8-8000\n", Epochs{{7, 7000}, {8, 8000}}},
		{"2\n355729437\n1-0\n2-100\n", Epochs{{1, 0}, {2, 100}}},
	} {
		got, err := DecodeEpochs([]byte(c.text))
		if err != nil || !slices.Equal(got, c.want) || string(c.want.Encode()) != c.text {
			t.Errorf("%q: %v %v, back %q", c.text, got, err, c.want.Encode())
		}
	}
	for _, bad := range []string{"", "1", "x\n0\n", "1\n0\n", "2\n0\n1-0\n", "2\n0\n2-0\n1-5\n", "2\n0\n1-5\n2-5\n", "1\n0\n1-x\n", "1\n0\n0-0\n",
		"1\n0\n1--5\n", "1\n7\n1-0\n", "1\n0\n1-0\n\n", "-1\n0\n", "1\n0\n4294967297-0\n"} {
		if e, err := DecodeEpochs([]byte(bad)); err == nil {
			t.Errorf("%q: %v", bad, e)
		}
	}
}

func FuzzDecodeEpochs(f *testing.F) {
	f.Add([]byte("2\n773307083\n7-7000\n8-8000\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := DecodeEpochs(text)
		if err != nil {
			return
		}
		if again, err := DecodeEpochs(e.Encode()); err != nil || !slices.Equal(e, again) {
			t.Fatalf("%v: %v %v", e, again, err)
		}
	})
}

func TestEpochs(t *testing.T) {
	e := Epochs{{1, 100}, {2, 300}, {5, 500}}
	if got := e.Begin(7, 500); !slices.Equal(got, Epochs{{1, 100}, {2, 300}, {7, 500}}) {
		t.Errorf("an epoch without a byte stays: %v", got)
	}
	if got := e.Cut(300); !slices.Equal(got, Epochs{{1, 100}}) {
		t.Error(got)
	}
	if got := e.Drop(300); !slices.Equal(got, Epochs{{2, 300}, {5, 500}}) {
		t.Error(got)
	}
	for at, want := range map[int64]Epoch{0: {}, 99: {}, 100: {1, 100}, 299: {1, 100}, 300: {2, 300}, 1 << 40: {5, 500}} {
		if got, _ := e.At(at); got != want {
			t.Errorf("%d: %v", at, got)
		}
	}
	if _, next := e.At(250); next != 300 {
		t.Error(next)
	}
	if _, next := e.At(500); next != math.MaxInt64 {
		t.Error(next)
	}
	for _, c := range []struct {
		epoch, floor int32
		at           int64
	}{{0, 0, 100}, {1, 1, 300}, {2, 2, 500}, {4, 2, 500}, {5, 5, 700}, {9, 5, 700}} {
		if floor, at := e.Floor(c.epoch, 700); floor != c.floor || at != c.at {
			t.Errorf("%d: %d ends at %d", c.epoch, floor, at)
		}
	}
	if !slices.Equal(e, Epochs{{1, 100}, {2, 300}, {5, 500}}) {
		t.Error("changed", e)
	}
}

// history is a log in which the byte at an offset is known by the epoch that wrote it.
type history struct {
	epochs Epochs
	bytes  []int32 // per offset
}

func (h *history) write(epoch int32, n int) {
	if n == 0 {
		return
	}
	if h.epochs.Last() != epoch {
		h.epochs = h.epochs.Begin(epoch, int64(len(h.bytes)))
	}
	h.bytes = append(h.bytes, slices.Repeat([]int32{epoch}, n)...)
}

// align is what replica and master do with each other, and tells how often they asked.
func align(own, master *history) (cuts int) {
	for {
		last, at := master.epochs.Floor(own.epochs.Last(), int64(len(master.bytes)))
		if last == own.epochs.Last() && int64(len(own.bytes)) <= at {
			return cuts
		}
		to := own.epochs.Common(last, at, int64(len(own.bytes)))
		if to >= int64(len(own.bytes)) {
			panic("no progress")
		}
		own.bytes, own.epochs = own.bytes[:to], own.epochs.Cut(to)
		cuts++
	}
}

// TestAlignment: masters of growing epochs, each of which wrote after aligning with nobody; whoever joins the last one afterwards
// has a prefix of its log, and keeps all that they have in common.
func TestAlignment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logs := make([]*history, 4)
		for i := range logs {
			logs[i] = &history{}
		}
		for epoch := int32(1); epoch < 12; epoch++ {
			master := logs[rapid.IntRange(0, 3).Draw(t, "master")]
			master.write(epoch, rapid.IntRange(0, 5).Draw(t, "bytes"))
			for _, own := range logs {
				if own == master || !rapid.Bool().Draw(t, "joins") {
					continue
				}
				common := 0
				for common < min(len(own.bytes), len(master.bytes)) && own.bytes[common] == master.bytes[common] {
					common++
				}
				align(own, master)
				if len(own.bytes) != common || !slices.Equal(own.bytes, master.bytes[:common]) {
					t.Fatalf("joined with %v, master has %v, %d in common", own.bytes, master.bytes, common)
				}
				for range rapid.IntRange(0, len(master.bytes)-len(own.bytes)).Draw(t, "copied") {
					at := int64(len(own.bytes))
					part, _ := master.epochs.At(at)
					if part.Epoch != own.epochs.Last() {
						own.epochs = own.epochs.Begin(part.Epoch, part.Start)
					}
					own.bytes = append(own.bytes, master.bytes[at])
				}
			}
		}
	})
}

// TestAlignmentVectors are those of Java's EpochFileCacheTest, as the offset up to which the logs are the same. One of them has an
// epoch that starts at two offsets, which cannot be here; the sum of the last bytes would find it.
func TestAlignmentVectors(t *testing.T) {
	log := func(end int64, e ...Epoch) *history {
		h := &history{epochs: e, bytes: make([]int32, end)}
		return h
	}
	for i, c := range []struct {
		own, master *history
		want        int
	}{
		{log(700, Epoch{1, 100}, Epoch{2, 300}, Epoch{3, 500}), log(600, Epoch{1, 100}, Epoch{2, 300}, Epoch{3, 500}), 600},
		{log(900, Epoch{1, 100}, Epoch{2, 300}, Epoch{3, 500}, Epoch{4, 800}), log(700, Epoch{1, 100}, Epoch{2, 300}, Epoch{3, 500}), 700},
	} {
		if align(c.own, c.master); len(c.own.bytes) != c.want {
			t.Errorf("%d: cut to %d, want %d", i, len(c.own.bytes), c.want)
		}
	}
}
