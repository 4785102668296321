package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// The one cluster and group there is.
const (
	ClusterName = "chaos"
	GroupName   = "broker-a"
)

// Cluster is a name server, controllers and the brokers of one group, each a process of its own on the loopback device.
type Cluster struct {
	Dir         string
	Names       *Process
	Controllers []*Process
	Brokers     []*Process

	net    *network // nil: they talk to each other directly
	client *remoting.Client
}

// Process is one member of a Cluster. Its methods are for one goroutine.
type Process struct {
	Name string
	Addr string // of its remoting server

	net       *network
	bin, conf string
	command   string
	log       string
	cmd       *exec.Cmd
	ended     chan error
	stopped   bool // by SIGSTOP
	small     bool // its store has a disk of its own
}

// store is the folder of what a broker or a controller keeps.
func (p *Process) store() string { return filepath.Join(filepath.Dir(p.conf), "store") }

// Kind says what can be done to a cluster besides what can be done to processes.
type Kind string

// The kinds. A network that can be cut answers for processes that are gone, and a small disk is in memory: what happens to processes is looked
// at without them.
const (
	Plain     Kind = ""
	Severable Kind = "network" // what its servers say to each other can be cut
	Fillable  Kind = "disks"   // the disks of its servers are small
)

// Options say what to start.
type Options struct {
	Dir         string // for files of the cluster; it must exist
	Binary      string // castor
	Controllers int
	Brokers     int
	Kind        Kind
	Keys        map[string]string // of every broker, beside those that are needed
}

// Start starts a cluster and waits until all brokers are in sync. Close must be called, also after an error.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c := &Cluster{Dir: o.Dir, client: remoting.NewClient(nil, nil)}
	ports, err := freePorts(1 + o.Controllers + 2*o.Brokers)
	if err != nil {
		return c, err
	}
	next := func() string { p := ports[0]; ports = ports[1:]; return p }
	host := func(int) string { return "127.0.0.1" }
	if o.Kind == Severable {
		c.net = newNetwork()
		host = func(i int) string { return fmt.Sprintf("127.0.1.%d", i) }
	}
	if c.Names, err = c.process(o.Binary, "namesrv", "namesrv", "127.0.0.1", next(), map[string]string{"kvConfigPath": "kv.json", "configStorePath": "namesrv.properties"}); err != nil {
		return c, err
	}
	var peers, controllers []string
	for i := range o.Controllers {
		addr := net.JoinHostPort(host(1+i), next())
		peers = append(peers, fmt.Sprintf("n%d-%s", i, addr))
		controllers = append(controllers, addr)
	}
	for i, addr := range controllers {
		host, port, _ := net.SplitHostPort(addr)
		p, err := c.process(o.Binary, "controller", fmt.Sprintf("controller-%d", i), host, port, map[string]string{"controllerDLegerGroup": "chaos", "controllerDLegerPeers": strings.Join(peers, ";"),
			"controllerDLegerSelfId": fmt.Sprintf("n%d", i), "controllerStorePath": "store", "configStorePath": "controller.properties"})
		if err != nil {
			return c, err
		}
		c.Controllers = append(c.Controllers, p)
	}
	for i := range o.Brokers {
		host, ha := host(1+o.Controllers+i), next()
		keys := map[string]string{"brokerClusterName": ClusterName, "brokerName": GroupName, "brokerIP1": host, "brokerIP2": host, "namesrvAddr": c.Names.Addr, "fastListenPort": "-1",
			"enableControllerMode": "true", "controllerAddr": strings.Join(controllers, ";"), "storePathRootDir": "store", "mappedFileSizeCommitLog": "67108864", "diskMaxUsedSpaceRatio": "97", "diskSpaceCleanForciblyRatio": "98", "diskSpaceWarningLevelRatio": "99", "haListenPort": ha}
		if o.Kind == Fillable {
			maps.Copy(keys, smallKeys)
		}
		maps.Copy(keys, o.Keys)
		p, err := c.process(o.Binary, "broker", fmt.Sprintf("broker-%d", i), host, next(), keys)
		if err == nil && c.net != nil {
			err = c.net.serve(p.Name, host, ha)
		}
		if err != nil {
			return c, err
		}
		c.Brokers = append(c.Brokers, p)
	}
	if o.Kind == Fillable {
		for _, p := range c.servers() {
			if err := p.mount(); err != nil {
				return c, err
			}
		}
	}
	for _, p := range c.all() {
		if err := p.Start(); err != nil {
			return c, err
		}
	}
	return c, c.Await(ctx, o.Brokers)
}

