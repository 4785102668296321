package broker

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/remoting/code"
)

// attribute is one thing that a topic's attributes may say (TopicAttributes).
type attribute struct {
	fixed  bool     // it is chosen when the topic is made
	values []string // what it may be; nil means an int64 from least on
	least  int64
	absent map[string]string // values that this broker cannot do yet, and why; "" stands for every value
}

const messageTypeAttribute = "message.type"

// topicAttributes are the attributes by name.
var topicAttributes = map[string]attribute{
	"queue.type": {fixed: true, values: []string{"BatchCQ", "SimpleCQ"},
		absent: map[string]string{"BatchCQ": "queue.type BatchCQ is not supported"}},
	"cleanup.policy": {fixed: true, values: []string{"DELETE", "COMPACTION"},
		absent: map[string]string{"COMPACTION": "cleanup.policy COMPACTION is not supported"}},
	messageTypeAttribute: {values: []string{"UNSPECIFIED", "MIXED", "TRANSACTION", "FIFO", "DELAY", "NORMAL"}},
	"reserve.time":       {least: -1, absent: map[string]string{"": "Update topic reserveTime not supported"}},
}

// groupAttributes are the attributes of consumer groups: there are none.
var groupAttributes map[string]attribute

// parseAttributes reads the text of a request, "+key=value,-key" (AttributeParser). Keys keep their sign.
func parseAttributes(text string) (map[string]string, error) {
	changes := map[string]string{}
	if text == "" {
		return changes, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		key, value, sets := strings.Cut(item, "=")
		value, _, _ = strings.Cut(value, "=") // Java splits at every sign of equality and takes the second piece
		switch {
		case sets && (!strings.Contains(key, "+") || value == ""):
			return nil, attributeError("add/alter attribute format is wrong: %s", key)
		case !sets && !strings.Contains(key, "-"):
			return nil, attributeError("delete attribute format is wrong: %s", key)
		}
		if _, twice := changes[key]; twice {
			return nil, attributeError("key duplication: %s", key)
		}
		changes[key] = value
	}
	return changes, nil
}

func attributeError(format string, key string) error {
	return code.New(code.SystemError, format, shown(key))
}

// alterAttributes applies signed changes to the attributes of something that exists, or with create of something that is made
// (AttributeUtil.alterCurrentAttributes). Attributes in their stored form, without signs, are taken as additions, so that what
// was exported can be imported.
func alterAttributes(known map[string]attribute, create bool, current, changes map[string]string) (map[string]string, error) {
	next := map[string]string{}
	maps.Copy(next, current)
	seen := map[string]bool{}
	for _, signed := range slices.Sorted(maps.Keys(changes)) {
		key, remove, err := unsigned(signed)
		if err != nil {
			return nil, err
		}
		if seen[key] {
			return nil, attributeError("alter duplication key. key: %s", key)
		}
		seen[key] = true
		if err := checkAlter(known, create, current, key, changes[signed], remove); err != nil {
			return nil, err
		}
		if remove {
			delete(next, key)
		} else {
			next[key] = changes[signed]
		}
	}
	return next, nil
}

// unsigned splits "+key" and "-key".
func unsigned(signed string) (key string, remove bool, err error) {
	key, remove = strings.CutPrefix(signed, "-")
	if !remove {
		key = strings.TrimPrefix(signed, "+")
	}
	if key == "" || strings.ContainsAny(key, "+-") {
		return "", false, attributeError("kv string format wrong.%.0s", key)
	}
	return key, remove, nil
}

// checkAlter checks one change.
func checkAlter(known map[string]attribute, create bool, current map[string]string, key, value string, remove bool) error {
	_, exists := current[key]
	switch {
	case remove && create:
		return attributeError("only add attribute is supported while creating topic. key: %s", key)
	case remove && !exists:
		return attributeError("attempt to delete a nonexistent key: %s", key)
	}
	a, ok := known[key]
	switch {
	case !ok:
		return attributeError("unsupported key: %s", key)
	case a.fixed && !create && current[key] != value:
		return attributeError("attempt to update an unchangeable attribute. key: %s", key)
	case remove:
		return nil
	}
	return a.check(value)
}

// check tells whether the attribute may have a value.
func (a *attribute) check(value string) error {
	if a.values != nil && !slices.Contains(a.values, value) {
		return code.New(code.SystemError, "value is not in set: [%s]", strings.Join(a.values, ", "))
	}
	if a.values == nil {
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n < a.least {
			return code.New(code.SystemError, "value is not in range(%d, %d)", a.least, int64(math.MaxInt64))
		}
	}
	for _, v := range []string{value, ""} {
		if why, ok := a.absent[v]; ok {
			return code.New(code.SystemError, "%s", why)
		}
	}
	return nil
}
