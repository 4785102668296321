package controller

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
)

const (
	// handOffTime bounds how long a leader that is stopped waits for its successor.
	handOffTime = 2 * time.Second
	// probeTimeout bounds one probe of a broker's address, maxProbes how many go on at the same time.
	probeTimeout = time.Second
	maxProbes    = 32
	// A probe is at most maxKnocks connections. Of one that is taken the end is awaited for knockWait.
	maxKnocks = 8
	knockWait = 200 * time.Millisecond
	// maxAdmin is how many requests about the configuration may wait.
	maxAdmin = 64
)

// Options are what the process gives to the controller.
type Options struct {
	Log   *zap.Logger
	Clock clock.Clock
	FS    vfs.FS // of the configuration file and the certificates; the quorum's own file is always the machine's
}

// Server is one controller.
type Server struct {
	log     *zap.Logger
	clock   clock.Clock
	fs      vfs.FS
	cfg     atomic.Pointer[conf.Controller]
	group   string
	store   *storage
	node    *node
	carrier *transport
	tls     *remoting.TLS // of brokers' connections and, with tls.enable, of those to other controllers and to brokers
	client  *remoting.Client
	remote  *remoting.Server
	notify  *notifier
	metrics *metrics
	admin   *remoting.Lane
	work    *lifecycle.Group // set by Run
	wake    chan struct{}    // something has changed that the overseer must look at
	probes  chan struct{}    // one token per knock
	led     atomic.Bool      // leadership has begun and the brokers were not told yet

	mu       sync.Mutex // guards what follows; taken after the node's, never held over I/O
	table    *Liveness
	electing map[string]bool   // groups with an election on its way
	relieved map[string]recess // by group: when a sick master was last to be replaced
	relief   map[string]bool   // groups whose master is asked to hand over
}

