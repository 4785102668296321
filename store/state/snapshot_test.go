package state

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func snapshotOf(t *testing.T, path string) []byte {
	t.Helper()
	db, _, _ := openDB(t, path)
	defer closeDB(t, db)
	var b bytes.Buffer
	if _, err := db.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSnapshotAndRestore(t *testing.T) {
	for _, rows := range []int{0, rowsPerTx, rowsPerTx + 5} {
		path := filepath.Join(t.TempDir(), "state.db")
		db, tables, _ := openDB(t, path)
		var record []byte
		for i := range rows {
			record = Append(record, OffsetPut("G", "T", int32(i), int64(i)))
		}
		if rows > 0 {
			if err := tables.Apply(record, 500, 1); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, db)
		closeDB(t, db)
		restored := filepath.Join(t.TempDir(), "restored.db")
		at, err := Restore(bytes.NewReader(snapshotOf(t, path)), restored)
		if err != nil {
			t.Fatal(err)
		}
		_, loaded, appliedTo := openDB(t, restored)
		equal(t, "applied", []int64{at, appliedTo}, []int64{tables.Applied(), tables.Applied()})
		sameState(t, loaded, tables)
	}
}

func TestRestoreReplacesAndFailsWithoutATrace(t *testing.T) {
	source, want := filled(t, 20)
	good := snapshotOf(t, source)
	path, old := filled(t, 5)
	check := func(name string, r io.Reader) {
		t.Helper()
		if _, err := Restore(r, path); !errors.Is(err, ErrSnapshot) {
			t.Fatalf("%s: got %v", name, err)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: left %v, %v", name, entries, err)
		}
	}
	for _, n := range []int{0, 3, 8, 20, len(good) / 2, len(good) - 1} {
		check("a torn stream", bytes.NewReader(good[:n]))
	}
	for i := 0; i < len(good); i += 1 + len(good)/40 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		check("a flipped bit", bytes.NewReader(bad))
	}
	check("more bytes", bytes.NewReader(append(bytes.Clone(good), 0)))
	check("an endless row", io.MultiReader(bytes.NewReader(good[:len(snapshotMagic)]), strings.NewReader("\xff\xff\xff\xff\xff\xff\x01")))
	db, loaded, _ := openDB(t, path)
	sameState(t, loaded, old)
	closeDB(t, db)

	if _, err := Restore(bytes.NewReader(good), path); err != nil {
		t.Fatal(err)
	}
	_, loaded, _ = openDB(t, path)
	sameState(t, loaded, want)
}

func TestSnapshotReportsAFailingWriter(t *testing.T) {
	path, _ := filled(t, 2000)
	db, _, _ := openDB(t, path)
	r, w := io.Pipe()
	r.CloseWithError(errors.New("peer left"))
	if _, err := db.Snapshot(w); err == nil || !strings.Contains(err.Error(), "peer left") {
		t.Errorf("got %v", err)
	}
	commit(t, db) // the read transaction is over
}

// FuzzRestore checks that no stream makes Restore panic or leave a file that Open refuses.
func FuzzRestore(f *testing.F) {
	dir := f.TempDir()
	db, tables, _ := openDB(f, filepath.Join(dir, "state.db"))
	applyEach(f, tables, everyKind()...)
	applyEach(f, tables, everyKind()[2:5]...)
	commit(f, db)
	var b bytes.Buffer
	if _, err := db.Snapshot(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:40])
	f.Add([]byte(snapshotMagic))
	f.Fuzz(func(t *testing.T, stream []byte) {
		path := filepath.Join(t.TempDir(), "state.db")
		if _, err := Restore(bytes.NewReader(stream), path); err != nil {
			return
		}
		openDB(t, path)
	})
}

// TestInstall replaces what is there, in memory and on disk, and goes on from there.
func TestInstall(t *testing.T) {
	source, want := filled(t, 20)
	good := snapshotOf(t, source)
	path, _ := filled(t, 50)
	db, tables, _ := openDB(t, path)
	for i := 0; i < len(good); i += 1 + len(good)/200 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := CheckSnapshot(bytes.NewReader(bad)); !errors.Is(err, ErrSnapshot) {
			t.Fatal(i, err)
		}
		if _, err := CheckSnapshot(bytes.NewReader(good[:i])); !errors.Is(err, ErrSnapshot) {
			t.Fatal(i, err)
		}
	}
	at, err := CheckSnapshot(bytes.NewReader(good))
	if err != nil || at != want.Applied() {
		t.Fatal(at, err)
	}
	if at, err := db.Install(bytes.NewReader(good)); err != nil || at != want.Applied() {
		t.Fatal(at, err)
	}
	sameState(t, tables, want)
	next := Append(nil, OffsetPut("G", "more", 1, 7))
	for _, tb := range []*Tables{tables, want} {
		if err := tb.Apply(next, at, 1); err != nil { // seen already
			t.Fatal(err)
		}
		if err := tb.Apply(next, at+100, 1); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, db)
	closeDB(t, db)
	db, tables, _ = openDB(t, path)
	sameState(t, tables, want)
	closeDB(t, db)
}
