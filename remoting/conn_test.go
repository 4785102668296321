package remoting

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/race"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// narrow is a transport that takes room bytes at once and the rest when it is told to.
type narrow struct {
	mu     sync.Mutex
	room   int
	got    []byte
	allow  chan struct{} // one per send
	closed chan struct{}
	once   sync.Once
}

func newNarrow(room int) *narrow {
	return &narrow{room: room, allow: make(chan struct{}), closed: make(chan struct{})}
}

func (n *narrow) trySend(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	k := min(n.room, len(p))
	n.room -= k
	n.got = append(n.got, p[:k]...)
	return k, nil
}

func (n *narrow) send(p []byte, deadline time.Time) error {
	select {
	case <-n.allow:
	case <-n.closed:
		return ErrClosed
	case <-time.After(time.Until(deadline)):
		return context.DeadlineExceeded
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, p...)
	return nil
}

func (n *narrow) abort() { n.close() }
func (n *narrow) close() { n.once.Do(func() { close(n.closed) }) }

// replies parses the whole frames that were sent: the opaque of each.
func (n *narrow) replies(t *testing.T) (opaques []int32) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	end := 0
	for len(n.got)-end >= 4 {
		size, err := frameLength(n.got[end:])
		if err != nil {
			t.Fatal(err)
		}
		if len(n.got)-end < 4+size {
			break
		}
		end += 4 + size
	}
	for _, c := range parseAll(t, n.got[:end]) {
		opaques = append(opaques, c.Opaque)
	}
	return opaques
}

func parseAll(t testing.TB, p []byte) (all []Command) {
	t.Helper()
	for len(p) > 0 {
		n, err := frameLength(p)
		if err != nil || len(p) < 4+n {
			t.Fatalf("%v, %d bytes left: %.100q", err, len(p), p)
		}
		var c Command
		if err := c.Parse(p[4 : 4+n]); err != nil {
			t.Fatal(err)
		}
		all, p = append(all, c), p[4+n:]
	}
	return all
}

// recorder writes down what is served and answers with the body.
type recorder struct {
	refuser
	served []string
}

func (s *recorder) Serve(r *Request) {
	s.served = append(s.served, fmt.Sprint(r.Code, r.Opaque, r.Enc, extOf(&r.Command), len(r.Body), bytes.Count(r.Body, []byte("x"))))
	_ = r.OK(nil, r.Body)
}

func connTo(h Handler, tr transport) *Conn {
	c := sinkConn(h)
	c.tr = tr
	return c
}

// feed gives stream to a fresh connection in pieces whose sizes cut returns.
func feed(stream []byte, cut func() int) (served []string, sent []byte, err error) {
	rec, out := &recorder{}, newNarrow(1<<30)
	c := connTo(rec, out)
	for len(stream) > 0 && err == nil {
		n := min(max(1, cut()), len(stream))
		err = c.onData(stream[:n:n])
		stream = stream[n:]
	}
	return rec.served, out.got, err
}

func checkFraming(t *testing.T, stream []byte, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	served, sent, err := feed(stream, func() int { return len(stream) })
	for _, mean := range []int{1, 7, 100, 5000} {
		s, out, e := feed(stream, func() int { return 1 + rnd.IntN(2*mean) })
		if !cmp.Equal(s, served) || !bytes.Equal(out, sent) || (e == nil) != (err == nil) {
			t.Fatalf("seed %d, pieces of %d: %d requests and %v, in one piece %d and %v", seed, mean, len(s), e, len(served), err)
		}
	}
}

func requestStream() (stream []byte) {
	for i := range int32(20) {
		stream = AppendCommand(stream, &Command{Code: 7, Opaque: i, Enc: header.Encoding(i % 2)}, fields{"k": strings.Repeat("v", int(i))}, bytes.Repeat([]byte("x"), int(i*i*i)))
	}
	return stream
}

func TestFramingDoesNotDependOnReads(t *testing.T) {
	stream := requestStream()
	if served, _, err := feed(stream, func() int { return 1 }); len(served) != 20 || err != nil {
		t.Fatal(len(served), err)
	}
	for seed := range uint64(5) {
		checkFraming(t, stream, seed)
	}
	checkFraming(t, append(requestStream(), 0, 0, 0, 3, 0, 0, 0), 1)
}

func FuzzFraming(f *testing.F) {
	f.Add(requestStream()[:600], uint64(1))
	f.Add([]byte{0, 0, 0, 4, 0, 0, 0, 0}, uint64(2))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, uint64(3))
	f.Add([]byte{0, 0xff, 0xff, 0xfc, 1}, uint64(4))
	f.Fuzz(checkFraming)
}

func TestAnnouncedLengthIsNotAllocated(t *testing.T) {
	c := sinkConn(&recorder{})
	if err := c.onData([]byte{0, 0xff, 0xff, 0xfc, 0, 0, 0, 2, '{'}); err != nil {
		t.Fatal(err)
	}
	if cap(c.in) > 1024 || !c.incomplete() {
		t.Fatalf("%d bytes for 9", cap(c.in))
	}
}

func TestServingAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools forget")
	}
	c := sinkConn(NewRouter(zap.NewNop(), loopTable))
	for _, enc := range []header.Encoding{header.JSON, header.Binary} {
		var in Command
		if err := in.Parse(sendFrame(1024)[4:]); err != nil {
			t.Fatal(err)
		}
		in.Enc = enc
		p := AppendCommand(nil, &in, extOf(&in), in.Body)
		half := len(p) / 2
		allocs := testing.AllocsPerRun(200, func() {
			if c.onData(p) != nil || c.onData(p[:half]) != nil || c.onData(p[half:]) != nil {
				t.Fatal("refused")
			}
		})
		if allocs != 0 {
			t.Errorf("encoding %d: %v allocations for a request in one read and one in two", enc, allocs)
		}
	}
}

func request(opaque int32, body int) []byte {
	return AppendCommand(nil, &Command{Code: int32(code.HeartBeat), Opaque: opaque}, nil, make([]byte, body))
}

// TestSlowPeerIsNotServed: what a peer does not read stops its requests, and only for so long.
func TestSlowPeerIsNotServed(t *testing.T) {
	const total = 100
	out := newNarrow(1000)
	served := 0
	c := connTo(handlerFunc(func(r *Request) {
		served++
		_ = r.OK(nil, r.Body)
	}), out)
	var stream []byte
	for i := range int32(total) {
		stream = append(stream, request(i, 32<<10)...)
	}
	mid := len(stream)/2 + 77
	for _, p := range [][]byte{stream[:mid], stream[mid:]} {
		if err := c.onData(p); err != nil {
			t.Fatal(err)
		}
	}
	if served < 8 || served > 18 {
		t.Fatalf("served %d requests of 32 KiB to a peer that takes 1000 bytes", served)
	}
	for done := false; !done; {
		select {
		case out.allow <- struct{}{}:
		case <-time.After(20 * time.Millisecond):
			done = len(out.replies(t)) >= total
		}
	}
	for i, o := range out.replies(t) {
		if o != int32(i) {
			t.Fatalf("reply %d is to request %d", i, o)
		}
	}
	c.senders.Wait()
	if c.slow || c.held || c.sending || c.incomplete() || len(c.in) > 0 {
		t.Fatal("not as before")
	}
}

type handlerFunc func(r *Request)

func (handlerFunc) Opened(*Conn)       {}
func (handlerFunc) BurstEnd()          {}
func (handlerFunc) Answered(Answer)    {}
func (handlerFunc) Closed(*Conn)       {}
func (f handlerFunc) Serve(r *Request) { f(r) }

func TestPeerThatOnlySendsIsRefused(t *testing.T) {
	out := newNarrow(0)
	c := connTo(handlerFunc(func(r *Request) { _ = r.OK(nil, r.Body) }), out)
	p := request(1, 1<<20)
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		err = c.onData(p)
	}
	if !errors.Is(err, errFlood) || n > 20 {
		t.Fatal(n, err)
	}
	c.Close()
	c.onClosed()
	c.senders.Wait()
}

