package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store/state"
)

// truth is the log as far as anybody has confirmed it. It only grows: whoever confirms anything else below its end is wrong.
type truth struct {
	w       *world
	b       []byte
	next    map[string]int64  // by queue
	offsets map[string]int64  // consumer offsets
	at      map[int64]*record // by log offset
}

// record is a message as it stands in the log.
type record struct {
	queue  string
	offset int64
	id     uint64
	phy    int64
}

func newTruth(w *world) *truth {
	return &truth{w: w, next: map[string]int64{}, offsets: map[string]int64{}, at: map[int64]*record{}}
}

func (t *truth) end() int64 { return int64(len(t.b)) }

// observe compares what a process has confirmed with the truth, and adds to it.
func (t *truth) observe(p *process, confirmed int64) {
	if confirmed < p.confirmed {
		t.w.fail("r%d: the confirm offset went back from %d to %d", p.m.id, p.confirmed, confirmed)
	}
	p.confirmed = confirmed
	if confirmed > t.end() && !p.led.Load() {
		t.w.fail("r%d: confirms up to %d, no master has more than %d", p.m.id, confirmed, t.end())
	}
	t.compare(p, confirmed)
	t.parse()
}

// compare goes through the log of a process up to an offset.
func (t *truth) compare(p *process, to int64) {
	for p.verified < to {
		at := p.verified
		b, next, err := p.st.Log.AppendRecords(nil, at, int(to-at))
		if err != nil || next <= at || next > to {
			t.w.fail("r%d: the log cannot be read at %d of %d: next %d, %v", p.m.id, at, to, next, err)
			return
		}
		known := min(max(t.end()-at, 0), int64(len(b)))
		if !bytes.Equal(b[:known], t.b[min(at, t.end()):min(at, t.end())+known]) {
			t.w.fail("r%d: its log is another one than the confirmed between %d and %d (confirmed %d)", p.m.id, at, next, to)
			return
		}
		t.b = append(t.b, b[known:]...)
		p.verified = next
	}
}

// parse takes note of the records that are new.
func (t *truth) parse() {
	at := t.w.parsed
	var v message.View
	for at < t.end() {
		b := t.b[at:]
		if message.IsBlank(b[:min(len(b), message.BlankSize)]) {
			at += segmentSize - at%segmentSize
			continue
		}
		size := int64(binary.BigEndian.Uint32(b))
		if size > int64(len(b)) {
			t.w.fail("the record at %d goes beyond the confirm offset %d", at, t.end())
			break
		}
		if err := v.Parse(b[:size]); err != nil || v.Verify(at) != nil {
			t.w.fail("no record at %d: %v", at, err)
			break
		}
		t.take(at, &v)
		at += size
	}
	t.w.parsed = at
}

func (t *truth) take(at int64, v *message.View) {
	if string(v.Topic()) == state.Topic {
		err := state.Each(v.Body(), func(c state.Change) error {
			k := queueName(c.Topic, c.QueueID)
			if c.Kind == state.KindOffsetPut {
				if c.Offset < t.offsets[k] {
					t.w.fail("the consumer offset of %s goes back from %d to %d at %d", k, t.offsets[k], c.Offset, at)
				}
				t.offsets[k] = c.Offset
			}
			return nil
		})
		if err != nil {
			t.w.fail("state record at %d: %v", at, err)
		}
		return
	}
	k := queueName(string(v.Topic()), v.QueueID())
	if v.QueueOffset() != t.next[k] {
		t.w.fail("%s: queue offset %d at %d, want %d", k, v.QueueOffset(), at, t.next[k])
	}
	t.next[k] = v.QueueOffset() + 1
	t.at[at] = &record{queue: k, offset: v.QueueOffset(), id: idOf(v.Body()), phy: at}
}

func idOf(body []byte) uint64 { return binary.BigEndian.Uint64(body) }

func splitQueue(k string) (topic string, id int32) {
	topic, text, _ := strings.Cut(k, "-")
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return topic, int32(n)
}

func queueName(topic string, id int32) string { return fmt.Sprintf("%s-%d", topic, id) }

