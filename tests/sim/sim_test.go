package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/zap/zapcore"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store"
)

// shortSeeds is how many seeds a test run takes if SEEDS does not say.
const shortSeeds = 250

// world is one run.
type world struct {
	t    *testing.T
	seed uint64
	dir  string
	rng  *rand.Rand // of the driver
	born time.Time

	// drawn
	sync      bool
	minInSync int
	flush     time.Duration
	pace      time.Duration
	length    time.Duration
	weights   []int // of the faults: a run has its favourites

	encoder  zapcore.Encoder
	net      *network
	ctl      *controllers
	machines []*machine
	later    []delayed

	truth  *truth
	parsed int64

	mu        sync.Mutex
	events    []string
	violation string
	ghosts    []*process
	claims    []claim
	acks      int
	ackedMax  map[string]int64
	seen      map[string]int64
	committed map[string]int64
	ackers    map[int32]int64 // epoch → life
	masters   map[int32]int64
	history   history
}

// delayed is something that the driver does later.
type delayed struct {
	at time.Time
	f  func()
}

func newWorld(t *testing.T, seed uint64, dir string) *world {
	w := &world{t: t, seed: seed, dir: dir, rng: rand.New(rand.NewPCG(seed, 1)), born: time.Now(), ackedMax: map[string]int64{}, seen: map[string]int64{},
		committed: map[string]int64{}, ackers: map[int32]int64{}, masters: map[int32]int64{},
		encoder: zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "m", LevelKey: "l", EncodeLevel: zapcore.CapitalLevelEncoder, EncodeDuration: zapcore.StringDurationEncoder})}
	w.sync = w.rng.IntN(2) == 0
	w.minInSync = []int{0, 0, 0, 1, 2}[w.rng.IntN(5)]
	w.flush = time.Duration(10+w.rng.IntN(10+w.rng.IntN(3000))) * time.Millisecond
	w.pace = time.Duration(2+w.rng.IntN(60)) * time.Millisecond
	w.length = time.Duration(1+w.rng.IntN(2+w.rng.IntN(8))) * time.Second
	for _, f := range faults {
		w.weights = append(w.weights, f.weight*[]int{0, 0, 1, 1, 1, 1, 5}[w.rng.IntN(7)])
	}
	w.net = newNetwork(rand.New(rand.NewPCG(seed, 2)))
	w.ctl = newControllers(w, rand.New(rand.NewPCG(seed, 3)))
	w.truth = newTruth(w)
	for id := int64(1); id <= replicas; id++ {
		w.machines = append(w.machines, newMachine(w, id, rand.New(rand.NewPCG(seed, uint64(10+id)))))
	}
	return w
}

func (w *world) storeConfig(stateFile string) store.Config {
	return store.Config{Root: "/store", CommitLogDir: "/store/commitlog", StateFile: stateFile, SegmentSize: segmentSize, QueueFile: 50 * 20,
		Index: w.seed%4 == 0, IndexSlots: 1000, IndexItems: 800, SyncFlush: w.sync, FlushInterval: w.flush, SyncTimeout: 5 * time.Second,
		Replicated: true, ReplicaTimeout: 3 * time.Second,
		Retention: store.Retention{Keep: 100 * time.Hour, MaxUsed: 100, CleanForced: 100, WarningLevel: 100, Batch: 10, Interval: time.Hour}}
}

// note adds to the log of events.
func (w *world) note(format string, args ...any) {
	text := fmt.Sprintf("%9.3f ", time.Since(w.born).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	w.events = append(w.events, text)
	w.mu.Unlock()
}

// fail notes what must not be; the first one ends the run.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(format, args...)
}

func (w *world) failLocked(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.events = append(w.events, fmt.Sprintf("%9.3f VIOLATION: %s", time.Since(w.born).Seconds(), text))
	if w.violation == "" {
		w.violation = text
	}
}

func (w *world) failed() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violation
}

func (w *world) died(p *process) {
	w.mu.Lock()
	w.ghosts = append(w.ghosts, p)
	w.mu.Unlock()
}

// crowned notes a master: one life per epoch.
func (w *world) crowned(p *process, epoch int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	if life, ok := w.masters[epoch]; ok {
		w.failLocked("epoch %d has two masters: lives %d and %d", epoch, life, p.life)
	}
	w.masters[epoch] = p.life
}

func (w *world) after(d time.Duration, f func()) {
	w.later = append(w.later, delayed{time.Now().Add(d), f})
}

// due does what was put off until now.
func (w *world) due() {
	now := time.Now()
	var rest []delayed
	todo := w.later
	w.later = nil
	for _, d := range todo {
		if d.at.After(now) {
			rest = append(rest, d)
		} else {
			d.f()
		}
	}
	w.later = append(rest, w.later...)
}