func TestUnreadRepliesToParkedRequestsAreBounded(t *testing.T) {
	out := newNarrow(0)
	var tickets []Ticket
	c := connTo(handlerFunc(func(r *Request) { tickets = append(tickets, r.Park()) }), out)
	for i := range int32(100) {
		if err := c.onData(request(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	c.maxPending = 64 << 10
	body := Bytes(make([]byte, 1<<10))
	n := 0
	for _, tk := range tickets {
		tk.Reply(code.Success, "", nil, body)
		select {
		case <-out.closed:
		default:
			n++
		}
	}
	if n < 50 || n > 70 {
		t.Fatalf("closed after %d replies of 1 KiB", n)
	}
	c.onClosed()
	c.senders.Wait()
}

// TestRepliesInTheMiddleOfABurst: with a limit the peer gets the first replies before all that was read at once has been served.
func TestRepliesInTheMiddleOfABurst(t *testing.T) {
	for limit, want := range map[int64][]int{0: {0, 0, 0, 0, 0, 0}, 1: {0, 1, 2, 3, 4, 5}, 2500: {0, 0, 0, 3, 3, 3}, 1 << 20: {0, 0, 0, 0, 0, 0}} {
		out := newNarrow(1 << 30)
		var seen []int // replies that have left when a request comes
		c := connTo(handlerFunc(func(r *Request) {
			seen = append(seen, len(out.replies(t)))
			_ = r.OK(nil, nil)
		}), out)
		c.maxBurst.Store(limit)
		var p []byte
		for i := range int32(6) {
			p = append(p, request(i, 1000)...)
		}
		if err := c.onData(p); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(seen, want) || len(out.replies(t)) != 6 {
			t.Errorf("limit %d: %v, then %d", limit, seen, len(out.replies(t)))
		}
	}
}

// TestBadBodies: a handler's mistake costs one reply.
func TestBadBodies(t *testing.T) {
	out := newNarrow(1 << 30)
	bodies := map[int32]Body{1: bodyOf{5, 4}, 2: bodyOf{4, 5}, 3: bodyOf{5, -1}, 4: bodyOf{MaxFrame, MaxFrame}, 5: bodyOf{5, 5}}
	c := connTo(NewRouter(zap.NewNop(), []Route{{Code: code.HeartBeat, Serve: func(r *Request) error {
		r.ReplyBody(code.Success, "", nil, bodies[r.Opaque])
		return nil
	}}}), out)
	for i := int32(1); i <= 5; i++ {
		if err := c.onData(request(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	all := parseAll(t, out.got)
	for i, r := range all {
		if good := r.Opaque == 5; r.Opaque != int32(i+1) || good != (r.Code == int32(code.Success)) || !good && len(r.Remark) == 0 {
			t.Errorf("%d: code %d, %d bytes, %q", r.Opaque, r.Code, len(r.Body), r.Remark)
		}
	}
	if len(all) != 5 {
		t.Fatalf("%d replies", len(all))
	}
}

// bodyOf says one length and appends another; a negative one panics.
type bodyOf struct{ says, does int }

func (b bodyOf) Len() int                   { return b.says }
func (b bodyOf) AppendTo(dst []byte) []byte { return append(dst, make([]byte, b.does)...) }

func TestOnewayIsNeverAnswered(t *testing.T) {
	out := newNarrow(1 << 30)
	full := NewLane("full", 0, 0, 0)
	c := connTo(NewRouter(zap.NewNop(), []Route{
		{Code: 1, Serve: func(r *Request) error { return r.OK(nil, []byte("x")) }},
		{Code: 2, Serve: func(*Request) error { return errors.New("no") }},
		{Code: 3, Serve: func(*Request) error { panic("no") }},
		{Code: 4, Serve: func(*Request) error { return nil }},
		{Code: 5, Lane: full},
		{Code: 6, Serve: func(r *Request) error { r.Park().Reply(code.Success, "", nil, nil); return nil }},
	}), out)
	for rc := range int32(8) {
		p := AppendCommand(nil, &Command{Code: rc, Flag: flagOneway, Opaque: rc}, nil, nil)
		if err := c.onData(p); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.got) > 0 {
		t.Fatalf("answered %q", out.got)
	}
	for rc := range int32(8) {
		p := AppendCommand(nil, &Command{Code: rc, Opaque: rc}, nil, nil)
		if err := c.onData(p); err != nil {
			t.Fatal(err)
		}
	}
	want := map[int32]code.Response{0: code.RequestCodeNotSupported, 1: code.Success, 2: code.SystemError, 3: code.SystemError,
		4: code.SystemError, 5: code.SystemBusy, 6: code.Success, 7: code.RequestCodeNotSupported}
	got := map[int32]code.Response{}
	for _, r := range parseAll(t, out.got) {
		got[r.Opaque] = code.Response(r.Code)
		if !r.IsResponse() || r.Version != code.Current {
			t.Errorf("%+v", r)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

func TestCallsAreBoundedAndFailAtTheEnd(t *testing.T) {
	c := sinkConn(refuser{})
	var failed int
	var last error
	done := func(_ *Reply, err error) { failed, last = failed+1, err }
	forget := c.Go(code.HeartBeat, nil, nil, done)
	for range maxCalls - 1 {
		c.Go(code.HeartBeat, nil, nil, done)
	}
	if failed != 0 {
		t.Fatal(last)
	}
	if c.Go(code.HeartBeat, nil, nil, done); failed != 1 || !errors.Is(last, ErrTooManyCalls) {
		t.Fatal(failed, last)
	}
	forget()
	if c.Go(code.HeartBeat, nil, nil, done); failed != 1 {
		t.Fatal(last)
	}
	c.onClosed()
	if failed != 1+maxCalls || !errors.Is(last, ErrClosed) {
		t.Fatal(failed, last)
	}
	if c.Go(code.HeartBeat, nil, nil, done); failed != 2+maxCalls {
		t.Fatal(failed)
	}
	if err := c.Oneway(code.HeartBeat, nil, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func TestRequestOfOursThatIsTooLarge(t *testing.T) {
	out := newNarrow(1 << 30)
	c := connTo(refuser{}, out)
	if err := c.Oneway(code.HeartBeat, nil, make([]byte, MaxFrame)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), code.HeartBeat, nil, make([]byte, MaxFrame)); !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	if err := c.Oneway(code.HeartBeat, nil, []byte("x")); err != nil || len(parseAll(t, out.got)) != 1 || len(c.calls) > 0 {
		t.Fatal(err, len(c.calls))
	}
}

func TestOpaqueOfAWaitingCallIsNotUsedAgain(t *testing.T) {
	c := sinkConn(refuser{})
	var got []string
	c.Go(code.HeartBeat, nil, nil, func(r *Reply, err error) { got = append(got, "first "+string(r.Body)) })
	c.opaque = 0
	c.Go(code.HeartBeat, nil, nil, func(r *Reply, err error) { got = append(got, "second "+string(r.Body)) })
	for _, o := range []int32{2, 1, 1, 99} {
		p := AppendCommand(nil, &Command{Flag: flagResponse, Opaque: o}, nil, fmt.Append(nil, o))
		if err := c.onData(p); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"second 2", "first 1"}, got); d != "" {
		t.Fatal(d)
	}
}
