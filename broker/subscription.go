package broker

import (
	"strings"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/message/filter"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/store"
)

// subscription is what a group wants of one topic, ready to filter with. It is immutable.
type subscription struct {
	data *body.SubscriptionData
	tags *filter.Tags // of a TAG expression, else nil
	expr *filter.Expr // of an SQL92 expression that compiles, else nil
	err  error        // why an SQL92 expression does not compile
}

const (
	typeTag = "TAG"
	typeSQL = "SQL92"
)

// isTag tells whether an expression type means tags: none at all does.
func isTag(expressionType string) bool { return expressionType == "" || expressionType == typeTag }

// newSubscription prepares what a heartbeat registered.
func (b *Broker) newSubscription(d *body.SubscriptionData) *subscription {
	s := &subscription{data: d}
	if isTag(d.ExpressionType) {
		s.tags, s.err = filter.ParseTags(d.SubString)
		if s.err != nil {
			s.tags = &filter.Tags{}
		}
		return s
	}
	s.expr, s.err = b.filters.Compile(d.SubString)
	return s
}

// parseSubscription prepares the expression that a pull carries. Unlike Java's, an SQL92 expression that does not compile is an
// error: it would match every message.
func (b *Broker) parseSubscription(topic, text, expressionType string, version int64) (*subscription, error) {
	if isTag(expressionType) && (text == "*" || text == "") {
		return everything, nil
	}
	s := b.newSubscription(&body.SubscriptionData{Topic: strings.Clone(topic), SubString: strings.Clone(text), ExpressionType: strings.Clone(expressionType), SubVersion: version})
	return s, s.err
}

// everything is the subscription "*".
var everything = func() *subscription {
	all, _ := filter.ParseTags("*")
	return &subscription{data: &body.SubscriptionData{SubString: "*", ExpressionType: typeTag}, tags: all}
}()

// filter returns how the store filters for the subscription. The retries of a group are for the whole group: an expression is
// applied to them only with filterSupportRetry.
func (s *subscription) filter(topic string, c *conf.Broker) store.Filter {
	switch {
	case s.tags != nil && s.tags.All():
		return store.Filter{}
	case s.tags != nil:
		return store.Filter{Tags: s.tags.MatchCode}
	case message.IsRetryTopic(topic) && !c.FilterSupportRetry:
		return store.Filter{}
	}
	return store.Filter{Props: func(p message.Props) bool { return s.expr.Match(p) }}
}
