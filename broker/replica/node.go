package replica

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/store"
)

// Role is what the controllers have decided about the group.
type Role struct {
	Epoch        int32
	Master       int64 // 0: there is none
	MasterAddr   string
	SyncStateSet []int64
	SetEpoch     int32
	Replicas     int // that are registered; 0 if that is not known
}

// masterless is the role as long as nobody is master.
func (r Role) masterless() Role {
	r.Master, r.MasterAddr = 0, ""
	return r
}

// newer tells whether r replaces old.
func (r *Role) newer(old *Role) bool {
	return r.Epoch > old.Epoch || r.Epoch == old.Epoch && (r.SetEpoch > old.SetEpoch || r.SetEpoch == old.SetEpoch && r.Replicas > old.Replicas)
}

// Config is what a Node needs. Functions are called without locks and may be called at any time.
type Config struct {
	Cluster, Group string
	ID             func() int64      // of this broker, given by the controllers
	EpochFile      string            // storePathEpochFile
	Learner        bool              // it never joins the set
	Listener       net.Listener      // the replication port; the Node closes it
	MinInSync      func(r *Role) int // the smallest set with which anything is confirmed
	MaxLag         func() time.Duration
	Copies         func() int   // see Leader.Copies
	SyncFlush      func() bool  // acknowledge what is flushed, not what is written
	GiveWay        func()       // has the present thread leave the processors to all others that want them
	MaxRate        func() int64 // bytes per second to a replica that is far behind; 0: as fast as it goes

	// Dial connects to a replication port; nil: over TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// HAAddr asks a broker for the address of its replication port.
	HAAddr func(ctx context.Context, addr string) (string, error)
	// AlterSyncStateSet asks the controllers for another set. An error that wraps ErrRefused says that it was not, and will not be
	// committed; any other leaves that open. lives are those of its members, as far as known; see Leader.Lives.
	AlterSyncStateSet func(ctx context.Context, epoch, setEpoch int32, set []int64, lives map[int64]int64) (Role, error)
	// Life tells one life of this process from another, as the controllers do.
	Life func() int64
	// Outdated asks the controllers who is master: somebody knows of a later one.
	Outdated func()
	// Disown has the controllers told that nobody may rely on what this log holds (Store.Disown). It must not block.
	Disown func() error
	// AbleChanged tells that Able or Damaged has. It must not block.
	AbleChanged func()
	// Changed tells that this broker has become master, or is about to become a replica. It runs on the goroutine that changes roles and
	// must not block.
	Changed func(r Role, master bool)
}

// ErrRefused: the controllers have not changed the set.
var ErrRefused = errors.New("refused by the controllers")

// Node is this broker's part in the replication of its group.
type Node struct {
	cfg   Config
	fs    vfs.FS
	store *store.Store
	log   *zap.Logger
	pause time.Duration // retryOdd

	unable    atomic.Bool  // of a master: what comes now cannot be expected to be confirmed
	waits     atomic.Bool  // elected, and cannot become master yet
	watermark atomic.Int64 // what the others have, or the master says is confirmed
	sources   atomic.Pointer[[]*source]
	numbered  atomic.Int64 // snapshots
	sent      atomic.Int64 // bytes to replicas
	taken     atomic.Int64 // bytes from masters
	link      atomic.Pointer[link]
	cutter    cutter // push only
	born      time.Time

	wanted  atomic.Pointer[Role] // by the controllers
	changed chan struct{}
	alert   chan struct{} // something has happened to a replica

	mu       sync.Mutex
	role     Role
	leader   *Leader // nil unless this broker is master
	epochs   Epochs
	sessions uint64
	holders  map[*source]struct{} // connections, whatever has come of them
	joined   int32                // epoch of the byte before the offset of the state that was installed; unknownEpoch
	asking   bool                 // the controllers are being asked for another set
	former   int32                // the newest epoch that was known when the process started

	leaving  chan struct{} // closed when this broker is about to stop
	left     chan struct{} // closed when its master has let it go
	leftOnce sync.Once

	disowned bool // by the goroutine that follows: Disown was called

	// of the goroutine that changes roles
	following context.CancelFunc
	followed  chan struct{}
	serving   sync.WaitGroup
}

