package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// load runs `castor bench ARGS --json` against the fake and returns its exit code and result.
func (b *fakeBroker) load(t *testing.T, out any, args ...string) int {
	t.Helper()
	var stdout, stderr bytes.Buffer
	rc := run(t.Context(), append(args, "-n", b.addr, "-t", "T", "--json"), &stdout, &stderr)
	if stdout.Len() == 0 {
		t.Fatalf("exit code %d: %s", rc, stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), out); err != nil {
		t.Fatal(err)
	}
	return rc
}

func TestSendStoresWhatItCounts(t *testing.T) {
	for name, args := range map[string]string{
		"one write each":     "--inflight 16 --queues 3",
		"coalescing":         "--inflight 16 --queues 3 --coalesce",
		"one in flight":      "--inflight 1",
		"many connections":   "--inflight 1 --conns 20",
		"more queues":        "--inflight 8 --queues 1200",
		"open loop":          "--inflight 50 --rate 50000 --conns 2",
		"open, coalescing":   "--inflight 50 --rate 50000 --coalesce",
		"open, few places":   "--inflight 1 --rate 50000",
		"one queue, by size": "--queues 1 --size 10000",
	} {
		t.Run(name, func(t *testing.T) {
			b := startFake(t)
			var r Result
			args := append([]string{"send", "--messages", "2500", "--pid", strconv.Itoa(os.Getpid())}, strings.Fields(args)...)
			if rc := b.load(t, &r, args...); rc != 0 {
				t.Fatalf("exit code %d: %+v", rc, r)
			}
			stored := b.stored("T")
			if r.Messages != 2500 || stored != 2500 || r.Violations != 0 || len(r.Errors) != 0 {
				t.Fatalf("%d stored, %+v", stored, r)
			}
			if r.Rate <= 0 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P99 || r.ClientCPU <= 0 {
				t.Fatalf("figures %+v", r)
			}
		})
	}
}

func TestSendByTime(t *testing.T) {
	b := startFake(t)
	var r Result
	if rc := b.load(t, &r, "send", "--seconds", "0.3", "--warmup", "0.1", "--rate", "1000"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, r)
	}
	if r.Messages == 0 || r.Messages > 401 || r.Seconds != 0.3 { // late ones of the warm-up may be answered in the measured time
		t.Fatalf("300 messages were due in the measured time, and 100 before: %+v", r)
	}
}

// What a broker can do wrong, and that the load program sees it.
func TestSendSeesWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		onPut func(n int64, h *header.SendMessageResponse) error
		want  string
		args  string
	}{
		"offset twice": {func(n int64, h *header.SendMessageResponse) error { h.QueueOffset -= n & 1; return nil }, "twice", ""},
		"offset goes back": {
			func(n int64, h *header.SendMessageResponse) error { h.QueueOffset = 1000 - n; return nil },
			"had been acknowledged", "--inflight 1",
		},
		"gap":         {func(n int64, h *header.SendMessageResponse) error { h.QueueOffset += n / 50; return nil }, "gaps", ""},
		"wrong queue": {func(n int64, h *header.SendMessageResponse) error { h.QueueID = int32(n & 1); return nil }, "stored in queue", ""},
		"two connections": {
			func(n int64, h *header.SendMessageResponse) error { h.QueueOffset = n % 60; return nil },
			"on two connections", "--conns 2 --inflight 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := startFake(t)
			var n atomic.Int64
			b.hook(func(h *header.SendMessageResponse) error { return c.onPut(n.Add(1)-1, h) }, nil)
			var r Result
			args := append([]string{"send", "--messages", "100", "--queues", "1"}, strings.Fields(c.args)...)
			rc := b.load(t, &r, args...)
			if rc != 1 || r.Violations == 0 {
				t.Fatalf("exit code %d, nothing seen: %+v", rc, r)
			}
			if c.args == "" && !strings.Contains(r.FirstViolation, c.want) {
				t.Fatalf("seen: %s", r.FirstViolation)
			}
		})
	}
}

func TestSendCountsRefusals(t *testing.T) {
	b := startFake(t)
	var n atomic.Int64
	b.hook(func(*header.SendMessageResponse) error {
		if n.Add(1)%10 == 0 {
			return code.New(code.SystemBusy, "[TEST]busy")
		}
		return nil
	}, nil)
	var r Result
	if rc := b.load(t, &r, "send", "--messages", "1000"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, r)
	}
	if r.Messages != 900 || r.Errors["2"] != 100 || r.Violations != 0 {
		t.Fatalf("%+v", r)
	}
}

func TestMalformedMessageIDEndsTheLoad(t *testing.T) {
	b := startFake(t)
	b.hook(func(h *header.SendMessageResponse) error { h.MsgID = strings.ToLower(h.MsgID); return nil }, nil)
	to := b.target(t)
	if err := to.createTopic(t.Context(), "T", 1); err != nil {
		t.Fatal(err)
	}
	l := &sendLoad{Topic: "T", Queues: 1, Size: 100, Conns: 3, InFlight: 4, Duration: time.Minute}
	if r, err := runSend(t.Context(), to, l); err == nil || !strings.Contains(err.Error(), "message id") {
		t.Fatalf("%+v %v", r, err)
	}
}

