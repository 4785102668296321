package broker

import (
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// statsNames is what VIEW_BROKER_STATS_DATA knows: how to find the growth that a key means. A group's key is topic@group.
var statsNames = map[string]func(s *stats, key string) ([3]body.BrokerStatsItem, bool){
	"TOPIC_PUT_NUMS": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) { return s.topicGrowth(key, messagesOf) },
	"TOPIC_PUT_SIZE": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) { return s.topicGrowth(key, bytesOf) },
	"GROUP_GET_NUMS": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) {
		return s.groupGrowth(key, gotOf, messagesOf)
	},
	"GROUP_GET_SIZE": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) { return s.groupGrowth(key, gotOf, bytesOf) },
	"SNDBCK_PUT_NUMS": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) {
		return s.groupGrowth(key, backOf, messagesOf)
	},
	"BROKER_PUT_NUMS": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) {
		return s.totalGrowth(key, &s.in, &s.rates.in)
	},
	"BROKER_GET_NUMS": func(s *stats, key string) ([3]body.BrokerStatsItem, bool) {
		return s.totalGrowth(key, &s.out, &s.rates.out)
	},
}

func gotOf(g *groupStats) (*traffic, *history)  { return &g.got, &g.pastGot }
func backOf(g *groupStats) (*traffic, *history) { return &g.back, &g.pastBack }

func (s *stats) topicGrowth(topic string, value func(count) int64) (out [3]body.BrokerStatsItem, ok bool) {
	row := s.topics.get(topic)
	if row == nil {
		return out, false
	}
	return row.past.growth(s.b.clk.NowMs(), row.count(), value), true
}

func (s *stats) groupGrowth(key string, of func(*groupStats) (*traffic, *history), value func(count) int64) (out [3]body.BrokerStatsItem, ok bool) {
	topic, group, _ := strings.Cut(key, "@")
	row := s.groups.get(groupTopic{group, topic})
	if row == nil {
		return out, false
	}
	t, past := of(row)
	c := t.count()
	return past.growth(s.b.clk.NowMs(), c, value), c != count{}
}

func (s *stats) totalGrowth(cluster string, t *traffic, past *history) (out [3]body.BrokerStatsItem, ok bool) {
	c := t.count()
	if cluster != s.b.conf.Load().BrokerClusterName || c == (count{}) {
		return out, false
	}
	return past.growth(s.b.clk.NowMs(), c, messagesOf), true
}

// putTPS is how many messages a second were stored in a topic during the last minute.
func (s *stats) putTPS(topic string) float64 {
	growth, _ := s.topicGrowth(topic, messagesOf)
	return growth[0].Tps
}

// getTPS is how many messages of a topic a group got a second during the last minute.
func (s *stats) getTPS(group, topic string) float64 {
	row := s.groups.get(groupTopic{group, topic})
	if row == nil {
		return 0
	}
	return row.pastGot.growth(s.b.clk.NowMs(), row.got.count(), messagesOf)[0].Tps
}

// handleViewStats serves VIEW_BROKER_STATS_DATA.
func (b *Broker) handleViewStats(r *remoting.Request, h *header.ViewBrokerStatsDataRequest) error {
	if find := statsNames[h.StatsName]; find != nil {
		if growth, ok := find(b.stats, h.StatsKey); ok {
			return r.OK(nil, fastjson.Marshal(&body.BrokerStatsData{StatsMinute: growth[0], StatsHour: growth[1], StatsDay: growth[2]}))
		}
	}
	return code.New(code.SystemError, "The stats <%s> <%s> not exist", h.StatsName, h.StatsKey)
}
