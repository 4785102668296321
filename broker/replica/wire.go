package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The frames, all big-endian: length of what follows u32, kind u8, then
//
//	hello    magic u32, version u8, flags u8, replica i64, epoch i32, set epoch i32, last epoch i32, min, end, segment size i64,
//	         tail u32, sum of the tail u32, cluster, group: length u8, bytes
//	welcome  magic u32, version u8, verdict u8, epoch i32, epoch of the answer i32, offset, min, end i64, reason: length u8, bytes
//	data     epoch of the master i32, epoch of the bytes i32, its start i64, offset i64, confirm offset i64, CRC-32C of the
//	         body u32, body
//	ack      epoch i32, end i64
//	bye      nothing: the replica stops
//	fetch    epoch i32
//	snapshot epoch i32, base i64, applied offset i64, epoch of the byte before that i32, epoch of the byte before base i32, its start
//	         i64, size i64, CRC-32C of the frame
//	chunk    epoch i32, offset in the snapshot i64, CRC-32C of the frame without these four bytes u32, bytes
//
// A replica says hello and is answered until it knows where to begin; then data flows one way and acks the other. One whose log is of no
// use any more answers with fetch instead, is sent a snapshot and its chunks, and says hello again when it has installed them.
const (
	magic   = 0x524D5152 // RMQR
	version = 2

	maxHello = 1 << 10
	// maxData bounds a data frame: one record of the largest maxMessageSize, with its properties.
	maxData  = 256<<20 + dataHead
	dataHead = 1 + 4 + 4 + 8 + 8 + 8 + 4
	ackSize  = 1 + 4 + 8
	// chunkBytes is how much of a snapshot goes into a frame.
	chunkBytes   = 1 << 20
	chunkHead    = 1 + 4 + 8 + 4
	maxChunk     = chunkHead + chunkBytes
	fetchSize    = 1 + 4
	snapshotSize = 1 + 4 + 8 + 8 + 4 + 4 + 8 + 8 + 4
	// tailBytes is how much before its end a replica sums up, so that logs of equal epochs are known to be the same.
	tailBytes = 4 << 10
	// maxTail is how much of a log that may have holes is compared at most; where it is more everything is fetched.
	maxTail = 256 << 20
)

// frame kinds.
const (
	kindHello byte = iota + 1
	kindWelcome
	kindData
	kindAck
	kindBye
	kindFetch
	kindSnapshot
	kindChunk
)