func TestPullReadsEverythingAgainAndAgain(t *testing.T) {
	b := startFake(t)
	var r Result
	rc := b.load(t, &r, "pull", "--fill", "1000", "--queues", "3", "--conns", "2", "--seconds", "0.3", "--warmup", "0.05")
	if rc != 0 || r.Messages < 1000 || r.Violations != 0 {
		t.Fatalf("exit code %d: %+v", rc, r)
	}
}

func TestPullSeesWrongRecords(t *testing.T) {
	for name, spoil := range map[string]func(record []byte){
		"body":         func(record []byte) { record[100] ^= 1 },
		"queue offset": func(record []byte) { record[27]++ },
		"queue":        func(record []byte) { record[15]++ },
		"log offset":   func(record []byte) { clear(record[28:36]) },
	} {
		t.Run(name, func(t *testing.T) {
			b := startFake(t)
			n := 0
			b.hook(nil, func(record []byte) {
				if n++; n == 20 {
					spoil(record)
				}
			})
			var r Result
			if rc := b.load(t, &r, "pull", "--fill", "500", "--queues", "1", "--seconds", "0.1"); rc != 1 || r.Violations != 1 {
				t.Fatalf("exit code %d: %+v", rc, r)
			}
		})
	}
}

func TestLatencyOfDelivery(t *testing.T) {
	b := startFake(t)
	var r Result
	if rc := b.load(t, &r, "latency", "--seconds", "0.4", "--warmup", "0.1", "--rate", "500"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, r)
	}
	if r.Messages == 0 || r.Messages > 201 || r.Latency.P50 <= 0 || r.Latency.Max > 60e6 {
		t.Fatalf("200 messages were due: %+v", r)
	}
}

func TestCatchup(t *testing.T) {
	b := startFake(t)
	var filled Result
	if rc := b.load(t, &filled, "send", "--messages", "3000", "--queues", "4"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, filled)
	}
	var r CatchupResult
	if rc := b.load(t, &r, "catchup", "--queues", "4", "--seconds", "0.2", "--rate", "1000"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, r)
	}
	if r.Consumer.Messages == 0 || r.ConsumerBytes < r.Consumer.Messages*1024 || r.Alone.Messages == 0 || r.Together.Messages == 0 {
		t.Fatalf("alone %+v\ntogether %+v\nconsumer %+v", r.Alone, r.Together, r.Consumer)
	}
}

func TestPullEndsAtTheEnd(t *testing.T) {
	b := startFake(t)
	var filled Result
	if rc := b.load(t, &filled, "send", "--messages", "1000", "--queues", "3"); rc != 0 {
		t.Fatalf("exit code %d: %+v", rc, filled)
	}
	to := b.target(t)
	bounds, err := to.waitReadable(t.Context(), "T", 3, 1000)
	if err != nil {
		t.Fatal(err)
	}
	l := &pullLoad{Topic: "T", Queues: bounds, Conns: 2, Batch: 7}
	p, err := startPull(t.Context(), to, l, newTimetable(to.clk, 0, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	<-p.ended
	total, _, err := p.finish()
	if err != nil || total.measured != 1000 || total.violations != 0 {
		t.Fatalf("%d messages, %d violations, %v", total.measured, total.violations, err)
	}
}

func TestWrongUsage(t *testing.T) {
	for _, args := range []string{
		"", "fly", "send --inflight x", "send extra", "send --pid 0", "send -t T", "send -n 127.0.0.1:1 -t T",
		"send -b h -n h", "send -b h -t T --inflight 0", "send -b h -t T --size 3", "send -b h -t T --queues 100000",
		"send -b h -t T --seconds 0", "send -b h -t T --messages 5 --warmup 1", "pull -b h -t T --batch 0",
	} {
		var stdout, stderr bytes.Buffer
		if rc := run(t.Context(), strings.Fields(args), &stdout, &stderr); rc == 0 || stderr.Len() == 0 || stdout.Len() > 0 {
			t.Errorf("%q: exit code %d, %s%s", args, rc, stdout.String(), stderr.String())
		}
	}
}

func TestUnreachableProcess(t *testing.T) {
	b := startFake(t)
	to := b.target(t)
	if err := to.createTopic(t.Context(), "T", 1); err != nil {
		t.Fatal(err)
	}
	l := &sendLoad{Topic: "T", Queues: 1, Size: 100, Conns: 1, InFlight: 1, Duration: time.Minute, Pids: []int{1 << 30}}
	if _, err := runSend(t.Context(), to, l); err == nil {
		t.Fatal("the processor time of a process that does not exist was measured")
	}
}
