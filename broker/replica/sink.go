package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/store/commitlog"
)

// The pause before a replica connects again: the first, from which it doubles, and the longest; and another one if what went wrong will
// hardly be better soon, or is costly.
const (
	firstRetry = 5 * time.Millisecond
	retry      = 100 * time.Millisecond
	retryFull  = time.Second // while our disk is full
	retryOdd   = 5 * time.Second
)

// sink appends a master's log to ours, in one epoch.
type sink struct {
	n    *Node
	role Role
	life int64 // that the master was told
}

// run follows the master until ctx ends.
func (k *sink) run(ctx context.Context) {
	said := ""
	pause := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		err := k.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-k.n.leaving:
			k.n.leftOnce.Do(func() { close(k.n.left) }) // there may be another master meanwhile
			return
		default:
		}
		if err != nil {
			said = k.report(err, said)
		}
		if time.Since(began) > retry {
			pause = firstRetry // it was connected
		}
		switch {
		case errors.Is(err, errStay), errors.Is(err, errFetch):
			pause = k.n.pause
		case errors.Is(err, commitlog.ErrFull), vfs.NoSpace(err):
			pause = retryFull
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-k.n.leaving: // there is a bye to be said
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, retry)
	}
}

// report logs why there is no connection, unless that was said last.
func (k *sink) report(err error, said string) string {
	say, text := k.n.log.Warn, err.Error()
	if errors.Is(err, errStay) { // its numbers change as the master goes on
		say, text = k.n.log.Error, errStay.Error()
	}
	if text != said {
		say("no replication from the master", zap.Int64("master", k.role.Master), zap.String("address", k.role.MasterAddr), zap.Int32("epoch", k.role.Epoch), zap.Error(err))
	}
	return text
}

// follow is one connection.
func (k *sink) follow(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	addr, err := k.n.cfg.HAAddr(limited, k.role.MasterAddr)
	if err != nil {
		return fmt.Errorf("ask the master for its replication port: %w", err)
	}
	nc, err := k.n.cfg.Dial(limited, addr)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	r := bufio.NewReaderSize(nc, 1<<20)
	if err := k.align(nc, r); err != nil {
		return err
	}
	k.n.log.Info("following the master", zap.Int64("master", k.role.Master), zap.String("address", addr), zap.Int32("epoch", k.role.Epoch), zap.Int64("offset", k.n.store.Log.End()))
	l := &link{n: k.n, epoch: k.role.Epoch, life: k.life, addr: addr, in: frames{limit: maxData}, over: make(chan struct{}), unflushed: make(chan struct{}, 1)}
	k.n.link.Store(l)
	defer k.n.link.Store(nil)
	return l.run(ctx, nc, r)
}

// align brings our log to where the master's goes on with it.
func (k *sink) align(nc net.Conn, r *bufio.Reader) error {
	if end := k.n.store.Log.End(); k.n.store.Log.Appended() != end { // of our time as a master, on a disk that was full
		if err := k.n.store.Truncate(end); err != nil {
			return err
		}
	}
	var buf []byte
	for {
		_ = nc.SetDeadline(time.Now().Add(silence))
		h, err := k.n.hello(k.role)
		if err != nil {
			return err
		}
		if _, err = nc.Write(h.encode()); err != nil {
			return err
		}
		if buf, err = readFrame(r, buf, maxHello); err != nil {
			return err
		}
		var w welcome
		if err := w.decode(buf); err != nil {
			return err
		}
		switch {
		case w.Verdict == refused:
			return errors.New("the master refuses: " + w.Reason)
		case w.Epoch != k.role.Epoch:
			return fmt.Errorf("%w: the master says %d, the controllers %d", errEpoch, w.Epoch, k.role.Epoch)
		case w.Verdict == differs:
			if err := k.doubt(nc, r, h, &w); err != nil {
				return err
			}
		case w.Verdict == outOfRange || w.Verdict == diverged:
			if err := k.bring(nc, r, h, &w); err != nil {
				return err
			}
		case w.Offset != h.End:
			return errFrame
		default:
			k.n.disowned, k.life = false, h.Life
			return k.n.store.SetSound()
		}
	}
}

// doubt drops what a power loss has damaged, here or at the master, if it has: the group goes on with what the master has. That may be in what queues
// and state were made from, which are not undone.
func (k *sink) doubt(nc net.Conn, r *bufio.Reader, h *hello, w *welcome) error {
	sound, ours := k.n.store.Sound()
	at := max(min(sound, w.Offset), h.Min, k.n.store.Confirmed())
	if at >= h.End && !ours {
		return errors.New("the master refuses: " + w.Reason)
	}
	if err := k.n.disown(k.role.Epoch); err != nil {
		return err
	}
	if at < h.End {
		return k.n.cut(at, h.End, w.LastEpoch, "a power loss has damaged it here or at the master, which goes on with what it has")
	}
	return k.renew(nc, r, "a power loss has damaged ours", zap.Int64("from", sound), zap.Int64("to", h.End))
}