// step lets time pass and looks at everything.
func (w *world) step(d time.Duration) bool {
	time.Sleep(d)
	synctest.Wait()
	w.check()
	return w.failed() == ""
}

// live runs the world to its end.
func (w *world) live() {
	for _, m := range w.machines {
		m.start()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	clients.Go(func() { w.ctl.oversee(ctx) })
	work, done := context.WithCancel(ctx)
	for i := range 1 + w.rng.IntN(4) {
		clients.Go(func() { w.produce(work, rand.New(rand.NewPCG(w.seed, uint64(100+i))), i+1) })
	}
	clients.Go(func() { w.read(work, rand.New(rand.NewPCG(w.seed, 200))) })
	clients.Go(func() { w.consume(work, rand.New(rand.NewPCG(w.seed, 201))) })
	ok := w.step(700 * time.Millisecond)
	for end := time.Now().Add(w.length); ok && time.Now().Before(end); {
		w.due()
		w.strike()
		ok = w.step(time.Duration(1+w.rng.IntN(1+w.rng.IntN(400))) * time.Millisecond)
	}
	if ok {
		ok = w.heal()
	}
	if ok {
		before := w.acked()
		w.step(2 * time.Second)
		if w.acked() == before {
			w.fail("nothing is acknowledged after the end of all faults")
		}
	}
	done()
	if ok && w.converge(false) {
		w.checkEnd()
	}
	for _, m := range w.machines {
		m.kill(false, "the end")
	}
	w.check()
	cancel()
	w.net.change(func() { clear(w.net.cut); clear(w.net.frozen) })
	clients.Wait()
	time.Sleep(30 * time.Second) // whoever is left now has leaked: synctest says who
}

// acked is how many messages have been acknowledged.
func (w *world) acked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.acks
}

// heal ends all faults, and waits until the group is whole again.
func (w *world) heal() bool {
	w.note("everything heals")
	w.later = nil
	w.net.change(func() { clear(w.net.cut); clear(w.net.frozen); clear(w.net.slow) })
	w.ctl.returned()
	w.ctl.mu.Lock()
	w.ctl.lossy, w.ctl.lateness = 0, 0
	w.ctl.mu.Unlock()
	w.step(1500 * time.Millisecond) // who is about to stop does
	for _, m := range w.machines {
		m.mu.Lock()
		m.killIn, m.failIn, m.failFor = 0, 0, 0
		sick := m.failed
		m.disk.SetFree(1 << 30)
		m.mu.Unlock()
		if sick {
			m.kill(false, "its disk was repaired")
		}
	}
	return w.converge(true)
}

// converge waits for a master with all in sync, and without senders for equal logs.
func (w *world) converge(senders bool) bool {
	const patience = 20 * time.Second
	var why string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		for _, m := range w.machines {
			m.start()
		}
		if !w.step(100 * time.Millisecond) {
			return false
		}
		if why = w.apart(senders); why == "" {
			return true
		}
	}
	w.fail("%v after the end of all faults: %s", patience, why)
	return false
}

func (w *world) apart(senders bool) string {
	p, t := w.current()
	if p == nil {
		return "there is no master"
	}
	s := p.node.Status()
	if len(s.Role.SyncStateSet) < replicas {
		return fmt.Sprintf("r%d is master of epoch %d, in sync are %v, acknowledgements %v", p.m.id, t.role.Epoch, s.Role.SyncStateSet, s.Acked)
	}
	if senders {
		return ""
	}
	for _, m := range w.machines {
		p := m.process()
		if p == nil || !p.ready() {
			return fmt.Sprintf("r%d is down", m.id)
		}
		if end, c := p.st.Log.End(), p.st.Confirmed(); end != w.truth.end() || c != end {
			return fmt.Sprintf("r%d has a log up to %d, confirmed up to %d of %d", m.id, end, c, w.truth.end())
		}
	}
	return ""
}

// run runs one seed and returns what was wrong, and the events.
func run(t *testing.T, seed uint64) (violation string, events []string, acks int) {
	dir, err := os.MkdirTemp(fastDir(), "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a test's
	var now atomic.Pointer[world]
	hung := time.AfterFunc(20*time.Second, func() { // in real time: somebody runs in circles, or waits for a mutex for ever
		w := now.Load()
		if w.mu.TryLock() {
			fmt.Fprintln(os.Stderr, strings.Join(w.events, "\n"))
		}
		panic(fmt.Sprintf("seed %d: virtual time stands still", seed))
	})
	defer hung.Stop()
	var ops map[string][]porcupine.Operation
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed, dir)
		now.Store(w)
		w.live()
		w.mu.Lock()
		defer w.mu.Unlock()
		violation, events, acks, ops = w.violation, w.events, w.acks, w.operations()
	})
	hung.Stop()
	if violation == "" {
		violation = checkHistory(ops)
	}
	return violation, events, acks
}

