package admin

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// pulledFrame is an answer with a header and a body.
type pulledFrame struct {
	head header.Appender
	body []byte
}

// servers answers the requests of a tool in place of servers. A value answers a code with
//
//	a string            the frame of that name in testdata/frames, which a RocketMQ server sent
//	an *answerError     a refusal
//	a header.Appender   a header
//	a pulledFrame       a header and a body
//	[]byte, or others   a body, or what becomes one
//	a function          what it returns for the address and the fields of the request
type servers struct {
	t       *testing.T
	answers map[code.Request]any
	asked   []string // "CODE address" of each request
}

func (s *servers) Call(_ context.Context, addr string, rc code.Request, h header.Appender, _ []byte) (*remoting.Reply, error) {
	s.asked = append(s.asked, rc.String()+" "+addr)
	answer, ok := s.answers[rc]
	if !ok {
		s.t.Fatalf("nobody answers %s to %s", rc, addr)
	}
	if f, ok := answer.(func(string, map[string]string) any); ok {
		answer = f(addr, fieldsOf(s.t, rc, h))
	}
	r := &remoting.Reply{}
	if err := r.Parse(frameOf(s.t, answer)[4:]); err != nil {
		s.t.Fatal(err)
	}
	return r, nil
}

func frameOf(t *testing.T, answer any) []byte {
	cmd := remoting.Command{Flag: 1}
	switch a := answer.(type) {
	case nil:
	case string:
		frame, err := os.ReadFile(filepath.Join("testdata", "frames", a+".bin"))
		if err != nil {
			t.Fatal(err)
		}
		return frame
	case *answerError:
		cmd.Code, cmd.Remark = int32(a.code), []byte(a.remark)
	case header.Appender:
		return remoting.AppendCommand(nil, &cmd, a, nil)
	case pulledFrame:
		return remoting.AppendCommand(nil, &cmd, a.head, a.body)
	case []byte:
		return remoting.AppendCommand(nil, &cmd, nil, a)
	default:
		return remoting.AppendCommand(nil, &cmd, nil, fastjson.Marshal(a))
	}
	return remoting.AppendCommand(nil, &cmd, nil, nil)
}

// fieldsOf is what a server would read of a request's header.
func fieldsOf(t *testing.T, rc code.Request, h header.Appender) map[string]string {
	var c remoting.Command
	if err := c.Parse(remoting.AppendCommand(nil, &remoting.Command{Code: int32(rc)}, h, nil)[4:]); err != nil {
		t.Fatal(err)
	}
	fields := map[string]string{}
	c.EachExt(func(key, value []byte) bool { fields[string(key)] = string(value); return true })
	return fields
}

// goldenTime is when the clock of these tests stands: a little after the outputs of testdata/golden were made.
var goldenTime = time.UnixMilli(1795968413044)

// play runs a command line against servers that answer as told. The name server is 127.0.0.1:39876.
func play(t *testing.T, line string, answers map[code.Request]any) (stdout string, s *servers, err error) {
	t.Helper()
	return playWith(t, answers, func(tool *tool) error { return tool.start(strings.Split(line, " "), "127.0.0.1:39876", tool.out) })
}

// playWith has f use a tool.
func playWith(t *testing.T, answers map[code.Request]any, f func(*tool) error) (stdout string, s *servers, err error) {
	t.Helper()
	var out bytes.Buffer
	s = &servers{t: t, answers: answers}
	tool := &tool{ctx: t.Context(), clk: clock.NewManual(goldenTime), zone: time.UTC, out: bufio.NewWriter(&out), client: s, tmp: t.TempDir()}
	err = f(tool)
	_ = tool.out.Flush()
	return strings.ReplaceAll(out.String(), tool.tmp, "/tmp/rocketmq"), s, err
}

// golden is what RocketMQ's tool printed.
func golden(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "golden", name+".out"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares outputs line by line: blank lines at the end do not count, since the shell's $(…) drops them.
func same(t *testing.T, want, got string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(strings.TrimRight(want, "\n "), "\n"), strings.Split(strings.TrimRight(got, "\n "), "\n")); diff != "" {
		t.Errorf("-RocketMQ +Castor:\n%s", diff)
	}
}

// sorted is for outputs whose order is that of a hash table in Java.
func sorted(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
