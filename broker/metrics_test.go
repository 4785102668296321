package broker

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// scraped returns the samples by name and labels, in the text form.
func (b *testBroker) scraped() map[string]string {
	b.t.Helper()
	b.client.ok(code.GetSystemTopicListFromBroker, nil, nil) // it serves
	resp, err := http.Get("http://" + b.metrics.addr() + "/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %v\n%s", resp.Status, err, text)
	}
	samples := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			i := strings.LastIndexByte(line, ' ')
			samples[line[:i]] = line[i+1:]
		}
	}
	return samples
}

func promBroker(t *testing.T, keys map[string]string) *testBroker {
	all := map[string]string{"metricsExporterType": "PROM", "metricsPromExporterPort": "0", "metricsLabel": "zone:z1"}
	for k, v := range keys {
		all[k] = v
	}
	return consumed(t, all)
}

// series is the text of a sample with the labels of every series, by name.
func series(name, labels string) string {
	const common = `cluster="DefaultCluster",%snode_id="b",node_type="broker"%s,zone="z1"`
	before, after := "", ""
	for l := range strings.SplitSeq(labels, ",") {
		switch {
		case l == "":
		case l < "node":
			before += l + ","
		default:
			after += "," + l
		}
	}
	return name + "{" + fmt.Sprintf(common, before, after) + "}"
}

func TestMetrics(t *testing.T) {
	b := promBroker(t, nil)
	b.client.send("T", 1, "ordered", "__SHARDINGKEY", "k")
	b.client.beat(consumerBeat("c", "G", "T"))
	b.client.beat(&body.HeartbeatData{ClientID: "p", ProducerDataSet: []body.ProducerData{{GroupName: "PG"}}})
	b.stats.deadLettered("G", "T")
	b.client.call(code.Request(9999), nil, nil)
	b.client.call(code.SendMessageV2, nil, nil)
	got := b.scraped()
	const gt = `consumer_group="G",is_retry="false",is_system="false",topic="T"`
	for sample, want := range map[string]string{
		series("rocketmq_broker_permission", ""):                                                                                                                    "6",
		series("rocketmq_messages_in_total", `is_system="false",message_type="normal",topic="T"`):                                                                   "3",
		series("rocketmq_messages_in_total", `is_system="false",message_type="fifo",topic="T"`):                                                                     "1",
		series("rocketmq_message_size_count", `is_system="false",message_type="normal",topic="T"`):                                                                  "3",
		series("rocketmq_messages_out_total", `consumer_group="G",is_system="false",topic="T"`):                                                                     "3",
		series("rocketmq_send_to_dlq_messages_total", `consumer_group="G",is_system="false",topic="T"`):                                                             "1",
		series("rocketmq_consumer_lag_messages", gt):                                                                                                                "2",
		series("rocketmq_consumer_inflight_messages", gt):                                                                                                           "2",
		series("rocketmq_consumer_ready_messages", gt):                                                                                                              "0",
		series("rocketmq_consumer_queueing_latency", gt):                                                                                                            "0",
		series("rocketmq_storage_dispatch_behind_bytes", `storage_medium="disk",storage_type="local"`):                                                              "0",
		series("rocketmq_producer_connections", `language="go",protocol_type="remoting",version="v5_5_0"`):                                                          "1",
		series("rocketmq_consumer_connections", `consume_mode="push",consumer_group="G",is_system="false",language="go",protocol_type="remoting",version="v5_5_0"`): "1",
		series("rocketmq_go_consumer_group_online", `consumer_group="G"`):                                                                                           "1",
		series("rocketmq_go_put_latency_seconds_count", ""):                                                                                                         "4",
		series("rocketmq_go_metrics_dropped_series_total", ""):                                                                                                      "0",
		series("rocketmq_rpc_latency_count", rpc("send_message_v2", "success", "success")):                                                                          "4",
		series("rocketmq_rpc_latency_milliseconds_count", rpc("unknown", "request_code_not_supported", "success")):                                                  "1",
		series("rocketmq_rpc_latency_count", rpc("send_message_v2", "system_error", "process_request_failed")):                                                      "1",
		series("rocketmq_processor_watermark", `processor="admin"`):                                                                                                 "0",
		series("rocketmq_topic_create_execution_time_count", `invocation_status="success",is_system="false"`):                                                       "2",
		series("rocketmq_topic_create_execution_time_milliseconds_count", `invocation_status="success",is_system="false"`):                                          "2",
	} {
		if got[sample] != want {
			t.Errorf("%s is %q, want %s", sample, got[sample], want)
		}
	}
	for _, name := range []string{"rocketmq_consumer_lag_latency", "rocketmq_consumer_lag_latency_milliseconds"} {
		if v := got[series(name, gt)]; v == "" || strings.HasPrefix(v, "-") {
			t.Errorf("%s is %q", name, v)
		}
	}
	if got["go_goroutines"] == "" {
		t.Error("the runtime's metrics are missing")
	}
}

