// Package lifecycle owns goroutines: each has a name, a context that ends it, and someone who waits.
package lifecycle

import (
	"context"
	"fmt"
	"runtime/pprof"
	"sync"
)

// Group runs named goroutines until its context ends or one of them fails.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	err    error
	closed bool
}

// New returns a group whose goroutines end when ctx does.
func New(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Context ends when the group stops.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f under a name. The first error that a goroutine returns stops the whole group. After Stop nothing starts.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		pprof.Do(g.ctx, pprof.Labels("goroutine", name), func(ctx context.Context) {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				g.fail(fmt.Errorf("%s: %w", name, err))
			}
		})
	}()
}

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.mu.Unlock()
	g.cancel(err)
}

// Stop ends the context and waits for every goroutine. It returns the first error.
func (g *Group) Stop() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel(context.Canceled)
	g.wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
