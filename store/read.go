package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
)

// Status is what a read of a queue came to (GetMessageStatus).
type Status int

// The statuses; the names are Java's.
const (
	Found Status = iota
	NoMatchedMessage
	MessageWasRemoving
	OffsetFoundNull
	OffsetOverflowBadly
	OffsetOverflowOne
	OffsetTooSmall
	NoMatchedLogicQueue
	NoMessageInQueue
	OffsetReset
)

var statusNames = [...]string{"FOUND", "NO_MATCHED_MESSAGE", "MESSAGE_WAS_REMOVING", "OFFSET_FOUND_NULL", "OFFSET_OVERFLOW_BADLY",
	"OFFSET_OVERFLOW_ONE", "OFFSET_TOO_SMALL", "NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE", "OFFSET_RESET"}

// String returns Java's name.
func (s Status) String() string { return statusNames[s] }

// Filter decides which messages a reader gets. Tags is asked first, from the queue alone; Props only if it is not nil, from the
// record.
type Filter struct {
	Tags  func(code int64) bool
	Props func(p message.Props) bool
}

// Limits of one read (MessageStoreConfig.maxTransfer*, maxFilterMessageSize).
type Limits struct {
	Count     int // messages
	Bytes     int
	ScanUnits int // units looked at
}

// Plan is what a read found. It is a reply's body: the ranges of the log that hold the messages. A Plan can be used again.
type Plan struct {
	Status Status
	Next   int64 // where to read next
	Min    int64
	Max    int64
	Count  int
	// LastPhy is the log offset of the last message looked at, -1 if none was.
	LastPhy int64

	log    *commitlog.Log
	ranges []logRange
	bytes  int
	cold   []byte // the messages, if they had to be read from disk
	buf    []byte // for filters that look at records
	view   message.View
}

type logRange struct {
	phy int64
	n   int
}

// ErrCold means that the read needs the disk: repeat it where that is allowed.
var ErrCold = errors.New("store: the messages are not in memory")

// Read looks for messages in q from offset on and says in p what to send and where to go on. With hot it fails with ErrCold
// rather than touch the disk.
func (s *Store) Read(p *Plan, q *queue.Queue, offset int64, lim Limits, f Filter, hot bool) error {
	*p = Plan{log: s.Log, ranges: p.ranges[:0], cold: p.cold[:0], buf: p.buf, LastPhy: -1, Next: offset}
	if q == nil {
		p.Status, p.Next = NoMatchedLogicQueue, 0
		return nil
	}
	p.Min, p.Max = q.Min(), q.Max()
	switch {
	case p.Max == 0:
		p.Status, p.Next = NoMessageInQueue, 0
	case offset < p.Min:
		p.Status, p.Next = OffsetTooSmall, p.Min
	case offset == p.Max:
		p.Status = OffsetOverflowOne
	case offset > p.Max:
		p.Status, p.Next = OffsetOverflowBadly, p.Max
	default:
		return s.collect(p, q, lim, f, hot)
	}
	return nil
}

// collect walks the units of the queue.
func (s *Store) collect(p *Plan, q *queue.Queue, lim Limits, f Filter, hot bool) error {
	var units [64]queue.Unit
	looked := 0
	removed := false
	p.Status = NoMatchedMessage
	for p.Next < p.Max {
		var n int
		var err error
		if hot {
			n, err = q.ReadCached(p.Next, units[:])
		} else {
			n, err = q.Read(p.Next, units[:])
		}
		if errors.Is(err, vfs.ErrWouldBlock) {
			return s.stop(p, removed, hot)
		}
		if errors.Is(err, queue.ErrRange) { // expired or deleted under the read
			return s.finish(p, true, hot)
		}
		if err != nil {
			return err
		}
		for _, u := range units[:n] {
			if u.Phy == p.LastPhy && !u.Filler() { // a further message of the same inner batch
				p.Next++
				continue
			}
			if looked++; looked > lim.ScanUnits {
				return s.finish(p, removed, hot)
			}
			switch full, ok, err := s.take(p, u, lim, f, hot); {
			case errors.Is(err, ErrCold):
				return s.stop(p, removed, hot)
			case err != nil:
				return err
			case full:
				return s.finish(p, removed, hot)
			case !ok:
				removed = true
			}
			p.Next++
		}
	}
	return s.finish(p, removed, hot)
}

// stop ends a hot read where the disk would be needed: with what it has, if it has anything.
func (s *Store) stop(p *Plan, removed, hot bool) error {
	if p.Count == 0 {
		return ErrCold
	}
	return s.finish(p, removed, hot)
}

