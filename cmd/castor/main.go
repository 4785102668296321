// Command castor is all of Castor in one binary. Each process of a cluster is a subcommand; under the names that RocketMQ users
// know (mqnamesrv, mqbroker, mqcontroller) it acts as that subcommand.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/castor-mq/castor/internal/admin"
	"github.com/castor-mq/castor/internal/bench"
	"github.com/castor-mq/castor/internal/chaos"
	"github.com/castor-mq/castor/internal/watchdog"
)

// command is one subcommand.
type command struct {
	name  string
	alias string // the name of a link that acts as this command
	brief string // empty: the command is not for users
	run   func(ctx context.Context, args []string) error
}

// commands is the table of what castor can do.
var commands []command

func table() []command {
	return []command{
		{"namesrv", "mqnamesrv", "run a name server", runNamesrv},
		{"broker", "mqbroker", "run a broker", runBroker},
		{"controller", "mqcontroller", "run a controller, which elects masters", runController},
		{"admin", "mqadmin", "administer brokers and name servers", func(ctx context.Context, args []string) error {
			os.Exit(admin.Main(ctx, args, os.Stdout, os.Stderr))
			return nil
		}},
		{"dev", "", "run a whole cluster in this process and watch a message travel", runDev},
		{"doctor", "", "check a store or a running broker and say what is wrong", runDoctor},
		{"store", "", "export a store's metadata for a Java broker", runStore},
		{"bench", "", "load a broker and check every answer", func(_ context.Context, args []string) error { os.Exit(bench.Main(args)); return nil }},
		{"chaos", "", "break a cluster of processes in many ways and check that nothing acknowledged is lost", func(ctx context.Context, args []string) error {
			return done(chaos.Main(ctx, args, os.Stdout))
		}},
		{"watchdog", "", "", func(_ context.Context, args []string) error { return done(watchdog.Main(args)) }},
	}
}

func main() {
	commands = table()
	name, args := filepath.Base(os.Args[0]), os.Args[1:]
	cmd := find(func(c command) bool { return c.alias != "" && c.alias == name })
	if cmd == nil {
		if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
			usage()
			return
		}
		name, args = args[0], args[1:]
		cmd = find(func(c command) bool { return c.name == name })
	}
	if cmd == nil {
		fmt.Fprintf(os.Stderr, "castor: there is no command %q; castor help lists them\n", name)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	err := cmd.run(ctx, args)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "castor %s: %v\n", cmd.name, err)
		os.Exit(1)
	}
}

func find(ok func(command) bool) *command {
	for i := range commands {
		if ok(commands[i]) {
			return &commands[i]
		}
	}
	return nil
}

func usage() {
	fmt.Println("usage: castor COMMAND [ARGUMENTS]\n\nCastor is a message broker that RocketMQ clients can use. Commands:")
	for _, c := range commands {
		if c.brief == "" {
			continue
		}
		also := ""
		if c.alias != "" {
			also = " (also as " + c.alias + ")"
		}
		fmt.Printf("  %-10s %s%s\n", c.name, c.brief, also)
	}
	fmt.Println("\ncastor COMMAND -h tells the arguments of a command.")
}
