package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// limit has a process get no more of a resource than it has, as use tells, until it is mended. Meanwhile many connect to it. Where it may die of that
// it is started again in any case: dying takes a while.
func limit(find func(c *Cluster, ctx context.Context) (*Process, error), resource int, use func(pid int) (uint64, error), deadly bool) hit {
	return func(ctx context.Context, c *Cluster) (func() error, error) {
		p, err := find(c, ctx)
		if err != nil {
			return nothing, err
		}
		pid := p.cmd.Process.Pid
		used, err := use(pid)
		if err != nil {
			return nothing, err
		}
		var before unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &before); err != nil {
			return nothing, err
		}
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: used, Max: before.Max}, nil); err != nil {
			return nothing, err
		}
		var crowd []net.Conn
		for range 100 {
			if nc, err := net.DialTimeout("tcp", p.Addr, time.Second); err == nil {
				crowd = append(crowd, nc)
			}
		}
		return func() error {
			for _, nc := range crowd {
				_ = nc.Close()
			}
			if deadly {
				return errors.Join(p.Kill(), p.Start())
			}
			if err := unix.Prlimit(pid, resource, &before, nil); !errors.Is(err, unix.ESRCH) { // of a pair, the other fault may have ended it
				return err
			}
			return nil
		}, nil
	}
}

// descriptors is how many a process has.
func descriptors(pid int) (uint64, error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	return uint64(len(entries)), err
}

// addresses is how many bytes of addresses a process has.
func addresses(pid int) (pages uint64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err == nil {
		_, err = fmt.Sscan(string(text), &pages)
	}
	return pages * uint64(os.Getpagesize()), err
}

// stutter has the master run for a third of the time only, until it is mended.
func stutter(ctx context.Context, c *Cluster) (func() error, error) {
	m, err := c.Master(ctx)
	if err != nil {
		return nothing, err
	}
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = m.Stop()
			sleep(ctx, 100*time.Millisecond)
			_ = m.Continue()
			sleep(ctx, 50*time.Millisecond)
		}
	})
	return func() error {
		stop()
		wg.Wait()
		return m.wake()
	}, nil
}

// copyStore copies what a broker has stored while it is down, and waits until all are in sync again.
func (c *Cluster) copyStore(ctx context.Context, p *Process, to string) error {
	return errors.Join(p.Kill(), os.CopyFS(to, os.DirFS(p.store())), p.Start(), c.Await(ctx, len(c.Brokers)))
}

// twin runs a broker with a copy of a replica's files beside it, at other ports, until it is mended.
func twin(ctx context.Context, c *Cluster) (func() error, error) {
	r, err := c.replica(ctx)
	if err != nil {
		return nothing, err
	}
	if r.net != nil {
		return nothing, errors.New("the network does not know its address")
	}
	was := filepath.Dir(r.conf)
	dir, err := os.MkdirTemp(c.Dir, r.Name+"-twin-")
	if err != nil {
		return nothing, err
	}
	if err := c.copyStore(ctx, r, filepath.Join(dir, "store")); err != nil {
		return r.Start, err
	}
	text, err := os.ReadFile(r.conf)
	if err != nil {
		return nothing, err
	}
	t := &Process{Name: r.Name + "-twin", Addr: r.Addr, bin: r.bin, command: r.command, conf: filepath.Join(dir, "conf.properties"), log: filepath.Join(dir, "log")}
	err = errors.Join(os.WriteFile(t.conf, bytes.ReplaceAll(text, []byte(was+"/"), []byte(dir+"/")), 0o600), t.move())
	return func() error { return errors.Join(t.Kill(), os.RemoveAll(filepath.Join(dir, "store"))) }, err
}

// goBack has a replica start with what its disk held a while ago.
func goBack(ctx context.Context, c *Cluster) (func() error, error) {
	r, err := c.replica(ctx)
	if err != nil {
		return nothing, err
	}
	old := filepath.Join(filepath.Dir(r.conf), "old")
	if err := errors.Join(os.RemoveAll(old), c.copyStore(ctx, r, old)); err != nil {
		return r.Start, err
	}
	sleep(ctx, 300*time.Millisecond)
	return r.Start, errors.Join(r.Kill(), r.empty(), os.CopyFS(r.store(), os.DirFS(old)), r.Start())
}

// damage changes a byte of a replica's log while it is down, and starts it. Whether it notices or not, it loses its disk in the end.
func damage(ctx context.Context, c *Cluster) (func() error, error) {
	r, err := c.replica(ctx)
	if err != nil {
		return nothing, err
	}
	if err := r.Kill(); err != nil {
		return r.Start, err
	}
	err = flip(filepath.Join(r.store(), "commitlog"))
	if err == nil {
		err = r.Start()
	}
	return func() error { return errors.Join(r.Kill(), r.startEmpty()) }, err
}

// flip changes a bit of what was written to the first of a folder's files.
func flip(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there is no file in %s", dir))
	}
	name := slices.Min(files)
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	end := len(b)
	for end > 0 && b[end-1] == 0 {
		end--
	}
	if end == 0 {
		return nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	at := rand.IntN(end)
	_, err = f.WriteAt([]byte{b[at] ^ 1<<rand.IntN(8)}, int64(at))
	return errors.Join(err, f.Close())
}
