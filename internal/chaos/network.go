package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// network carries what the processes of a cluster say to each other, so that it can be cut and slowed down. Each process has a loopback
// address of its own, at which the network listens for it; the process itself listens on 127.0.0.1, at the same ports. Who connects is
// looked up in /proc. What is held up is not lost: it arrives when the way is open again, as TCP has it.
type network struct {
	listeners []net.Listener
	wg        sync.WaitGroup

	mu      sync.Mutex
	pids    map[string]int
	cuts    map[way]bool
	lags    map[way]lag
	conns   map[net.Conn]bool
	changed chan struct{} // closed at each change of cuts, and at the end
	closed  bool
}

// way is a direction between two processes, by name; "" is whoever is none of the cluster.
type way struct{ from, to string }

// lag is how much longer one of so many pieces takes, and those behind it.
type lag struct {
	by   time.Duration
	once int
}

func newNetwork() *network {
	return &network{pids: map[string]int{}, cuts: map[way]bool{}, lags: map[way]lag{}, conns: map[net.Conn]bool{}, changed: make(chan struct{})}
}

// serve carries connections to a process.
func (n *network) serve(to, host, port string) error {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	n.listeners = append(n.listeners, ln)
	n.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			n.wg.Go(func() { n.carry(c, to, "127.0.0.1:"+port) })
		}
	})
	return nil
}

// carry is one connection.
func (n *network) carry(a net.Conn, to, addr string) {
	defer a.Close() //nolint:errcheck // both ends learn it
	if !n.keep(a) {
		return
	}
	defer n.drop(a)
	from := n.owner(a.RemoteAddr(), a.LocalAddr())
	if !n.pass(way{from, to}) {
		return
	}
	b, err := net.Dial("tcp", addr)
	if err != nil {
		_ = a.(*net.TCPConn).SetLinger(0) // nobody is there: that is a reset
		return
	}
	defer b.Close() //nolint:errcheck // both ends learn it
	if !n.keep(b) {
		return
	}
	defer n.drop(b)
	back := make(chan struct{})
	go func() {
		defer close(back)
		n.copy(a, b, way{to, from})
		_ = a.Close()
	}()
	n.copy(b, a, way{from, to})
	_ = b.Close()
	<-back
}

func (n *network) copy(dst, src net.Conn, w way) {
	buf := make([]byte, 64<<10)
	for {
		k, err := src.Read(buf)
		if !n.pass(w) {
			return
		}
		if _, werr := dst.Write(buf[:k]); err != nil || werr != nil {
			return
		}
	}
}

func (n *network) keep(c net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[c] = true
	return !n.closed
}

func (n *network) drop(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
}

// pass waits until the way is open; false says that there is no network any more.
func (n *network) pass(w way) bool {
	for {
		n.mu.Lock()
		cut, late, changed, closed := n.cuts[w], n.lags[w], n.changed, n.closed
		n.mu.Unlock()
		switch {
		case closed:
			return false
		case !cut:
			if late.by > 0 && rand.IntN(late.once) == 0 {
				time.Sleep(late.by)
			}
			return true
		}
		<-changed
	}
}

func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	close(n.changed)
	n.changed = make(chan struct{})
}

// cut holds up what goes one of the ways.
func (n *network) cut(ways ...way) {
	n.change(func() {
		for _, w := range ways {
			n.cuts[w] = true
		}
	})
}

// slow delays what goes one of the ways.
func (n *network) slow(by lag, ways ...way) {
	n.change(func() {
		for _, w := range ways {
			n.lags[w] = by
		}
	})
}

// reset ends all connections.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// heal opens all ways.
func (n *network) heal() error {
	n.change(func() {
		clear(n.cuts)
		clear(n.lags)
	})
	return nil
}

func (n *network) close() {
	n.change(func() { n.closed = true })
	for _, ln := range n.listeners {
		_ = ln.Close()
	}
	n.reset()
	n.wg.Wait()
}

// started notes the pid of a process.
func (n *network) started(name string, pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pids[name] = pid
}

// owner is the process that has connected from one address to another.
func (n *network) owner(from, to net.Addr) string {
	inode, err := socketOf(from, to)
	if err != nil {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, pid := range n.pids {
		if hasSocket(pid, inode) {
			return name
		}
	}
	return ""
}

// socketOf is the inode of the socket with these addresses.
func socketOf(local, remote net.Addr) (string, error) {
	f, err := os.Open("/proc/net/tcp")
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	here, there := procAddr(local), procAddr(remote)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 9 && fields[1] == here && fields[2] == there {
			return fields[9], nil
		}
	}
	return "", errors.New("no such socket")
}

// procAddr is an address as in /proc/net/tcp, on a machine with the low byte first.
func procAddr(a net.Addr) string {
	at := a.(*net.TCPAddr).AddrPort()
	ip := at.Addr().Unmap().As4()
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], at.Port())
}

func hasSocket(pid int, inode string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && to == "socket:["+inode+"]"
	})
}

// between is all ways between processes of one group and of another.
func between(a, b []*Process) (ways []way) {
	for _, p := range a {
		for _, q := range b {
			if p != q {
				ways = append(ways, way{p.Name, q.Name}, way{q.Name, p.Name})
			}
		}
	}
	return ways
}
