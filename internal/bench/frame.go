package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

const (
	// opaqueBase gives every opaque ten digits, so that patching one never changes a frame's length.
	opaqueBase = 1_000_000_000
	opaqueMax  = 1<<31 - 1
	// maxQueues bounds queue ids to five digits.
	maxQueues = 100_000
	// minBody holds the stamp: the time the message was to be sent, in ns since the load began.
	minBody = 8
	maxBody = 4 << 20
	// keyPrefix is the part of a unique key that stands for client and process (MessageClientIDSetter: 20 of 32 digits).
	keyPrefix = "7F000001CA5708B20E2F"
	keyDigits = 12
	// defaultTopic is what the official client names as the model of topics that do not exist (TopicValidator).
	defaultTopic = "TBW102"
	group        = "castor-bench"
)

// outgoing is what differs from one message to the next.
type outgoing struct {
	opaque int32
	queue  int32
	bornMs int64
	serial int64 // becomes the unique key
	stamp  int64
}

// template is a rendered SEND_MESSAGE_V2 frame and the places to patch. Queue ids of one width share one.
type template struct {
	frame                            []byte
	opaque, queue, born, key, bodyAt int
	width                            int // digits of the queue id
}

// frames renders sends to one topic. It is immutable after newFrames.
type frames struct {
	byWidth [6]template
}

// newFrames renders templates for queue ids below queues and bodies of size bytes.
func newFrames(topic, broker string, queues int32, size int) (*frames, error) {
	f := &frames{}
	body := make([]byte, size)
	fillBody(body)
	for width, first := 1, int32(1); first <= max(queues, 2) && width < len(f.byWidth); width, first = width+1, first*10 {
		t, err := newTemplate(topic, broker, first, body)
		if err != nil {
			return nil, err
		}
		f.byWidth[width] = t
	}
	return f, nil
}

// fillBody writes bytes that do not compress, the same in every run.
func fillBody(b []byte) {
	x := uint64(0x9E3779B97F4A7C15)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
}

func newTemplate(topic, broker string, queue int32, body []byte) (template, error) {
	const born = 1_000_000_000_000 // thirteen digits, like every present time in ms
	zeros := "000000000000"
	props := message.AppendProp(nil, message.PropUniqueKey, keyPrefix+zeros)
	props = message.AppendProp(props, message.PropWait, "true")
	h := header.SendMessageRequestV2{
		ProducerGroup: group, Topic: topic, DefaultTopic: defaultTopic, DefaultTopicQueueNums: 4, QueueID: queue,
		BornTimestamp: born, Properties: string(props), ReconsumeTimes: header.Some[int32](0), UnitMode: header.Some(false),
		Batch: header.Some(false), BName: broker,
	}
	cmd := remoting.Command{Code: int32(code.SendMessageV2), Opaque: opaqueBase, Enc: header.JSON}
	t := template{frame: remoting.AppendCommand(nil, &cmd, &h, body)}
	if len(t.frame) > remoting.MaxFrame {
		return t, fmt.Errorf("a frame of %d bytes is too large", len(t.frame))
	}
	digits := strconv.Itoa(int(queue))
	t.width, t.bodyAt = len(digits), len(t.frame)-len(body)
	head := t.frame[:t.bodyAt]
	for _, place := range []struct {
		at           *int
		before, mark string
	}{
		{&t.opaque, `"opaque":`, strconv.Itoa(opaqueBase)},
		{&t.queue, `"e":"`, digits},
		{&t.born, `"g":"`, strconv.Itoa(born)},
		{&t.key, keyPrefix, zeros},
	} {
		i := bytes.Index(head, []byte(place.before+place.mark))
		if i < 0 {
			return t, fmt.Errorf("the frame has no %s", place.before)
		}
		*place.at = i + len(place.before)
	}
	return t, nil
}

// append appends the frame of one message.
func (f *frames) append(dst []byte, m *outgoing) []byte {
	t := &f.byWidth[decimalWidth(m.queue)]
	start := len(dst)
	dst = append(dst, t.frame...)
	b := dst[start:]
	putDecimal(b[t.opaque:t.opaque+10], int64(m.opaque))
	putDecimal(b[t.queue:t.queue+t.width], int64(m.queue))
	putDecimal(b[t.born:t.born+13], m.bornMs)
	putHex(b[t.key:t.key+keyDigits], m.serial)
	binary.BigEndian.PutUint64(b[t.bodyAt:], uint64(m.stamp))
	return dst
}

func decimalWidth(n int32) int {
	w := 1
	for ; n >= 10; n /= 10 {
		w++
	}
	return w
}

// putDecimal fills b with the last digits of n.
func putDecimal(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// putHex fills b with the last hex digits of n, in upper case.
func putHex(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = "0123456789ABCDEF"[n&15]
		n >>= 4
	}
}