// New reads the quorum's state and binds the port. Nothing is served, and nothing is said to other controllers, before Run.
// It must be run, or closed with Close.
func New(cfg *conf.Controller, opts Options) (*Server, error) {
	peers, err := parseMembers(cfg.ControllerDLegerPeers)
	if err != nil {
		return nil, err
	}
	var self Member
	for _, m := range peers {
		if m.ID == cfg.ControllerDLegerSelfId {
			self = m
		}
	}
	_, port, err := net.SplitHostPort(self.Addr)
	if err != nil {
		return nil, err
	}
	certificates, err := remoting.NewTLS(cfg.TLS, opts.FS, opts.Clock, opts.Log)
	if err != nil {
		return nil, err
	}
	s := &Server{
		log: opts.Log, clock: opts.Clock, fs: opts.FS, group: cfg.ControllerDLegerGroup, tls: certificates, client: remoting.NewClient(nil, certificates.Client()),
		admin: remoting.NewLane("admin", 1, maxAdmin, 0), wake: make(chan struct{}, 1), probes: make(chan struct{}, maxProbes),
		table: NewLiveness(opts.Clock.Now()), electing: map[string]bool{}, relieved: map[string]recess{}, relief: map[string]bool{},
	}
	s.cfg.Store(cfg)
	s.notify = newNotifier(s.client, s.log)
	if s.store, err = openStorage(cfg.ControllerStorePath); err != nil {
		s.client.Close()
		return nil, err
	}
	if err = s.assemble(self, peers, port, opts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) assemble(self Member, peers []Member, port string, opts Options) (err error) {
	cfg := s.cfg.Load()
	s.carrier = &transport{client: s.client, clock: s.clock, log: s.log, store: s.store, self: raftID(self.ID), lines: map[uint64]*line{}}
	s.node, err = newNode(nodeConfig{
		Self: self, Peers: peers, Group: s.group, Pending: int(cfg.ControllerRequestThreadPoolQueueCapacity), Store: s.store,
		Clock: s.clock, Log: s.log, Seed: rand.Uint64(), Tick: raftTick, Compact: snapshotAfter,
		Send: s.carrier.send, Hello: s.carrier.hello, Applied: s.applied, Led: s.leads, Proposed: s.proposed,
	})
	if err != nil {
		return err
	}
	s.carrier.node = s.node
	if s.metrics, err = newMetrics(s, self); err != nil {
		return err
	}
	router := remoting.NewRouter(s.log, s.routes())
	router.OnClose = s.disconnected
	router.OnAnswer = s.metrics.answered
	s.remote, err = remoting.NewServer(remoting.ServerConfig{
		Addr: net.JoinHostPort(cfg.BindAddress, port), Mode: s.tls.Mode(), TLS: s.tls.Server,
		IdleTimeout: time.Duration(cfg.ServerChannelMaxIdleTimeSeconds) * time.Second,
		SendBuffer:  int(cfg.ServerSocketSndBufSize), ReceiveBuffer: int(cfg.ServerSocketRcvBufSize),
		Loop: "std", // a few small requests: a poller's thread would be awake for longer than they take
	}, router, s.log)
	return err
}

// Close frees what New has taken, if Run is never called.
func (s *Server) Close() {
	s.client.Close()
	_ = s.store.close()
	if s.metrics != nil {
		s.metrics.close()
	}
	if s.remote != nil {
		s.remote.Close()
	}
}

// Addr is the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.remote.Addr() }

// MetricsAddr is the bound address of the metrics, nil if there are none.
func (s *Server) MetricsAddr() net.Addr { return s.metrics.addr() }

// Status tells how the quorum stands.
func (s *Server) Status() Status { return *s.node.status.Load() }

// Run serves until ctx ends, or until something fails that it cannot serve without. A leader hands over before it goes.
func (s *Server) Run(ctx context.Context) error {
	defer s.store.close() //nolint:errcheck // everything in it was synced
	defer s.client.Close()
	g := lifecycle.New(context.WithoutCancel(ctx))
	s.work, s.carrier.group = g, g
	s.admin.Run(g)
	s.notify.run(g)
	g.Go("certificates", s.tls.Run)
	g.Go("remoting", s.remote.Run)
	g.Go("quorum", s.node.run)
	g.Go("overseer", s.oversee)
	g.Go("metrics", s.metrics.run)
	select {
	case <-ctx.Done():
		limited, cancel := context.WithTimeout(g.Context(), handOffTime)
		s.node.handOff(limited)
		cancel()
	case <-g.Context().Done():
	}
	return g.Stop()
}

// leads is called when leadership begins or ends.
func (s *Server) leads(leading bool) {
	if leading {
		s.led.Store(true)
		s.observe(&Lead{})
	}
	s.look()
}

// look has the overseer look soon.
func (s *Server) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// observe enters an event into the table of heartbeats.
func (s *Server) observe(e Event) {
	s.mu.Lock()
	asked := s.table.Step(e, s.clock.Now())
	s.mu.Unlock()
	for _, b := range asked.Probe {
		s.probe(b)
	}
	if asked.Changed {
		s.look()
	}
}

// heard marks connections over which a heartbeat came.
type heard struct{}

// disconnected runs on the reader of a connection.
func (s *Server) disconnected(c *remoting.Conn) {
	if c.Data.Load() != nil {
		s.observe(&LinkEnded{c})
	}
}

// probe knocks at a broker's address. When too many knocks go on the table asks again.
func (s *Server) probe(b Broker) {
	addr := ""
	s.node.view(func(st *State) {
		if g := st.Group(b.Group); g != nil {
			addr = g.Replicas[b.ID].Addr
		}
	})
	select {
	case s.probes <- struct{}{}:
	default:
		return
	}
	s.work.Go("probe", func(ctx context.Context) error {
		defer func() { <-s.probes }()
		s.observe(&Probed{b, nobodyAt(ctx, addr)})
		return nil
	})
}

// nobodyAt tells whether addr refuses connections. A process that is killed loses its connections first and its listener some
// hundred microseconds later, because Linux closes the youngest file first: what is taken and soon cut off is knocked at again.
func nobodyAt(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var d net.Dialer
	for range maxKnocks {
		conn, err := d.DialContext(ctx, "tcp", addr)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return true
		case errors.Is(err, syscall.ECONNRESET):
			continue
		case err != nil || !cutOff(ctx, conn):
			return false
		}
	}
	return false
}

// cutOff closes a connection and tells whether the peer has done so before, within knockWait.
func cutOff(ctx context.Context, conn net.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, knockWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	n, _ := conn.Read(make([]byte, 1))
	if !stop() {
		return false
	}
	_ = conn.Close()
	return n == 0
}

// oversee looks at the table of heartbeats whenever it has changed, and every tickPeriod: a leader holds the elections that are
// due, a follower tells the leader what it sees.
func (s *Server) oversee(ctx context.Context) error {
	tick := s.clock.NewTicker(tickPeriod)
	defer tick.Stop()
	reported := time.Time{}
	for {
		changed := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.observe(&Tick{})
		case <-s.wake:
			changed = true
		}
		st := s.node.status.Load()
		switch now := s.clock.Now(); {
		case st.Leading:
			s.elect(now)
			s.relieve(now)
			s.stepAside(now, st)
		case st.Leader != Member{} && (changed || now.Sub(reported) >= reportPeriod):
			reported = now
			s.mu.Lock()
			seen := s.table.Seen(now)
			s.mu.Unlock()
			s.carrier.report(st.Leader, &Report{From: s.node.Self.ID, Alive: seen})
		}
	}
}

