package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

const (
	// batchBytes is how much of the log goes into a frame; one larger record makes a larger frame.
	batchBytes = 256 << 10
	// keepAlive is the time between two frames when there is nothing to send, news how long a confirm offset waits for bytes to go
	// with.
	keepAlive = 300 * time.Millisecond
	news      = 10 * time.Millisecond
	// silence is how long a connection may say nothing before it counts as dead.
	silence = 2 * time.Second
)

// source sends a master's log over one connection, in one epoch.
type source struct {
	n       *Node
	nc      net.Conn
	epoch   int32
	session uint64
	id      int64
	nudged  chan struct{} // there may be more to send
	needs   atomic.Int64  // the log from here on is still to be sent
}

// nudge says that the log has grown. It does not block.
func (s *source) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// serveReplica answers whoever connects to the replication port.
func (n *Node) serveReplica(ctx context.Context, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	r := bufio.NewReaderSize(nc, 4<<10)
	s := &source{n: n, nc: nc, nudged: make(chan struct{}, 1)}
	s.needs.Store(math.MaxInt64)
	n.hold(s)
	defer n.letGo(s)
	h, err := s.greet(ctx, r)
	if err == nil {
		err = s.send(ctx, r, h)
	}
	if err != nil && ctx.Err() == nil {
		n.log.Warn("a connection of a replica ended", zap.Stringer("from", nc.RemoteAddr()), zap.Int64("replica", s.id), zap.Error(err))
	}
}

// greet answers hellos until the replica knows where to begin.
func (s *source) greet(ctx context.Context, r *bufio.Reader) (*hello, error) {
	var buf []byte
	patience := silence
	for fetchable := false; ; {
		_ = s.nc.SetDeadline(time.Now().Add(patience))
		var err error
		if buf, err = readFrame(r, buf, maxHello); err != nil {
			return nil, err
		}
		if fetchable && buf[0] == kindFetch {
			if err := s.serveFetch(ctx, buf); err != nil {
				return nil, err
			}
			fetchable, patience = false, installing
			continue
		}
		var h hello
		if err := h.decode(buf); err != nil {
			return nil, err
		}
		w := s.n.welcome(&h)
		s.id, s.epoch = h.ID, w.Epoch
		_ = s.nc.SetDeadline(time.Now().Add(silence))
		if _, err := s.nc.Write(w.encode()); err != nil {
			return nil, err
		}
		switch w.Verdict {
		case begin:
			s.needs.Store(h.End)
			return &h, nil
		case refused:
			return nil, fmt.Errorf("replica %d: %s", h.ID, w.Reason)
		}
		fetchable, patience = true, silence
	}
}

// welcome decides about a hello.
func (n *Node) welcome(h *hello) *welcome {
	n.mu.Lock()
	epoch, master, epochs := n.role.Epoch, n.leader != nil, n.epochs
	n.mu.Unlock()
	log := n.store.Log
	w := &welcome{Epoch: epoch, Min: log.Min(), End: log.End()}
	switch {
	case h.Cluster != n.cfg.Cluster || h.Group != n.cfg.Group:
		w.Verdict, w.Reason = refused, fmt.Sprintf("this is a broker of group %s in cluster %s", n.cfg.Group, n.cfg.Cluster)
	case h.ID == n.cfg.ID() || h.ID <= 0:
		w.Verdict, w.Reason = refused, fmt.Sprintf("broker id %d cannot be", h.ID)
	case h.SegmentSize != log.SegmentSize():
		w.Verdict, w.Reason = refused, fmt.Sprintf("mappedFileSizeCommitLog is %d here", log.SegmentSize())
	case !master:
		w.Verdict, w.Reason = refused, "this broker is not the master"
	case h.Epoch != epoch:
		w.Verdict, w.Reason = refused, fmt.Sprintf("the master's epoch is %d, not %d", epoch, h.Epoch)
		if h.Epoch > epoch {
			n.cfg.Outdated()
		}
	default:
		w.judge(h, epochs, n.sumOf)
	}
	return w
}