// bring makes a log that the master's does not go on from one of which more is known, or one that it goes on from.
func (k *sink) bring(nc net.Conn, r *bufio.Reader, h *hello, w *welcome) error {
	l := k.n.compare(h, w)
	what, err := l.align()
	switch {
	case err != nil:
		return err
	case what == stepCut:
		return k.n.cut(l.Common, h.End, w.LastEpoch, "the master does not have it, and it was never acknowledged")
	case k.n.unsure() > maxTail:
		if err := k.n.disown(k.role.Epoch); err != nil {
			return err
		}
	}
	return k.renew(nc, r, "ours is of no use to go on from", zap.Int64("ours", h.Min), zap.Int64("oursTo", h.End),
		zap.Int64("confirmed", l.Confirmed), zap.Int64("same", l.Common), zap.Int64("masters", w.Min), zap.Int64("mastersTo", w.End))
}

// renew has state and log fetched from the master.
func (k *sink) renew(nc net.Conn, r *bufio.Reader, why string, fields ...zap.Field) error {
	k.n.log.Warn("the log is fetched from where the master's begins: "+why, fields...)
	if err := k.fetch(nc, r); err != nil {
		return fmt.Errorf("%w: %w", errFetch, err)
	}
	return nil
}

// link is a connection to a master that has accepted our log. What comes is appended by the poller that reads it, and acknowledged.
type link struct {
	n          *Node
	epoch      int32
	life       int64
	addr       string
	read, sent atomic.Int64  // ms
	over       chan struct{} // closed when feed has ended
	why        error         // by what of the master's, if any
	unflushed  chan struct{} // what was appended is to be synced by the goroutine that runs the link

	feed *remoting.Feed

	mu      sync.Mutex // also for TryWrite
	in      frames
	fresh   bool  // there is something to answer
	confirm int64 // that the master has told last
	ended   bool
}

// run takes what comes until the connection or ctx ends. The connection is closed then, and nothing is taken any more.
func (l *link) run(ctx context.Context, nc net.Conn, r *bufio.Reader) error {
	now := time.Now()
	l.read.Store(now.UnixMilli())
	l.sent.Store(now.UnixMilli())
	first, err := r.Peek(r.Buffered())
	if err != nil {
		return err
	}
	if l.feed, err = remoting.NewFeed(nc); err != nil {
		return err
	}
	if err := l.feed.Start(first, l.take, func(err error) {
		l.why = err
		close(l.over)
	}); err != nil {
		return err
	}
	err = l.tend(ctx)
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.feed.Close()
	<-l.over
	return errors.Join(err, l.why)
}

// tend does what the poller does not.
func (l *link) tend(ctx context.Context) error {
	tick := time.NewTicker(silence / 2)
	defer tick.Stop()
	leaving := l.n.leaving
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.over:
			return nil
		case <-leaving:
			leaving = nil
			l.mu.Lock()
			_, _ = l.feed.TryWrite([]byte{0, 0, 0, 1, kindBye})
			l.mu.Unlock()
		case <-l.unflushed:
			if err := l.n.store.Log.Flush(); err != nil {
				return err
			}
			l.mu.Lock()
			err := l.acknowledge()
			l.mu.Unlock()
			if err != nil {
				return err
			}
		case now := <-tick.C:
			switch {
			case now.UnixMilli()-l.read.Load() > silence.Milliseconds():
				return errSilent
			case l.life != l.n.cfg.Life():
				return errLife
			}
		}
	}
}

// take takes what the master sends. It runs on a poller.
func (l *link) take(b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	l.read.Store(time.Now().UnixMilli())
	if err := l.in.add(b, l.frame); err != nil {
		return err
	}
	return l.answer()
}

// frame appends one frame. The caller holds mu.
func (l *link) frame(b []byte) error {
	var d data
	if err := d.decode(b); err != nil {
		return err
	}
	if d.Epoch != l.epoch {
		return errEpoch
	}
	if bugs.AckBeforeWrite {
		_ = l.ackTo(d.Offset + int64(len(d.Body)))
	}
	l.fresh, l.confirm = true, d.Confirm
	return l.n.take(&d)
}

// quickSync is how long a sync may take to be waited for by the poller.
const quickSync = 500 * time.Microsecond

// answer makes what was appended as durable as it has to be, and acknowledges it. The caller holds mu.
func (l *link) answer() error {
	if !l.fresh {
		return nil
	}
	l.fresh = false
	log := l.n.store.Log
	err := log.Write()
	if err == nil && l.n.cfg.SyncFlush() && log.Flushed() < log.End() {
		if log.SyncTook() < quickSync {
			err = log.Flush()
		} else {
			select {
			case l.unflushed <- struct{}{}:
			default:
			}
		}
	}
	if err == nil {
		err = l.acknowledge()
	}
	if err == nil {
		l.n.confirmTo(l.confirm)
	}
	return err
}

// acknowledge says what we have. The caller holds mu.
func (l *link) acknowledge() error {
	if l.n.cfg.SyncFlush() {
		return l.ackTo(l.n.store.Log.Flushed())
	}
	return l.ackTo(l.n.store.Log.End())
}

func (l *link) ackTo(end int64) error {
	var out [4 + ackSize]byte
	(&ack{Epoch: l.epoch, End: end}).put(&out)
	n, err := l.feed.TryWrite(out[:])
	if err == nil && n < len(out) {
		return errDeaf
	}
	l.sent.Store(time.Now().UnixMilli())
	return err
}
