package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/vfs"
)

const (
	// preparing is how long a master may take to write a snapshot before it sends it, and either side to take or give a chunk.
	preparing = time.Minute
	// installing is how long a replica may take for a snapshot before it says hello again.
	installing = 10 * time.Minute
)

// errFetch says that no snapshot has come, or that it could not be installed.
var errFetch = errors.New("fetch the master's state")

// snapshots is the folder of what is being sent or received. What is in it means nothing after a restart.
func (n *Node) snapshots() string { return n.store.Dir("snapshot") }

// hold keeps the log from where a connection needs it.
func (n *Node) hold(s *source) {
	n.mu.Lock()
	n.holders[s] = struct{}{}
	n.mu.Unlock()
}

func (n *Node) letGo(s *source) {
	n.mu.Lock()
	delete(n.holders, s)
	n.mu.Unlock()
}

// held is the offset from which on the log is still to be sent to somebody.
func (n *Node) held() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	low := int64(math.MaxInt64)
	for s := range n.holders {
		low = min(low, s.needs.Load())
	}
	return low
}

// serveFetch sends a snapshot. From then on the log from its base on is kept for the replica, as long as the connection lasts.
func (s *source) serveFetch(ctx context.Context, frame []byte) error {
	var f fetch
	if err := f.decode(frame); err != nil {
		return err
	}
	n := s.n
	n.mu.Lock()
	master, epochs := n.leader != nil && n.role.Epoch == s.epoch && f.Epoch == s.epoch, n.epochs
	n.mu.Unlock()
	if !master {
		return errEpoch
	}
	s.needs.Store(0)
	base := n.store.Log.Min()
	s.needs.Store(base)
	file, drop, err := n.scratch("out")
	if err != nil {
		return err
	}
	defer drop()
	begun := time.Now()
	w := io.NewOffsetWriter(file, 0)
	applied, err := n.store.WriteSnapshot(w, base)
	if err != nil {
		return err
	}
	head := snapshot{Epoch: s.epoch, Base: base, Applied: applied}
	if applied > 0 {
		at, _ := epochs.At(applied - 1)
		head.At = at.Epoch
	}
	if below := epochs.Cut(base); len(below) > 0 {
		head.Below = below[len(below)-1]
	}
	if head.Size, err = w.Seek(0, io.SeekCurrent); err != nil {
		return err
	}
	n.log.Info("a replica fetches everything", zap.Int64("replica", s.id), zap.Int64("logFrom", base), zap.Int64("stateOf", applied),
		zap.Int64("bytes", head.Size), zap.Duration("written", time.Since(begun)))
	return s.sendSnapshot(ctx, &head, file)
}

