package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// Inspection is what Inspect found in a store that no broker has open.
type Inspection struct {
	Segments   int
	LogMin     int64
	LogEnd     int64
	Records    int64
	Queues     int
	Topics     int
	Groups     int
	Clean      bool  // the broker was stopped in order
	RecoverFor int64 // bytes that the next start has to read
	Problems   []string
}

// maxProblems bounds a report; a damaged store has one cause more often than a thousand.
const maxProblems = 50

func (i *Inspection) problem(format string, args ...any) {
	if len(i.Problems) < maxProblems {
		i.Problems = append(i.Problems, fmt.Sprintf(format, args...))
	}
}

// Inspect reads a whole store and compares its parts: every record against its checksums and offset, every record's unit in its
// queue, the checkpoint and the state against the log. It changes nothing. progress may be nil.
func Inspect(cfg Config, fsys vfs.FS, progress func(offset, end int64)) (*Inspection, error) {
	s := &Store{cfg: cfg, fs: fsys}
	if _, err := fsys.Stat(cfg.CommitLogDir); err != nil {
		return nil, fmt.Errorf("no store: %w", err)
	}
	unlock, err := fsys.Lock(s.Dir("lock"))
	if err != nil {
		return nil, fmt.Errorf("the store is in use; ask the running broker instead (castor doctor -b host:port): %w", err)
	}
	defer unlock.Close() //nolint:errcheck // nothing was changed under it
	log, err := commitlog.Open(commitlog.Config{Dir: cfg.CommitLogDir, SegmentSize: cfg.SegmentSize}, fsys, clock.Real{}, zap.NewNop())
	if err != nil {
		return nil, err
	}
	queues, err := queue.Open(queue.Config{Dir: s.Dir("consumequeue"), FileSize: cfg.QueueFile}, fsys, zap.NewNop())
	if err != nil {
		return nil, err
	}
	in := &Inspection{Segments: len(log.Segments()), LogMin: log.Min(), Queues: len(queues.All())}
	cp, cperr := readCheckpoint(fsys, s.Dir(checkpointFile))
	in.readLog(log, queues, cp, progress)
	switch {
	case errors.Is(cperr, errNoCheckpoint):
		in.problem("there is no %s: the store was written by a Java broker, or is new; the next start reads the whole log", checkpointFile)
		in.RecoverFor = in.LogEnd - in.LogMin
	case cperr != nil:
		return nil, cperr
	default:
		in.Clean = cp.clean
		in.RecoverFor = max(0, in.LogEnd-cp.soft)
		if cp.durable > in.LogEnd {
			in.problem("the log ends at %d but had been synced up to %d: the disk has lost data; fetch the log from a replica or a backup", in.LogEnd, cp.durable)
		}
	}
	path := cfg.StateFile
	if path == "" {
		path = s.Dir("state.db")
	}
	return in, in.readState(path, fsys)
}

// readLog walks the log and looks for every record's unit.
func (i *Inspection) readLog(log *commitlog.Log, queues *queue.Set, cp checkpoint, progress func(offset, end int64)) {
	limit := log.End()
	var at int64
	wrong := map[string][]string{} // by topic: what is wrong unless the topic was deleted later
	end, err := log.Scan(log.Min(), limit, func(offset int64, v *message.View) error {
		at = offset
		if err := v.Verify(offset); err != nil {
			return err
		}
		i.Records++
		if progress != nil && i.Records%500_000 == 0 {
			progress(offset, limit)
		}
		if string(v.Topic()) == state.Topic {
			return state.Each(v.Body(), func(c state.Change) error {
				if c.Kind == state.KindTopicDelete || c.Kind == state.KindDeletedBefore {
					delete(wrong, c.Topic)
				}
				return nil
			})
		}
		if offset < cp.soft {
			if text := checkUnit(queues, offset, v); text != "" && len(wrong[string(v.Topic())]) < maxProblems {
				wrong[string(v.Topic())] = append(wrong[string(v.Topic())], text)
			}
		}
		return nil
	})
	i.LogEnd = end
	for _, topic := range slices.Sorted(maps.Keys(wrong)) {
		for _, text := range wrong[topic] {
			i.problem("%s", text)
		}
	}
	if err != nil && !log.ZeroFrom(end) {
		i.problem("the log is not readable from %d on (last record at %d): %v; a torn record at the very end is cut by the next start, anything else must be restored", end, at, err)
	}
}

// checkUnit tells what is wrong with the unit of a record, nothing if it is right or the record need not have one.
func checkUnit(queues *queue.Set, offset int64, v *message.View) string {
	if t := v.SysFlag() & message.FlagTransactionMask; t == message.FlagPrepared || t == message.FlagRollback {
		return ""
	}
	q := queues.Get(string(v.Topic()), v.QueueID())
	if q == nil || v.QueueOffset() < q.Min() {
		return "" // deleted or expired
	}
	u, err := q.At(v.QueueOffset())
	if err == nil && u.Phy == offset {
		return ""
	}
	return fmt.Sprintf("queue %s-%d: offset %d should be the record at %d, but is %+v (%v); stop the broker and delete consumequeue and %s to have the queues rebuilt",
		v.Topic(), v.QueueID(), v.QueueOffset(), offset, u, err, checkpointFile)
}

func (i *Inspection) readState(path string, fsys vfs.FS) error {
	if _, err := fsys.Stat(path); err != nil {
		i.problem("there is no state.db: topics, groups and offsets are built from the log at the next start")
		return nil
	}
	db, tables, applied, err := state.Open(path, state.Options{})
	if err != nil {
		i.problem("%v", err)
		return nil
	}
	i.Topics, i.Groups = len(tables.Topics()), len(tables.Groups())
	if applied > i.LogEnd {
		i.problem("state.db has seen the log up to %d, which ends at %d", applied, i.LogEnd)
	}
	return db.Close()
}

// Export writes the metadata of a store that no broker has open as a Java broker's config/*.json.
func Export(cfg Config, fsys vfs.FS, log *zap.Logger, dir string) error {
	s, err := Open(cfg, fsys, clock.Real{}, log)
	if err != nil {
		return err
	}
	batch := s.batchTopics()
	if err = fsys.MkdirAll(dir); err == nil {
		err = state.ExportJava(s.State, dir, fsys)
	}
	if err = errors.Join(err, s.Close()); err != nil || len(batch) == 0 {
		return err
	}
	return s.leaveToJava(batch)
}

// batchTopics returns the topics whose queues a Java broker keeps in another kind of file (attribute queue.type).
func (s *Store) batchTopics() (names []string) {
	for _, t := range s.State.Topics() {
		if t.Attributes["queue.type"] == "BatchCQ" {
			names = append(names, t.TopicName)
		}
	}
	return names
}

// leaveToJava removes the queues of topics that Java would not take, and the marks of a store that was stopped in order, so that
// whichever broker is started next builds all queues from the log.
func (s *Store) leaveToJava(topics []string) error {
	if err := s.fs.WriteFileAtomic(s.Dir(abortFile), []byte(abortOwn)); err != nil {
		return err
	}
	for _, mark := range []string{checkpointFile, "checkpoint"} {
		if err := s.fs.Remove(s.Dir(mark)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, topic := range topics {
		for _, kind := range []string{"consumequeue", "batchconsumequeue"} {
			if err := s.fs.RemoveAll(s.Dir(kind, topic)); err != nil {
				return err
			}
		}
	}
	return s.fs.SyncDir(s.cfg.Root)
}
