package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/castor-mq/castor/remoting/body"
)

// runningText is the state of a consumer in the form of Java's ConsumerRunningInfo.formatString.
func (t *tool) runningText(info *body.ConsumerRunningInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#Consumer Properties#\n")
	for _, key := range slices.Sorted(maps.Keys(info.Properties)) {
		fmt.Fprintf(&b, "%-40s: %s\n", key, info.Properties[key])
	}
	fmt.Fprintf(&b, "\n\n#Consumer Subscription#\n")
	subscriptions := slices.SortedFunc(slices.Values(info.SubscriptionSet), func(x, y body.SubscriptionData) int { return strings.Compare(x.Topic, y.Topic) })
	for i, s := range subscriptions {
		fmt.Fprintf(&b, "%03d Topic: %-40s ClassFilter: %-8t SubExpression: %s\n", i+1, s.Topic, s.ClassFilterMode, s.SubString)
	}
	const queues = "%-64s  %-32s  %-4s  %-20s\n"
	fmt.Fprintf(&b, "\n\n#Consumer Offset#\n"+queues, "#Topic", "#Broker Name", "#QID", "#Consumer Offset")
	for _, q := range sortedQueues(info.MqTable) {
		fmt.Fprintf(&b, "%-32s  %-32s  %-4d  %-20d\n", q.Topic, q.BrokerName, q.QueueID, info.MqTable[q].CommitOffset)
	}
	fmt.Fprintf(&b, "\n\n#Consumer MQ Detail#\n"+queues, "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")
	for _, q := range sortedQueues(info.MqTable) {
		fmt.Fprintf(&b, "%-64s  %-32s  %-4d  %s\n", q.Topic, q.BrokerName, q.QueueID, t.processText(info.MqTable[q]))
	}
	fmt.Fprintf(&b, "\n\n#Consumer Pop Detail#\n%-32s  %-32s  %-4s  %-20s\n", "#Topic", "#Broker Name", "#QID", "#ProcessQueueInfo")
	for _, q := range sortedQueues(info.MqPopTable) {
		p := info.MqPopTable[q]
		fmt.Fprintf(&b, "%-32s  %-32s  %-4d  PopProcessQueueInfo [waitAckCount:%d, droped:%t, lastPopTimestamp:%d]\n", q.Topic, q.BrokerName, q.QueueID, p.WaitAckCount, p.Dropped, p.LastPopTimestamp)
	}
	fmt.Fprintf(&b, "\n\n#Consumer RT&TPS#\n%-64s  %14s %14s %14s %14s %18s %25s\n", "#Topic", "#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS", "#ConsumeFailed TPS", "#ConsumeFailedMsgsInHour")
	for _, topic := range slices.Sorted(maps.Keys(info.StatusTable)) {
		s := info.StatusTable[topic]
		fmt.Fprintf(&b, "%-32s  %14.2f %14.2f %14.2f %14.2f %18.2f %25d\n", topic, s.PullRT, s.PullTPS, s.ConsumeRT, s.ConsumeOKTPS, s.ConsumeFailedTPS, s.ConsumeFailedMsgs)
	}
	fmt.Fprintf(&b, "\n\n#User Consume Info#\n")
	for _, key := range slices.Sorted(maps.Keys(info.UserConsumerInfo)) {
		fmt.Fprintf(&b, "%-40s: %s\n", key, info.UserConsumerInfo[key])
	}
	if info.Jstack != "" {
		fmt.Fprintf(&b, "\n\n#Consumer jstack#\n%s", info.Jstack)
	}
	return b.String()
}

func (t *tool) processText(p body.ProcessQueueInfo) string {
	return fmt.Sprintf("ProcessQueueInfo [commitOffset=%d, cachedMsgMinOffset=%d, cachedMsgMaxOffset=%d, cachedMsgCount=%d, cachedMsgSizeInMiB=%d, "+
		"transactionMsgMinOffset=%d, transactionMsgMaxOffset=%d, transactionMsgCount=%d, locked=%t, tryUnlockTimes=%d, lastLockTimestamp=%s, droped=%t, "+
		"lastPullTimestamp=%s, lastConsumeTimestamp=%s]", p.CommitOffset, p.CachedMsgMinOffset, p.CachedMsgMaxOffset, p.CachedMsgCount, p.CachedMsgSizeInMiB,
		p.TransactionMsgMinOffset, p.TransactionMsgMaxOffset, p.TransactionMsgCount, p.Locked, p.TryUnlockTimes, t.digits(p.LastLockTimestamp), p.Dropped,
		t.digits(p.LastPullTimestamp), t.digits(p.LastConsumeTimestamp))
}

// digits is a time as yyyyMMddHHmmssSSS.
func (t *tool) digits(ms int64) string {
	return strings.Replace(time.UnixMilli(ms).In(t.zone).Format("20060102150405.000"), ".", "", 1)
}
