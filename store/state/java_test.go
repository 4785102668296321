package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/vfs"
)

const javaDir = "/config"

// javaStore copies a golden config directory into a file system in memory. The files of Apache RocketMQ 5.5.0 brokers are
// in testdata/java.
func javaStore(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	dir := filepath.Join("testdata", "java", name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return javaFilesIn(t, files)
}

func javaFilesIn(t *testing.T, files map[string]string) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem(clock.NewManual(time.Unix(1795967000, 0)))
	if err := fsys.MkdirAll(javaDir); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		write(t, fsys, name, text)
	}
	return fsys
}

func write(t *testing.T, fsys vfs.FS, name, text string) {
	t.Helper()
	if err := fsys.WriteFileAtomic(filepath.Join(javaDir, name), []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	data, err := fsys.ReadFile(filepath.Join(javaDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mustImport(t *testing.T, fsys vfs.FS) ([]Change, map[string]ImportedFile) {
	t.Helper()
	changes, report, err := ImportJava(javaDir, fsys)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]ImportedFile{}
	for _, f := range report.Files {
		files[f.Name] = f
	}
	return changes, files
}

// projected applies the changes as one record, as the store does.
func projected(t *testing.T, changes []Change) *Tables {
	t.Helper()
	tables := NewTables()
	if err := tables.Apply(Append(nil, changes...), 1, 1795967000000); err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestJavaRoundTrip(t *testing.T) {
	for _, name := range []string{"store-v5", "store-crashed", "store-lmq-ext"} {
		t.Run(name, func(t *testing.T) {
			changes, _ := mustImport(t, javaStore(t, name))
			tables := projected(t, changes)
			equal(t, "tables after the import", tables.Changes(), changes)

			out := javaFilesIn(t, nil)
			if err := ExportJava(tables, javaDir, out); err != nil {
				t.Fatal(err)
			}
			again, _ := mustImport(t, out)
			equal(t, "import of the export", again, changes)
		})
	}
}

// TestExportHasWhatJavaWrote compares each exported file with the golden one as a document: nothing that Java wrote may be
// missing or different but versions and what is not part of the state.
func TestExportHasWhatJavaWrote(t *testing.T) {
	for _, name := range []string{"store-v5", "store-crashed", "store-lmq-ext"} {
		in := javaStore(t, name)
		changes, _ := mustImport(t, in)
		out := javaFilesIn(t, nil)
		if err := ExportJava(projected(t, changes), javaDir, out); err != nil {
			t.Fatal(err)
		}
		entries, err := in.ReadDir(javaDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			document := func(text string) map[string]any {
				var v map[string]any
				if err := fastjson.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				delete(v, "dataVersion")
				delete(v, "pullOffsetTable")
				delete(v, "groupTopicMap") // derived; Java leaves out groups with an @
				return v
			}
			equal(t, name+" "+e.Name(), document(read(t, out, e.Name())), document(read(t, in, e.Name())))
		}
	}
}

func TestImportOfAJavaStore(t *testing.T) {
	changes, files := mustImport(t, javaStore(t, "store-v5"))
	tables := projected(t, changes)
	topic, _ := tables.Topic("TopicFifo")
	if topic.WriteQueueNums != 2 || topic.Attributes["message.type"] != "FIFO" {
		t.Errorf("topic %+v", topic)
	}
	offset, ok := tables.Offset("CG-broadcast@broadcast", "TopicTest", 1)
	equal(t, "offset of a group with an @", []any{offset, ok}, []any{int64(7), true})
	delay, _ := tables.DelayOffset(3)
	equal(t, "delay offset", delay, int64(2))
	f, _ := tables.Filter("TopicSql", "CG-sql")
	if !f.Dead() || f.BornTime != 1795967220201 || f.BloomFilterData.BitNum != 112 {
		t.Errorf("filter %+v", f)
	}
	mode, _ := tables.RequestMode("TopicPop", "CG-poppush")
	equal(t, "request mode", mode.PopShareQueueNum, int32(2))
	equal(t, "file", files["delayOffset.json"], ImportedFile{Name: "delayOffset.json", From: javaDir + "/delayOffset.json", Rows: 4})
	equal(t, "missing file", files[lmqOffsets], ImportedFile{Name: lmqOffsets})

	changes, _ = mustImport(t, javaStore(t, "store-lmq-ext"))
	offset, ok = projected(t, changes).Offset("CG-lite", "%LMQ%a", 0)
	equal(t, "offset of a light queue", []any{offset, ok}, []any{int64(2), true})
}

const (
	oneDelay = `{"offsetTable":{1:4}}`
	twoDelay = `{"offsetTable":{"1":5}}`
)

func TestImportFallsBackToTheBackup(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		want    int64
		from    string
		notes   int
		failure string
	}{
		{"primary", map[string]string{"delayOffset.json": oneDelay, "delayOffset.json.bak": twoDelay}, 4, "delayOffset.json", 0, ""},
		{"no primary", map[string]string{"delayOffset.json.bak": twoDelay}, 5, "delayOffset.json.bak", 0, ""},
		{"empty primary", map[string]string{"delayOffset.json": "", "delayOffset.json.bak": twoDelay}, 5, "delayOffset.json.bak", 0, ""},
		{"torn primary", map[string]string{"delayOffset.json": `{"offsetTa`, "delayOffset.json.bak": twoDelay}, 5, "delayOffset.json.bak", 1, ""},
		{"nothing", nil, 0, "", 0, ""},
		{"created and never written", map[string]string{"delayOffset.json": ""}, 0, "", 0, ""},
		{"torn primary, no backup", map[string]string{"delayOffset.json": `{"offsetTa`}, 0, "", 0, "delayOffset.json:"},
		{"torn primary, torn backup", map[string]string{"delayOffset.json": `[`, "delayOffset.json.bak": `{`}, 0, "", 0, "delayOffset.json:"},
		{"no primary, torn backup", map[string]string{"delayOffset.json.bak": `{`}, 0, "", 0, "delayOffset.json.bak:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fsys := javaFilesIn(t, tt.files)
			changes, report, err := ImportJava(javaDir, fsys)
			for name, text := range tt.files {
				equal(t, name+" after the import", read(t, fsys, name), text)
			}
			if tt.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tt.failure) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, _ := projected(t, changes).DelayOffset(1)
			equal(t, "offset", got, tt.want)
			for _, f := range report.Files {
				if f.Name == "delayOffset.json" {
					equal(t, "from", strings.TrimPrefix(f.From, javaDir+"/"), tt.from)
					equal(t, "notes", len(f.Notes), tt.notes)
				}
			}
		})
	}
}

func TestImportDoesNotTakeABackupForAnUnreadableDisk(t *testing.T) {
	fsys := javaFilesIn(t, map[string]string{"delayOffset.json": oneDelay, "delayOffset.json.bak": twoDelay})
	broken := errors.New("input/output error")
	fsys.Inject(func(_ vfs.Op, path string, _, _ int64) error {
		if strings.HasSuffix(path, "delayOffset.json") {
			return broken
		}
		return nil
	})
	if _, _, err := ImportJava(javaDir, fsys); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestImportRefusesConfigurationInRocksDB(t *testing.T) {
	for _, dir := range []string{"topics", "rdb"} {
		fsys := javaFilesIn(t, map[string]string{"delayOffset.json": oneDelay})
		if err := fsys.MkdirAll(filepath.Join(javaDir, dir)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ImportJava(javaDir, fsys); err == nil || !strings.Contains(err.Error(), "RocksDB") {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

func TestImportMergesBothOffsetFiles(t *testing.T) {
	plain := `{"offsetTable":{"T@G":{0:1,1:1},"U@G":{0:7}}}`
	lmq := `{"lmqOffsetTable":{"%LMQ%x@G":9},"offsetTable":{"T@G":{0:2},"nameless":{0:1}}}`
	for _, lmqIsNewer := range []bool{true, false} {
		clk := clock.NewManual(time.Unix(1795967000, 0))
		fsys := vfs.NewMem(clk)
		if err := fsys.MkdirAll(javaDir); err != nil {
			t.Fatal(err)
		}
		files := [][2]string{{"consumerOffset.json", plain}, {lmqOffsets, lmq}}
		if !lmqIsNewer {
			files[0], files[1] = files[1], files[0]
		}
		for _, f := range files {
			write(t, fsys, f[0], f[1])
			clk.Advance(time.Second)
		}
		changes, report := mustImport(t, fsys)
		newest := map[bool]int64{true: 2, false: 1}[lmqIsNewer]
		want := []Change{
			OffsetPut("G", "%LMQ%x", 0, 9), OffsetPut("G", "T", 0, newest), OffsetPut("G", "T", 1, 1), OffsetPut("G", "U", 0, 7),
		}
		equal(t, fmt.Sprint("lmq is newer: ", lmqIsNewer), changes, want)
		equal(t, "notes", report[lmqOffsets].Notes, []string{`an offset of "nameless": no topic@group`})
	}
}

func TestExportLeavesInternalTopicsOut(t *testing.T) {
	tables := applied(t, TopicPut(topicConfig(Topic, 1)), OffsetPut("G", InternalPrefix+"pop", 0, 1), TopicPut(topicConfig("T", 1)),
		OffsetPut("G", "T", 0, 1), ForbiddenPut("G", "T", 2))
	fsys := javaFilesIn(t, nil)
	if err := ExportJava(tables, javaDir, fsys); err != nil {
		t.Fatal(err)
	}
	for _, f := range javaFiles {
		if text := read(t, fsys, f.name); strings.Contains(text, InternalPrefix) {
			t.Errorf("%s: %s", f.name, text)
		}
	}
	changes, _ := mustImport(t, fsys)
	equal(t, "import", changes, []Change{TopicPut(topicConfig("T", 1)), OffsetPut("G", "T", 0, 1), ForbiddenPut("G", "T", 2)})

	// What an earlier release or a Java broker on the same directory left behind is not taken either.
	write(t, fsys, "topics.json", `{"topicConfigTable":{"rmq_sys_castor_x":{"topicName":"rmq_sys_castor_x"}}}`)
	write(t, fsys, "consumerOffset.json", `{"offsetTable":{"rmq_sys_castor_x@G":{0:1}}}`)
	changes, _ = mustImport(t, fsys)
	equal(t, "import", changes, []Change{OffsetPut("G", "T", 0, 1), ForbiddenPut("G", "T", 2)})
}

func TestExportForm(t *testing.T) {
	fsys := javaFilesIn(t, map[string]string{"delayOffset.json": oneDelay, "topics.json": ""})
	tables := applied(t, DelayOffsetPut(2, 1), DelayOffsetPut(2, 3))
	tables.meta.versions[VersionDelayOffsets].StateVersion = 4
	if err := ExportJava(tables, javaDir, fsys); err != nil {
		t.Fatal(err)
	}
	want := "{\n\t\"dataVersion\":{\n\t\t\"counter\":2,\n\t\t\"stateVersion\":4,\n\t\t\"timestamp\":200\n\t},\n" +
		"\t\"offsetTable\":{\n\t\t\"2\":3\n\t}\n}"
	equal(t, "text", read(t, fsys, "delayOffset.json"), want)
	equal(t, "backup", read(t, fsys, "delayOffset.json.bak"), oneDelay)
	if _, err := fsys.Stat(javaDir + "/topics.json.bak"); err == nil {
		t.Error("an empty file became a backup")
	}
}

func TestExportReportsErrors(t *testing.T) {
	broken := errors.New("no space")
	fsys := javaFilesIn(t, nil)
	fsys.Inject(func(_ vfs.Op, path string, _, _ int64) error {
		if strings.Contains(path, "subscriptionGroup") {
			return broken
		}
		return nil
	})
	if err := ExportJava(NewTables(), javaDir, fsys); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func FuzzImportJava(f *testing.F) {
	for _, text := range []string{oneDelay, `{"topicConfigTable":{"T":null,"U":{}}}`, `{"offsetTable":{"T@G":{0:1}}}`,
		`{"messageRequestModeMap":{"T":{"G":{}}}}`, `{"filterDataByTopic":{"T":{"groupFilterData":{"G":null}}}}`,
		`{"subscriptionGroupTable":{"G":{}},"forbiddenTable":{"G":{"T":2}}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{}
		for _, file := range javaFiles {
			files[file.name] = text
		}
		changes, _, err := ImportJava(javaDir, javaFilesIn(t, files))
		if err != nil {
			return
		}
		projected(t, changes)
	})
}