// Errors of a connection between brokers.
var (
	errFrame    = errors.New("a damaged frame")
	errStranger = errors.New("not a replica of this group")
	errEpoch    = errors.New("another epoch")
	errSilent   = errors.New("nothing comes from the other side")
	errDeaf     = errors.New("the other side does not read")
	errLife     = errors.New("this broker has told the controllers that it is another one now")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// hello is how a replica introduces itself, and its log.
type hello struct {
	Cluster, Group string
	ID             int64
	Life           int64 // that the controllers are told, of the replica's process; 0: none
	Learner        bool
	Fetch          bool  // its log and its state do not belong together: only a snapshot helps
	Epoch          int32 // that it follows
	SetEpoch       int32 // of the SyncStateSet that it knows
	LastEpoch      int32 // in its log
	Min, End       int64 // of its log
	SegmentSize    int64
	Tail           uint32 // bytes before End that TailSum is of
	TailSum        uint32 // CRC-32C
}

// verdict is a master's answer to a hello.
type verdict byte

const (
	// begin: the logs are the same up to the replica's end, where data begins.
	begin verdict = iota + 1
	// diverged: the replica must look again with a log that ends where the answer says; see Epochs.Common.
	diverged
	// differs: what the replica has summed up is not what the master has there.
	differs
	// outOfRange: what the replica needs next is no longer in the master's log.
	outOfRange
	// refused: for the reason that is given.
	refused
)

// welcome is the answer.
type welcome struct {
	Verdict   verdict
	Epoch     int32 // of the master
	LastEpoch int32 // diverged: the master's newest epoch that is not newer than the replica's, and
	Offset    int64 // where it ends; differs: what the master has from here on a power loss may have damaged (Store.Sound)
	Min, End  int64 // of the master's log
	Reason    string
}

// data is a piece of the log: whole records, in one segment and one epoch.
type data struct {
	Epoch   int32 // of the master that sends
	Part    Epoch // of the bytes
	Offset  int64
	Confirm int64 // the master's confirm offset
	Body    []byte
}

// ack says how far a replica's log goes.
type ack struct {
	Epoch int32
	End   int64
}

// fetch asks for a snapshot.
type fetch struct{ Epoch int32 }

// snapshot announces one: see store.WriteSnapshot.
type snapshot struct {
	Epoch   int32 // of the master
	Base    int64 // where the log begins that goes with it
	Applied int64 // the offset of the state,
	At      int32 // and the epoch of the byte before it
	Below   Epoch // of the byte before Base; zero if there is none
	Size    int64 // bytes
}

// chunk is a piece of it.
type chunk struct {
	Epoch  int32
	Offset int64
	Body   []byte
}

type flagBits byte

const (
	flagLearner flagBits = 1
	flagFetch   flagBits = 2
)

func (h *hello) encode() []byte {
	flags := flagBits(0)
	if h.Learner {
		flags |= flagLearner
	}
	if h.Fetch {
		flags |= flagFetch
	}
	be := binary.BigEndian
	b := append(be.AppendUint32([]byte{0, 0, 0, 0, kindHello}, magic), version, byte(flags))
	b = be.AppendUint64(be.AppendUint64(b, uint64(h.ID)), uint64(h.Life))
	b = be.AppendUint32(b, uint32(h.Epoch))
	b = be.AppendUint32(b, uint32(h.SetEpoch))
	b = be.AppendUint32(b, uint32(h.LastEpoch))
	for _, v := range []int64{h.Min, h.End, h.SegmentSize} {
		b = be.AppendUint64(b, uint64(v))
	}
	b = be.AppendUint32(b, h.Tail)
	b = be.AppendUint32(b, h.TailSum)
	return closeFrame(appendText(appendText(b, h.Cluster), h.Group))
}

func (w *welcome) encode() []byte {
	be := binary.BigEndian
	b := append(be.AppendUint32([]byte{0, 0, 0, 0, kindWelcome}, magic), version, byte(w.Verdict))
	b = be.AppendUint32(b, uint32(w.Epoch))
	b = be.AppendUint32(b, uint32(w.LastEpoch))
	for _, v := range []int64{w.Offset, w.Min, w.End} {
		b = be.AppendUint64(b, uint64(v))
	}
	return closeFrame(appendText(b, w.Reason))
}

// dataHeader is what stands before the body of a data frame, written in place once the body is known.
func (d *data) putHeader(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(dataHead+len(d.Body)))
	b[4] = kindData
	be.PutUint32(b[5:], uint32(d.Epoch))
	be.PutUint32(b[9:], uint32(d.Part.Epoch))
	be.PutUint64(b[13:], uint64(d.Part.Start))
	be.PutUint64(b[21:], uint64(d.Offset))
	be.PutUint64(b[29:], uint64(d.Confirm))
	be.PutUint32(b[37:], crc32.Checksum(d.Body, castagnoli))
}

func (a *ack) put(b *[4 + ackSize]byte) {
	be := binary.BigEndian
	be.PutUint32(b[:], ackSize)
	b[4] = kindAck
	be.PutUint32(b[5:], uint32(a.Epoch))
	be.PutUint64(b[9:], uint64(a.End))
}

func (f *fetch) encode() []byte {
	return closeFrame(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 0, kindFetch}, uint32(f.Epoch)))
}

func (s *snapshot) encode() []byte {
	be := binary.BigEndian
	b := be.AppendUint32([]byte{0, 0, 0, 0, kindSnapshot}, uint32(s.Epoch))
	b = be.AppendUint64(be.AppendUint64(b, uint64(s.Base)), uint64(s.Applied))
	b = be.AppendUint32(b, uint32(s.At))
	b = be.AppendUint64(be.AppendUint32(b, uint32(s.Below.Epoch)), uint64(s.Below.Start))
	b = be.AppendUint64(b, uint64(s.Size))
	return closeFrame(be.AppendUint32(b, crc32.Checksum(b[4:], castagnoli)))
}

