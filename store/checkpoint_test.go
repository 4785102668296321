package store

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

func checkpointFS(t testing.TB, b []byte) vfs.FS {
	t.Helper()
	fs := vfs.NewMem(clock.Real{})
	if err := fs.WriteFileAtomic("/cp", b); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestCheckpointSlots(t *testing.T) {
	older := checkpoint{seq: 4, soft: 1, hard: 2, durable: -1, storeTime: 5, clean: true, boot: "a"}
	newer := checkpoint{seq: 5, soft: 1 << 40, hard: 7, durable: 9, importing: true, lazy: true, torn: true, dubious: true, sound: 8, damaged: 6, boot: strings.Repeat("b", 255), slot: 1}
	two := append(older.encode(), newer.encode()...)
	if got, err := readCheckpoint(checkpointFS(t, two), "/cp"); err != nil || !reflect.DeepEqual(got, newer) {
		t.Fatalf("%+v %v", got, err)
	}
	for i := range two { // one damaged slot leaves the other
		b := append([]byte(nil), two...)
		b[i] ^= 0x40
		want := newer
		if used := checkpointFixed + len(newer.boot) + 4; i >= checkpointSlot && i < checkpointSlot+used {
			want = older
		}
		if got, err := readCheckpoint(checkpointFS(t, b), "/cp"); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("byte %d: %+v %v", i, got, err)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	c := checkpoint{seq: 4, soft: 1, hard: 2, durable: 3, clean: true, boot: "a"}
	f.Add(c.encode())
	f.Add(c.encode()[:100])
	f.Fuzz(func(t *testing.T, b []byte) {
		var c checkpoint
		if !c.decode(b) {
			return
		}
		var again checkpoint
		if !again.decode(c.encode()) || again != c {
			t.Fatalf("%+v became %+v", c, again)
		}
	})
}

// TestOneSlotIsAlwaysDurable: checkpoints that are not synced never take the place of the last that was, however many are written, and
// whatever the power leaves of them.
func TestOneSlotIsAlwaysDurable(t *testing.T) {
	n := newNode(t, &confirm{})
	defer func() {
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	for i := range 5 {
		if err := n.save(i == 2); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(50) {
			after := n.fs.CrashClone(rand.New(rand.NewPCG(seed, uint64(i))), vfs.CrashTear)
			if c, err := readCheckpoint(after, n.Dir(checkpointFile)); err != nil || !c.grouped {
				t.Fatalf("after %d saves, seed %d: %+v, %v", i+1, seed, c, err)
			}
		}
	}
}
