package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/chaos"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/internal/watchdog"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting"
)

// serverFlags are the arguments that Java's start-up classes take, and a few of ours.
type serverFlags struct {
	file      string
	names     string
	print     bool
	important bool
	logJSON   bool
	logLevel  string
}

var errPrinted = errors.New("printed")

func parseServerFlags(name string, args []string) (*serverFlags, error) {
	f := &serverFlags{}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	for _, long := range []string{"c", "configFile"} {
		fs.StringVar(&f.file, long, "", "properties file, with the keys of RocketMQ")
	}
	for _, long := range []string{"n", "namesrvAddr"} {
		fs.StringVar(&f.names, long, "", "name servers, host:port separated by semicolons")
	}
	for _, long := range []string{"p", "printConfigItem"} {
		fs.BoolVar(&f.print, long, false, "print the whole configuration and exit")
	}
	for _, long := range []string{"m", "printImportantConfig"} {
		fs.BoolVar(&f.important, long, false, "print the important part of the configuration and exit")
	}
	fs.BoolVar(&f.logJSON, "log-json", false, "write the log as JSON")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return f, nil
}

// load reads the configuration, prints it if that was asked for (errPrinted), and logs what was found odd in the file.
func load[T any, P conf.Of[T]](f *serverFlags) (*T, *zap.Logger, error) {
	log, err := newLogger(f)
	if err != nil {
		return nil, nil, err
	}
	over, err := remoting.TLSOverrides(vfs.OS{}, tlsConfigFile())
	if err != nil {
		return nil, nil, err
	}
	if over == nil {
		over = map[string]string{}
	}
	if f.names != "" {
		over["namesrvAddr"] = f.names
	}
	cfg, report, err := conf.Load[T, P](f.file, over, os.LookupEnv)
	if err != nil {
		return nil, nil, err
	}
	if f.print || f.important {
		text := conf.Text(P(cfg))
		if f.important {
			text = nil
			for _, p := range conf.Important(P(cfg)) {
				text = conf.AppendProperty(text, p.Key, p.Value)
			}
		}
		_, _ = os.Stdout.Write(text)
		return nil, nil, errPrinted
	}
	for _, finding := range report.Findings {
		log.Warn("configuration", zap.String("file", f.file), zap.Stringer("finding", finding))
	}
	return cfg, log, nil
}

// tlsConfigFile is the file of tls.* keys that is stronger than a component's own; TLS_CONFIG_FILE names another.
func tlsConfigFile() string {
	if path := os.Getenv("TLS_CONFIG_FILE"); path != "" {
		return path
	}
	return remoting.TLSConfigFile
}

func newLogger(f *serverFlags) (*zap.Logger, error) {
	level, err := zap.ParseAtomicLevel(f.logLevel)
	if err != nil {
		return nil, err
	}
	c := zap.NewProductionConfig()
	c.Level = level
	c.Sampling = &zap.SamplingConfig{Initial: 100, Thereafter: 1000} // per second and message: what peers do wrong must not fill the disk
	c.DisableStacktrace = true
	c.EncoderConfig.EncodeTime = isoTime
	c.OutputPaths = []string{"stdout"}
	if !f.logJSON {
		c.Encoding = "console"
		c.DisableCaller = true
	}
	return c.Build()
}

func done(err error) error {
	if errors.Is(err, errPrinted) || errors.Is(err, flag.ErrHelp) {
		return nil
	}
	return err
}

func runNamesrv(ctx context.Context, args []string) error {
	f, err := parseServerFlags("castor namesrv", args)
	if err != nil {
		return done(err)
	}
	cfg, log, err := load[conf.Namesrv](f)
	if err != nil {
		return done(err)
	}
	g := lifecycle.New(ctx)
	serve(g, log, "name server", func() (server, error) {
		return namesrv.New(cfg, namesrv.Options{Log: log, Clock: clock.Real{}, FS: vfs.OS{}})
	})
	if cfg.EnableControllerInNamesrv {
		if err := startController(g, f); err != nil {
			return errors.Join(done(err), g.Stop())
		}
	}
	<-g.Context().Done()
	return g.Stop()
}

func runController(ctx context.Context, args []string) error {
	f, err := parseServerFlags("castor controller", args)
	if err != nil {
		return done(err)
	}
	g := lifecycle.New(ctx)
	if err := startController(g, f); err != nil {
		return done(err)
	}
	<-g.Context().Done()
	return g.Stop()
}

// startController runs a controller in g.
func startController(g *lifecycle.Group, f *serverFlags) error {
	cfg, log, err := load[conf.Controller](f)
	if err != nil {
		return err
	}
	serve(g, log, "controller", func() (server, error) {
		return controller.New(cfg, controller.Options{Log: log, Clock: clock.Real{}, FS: vfs.OS{}})
	})
	return nil
}

type server interface {
	Addr() *net.TCPAddr
	Run(ctx context.Context) error
}

// serve makes a server and runs it, in g.
func serve(g *lifecycle.Group, log *zap.Logger, name string, make func() (server, error)) {
	g.Go(name, func(ctx context.Context) error {
		return whileScarce(ctx, log, name, func(ctx context.Context) error {
			s, err := make()
			if err != nil {
				return err
			}
			log.Info(name+" started", zap.Stringer("address", s.Addr()))
			return s.Run(ctx)
		})
	})
}

func runBroker(ctx context.Context, args []string) error {
	f, err := parseServerFlags("castor broker", args)
	if err != nil {
		return done(err)
	}
	cfg, log, err := load[conf.Broker](f)
	if err != nil {
		return done(err)
	}
	return whileScarce(ctx, log, "broker", func(ctx context.Context) error {
		b, err := broker.New(cfg, broker.Options{Log: log, FS: chaos.Disk(vfs.OS{})})
		if err != nil {
			return err
		}
		beside := lifecycle.New(context.WithoutCancel(ctx)) // also while the broker takes leave
		if cfg.EnableControllerMode && cfg.WatchdogTimeoutMillis > 0 {
			beside.Go("watchdog", func(ctx context.Context) error {
				return watchdog.Run(ctx, cfg.BrokerName+" at "+b.Addr(), time.Duration(cfg.WatchdogTimeoutMillis)*time.Millisecond, b.Replaceable, log.Named("watchdog"))
			})
		}
		return errors.Join(b.Run(ctx), beside.Stop())
	})
}

// scarceLook is how often a server that lacks room, descriptors or memory tries again.
const scarceLook = time.Second

// whileScarce runs a server, and again whenever it has ended for want of room on its disk, descriptors or memory: without what it has to write
// or open before it goes on it can do nothing else, and it needs nobody who starts it when there is enough again.
func whileScarce(ctx context.Context, log *zap.Logger, name string, run func(ctx context.Context) error) error {
	said := time.Time{}
	for {
		err := run(ctx)
		if !vfs.Scarce(err) || ctx.Err() != nil {
			return err
		}
		if time.Since(said) > time.Minute {
			remedy := "raise the limit of descriptors (ulimit -n, LimitNOFILE) or of memory"
			if vfs.NoSpace(err) {
				remedy = "free space on the disk"
			}
			log.Error("the "+name+" starts again when it can have what it needs: "+remedy, zap.Error(err))
			said = time.Now()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(scarceLook):
		}
	}
}
