package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	membership "github.com/castor-mq/castor/broker/member"
	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// replicas is this broker's place among the replicas of its name. Outside controller mode there is none: then a broker is the master of
// itself. Java: ReplicasManager.
type replicas struct {
	b      *Broker
	member *membership.Member
	node   *replica.Node
	haAddr string         // of the replication port, as others reach it
	lane   *remoting.Lane // requests for the master
	term   atomic.Pointer[term]
	told   atomic.Pointer[replica.Role] // by the controllers, maybe not taken up yet
}

// term is the time of one role.
type term struct {
	role    replica.Role
	began   time.Time
	master  bool            // this broker is
	end     int64           // of a master: the end of the log that it took over
	ctx     context.Context // ends when the next one begins
	over    <-chan struct{} // closed then
	stop    context.CancelFunc
	settled chan struct{} // closed when a master has confirmed all that it took over

	draining atomic.Bool // a master takes nothing new, since another one is about to be elected
}

func newTerm(r replica.Role, master bool, end int64) *term {
	t := &term{role: r, began: time.Now(), master: master, end: end, settled: make(chan struct{})}
	t.ctx, t.stop = context.WithCancel(context.Background())
	t.over = t.ctx.Done()
	return t
}

// newReplicas opens the replication port.
func newReplicas(b *Broker, c *conf.Broker) (*replicas, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(c.BindAddress, strconv.Itoa(max(0, int(c.HaListenPort)))))
	if err != nil {
		return nil, err
	}
	g := &replicas{b: b, haAddr: net.JoinHostPort(c.BrokerIP2, strconv.Itoa(l.Addr().(*net.TCPAddr).Port)),
		lane: remoting.NewLane("master", 64, int(c.SendThreadPoolQueueCapacity), 0)}
	g.lane.SetMaxWait(patience)
	g.lane.InOrder()
	g.term.Store(newTerm(replica.Role{}, false, 0))
	g.member = membership.New(membership.Config{
		Cluster: c.BrokerClusterName, Name: c.BrokerName, Addr: b.addr, IdentityFile: c.StorePathBrokerIdentity,
		Controllers: func() []string { return addresses(b.conf.Load().ControllerAddr) },
		MinInSync:   g.promised,
		Torn:        b.store.Torn,
		Learner:     c.AsyncLearner,
		Mended: func() {
			if err := b.store.Mended(); err != nil { // then the next life counts as torn, too
				b.log.Warn("the checkpoint cannot be written", zap.Error(err))
			}
		},
		Priority:         func() int32 { return b.conf.Load().BrokerElectionPriority },
		HeartbeatTimeout: ms(c.ControllerHeartBeatTimeoutMills),
		AskPeriod:        ms(c.SyncBrokerMetadataPeriod),
	}, b.client, g, b.fs, b.clk, b.log.Named("member"))
	g.node, err = replica.New(replica.Config{
		Cluster: c.BrokerClusterName, Group: c.BrokerName, ID: g.member.ID, EpochFile: c.StorePathEpochFile, Listener: l, Learner: c.AsyncLearner,
		MinInSync: g.minInSync,
		MaxLag:    func() time.Duration { return ms(b.conf.Load().HaMaxTimeSlaveNotCatchup) },
		Copies:    g.copies,
		GiveWay:   remoting.LowerPriority,
		MaxRate: func() int64 {
			if c := b.conf.Load(); c.HaFlowControlEnable {
				return c.MaxHaTransferByteInSecond
			}
			return 0
		},
		SyncFlush: func() bool { return b.conf.Load().FlushDiskType == "SYNC_FLUSH" },
		HAAddr:    g.askHAAddr, AlterSyncStateSet: g.alter, Life: g.member.Life, Outdated: g.member.Look, AbleChanged: g.member.Beat, Changed: g.changed,
		Disown: func() error {
			if err := b.store.Disown(); err != nil {
				return err
			}
			g.member.Disown()
			return nil
		},
	}, b.store, b.fs, b.log.Named("replica"))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return g, nil
}

