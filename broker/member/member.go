package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// maxAskPeriod is the longest time between two questions who is master, whatever syncBrokerMetadataPeriod says.
	maxAskPeriod = time.Second
	// retryPause is the longest pause between two attempts.
	retryPause = 100 * time.Millisecond
	// defaultHeartbeat is a fifth of Java's period: silence is what a hung master is found by.
	defaultHeartbeat = 200 * time.Millisecond
)

// Config is what a member is told. Functions are called again and again, from several goroutines.
type Config struct {
	Cluster, Name string // brokerClusterName, brokerName
	// Addr is where clients, replicas and controllers reach this broker, host:port. It must accept connections before Run: a
	// refused one tells the controllers that the process is gone.
	Addr         string
	IdentityFile string          // storePathBrokerIdentity
	Controllers  func() []string // controllerAddr, host:port each
	// MinInSync is the smallest SyncStateSet with which this broker, as a master, confirms or acknowledges anything, from 1 on; 0:
	// it makes no such promise. See Member.MinInSync.
	MinInSync func() int32
	Learner   bool // it never joins the set
	// Torn tells whether this broker may lack the end of what it had acknowledged in a former life, or is about to drop it (Store.Torn). Mended is
	// called when the controllers know. Both may be nil.
	Torn             func() bool
	Mended           func()
	Priority         func() int32  // brokerElectionPriority
	HeartbeatPeriod  time.Duration // 0: 200 ms
	HeartbeatTimeout time.Duration // controllerHeartBeatTimeoutMills: the silence after which the controllers take the broker for dead
	AskPeriod        time.Duration // syncBrokerMetadataPeriod; above 1 s, or 0, it counts as 1 s
	// Random draws from [0,1) and is safe for concurrent use. It spreads the retries of brokers that start together; nil: math/rand.
	Random func() float64
}

// Vitals are what the replica says of itself.
type Vitals struct {
	Epoch         int32 // the last master epoch in its log; -1: none
	MaxOffset     int64 // the end of its log
	ConfirmOffset int64
	Healthy       bool
}

// Replica is the broker's part in the replication of the log. Its methods are called from goroutines of the member.
type Replica interface {
	// Vitals must not block.
	Vitals() Vitals
	// SetRole is called with each newer role, also with those that AlterSyncStateSet returns. Roles that are superseded before they could
	// be told are left out, and so are those of an epoch below Vitals.Epoch. It must return quickly; the next call comes after it
	// has returned. Nobody may change the set.
	SetRole(Role)
}

// Errors of AlterSyncStateSet.
var (
	// ErrFencedEpoch: this broker is not the master in that epoch. Nothing was changed in its name.
	ErrFencedEpoch = errors.New("not the master in this epoch")
	// ErrFencedSetEpoch: the set was changed meanwhile. SetRole tells the present one.
	ErrFencedSetEpoch = errors.New("the SyncStateSet is another one by now")
	// ErrNotAlive: a replica of the set is dead by what the controllers know. Nothing was changed, and nothing will be.
	ErrNotAlive = errors.New("a replica of the set is not alive")
	// ErrUnknown: no leader has answered, so the set may have been changed, or may be yet.
	ErrUnknown = errors.New("it is not known whether the SyncStateSet was changed")
)

// Member is a broker's membership in its group.
type Member struct {
	cfg     Config
	replica Replica
	files   files
	clk     clock.Clock
	log     *zap.Logger
	quorum  *quorum
	work    *lifecycle.Group
	wake    chan struct{} // there is a reason to ask at once who is master
	news    chan struct{} // role has changed
	urgent  chan struct{} // a heartbeat is to be sent now

	id         atomic.Int64
	promised   atomic.Int32 // minInSyncReplicas that the controllers may believe in
	registered atomic.Bool
	asked      atomic.Bool // who is master, in this life
	unknown    atomic.Bool // the leader does not know this broker
	disowned   atomic.Bool // Disown
	odd        atomic.Bool // the controllers have lost data, and that was logged

	machine  machine // of the steps' goroutine
	applied  identity
	life     atomic.Int64 // of this process, up to a Disown: who starts again is not taken for who he was (controller.Starts); 0: it has not begun
	attempt  int64        // to register, in this life
	outdated int64        // the starts that the controllers know of, if our disk does not
	troubled bool         // the present step has failed, and that was logged

	mu      sync.Mutex
	role    Role            // the newest
	beating map[string]bool // controllers to which a heartbeat is on its way
}

