package robust

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// peer is a bare connection: it can send what no client would.
type peer struct {
	t  testing.TB
	nc *net.TCPConn
	r  *bufio.Reader
}

// dial opens a connection that is closed with the test at the latest.
func dial(t testing.TB, addr string) *peer {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(2 * patience))
	return &peer{t, nc.(*net.TCPConn), bufio.NewReaderSize(nc, 64<<10)}
}

func (p *peer) close() { _ = p.nc.Close() }

// write sends bytes. That the server has closed the connection is no error.
func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.nc.Write(b); err != nil && !hungUp(err) {
		p.t.Fatal(err)
	}
}

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// reply reads one frame.
func (p *peer) reply() (*remoting.Command, error) {
	var word [4]byte
	if _, err := io.ReadFull(p.r, word[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(word[:])
	if n < 4 || n > remoting.MaxFrame-4 {
		return nil, fmt.Errorf("the server sent a frame of %d bytes", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(p.r, frame); err != nil {
		return nil, err
	}
	cmd := new(remoting.Command)
	return cmd, cmd.Parse(frame)
}

// mustReply reads one answer.
func (p *peer) mustReply() *remoting.Command {
	p.t.Helper()
	cmd, err := p.reply()
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	return cmd
}

// mustClose checks that the server ends the connection, whatever it says before.
func (p *peer) mustClose(what string) {
	p.t.Helper()
	for {
		cmd, err := p.reply()
		switch {
		case err == nil && !cmd.IsResponse():
			p.t.Errorf("%s: the server sent request %d", what, cmd.Code)
		case err == nil:
			p.t.Errorf("%s: answered %d %.100q instead of closed", what, cmd.Code, cmd.Remark)
			return
		case hungUp(err):
			return
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.t.Errorf("%s: the connection stays open", what)
			return
		default:
			p.t.Errorf("%s: %v", what, err)
			return
		}
	}
}

// ask sends one request and returns its answer.
func (p *peer) ask(enc header.Encoding, rc int32, f fields, body []byte) *remoting.Command {
	p.t.Helper()
	p.write(request(enc, rc, 7, f, body))
	return p.mustReply()
}

// alive checks that the connection is still served: an unknown code is answered so.
func (p *peer) alive(what string) {
	p.t.Helper()
	const opaque = 0x7ABBCCDD
	p.write(request(header.JSON, 9999, opaque, nil, nil))
	for {
		cmd, err := p.reply()
		if err != nil {
			p.t.Errorf("%s: the connection is dead: %v", what, err)
			return
		}
		if cmd.Opaque != opaque {
			continue
		}
		if code.Response(cmd.Code) != code.RequestCodeNotSupported {
			p.t.Errorf("%s: code 9999 was answered %d", what, cmd.Code)
		}
		return
	}
}

// fields are ext fields: names and values in turn.
type fields []string

// AppendFields writes them.
func (f fields) AppendFields(w *header.Writer) {
	for i := 0; i+1 < len(f); i += 2 {
		w.String(f[i], f[i+1])
	}
}

// request is a whole frame.
func request(enc header.Encoding, rc, opaque int32, h header.Appender, body []byte) []byte {
	return remoting.AppendCommand(nil, &remoting.Command{Code: rc, Opaque: opaque, Enc: enc}, h, body)
}

// oneway is a frame that wants no answer.
func oneway(enc header.Encoding, rc int32, h header.Appender, body []byte) []byte {
	return remoting.AppendCommand(nil, &remoting.Command{Code: rc, Flag: 2, Enc: enc}, h, body)
}

// rawFrame is a frame with any header: length and header word are right.
func rawFrame(enc byte, head, body []byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(4+len(head)+len(body)))
	f = binary.BigEndian.AppendUint32(f, uint32(enc)<<24|uint32(len(head)))
	return append(append(f, head...), body...)
}

// both are the two encodings.
var both = []header.Encoding{header.JSON, header.Binary}
