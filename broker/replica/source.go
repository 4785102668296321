package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
)

const (
	// batchBytes is how much of the log goes into a frame; one larger record makes a larger frame.
	batchBytes = 256 << 10
	// keepAlive is the time between two frames when there is nothing to send, news how long a confirm offset waits for bytes to go
	// with.
	keepAlive = 300 * time.Millisecond
	news      = 10 * time.Millisecond
	// far is how many bytes behind a replica is one that has to catch up, in frames of farBatch, and arrived when it has.
	far      = 32 << 20
	farBatch = 1 << 20
	arrived  = 2 * near
	// silence is how long a connection may say nothing before it counts as dead.
	silence = 2 * time.Second
)

// source sends a master's log over one connection, in one epoch.
type source struct {
	n       *Node
	nc      net.Conn
	from    netip.Addr
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
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		s.from = a.AddrPort().Addr().Unmap()
	}
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
	if bugs.NoTailCut {
		w.Verdict, w.Offset = begin, h.End
		return
	}
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
	p := s.pieces(at, batchBytes)
	for {
		switch behind := log.End() - p.at; {
		case behind > far:
			to, err := s.catchUp(ctx, p.at)
			if err != nil {
				return err
			}
			p.at = to
			continue
		case behind == 0:
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
		}
		confirm, err := p.send()
		if err != nil {
			return err
		}
		if confirm < p.at {
			idle.Reset(news)
		} else {
			idle.Reset(keepAlive)
		}
	}
}

// pieces cuts the log into frames.
type pieces struct {
	s     *source
	at    int64 // everything below it is sent
	batch int
	part  Epoch // of the bytes
	limit int64 // they end here at the latest
	head  []byte
}

func (s *source) pieces(at int64, batch int) *pieces {
	return &pieces{s: s, at: at, batch: batch, limit: at, head: make([]byte, 4+dataHead, 4+dataHead+batch+batch/8)}
}

// send sends the next frame, without bytes at the end of the log. It returns the confirm offset that it told.
func (p *pieces) send() (confirm int64, err error) {
	s, log := p.s, p.s.n.store.Log
	d := data{Epoch: s.epoch, Offset: p.at}
	frame, next := p.head, p.at
	if p.at < log.End() {
		if p.at >= p.limit { // no other epoch begins while this connection lasts
			p.part, p.limit = s.n.part(p.at)
		}
		d.Part = p.part
		if frame, next, err = log.AppendRecords(p.head, p.at, int(min(int64(p.batch), p.limit-p.at))); err != nil {
			return 0, err
		}
	}
	d.Confirm, d.Body = s.n.store.Confirmed(), frame[4+dataHead:]
	if bugs.ConfirmAhead {
		d.Confirm = next
	}
	d.putHeader(frame)
	_ = s.nc.SetWriteDeadline(time.Now().Add(silence))
	if _, err := s.nc.Write(frame); err != nil {
		return 0, err
	}
	s.n.sent.Add(next - p.at)
	p.at = next
	s.needs.Store(next)
	return d.Confirm, nil
}

// catchUp sends to a replica that is far behind until it is nearly there, and returns how far it has come. Nobody waits for that, so it
// leaves the processors to others, and is as slow as it is told to be.
func (s *source) catchUp(ctx context.Context, from int64) (at int64, err error) {
	log := s.n.store.Log
	done := make(chan struct{})
	begun := time.Now()
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		s.n.cfg.GiveWay()
		p := s.pieces(from, farBatch)
		var pace pace
		for err == nil && ctx.Err() == nil && log.End()-p.at > arrived {
			before := p.at
			if _, err = p.send(); err == nil {
				err = sleep(ctx, pace.pause(p.at-before, s.n.cfg.MaxRate(), time.Now()))
			}
		}
		at = p.at
	}()
	<-done
	if took := time.Since(begun); err == nil && at-from >= far {
		s.n.log.Info("a replica has caught up", zap.Int64("replica", s.id), zap.Int64("bytes", at-from), zap.Duration("took", took))
	}
	return at, errors.Join(err, ctx.Err())
}

// pace keeps a sender to a rate.
type pace struct {
	rate int64
	from time.Time
	sent int64 // since then
}

// pause is how long to wait after n more bytes, at a rate in bytes per second, 0 for as fast as it goes. The other side takes no long
// silence.
func (p *pace) pause(n, rate int64, now time.Time) time.Duration {
	if rate <= 0 {
		return 0
	}
	if p.rate != rate || now.Sub(p.from) > time.Second {
		*p = pace{rate: rate, from: now}
	}
	p.sent += n
	return min(p.from.Add(time.Duration(float64(p.sent)/float64(rate)*float64(time.Second))).Sub(now), time.Second)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
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
