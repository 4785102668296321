package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Small disks are file systems in memory. Whoever mounts them needs privileges, and has them in namespaces of his own (user_namespaces(7)), which
// need none. What is mounted there is seen there only, and gone with the last process in them.

// privateVariable marks the process that runs in namespaces of its own.
const privateVariable = "CASTOR_CHAOS_PRIVATE"

// smallDisk is the size of a small disk: enough for a minute of load.
const smallDisk = 256 << 20

// smallKeys have a broker need new files all the time, notice a full disk soon, and delete nothing that was acknowledged.
var smallKeys = map[string]string{"mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "20000", "maxHashSlotNum": "20000", "maxIndexNum": "40000",
	"cleanResourceInterval": "200", "cleanFileForciblyEnable": "false"}

// private tells whether this process may mount.
func private() bool { return os.Getenv(privateVariable) != "" }

// again runs this command once more, in namespaces of its own. started is false where the system does not let it.
func again(ctx context.Context, args []string, out io.Writer) (started bool, err error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"chaos"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), privateVariable+"=1")
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:   syscall.SIGKILL,
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	if err := cmd.Wait(); err != nil {
		return true, errors.New("it has failed, as said above")
	}
	return true, nil
}

// mount gives a process a small disk for its store.
func (p *Process) mount() error {
	if err := os.MkdirAll(p.store(), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("castor", p.store(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf("size=%d,mode=0755", smallDisk)); err != nil {
		return fmt.Errorf("mount a small disk: %w", err)
	}
	p.small = true
	return nil
}

// unmount ends a small disk. What was on it stays.
func (p *Process) unmount() error {
	if !p.small {
		return nil
	}
	p.small = false
	kept := p.store() + ".kept"
	err := errors.Join(p.room(), os.CopyFS(kept, os.DirFS(p.store())), unix.Unmount(p.store(), 0), os.Remove(p.store()))
	return errors.Join(err, os.Rename(kept, p.store()))
}

// ballast is the file that takes all the room of a small disk.
func (p *Process) ballast() string { return filepath.Join(p.store(), "ballast") }

// fill takes all the room of a small disk, to the last byte.
func (p *Process) fill() error {
	f, err := os.OpenFile(p.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // what it holds is not read
	for chunk := make([]byte, 1<<20); len(chunk) > 0; {
		switch n, err := f.Write(chunk); {
		case n == len(chunk):
		case err == nil || errors.Is(err, unix.ENOSPC):
			chunk = chunk[:len(chunk)/2]
		default:
			return err
		}
	}
	return nil
}

// room gives a small disk its room back.
func (p *Process) room() error {
	if err := os.Remove(p.ballast()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// startFull starts a broker again when its disk has become full.
func (p *Process) startFull() error { return errors.Join(p.Kill(), p.fill(), p.Start()) }

// fillAll fills the disks of all brokers.
func fillAll(ctx context.Context, c *Cluster) (func() error, error) {
	var hits []hit
	for _, p := range c.Brokers {
		hits = append(hits, on(func(*Cluster, context.Context) (*Process, error) { return p, nil }, (*Process).fill, (*Process).room))
	}
	return together(hits...)(ctx, c)
}
