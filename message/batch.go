package message

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrBatch is returned by Batch.Next for a body that is no batch.
var ErrBatch = errors.New("malformed batch")

// BatchItem is one message of a batch; it aliases the batch's body.
type BatchItem struct {
	Flag       int32
	Body       []byte
	Properties Props
}

// Batch walks the body of SEND_BATCH_MESSAGE: mini records of total size, magic, CRC, flag, body and properties
// (MessageDecoder.encodeMessage). Magic and CRC of the client are ignored.
type Batch []byte

// Next cuts the first message off. ok is false at the end.
func (b *Batch) Next() (item BatchItem, ok bool, err error) {
	p := []byte(*b)
	if len(p) == 0 {
		return item, false, nil
	}
	const fixed = 4 + 4 + 4 + 4 + 4 + 2
	if len(p) < fixed {
		return item, false, fmt.Errorf("%w: %d bytes are left", ErrBatch, len(p))
	}
	size := int64(int32(binary.BigEndian.Uint32(p)))
	bodyLen := int64(int32(binary.BigEndian.Uint32(p[16:])))
	if size < fixed || size > int64(len(p)) || bodyLen < 0 || fixed+bodyLen > size {
		return item, false, fmt.Errorf("%w: message of %d bytes with a body of %d in %d", ErrBatch, size, bodyLen, len(p))
	}
	propLen := int64(int16(binary.BigEndian.Uint16(p[20+bodyLen:])))
	if propLen < 0 || fixed+bodyLen+propLen != size {
		return item, false, fmt.Errorf("%w: message of %d bytes with properties of %d", ErrBatch, size, propLen)
	}
	item = BatchItem{
		Flag:       int32(binary.BigEndian.Uint32(p[12:])),
		Body:       p[20 : 20+bodyLen],
		Properties: Props(p[22+bodyLen : size]),
	}
	*b = p[size:]
	return item, true, nil
}

// Count is how many messages the batch has; the error says that it is none.
func (b Batch) Count() (n int, err error) {
	for {
		_, ok, err := b.Next()
		if err != nil || !ok {
			return n, err
		}
		n++
	}
}

// AppendBatchItem appends one message in the form that Next reads.
func AppendBatchItem(dst []byte, flag int32, body []byte, props Props) []byte {
	be := binary.BigEndian
	dst = be.AppendUint32(dst, uint32(22+len(body)+len(props)))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = be.AppendUint32(dst, uint32(flag))
	dst = be.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	dst = be.AppendUint16(dst, uint16(len(props)))
	return append(dst, props...)
}
