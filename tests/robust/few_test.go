package robust

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
)

const (
	// fewest is the lowest limit of descriptors that is tried: Go's runtime itself does not start with less.
	fewest = 8
	// enough is a limit with which a broker without clients has all it needs.
	enough = 40
)

// TestFewDescriptors starts a broker with one descriptor more each time, so that each of those that it opens at its start is once the one that
// it cannot have. It waits then, says so, and can be stopped.
func TestFewDescriptors(t *testing.T) {
	for files := fewest; files <= enough; files += size(1, 3) {
		if serves(t, files) {
			return
		}
	}
	t.Errorf("with %d descriptors the broker does not serve", enough)
}

// serves tells whether a broker serves with so many descriptors; if not, it must have said what it lacks.
func serves(t *testing.T, files int) bool {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "broker.conf")
	text := "listenPort=0\nfastListenPort=-1\nbindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nmappedFileSizeCommitLog=1048576\nstorePathRootDir=" + filepath.Join(dir, "store")
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := command(t, files, conf)
	stop := sync.OnceFunc(func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	hung := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	var log strings.Builder
	var waits bool
	var served atomic.Bool
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&log, lines.Text())
		var line struct{ Msg, Address string }
		_ = json.Unmarshal(lines.Bytes(), &line)
		switch {
		case strings.Contains(line.Msg, "starts again when"), strings.Contains(line.Msg, "accept failed"):
			waits = true
			stop()
		case line.Msg == "broker started":
			go func() {
				if answered(line.Address) {
					served.Store(true)
					stop()
				}
			}()
		}
	}
	if err := cmd.Wait(); err != nil || !waits && !served.Load() {
		t.Errorf("with %d descriptors: %v\n%s", files, err, log.String())
	}
	return served.Load() && !waits
}

// answered asks a broker something.
func answered(address string) bool {
	c := remoting.NewClient(nil, nil)
	defer c.Close()
	_, err := (&cluster{client: c, address: address}).call(code.GetBrokerRuntimeInfo, nil, nil)
	return err == nil
}
