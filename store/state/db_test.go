package state

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/remoting/body"
)

func openDB(t testing.TB, path string) (*DB, *Tables, int64) {
	t.Helper()
	db, tables, appliedTo, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db, tables, appliedTo
}

func commit(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Commit(); err != nil {
		t.Fatal(err)
	}
}

func closeDB(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// filled returns a closed state file with many rows, and its tables.
func filled(t *testing.T, rows int) (string, *Tables) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	db, tables, _ := openDB(t, path)
	applyEach(t, tables, everyKind()...)
	applyEach(t, tables, TopicPut(topicConfig("T", 8)), GroupPut(groupConfig("G")))
	for i := range tables.meta.versions { // no change sets it, but a copy keeps it
		tables.meta.versions[i].StateVersion = 3
	}
	for i := range rows {
		applyEach(t, tables, OffsetPut("G", fmt.Sprint("topic", i), int32(i), int64(i)))
	}
	commit(t, db)
	closeDB(t, db)
	return path, tables
}

func sameState(t *testing.T, got, want *Tables) {
	t.Helper()
	if g, w := got.Changes(), want.Changes(); !bytes.Equal(Append(nil, g...), Append(nil, w...)) {
		t.Errorf("rows (-want +got):\n%s", cmp.Diff(w, g))
	}
	equal(t, "meta", fmt.Sprint(got.meta), fmt.Sprint(want.meta))
}

func TestReopenLoadsWhatWasCommitted(t *testing.T) {
	path, tables := filled(t, 100)
	db, loaded, appliedTo := openDB(t, path)
	equal(t, "applied", appliedTo, tables.Applied())
	sameState(t, loaded, tables)

	applyEach(t, loaded, OffsetPut("G", "topic1", 1, 1000)) // lost: no commit
	closeDB(t, db)
	_, again, _ := openDB(t, path)
	sameState(t, again, tables)
}

func TestCommitWritesEveryWayOfChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, tables, appliedTo := openDB(t, path)
	equal(t, "applied of a new file", appliedTo, int64(0))
	steps := [][]Change{
		{OffsetPut("G", "T", 0, 1), OffsetPut("G", "T", 1, 1)},
		{OffsetPut("G", "T", 0, 2), OffsetPut("G", "T", 0, 3)},
		{GroupDelete("G", true)},
		{OffsetPut("G", "T", 0, 4), GroupDelete("G", true), OffsetPut("G", "T", 0, 5)},
		{OffsetPut("G", "T", 0, 6), GroupDelete("G", true)},
		{TopicPut(topicConfig("T", 1)), TopicDelete("T")},
		{TopicDelete("T"), TopicPut(topicConfig("T", 2))},
		{},
	}
	for i, step := range steps {
		applyEach(t, tables, step...)
		tables.Advance(tables.Applied() + 10)
		commit(t, db)
		commit(t, db) // nothing to do
		closeDB(t, db)
		want := tables
		db, tables, appliedTo = openDB(t, path)
		equal(t, fmt.Sprintf("step %d: applied", i), appliedTo, want.Applied())
		sameState(t, tables, want)
	}
}

func TestLongNamesAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, tables, _ := openDB(t, path)
	long := strings.Repeat("n", 100_000)
	applyEach(t, tables, OffsetPut(long, "T", 0, 1), OffsetPut(long+"x", "T", 0, 2), OffsetPut("", "", 0, 3), ForbiddenPut("", "", 1))
	commit(t, db)
	closeDB(t, db)
	_, loaded, _ := openDB(t, path)
	sameState(t, loaded, tables)
}

func TestOpenRefusesAFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	openDB(t, path)
	if _, _, _, err := Open(path, Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}

func TestOpenReportsSystemErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "state.db")
	_, _, _, err := Open(path, Options{})
	var damaged *DamagedError
	if !errors.Is(err, os.ErrNotExist) || errors.As(err, &damaged) {
		t.Errorf("got %v", err)
	}
}

