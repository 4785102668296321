package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
)

// Metric describes one metric of a broker; docs/metrics.md is made of these.
type Metric struct {
	Name    string
	Type    string   // gauge, counter, histogram
	Unit    string   // the metric also goes by its name and this suffix, which Java's exporter adds
	Labels  []string // besides those of every series
	Stored  bool     // has the labels of the store's metrics
	Grouped bool     // only in controller mode
	Help    string

	collect func(s *scrape)
}

// Metrics lists the metrics of a broker, apart from those of Go's runtime and of the process.
func Metrics() []Metric { return slices.Clone(metricTable) }

// Labels of every series, and those of the store's series with their values (BrokerMetricsManager, DefaultStoreMetricsManager).
var (
	CommonLabels = []string{"cluster", "node_type", "node_id"}
	StoredLabels = map[string]string{"storage_type": "local", "storage_medium": "disk"}
)

// maxSeries bounds the series of one metric in an answer (metricsOtelCardinalityLimit).
const maxSeries = 50_000

// exporter answers Prometheus. What it tells is read from the broker's tables when it is asked.
type exporter struct {
	b     *Broker
	ln    net.Listener
	descs [][]*prometheus.Desc // by metric, under each of its names
	limit int                  // series of one metric

	mu      sync.Mutex // one scrape at a time
	dropped int64      // series that were too many
}

// newExporter binds the port of the metrics; nil if they are off.
func newExporter(b *Broker, c *conf.Broker) (*exporter, error) {
	if c.MetricsExporterType != "PROM" {
		return nil, nil
	}
	host := c.MetricsPromExporterHost
	if host == "" {
		host = c.BindAddress
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(c.MetricsPromExporterPort))))
	if err != nil {
		return nil, fmt.Errorf("the port of the metrics: %w", err)
	}
	x := &exporter{b: b, ln: ln, limit: maxSeries}
	common := prometheus.Labels{"cluster": c.BrokerClusterName, "node_type": "broker", "node_id": c.BrokerName}
	for pair := range strings.SplitSeq(c.MetricsLabel, ",") {
		if name, value, ok := strings.Cut(pair, ":"); ok {
			common[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	for i := range metricTable {
		x.descs = append(x.descs, metricTable[i].descs(common))
	}
	return x, nil
}

// names are the spellings of a metric: Java's own, and what its exporter made of it.
func (m *Metric) names() []string {
	names := []string{m.Name}
	if m.Unit != "" && !strings.Contains(m.Name, m.Unit) {
		names = append(names, m.Name+"_"+m.Unit)
	}
	return names
}

func (m *Metric) descs(common prometheus.Labels) (descs []*prometheus.Desc) {
	labels := prometheus.Labels{}
	for k, v := range common {
		labels[k] = v
	}
	if m.Stored {
		for k, v := range StoredLabels {
			labels[k] = v
		}
	}
	for _, name := range m.names() {
		descs = append(descs, prometheus.NewDesc(name, m.Help, m.Labels, labels))
	}
	return descs
}

// addr is where the metrics are served.
func (x *exporter) addr() string { return x.ln.Addr().String() }

// run serves until ctx ends.
func (x *exporter) run(ctx context.Context) error {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{x, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return errors.Join(fmt.Errorf("metrics: %w", err), x.ln.Close())
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	x.b.log.Info("metrics are served", zap.String("url", "http://"+x.addr()+"/metrics"))
	if err := server.Serve(x.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Describe implements prometheus.Collector.
func (x *exporter) Describe(out chan<- *prometheus.Desc) {
	for _, descs := range x.descs {
		for _, d := range descs {
			out <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (x *exporter) Collect(out chan<- prometheus.Metric) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &scrape{b: x.b, out: out, limit: x.limit, dropped: &x.dropped}
	for i := range metricTable {
		s.m, s.descs, s.series = &metricTable[i], x.descs[i], 0
		if !s.m.Grouped || x.b.replicas != nil {
			s.m.collect(s)
		}
	}
}

// scrape is one answer to Prometheus in the making.
type scrape struct {
	b       *Broker
	out     chan<- prometheus.Metric
	limit   int
	dropped *int64

	// The metric that is collected now.
	m      *Metric
	descs  []*prometheus.Desc
	series int

	lags []lag // computed with the first metric that needs it
}

// room counts one more series of the present metric and tells whether there is room for it.
func (s *scrape) room() bool {
	if s.series++; s.series > s.limit {
		*s.dropped++
		return false
	}
	return true
}

// add emits one series of a gauge or counter.
func (s *scrape) add(value float64, labels ...string) {
	if !s.room() {
		return
	}
	kind := prometheus.GaugeValue
	if s.m.Type == counter {
		kind = prometheus.CounterValue
	}
	for _, d := range s.descs {
		s.out <- constant(prometheus.NewConstMetric(d, kind, value, valid(labels)...))
	}
}

// histogram emits one series of a histogram; buckets are cumulative.
func (s *scrape) histogram(count uint64, sum float64, buckets map[float64]uint64, labels ...string) {
	if !s.room() {
		return
	}
	for _, d := range s.descs {
		s.out <- constant(prometheus.NewConstHistogram(d, count, sum, buckets, valid(labels)...))
	}
}

// constant panics for a series that does not fit its description: that is an error of the table.
func constant(m prometheus.Metric, err error) prometheus.Metric {
	if err != nil {
		panic(err)
	}
	return m
}

// valid makes names fit for labels.
func valid(labels []string) []string {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return labels
}
