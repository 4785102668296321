package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
)

const (
	replicas    = 3
	segmentSize = 64 << 10
	bootFile    = "/proc/sys/kernel/random/boot_id"
)

var (
	errDisk    = errors.New("injected: input/output error")
	errStopped = errors.New("the process is gone")
)

// machine is a computer: its disk outlives its processes.
type machine struct {
	w  *world
	id int64

	mu     sync.Mutex
	rng    *rand.Rand
	disk   *vfs.Mem
	state  string // state.db; a file of the operating system
	boot   int
	lives  int64
	starts atomic.Int64 // of its broker, as it counts them on its disk
	p      *process
	// faults to come
	killIn    int // at the n-th change of the disk from now; 0: not
	killPower bool
	failIn    int // likewise: an error
	failFor   int // and that many more
	failOp    vfs.Op
	failed    bool         // the disk has failed: the process should be started again
	skew      atomic.Int64 // of the time of day, in ms
	lossAt    int64
	wounded   bool // may have lost unsynced data, and does not have lossAt again
}

func newMachine(w *world, id int64, rng *rand.Rand) *machine {
	m := &machine{w: w, id: id, rng: rng, disk: vfs.NewMem(clock.Real{}), state: filepath.Join(w.dir, fmt.Sprintf("%d-0.db", id))}
	m.newBoot()
	return m
}

// timeOfDay is a machine's clock, whose time of day jumps. Durations do not.
type timeOfDay struct {
	clock.Real
	m *machine
}

func (c timeOfDay) NowMs() int64 { return c.Real.NowMs() + c.m.skew.Load() }

func (m *machine) newBoot() {
	m.boot++
	_ = m.disk.MkdirAll(filepath.Dir(bootFile))
	if err := m.disk.WriteFileAtomic(bootFile, []byte(strconv.Itoa(m.boot))); err != nil {
		panic(err)
	}
	_ = m.disk.SyncDir("/proc/sys/kernel/random")
}

func (m *machine) process() *process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.p
}

// process is one life of a broker.
type process struct {
	m       *machine
	life    int64
	disk    *vfs.Mem
	st      *store.Store
	node    *replica.Node
	member  *member
	cancel  context.CancelFunc
	running sync.WaitGroup
	dead    atomic.Bool
	opened  chan struct{}
	final   int64         // confirmed when it died
	seen    chan struct{} // the driver has looked at what it had confirmed
	term    atomic.Pointer[term]

	// of the driver
	stopping  bool
	led       atomic.Bool
	verified  int64 // of its log, against the truth
	confirmed int64
}

// term is as in package broker.
type term struct {
	role    replica.Role
	master  bool
	end     int64
	over    chan struct{}
	settled chan struct{}
}

// start begins a process; it reports whether it runs.
func (m *machine) start() bool {
	m.mu.Lock()
	if m.p != nil {
		m.mu.Unlock()
		return true
	}
	m.lives++
	p := &process{m: m, life: m.id*1000 + m.lives, disk: m.disk, opened: make(chan struct{}), seen: make(chan struct{})}
	p.term.Store(&term{over: make(chan struct{}), settled: make(chan struct{})})
	m.p, m.failed = p, false
	disk, state := m.disk, m.state
	m.mu.Unlock()
	defer close(p.opened)
	disk.Inject(p.hook)
	m.w.note("r%d: start, life %d", m.id, p.life)
	st, err := store.Open(m.w.storeConfig(state), disk, timeOfDay{m: m}, p.logger())
	if err == nil {
		p.st = st
	}
	switch {
	case p.dead.Load(): // killed meanwhile
		return false
	case err != nil:
		return m.noStart(p, err)
	}
	l := m.w.net.listen(m.id)
	p.node, err = replica.New(replica.Config{Cluster: "c", Group: groupName, ID: func() int64 { return m.id }, EpochFile: "/store/epochFileCheckpoint", Listener: l,
		MinInSync: p.minInSync, MaxLag: func() time.Duration { return 3 * time.Second }, SyncFlush: func() bool { return m.w.sync }, Copies: func() int { return 0 }, GiveWay: func() {}, MaxRate: func() int64 { return 0 },
		Dial:   func(ctx context.Context, addr string) (net.Conn, error) { return m.w.net.dial(ctx, m.id, number(addr)) },
		HAAddr: func(ctx context.Context, addr string) (string, error) { return addr, m.w.net.open(ctx, m.id) },
		AlterSyncStateSet: func(ctx context.Context, e, s int32, set []int64, lives map[int64]int64) (replica.Role, error) {
			return p.member.alter(ctx, e, s, set, lives)
		},
		Life:     func() int64 { return p.member.incarnation.Load() },
		Outdated: func() { p.member.look() }, AbleChanged: func() { signal(p.member.sick) }, Disown: func() error { return p.member.disown() }, Changed: p.changed,
	}, st, disk, p.logger())
	if err != nil {
		_ = l.Close()
		if p.dead.Load() {
			return false
		}
		_ = st.Close()
		p.st = nil
		return m.noStart(p, err)
	}
	p.member = &member{p: p, c: m.w.ctl, wake: make(chan struct{}, 1), sick: make(chan struct{}, 1), rng: rand.New(rand.NewPCG(m.w.seed, uint64(p.life)))}
	p.member.begin()
	p.run()
	return true
}

