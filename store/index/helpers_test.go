package index

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const startMs = 1_700_000_000_000

func newClock() *clock.Manual { return clock.NewManual(time.UnixMilli(startMs)) }

// tb is what a *testing.T and a *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t tb, cfg Config, fsys vfs.FS) *Index {
	t.Helper()
	x, err := Open(cfg, fsys, newClock(), zap.NewNop())
	must(t, err)
	return x
}

// ask returns what a query finds.
func ask(t tb, x *Index, topic, key string, limit int, begin, end int64) []int64 {
	t.Helper()
	var found []int64
	must(t, x.Query(topic, key, limit, begin, end, func(phy int64) bool {
		found = append(found, phy)
		return true
	}))
	return found
}

// record is a message of a Java store, a line of records.jsonl.
type record struct {
	Topic, Uniq, Keys, Tags string
	Phy, Time               int64
}

// put indexes a record as Java 5.5 does: the unique key, each key, and the tag under "T#".
func (r record) put(x *Index) {
	for _, k := range r.indexKeys() {
		x.Put(HashTopic(r.Topic), []byte(k), r.Phy, r.Time)
	}
	x.SetIndexed(r.Phy + 1)
}

func (r record) indexKeys() []string {
	var keys []string
	if r.Uniq != "" {
		keys = append(keys, r.Uniq)
	}
	keys = append(keys, strings.Fields(r.Keys)...)
	if r.Tags != "" {
		keys = append(keys, "T#"+r.Tags)
	}
	return keys
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	packed, err := os.ReadFile(path)
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	data, err := io.ReadAll(z)
	must(t, err)
	return data
}

// javaStore is the index of a Java broker with 1000 slots and 800 entries in a file.
type javaStore struct {
	names   []string
	files   map[string][]byte
	records []record
}

func readJava(t testing.TB, name string) javaStore {
	t.Helper()
	dir := filepath.Join("testdata", name)
	s := javaStore{files: map[string][]byte{}}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if base := strings.TrimSuffix(e.Name(), ".gz"); parseName(base) != 0 {
			s.names = append(s.names, base)
			s.files[base] = unzip(t, filepath.Join(dir, e.Name()))
		}
	}
	lines := json.NewDecoder(bytes.NewReader(unzip(t, filepath.Join(dir, "records.jsonl.gz"))))
	for lines.More() {
		var r record
		must(t, lines.Decode(&r))
		s.records = append(s.records, r)
	}
	if len(s.names) == 0 || len(s.records) == 0 {
		t.Fatal("no data")
	}
	return s
}

func javaConfig(dir string) Config { return Config{Dir: dir, Slots: 1000, Entries: 800} }

// write puts the files into a directory.
func (s javaStore) write(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	must(t, fsys.MkdirAll(dir))
	for name, data := range s.files {
		must(t, fsys.WriteFileAtomic(filepath.Join(dir, name), data))
	}
}

func list(t tb, fsys vfs.FS, dir string) []string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
