package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/remoting/body"
)

// history keeps what a count was, so that growth over the last minute, hour and day can be told (StatsItem). A row that does not
// grow costs nothing: its samples are made when it has grown.
type history struct {
	mu    sync.Mutex
	spans [3][]sample
}

type sample struct {
	at int64 // ms
	count
}

// spans of a history: how often it is sampled, and how many samples make the whole span.
var spans = [3]struct {
	step int64 // ms
	n    int
}{{10_000, 7}, {600_000, 7}, {3_600_000, 25}}

// add takes a sample where one is due. The first one follows a zero one step ago, as in Java: what was counted before the first
// sample is part of the growth.
func (h *history) add(nowMs int64, c count) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range spans {
		list := h.spans[i]
		switch n := len(list); {
		case n == 0 && c == count{}:
			continue
		case n == 0:
			list = append(list, sample{at: nowMs - s.step})
		case nowMs-list[n-1].at < s.step-sampleSlack:
			continue
		case n == s.n:
			list = append(list[:0], list[1:]...)
		}
		h.spans[i] = append(list, sample{nowMs, c})
	}
}

// sampleSlack is how much earlier than its step a sample may come, since ticks are not punctual.
const sampleSlack = 2_000

// growth tells how a count has grown over the last minute, hour and day up to now. value picks the sum, bytes or messages.
func (h *history) growth(nowMs int64, c count, value func(count) int64) (out [3]body.BrokerStatsItem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, s := range spans {
		first := sample{at: nowMs - s.step}
		if len(h.spans[i]) > 0 {
			first = h.spans[i][0]
		}
		elapsed := max(nowMs-first.at, s.step)
		o := &out[i]
		o.Sum = value(c) - value(first.count)
		o.Tps = float64(o.Sum) * 1000 / float64(elapsed)
		if calls := c.calls - first.calls; calls > 0 {
			o.Avgpt = float64(o.Sum) / float64(calls)
		}
	}
	return out
}

func messagesOf(c count) int64 { return c.messages }
func bytesOf(c count) int64    { return c.bytes }

// rates keeps a sample of the broker's totals for each of the last ten minutes' seconds.
type rates struct {
	samples []rateSample
	next    int
	in, out history
}

// rateSample is what had happened at a time.
type rateSample struct {
	at                               int64 // ms
	put, found, missed, messagesSent int64
}

// rateSamples is ten minutes and the second before.
const rateSamples = 601

func (r *rates) add(s rateSample) {
	if len(r.samples) < rateSamples {
		r.samples = append(r.samples, s)
		return
	}
	r.samples[r.next] = s
	r.next = (r.next + 1) % rateSamples
}

// perSecond averages a total over the last 10, 60 and 600 seconds, or as many as are known.
func (r *rates) perSecond(value func(*rateSample) int64) (out [3]float64) {
	n := len(r.samples)
	at := func(i int) *rateSample { return &r.samples[(r.next+i)%n] } // oldest first
	last := at(n - 1)
	for i, seconds := range [3]int{10, 60, 600} {
		first := at(max(0, n-1-seconds))
		if elapsed := last.at - first.at; elapsed > 0 {
			out[i] = float64(value(last)-value(first)) * 1000 / float64(elapsed)
		}
	}
	return out
}

// dayCount is how many messages came in and went out.
type dayCount struct{ put, get int64 }

// mornings remembers the totals of the last two midnights, local time. Both totals are taken at once, so that what is
// calculated from them is never negative.
type mornings struct {
	day              int // of the year
	yesterday, today dayCount
}

func (m *mornings) roll(now time.Time, c dayCount) {
	switch day := now.YearDay(); {
	case m.day == 0:
		m.day = day
	case m.day != day:
		m.day, m.yesterday, m.today = day, m.today, c
	}
}

// latencies counts times in ms: exactly below 100, in tens below 1000, in hundreds below 10 s, and one bucket for the rest.
type latencies struct {
	buckets [latencyBuckets]atomic.Int64
	sum     atomic.Int64
	max     atomic.Int64

	mu    sync.Mutex
	marks [2][latencyBuckets]int64 // what was counted at the last two marks
}

const latencyBuckets = 100 + 90 + 90 + 1

func latencyBucket(ms int64) int {
	switch {
	case ms <= 0:
		return 0
	case ms < 100:
		return int(ms)
	case ms < 1000:
		return 100 + int(ms-100)/10
	case ms < 10_000:
		return 190 + int(ms-1000)/100
	}
	return latencyBuckets - 1
}

// latencyFloor is the least time in a bucket.
func latencyFloor(bucket int) int64 {
	switch {
	case bucket < 100:
		return int64(bucket)
	case bucket < 190:
		return 100 + 10*int64(bucket-100)
	}
	return 1000 + 100*int64(bucket-190)
}

func (l *latencies) add(ms int64) {
	l.buckets[latencyBucket(ms)].Add(1)
	if ms > 0 {
		l.sum.Add(ms)
	}
	if ms > l.max.Load() { // one goroutine adds
		l.max.Store(ms)
	}
}

// mark ends a minute.
func (l *latencies) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks[0] = l.marks[1]
	for i := range l.buckets {
		l.marks[1][i] = l.buckets[i].Load()
	}
}

// recent returns the counts since the last mark but one: those of one to two minutes.
func (l *latencies) recent() (out [latencyBuckets]int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.buckets {
		out[i] = l.buckets[i].Load() - l.marks[0][i]
	}
	return out
}

// quantile returns the time in ms that the part q of the counts does not exceed, 0 if there are none.
func quantile(counts *[latencyBuckets]int64, q float64) float64 {
	var total int64
	for _, n := range counts {
		total += n
	}
	rank := q * float64(total)
	var seen int64
	for i, n := range counts {
		if seen += n; n > 0 && float64(seen) >= rank {
			return float64(latencyFloor(i))
		}
	}
	return 0
}

// durations counts how long an operation took, by outcome, for operations that are not frequent.
type durations struct {
	mu   sync.Mutex
	rows map[[2]string]*durationRow // by invocation_status and is_system
}

// makeBounds are the buckets of the creations' metrics, in ms.
var makeBounds = [...]float64{10, 100, 1000, 3000, 5000}

type durationRow struct {
	buckets [len(makeBounds)]uint64 // cumulative
	count   uint64
	sum     float64
}

func (d *durations) add(took time.Duration, err error, system bool) {
	k := [2]string{"success", yesNo(system)}
	if err != nil {
		k[0] = "failure"
	}
	ms := float64(took) / float64(time.Millisecond)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rows == nil {
		d.rows = map[[2]string]*durationRow{}
	}
	row := d.rows[k]
	if row == nil {
		row = &durationRow{}
		d.rows[k] = row
	}
	row.count++
	row.sum += ms
	for i, bound := range makeBounds {
		if ms <= bound {
			row.buckets[i]++
		}
	}
}

func (d *durations) snapshot() map[[2]string]durationRow {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[[2]string]durationRow, len(d.rows))
	for k, row := range d.rows {
		out[k] = *row
	}
	return out
}

// yesNo is a truth value as metrics' labels say it.
func yesNo(b bool) string {
	if b {
		return "true"
	}
	return "false"
}
