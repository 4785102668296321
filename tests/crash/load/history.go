package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
)

// id names one attempt to send one message. As text it is also the message's unique key, then of the first attempt.
type id struct {
	run, conn int32
	seq       int64
}

func (i id) String() string { return fmt.Sprintf("%d.%d.%d", i.run, i.conn, i.seq) }

func parseID(text string) (i id, err error) {
	var r, c int64
	run, rest, _ := strings.Cut(text, ".")
	conn, seq, _ := strings.Cut(rest, ".")
	for _, part := range []struct {
		text string
		to   *int64
	}{{run, &r}, {conn, &c}, {seq, &i.seq}} {
		if *part.to, err = strconv.ParseInt(part.text, 10, 64); err != nil {
			return i, fmt.Errorf("%q names no attempt: %w", text, err)
		}
	}
	i.run, i.conn = int32(r), int32(c)
	return i, nil
}

// place is a queue.
type place struct {
	topic string
	queue int32
}

func (p place) String() string { return fmt.Sprintf("%s-%d", p.topic, p.queue) }

// attempt is one send.
type attempt struct {
	id
	place
	key    id    // the first attempt's
	offset int64 // that was acknowledged; -1 if none was
	stored int   // copies that the verifier has found
}

// Sizes of bodies in bytes. A large one is sometimes all that ends a segment.
const (
	smallBody  = 1200
	largeBody  = 100 << 10
	largeEvery = 300
)

// body returns the body of an attempt: its name, a space, and bytes that follow from the name.
func (i id) body() []byte {
	x := uint64(i.run)<<48 ^ uint64(i.conn)<<40 ^ uint64(i.seq) ^ 0x9E3779B97F4A7C15
	next := func() uint64 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		return x
	}
	next()
	size := next() % smallBody
	if next()%largeEvery == 0 {
		size = next() % largeBody
	}
	b := append([]byte(i.String()), ' ')
	for range size / 8 {
		b = binary.LittleEndian.AppendUint64(b, next())
	}
	return b
}

// commit is what is known of a consumer offset: the last one answered, -1 if none was, and the last one asked for.
type commit struct{ answered, asked int64 }

// history is what clients know: the attempts in the order in which they were sent, offsets and topics.
type history struct {
	byID     map[id]*attempt
	attempts []*attempt
	topics   map[string]int32 // queues by topic, of answered creations
	asked    map[string]bool  // topics whose creation was asked for
	commits  map[place]*commit
}

// Kinds of lines in the log, by their first word.
const (
	lineSent      = "sent"      // ID TOPIC QUEUE KEY
	lineAcked     = "acked"     // ID OFFSET
	lineRefused   = "refused"   // ID ERROR: any answer but SUCCESS
	lineTopic     = "topic"     // TOPIC QUEUES: creation asked for
	lineCreated   = "created"   // TOPIC QUEUES: creation answered
	lineCommit    = "commit"    // TOPIC QUEUE OFFSET: asked for
	lineCommitted = "committed" // TOPIC QUEUE OFFSET: answered
)

// readHistory reads a log; none is an empty one.
func readHistory(path string) (*history, error) {
	h := &history{byID: map[id]*attempt{}, topics: map[string]int32{}, asked: map[string]bool{}, commits: map[place]*commit{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if err := h.apply(lines.Text()); err != nil {
			return nil, fmt.Errorf("%s line %d: %w", path, n, err)
		}
	}
	return h, lines.Err()
}

func (h *history) apply(line string) error {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case lineSent, lineAcked:
		return h.applySend(kind, strings.Fields(rest))
	case lineRefused: // for who reads it
		return nil
	case lineTopic, lineCreated:
		var topic string
		var queues int32
		_, err := fmt.Sscan(rest, &topic, &queues)
		if h.asked[topic] = true; kind == lineCreated {
			h.topics[topic] = queues
		}
		return err
	case lineCommit, lineCommitted:
		var p place
		var offset int64
		_, err := fmt.Sscan(rest, &p.topic, &p.queue, &offset)
		c := h.commits[p]
		if c == nil {
			c = &commit{answered: -1}
			h.commits[p] = c
		}
		if c.asked = offset; kind == lineCommitted {
			c.answered = offset
		}
		return err
	}
	return fmt.Errorf("%q is no kind of line", kind)
}

// applySend avoids Sscan's cost: most lines are of these kinds.
func (h *history) applySend(kind string, words []string) error {
	if kind == lineSent && len(words) != 4 || kind == lineAcked && len(words) != 2 {
		return fmt.Errorf("%d words", len(words))
	}
	i, err := parseID(words[0])
	if err != nil {
		return err
	}
	if kind == lineAcked {
		if h.byID[i] == nil {
			return fmt.Errorf("%s was never sent", i)
		}
		h.byID[i].offset, err = strconv.ParseInt(words[1], 10, 64)
		return err
	}
	queue, err := strconv.ParseInt(words[2], 10, 32)
	if err != nil {
		return err
	}
	key, err := parseID(words[3])
	a := &attempt{id: i, place: place{words[1], int32(queue)}, key: key, offset: -1}
	h.byID[i] = a
	h.attempts = append(h.attempts, a)
	return err
}

// unanswered returns the last attempts of messages that were never acknowledged, in the order of their sending.
func (h *history) unanswered() []*attempt {
	last := map[id]*attempt{}
	acked := map[id]bool{}
	for _, a := range h.attempts {
		last[a.key] = a
		acked[a.key] = acked[a.key] || a.offset >= 0
	}
	var all []*attempt
	for _, a := range h.attempts {
		if last[a.key] == a && !acked[a.key] {
			all = append(all, a)
		}
	}
	return all
}

// recorder appends to a log. Nobody kills this process, so lines are written when the buffer is full and at the end.
type recorder struct {
	mu sync.Mutex
	f  *os.File
	w  *bufio.Writer
}

func openRecorder(path string) (*recorder, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	return &recorder{f: f, w: bufio.NewWriter(f)}, nil
}

// note writes one line. A write that fails makes close fail.
func (r *recorder) note(words ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(r.w, words...)
}

func (r *recorder) close() error {
	return errors.Join(r.w.Flush(), r.f.Close())
}
