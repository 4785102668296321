// Package chaos starts a cluster of processes, keeps it busy, breaks it in many ways, and looks whether anything that was
// acknowledged is lost.
//
//	cluster.go  the processes
//	network.go  what they say to each other, so that it can be cut
//	disk.go     what their disks suffer from
//	small.go    disks that can be filled
//	limits.go   what else a process can suffer from
//	load.go     producers and commits, and what they must find afterwards
//	beside.go   another program that sends, with a client as users have it
//	chaos.go    the faults, the rounds and the table
package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fault breaks something and returns how to mend it.
type fault struct {
	name  string
	brief string
	hit   func(ctx context.Context, c *Cluster) (mend func() error, err error)
	halts bool // nothing can be acknowledged before it is mended: the time from then on counts
	needs Kind // of cluster
}

// faults is the table of what can be broken.
var faults = []fault{
	{name: "kill-master", brief: "kill -9 of the master", hit: on((*Cluster).Master, (*Process).Kill, (*Process).Start)},
	{name: "stop-master", brief: "SIGSTOP of the master", hit: on((*Cluster).Master, (*Process).Stop, (*Process).wake)},
	{name: "end-master", brief: "SIGTERM of the master", hit: on((*Cluster).Master, (*Process).Terminate, (*Process).Start)},
	{name: "switch", brief: "planned switch to another replica (electMaster)", hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		return nothing, c.Switch(ctx)
	}},
	{name: "kill-replica", brief: "kill -9 of a replica", hit: on((*Cluster).replica, (*Process).Kill, (*Process).Start)},
	{name: "stop-replica", brief: "SIGSTOP of a replica", hit: on((*Cluster).replica, (*Process).Stop, (*Process).wake)},
	{name: "kill-leader", brief: "kill -9 of the leading controller", hit: on((*Cluster).Leader, (*Process).Kill, (*Process).Start)},
	{name: "stop-leader", brief: "SIGSTOP of the leading controller", hit: on((*Cluster).Leader, (*Process).Stop, (*Process).wake)},
	{name: "kill-both", brief: "kill -9 of the master and the leading controller", hit: together(
		on((*Cluster).Master, (*Process).Kill, (*Process).Start), on((*Cluster).Leader, (*Process).Kill, (*Process).Start))},
	{name: "kill-names", brief: "kill -9 of the name server", hit: on((*Cluster).names, (*Process).Kill, (*Process).Start)},
	{name: "stop-names", brief: "SIGSTOP of the name server", hit: on((*Cluster).names, (*Process).Stop, (*Process).wake)},
	{name: "move-master", brief: "the master is killed and starts at another address", hit: on((*Cluster).Master, (*Process).move, done)},
	{name: "move-replica", brief: "a replica is killed and starts at another address", hit: on((*Cluster).replica, (*Process).move, done)},
	{name: "twin", brief: "a second broker runs with a copy of a replica's files", hit: twin},
	{name: "old-copy", brief: "a replica starts with an older copy of its disk", hit: goBack},
	{name: "empty-replica", brief: "a replica loses its disk", hit: on((*Cluster).replica, (*Process).Kill, (*Process).startEmpty)},
	{name: "rolling", brief: "every broker is restarted, one after the other", hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		for _, p := range c.Brokers {
			if err := errors.Join(p.Terminate(), p.Start()); err != nil {
				return nothing, err
			}
			if err := c.Await(ctx, len(c.Brokers)); err != nil {
				return nothing, err
			}
		}
		return nothing, nil
	}},
	{name: "stutter", brief: "the master runs for a third of the time", hit: stutter},
	{name: "descriptors", brief: "the master gets no more descriptors", hit: limit((*Cluster).Master, unix.RLIMIT_NOFILE, descriptors, false)},
	{name: "descriptors-replica", brief: "a replica gets no more descriptors", hit: limit((*Cluster).replica, unix.RLIMIT_NOFILE, descriptors, false)},
	{name: "descriptors-leader", brief: "the leading controller gets no more descriptors", hit: limit((*Cluster).Leader, unix.RLIMIT_NOFILE, descriptors, false)},
	{name: "memory", brief: "the master gets no more memory", hit: limit((*Cluster).Master, unix.RLIMIT_AS, addresses, true)},
	{name: "damage", brief: "a bit of a replica's log is flipped while it is down", hit: damage},
	{name: "slow-disk", brief: "each write and sync of the master's disk takes 20 ms more", hit: sicken((*Cluster).Master, slow)},
	{name: "slow-copy", brief: "each write and sync of a replica's disk takes 20 ms more", hit: sicken((*Cluster).replica, slow)},
	{name: "hung-disk", brief: "no write or sync of the master's disk ends", hit: sicken((*Cluster).Master, hung)},
	{name: "hung-copy", brief: "no write or sync of a replica's disk ends", hit: sicken((*Cluster).replica, hung)},
	{name: "broken-disk", brief: "each write and sync of the master's disk fails", hit: sicken((*Cluster).Master, broken)},
	{name: "broken-copy", brief: "each write and sync of a replica's disk fails", hit: sicken((*Cluster).replica, broken)},
	{name: "full-disk", brief: "the master's disk is full", needs: Fillable, hit: on((*Cluster).Master, (*Process).fill, (*Process).room)},
	{name: "full-copy", brief: "a replica's disk is full", needs: Fillable, hit: on((*Cluster).replica, (*Process).fill, (*Process).room)},
	{name: "full-start", brief: "a replica starts on a full disk", needs: Fillable, hit: on((*Cluster).replica, (*Process).startFull, (*Process).room)},
	{name: "full-leader", brief: "the leading controller's disk is full", needs: Fillable, hit: on((*Cluster).Leader, (*Process).fill, (*Process).room)},
	{name: "full-both", brief: "the leading controller's disk is full, and the master is killed", needs: Fillable, hit: together(
		on((*Cluster).Leader, (*Process).fill, (*Process).room), on((*Cluster).Master, (*Process).Kill, (*Process).Start))},
	{name: "full-disks", brief: "the disks of all brokers are full", needs: Fillable, halts: true, hit: fillAll},
	{name: "kill-two", brief: "kill -9 of the master and a replica", halts: true, hit: together(
		on((*Cluster).replica, (*Process).Kill, (*Process).Start), on((*Cluster).Master, (*Process).Kill, (*Process).Start))},
	{name: "kill-quorum", brief: "kill -9 of the master and two controllers", halts: true, hit: together(
		on((*Cluster).Master, (*Process).Kill, (*Process).Start), on((*Cluster).Leader, (*Process).Kill, (*Process).Start), on((*Cluster).follower, (*Process).Kill, (*Process).Start))},
	{name: "cut-master", brief: "the master is cut off from replicas and controllers", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		m, err := c.Master(ctx)
		if err == nil {
			c.net.cut(between([]*Process{m}, c.servers())...)
		}
		return c.net.heal, err
	}},
	{name: "mute-master", brief: "replicas and controllers do not hear the master", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		m, err := c.Master(ctx)
		if err == nil {
			c.net.cut(only(between([]*Process{m}, c.servers()), m.Name)...)
		}
		return c.net.heal, err
	}},
	{name: "cut-replicas", brief: "the master is cut off from its replicas", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		m, err := c.Master(ctx)
		if err == nil {
			c.net.cut(between([]*Process{m}, c.Brokers)...)
		}
		return c.net.heal, err
	}},
	{name: "cut-quorum", brief: "the master is cut off from the controllers", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		m, err := c.Master(ctx)
		if err == nil {
			c.net.cut(between([]*Process{m}, c.Controllers)...)
		}
		return c.net.heal, err
	}},
	{name: "cut-replica", brief: "a replica is cut off from everybody", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		r, err := c.replica(ctx)
		if err == nil {
			c.net.cut(between([]*Process{r}, c.servers())...)
		}
		return c.net.heal, err
	}},
	{name: "cut-leader", brief: "the leading controller is cut off from everybody", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		l, err := c.Leader(ctx)
		if err == nil {
			c.net.cut(between([]*Process{l}, c.servers())...)
		}
		return c.net.heal, err
	}},
	{name: "split-quorum", brief: "no controller reaches another", needs: Severable, hit: func(_ context.Context, c *Cluster) (func() error, error) {
		c.net.cut(between(c.Controllers, c.Controllers)...)
		return c.net.heal, nil
	}},
	{name: "bridge", brief: "only one replica reaches both the master and the others", needs: Severable, hit: func(ctx context.Context, c *Cluster) (func() error, error) {
		m, err := c.Master(ctx)
		if err != nil {
			return nothing, err
		}
		r, err := c.replica(ctx)
		for _, p := range c.servers() {
			if p != m && p != r {
				c.net.cut(between([]*Process{m}, []*Process{p})...)
			}
		}
		return c.net.heal, err
	}},
	{name: "ring", brief: "every server reaches its neighbours only", needs: Severable, hit: func(_ context.Context, c *Cluster) (func() error, error) {
		all := c.servers()
		for i, p := range all {
			for j, q := range all {
				if d := (j - i + len(all)) % len(all); d > 1 && d < len(all)-1 && i < j {
					c.net.cut(between([]*Process{p}, []*Process{q})...)
				}
			}
		}
		return c.net.heal, nil
	}, halts: true},
	{name: "slow", brief: "every message between servers takes 20 ms more", needs: Severable, hit: func(_ context.Context, c *Cluster) (func() error, error) {
		c.net.slow(lag{20 * time.Millisecond, 1}, between(c.servers(), c.servers())...)
		return c.net.heal, nil
	}},
	{name: "lossy", brief: "of 50 messages between servers one takes 200 ms more, as after a lost packet", needs: Severable, hit: func(_ context.Context, c *Cluster) (func() error, error) {
		c.net.slow(lag{200 * time.Millisecond, 50}, between(c.servers(), c.servers())...)
		return c.net.heal, nil
	}},
	{name: "reset", brief: "all connections are reset", needs: Severable, hit: func(_ context.Context, c *Cluster) (func() error, error) {
		c.net.reset()
		return nothing, nil
	}},
}

