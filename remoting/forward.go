package remoting

import (
	"context"
	"errors"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// forwarded are the ext fields of a command, to be written as the header of another one.
type forwarded struct {
	*Command
	also, value string // a field more; none if also is empty
}

// AppendFields implements header.Appender.
func (f forwarded) AppendFields(w *header.Writer) {
	f.EachExt(func(key, val []byte) bool {
		w.Bytes(string(key), val)
		return true
	})
	if f.also != "" {
		w.String(f.also, f.value)
	}
}

// ErrPassedOn is returned by Forward when the other server has not served the request, because it would have to forward it, too.
var ErrPassedOn = errors.New("the other server would have to forward the request, too")

// PassOn answers a request that was forwarded with mark: this server does not serve it either.
func (r *Request) PassOn(mark string) error {
	r.Reply(code.ServiceNotAvailable, ErrPassedOn.Error(), forwarded{Command: &Command{}, also: mark, value: "true"}, nil)
	return nil
}

// Forward sends the request as it came to another server, with the peer's address in the ext field mark, and answers with what comes
// back. It blocks. An error means that the request has not been answered: ErrPassedOn, a *code.Error if the other server does not take it now
// (SERVICE_NOT_AVAILABLE, SYSTEM_BUSY), or another one, and then whether the other server has carried it out is unknown.
func (cl *Client) Forward(ctx context.Context, addr string, r *Request, mark string) error {
	c, err := cl.Conn(ctx, addr)
	if err != nil {
		return err
	}
	h := forwarded{&r.Command, mark, r.Conn.RemoteAddr()}
	if r.IsOneway() {
		err := c.Oneway(code.Request(r.Code), h, r.Body)
		r.state = replied
		return err
	}
	sent := c.start(code.Request(r.Code), h, r.Body)
	r.GiveTurn()
	reply, err := sent.wait(ctx)
	if err != nil {
		return err
	}
	if _, passed := reply.Ext(mark); passed {
		return ErrPassedOn
	}
	switch code.Response(reply.Code) {
	case code.ServiceNotAvailable, code.SystemBusy:
		return reply.Err()
	}
	r.Reply(code.Response(reply.Code), string(reply.Remark), forwarded{Command: &reply.Command}, reply.Body)
	return nil
}
