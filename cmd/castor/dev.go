package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/dev"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

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
	if c == nil {
		return err
	}
	if err == nil {
		err = show(ctx, c)
	}
	if err == nil && !*once {
		fmt.Printf("\nThe cluster goes on running: point clients at namesrvAddr=%s. Ctrl-C stops it.\n", c.Names)
		<-c.Context().Done()
	}
	return errors.Join(err, c.Stop())
}

// startDev starts the cluster and tells where everything is.
func startDev(ctx context.Context, dir string, namePort, port int) (*dev.Cluster, error) {
	start := time.Now()
	zc := zap.NewProductionConfig()
	zc.OutputPaths = []string{filepath.Join(dir, "castor.log")}
	log, err := zc.Build()
	if err != nil {
		return nil, err
	}
	c, err := dev.Start(ctx, dev.Options{Dir: dir, NamesPort: namePort, Port: port, Log: log})
	if err != nil {
		return c, err
	}
	fmt.Printf("name server  %s\ncontrollers  %s\n", c.Names, strings.Join(c.Controllers, " "))
	for i, b := range c.Brokers {
		fmt.Printf("%s.%d   %s   (store in %s)\n", dev.Group, i+1, b.Addr, b.Conf["storePathRootDir"])
	}
	fmt.Printf("up in        %v   (log: %s)\n\n", time.Since(start).Round(time.Millisecond), zc.OutputPaths[0])
	return c, nil
}

// show sends a message as a producer does, kills the master, and pulls the message from the next one as a consumer does.
func show(ctx context.Context, c *dev.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cl := remoting.NewClient(nil, nil)
	defer cl.Close()
	if err := c.AwaitSet(ctx, cl, dev.Replicas); err != nil {
		return err
	}
	master, err := c.Master(ctx, cl, "")
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
	fmt.Printf("producer     sent %q to %s queue %d; %d brokers have it, acknowledged after %v at offset %d as %s\n", text, topic, sent.QueueID, dev.Replicas, time.Since(begin).Round(10*time.Microsecond), sent.QueueOffset, sent.MsgID)
	begin = time.Now()
	for i, b := range c.Brokers {
		if b.Addr == master {
			c.Kill(b)
			fmt.Printf("%s.%d   killed\n", dev.Group, i+1)
			defer func() { _ = c.StartAgain(b) }()
		}
	}
	next, err := c.Master(ctx, cl, master)
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
	return pull(ctx, cl, next, topic, text, &sent)
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

func pull(ctx context.Context, cl *remoting.Client, addr, topic, text string, sent *header.SendMessageResponse) error {
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