// ready tells whether the process has been opened.
func (p *process) ready() bool {
	select {
	case <-p.opened:
		return p.member != nil
	default:
		return false
	}
}

// noStart is a start that has failed. That is right only if the disk fails.
func (m *machine) noStart(p *process, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.w.note("r%d: no start: %v", m.id, err)
	if !errors.Is(err, errDisk) && !errors.Is(err, vfs.ErrNoSpace) {
		m.w.fail("r%d does not start: %v", m.id, err)
	}
	m.failIn, m.failFor, m.p = 0, 0, nil
	p.dead.Store(true)
	return false
}

func number(addr string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(addr, "r"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// run starts what a broker runs.
func (p *process) run() {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	part := func(f func(ctx context.Context) error) {
		p.running.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				p.m.w.note("r%d: the process ends: %v", p.m.id, err)
				p.m.kill(false, "it ended")
			}
		})
	}
	part(p.st.Run)
	part(p.node.Run)
	part(func(ctx context.Context) error { p.member.run(ctx); return nil })
	part(func(ctx context.Context) error { p.member.beat(ctx); return nil })
	part(p.terms)
	part(p.watchDisk)
}

// watchDisk ends a process whose disk has failed.
func (p *process) watchDisk(ctx context.Context) error {
	for ctx.Err() == nil {
		sleep(ctx, 100*time.Millisecond)
		if err := p.st.Writeable(); errors.Is(err, commitlog.ErrPoisoned) {
			return err
		}
	}
	return nil
}

func (p *process) registration(least int, torn bool) *controller.Register {
	return &controller.Register{Cluster: "c", Name: groupName, ID: p.m.id, Addr: fmt.Sprintf("r%d", p.m.id), Inherits: true, MinInSync: int32(least), Incarnation: p.member.incarnation.Load(), Attempt: p.member.attempt.Add(1), Torn: torn}
}

// least, minInSync and promise are those of broker/replicas.go.
func (p *process) least(registered, inSync int) int {
	if n := p.m.w.minInSync; n > 0 {
		return n
	}
	if registered == 0 {
		return 2
	}
	return min(2, max(registered, inSync))
}

func (p *process) minInSync(r *replica.Role) int {
	return max(p.least(r.Replicas, len(r.SyncStateSet)), p.member.promise())
}

func (p *process) promise() int {
	r := p.term.Load().role
	return p.least(r.Replicas, len(r.SyncStateSet))
}

func (p *process) changed(r replica.Role, master bool) {
	t := &term{role: r, master: master, end: p.st.Log.End(), over: make(chan struct{}), settled: make(chan struct{})}
	if master {
		p.led.Store(true)
		p.m.w.crowned(p, r.Epoch)
	}
	close(p.term.Swap(t).over)
	p.member.look()
}

func (p *process) terms(ctx context.Context) error {
	t := p.term.Load()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.over:
		}
		if t = p.term.Load(); t.master && p.settle(ctx, t) {
			close(t.settled)
		}
	}
}

