package store

import (
	"math/rand/v2"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

// TestTorn: a store knows whether its last life may have told others more than the power has left.
func TestTorn(t *testing.T) {
	for _, tc := range []struct {
		name              string
		sync, power, want bool
	}{
		{"killed, ASYNC_FLUSH", false, false, false},
		{"power loss, ASYNC_FLUSH", false, true, true},
		{"killed, SYNC_FLUSH", true, false, false},
		{"power loss, SYNC_FLUSH", true, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNode(t, &confirm{})
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			n.cfg.SyncFlush = tc.sync
			boot := func(id string) {
				if err := n.fs.MkdirAll("/proc/sys/kernel/random"); err != nil {
					t.Fatal(err)
				}
				if err := n.fs.WriteFileAtomic(bootFile, []byte(id)); err != nil {
					t.Fatal(err)
				}
			}
			boot("1")
			n.open(t, nil)
			if n.Torn() {
				t.Error("a store that was closed is not torn")
			}
			mode := vfs.CrashKeep
			if tc.power {
				mode = vfs.CrashDrop
			}
			after := n.fs.CrashClone(rand.New(rand.NewPCG(1, 1)), mode)
			if err := n.Close(); err != nil {
				t.Fatal(err)
			}
			if n.fs = after; tc.power {
				boot("2")
			}
			s, err := Open(n.cfg, n.fs, clock.Real{}, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			if s.Torn() != tc.want {
				t.Errorf("torn: %v", s.Torn())
			}
			again := func(want bool) {
				t.Helper()
				after := n.fs.CrashClone(nil, vfs.CrashKeep)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				n.fs = after
				if s, err = Open(n.cfg, n.fs, clock.Real{}, zap.NewNop()); err != nil {
					t.Fatal(err)
				}
				if s.Torn() != want {
					t.Errorf("torn after another kill: %v", s.Torn())
				}
			}
			again(tc.want) // nobody has been told
			if err := s.Mended(); err != nil {
				t.Fatal(err)
			}
			again(false)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
