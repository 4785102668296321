package remoting

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/remoting/code"
)

// TestOldestUnfinishedFramesGo: when all peers together have sent too much of frames that do not end, those go that have begun first.
// A frame that is just arriving is served, and so is who sends whole ones.
func TestOldestUnfinishedFramesGo(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, err := NewServer(ServerConfig{Addr: "127.0.0.1:0", Loop: loop}, table(echoTable...), zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		srv.maxKept = 1 << 20
		run(t, srv)
		frame := AppendCommand(nil, &Command{Code: int32(code.HeartBeat), Opaque: 7}, nil, make([]byte, 200<<10))
		part := frame[:len(frame)-1]
		var peers []net.Conn
		for range 12 {
			nc := dialRaw(t, srv.at())
			peers = append(peers, nc)
			before := srv.kept.Load()
			if _, err := nc.Write(part); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the part to arrive", func() bool { return srv.kept.Load() >= before+int64(len(part)) || srv.kept.Load() < before })
			eventually(t, "room", func() bool { return srv.kept.Load() <= srv.maxKept })
		}
		if got := mustClose(t, peers[0]); len(got) > 0 {
			t.Fatalf("%q", got)
		}
		last := peers[len(peers)-1]
		if _, err := last.Write(frame[len(part):]); err != nil {
			t.Fatal(err)
		}
		var cmd Command
		if err := cmd.Parse(readFrame(t, last)); err != nil || cmd.Opaque != 7 {
			t.Fatal(cmd, err)
		}
		if r, err := newClient(t, nil).Call(t.Context(), srv.at(), code.HeartBeat, nil, nil); err != nil || r.Code != 0 {
			t.Fatal(r, err)
		}
		for _, nc := range peers {
			_ = nc.Close()
		}
		eventually(t, "nothing is kept", func() bool { return srv.kept.Load() == 0 })
	})
}

// TestKeptOutputIsAccountedFor: answers that are not read count, and do not any more when they have been, or their peer has gone.
func TestKeptOutputIsAccountedFor(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		body := make([]byte, 8<<20) // more than the kernel takes
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error { return r.OK(nil, body) }}))
		ask := bytes.Repeat(request(1, 0), 4)
		deaf, reader := dialRaw(t, srv.at()), dialRaw(t, srv.at())
		for _, nc := range []net.Conn{deaf, reader} {
			if _, err := nc.Write(ask); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "answers that wait", func() bool { return srv.kept.Load() >= 1<<20 })
		for range 4 {
			readFrame(t, reader)
		}
		_ = deaf.Close()
		eventually(t, "nothing is kept", func() bool { return srv.kept.Load() == 0 })
	})
}

// TestPeerThatOnlyWritesLearnsOfTheEnd: one that sends nonsense and does not read is not left waiting for room.
func TestPeerThatOnlyWritesLearnsOfTheEnd(t *testing.T) {
	onBothLoops(t, func(t *testing.T, loop string) {
		srv, _ := startServer(t, ServerConfig{Loop: loop}, table(echoTable...))
		nc := dialRaw(t, srv.at())
		_ = nc.SetWriteDeadline(time.Now().Add(20 * time.Second))
		_, err := nc.Write(make([]byte, 64<<20)) // the length 0 ends the stream
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("written: %v", err)
		}
	})
}
