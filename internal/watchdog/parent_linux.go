package watchdog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/internal/clock"
)

// restart is the pause before a child that has ended is replaced.
const restart = time.Second

// Run has a child watch this process until ctx ends. mayKill is asked once a beat and says whether others would do its work; while it
// does not return, the process counts as hanging. Without a kernel that can do it Run says so and returns.
func Run(ctx context.Context, name string, timeout time.Duration, mayKill func() bool, log *zap.Logger) error {
	// The child is to be killed when its parent ends, and for the kernel that is the thread that has started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if os.Getpid() == 1 {
		log.Warn("no watchdog: this process has the id 1, and nobody in its container can kill it; run the container with an init (docker run --init) to have hanging brokers killed")
		return nil
	}
	for {
		err := watch(ctx, name, timeout, mayKill, log)
		if errors.Is(err, errCannot) {
			log.Warn("no watchdog: a broker that hangs keeps its clients waiting", zap.Error(err))
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Warn("the watchdog has ended and is started again", zap.Error(err))
		timer := time.NewTimer(restart)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

var errCannot = errors.New("it cannot be started")

// watch runs one child.
func watch(ctx context.Context, name string, timeout time.Duration, mayKill func() bool, log *zap.Logger) error {
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return fmt.Errorf("%w: pidfd_open: %w", errCannot, err)
	}
	selfFile := os.NewFile(uintptr(self), "pidfd")
	defer selfFile.Close() //nolint:errcheck // the child has its own
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("%w: %w", errCannot, err)
	}
	defer w.Close() //nolint:errcheck // nothing waits in it
	cmd := exec.Command("/proc/self/exe", "watchdog", "-timeout", timeout.String(), "-name", name)
	cmd.Args[0] = "castor"
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=20"}
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{r, selfFile}
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		return fmt.Errorf("%w: %w", errCannot, err)
	}
	log.Info("watchdog started", zap.Int("pid", cmd.Process.Pid), zap.Int64("timeoutMs", timeout.Milliseconds()))
	err = feed(ctx, w, mayKill)
	_ = cmd.Process.Kill() // it may not be reading
	return errors.Join(err, cmd.Wait())
}

// feed writes until ctx or the child ends.
func feed(ctx context.Context, w *os.File, may func() bool) error {
	tick := clock.Real{}.NewTicker(beat)
	defer tick.Stop()
	for {
		b := []byte{0}
		if may() {
			b[0] = mayKill
		}
		_ = w.SetWriteDeadline(time.Now().Add(beat)) // a child that does not read is none
		if _, err := w.Write(b); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
