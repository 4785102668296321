package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castor-mq/castor/remoting/body"
)

// The texts that Java's toString makes of these classes are part of what scripts parse.

// Bits of a permission (PermName).
const (
	permInherit = 1
	permWrite   = 2
	permRead    = 4
)

// permText is a permission as three letters, RW- for reading and writing.
func permText(perm int32) string {
	text := []byte("---")
	for i, bit := range []int32{permRead, permWrite, permInherit} {
		if perm&bit != 0 {
			text[i] = "RWX"[i]
		}
	}
	return string(text)
}

// javaMap formats a map in the order of its keys.
func javaMap[K cmp.Ordered, V any](m map[K]V) string {
	items := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		items = append(items, fmt.Sprintf("%v=%v", k, m[k]))
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// javaList formats a list.
func javaList[T any](list []T) string {
	items := make([]string, len(list))
	for i, v := range list {
		items[i] = fmt.Sprint(v)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func topicText(c *body.TopicConfig) string {
	return fmt.Sprintf("TopicConfig [topicName=%s, readQueueNums=%d, writeQueueNums=%d, perm=%s, topicFilterType=%s, topicSysFlag=%d, order=%t, attributes=%s]",
		c.TopicName, c.ReadQueueNums, c.WriteQueueNums, permText(c.Perm), c.TopicFilterType, c.TopicSysFlag, c.Order, javaMap(c.Attributes))
}

func queueText(q body.MessageQueue) string {
	return fmt.Sprintf("MessageQueue [topic=%s, brokerName=%s, queueId=%d]", q.Topic, q.BrokerName, q.QueueID)
}

// groupField is a member of SubscriptionGroupConfig with its text.
type groupField struct {
	name  string
	value any
}

// groupFields lists a group's configuration in the order of the Java class.
func groupFields(c *body.SubscriptionGroupConfig) []groupField {
	subscriptions := "null"
	if c.SubscriptionDataSet != nil {
		var list []string
		for _, s := range c.SubscriptionDataSet {
			list = append(list, fmt.Sprintf("SimpleSubscriptionData{topic='%s', expressionType='%s', expression='%s', version=%d}", s.Topic, s.ExpressionType, s.Expression, s.Version))
		}
		slices.Sort(list)
		subscriptions = "[" + strings.Join(list, ", ") + "]"
	}
	return []groupField{
		{"groupName", c.GroupName}, {"consumeEnable", c.ConsumeEnable}, {"consumeFromMinEnable", c.ConsumeFromMinEnable},
		{"consumeBroadcastEnable", c.ConsumeBroadcastEnable}, {"consumeMessageOrderly", c.ConsumeMessageOrderly}, {"retryQueueNums", c.RetryQueueNums},
		{"retryMaxTimes", c.RetryMaxTimes}, {"groupRetryPolicy", policyText(&c.GroupRetryPolicy)}, {"brokerId", c.BrokerID},
		{"whichBrokerWhenConsumeSlowly", c.WhichBrokerWhenConsumeSlowly}, {"notifyConsumerIdsChangedEnable", c.NotifyConsumerIdsChangedEnable},
		{"groupSysFlag", c.GroupSysFlag}, {"consumeTimeoutMinute", c.ConsumeTimeoutMinute}, {"subscriptionDataSet", subscriptions},
		{"attributes", javaMap(c.Attributes)},
	}
}

func groupText(c *body.SubscriptionGroupConfig) string {
	var items []string
	for _, f := range groupFields(c) {
		items = append(items, fmt.Sprintf("%s=%v", f.name, f.value))
	}
	return "SubscriptionGroupConfig{" + strings.Join(items, ", ") + "}"
}

func policyText(p *body.GroupRetryPolicy) string {
	exponential, customized := "null", "null"
	if e := p.ExponentialRetryPolicy; e != nil {
		exponential = fmt.Sprintf("ExponentialRetryPolicy{initial=%d, max=%d, multiplier=%d}", e.Initial, e.Max, e.Multiplier)
	}
	if c := p.CustomizedRetryPolicy; c != nil {
		customized = "CustomizedRetryPolicy{next=" + javaList(c.Next) + "}"
	}
	return fmt.Sprintf("GroupRetryPolicy{type=%s, exponentialRetryPolicy=%s, customizedRetryPolicy=%s}", p.Type, exponential, customized)
}
