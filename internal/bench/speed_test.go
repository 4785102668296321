package bench

import (
	"encoding/binary"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/remoting/header"
)

// answerSends is a server that does as little as a server can: it answers every frame with a patched copy of one reply, one
// write for each read.
func answerSends(nc net.Conn) error {
	sends, err := newFrames("T", "", 1, 1024)
	if err != nil {
		return err
	}
	reply := ourReply(header.JSON, opaqueBase, 0, 1_000_000_000, okID)
	reply = append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...)
	var form replyForm
	if _, err := form.parse(reply[4:]); err != nil {
		return err
	}
	at := map[field]int{}
	for pos, i := 8, 0; i < len(form.parts)-1; i++ {
		pos += len(form.parts[i].text)
		at[form.parts[i].value] = pos
		pos += map[field]int{fieldOpaque: 10, fieldQueue: 1, fieldOffset: 10, fieldMsgID: len(okID)}[form.parts[i].value]
	}
	opaqueAt := sends.byWidth[1].opaque - 4
	in := newFrameReader(nc)
	var out []byte
	for offset := int64(1_000_000_000); ; {
		frame, err := in.next()
		if err != nil {
			return err
		}
		if frame == nil {
			if _, err := nc.Write(out); err != nil {
				return err
			}
			out = out[:0]
			if err := in.fill(); err != nil {
				return nil //nolint:nilerr // the client has ended
			}
			continue
		}
		start := len(out)
		out = append(out, reply...)
		copy(out[start+at[fieldOpaque]:], frame[opaqueAt:opaqueAt+10])
		putDecimal(out[start+at[fieldOffset]:start+at[fieldOffset]+10], offset)
		offset++
	}
}

// BenchmarkSend shows what the client itself can do, and what it costs, against a server that does next to nothing.
func BenchmarkSend(b *testing.B) {
	for _, coalesce := range []bool{false, true} {
		for _, inFlight := range []int{1, 64} {
			b.Run(fmt.Sprintf("coalesce=%v/inflight=%d", coalesce, inFlight), func(b *testing.B) {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				var g errgroup.Group
				g.Go(func() error {
					nc, err := listener.Accept()
					if err != nil {
						return err
					}
					return answerSends(nc)
				})
				l := &sendLoad{
					Topic: "T", Queues: 1, Size: 1024, Conns: 1, InFlight: inFlight, Coalesce: coalesce,
					Messages: int64(b.N), Duration: time.Hour,
				}
				r, err := runSend(b.Context(), &target{clk: clock.Real{}, addr: listener.Addr().String()}, l)
				if err != nil || r.Violations > 0 || r.Messages != int64(b.N) {
					b.Fatalf("%+v %v", r, err)
				}
				_ = listener.Close()
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.Rate, "msg/s")
			})
		}
	}
}
