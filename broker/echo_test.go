package broker

import (
	"net/netip"
	"testing"
	"time"
)

// TestOneAnswerToAQueryThatComesTwice goes through what clients do that know one or two addresses of a group.
func TestOneAnswerToAQueryThatComesTwice(t *testing.T) {
	start := time.Unix(0, 0)
	client := netip.MustParseAddr("10.0.0.1")
	direct, other := netip.AddrPortFrom(client, 1), netip.AddrPortFrom(client, 2)
	former, standby := netip.MustParseAddrPort("10.0.1.1:7"), netip.MustParseAddrPort("10.0.1.2:7")
	one, two := query{client, "T", "k", 32, 0, 9}, query{client, "T", "k2", 32, 0, 9}
	elsewhere := one
	elsewhere.client = netip.MustParseAddr("10.0.0.2")
	type ask struct {
		q         query
		from      netip.AddrPort
		forwarded bool
		at        time.Duration
		echo      bool
	}
	for name, asks := range map[string][]ask{
		"the master and the standby":         {{one, direct, false, 0, false}, {one, standby, true, echoPause, true}},
		"again and again":                    {{one, direct, false, 0, false}, {one, standby, true, 1, true}, {one, direct, false, 2, false}, {one, standby, true, 3, true}},
		"the former master and the standby":  {{one, former, true, 0, false}, {one, standby, true, 1, true}},
		"only the standby":                   {{one, standby, true, 0, false}, {one, standby, true, 1, false}},
		"only the master":                    {{one, direct, false, 0, false}, {one, direct, false, 1, false}, {one, other, false, 2, false}},
		"the standby first":                  {{one, standby, true, 0, false}, {one, direct, false, 1, false}, {one, direct, false, 2, false}},
		"two clients of a machine":           {{one, direct, false, 0, false}, {one, other, false, 1, false}, {one, standby, true, 2, true}, {one, standby, true, 3, true}, {one, standby, true, 4, false}},
		"another key":                        {{two, direct, false, 0, false}, {one, standby, true, 1, false}},
		"another machine":                    {{elsewhere, direct, false, 0, false}, {one, standby, true, 1, false}},
		"long ago":                           {{one, direct, false, 0, false}, {one, standby, true, echoMemory, false}},
		"a tool that asks a replica by name": {{one, former, true, 0, false}, {one, former, true, 1, false}},
	} {
		e := newEchoes()
		for i, a := range asks {
			if got := e.is(a.q, a.from, a.forwarded, start.Add(a.at)); got != a.echo {
				t.Errorf("%s: query %d is an echo: %t", name, i, got)
			}
		}
	}
	e := newEchoes()
	for i := range 10 * len(e.ring) { // the memory is bounded
		e.is(query{client, "T", "k", int32(i), 0, 9}, direct, false, start)
	}
	if e.is(query{client, "T", "k", 0, 0, 9}, standby, true, start) {
		t.Error("an old query is remembered")
	}
}
