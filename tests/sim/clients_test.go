package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

const (
	topics = 2
	queues = 2
)

// claim is what a client was told: a message stands there.
type claim struct {
	what   string // acknowledged, read
	queue  string
	offset int64
	id     uint64
	phy    int64
	life   int64
	epoch  int32
}

var host = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 1}), 10911)

// told is a Waiter.
type told struct{ c chan error }

func (t told) Done(err error) { t.c <- err }

// pick returns a process of a machine that is up and not frozen, nil if the one drawn is not.
func (w *world) pick(rng *rand.Rand) *process {
	m := w.machines[rng.IntN(replicas)]
	w.net.mu.Lock()
	frozen := w.net.frozen[m.id]
	w.net.mu.Unlock()
	p := m.process()
	if p == nil || frozen || !p.ready() || p.dead.Load() {
		return nil
	}
	return p
}

func nap(ctx context.Context, rng *rand.Rand, d time.Duration) {
	sleep(ctx, time.Millisecond+time.Duration(rng.Int64N(int64(d))))
}

// produce appends messages one after the other until ctx ends.
func (w *world) produce(ctx context.Context, rng *rand.Rand, n int) {
	for k := uint64(n) << 32; ctx.Err() == nil; k++ {
		nap(ctx, rng, w.pace)
		p := w.pick(rng)
		if p == nil {
			continue
		}
		if t := p.leads(); t != nil {
			w.send(ctx, rng, p, t, k)
		}
	}
}

// send appends one message, sometimes with more in one go, and waits for the answer.
func (w *world) send(ctx context.Context, rng *rand.Rand, p *process, t *term, id uint64) {
	topic, q := fmt.Sprint("T", rng.IntN(topics)), rng.Int32N(queues)
	k := queueName(topic, q)
	size := 8 + rng.IntN(1500)
	if rng.IntN(40) == 0 {
		size = 8 + rng.IntN(40_000)
	}
	body := make([]byte, size)
	binary.BigEndian.PutUint64(body, id)
	for i := 8; i < size; i += 97 {
		body[i] = byte(rng.Int())
	}
	d := &message.Draft{Topic: topic, QueueID: q, BornTimestamp: time.Now().UnixMilli(), BornHost: host, StoreHost: host, Body: body,
		Properties: fmt.Appendf(nil, "UNIQ_KEY\x01k%d\x02", id)}
	if err := d.Prepare(); err != nil {
		panic(err)
	}
	w.mu.Lock()
	floor := w.ackedMax[k] // what was acknowledged before this one is sent comes before it
	w.mu.Unlock()
	e := []commitlog.Entry{{Draft: d, Next: &p.st.Queues.GetOrCreate(topic, q).Next}}
	done := told{make(chan error, 1)}
	call := w.begin(opSend, k, id, 0)
	if err := p.st.Append(e, done); err != nil {
		return
	}
	p.st.Advance()
	if p.term.Load() != t || !w.answered(ctx, p, done.c) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	w.acks++
	w.endLocked(call, e[0].QueueOffset)
	w.claims = append(w.claims, claim{"acknowledged", k, e[0].QueueOffset, id, e[0].Phy, p.life, t.role.Epoch})
	if e[0].QueueOffset < floor {
		w.failLocked("%s/%d acknowledged to message %d, sent after %d was acknowledged", k, e[0].QueueOffset, id, floor-1)
	}
	w.ackedMax[k] = max(w.ackedMax[k], e[0].QueueOffset+1)
	if life, ok := w.ackers[t.role.Epoch]; ok && life != p.life {
		w.failLocked("in epoch %d both lives %d and %d acknowledge", t.role.Epoch, life, p.life)
	}
	w.ackers[t.role.Epoch] = p.life
}

// answered waits for an acknowledgement that reaches the client.
func (w *world) answered(ctx context.Context, p *process, c chan error) bool {
	limit := time.NewTimer(6 * time.Second)
	defer limit.Stop()
	select {
	case err := <-c:
		w.net.thawed(p.m.id)
		return err == nil && !p.dead.Load()
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}

// read looks at queues, at masters and replicas alike: what it sees must be confirmed, and stay.
func (w *world) read(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		nap(ctx, rng, 4*w.pace)
		p := w.pick(rng)
		if p == nil {
			continue
		}
		topic, id := fmt.Sprint("T", rng.IntN(topics)), rng.Int32N(queues)
		k := queueName(topic, id)
		now, t := w.current()
		serves := now == p && t == p.leads()
		w.mu.Lock()
		seen := w.seen[k]
		w.mu.Unlock()
		call := w.begin(opTop, k, 0, 0)
		q := p.st.Queues.Get(topic, id)
		top := int64(0)
		if q != nil {
			top = q.Max()
		}
		if again, _ := w.current(); serves && again == p && p.leads() == t && !p.dead.Load() {
			if top < seen {
				w.fail("r%d, master of epoch %d, shows %s up to %d; %d was seen", p.m.id, t.role.Epoch, k, top, seen)
			}
			w.end(call, top)
		}
		if top == 0 {
			continue
		}
		w.look(p, q, k, top-1-rng.Int64N(min(top, 50)))
		w.mu.Lock()
		if !p.dead.Load() {
			w.seen[k] = max(w.seen[k], top)
		}
		w.mu.Unlock()
	}
}

// look reads one message.
func (w *world) look(p *process, q *queue.Queue, k string, offset int64) {
	u, err := q.At(offset)
	var v message.View
	if err == nil {
		_, err = p.st.Log.Record(u.Phy, nil, &v)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead.Load() {
		return
	}
	if err != nil {
		w.failLocked("r%d: %s/%d at %d cannot be read: %v", p.m.id, k, offset, u.Phy, err)
		return
	}
	w.claims = append(w.claims, claim{"read", k, offset, idOf(v.Body()), u.Phy, p.life, p.term.Load().role.Epoch})
}

// consume commits growing offsets.
func (w *world) consume(ctx context.Context, rng *rand.Rand) {
	var last [topics][queues]int64
	for ctx.Err() == nil {
		nap(ctx, rng, 20*w.pace)
		p := w.pick(rng)
		if p == nil {
			continue
		}
		t := p.leads()
		if t == nil {
			continue
		}
		i, q := rng.IntN(topics), rng.IntN(queues)
		topic := fmt.Sprint("T", i)
		k := queueName(topic, int32(q))
		w.mu.Lock()
		committed := w.committed[k]
		w.mu.Unlock()
		call := w.begin(opFetch, k, 0, 0)
		got, _ := p.st.State.Offset("G", topic, int32(q))
		if now, nt := w.current(); now == p && nt == t && p.leads() == t && !p.dead.Load() {
			if got < committed {
				w.fail("r%d, master of epoch %d, has consumer offset %d of %s; %d was acknowledged", p.m.id, t.role.Epoch, got, k, committed)
			}
			w.end(call, got)
		}
		last[i][q]++
		call = w.begin(opCommit, k, 0, last[i][q])
		done := told{make(chan error, 1)}
		if err := p.st.Propose(done, state.OffsetPut("G", topic, int32(q), last[i][q])); err != nil {
			continue
		}
		if p.term.Load() != t || !w.answered(ctx, p, done.c) {
			continue
		}
		w.mu.Lock()
		if !p.dead.Load() {
			w.committed[k] = max(w.committed[k], last[i][q])
			w.endLocked(call, last[i][q])
		}
		w.mu.Unlock()
	}
}
