package replica

import (
	"errors"
	"testing"
)

// TestAlign has the six cases of where two logs can lie, and the degenerate ones. The master's log is [1000, 2000) unless it says so.
func TestAlign(t *testing.T) {
	const stay, wrong = step(0), step(99)
	for name, c := range map[string]struct {
		own    logs
		want   step
		master [2]int64
	}{
		"1-1 too old":                                       {own: logs{Min: 100, End: 900, Confirmed: 900, Common: 900}, want: stepStartOver},
		"1-1 too old, and another branch":                   {own: logs{Min: 100, End: 900, Confirmed: 500, Common: 600}, want: stepStartOver},
		"1-1 too old, common end is not in it":              {own: logs{Min: 100, End: 900, Confirmed: 100, Common: 50}, want: stepStartOver},
		"1-1 ends where the master's begins":                {own: logs{Min: 100, End: 1000, Confirmed: 800, Common: 900}, want: stepStartOver},
		"1-2 a foreign tail":                                {own: logs{Min: 100, End: 1500, Confirmed: 1200, Common: 1400}, want: stepCut},
		"1-2 a foreign tail from the confirm offset on":     {own: logs{Min: 100, End: 1500, Confirmed: 1400, Common: 1400}, want: stepCut},
		"1-2 a foreign tail that was acknowledged":          {own: logs{Min: 100, End: 1500, Confirmed: 1450, Common: 1400}, want: stay},
		"1-2 part where the master's begins":                {own: logs{Min: 100, End: 1500, Confirmed: 900, Common: 1000}, want: stepCut},
		"1-2 part before the master's begins":               {own: logs{Min: 100, End: 1500, Confirmed: 900, Common: 999}, want: stepStartOver},
		"1-3 an old master with a tail":                     {own: logs{Min: 100, End: 2500, Confirmed: 2000, Common: 2000}, want: stepCut},
		"1-3 an old master whose tail was acknowledged":     {own: logs{Min: 100, End: 2500, Confirmed: 2100, Common: 2000}, want: stay},
		"1-3 part before the master's begins":               {own: logs{Min: 100, End: 2500, Confirmed: 900, Common: 900}, want: stepStartOver},
		"1-3 part before, and more was acknowledged":        {own: logs{Min: 100, End: 2500, Confirmed: 2001, Common: 900}, want: stay},
		"2-2 a foreign tail":                                {own: logs{Min: 1200, End: 1800, Confirmed: 1500, Common: 1700}, want: stepCut},
		"2-2 part before ours begins":                       {own: logs{Min: 1200, End: 1800, Confirmed: 1500, Common: 1100}, want: stepStartOver},
		"2-2 part where ours begins, nothing acknowledged":  {own: logs{Min: 1200, End: 1800, Confirmed: 1200, Common: 1200}, want: stepCut},
		"2-3 an old master with a tail":                     {own: logs{Min: 1200, End: 2500, Confirmed: 1900, Common: 1950}, want: stepCut},
		"2-3 part before ours begins":                       {own: logs{Min: 1200, End: 2500, Confirmed: 1900, Common: 1100}, want: stepStartOver},
		"2-3 part before ours begins, more acknowledged":    {own: logs{Min: 1200, End: 2500, Confirmed: 2400, Common: 1100}, want: stay},
		"3-3 the master has lost its disk":                  {own: logs{Min: 2100, End: 2500, Confirmed: 2500, Common: 0}, want: stay},
		"3-3 and nothing is known to be acknowledged":       {own: logs{Min: 2100, End: 2500, Confirmed: 0, Common: 0}, want: stay},
		"3-3 by one byte":                                   {own: logs{Min: 2001, End: 2500, Confirmed: 2001, Common: 2000}, want: stay},
		"an empty replica":                                  {own: logs{}, want: stepStartOver},
		"an empty replica that was installed before":        {own: logs{Min: 900, End: 900, Confirmed: 900, Common: 900}, want: stepStartOver},
		"an installed one whose master has lost its disk":   {own: logs{Min: 2200, End: 2200, Confirmed: 2200, Common: 2000}, want: stay},
		"no epochs, old log":                                {own: logs{Min: 100, End: 1500, Confirmed: 1400, Common: 0}, want: stepStartOver},
		"an empty master, and acknowledged records":         {own: logs{End: 500, Confirmed: 300}, master: [2]int64{0, 0}, want: stay},
		"an empty master, and nothing acknowledged":         {own: logs{End: 500}, master: [2]int64{0, 0}, want: stepCut},
		"an empty master that once had more":                {own: logs{Min: 100, End: 500, Confirmed: 500, Common: 500}, master: [2]int64{1000, 1000}, want: stepStartOver},
		"an interrupted join of another history":            {own: logs{Min: 1000, End: 1500, Confirmed: 1500, Common: 1500, Void: true}, want: stepStartOver},
		"the same, and the master has less":                 {own: logs{Min: 1000, End: 2500, Confirmed: 2500, Common: 2000, Void: true}, want: stay},
		"a master that makes no sense":                      {own: logs{Min: 1100, End: 1500, Confirmed: 1200, Common: 1500}, want: wrong},
		"all of both, nothing acknowledged, no common part": {own: logs{End: 500, Common: 0}, master: [2]int64{0, 400}, want: stepCut},
	} {
		c.own.MasterMin, c.own.MasterEnd = c.master[0], c.master[1]
		if c.master == [2]int64{} && name != "an empty master, and acknowledged records" && name != "an empty master, and nothing acknowledged" {
			c.own.MasterMin, c.own.MasterEnd = 1000, 2000
		}
		got, err := c.own.align()
		switch c.want {
		case stay:
			if got != 0 || !errors.Is(err, errStay) {
				t.Errorf("%s: %d %v", name, got, err)
			}
		case wrong:
			if got != 0 || !errors.Is(err, errFrame) {
				t.Errorf("%s: %d %v", name, got, err)
			}
		default:
			if got != c.want || err != nil {
				t.Errorf("%s: %d %v", name, got, err)
			}
		}
	}
}

// TestAlignLosesNothing looks at every small constellation: what is dropped or cut was not acknowledged, or the master's log covers it,
// or it is older than the master's log or parts from it there.
func TestAlignLosesNothing(t *testing.T) {
	const n = 6
	for i := range n * n * n * n * n * n {
		at := func() int64 { v := int64(i % n); i /= n; return v }
		l := logs{Min: at(), End: at(), Confirmed: at(), MasterMin: at(), MasterEnd: at(), Common: at()}
		if l.End < l.Min || l.MasterEnd < l.MasterMin || l.Confirmed < l.Min || l.Confirmed > l.End || l.Common > l.End || l.Common > l.MasterEnd {
			continue
		}
		s, err := l.align()
		switch {
		case s == 0 && err == nil || s != 0 && err != nil:
			t.Fatalf("%+v: %d %v", l, s, err)
		case s != 0 && l.Confirmed > l.MasterEnd:
			t.Fatalf("%+v: %d loses what the master does not cover", l, s)
		case s == stepCut && (l.Common < l.Confirmed || l.Common < l.Min || l.Common < l.MasterMin):
			t.Fatalf("%+v: cuts", l)
		case s == stepStartOver && l.End > l.Min && l.End >= l.MasterMin && l.Common >= max(l.Min, l.MasterMin):
			t.Fatalf("%+v: starts over with a common part", l)
		case s == stepStartOver && l.End > l.Min && l.Min > l.MasterEnd:
			t.Fatalf("%+v: drops what lies behind the master's end", l)
		}
	}
}
