package state

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting/body"
)

// The classes behind the files: TopicConfigManager, SubscriptionGroupManager, ConsumerOffsetManager (of which
// LmqConsumerOffsetManager is one with another file), ScheduleMessageService, ConsumerFilterManager and
// MessageRequestModeManager.
const (
	backupSuffix = ".bak"
	// lmqOffsets is used instead of consumerOffset.json by brokers with enableLmq.
	lmqOffsets = "lmqConsumerOffset.json"
)

// javaFile is one file of a Java broker's config directory.
type javaFile struct {
	name   string
	rocks  string // the directory that a broker with its configuration in RocksDB has instead
	read   func(im *importer, data []byte) error
	export func(t *Tables) any
}

var javaFiles = []javaFile{
	{"topics.json", "topics", (*importer).topics, func(t *Tables) any { return t.TopicTable() }},
	{"subscriptionGroup.json", "subscriptionGroups", (*importer).groups, func(t *Tables) any { return t.GroupTable() }},
	{"consumerOffset.json", "consumerOffsets", (*importer).offsets, func(t *Tables) any { return t.OffsetTable() }},
	{lmqOffsets, "", (*importer).offsets, func(t *Tables) any { return &lmqOffsetTable{*t.OffsetTable(), map[string]int64{}} }},
	{"delayOffset.json", "", (*importer).delayOffsets, func(t *Tables) any { return t.DelayOffsetTable() }},
	{"consumerFilter.json", "", (*importer).filters, func(t *Tables) any { return newFilterTable(t.Filters()) }},
	{"messageRequestMode.json", "", (*importer).requestModes, func(t *Tables) any { return t.RequestModeTable() }},
}

// rocksV2 is the directory of a broker with configManagerVersion=V2, for all tables.
const rocksV2 = "rdb"

// lmqOffsetTable is the text of lmqConsumerOffset.json. Java 5.5 keeps all offsets in offsetTable and leaves lmqOffsetTable
// empty; older releases have the offsets of light queues there, whose only queue is 0.
type lmqOffsetTable struct {
	body.ConsumerOffsetSerializeWrapper
	LmqOffsetTable map[string]int64 `json:"lmqOffsetTable"`
}

// filterTable is the text of consumerFilter.json.
type filterTable struct {
	FilterDataByTopic map[string]filtersOfTopic `json:"filterDataByTopic,nonnil"`
}

type filtersOfTopic struct {
	GroupFilterData map[string]javaFilter `json:"groupFilterData,nonnil"`
	Topic           string                `json:"topic"`
}

// javaFilter adds what Java derives, writes and never reads.
type javaFilter struct {
	Filter
	Dead bool `json:"dead"`
}

func newFilterTable(filters []*Filter) *filterTable {
	w := &filterTable{FilterDataByTopic: make(map[string]filtersOfTopic)}
	for _, f := range filters {
		ofTopic, ok := w.FilterDataByTopic[f.Topic]
		if !ok {
			ofTopic = filtersOfTopic{GroupFilterData: make(map[string]javaFilter), Topic: f.Topic}
			w.FilterDataByTopic[f.Topic] = ofTopic
		}
		ofTopic.GroupFilterData[f.ConsumerGroup] = javaFilter{*f, f.Dead()}
	}
	return w
}

// ImportReport tells what ImportJava found.
type ImportReport struct {
	Files []ImportedFile
}

// ImportedFile is one of the files that a Java broker may have.
type ImportedFile struct {
	Name  string   // topics.json, ...
	From  string   // the path that was read; empty when there is none
	Rows  int      // rows in it
	Notes []string // what a person should know: a damaged file for which the backup was taken, entries left out
}

// ImportJava reads the metadata of a Java broker from its config directory and returns it as changes in the order of
// Tables.Changes. Like Java it falls back to a file's .bak; unlike Java it never deletes anything, and it fails when a file is
// damaged and its backup is no help, and when the broker keeps its configuration in RocksDB.
func ImportJava(configDir string, fsys vfs.FS) ([]Change, *ImportReport, error) {
	im := &importer{fsys: fsys, dir: configDir, offsetTable: make(map[key]int64)}
	report := new(ImportReport)
	for i := range javaFiles {
		im.rows, im.notes = 0, nil
		from, err := im.file(&javaFiles[i])
		if err != nil {
			return nil, nil, fmt.Errorf("import of Java's configuration: %w", err)
		}
		report.Files = append(report.Files, ImportedFile{javaFiles[i].name, from, im.rows, im.notes})
	}
	for k, offset := range im.offsetTable {
		im.changes = append(im.changes, OffsetPut(k.first, k.second, k.queueID, offset))
	}
	slices.SortFunc(im.changes, func(a, b Change) int {
		if a.Kind != b.Kind {
			return int(a.Kind) - int(b.Kind)
		}
		return a.rowKey().compare(b.rowKey())
	})
	return im.changes, report, nil
}

// importer collects the changes.
type importer struct {
	fsys        vfs.FS
	dir         string
	changes     []Change
	offsetTable map[key]int64
	offsetsAsOf time.Time // of the offset file read before, if there was one

	// Of the current file:
	rows    int
	notes   []string
	modTime time.Time
}

