package namesrv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// maxWaiting is how many requests of a lane may wait: a restart of every broker at once must fit.
	maxWaiting = 1024
	// maxNotices is how many notifications may wait to be sent; more are dropped, since brokers also ask by themselves.
	maxNotices = 1024
	// noticeTimeout bounds one notification, the connect included (RouteInfoManager).
	noticeTimeout = 300 * time.Millisecond
)

// Options are what the process gives to the server.
type Options struct {
	Log      *zap.Logger
	Clock    clock.Clock
	FS       vfs.FS
	Registry prometheus.Registerer // nil: no metrics
}

// Server is a name server.
type Server struct {
	log     *zap.Logger
	clock   clock.Clock
	fs      vfs.FS
	cfg     atomic.Pointer[conf.Namesrv]
	kv      *kvStore
	view    view
	metrics *metrics
	started time.Time
	remote  *remoting.Server

	registrations, liveness, admin *remoting.Lane

	mu    sync.Mutex // guards table and writing to view; never held over I/O
	table *RouteTable

	closedMu sync.Mutex
	closed   []Link        // connections of brokers that have ended; as many as there were connections
	wake     chan struct{} // closed is not empty
	notices  chan Notice
	tls      *remoting.TLS
}

// New reads the key-value configuration and binds the port. Nothing is served before Run.
func New(cfg *conf.Namesrv, opts Options) (*Server, error) {
	if cfg.ClusterTest {
		return nil, errors.New("clusterTest is not supported: routes of other environments cannot be asked for")
	}
	s := &Server{
		log: opts.Log, clock: opts.Clock, fs: opts.FS, started: opts.Clock.Now(), table: NewRouteTable(),
		registrations: remoting.NewLane("registrations", 1, maxWaiting, 0),
		liveness:      remoting.NewLane("liveness", 1, maxWaiting, 0),
		admin:         remoting.NewLane("admin", 1, maxWaiting, 0),
		wake:          make(chan struct{}, 1), notices: make(chan Notice, maxNotices),
	}
	s.cfg.Store(cfg)
	var err error
	if s.kv, err = openKV(opts.FS, cfg.KvConfigPath); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(opts.Registry); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if s.tls, err = remoting.NewTLS(cfg.TLS, opts.FS, opts.Clock, opts.Log); err != nil {
		return nil, err
	}
	s.publish(&Effects{Brokers: true})
	router := remoting.NewRouter(opts.Log, s.routes())
	router.OnClose = s.disconnected
	s.remote, err = remoting.NewServer(remoting.ServerConfig{
		Addr: net.JoinHostPort(cfg.BindAddress, strconv.Itoa(int(cfg.ListenPort))), Mode: s.tls.Mode(), TLS: s.tls.Server,
		SendBuffer: int(cfg.ServerSocketSndBufSize), ReceiveBuffer: int(cfg.ServerSocketRcvBufSize),
		IdleTimeout: time.Duration(cfg.ServerChannelMaxIdleTimeSeconds) * time.Second,
	}, router, opts.Log)
	return s, err
}

// Addr is the bound address.
func (s *Server) Addr() *net.TCPAddr { return s.remote.Addr() }

// Run serves until ctx ends, or until something fails that it cannot serve without.
func (s *Server) Run(ctx context.Context) error {
	g := lifecycle.New(ctx)
	client := remoting.NewClient(nil, s.tls.Client())
	defer client.Close()
	for _, lane := range []*remoting.Lane{s.registrations, s.liveness, s.admin} {
		lane.Run(g)
	}
	g.Go("certificates", s.tls.Run)
	g.Go("scan", s.scan)
	g.Go("departures", s.departures)
	g.Go("notices", func(ctx context.Context) error { return s.notify(ctx, client) })
	g.Go("remoting", s.remote.Run)
	<-g.Context().Done()
	return g.Stop()
}

