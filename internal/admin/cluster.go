package admin

import (
	"fmt"
	"strconv"
	"strings"
)

func clusterCommands() []command {
	return []command{
		{"clusterList", "Lists the brokers of all clusters and what they do.", []option{
			{short: "m", long: "moreStats", kind: none, brief: "show the messages of today and yesterday"},
			{short: "i", long: "interval", kind: long, brief: "list them again every so many seconds"},
			onCluster("only this cluster"),
		}, nil, true, clusterList},
	}
}

func clusterList(t *tool) error {
	return t.every(t.given.number("i", 0), func() error {
		info, err := t.clusterInfo()
		if err != nil {
			return err
		}
		show := (*tool).clusterTable
		if t.given.has("m") {
			show = (*tool).clusterTotals
		}
		var rows []brokerRow
		for _, r := range replicas(info, t.given["c"]) {
			table, err := t.runtimeInfo(r.addr)
			rows = append(rows, brokerRow{r, table, err})
		}
		show(t, rows)
		return silent(rows)
	})
}

// brokerRow is a broker with its runtime information. One that does not answer is listed without.
type brokerRow struct {
	replica
	info map[string]string
	err  error
}

// silent tells which brokers did not answer.
func silent(rows []brokerRow) error {
	return onEach(rows, func(r brokerRow) error { return r.err })
}

// number reads the first of the numbers in a value, 0 if there is none.
func (r *brokerRow) number(key string) float64 {
	first, _, _ := strings.Cut(strings.TrimSpace(r.info[key]), " ")
	f, _ := strconv.ParseFloat(first, 64)
	return f
}

// queue is the number of requests that wait in a pool, and how long the first one has.
func (r *brokerRow) queue(pool string) string {
	return fmt.Sprintf("%.0f,%.0fms", r.number(pool+"ThreadPoolQueueSize"), r.number(pool+"ThreadPoolQueueHeadWaitTimeMills"))
}

func (t *tool) clusterTable(rows []brokerRow) {
	tb := t.table("%-22v  %-22v  %-4v  %-22v %-16v  %16v  %30v  %-22v  %-11v  %-12v  %-8v  %-10v",
		"%-22v  %-22v  %-4v  %-22v %-16v  %16v  %30v  %-22v  %11v  %-12v  %-8v  %10v", "#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version",
		"#InTPS(LOAD)", "#OutTPS(LOAD)", "#Timer(Progress)", "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED")
	for _, r := range rows {
		in := fmt.Sprintf("%9.2f(%s)", r.number("putTps"), r.queue("send"))
		out := fmt.Sprintf("%9.2f(%s|%s)", r.number("getTransferredTps"), r.queue("pull"), r.queue("ack"))
		timer := fmt.Sprintf("%.0f-%.0f(%.1fw, %.1f, %.1f)", r.number("timerReadBehind"), r.number("timerOffsetBehind"), r.number("timerCongestNum")/10000,
			r.number("timerEnqueueTps"), r.number("timerDequeueTps"))
		hours := 0.0
		if first := r.number("earliestMessageTimeStamp"); first > 0 {
			hours = (float64(t.clk.NowMs()) - first) / (3600 * 1000)
		}
		tb.add(r.cluster, r.name, r.id, r.addr, r.info["brokerVersionDesc"], in, out, timer, int64(r.number("pageCacheLockTimeMills")), fixed(hours),
			ratio(r.number("commitLogDiskRatio")), r.info["brokerActive"])
	}
	tb.end(nil)
}

func (t *tool) clusterTotals(rows []brokerRow) {
	const form = "%-16v  %-32v %14v %14v %14v %14v"
	tb := t.table(form, form, "#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
	for _, r := range rows {
		counts := func(kind string) (yesterday, today int64) {
			before, morning := r.number("msg"+kind+"TotalYesterdayMorning"), r.number("msg"+kind+"TotalTodayMorning")
			return int64(morning - before), int64(r.number("msg"+kind+"TotalTodayNow") - morning)
		}
		inYesterday, inToday := counts("Put")
		outYesterday, outToday := counts("Get")
		tb.add(r.cluster, r.name, inYesterday, outYesterday, inToday, outToday)
	}
	tb.end(nil)
}
