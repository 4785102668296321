package broker

import (
	"strconv"
	"strings"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/store"
)

// Types of metrics.
const (
	gauge     = "gauge"
	counter   = "counter"
	histogram = "histogram"
)

var (
	inLabels  = []string{"topic", "message_type", "is_system"}
	outLabels = []string{"topic", "consumer_group", "is_system"}
	lagLabels = []string{"consumer_group", "topic", "is_retry", "is_system"}
	rpcLabels = []string{"protocol_type", "request_code", "response_code", "is_long_polling", "result"}
)

// metricTable is what a broker tells Prometheus. The names without go_ are Apache RocketMQ's.
var metricTable = []Metric{
	{Name: "rocketmq_broker_permission", Type: gauge, Help: "What clients may do here: 2 write, 4 read, 6 both.",
		collect: func(s *scrape) { s.add(float64(s.b.conf.Load().BrokerPermission)) }},
	{Name: "rocketmq_topic_number", Type: gauge, Help: "Topics configured here.",
		collect: func(s *scrape) { s.add(float64(len(s.b.store.State.Topics()))) }},
	{Name: "rocketmq_consumer_group_number", Type: gauge, Help: "Consumer groups configured here.",
		collect: func(s *scrape) { s.add(float64(len(s.b.store.State.Groups()))) }},
	{Name: "rocketmq_processor_watermark", Type: gauge, Labels: []string{"processor"}, Help: "Requests that wait: sends for their confirmation, others for a worker.",
		collect: collectWatermarks},
	{Name: "rocketmq_rpc_latency", Type: histogram, Unit: "milliseconds", Labels: rpcLabels, Help: "Time from the arrival of a request to its answer. Those that nobody serves have the code unknown.",
		collect: collectCalls},

	{Name: "rocketmq_messages_in_total", Type: counter, Labels: inLabels, Help: "Messages stored, without retries and dead letters. A delayed message counts when it is delivered to its topic.",
		collect: func(s *scrape) {
			s.eachStored(func(k *kindStats, labels []string) { s.add(float64(k.messages()), labels...) })
		}},
	{Name: "rocketmq_throughput_in_total", Type: counter, Labels: inLabels, Help: "Bytes of these messages, as stored.",
		collect: func(s *scrape) {
			s.eachStored(func(k *kindStats, labels []string) { s.add(float64(k.bytes.Load()), labels...) })
		}},
	{Name: "rocketmq_message_size", Type: histogram, Labels: inLabels, Help: "Sizes of these messages in bytes, as stored.",
		collect: func(s *scrape) { s.eachStored(s.sizes) }},
	{Name: "rocketmq_messages_out_total", Type: counter, Labels: outLabels, Help: "Messages that groups got, without retries and dead letters.",
		collect: func(s *scrape) {
			s.eachGot(func(c count, labels []string) { s.add(float64(c.messages), labels...) })
		}},
	{Name: "rocketmq_throughput_out_total", Type: counter, Labels: outLabels, Help: "Bytes of these messages.",
		collect: func(s *scrape) {
			s.eachGot(func(c count, labels []string) { s.add(float64(c.bytes), labels...) })
		}},
	{Name: "rocketmq_send_to_dlq_messages_total", Type: counter, Labels: []string{"consumer_group", "topic", "is_system"},
		Help: "Messages that a group could not consume; topic is the one they were sent to.", collect: collectDeadLetters},

	{Name: "rocketmq_producer_connections", Type: gauge, Labels: []string{"language", "version", "protocol_type"}, Help: "Producers that are online.",
		collect: collectProducers},
	{Name: "rocketmq_consumer_connections", Type: gauge, Labels: []string{"consumer_group", "language", "version", "consume_mode", "protocol_type", "is_system"},
		Help: "Consumers that are online.", collect: collectConsumers},
	{Name: "rocketmq_topic_create_execution_time", Type: histogram, Unit: "milliseconds", Labels: []string{"invocation_status", "is_system"}, Help: "Duration of the creation or change of topics.",
		collect: func(s *scrape) {
			s.durations(&s.b.stats.topicMakes, func(k [2]string) []string { return k[:] })
		}},
	{Name: "rocketmq_consumer_group_create_execution_time", Type: histogram, Unit: "milliseconds", Labels: []string{"invocation_status"}, Help: "Duration of the creation or change of consumer groups.",
		collect: func(s *scrape) {
			s.durations(&s.b.stats.groupMakes, func(k [2]string) []string { return k[:1] })
		}},

	{Name: "rocketmq_consumer_lag_messages", Type: gauge, Labels: lagLabels, Help: "Messages behind the committed offset of a group that has committed one, filtered ones included.",
		collect: func(s *scrape) { s.eachLag(func(l *lag) float64 { return float64(l.behind) }) }},
	{Name: "rocketmq_consumer_lag_latency", Type: gauge, Unit: "milliseconds", Labels: lagLabels, Help: "Age of the oldest message that a group has not consumed, 0 if there is none.",
		collect: func(s *scrape) { s.eachLag(func(l *lag) float64 { return float64(l.age) }) }},
	{Name: "rocketmq_consumer_inflight_messages", Type: gauge, Labels: lagLabels, Help: "Messages that a group got and has not consumed.",
		collect: func(s *scrape) { s.eachLag(func(l *lag) float64 { return float64(l.inflight) }) }},
	{Name: "rocketmq_consumer_queueing_latency", Type: gauge, Unit: "milliseconds", Labels: lagLabels, Help: "Age of the oldest message that a group did not get yet, 0 if there is none.",
		collect: func(s *scrape) { s.eachLag(func(l *lag) float64 { return float64(l.readyAge) }) }},
	{Name: "rocketmq_consumer_ready_messages", Type: gauge, Labels: lagLabels, Help: "Messages that a group did not get yet.",
		collect: func(s *scrape) { s.eachLag(func(l *lag) float64 { return float64(l.ready) }) }},

	{Name: "rocketmq_storage_size", Type: gauge, Unit: "bytes", Stored: true, Help: "Used bytes of the partition of the commit log.",
		collect: func(s *scrape) {
			if total, free, err := s.b.store.LogCapacity(); err == nil {
				s.add(float64(total - free))
			}
		}},
	{Name: "rocketmq_storage_flush_behind_bytes", Type: gauge, Unit: "bytes", Stored: true, Help: "Bytes of the log that are not durable yet.",
		collect: func(s *scrape) { s.add(float64(max(s.b.store.Log.End()-s.b.store.Log.Flushed(), 0))) }},
	{Name: "rocketmq_storage_dispatch_behind_bytes", Type: gauge, Unit: "bytes", Stored: true, Help: "Bytes of the log that are in no consume queue yet.",
		collect: func(s *scrape) { s.add(float64(max(s.b.store.Log.End()-s.b.store.Dispatched(), 0))) }},
	{Name: "rocketmq_storage_message_reserve_time", Type: gauge, Unit: "milliseconds", Stored: true, Help: "Age of the oldest message.",
		collect: func(s *scrape) {
			if t := s.b.store.Log.FirstStoreTime(s.b.store.Log.Min()); t > 0 {
				s.add(float64(max(s.b.clk.NowMs()-t, 0)))
			}
		}},

	{Name: "rocketmq_go_master", Type: gauge, Grouped: true, Help: "Whether this broker is the master of its group.",
		collect: func(s *scrape) { s.add(oneIf(s.b.replicas.node.Status().Master)) }},
	{Name: "rocketmq_go_acknowledging", Type: gauge, Grouped: true, Help: "Whether this broker can acknowledge messages: it is master, has confirmed what it took over, and enough replicas are in sync.",
		collect: func(s *scrape) { s.add(oneIf(s.b.leads() && s.b.replicas.node.Status().Enough)) }},
	{Name: "rocketmq_go_master_epoch", Type: gauge, Grouped: true, Help: "The epoch of the present master. It rises with each election.",
		collect: func(s *scrape) { s.add(float64(s.b.epoch())) }},
	{Name: "rocketmq_go_role_age_seconds", Type: gauge, Grouped: true, Help: "Time since the last election that this broker knows of.",
		collect: func(s *scrape) { s.add(time.Since(s.b.replicas.term.Load().began).Seconds()) }},
	{Name: "rocketmq_go_sync_state_set_size", Type: gauge, Grouped: true, Help: "Replicas in sync, the master included.",
		collect: func(s *scrape) { s.add(float64(len(s.b.replicas.node.Status().Role.SyncStateSet))) }},
	{Name: "rocketmq_go_replica_behind_bytes", Type: gauge, Grouped: true, Labels: []string{"replica"}, Help: "Of a master: bytes of the log that an attached replica does not have.",
		collect: func(s *scrape) {
			end := s.b.store.Log.End()
			for id, acked := range s.b.replicas.node.Status().Acked {
				s.add(float64(max(end-acked, 0)), strconv.FormatInt(id, 10))
			}
		}},
	{Name: "rocketmq_go_replica_behind_milliseconds", Type: gauge, Grouped: true, Labels: []string{"replica"}, Help: "Of a master: time since an attached replica is known to have had the whole log.",
		collect: func(s *scrape) {
			for id, behind := range s.b.replicas.node.Status().Behind {
				s.add(float64(behind.Milliseconds()), strconv.FormatInt(id, 10))
			}
		}},
	{Name: "rocketmq_go_replication_sent_bytes_total", Type: counter, Grouped: true, Help: "Bytes of the log sent to replicas.",
		collect: func(s *scrape) { s.add(float64(s.b.replicas.node.Sent())) }},
	{Name: "rocketmq_go_replication_received_bytes_total", Type: counter, Grouped: true, Help: "Bytes of the log received from masters.",
		collect: func(s *scrape) { s.add(float64(s.b.replicas.node.Received())) }},

	{Name: "rocketmq_go_broker_info", Type: gauge, Labels: []string{"version", "broker_id", "role"}, Help: "1. The version is the one that clients are told.",
		collect: func(s *scrape) {
			id, _ := s.b.brokerID()
			role := s.b.conf.Load().BrokerRole
			if s.b.replicas != nil {
				role = "slave"
				if id == 0 {
					role = "sync_master"
				}
			}
			s.add(1, code.Current.String(), strconv.FormatInt(id, 10), strings.ToLower(role))
		}},
	{Name: "rocketmq_go_consumer_group_online", Type: gauge, Labels: []string{"consumer_group"}, Help: "Whether a configured group has a member that is online.",
		collect: func(s *scrape) {
			for _, g := range s.b.store.State.Groups() {
				online := 0.0
				if s.b.clients.consumerGroup(g.GroupName) != nil {
					online = 1
				}
				s.add(online, g.GroupName)
			}
		}},
	{Name: "rocketmq_go_held_pulls", Type: gauge, Help: "Pulls that wait for a message.",
		collect: func(s *scrape) { s.add(float64(s.b.holds.held())) }},
	{Name: "rocketmq_go_log_end_offset", Type: gauge, Help: "End of the commit log in bytes.",
		collect: func(s *scrape) { s.add(float64(s.b.store.Log.End())) }},
	{Name: "rocketmq_go_confirm_offset", Type: gauge, Help: "End of what is acknowledged, in bytes of the commit log.",
		collect: func(s *scrape) { s.add(float64(s.b.store.Confirmed())) }},
	{Name: "rocketmq_go_log_damaged", Type: gauge, Help: "Whether a part of the commit log was found that is not what was written.",
		collect: func(s *scrape) { s.add(oneIf(s.b.store.Damaged())) }},
	{Name: "rocketmq_go_disk_used_ratio", Type: gauge, Labels: []string{"path"}, Help: "Used part of the partitions of the commit log and of the other files.",
		collect: func(s *scrape) {
			c := s.b.conf.Load()
			log, rest := s.b.store.DiskUsed()
			s.add(float64(log)/100, c.StorePathCommitLog)
			if c.StorePathRootDir != c.StorePathCommitLog {
				s.add(float64(rest)/100, c.StorePathRootDir)
			}
		}},
	{Name: "rocketmq_go_put_latency_seconds", Type: histogram, Help: "Time from the append of a message to its acknowledgement.",
		collect: collectPutLatency},
	{Name: "rocketmq_go_metrics_dropped_series_total", Type: counter, Help: "Series that were left out because their metric has too many, and counts for which there was no row.",
		collect: func(s *scrape) {
			s.add(float64(*s.dropped + s.b.stats.topics.dropped.Load() + s.b.stats.groups.dropped.Load() + s.b.stats.calls.dropped.Load()))
		}},
}

