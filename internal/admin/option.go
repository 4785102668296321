package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind says what values an option takes.
type kind int

const (
	text    kind = iota
	number       // an int32
	long         // an int64
	yes          // true or false
	instant      // now, milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS
	none         // the option stands alone
)

// option is one option of a command. Like in RocketMQ's tool the short name may have more letters and the long one may stand after a
// single dash.
type option struct {
	short, long string
	kind        kind
	required    bool
	brief       string
	as          string // the key of its value, if that is not its name
}

// must returns the option as one that has to be given.
func (o option) must() option {
	o.required = true
	return o
}

// name is the short name, or the long one if there is none.
func (o *option) name() string { return cmp.Or(o.short, o.long) }

// key is the name under which the value is found.
func (o *option) key() string { return cmp.Or(o.as, o.name()) }

// Options that every command takes.
var (
	optHelp  = option{short: "h", long: "help", kind: none, brief: "print this help"}
	optNames = option{short: "n", long: "namesrvAddr", brief: "name servers, host:port separated by semicolons; default is the environment variable NAMESRV_ADDR"}
	optJSON  = option{long: "json", kind: none, brief: "write JSON"}
)

// all lists the options of a command and the common ones.
func (c *command) all() []option {
	common := []option{optHelp, optNames}
	if c.json {
		common = append(common, optJSON)
	}
	return append(slices.Clone(c.options), common...)
}

// values are the options given, by key. Each has been checked against its kind.
type values map[string]string

func (v values) has(key string) bool { _, ok := v[key]; return ok }

// or returns a value, or what stands for it.
func (v values) or(key, absent string) string {
	if s, ok := v[key]; ok {
		return s
	}
	return absent
}

func (v values) number(key string, absent int64) int64 {
	if s, ok := v[key]; ok {
		absent, _ = strconv.ParseInt(s, 10, 64)
	}
	return absent
}

func (v values) yes(key string, absent bool) bool {
	if s, ok := v[key]; ok {
		return strings.EqualFold(s, "true")
	}
	return absent
}

// parser follows the rules of Commons CLI's DefaultParser, which RocketMQ's tool uses.
type parser struct {
	options []option
	given   values
	extra   []string // words that belong to no option
}

// parse reads the arguments of a command.
func parse(c *command, args []string) (given values, extra []string, err error) {
	p := parser{options: c.all(), given: values{}}
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--" {
			p.extra = append(p.extra, args...)
			break
		}
		if len(word) < 2 || word[0] != '-' {
			p.extra = append(p.extra, word)
			continue
		}
		if args, err = p.option(word, args); err != nil {
			return p.given, p.extra, err
		}
	}
	if p.given.has(optHelp.short) {
		return p.given, p.extra, nil
	}
	return p.given, p.extra, p.complete(c)
}

// option takes one option and, if it wants one, its value. It returns the arguments that are left.
func (p *parser) option(word string, args []string) ([]string, error) {
	o, value, attached, err := p.split(word)
	if err != nil {
		return args, err
	}
	switch {
	case o.kind == none && attached:
		return args, fmt.Errorf("option -%s takes no value", o.name())
	case o.kind == none:
		value = "true"
	case attached:
	case len(args) == 0 || p.isOption(args[0]):
		return args, fmt.Errorf("missing argument for option: %s", o.name())
	default:
		value, args = args[0], args[1:]
	}
	if err := o.check(value); err != nil {
		return args, err
	}
	p.given[o.key()] = value
	return args, nil
}

// split finds the option that a word names, and the value if it is attached: -tTopic, -t=Topic, --topic=Topic.
func (p *parser) split(word string) (o *option, value string, attached bool, err error) {
	bare := strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-")
	name, value, attached := strings.Cut(bare, "=")
	if !strings.HasPrefix(word, "--") {
		if o = p.short(name); o != nil {
			return o, value, attached, nil
		}
	}
	if o, err = p.long(name); o != nil || err != nil {
		return o, value, attached, err
	}
	if o = p.short(bare[:min(1, len(bare))]); o != nil && !strings.HasPrefix(word, "--") && o.kind != none {
		return o, bare[1:], true, nil
	}
	return nil, "", false, fmt.Errorf("unrecognized option: %s", word)
}

func (p *parser) short(name string) *option {
	for i := range p.options {
		if o := &p.options[i]; o.short != "" && o.short == name {
			return o
		}
	}
	return nil
}

// long finds an option by its long name or the start of it.
func (p *parser) long(name string) (*option, error) {
	var found []*option
	for i := range p.options {
		o := &p.options[i]
		if o.long == name {
			return o, nil
		}
		if name != "" && strings.HasPrefix(o.long, name) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("ambiguous option: %s could be %s or %s", name, found[0].long, found[1].long)
}

// isOption tells an option from a value that starts with a dash, such as -1.
func (p *parser) isOption(word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	if _, err := strconv.ParseFloat(word, 64); err == nil {
		return false
	}
	_, _, _, err := p.split(word)
	return err == nil
}

// check tells whether a value is one that the option takes.
func (o *option) check(value string) error {
	wants := ""
	switch o.kind {
	case number:
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < math.MinInt32 || n > math.MaxInt32 {
			wants = "a number of 32 bits"
		}
	case long:
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			wants = "a number"
		}
	case yes:
		if !strings.EqualFold(value, "true") && !strings.EqualFold(value, "false") {
			wants = "true or false"
		}
	case instant:
		if _, err := parseInstant(value, time.Time{}, time.Local); err != nil {
			wants = "now, milliseconds since 1970, or yyyy-MM-dd#HH:mm:ss:SSS"
		}
	}
	if wants != "" {
		return fmt.Errorf("option -%s wants %s, not %q", o.name(), wants, value)
	}
	return nil
}

// complete checks that the required options are there, and one of each group.
func (p *parser) complete(c *command) error {
	var missing []string
	for _, o := range c.options {
		if o.required && !p.given.has(o.key()) {
			missing = append(missing, o.name())
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing required option: %s", strings.Join(missing, ", "))
	}
	var group []string
	for _, key := range c.oneOf {
		if p.given.has(key) {
			group = append(group, key)
		}
	}
	switch {
	case len(c.oneOf) > 0 && len(group) == 0:
		return fmt.Errorf("missing required option: -%s", strings.Join(c.oneOf, " or -"))
	case len(group) > 1:
		return fmt.Errorf("options -%s exclude each other", strings.Join(group, " and -"))
	}
	return nil
}

// instantForm is RocketMQ's form of a time on the command line, yyyy-MM-dd#HH:mm:ss:SSS, up to the milliseconds.
const instantForm = "2006-01-02#15:04:05"

// parseInstant reads a time as milliseconds since 1970.
func parseInstant(s string, now time.Time, zone *time.Location) (int64, error) {
	if s == "now" {
		return now.UnixMilli(), nil
	}
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil {
		return ms, nil
	}
	at := strings.LastIndexByte(s, ':')
	if at < 0 {
		return 0, fmt.Errorf("%q is no time", s)
	}
	ms, err := strconv.ParseUint(s[at+1:], 10, 16)
	if err != nil || ms > 999 {
		return 0, fmt.Errorf("%q is no time", s)
	}
	day, err := time.ParseInLocation(instantForm, s[:at], zone)
	return day.UnixMilli() + int64(ms), err
}
