// Package broker is one broker process: the handlers of the remoting requests and the services around them.
//
// # The path of a send
//
//	routes.go   the table: request code → handler
//	send.go     checks, properties, append; the reply is parked as a store.Waiter
//	store       append, confirm, dispatch
//	send.go     sendReply.Done encodes the reply on its connection
//
// # What it owns
//
// Topics, groups and offsets live in the log (store/state); the broker reads them there and changes them by proposing records.
// Client connections and their subscriptions (clients.go), parked pulls (hold.go) and statistics are its own.
//
// # Goroutines
//
// Run starts the servers, the store's work, and one goroutine per service, listed in lifecycle order there. Handlers run on the
// connections' readers unless their route names a lane.
//
// Java: BrokerController and its processors. Start reading at routes.go.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message/filter"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/store"
)

// Options carries what a broker is given besides its configuration. Zero values mean the real thing.
type Options struct {
	Log   *zap.Logger
	Clock clock.Clock
	FS    vfs.FS
}

// Broker serves one store.
type Broker struct {
	conf  atomic.Pointer[conf.Broker]
	log   *zap.Logger
	clk   clock.Clock
	fs    vfs.FS
	store *store.Store

	storeHost netip.AddrPort // the advertised address, part of every message id
	addr      string         // the same as text, as registered with name servers

	server  *remoting.Server
	fast    *remoting.Server // listenPort - 2; nil if it is off
	client  *remoting.Client
	tls     *remoting.TLS
	filters filter.Cache
	lanes   lanes

	topics     *topics
	offsets    *offsets
	holds      *holds
	clients    *clients
	locks      *locks
	asked      asked
	delays     *schedule
	broadcasts *broadcasts
	names      *registrar
	standby    *standby
	echoes     *echoes
	sends      sendPath
	stats      *stats
	changes    configChanges

	replicas *replicas // nil outside controller mode
	assigner *assigner
	metrics  *exporter // nil if they are off
}

// lanes are where requests that may block run.
type lanes struct {
	pull, query, admin *remoting.Lane
}

// configure sets how long requests may wait.
func (l *lanes) configure(c *conf.Broker) {
	limit := func(wait int64) time.Duration {
		if !c.BrokerFastFailureEnable {
			return 0
		}
		return ms(wait)
	}
	l.pull.SetMaxWait(limit(c.WaitTimeMillsInPullQueue))
	l.admin.SetMaxWait(limit(c.WaitTimeMillsInAdminBrokerQueue))
}

// replyAfter is how many bytes of requests are answered together where the end of a burst costs little: producers work on the replies while the broker
// works on what else they have sent.
const replyAfter = 48 << 10

// configureBursts says when replies are sent. A sync, or a frame to each replica, is worth waiting for all that was read.
func (b *Broker) configureBursts(c *conf.Broker) {
	limit := int64(replyAfter)
	if c.FlushDiskType == "SYNC_FLUSH" || c.EnableControllerMode {
		limit = 0
	}
	for _, s := range []*remoting.Server{b.server, b.fast} {
		if s != nil {
			s.SetBurst(limit)
		}
	}
}