// run takes part until ctx ends.
func (g *replicas) run(ctx context.Context) error {
	work := lifecycle.New(ctx)
	g.lane.Run(work)
	work.Go("replication", g.node.Run)
	work.Go("controllers", g.member.Run)
	work.Go("terms", g.terms)
	<-work.Context().Done()
	return work.Stop()
}

// How often a broker looks whether its disk hangs, and, when it does, whether the others go on without it.
const (
	diskLook = 200 * time.Millisecond
	hangLook = 50 * time.Millisecond
)

// watchDisk ends the broker when its log can take nothing any more, so that another replica is elected at once; and when its disk hangs and others
// go on without it: whoever still asks it would wait.
func (g *replicas) watchDisk(ctx context.Context) error {
	tick := g.b.clk.NewTicker(diskLook)
	defer tick.Stop()
	hangs := false
	var counted time.Time // when the group last waited for this broker
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-g.b.store.Log.Failed():
			return fmt.Errorf("this broker stops, so that another replica can take over: %w", g.b.store.Log.Poisoned())
		case now := <-tick.C:
			if stalled := g.b.store.Stalled(); stalled && !hangs {
				hangs = true
				tick.Reset(hangLook)
			} else if hangs && !stalled {
				hangs = false
				tick.Reset(diskLook)
			}
			r := g.told.Load()
			counts := r != nil && slices.Contains(r.SyncStateSet, g.member.ID())
			switch {
			case r == nil || r.Master == 0:
			case counts && hangs:
				g.member.Beat()
				g.member.Look() // who is master now; nobody gets through to a broker that hangs
			case counts:
				counted = now
			case hangs && now.Sub(counted) < routeMemory:
				g.b.log.Error("the disk hangs, and the others go on without this broker: it stops, so that clients turn to them; check the disk, then restart",
					zap.Int64("master", r.Master), zap.Int32("epoch", r.Epoch))
				return errors.New("the disk hangs")
			}
		}
	}
}

// changed begins a term. It runs on the goroutine that changes roles and must not block.
func (g *replicas) changed(r replica.Role, master bool) {
	g.term.Swap(newTerm(r, master, g.b.store.Log.End())).stop()
	g.member.Look() // what is promised may be another number
}

// terms does what the beginning of a term asks for, and may take a while.
func (g *replicas) terms(ctx context.Context) error {
	t := g.term.Load()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.over:
		}
		t = g.term.Load()
		g.b.names.roleChanged()
		if !t.master || !g.settle(ctx, t) {
			continue
		}
		close(t.settled)
		g.b.log.Info("serving as master", zap.Int32("epoch", t.role.Epoch), zap.Int64("offset", t.end))
		if err := g.b.topics.createSystem(); err != nil {
			g.b.log.Error("the system's topics could not be made", zap.Error(err))
		}
		g.b.names.roleChanged() // with these topics
	}
}

// settle waits until a new master has confirmed and dispatched what it has taken over; false means that the term is over first.
func (g *replicas) settle(ctx context.Context, t *term) bool {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for g.b.store.Dispatched() < t.end {
		select {
		case <-ctx.Done():
			return false
		case <-t.over:
			return false
		case <-tick.C:
		}
	}
	return true
}

// leads tells whether this broker takes changes of the group's state: it is master, has confirmed what it took over, and is not
// about to hand over.
func (b *Broker) leads() bool {
	return b.replicas == nil || b.reigns() && !b.replicas.term.Load().draining.Load()
}

// reigns tells whether this broker may still write what it has taken.
func (b *Broker) reigns() bool {
	if b.replicas == nil {
		return true
	}
	select {
	case <-b.replicas.term.Load().settled:
		return true
	default:
		return false
	}
}

