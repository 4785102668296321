package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/store"
)

// handleRuntime serves GET_BROKER_RUNTIME_INFO. Tools parse the values without looking whether they are there: every key that a
// Java broker shows is shown, in its form.
func (b *Broker) handleRuntime(r *remoting.Request) error {
	t := runtimeTable{}
	b.runtimeBroker(t)
	b.runtimeStore(t)
	b.runtimeLanes(t)
	b.stats.runtime(t)
	return r.OK(nil, fastjson.Marshal(&body.KVTable{Table: t}))
}

// runtimeTable is the answer.
type runtimeTable map[string]string

func (t runtimeTable) int(key string, v int64) { t[key] = strconv.FormatInt(v, 10) }

func (t runtimeTable) float(key string, v float64) { t[key] = javaFloat(v) }

// javaFloat writes a number so that it always has a point.
func javaFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (b *Broker) runtimeBroker(t runtimeTable) {
	t["brokerActive"] = strconv.FormatBool(b.reigns()) // of a replica: false
	t["acknowledged"] = b.promise().String()
	if err := b.ill(); err != nil {
		t["sick"] = err.Error()
	}
	t["brokerVersionDesc"] = code.Current.String()
	t.int("brokerVersion", int64(code.Current)) // of older brokers; exporters parse it
	boot := b.store.BootTime()
	t.int("bootTimestamp", boot.UnixMilli())
	up := b.clk.Now().Sub(boot)
	t["runtime"] = fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", int(up.Hours())/24, int(up.Hours())%24, int(up.Minutes())%60, int(up.Seconds())%60)
	t.int("startAcceptSendRequestTimeStamp", b.conf.Load().StartAcceptSendRequestTimeStamp)
	// There is no timer, no page cache lock, no transient buffer pool and no dispatch buffer; tools want to see them all the same.
	for _, key := range []string{"timerReadBehind", "timerOffsetBehind", "timerCongestNum", "pageCacheLockTimeMills", "dispatchMaxBuffer"} {
		t.int(key, 0)
	}
	t.float("timerEnqueueTps", 0)
	t.float("timerDequeueTps", 0)
	t.int("remainTransientStoreBufferNumbs", 1<<31-1)
}

func (b *Broker) runtimeStore(t runtimeTable) {
	s := b.store
	end := s.Log.End()
	t.int("commitLogMinOffset", s.Log.Min())
	t.int("commitLogMaxOffset", end)
	t.int("dispatchBehindBytes", max(end-s.Dispatched(), 0))
	t["remainHowManyDataToFlush"] = binarySize(max(end-s.Log.Flushed(), 0))
	t.int("earliestMessageTimeStamp", s.Log.FirstStoreTime(s.Log.Min()))
	log, rest := s.DiskUsed()
	t.float("commitLogDiskRatio", float64(log)/100)
	t.float("commitLogDiskRatio_"+b.conf.Load().StorePathCommitLog, float64(log)/100)
	t.float("consumeQueueDiskRatio", float64(rest)/100)
	if total, free, err := s.LogCapacity(); err == nil {
		t["commitLogDirCapacity"] = fmt.Sprintf("Total : %s, Free : %s.", binarySize(total), binarySize(free))
	}
	t.int("putMessageFailedTimes", s.Stats().PutFailed.Load())
	for level, offset := range s.State.DelayOffsets() {
		var end int64
		if q := s.Queues.Get(store.ScheduleTopic, level-1); q != nil {
			end = q.Max()
		}
		t[fmt.Sprintf("scheduleMessageOffset_%d", level)] = fmt.Sprintf("%d,%d", offset, end)
	}
}

// binarySize writes bytes as people read them (UtilAll.humanReadableByteCount).
func binarySize(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for ; v >= 1024 && unit < 5; unit++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
}