// freePorts are n ports that nobody listens on, below those that the system gives to who connects: a server that is down for a while must not lose
// its port to them.
func freePorts(n int) (ports []string, err error) {
	for range 1000 {
		l, e := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)))
		if e != nil {
			err = e
			continue
		}
		defer l.Close() //nolint:errcheck // only its number is wanted
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("there are no %d free ports: %w", n, err)
}

func (c *Cluster) all() []*Process {
	all := slices.Concat(c.Controllers, c.Brokers)
	if c.Names != nil {
		all = append([]*Process{c.Names}, all...)
	}
	return all
}

// process writes the configuration of a process that others reach at a host and a port. Values of keys that end in "Path" or "Dir" are below
// its folder.
func (c *Cluster) process(bin, command, name, host, port string, keys map[string]string) (*Process, error) {
	dir := filepath.Join(c.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "listenPort=%s\nbindAddress=127.0.0.1\n", port)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		v := keys[k]
		if strings.HasSuffix(k, "Path") || strings.HasSuffix(k, "Dir") {
			v = filepath.Join(dir, v)
		}
		fmt.Fprintf(&text, "%s=%s\n", k, v)
	}
	p := &Process{Name: name, Addr: net.JoinHostPort(host, port), net: c.net, bin: bin, command: command, conf: filepath.Join(dir, "conf.properties"), log: filepath.Join(dir, "log")}
	if c.net != nil && host != "127.0.0.1" {
		if err := c.net.serve(name, host, port); err != nil {
			return nil, err
		}
	}
	return p, os.WriteFile(p.conf, []byte(text.String()), 0o600)
}

