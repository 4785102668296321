package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history is what clients have done and seen. Porcupine looks whether each queue, and each consumer offset, could have been one thing in one
// place: what was answered is seen by all who ask later.
type history struct {
	now int64 // counts beginnings and ends, so that their order is known
	ops []*op
}

// op is one call. It may have happened although its client never heard of it.
type op struct {
	kind     opKind
	key      string // of a queue, or of its consumer offset
	id       uint64 // of a message
	value    int64  // the message's offset, the queue's end, the consumer offset
	from, to int64  // to: 0 while it is not answered
}

type opKind byte

const (
	opSend   opKind = iota // appends a message; value is known when it is answered
	opTop                  // asks for the end of a queue
	opCommit               // sets a consumer offset
	opFetch                // asks for it
)

// begin notes that a client calls.
func (w *world) begin(kind opKind, key string, id uint64, value int64) *op {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.now++
	o := &op{kind: kind, key: key, id: id, value: value, from: w.history.now}
	w.history.ops = append(w.history.ops, o)
	return o
}

// end notes its answer.
func (w *world) end(o *op, value int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(o, value)
}

func (w *world) endLocked(o *op, value int64) {
	w.history.now++
	o.value, o.to = value, w.history.now
}

// operations is the history for porcupine, by key. A send that was not answered has happened if the log has the message, and counts from then on; a
// question without an answer says nothing.
func (w *world) operations() map[string][]porcupine.Operation {
	offsets := map[uint64]int64{}
	for _, r := range w.truth.at {
		offsets[r.id] = r.offset
	}
	out := map[string][]porcupine.Operation{}
	for _, o := range w.history.ops {
		o := *o
		if o.to == 0 {
			o.to = math.MaxInt64
			offset, happened := offsets[o.id]
			if o.kind == opSend && happened {
				o.value = offset
			} else if o.kind != opCommit {
				continue
			}
		}
		key := o.key
		if o.kind == opCommit || o.kind == opFetch {
			key += " of the group"
		}
		out[key] = append(out[key], porcupine.Operation{Input: o, Call: o.from, Return: o.to})
	}
	return out
}

// place is one queue, of which the state is the end, or one consumer offset.
var place = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		now, o := state.(int64), input.(op)
		switch o.kind {
		case opSend:
			return o.value == now, now + 1
		case opCommit:
			return true, o.value
		}
		return o.value == now, now
	},
}

// historyTime is how long porcupine may think about one key.
const historyTime = 10 * time.Second

// checkHistory returns what is wrong with the history of a run that has ended; empty: nothing.
func checkHistory(byKey map[string][]porcupine.Operation) string {
	for key, ops := range byKey {
		if result := porcupine.CheckOperationsTimeout(place, ops, historyTime); result != porcupine.Ok {
			_, info := porcupine.CheckOperationsVerbose(place, ops, historyTime)
			n := 0 // of the operations that can be put in order
			for _, part := range info.PartialLinearizationsOperations() {
				for _, line := range part {
					n = max(n, len(line))
				}
			}
			return fmt.Sprintf("the history of %s cannot have happened in one place (%v): of %d operations %d can be put in order", key, result, len(ops), n)
		}
	}
	return ""
}

// TestHistory: what cannot have happened in one place is found, and what nobody was told of may have happened or not.
func TestHistory(t *testing.T) {
	send := func(id uint64, offset, from, to int64) *op { return &op{opSend, "Q", id, offset, from, to} }
	for name, tc := range map[string]struct {
		log  []uint64 // ids, by offset
		ops  []*op
		good bool
	}{
		"one after the other":           {[]uint64{1, 2}, []*op{send(1, 0, 1, 2), send(2, 1, 3, 4), {opTop, "Q", 0, 2, 5, 6}}, true},
		"an old end":                    {[]uint64{1, 2}, []*op{send(1, 0, 1, 2), send(2, 1, 3, 4), {opTop, "Q", 0, 1, 5, 6}}, false},
		"an old end meanwhile":          {[]uint64{1, 2}, []*op{send(1, 0, 1, 2), send(2, 1, 3, 6), {opTop, "Q", 0, 1, 4, 5}}, true},
		"an end that was too early":     {[]uint64{1, 2}, []*op{send(1, 0, 1, 2), {opTop, "Q", 0, 2, 3, 4}, send(2, 1, 5, 6)}, false},
		"a later one before":            {[]uint64{2, 1}, []*op{send(1, 1, 1, 2), send(2, 0, 3, 4)}, false},
		"unanswered, and happened":      {[]uint64{1, 2}, []*op{send(1, 0, 1, 0), send(2, 1, 3, 4)}, true},
		"unanswered, and never":         {[]uint64{2}, []*op{send(1, 0, 1, 0), send(2, 0, 3, 4), {opTop, "Q", 0, 1, 5, 6}}, true},
		"a consumer offset is lost":     {nil, []*op{{opCommit, "Q", 0, 7, 1, 2}, {opFetch, "Q", 0, 0, 3, 4}}, false},
		"a consumer offset, unanswered": {nil, []*op{{opCommit, "Q", 0, 7, 1, 0}, {opFetch, "Q", 0, 0, 3, 4}, {opFetch, "Q", 0, 7, 5, 6}}, true},
		"it goes back":                  {nil, []*op{{opCommit, "Q", 0, 7, 1, 0}, {opFetch, "Q", 0, 7, 3, 4}, {opFetch, "Q", 0, 0, 5, 6}}, false},
	} {
		w := &world{history: history{ops: tc.ops}, truth: &truth{at: map[int64]*record{}}}
		for offset, id := range tc.log {
			w.truth.at[int64(offset)*100] = &record{id: id, offset: int64(offset)}
		}
		if wrong := checkHistory(w.operations()); (wrong == "") != tc.good {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
