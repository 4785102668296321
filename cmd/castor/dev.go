package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/namesrv"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// devReplicas is how many controllers and how many brokers castor dev runs.
const devReplicas = 3

// runDev runs a name server, three controllers and three brokers in this process and shows a message surviving its master.
func runDev(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("castor dev", flag.ContinueOnError)
	dir := fs.String("dir", "", "keep the stores here; without it they are temporary")
	namePort := fs.Int("namesrv-port", 9876, "port of the name server, 0 for a free one")
	port := fs.Int("port", 10911, "port of the first broker, 0 for a free one")
	once := fs.Bool("once", false, "stop after the message has arrived; takes free ports")
	if err := fs.Parse(args); err != nil {
		return done(err)
	}
	if *once {
		*namePort, *port = 0, 0
	}
	if *dir == "" {
		tmp, err := os.MkdirTemp("", "castor-dev-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp) //nolint:errcheck // a temporary folder
		*dir = tmp
	} else if err := os.MkdirAll(*dir, 0o755); err != nil {
		return err
	}
	c, err := startDev(ctx, *dir, *namePort, *port)
	if err == nil {
		err = c.show(ctx)
	}
	if err == nil && !*once {
		fmt.Printf("\nThe cluster goes on running: point clients at namesrvAddr=%s. Ctrl-C stops it.\n", c.names)
		<-c.g.Context().Done()
	}
	return errors.Join(err, c.g.Stop())
}

// devCluster is a whole cluster in one process.
type devCluster struct {
	g           *lifecycle.Group
	dir         string
	log         *zap.Logger
	names       string
	controllers []string
	brokers     []*devBroker
}

// devBroker is one broker of it.
type devBroker struct {
	addr string
	conf map[string]string
	kill context.CancelCauseFunc
	over chan struct{}
}

func startDev(ctx context.Context, dir string, namePort, port int) (*devCluster, error) {
	start := time.Now()
	c := &devCluster{g: lifecycle.New(ctx), dir: dir}
	zc := zap.NewProductionConfig()
	zc.OutputPaths = []string{filepath.Join(dir, "castor.log")}
	var err error
	if c.log, err = zc.Build(); err != nil {
		return c, err
	}
	if err := c.startNames(namePort); err != nil {
		return c, err
	}
	if err := c.startControllers(); err != nil {
		return c, err
	}
	for i := range devReplicas {
		p := 0
		if port != 0 {
			p = port + 10*i
		}
		b := &devBroker{conf: map[string]string{"listenPort": strconv.Itoa(p), "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
			"brokerIP2": "127.0.0.1", "brokerName": "broker-a", "namesrvAddr": c.names, "storePathRootDir": filepath.Join(dir, fmt.Sprintf("store-%d", i+1)),
			"enablePropertyFilter": "true", "traceTopicEnable": "true", "enableControllerMode": "true", "controllerAddr": strings.Join(c.controllers, ";")}}
		if err := c.startBroker(b); err != nil {
			return c, err
		}
		c.brokers = append(c.brokers, b)
	}
	fmt.Printf("name server  %s\ncontrollers  %s\n", c.names, strings.Join(c.controllers, " "))
	for i, b := range c.brokers {
		fmt.Printf("broker-a.%d   %s   (store in %s)\n", i+1, b.addr, b.conf["storePathRootDir"])
	}
	fmt.Printf("up in        %v   (log: %s)\n\n", time.Since(start).Round(time.Millisecond), zc.OutputPaths[0])
	return c, nil
}

func (c *devCluster) startNames(port int) error {
	cfg, _, err := conf.Load[conf.Namesrv]("", map[string]string{"listenPort": strconv.Itoa(port), "bindAddress": "127.0.0.1",
		"kvConfigPath": filepath.Join(c.dir, "kvConfig.json"), "configStorePath": filepath.Join(c.dir, "namesrv.properties")}, nil)
	if err != nil {
		return err
	}
	s, err := namesrv.New(cfg, namesrv.Options{Log: c.log.Named("namesrv"), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		return err
	}
	c.g.Go("name server", s.Run)
	c.names = s.Addr().String()
	return nil
}

func (c *devCluster) startControllers() error {
	var peers []string
	for i := range devReplicas {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			return err
		}
		c.controllers = append(c.controllers, addr)
		peers = append(peers, fmt.Sprintf("n%d-%s", i, addr))
	}
	for i := range devReplicas {
		dir := filepath.Join(c.dir, fmt.Sprintf("controller-%d", i))
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
func (c *devCluster) startBroker(b *devBroker) error {
	cfg, _, err := conf.Load[conf.Broker]("", b.conf, nil)
	if err != nil {
		return err
	}
	s, err := broker.New(cfg, broker.Options{Log: c.log.Named("broker")})
	if err != nil {
		return err
	}
	b.addr = s.Addr()
	var ctx context.Context
	ctx, b.kill = context.WithCancelCause(c.g.Context())
	b.over = make(chan struct{})
	c.g.Go("broker", func(context.Context) error {
		defer close(b.over)
		return s.Run(ctx)
	})
	return nil
}

// show sends a message as a producer does, kills the master, and pulls the message from the next one as a consumer does.
func (c *devCluster) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cl := remoting.NewClient(nil, nil)
	defer cl.Close()
	if err := c.awaitSet(ctx, cl, devReplicas); err != nil {
		return err
	}
	master, err := c.master(ctx, cl, "")
	if err != nil {
		return err
	}
	fmt.Printf("producer     asked the name server where to send: %s\n", master)
	const topic, text = "DevTopic", "hello from castor dev"
	h := header.SendMessageRequest{ProducerGroup: "dev", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, BornTimestamp: time.Now().UnixMilli(),
		Properties: string(message.AppendProp(nil, message.PropTags, "TagA"))}
	begin := time.Now()
	var sent header.SendMessageResponse
	if err := call(ctx, cl, master, code.SendMessage, &h, []byte(text), &sent); err != nil {
		return err
	}
	fmt.Printf("producer     sent %q to %s queue %d; %d brokers have it, acknowledged after %v at offset %d as %s\n", text, topic, sent.QueueID, devReplicas, time.Since(begin).Round(10*time.Microsecond), sent.QueueOffset, sent.MsgID)
	begin = time.Now()
	for i, b := range c.brokers {
		if b.addr == master {
			b.kill(broker.ErrKilled)
			fmt.Printf("broker-a.%d   killed\n", i+1)
			defer func() { _ = c.startAgain(b) }()
		}
	}
	next, err := c.master(ctx, cl, master)
	if err != nil {
		return err
	}
	for { // a name server knows the new master a little before it has finished to take over
		if err = call(ctx, cl, next, code.SendMessage, &h, []byte("another one"), &header.SendMessageResponse{}); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return err
	}
	fmt.Printf("producer     sent another message to %s, the new master, %v after the kill\n", next, time.Since(begin).Round(time.Millisecond))
	return c.pull(ctx, cl, next, topic, text, &sent)
}

func (c *devCluster) startAgain(b *devBroker) error {
	<-b.over
	return c.startBroker(b)
}

// awaitSet waits until n brokers are in sync.
func (c *devCluster) awaitSet(ctx context.Context, cl *remoting.Client, n int) error {
	for ctx.Err() == nil {
		for _, addr := range c.controllers {
			var all body.BrokerReplicasInfo
			r, err := cl.Call(ctx, addr, code.ControllerGetSyncStateData, nil, fastjson.Marshal([]string{"broker-a"}))
			if err == nil && r.Err() == nil && fastjson.Unmarshal(r.Body, &all) == nil && len(all.ReplicasInfoTable["broker-a"].InSyncReplicas) == n {
				return nil
			}
		}
		pause(ctx)
	}
	return fmt.Errorf("the brokers do not get in sync; see the log in %s", c.dir)
}

// master asks the name server for the master until that is another one than not.
func (c *devCluster) master(ctx context.Context, cl *remoting.Client, not string) (string, error) {
	for ctx.Err() == nil {
		r, err := cl.Call(ctx, c.names, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: "TBW102"}, nil)
		if err == nil && r.Err() == nil {
			if addr, err := masterOf(r.Body); err == nil && addr != not {
				return addr, nil
			}
		}
		pause(ctx)
	}
	return "", fmt.Errorf("the name server knows no master; see the log in %s", c.dir)
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

func call(ctx context.Context, cl *remoting.Client, addr string, rc code.Request, h header.Appender, data []byte, answer header.Setter) error {
	r, err := cl.Call(ctx, addr, rc, h, data)
	if err == nil {
		err = r.Err()
	}
	if err == nil {
		err = r.Decode(answer)
	}
	return err
}

func (c *devCluster) pull(ctx context.Context, cl *remoting.Client, addr, topic, text string, sent *header.SendMessageResponse) error {
	h := header.PullMessageRequest{ConsumerGroup: "dev-readers", Topic: topic, QueueID: sent.QueueID, QueueOffset: sent.QueueOffset, MaxMsgNums: 32, SysFlag: 6,
		SuspendTimeoutMillis: 5000, Subscription: "TagA", ExpressionType: "TAG"}
	r, err := cl.Call(ctx, addr, code.PullMessage, &h, nil)
	if err != nil {
		return err
	}
	if err := r.Err(); err != nil {
		return err
	}
	var v message.View
	if err := v.Parse(r.Body); err != nil {
		return err
	}
	if string(v.Body()) != text {
		return fmt.Errorf("got %q instead of %q", v.Body(), text)
	}
	fmt.Printf("consumer     pulled %q with tag %s from it, stored at log offset %d\n", v.Body(), v.Properties().Lookup(message.PropTags), v.PhyOffset())
	return nil
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
