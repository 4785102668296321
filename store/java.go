package store

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/store/state"
)

// javaImport is the metadata of a Java broker whose store is being taken over.
type javaImport struct {
	changes []state.Change
	topics  map[string]bool // the table of topics, if it says which topics in the log are wanted
	dropped map[string]bool // topics that are in the log only
}

// The marks that a broker leaves in its store. Java's holds the process id; at every start it makes the second one, too.
const (
	abortFile   = "abort"
	abortBackup = "abort.bak"
	abortOwn    = "castor"
)

// javaRan tells whether a Java broker was the last to use the store. What it has changed is in config/*.json.
func (s *Store) javaRan() (bool, error) {
	if _, err := s.fs.Stat(s.Dir(abortBackup)); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	b, err := s.fs.ReadFile(s.Dir(abortFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || string(b) == abortOwn {
		return false, err
	}
	// An old broker, which makes no backup. Until its metadata is imported this says that it was there.
	return true, s.fs.Rename(s.Dir(abortFile), s.Dir(abortBackup))
}

// readJava reads config/*.json of a Java broker: at the first start on its store, when it has used a store of ours, and again if
// either was interrupted. It returns nil if there is nothing to import.
func (s *Store) readJava(fresh, importing bool) (*javaImport, error) {
	ran, err := s.javaRan()
	if err != nil {
		return nil, err
	}
	first := importing || fresh && s.State.Applied() == 0
	if !first && !ran {
		return nil, nil
	}
	changes, report, err := state.ImportJava(s.Dir("config"), s.fs)
	if err != nil {
		return nil, fmt.Errorf("the metadata of the Java broker: %w", err)
	}
	im := &javaImport{changes: changes, dropped: map[string]bool{}}
	found := false
	for _, f := range report.Files {
		if f.From == "" {
			continue
		}
		found = true
		if first && f.Name == "topics.json" {
			im.topics = map[string]bool{}
		}
		s.log.Info("metadata of a Java broker", zap.String("file", f.From), zap.Int("rows", f.Rows), zap.Strings("notes", f.Notes))
	}
	if !found {
		return nil, nil
	}
	for i := range changes {
		if im.topics != nil && changes[i].Kind == state.KindTopicPut {
			im.topics[changes[i].Topic] = true
		}
	}
	return im, nil
}

// keeps tells whether the records of a topic get queues. Those of a topic that was deleted are still in a Java broker's log, and
// nothing there says that they are not wanted.
func (im *javaImport) keeps(topic string) bool {
	if im.topics == nil || im.topics[topic] || isJavaSystemTopic(topic) {
		return true
	}
	im.dropped[topic] = true
	return false
}

// isJavaSystemTopic tells topics that a Java broker uses whether they are in its table or not (TopicValidator), and light queues.
func isJavaSystemTopic(topic string) bool {
	return topic == ScheduleTopic || topic == "TRANS_CHECK_MAX_TIME_TOPIC" || topic == "OFFSET_MOVED_EVENT" || topic == "SELF_TEST_TOPIC" ||
		strings.HasPrefix(topic, "RMQ_SYS_") || strings.HasPrefix(topic, "rmq_sys_") || strings.HasPrefix(topic, "%LMQ%")
}

// takeOver appends the metadata as state records, and notes which topics in the log are deleted ones. What a Java broker has deleted
// of a store that was ours stays: it may never have been told of it.
func (s *Store) takeOver(im *javaImport) error {
	end := s.Log.End()
	dropped := make([]string, 0, len(im.dropped))
	for topic := range im.dropped {
		dropped = append(dropped, topic)
		im.changes = append(im.changes, state.DeletedBefore(topic, end))
	}
	slices.Sort(dropped)
	s.dispatcher.java = nil
	clear(s.dispatcher.topics)
	s.dispatcher.last = nil
	limit := int(min(s.cfg.SegmentSize/4, 1<<20))
	var body []byte
	for len(im.changes) > 0 {
		body = state.Append(body[:0], im.changes[0])
		n := 1
		for n < len(im.changes) && len(body) < limit {
			body = state.Append(body, im.changes[n])
			n++
		}
		im.changes = im.changes[n:]
		if err := s.ProposeBody(body, nil); err != nil {
			return fmt.Errorf("import of the Java broker's metadata: %w", err)
		}
	}
	if err := s.Log.Flush(); err != nil {
		return err
	}
	s.Advance()
	if err := s.save(true); err != nil {
		return err
	}
	s.checkpoint.importing = false
	s.log.Info("the metadata of a Java broker was taken over", zap.Strings("topicsOnlyInTheLog", dropped))
	if err := s.writeCheckpoint(s.checkpoint, true); err != nil {
		return err
	}
	if err := s.fs.Remove(s.Dir(abortBackup)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.fs.SyncDir(s.cfg.Root)
}