// check runs while nothing else does.
func (w *world) check() {
	w.mu.Lock()
	ghosts, claims := w.ghosts, w.claims
	w.ghosts, w.claims = nil, nil
	w.mu.Unlock()
	all := ghosts
	for _, m := range w.machines {
		if p := m.process(); p != nil && p.ready() {
			all = append(all, p)
		}
	}
	for _, led := range []bool{true, false} { // masters first: the others have it from them
		for _, p := range all {
			switch {
			case p.led.Load() != led || p.st == nil:
			case p.dead.Load():
				w.truth.observe(p, p.final)
			default:
				w.truth.observe(p, p.st.Confirmed())
			}
		}
	}
	for _, p := range ghosts {
		close(p.seen)
	}
	for i := range claims {
		w.claim(&claims[i])
	}
	w.checkMaster()
	for _, m := range w.machines {
		m.recovered()
	}
}

// claim checks that what a client was told is confirmed.
func (w *world) claim(c *claim) {
	r := w.truth.at[c.phy]
	switch {
	case r == nil:
		w.fail("%s %s/%d at %d by life %d in epoch %d: the log is confirmed up to %d", c.what, c.queue, c.offset, c.phy, c.life, c.epoch, w.truth.end())
	case r.queue != c.queue || r.offset != c.offset || r.id != c.id:
		w.fail("%s %s/%d (%d) at %d by life %d in epoch %d: there is %+v", c.what, c.queue, c.offset, c.id, c.phy, c.life, c.epoch, *r)
	}
}

// current returns the process that the controllers believe to be master, if it knows and serves.
func (w *world) current() (*process, *term) {
	w.ctl.mu.Lock()
	g := w.ctl.group()
	w.ctl.mu.Unlock()
	if g.Master == 0 {
		return nil, nil
	}
	p := w.machines[g.Master-1].process()
	if p == nil || !p.ready() {
		return nil, nil
	}
	if t := p.term.Load(); t.master && t.role.Epoch == g.MasterEpoch {
		return p, t
	}
	return nil, nil
}

// checkMaster: the present master has everything that was ever confirmed, and once it serves shows it (I3).
func (w *world) checkMaster() {
	p, t := w.current()
	if p == nil || p.node.Status().Role.Epoch != t.role.Epoch || !p.node.Status().Master {
		return
	}
	if end := p.st.Log.End(); end < w.truth.end() && p.st.Log.Poisoned() == nil {
		w.fail("r%d is master of epoch %d with a log up to %d; %d was confirmed", p.m.id, t.role.Epoch, end, w.truth.end())
		return
	}
	if p.verified < w.truth.end() && p.verified < p.st.Log.End() {
		w.truth.compare(p, min(w.truth.end(), p.st.Log.End()))
	}
}

// recovered notes that a machine has again what it may have lost.
func (m *machine) recovered() {
	m.w.ctl.mu.Lock()
	trusted := slices.Contains(m.w.ctl.group().SyncStateSet, m.id)
	m.w.ctl.mu.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lossAt == 1<<62 {
		m.lossAt = m.w.truth.end()
	}
	if m.wounded && m.p != nil && m.p.ready() && m.p.st.Confirmed() >= m.lossAt && !m.p.st.Torn() && trusted {
		m.wounded = false
	}
}

// checkEnd compares everything once more, with queues and state.
func (w *world) checkEnd() {
	for _, m := range w.machines {
		p := m.process()
		if p == nil {
			w.fail("r%d is down at the end", m.id)
			continue
		}
		p.verified = 0
		w.truth.compare(p, w.truth.end())
		for k, next := range w.truth.next {
			topic, id := splitQueue(k)
			q := p.st.Queues.Get(topic, id)
			if q == nil || q.Max() != next || q.Min() != 0 {
				w.fail("r%d: queue %s is not [0, %d): %v", m.id, k, next, q != nil)
				continue
			}
			if q.Next != next && p.leads() != nil {
				w.fail("r%d: queue %s goes on at %d, not at %d", m.id, k, q.Next, next)
			}
		}
		for _, r := range w.truth.at {
			topic, id := splitQueue(r.queue)
			if u, err := p.st.Queues.Get(topic, id).At(r.offset); err != nil || u.Phy != r.phy {
				w.fail("r%d: %s/%d leads to %d, not to %d: %v", m.id, r.queue, r.offset, u.Phy, r.phy, err)
			}
		}
		for k, want := range w.truth.offsets {
			topic, id := splitQueue(k)
			if got, _ := p.st.State.Offset("G", topic, id); got != want {
				w.fail("r%d: consumer offset of %s is %d, want %d", m.id, k, got, want)
			}
		}
	}
}