// New reads the epoch file and takes over the store's confirm offset. The store must have been opened as replicated.
func New(cfg Config, st *store.Store, fsys vfs.FS, log *zap.Logger) (*Node, error) {
	if cfg.Dial == nil {
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	n := &Node{cfg: cfg, fs: fsys, store: st, log: log, pause: retryOdd, holders: map[*source]struct{}{},
		changed: make(chan struct{}, 1), alert: make(chan struct{}, 1), leaving: make(chan struct{}), left: make(chan struct{})}
	n.born, n.cutter.n = time.Now(), n
	n.sources.Store(&[]*source{})
	n.watermark.Store(Unknown)
	text, err := fsys.ReadFile(cfg.EpochFile)
	if err == nil {
		if n.epochs, err = DecodeEpochs(text); err != nil {
			return nil, fmt.Errorf("%s: %w: take it away, and the log with it, to fetch both from the master", cfg.EpochFile, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	n.former = n.epochs.Last()
	// A power loss may have taken the end of the log and left the epoch that began there.
	used := n.epochs.Cut(st.Log.End())
	if len(used) < len(n.epochs) { // also in the file: when the log is longer again, its bytes there are of another epoch
		if err := n.saveEpochs(used); err != nil {
			return nil, err
		}
	}
	n.epochs = used.Drop(st.Log.Min())
	if err := fsys.RemoveAll(n.snapshots()); err != nil {
		return nil, err
	}
	if err := n.readJoin(); err != nil {
		return nil, err
	}
	st.SetHeld(n.held)
	st.SetGate(n.gate)
	st.SetWritten(n.push)
	return n, nil
}

// gate is the confirm offset: what this broker and all others that must have it have.
func (n *Node) gate(written, flushed int64) int64 {
	own := written
	if n.cfg.SyncFlush() && !bugs.UnflushedGate {
		own = flushed
	}
	return min(own, n.watermark.Load())
}

// push sends to all replicas what is new in the log. It has one caller at a time, whoever has appended, and does not block.
func (n *Node) push() {
	for _, s := range *n.sources.Load() {
		s.push(&n.cutter)
	}
}

// uptime is in ns since New.
func (n *Node) uptime() int64 { return int64(time.Since(n.born)) }

// SetRole takes a decision of the controllers. It returns at once; older decisions are ignored.
func (n *Node) SetRole(r Role) {
	for {
		old := n.wanted.Load()
		if old != nil && !r.newer(old) {
			return
		}
		if n.wanted.CompareAndSwap(old, &r) {
			break
		}
	}
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Leave tells the master, if this broker is a replica, that it is about to stop, so that nobody waits for it, and returns when it is out
// of the set or ctx ends. Call it once.
func (n *Node) Leave(ctx context.Context) {
	close(n.leaving)
	if s := n.Status(); s.Master || s.Role.Master == 0 {
		return
	}
	select {
	case <-n.left:
	case <-ctx.Done():
	}
}

// Status is a Node as tools are shown it.
type Status struct {
	Role   Role
	Master bool
	Epochs Epochs
	Acked  map[int64]int64 // of a master: how far connected replicas are
	Addrs  map[int64]string
	Behind map[int64]time.Duration // how long ago each had the whole log
	Enough bool                    // of a master: the set is large enough for anything to be confirmed

	// Of a replica: the master's replication port, and when something last came from it and went to it, in ms. Empty without a connection.
	From               string
	ReadTime, SentTime int64
}

// Status returns the present state.
func (n *Node) Status() Status {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := Status{Role: n.role, Master: n.leader != nil, Epochs: n.epochs}
	if l := n.link.Load(); l != nil && !s.Master {
		s.From, s.ReadTime, s.SentTime = l.addr, l.read.Load(), l.sent.Load()
	}
	if s.Master {
		s.Acked, s.Enough = map[int64]int64{}, n.leader.Enough()
		s.Role.SyncStateSet, s.Role.SetEpoch = n.leader.Set()
		for id, p := range n.leader.peers {
			if p.acked != Unknown {
				s.Acked[id] = p.acked
			}
		}
		s.Addrs, s.Behind = map[int64]string{}, n.leader.Behind(n.store.Log.End(), time.Now())
		for _, c := range *n.sources.Load() {
			s.Addrs[c.id] = c.addr
		}
	}
	return s
}

// Sent is how many bytes of the log were sent to replicas.
func (n *Node) Sent() int64 { return n.sent.Load() }

// Received is how many bytes were taken from masters.
func (n *Node) Received() int64 { return n.taken.Load() }

// HasReplicaAt tells whether a replica is connected from an address.
func (n *Node) HasReplicaAt(addr netip.Addr) bool {
	for _, s := range *n.sources.Load() {
		if s.from == addr {
			return true
		}
	}
	return false
}

// LastEpoch is the newest epoch in the log.
func (n *Node) LastEpoch() int32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs.Last()
}

// giveUp is how long what was taken waits for a set that has become too small.
const giveUp = time.Second

// How often a master looks after its set: while somebody is missing or behind, and while all is well; and how often a replica, which has none.
const (
	busyTick = 10 * time.Millisecond
	calmTick = 200 * time.Millisecond
	idleTick = time.Second
)

// Run takes up roles and serves replicas until ctx ends. What is not confirmed then stays so.
func (n *Node) Run(ctx context.Context) error {
	g := lifecycle.New(ctx)
	g.Go("replication port", n.accept)
	g.Go("SyncStateSet", n.watch)
	g.Go("roles", n.roles)
	<-g.Context().Done()
	_ = n.cfg.Listener.Close()
	err := g.Stop()
	n.serving.Wait()
	return err
}

func (n *Node) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = n.cfg.Listener.Close() })
	defer stop()
	for {
		nc, err := n.cfg.Listener.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			n.log.Warn("the replication port takes no connection", zap.Error(err))
			timer := time.NewTimer(retry)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			continue
		}
		n.serving.Go(func() { n.serveReplica(ctx, nc) })
	}
}

