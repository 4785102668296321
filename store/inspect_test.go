package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store/state"
)

func TestInspect(t *testing.T) {
	cfg := testConfig(t.TempDir(), false)
	s := openStore(t, cfg, vfs.OS{})
	for range 30 {
		s.put("Deleted", 0, "k", 3000)
		s.put("T", 1, "k", 3000)
	}
	w := make(waitErr, 1)
	if err := s.Propose(w, state.TopicDelete("Deleted")); err != nil {
		t.Fatal(err)
	}
	if err := <-w; err != nil {
		t.Fatal(err)
	}
	s.put("Deleted", 0, "k", 10)
	s.stop()
	in, err := Inspect(cfg, vfs.OS{}, nil)
	if err != nil || len(in.Problems) > 0 || !in.Clean || in.Records != 62 || in.Queues != 2 || in.RecoverFor != 0 {
		t.Fatalf("%+v %v", in, err)
	}
	f, err := os.OpenFile(filepath.Join(cfg.Root, "consumequeue", "T", "1", "00000000000000000000"), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte{1}, 5*20+3)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if in, err = Inspect(cfg, vfs.OS{}, nil); err != nil || len(in.Problems) != 1 {
		t.Fatalf("%+v %v", in, err)
	}
}

// TestExportOfBatchTopics leaves no queue that a Java broker refuses to load, and can be opened again all the same.
func TestExportOfBatchTopics(t *testing.T) {
	dir, want := unpack(t, "java-v5")
	cfg := goldenConfig(dir)
	openStore(t, cfg, vfs.OS{}).stop()
	if err := Export(cfg, vfs.OS{}, zap.NewNop(), filepath.Join(dir, "config")); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"consumequeue/TopicBatchCq", "batchconsumequeue/TopicBatchCq", "checkpoint", checkpointFile} {
		if _, err := os.Stat(filepath.Join(dir, gone)); !os.IsNotExist(err) {
			t.Fatal(gone, err)
		}
	}
	want.Queues = append(want.Queues, goldenQueue{Topic: "TopicBatchCq", Max: 9})
	s := openStore(t, cfg, vfs.OS{})
	defer s.stop()
	s.checkGolden(want)
	if o, ok := s.State.Offset("CG-fifo", "TopicFifo", 0); !ok || o != 1 {
		t.Error(o, ok)
	}
}
