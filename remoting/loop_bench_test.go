package remoting

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudwego/netpoll"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// The loop benchmarks compare what can read plain connections: a server in a process of its own, this process as its client.
// They print, besides the rate, the CPU time that each side spends per message, and what an idle connection costs in memory.
//
//	go test -run xxx -bench Loop -benchtime 100000x -count 9 ./remoting/
const loopServerEnv = "CASTOR_LOOP_SERVER"

var loops = []string{"netpoll", "netpoll-goroutine", "std"}

func BenchmarkLoop(b *testing.B) {
	for _, loop := range loops {
		for _, load := range []struct {
			conns, inFlight int
			coalesce        bool
		}{{1, 1, false}, {1, 64, false}, {1, 64, true}, {64, 1, false}, {64, 64, false}, {64, 64, true}} {
			name := fmt.Sprintf("%s/conns=%d/inflight=%d/coalesce=%v", loop, load.conns, load.inFlight, load.coalesce)
			b.Run(name, func(b *testing.B) {
				addr := startLoopServer(b, loop)
				frame := sendFrame(1024)
				control := dialRaw(b, addr)
				cpu := func() time.Duration { d, _ := askUsage(b, control); return d }
				runLoad(b, addr, frame, load.conns, load.inFlight, load.coalesce, int64(min(b.N, 20000))) // warm up
				server, client := cpu(), usage()
				b.ResetTimer()
				runLoad(b, addr, frame, load.conns, load.inFlight, load.coalesce, int64(b.N))
				b.StopTimer()
				perMsg := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(b.N) }
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
				b.ReportMetric(perMsg(cpu()-server), "server-µs/msg")
				b.ReportMetric(perMsg(usage()-client), "client-µs/msg")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkLoopIdle opens connections that send one message each and then nothing.
func BenchmarkLoopIdle(b *testing.B) {
	const conns = 5000
	for _, loop := range loops {
		b.Run(loop, func(b *testing.B) { // once, whatever b.N is: descriptors are few
			addr := startLoopServer(b, loop)
			control := dialRaw(b, addr)
			frame := sendFrame(1024)
			_, before := askUsage(b, control)
			for range conns {
				nc := dialRaw(b, addr)
				if _, err := nc.Write(frame); err != nil {
					b.Fatal(err)
				}
				readFrame(b, nc)
			}
			_, after := askUsage(b, control)
			b.ReportMetric((float64(after)-float64(before))/conns/1024, "KiB/conn")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// sendFrame is SEND_MESSAGE_V2 with the JSON header of a Java producer.
func sendFrame(body int) []byte {
	h := &header.SendMessageRequestV2{
		ProducerGroup: "PG-bench", Topic: "BenchTopic", DefaultTopic: "TBW102", DefaultTopicQueueNums: 4, QueueID: 3,
		BornTimestamp: 1795967458853, Properties: "UNIQ_KEY\x017F00000100009FCF0000000000023B81\x02WAIT\x01true\x02TAGS\x01TagA\x02",
		ReconsumeTimes: header.Some[int32](0), UnitMode: header.Some(false), MaxReconsumeTimes: header.Some[int32](0),
		Batch: header.Some(false), BName: "broker-a",
	}
	return AppendCommand(nil, &Command{Code: int32(code.SendMessageV2), Opaque: 123456}, h, make([]byte, body))
}

var sendResponses = sync.Pool{New: func() any { return new(header.SendMessageResponse) }}

var loopTable = []Route{
	{Code: code.SendMessageV2, Serve: On(func(r *Request, h *header.SendMessageRequest) error {
		p := sendResponses.Get().(*header.SendMessageResponse)
		p.MsgID, p.QueueID, p.QueueOffset = "7F00000100009FCF0000000000023B81", h.QueueID, int64(len(r.Body))
		err := r.OK(p, nil)
		sendResponses.Put(p)
		return err
	})},
	{Code: code.HeartBeat, Serve: func(r *Request) error {
		return r.OK(nil, binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(usage())), resident()))
	}},
}

// usage is the CPU time of this process.
func usage() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this process in bytes.
func resident() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, pages uint64
	_, _ = fmt.Sscan(string(text), &size, &pages) // 0 if it is not Linux's
	return pages * uint64(os.Getpagesize())
}

func askUsage(b *testing.B, nc net.Conn) (cpu time.Duration, memory uint64) {
	if _, err := nc.Write(AppendCommand(nil, &Command{Code: int32(code.HeartBeat)}, nil, nil)); err != nil {
		b.Fatal(err)
	}
	var c Command
	if err := c.Parse(readFrame(b, nc)); err != nil {
		b.Fatal(err)
	}
	return time.Duration(binary.BigEndian.Uint64(c.Body)), binary.BigEndian.Uint64(c.Body[8:])
}

func readFrame(t testing.TB, nc net.Conn) []byte {
	t.Helper()
	var n [4]byte
	if _, err := io.ReadFull(nc, n[:]); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(n[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		t.Fatal(err)
	}
	return frame
}

func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// runLoad sends total messages over conns connections, each with inFlight messages unanswered at a time.
func runLoad(b *testing.B, addr string, frame []byte, conns, inFlight int, coalesce bool, total int64) {
	var left atomic.Int64
	left.Store(total)
	var wg sync.WaitGroup
	for range conns {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			defer nc.Close() //nolint:errcheck // read to the end
			if err := load(nc, frame, inFlight, coalesce, &left); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// load keeps one connection busy until no message is left.
func load(nc net.Conn, frame []byte, inFlight int, coalesce bool, left *atomic.Int64) error {
	row := make([]byte, 0, inFlight*len(frame))
	for range inFlight {
		row = append(row, frame...)
	}
	send := func(n int) error {
		for step := len(frame); n > 0; n -= step / len(frame) {
			if coalesce {
				step = n * len(frame)
			}
			if _, err := nc.Write(row[:step]); err != nil {
				return err
			}
		}
		return nil
	}
	take := func(n int) int {
		after := left.Add(int64(-n))
		return max(0, n+int(min(after, 0)))
	}
	buf, have := make([]byte, 256<<10), 0
	for out, next := 0, take(inFlight); out+next > 0; {
		if err := send(next); err != nil {
			return err
		}
		out += next
		n, err := nc.Read(buf[have:])
		if err != nil {
			return err
		}
		have += n
		done, off := 0, 0
		for have-off >= 4 && have-off >= 4+int(binary.BigEndian.Uint32(buf[off:])) {
			off += 4 + int(binary.BigEndian.Uint32(buf[off:]))
			done++
		}
		have = copy(buf, buf[off:have])
		out -= done
		next = take(done)
	}
	return nil
}

func startLoopServer(b *testing.B, loop string) (addr string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), loopServerEnv+"="+loop)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close() // the server ends with its input
		_ = cmd.Wait()
	})
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(string(buf[:n]))
}

// loopServer is the child process.
func loopServer() {
	if path := os.Getenv(loopServerEnv + "_PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			panic(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			panic(err)
		}
		defer pprof.StopCPUProfile()
	}
	rt := NewRouter(zap.NewNop(), loopTable)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	if loop := os.Getenv(loopServerEnv); loop == "netpoll-goroutine" {
		go netpollDefault(ctx, rt, done)
	} else {
		srv, err := NewServer(ServerConfig{Addr: "127.0.0.1:0", Loop: loop}, rt, zap.NewNop())
		if err != nil {
			panic(err)
		}
		fmt.Println(srv.Addr())
		go func() {
			defer close(done)
			if err := srv.Run(ctx); err != nil {
				panic(err)
			}
		}()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	<-done
}

// netpollDefault is netpoll as its documentation uses it: each readable connection is handled by a goroutine of its pool.
func netpollDefault(ctx context.Context, h Handler, done chan struct{}) {
	defer close(done)
	ln, err := netpoll.CreateListener("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	own := newOwner(h)
	type key struct{}
	el, err := netpoll.NewEventLoop(func(ctx context.Context, pc netpoll.Connection) error {
		r := pc.Reader()
		b, err := r.Next(r.Len())
		if err == nil {
			err = ctx.Value(key{}).(*Conn).onData(b)
		}
		_ = r.Release()
		return err
	}, netpoll.WithOnPrepare(func(pc netpoll.Connection) context.Context {
		p := &polled{conn: pc, fd: pc.(netpoll.Conn).Fd()}
		return context.WithValue(context.Background(), key{}, newConn(&own, p, pc.LocalAddr(), pc.RemoteAddr()))
	}))
	if err != nil {
		panic(err)
	}
	go func() {
		<-ctx.Done()
		_ = el.Shutdown(context.Background())
	}()
	_ = el.Serve(ln)
}
