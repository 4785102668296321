package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// besideTopic and besideQueues are what a load beside our own sends to.
const (
	besideTopic  = "ChaosLoad"
	besideQueues = 8
)

// beside is a program that loads the cluster, too, as users' programs do: with another client, and without looking for the master. It is
// called with the name server's address and a topic, and prints a line for every send: "ok WHAT", where WHAT is the message's body, or
// "fail WHY".
type beside struct {
	cmd   *exec.Cmd
	pulse pulse
	ended chan struct{}

	mu     sync.Mutex
	acked  map[string]bool
	failed []string
}

// startBeside makes the topic, waits until it has a standby, and starts the program.
func startBeside(ctx context.Context, c *Cluster, l *load, command string) (*beside, error) {
	h := header.CreateTopicRequest{Topic: besideTopic, DefaultTopic: "TBW102", ReadQueueNums: besideQueues, WriteQueueNums: besideQueues, Perm: 6, TopicFilterType: "SINGLE_TAG"}
	if err := l.call(ctx, *l.master.Load(), code.UpdateAndCreateTopic, &h, nil, nil); err != nil {
		return nil, fmt.Errorf("make the topic: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, ready)
	defer cancel()
	if err := c.awaitStandby(within); err != nil {
		return nil, err
	}
	b := &beside{acked: map[string]bool{}, ended: make(chan struct{})}
	args := append(strings.Fields(command), c.Names.Addr, besideTopic)
	b.cmd = exec.Command(args[0], args[1:]...)
	b.cmd.Stderr = os.Stderr
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := b.cmd.StdoutPipe()
	if err == nil {
		err = b.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	go b.read(out)
	for _, n := b.pulse.read(); n < 100; _, n = b.pulse.read() {
		select {
		case <-within.Done():
			b.end()
			return nil, fmt.Errorf("%s sends nothing", command)
		case <-b.ended:
			return nil, fmt.Errorf("%s has ended", command)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return b, nil
}

func (b *beside) read(out io.Reader) {
	defer close(b.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch result, what, _ := strings.Cut(lines.Text(), " "); result {
		case "ok":
			b.pulse.beat()
			b.mu.Lock()
			b.acked[what] = true
			b.mu.Unlock()
		case "fail":
			b.mu.Lock()
			b.failed = append(b.failed, what)
			b.mu.Unlock()
		}
	}
}

// failures returns those from the i-th on.
func (b *beside) failures(i int) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed[i:]
}

// end stops the program; more than once does no harm.
func (b *beside) end() {
	_ = b.cmd.Process.Kill()
	<-b.ended
	_ = b.cmd.Wait()
}

// lost counts the acknowledged messages that are in no queue.
func (b *beside) lost(ctx context.Context, addr string) (acked, lost int, err error) {
	client := remoting.NewClient(nil, nil)
	defer client.Close()
	acked = len(b.acked)
	for q := range int32(besideQueues) {
		err := each(ctx, client, addr, besideTopic, q, func(v *message.View) { delete(b.acked, string(v.Body())) })
		if err != nil {
			return acked, 0, err
		}
	}
	return acked, len(b.acked), nil
}

// awaitStandby waits until clients that ask for a route learn of the standby.
func (c *Cluster) awaitStandby(ctx context.Context) error {
	for ctx.Err() == nil {
		r, err := c.client.Call(ctx, c.Names.Addr, code.GetRouteInfoByTopic, &header.GetRouteInfoRequest{Topic: besideTopic}, nil)
		var d body.TopicRouteData
		if err == nil && r.Err() == nil && fastjson.Unmarshal(r.Body, &d) == nil && len(d.BrokerDatas) == 2 {
			return nil
		}
		sleep(ctx, 10*time.Millisecond)
	}
	return errors.New("there is no standby in the route")
}