// hit is what a fault does.
type hit = func(ctx context.Context, c *Cluster) (mend func() error, err error)

func nothing() error { return nil }

// done is how to mend what has mended itself.
func done(*Process) error { return nil }

// on does something to one process.
func on(find func(c *Cluster, ctx context.Context) (*Process, error), do, undo func(p *Process) error) hit {
	return func(ctx context.Context, c *Cluster) (func() error, error) {
		p, err := find(c, ctx)
		if err != nil {
			return nothing, err
		}
		return func() error { return undo(p) }, do(p)
	}
}

// with is a fault and another one a moment later, which may find that it cannot strike.
func (f fault) with(g fault) fault {
	both := f
	both.halts = true
	both.brief = "two at once: " + f.brief
	both.hit = together(f.hit, func(ctx context.Context, c *Cluster) (func() error, error) {
		sleep(ctx, rand.N(300*time.Millisecond))
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		mend, _ := g.hit(limited, c)
		return mend, nil
	})
	return both
}

// together does several things at once, and undoes them the other way round.
func together(hits ...hit) hit {
	return func(ctx context.Context, c *Cluster) (func() error, error) {
		var mends []func() error
		var err error
		for _, h := range hits {
			mend, e := h(ctx, c)
			mends, err = append(mends, mend), errors.Join(err, e)
		}
		return func() (err error) {
			for _, mend := range slices.Backward(mends) {
				err = errors.Join(err, mend())
			}
			return err
		}, err
	}
}

