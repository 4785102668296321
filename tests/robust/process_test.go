package robust

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// built is the folder of the program.
var built string

// castor builds the program once.
var castor = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "robust-"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "castor")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/castor").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

// process is a broker in a process of its own.
type process struct {
	cluster
	conf  string
	files int // limit of open files
	cmd   *exec.Cmd
	ended chan error
	log   bytes.Buffer // after ended
}

func startProcess(t *testing.T, files int, keys map[string]string) *process {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"listenPort": "0", "fastListenPort": "-1", "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "brokerName": "b",
		"mappedFileSizeCommitLog": "33554432", "maxMessageSize": "262144", "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "1000", "maxIndexNum": "4000",
		"storePathRootDir": filepath.Join(dir, "store")}
	maps.Copy(all, keys)
	text := ""
	for k, v := range all {
		text += k + "=" + v + "\n"
	}
	p := &process{cluster: cluster{t: t, client: remoting.NewClient(nil, nil)}, conf: filepath.Join(dir, "broker.conf"), files: files}
	t.Cleanup(p.client.Close)
	if err := os.WriteFile(p.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start()
	t.Cleanup(func() {
		p.stop(syscall.SIGKILL)
		if t.Failed() {
			text := p.log.String()
			t.Logf("the broker's log ends with:\n%s", text[max(0, len(text)-100_000):])
		}
	})
	return p
}

// command runs the program with a limit of open files and returns what it prints.
func command(t testing.TB, files int, conf string) (*exec.Cmd, io.Reader) {
	t.Helper()
	path, err := castor()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d && exec %s broker -log-json -c %s", files, path, conf))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// start runs the program and waits until it serves.
func (p *process) start() {
	p.t.Helper()
	var out io.Reader
	p.cmd, out = command(p.t, p.files, p.conf)
	started, ended := make(chan string, 1), make(chan error, 1)
	p.ended = ended
	go func() {
		sc := bufio.NewScanner(out)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var line struct{ Msg, Address string }
			if json.Unmarshal(sc.Bytes(), &line) == nil && line.Msg == "broker started" {
				started <- line.Address
			}
			fmt.Fprintln(&p.log, sc.Text())
		}
		ended <- p.cmd.Wait()
	}()
	select {
	case p.address = <-started:
	case err := <-ended:
		p.ended = nil
		p.t.Fatalf("the broker does not start: %v\n%s", err, p.log.String())
	case <-time.After(patience):
		p.t.Fatal("the broker does not start")
	}
}

