package remoting

import (
	"context"
	"fmt"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// Reply is the answer to a call. It owns its bytes.
type Reply struct {
	Command
}

// Err returns the reply's code as an error, nil for SUCCESS.
func (r *Reply) Err() error {
	if code.Response(r.Code) == code.Success {
		return nil
	}
	return code.New(code.Response(r.Code), "%s", r.Remark)
}

// call waits for one reply.
type call struct {
	done func(*Reply, error) // called exactly once
}

func (c *call) fail(err error) { c.done(nil, err) }

// Oneway sends a request that wants no reply. It does not block; an error means that the connection is closed.
func (c *Conn) Oneway(rc code.Request, h header.Appender, body []byte) error {
	cmd := Command{Code: int32(rc), Flag: flagOneway, Opaque: c.nextOpaque(), Enc: c.Encoding()}
	if err := c.enqueue(&cmd, h, Bytes(body)); err != nil {
		return err
	}
	c.Flush()
	return nil
}

// Go sends a request and calls done once: with the reply, on the goroutine that read it, or with an error when the connection
// closes. done must not block. The returned function forgets the call; done is then never called.
func (c *Conn) Go(rc code.Request, h header.Appender, body []byte, done func(*Reply, error)) (forget func()) {
	cmd := Command{Code: int32(rc), Opaque: c.nextOpaque(), Enc: c.Encoding()}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		done(nil, ErrClosed)
		return func() {}
	}
	if c.calls == nil {
		c.calls = make(map[int32]*call)
	}
	c.calls[cmd.Opaque] = &call{done: done}
	c.mu.Unlock()
	if err := c.enqueue(&cmd, h, Bytes(body)); err != nil {
		if one := c.takeCall(cmd.Opaque); one != nil {
			one.fail(err)
		}
		return func() {}
	}
	c.Flush()
	return func() { c.takeCall(cmd.Opaque) }
}

// Call sends a request and waits for its reply or the end of ctx. A reply with an error code is returned as a reply; see
// Reply.Err.
func (c *Conn) Call(ctx context.Context, rc code.Request, h header.Appender, body []byte) (*Reply, error) {
	type result struct {
		r   *Reply
		err error
	}
	ch := make(chan result, 1)
	forget := c.Go(rc, h, body, func(r *Reply, err error) { ch <- result{r, err} })
	select {
	case got := <-ch:
		return got.r, got.err
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("%s to %s: %w", rc, c.remote, ctx.Err())
	}
}

func (c *Conn) nextOpaque() int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opaque++
	return c.opaque
}

func (c *Conn) takeCall(opaque int32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.calls[opaque]
	delete(c.calls, opaque)
	return one
}

// onReply completes the call that a reply belongs to. A reply that nobody waits for is dropped.
func (c *Conn) onReply(cmd *Command) {
	one := c.takeCall(cmd.Opaque)
	if one == nil {
		return
	}
	r := &Reply{Command: *cmd}
	r.Body = append([]byte(nil), cmd.Body...)
	r.Remark = append([]byte(nil), cmd.Remark...)
	r.ext = append([]byte(nil), cmd.ext...)
	r.scratch = nil
	one.done(r, nil)
}
