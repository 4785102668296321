package state

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/castor-mq/castor/internal/vfs"
)

const (
	filePerm = 0o644
	// lockTimeout is how long Open waits for another process to let go of the file.
	lockTimeout = time.Second
)

var (
	bucketRows = []byte("rows") // see appendStateKey → sealed change
	bucketMeta = []byte("meta")
	keyMeta    = []byte("meta")   // → sealed meta
	keyLedger  = []byte("ledger") // → sealed ledger
)

// ErrInUse is wrapped by Open's error when another process has the file open.
var ErrInUse = errors.New("in use by another process")

// DamagedError says that state.db cannot be trusted. The state is not lost: it can be built again from a log that starts at
// 0, or fetched from another replica; SetAside makes room for that.
type DamagedError struct {
	Path string
	What string
	Err  error // may be nil
}

func (e *DamagedError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("state file %s is damaged: %s", e.Path, e.What)
	}
	return fmt.Sprintf("state file %s is damaged: %s: %v", e.Path, e.What, e.Err)
}

// Unwrap returns the cause.
func (e *DamagedError) Unwrap() error { return e.Err }

// Options are rarely needed. The zero value is ready.
type Options struct {
	// OpenFile replaces os.OpenFile.
	OpenFile func(name string, flag int, perm os.FileMode) (*os.File, error)
	// BeforeCommit is called with the applied offset that is about to be written; an error keeps it from being written. The
	// store makes the log durable up to there, so that the copy is never ahead of it. It may be nil.
	BeforeCommit func(applied int64) error
}

// DB is the copy of the tables on disk.
type DB struct {
	tables *Tables
	bolt   *bolt.DB
	before func(applied int64) error

	mu      sync.Mutex
	pending *dirty // cut from the tables and not yet written
	spare   *dirty // for the next cut
}

// Open opens the state file at path, or makes one, and loads the tables. applied is the log offset from which records have
// to be applied again; 0 for a new file. The caller checks that the log reaches that far: a copy that is ahead of its log
// belongs to another one.
//
// Errors wrap *DamagedError, ErrInUse, ErrNewer or what the system reported.
func Open(path string, o Options) (db *DB, tables *Tables, applied int64, err error) {
	file, err := openBolt(path, o)
	if err != nil {
		return nil, nil, 0, err
	}
	tables = NewTables()
	db = &DB{tables: tables, bolt: file, before: o.BeforeCommit, spare: newDirty()}
	err = db.load(path)
	if err == nil {
		// Where the log no longer starts at 0, a file that vanishes with a power loss would be the loss of the state.
		err = vfs.OS{}.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return nil, nil, 0, errors.Join(err, file.Close())
	}
	return db, tables, tables.Applied(), nil
}

// openBolt opens the file itself. bbolt panics where it meets a page of the wrong kind.
func openBolt(path string, o Options) (db *bolt.DB, err error) {
	open := o.OpenFile
	if open == nil {
		open = os.OpenFile
	}
	var file *os.File
	defer guard(path, func(damaged error) {
		err = damaged
		if file != nil {
			file.Close() // frees the lock
		}
	})()
	db, err = bolt.Open(path, filePerm, &bolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			f, err := open(name, flag, perm)
			file = f
			return f, err
		},
	})
	switch {
	case err == nil:
		return db, nil
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open state file %s: %w", path, ErrInUse)
	case isSystemError(err):
		return nil, fmt.Errorf("open state file: %w", err)
	default:
		return nil, &DamagedError{path, "it is no usable bbolt file", err}
	}
}

// isSystemError tells errors of the operating system from bbolt's about what it read.
func isSystemError(err error) bool {
	var pathError *fs.PathError
	var errno syscall.Errno
	return errors.As(err, &pathError) || errors.As(err, &errno)
}

// guard turns a panic and a fault in mapped memory of the calling goroutine into an error for report. It is used as
// defer guard(...)().
func guard(path string, report func(error)) func() {
	old := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(old)
		if p := recover(); p != nil {
			report(&DamagedError{path, fmt.Sprint(p), nil})
		}
	}
}

// load fills the tables.
func (db *DB) load(path string) (err error) {
	defer guard(path, func(damaged error) { err = damaged })()
	err = db.bolt.View(func(tx *bolt.Tx) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() < tx.Size() {
			return &DamagedError{path, fmt.Sprintf("it has %d bytes of %d", info.Size(), tx.Size()), nil}
		}
		if err := readMeta(tx, path, &db.tables.meta); err != nil {
			return err
		}
		return eachRow(tx, path, func(c *Change, _ []byte) error {
			db.tables.set(c)
			return nil
		})
	})
	if err == nil {
		return nil
	}
	return fmt.Errorf("load state: %w", err)
}

