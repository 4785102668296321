package controller

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
)

// quorumCode is the request code of what controllers say to each other, one that RocketMQ does not use. Its body is an envelope.
const quorumCode code.Request = 1900

// An envelope: magic (4), version (1), what (1), cluster id (8), from (8), to (8), CRC-32C of all but itself (4), content.
const (
	envelopeMagic   = "CSQR"
	envelopeVersion = 1
	envelopeHead    = 34
	envelopeSum     = 30 // offset of the checksum
)

// What an envelope holds.
const (
	whatHello  = 1 // nothing; answered by a greeting as JSON
	whatRaft   = 2 // messages of raft: length (4), protobuf, each
	whatReport = 3 // a Report as JSON, to the leader
)

// errStranger is wrapped by the refusal of an envelope.
var errStranger = errors.New("refused")

type envelope struct {
	What              byte
	Cluster, From, To uint64
	Content           []byte
}

func (e *envelope) append(dst []byte) []byte {
	dst = append(dst, envelopeMagic...)
	dst = append(dst, envelopeVersion, e.What)
	dst = binary.BigEndian.AppendUint64(dst, e.Cluster)
	dst = binary.BigEndian.AppendUint64(dst, e.From)
	dst = binary.BigEndian.AppendUint64(dst, e.To)
	sum := crc32.Update(crc32.Checksum(dst[len(dst)-envelopeSum:], castagnoli), castagnoli, e.Content)
	return append(binary.BigEndian.AppendUint32(dst, sum), e.Content...)
}

// parseEnvelope reads an envelope, whose content aliases data.
func parseEnvelope(data []byte) (e envelope, err error) {
	switch {
	case len(data) < envelopeHead || string(data[:4]) != envelopeMagic:
		return e, fmt.Errorf("%w: %d bytes are no message of a controller", errStranger, len(data))
	case data[4] != envelopeVersion:
		return e, fmt.Errorf("%w: version %d", errStranger, data[4])
	}
	e = envelope{What: data[5], Cluster: binary.BigEndian.Uint64(data[6:]), From: binary.BigEndian.Uint64(data[14:]),
		To: binary.BigEndian.Uint64(data[22:]), Content: data[envelopeHead:]}
	sum := crc32.Update(crc32.Checksum(data[:envelopeSum], castagnoli), castagnoli, e.Content)
	if sum != binary.BigEndian.Uint32(data[envelopeSum:]) {
		return e, fmt.Errorf("%w: checksum", errStranger)
	}
	return e, nil
}

// raftTypes are the messages that members send each other. The others are words of raft to itself, or requests that are never
// passed on here.
var raftTypes = []pb.MessageType{
	pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgSnap, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow, pb.MsgPreVote, pb.MsgPreVoteResp,
}

// messages reads the content of a whatRaft envelope. The messages own their bytes.
func (e *envelope) messages() ([]*pb.Message, error) {
	var out []*pb.Message
	for b := e.Content; len(b) > 0; {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, fmt.Errorf("%w: raft message of impossible length", errStranger)
		}
		end := 4 + int(binary.BigEndian.Uint32(b))
		m := new(pb.Message)
		if err := proto.Unmarshal(b[4:end], m); err != nil {
			return nil, fmt.Errorf("%w: raft message: %w", errStranger, err)
		}
		if !slices.Contains(raftTypes, m.GetType()) || m.GetFrom() != e.From || m.GetTo() != e.To {
			return nil, fmt.Errorf("%w: raft message %v from %d to %d", errStranger, m.GetType(), m.GetFrom(), m.GetTo())
		}
		out, b = append(out, m), b[end:]
	}
	return out, nil
}

const (
	// maxQueued bounds the messages that wait for one member.
	maxQueued = 1024
	// maxBatch is how many bytes of messages share an envelope.
	maxBatch = 1 << 20
	// sendTimeout bounds the wait for a connection to a member, sendPause the rest after a failure.
	sendTimeout = time.Second
	sendPause   = 100 * time.Millisecond
)

// parcel is one message to a member.
type parcel struct {
	what     byte
	data     []byte
	snapshot bool
}

// joins tells whether the next parcel can share the envelope. A snapshot travels alone: it may fill a frame.
func (p *parcel) joins(next *parcel) bool {
	return p.what == whatRaft && next.what == whatRaft && !p.snapshot && !next.snapshot
}

// transport carries messages to the other members, over the remoting port of each: no second port has to be open between
// controllers. One goroutine per member sends, so that none waits for another.
type transport struct {
	group  *lifecycle.Group
	client *remoting.Client
	clock  clock.Clock
	log    *zap.Logger
	self   uint64
	store  *storage
	node   *node

	mu    sync.Mutex
	lines map[uint64]*line
}

