package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/castor-mq/castor/internal/clock"
)

const usage = `castor bench LOAD -n NAMESRV|-b BROKER -t TOPIC [FLAG ...]

Loads a broker over its remoting port, checks every answer, and prints rates, latencies and processor time.

  send      producers, in a closed loop (--inflight) or an open loop (--rate)
  pull      a consumer of messages in memory; fills the topic first
  latency   time from producer to long-polling consumer
  catchup   latency of a producer alone and beside a consumer of old messages in TOPIC

The topic must be used by nobody else meanwhile. castor bench LOAD -h lists the flags of a load.
The exit code is 1 if an answer was wrong or nothing was acknowledged.
`

// options are the flags of all loads; each load registers those that it has.
type options struct {
	namesrv, broker, topic string
	queues, batch          int
	size, conns, inFlight  int
	coalesce, json         bool
	rate                   float64
	messages, fill         int64
	seconds, warmup        float64
	pids                   pidList
}

// pidList is a flag that holds process ids with commas.
type pidList []int

func (l *pidList) String() string { return fmt.Sprint([]int(*l)) }

// Set parses the flag's value.
func (l *pidList) Set(text string) error {
	for _, part := range strings.Split(text, ",") {
		pid, err := strconv.Atoi(part)
		if err != nil || pid <= 0 {
			return fmt.Errorf("%q is no process id", part)
		}
		*l = append(*l, pid)
	}
	return nil
}

// outcome is what a load returns.
type outcome interface{ failed() bool }

// load is one row of the table of loads: its flags and what it does.
type load struct {
	name  string
	flags func(f *flag.FlagSet, o *options)
	run   func(ctx context.Context, t *target, o *options) (outcome, error)
	print func(w io.Writer, out outcome)
}

func loads() []load {
	single := func(title string) func(io.Writer, outcome) {
		return func(w io.Writer, out outcome) { out.(*Result).print(w, title) }
	}
	return []load{
		{"send", sendFlags, benchSend, single("send")},
		{"pull", pullFlags, benchPull, single("pull")},
		{"latency", latencyFlags, benchLatency, single("delivery")},
		{"catchup", catchupFlags, benchCatchup, printCatchup},
	}
}

// Main runs one load as args say and returns the exit code: 0, 1 for a failure, 2 for wrong usage.
func Main(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, args, os.Stdout, os.Stderr)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return 2
	}
	for _, l := range loads() {
		if l.name == args[0] {
			return l.main(ctx, args[1:], stdout, stderr)
		}
	}
	fmt.Fprint(stderr, usage)
	return 2
}

func (l *load) main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("castor bench "+l.name, flag.ContinueOnError)
	f.SetOutput(stderr)
	commonFlags(f, &o)
	l.flags(f, &o)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if f.NArg() > 0 {
		fmt.Fprintf(stderr, "unexpected argument %q\n", f.Arg(0))
		return 2
	}
	out, err := l.start(ctx, &o)
	if err != nil {
		fmt.Fprintf(stderr, "castor bench %s: %v\n", l.name, err)
		return 1
	}
	if o.json {
		_ = json.NewEncoder(stdout).Encode(out) // a closed stdout is nobody's concern
	} else {
		l.print(stdout, out)
	}
	if out.failed() {
		return 1
	}
	return 0
}

func (l *load) start(ctx context.Context, o *options) (outcome, error) {
	if err := o.sendLoad(1).check(); err != nil {
		return nil, err
	}
	t, err := newTarget(ctx, clock.Real{}, o.namesrv, o.broker)
	if err != nil {
		return nil, err
	}
	defer t.client.Close()
	return l.run(ctx, t, o)
}