// TestDamageIsReported damages a state file in many places. Open must say so, or load what was committed.
func TestDamageIsReported(t *testing.T) {
	path, tables := filled(t, 1000)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	damages := map[string]func() []byte{
		"text":           func() []byte { return []byte("not a database at all\n") },
		"half a file":    func() []byte { return good[:len(good)/2] },
		"a page short":   func() []byte { return good[:len(good)-os.Getpagesize()] },
		"zeros":          func() []byte { return make([]byte, len(good)) },
		"only its metas": func() []byte { return good[:2*os.Getpagesize()] },
		"zeros behind meta": func() []byte {
			return append(bytes.Clone(good[:2*os.Getpagesize()]), make([]byte, len(good)-2*os.Getpagesize())...)
		},
	}
	for i := range 40 {
		damages[fmt.Sprint("flipped bits ", i)] = func() []byte {
			b := bytes.Clone(good)
			for range 1 + i/8 {
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
			return b
		}
	}
	found := 0
	for name, damage := range damages {
		bad := filepath.Join(t.TempDir(), "state.db")
		if err := os.WriteFile(bad, damage(), 0o644); err != nil {
			t.Fatal(err)
		}
		db, loaded, _, err := Open(bad, Options{})
		if err == nil {
			sameState(t, loaded, tables)
			closeDB(t, db)
			continue
		}
		found++
		var damaged *DamagedError
		if !errors.As(err, &damaged) && !errors.Is(err, ErrNewer) {
			t.Errorf("%s: got %v", name, err)
		}
		if !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
	}
	if found < 10 {
		t.Errorf("only %d of %d damages were found: the test damages nothing that counts", found, len(damages))
	}
}

// edit changes a state file behind the back of DB.
func edit(t *testing.T, path string, f func(rows, metas *bolt.Bucket) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return f(tx.Bucket(bucketRows), tx.Bucket(bucketMeta)) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedRows(t *testing.T) {
	one := OffsetPut("G", "topic1", 1, 1)
	key := appendStateKey(nil, KindOffsetPut, one.rowKey())
	two := OffsetPut("G", "topic2", 2, 2)
	del := TopicDelete("T")
	newer := new(meta).append(nil)
	newer[0]++
	tests := []struct {
		name string
		edit func(rows, metas *bolt.Bucket) error
		text string
	}{
		{"a flipped bit", func(rows, _ *bolt.Bucket) error {
			v := bytes.Clone(rows.Get(key))
			v[len(v)-1] ^= 1
			return rows.Put(key, v)
		}, "checksum"},
		{"a value of another row", func(rows, _ *bolt.Bucket) error {
			return rows.Put(key, seal(nil, appendChange(nil, &two)))
		}, "is that of"},
		{"a change that is no row", func(rows, _ *bolt.Bucket) error {
			return rows.Put(key, seal(nil, appendChange(nil, &del)))
		}, "no row"},
		{"an empty value", func(rows, _ *bolt.Bucket) error { return rows.Put(key, nil) }, "checksum"},
		{"a missing row", func(rows, _ *bolt.Bucket) error { return rows.Delete(key) }, "rows of"},
		{"an old row", func(rows, _ *bolt.Bucket) error {
			old := OffsetPut("G", "topic1", 1, 0)
			return rows.Put(key, seal(nil, appendChange(nil, &old)))
		}, "old ones"},
		{"no ledger", func(_, metas *bolt.Bucket) error { return metas.Delete(keyLedger) }, "account"},
		{"no meta", func(_, metas *bolt.Bucket) error { return metas.Delete(keyMeta) }, "meta"},
		{"a short meta", func(_, metas *bolt.Bucket) error { return metas.Put(keyMeta, seal(nil, newer[:0])) }, "meta"},
		{"a newer format", func(_, metas *bolt.Bucket) error { return metas.Put(keyMeta, seal(nil, newer)) }, "newer release"},
		{"a newer kind", func(rows, _ *bolt.Bucket) error { return rows.Put(key, seal(nil, []byte{200})) }, "newer release"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path, _ := filled(t, 3)
			edit(t, path, tt.edit)
			_, _, _, err := Open(path, Options{})
			if err == nil || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), path) {
				t.Fatalf("got %v", err)
			}
			var damaged *DamagedError
			if errors.As(err, &damaged) == errors.Is(err, ErrNewer) {
				t.Errorf("got %v", err)
			}
			aside, err := SetAside(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(aside); err != nil {
				t.Error(err)
			}
			_, tables, appliedTo := openDB(t, path)
			equal(t, "a new file", []any{appliedTo, len(tables.Changes())}, []any{int64(0), 0})
		})
	}
}

func TestCommitFailsAndGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	var file *os.File
	db, tables, _, err := Open(path, Options{OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag, perm)
		file = f
		return f, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	applyEach(t, tables, OffsetPut("G", "T", 0, 1), OffsetPut("G", "T", 1, 1))
	commit(t, db)

	// A descriptor that cannot be written to, like a disk that is full.
	fd := int(file.Fd())
	writable, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(writable)
	readOnly, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(readOnly)
	if err := unix.Dup3(readOnly, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	applyEach(t, tables, OffsetPut("G", "T", 0, 2), GroupDelete("none", true))
	for range 2 {
		if err := db.Commit(); err == nil || !strings.Contains(err.Error(), "commit state") {
			t.Fatalf("got %v", err)
		}
		applyEach(t, tables, OffsetPut("G", "T", 1, 3), GroupDelete("G", true), OffsetPut("G", "T", 2, 4))
	}
	if err := unix.Dup3(writable, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	commit(t, db)
	closeDB(t, db)
	_, loaded, _ := openDB(t, path)
	sameState(t, loaded, tables)
}

// TestCommitRunsBesideApply checks that each committed copy is the tables at its applied offset: record n sets all offsets
// to n.
func TestCommitRunsBesideApply(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, tables, _ := openDB(t, path)
	const queues, records = 50, 400
	var applier sync.WaitGroup
	applier.Go(func() {
		var record []byte
		for n := range int64(records) {
			record = record[:0]
			for q := range int32(queues) {
				record = Append(record, OffsetPut("G", "T", q, n+1))
			}
			if err := tables.Apply(record, n+1, n+1); err != nil {
				t.Error(err)
			}
		}
	})
	for last := int64(0); last < records; {
		commit(t, db)
		var snapshot bytes.Buffer
		appliedTo, err := db.Snapshot(&snapshot)
		if err != nil {
			t.Fatal(err)
		}
		last = appliedTo
		copied := filepath.Join(t.TempDir(), "copy.db")
		if _, err := Restore(&snapshot, copied); err != nil {
			t.Fatal(err)
		}
		restored, loaded, at := openDB(t, copied)
		for _, o := range loaded.AllOffsets() {
			if o.Offset != at {
				t.Fatalf("a copy at %d has %+v", at, o)
			}
		}
		equal(t, "counter", loaded.Version(VersionOffsets).Counter, at*queues)
		closeDB(t, restored)
	}
	applier.Wait()
}

func TestClear(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	db, tables, _, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(end int64, changes ...Change) {
		t.Helper()
		if err := tables.Apply(Append(nil, changes...), end, 1); err != nil {
			t.Fatal(err)
		}
	}
	apply(100, TopicPut(&body.TopicConfig{TopicName: "A", Perm: 6}), OffsetPut("G", "A", 0, 7))
	if err := db.Commit(); err != nil {
		t.Fatal(err)
	}
	apply(200, OffsetPut("G", "A", 1, 8), OffsetPut("G", "A", 0, 9)) // not committed
	if err := db.Clear(50); err != nil {
		t.Fatal(err)
	}
	if n := len(tables.Topics()); n != 0 || tables.Applied() != 50 {
		t.Fatal(n, tables.Applied())
	}
	apply(80, OffsetPut("G", "A", 1, 3))
	if err := errors.Join(db.Commit(), db.Close()); err != nil {
		t.Fatal(err)
	}
	db, tables, applied, err := Open(path, Options{})
	if err != nil || applied != 80 {
		t.Fatal(applied, err)
	}
	if _, ok := tables.Offset("G", "A", 0); ok || len(tables.Topics()) != 0 {
		t.Fatal("what was cleared came back")
	}
	if o, ok := tables.Offset("G", "A", 1); !ok || o != 3 {
		t.Fatal(o, ok)
	}
	if err := errors.Join(db.Close(), Remove(path), Remove(path)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
