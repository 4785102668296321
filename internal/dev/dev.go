// Package dev runs a whole cluster in this process: a name server, three controllers and the brokers of one group.
package dev

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Group is the name of the brokers.
const Group = "broker-a"

// Replicas is how many controllers and how many brokers there are.
const Replicas = 3

// Options say what to start.
type Options struct {
	Dir       string // of all files; it must exist
	NamesPort int    // 0 for a free one
	Port      int    // of the first broker, those of the others follow in steps of 10; 0 for free ones
	Log       *zap.Logger
	Keys      map[string]string // of every broker, beside those that are needed
}

// Cluster is a whole cluster in one process.
type Cluster struct {
	Names       string   // address of the name server
	Controllers []string // addresses
	Brokers     []*Broker

	g   *lifecycle.Group
	o   Options
	log *zap.Logger
}

// Broker is one broker of it.
type Broker struct {
	Addr string
	Conf map[string]string

	b    *broker.Broker
	kill context.CancelCauseFunc
	over chan struct{}
}

// Start starts a cluster, which ends with ctx or Stop. Call Stop also after an error.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{g: lifecycle.New(ctx), o: o, log: o.Log}
	if err := c.startNames(); err != nil {
		return c, err
	}
	if err := c.startControllers(); err != nil {
		return c, err
	}
	for i := range Replicas {
		port := 0
		if o.Port != 0 {
			port = o.Port + 10*i
		}
		b := &Broker{Conf: map[string]string{"listenPort": strconv.Itoa(port), "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
			"brokerIP2": "127.0.0.1", "brokerName": Group, "namesrvAddr": c.Names, "storePathRootDir": filepath.Join(o.Dir, fmt.Sprintf("store-%d", i+1)),
			"enablePropertyFilter": "true", "traceTopicEnable": "true", "enableControllerMode": "true", "controllerAddr": strings.Join(c.Controllers, ";")}}
		maps.Copy(b.Conf, o.Keys)
		if err := c.startBroker(b); err != nil {
			return c, err
		}
		c.Brokers = append(c.Brokers, b)
	}
	return c, nil
}

// Metrics is where the broker's metrics are served, host:port.
func (b *Broker) Metrics() string { return b.b.MetricsAddr() }

// Context ends when something of the cluster has failed, or it was stopped.
func (c *Cluster) Context() context.Context { return c.g.Context() }

// Stop ends everything in order, and returns what has failed.
func (c *Cluster) Stop() error { return c.g.Stop() }

// Kill makes a broker look to others as if its process had been killed.
func (c *Cluster) Kill(b *Broker) { b.kill(broker.ErrKilled) }

// Ended waits until nothing of a broker that was killed runs any more.
func (c *Cluster) Ended(b *Broker) { <-b.over }

// StartAgain starts a broker that was killed.
func (c *Cluster) StartAgain(b *Broker) error {
	c.Ended(b)
	return c.startBroker(b)
}

// Broker returns the broker with an address, nil if there is none.
func (c *Cluster) Broker(addr string) *Broker {
	for _, b := range c.Brokers {
		if b.Addr == addr {
			return b
		}
	}
	return nil
}

func (c *Cluster) startNames() error {
	cfg, _, err := conf.Load[conf.Namesrv]("", map[string]string{"listenPort": strconv.Itoa(c.o.NamesPort), "bindAddress": "127.0.0.1",
		"kvConfigPath": filepath.Join(c.o.Dir, "kvConfig.json"), "configStorePath": filepath.Join(c.o.Dir, "namesrv.properties")}, nil)
	if err != nil {
		return err
	}
	s, err := namesrv.New(cfg, namesrv.Options{Log: c.log.Named("namesrv"), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		return err
	}
	c.g.Go("name server", s.Run)
	c.Names = s.Addr().String()
	return nil
}

func (c *Cluster) startControllers() error {
	var peers []string
	for i := range Replicas {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
		c.Controllers = append(c.Controllers, addr)
		peers = append(peers, fmt.Sprintf("n%d-%s", i, addr))
	}
	for i := range Replicas {
		dir := filepath.Join(c.o.Dir, fmt.Sprintf("controller-%d", i))
		if err := os.RemoveAll(dir); err != nil { // its ports, which are part of the quorum's state, are new ones
			return err
		}
		cfg, _, err := conf.Load[conf.Controller]("", map[string]string{"controllerDLegerGroup": "dev", "controllerDLegerPeers": strings.Join(peers, ";"),
			"controllerDLegerSelfId": fmt.Sprintf("n%d", i), "controllerStorePath": dir, "configStorePath": filepath.Join(dir, "controller.properties"), "bindAddress": "127.0.0.1"}, nil)
		if err != nil {
			return err
		}
		s, err := controller.New(cfg, controller.Options{Log: c.log.Named(fmt.Sprintf("controller%d", i)), Clock: clock.Real{}, FS: vfs.OS{}})
		if err != nil {
			return err
		}
		c.g.Go("controller", s.Run)
	}
	return nil
}

// startBroker starts a broker, also one that was killed.
func (c *Cluster) startBroker(b *Broker) error {
	cfg, _, err := conf.Load[conf.Broker]("", b.Conf, nil)
	if err != nil {
		return err
	}
	s, err := broker.New(cfg, broker.Options{Log: c.log.Named("broker")})
	if err != nil {
		return err
	}
	b.b, b.Addr = s, s.Addr()
	var ctx context.Context
	ctx, b.kill = context.WithCancelCause(c.g.Context())
	b.over = make(chan struct{})
	c.g.Go("broker", func(context.Context) error {
		defer close(b.over)
		return s.Run(ctx)
	})
	return nil
}

// AwaitSet waits until n brokers are in sync.
func (c *Cluster) AwaitSet(ctx context.Context, cl *remoting.Client, n int) error {
	for ctx.Err() == nil {
		for _, addr := range c.Controllers {
			var all body.BrokerReplicasInfo
			r, err := cl.Call(ctx, addr, code.ControllerGetSyncStateData, nil, fastjson.Marshal([]string{Group}))
			if err == nil && r.Err() == nil && fastjson.Unmarshal(r.Body, &all) == nil && len(all.ReplicasInfoTable[Group].InSyncReplicas) == n {
				return nil
			}
		}
		pause(ctx)
	}
	return fmt.Errorf("the brokers do not get in sync; see the log in %s", c.o.Dir)
}

// Master asks the name server for the master until that is another one than not.
func (c *Cluster) Master(ctx context.Context, cl *remoting.Client, not string) (string, error) {
	for ctx.Err() == nil {
		r, err := cl.Call(ctx, c.Names, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: "TBW102"}, nil)
		if err == nil && r.Err() == nil {
			if addr, err := masterOf(r.Body); err == nil && addr != not {
				return addr, nil
			}
		}
		pause(ctx)
	}
	return "", fmt.Errorf("the name server knows no master; see the log in %s", c.o.Dir)
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

// masterOf returns the address of the first master in a route.
func masterOf(route []byte) (string, error) {
	var d body.TopicRouteData
	if err := fastjson.Unmarshal(route, &d); err != nil {
		return "", err
	}
	for _, b := range d.BrokerDatas {
		if a, ok := b.BrokerAddrs[0]; ok {
			return a, nil
		}
	}
	return "", errors.New("no master in the route")
}