func (s *source) sendSnapshot(ctx context.Context, head *snapshot, file vfs.File) error {
	_ = s.nc.SetWriteDeadline(time.Now().Add(preparing))
	if _, err := s.nc.Write(head.encode()); err != nil {
		return err
	}
	buf := make([]byte, 4+chunkHead+chunkBytes)
	for at := int64(0); at < head.Size && ctx.Err() == nil; {
		frame := buf[:4+chunkHead+min(chunkBytes, head.Size-at)]
		c := chunk{Epoch: s.epoch, Offset: at, Body: frame[4+chunkHead:]}
		if _, err := file.ReadAt(c.Body, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		c.putHeader(frame)
		_ = s.nc.SetWriteDeadline(time.Now().Add(preparing))
		if _, err := s.nc.Write(frame); err != nil {
			return err
		}
		at += int64(len(c.Body))
	}
	return ctx.Err()
}

// scratch makes a file for a snapshot; drop closes and removes it.
func (n *Node) scratch(name string) (file vfs.File, drop func(), err error) {
	if err := n.fs.MkdirAll(n.snapshots()); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(n.snapshots(), name+"-"+strconv.FormatInt(n.numbered.Add(1), 10))
	if file, err = n.fs.Create(path); err != nil {
		return nil, nil, err
	}
	return file, func() { _, _ = file.Close(), n.fs.Remove(path) }, nil
}

// fetch replaces our store by the master's state and an empty log.
func (k *sink) fetch(nc net.Conn, r *bufio.Reader) error {
	_ = nc.SetDeadline(time.Now().Add(preparing))
	if _, err := nc.Write((&fetch{k.role.Epoch}).encode()); err != nil {
		return err
	}
	buf, err := readFrame(r, nil, snapshotSize)
	if err != nil {
		return err
	}
	var head snapshot
	if err := head.decode(buf); err != nil {
		return err
	}
	if head.Epoch != k.role.Epoch {
		return errEpoch
	}
	file, drop, err := k.n.scratch("in")
	if err != nil {
		return err
	}
	defer drop()
	for at := int64(0); at < head.Size; {
		_ = nc.SetDeadline(time.Now().Add(preparing))
		if buf, err = readFrame(r, buf, maxChunk); err != nil {
			return err
		}
		var c chunk
		if err := c.decode(buf); err != nil {
			return err
		}
		if c.Epoch != k.role.Epoch || c.Offset != at || int64(len(c.Body)) > head.Size-at {
			return fmt.Errorf("%w: a chunk of %d bytes at %d, not at %d of %d", errFrame, len(c.Body), c.Offset, at, head.Size)
		}
		if _, err := file.WriteAt(c.Body, at); err != nil {
			return err
		}
		at += int64(len(c.Body))
	}
	return k.n.install(&head, file)
}

// install puts a snapshot in the place of the store. The epoch file says what it must before the new store counts; if that is
// interrupted the log is empty at the next start, and then no epoch has anything in it.
func (n *Node) install(head *snapshot, file io.ReaderAt) error {
	begun := time.Now()
	base, err := n.store.Install(file, head.Size, func(base int64) error {
		if base != head.Base {
			return errFrame
		}
		var below Epochs
		if head.Below.Epoch > 0 {
			below = Epochs{head.Below}
		}
		return errors.Join(n.saveEpochs(below), n.saveJoin(head.Applied, head.At))
	})
	if err != nil {
		return err
	}
	n.log.Info("the master's state is installed; now its log follows", zap.Int64("logFrom", base), zap.Int64("stateOf", head.Applied),
		zap.Int64("bytes", head.Size), zap.Duration("took", time.Since(begun)))
	return nil
}

// What is installed is the state of an offset that the log reaches only later. It belongs to the log if the byte before that offset is of
// the same epoch as on the master that has sent the state; it need not be if another master follows that has lost what was confirmed.

// unknownEpoch says that nothing is known of what a half-joined log must be like: it is fetched again.
const unknownEpoch = -1

func (n *Node) joinFile() string { return n.cfg.EpochFile + ".joining" }

func (n *Node) saveJoin(applied int64, epoch int32) error {
	n.mu.Lock()
	n.joined = epoch
	n.mu.Unlock()
	return n.fs.WriteFileAtomic(n.joinFile(), fmt.Appendf(nil, "%d %d\n", applied, epoch))
}

// readJoin is for a process that ended while its log had not reached the state.
func (n *Node) readJoin() error {
	n.joined = unknownEpoch
	if !n.store.Joining() {
		return n.fs.RemoveAll(n.joinFile())
	}
	text, err := n.fs.ReadFile(n.joinFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var applied int64
	var epoch int32
	if _, err := fmt.Sscan(string(text), &applied, &epoch); err == nil && applied == n.store.JoinsAt() {
		n.joined = epoch
	}
	return nil
}

// void tells whether the log is the beginning of one that does not belong to the state.
func (n *Node) void() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.joined == unknownEpoch && n.store.Joining()
}

// checkJoin looks at the frame with which the log reaches the state that was installed.
func (n *Node) checkJoin(d *data) error {
	if !n.store.Joining() || d.Offset+int64(len(d.Body)) < n.store.JoinsAt() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if d.Part.Epoch == n.joined {
		return nil
	}
	n.joined = unknownEpoch
	return fmt.Errorf("%w: at %d the log is of epoch %d, and the state that was installed of another", errFetch, n.store.JoinsAt(), d.Part.Epoch)
}
