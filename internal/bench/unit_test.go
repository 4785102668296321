package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait"))
}

// A frame is patched, not built: every field must be the one asked for, at every width of the queue id.
func TestFrames(t *testing.T) {
	f, err := newFrames("Topic", "broker-a", 20_000, 100)
	if err != nil {
		t.Fatal(err)
	}
	var stream []byte
	var want []outgoing
	for i, queue := range []int32{0, 9, 10, 99, 100, 999, 1000, 9999, 10_000, 19_999} {
		m := outgoing{opaqueBase + int32(i)*7, queue, 1_800_000_000_123 + int64(i), 1<<47 - int64(i), int64(i) << 40}
		want = append(want, m)
		stream = f.append(stream, &m)
	}
	in := newFrameReader(bytes.NewReader(stream))
	for i, m := range want {
		frame := mustNext(t, in)
		var cmd remoting.Command
		if err := cmd.Parse(frame); err != nil {
			t.Fatal(err)
		}
		var h header.SendMessageRequestV2
		if err := cmd.Decode(&h); err != nil {
			t.Fatal(err)
		}
		if cmd.Code != int32(code.SendMessageV2) || cmd.Opaque != m.opaque || len(cmd.Body) != 100 {
			t.Fatalf("message %d: %+v", i, cmd)
		}
		props := message.Props(h.Properties).Map()
		wantProps := map[string]string{"UNIQ_KEY": fmt.Sprintf("%s%012X", keyPrefix, m.serial), "WAIT": "true"}
		if diff := cmp.Diff(wantProps, props); diff != "" {
			t.Fatal(diff)
		}
		if h.QueueID != m.queue || h.BornTimestamp != m.bornMs || h.Topic != "Topic" || h.BName != "broker-a" {
			t.Fatalf("message %d: %+v", i, h)
		}
		if int64(binary.BigEndian.Uint64(cmd.Body)) != m.stamp {
			t.Fatalf("message %d: stamp", i)
		}
	}
}

// javaSend is a frame that the official client sent. Ours has the same fields.
func TestFrameHasTheFieldsOfTheOfficialClient(t *testing.T) {
	keys := func(frame []byte) string {
		var c remoting.Command
		if err := c.Parse(frame[4:]); err != nil {
			t.Fatal(err)
		}
		var all []string
		c.EachExt(func(k, _ []byte) bool { all = append(all, string(k)); return true })
		return strings.Join(all, " ")
	}
	java, err := os.ReadFile("testdata/java-send.bin")
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFrames("T", "broker-a", 1, 8)
	if err != nil {
		t.Fatal(err)
	}
	ours := f.append(nil, &outgoing{opaque: opaqueBase})
	if diff := cmp.Diff(keys(java), keys(ours)); diff != "" {
		t.Fatal(diff)
	}
}

func mustNext(t *testing.T, in *frameReader) []byte {
	t.Helper()
	for {
		frame, err := in.next()
		if err != nil {
			t.Fatal(err)
		}
		if frame != nil {
			return frame
		}
		if err := in.fill(); err != nil {
			t.Fatal(err)
		}
	}
}

func javaReply(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/java-send-reply.bin")
	if err != nil {
		t.Fatal(err)
	}
	return b[4:]
}

// ourReply is an answer to a send as Castor writes it.
func ourReply(enc header.Encoding, opaque int32, queue int32, offset int64, id string) []byte {
	c := remoting.Command{Opaque: opaque, Flag: 1, Enc: enc}
	h := header.SendMessageResponse{MsgID: id, QueueID: queue, QueueOffset: offset}
	return remoting.AppendCommand(nil, &c, &h, nil)[4:]
}

const okID = "7F00000100009FCF00000000000000DA"

