package controller

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

func entry(index, term uint64, data string) *pb.Entry {
	return &pb.Entry{Index: &index, Term: &term, Data: []byte(data)}
}

func hard(term, vote, commit uint64) *pb.HardState {
	return &pb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func snapshotAt(index, term uint64, data string) *pb.Snapshot {
	return &pb.Snapshot{Data: []byte(data), Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: &pb.ConfState{Voters: []uint64{1}}}}
}

func open(t *testing.T, dir string) *storage {
	t.Helper()
	s, err := openStorage(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func reopen(t *testing.T, s *storage) *storage {
	t.Helper()
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return open(t, filepath.Dir(s.path))
}

func save(t *testing.T, s *storage, h *pb.HardState, snap *pb.Snapshot, entries ...*pb.Entry) {
	t.Helper()
	if err := s.save(h, snap, entries); err != nil {
		t.Fatal(err)
	}
}

// texts returns what the log holds, from the first entry on.
func texts(t *testing.T, s *storage) (first uint64, out []string) {
	t.Helper()
	first, _ = s.FirstIndex()
	last, _ := s.LastIndex()
	if last < first {
		return first, nil
	}
	entries, err := s.Entries(first, last+1, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, string(e.GetData()))
	}
	return first, out
}

func TestStorageKeepsWhatWasSaved(t *testing.T) {
	s := open(t, t.TempDir())
	if !s.empty() {
		t.Error("a new storage is not empty")
	}
	if err := s.setOwner(77, 5); err != nil {
		t.Fatal(err)
	}
	save(t, s, hard(1, 5, 0), nil, entry(1, 1, "a"), entry(2, 1, "b"), entry(3, 1, "c"))
	save(t, s, hard(2, 6, 1), nil, entry(2, 2, "B")) // a new leader replaces what was not committed
	s = reopen(t, s)
	if first, got := texts(t, s); first != 1 || !slices.Equal(got, []string{"a", "B"}) {
		t.Errorf("log from %d: %v", first, got)
	}
	h, _, err := s.InitialState()
	if err != nil || h.GetTerm() != 2 || h.GetVote() != 6 || h.GetCommit() != 1 {
		t.Errorf("hard state %v, %v", h, err)
	}
	if s.cluster.Load() != 77 || s.self != 5 || s.empty() {
		t.Errorf("cluster %d, empty %v", s.cluster.Load(), s.empty())
	}
}

func TestStorageCompacts(t *testing.T) {
	s := open(t, t.TempDir())
	s.keep = 2
	for i := range uint64(6) {
		save(t, s, hard(1, 1, min(i+1, 3)), nil, entry(i+1, 1, string(rune('a'+i))))
	}
	if err := s.compact(5, &pb.ConfState{Voters: []uint64{1, 2}}, []byte("state")); err != nil {
		t.Fatal(err)
	}
	if first, got := texts(t, s); first != 4 || !slices.Equal(got, []string{"d", "e", "f"}) {
		t.Errorf("log from %d: %v", first, got)
	}
	s = reopen(t, s)
	if first, got := texts(t, s); first != 6 || !slices.Equal(got, []string{"f"}) {
		t.Errorf("log from %d after a restart: %v", first, got)
	}
	if h, _, _ := s.InitialState(); h.GetCommit() != 5 {
		t.Errorf("committed is %d, and the snapshot is of 5", h.GetCommit())
	}
	snap, err := s.Snapshot()
	if err != nil || string(snap.GetData()) != "state" || len(snap.GetMetadata().GetConfState().GetVoters()) != 2 {
		t.Errorf("snapshot %v, %v", snap, err)
	}
}

func TestStorageTakesSnapshotOfLeader(t *testing.T) {
	s := open(t, t.TempDir())
	save(t, s, hard(1, 1, 2), nil, entry(1, 1, "a"), entry(2, 1, "b"))
	save(t, s, hard(3, 0, 10), snapshotAt(10, 3, "state"), entry(11, 3, "k"))
	for range 2 {
		if first, got := texts(t, s); first != 11 || !slices.Equal(got, []string{"k"}) {
			t.Errorf("log from %d: %v", first, got)
		}
		s = reopen(t, s)
	}
}

// TestSnapshotReplacesTheLog: what a deposed leader had left behind it must not come back.
func TestSnapshotReplacesTheLog(t *testing.T) {
	s := open(t, t.TempDir())
	save(t, s, hard(1, 1, 1), nil, entry(1, 1, "a"), entry(2, 1, "b"), entry(3, 1, "c"), entry(4, 1, "d"))
	save(t, s, hard(3, 0, 2), snapshotAt(2, 3, "state"))
	for range 2 {
		if first, got := texts(t, s); first != 3 || got != nil {
			t.Errorf("log from %d: %v", first, got)
		}
		s = reopen(t, s)
	}
}

func TestStorageInUse(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if _, err := openStorage(filepath.Dir(s.path)); !errors.Is(err, ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
}

// TestDamagedStorageIsRefused: a member that may have forgotten something must not take part.
func TestDamagedStorageIsRefused(t *testing.T) {
	cases := []struct {
		name   string
		damage func(t *testing.T, path string)
		want   error
	}{
		{"not a database", func(t *testing.T, path string) { write(t, path, make([]byte, 64<<10)) }, ErrDamaged},
		{"cut", func(t *testing.T, path string) { write(t, path, []byte("x")) }, ErrDamaged},
		{"a flipped bit in an entry", edit(func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketLog), logKey(2)) }), ErrDamaged},
		{"a flipped bit in the hard state", edit(func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketRaft), keyHard) }), ErrDamaged},
		{"a flipped bit in the owner", edit(func(tx *bolt.Tx) error { return flip(tx.Bucket(bucketRaft), keyOwner) }), ErrDamaged},
		{"a missing entry", edit(func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Delete(logKey(2)) }), ErrDamaged},
		{"a missing tail", edit(func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Delete(logKey(3)) }), ErrDamaged},
		{"a newer version", edit(func(tx *bolt.Tx) error { return tx.Bucket(bucketRaft).Put(keyFormat, []byte{9}) }), ErrFormat},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			if err := s.setOwner(1, 1); err != nil {
				t.Fatal(err)
			}
			save(t, s, hard(1, 1, 3), nil, entry(1, 1, "a"), entry(2, 1, "b"), entry(3, 1, "c"))
			if err := s.close(); err != nil {
				t.Fatal(err)
			}
			tc.damage(t, s.path)
			for range 2 { // and the file is let go each time
				if _, err := openStorage(filepath.Dir(s.path)); !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
			}
		})
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func edit(f func(tx *bolt.Tx) error) func(*testing.T, string) {
	return func(t *testing.T, path string) {
		t.Helper()
		db, err := bolt.Open(path, 0o600, nil)
		if err == nil {
			err = errors.Join(db.Update(f), db.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func flip(b *bolt.Bucket, key []byte) error {
	v := slices.Clone(b.Get(key))
	v[len(v)-1] ^= 1
	return b.Put(key, v)
}

func TestDamagedSnapshotIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	save(t, s, hard(1, 1, 9), snapshotAt(9, 1, string(NewState().Snapshot()[:20])))
	if _, err := newNode(nodeConfig{Store: s}); err == nil {
		t.Error("a member with half a snapshot takes part")
	}
}

// TestStorageOfAnotherIsRefused: two members with one memory would vote twice.
func TestStorageOfAnotherIsRefused(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.setOwner(1, raftID("n0")); err != nil {
		t.Fatal(err)
	}
	if _, err := newNode(nodeConfig{Store: s, Self: Member{ID: "n0"}}); err != nil {
		t.Error(err)
	}
	if _, err := newNode(nodeConfig{Store: s, Self: Member{ID: "n1"}}); err == nil {
		t.Error("a member takes part with the log of another")
	}
}

// TestFailedWriteEndsTheNode: what is not durable must not be acknowledged.
func TestFailedWriteEndsTheNode(t *testing.T) {
	s := open(t, t.TempDir())
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	err := s.save(hard(1, 1, 1), nil, []*pb.Entry{entry(1, 1, "a")})
	if err == nil {
		t.Fatal("saved into a closed file")
	}
	if last, _ := s.LastIndex(); last != 0 {
		t.Error("raft is shown an entry that was not saved")
	}
}

var _ raft.Storage = (*storage)(nil)