// fastDir is in memory where the system has such a place: state.db is synced every second of virtual time.
func fastDir() string {
	if i, err := os.Stat("/dev/shm"); err == nil && i.IsDir() {
		return "/dev/shm"
	}
	return ""
}

func number64(t *testing.T, name string, standard uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestGroup runs seeds: SEEDS of them from SEED on; SEED alone is one.
func TestGroup(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	first, count := number64(t, "SEED", 1), uint64(shortSeeds)
	if os.Getenv("SEED") != "" {
		count = 1
	}
	count = number64(t, "SEEDS", count)
	total, began := 0, time.Now()
	for seed := first; seed < first+count; seed++ {
		violation, events, acks := run(t, seed)
		total += acks
		if violation != "" || count == 1 && testing.Verbose() {
			t.Logf("seed %d:\n%s", seed, strings.Join(events, "\n"))
		}
		if violation != "" {
			t.Fatalf("seed %d: %s\nreplay: SEED=%d go test ./tests/sim -run TestGroup -v", seed, violation, seed)
		}
	}
	t.Logf("%d seeds, %d messages acknowledged, %v", count, total, time.Since(began).Round(time.Millisecond))
}

// mostSkew is how far off a clock may be, in ms: a day.
const mostSkew = 24 * 60 * 60 * 1000

// fault is something that can go wrong.
type fault struct {
	name   string
	weight int
	do     func(w *world, m *machine)
}

var faults = []fault{
	{"nothing", 20, func(*world, *machine) {}},
	{"kill", 10, func(w *world, m *machine) {
		m.kill(false, "killed")
		w.restartLater(m)
	}},
	{"stop", 5, func(w *world, m *machine) {
		p := m.process()
		if p == nil || !p.ready() || p.stopping {
			return
		}
		p.stopping = true
		w.note("r%d: is to stop", m.id)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			p.node.Leave(ctx)
			if m.process() == p {
				m.kill(false, "stopped")
			}
		}()
		w.restartLater(m)
	}},
	{"power", 8, func(w *world, m *machine) {
		if w.mayLosePower(m) {
			m.kill(true, "power loss")
			w.restartLater(m)
		}
	}},
	{"blackout", 8, func(w *world, _ *machine) {
		if w.sync {
			for _, m := range w.machines {
				m.kill(true, "blackout")
				w.restartLater(m)
			}
		}
	}},
	{"kill at a write", 8, func(w *world, m *machine) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.killIn, m.killPower = 1+w.rng.IntN(30), w.sync && w.rng.IntN(2) == 0
	}},
	{"pause", 8, func(w *world, m *machine) {
		w.note("r%d: paused", m.id)
		w.net.change(func() { w.net.frozen[m.id] = true })
		w.after(w.while(3*time.Second), func() {
			w.note("r%d: goes on", m.id)
			w.net.change(func() { delete(w.net.frozen, m.id) })
		})
	}},
	{"cut", 14, (*world).strikeLinks},
	{"slow", 4, func(w *world, m *machine) {
		way := [2]int64{m.id, w.rng.Int64N(replicas + 1)}
		d := w.while(300 * time.Millisecond)
		w.note("slow: %v by %v", way, d)
		w.net.change(func() { w.net.slow[way] = d })
		w.after(w.while(3*time.Second), func() { w.net.change(func() { delete(w.net.slow, way) }) })
	}},
	{"reset", 8, func(w *world, m *machine) {
		other, half := 1+w.rng.Int64N(replicas), w.rng.IntN(2) == 0
		w.note("connections from r%d to r%d break, half-open %v", m.id, other, half)
		w.net.breakOne(m.id, other, half)
	}},
	{"disk error", 5, (*world).strikeDisk},
	{"full disk", 3, func(w *world, m *machine) {
		m.mu.Lock()
		disk := m.disk
		m.mu.Unlock()
		free := w.rng.Int64N(256 << 10)
		w.note("r%d: %d bytes left on the disk", m.id, free)
		disk.SetFree(free)
		w.after(w.while(4*time.Second), func() { disk.SetFree(1 << 30) })
	}},
	{"clock", 4, func(w *world, m *machine) {
		jump := w.rng.Int64N(2*mostSkew) - mostSkew
		w.note("r%d: its clock is %d ms off", m.id, jump)
		m.skew.Store(jump)
	}},
	{"controllers away", 5, func(w *world, _ *machine) {
		w.note("controllers away")
		w.ctl.mu.Lock()
		w.ctl.away = true
		w.ctl.mu.Unlock()
		w.after(w.while(3*time.Second), func() { w.note("controllers back"); w.ctl.returned() })
	}},
	{"controllers lossy", 6, func(w *world, _ *machine) {
		w.ctl.mu.Lock()
		defer w.ctl.mu.Unlock()
		w.ctl.lossy, w.ctl.lateness = w.rng.Float64()*0.7, w.while(3*time.Second)
		w.after(w.while(4*time.Second), func() {
			w.ctl.mu.Lock()
			defer w.ctl.mu.Unlock()
			w.ctl.lossy, w.ctl.lateness = 0, 0
		})
	}},
	{"election", 10, func(w *world, m *machine) {
		w.note("operator: r%d shall be master", m.id)
		for i := range 1 + w.rng.IntN(3) {
			id := 1 + (m.id+int64(i)-1)%replicas
			w.after(time.Duration(w.rng.IntN(100))*time.Millisecond, func() { w.ctl.named(id) })
		}
	}},
	{"removal", 3, func(w *world, m *machine) { w.ctl.clean(m.id) }},
}

// strike has something go wrong, or not.
func (w *world) strike() {
	total := 1
	for _, weight := range w.weights {
		total += weight
	}
	n := w.rng.IntN(total)
	m := w.machines[w.rng.IntN(replicas)]
	if p, _ := w.current(); p != nil && w.rng.IntN(3) == 0 {
		m = p.m // the master is the most interesting one
	}
	for i, f := range faults {
		if n -= w.weights[i]; n < 0 {
			f.do(w, m)
			break
		}
	}
	for _, m := range w.machines { // machines that went down by themselves
		m.mu.Lock()
		down, sick := m.p == nil, m.failed
		m.mu.Unlock()
		if sick && w.rng.IntN(10) == 0 {
			m.kill(w.mayLosePower(m) && w.rng.IntN(2) == 0, "its disk was replaced")
		}
		if down && w.rng.IntN(20) == 0 {
			m.start()
		}
	}
}

// while draws a time, mostly short.
func (w *world) while(most time.Duration) time.Duration {
	return 1 + time.Duration(w.rng.Int64N(1+w.rng.Int64N(int64(most))))
}

func (w *world) restartLater(m *machine) {
	w.after(w.while(4*time.Second), func() { m.start() })
}

// mayLosePower tells whether the configuration promises to survive it: with ASYNC_FLUSH one machine at a time, and only if others
// must have everything too.
func (w *world) mayLosePower(m *machine) bool {
	if w.sync {
		return true
	}
	return w.minInSync != 1 && !w.anyWounded()
}

func (w *world) anyWounded() bool {
	for _, m := range w.machines {
		m.mu.Lock()
		wounded := m.wounded || m.failed || m.failIn > 0
		m.mu.Unlock()
		if wounded {
			return true
		}
	}
	return false
}

func (w *world) strikeDisk(m *machine) {
	if !w.sync && w.anyWounded() { // one machine at a time
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failIn, m.failFor = 1+w.rng.IntN(20), []int{1, 2, 5, 1 << 30}[w.rng.IntN(4)] // the last: until it is replaced
	m.failOp = []vfs.Op{vfs.OpSyncData, vfs.OpSyncData, vfs.OpWriteAt, ""}[w.rng.IntN(4)]
}

// strikeLinks cuts ways between machines, or between machines and controllers.
func (w *world) strikeLinks(m *machine) {
	var ways [][2]int64
	what := ""
	add := func(a, b int64) {
		switch w.rng.IntN(4) {
		case 0:
			ways = append(ways, [2]int64{a, b})
		case 1:
			ways = append(ways, [2]int64{b, a})
		default:
			ways = append(ways, [2]int64{a, b}, [2]int64{b, a})
		}
	}
	toReplicas := func() {
		for id := int64(1); id <= replicas; id++ {
			if id != m.id {
				add(m.id, id)
			}
		}
	}
	switch w.rng.IntN(4) {
	case 0:
		what = "from the controllers"
		add(m.id, controllersAt)
	case 1:
		what = "from the replicas"
		toReplicas()
	case 2:
		what = "from all"
		add(m.id, controllersAt)
		toReplicas()
	case 3:
		what = "from one replica"
		add(m.id, 1+m.id%replicas)
	}
	w.note("r%d is cut %s: %v", m.id, what, ways)
	w.net.change(func() {
		for _, way := range ways {
			w.net.cut[way] = true
		}
	})
	w.after(w.while(4*time.Second), func() {
		w.note("cut ends: %v", ways)
		w.net.change(func() {
			for _, way := range ways {
				delete(w.net.cut, way)
			}
		})
		for _, way := range ways {
			if w.rng.IntN(2) == 0 {
				w.net.breakOne(way[0], way[1], w.rng.IntN(3) == 0)
			}
		}
	})
}