// only are the ways from one process.
func only(ways []way, from string) []way {
	return slices.DeleteFunc(ways, func(w way) bool { return w.from != from })
}

// servers are the processes that must agree.
func (c *Cluster) servers() []*Process { return slices.Concat(c.Controllers, c.Brokers) }

// startEmpty starts a broker that has lost its disk.
func (p *Process) startEmpty() error {
	return errors.Join(p.empty(), p.Start())
}

// empty removes all that a process has stored, but not the folder: that may be a disk of its own.
func (p *Process) empty() error {
	entries, err := os.ReadDir(p.store())
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.store(), e.Name())))
	}
	return err
}

// wake continues a stopped process, or starts it again if something else has ended it meanwhile.
func (p *Process) wake() error {
	_ = p.Continue()
	_ = p.Died()
	return p.Start()
}

// names is the name server.
func (c *Cluster) names(context.Context) (*Process, error) { return c.Names, nil }

// follower is a controller that runs.
func (c *Cluster) follower(context.Context) (*Process, error) {
	i := slices.IndexFunc(c.Controllers, (*Process).Running)
	if i < 0 {
		return nil, errors.New("no controller runs")
	}
	return c.Controllers[i], nil
}

// replica is a broker that is not the master.
func (c *Cluster) replica(ctx context.Context) (*Process, error) {
	m, err := c.Master(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Brokers, func(p *Process) bool { return p != m && p.Running() })
	if i < 0 {
		return nil, errors.New("there is no replica")
	}
	return c.Brokers[i], nil
}

// tally is what has come of the rounds of one fault.
type tally struct {
	silences []time.Duration
	failed   int64
}