func TestReplyFormReadsJavasReplies(t *testing.T) {
	var f replyForm
	frame := javaReply(t)
	first, err := f.parse(frame)
	if err != nil {
		t.Fatal(err)
	}
	fast, ok := f.match(frame[4:])
	if !ok || fast != first {
		t.Fatalf("%+v %+v %v", first, fast, ok)
	}
	if first.code != 0 || first.opaque == 0 {
		t.Fatalf("%+v", first)
	}
}

// However replies vary, the fast way gives what the general parser gives.
func TestReplyFormAgreesWithTheParser(t *testing.T) {
	var learned replyForm
	rnd := rand.New(rand.NewPCG(1, 2))
	hits := 0
	for range 2000 {
		frame := ourReply(header.Encoding(rnd.IntN(50)/49), rnd.Int32(), rnd.Int32N(10_000), rnd.Int64N(1<<50)>>rnd.IntN(50), okID)
		if _, ok := learned.match(frame[4:]); ok {
			hits++
		}
		got, err := learned.parse(frame)
		if err != nil {
			t.Fatal(err)
		}
		want, err := new(replyForm).parse(frame)
		if err != nil || got != want {
			t.Fatalf("%+v %+v %v", got, want, err)
		}
	}
	if hits < 1900 {
		t.Fatalf("the form fits %d of 2000 replies", hits)
	}
}

func TestReplyFormRefuses(t *testing.T) {
	warm := func() *replyForm {
		f := &replyForm{}
		if _, err := f.parse(ourReply(header.JSON, 5, 1, 2, okID)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	request := remoting.AppendCommand(nil, &remoting.Command{Code: 310, Enc: header.JSON}, nil, nil)[4:]
	for name, frame := range map[string][]byte{
		"short id":        ourReply(header.JSON, 5, 1, 2, "7F"),
		"lower-case id":   ourReply(header.JSON, 5, 1, 2, strings.ToLower(okID)),
		"negative offset": ourReply(header.JSON, 5, 1, -2, okID),
		"request":         request,
		"cut off":         ourReply(header.JSON, 5, 1, 2, okID)[:50],
		"empty":           {},
	} {
		if r, err := warm().parse(frame); err == nil {
			t.Errorf("%s: %+v", name, r)
		}
	}
	busy := remoting.AppendCommand(nil, &remoting.Command{Code: 2, Flag: 1, Opaque: 9, Remark: []byte("busy")}, nil, nil)[4:]
	r, err := warm().parse(busy)
	if err != nil || r.code != code.SystemBusy || r.opaque != 9 || r.remark != "busy" {
		t.Errorf("%+v %v", r, err)
	}
}

func FuzzReplyForm(f *testing.F) {
	f.Add(javaReply(f))
	f.Add(ourReply(header.JSON, 5, 1, 2, okID))
	f.Add(ourReply(header.Binary, 5, 1, 2, okID))
	f.Fuzz(func(t *testing.T, frame []byte) {
		learned := &replyForm{}
		if _, err := learned.parse(ourReply(header.JSON, 5, 1, 2, okID)); err != nil {
			t.Fatal(err)
		}
		got, err := learned.parse(frame)
		want, wantErr := new(replyForm).parse(frame)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("%+v %v, %+v %v", got, err, want, wantErr)
		}
		again, err := learned.parse(frame)
		if again != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("after learning: %+v %v, %+v %v", again, err, want, wantErr)
		}
	})
}