func collectWatermarks(s *scrape) {
	s.add(float64(s.b.store.Waiting()), "send")
	s.add(float64(s.b.lanes.pull.Depth()), "pull")
	s.add(float64(s.b.lanes.query.Depth()), "query_message")
	s.add(float64(s.b.lanes.admin.Depth()), "admin")
}

// ownTopic tells the topics that belong to a group: their messages are counted where they were sent to.
func ownTopic(topic string) bool {
	return message.IsRetryTopic(topic) || strings.HasPrefix(topic, message.DLQPrefix)
}

// isSystemGroup tells the groups of brokers (BrokerMetricsManager).
func isSystemGroup(group string) bool {
	const prefix = "CID_RMQ_SYS_"
	return len(group) >= len(prefix) && strings.EqualFold(group[:len(prefix)], prefix)
}

// eachStored calls f for each topic and kind of message that something was stored of.
func (s *scrape) eachStored(f func(k *kindStats, labels []string)) {
	for topic, row := range s.b.stats.topics.snapshot() {
		if ownTopic(topic) || topic == store.ScheduleTopic {
			continue
		}
		for kind := range row.kinds {
			if k := &row.kinds[kind]; k.bytes.Load() > 0 {
				f(k, []string{topic, kindNames[kind], yesNo(s.b.topics.isSystem(topic))})
			}
		}
	}
}