// unconfirmable says why a message that came now would not be confirmed before its producer's patience ends, nil if it would: the
// producer turns to another broker, or tries again. What was taken before waits on.
func (b *Broker) unconfirmable() error {
	if b.replicas == nil || b.replicas.node.Able() {
		return nil
	}
	s := b.replicas.node.Status()
	return code.New(code.ServiceNotAvailable, "too few replicas of %s confirm what its master takes: the SyncStateSet is %v, of which %d others are connected, and %d must have a message; "+
		"check the other brokers and the controllers", b.conf.Load().BrokerName, s.Role.SyncStateSet, len(s.Acked), b.replicas.minInSync(&s.Role))
}

// Replaceable tells whether clients are better off without this broker than with one that hangs: it is the master, and another replica
// that is in sync is connected, or it is the standby.
func (b *Broker) Replaceable() bool {
	if b.replicas == nil {
		return false
	}
	s := b.replicas.node.Status()
	if !s.Master {
		return b.standby.serves()
	}
	for _, id := range s.Role.SyncStateSet {
		if _, connected := s.Acked[id]; connected {
			return true
		}
	}
	return false
}

// epoch is the term's; 0 outside controller mode.
func (b *Broker) epoch() int32 {
	if b.replicas == nil {
		return 0
	}
	return b.replicas.term.Load().role.Epoch
}

// brokerID is the id under which this broker is registered: 0 for a master. ok is false while the role is not known.
func (b *Broker) brokerID() (id int64, ok bool) {
	if b.replicas == nil {
		return b.conf.Load().BrokerId, true
	}
	t := b.replicas.term.Load()
	if t.master {
		return 0, true
	}
	return b.replicas.member.ID(), t.role.Epoch > 0
}

// hop marks a request that a replica has forwarded, and holds the client's address. It is not forwarded again.
const hop = "castorHop"

// patience is how long a request waits for a master. Clients wait for three seconds.
const patience = 2500 * time.Millisecond

// reach is how long a master has to answer a replica that gets no log from it.
const reach = 300 * time.Millisecond

// freshness is how long a request that only reads does.
const freshness = 500 * time.Millisecond

// onMaster has a request served by the group's master: here if this broker is, else it waits for one in a lane and is forwarded.
func (b *Broker) onMaster(serve func(*remoting.Request) error) func(*remoting.Request) error {
	return b.orInLane(serve, func(r *remoting.Request) error { return b.replicas.forward(r, serve, patience) })
}

// onFresh has a request that only reads served by the master, so that it finds what was answered before, whoever has answered. Where there is no
// master soon this broker serves it with what it has.
func (b *Broker) onFresh(serve func(*remoting.Request) error) func(*remoting.Request) error {
	return b.orInLane(serve, func(r *remoting.Request) error {
		err := b.replicas.forward(r, serve, freshness)
		if err != nil && !b.store.Joining() {
			return serve(r)
		}
		return err
	})
}

// orInLane has a master serve a request at once, and any other broker do something else with it, in a lane.
func (b *Broker) orInLane(serve, other func(*remoting.Request) error) func(*remoting.Request) error {
	return func(r *remoting.Request) error {
		switch {
		case b.leads():
			return serve(r)
		case !r.In(b.replicas.lane):
			return b.replicas.lane.Redo()
		}
		return other(r)
	}
}

// onWhole has a request served here, but by the master while this broker's log has not reached the state that was installed with it.
func (b *Broker) onWhole(serve func(*remoting.Request) error) func(*remoting.Request) error {
	byMaster := b.onMaster(serve)
	return func(r *remoting.Request) error {
		if b.store.Joining() {
			return byMaster(r)
		}
		return serve(r)
	}
}