// Main is the command castor chaos.
func Main(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("castor chaos", flag.ContinueOnError)
	only := fs.String("faults", "", "which faults, separated by commas; all in turn if empty")
	dir := fs.String("dir", "", "files of the cluster; a temporary folder that is removed after a good end if empty")
	var p plan
	fs.IntVar(&p.rounds, "rounds", 8, "faults, one after the other")
	fs.IntVar(&p.producers, "producers", 4, "producers, each with a queue of its own")
	fs.DurationVar(&p.pause, "pause", 2*time.Millisecond, "pause of a producer after each acknowledgement")
	fs.DurationVar(&p.down, "down", time.Second, "how long a fault lasts at least")
	fs.BoolVar(&p.pairs, "pairs", false, "a second fault, any of the chosen, strikes a moment after each one")
	fs.DurationVar(&p.between, "between", 0, "pause before a fault; 31s lets clients ask for routes, as they do every 30 s")
	fs.StringVar(&p.load, "load", "", "a program that sends, too, as tests/interop/java/load.py: it gets the name server and a topic, and prints \"ok BODY\" or \"fail WHY\" per send")
	list := fs.Bool("list", false, "list the faults and exit")
	keys := fs.String("set", "", "key=value of every broker, separated by commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *list {
		for _, f := range faults {
			fmt.Fprintf(out, "%-14s %s\n", f.name, f.brief)
		}
		return nil
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	if len(those(chosen, Fillable)) > 0 && !private() {
		started, err := again(ctx, args, out)
		if started || *only != "" {
			return err
		}
		fmt.Fprintf(out, "no disk is filled, for want of namespaces: %v\n", err)
		chosen = those(chosen, Plain, Severable)
	}
	o := Options{Dir: *dir, Controllers: 3, Brokers: 3, Keys: map[string]string{}}
	for pair := range strings.SplitSeq(*keys, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			o.Keys[k] = v
		}
	}
	if o.Binary, err = os.Executable(); err != nil {
		return err
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "castor-chaos-"); err != nil {
			return err
		}
	}
	for _, part := range parts(chosen, p.rounds) {
		o, p := o, p
		o.Kind, p.rounds = part.kind, part.rounds
		p.seconds = those(chosen, Plain, part.kind)
		if len(part.faults) < len(chosen) {
			o.Dir = filepath.Join(o.Dir, cmp.Or(string(part.kind), "direct"))
			if err := os.MkdirAll(o.Dir, 0o755); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "3 controllers, 3 brokers, files in %s\n", o.Dir)
		if err := run(ctx, o, part.faults, p, out); err != nil {
			return err
		}
	}
	if *dir == "" {
		err = os.RemoveAll(o.Dir)
	}
	return err
}

// those are the faults that need a cluster of one of these kinds.
func those(fs []fault, kinds ...Kind) []fault {
	return slices.DeleteFunc(slices.Clone(fs), func(f fault) bool { return !slices.Contains(kinds, f.needs) })
}

// part is the faults for one kind of cluster.
type part struct {
	kind   Kind
	faults []fault
	rounds int
}

// parts are the faults by the kind of cluster that they need, each with its share of the rounds.
func parts(chosen []fault, rounds int) (ps []part) {
	done, given := 0, 0
	for _, k := range []Kind{Plain, Fillable, Severable} {
		p := part{kind: k, faults: those(chosen, k)}
		if len(p.faults) == 0 {
			continue
		}
		done += len(p.faults)
		p.rounds = rounds*done/len(chosen) - given
		given += p.rounds
		ps = append(ps, p)
	}
	return ps
}

func choose(names string) (chosen []fault, err error) {
	if names == "" {
		return faults, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q; castor chaos -list shows them", name)
		}
		chosen = append(chosen, faults[i])
	}
	return chosen, nil
}

// ready is how long a cluster may take to be whole.
const ready = 60 * time.Second

// plan is what is done.
type plan struct {
	rounds, producers    int
	pause, down, between time.Duration
	load                 string
	pairs                bool
	seconds              []fault // of pairs
}

func run(ctx context.Context, o Options, chosen []fault, p plan, out io.Writer) (err error) {
	within, cancel := context.WithTimeout(ctx, ready)
	c, err := Start(within, o)
	cancel()
	defer func() { err = errors.Join(err, c.Close()) }()
	if err != nil {
		return err
	}
	l, err := startLoad(ctx, c, p.producers, p.pause)
	if err != nil {
		return err
	}
	defer l.end()
	var b *beside
	if p.load != "" {
		if b, err = startBeside(ctx, c, l, p.load); err != nil {
			return err
		}
		defer b.end()
	}
	ours, theirs, err := p.run(ctx, c, l, b, chosen, out)
	if err != nil {
		return err
	}
	l.find(ctx)
	l.end()
	v, err := l.check(ctx)
	table(out, "fault", chosen, ours)
	fmt.Fprintf(out, "%d messages acknowledged, %d lost, %d out of order, %d repeated\n", v.Acked, v.Lost, v.Disordered, v.Repeated)
	if v.Lost > 0 || v.Disordered > 0 {
		err = errors.Join(err, errors.New("acknowledged messages are lost or out of order"))
	}
	if b != nil {
		b.end()
		table(out, "fault, as "+p.load+" sees it", chosen, theirs)
		acked, lost, e := b.lost(ctx, *l.master.Load())
		if e == nil {
			fmt.Fprintf(out, "%d messages acknowledged, %d lost\n", acked, lost)
		}
		if err = errors.Join(err, e); lost > 0 {
			err = errors.Join(err, errors.New("acknowledged messages are lost"))
		}
	}
	return err
}