// runtimeLanes tells what waits. Java has an executor for each kind of request; here most are served at once. A send waits for
// its confirmation, and pulls and light pulls share a lane.
func (b *Broker) runtimeLanes(t runtimeTable) {
	c := b.conf.Load()
	row := func(name string, size, capacity int, wait time.Duration) {
		t.int(name+"ThreadPoolQueueSize", int64(size))
		t.int(name+"ThreadPoolQueueCapacity", int64(capacity))
		t.int(name+"ThreadPoolQueueHeadWaitTimeMills", wait.Milliseconds())
	}
	row("send", b.store.Waiting(), int(c.SendThreadPoolQueueCapacity), 0)
	pull, query := b.lanes.pull, b.lanes.query
	row("pull", pull.Depth(), pull.Capacity(), pull.HeadWait())
	row("litePull", 0, int(c.LitePullThreadPoolQueueCapacity), 0)
	row("query", query.Depth(), query.Capacity(), query.HeadWait())
	row("ack", 0, int(c.AckThreadPoolQueueCapacity), 0)
	t.int("EndTransactionQueueSize", 0)
	t.int("EndTransactionThreadPoolQueueCapacity", int64(c.EndTransactionPoolQueueCapacity))
}

// putTimeRanges are the columns of putMessageDistributeTime: names and where they end, in ms.
var putTimeRanges = []struct {
	name  string
	below int64
}{{"<=0ms", 1}, {"0~10ms", 10}, {"10~50ms", 50}, {"50~100ms", 100}, {"100~200ms", 200}, {"200~500ms", 500}, {"500ms~1s", 1000},
	{"1~2s", 2000}, {"2~3s", 3000}, {"3~4s", 4000}, {"4~5s", 5000}, {"5~10s", 10_000}, {"10s~", 1 << 62}}

// runtime adds what was counted.
func (s *stats) runtime(t runtimeTable) {
	in := s.in.count()
	t.int("putMessageTimesTotal", max(in.messages, 1)) // tools divide by it
	t.int("putMessageSizeTotal", in.bytes)
	t.float("putMessageAverageSize", float64(in.bytes)/float64(max(in.messages, 1)))
	t.int("putMessageEntireTimeMax", s.putTimes.max.Load())
	t.int("getMessageEntireTimeMax", 0) // pulls are not timed
	counts := s.putTimes.recent()
	t["putLatency99"] = fmt.Sprintf("%.2f", quantile(&counts, 0.99))
	t["putLatency999"] = fmt.Sprintf("%.2f", quantile(&counts, 0.999))
	t["putMessageDistributeTime"] = distribution(&counts)

	s.mu.Lock()
	defer s.mu.Unlock()
	put := func(r *rateSample) int64 { return r.put }
	found := func(r *rateSample) int64 { return r.found }
	missed := func(r *rateSample) int64 { return r.missed }
	sent := func(r *rateSample) int64 { return r.messagesSent }
	t.tps("putTps", s.rates.perSecond(put))
	t.tps("getFoundTps", s.rates.perSecond(found))
	t.tps("getMissTps", s.rates.perSecond(missed))
	t.tps("getTotalTps", s.rates.perSecond(func(r *rateSample) int64 { return found(r) + missed(r) }))
	t.tps("getTransferredTps", s.rates.perSecond(sent))
	t.tps("getTransferedTps", s.rates.perSecond(sent)) // as older brokers spell it
	t.int("msgPutTotalYesterdayMorning", s.days.yesterday.put)
	t.int("msgPutTotalTodayMorning", s.days.today.put)
	t.int("msgPutTotalTodayNow", in.messages)
	t.int("msgGetTotalYesterdayMorning", s.days.yesterday.get)
	t.int("msgGetTotalTodayMorning", s.days.today.get)
	t.int("msgGetTotalTodayNow", s.out.messages.Load())
}

// tps writes the averages of 10 s, 60 s and 600 s.
func (t runtimeTable) tps(key string, v [3]float64) {
	t[key] = javaFloat(v[0]) + " " + javaFloat(v[1]) + " " + javaFloat(v[2])
}

// distribution counts the times of sends by range.
func distribution(counts *[latencyBuckets]int64) string {
	var out strings.Builder
	i := 0
	for _, r := range putTimeRanges {
		var n int64
		for ; i < len(counts) && latencyFloor(i) < r.below; i++ {
			n += counts[i]
		}
		fmt.Fprintf(&out, "[%s]:%d ", r.name, n)
	}
	return out.String()
}
