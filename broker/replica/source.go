package replica

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/bugs"
	"github.com/castor-mq/castor/remoting"
)

const (
	// batchBytes is how much of the log goes into a frame; one larger record makes a larger frame.
	batchBytes = 256 << 10
	// keepAlive is the time between two frames when there is nothing to send, news how long a confirm offset waits for bytes to go
	// with.
	keepAlive = 600 * time.Millisecond
	news      = 10 * time.Millisecond
	// far is how many bytes behind a replica is one that has to catch up, in frames of farBatch, and arrived when it has.
	far      = 32 << 20
	farBatch = 1 << 20
	arrived  = 2 * near
	// silence is how long a connection may say nothing before it counts as dead, hearing the same before nothing is expected from it.
	silence = 2 * time.Second
	hearing = time.Second
)

// source sends a master's log over one connection, in one epoch. Whoever appends sends what is new himself, as far as the connection takes
// it at once; what it does not take, and all of a replica that is far behind, is sent by the connection's goroutine.
type source struct {
	n       *Node
	nc      net.Conn // until there is feed
	from    netip.Addr
	addr    string
	epoch   int32
	session uint64
	id      int64
	needs   atomic.Int64 // the log from here on is still to be sent

	feed   *remoting.Feed
	acks   frames
	moved  bool          // take only: the confirm offset may go on
	over   chan struct{} // closed when feed has ended
	why    error         // by what of the replica's, if any
	heard  atomic.Int64  // when something came from it, in ns since the start of the Node
	wanted chan struct{} // the goroutine has something to do

	mu      sync.Mutex
	at      int64  // everything below it is sent
	told    int64  // the last confirm offset that was
	spoke   bool   // a frame was sent since the last look
	busy    bool   // the goroutine sends: it looks for more before it is busy no more
	rest    []byte // of a frame
	resting bool   // the goroutine sleeps until something is sent
	broken  error
}

// serveReplica answers whoever connects to the replication port.
func (n *Node) serveReplica(ctx context.Context, nc net.Conn) {
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	r := bufio.NewReaderSize(nc, 4<<10)
	s := &source{n: n, nc: nc, addr: nc.RemoteAddr().String(), acks: frames{limit: ackSize}, over: make(chan struct{}), wanted: make(chan struct{}, 1), busy: true}
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
		n.log.Warn("a connection of a replica ended", zap.String("from", s.addr), zap.Int64("replica", s.id), zap.Error(err))
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
		sound, _ := n.store.Sound()
		w.judge(h, epochs, sound, n.sumOf)
	}
	return w
}

// judge compares the logs.
func (w *welcome) judge(h *hello, epochs Epochs, sound int64, sumOf func(end int64, n int) (uint32, error)) {
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
			w.Verdict, w.Offset, w.Reason = differs, sound, fmt.Sprintf("the %d bytes before %d are not the same in both logs: one of them is damaged, or they are of different groups", n, h.End)
		}
	}
}

// sumOf is the CRC-32C of the n bytes of the log that end at end.
func (n *Node) sumOf(end int64, size int) (uint32, error) {
	sum := uint32(0)
	var buf []byte
	for at := end - int64(size); at < end; {
		k := min(end-at, n.store.Log.SegmentSize()-at%n.store.Log.SegmentSize(), 1<<20)
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
	s.at, s.told = h.End, Unknown
	if !s.n.attach(s, h) {
		return errEpoch
	}
	defer s.n.detach(s)
	s.n.advance() // what it has may be what was missing
	s.n.log.Info("replica attached", zap.Int64("replica", s.id), zap.Int64("offset", h.End), zap.Int64("behind", s.n.store.Log.End()-h.End))
	if r.Buffered() > 0 {
		return errFrame // it has nothing to say yet
	}
	s.heard.Store(s.n.uptime())
	feed, err := remoting.NewFeed(s.nc)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.feed = feed
	s.mu.Unlock()
	if err := feed.Start(nil, s.take, func(err error) {
		s.why = err
		close(s.over)
	}); err != nil {
		return err
	}
	err = s.run(ctx)
	feed.Close()
	<-s.over // take is not called any more
	return errors.Join(err, s.why)
}

// close ends the connection. It does not wait.
func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feed != nil {
		s.feed.Close()
	} else {
		_ = s.nc.Close()
	}
}

// push sends what is new, as far as the connection takes it at once. c may be the same for all connections, but has one user at a time.
func (s *source) push(c *cutter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.n.store.Log
	for end := log.End(); !s.busy && s.at < end; {
		if end-s.at > far {
			s.handOver(nil)
			return
		}
		s.write(c)
	}
}

// write sends one frame at once; what the connection does not take is left to the goroutine. The caller holds mu, and s is not busy.
func (s *source) write(c *cutter) {
	p, err := c.cut(s.epoch, s.at, batchBytes)
	n := 0
	if err == nil {
		n, err = s.feed.TryWrite(p.frame)
	}
	switch {
	case err != nil:
		s.broken = err
		s.handOver(nil)
	case n < len(p.frame):
		s.sent(p)
		s.handOver(bytes.Clone(p.frame[n:]))
	default:
		s.sent(p)
	}
}

// sent notes that a frame is on its way. The caller holds mu.
func (s *source) sent(p *piece) {
	s.n.sent.Add(p.to - p.from)
	s.at, s.told, s.spoke = p.to, p.confirm, true
	s.needs.Store(p.to)
	if s.resting {
		s.resting = false
		s.wake()
	}
}

// handOver has the goroutine go on. The caller holds mu.
func (s *source) handOver(rest []byte) {
	s.busy, s.rest = true, rest
	s.wake()
}