// change runs one step of the table, publishes it and carries the rest of its effects out.
func (s *Server) change(step func(t *RouteTable) Effects) {
	s.mu.Lock()
	fx := step(s.table)
	s.publish(&fx)
	s.mu.Unlock()
	for _, e := range fx.Events {
		s.record(e)
	}
	for _, link := range fx.Close {
		link.(*remoting.Conn).Close()
	}
	if !s.cfg.Load().NotifyMinBrokerIdChanged {
		return
	}
	for _, n := range fx.Notices {
		select {
		case s.notices <- n:
		default:
			s.log.Warn("notification of a new lowest broker id dropped: too many wait", zap.String("broker", n.Name))
		}
	}
}

// publish shows what has changed to lookups. The caller holds mu.
func (s *Server) publish(fx *Effects) {
	cfg := s.cfg.Load()
	var order map[string]string
	if cfg.OrderMessageEnable {
		order = s.kv.namespace(orderNamespace)
	}
	s.view.publish(s.table, fx, order, cfg.SupportActingMaster)
	topics, brokers := s.table.Len()
	s.metrics.topics.Set(float64(topics))
	s.metrics.brokers.Set(float64(brokers))
}

func (s *Server) record(e Event) {
	what := "broker left"
	if e.Joined {
		what = "broker joined"
	} else {
		s.metrics.departures.WithLabelValues(string(e.Reason)).Inc()
	}
	fields := []zap.Field{
		zap.String("cluster", e.Cluster), zap.String("broker", e.Name), zap.Int64("id", e.ID), zap.String("address", e.Addr),
		zap.String("reason", string(e.Reason)),
	}
	if e.Wiped {
		fields = append(fields, zap.String("note", "its write permission is wiped until addWritePerm"))
	}
	s.log.Info(what, fields...)
}

// scan removes brokers that have been silent for too long.
func (s *Server) scan(ctx context.Context) error {
	period := time.Duration(s.cfg.Load().ScanNotActiveBrokerInterval) * time.Millisecond
	tick := s.clock.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.change(func(t *RouteTable) Effects { return t.Expire(s.clock.Now(), period) })
		case <-ctx.Done():
			return nil
		}
	}
}

// registrar marks connections over which a broker has registered.
type registrar struct{}

// disconnected runs on the reader of a connection, so it only takes a note.
func (s *Server) disconnected(c *remoting.Conn) {
	if c.Data.Load() == nil {
		return
	}
	s.closedMu.Lock()
	s.closed = append(s.closed, c)
	s.closedMu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// departures removes the brokers of closed connections, all that have gathered at once, and those that were not replaced in time.
func (s *Server) departures(ctx context.Context) error {
	late := s.clock.NewTimer(replaceTime)
	defer late.Stop()
	for {
		select {
		case <-s.wake:
			s.closedMu.Lock()
			links := s.closed
			s.closed = nil
			s.closedMu.Unlock()
			s.change(func(t *RouteTable) Effects {
				fx, wait := t.Disconnect(links, s.clock.Now())
				if wait {
					late.Reset(replaceTime)
				}
				return fx
			})
		case <-late.C:
			s.change(func(t *RouteTable) Effects { return t.Depart(s.clock.Now()) })
		case <-ctx.Done():
			return nil
		}
	}
}

// notify tells brokers that the lowest id of their group is another one. They ask for it every second anyway, so a broker that
// cannot be reached is passed over.
func (s *Server) notify(ctx context.Context, client *remoting.Client) error {
	for {
		select {
		case n := <-s.notices:
			h := &header.NotifyMinBrokerIdChangeRequest{
				MinBrokerID: header.Some(n.MinID), BrokerName: n.Name, MinBrokerAddr: n.MinAddr, OfflineBrokerAddr: n.OfflineAddr, HABrokerAddr: n.JoinedHAAddr,
			}
			for _, addr := range n.To {
				limited, cancel := context.WithTimeout(ctx, noticeTimeout)
				if err := client.Oneway(limited, addr, code.NotifyMinBrokerIDChange, h, nil); err != nil {
					s.log.Info("broker not notified of the new lowest id", zap.String("broker", n.Name), zap.Error(err))
				}
				cancel()
			}
		case <-ctx.Done():
			return nil
		}
	}
}