// roles takes up what SetRole has left, one role after the other. A master's needs room on the disk, and a descriptor, and waits for them.
func (n *Node) roles(ctx context.Context) error {
	defer n.unfollow()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.changed:
		case <-again:
		}
		r := *n.wanted.Load()
		switch err := n.become(ctx, r); {
		case err == nil:
			again = nil
		case !vfs.Scarce(err):
			return err
		default:
			if again == nil {
				n.log.Error("this broker is elected, and cannot become master before it can write down its epoch: it needs room on its disk and a free descriptor", zap.Int32("epoch", r.Epoch), zap.Error(err))
			}
			again = time.After(retry)
		}
		if waits := again != nil; n.waits.Swap(waits) != waits {
			n.cfg.AbleChanged()
		}
	}
}

// become takes up a role.
func (n *Node) become(ctx context.Context, r Role) error {
	n.mu.Lock()
	old, master := n.role, n.leader != nil
	n.mu.Unlock()
	switch {
	case r.Epoch == old.Epoch && r.Master == old.Master:
		n.mu.Lock()
		n.role = r
		if master {
			n.leader.Committed(r.SyncStateSet, r.SetEpoch)
		}
		n.mu.Unlock()
		n.advance()
	case r.Master != 0 && r.Master == n.cfg.ID() && (r.Epoch <= max(n.LastEpoch(), n.former) || n.store.Joining()) && !bugs.ResumeEpoch:
		// Of a former life, or by controllers that know too little: what is confirmed may be missing here. There will be an election.
		n.resign(r.masterless(), master)
		n.cfg.Outdated()
	case r.Master != 0 && r.Master == n.cfg.ID():
		err := n.lead(r, master)
		if err == nil {
			n.cfg.Changed(r, true)
		} else if old.Epoch != r.Epoch {
			n.cfg.Changed(r.masterless(), false)
		}
		return err
	default:
		n.cfg.Changed(r, false) // who comes from now on waits for the next master
		n.resign(r, master)
		n.follow(ctx, r)
	}
	return nil
}