// file reads one file or its backup and returns the path it read.
func (im *importer) file(f *javaFile) (string, error) {
	path := filepath.Join(im.dir, f.name)
	primary := im.try(f, path)
	if primary == nil {
		return path, nil
	}
	if !isAbsent(primary) && !isDamage(primary) {
		return "", primary
	}
	backup := im.try(f, path+backupSuffix)
	if backup == nil {
		if !isAbsent(primary) {
			im.note("the backup was taken: %v", primary)
		}
		return path + backupSuffix, nil
	}
	for _, err := range []error{primary, backup} {
		if !isAbsent(err) {
			return "", err
		}
	}
	for _, dir := range []string{f.rocks, rocksV2} {
		if dir == "" {
			continue
		}
		if info, err := im.fsys.Stat(filepath.Join(im.dir, dir)); err == nil && info.IsDir() {
			return "", fmt.Errorf("%s is missing and there is %s: the configuration is in RocksDB; export it to JSON with "+
				"Java's mqadmin first", path, filepath.Join(im.dir, dir))
		}
	}
	return "", nil
}

// errEmpty is a file that Java created and had not written when it ended.
var errEmpty = errors.New("empty file")

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errEmpty) }

// isDamage tells a text that cannot be read from a file that cannot: an old backup must not stand in for the latter.
func isDamage(err error) bool {
	var syntax *fastjson.Error
	return errors.As(err, &syntax)
}

// try reads one file. Its rows are taken only if all of it is readable.
func (im *importer) try(f *javaFile, path string) error {
	data, err := im.fsys.ReadFile(path)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fmt.Errorf("%s: %w", path, errEmpty)
	}
	info, err := im.fsys.Stat(path)
	if err != nil {
		return err
	}
	im.modTime = info.ModTime()
	if err := f.read(im, data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (im *importer) note(format string, args ...any) {
	im.notes = append(im.notes, fmt.Sprintf(format, args...))
}

func (im *importer) add(c Change) {
	im.rows++
	im.changes = append(im.changes, c)
}

func (im *importer) topics(data []byte) error {
	var w body.TopicConfigSerializeWrapper
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	for name, config := range w.TopicConfigTable {
		config.TopicName = name
		if !isInternal(name) {
			im.add(TopicPut(&config))
		}
	}
	return nil
}

func (im *importer) groups(data []byte) error {
	var w body.SubscriptionGroupWrapper
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	for name, config := range w.SubscriptionGroupTable {
		config.GroupName = name
		im.add(GroupPut(&config))
	}
	for group, ofGroup := range w.ForbiddenTable {
		for topic, bits := range ofGroup {
			if bits != 0 {
				im.add(ForbiddenPut(group, topic, bits))
			}
		}
	}
	return nil
}

// offsets reads either of the two offset files. Switching enableLmq makes Java begin with the other, older one; where both
// know a queue, the file that was written later is right.
func (im *importer) offsets(data []byte) error {
	var w lmqOffsetTable
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	older := im.modTime.Before(im.offsetsAsOf)
	if !older {
		im.offsetsAsOf = im.modTime
	}
	put := func(name string, queueID int32, offset int64) {
		// A topic has no @ in its name, but a group may: the proxy's broadcasting groups do.
		topic, group, ok := strings.Cut(name, "@")
		if !ok {
			im.note("an offset of %q: no topic@group", name)
			return
		}
		if isInternal(topic) {
			return
		}
		im.rows++
		k := key{group, topic, queueID}
		if _, known := im.offsetTable[k]; !known || !older {
			im.offsetTable[k] = offset
		}
	}
	for name, offset := range w.LmqOffsetTable {
		put(name, 0, offset)
	}
	for name, queues := range w.OffsetTable {
		for queueID, offset := range queues {
			put(name, queueID, offset)
		}
	}
	slices.Sort(im.notes)
	return nil
}

func (im *importer) delayOffsets(data []byte) error {
	var w body.DelayOffsetSerializeWrapper
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	for level, offset := range w.OffsetTable {
		im.add(DelayOffsetPut(level, offset))
	}
	return nil
}

func (im *importer) filters(data []byte) error {
	var w filterTable
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	for topic, ofTopic := range w.FilterDataByTopic {
		for group, f := range ofTopic.GroupFilterData {
			filter := f.Filter
			filter.Topic, filter.ConsumerGroup = topic, group
			im.add(FilterPut(&filter))
		}
	}
	return nil
}

func (im *importer) requestModes(data []byte) error {
	var w body.MessageRequestModeSerializeWrapper
	if err := fastjson.Unmarshal(data, &w); err != nil {
		return err
	}
	for topic, ofTopic := range w.MessageRequestModeMap {
		for group, mode := range ofTopic {
			mode.Topic, mode.ConsumerGroup = topic, group
			im.add(RequestModePut(&mode))
		}
	}
	return nil
}

// ExportJava writes the tables as a Java broker's config files, so that one can go on from here. Each file is replaced
// atomically and its previous content kept as .bak. Offsets are written to both files that Java may look for.
func ExportJava(t *Tables, configDir string, fsys vfs.FS) error {
	if err := fsys.MkdirAll(configDir); err != nil {
		return fmt.Errorf("export as Java's configuration: %w", err)
	}
	for _, f := range javaFiles {
		path := filepath.Join(configDir, f.name)
		if err := replace(fsys, path, fastjson.Encoder{Pretty: true}.Marshal(f.export(t))); err != nil {
			return fmt.Errorf("export as Java's configuration: %w", err)
		}
	}
	return nil
}

// replace writes the new file before the backup, so that one of the two is whole at any time.
func replace(fsys vfs.FS, path string, data []byte) error {
	old, err := fsys.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := fsys.WriteFileAtomic(path, data); err != nil {
		return err
	}
	if len(old) == 0 {
		return nil
	}
	return fsys.WriteFileAtomic(path+backupSuffix, old)
}