// Start runs the process, unless it runs already. It does not wait until it serves.
func (p *Process) Start() error {
	if p.Running() {
		return nil
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the process has its own
	p.cmd = exec.Command(p.bin, p.command, "-c", p.conf)
	p.cmd.Env = append(os.Environ(), diskVariable+"="+p.disk())
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	if p.net != nil {
		p.net.started(p.Name, p.cmd.Process.Pid)
	}
	cmd, ended := p.cmd, make(chan error, 1)
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
	return nil
}

// move kills a broker and starts it at ports that it has not had.
func (p *Process) move() error {
	if p.net != nil {
		return errors.New("the network knows its address")
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(p.conf)
	if err != nil {
		return err
	}
	text = listenPort.ReplaceAll(text, []byte("listenPort="+ports[0]))
	text = haListenPort.ReplaceAll(text, []byte("haListenPort="+ports[1]))
	host, _, _ := net.SplitHostPort(p.Addr)
	p.Addr = net.JoinHostPort(host, ports[0])
	return errors.Join(p.Kill(), os.WriteFile(p.conf, text, 0o600), p.Start())
}

var (
	listenPort   = regexp.MustCompile(`(?m)^listenPort=.*$`)
	haListenPort = regexp.MustCompile(`(?m)^haListenPort=.*$`)
)

// Running tells whether the process lives.
func (p *Process) Running() bool { return p.ended != nil }

// Kill ends the process as a crash does.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, 5*time.Second) }

// Terminate asks the process to end, and waits until it has.
func (p *Process) Terminate() error { return p.end(syscall.SIGTERM, 20*time.Second) }

func (p *Process) end(s syscall.Signal, limit time.Duration) error {
	if p.ended == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(s)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-p.ended:
		p.ended, p.stopped = nil, false
		if s == syscall.SIGTERM && err != nil {
			return fmt.Errorf("%s ended with %w; see %s", p.Name, err, p.log)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s does not end", p.Name)
	}
}

// Stop freezes the process until Continue.
func (p *Process) Stop() error { p.stopped = true; return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue ends Stop.
func (p *Process) Continue() error { p.stopped = false; return p.cmd.Process.Signal(syscall.SIGCONT) }

// Died returns why the process ended although nobody asked it to, nil if it did not.
func (p *Process) Died() error {
	if p.ended == nil {
		return nil
	}
	select {
	case err := <-p.ended:
		p.ended = nil
		return fmt.Errorf("%s died: %w; see %s", p.Name, err, p.log)
	default:
		return nil
	}
}

// Close ends all processes.
func (c *Cluster) Close() error {
	var err error
	for _, p := range c.all() {
		if p.stopped {
			_ = p.Continue()
		}
		err = errors.Join(err, p.Kill(), p.unmount())
	}
	if c.net != nil {
		c.net.close()
	}
	c.client.Close()
	return err
}

// Replicas asks the controllers for the state of the group.
func (c *Cluster) Replicas(ctx context.Context) (*body.ReplicasInfo, error) {
	var last error
	for _, p := range c.Controllers {
		if !p.Running() || p.stopped {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		r, err := c.client.Call(limited, p.Addr, code.ControllerGetSyncStateData, nil, fastjson.Marshal([]string{GroupName}))
		cancel()
		if err == nil {
			err = r.Err()
		}
		if err != nil {
			last = err
			continue
		}
		var info body.BrokerReplicasInfo
		if err := fastjson.Unmarshal(r.Body, &info); err != nil {
			return nil, err
		}
		if g, ok := info.ReplicasInfoTable[GroupName]; ok {
			return &g, nil
		}
		last = errors.New("the controllers do not know the group")
	}
	return nil, fmt.Errorf("no controller answers: %w", last)
}

// Await waits until there is a master, n brokers are in sync, and the name server knows the master.
func (c *Cluster) Await(ctx context.Context, n int) error {
	what := ""
	for {
		for _, p := range c.all() {
			if err := p.Died(); err != nil {
				return err
			}
		}
		g, err := c.Replicas(ctx)
		switch {
		case err != nil:
			what = err.Error()
		case g.MasterBrokerID == nil || len(g.InSyncReplicas) < n:
			what = fmt.Sprintf("%d of %d brokers are in sync", len(g.InSyncReplicas), n)
		default:
			addr, err := c.Route(ctx)
			if err == nil && addr == g.MasterAddress {
				return nil
			}
			what = fmt.Sprintf("the name server says that %q is master, not %s (%v)", addr, g.MasterAddress, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not get ready: %s; see %s", what, c.Dir)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Route asks the name server for the address of the master.
func (c *Cluster) Route(ctx context.Context) (string, error) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var info body.ClusterInfo
	r, err := c.client.Call(limited, c.Names.Addr, code.GetBrokerClusterInfo, nil, nil)
	if err == nil {
		err = r.Err()
	}
	if err == nil {
		err = fastjson.Unmarshal(r.Body, &info)
	}
	if err != nil {
		return "", err
	}
	return info.BrokerAddrTable[GroupName].BrokerAddrs[0], nil
}

// Master is the process of the master that the controllers name.
func (c *Cluster) Master(ctx context.Context) (*Process, error) {
	g, err := c.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range c.Brokers {
		if p.Addr == g.MasterAddress {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no broker has the master's address %q", g.MasterAddress)
}

// Switch has the controllers make another replica master, as mqadmin electMaster does.
func (c *Cluster) Switch(ctx context.Context) error {
	g, err := c.Replicas(ctx)
	if err != nil {
		return err
	}
	l, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	for _, r := range g.InSyncReplicas {
		if g.MasterBrokerID != nil && r.BrokerID != *g.MasterBrokerID {
			h := header.ElectMasterRequest{ClusterName: ClusterName, BrokerName: GroupName, BrokerID: r.BrokerID, DesignateElect: true, InvokeTime: time.Now().UnixMilli()}
			reply, err := c.client.Call(ctx, l.Addr, code.ControllerElectMaster, &h, nil)
			if err == nil {
				err = reply.Err()
			}
			return err
		}
	}
	return errors.New("no other replica is in sync")
}

// Leader is the process of the leading controller.
func (c *Cluster) Leader(ctx context.Context) (*Process, error) {
	for _, p := range c.Controllers {
		if !p.Running() || p.stopped {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		r, err := c.client.Call(limited, p.Addr, code.ControllerGetMetadataInfo, nil, nil)
		cancel()
		var h header.GetMetaDataResponse
		if err == nil && r.Decode(&h) == nil && h.IsLeader {
			return p, nil
		}
	}
	return nil, errors.New("no controller leads")
}

// Log copies the last lines of a process's log.
func (p *Process) Log(w io.Writer, bytes int64) {
	f, err := os.Open(p.log)
	if err != nil {
		return
	}
	defer f.Close() //nolint:errcheck // read only
	if st, err := f.Stat(); err == nil && st.Size() > bytes {
		_, _ = f.Seek(-bytes, io.SeekEnd)
	}
	_, _ = io.Copy(w, f)
}