// New returns a member that does nothing before Run. It does not close the client.
func New(cfg Config, client *remoting.Client, replica Replica, fsys vfs.FS, clk clock.Clock, log *zap.Logger) *Member {
	if cfg.HeartbeatPeriod <= 0 {
		cfg.HeartbeatPeriod = defaultHeartbeat
	}
	if cfg.AskPeriod <= 0 || cfg.AskPeriod > maxAskPeriod {
		cfg.AskPeriod = maxAskPeriod
	}
	if cfg.Random == nil {
		cfg.Random = rand.Float64
	}
	work := lifecycle.New(context.Background())
	m := &Member{
		cfg: cfg, replica: replica, files: files{fsys, cfg.IdentityFile}, clk: clk, log: log, work: work,
		quorum: &quorum{client: client, addrs: cfg.Controllers, log: log, work: work},
		wake:   make(chan struct{}, 1), news: make(chan struct{}, 1), urgent: make(chan struct{}, 1), beating: map[string]bool{},
	}
	return m
}

// begin begins a life that the controllers take for a later one than all before.
func (m *Member) begin() error {
	starts, err := m.files.countStart(m.outdated)
	if err == nil {
		m.life.Store(starts<<32 | rand.Int64N(1<<32))
		m.attempt = 0
	}
	return err
}

// Run takes part in the group until ctx ends. Its only errors are names that cannot be and identity files that are damaged or belong
// to another broker; everything else is tried until it succeeds. Call it once.
func (m *Member) Run(ctx context.Context) error {
	defer m.work.Stop() //nolint:errcheck // returned below
	if err := errors.Join(checkName("brokerClusterName", m.cfg.Cluster), checkName("brokerName", m.cfg.Name), checkName("broker address", m.cfg.Addr)); err != nil {
		return err
	}
	own, applied, err := m.files.load(m.cfg.Cluster, m.cfg.Name)
	if err != nil {
		return err
	}
	m.machine = begin(own, applied)
	switch {
	case own != nil:
		m.id.Store(own.id)
	case applied != nil:
		m.applied = *applied
	}
	m.work.Go("membership", m.run)
	m.work.Go("heartbeats", m.beat)
	m.work.Go("roles", m.tell)
	select {
	case <-ctx.Done():
	case <-m.work.Context().Done():
	}
	return m.work.Stop()
}

// ID returns the broker's id, 0 before it is known.
func (m *Member) ID() int64 { return m.id.Load() }

// MinInSync returns the smallest set that the controllers may believe this broker to need. When minInSyncReplicas is lowered while the
// broker runs, a master must go on to need that many until this number follows: a replica that left the set may be elected.
func (m *Member) MinInSync() int32 { return m.promised.Load() }

// Notified takes a NOTIFY_BROKER_ROLE_CHANGED. Anybody could have sent it late or twice, so it counts only with a newer epoch; the
// controllers are asked in any case when it holds something new. It does not block.
func (m *Member) Notified(epoch, setEpoch int32, master int64, masterAddr string, set []int64) {
	r, err := newRole(epoch, setEpoch, master, masterAddr, set)
	if err != nil || !m.asked.Load() { // until then it can be of a former life
		return
	}
	known := m.known()
	if r.Epoch > known.Epoch {
		m.offer(r)
	}
	if r.newer(known) {
		m.Look()
	}
}

// wish is CONTROLLER_ALTER_SYNC_STATE_SET with the lives of the members whose acknowledgements count.
type wish struct {
	header.AlterSyncStateSetRequest
	lives map[int64]int64
}

// AppendFields implements header.Appender.
func (h *wish) AppendFields(w *header.Writer) {
	h.AlterSyncStateSetRequest.AppendFields(w)
	if len(h.lives) > 0 {
		w.Bytes("incarnations", fastjson.Marshal(h.lives)) // an ext field of ours; Java's controllers pass over it
	}
}

// Life tells one life of this process from another, as the controllers do.
func (m *Member) Life() int64 { return m.life.Load() }