// lead makes this broker master. Its log is the group's from now on.
func (n *Node) lead(r Role, was bool) error {
	n.resign(r.masterless(), was)
	end := n.store.Log.End()
	n.mu.Lock()
	epochs := n.epochs.Begin(r.Epoch, end)
	n.mu.Unlock()
	if bugs.NoEpochFile {
		n.epochs = epochs
	} else if err := n.saveEpochs(epochs); err != nil {
		return err
	}
	if err := n.store.Promote(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.look()
	n.role = r
	n.leader = NewLeader(n.cfg.ID(), r.Epoch, r.SyncStateSet, r.SetEpoch, n.cfg.MinInSync(&r), n.cfg.MaxLag(), time.Now())
	n.mu.Unlock()
	n.log.Info("this broker is master", zap.Int32("epoch", r.Epoch), zap.Int64s("syncStateSet", r.SyncStateSet), zap.Int64("offset", end), zap.Int64("confirmed", n.store.Confirmed()))
	n.advance()
	return nil
}

// resign ends what this broker did in its role, and takes up the epoch of the next one: from here on nothing is confirmed in the old.
func (n *Node) resign(r Role, was bool) {
	n.unfollow()
	n.mu.Lock()
	n.role, n.leader = r, nil
	n.watermark.Store(Unknown)
	n.unable.Store(false)
	n.mu.Unlock()
	n.store.Demote(store.ErrNotMaster)
	for _, s := range *n.sources.Load() {
		s.close()
	}
	if was {
		n.log.Warn("this broker is no longer master of its epoch", zap.Int32("epoch", r.Epoch), zap.Int64("master", r.Master), zap.Int64("offset", n.store.Log.End()), zap.Int64("confirmed", n.store.Confirmed()))
	}
}

// follow starts to take the log of the master of a role, if there is one.
func (n *Node) follow(ctx context.Context, r Role) {
	if r.Master == 0 || r.MasterAddr == "" {
		return
	}
	ctx, n.following = context.WithCancel(ctx)
	n.followed = make(chan struct{})
	go func() {
		defer close(n.followed)
		(&sink{n: n, role: r}).run(ctx)
	}()
}

func (n *Node) unfollow() {
	if n.following != nil {
		n.following()
		<-n.followed
		n.following = nil
	}
}

// watch asks for changes of the set as the master sees fit.
func (n *Node) watch(ctx context.Context) error {
	tick := clock.Real{}.NewTicker(busyTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.alert:
		case <-tick.C:
		}
		n.tend(ctx, time.Now())
		tick.Reset(n.pace())
	}
}

// pace is when to look again.
func (n *Node) pace() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.leader == nil:
		return idleTick
	case n.leader.Calm(n.store.Log.End()):
		return calmTick
	}
	return busyTick
}

// look has the set looked after soon.
func (n *Node) look() {
	select {
	case n.alert <- struct{}{}:
	default:
	}
}

func (n *Node) tend(ctx context.Context, now time.Time) {
	n.mu.Lock()
	leader := n.leader
	if leader == nil {
		n.mu.Unlock()
		return
	}
	leader.MinInSync, leader.Copies = n.cfg.MinInSync(&n.role), n.cfg.Copies()
	want := leader.Tick(n.store.Log.End(), now)
	set, setEpoch := leader.Set()
	lives := leader.Lives(want)
	ask := want != nil && !n.asking
	n.asking = n.asking || ask
	n.mu.Unlock()
	n.advance() // a proposal may have begun, or been given up
	if !n.Able() {
		n.store.GiveUp(giveUp)
	}
	if ask {
		n.serving.Go(func() { n.alter(ctx, leader, set, want, lives, setEpoch) })
	}
}

// alter asks the controllers to replace the set.
func (n *Node) alter(ctx context.Context, leader *Leader, set, want []int64, lives map[int64]int64, setEpoch int32) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := n.cfg.AlterSyncStateSet(limited, leader.Epoch, setEpoch, want, lives)
	n.mu.Lock()
	n.asking = false
	if n.leader == leader {
		switch {
		case err == nil:
			leader.Committed(r.SyncStateSet, r.SetEpoch)
			n.dismiss(r.SyncStateSet)
		case errors.Is(err, ErrRefused):
			leader.Refused(time.Now())
		default:
			leader.Unanswered(time.Now())
		}
	}
	n.mu.Unlock()
	if err != nil {
		n.cfg.Outdated()
		n.log.Warn("the SyncStateSet is not changed", zap.Int64s("from", set), zap.Int64s("to", want), zap.Error(err))
	} else {
		n.log.Info("SyncStateSet", zap.Int64s("from", set), zap.Int64s("to", r.SyncStateSet), zap.Int32("syncStateSetEpoch", r.SetEpoch))
	}
	n.advance()
}

