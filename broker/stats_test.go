package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestHistory(t *testing.T) {
	var h history
	c := count{}
	at := int64(1_000_000_000)
	sums := func() [3]int64 {
		g := h.growth(at, c, messagesOf)
		return [3]int64{g[0].Sum, g[1].Sum, g[2].Sum}
	}
	// Ten messages in five requests at once: seen before any sample, in every span.
	c = count{messages: 10, bytes: 1000, calls: 5}
	if got := h.growth(at, c, bytesOf)[0]; got != (body.BrokerStatsItem{Sum: 1000, Tps: 100, Avgpt: 200}) {
		t.Fatalf("before the first sample: %+v", got)
	}
	for range 3 * 360 { // three hours, one message every ten seconds
		h.add(at, c)
		at += 10_000
		c.messages, c.calls = c.messages+1, c.calls+1
	}
	if diff := cmp.Diff([3]int64{7, 420, 1090}, sums()); diff != "" {
		t.Fatalf("sums of minute, hour and day: %s", diff)
	}
	g := h.growth(at, c, messagesOf)
	for i := range 2 { // the day's first sample is of an hour before the first message
		if g[i].Tps < 0.09 || g[i].Tps > 0.11 {
			t.Errorf("span %d: %+v", i, g[i])
		}
	}
	for range 26 * 360 { // a day and more of silence
		h.add(at, c)
		at += 10_000
	}
	if diff := cmp.Diff([3]int64{}, sums()); diff != "" {
		t.Fatalf("after a silent day: %s", diff)
	}
}

func TestHistoryOfNothing(t *testing.T) {
	var h history
	for at := int64(1); at < 1e6; at += 10_000 {
		h.add(at, count{})
	}
	if len(h.spans[0])+len(h.spans[1])+len(h.spans[2]) > 0 {
		t.Fatal("a count that never grew has samples")
	}
}

func TestRates(t *testing.T) {
	var r rates
	put := func(s *rateSample) int64 { return s.put }
	r.add(rateSample{at: 1000})
	if got := r.perSecond(put); got != [3]float64{} {
		t.Fatalf("of one sample: %v", got)
	}
	for i := int64(1); i <= 2000; i++ {
		n := min(i, 1000) * 10 // ten a second, then none
		r.add(rateSample{at: 1000 + 1000*i, put: n})
		switch want := [3]float64{10, 10, 10}; {
		case i <= 1000 && !cmp.Equal(r.perSecond(put), want):
			t.Fatalf("after %d s: %v", i, r.perSecond(put))
		case i == 1030 && !cmp.Equal(r.perSecond(put), [3]float64{0, 5, 9.5}):
			t.Fatalf("thirty seconds after the last: %v", r.perSecond(put))
		}
	}
}

func TestMornings(t *testing.T) {
	var m mornings
	day := time.Date(2026, 3, 1, 22, 0, 0, 0, time.Local)
	m.roll(day, dayCount{1, 1})
	m.roll(day.Add(time.Hour), dayCount{5, 2})
	if m.today != (dayCount{}) {
		t.Fatalf("before midnight: %+v", m)
	}
	m.roll(day.Add(3*time.Hour), dayCount{10, 3})
	m.roll(day.Add(4*time.Hour), dayCount{11, 3})
	m.roll(day.Add(30*time.Hour), dayCount{20, 9})
	if m.yesterday != (dayCount{10, 3}) || m.today != (dayCount{20, 9}) {
		t.Fatalf("after two midnights: %+v", m)
	}
}

func TestLatencies(t *testing.T) {
	for ms := int64(0); ms < 12_000; ms++ {
		b := latencyBucket(ms)
		if floor := latencyFloor(b); floor > ms || ms < 10_000 && latencyFloor(b+1) <= ms {
			t.Fatalf("%d ms is in the bucket from %d to %d", ms, floor, latencyFloor(b+1))
		}
	}
	var l latencies
	for range 98 {
		l.add(0)
	}
	l.add(15)
	l.add(70_000)
	counts := l.recent()
	if a, b := quantile(&counts, 0.99), quantile(&counts, 0.999); a != 15 || b != 10_000 {
		t.Errorf("quantiles %v %v", a, b)
	}
	want := "[<=0ms]:98 [0~10ms]:0 [10~50ms]:1 [50~100ms]:0 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 [1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:0 [10s~]:1 "
	if diff := cmp.Diff(want, distribution(&counts)); diff != "" {
		t.Error(diff)
	}
	l.mark()
	if counts = l.recent(); counts[0] != 98 {
		t.Error("a mark ends the minute before the last at once")
	}
	l.mark()
	if counts = l.recent(); counts[0] != 0 {
		t.Error("two marks did not end what was before")
	}
}

