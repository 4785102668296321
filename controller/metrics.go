package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.etcd.io/raft/v3"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
)

// metrics are Java's by Java's names (ControllerMetricsManager), which have no prefix, and a few of our own.
type metrics struct {
	requests  *prometheus.CounterVec     // by request_type, request_handle_status
	latencies []*prometheus.HistogramVec // by request_type, µs
	appends   *prometheus.CounterVec
	appended  []*prometheus.HistogramVec
	elections *prometheus.CounterVec
	strangers prometheus.Counter

	registry *prometheus.Registry
	listener net.Listener // nil: nobody is served
}

// latencyBuckets are Java's, in µs: 1, 3 and 5 times each power of ten up to 10 s.
var latencyBuckets = []float64{1, 3, 5, 10, 30, 50, 100, 300, 500, 1e3, 3e3, 5e3, 1e4, 3e4, 5e4, 1e5, 3e5, 5e5, 1e6, 3e6, 5e6, 1e7}

const readHeaderTimeout = 5 * time.Second

func newMetrics(s *Server, self Member) (*metrics, error) {
	cfg := s.cfg.Load()
	labels := prometheus.Labels{"address": self.Addr, "group": s.group, "peer_id": self.ID}
	more, err := conf.Labels(cfg.MetricsLabel)
	if err != nil {
		return nil, fmt.Errorf("metricsLabel: %w", err)
	}
	for _, l := range more {
		labels[l.Name] = l.Value
	}
	m := &metrics{registry: prometheus.NewRegistry()}
	reg := prometheus.WrapRegistererWith(labels, m.registry)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	// The exporter of Java has appended the unit to the name in some versions, so both names are about.
	histograms := func(name, help string, labels ...string) (out []*prometheus.HistogramVec) {
		for _, suffix := range []string{"", "_microseconds"} {
			h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name + suffix, Help: help, Buckets: latencyBuckets}, labels)
			reg.MustRegister(h)
			out = append(out, h)
		}
		return out
	}
	m.requests = counter("request_total", "Requests.", "request_type", "request_handle_status")
	m.latencies = histograms("request_latency", "Time to answer a request that needs the quorum, in microseconds.", "request_type")
	m.appends = counter("dledger_op_total", "Commands given to the quorum.", "dledger_operation", "dLedger_operation_status")
	m.appended = histograms("dledger_op_latency", "Time of the quorum for a command, in microseconds.", "dledger_operation")
	m.elections = counter("election_total", "Elections of masters.", "cluster", "broker_set", "election_result")
	m.strangers = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "rocketmq_controller_refused_messages_total", Help: "Messages between controllers that were refused.",
	})
	reg.MustRegister(m.strangers, &collector{s})
	if cfg.MetricsExporterType != "PROM" {
		return m, nil
	}
	host := cfg.MetricsPromExporterHost
	if host == "" {
		host = cfg.BindAddress
	}
	var lc net.ListenConfig
	if m.listener, err = lc.Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(int(cfg.MetricsPromExporterPort)))); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return m, nil
}

func (m *metrics) addr() net.Addr {
	if m.listener == nil {
		return nil
	}
	return m.listener.Addr()
}

func (m *metrics) close() {
	if m.listener != nil {
		_ = m.listener.Close()
	}
}

// run serves the metrics over HTTP until ctx ends.
func (m *metrics) run(ctx context.Context) error {
	if m.listener == nil {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answered counts an answer to a request of a client.
func (m *metrics) answered(a remoting.Answer) {
	if a.Code != quorumCode && a.Code != remoting.NoRoute {
		m.requests.WithLabelValues(a.Code.String(), handleStatus(a.Result)).Inc()
	}
}

// served measures a request that was answered by the quorum.
func (m *metrics) served(c code.Request, took time.Duration) { observe(m.latencies, took, c.String()) }

func observe(hs []*prometheus.HistogramVec, took time.Duration, label string) {
	for _, h := range hs {
		h.WithLabelValues(label).Observe(float64(took.Microseconds()))
	}
}

func handleStatus(rc code.Response) string {
	if rc == code.Success || rc == code.ControllerMasterStillExist {
		return "success"
	}
	return "failed"
}

// append counts a command that was given to the quorum.
func (m *metrics) append(took time.Duration, err error) {
	status := "success"
	switch {
	case errors.Is(err, errTimeout):
		status = "timeout"
	case err != nil:
		status = "failed"
	}
	m.appends.WithLabelValues("append", status).Inc()
	observe(m.appended, took, "append")
}

// collector shows what the controller knows when it is asked.
type collector struct{ s *Server }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descRole    = describe("role", "Role in the quorum: 0 unknown, 1 candidate, 2 follower, 3 leader.")
	descDisk    = describe("dledger_disk_usage", "Size of the quorum's file in bytes.")
	descActive  = describe("active_broker_num", "Brokers that some controller hears from.", "cluster", "broker_set")
	descTerm    = describe("rocketmq_controller_term", "Term of the quorum.")
	descCommit  = describe("rocketmq_controller_commit_index", "Last entry that the quorum has agreed on.")
	descApplied = describe("rocketmq_controller_applied_index", "Last entry that is part of the state.")
	descEpoch   = describe("rocketmq_controller_master_epoch", "Master epoch.", "cluster", "broker_set")
	descSet     = describe("rocketmq_controller_sync_state_set_size", "Replicas in sync.", "cluster", "broker_set")
	descMaster  = describe("rocketmq_controller_master_id", "Broker id of the master; 0: there is none.", "cluster", "broker_set")
)

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	st := c.s.Status()
	gauge(descRole, javaRole(&st))
	if info, err := os.Stat(c.s.store.path); err == nil {
		gauge(descDisk, float64(info.Size()))
	}
	gauge(descTerm, float64(st.Term))
	gauge(descCommit, float64(st.Commit))
	gauge(descApplied, float64(st.Applied))
	for _, g := range c.s.groups() {
		gauge(descEpoch, float64(g.MasterEpoch), g.Cluster, g.Name)
		gauge(descSet, float64(len(g.SyncStateSet)), g.Cluster, g.Name)
		gauge(descMaster, float64(g.Master), g.Cluster, g.Name)
		active := 0
		now := c.s.clock.Now()
		c.s.mu.Lock()
		for id := range g.Replicas {
			if c.s.table.Alive(Broker{g.Name, id}, now) {
				active++
			}
		}
		c.s.mu.Unlock()
		gauge(descActive, float64(active), g.Cluster, g.Name)
	}
}

// javaRole is the number that Java shows for a role.
func javaRole(st *Status) float64 {
	switch {
	case st.Leading:
		return 3
	case st.Role == raft.StateFollower && st.Leader != Member{}:
		return 2
	case st.Role == raft.StateCandidate, st.Role == raft.StatePreCandidate:
		return 1
	}
	return 0
}

// groups returns all groups in the order of their names.
func (s *Server) groups() (all []*Group) {
	s.node.view(func(st *State) {
		for _, name := range st.Names() {
			all = append(all, st.Group(name))
		}
	})
	return all
}