// readMeta reads the meta; it leaves m alone in a new file.
func readMeta(tx *bolt.Tx, path string, m *meta) error {
	bucket := tx.Bucket(bucketMeta)
	if bucket == nil {
		if tx.Bucket(bucketRows) != nil {
			return &DamagedError{path, "there are rows without a meta", nil}
		}
		return nil
	}
	data, err := unseal(bucket.Get(keyMeta))
	if err == nil {
		err = m.decode(data)
	}
	if errors.Is(err, ErrNewer) {
		return fmt.Errorf("state file %s: %w", path, err)
	}
	if err != nil {
		return &DamagedError{path, "meta", err}
	}
	return nil
}

// Commit writes what changed since the last commit, together with the applied offset it belongs to, in one transaction,
// and makes it durable. Apply waits only while the dirty sets are swapped. After an error, which may pass (no space), the
// next Commit writes what this one did not.
func (db *DB) Commit() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.pending != nil {
		if err := db.writePending(); err != nil {
			return err
		}
	}
	if db.pending = db.tables.cut(db.spare); db.pending == nil {
		return nil
	}
	db.spare = nil
	return db.writePending()
}

// writePending writes the pending set and makes it the spare one. The caller holds mu.
func (db *DB) writePending() error {
	if db.before != nil {
		if err := db.before(db.pending.meta.applied); err != nil {
			return fmt.Errorf("commit state: %w", err)
		}
	}
	if err := db.bolt.Update(db.pending.write); err != nil {
		return fmt.Errorf("commit state: %w", err)
	}
	db.pending.reset()
	db.pending, db.spare = nil, db.pending
	return nil
}

// write puts the set into state.db, in the order of the keys: bbolt splits a page only when the transaction ends, and until then
// each row that is not put behind the last one moves those behind it.
func (d *dirty) write(tx *bolt.Tx) error {
	w, err := newRowWriter(tx)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(d.rows)) {
		if err := w.write([]byte(k), d.rows[k]); err != nil {
			return err
		}
	}
	places := make(map[string]int, len(d.offsets))
	for i, o := range d.offsets {
		if !o.removed {
			places[string(appendStateKey(nil, KindOffsetPut, o.key))] = i
		}
	}
	var encoded []byte
	for _, k := range slices.Sorted(maps.Keys(places)) {
		o := &d.offsets[places[k]]
		c := OffsetPut(o.key.first, o.key.second, o.key.queueID, o.value)
		encoded = appendChange(encoded[:0], &c)
		if err := w.write([]byte(k), encoded); err != nil {
			return err
		}
	}
	return w.finish(&d.meta)
}

// Clear drops the whole state, in memory and in state.db: nothing was applied to what is left, and records are applied to it from the
// log offset applied on. Nobody may call Apply meanwhile.
func (db *DB) Clear(applied int64) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	m := meta{applied: applied}
	err := db.bolt.Update(func(tx *bolt.Tx) error {
		if err := deleteRows(tx); err != nil {
			return err
		}
		w, err := newRowWriter(tx)
		if err != nil {
			return err
		}
		return w.finish(&m)
	})
	if err != nil {
		return fmt.Errorf("clear state: %w", err)
	}
	db.pending, db.spare = nil, newDirty()
	db.tables.become(db.tables.sibling(), m)
	return nil
}

func deleteRows(tx *bolt.Tx) error {
	for _, bucket := range [][]byte{bucketRows, bucketMeta} {
		if err := tx.DeleteBucket(bucket); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
	}
	return nil
}

// Remove deletes a state file that is not open, for good.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove state file: %w", err)
	}
	return vfs.OS{}.SyncDir(filepath.Dir(path))
}

// Close closes the file without a commit: what is not committed comes from the log again.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.bolt.Close()
}

// SetAside renames a damaged state file so that a new one can be made, and returns its new name. The file is evidence: it
// replaces an older one of that name, but is never deleted.
func SetAside(path string) (string, error) {
	aside := path + ".damaged"
	if err := os.Rename(path, aside); err != nil {
		return "", fmt.Errorf("set state file aside: %w", err)
	}
	return aside, vfs.OS{}.SyncDir(filepath.Dir(path))
}