// AlterSyncStateSet asks the controllers, in the name of the master of that epoch, to replace the set of setEpoch, and returns the role with
// the new one when it is committed. It goes on over changes of the controllers' leader until ctx ends. Errors: ErrFencedEpoch,
// ErrFencedSetEpoch, ErrNotAlive, ErrUnknown, or a *code.Error for a set that is refused for another reason. It needs Run.
func (m *Member) AlterSyncStateSet(ctx context.Context, epoch, setEpoch int32, set []int64, lives map[int64]int64) (Role, error) {
	h := &wish{header.AlterSyncStateSetRequest{BrokerName: m.cfg.Name, MasterBrokerID: m.ID(), MasterEpoch: epoch, InvokeTime: m.clk.NowMs()}, lives}
	data := fastjson.Marshal(&body.SyncStateSet{SyncStateSet: set, SyncStateSetEpoch: setEpoch})
	for before := false; ; before = true {
		r, again, err := m.quorum.try(ctx, code.ControllerAlterSyncStateSet, h, data)
		if err == nil {
			var role Role
			role, err = m.altered(ctx, r, epoch, set)
			if errors.Is(err, ErrNotAlive) && (before || again) {
				return Role{}, fmt.Errorf("%w: %w", ErrUnknown, r.Err()) // the replica may live again when the request before arrives
			}
			if !errors.Is(err, ErrUnknown) {
				return role, err
			}
		}
		if !m.rest(ctx, m.jitter(retryPause), nil) || m.work.Context().Err() != nil {
			return Role{}, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
	}
}

// Designate has the controllers elect another replica of the SyncStateSet.
func (m *Member) Designate(ctx context.Context, id int64) error {
	r, err := m.quorum.call(ctx, code.ControllerElectMaster, &header.ElectMasterRequest{ClusterName: m.cfg.Cluster, BrokerName: m.cfg.Name, BrokerID: id,
		DesignateElect: true, InvokeTime: m.clk.NowMs()}, nil)
	if err == nil {
		err = r.Err()
	}
	m.Look()
	return err
}

// altered judges the answer. ErrUnknown means that it was none.
func (m *Member) altered(ctx context.Context, r *remoting.Reply, epoch int32, set []int64) (Role, error) {
	err := r.Err()
	switch code.Response(r.Code) {
	case code.Success:
		var got body.SyncStateSet
		if err := fastjson.Unmarshal(r.Body, &got); err != nil {
			return Role{}, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		role, err := newRole(epoch, got.SyncStateSetEpoch, m.ID(), m.cfg.Addr, got.SyncStateSet)
		if err != nil {
			return Role{}, fmt.Errorf("%w: %w", ErrUnknown, err)
		}
		m.offer(role)
		return role, nil
	case code.ControllerFencedMasterEpoch, code.ControllerInvalidMaster:
		m.Look()
		return Role{}, fmt.Errorf("%w: %w", ErrFencedEpoch, err)
	case code.ControllerBrokerNotAlive:
		return Role{}, fmt.Errorf("%w: %w", ErrNotAlive, err)
	case code.ControllerFencedSyncStateSetEpoch, code.ControllerAlterSyncStateSetFailed:
		return m.inForce(ctx, epoch, set, r.Err())
	case code.ControllerInvalidReplicas, code.InvalidParameter:
		return Role{}, err
	}
	return Role{}, fmt.Errorf("%w: %w", ErrUnknown, err)
}

// inForce finds out whether a set that was refused is in force: then an earlier request was carried out and its answer was lost.
func (m *Member) inForce(ctx context.Context, epoch int32, set []int64, refusal error) (Role, error) {
	role, err := m.present(ctx)
	if err != nil {
		return Role{}, fmt.Errorf("%w: %w", ErrUnknown, errors.Join(refusal, err))
	}
	set = slices.Clone(set)
	slices.Sort(set)
	switch {
	case role.Epoch != epoch || role.Master != m.ID():
		return Role{}, fmt.Errorf("%w: %w", ErrFencedEpoch, refusal)
	case slices.Equal(role.SyncStateSet, set):
		return role, nil
	case codeOf(refusal) == code.ControllerFencedSyncStateSetEpoch:
		return Role{}, fmt.Errorf("%w: %w", ErrFencedSetEpoch, refusal)
	}
	return Role{}, refusal
}

func codeOf(err error) code.Response {
	if e, ok := errors.AsType[*code.Error](err); ok {
		return e.Code
	}
	return code.SystemError
}

// Look has the controllers asked soon who is master. It does not block.
func (m *Member) Look() { signal(m.wake) }

// Disown has the controllers told that this broker is Torn, although its process goes on. It does not block.
func (m *Member) Disown() {
	m.disowned.Store(true)
	signal(m.wake)
}

// Beat sends heartbeats now: this broker's Vitals have changed in a way that an election may depend on. It does not block.
func (m *Member) Beat() { signal(m.urgent) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// known returns the newest role.
func (m *Member) known() Role {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.role
}

// offer makes r the newest role if it is newer, and not of an epoch below one in the log.
func (m *Member) offer(r Role) {
	logged := m.replica.Vitals().Epoch
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.newer(m.role) && !r.contradicts(m.role) && r.Epoch >= logged {
		r.Replicas = cmp.Or(r.Replicas, m.role.Replicas)
		m.role = r
		signal(m.news)
	}
}

// tell tells the replica of roles.
func (m *Member) tell(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.news:
			m.replica.SetRole(m.known())
		}
	}
}

// rest waits for d and tells whether ctx goes on. A signal on wake, which may be nil, ends the wait.
func (m *Member) rest(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := m.clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C:
	}
	return ctx.Err() == nil
}

// jitter draws from the upper half of d.
func (m *Member) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(m.cfg.Random()*float64(d/2))
}
