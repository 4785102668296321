package conf

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// form is a textual form of string values, named by the tag form.
type form struct {
	want  string
	check func(string) error
}

var forms = map[string]form{
	"addrs":  {"host:port, separated by semicolons", func(s string) error { _, err := Addrs(s); return err }},
	"peers":  {"id-host:port, separated by semicolons", func(s string) error { _, err := Peers(s); return err }},
	"hours":  {"hours from 0 to 23, separated by semicolons", func(s string) error { _, err := Hours(s); return err }},
	"delays": {"numbers with s, m, h or d, separated by blanks", func(s string) error { _, err := DelayLevels(s); return err }},
	"labels": {"name:value, separated by commas", func(s string) error { _, err := Labels(s); return err }},
}

// maxDelay is about 29 years: the longest delay whose milliseconds and nanoseconds cannot overflow anywhere.
const maxDelay = 10_000 * 24 * time.Hour

// DelayLevels reads messageDelayLevel: element i is the delay of level i+1. Java: ScheduleMessageService.parseDelayLevel.
func DelayLevels(text string) ([]time.Duration, error) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	var out []time.Duration
	for _, word := range strings.Fields(text) {
		unit, ok := units[word[len(word)-1]]
		n, err := strconv.ParseInt(word[:len(word)-1], 10, 32)
		if !ok || err != nil || n < 0 || n > int64(maxDelay/max(unit, 1)) {
			return nil, fmt.Errorf("%q is not a delay such as 30s", word)
		}
		out = append(out, time.Duration(n)*unit)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no delay level given")
	}
	return out, nil
}

// Hours reads deleteWhen, hours of the day separated by semicolons. Java: UtilAll.isItTimeToDo.
func Hours(text string) ([]int, error) {
	var out []int
	for _, word := range split(text, ";") {
		n, err := strconv.ParseUint(word, 10, 8)
		if err != nil || n > 23 {
			return nil, fmt.Errorf("%q is not an hour of the day", word)
		}
		out = append(out, int(n))
	}
	return out, nil
}

// Size reads a number of bytes: a number alone, or with one of the suffixes k, m, g, t (powers of 1024, any case, also
// kb and kib).
func Size(text string) (int64, error) {
	digits := strings.TrimRight(text, "kmgtibKMGTIB")
	shift, ok := map[string]uint{
		"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20,
		"g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
	}[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	if n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return n << shift, nil
}

// Addrs reads a list of host:port separated by semicolons, such as namesrvAddr. An IPv6 host stands in brackets.
func Addrs(text string) ([]string, error) {
	out := split(text, ";")
	for _, addr := range out {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("%q is not host:port", addr)
		}
	}
	return out, nil
}

// Peer is a member of the controllers' quorum.
type Peer struct{ ID, Addr string }

// Peers reads controllerDLegerPeers: id-host:port separated by semicolons, for instance n0-10.0.0.1:9878.
func Peers(text string) ([]Peer, error) {
	var out []Peer
	seen := map[string]bool{}
	for _, word := range split(text, ";") {
		id, addr, ok := strings.Cut(word, "-")
		if !ok || id == "" {
			return nil, fmt.Errorf("%q is not id-host:port", word)
		}
		if _, err := Addrs(addr); err != nil {
			return nil, err
		}
		if seen[id] {
			return nil, fmt.Errorf("the id %q stands twice", id)
		}
		seen[id] = true
		out = append(out, Peer{id, addr})
	}
	return out, nil
}

// Label is a constant label of every metric series.
type Label struct{ Name, Value string }

// Labels reads metricsLabel: name:value separated by commas.
func Labels(text string) ([]Label, error) {
	var out []Label
	for _, word := range split(text, ",") {
		name, value, ok := strings.Cut(word, ":")
		if !ok || !isLabelName(name) {
			return nil, fmt.Errorf("%q is not name:value", word)
		}
		out = append(out, Label{name, value})
	}
	return out, nil
}

// isLabelName follows Prometheus' rule for label names.
func isLabelName(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// split returns the non-empty trimmed parts of a list.
func split(text, separator string) []string {
	var out []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
