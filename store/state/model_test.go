package state

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/castor-mq/castor/remoting/body"
)

// model is the state as plain maps from a readable name of the row to a readable value.
type model struct {
	rows     map[string]string
	counters map[Versioned]int64
}

func newModel() *model { return &model{map[string]string{}, map[Versioned]int64{}} }

// counts tells which version a row counts in.
func counts(name string) Versioned {
	switch table, _, _ := strings.Cut(name, "/"); table {
	case "topic":
		return VersionTopics
	case "group", "forbidden":
		return VersionGroups
	case "offset":
		return VersionOffsets
	case "delay":
		return VersionDelayOffsets
	}
	return unversioned
}

func (m *model) put(value any, name ...any) {
	n := join(name)
	m.rows[n] = fmt.Sprint(value)
	m.counters[counts(n)]++
}

func (m *model) remove(match func(parts []string) bool) {
	for name := range m.rows {
		if match(strings.Split(name, "/")) {
			delete(m.rows, name)
			m.counters[counts(name)]++
		}
	}
}

func (m *model) removeRow(name ...any) {
	want := join(name)
	m.remove(func(parts []string) bool { return strings.Join(parts, "/") == want })
}

func join(parts []any) string {
	var s []string
	for _, p := range parts {
		s = append(s, fmt.Sprint(p))
	}
	return strings.Join(s, "/")
}

func in(s string, list ...string) bool { return slices.Contains(list, s) }

func (m *model) apply(c Change) {
	switch c.Kind {
	case KindTopicPut:
		m.put(c.TopicConfig.ReadQueueNums, "topic", c.Topic)
	case KindTopicDelete:
		m.remove(func(p []string) bool {
			return p[0] == "topic" && p[1] == c.Topic || in(p[0], "offset", "reset", "lock") && p[2] == c.Topic ||
				p[0] == "mode" && p[1] == c.Topic
		})
	case KindGroupPut:
		m.put(c.GroupConfig.RetryMaxTimes, "group", c.Group)
	case KindGroupDelete:
		m.remove(func(p []string) bool {
			return p[1] == c.Group && (in(p[0], "group", "forbidden") || c.CleanOffsets && in(p[0], "offset", "reset", "lock"))
		})
	case KindOffsetPut:
		m.put(c.Offset, "offset", c.Group, c.Topic, c.QueueID)
	case KindResetPut:
		m.put(c.Offset, "reset", c.Group, c.Topic, c.QueueID)
	case KindResetTake:
		m.removeRow("reset", c.Group, c.Topic, c.QueueID)
	case KindLockPut:
		m.put(fmt.Sprint(c.ClientID, c.TimeMs), "lock", c.Group, c.Topic, c.QueueID)
	case KindLockDelete:
		m.removeRow("lock", c.Group, c.Topic, c.QueueID)
	case KindDelayOffsetPut:
		m.put(c.Offset, "delay", c.QueueID)
	case KindRequestModePut:
		m.put(c.RequestMode.PopShareQueueNum, "mode", c.Topic, c.Group)
	case KindForbiddenPut:
		if c.Bits == 0 {
			m.removeRow("forbidden", c.Group, c.Topic)
		} else {
			m.put(c.Bits, "forbidden", c.Group, c.Topic)
		}
	}
}

// check compares with the lookups and listings of tables.
func (m *model) check(t *rapid.T, tables *Tables) {
	got := map[string]string{}
	for _, c := range tables.Topics() {
		got[join([]any{"topic", c.TopicName})] = fmt.Sprint(c.ReadQueueNums)
	}
	for _, c := range tables.Groups() {
		got[join([]any{"group", c.GroupName})] = fmt.Sprint(c.RetryMaxTimes)
	}
	for _, o := range tables.AllOffsets() {
		got[join([]any{"offset", o.Group, o.Topic, o.QueueID})] = fmt.Sprint(o.Offset)
		if v, ok := tables.Offset(o.Group, o.Topic, o.QueueID); !ok || v != o.Offset {
			t.Fatalf("Offset(%+v) is %d, %v", o, v, ok)
		}
	}
	for _, o := range tables.Resets() {
		got[join([]any{"reset", o.Group, o.Topic, o.QueueID})] = fmt.Sprint(o.Offset)
	}
	for _, l := range tables.Locks() {
		got[join([]any{"lock", l.Group, l.Topic, l.QueueID})] = fmt.Sprint(l.ClientID, l.ExpiresMs)
	}
	for level, offset := range tables.DelayOffsets() {
		got[join([]any{"delay", level})] = fmt.Sprint(offset)
	}
	for _, r := range tables.RequestModes() {
		got[join([]any{"mode", r.Topic, r.ConsumerGroup})] = fmt.Sprint(r.PopShareQueueNum)
	}
	for _, f := range tables.AllForbidden() {
		got[join([]any{"forbidden", f.Group, f.Topic})] = fmt.Sprint(f.Bits)
	}
	for name, value := range m.rows {
		if got[name] != value {
			t.Fatalf("%s is %q, want %q", name, got[name], value)
		}
	}
	if len(got) != len(m.rows) {
		t.Fatalf("%d rows, want %d: %v, want %v", len(got), len(m.rows), got, m.rows)
	}
	for v := VersionTopics; v < versionedEnd; v++ {
		if c := tables.Version(v).Counter; c != m.counters[v] {
			t.Fatalf("counter of %d is %d, want %d", v, c, m.counters[v])
		}
	}
}