func (s *scrape) sizes(k *kindStats, labels []string) {
	buckets := map[float64]uint64{}
	var n uint64
	for i := range k.sizes {
		n += uint64(k.sizes[i].Load())
		if i < len(sizeBounds) {
			buckets[float64(sizeBounds[i])] = n
		}
	}
	s.histogram(n, float64(k.bytes.Load()), buckets, labels...)
}

// eachGot calls f for each topic and group that has got messages of it.
func (s *scrape) eachGot(f func(c count, labels []string)) {
	for k, row := range s.b.stats.groups.snapshot() {
		if c := row.got.count(); c.messages > 0 && !ownTopic(k.topic) {
			f(c, []string{k.topic, k.group, yesNo(s.b.topics.isSystem(k.topic) || isSystemGroup(k.group))})
		}
	}
}

func collectDeadLetters(s *scrape) {
	for k, row := range s.b.stats.groups.snapshot() {
		if n := row.dead.Load(); n > 0 {
			s.add(float64(n), k.group, k.topic, yesNo(s.b.topics.isSystem(k.topic) || isSystemGroup(k.group)))
		}
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

const remotingProtocol = "remoting"

var outcomeNames = map[remoting.Outcome]string{
	remoting.Sent: "success", remoting.Oneway: "oneway", remoting.Failed: "process_request_failed", remoting.Unreachable: "write_channel_failed",
}

func collectCalls(s *scrape) {
	for k, row := range s.b.stats.calls.snapshot() {
		buckets := map[float64]uint64{}
		var n uint64
		for i, bound := range callBounds {
			n += uint64(row.buckets[i].Load())
			buckets[float64(bound)] = n
		}
		n += uint64(row.buckets[len(callBounds)].Load())
		request := "unknown"
		if k.code != remoting.NoRoute {
			request = strings.ToLower(k.code.String())
		}
		s.histogram(n, float64(row.sum.Load()), buckets,
			remotingProtocol, request, strings.ToLower(k.result.String()), yesNo(k.held), outcomeNames[k.outcome])
	}
}

func collectProducers(s *scrape) {
	counts := map[[2]string]int{}
	for _, group := range s.b.clients.producerGroups() {
		for _, m := range s.b.clients.producersOf(group) {
			counts[m.program()]++
		}
	}
	for k, n := range counts {
		s.add(float64(n), k[0], k[1], remotingProtocol)
	}
}

// program is language and version of a client, as labels.
func (m *member) program() [2]string {
	return [2]string{strings.ToLower(m.language.String()), strings.ToLower(m.version.String())}
}

var consumeModes = map[body.ConsumeType]string{body.ConsumeActively: "pull", body.ConsumePassively: "push", body.ConsumePop: "pop"}

func collectConsumers(s *scrape) {
	for _, group := range s.b.clients.consumerGroups() {
		g := s.b.clients.consumerGroup(group)
		if g == nil {
			continue
		}
		counts := map[[2]string]int{}
		for _, m := range s.b.clients.membersOf(group) {
			counts[m.program()]++
		}
		for k, n := range counts {
			s.add(float64(n), group, k[0], k[1], consumeModes[g.view.Load().consumeType], remotingProtocol, yesNo(isSystemGroup(group)))
		}
	}
}

func (s *scrape) durations(d *durations, labels func(k [2]string) []string) {
	for k, row := range d.snapshot() {
		buckets := map[float64]uint64{}
		for i, bound := range makeBounds {
			buckets[bound] = row.buckets[i]
		}
		s.histogram(row.count, row.sum, buckets, labels(k)...)
	}
}

// putBounds are the buckets of rocketmq_go_put_latency_seconds, in ms.
var putBounds = []int64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000}

func collectPutLatency(s *scrape) {
	l := &s.b.stats.putTimes
	buckets := map[float64]uint64{}
	var n uint64
	i := 0
	for _, bound := range putBounds {
		for ; i < latencyBuckets && latencyFloor(i) < bound; i++ {
			n += uint64(l.buckets[i].Load())
		}
		buckets[float64(bound)/1000] = n
	}
	for ; i < latencyBuckets; i++ {
		n += uint64(l.buckets[i].Load())
	}
	s.histogram(n, float64(l.sum.Load())/1000, buckets)
}
