package lifecycle

import (
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDisk = errors.New("disk is gone")

// untilDone is a goroutine that does its work until it is told to end.
func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestStopOfAnEmptyGroup(t *testing.T) {
	g := New(t.Context())
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := g.Stop(); err != nil {
		t.Fatalf("second Stop: %v", err)
	}
	if g.Context().Err() == nil {
		t.Fatal("the context goes on")
	}
}

func TestErrorStopsTheGroup(t *testing.T) {
	g := New(t.Context())
	fail := make(chan struct{})
	g.Go("bystander", untilDone)
	g.Go("flusher", func(context.Context) error {
		<-fail
		return errDisk
	})
	if g.Context().Err() != nil {
		t.Fatal("the context ended before the error")
	}
	close(fail)
	<-g.Context().Done()
	if cause := context.Cause(g.Context()); !errors.Is(cause, errDisk) {
		t.Fatalf("cause %v", cause)
	}
	err := g.Stop()
	if !errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "flusher: ") {
		t.Fatalf("Stop returned %v, want the error under the name of its goroutine", err)
	}
	if again := g.Stop(); again != err {
		t.Fatalf("second Stop returned %v", again)
	}
}

func TestStopReturnsTheFirstError(t *testing.T) {
	g := New(t.Context())
	g.Go("second", func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("a consequence of the first")
	})
	g.Go("first", func(context.Context) error { return errDisk })
	<-g.Context().Done()
	if err := g.Stop(); !errors.Is(err, errDisk) {
		t.Fatalf("Stop returned %v", err)
	}
}

func TestReturnWithoutErrorLeavesTheGroupRunning(t *testing.T) {
	g := New(t.Context())
	done := make(chan struct{})
	g.Go("short", func(context.Context) error {
		defer close(done)
		return nil
	})
	<-done
	ran := make(chan struct{})
	g.Go("next", func(ctx context.Context) error {
		defer close(ran)
		return ctx.Err()
	})
	<-ran
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestStopWaitsForEveryGoroutine(t *testing.T) {
	g := New(t.Context())
	var ended atomic.Int32
	release := make(chan struct{})
	for range 10 {
		g.Go("worker", func(ctx context.Context) error {
			<-ctx.Done()
			<-release
			ended.Add(1)
			return nil
		})
	}
	stopped := make(chan error)
	go func() { stopped <- g.Stop() }()
	<-g.Context().Done()
	select {
	case <-stopped:
		t.Fatal("Stop returned while goroutines run")
	default:
	}
	close(release)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if n := ended.Load(); n != 10 {
		t.Fatalf("Stop returned after %d of 10 goroutines", n)
	}
}

func TestEndOfTheParentIsNoError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := New(ctx)
	ended := make(chan struct{})
	g.Go("worker", func(ctx context.Context) error {
		defer close(ended)
		return untilDone(ctx)
	})
	cancel()
	<-ended
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestNothingStartsAfterStop(t *testing.T) {
	g := New(t.Context())
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	var ran atomic.Bool
	g.Go("late", func(context.Context) error {
		ran.Store(true)
		return errDisk
	})
	if err := g.Stop(); err != nil { // It would wait for a goroutine that had started.
		t.Fatal(err)
	}
	if ran.Load() {
		t.Fatal("a goroutine started after Stop")
	}
}

// Go races with Stop here: whatever starts must have ended when Stop returns, and nothing may start later.
func TestGoDuringStop(t *testing.T) {
	for range 100 {
		g := New(t.Context())
		var started, ended atomic.Int32
		var starters sync.WaitGroup
		for range 4 {
			starters.Go(func() {
				for range 10 {
					g.Go("worker", func(ctx context.Context) error {
						started.Add(1)
						defer ended.Add(1)
						return untilDone(ctx)
					})
				}
			})
		}
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		before := started.Load()
		if before != ended.Load() {
			t.Fatal("Stop returned before a goroutine ended")
		}
		starters.Wait()
		if err := g.Stop(); err != nil || started.Load() != before {
			t.Fatalf("%d goroutines started after Stop, %v", started.Load()-before, err)
		}
	}
}

func TestGoroutineStartsAnother(t *testing.T) {
	g := New(t.Context())
	ran := make(chan struct{})
	g.Go("acceptor", func(ctx context.Context) error {
		g.Go("connection", func(ctx context.Context) error {
			close(ran)
			return untilDone(ctx)
		})
		return untilDone(ctx)
	})
	<-ran
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestGoroutineCarriesItsName(t *testing.T) {
	g := New(t.Context())
	name := make(chan string, 1)
	g.Go("flusher", func(ctx context.Context) error {
		label, _ := pprof.Label(ctx, "goroutine")
		name <- label
		return nil
	})
	if got := <-name; got != "flusher" {
		t.Fatalf("label %q", got)
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}