func (p *process) settle(ctx context.Context, t *term) bool {
	for p.st.Dispatched() < t.end && !bugs.AnswerUnsettled {
		select {
		case <-ctx.Done():
			return false
		case <-t.over:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

// leads returns the term if the process would take requests for the master.
func (p *process) leads() *term {
	t := p.term.Load()
	select {
	case <-t.settled:
		return t
	default:
		return nil
	}
}

// kill ends the process at once; power: with the machine, so that what was not synced may be lost.
func (m *machine) kill(power bool, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.p
	if p == nil {
		return
	}
	m.p, m.killIn, m.failIn, m.failFor = nil, 0, 0, 0
	m.w.mu.Lock() // nothing is acknowledged any more
	p.dead.Store(true)
	m.w.mu.Unlock()
	m.w.net.change(func() { delete(m.w.net.frozen, m.id) })
	m.w.net.kill(m.id)
	if p.st != nil {
		p.final = p.st.Confirmed()
	}
	mode := vfs.CrashKeep
	if power {
		mode = []vfs.CrashMode{vfs.CrashDrop, vfs.CrashMix, vfs.CrashTear}[m.rng.IntN(3)]
	}
	if power || m.failed { // a store whose disk has failed cannot know either what it has lost
		m.wounded, m.lossAt = !m.w.sync, 1<<62
	}
	m.w.note("r%d: dies: %s, power loss %v, confirmed %d", m.id, why, power, p.final)
	state := filepath.Join(m.w.dir, fmt.Sprintf("%d-%d.db", m.id, m.lives))
	copyFile(m.state, state) // before the disk: the state must not be ahead of its log
	m.state = state
	old := m.disk
	m.disk = old.CrashClone(m.rng, mode)
	m.disk.SetFree(1 << 30)
	if power {
		m.newBoot()
	}
	m.w.died(p)
	go p.bury(old)
	if !power {
		go m.w.ctl.died(m.id, p.life)
	}
}

// bury lets what is left of a process end. Nobody sees what it still does.
func (p *process) bury(disk *vfs.Mem) {
	disk.Inject(nil)
	<-p.opened
	if p.cancel != nil {
		p.cancel()
		p.running.Wait()
	}
	<-p.seen
	if p.st != nil {
		_ = p.st.Close()
	}
}

// copyFile copies a file that may be written meanwhile, as it was at some moment.
func copyFile(from, to string) {
	var last []byte
	for {
		b, err := os.ReadFile(from)
		if errors.Is(err, os.ErrNotExist) {
			return
		}
		if err != nil {
			panic(err)
		}
		if last != nil && bytes.Equal(b, last) {
			break
		}
		last = b
	}
	if err := os.WriteFile(to, last, 0o600); err != nil {
		panic(err)
	}
}

// hook sees each operation on the disk.
func (p *process) hook(op vfs.Op, path string, _, _ int64) error {
	switch op {
	case vfs.OpWriteAt, vfs.OpSyncData, vfs.OpCreate, vfs.OpRename, vfs.OpRemove, vfs.OpSyncDir, vfs.OpAllocate, vfs.OpTruncate:
	default:
		return nil
	}
	if p.dead.Load() {
		return nil
	}
	m := p.m
	m.mu.Lock()
	kill, power := false, m.killPower
	if m.killIn > 0 {
		m.killIn--
		kill = m.killIn == 0
	}
	fail := false
	if m.failIn > 0 && (m.failOp == "" || op == m.failOp) {
		if m.failIn--; m.failIn == 0 {
			fail, m.failed = true, true
			if m.failFor--; m.failFor > 0 {
				m.failIn = 1
			}
		}
	}
	m.mu.Unlock()
	if kill {
		m.kill(power, fmt.Sprintf("before %s %s", op, path))
		return errStopped
	}
	if fail {
		m.w.note("r%d: error injected: %s %s", m.id, op, path)
		return errDisk
	}
	return nil
}

func (p *process) logger() *zap.Logger {
	return zap.New(zapcore.NewCore(p.m.w.encoder, zapcore.AddSync(logTo{p}), zapcore.InfoLevel))
}

type logTo struct{ p *process }

func (l logTo) Write(b []byte) (int, error) {
	dead := ""
	if l.p.dead.Load() {
		dead = " (dead)"
	}
	l.p.m.w.note("r%d%s: %s", l.p.m.id, dead, bytes.TrimSpace(b))
	return len(b), nil
}

var _ io.Writer = logTo{}