// putHeader writes what stands before the body, which lies in b already.
func (c *chunk) putHeader(b []byte) {
	be := binary.BigEndian
	be.PutUint32(b, uint32(chunkHead+len(c.Body)))
	b[4] = kindChunk
	be.PutUint32(b[5:], uint32(c.Epoch))
	be.PutUint64(b[9:], uint64(c.Offset))
	be.PutUint32(b[17:], chunkSum(b[4:]))
}

// chunkSum is the sum of a chunk's frame behind the length.
func chunkSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:chunkHead-4], castagnoli), castagnoli, b[chunkHead:])
}

func appendText(b []byte, text string) []byte {
	text = text[:min(len(text), 255)]
	return append(append(b, byte(len(text))), text...)
}

func closeFrame(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// reading takes a frame apart; what is missing is noted.
type reading struct {
	b   []byte
	bad bool
}

func (r *reading) take(n int) []byte {
	if len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reading) u8() byte     { return r.take(1)[0] }
func (r *reading) u32() uint32  { return binary.BigEndian.Uint32(r.take(4)) }
func (r *reading) i32() int32   { return int32(r.u32()) }
func (r *reading) i64() int64   { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reading) text() string { return string(r.take(int(r.u8()))) }

// introduction reads what a hello and a welcome begin with.
func (r *reading) introduction(kind byte) error {
	switch {
	case r.u8() != kind || r.u32() != magic:
		return errStranger
	case r.u8() != version:
		return fmt.Errorf("%w: it speaks another version", errStranger)
	}
	return nil
}

func (r *reading) end() error {
	if r.bad || len(r.b) > 0 {
		return errFrame
	}
	return nil
}

func (h *hello) decode(b []byte) error {
	r := reading{b: b}
	if err := r.introduction(kindHello); err != nil {
		return err
	}
	flags := flagBits(r.u8())
	h.Learner, h.Fetch = flags&flagLearner != 0, flags&flagFetch != 0
	h.ID, h.Life, h.Epoch, h.SetEpoch, h.LastEpoch = r.i64(), r.i64(), r.i32(), r.i32(), r.i32()
	h.Min, h.End, h.SegmentSize = r.i64(), r.i64(), r.i64()
	h.Tail, h.TailSum = r.u32(), r.u32()
	h.Cluster, h.Group = r.text(), r.text()
	if h.Min < 0 || h.End < h.Min || h.LastEpoch < 0 || h.Tail > maxTail || int64(h.Tail) > h.End-h.Min {
		return errFrame
	}
	return r.end()
}

func (w *welcome) decode(b []byte) error {
	r := reading{b: b}
	if err := r.introduction(kindWelcome); err != nil {
		return err
	}
	w.Verdict = verdict(r.u8())
	w.Epoch, w.LastEpoch = r.i32(), r.i32()
	w.Offset, w.Min, w.End = r.i64(), r.i64(), r.i64()
	w.Reason = r.text()
	if w.Verdict < begin || w.Verdict > refused || w.LastEpoch < 0 || w.Offset < 0 || w.Min < 0 || w.End < w.Min {
		return errFrame
	}
	return r.end()
}

// decode checks the sum of the body, which aliases b.
func (d *data) decode(b []byte) error {
	r := reading{b: b}
	if r.u8() != kindData {
		return errFrame
	}
	d.Epoch, d.Part.Epoch, d.Part.Start = r.i32(), r.i32(), r.i64()
	d.Offset, d.Confirm = r.i64(), r.i64()
	sum := r.u32()
	d.Body = r.b
	if r.bad || d.Offset < 0 || d.Part.Epoch < 0 || d.Part.Epoch > d.Epoch || d.Part.Start < 0 || d.Part.Start > d.Offset {
		return errFrame
	}
	if crc32.Checksum(d.Body, castagnoli) != sum {
		return fmt.Errorf("%w: wrong sum", errFrame)
	}
	return nil
}

func (a *ack) decode(b []byte) error {
	r := reading{b: b}
	if r.u8() != kindAck {
		return errFrame
	}
	a.Epoch, a.End = r.i32(), r.i64()
	if a.End < 0 {
		return errFrame
	}
	return r.end()
}

func (f *fetch) decode(b []byte) error {
	r := reading{b: b}
	if r.u8() != kindFetch {
		return errFrame
	}
	f.Epoch = r.i32()
	return r.end()
}

func (s *snapshot) decode(b []byte) error {
	r := reading{b: b}
	if len(b) != snapshotSize || r.u8() != kindSnapshot {
		return errFrame
	}
	s.Epoch, s.Base, s.Applied, s.At = r.i32(), r.i64(), r.i64(), r.i32()
	s.Below.Epoch, s.Below.Start = r.i32(), r.i64()
	s.Size = r.i64()
	if r.u32() != crc32.Checksum(b[:snapshotSize-4], castagnoli) {
		return fmt.Errorf("%w: wrong sum", errFrame)
	}
	if s.Base < 0 || s.Applied < s.Base || s.Size < 1 || s.Below.Epoch < 0 || s.Below.Epoch > s.At || s.At > s.Epoch || s.Below.Start < 0 ||
		(s.Below.Epoch == 0) != (s.Below == Epoch{}) || s.Below.Epoch > 0 && s.Below.Start >= s.Base {
		return errFrame
	}
	return r.end()
}

// decode checks the sum. Body aliases b.
func (c *chunk) decode(b []byte) error {
	r := reading{b: b}
	if len(b) <= chunkHead || r.u8() != kindChunk {
		return errFrame
	}
	c.Epoch, c.Offset = r.i32(), r.i64()
	if r.u32() != chunkSum(b) {
		return fmt.Errorf("%w: wrong sum", errFrame)
	}
	if c.Body = r.b; c.Offset < 0 {
		return errFrame
	}
	return nil
}

// readFrame reads one frame of at most limit bytes into buf, which grows with what arrives, never with what is announced.
func readFrame(r io.Reader, buf []byte, limit int) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return buf, err
	}
	n := int(binary.BigEndian.Uint32(length[:]))
	if n < 1 || n > limit {
		return buf, fmt.Errorf("%w of %d bytes", errFrame, n)
	}
	if n <= max(cap(buf), 1<<20) {
		if cap(buf) < n {
			buf = make([]byte, n)
		}
		buf = buf[:n]
		_, err := io.ReadFull(r, buf)
		return buf, err
	}
	grown := bytes.NewBuffer(buf[:0])
	if _, err := io.CopyN(grown, r, int64(n)); err != nil {
		return buf, err
	}
	return grown.Bytes(), nil
}