// rpc are the labels of a request that was not held.
func rpc(request, response, result string) string {
	return fmt.Sprintf(`is_long_polling="false",protocol_type="remoting",request_code=%q,response_code=%q,result=%q`, request, response, result)
}

// TestMetricTable compares what a broker serves with the table: every metric is there once something has happened.
func TestMetricTable(t *testing.T) {
	b := promBroker(t, nil)
	b.client.beat(consumerBeat("c", "G", "T"))
	b.client.beat(&body.HeartbeatData{ClientID: "p", ProducerDataSet: []body.ProducerData{{GroupName: "PG"}}})
	c := defaultGroup("G2")
	b.client.ok(code.UpdateAndCreateSubscriptionGroup, nil, &c)
	b.stats.deadLettered("G", "T")
	got := b.scraped()
	name := regexp.MustCompile(`^rocketmq_[a-z_]+$`)
	seen := map[string]bool{}
	for _, m := range Metrics() {
		for _, n := range (&m).names() {
			if seen[n] || !name.MatchString(n) || m.Help == "" || m.Type == counter != strings.HasSuffix(n, "_total") {
				t.Errorf("%s: twice, odd or without help", n)
			}
			seen[n] = true
			found := false
			for s := range got {
				found = found || strings.HasPrefix(s, n+"{") || strings.HasPrefix(s, n+"_count{")
			}
			if !found && !m.Grouped {
				t.Errorf("%s is not served", n)
			}
		}
	}
}

func TestLagOfOfflineGroups(t *testing.T) {
	b := promBroker(t, nil)
	b.restart()
	const gt = `consumer_group="G",is_retry="false",is_system="false",topic="T"`
	got := b.scraped()
	if v := got[series("rocketmq_consumer_lag_messages", gt)]; v != "2" {
		t.Errorf("lag after a restart: %q", v)
	}
	if v := got[series("rocketmq_go_consumer_group_online", `consumer_group="G"`)]; v != "0" {
		t.Errorf("online: %q", v)
	}
	b.client.ok(code.DeleteSubscriptionGroup, &header.DeleteSubscriptionGroupRequest{GroupName: "G"}, nil)
	if v, ok := b.scraped()[series("rocketmq_consumer_lag_messages", gt)]; ok {
		t.Errorf("lag of a deleted group: %q", v)
	}
}

func TestMetricsPort(t *testing.T) {
	b := promBroker(t, nil)
	b.client.ok(code.GetSystemTopicListFromBroker, nil, nil)
	for path, want := range map[string]int{"/-/healthy": 200, "/": 404, "/metrics/../x": 404} {
		resp, err := http.Get("http://" + b.metrics.addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if other := startBroker(t, nil); other.metrics != nil {
		t.Error("metrics are on by default")
	}
	taken := *b.conf.Load()
	taken.MetricsPromExporterPort = int32(mustPort(t, b.metrics.addr()))
	if x, err := newExporter(b.Broker, &taken); err == nil {
		t.Error("two on one port", x)
	}
}

func mustPort(t *testing.T, addr string) (port int) {
	if _, err := fmt.Sscanf(addr[strings.LastIndexByte(addr, ':')+1:], "%d", &port); err != nil {
		t.Fatal(err)
	}
	return port
}

func TestSeriesAreBounded(t *testing.T) {
	b := promBroker(t, nil)
	b.client.ok(code.GetSystemTopicListFromBroker, nil, nil)
	b.metrics.limit = 20
	for i := range 30 {
		b.stats.deadLettered("G", fmt.Sprint("T", i))
	}
	got := b.scraped()
	shown := 0
	for s := range got {
		if strings.HasPrefix(s, "rocketmq_send_to_dlq_messages_total{") {
			shown++
		}
	}
	if v := got[series("rocketmq_go_metrics_dropped_series_total", "")]; shown != 20 || v != "10" {
		t.Errorf("%d series, %q dropped", shown, v)
	}
}