var modelNames = []string{"a", "b", "c"}

var drawChange = rapid.Custom(func(t *rapid.T) Change {
	var (
		group = rapid.SampledFrom(modelNames).Draw(t, "group")
		topic = rapid.SampledFrom(modelNames).Draw(t, "topic")
		queue = rapid.Int32Range(0, 2).Draw(t, "queue")
		n     = rapid.Int64Range(0, 200).Draw(t, "n")
		flag  = rapid.Bool().Draw(t, "flag")
	)
	switch rapid.IntRange(0, 14).Draw(t, "kind") {
	case 0:
		return TopicPut(&body.TopicConfig{TopicName: topic, ReadQueueNums: int32(n)})
	case 1:
		return TopicDelete(topic)
	case 2:
		return GroupPut(&body.SubscriptionGroupConfig{GroupName: group, RetryMaxTimes: int32(n)})
	case 3:
		return GroupDelete(group, flag)
	case 4:
		return ResetPut(group, topic, queue, n)
	case 5:
		return ResetTake(group, topic, queue)
	case 6:
		return LockPut(group, topic, queue, group, n)
	case 7:
		return LockDelete(group, topic, queue)
	case 8:
		return DelayOffsetPut(queue, n)
	case 9:
		return RequestModePut(&body.SetMessageRequestModeRequestBody{Topic: topic, ConsumerGroup: group, PopShareQueueNum: int32(n)})
	case 10:
		return ForbiddenPut(group, topic, int32(n%3))
	}
	return OffsetPut(group, topic, queue, n)
})

// record is one record of the log that the test keeps.
type record struct {
	body []byte
	end  int64
}

// TestModel applies random records to tables and to the model, and commits, crashes and moves the state to another place
// in between. After a crash the log is replayed from the applied offset.
func TestModel(t *testing.T) {
	base := t.TempDir()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		path := filepath.Join(base, fmt.Sprint(run, ".db"))
		db, tables, _, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { db.Close() }()
		var log []record
		m := newModel()
		end := int64(0)
		reopen := func() {
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			var from int64
			if db, tables, from, err = Open(path, Options{}); err != nil {
				t.Fatal(err)
			}
			for _, r := range log {
				if r.end <= from && rapid.Bool().Draw(t, "replay more than needed") {
					continue
				}
				if err := tables.Apply(r.body, r.end, r.end); err != nil {
					t.Fatal(err)
				}
			}
			tables.Advance(end)
			m.check(t, tables)
		}
		apply := func(t *rapid.T) {
			changes := rapid.SliceOfN(drawChange, 1, 5).Draw(t, "changes")
			end += rapid.Int64Range(1, 1000).Draw(t, "size")
			r := record{Append(nil, changes...), end}
			log = append(log, r)
			if err := tables.Apply(r.body, r.end, r.end); err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				m.apply(c)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"apply":  apply,
			"apply2": apply,
			"apply3": apply,
			"advance": func(t *rapid.T) {
				end += rapid.Int64Range(1, 1000).Draw(t, "size")
				tables.Advance(end)
			},
			"commit": func(t *rapid.T) {
				if err := db.Commit(); err != nil {
					t.Fatal(err)
				}
			},
			"crash": func(t *rapid.T) { reopen() },
			"move": func(t *rapid.T) {
				var snapshot bytes.Buffer
				if _, err := db.Snapshot(&snapshot); err != nil {
					t.Fatal(err)
				}
				path += "x"
				if _, err := Restore(&snapshot, path); err != nil {
					t.Fatal(err)
				}
				reopen()
			},
			"check": func(t *rapid.T) { m.check(t, tables) },
		})
	})
}