// stop sends a signal and waits for the end.
func (p *process) stop(s syscall.Signal) {
	p.t.Helper()
	if p.ended == nil {
		return
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case err := <-p.ended:
		if s == syscall.SIGTERM && err != nil {
			p.t.Errorf("the broker ended with %v", err)
		}
	case <-time.After(patience):
		p.t.Errorf("the broker does not end on %v", s)
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	p.ended = nil
	if text := p.log.String(); strings.Contains(text, "panic") || strings.Contains(text, "SIGBUS") || strings.Contains(text, "fatal error") {
		p.t.Errorf("the broker panicked: %s", text)
	}
}

// TestNoDescriptorsLeft: more connections than the process may open files. Those who are connected go on being served, the store gets
// the files that it needs, and new connections are taken when others have gone.
func TestNoDescriptorsLeft(t *testing.T) {
	p := startProcess(t, 256, map[string]string{"mappedFileSizeCommitLog": "1048576"})
	if _, err := p.send(victim, 0, []byte("before")); err != nil {
		t.Fatal(err)
	}
	var all []*net.TCPConn
	for range 600 {
		nc, err := net.DialTimeout("tcp", p.addr(), time.Second)
		if err != nil {
			break // the backlog is full, too
		}
		all = append(all, nc.(*net.TCPConn))
	}
	t.Cleanup(func() { disperse(all) })
	for _, nc := range all {
		_, _ = nc.Write(request(header.JSON, 9999, 1, nil, nil))
	}
	for i := range 200 { // 20 segments
		if _, err := p.send(victim, int32(i%4), bytes.Repeat([]byte{byte(i)}, 100_000)); err != nil {
			t.Fatalf("after %d messages with %d connections: %v", i, len(all), err)
		}
	}
	disperse(all)
	until(t, "a new connection is served", func() bool {
		nc, err := net.DialTimeout("tcp", p.addr(), time.Second)
		if err != nil {
			return false
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(time.Second))
		_, _ = nc.Write(request(header.JSON, 9999, 1, nil, nil))
		n, _ := nc.Read(make([]byte, 100))
		return n > 0
	})
	readAll(&p.cluster)
	p.stop(syscall.SIGTERM)
	p.start()
	readAll(&p.cluster)
}

// TestKilledUnderAttack kills the broker with hostile peers at work, again and again: what was acknowledged is there afterwards.
func TestKilledUnderAttack(t *testing.T) {
	p := startProcess(t, 1024, nil)
	for round := range size(5, 2) {
		var wg sync.WaitGroup
		quit := make(chan struct{})
		for w := range 3 {
			wg.Go(func() { harass(p.addr(), w, quit) })
		}
		for i := range size(300, 40) {
			if _, err := p.send(victim, int32(i%4), bytes.Repeat([]byte{byte(i)}, 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		p.stop(syscall.SIGKILL)
		close(quit)
		wg.Wait()
		p.start()
		readAll(&p.cluster)
		t.Logf("round %d: %d messages are there", round, len(p.sent.all()))
	}
}

// harass sends what is legal and mean until quit, or until the broker is gone.
func harass(addr string, w int, quit chan struct{}) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer nc.Close()
	go func() { // a broker that ends says so on this side; writes may go on waiting for room
		_, _ = io.Copy(io.Discard, nc)
		_ = nc.Close()
	}()
	forgedCRC := message.AppendBatchItem(nil, 0, []byte("x"), message.Props("a\x01b__CRC32#\x011234567890\x02"))
	for i := int32(0); ; i++ {
		var f []byte
		switch w {
		case 0:
			f = request(header.Binary, int32(code.SendBatchMessage), i, batchHeader(victim, ""), forgedCRC)
		case 1:
			f = request(header.JSON, int32(code.SendMessage), i, sendHeader(fmt.Sprintf("T%d", i), 0, "DELAY\x0118\x02"), []byte("x"))
		default:
			f = request(header.JSON, int32(code.HeartBeat), i, nil, []byte(fmt.Sprintf(`{"clientID":"c","consumerDataSet":[{"groupName":"g%d"}]}`, i)))
		}
		select {
		case <-quit:
			return
		default:
		}
		if _, err := nc.Write(f); err != nil {
			return
		}
	}
}

// TestStopsUnderAttack: SIGTERM ends a broker in order, whatever its peers do.
func TestStopsUnderAttack(t *testing.T) {
	p := startProcess(t, 1024, nil)
	first, err := p.send(victim, 0, []byte("before"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.read(first); err != nil {
		t.Fatal(err)
	}
	all := crowd(t, p.addr(), 100)
	h := pullHeader(victim, 0, 1)
	h.SysFlag, h.SuspendTimeoutMillis = 6, 1<<40
	for i, nc := range all {
		switch i % 4 {
		case 0:
			_, _ = nc.Write([]byte{0, 0})
		case 1:
			_, _ = nc.Write(request(header.JSON, int32(code.PullMessage), 1, h, nil))
		case 2:
			_, _ = nc.Write(request(header.JSON, 9999, 1, nil, make([]byte, 1000))[:500])
		}
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() { harass(p.addr(), w, quit) })
	}
	for range 10 {
		if _, err := p.send(victim, 1, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	p.stop(syscall.SIGTERM)
	close(quit)
	wg.Wait()
	p.start()
	readAll(&p.cluster)
}