// New opens the store, then binds the ports: clients that come while it recovers turn elsewhere. Nothing is served before Run, which must be called.
func New(cfg *conf.Broker, o Options) (*Broker, error) {
	if o.Clock == nil {
		o.Clock = clock.Real{}
	}
	if o.FS == nil {
		o.FS = vfs.OS{}
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	b := &Broker{log: o.Log, clk: o.Clock, fs: o.FS}
	b.conf.Store(cfg)
	sc, err := StoreConfig(cfg)
	if err != nil {
		return nil, err
	}
	if b.tls, err = remoting.NewTLS(cfg.TLS, o.FS, o.Clock, o.Log.Named("tls")); err != nil {
		return nil, err
	}
	if b.store, err = store.Open(sc, o.FS, o.Clock, o.Log.Named("store")); err != nil { // clients that come meanwhile turn elsewhere
		return nil, err
	}
	b.client = remoting.NewClient(nil, b.tls.Client())
	if err := b.listen(cfg); err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	b.topics = newTopics(b)
	b.offsets = newOffsets(b)
	b.holds = newHolds(b)
	b.clients = newClients(b)
	b.locks = newLocks(b)
	b.asked.by = map[*remoting.Conn]int{}
	b.delays = newSchedule(b)
	b.broadcasts = newBroadcasts(b)
	b.names = newRegistrar(b)
	b.standby, b.echoes = newStandby(b), newEchoes()
	b.sends.init(b)
	b.stats = newStats(b)
	b.assigner = newAssigner(b)
	b.store.SetArrivals(b.holds)
	b.store.SetApplied(b.standby.stateChanged)
	if cfg.EnableControllerMode {
		if b.replicas, err = newReplicas(b, cfg); err != nil {
			return nil, errors.Join(err, b.abandon())
		}
	}
	return b, nil
}

// abandon releases what a broker has that will not run.
func (b *Broker) abandon() error {
	for _, s := range []*remoting.Server{b.server, b.fast} {
		if s != nil {
			s.Close()
		}
	}
	if b.metrics != nil {
		_ = b.metrics.ln.Close()
	}
	b.client.Close()
	return b.store.Close()
}

// listen binds the ports and settles the advertised address.
func (b *Broker) listen(cfg *conf.Broker) error {
	b.lanes = lanes{
		pull:  remoting.NewLane("pull", 16, int(cfg.PullThreadPoolQueueCapacity), 0),
		query: remoting.NewLane("query", 4, int(cfg.QueryThreadPoolQueueCapacity), 0),
		admin: remoting.NewLane("admin", 8, int(cfg.AdminBrokerThreadPoolQueueCapacity), 0),
	}
	b.lanes.pull.GiveWay()
	b.lanes.configure(cfg)
	router := remoting.NewRouter(b.log.Named("remoting"), b.routes())
	router.OnBurst = func() { b.store.Advance() }
	router.OnAnswer = func(a remoting.Answer) { b.stats.answered(a) }
	router.OnClose = func(c *remoting.Conn) { b.clients.closed(c) }
	var connections atomic.Int64
	bind := func(port int32) (*remoting.Server, error) {
		return remoting.NewServer(remoting.ServerConfig{
			Count:      &connections,
			Addr:       net.JoinHostPort(cfg.BindAddress, strconv.Itoa(int(port))),
			Mode:       b.tls.Mode(),
			TLS:        b.tls.Server,
			SendBuffer: int(cfg.ServerSocketSndBufSize), ReceiveBuffer: int(cfg.ServerSocketRcvBufSize),
			IdleTimeout: time.Duration(cfg.ServerChannelMaxIdleTimeSeconds) * time.Second,
			ShareBursts: true,
		}, router, b.log.Named("remoting"))
	}
	var err error
	if b.server, err = bind(cfg.ListenPort); err != nil {
		return err
	}
	if cfg.FastListenPort > 0 {
		if b.fast, err = bind(cfg.FastListenPort); err != nil {
			return err
		}
	}
	b.configureBursts(cfg)
	if b.metrics, err = newExporter(b, cfg); err != nil {
		return err
	}
	ip, err := netip.ParseAddr(cfg.BrokerIP1)
	if err != nil {
		return fmt.Errorf("brokerIP1=%s is no address: %w", cfg.BrokerIP1, err)
	}
	b.storeHost = netip.AddrPortFrom(ip.Unmap(), uint16(b.server.Addr().Port))
	b.addr = b.storeHost.String()
	return nil
}

func ms[N int32 | int64](n N) time.Duration { return time.Duration(n) * time.Millisecond }

// StoreConfig translates Java's keys.
func StoreConfig(c *conf.Broker) (store.Config, error) {
	levels, err := conf.DelayLevels(c.MessageDelayLevel)
	if err != nil {
		return store.Config{}, err
	}
	hours, err := conf.Hours(c.DeleteWhen)
	if err != nil {
		return store.Config{}, err
	}
	return store.Config{
		Root:         c.StorePathRootDir,
		CommitLogDir: c.StorePathCommitLog,
		SegmentSize:  int64(c.MappedFileSizeCommitLog),
		QueueFile:    (int64(c.MappedFileSizeConsumeQueue) + 19) / 20 * 20,
		Index:        c.MessageIndexEnable, IndexSlots: c.MaxHashSlotNum, IndexItems: c.MaxIndexNum,
		Replicated: c.EnableControllerMode, ReplicaTimeout: ms(c.SlaveTimeout),
		SyncFlush: c.FlushDiskType == "SYNC_FLUSH", FlushInterval: ms(c.FlushIntervalCommitLog), SyncTimeout: ms(c.SyncFlushTimeout),
		DelayLevels: levels,
		Retention: store.Retention{
			Keep: time.Duration(c.FileReservedTime) * time.Hour, Hours: hours, MaxUsed: int(c.DiskMaxUsedSpaceRatio),
			CleanForced: int(c.DiskSpaceCleanForciblyRatio), WarningLevel: int(c.DiskSpaceWarningLevelRatio),
			Force: c.CleanFileForciblyEnable, Batch: int(c.DeleteFileBatchMax), Interval: ms(c.CleanResourceInterval),
		},
		ScrubRate: c.ScrubBytesPerSecond,
	}, nil
}

// leave tells the others that this broker stops.
func (b *Broker) leave(ctx context.Context) {
	if errors.Is(context.Cause(ctx), ErrKilled) {
		return
	}
	if b.replicas != nil {
		b.replicas.handOver()
	}
	b.names.unregister()
}

// Addr is the address that clients are told.
func (b *Broker) Addr() string { return b.addr }

// MetricsAddr is where the metrics are served, empty if they are off.
func (b *Broker) MetricsAddr() string {
	if b.metrics == nil {
		return ""
	}
	return b.metrics.addr()
}

// ErrKilled as the cause of the end of Run's context makes it look to others as if the process had been killed: nobody is told.
var ErrKilled = errors.New("killed")

// Run serves until ctx ends, then takes leave of the name servers, answers what is parked, and closes the store.
func (b *Broker) Run(ctx context.Context) error {
	work := lifecycle.New(context.WithoutCancel(ctx)) // what must outlive the servers
	work.Go("store", b.store.Run)
	services := lifecycle.New(context.WithoutCancel(ctx))
	if b.replicas != nil {
		services.Go("replicas", b.replicas.run)
		services.Go("disk", b.replicas.watchDisk)
	} else if err := b.topics.createSystem(); err != nil {
		return errors.Join(err, work.Stop(), b.store.Close())
	}
	for _, l := range []*remoting.Lane{b.lanes.pull, b.lanes.query, b.lanes.admin} {
		l.Run(services)
	}
	services.Go("offsets", b.offsets.run)
	services.Go("holds", b.holds.run)
	services.Go("clients", b.clients.run)
	services.Go("housekeeping", b.housekeeping)
	services.Go("schedule", b.delays.run)
	services.Go("statistics", b.stats.run)
	services.Go("certificates", b.tls.Run)
	services.Go("server", b.server.Run)
	if b.fast != nil {
		services.Go("fast server", b.fast.Run)
	}
	if b.metrics != nil {
		services.Go("metrics", b.metrics.run)
	}
	services.Go("name servers", b.names.run)
	services.Go("standby route", b.standby.run)
	b.log.Info("broker started", zap.String("name", b.conf.Load().BrokerName), zap.String("address", b.addr))
	select {
	case <-ctx.Done():
		b.leave(ctx)
	case <-services.Context().Done():
	case <-work.Context().Done():
	}
	b.holds.release()
	err := services.Stop()
	b.client.Close()
	err = errors.Join(err, work.Stop(), b.store.Close())
	b.log.Info("broker stopped", zap.Error(err))
	return err
}