func TestRowsAreBounded(t *testing.T) {
	s := newStats(&Broker{clk: clock.Real{}})
	const limit = 50
	s.groups.limit = limit
	for i := range limit + 100 {
		s.pulled("g", fmt.Sprint("t", i), 1, 1)
	}
	if n := len(s.groups.snapshot()); n != limit {
		t.Errorf("%d rows, want %d", n, limit)
	}
	if n := s.groups.dropped.Load(); n != 100 {
		t.Errorf("%d counts without a row, want 100", n)
	}
	if c := s.out.count(); c.messages != limit+100 {
		t.Errorf("%d messages altogether", c.messages)
	}
	s.forgetTopic("t0")
	s.forgetGroup("g")
	if n := len(s.groups.snapshot()); n != 0 {
		t.Errorf("%d rows of a forgotten group", n)
	}
}

func TestCountingDoesNotAllocate(t *testing.T) {
	s := newStats(&Broker{clk: clock.Real{}})
	d := []message.Draft{{Topic: "T", Body: make([]byte, 100)}}
	if err := d[0].Prepare(); err != nil {
		t.Fatal(err)
	}
	run := func() {
		s.stored(d, kindNormal, 1)
		s.pulled("G", "T", 3, 300)
		s.batchEnd()
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestViewStats(t *testing.T) {
	b := startBroker(t, nil)
	view := func(name, key string) *header.ViewBrokerStatsDataRequest {
		return &header.ViewBrokerStatsDataRequest{StatsName: name, StatsKey: key}
	}
	for range 3 {
		b.client.send("T", 0, "hello")
	}
	b.client.pull("G", "T", 0, 0)
	for _, c := range []struct {
		name, key string
		sum       int64
	}{{"TOPIC_PUT_NUMS", "T", 3}, {"GROUP_GET_NUMS", "T@G", 3}, {"BROKER_PUT_NUMS", "DefaultCluster", 3}, {"BROKER_GET_NUMS", "DefaultCluster", 3}} {
		got := decode[body.BrokerStatsData](t, b.client.ok(code.ViewBrokerStatsData, view(c.name, c.key), nil).Body)
		for _, item := range []body.BrokerStatsItem{got.StatsMinute, got.StatsHour, got.StatsDay} {
			if item.Sum != c.sum || item.Tps <= 0 {
				t.Errorf("%s %s: %+v", c.name, c.key, got)
			}
		}
	}
	size := decode[body.BrokerStatsData](t, b.client.ok(code.ViewBrokerStatsData, view("TOPIC_PUT_SIZE", "T"), nil).Body)
	if size.StatsDay.Sum < 300 || size.StatsDay.Avgpt != float64(size.StatsDay.Sum)/3 {
		t.Errorf("sizes: %+v", size.StatsDay)
	}
	for _, k := range [][2]string{{"TOPIC_PUT_NUMS", "none"}, {"GROUP_GET_NUMS", "T"}, {"GROUP_GET_NUMS", "T@none"}, {"SNDBCK_PUT_NUMS", "T@G"}, {"BROKER_PUT_NUMS", "other"}, {"no such", ""}} {
		b.client.refused(code.ViewBrokerStatsData, view(k[0], k[1]), nil, code.SystemError, fmt.Sprintf("The stats <%s> <%s> not exist", k[0], k[1]))
	}
}

// BenchmarkCounting is what a send and a pull pay for being counted.
func BenchmarkCounting(b *testing.B) {
	s := newStats(&Broker{clk: clock.Real{}})
	d := []message.Draft{{Topic: "T", Body: make([]byte, 1024)}}
	if err := d[0].Prepare(); err != nil {
		b.Fatal(err)
	}
	b.Run("send", func(b *testing.B) {
		for b.Loop() {
			s.stored(d, kindNormal, 1)
		}
	})
	b.Run("pull", func(b *testing.B) {
		for b.Loop() {
			s.pulled("G", "T", 32, 32<<10)
		}
	})
}