func TestFrameReader(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i := range 60 {
		frame := bytes.Repeat([]byte{byte(i)}, 4+i*i*100)
		want = append(want, frame)
		stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(frame))), frame...)
	}
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "half": iotest.HalfReader(bytes.NewReader(stream)),
		"data with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		in := newFrameReader(r)
		for i, w := range want {
			if got := mustNext(t, in); !bytes.Equal(got, w) {
				t.Fatalf("%s: frame %d has %d bytes, want %d", name, i, len(got), len(w))
			}
		}
		if err := in.fill(); err != io.EOF {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestFrameReaderRefusesLengths(t *testing.T) {
	for _, size := range []uint32{0, 3, remoting.MaxFrame, 1 << 31, 1<<32 - 1} {
		in := newFrameReader(bytes.NewReader(binary.BigEndian.AppendUint32(nil, size)))
		if err := in.fill(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.next(); err == nil {
			t.Errorf("a frame of %d bytes is accepted", size)
		}
	}
}

func TestOffsetSetAgainstAModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 15 {
		sets := [2]offsetSet{}
		models := [2]map[int64]bool{{}, {}}
		base := rnd.Int64N(1 << 40)
		for range 2000 {
			i, offset := rnd.IntN(2), base+rnd.Int64N(10_000)
			if isNew := sets[i].add(offset); isNew == models[i][offset] {
				t.Fatalf("offset %d: new is %v", offset, isNew)
			}
			models[i][offset] = true
		}
		twice := int64(0)
		for offset := range models[1] {
			if models[0][offset] {
				twice++
			}
			models[0][offset] = true
		}
		if got := sets[0].merge(&sets[1]); got != twice {
			t.Fatalf("%d twice, want %d", got, twice)
		}
		low, high := int64(1)<<62, int64(0)
		for offset := range models[0] {
			low, high = min(low, offset), max(high, offset)
		}
		if got, want := sets[0].gaps(), high-low+1-int64(len(models[0])); got != want {
			t.Fatalf("%d gaps, want %d", got, want)
		}
	}
	if got := new(offsetSet).gaps(); got != 0 {
		t.Fatalf("%d gaps in nothing", got)
	}
}

func TestTally(t *testing.T) {
	a, b := newTally(), newTally()
	start := time.Unix(100, 0)
	for i := range 100 {
		to := &a
		if i%2 == 1 {
			to = &b
		}
		to.count(time.Duration(i+1)*time.Millisecond, start.Add(time.Duration(i)))
	}
	b.count(time.Hour, start.Add(99)) // over the largest value
	b.fail(code.SystemBusy)
	b.violate("wrong %d", 1)
	b.violate("wrong %d", 2)
	a.add(&b)
	got := a.result(2*time.Second, cpuTimes{brokers: 1010 * time.Millisecond, client: 101 * time.Millisecond})
	want := &Result{
		Messages: 101, Seconds: 2, Rate: 50.5, BrokerCPU: 10_000, ClientCPU: 1000, Errors: map[string]int64{"2": 1},
		Violations: 2, FirstViolation: "wrong 1",
		Latency: LatencyResult{P50: 51e3, P90: 91e3, P99: 100e3, P999: 300e6, Max: 300e6},
	}
	near := cmp.Comparer(func(x, y float64) bool { return x == y || max(x, y)/min(x, y) < 1.002 }) // three digits
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Fatal(diff)
	}
	if !a.last.Equal(start.Add(99)) {
		t.Fatalf("last %v", a.last)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a b) c) S 1 42 42 0 -1 4194560 10 0 0 0 150 25 7 8 20 0 1 0 100 1000 200"
	if got, err := parseStat([]byte(line)); err != nil || got != 1750*time.Millisecond {
		t.Fatalf("%v %v", got, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", strings.Replace(line, "150", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSharePerConn(t *testing.T) {
	for _, messages := range []int64{1, 7, 64, 1000} {
		sum := int64(0)
		for i := range 8 {
			sum += sharePerConn(messages, i, 8)
		}
		if sum != messages {
			t.Errorf("%d of %d", sum, messages)
		}
	}
}

func BenchmarkReplyForm(b *testing.B) {
	var f replyForm
	frame := javaReply(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.parse(frame); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFrame(b *testing.B) {
	f, err := newFrames("Topic", "broker-a", 8, 1024)
	if err != nil {
		b.Fatal(err)
	}
	var dst []byte
	m := outgoing{opaque: opaqueBase, bornMs: 1_800_000_000_123}
	b.ReportAllocs()
	for b.Loop() {
		dst = f.append(dst[:0], &m)
	}
}
