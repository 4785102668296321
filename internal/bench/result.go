package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/castor-mq/castor/remoting/code"
)

// Result is the outcome of one load, in the form that --json prints.
type Result struct {
	Messages int64         `json:"messages"` // acknowledged or received in the measured time
	Seconds  float64       `json:"seconds"`  // the measured time
	Rate     float64       `json:"rate"`     // messages per second
	Latency  LatencyResult `json:"latency_us"`
	// BrokerCPU and ClientCPU are µs of processor time per message; BrokerCPU is 0 without --pid.
	BrokerCPU float64 `json:"broker_cpu_us"`
	ClientCPU float64 `json:"client_cpu_us"`
	// Errors counts replies with an error code, by code; "lost" are requests without a reply.
	Errors map[string]int64 `json:"errors,omitempty"`
	// Violations counts wrong answers; the first one is told.
	Violations     int64  `json:"violations"`
	FirstViolation string `json:"first_violation,omitempty"`
}

// LatencyResult holds percentiles in µs.
type LatencyResult struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// failed tells whether the load shows a broker that is wrong or does not work at all.
func (r *Result) failed() bool { return r.Violations > 0 || r.Messages == 0 }

// print writes the result for people.
func (r *Result) print(w io.Writer, title string) {
	fmt.Fprintf(w, "%s: %d messages in %.2f s, %.0f/s\n", title, r.Messages, r.Seconds, r.Rate)
	fmt.Fprintf(w, "  latency µs: p50 %.0f  p90 %.0f  p99 %.0f  p99.9 %.0f  max %.0f\n",
		r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	fmt.Fprintf(w, "  CPU µs per message: broker %.2f  client %.2f\n", r.BrokerCPU, r.ClientCPU)
	if len(r.Errors) > 0 {
		keys := make([]string, 0, len(r.Errors))
		for k, n := range r.Errors {
			keys = append(keys, fmt.Sprintf("%s × %d", k, n))
		}
		slices.Sort(keys)
		fmt.Fprintf(w, "  errors by code: %s\n", strings.Join(keys, ", "))
	}
	if r.Violations > 0 {
		fmt.Fprintf(w, "  WRONG ANSWERS: %d, the first: %s\n", r.Violations, r.FirstViolation)
	}
}

// lost is the key of requests that were never answered.
const lost = "lost"

// maxLatency is the largest value of a histogram; longer ones count as this.
const maxLatency = 5 * time.Minute

// tally collects what one connection sees. It belongs to one goroutine at a time.
type tally struct {
	latency    *hdrhistogram.Histogram // ns
	measured   int64
	errors     map[string]int64
	violations int64
	first      string
	last       time.Time // of the last counted message
}

func newTally() tally {
	return tally{latency: hdrhistogram.New(1, int64(maxLatency), 3), errors: map[string]int64{}}
}

// count records one message of the measured time.
func (t *tally) count(latency time.Duration, now time.Time) {
	t.measured++
	t.last = now
	_ = t.latency.RecordValue(int64(min(max(latency, 1), maxLatency))) // the bounds rule an error out
}

func (t *tally) fail(rc code.Response) { t.errors[strconv.Itoa(int(rc))]++ }

func (t *tally) violate(format string, args ...any) {
	t.violations++
	if t.first == "" {
		t.first = fmt.Sprintf(format, args...)
	}
}

// add merges another connection's tally.
func (t *tally) add(o *tally) {
	t.latency.Merge(o.latency)
	t.measured += o.measured
	for k, n := range o.errors {
		t.errors[k] += n
	}
	if t.first == "" {
		t.first = o.first
	}
	t.violations += o.violations
	if o.last.After(t.last) {
		t.last = o.last
	}
}

// result puts the tally into figures. spent is the processor time of the measured time.
func (t *tally) result(took time.Duration, spent cpuTimes) *Result {
	us := func(q float64) float64 { return float64(t.latency.ValueAtQuantile(q)) / 1e3 }
	r := &Result{
		Messages: t.measured, Seconds: took.Seconds(), Errors: t.errors, Violations: t.violations, FirstViolation: t.first,
		Latency: LatencyResult{P50: us(50), P90: us(90), P99: us(99), P999: us(99.9), Max: float64(t.latency.Max()) / 1e3},
	}
	if took > 0 {
		r.Rate = float64(t.measured) / took.Seconds()
	}
	if t.measured > 0 {
		r.BrokerCPU = float64(spent.brokers.Microseconds()) / float64(t.measured)
		r.ClientCPU = float64(spent.client.Microseconds()) / float64(t.measured)
	}
	return r
}
