package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
)

// bodyVersion starts every record body.
const bodyVersion = 1

// ErrNewer is wrapped by the errors about records, snapshots and files that a newer release wrote. Going on without them
// would make this replica differ from the others.
var ErrNewer = errors.New("written by a newer release")

// ErrMalformed is wrapped by the errors about bytes that no release writes.
var ErrMalformed = errors.New("malformed")

// Append appends changes to the record body dst, which is empty (a new body, which Append begins) or was made by Append.
// It does not keep what the changes point to.
func Append(dst []byte, changes ...Change) []byte {
	if len(dst) == 0 {
		dst = append(dst, bodyVersion)
	}
	for i := range changes {
		// Nearly all changes are shorter than 128 bytes: leave one byte for the length and make room when that was wrong.
		start := len(dst)
		dst = appendChange(append(dst, 0), &changes[i])
		size := len(dst) - start - 1
		if size < 0x80 {
			dst[start] = byte(size)
			continue
		}
		var prefix [binary.MaxVarintLen64]byte
		n := binary.PutUvarint(prefix[:], uint64(size))
		dst = append(dst, prefix[1:n]...)
		copy(dst[start+n:], dst[start+1:start+1+size])
		copy(dst[start:], prefix[:n])
	}
	return dst
}

// Each calls f for every change of the record body record, in order, and returns the first error: f's own, or one that wraps
// ErrNewer or ErrMalformed. The strings of the changes alias record.
func Each(record []byte, f func(Change) error) error {
	r := reader{body: record}
	var c Change
	for {
		ok, err := r.next(&c)
		if err != nil || !ok {
			return err
		}
		if err := f(c); err != nil {
			return err
		}
	}
}

// reader walks over a record body.
type reader struct {
	body []byte
	pos  int
}

// next decodes the next change into c and tells whether there was one.
func (r *reader) next(c *Change) (bool, error) {
	if r.pos == 0 {
		if len(r.body) == 0 {
			return false, fmt.Errorf("state record: %w: empty", ErrMalformed)
		}
		if v := r.body[0]; v != bodyVersion {
			return false, fmt.Errorf("state record: version %d, known is %d: %w", v, bodyVersion, ErrNewer)
		}
		r.pos = 1
	}
	if r.pos == len(r.body) {
		return false, nil
	}
	size, n := binary.Uvarint(r.body[r.pos:])
	if n <= 0 || size > uint64(len(r.body)-r.pos-n) {
		return false, fmt.Errorf("state record: %w: length of the change at byte %d", ErrMalformed, r.pos)
	}
	start := r.pos + n
	if err := decodeChange(r.body[start:start+int(size)], c); err != nil {
		return false, fmt.Errorf("state record: change at byte %d: %w", r.pos, err)
	}
	r.pos = start + int(size)
	return true, nil
}

