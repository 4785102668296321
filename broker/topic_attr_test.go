package broker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/castor-mq/castor/remoting"
)

// remark is what a client reads of an error, "" for none.
func remark(err error) string {
	if err == nil {
		return ""
	}
	_, text := remoting.Verdict(err)
	return text
}

func TestAttributes(t *testing.T) {
	fifo := map[string]string{"message.type": "FIFO"}
	for _, c := range []struct {
		text    string
		create  bool
		current map[string]string
		want    map[string]string
		remark  string
	}{
		{text: "", create: true, want: map[string]string{}},
		{text: "", current: fifo, want: fifo},
		{text: "+message.type=FIFO", create: true, want: fifo},
		{text: "+message.type=FIFO=x", create: true, want: fifo},
		{text: "+message.type=DELAY", current: fifo, want: map[string]string{"message.type": "DELAY"}},
		{text: "-message.type", current: fifo, want: map[string]string{}},
		{text: "+queue.type=SimpleCQ,+cleanup.policy=DELETE", create: true, want: map[string]string{"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}},

		{text: "message.type=FIFO", create: true, remark: "add/alter attribute format is wrong: message.type"},
		{text: "+message.type=", create: true, remark: "add/alter attribute format is wrong: +message.type"},
		{text: "+message.type", create: true, remark: "delete attribute format is wrong: +message.type"},
		{text: "+message.type=FIFO,+message.type=DELAY", create: true, remark: "key duplication: +message.type"},
		{text: "+message.type=FIFO,-message.type", current: fifo, remark: "alter duplication key. key: message.type"},
		{text: "-message.type", create: true, remark: "only add attribute is supported while creating topic. key: message.type"},
		{text: "-message.type", current: map[string]string{}, remark: "attempt to delete a nonexistent key: message.type"},
		{text: "+no.such=1", create: true, remark: "unsupported key: no.such"},
		{text: "+queue.type=SimpleCQ", current: fifo, remark: "attempt to update an unchangeable attribute. key: queue.type"},
		{text: "+message.type=NOPE", create: true, remark: "value is not in set: [UNSPECIFIED, MIXED, TRANSACTION, FIFO, DELAY, NORMAL]"},
		{text: "+reserve.time=-2", create: true, remark: "value is not in range(-1, 9223372036854775807)"},
		{text: "+reserve.time=x", create: true, remark: "value is not in range(-1, 9223372036854775807)"},
		{text: "+reserve.time=1", create: true, remark: "Update topic reserveTime not supported"},
		{text: "+queue.type=BatchCQ", create: true, remark: "queue.type BatchCQ is not supported"},
		{text: "+cleanup.policy=COMPACTION", create: true, remark: "cleanup.policy COMPACTION is not supported"},
		{text: "+=1", create: true, remark: "kv string format wrong."},
		{text: "+a-b=1", create: true, remark: "kv string format wrong."},
	} {
		changes, err := parseAttributes(c.text)
		var got map[string]string
		if err == nil {
			got, err = alterAttributes(topicAttributes, c.create, c.current, changes)
		}
		if diff := cmp.Diff(c.remark, remark(err)); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

// TestStoredAttributesCanBeImported feeds attributes back in the form in which they are exported.
func TestStoredAttributesCanBeImported(t *testing.T) {
	stored := map[string]string{"message.type": "FIFO", "queue.type": "SimpleCQ"}
	for _, create := range []bool{true, false} {
		current := stored
		if create {
			current = nil
		}
		if got, err := alterAttributes(topicAttributes, create, current, stored); err != nil || !cmp.Equal(got, stored) {
			t.Errorf("create %v: %v, %v", create, got, err)
		}
	}
}

func FuzzAttributes(f *testing.F) {
	for _, seed := range []string{"", "+message.type=FIFO,-queue.type", "+a=b=c,,=", "-+-", strings.Repeat("+message.type=DELAY,", 3)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		changes, err := parseAttributes(text)
		if err != nil {
			return
		}
		got, err := alterAttributes(topicAttributes, true, nil, changes)
		if err != nil {
			return
		}
		for k := range got {
			if _, ok := topicAttributes[k]; !ok {
				t.Fatalf("%q made an attribute %q", text, k)
			}
		}
	})
}
