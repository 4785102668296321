package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/broker"
	"github.com/castor-mq/castor/conf"
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

// runDev runs a name server and a broker in this process and shows a message travelling through them.
func runDev(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("castor dev", flag.ContinueOnError)
	dir := fs.String("dir", "", "keep the store here; without it the store is temporary")
	namePort := fs.Int("namesrv-port", 9876, "port of the name server, 0 for a free one")
	port := fs.Int("port", 10911, "port of the broker, 0 for a free one")
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
	if err != nil {
		return err
	}
	err = c.show(ctx)
	if err == nil && !*once {
		fmt.Printf("\nThe cluster goes on running: point clients at namesrvAddr=%s. Ctrl-C stops it.\n", c.names)
		<-c.g.Context().Done()
	}
	return errors.Join(err, c.g.Stop())
}

// devCluster is a whole cluster in one process.
type devCluster struct {
	g     *lifecycle.Group
	names string
	log   string
}

func startDev(ctx context.Context, dir string, namePort, port int) (*devCluster, error) {
	start := time.Now()
	c := &devCluster{g: lifecycle.New(ctx), log: filepath.Join(dir, "castor.log")}
	zc := zap.NewProductionConfig()
	zc.OutputPaths = []string{c.log}
	log, err := zc.Build()
	if err != nil {
		return nil, err
	}
	nc, _, err := conf.Load[conf.Namesrv]("", map[string]string{"listenPort": strconv.Itoa(namePort), "bindAddress": "127.0.0.1",
		"kvConfigPath": filepath.Join(dir, "kvConfig.json"), "configStorePath": filepath.Join(dir, "namesrv.properties")}, nil)
	if err != nil {
		return nil, err
	}
	ns, err := namesrv.New(nc, namesrv.Options{Log: log.Named("namesrv"), Clock: clock.Real{}, FS: vfs.OS{}})
	if err != nil {
		return nil, err
	}
	c.g.Go("name server", ns.Run)
	c.names = ns.Addr().String()
	fast := "-1"
	if port != 0 {
		fast = "0"
	}
	bc, _, err := conf.Load[conf.Broker]("", map[string]string{"listenPort": strconv.Itoa(port), "fastListenPort": fast, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
		"brokerIP2": "127.0.0.1", "brokerName": "broker-a", "namesrvAddr": c.names, "storePathRootDir": filepath.Join(dir, "store"), "enablePropertyFilter": "true", "traceTopicEnable": "true"}, nil)
	if err != nil {
		return nil, errors.Join(err, c.g.Stop())
	}
	b, err := broker.New(bc, broker.Options{Log: log.Named("broker")})
	if err != nil {
		return nil, errors.Join(err, c.g.Stop())
	}
	c.g.Go("broker", b.Run)
	fmt.Printf("name server  %s\nbroker-a     %s   (store in %s)\nup in        %v   (log: %s)\n\n", c.names, b.Addr(), bc.StorePathRootDir, time.Since(start).Round(time.Millisecond), c.log)
	return c, nil
}

// show sends a message as a producer does and pulls it as a consumer does, and tells what happens.
func (c *devCluster) show(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cl := remoting.NewClient(nil, nil)
	defer cl.Close()
	const topic, text = "DevTopic", "hello from castor dev"
	var addr string
	for addr == "" { // until the broker has registered
		r, err := cl.Call(ctx, c.names, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: "TBW102"}, nil)
		if err != nil {
			return err
		}
		if r.Err() == nil {
			if addr, err = masterOf(r.Body); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the broker did not register with the name server; see %s", c.log)
		case <-time.After(5 * time.Millisecond):
		}
	}
	fmt.Printf("producer     asked the name server where to send: %s\n", addr)
	h := header.SendMessageRequest{ProducerGroup: "dev", Topic: topic, DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, BornTimestamp: time.Now().UnixMilli(),
		Properties: string(message.AppendProp(nil, message.PropTags, "TagA"))}
	begin := time.Now()
	r, err := cl.Call(ctx, addr, code.SendMessage, &h, []byte(text))
	if err != nil {
		return err
	}
	if err := r.Err(); err != nil {
		return err
	}
	var sent header.SendMessageResponse
	if err := r.Decode(&sent); err != nil {
		return err
	}
	fmt.Printf("producer     sent %q to %s queue %d; acknowledged after %v at offset %d as %s\n", text, topic, sent.QueueID, time.Since(begin).Round(10*time.Microsecond), sent.QueueOffset, sent.MsgID)
	return c.pull(ctx, cl, addr, topic, text, &sent)
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
	fmt.Printf("consumer     pulled %q with tag %s, stored at log offset %d\n", v.Body(), v.Properties().Lookup(message.PropTags), v.PhyOffset())
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
