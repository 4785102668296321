package store

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

// slowQueues is a disk on which opening a file of a queue takes that long. It counts how often the checkpoint is opened, which is once per save.
type slowQueues struct {
	vfs.FS
	took  time.Duration
	saves atomic.Int64
}

func (d *slowQueues) Open(path string) (vfs.File, error) {
	if strings.Contains(path, "consumequeue") {
		time.Sleep(d.took)
	}
	if strings.HasSuffix(path, checkpointFile) {
		d.saves.Add(1)
	}
	return d.FS.Open(path)
}

// TestSavesRest: saves come once a second, but one that takes long is followed by a rest. Time is virtual.
func TestSavesRest(t *testing.T) {
	for _, c := range []struct {
		took        time.Duration
		least, most int64 // saves in a minute
	}{{0, 58, 61}, {300 * time.Millisecond, 15, 21}, {5 * time.Second, 3, 5}} {
		synctest.Test(t, func(t *testing.T) {
			disk := &slowQueues{FS: vfs.NewMem(clock.Real{}), took: c.took}
			cfg := testConfig(t.TempDir(), false)
			cfg.QueueFile = 1000 * 20 // all messages of a minute
			s := openStore(t, cfg, disk)
			before := disk.saves.Load()
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				s.put("T", 0, "k", 10)
			}
			if n := disk.saves.Load() - before; n < c.least || n > c.most {
				t.Errorf("of %v each: %d saves in a minute", c.took, n)
			}
			s.stop()
		})
	}
}