// run is all rounds. It returns what our own producers have seen, and those beside.
func (p plan) run(ctx context.Context, c *Cluster, l *load, b *beside, chosen []fault, out io.Writer) (ours, theirs map[string]*tally, err error) {
	ours, theirs = map[string]*tally{}, map[string]*tally{}
	for i := range p.rounds {
		f := chosen[i%len(chosen)]
		if p.pairs {
			f = f.with(p.seconds[rand.IntN(len(p.seconds))])
		}
		sleep(ctx, p.between)
		seen := 0
		if b != nil {
			seen = len(b.failures(0))
		}
		silence, failed, err := round(ctx, c, l, b, f, p.down)
		fmt.Fprintf(out, "%4d  %-14s %6d ms without an acknowledgement, %d failed sends", i+1, f.name, silence.Milliseconds(), failed)
		tallyOf(ours, f).add(silence, failed)
		if b != nil {
			silence, _ := b.pulse.read()
			failures := b.failures(seen)
			tallyOf(theirs, f).add(silence, int64(len(failures)))
			fmt.Fprintf(out, "; beside: %d ms, %d", silence.Milliseconds(), len(failures))
			for _, why := range failures[:min(len(failures), 3)] {
				fmt.Fprintf(out, "\n      %.300s", why)
			}
		}
		fmt.Fprintln(out)
		if err != nil {
			return ours, theirs, fmt.Errorf("round %d, %s: %w", i+1, f.name, err)
		}
	}
	return ours, theirs, nil
}

// round is one fault, from a whole cluster to a whole cluster.
func round(ctx context.Context, c *Cluster, l *load, b *beside, f fault, down time.Duration) (silence time.Duration, failed int64, err error) {
	within, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	if err := c.Await(within, len(c.Brokers)); err != nil {
		return 0, 0, err
	}
	pulses := []*pulse{&l.pulse}
	if b != nil {
		pulses = append(pulses, &b.pulse)
		if err := c.awaitStandby(within); err != nil {
			return 0, 0, err
		}
	}
	for _, p := range pulses {
		p.reset()
		if err := p.await(within, 1); err != nil { // a silence is measured from an acknowledgement
			return 0, 0, err
		}
	}
	before := l.failed.Load()
	begin := time.Now()
	mend, err := f.hit(within, c)
	if err != nil {
		return 0, 0, errors.Join(err, mend())
	}
	if f.halts {
		sleep(within, down)
		if err := mend(); err != nil {
			return 0, 0, err
		}
		begin, mend = time.Now(), nothing
		for _, p := range pulses {
			p.restart()
		}
	}
	for _, p := range pulses {
		_, during := p.read()
		if err := p.await(within, during+100); err != nil {
			return time.Since(begin), l.failed.Load() - before, errors.Join(err, mend())
		}
	}
	sleep(within, down-time.Since(begin))
	silence, _ = l.pulse.read()
	return silence, l.failed.Load() - before, mend()
}

// tallyOf returns the tally of a fault.
func tallyOf(m map[string]*tally, f fault) *tally {
	if m[f.name] == nil {
		m[f.name] = &tally{}
	}
	return m[f.name]
}

func (t *tally) add(silence time.Duration, failed int64) {
	t.silences, t.failed = append(t.silences, silence), t.failed+failed
}

func table(out io.Writer, title string, chosen []fault, tallies map[string]*tally) {
	fmt.Fprintf(out, "\n%-50s %6s %28s %7s\n", title, "rounds", "ms without ack p50/p99/max", "failed")
	for _, f := range chosen {
		t := tallies[f.name]
		if t == nil {
			continue
		}
		slices.Sort(t.silences)
		at := func(p int) int64 { return t.silences[min(len(t.silences)-1, len(t.silences)*p/100)].Milliseconds() }
		fmt.Fprintf(out, "%-50s %6d %28s %7d\n", f.brief, len(t.silences), fmt.Sprintf("%d / %d / %d", at(50), at(99), at(100)), t.failed)
	}
	fmt.Fprintln(out)
}
