package body

import (
	"encoding/base64"
	"errors"

	"github.com/castor-mq/castor/internal/fastjson"
)

// BatchAckMessageRequestBody is the body of BATCH_ACK_MESSAGE.
type BatchAckMessageRequestBody struct {
	Acks       []BatchAck `json:"acks,nonnil"`
	BrokerName string     `json:"brokerName,omitempty"`
}

// BatchAck acknowledges messages of one queue that came with one pop. Times are in ms.
type BatchAck struct {
	BitSet        BitSet `json:"b,alias=bitSet"`
	ConsumerGroup string `json:"c,alias=consumerGroup"`
	InvisibleTime int64  `json:"it,alias=invisibleTime"`
	PopTime       int64  `json:"pt,alias=popTime"`
	QueueID       int32  `json:"q,alias=queueId"`
	Retry         string `json:"r,alias=retry"` // "0" the topic itself, "1" and "2" its retry topic V1 and V2
	ReviveQueueID int32  `json:"rq,alias=reviveQueueId"`
	StartOffset   int64  `json:"so,alias=startOffset"`
	Topic         string `json:"t,alias=topic"` // never a retry topic
}

// maxBitSetBytes limits how far behind its start a BatchAck may reach: 64 Ki offsets. A pop brings at most 32 messages,
// filtered ones between them.
const maxBitSetBytes = 8 << 10

// BitSet is a Java BitSet: bit i is bit i%8 of byte i/8. In a BatchAck it means offset StartOffset+i.
type BitSet []byte

// Set sets bit i.
func (b *BitSet) Set(i int) {
	for len(*b) <= i/8 {
		*b = append(*b, 0)
	}
	(*b)[i/8] |= 1 << (i % 8)
}

// Bits calls yield with each set bit in ascending order.
func (b BitSet) Bits(yield func(i int) bool) {
	for i := range len(b) * 8 {
		if b[i/8]&(1<<(i%8)) != 0 && !yield(i) {
			return
		}
	}
}

// AppendFastJSON implements fastjson.Marshaler: the bytes in Base64.
func (b BitSet) AppendFastJSON(dst []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// UnmarshalFastJSON implements fastjson.Unmarshaler. It accepts Base64 or a list of Java's signed bytes.
func (b *BitSet) UnmarshalFastJSON(raw []byte) error {
	bytes, err := readBytes(raw)
	if err != nil {
		return err
	}
	if len(bytes) > maxBitSetBytes {
		return errors.New("bit set too long")
	}
	*b = bytes
	return nil
}

func readBytes(raw []byte) ([]byte, error) {
	if raw[0] != '[' {
		var text string
		if err := fastjson.Unmarshal(raw, &text); err != nil {
			return nil, err
		}
		return base64.StdEncoding.DecodeString(text)
	}
	var signed []int16 // admits 128…255 too
	if err := fastjson.Unmarshal(raw, &signed); err != nil {
		return nil, err
	}
	bytes := make([]byte, len(signed))
	for i, s := range signed {
		bytes[i] = byte(s)
	}
	return bytes, nil
}
