package watchdog

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The child's files, behind the standard ones.
const (
	pipeFD = 3
	selfFD = 4 // the pidfd of the parent
)

// Main is the child. It returns when the parent is gone.
func Main(args []string) error {
	fs := flag.NewFlagSet("castor watchdog", flag.ContinueOnError)
	timeout := fs.Duration("timeout", time.Second, "longest silence of the process")
	name := fs.String("name", "the broker", "what the process is called")
	if err := fs.Parse(args); err != nil {
		return err
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT) // meant for the parent, whose end is enough
	if err := unix.SetNonblock(pipeFD, true); err != nil {
		return fmt.Errorf("this command is started by a broker: %w", err)
	}
	w := NewWatch(*timeout, now())
	buf := make([]byte, 64)
	for next := now() + beat; ; next = now() + beat {
		open, err := hear(w, buf, next)
		if err != nil || !open {
			return err
		}
		if w.Look(now()) {
			say(*name + " has been silent for " + strconv.FormatInt(w.Silence().Milliseconds(), 10) +
				" ms while this machine ran: it is killed, so that its clients turn to another replica at once (watchdogTimeoutMillis)")
			return unix.PidfdSendSignal(selfFD, unix.SIGKILL, nil, 0) // and this process ends with it
		}
	}
}

// say writes a line to standard error, unless that would block.
func say(line string) {
	fds := []unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 && fds[0].Revents&unix.POLLOUT != 0 {
		_, _ = os.Stderr.WriteString("castor watchdog: " + line + "\n")
	}
}

// hear reads until a time; open is false when the parent has ended.
func hear(w *Watch, buf []byte, until time.Duration) (open bool, err error) {
	fds := []unix.PollFd{{Fd: pipeFD, Events: unix.POLLIN}}
	for {
		rest := max(until-now(), 0)
		n, err := unix.Poll(fds, int((rest+time.Millisecond-1)/time.Millisecond))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if n > 0 {
			n, err := unix.Read(pipeFD, buf)
			switch {
			case err == nil && n == 0:
				return false, nil
			case err == nil:
				w.Heard(buf[:n], now())
			case !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR):
				return false, err
			}
		}
		if now() >= until {
			return true, nil
		}
	}
}

// now is CLOCK_MONOTONIC, which stands still while the machine is suspended.
func now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