// frames cuts a stream into frames of at most limit bytes.
type frames struct {
	limit int
	part  []byte // of an incomplete one, with its length: grows with what arrives, never with what is announced
}

// keepPart is the largest buffer that is kept for the next incomplete frame.
const keepPart = 2 << 20

// add hands the complete frames to f, which keeps nothing of them.
func (fs *frames) add(b []byte, f func(frame []byte) error) error {
	for len(b) > 0 {
		if len(fs.part) == 0 {
			n, err := fs.length(b)
			switch {
			case err != nil:
				return err
			case n > 0 && len(b) >= 4+n:
				if err := f(b[4 : 4+n]); err != nil {
					return err
				}
				b = b[4+n:]
			default:
				fs.part = append(fs.part, b...)
				return nil
			}
			continue
		}
		if need := 4 - len(fs.part); need > 0 {
			need = min(need, len(b))
			fs.part, b = append(fs.part, b[:need]...), b[need:]
			if len(fs.part) < 4 {
				return nil
			}
		}
		n, err := fs.length(fs.part)
		if err != nil {
			return err
		}
		need := min(4+n-len(fs.part), len(b))
		fs.part, b = append(fs.part, b[:need]...), b[need:]
		if len(fs.part) < 4+n {
			return nil
		}
		err = f(fs.part[4:])
		if fs.part = fs.part[:0]; cap(fs.part) > keepPart {
			fs.part = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// length is that of the frame which b begins with, 0 if that is not there yet.
func (fs *frames) length(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, nil
	}
	n := int(binary.BigEndian.Uint32(b))
	if n < 1 || n > fs.limit {
		return 0, fmt.Errorf("%w of %d bytes", errFrame, n)
	}
	return n, nil
}
