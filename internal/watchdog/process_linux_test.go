package watchdog

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// The test's own binary is the process that is watched ("hang" or "alone", by whether it may be killed) and the child.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "watchdog":
			if err := Main(os.Args[2:]); err != nil {
				_, _ = os.Stderr.WriteString(err.Error() + "\n")
				os.Exit(1)
			}
			os.Exit(0)
		case "hang", "alone":
			may := os.Args[1] == "hang"
			c := zap.NewProductionConfig()
			c.OutputPaths = []string{"stdout"}
			log, _ := c.Build()
			_ = Run(context.Background(), "the test", 500*time.Millisecond, func() bool { return may }, log)
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

// watched is a process with a watchdog.
type watched struct {
	t     *testing.T
	cmd   *exec.Cmd
	child int
	said  lockedBuffer
	ended chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startWatched(t *testing.T, how string) *watched {
	t.Helper()
	w := &watched{t: t, cmd: exec.Command("/proc/self/exe", how), ended: make(chan error, 1)}
	w.cmd.Stderr = &w.said
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, ok := strings.Cut(line, `"pid":`)
	if err != nil || !ok {
		t.Fatalf("%v in %q", err, line)
	}
	digits, _, _ := strings.Cut(rest, ",")
	if w.child, err = strconv.Atoi(digits); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.cmd.Wait() }()
	return w
}

// await waits for a condition.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func (w *watched) childIsGone() bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(w.child) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

func (w *watched) listens() bool { // it has come to ignore SIGTERM (bit 14)
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(w.child) + "/status")
	_, rest, _ := strings.Cut(string(text), "SigIgn:\t")
	mask, _, _ := strings.Cut(rest, "\n")
	bits, _ := strconv.ParseUint(mask, 16, 64)
	return bits&(1<<14) != 0
}

func TestProcessThatHangsIsKilled(t *testing.T) {
	w := startWatched(t, "hang")
	await(t, "the child listens", w.listens)
	time.Sleep(2 * beat) // until the first byte has come: nothing shows that
	if err := w.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it was not killed")
	}
	if s := w.cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", w.cmd.ProcessState)
	}
	if !strings.Contains(w.said.String(), "the test has been silent for") {
		t.Errorf("said %q", w.said.String())
	}
	await(t, "the child is gone", w.childIsGone)
}

func TestProcessThatNobodyCanReplaceIsLeftAlone(t *testing.T) {
	w := startWatched(t, "alone")
	await(t, "the child listens", w.listens)
	if err := w.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-w.ended:
		t.Fatalf("it has ended: %v", err)
	case <-time.After(shortest + 5*beat):
	}
}

func TestChildOutlivesSignalsAndEndsWithItsParent(t *testing.T) {
	w := startWatched(t, "alone")
	await(t, "the child listens", w.listens)
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		if err := unix.Kill(w.child, s); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(2 * beat) // it would be gone by then
	if w.childIsGone() {
		t.Fatal("a signal has ended the child")
	}
	_ = w.cmd.Process.Kill()
	<-w.ended
	await(t, "the child is gone", w.childIsGone)
}

func TestChildThatEndsIsReplaced(t *testing.T) {
	w := startWatched(t, "hang")
	if err := unix.Kill(w.child, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "another child", func() bool {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/task/" + strconv.Itoa(w.cmd.Process.Pid) + "/children")
		tasks, _ := os.ReadDir("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/task")
		for _, task := range tasks {
			more, _ := os.ReadFile("/proc/" + strconv.Itoa(w.cmd.Process.Pid) + "/task/" + task.Name() + "/children")
			text = append(text, more...)
		}
		for _, pid := range strings.Fields(string(text)) {
			if pid != strconv.Itoa(w.child) {
				return true
			}
		}
		return false
	})
}