// forward waits until there is a master that takes the request, and has it serve it. A master that hangs is given up when there is
// another one, and one that refuses is asked again: a producer that has come here has no better address to turn to, unless the way from
// here to the master is cut.
func (g *replicas) forward(r *remoting.Request, serve func(*remoting.Request) error, within time.Duration) error {
	deadline := time.Now().Add(within - r.Age())
	r.AwaitTurn(time.Until(deadline))
	_, hopped := r.Ext(hop)
	var last error
	cutOff := false // from the master
	for wait := forwardPause; ; wait = min(2*wait, longestPause) {
		t := g.term.Load()
		if g.b.leads() {
			return serve(r)
		}
		if elsewhere := !t.master && t.role.Master != 0; elsewhere && hopped {
			return r.PassOn(hop)
		} else if elsewhere {
			hears, left := g.node.Hears(), time.Until(deadline)
			if !hears {
				left = min(left, reach)
			}
			ctx, cancel := context.WithTimeout(t.ctx, left)
			last = g.b.client.Forward(ctx, t.role.MasterAddr, r, hop)
			if cancel(); last == nil {
				return nil
			}
			cutOff = !hears && errors.Is(last, context.DeadlineExceeded) && !g.node.Hears()
		}
		if cutOff || time.Until(deadline) <= 0 {
			if refused := (*code.Error)(nil); errors.As(last, &refused) {
				return refused
			}
			return code.New(code.ServiceNotAvailable, "no master of %s takes requests now: %v", g.b.conf.Load().BrokerName, last)
		}
		pause := time.NewTimer(min(wait, max(time.Until(deadline), 0)))
		select {
		case <-t.over:
		case <-pause.C:
		}
		pause.Stop()
	}
}

// The time between two looks for a master that takes requests: the first, from which it doubles, and the longest.
const (
	forwardPause = 5 * time.Millisecond
	longestPause = 40 * time.Millisecond
)

const (
	// drainTime bounds how long a master that is to hand over waits for what is under way.
	drainTime = time.Second
	// drainHold is how long it then waits for the election before it goes on. An election takes milliseconds, unless who wanted it is gone.
	drainHold = 500 * time.Millisecond
	// handOverTime bounds how long a master that stops waits for another one.
	handOverTime = 3 * time.Second
)

// drain has a master take nothing new, and waits until everything that it has taken is confirmed. If the term is not over soon after
// that, it goes on.
func (g *replicas) drain(ctx context.Context, t *term) error {
	if !g.b.reigns() || g.term.Load() != t {
		return code.New(code.SystemError, "this broker is not the master")
	}
	if !g.node.Able() || g.b.store.Stalled() {
		return code.New(code.SystemError, "nothing is confirmed now")
	}
	if t.draining.Swap(true) {
		return nil
	}
	g.b.log.Info("handing over: new requests wait for the next master", zap.Int32("epoch", t.role.Epoch))
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for still := 0; still < 2; {
		select {
		case <-t.over:
			return nil
		case <-ctx.Done():
			t.draining.Store(false)
			return code.New(code.SystemError, "what is under way is not confirmed in %v", drainTime)
		case <-tick.C:
		}
		g.b.offsets.flush()
		g.b.store.Advance()
		if still++; g.b.store.Confirmed() < g.b.store.Log.Appended() {
			still = 0
		}
	}
	time.AfterFunc(drainHold, func() { t.draining.Store(false) })
	return nil
}

