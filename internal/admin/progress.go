package admin

import (
	"maps"
	"strings"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// consumeStats asks the brokers of a group how far it is, in one topic or in all. Its retry topic tells which brokers it uses, or
// else the topic does.
func (t *tool) consumeStats(group, topic string) (*body.ConsumeStats, error) {
	brokers, err := t.groupBrokers(group, topic)
	if err != nil {
		return nil, err
	}
	all := &body.ConsumeStats{OffsetTable: map[body.MessageQueue]body.OffsetWrapper{}}
	for _, b := range brokers {
		part, err := decoded[body.ConsumeStats](t.callFor(statsTimeout, b.addr, code.GetConsumeStats, &header.GetConsumeStatsRequest{ConsumerGroup: group, Topic: topic}, nil))
		if err != nil {
			return nil, err
		}
		maps.Copy(all.OffsetTable, part.OffsetTable)
		all.ConsumeTps += part.ConsumeTps
	}
	return all, nil
}

// groupBrokers lists the brokers that a group uses.
func (t *tool) groupBrokers(group, topic string) ([]replica, error) {
	d, err := t.route(t.given.or(byRoute, message.RetryPrefix+group))
	if topic != "" && codeOf(err) == code.TopicNotExist {
		d, err = t.route(topic)
	}
	if err != nil {
		return nil, err
	}
	return routed(d), nil
}

// consumers asks for the members of a group; its brokers know them all.
func (t *tool) consumers(group string) (*body.ConsumerConnection, error) {
	brokers, err := t.groupBrokers(group, "")
	if err != nil {
		return nil, err
	}
	var last error = &answerError{code: code.ConsumerNotOnline, remark: "the consumer group[" + group + "] has no broker"}
	for _, b := range brokers {
		c, err := t.consumersAt(b.addr, group)
		if err == nil {
			return c, nil
		}
		last = err
	}
	return nil, last
}

func (t *tool) consumersAt(addr, group string) (*body.ConsumerConnection, error) {
	c, err := decoded[body.ConsumerConnection](t.call(addr, code.GetConsumerConnectionList, &header.GetConsumerConnectionListRequest{ConsumerGroup: group}, nil))
	if err == nil && len(c.ConnectionSet) == 0 {
		err = &answerError{code.ConsumerNotOnline, "the consumer group[" + group + "] not online", addr}
	}
	return c, err
}

// runningInfo asks a member of a group for its state, through the broker.
func (t *tool) runningInfo(addr, group, id string, stack bool) (*body.ConsumerRunningInfo, error) {
	h := header.GetConsumerRunningInfoRequest{ConsumerGroup: group, ClientID: id, JstackEnable: stack}
	return decoded[body.ConsumerRunningInfo](t.callFor(statsTimeout, addr, code.GetConsumerRunningInfo, &h, nil))
}

// total sums what a group has left to consume, and what it has fetched and not finished.
func total(s *body.ConsumeStats) (diff, inflight int64) {
	for _, o := range s.OffsetTable {
		diff += o.BrokerOffset - o.ConsumerOffset
		inflight += max(0, o.PullOffset-o.ConsumerOffset)
	}
	return diff, inflight
}

func consumerProgress(t *tool) error {
	if !t.given.has("g") {
		return t.allProgress()
	}
	group := t.given["g"]
	stats, err := t.consumeStats(group, t.given["t"])
	if err != nil {
		return err
	}
	if len(stats.OffsetTable) == 0 {
		return &answerError{code: code.ConsumerNotOnline, remark: "the consumer group[" + group + "] has no offsets: it has not consumed yet"}
	}
	var owners map[body.MessageQueue]string
	if t.given.yes("s", false) {
		if owners, err = t.owners(group); err != nil {
			return err
		}
	}
	t.showProgress(stats, owners)
	return nil
}

// owners tells the address of the member that has each queue.
func (t *tool) owners(group string) (map[body.MessageQueue]string, error) {
	owners := map[body.MessageQueue]string{}
	members, err := t.consumers(group)
	if err != nil {
		return owners, err
	}
	brokers, err := t.groupBrokers(group, "")
	if err != nil {
		return owners, err
	}
	for _, m := range members.ConnectionSet {
		for _, b := range brokers {
			info, err := t.runningInfo(b.addr, group, m.ClientID, false)
			if err != nil {
				continue // the member may be gone, or speak another language
			}
			address, _, _ := strings.Cut(m.ClientID, "@")
			for q := range info.MqTable {
				owners[q] = address
			}
			break
		}
	}
	return owners, nil
}

// showProgress prints the offsets of a group; owners is nil if they are not wanted.
func (t *tool) showProgress(stats *body.ConsumeStats, owners map[body.MessageQueue]string) {
	head, row := "%-64v  %-32v  %-4v  %-20v  %-20v  %-20v %-20v%v", "%-64v  %-32v  %-4v  %-20v  %-20v  %-20v %-20v %v"
	columns := []string{"#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#Inflight", "#LastTime"}
	if owners != nil {
		head, row = "%-64v  %-32v  %-4v  %-20v  %-20v  %-20v %-20v %-20v%v", "%-64v  %-32v  %-4v  %-20v  %-20v  %-20v %-20v %-20v %v"
		columns = append(columns[:5:5], append([]string{"#Client IP"}, columns[5:]...)...)
	}
	tb := t.table(head, row, columns...)
	for _, q := range sortedQueues(stats.OffsetTable) {
		o := stats.OffsetTable[q]
		cells := []any{fit{q.Topic, 64}, fit{q.BrokerName, 32}, q.QueueID, o.BrokerOffset, o.ConsumerOffset}
		if owners != nil {
			address := owners[q]
			if address == "" {
				address = "N/A"
			}
			cells = append(cells, address)
		}
		tb.add(append(cells, o.BrokerOffset-o.ConsumerOffset, max(0, o.PullOffset-o.ConsumerOffset), t.at(o.LastTimestamp, formSeconds, "N/A"))...)
	}
	diff, inflight := total(stats)
	tb.end(func() {
		t.printf("\nConsume TPS: %v\nConsume Diff Total: %d\nConsume Inflight Total: %d\n", fixed(stats.ConsumeTps), diff, inflight)
	})
}

// groupRow is a group in the list of all.
type groupRow struct {
	name, version, kind, model string
	members                    int
	tps, diff                  int64
}

// allProgress lists the groups that have a retry topic, which they have once a member was online.
func (t *tool) allProgress() error {
	names, err := t.topics()
	if err != nil {
		return err
	}
	const form = "%-64v  %-6v  %-24v %-5v  %-14v  %-7v  %v"
	tb := t.table(form, form, "#Group", "#Count", "#Version", "#Type", "#Model", "#TPS", "#Diff Total")
	for _, name := range names {
		group, ok := strings.CutPrefix(name, message.RetryPrefix)
		if !ok {
			continue
		}
		r := t.groupRow(group)
		tb.add(fit{r.name, 64}, r.members, r.version, r.kind, r.model, r.tps, r.diff)
	}
	tb.end(nil)
	return nil
}

// groupRow gathers what can be learnt of a group. What cannot stays empty, as in RocketMQ's tool: a list of many groups must not end
// at one.
func (t *tool) groupRow(group string) groupRow {
	r := groupRow{name: group, version: "OFFLINE"}
	if stats, err := t.consumeStats(group, ""); err == nil {
		r.tps = int64(stats.ConsumeTps)
		r.diff, _ = total(stats)
	}
	c, err := t.consumers(group)
	if err != nil {
		return r
	}
	r.members, r.kind = len(c.ConnectionSet), "PUSH"
	lowest := c.ConnectionSet[0].Version
	for _, m := range c.ConnectionSet {
		lowest = min(lowest, m.Version)
	}
	r.version = code.Version(lowest).String()
	if c.ConsumeType == body.ConsumeActively {
		r.kind = "PULL"
	} else {
		r.model = string(c.MessageModel)
	}
	return r
}