// judge compares the logs.
func (w *welcome) judge(h *hello, epochs Epochs, sumOf func(end int64, n int) (uint32, error)) {
	if h.Fetch {
		w.Verdict, w.Reason = outOfRange, "a snapshot is asked for"
		return
	}
	w.LastEpoch, w.Offset = epochs.Floor(h.LastEpoch, w.End)
	if w.LastEpoch != h.LastEpoch || h.End > w.Offset {
		w.Verdict = diverged
		return
	}
	w.Verdict, w.Offset = begin, h.End
	if h.End < w.Min {
		w.Verdict, w.Reason = outOfRange, fmt.Sprintf("the log begins at %d, %d is asked for", w.Min, h.End)
		return
	}
	if n := min(int64(h.Tail), h.End-w.Min); n == int64(h.Tail) {
		if sum, err := sumOf(h.End, int(n)); err != nil || sum != h.TailSum {
			w.Verdict, w.Reason = refused, fmt.Sprintf("the %d bytes before %d are not the same in both logs: one of them is damaged, or they are of different groups", n, h.End)
		}
	}
}

// sumOf is the CRC-32C of the n bytes of the log that end at end.
func (n *Node) sumOf(end int64, size int) (uint32, error) {
	sum := uint32(0)
	var buf []byte
	for at := end - int64(size); at < end; {
		k := min(end-at, n.store.Log.SegmentSize()-at%n.store.Log.SegmentSize())
		var err error
		if buf, err = n.store.Log.AppendRange(buf[:0], at, int(k)); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, buf)
		at += k
	}
	return sum, nil
}

// send sends the log from the end of the replica's on, until the connection or the epoch ends.
func (s *source) send(ctx context.Context, r *bufio.Reader, h *hello) error {
	if !s.n.attach(s, h) {
		return errEpoch
	}
	defer s.n.detach(s)
	s.n.advance() // what it has may be what was missing
	s.n.log.Info("replica attached", zap.Int64("replica", s.id), zap.Int64("offset", h.End), zap.Int64("behind", s.n.store.Log.End()-h.End))
	_ = s.nc.SetDeadline(time.Time{})
	acks := make(chan error, 1)
	go func() { acks <- s.readAcks(r) }()
	err := s.stream(ctx, h.End, acks)
	_ = s.nc.Close()
	return errors.Join(err, <-acks)
}

func (s *source) stream(ctx context.Context, at int64, acks chan error) error {
	log := s.n.store.Log
	idle := time.NewTimer(news)
	defer idle.Stop()
	head := make([]byte, 4+dataHead, 4+dataHead+batchBytes+batchBytes/8)
	d := data{Epoch: s.epoch}
	for {
		next := at
		frame := head
		if at < log.End() {
			part, limit := s.n.part(at)
			d.Part = part
			var err error
			if frame, next, err = log.AppendRecords(head, at, int(min(batchBytes, limit-at))); err != nil {
				return err
			}
		} else {
			select {
			case <-ctx.Done():
				return nil
			case err := <-acks:
				acks <- nil
				return err
			case <-s.nudged:
				continue
			case <-idle.C:
			}
			d.Part = Epoch{}
		}
		d.Offset, d.Confirm, d.Body = at, s.n.store.Confirmed(), frame[4+dataHead:]
		d.putHeader(frame)
		_ = s.nc.SetWriteDeadline(time.Now().Add(silence))
		if _, err := s.nc.Write(frame); err != nil {
			return err
		}
		s.n.sent.Add(next - at)
		s.needs.Store(next)
		if at = next; d.Confirm < at {
			idle.Reset(news)
		} else {
			idle.Reset(keepAlive)
		}
	}
}

// readAcks takes acknowledgements until the connection ends.
func (s *source) readAcks(r *bufio.Reader) error {
	var buf []byte
	for {
		_ = s.nc.SetReadDeadline(time.Now().Add(silence))
		var err error
		if buf, err = readFrame(r, buf, ackSize); err != nil {
			return err
		}
		if len(buf) == 1 && buf[0] == kindBye {
			s.n.leave(s)
			continue
		}
		var a ack
		if err := a.decode(buf); err != nil {
			return err
		}
		if a.Epoch != s.epoch {
			return errEpoch
		}
		if err := s.n.acked(s, a.End); err != nil {
			return err
		}
	}
}