func commonFlags(f *flag.FlagSet, o *options) {
	f.StringVar(&o.namesrv, "n", "", "`address` of a name server, whose first master is the broker")
	f.StringVar(&o.broker, "b", "", "`address` of the broker")
	f.StringVar(&o.topic, "t", "", "`topic`")
	f.Var(&o.pids, "pid", "broker `processes`, with commas, whose processor time is measured (Linux)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.Float64Var(&o.seconds, "seconds", 10, "how long to measure; with --messages: at most")
	f.IntVar(&o.size, "size", 1024, "`bytes` of a body")
	o.queues, o.conns, o.inFlight, o.batch = 1, 1, 1, 32
}

func warmupFlag(f *flag.FlagSet, o *options) {
	f.Float64Var(&o.warmup, "warmup", 0, "`seconds` of load before measuring")
}

func sendFlags(f *flag.FlagSet, o *options) {
	warmupFlag(f, o)
	f.IntVar(&o.queues, "queues", 8, "queues of the topic, used in turn")
	f.IntVar(&o.conns, "conns", 1, "connections")
	f.IntVar(&o.inFlight, "inflight", 64, "requests in flight on each connection")
	f.BoolVar(&o.coalesce, "coalesce", false, "one write for all requests that may be sent, instead of one each")
	f.Float64Var(&o.rate, "rate", 0, "open loop: send `messages per second`, latency counts from when each was due")
	f.Int64Var(&o.messages, "messages", 0, "stop after `count` messages")
}

func pullFlags(f *flag.FlagSet, o *options) {
	warmupFlag(f, o)
	f.IntVar(&o.queues, "queues", 8, "queues of the topic, each with one request in flight")
	f.IntVar(&o.conns, "conns", 1, "connections")
	f.IntVar(&o.batch, "batch", 32, "messages per request")
	f.Int64Var(&o.fill, "fill", 200_000, "fill the topic with `count` messages first")
}

func latencyFlags(f *flag.FlagSet, o *options) {
	warmupFlag(f, o)
	f.Float64Var(&o.rate, "rate", 500, "`messages per second`")
}

func catchupFlags(f *flag.FlagSet, o *options) {
	warmupFlag(f, o)
	f.IntVar(&o.queues, "queues", 8, "queues of the old topic")
	f.IntVar(&o.conns, "conns", 1, "connections of the consumer")
	f.Float64Var(&o.rate, "rate", 2000, "`messages per second` of the producer")
}

// sendLoad is the send load of the options with at least inFlight places per connection.
func (o *options) sendLoad(inFlight int) *sendLoad {
	return &sendLoad{
		Topic: o.topic, Queues: int32(min(o.queues, maxQueues)), Size: o.size, Conns: o.conns,
		InFlight: max(o.inFlight, inFlight), Coalesce: o.coalesce, Rate: o.rate, Messages: o.messages,
		Warmup: duration(o.warmup), Duration: duration(o.seconds), Pids: o.pids,
	}
}

// duration converts seconds, at most an hour.
func duration(seconds float64) time.Duration {
	return time.Duration(min(seconds, 3600) * float64(time.Second))
}

func benchSend(ctx context.Context, t *target, o *options) (outcome, error) {
	if err := t.createTopic(ctx, o.topic, int32(o.queues)); err != nil {
		return nil, err
	}
	return runSend(ctx, t, o.sendLoad(1))
}

func benchPull(ctx context.Context, t *target, o *options) (outcome, error) {
	const fillWindow, fillTime = 256, time.Hour
	if o.batch < 1 || o.batch > 1024 || o.fill < int64(o.queues) {
		return nil, errors.New("--batch is from 1 to 1024, and --fill is at least one message for each queue")
	}
	if err := t.createTopic(ctx, o.topic, int32(o.queues)); err != nil {
		return nil, err
	}
	fill := &sendLoad{
		Topic: o.topic, Queues: int32(o.queues), Size: o.size, Conns: 1, InFlight: fillWindow, Coalesce: true,
		Messages: o.fill, Duration: fillTime,
	}
	filled, err := runSend(ctx, t, fill)
	if err != nil || filled.failed() {
		return filled, err
	}
	bounds, err := t.waitReadable(ctx, o.topic, int32(o.queues), filled.Messages)
	if err != nil {
		return nil, err
	}
	l := &pullLoad{Topic: o.topic, Queues: bounds, Conns: o.conns, Batch: int32(o.batch), Again: true}
	return runPull(ctx, t, l, duration(o.warmup), duration(o.seconds), o.pids)
}

// openWindow is the number of places of an open loop, enough for a broker to stall for a while.
const openWindow = 4096

func benchLatency(ctx context.Context, t *target, o *options) (outcome, error) {
	if err := t.createTopic(ctx, o.topic, 1); err != nil {
		return nil, err
	}
	return runLatency(ctx, t, o.sendLoad(openWindow))
}

func benchCatchup(ctx context.Context, t *target, o *options) (outcome, error) {
	l := o.sendLoad(openWindow)
	l.Topic, l.Conns = o.topic+"-live", 1
	if err := t.createTopic(ctx, l.Topic, l.Queues); err != nil {
		return nil, err
	}
	return runCatchup(ctx, t, l, o.topic, l.Queues, o.conns)
}

func printCatchup(w io.Writer, out outcome) {
	r := out.(*CatchupResult)
	r.Alone.print(w, "producer alone")
	r.Together.print(w, "producer beside the consumer")
	r.Consumer.print(w, "consumer of old messages")
}