// handOver has another replica elected, if this broker is master and there is one, waits until the requests that came meanwhile are
// answered by it, and leaves the set.
func (g *replicas) handOver() {
	ctx, cancel := context.WithTimeout(context.Background(), handOverTime)
	defer cancel()
	t, s := g.term.Load(), g.node.Status()
	if !s.Master {
		g.node.Leave(ctx)
		return
	}
	to := int64(0)
	for id, acked := range s.Acked {
		if slices.Contains(s.Role.SyncStateSet, id) && (to == 0 || acked > s.Acked[to]) {
			to = id
		}
	}
	if to == 0 {
		return
	}
	err := g.drain(ctx, t)
	if err == nil {
		err = g.member.Designate(ctx, to)
	}
	if err != nil {
		g.b.log.Warn("no other replica could be made master before this broker stops", zap.Int64("replica", to), zap.Error(err))
		return
	}
	select {
	case <-t.over:
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for g.lane.Busy() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	g.node.Leave(ctx)
}

// handleHandOver serves HAND_OVER from the controllers.
func (b *Broker) handleHandOver(r *remoting.Request, h *header.HandOverRequest) error {
	if b.replicas == nil {
		return code.New(code.SystemError, "this broker has no controllers")
	}
	if t := b.replicas.term.Load(); t.role.Epoch == h.MasterEpoch && slices.Contains(b.replicas.node.Status().Role.SyncStateSet, h.BrokerID) {
		if err := b.replicas.drain(context.Background(), t); err != nil {
			return err
		}
		return r.OK(nil, nil)
	}
	return code.New(code.SystemError, "epoch %d is over, or broker %d is not in sync", h.MasterEpoch, h.BrokerID)
}

// Vitals implements membership.Replica.
func (g *replicas) Vitals() membership.Vitals {
	return membership.Vitals{Epoch: g.node.LastEpoch(), MaxOffset: g.b.store.Log.End(), ConfirmOffset: g.b.store.Confirmed(),
		Healthy: g.b.ill() == nil}
}

var errUnable = errors.New("the replicas do not confirm what the master takes")

// ill tells why another replica should be master, if there is one that is well; nil if this one is.
func (b *Broker) ill() error {
	if err := b.store.Ill(); err != nil || b.replicas == nil || b.replicas.node.Able() {
		return err
	}
	return errUnable
}

// minInSync is how many replicas must be in sync for anything to be confirmed in a role: minInSyncReplicas, or two as soon as there are
// two; and as many as the controllers still believe.
func (g *replicas) minInSync(r *replica.Role) int {
	return max(g.least(r.Replicas, len(r.SyncStateSet)), int(g.member.MinInSync()))
}

func (g *replicas) least(registered, inSync int) int {
	if n := int(g.b.conf.Load().MinInSyncReplicas); n > 0 {
		return n
	}
	if registered == 0 { // not known: then nothing less can be promised that would not drop others whom the controllers could elect
		return 2
	}
	return min(2, max(registered, inSync))
}

// copies is how many replicas must have what is confirmed, 0 for the whole set (allAckInSyncStateSet, inSyncReplicas).
func (g *replicas) copies() int {
	c := g.b.conf.Load()
	if c.AllAckInSyncStateSet {
		return 0
	}
	return max(1, int(c.InSyncReplicas))
}

// promised is what the controllers may believe.
func (g *replicas) promised() int32 {
	r := g.term.Load().role
	return int32(g.least(r.Replicas, len(r.SyncStateSet)))
}

// SetRole implements membership.Replica.
func (g *replicas) SetRole(r membership.Role) {
	role := replica.Role(r)
	g.told.Store(&role)
	g.node.SetRole(role)
	g.b.standby.roleChanged()
}

// alter asks the controllers for another SyncStateSet.
func (g *replicas) alter(ctx context.Context, epoch, setEpoch int32, set []int64, lives map[int64]int64) (replica.Role, error) {
	r, err := g.member.AlterSyncStateSet(ctx, epoch, setEpoch, set, lives)
	if errors.Is(err, membership.ErrNotAlive) {
		err = fmt.Errorf("%w: %w", replica.ErrRefused, err)
	}
	return replica.Role(r), err
}

// askHAAddr asks a broker for its replication port (EXCHANGE_BROKER_HA_INFO).
func (g *replicas) askHAAddr(ctx context.Context, addr string) (string, error) {
	reply, err := g.b.client.Call(ctx, addr, code.ExchangeBrokerHAInfo, &header.ExchangeHAInfoRequest{}, nil)
	if err == nil {
		err = reply.Err()
	}
	var h header.ExchangeHAInfoResponse
	if err == nil {
		err = reply.Decode(&h)
	}
	if err == nil && h.MasterHAAddress == "" {
		err = errors.New("no address in the answer")
	}
	return h.MasterHAAddress, err
}

// handleHAInfo serves EXCHANGE_BROKER_HA_INFO from replicas.
func (b *Broker) handleHAInfo(r *remoting.Request, h *header.ExchangeHAInfoRequest) error {
	if h.MasterHAAddress != "" {
		return code.New(code.SystemError, "who is master is decided by the controllers")
	}
	return r.OK(&header.ExchangeHAInfoResponse{MasterHAAddress: b.haAddr(), MasterFlushOffset: header.Some(b.store.Log.Flushed()), MasterAddress: b.addr}, nil)
}

// haAddr is where replicas connect.
func (b *Broker) haAddr() string {
	if b.replicas != nil {
		return b.replicas.haAddr
	}
	c := b.conf.Load()
	return net.JoinHostPort(c.BrokerIP2, strconv.Itoa(int(c.HaListenPort)))
}

// handleRoleChanged serves NOTIFY_BROKER_ROLE_CHANGED from the controllers.
func (b *Broker) handleRoleChanged(r *remoting.Request, h *header.NotifyBrokerRoleChangedRequest) error {
	if b.replicas == nil {
		return code.New(code.SystemError, "this broker has no controllers")
	}
	var set body.SyncStateSet
	if len(r.Body) > 0 {
		if err := fastjson.Unmarshal(r.Body, &set); err != nil {
			return code.New(code.InvalidParameter, "set: %v", err)
		}
	}
	b.replicas.member.Notified(h.MasterEpoch.Or(0), h.SyncStateSetEpoch.Or(0), h.MasterBrokerID.Or(0), strings.Clone(h.MasterAddress), set.SyncStateSet)
	return r.OK(nil, nil)
}

// handleHAStatus serves GET_BROKER_HA_STATUS.
func (b *Broker) handleHAStatus(r *remoting.Request) error {
	end := b.store.Log.End()
	info := body.HARuntimeInfo{Master: true, MasterCommitLogMaxOffset: end}
	if b.replicas != nil {
		s := b.replicas.node.Status()
		if info.Master = s.Master; !s.Master {
			info.HAClientRuntimeInfo = body.HAClientRuntimeInfo{MasterAddr: s.From, MaxOffset: end, LastReadTimestamp: s.ReadTime, LastWriteTimestamp: s.SentTime}
		}
		for _, id := range slices.Sorted(maps.Keys(s.Acked)) {
			in := slices.Contains(s.Role.SyncStateSet, id)
			if in {
				info.InSyncSlaveNums++
			}
			info.HAConnectionInfo = append(info.HAConnectionInfo, body.HAConnectionRuntimeInfo{Addr: s.Addrs[id], Diff: end - s.Acked[id], InSync: in, SlaveAckOffset: s.Acked[id], TransferFromWhere: s.Acked[id]})
		}
	}
	return r.OK(nil, fastjson.Marshal(&info))
}

// handleEpochCache serves GET_BROKER_EPOCH_CACHE.
func (b *Broker) handleEpochCache(r *remoting.Request) error {
	if b.replicas == nil {
		return code.New(code.SystemError, "this request only for controllerMode ")
	}
	c := b.conf.Load()
	id, _ := b.brokerID()
	e := body.EpochEntryCache{BrokerID: id, BrokerName: c.BrokerName, ClusterName: c.BrokerClusterName, MaxOffset: b.store.Log.End()}
	epochs := b.replicas.node.Status().Epochs
	for _, p := range epochs {
		_, next := epochs.At(p.Start)
		e.EpochList = append(e.EpochList, body.EpochEntry{Epoch: p.Epoch, StartOffset: p.Start, EndOffset: next})
	}
	return r.OK(nil, fastjson.Marshal(&e))
}
