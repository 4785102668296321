package admin

import (
	"maps"
	"slices"
	"time"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func statsCommands() []command {
	return []command{
		{"statsAll", "Shows what goes into every topic and what every group takes out.", []option{
			{short: "a", long: "activeTopic", kind: none, brief: "only topics with messages in the last day"},
			{short: "t", long: "topic", brief: "only this topic"},
		}, nil, true, statsAll},
		{"brokerConsumeStats", "Shows how far every consumer group of a broker is.", []option{
			onBroker("broker, host:port").must(),
			{short: "t", long: "timeoutMillis", kind: long, brief: "time for the answer, 50000 if not given"},
			{short: "l", long: "level", kind: long, brief: "only queues that are at least so many messages behind"},
			{short: "o", long: "order", kind: yes, brief: "only ordered groups"},
		}, nil, true, brokerConsumeStats},
	}
}

func brokerConsumeStats(t *tool) error {
	h := header.GetConsumeStatsInBroker{IsOrder: t.given.yes("o", false)}
	timeout := time.Duration(t.given.number("t", 50_000)) * time.Millisecond
	list, err := decoded[body.ConsumeStatsList](t.callFor(timeout, t.given["b"], code.GetBrokerConsumeStats, &h, nil))
	if err == nil {
		t.showConsumeStats(list)
	}
	return err
}

func (t *tool) showConsumeStats(list *body.ConsumeStatsList) {
	const form = "%-64v  %-64v  %-32v  %-4v  %-20v  %-20v  %-20v  %v"
	tb := t.table(form, form, "#Topic", "#Group", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#LastTime")
	for _, groups := range list.ConsumeStatsList {
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			for _, stats := range groups[group] {
				for _, q := range sortedQueues(stats.OffsetTable) {
					o := stats.OffsetTable[q]
					if diff := o.BrokerOffset - o.ConsumerOffset; diff >= t.given.number("l", 0) && o.LastTimestamp > 0 {
						tb.add(fit{q.Topic, 64}, group, fit{q.BrokerName, 32}, q.QueueID, o.BrokerOffset, o.ConsumerOffset, diff, t.at(o.LastTimestamp, formSeconds, ""))
					}
				}
			}
		}
	}
	tb.end(func() { t.printf("\nDiff Total: %d\n", list.TotalDiff) })
}

func statsAll(t *tool) error {
	names, err := t.topics()
	if err != nil {
		return err
	}
	const form = "%-64v  %-64v %12v %11v %11v %14v %14v"
	tb := t.table(form, form, "#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
	for _, topic := range names {
		if ofGroup(topic) || t.given.has("t") && topic != t.given["t"] {
			continue
		}
		if err := t.topicStats(tb, topic); err != nil {
			return err
		}
	}
	tb.end(nil)
	return nil
}

// topicStats adds the rows of one topic: one for each group, or one if there is none.
func (t *tool) topicStats(tb *table, topic string) error {
	_, groups, err := t.readers(topic)
	if err != nil {
		return err
	}
	d, err := t.route(topic)
	if codeOf(err) == code.TopicNotExist {
		return nil // it was deleted since it was listed
	}
	if err != nil {
		return err
	}
	brokers := routed(d)
	in := t.counted(brokers, "TOPIC_PUT_NUMS", topic)
	if len(groups) == 0 {
		if !t.given.has("a") || in.day > 0 {
			tb.add(fit{topic, 64}, "", 0, in.tps, "", in.day, "NO_CONSUMER")
		}
		return nil
	}
	for _, group := range groups {
		out := t.counted(brokers, "GROUP_GET_NUMS", topic+"@"+group)
		behind := int64(0)
		if stats, err := t.consumeStats(group, topic); err == nil {
			behind, _ = total(stats)
		}
		if !t.given.has("a") || in.day > 0 || out.day > 0 {
			tb.add(fit{topic, 64}, fit{group, 64}, max(0, behind), in.tps, out.tps, in.day, out.day)
		}
	}
	return nil
}

// count is how much was counted of something.
type count struct {
	tps fixed // in the last minute
	day int64 // in the last 24 hours
}

// counted sums a statistic over brokers. One that has counted nothing answers that it does not know it.
func (t *tool) counted(brokers []replica, name, key string) (c count) {
	for _, b := range brokers {
		s, err := decoded[body.BrokerStatsData](t.call(b.addr, code.ViewBrokerStatsData, &header.ViewBrokerStatsDataRequest{StatsName: name, StatsKey: key}, nil))
		if err != nil {
			continue
		}
		c.tps += fixed(s.StatsMinute.Tps)
		for _, span := range []body.BrokerStatsItem{s.StatsDay, s.StatsHour, s.StatsMinute} { // a young broker has only short spans
			if span.Sum != 0 {
				c.day += span.Sum
				break
			}
		}
	}
	return c
}
