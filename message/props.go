package message

import (
	"bytes"
	"strings"
)

// Separators of the property text: name 0x01 value 0x02 name 0x01 value 0x02 ….
const (
	NameSeparator = 1
	PropSeparator = 2
)

// Reserved property names (MessageConst).
const (
	PropKeys              = "KEYS"
	PropTags              = "TAGS"
	PropWait              = "WAIT"
	PropDelay             = "DELAY"
	PropRetryTopic        = "RETRY_TOPIC"
	PropRealTopic         = "REAL_TOPIC"
	PropRealQueueID       = "REAL_QID"
	PropTransaction       = "TRAN_MSG"
	PropProducerGroup     = "PGROUP"
	PropUniqueKey         = "UNIQ_KEY"
	PropOriginMessageID   = "ORIGIN_MESSAGE_ID"
	PropReconsumeTime     = "RECONSUME_TIME"
	PropMaxReconsumeTimes = "MAX_RECONSUME_TIMES"
	PropMsgRegion         = "MSG_REGION"
	PropTraceOn           = "TRACE_ON"
	PropCluster           = "CLUSTER"
	PropMsgType           = "MSG_TYPE"
	PropCorrelationID     = "CORRELATION_ID"
	PropReplyToClient     = "REPLY_TO_CLIENT"
	PropPushReplyTime     = "PUSH_REPLY_TIME"
	PropPopCK             = "POP_CK"
	PropInnerNum          = "INNER_NUM"
	PropInnerBase         = "INNER_BASE"
	PropMultiDispatch     = "INNER_MULTI_DISPATCH"
	PropTimerDelaySec     = "TIMER_DELAY_SEC"
	PropTimerDelayMs      = "TIMER_DELAY_MS"
	PropTimerDeliverMs    = "TIMER_DELIVER_MS"
	PropTimerOutMs        = "TIMER_OUT_MS"
	PropShardingKey       = "__SHARDINGKEY"
	PropDLQOriginTopic    = "DLQ_ORIGIN_TOPIC"
	PropDLQOriginID       = "DLQ_ORIGIN_MESSAGE_ID"
	PropCRC32             = crcName
	// TransientPrefix marks properties that are never stored.
	TransientPrefix = "__RMQ.TRANSIENT."
)

// Props is a property text. It implements filter.Properties.
type Props []byte

// next cuts the first entry off. Like Java's decoder it passes over entries without a name or a value.
func (p Props) next() (name, value []byte, rest Props) {
	for len(p) > 0 {
		entry := []byte(p)
		if i := bytes.IndexByte(p, PropSeparator); i >= 0 {
			entry, rest = p[:i], p[i+1:]
		} else {
			rest = nil
		}
		if i := bytes.IndexByte(entry, NameSeparator); i > 0 && i < len(entry)-1 {
			return entry[:i], entry[i+1:], rest
		}
		p = rest
	}
	return nil, nil, nil
}

// Each calls f for every property until it returns false. The slices alias the text.
func (p Props) Each(f func(name, value []byte) bool) {
	for name, value, rest := p.next(); name != nil; name, value, rest = rest.next() {
		if !f(name, value) {
			return
		}
	}
}

// Lookup returns the value of a property, aliasing the text; the last one of a name wins. nil means absent.
func (p Props) Lookup(name string) (found []byte) {
	for n, v, rest := p.next(); n != nil; n, v, rest = rest.next() {
		if string(n) == name {
			found = v
		}
	}
	return found
}

// Get returns the value of a property as a string of its own.
func (p Props) Get(name string) (string, bool) {
	v := p.Lookup(name)
	return string(v), v != nil
}

// Map returns all properties.
func (p Props) Map() map[string]string {
	m := map[string]string{}
	p.Each(func(name, value []byte) bool { m[string(name)] = string(value); return true })
	return m
}

// AppendProp appends one property; one with an empty name or value is left out, since no reader would see it.
func AppendProp[V string | []byte](dst []byte, name string, value V) []byte {
	if name == "" || len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	dst = append(dst, NameSeparator)
	dst = append(dst, value...)
	return append(dst, PropSeparator)
}

// Without appends p to dst, leaving out the properties that drop names.
func (p Props) Without(dst []byte, drop func(name []byte) bool) []byte {
	for n, v, rest := p.next(); n != nil; n, v, rest = rest.next() {
		if !drop(n) {
			dst = append(dst, n...)
			dst = append(dst, NameSeparator)
			dst = append(dst, v...)
			dst = append(dst, PropSeparator)
		}
	}
	return dst
}

// EachKey calls f for every blank-separated token of a KEYS value.
func EachKey(keys []byte, f func(key []byte)) {
	for len(keys) > 0 {
		i := bytes.IndexByte(keys, ' ')
		if i < 0 {
			f(keys)
			return
		}
		if i > 0 {
			f(keys[:i])
		}
		keys = keys[i+1:]
	}
}

// Prefixes of the topics that belong to a consumer group.
const (
	RetryPrefix = "%RETRY%"
	DLQPrefix   = "%DLQ%"
)

// IsRetryTopic tells whether a topic holds the retries of a group.
func IsRetryTopic(topic string) bool { return strings.HasPrefix(topic, RetryPrefix) }
