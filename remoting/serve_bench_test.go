package remoting

import (
	"bytes"
	"net"
	"testing"
	"time"

	"go.uber.org/zap"
)

// sink is a transport that takes everything.
type sink struct{ n int }

func (s *sink) trySend(p []byte) (int, error)    { s.n += len(p); return len(p), nil }
func (s *sink) send(p []byte, _ time.Time) error { s.n += len(p); return nil }
func (s *sink) close()                           {}
func (s *sink) abort()                           {}

func sinkConn(h Handler) *Conn {
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	own := newOwner(h)
	return newConn(&own, &sink{}, addr, addr)
}

// BenchmarkServe is a SEND from the bytes of a read to the bytes of the reply, without system calls: 32 in one read.
func BenchmarkServe(b *testing.B) {
	c := sinkConn(NewRouter(zap.NewNop(), loopTable))
	p := bytes.Repeat(sendFrame(1024), 32)
	b.ReportAllocs()
	start := usage()
	for b.Loop() {
		if err := c.onData(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((usage()-start).Nanoseconds())/float64(b.N)/32, "cpu-ns/msg")
}
