package namesrv

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the name server's own; Apache RocketMQ's has none.
type metrics struct {
	brokers, topics prometheus.Gauge
	foundRoutes     prometheus.Counter
	unknownRoutes   prometheus.Counter
	registrations   *prometheus.CounterVec // by result: accepted, refused
	departures      *prometheus.CounterVec // by reason
}

// newMetrics registers the metrics; registry may be nil.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	routes := counter("rocketmq_namesrv_route_requests_total", "Route lookups.", "result")
	m := &metrics{
		foundRoutes:   routes.WithLabelValues("found"),
		unknownRoutes: routes.WithLabelValues("unknown"),
		brokers:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "rocketmq_namesrv_brokers", Help: "Registered brokers."}),
		topics:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "rocketmq_namesrv_topics", Help: "Topics with a route."}),
		registrations: counter("rocketmq_namesrv_registrations_total", "Registrations of brokers, renewals included.", "result"),
		departures:    counter("rocketmq_namesrv_broker_departures_total", "Brokers that left.", "reason"),
	}
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.brokers), registry.Register(m.topics), registry.Register(routes),
		registry.Register(m.registrations), registry.Register(m.departures))
}
