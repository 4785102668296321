package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// command is one row of the table.
type command struct {
	name    string
	brief   string // one sentence
	options []option
	oneOf   []string // keys of options of which exactly one must be given
	json    bool     // takes --json
	run     func(*tool) error
}

// caller sends requests; remoting.Client is one.
type caller interface {
	Call(ctx context.Context, addr string, rc code.Request, h header.Appender, body []byte) (*remoting.Reply, error)
}

// tool is the run of one command.
type tool struct {
	ctx    context.Context
	clk    clock.Clock
	zone   *time.Location
	out    *bufio.Writer
	client caller
	tmp    string // folder for the bodies of messages and for exports

	given   values
	servers []string // name servers
}

// Main runs `mqadmin COMMAND OPTIONS`, of which args holds all but the first word, and returns the exit code: 0, or 1 after any failure,
// of which one line on stderr tells.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	client := remoting.NewClient(nil, nil)
	defer client.Close()
	t := &tool{ctx: ctx, clk: clock.Real{}, zone: time.Local, out: bufio.NewWriter(stdout), client: client, tmp: filepath.Join(os.TempDir(), "rocketmq")}
	err := t.start(args, os.Getenv("NAMESRV_ADDR"), stderr)
	if flushed := t.out.Flush(); err == nil {
		err = flushed
	}
	if err != nil {
		fmt.Fprintf(stderr, "mqadmin%s: %s\n", strings.Join(append([]string{""}, args[:min(1, len(args))]...), " "), oneLine(err.Error()))
		return 1
	}
	return 0
}

// start runs the command that args name. servers are the name servers if -n gives none.
func (t *tool) start(args []string, servers string, stderr io.Writer) error {
	if len(args) == 0 || len(args) == 1 && slices.Contains([]string{"help", "-h", "--help"}, args[0]) {
		list(t.out)
		return nil
	}
	name, help := args[0], false
	if name == "help" {
		name, help = args[1], true
	}
	c := find(name)
	switch {
	case c == nil && absent(name):
		return fmt.Errorf("%s is a command of RocketMQ's tool that this one does not have", name)
	case c == nil:
		return fmt.Errorf("there is no command %q; mqadmin help lists them", name)
	case help:
		usage(t.out, c)
		return nil
	}
	given, extra, err := parse(c, args[1:])
	if err != nil || given.has(optHelp.short) {
		usage(t.out, c)
		return err
	}
	for _, word := range extra { // RocketMQ's tool passes over them without a word
		fmt.Fprintf(stderr, "mqadmin %s: %q belongs to no option and has no effect\n", c.name, word)
	}
	t.given, t.servers = given, splitList(given.or("n", servers), ";")
	return c.run(t)
}

// find looks a command up by its name in any letter case.
func find(name string) *command {
	for _, c := range commands() {
		if strings.EqualFold(c.name, name) {
			return &c
		}
	}
	return nil
}

func list(w io.Writer) {
	fmt.Fprint(w, "usage: mqadmin COMMAND [OPTIONS]\n\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "   %-35s %s\n", c.name, c.brief)
	}
	fmt.Fprint(w, "\nmqadmin help COMMAND tells the options of a command.\n")
}

// usage prints what a command takes.
func usage(w io.Writer, c *command) {
	fmt.Fprintf(w, "usage: mqadmin %s", c.name)
	for _, o := range c.all() {
		form := "-" + o.name()
		if o.short == "" {
			form = "-" + form
		}
		if o.kind != none {
			form += " <" + o.long + ">"
		}
		if !o.required {
			form = "[" + form + "]"
		}
		fmt.Fprintf(w, " %s", form)
	}
	fmt.Fprintf(w, "\n%s\n", c.brief)
	if len(c.oneOf) > 0 {
		fmt.Fprintf(w, "One of -%s must be given.\n", strings.Join(c.oneOf, " and -"))
	}
	for _, o := range c.all() {
		names := "--" + o.long
		if o.short != "" {
			names = "-" + o.short + "," + names
		}
		fmt.Fprintf(w, " %-34s %s\n", names, o.brief)
	}
}

// oneLine makes the text of an error fit one line of a terminal: of what a server says only the first line is kept, and control
// characters go.
func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}

// splitList splits a list and leaves empty items out.
func splitList(s, separator string) (items []string) {
	for _, item := range strings.Split(s, separator) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

func (t *tool) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }
