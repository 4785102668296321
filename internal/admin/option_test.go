package admin

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// javaOption is an option in testdata/commands.json, which was read from the classes of RocketMQ 5.5.0. Group lists the keys of options
// of which one is required.
type javaOption struct {
	Short    string   `json:"short"`
	Long     string   `json:"long"`
	HasArg   bool     `json:"hasArg"`
	Required bool     `json:"required"`
	Group    []string `json:"group"`
}

func javaCommands(t *testing.T) map[string][]javaOption {
	t.Helper()
	text, err := os.ReadFile("testdata/commands.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]javaOption
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestOptionsAreThoseOfRocketMQ(t *testing.T) {
	java := javaCommands(t)
	for _, c := range commands() {
		if own(c.name) {
			continue
		}
		want, got, group := map[string]javaOption{}, map[string]javaOption{}, []string(nil)
		for _, o := range java[c.name] {
			if o.Group != nil {
				group, o.Group = o.Group, nil
			}
			want[o.Long] = o
		}
		for _, o := range c.all() {
			if o.long != optJSON.long {
				got[o.long] = javaOption{Short: o.short, Long: o.long, HasArg: o.kind != none, Required: o.required}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: options -RocketMQ +Castor:\n%s", c.name, diff)
		}
		slices.Sort(group)
		if group != nil && !slices.Equal(group, c.oneOf) {
			t.Errorf("%s: one of %q is required, not %q", c.name, group, c.oneOf)
		}
	}
}

// own tells the commands that RocketMQ's tool does not have.
func own(name string) bool {
	return slices.ContainsFunc(statusCommands(), func(c command) bool { return c.name == name })
}

func TestEveryCommandIsAccountedFor(t *testing.T) {
	java := javaCommands(t)
	var ours []string
	for _, c := range commands() {
		ours = append(ours, c.name)
	}
	for name := range java {
		if slices.Contains(ours, name) == absent(name) {
			t.Errorf("%s is to be either in the table or among the absent commands", name)
		}
	}
	for _, name := range slices.Concat(ours, absentCommands) {
		if java[name] == nil && !own(name) {
			t.Errorf("RocketMQ's tool has no command %s", name)
		}
	}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		line  string
		want  values
		extra []string
		err   string // part of it
	}{
		{line: "topicRoute -t T", want: values{"t": "T"}},
		{line: "topicRoute --topic T -l", want: values{"t": "T", "l": "true"}},
		{line: "topicRoute -topic=T", want: values{"t": "T"}},
		{line: "topicRoute --topic=a=b", want: values{"t": "a=b"}},
		{line: "topicRoute -tT", want: values{"t": "T"}},
		{line: "topicRoute -t=T", want: values{"t": "T"}},
		{line: "topicRoute --to T", want: values{"t": "T"}},
		{line: "topicRoute -t T --json", want: values{"t": "T", "json": "true"}},
		{line: "topicRoute -t T -n a:1;b:2", want: values{"t": "T", "n": "a:1;b:2"}},
		{line: "topicRoute -t T -- -l", want: values{"t": "T"}, extra: []string{"-l"}},
		{line: "topicList -c DefaultCluster", want: values{"c": "true"}, extra: []string{"DefaultCluster"}},
		{line: "topicRoute -h", want: values{"h": "true"}},
		{line: "topicRoute", err: "missing required option: t"},
		{line: "topicRoute -t", err: "missing argument for option: t"},
		{line: "topicRoute -t -l", err: "missing argument for option: t"},
		{line: "topicRoute -t T -x", err: "unrecognized option: -x"},
		{line: "topicRoute -t T --nope", err: "unrecognized option: --nope"},
		{line: "topicRoute -t T --t T", want: values{"t": "T"}},
		{line: "topicRoute -t T -l=true", err: "takes no value"},
		{line: "topicList -t T --json", err: "unrecognized option: -t"},
		{line: "updateBrokerConfig -c C -a -k k -v v", err: "missing argument for option: a"},
		{line: "updateBrokerConfig -b B -k k -v -x", want: values{"b": "B", "k": "k", "v": "-x"}},
		{line: "updateTopic -t T", err: "missing required option: -b or -c"},
		{line: "updateTopic -t T -b B -c C", err: "exclude each other"},
		{line: "updateTopic -t T -b B -r 8", want: values{"t": "T", "b": "B", "r": "8"}},
		{line: "updateTopic -t T -b B -r eight", err: `wants a number of 32 bits, not "eight"`},
		{line: "updateTopic -t T -b B -r 4294967296", err: "wants a number of 32 bits"},
		{line: "updateTopic -t T -b B -o maybe", err: `wants true or false, not "maybe"`},
		{line: "updateSubGroup -b B -g G --attributes +a=b", want: values{"b": "B", "g": "G", "attributes": "+a=b"}},
		{line: "updateSubGroup -b B -g G -consumeEnable false", want: values{"b": "B", "g": "G", "s": "false"}},
		{line: "updateSubGroup -b B -g G --consume true", err: "ambiguous option"},
		{line: "resetOffsetByTime -g G -t T -s -1", want: values{"g": "G", "t": "T", "s": "-1"}},
		{line: "resetOffsetByTime -g G -t T -s 2026-11-29#16:00:00:123", want: values{"g": "G", "t": "T", "s": "2026-11-29#16:00:00:123"}},
		{line: "resetOffsetByTime -g G -t T -s yesterday", err: "option -s wants now"},
		{line: "resetOffsetByTime -g G -t T -s 2026-11-29", err: "option -s wants now"},
		{line: "printMsg -t T --subExpression TagA", want: values{"t": "T", "s": "TagA"}},
		{line: "brokerConsumeStats -b B -l 99999999999", want: values{"b": "B", "l": "99999999999"}},
	} {
		words := strings.Split(c.line, " ")
		got, extra, err := parse(find(words[0]), words[1:])
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.line, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", c.line, diff)
		}
		if !slices.Equal(c.extra, extra) {
			t.Errorf("%s: extra words %q, want %q", c.line, extra, c.extra)
		}
	}
}

func TestParseInstant(t *testing.T) {
	now := time.UnixMilli(1234)
	for s, want := range map[string]int64{"now": 1234, "0": 0, "-1": -1, "1795968413044": 1795968413044, "2026-11-29#16:06:53:044": 1795968413044} {
		if got, err := parseInstant(s, now, time.UTC); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", s, got, err, want)
		}
	}
	for _, s := range []string{"", "x", "2026-11-29#16:06:53", "2026-11-29#16:06:53:1000", "2026-13-29#16:06:53:000", ":"} {
		if got, err := parseInstant(s, now, time.UTC); err == nil {
			t.Errorf("%q is read as %d", s, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"topicRoute\n-t\nT", "updateSubGroup\n--attributes\n+a=b\n-g=G\n-b\nx", "resetOffsetByTime\n-s\n-1\n--\n-x", "topicList\n-", "printMsg\n--=\n-=", "x\n-t"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "\n")
		c := find(words[0])
		if c == nil {
			return
		}
		given, extra, err := parse(c, words[1:])
		if err != nil {
			return
		}
		for key, value := range given {
			i := slices.IndexFunc(c.all(), func(o option) bool { return o.key() == key })
			if i < 0 {
				t.Fatalf("%q gives %q, which is no option", line, key)
			}
			if o := c.all()[i]; o.kind != none && o.check(value) != nil {
				t.Fatalf("%q gives %q to %s", line, value, key)
			}
		}
		if len(given)+len(extra) > len(words) {
			t.Fatalf("%q gives more than it has", line)
		}
	})
}
