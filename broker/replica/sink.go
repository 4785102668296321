package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
)

// The pause before a replica connects again: the first, from which it doubles, and the longest; and another one if what went wrong will
// hardly be better soon, or is costly.
const (
	firstRetry = 5 * time.Millisecond
	retry      = 100 * time.Millisecond
	retryOdd   = 5 * time.Second
)

// sink appends a master's log to ours, in one epoch.
type sink struct {
	n    *Node
	role Role
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
		if errors.Is(err, errStay) || errors.Is(err, errFetch) {
			pause = k.n.pause
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
	over := make(chan struct{})
	defer close(over)
	go func() { // says bye while receive waits for frames
		select {
		case <-k.n.leaving:
			_, _ = nc.Write([]byte{0, 0, 0, 1, kindBye})
		case <-over:
		}
	}()
	k.n.log.Info("following the master", zap.Int64("master", k.role.Master), zap.String("address", addr), zap.Int32("epoch", k.role.Epoch), zap.Int64("offset", k.n.store.Log.End()))
	l := &link{addr: addr}
	k.n.link.Store(l)
	defer k.n.link.Store(nil)
	return k.receive(nc, r, l)
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
		case w.Verdict == outOfRange || w.Verdict == diverged:
			if err := k.bring(nc, r, h, &w); err != nil {
				return err
			}
		case w.Offset != h.End:
			return errFrame
		default:
			return nil
		}
	}
}

// bring makes a log that the master's does not go on from one of which more is known, or one that it goes on from.
func (k *sink) bring(nc net.Conn, r *bufio.Reader, h *hello, w *welcome) error {
	l := k.n.compare(h, w)
	what, err := l.align()
	switch {
	case err != nil:
		return err
	case what == stepCut:
		return k.n.cut(l.Common, h.End, w.LastEpoch)
	}
	k.n.log.Warn("the log is fetched from where the master's begins: ours is of no use to go on from", zap.Int64("ours", h.Min), zap.Int64("oursTo", h.End),
		zap.Int64("confirmed", l.Confirmed), zap.Int64("same", l.Common), zap.Int64("masters", w.Min), zap.Int64("mastersTo", w.End))
	if err := k.fetch(nc, r); err != nil {
		return fmt.Errorf("%w: %w", errFetch, err)
	}
	return nil
}

// receive appends what comes, and acknowledges it.
func (k *sink) receive(nc net.Conn, r *bufio.Reader, l *link) error {
	var buf []byte
	var out [4 + ackSize]byte
	a := ack{Epoch: k.role.Epoch}
	now := time.Now()
	l.read.Store(now.UnixMilli())
	l.sent.Store(now.UnixMilli())
	for {
		_ = nc.SetReadDeadline(now.Add(silence))
		var err error
		if buf, err = readFrame(r, buf, maxData); err != nil {
			return err
		}
		now = time.Now()
		l.read.Store(now.UnixMilli())
		var d data
		if err := d.decode(buf); err != nil {
			return err
		}
		if bugs.AckBeforeWrite {
			a.End = d.Offset + int64(len(d.Body))
			a.put(&out)
			_, _ = nc.Write(out[:])
		}
		if d.Epoch != k.role.Epoch {
			return errEpoch
		}
		if a.End, err = k.n.take(&d); err != nil {
			return err
		}
		a.put(&out)
		now = time.Now()
		_ = nc.SetWriteDeadline(now.Add(silence))
		if _, err := nc.Write(out[:]); err != nil {
			return err
		}
		l.sent.Store(now.UnixMilli())
		k.n.confirmTo(d.Confirm)
	}
}
