package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/vfs"
)

// The environment of a broker names the file that says how its disk is; what it says holds a moment later.
const diskVariable = "CASTOR_CHAOS_DISK"

// look is how often a broker reads that file.
const look = 10 * time.Millisecond

// ailment is what a disk suffers from.
type ailment string

const (
	well   ailment = ""
	slow   ailment = "slow"   // each write and each sync takes slowness more
	hung   ailment = "hung"   // they do not end before the disk is well again
	broken ailment = "broken" // they fail
)

const slowness = 20 * time.Millisecond

// Disk is fsys as the environment wants it: fsys itself unless this is a broker of a Cluster, else with the faults that the cluster chooses.
func Disk(fsys vfs.FS) vfs.FS {
	path := os.Getenv(diskVariable)
	if path == "" {
		return fsys
	}
	var state atomic.Value
	state.Store(well)
	go func() {
		for {
			if text, err := os.ReadFile(path); err == nil {
				state.Store(ailment(text))
			}
			time.Sleep(look)
		}
	}()
	return vfs.Faulty(fsys, func(op vfs.Op, _ string, _, _ int64) error {
		if op != vfs.OpWriteAt && op != vfs.OpSyncData {
			return nil
		}
		switch state.Load() {
		case slow:
			time.Sleep(slowness)
		case hung:
			for state.Load() == hung {
				time.Sleep(look)
			}
		case broken:
			return unix.EIO
		}
		return nil
	})
}

// disk is the file that says how a broker's disk is.
func (p *Process) disk() string { return filepath.Join(filepath.Dir(p.conf), "disk") }

// ail makes the disk of a process so.
func (p *Process) ail(a ailment) error {
	next := p.disk() + ".next"
	return errors.Join(os.WriteFile(next, []byte(a), 0o600), os.Rename(next, p.disk()))
}

// sicken makes the disk of a broker ill until it is mended. A broker whose disk fails or hangs ends, maybe a moment later, and is started again.
func sicken(find func(c *Cluster, ctx context.Context) (*Process, error), a ailment) hit {
	return func(ctx context.Context, c *Cluster) (func() error, error) {
		p, err := find(c, ctx)
		if err != nil {
			return nothing, err
		}
		return func() error {
			err := p.ail(well)
			if a != slow {
				err = errors.Join(err, p.Kill(), p.Start())
			}
			return err
		}, p.ail(a)
	}
}
