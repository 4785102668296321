package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const usage = "usage: load send|verify -b ADDR -log FILE [-run N] [-for DURATION] [-seed N]"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	f := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	addr := f.String("b", "", "`address` of the broker")
	log := f.String("log", "", "`file` that keeps what was sent and answered")
	number := f.Int("run", 0, "`number` of this run of sends, a new one each time")
	limit := f.Duration("for", 10*time.Second, "how long to send if the broker lives")
	seed := f.Uint64("seed", 1, "of what is sampled")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	h, err := readHistory(*log)
	if err != nil {
		return err
	}
	switch args[0] {
	case "send":
		return send(ctx, *addr, *log, h, int32(*number), *limit)
	case "verify":
		return verify(ctx, *addr, h, *seed)
	}
	return errors.New(usage)
}