// appendChange appends the kind and the fields of c.
func appendChange(dst []byte, c *Change) []byte {
	dst = append(dst, byte(c.Kind))
	for _, f := range kinds[c.Kind].fields {
		switch f {
		case fieldGroup:
			dst = appendString(dst, c.Group)
		case fieldTopic:
			dst = appendString(dst, c.Topic)
		case fieldQueueID:
			dst = binary.AppendVarint(dst, int64(c.QueueID))
		case fieldOffset:
			dst = binary.AppendVarint(dst, c.Offset)
		case fieldClientID:
			dst = appendString(dst, c.ClientID)
		case fieldTimeMs:
			dst = binary.AppendVarint(dst, c.TimeMs)
		case fieldBits:
			dst = binary.AppendVarint(dst, int64(c.Bits))
		case fieldCleanOffsets:
			dst = appendBool(dst, c.CleanOffsets)
		case fieldTopicConfig:
			dst = appendJSON(dst, c.TopicConfig)
		case fieldGroupConfig:
			dst = appendJSON(dst, c.GroupConfig)
		case fieldRequestMode:
			dst = appendJSON(dst, c.RequestMode)
		case fieldFilter:
			dst = appendJSON(dst, c.Filter)
		}
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendJSON(dst []byte, v any) []byte {
	text := fastjson.Marshal(v)
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// decodeChange decodes what appendChange wrote. All of data must belong to the change.
func decodeChange(data []byte, c *Change) error {
	*c = Change{}
	if len(data) == 0 {
		return fmt.Errorf("%w: empty", ErrMalformed)
	}
	c.Kind = Kind(data[0])
	if !c.Kind.known() {
		return fmt.Errorf("unknown %v: %w", c.Kind, ErrNewer)
	}
	d := decoder{data: data[1:]}
	for _, f := range kinds[c.Kind].fields {
		d.field(f, c)
		if d.err != nil {
			return fmt.Errorf("%v: %w", c.Kind, d.err)
		}
	}
	if len(d.data) > 0 {
		return fmt.Errorf("%v: %w: %d bytes behind the last field", c.Kind, ErrMalformed, len(d.data))
	}
	return nil
}

// decoder takes fields from the front of data. After an error it returns zeros.
type decoder struct {
	data []byte
	err  error
}

func (d *decoder) field(f field, c *Change) {
	switch f {
	case fieldGroup:
		c.Group = d.string()
	case fieldTopic:
		c.Topic = d.string()
	case fieldQueueID:
		c.QueueID = d.int32()
	case fieldOffset:
		c.Offset = d.int64()
	case fieldClientID:
		c.ClientID = d.string()
	case fieldTimeMs:
		c.TimeMs = d.int64()
	case fieldBits:
		c.Bits = d.int32()
	case fieldCleanOffsets:
		c.CleanOffsets = d.bool()
	case fieldTopicConfig:
		c.TopicConfig = new(body.TopicConfig)
		d.json(c.TopicConfig)
		c.Topic = c.TopicConfig.TopicName
	case fieldGroupConfig:
		c.GroupConfig = new(body.SubscriptionGroupConfig)
		d.json(c.GroupConfig)
		c.Group = c.GroupConfig.GroupName
	case fieldRequestMode:
		c.RequestMode = new(body.SetMessageRequestModeRequestBody)
		d.json(c.RequestMode)
		c.Topic, c.Group = c.RequestMode.Topic, c.RequestMode.ConsumerGroup
	case fieldFilter:
		c.Filter = new(Filter)
		d.json(c.Filter)
		c.Topic, c.Group = c.Filter.Topic, c.Filter.ConsumerGroup
	}
}

func (d *decoder) fail(reason string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrMalformed, reason)
	}
	d.data = nil
}

func (d *decoder) bytes() []byte {
	size, n := binary.Uvarint(d.data)
	if n <= 0 || size > uint64(len(d.data)-n) {
		d.fail("length of a text")
		return nil
	}
	end := n + int(size)
	b := d.data[n:end:end]
	d.data = d.data[end:]
	return b
}

// string returns a string that aliases the data.
func (d *decoder) string() string {
	b := d.bytes()
	return unsafe.String(unsafe.SliceData(b), len(b))
}

func (d *decoder) int64() int64 {
	v, n := binary.Varint(d.data)
	if n <= 0 {
		d.fail("number")
		return 0
	}
	d.data = d.data[n:]
	return v
}

func (d *decoder) int32() int32 {
	v := d.int64()
	if v < math.MinInt32 || v > math.MaxInt32 {
		d.fail("number beyond 32 bits")
		return 0
	}
	return int32(v)
}

func (d *decoder) bool() bool {
	if len(d.data) == 0 || d.data[0] > 1 {
		d.fail("boolean")
		return false
	}
	b := d.data[0] == 1
	d.data = d.data[1:]
	return b
}

func (d *decoder) json(v any) {
	text := d.bytes()
	if d.err != nil {
		return
	}
	if err := fastjson.Unmarshal(text, v); err != nil {
		d.fail(err.Error())
	}
}
