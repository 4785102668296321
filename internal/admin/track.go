package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
)

// tracks prints for every group of a message's topic whether it has consumed the message (DefaultMQAdminExtImpl.messageTrackDetail).
func (t *tool) tracks(m *msg) error {
	_, groups, err := t.readers(string(m.view.Topic()))
	if err != nil {
		return err
	}
	t.printf("\n\n")
	if len(groups) == 0 {
		t.printf("WARN: No Consumer\n")
	}
	for _, g := range groups {
		state, cause := t.track(m, g)
		t.printf("MessageTrack [consumerGroup=%s, trackType=%s, exceptionDesc=%s]\n", g, state, notGiven(cause))
	}
	return nil
}

// track tells what became of a message in a group, and what kept the tool from finding out.
func (t *tool) track(m *msg, group string) (state, cause string) {
	members, err := t.consumers(group)
	if err != nil {
		return trackOf(err), causeOf(err)
	}
	switch {
	case members.ConsumeType == body.ConsumeActively:
		return "PULL", ""
	case members.MessageModel == body.Broadcasting:
		return "CONSUME_BROADCASTING", ""
	}
	stats, err := t.consumeStats(group, string(m.view.Topic()))
	if err != nil {
		return trackOf(err), causeOf(err)
	}
	return consumed(m, members, stats), ""
}

// consumed judges by the offsets and the subscription of a group.
func consumed(m *msg, members *body.ConsumerConnection, stats *body.ConsumeStats) string {
	topic := string(m.view.Topic())
	for q, o := range stats.OffsetTable {
		if q.Topic != topic || q.QueueID != m.view.QueueID() || m.broker != "" && q.BrokerName != m.broker {
			continue
		}
		if o.ConsumerOffset <= m.view.QueueOffset() {
			return "NOT_CONSUME_YET"
		}
		s, ok := members.SubscriptionTable[topic]
		if ok && s.ExpressionType == "TAG" && !strings.Contains(s.SubString, "*") && !slices.Contains(s.TagsSet, m.props[message.PropTags]) {
			return "CONSUMED_BUT_FILTERED"
		}
		return "CONSUMED"
	}
	return "NOT_CONSUME_YET"
}

// trackOf is the state that a refusal means.
func trackOf(err error) string {
	switch codeOf(err) {
	case code.ConsumerNotOnline:
		return "NOT_ONLINE"
	case code.BroadcastConsumption:
		return "CONSUME_BROADCASTING"
	}
	return "UNKNOWN"
}

// causeOf is what kept the tool from finding out, in the form of RocketMQ's tool.
func causeOf(err error) string {
	var e *answerError
	if errors.As(err, &e) {
		return fmt.Sprintf("CODE:%d DESC:%s", e.code, oneLine(e.remark))
	}
	return oneLine(err.Error())
}
