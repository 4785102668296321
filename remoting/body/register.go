package body

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
)

// RegisterBrokerBody is the body of REGISTER_BROKER.
type RegisterBrokerBody struct {
	FilterServerList            []string                              `json:"filterServerList,nonnil"`
	TopicConfigSerializeWrapper TopicConfigAndMappingSerializeWrapper `json:"topicConfigSerializeWrapper"`
}

const (
	// zlibMark is the first byte of a deflate stream with zlib's header and the usual 32 KiB window.
	zlibMark = 0x78
	// maxInflatedSize limits what a compressed registration may expand to, in bytes: half a million topics.
	maxInflatedSize = 32 << 20
)

// Encode returns the body as JSON, or in the compressed form of RegisterBrokerBody.encode. That one loses the
// TopicSysFlag and Order of topics, the mapping details and the mapping version.
func (b *RegisterBrokerBody) Encode(compressed bool) []byte {
	if !compressed {
		return fastjson.Marshal(b)
	}
	w := &b.TopicConfigSerializeWrapper
	text := appendBlock(nil, fastjson.Marshal(w.DataVersion))
	text = binary.BigEndian.AppendUint32(text, uint32(len(w.TopicConfigTable)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicConfigTable)) {
		text = appendBlock(text, encodeTopicLine(w.TopicConfigTable[name]))
	}
	text = appendBlock(text, fastjson.Marshal(b.FilterServerList))
	text = binary.BigEndian.AppendUint32(text, uint32(len(w.TopicQueueMappingInfoMap)))
	for _, name := range slices.Sorted(maps.Keys(w.TopicQueueMappingInfoMap)) {
		text = appendBlock(text, fastjson.Marshal(w.TopicQueueMappingInfoMap[name]))
	}
	var out bytes.Buffer
	// The level is valid and a bytes.Buffer takes every write, so nothing here can fail.
	z, _ := zlib.NewWriterLevel(&out, zlib.BestCompression)
	_, _ = z.Write(text)
	_ = z.Close()
	return out.Bytes()
}

// DecodeRegisterBrokerBody reads either form, told apart by the first byte: Java brokers say compressed=false in the
// header even where they compress. Empty data is a registration without topics.
func DecodeRegisterBrokerBody(data []byte) (*RegisterBrokerBody, error) {
	b := new(RegisterBrokerBody)
	var err error
	switch {
	case len(data) == 0:
	case data[0] == zlibMark:
		err = b.inflate(data)
	default:
		err = fastjson.Unmarshal(data, b)
	}
	if err != nil {
		return nil, fmt.Errorf("register broker body: %w", err)
	}
	return b, nil
}

func (b *RegisterBrokerBody) inflate(data []byte) error {
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxInflatedSize+1))
	if err != nil {
		return err
	}
	if len(text) > maxInflatedSize {
		return fmt.Errorf("more than %d bytes inflated", maxInflatedSize)
	}
	r := blockReader{text}
	w := &b.TopicConfigSerializeWrapper
	if err := r.json(&w.DataVersion); err != nil {
		return fmt.Errorf("data version: %w", err)
	}
	w.TopicConfigTable = make(map[string]TopicConfig)
	err = r.list("topic", func(line []byte) error {
		c, err := decodeTopicLine(string(line))
		w.TopicConfigTable[c.TopicName] = c
		return err
	})
	if err != nil {
		return err
	}
	if err := r.json(&b.FilterServerList); err != nil {
		return fmt.Errorf("filter servers: %w", err)
	}
	if len(r.rest) == 0 { // a sender older than 5.0.0
		return nil
	}
	w.TopicQueueMappingInfoMap = make(map[string]TopicQueueMappingInfo)
	return r.list("queue mapping", func(text []byte) error {
		var info TopicQueueMappingInfo
		err := fastjson.Unmarshal(text, &info)
		w.TopicQueueMappingInfoMap[info.Topic] = info
		return err
	})
}

func appendBlock(dst, block []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
	return append(dst, block...)
}

// blockReader reads what appendBlock and a count before several blocks have written.
type blockReader struct {
	rest []byte
}

var errCut = errors.New("cut short or a length out of range")

func (r *blockReader) count() (int, error) {
	if len(r.rest) < 4 {
		return 0, errCut
	}
	n := int32(binary.BigEndian.Uint32(r.rest))
	r.rest = r.rest[4:]
	if n < 0 || int(n) > len(r.rest) { // Each counted thing takes at least a byte, so this bounds counts too.
		return 0, errCut
	}
	return int(n), nil
}

func (r *blockReader) block() ([]byte, error) {
	n, err := r.count()
	if err != nil {
		return nil, err
	}
	block := r.rest[:n]
	r.rest = r.rest[n:]
	return block, nil
}

func (r *blockReader) json(v any) error {
	block, err := r.block()
	if err != nil {
		return err
	}
	return fastjson.Unmarshal(block, v)
}

func (r *blockReader) list(name string, item func([]byte) error) error {
	n, err := r.count()
	if err != nil {
		return fmt.Errorf("number of %ss: %w", name, err)
	}
	for i := range n {
		block, err := r.block()
		if err == nil {
			err = item(block)
		}
		if err != nil {
			return fmt.Errorf("%s %d: %w", name, i, err)
		}
	}
	return nil
}

// encodeTopicLine writes a topic as TopicConfig.encode does: the members separated by blanks, attributes last.
func encodeTopicLine(c TopicConfig) []byte {
	line := fmt.Appendf(nil, "%s %d %d %d %s ", c.TopicName, c.ReadQueueNums, c.WriteQueueNums, c.Perm, c.TopicFilterType)
	return fastjson.AppendMarshal(line, c.Attributes)
}

// decodeTopicLine reads encodeTopicLine's text; senders before 5.0.0 leave the attributes out.
func decodeTopicLine(line string) (TopicConfig, error) {
	var c TopicConfig
	c.SetDefaults()
	parts := strings.SplitN(line, " ", 6)
	if len(parts) < 5 {
		return c, fmt.Errorf("%d members, want 5 or 6", len(parts))
	}
	c.TopicName, c.TopicFilterType = parts[0], parts[4]
	for i, number := range []*int32{&c.ReadQueueNums, &c.WriteQueueNums, &c.Perm} {
		n, err := strconv.ParseInt(parts[i+1], 10, 32)
		if err != nil {
			return c, err
		}
		*number = int32(n)
	}
	if len(parts) < 6 {
		return c, nil
	}
	return c, fastjson.Unmarshal([]byte(parts[5]), &c.Attributes)
}