func (s *source) wake() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// run is the connection's goroutine.
func (s *source) run(ctx context.Context) error {
	tick := time.NewTimer(news)
	defer tick.Stop()
	own := cutter{n: s.n}
	for {
		if err := s.drain(ctx, &own); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.over:
			return nil
		case <-s.wanted:
			tick.Reset(news)
			continue
		case <-tick.C:
		}
		if s.n.uptime()-s.heard.Load() > int64(silence) {
			return errSilent
		}
		tick.Reset(s.look(&own))
	}
}

// look tells the replica that the confirm offset has moved, or that there is nothing to tell, and returns when to look again.
func (s *source) look(c *cutter) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return news
	}
	confirmed, spoke, rested := s.n.store.Confirmed(), s.spoke, s.resting
	s.resting = false
	if !spoke && (rested || s.told < confirmed) {
		s.write(c)
	}
	s.spoke, s.resting = false, !spoke && !s.busy && s.told >= confirmed
	if s.resting {
		return keepAlive
	}
	return news
}

// drain sends what push has left, and waits for the connection meanwhile.
func (s *source) drain(ctx context.Context, c *cutter) error {
	log := s.n.store.Log
	for ctx.Err() == nil {
		s.mu.Lock()
		err, rest, at := s.broken, s.rest, s.at
		s.rest = nil
		if err != nil || len(rest) == 0 && at >= log.End() {
			s.busy = err != nil
			s.mu.Unlock()
			return err
		}
		busy := s.busy
		s.mu.Unlock()
		switch {
		case !busy:
			return nil
		case len(rest) > 0:
			err = s.feed.Write(rest, time.Now().Add(silence))
		case log.End()-at > far:
			err = s.catchUp(ctx, at)
		default:
			err = s.sendFrame(c, at, batchBytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sendFrame sends the frame at an offset and waits for the connection.
func (s *source) sendFrame(c *cutter, at int64, batch int) error {
	p, err := c.cut(s.epoch, at, batch)
	if err != nil {
		return err
	}
	if err := s.feed.Write(p.frame, time.Now().Add(silence)); err != nil {
		return err
	}
	s.mu.Lock()
	s.sent(p)
	s.mu.Unlock()
	return nil
}

// piece is a frame of the log.
type piece struct {
	epoch    int32
	from, to int64 // equal at the log's end
	confirm  int64 // that it tells
	frame    []byte
}

// cutter cuts the log into frames.
type cutter struct {
	n     *Node
	part  Epoch // of the bytes
	limit int64 // they end here at the latest
	buf   []byte
	last  piece
}

// cut returns the frame that begins at an offset, of about batch bytes at most. It is good until the next call. Replicas that are equally far
// get the same one.
func (c *cutter) cut(epoch int32, at int64, batch int) (*piece, error) {
	log := c.n.store.Log
	if c.last.epoch != epoch {
		c.last, c.part, c.limit = piece{epoch: epoch}, Epoch{}, 0
	}
	if c.last.from == at && c.last.to > at {
		return &c.last, nil
	}
	if c.buf == nil {
		c.buf = make([]byte, 4+dataHead, 4+dataHead+batch+batch/8)
	}
	d := data{Epoch: epoch, Offset: at}
	frame, to := c.buf, at
	if at < log.End() {
		if at < c.part.Start || at >= c.limit { // no other epoch begins before this one ends
			c.part, c.limit = c.n.part(at)
		}
		d.Part = c.part
		var err error
		frame, to, err = log.AppendRecords(c.buf, at, int(min(int64(batch), c.limit-at)))
		if err == nil && log.End()-at > near { // it comes from the disk, maybe, and must not spread if that has damaged it
			err = log.VerifyRecords(frame[4+dataHead:], at)
		}
		if err != nil {
			c.last = piece{}
			if c.n.store.Unreadable(at, err) {
				c.n.cfg.AbleChanged()
			}
			return nil, err
		}
	}
	d.Confirm, d.Body = c.n.store.Confirmed(), frame[4+dataHead:]
	if bugs.ConfirmAhead {
		d.Confirm = to
	}
	d.putHeader(frame)
	c.last = piece{epoch: epoch, from: at, to: to, confirm: d.Confirm, frame: frame}
	return &c.last, nil
}

// catchUp sends to a replica that is far behind until it is nearly there. Nobody waits for that, so it leaves the processors to others, and is
// as slow as it is told to be.
func (s *source) catchUp(ctx context.Context, from int64) (err error) {
	log := s.n.store.Log
	done := make(chan struct{})
	begun, at := time.Now(), from
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		s.n.cfg.GiveWay()
		c := cutter{n: s.n}
		var pace pace
		for err == nil && ctx.Err() == nil && log.End()-at > arrived {
			if err = s.sendFrame(&c, at, farBatch); err == nil {
				err = sleep(ctx, pace.pause(c.last.to-at, s.n.cfg.MaxRate(), time.Now()))
				at = c.last.to
			}
		}
	}()
	<-done
	if took := time.Since(begun); err == nil && at-from >= far {
		s.n.log.Info("a replica has caught up", zap.Int64("replica", s.id), zap.Int64("bytes", at-from), zap.Duration("took", took))
	}
	return errors.Join(err, ctx.Err())
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

// take takes acknowledgements. It runs on a poller.
func (s *source) take(b []byte) error {
	s.heard.Store(s.n.uptime())
	err := s.acks.add(b, s.ack)
	if s.moved {
		s.moved = false
		s.n.store.Advance()
	}
	return err
}

func (s *source) ack(frame []byte) error {
	if len(frame) == 1 && frame[0] == kindBye {
		s.n.leave(s)
		return nil
	}
	var a ack
	if err := a.decode(frame); err != nil {
		return err
	}
	if a.Epoch != s.epoch {
		return errEpoch
	}
	moved, err := s.n.acked(s, a.End)
	s.moved = s.moved || moved
	return err
}