// take adds the message of one unit if it matches. full tells that the answer has no room for it; ok is false if the message is
// gone from the log.
func (s *Store) take(p *Plan, u queue.Unit, lim Limits, f Filter, hot bool) (full, ok bool, err error) {
	if u.Filler() {
		return false, true, nil
	}
	if u.Phy < s.Log.Min() {
		return false, false, nil
	}
	if f.Tags != nil && !f.Tags(u.Tags) {
		p.LastPhy = u.Phy
		return false, true, nil
	}
	if p.Count > 0 && (p.Count >= lim.Count || p.bytes+int(u.Size) > lim.Bytes) {
		return true, true, nil
	}
	if hot && !s.Log.Hot(u.Phy) { // even if the page cache has it: see docs/performance.md
		return false, true, ErrCold
	}
	if f.Props != nil {
		if p.buf, err = s.Log.Record(u.Phy, p.buf, &p.view); err != nil {
			if u.Phy < s.Log.Min() {
				return false, false, nil
			}
			return false, false, err
		}
		if !f.Props(p.view.Properties()) {
			p.LastPhy = u.Phy
			return false, true, nil
		}
	}
	p.LastPhy = u.Phy
	p.Count++
	p.bytes += int(u.Size)
	if k := len(p.ranges) - 1; k >= 0 && p.ranges[k].phy+int64(p.ranges[k].n) == u.Phy {
		p.ranges[k].n += int(u.Size)
	} else {
		p.ranges = append(p.ranges, logRange{u.Phy, int(u.Size)})
	}
	return false, true, nil
}

// finish decides the status, and reads from disk what is not in memory.
func (s *Store) finish(p *Plan, removed, hot bool) error {
	if p.Count == 0 {
		if removed {
			p.Status = MessageWasRemoving
		}
		return nil
	}
	p.Status = Found
	if hot || s.allHot(p.ranges) {
		return nil
	}
	p.cold = slices.Grow(p.cold, p.bytes) // once, however many ranges there are
	for _, r := range p.ranges {
		var err error
		if p.cold, err = s.Log.AppendRange(p.cold, r.phy, r.n); err != nil {
			return fmt.Errorf("read for a pull: %w", err)
		}
	}
	return nil
}

// allHot tells whether every range can be copied from memory when the answer is written.
func (s *Store) allHot(ranges []logRange) bool {
	for _, r := range ranges {
		if !s.Log.Hot(r.phy) {
			return false
		}
	}
	return true
}

// Len is the number of bytes of the messages found.
func (p *Plan) Len() int { return p.bytes }

// AppendTo appends the messages.
func (p *Plan) AppendTo(dst []byte) []byte {
	if len(p.cold) > 0 {
		return append(dst, p.cold...)
	}
	for _, r := range p.ranges {
		start := len(dst)
		var err error
		if dst, err = p.log.AppendRange(dst, r.phy, r.n); err != nil { // only if the segment was removed under a hot read
			dst = append(dst[:start], make([]byte, r.n)...)
		}
	}
	return dst
}

// Record reads the message at a log offset below the confirm offset. The view aliases the returned buffer.
func (s *Store) Record(phy int64, buf []byte, v *message.View) ([]byte, error) {
	if phy >= s.Confirmed() {
		return buf, fmt.Errorf("%w: %d", commitlog.ErrRange, phy)
	}
	return s.Log.Record(phy, buf, v)
}

// StoreTime returns when the message of a unit was stored.
func (s *Store) StoreTime(u queue.Unit) (int64, error) {
	var head [96]byte
	b, err := s.Log.AppendRange(head[:0], u.Phy, min(int(u.Size), len(head)))
	if err != nil {
		return 0, err
	}
	return message.StoreTimeAt(b), nil
}

// Boundary says which of two neighbours a search by time wants (BoundaryType).
type Boundary bool

// The two boundaries.
const (
	Lower Boundary = false // the first message stored at or after the time; Max if there is none
	Upper Boundary = true  // the last message stored at or before the time
)

// OffsetByTime searches a queue by store time. The result is in [Min, Max].
func (s *Store) OffsetByTime(q *queue.Queue, ms int64, b Boundary) (int64, error) {
	if q == nil {
		return 0, nil
	}
	first, err := q.Search(func(u queue.Unit) (bool, error) {
		t, err := s.StoreTime(u)
		if u.Phy < s.Log.Min() { // deleted, so older than all others
			return false, nil
		}
		if b == Upper {
			return t > ms, err
		}
		return t >= ms, err
	})
	if err != nil || b == Lower {
		return first, err
	}
	return max(first-1, q.Min()), nil
}

// EarliestTime is the store time of the queue's first message, -1 if it has none.
func (s *Store) EarliestTime(q *queue.Queue) int64 {
	return s.timeOf(q, func() int64 { return q.Min() })
}

// LatestTime is the store time of the queue's last message, -1 if it has none.
func (s *Store) LatestTime(q *queue.Queue) int64 {
	return s.timeOf(q, func() int64 { return q.Max() - 1 })
}

func (s *Store) timeOf(q *queue.Queue, at func() int64) int64 {
	if q == nil || q.Min() >= q.Max() {
		return -1
	}
	return s.TimeAt(q, at())
}

// TimeAt is the store time of one message, -1 if it is gone.
func (s *Store) TimeAt(q *queue.Queue, offset int64) int64 {
	if q == nil {
		return -1
	}
	u, err := q.At(offset)
	if err != nil || u.Filler() {
		return -1
	}
	t, err := s.StoreTime(u)
	if err != nil {
		return -1
	}
	return t
}

// Reset makes p say that the reader's offset has been set to another by command.
func (p *Plan) Reset(offset int64, q *queue.Queue) {
	*p = Plan{Status: OffsetReset, Next: offset, ranges: p.ranges[:0], cold: p.cold[:0], buf: p.buf, LastPhy: -1}
	if q != nil {
		p.Min, p.Max = q.Min(), q.Max()
	}
}
