package remoting

import (
	"context"
	"fmt"
	"slices"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// maxCalls bounds the calls that wait on one connection (NettySystemConfig, clientAsyncSemaphoreValue).
const maxCalls = 65535

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

// Oneway sends a request that wants no reply. It does not block. Errors: ErrClosed, ErrTooLarge.
func (c *Conn) Oneway(rc code.Request, h header.Appender, body []byte) error {
	pending, _, err := c.request(&Command{Code: int32(rc), Flag: flagOneway}, h, body, nil)
	if err = c.limit(pending, err); err != nil {
		return err
	}
	c.Flush()
	return nil
}

// Go sends a request and calls done once: with the reply, on the goroutine that read it, or with an error (ErrClosed,
// ErrTooManyCalls, ErrTooLarge), maybe before Go returns. done must not block. The returned function forgets the call: if done
// has not been called yet it never is.
func (c *Conn) Go(rc code.Request, h header.Appender, body []byte, done func(*Reply, error)) (forget func()) {
	pending, opaque, err := c.request(&Command{Code: int32(rc)}, h, body, done)
	if err != nil {
		done(nil, err)
		return func() {}
	}
	if c.limit(pending, nil) == nil {
		c.Flush()
	}
	return func() { c.takeCall(opaque) }
}

// Call sends a request and waits for its reply or the end of ctx. A reply with an error code is returned as a reply; see
// Reply.Err.
func (c *Conn) Call(ctx context.Context, rc code.Request, h header.Appender, body []byte) (*Reply, error) {
	return c.start(rc, h, body).wait(ctx)
}

// call is a request that has been sent.
type call struct {
	c      *Conn
	rc     code.Request
	result chan result
	forget func()
}

type result struct {
	r   *Reply
	err error
}

func (c *Conn) start(rc code.Request, h header.Appender, body []byte) call {
	ch := make(chan result, 1)
	return call{c, rc, ch, c.Go(rc, h, body, func(r *Reply, err error) { ch <- result{r, err} })}
}

func (k call) wait(ctx context.Context) (*Reply, error) {
	select {
	case got := <-k.result:
		return got.r, got.err
	case <-ctx.Done():
		k.forget()
		return nil, fmt.Errorf("%s to %s: %w", k.rc, k.c.remote, ctx.Err())
	}
}

// request collects a request under an opaque of its own and registers done, which may be nil, for the reply.
func (c *Conn) request(cmd *Command, h header.Appender, body []byte, done func(*Reply, error)) (pending int, opaque int32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return 0, 0, ErrClosed
	case len(c.calls) >= maxCalls:
		return 0, 0, ErrTooManyCalls
	}
	for taken := true; taken; { // a call may wait for as long as it takes the numbers to come round
		c.opaque++
		_, taken = c.calls[c.opaque]
	}
	cmd.Opaque, cmd.Enc = c.opaque, c.Encoding()
	if pending, err = c.appendLocked(cmd, h, body, nil); err != nil || done == nil {
		return pending, cmd.Opaque, err
	}
	if c.calls == nil {
		c.calls = make(map[int32]func(*Reply, error))
	}
	c.calls[cmd.Opaque] = done
	return pending, cmd.Opaque, nil
}

func (c *Conn) takeCall(opaque int32) func(*Reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.calls[opaque]
	delete(c.calls, opaque)
	return done
}

// onReply completes the call that a reply belongs to. A reply that nobody waits for is dropped.
func (c *Conn) onReply(opaque int32, frame []byte) {
	done := c.takeCall(opaque)
	if done == nil {
		return
	}
	r := new(Reply)
	if err := r.parse(slices.Clone(frame), &c.known); err != nil {
		panic("remoting: a frame that was parsed does not parse") // the parser depends on the frame alone
	}
	done(r, nil)
}