// elect proposes the elections that are due, one per group at a time.
func (s *Server) elect(now time.Time) {
	var due []*Elect
	var tell []*Group
	all := s.led.Swap(false)
	s.node.view(func(st *State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range Plan(st, s.table, now, s.cfg.Load().EnableElectUncleanMaster) {
			if !s.electing[e.Name] {
				s.electing[e.Name] = true
				due = append(due, e)
			}
		}
		for _, name := range st.Names() {
			if g := st.Group(name); all && g.Master != noMaster {
				tell = append(tell, g)
			}
		}
	})
	for _, e := range due {
		s.node.propose(e, func(Result, error) {
			s.mu.Lock()
			delete(s.electing, e.Name)
			s.mu.Unlock()
		})
	}
	for _, g := range tell { // the leader before may not have come to it
		s.tell(g)
	}
}

// relieve has sick masters hand over to healthy replicas. One that cannot is deposed by the election that follows.
func (s *Server) relieve(now time.Time) {
	var due []*Elect
	var groups []*Group
	s.node.view(func(st *State) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range Relief(st, s.table, now) {
			if rest := s.relieved[e.Name]; !s.electing[e.Name] && !s.relief[e.Name] && rest.over(e.MasterEpoch, now) {
				s.relief[e.Name], s.relieved[e.Name] = true, rest.next(e.MasterEpoch, now)
				due, groups = append(due, e), append(groups, st.Group(e.Name))
			}
		}
	})
	for i, e := range due {
		s.work.Go("relief", func(context.Context) error {
			s.log.Warn("a sick master is to hand over", zap.String("broker", e.Name), zap.Int64("master", groups[i].Master), zap.Int64("to", e.Broker))
			if s.canHandOver(groups[i], e.Broker) {
				s.handOver(groups[i], e.Broker, sickHandOverTime)
			}
			s.node.propose(e, func(Result, error) {
				s.mu.Lock()
				delete(s.relief, e.Name)
				s.mu.Unlock()
			})
			return nil
		})
	}
}

// stepAside gives leadership to a controller that sees more brokers, so that no master is cut off from the leader.
func (s *Server) stepAside(now time.Time, st *Status) {
	s.mu.Lock()
	better := s.table.BetterLeader(now)
	s.mu.Unlock()
	for _, m := range st.Members {
		if better != "" && m.ID == better {
			s.log.Warn("another controller sees brokers that this one does not: it shall lead", zap.String("controller", better))
			s.node.transfer(raftID(better))
		}
	}
}

// tell tells the living brokers of a group who is master.
func (s *Server) tell(g *Group) {
	if !s.cfg.Load().NotifyBrokerRoleChanged {
		return
	}
	s.mu.Lock()
	ids := Living(g, s.table, s.clock.Now())
	s.mu.Unlock()
	for _, id := range ids {
		s.notify.tell(g.Replicas[id].Addr, g)
	}
}

// applied is called after each command that this controller has proposed.
func (s *Server) applied(res Result) {
	e, g := res.Election, res.Group
	if e == nil {
		return
	}
	s.metrics.elections.WithLabelValues(g.Cluster, g.Name, e.Outcome).Inc()
	fields := []zap.Field{
		zap.String("cluster", g.Cluster), zap.String("broker", g.Name), zap.Int64("id", g.Master), zap.String("address", g.MasterAddr()),
		zap.Int32("masterEpoch", g.MasterEpoch), zap.Int64s("syncStateSet", g.SyncStateSet), zap.Int32("syncStateSetEpoch", g.SyncStateSetEpoch),
		zap.Int64("before", e.OldMaster), zap.String("trigger", string(e.Trigger)), zap.String("reason", e.Reason),
	}
	switch e.Outcome {
	case NewMaster:
		log := s.log.Info
		if e.Basis == FromRest {
			log = s.log.Error
		}
		log("master elected", append(fields, zap.String("basis", string(e.Basis)))...)
		s.tell(g)
	case KeepMaster:
		s.log.Info("master kept", fields...)
	case NoMaster:
		if e.Trigger == ByController {
			s.log.Error("the group has no master any more, and none can be elected", fields...)
		} else {
			s.log.Warn("nobody could be elected as was asked", fields...)
		}
	}
}

func (s *Server) proposed(took time.Duration, err error) { s.metrics.append(took, err) }
