package admin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/castor-mq/castor/internal/fastjson"
)

// table prints rows below a line of column names, or as a JSON array of objects.
type table struct {
	t    *tool
	row  string // format of a row, in which every verb is %v
	keys []string
	rows int
}

// table starts a table. The columns are named as RocketMQ's tool does, `#Broker Name`; their JSON members are named brokerName.
func (t *tool) table(head, row string, columns ...string) *table {
	tb := &table{t: t, row: row}
	cells := make([]any, len(columns))
	for i, c := range columns {
		cells[i] = c
		tb.keys = append(tb.keys, member(c))
	}
	if !t.given.has(optJSON.long) {
		t.printf(head+"\n", cells...)
	}
	return tb
}

// untitled starts a table without column names. members are those of JSON.
func (t *tool) untitled(row string, members ...string) *table {
	return &table{t: t, row: row, keys: members}
}

// add prints a row.
func (tb *table) add(cells ...any) {
	if !tb.t.given.has(optJSON.long) {
		tb.t.printf(tb.row+"\n", cells...)
		return
	}
	tb.t.printf("%s", map[bool]string{true: "[\n {", false: ",\n {"}[tb.rows == 0])
	tb.rows++
	for i, c := range cells {
		if i > 0 {
			tb.t.printf(", ")
		}
		tb.t.printf("%q: %s", tb.keys[i], jsonText(c))
	}
	tb.t.printf("}")
}

// end finishes the table. What follows it in the text is printed by more, which may be nil: JSON holds the rows alone.
func (tb *table) end(more func()) {
	switch {
	case tb.t.given.has(optJSON.long) && tb.rows == 0:
		tb.t.printf("[]\n")
	case tb.t.given.has(optJSON.long):
		tb.t.printf("\n]\n")
	case more != nil:
		more()
	}
}

// member is the name in JSON of a column: #Broker Name becomes brokerName, #QID qid, #InTPS(LOAD) inTPS, #PCWait(ms) pcWait.
func member(column string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(column, "#"), "(")
	name = strings.ReplaceAll(name, " ", "")
	capitals := len(name) - len(strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	if capitals > 1 && capitals < len(name) {
		capitals-- // the last one starts a word
	}
	return strings.ToLower(name[:capitals]) + name[capitals:]
}

func jsonText(v any) string {
	if s, ok := v.(string); ok {
		v = strings.TrimSpace(s)
	}
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // cells are texts and numbers
	}
	return string(text)
}

// pretty prints a body as the tool of RocketMQ does: with bare integer keys. With --json the keys are quoted, as JSON wants.
func (t *tool) pretty(v any) {
	e := fastjson.Encoder{Pretty: true, UnquotedIntKeys: !t.given.has(optJSON.long)}
	t.printf("%s\n", e.Marshal(v))
}

// fit is a text of which a table shows the first max bytes.
type fit struct {
	text string
	max  int
}

func (f fit) String() string { return f.text[:min(len(f.text), f.max)] }

// MarshalJSON writes the whole text.
func (f fit) MarshalJSON() ([]byte, error) { return json.Marshal(f.text) }

// fixed is a number with two digits behind the point.
type fixed float64

func (f fixed) String() string { return strconv.FormatFloat(float64(f), 'f', 2, 64) }

// ratio is a number with four digits behind the point.
type ratio float64

func (r ratio) String() string { return strconv.FormatFloat(float64(r), 'f', 4, 64) }

// The forms in which RocketMQ's tool shows times.
const (
	formSeconds = "2006-01-02 15:04:05"
	formMillis  = "2006-01-02 15:04:05,000"
)

// at formats a time in milliseconds; absent stands for 0.
func (t *tool) at(ms int64, form, absent string) string {
	if ms == 0 {
		return absent
	}
	return time.UnixMilli(ms).In(t.zone).Format(form)
}

// every runs f once or, with an interval in seconds, again and again until the command is interrupted.
func (t *tool) every(seconds int64, f func() error) error {
	for {
		if err := f(); err != nil || seconds <= 0 {
			return err
		}
		if err := t.out.Flush(); err != nil {
			return err
		}
		timer := t.clk.NewTimer(time.Duration(seconds) * time.Second)
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// notGiven is how Java prints a missing text.
func notGiven(s string) string {
	if s == "" {
		return "null"
	}
	return s
}

// double formats a number as Java's Double.toString does.
func double(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if abs := max(f, -f); f != 0 && (abs < 1e-3 || abs >= 1e7) {
		s = strconv.FormatFloat(f, 'E', -1, 64)
		mantissa, exponent, _ := strings.Cut(s, "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent)
		return fmt.Sprintf("%sE%d", mantissa, n)
	}
	if !strings.Contains(s, ".") && f == f {
		s += ".0"
	}
	return s
}