// advance moves the confirm offset as far as it goes.
func (n *Node) advance() {
	n.mu.Lock()
	if n.leader != nil {
		n.watermark.Store(n.leader.Watermark())
		if unable := !n.leader.Able(time.Now()); n.unable.Swap(unable) != unable {
			n.cfg.AbleChanged()
		}
	}
	n.mu.Unlock()
	n.store.Advance()
}

// Able tells whether what a master takes now can be expected to be confirmed soon; who is elected and cannot become master is not. It costs next to
// nothing.
func (n *Node) Able() bool { return !n.unable.Load() && !n.waits.Load() }

// Hears tells whether a replica takes the master's log, or could until a moment ago.
func (n *Node) Hears() bool {
	l := n.link.Load()
	return l != nil && time.Now().UnixMilli()-l.read.Load() < hearing.Milliseconds()
}

// attach begins to count a replica; false means that this broker is not master of that epoch any more.
func (n *Node) attach(s *source, h *hello) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader == nil || n.leader.Epoch != s.epoch {
		return false
	}
	if n.leader.Newer(h.SetEpoch) {
		n.watermark.Store(n.leader.Watermark())
		defer n.cfg.Outdated()
	}
	n.sessions++
	s.session = n.sessions
	n.leader.Attach(h.ID, s.session, h.End, h.Life, h.Learner, time.Now())
	n.look()
	all := append(slices.Clone(*n.sources.Load()), s)
	n.sources.Store(&all)
	return true
}

func (n *Node) detach(s *source) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*n.sources.Load()), func(o *source) bool { return o == s })
	n.sources.Store(&all)
	if n.leader != nil && n.leader.Epoch == s.epoch {
		n.leader.Detach(s.id, s.session, time.Now())
		n.watermark.Store(n.leader.Watermark())
		n.look()
	}
}

// part is the epoch of the byte at an offset, and where its bytes end at the latest.
func (n *Node) part(at int64) (Epoch, int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epochs.At(at)
}

// leave takes a replica's word that it stops.
func (n *Node) leave(s *source) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.leader != nil && n.leader.Epoch == s.epoch {
		n.leader.Leave(s.id, s.session)
		n.look()
	}
}

// dismiss ends the connections of replicas that wanted to leave the set and have. The caller holds mu.
func (n *Node) dismiss(set []int64) {
	for _, s := range *n.sources.Load() {
		if n.leader.peer(s.id).leaving && !slices.Contains(set, s.id) {
			s.close()
		}
	}
}

// acked takes an acknowledgement. It reports whether the confirm offset may go on.
func (n *Node) acked(s *source, end int64) (moved bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.leader
	if l == nil || l.Epoch != s.epoch {
		return false, errEpoch
	}
	if log := n.store.Log.End(); !l.Ack(s.id, s.session, end, log, time.Now()) {
		return false, fmt.Errorf("replica %d acknowledges up to %d, the log ends at %d", s.id, end, log)
	}
	low := l.Watermark()
	return low != n.watermark.Swap(low), nil
}