// line is the way to one member.
type line struct {
	to    uint64
	queue chan parcel

	mu   sync.Mutex
	addr string
}

// send implements nodeConfig.Send.
func (t *transport) send(to uint64, addr string, m *pb.Message) {
	data, err := proto.Marshal(m)
	if err != nil {
		t.log.Error("raft message not sent", zap.Error(err))
		return
	}
	if !t.put(to, addr, parcel{whatRaft, data, m.GetType() == pb.MsgSnap}) {
		t.lost(to, m.GetType() == pb.MsgSnap)
	}
}

// report tells the leader what this controller sees.
func (t *transport) report(to Member, r *Report) {
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("controller: %v", err)) // plain data
	}
	t.put(raftID(to.ID), to.Addr, parcel{what: whatReport, data: text})
}

func (t *transport) put(to uint64, addr string, p parcel) bool {
	if addr == "" {
		return false
	}
	t.mu.Lock()
	l := t.lines[to]
	if l == nil {
		l = &line{to: to, queue: make(chan parcel, maxQueued)}
		t.lines[to] = l
		t.group.Go("controller line", func(ctx context.Context) error { return t.run(ctx, l) })
	}
	t.mu.Unlock()
	l.mu.Lock()
	l.addr = addr
	l.mu.Unlock()
	select {
	case l.queue <- p:
		return true
	default:
		return false
	}
}

func (t *transport) lost(to uint64, snapshot bool) {
	t.node.unreachable(to)
	if snapshot {
		t.node.snapshotSent(to, false)
	}
}

func (t *transport) run(ctx context.Context, l *line) error {
	var held []parcel
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-l.queue:
			held = append(held[:0], p)
		}
		size := len(held[0].data)
		for size < maxBatch && len(held) < maxQueued && len(l.queue) > 0 {
			p := <-l.queue
			held, size = append(held, p), size+len(p.data)
		}
		if err := t.deliver(ctx, l, held); err != nil {
			t.log.Debug("controller not reached", zap.Error(err))
			for _, p := range held {
				t.lost(l.to, p.snapshot)
			}
			select {
			case <-ctx.Done():
			case <-t.pause().C:
			}
			continue
		}
		for _, p := range held {
			if p.snapshot {
				t.node.snapshotSent(l.to, true)
			}
		}
	}
}

func (t *transport) pause() *clock.Timer { return t.clock.NewTimer(sendPause) }

// deliver sends parcels in as few envelopes as their kinds allow.
func (t *transport) deliver(ctx context.Context, l *line, parcels []parcel) error {
	l.mu.Lock()
	addr := l.addr
	l.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := t.client.Conn(limited, addr)
	if err != nil {
		return err
	}
	var content []byte
	for i, p := range parcels {
		if p.what == whatRaft {
			content = append(binary.BigEndian.AppendUint32(content, uint32(len(p.data))), p.data...)
		} else {
			content = p.data
		}
		if i+1 < len(parcels) && p.joins(&parcels[i+1]) {
			continue
		}
		e := envelope{What: p.what, Cluster: t.store.cluster.Load(), From: t.self, To: l.to, Content: content}
		if err := conn.Oneway(quorumCode, nil, e.append(nil)); err != nil {
			return err
		}
		content = nil
	}
	return nil
}

// report reads what another member sees. Brokers that are not registered are left out: nobody elects them.
func (s *State) report(e envelope) (*Report, error) {
	r := new(Report)
	if err := json.Unmarshal(e.Content, r); err != nil {
		return nil, fmt.Errorf("%w: report: %w", errStranger, err)
	}
	if _, member := s.quorum.Members[e.From]; !member || raftID(r.From) != e.From {
		return nil, fmt.Errorf("%w: report of somebody who is no member", errStranger)
	}
	r.Alive = slices.DeleteFunc(r.Alive, func(one Sighting) bool {
		g := s.Group(one.Group)
		if g == nil {
			return true
		}
		_, known := g.Replicas[one.ID]
		return !known
	})
	return r, nil
}

// hello implements nodeConfig.Hello.
func (t *transport) hello(ctx context.Context, m Member) (g greeting, err error) {
	e := envelope{What: whatHello, From: t.self, To: raftID(m.ID)}
	reply, err := t.client.Call(ctx, m.Addr, quorumCode, nil, e.append(nil))
	if err == nil {
		err = reply.Err()
	}
	if err == nil {
		err = json.Unmarshal(reply.Body, &g)
	}
	return g, err
}
