package state

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting/body"
)

// applied returns tables with one record a change applied, at end 1, 2, ... and store time 100, 200, ...
func applied(t testing.TB, changes ...Change) *Tables {
	t.Helper()
	tables := NewTables()
	applyEach(t, tables, changes...)
	return tables
}

func applyEach(t testing.TB, tables *Tables, changes ...Change) {
	t.Helper()
	for _, c := range changes {
		end := tables.Applied() + 1
		if err := tables.Apply(Append(nil, c), end, end*100); err != nil {
			t.Fatal(err)
		}
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestLookups(t *testing.T) {
	tables := applied(t,
		TopicPut(topicConfig("T", 8)), GroupPut(groupConfig("G")), OffsetPut("G", "T", 3, 5), ResetPut("G", "T", 1, 77),
		LockPut("G", "T", 2, "me", 99), DelayOffsetPut(18, 5), RequestModePut(requestMode("T", "G")),
		FilterPut(filter("T", "G")), ForbiddenPut("G", "T", 4), DeletedBefore("T", 1<<33))
	topic, ok := tables.Topic("T")
	equal(t, "topic", []any{topic, ok}, []any{topicConfig("T", 8), true})
	group, ok := tables.Group("G")
	equal(t, "group", []any{group, ok}, []any{groupConfig("G"), true})
	offset, ok := tables.Offset("G", "T", 3)
	equal(t, "offset", []any{offset, ok}, []any{int64(5), true})
	_, ok = tables.Offset("G", "T", 4)
	equal(t, "offset of another queue", ok, false)
	reset, ok := tables.Reset("G", "T", 1)
	equal(t, "reset", []any{reset, ok}, []any{int64(77), true})
	equal(t, "resets", tables.Resets(), []QueueOffset{{"G", "T", 1, 77}})
	lock, ok := tables.Lock("G", "T", 2)
	equal(t, "lock", []any{lock, ok}, []any{Lock{"G", "T", 2, "me", 99}, true})
	delay, ok := tables.DelayOffset(18)
	equal(t, "delay offset", []any{delay, ok}, []any{int64(5), true})
	equal(t, "delay offsets", tables.DelayOffsets(), map[int32]int64{18: 5})
	mode, ok := tables.RequestMode("T", "G")
	equal(t, "request mode", []any{mode, ok}, []any{requestMode("T", "G"), true})
	f, ok := tables.Filter("T", "G")
	equal(t, "filter", []any{f, ok}, []any{filter("T", "G"), true})
	equal(t, "filters of the topic", tables.FiltersOfTopic("T"), []*Filter{filter("T", "G")})
	equal(t, "filters of another topic", len(tables.FiltersOfTopic("U"))+len(tables.FiltersOfTopic("")), 0)
	equal(t, "forbidden", []int32{tables.Forbidden("G", "T"), tables.Forbidden("G", "U")}, []int32{4, 0})
	before, ok := tables.DeletedBefore("T")
	equal(t, "deleted before", []any{before, ok}, []any{int64(1 << 33), true})
}

func TestListingsAreSorted(t *testing.T) {
	tables := applied(t,
		TopicPut(topicConfig("b", 1)), TopicPut(topicConfig("a", 1)), TopicPut(topicConfig("c", 1)),
		OffsetPut("h", "b", 1, 1), OffsetPut("g", "b", 1, 2), OffsetPut("g", "b", -1, 3), OffsetPut("g", "a", 10, 4),
		OffsetPut("g", "a", 9, 5))
	var names []string
	for _, c := range tables.Topics() {
		names = append(names, c.TopicName)
	}
	equal(t, "topics", names, []string{"a", "b", "c"})
	ofG := []QueueOffset{{"g", "a", 9, 5}, {"g", "a", 10, 4}, {"g", "b", -1, 3}, {"g", "b", 1, 2}}
	equal(t, "group", tables.OffsetsOfGroup("g"), ofG)
	equal(t, "topic", tables.OffsetsOfTopic("b"), []QueueOffset{{"g", "b", -1, 3}, {"g", "b", 1, 2}, {"h", "b", 1, 1}})
	equal(t, "all", tables.AllOffsets(), append(ofG, QueueOffset{"h", "b", 1, 1}))
	equal(t, "no name", len(tables.OffsetsOfGroup(""))+len(tables.OffsetsOfTopic("")), 0)
}

func TestTopicDeleteTakesAllButFilters(t *testing.T) {
	var changes []Change
	for _, topic := range []string{"T", "other"} {
		changes = append(changes, TopicPut(topicConfig(topic, 8)), OffsetPut("G", topic, 0, 5), OffsetPut("H", topic, 0, 5),
			ResetPut("G", topic, 1, 77), LockPut("G", topic, 2, "me", 99), RequestModePut(requestMode(topic, "G")),
			FilterPut(filter(topic, "G")), DeletedBefore(topic, 3))
	}
	got := applied(t, append(changes, TopicDelete("T"))...)
	want := applied(t, append(changes[8:], FilterPut(filter("T", "G")), DeletedBefore("T", 3))...)
	equal(t, "rows", got.Changes(), want.Changes())
}

func TestGroupDelete(t *testing.T) {
	var changes []Change
	for _, group := range []string{"G", "other"} {
		changes = append(changes, GroupPut(groupConfig(group)), ForbiddenPut(group, "T", 2), OffsetPut(group, "T", 0, 5),
			ResetPut(group, "T", 1, 77), LockPut(group, "T", 2, "me", 99))
	}
	kept := applied(t, append(changes, GroupDelete("G", false))...)
	equal(t, "offsets kept", kept.Changes(), applied(t, changes[2:]...).Changes())
	clean := applied(t, append(changes, GroupDelete("G", true))...)
	equal(t, "offsets cleaned", clean.Changes(), applied(t, changes[5:]...).Changes())
}

func TestDeletesTakeOffsetsAndResets(t *testing.T) {
	changes := []Change{
		OffsetPut("G", "T", 0, 1), OffsetPut("G", "U", 0, 2), OffsetPut("H", "T", 0, 3), ResetPut("G", "T", 0, 4), ResetPut("H", "U", 0, 5),
	}
	tests := []struct {
		change Change
		left   []int
	}{
		{GroupDelete("G", true), []int{2, 4}},
		{TopicDelete("T"), []int{1, 4}},
		{GroupDelete("", true), []int{0, 1, 2, 3, 4}},
		{TopicDelete(""), []int{0, 1, 2, 3, 4}},
		{GroupDelete("none", true), []int{0, 1, 2, 3, 4}},
		{TopicDelete("none"), []int{0, 1, 2, 3, 4}},
	}
	for _, tt := range tests {
		var left []Change
		for _, i := range tt.left {
			left = append(left, changes[i])
		}
		got := applied(t, append(changes, tt.change)...)
		equal(t, fmt.Sprintf("%v %q %q", tt.change.Kind, tt.change.Group, tt.change.Topic), got.Changes(), applied(t, left...).Changes())
	}
}

func TestRowsThatSayNothingGo(t *testing.T) {
	tables := applied(t,
		ForbiddenPut("G", "T", 2), DeletedBefore("T", 9), ResetPut("G", "T", 1, 1), LockPut("G", "T", 1, "me", 1),
		OffsetPut("G", "T", 0, 0))
	equal(t, "rows", len(tables.Changes()), 5)
	applyEach(t, tables, ForbiddenPut("G", "T", 0), DeletedBefore("T", 0), ResetTake("G", "T", 1), LockDelete("G", "T", 1))
	equal(t, "what is left", tables.Changes(), []Change{OffsetPut("G", "T", 0, 0)})
}

func TestFilterDead(t *testing.T) {
	tables := applied(t, FilterPut(filter("T", "G")))
	before, _ := tables.Filter("T", "G")
	applyEach(t, tables, FilterDead("T", "G", 50), FilterDead("T", "unknown", 50))
	after, _ := tables.Filter("T", "G")
	if before.Dead() || !after.Dead() || after.DeadTime != 50 || after.Expression != "a > 1" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	equal(t, "filters", len(tables.Filters()), 1)
}

func TestVersions(t *testing.T) {
	tables := applied(t,
		TopicPut(topicConfig("T", 1)), // at 100
		OffsetPut("G", "T", 0, 1),
		OffsetPut("G", "T", 0, 2), // 300
		DelayOffsetPut(1, 5),      // 400
		ForbiddenPut("G", "T", 2), // 500
		ForbiddenPut("G", "T", 0),
		ForbiddenPut("G", "T", 0), // nothing to remove
		TopicDelete("T"),          // 800
		LockPut("G", "T", 0, "me", 1),
	)
	want := map[Versioned]body.DataVersion{
		VersionTopics:       {Timestamp: 800, Counter: 2},
		VersionGroups:       {Timestamp: 600, Counter: 2},
		VersionOffsets:      {Timestamp: 800, Counter: 3},
		VersionDelayOffsets: {Timestamp: 400, Counter: 1},
	}
	for v, w := range want {
		equal(t, fmt.Sprint("version ", v), tables.Version(v), w)
	}
}

func TestRecordsAreAppliedOnceAndWhole(t *testing.T) {
	tables := NewTables()
	record := Append(nil, OffsetPut("G", "T", 0, 1), OffsetPut("G", "T", 1, 1))
	for range 2 {
		if err := tables.Apply(record, 100, 5); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "version", tables.Version(VersionOffsets), body.DataVersion{Timestamp: 5, Counter: 2})
	err := tables.Apply(append(Append(nil, OffsetPut("G", "T", 0, 9)), 1, 250), 200, 6)
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "ends at 200") {
		t.Errorf("got %v", err)
	}
	if offset, _ := tables.Offset("G", "T", 0); offset != 1 || tables.Applied() != 100 {
		t.Errorf("a refused record was applied: offset %d, applied %d", offset, tables.Applied())
	}
	tables.Advance(150)
	tables.Advance(120)
	equal(t, "applied", tables.Applied(), int64(150))
}

func TestTablesKeepNothingOfTheBody(t *testing.T) {
	record := Append(nil, everyKind()[10:]...)
	record = Append(record, OffsetPut("G", "T", 3, 5), ResetPut("G", "T", 1, 77), LockPut("G", "T", 2, "me", 99))
	tables := NewTables()
	if err := tables.Apply(record, 1, 1); err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprintf("%+v", tables.Changes())
	if strings.Count(before, "Kind:OffsetPut") != 1 {
		t.Fatal(before)
	}
	for i := range record {
		record[i] = 'x'
	}
	equal(t, "rows", fmt.Sprintf("%+v", tables.Changes()), before)
	if _, ok := tables.Offset("G", "T", 3); !ok {
		t.Error("the key of an offset aliases the body")
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	tables := applied(t, TopicPut(topicConfig("T", 8)), GroupPut(groupConfig("G")))
	var record []byte
	for q := range int32(100) {
		record = Append(record, OffsetPut("G", "T", q, 1000))
	}
	if err := tables.Apply(record, 10, 1); err != nil {
		t.Fatal(err)
	}
	end := int64(10)
	names := []byte("GT")
	tests := map[string]func(){
		"append": func() {
			record = record[:0]
			for q := range int32(100) {
				record = Append(record, OffsetPut("G", "T", q, end))
			}
		},
		"apply": func() {
			end++
			if err := tables.Apply(record, end, end); err != nil {
				t.Fatal(err)
			}
		},
		"each": func() {
			if err := Each(record, func(Change) error { return nil }); err != nil {
				t.Fatal(err)
			}
		},
		"offset":    func() { _, _ = tables.Offset(string(names[:1]), string(names[1:]), 3) },
		"topic":     func() { _, _ = tables.Topic(string(names[1:])) },
		"group":     func() { _, _ = tables.Group(string(names[:1])) },
		"forbidden": func() { _ = tables.Forbidden("G", "T") },
		"reset":     func() { _, _ = tables.Reset("G", "T", 3) },
		"lock":      func() { _, _ = tables.Lock("G", "T", 3) },
	}
	for name, f := range tests {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	spare := newDirty()
	if n := testing.AllocsPerRun(100, func() {
		end++
		if err := tables.Apply(record, end, end); err != nil {
			t.Fatal(err)
		}
		d := tables.cut(spare)
		d.reset()
		spare = d
	}); n > 0.5 {
		t.Errorf("apply with a cut of the dirty set after each record: %v allocations", n)
	}
}

// TestReadersRunBesideApply is for the race detector. Offsets only grow here, and a topic is always whole.
func TestReadersRunBesideApply(t *testing.T) {
	tables := applied(t, TopicPut(topicConfig("T", 1)))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := int64(0)
			for {
				select {
				case <-done:
					return
				default:
				}
				if offset, ok := tables.Offset("G", "T", 0); ok && offset < last {
					t.Errorf("offset %d after %d", offset, last)
				} else {
					last = offset
				}
				if c, ok := tables.Topic("T"); !ok || c.ReadQueueNums != c.WriteQueueNums {
					t.Errorf("topic %+v", c)
				}
				tables.OffsetsOfGroup("G")
				tables.Changes()
				tables.Version(VersionOffsets)
			}
		})
	}
	spare := newDirty()
	for i := range int64(100) {
		applyEach(t, tables, TopicPut(topicConfig("T", int32(i))), OffsetPut("G", "T", 0, i), OffsetPut("G", "T", int32(i), i),
			TopicDelete("U"), OffsetPut("G", "U", 0, i), LockPut("G", "T", int32(i%7), "me", i))
		if d := tables.cut(spare); d == nil {
			t.Fatal("nothing to cut")
		} else {
			d.reset()
			spare = d
		}
	}
	close(done)
	readers.Wait()
}

func BenchmarkApplyOffsets(b *testing.B) {
	tables := NewTables()
	var record []byte
	for q := range int32(100) {
		record = Append(record, OffsetPut("GroupOfSomeLength", "TopicOfSomeLength", q, 1000000))
	}
	b.ReportAllocs()
	end := int64(0)
	for b.Loop() {
		end++
		if err := tables.Apply(record, end, end); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/offset")
}

func BenchmarkTopic(b *testing.B) {
	tables := NewTables()
	for i := range 1000 {
		applyEach(b, tables, TopicPut(topicConfig(fmt.Sprint("TopicOfSomeLength", i), 1)))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := tables.Topic("TopicOfSomeLength77"); !ok {
				b.Error("missing")
			}
		}
	})
}

func BenchmarkOffset(b *testing.B) {
	tables := applied(b, OffsetPut("GroupOfSomeLength", "TopicOfSomeLength", 3, 1))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok := tables.Offset("GroupOfSomeLength", "TopicOfSomeLength", 3); !ok {
				b.Error("missing")
			}
		}
	})
}