// hello introduces our log to the master of a role. Its end counts as acknowledged, so it must be as durable as that (I11). An epoch in which this
// broker was master and wrote nothing is forgotten: the master's log may go on in an older one.
func (n *Node) hello(r Role) (*hello, error) {
	life := n.cfg.Life() // before the log is looked at: it is not one that came later
	log := n.store.Log
	if err := log.Poisoned(); err != nil {
		return nil, err
	}
	if n.cfg.SyncFlush() {
		if err := log.Flush(); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	epochs := n.epochs
	n.mu.Unlock()
	if used := epochs.Cut(log.End()); len(used) < len(epochs) && !bugs.KeepEmptyEpoch {
		if err := n.saveEpochs(used); err != nil {
			return nil, err
		}
	}
	h := &hello{Cluster: n.cfg.Cluster, Group: n.cfg.Group, ID: n.cfg.ID(), Life: life, Learner: n.cfg.Learner, Fetch: n.void() || n.unsure() > maxTail, Epoch: r.Epoch, SetEpoch: r.SetEpoch, LastEpoch: n.LastEpoch(),
		Min: log.Min(), End: log.End(), SegmentSize: log.SegmentSize()}
	size := min(max(n.unsure(), tailBytes), maxTail, h.End-h.Min)
	sum, err := n.sumOf(h.End, int(size))
	h.Tail, h.TailSum = uint32(size), sum
	return h, err
}

// unsure is how many bytes at the end of the log a power loss may have damaged.
func (n *Node) unsure() int64 {
	log := n.store.Log
	sound, _ := n.store.Sound()
	return max(0, log.End()-max(sound, log.Min()))
}

// compare looks at both logs.
func (n *Node) compare(h *hello, w *welcome) logs {
	n.mu.Lock()
	epochs := n.epochs
	n.mu.Unlock()
	l := logs{Min: h.Min, End: h.End, Confirmed: n.store.Confirmed(), MasterMin: w.Min, MasterEnd: w.End, Void: h.Fetch, Common: h.End}
	if w.Verdict == diverged {
		l.Common = epochs.Common(w.LastEpoch, w.Offset, h.End)
	}
	return l
}

// errDisown: the controllers still count on what is to be dropped.
var errDisown = errors.New("what a power loss may have damaged is fetched from the master as soon as the controllers know")

// disown gets the controllers to count on nothing that this log holds, before something is dropped that was acknowledged and may have been confirmed.
// nil means that they do not any more.
func (n *Node) disown(epoch int32) error {
	if !n.disowned {
		if err := n.cfg.Disown(); err != nil {
			return err
		}
		n.disowned = true
	}
	if r := n.wanted.Load(); n.store.Torn() || r.Epoch != epoch || slices.Contains(r.SyncStateSet, n.cfg.ID()) {
		return errDisown
	}
	return nil
}

// cut removes what the master does not have.
func (n *Node) cut(at, end int64, epoch int32, why string) error {
	if bugs.CutTooMuch {
		n.mu.Lock()
		epochs := n.epochs
		n.mu.Unlock()
		at -= at % n.store.Log.SegmentSize()
		return errors.Join(n.store.Log.Truncate(at), n.saveEpochs(epochs.Cut(at)))
	}
	n.log.Warn("the end of the log is cut: "+why, zap.Int64("from", at), zap.Int64("to", end), zap.Int32("epoch", epoch))
	if err := n.store.Truncate(at); err != nil {
		return err
	}
	n.mu.Lock()
	epochs := n.epochs.Cut(at)
	n.mu.Unlock()
	return n.saveEpochs(epochs)
}

// take appends a frame of the master's log, for Write.
func (n *Node) take(d *data) error {
	log := n.store.Log
	if len(d.Body) == 0 {
		return nil
	}
	if end := log.Appended(); d.Offset != end {
		return fmt.Errorf("the master sends offset %d, the log ends at %d", d.Offset, end)
	}
	if err := n.checkJoin(d); err != nil {
		return err
	}
	if err := n.enterEpoch(d); err != nil {
		return err
	}
	n.taken.Add(int64(len(d.Body)))
	return log.AppendRaw(d.Offset, d.Body)
}

// enterEpoch notes a new epoch before its first byte is in the log (I10).
func (n *Node) enterEpoch(d *data) error {
	n.mu.Lock()
	epochs := n.epochs
	n.mu.Unlock()
	switch last := epochs.Last(); {
	case d.Part.Epoch == last:
		return nil
	case d.Part.Epoch < last || d.Part.Start != d.Offset:
		return fmt.Errorf("the master sends epoch %d from %d at %d, the last here is %d", d.Part.Epoch, d.Part.Start, d.Offset, last)
	}
	return n.saveEpochs(epochs.Begin(d.Part.Epoch, d.Part.Start))
}

// saveEpochs makes e the epochs of the log, on disk first. Of a log whose disk has failed nobody knows what is left there, so nothing is said
// about it (I10).
func (n *Node) saveEpochs(e Epochs) error {
	if err := n.store.Log.Poisoned(); err != nil {
		return err
	}
	if err := n.fs.WriteFileAtomic(n.cfg.EpochFile, e.Encode()); err != nil {
		return err
	}
	n.mu.Lock()
	n.epochs = e
	n.mu.Unlock()
	return nil
}

// confirmTo takes the master's confirm offset.
func (n *Node) confirmTo(offset int64) {
	if offset > n.watermark.Load() && offset < math.MaxInt64 {
		n.watermark.Store(offset)
	}
	n.store.Advance()
}
