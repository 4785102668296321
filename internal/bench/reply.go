package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// sendReply is what the answer to a send says. Offset and queue are those of a success.
type sendReply struct {
	opaque int32
	code   code.Response
	remark string
	queue  int32
	offset int64
}

// Errors of the reply reader; each ends the load.
var (
	errNoReply = errors.New("the broker sent a request instead of a reply")
	errReply   = errors.New("malformed reply")
)

// field is a value in a reply's header that differs from reply to reply.
type field byte

const (
	fieldEnd field = iota // the text up to the end
	fieldOpaque
	fieldQueue
	fieldOffset
	fieldMsgID
	fieldTransactionID
)

// replyForm reads successful replies to sends fast: a broker writes the same header each time except for a few values. The
// form is learned from a reply that the general parser has understood; a reply of another form goes through that parser
// again, so nothing is ever assumed about it.
type replyForm struct {
	parts []formPart
	cmd   remoting.Command
}

// formPart is literal text and the value that follows it.
type formPart struct {
	text  []byte
	value field
}

// parse reads one frame without its four length bytes.
func (f *replyForm) parse(frame []byte) (sendReply, error) {
	if len(frame) > 4 && int(binary.BigEndian.Uint32(frame)) == len(frame)-4 { // JSON and no body
		if r, ok := f.match(frame[4:]); ok {
			return r, nil
		}
	}
	if err := f.cmd.Parse(frame); err != nil {
		return sendReply{}, err
	}
	if !f.cmd.IsResponse() {
		return sendReply{}, errNoReply
	}
	r := sendReply{opaque: f.cmd.Opaque, code: code.Response(f.cmd.Code), remark: string(f.cmd.Remark)}
	if r.code != code.Success {
		return r, nil
	}
	var h header.SendMessageResponse
	if err := f.cmd.Decode(&h); err != nil {
		return r, fmt.Errorf("%w: %w", errReply, err)
	}
	if !isMsgID([]byte(h.MsgID)) {
		return r, fmt.Errorf("%w: message id %q", errReply, h.MsgID)
	}
	r.queue, r.offset = h.QueueID, h.QueueOffset
	if r.offset < 0 {
		return r, fmt.Errorf("%w: queue offset %d", errReply, r.offset)
	}
	f.learn(frame[4:], &h)
	return r, nil
}

// match reads the header of a reply of the known form.
func (f *replyForm) match(b []byte) (r sendReply, ok bool) {
	for _, p := range f.parts {
		if !bytes.HasPrefix(b, p.text) {
			return r, false
		}
		b = b[len(p.text):]
		var n int
		switch p.value {
		case fieldEnd:
			return r, len(b) == 0
		case fieldOpaque:
			r.opaque, n = int32Prefix(b)
		case fieldQueue:
			r.queue, n = int32Prefix(b)
		case fieldOffset:
			r.offset, n = intPrefix(b)
		case fieldMsgID:
			if n = bytes.IndexByte(b, '"'); n < 0 || !isMsgID(b[:n]) {
				return r, false
			}
		case fieldTransactionID:
			n = bytes.IndexByte(b, '"')
		}
		if n <= 0 {
			return r, false
		}
		b = b[n:]
	}
	return r, false
}

// learn takes the form of the header text of a reply that has been understood. If a value does not stand in the text as expected, there is no
// form and replies keep going through the general parser.
func (f *replyForm) learn(text []byte, h *header.SendMessageResponse) {
	f.parts = f.parts[:0]
	if f.cmd.Enc != header.JSON || len(f.cmd.Body) > 0 {
		return
	}
	type place struct {
		at, size int
		value    field
	}
	var places []place
	for _, v := range []struct {
		value        field
		before, text string
		optional     bool
	}{
		{fieldOpaque, `"opaque":`, strconv.Itoa(int(f.cmd.Opaque)), false},
		{fieldQueue, `"queueId":"`, strconv.Itoa(int(h.QueueID)), false},
		{fieldOffset, `"queueOffset":"`, strconv.FormatInt(h.QueueOffset, 10), false},
		{fieldMsgID, `"msgId":"`, h.MsgID, false},
		{fieldTransactionID, `"transactionId":"`, h.TransactionID, true},
	} {
		i := bytes.Index(text, []byte(v.before+v.text))
		switch {
		case i >= 0 && v.text != "":
			places = append(places, place{i + len(v.before), len(v.text), v.value})
		case !v.optional:
			return
		}
	}
	for done := 0; ; {
		next := place{at: len(text)}
		for _, p := range places {
			if p.at >= done && p.at < next.at {
				next = p
			}
		}
		f.parts = append(f.parts, formPart{text: bytes.Clone(text[done:next.at]), value: next.value})
		if next.value == fieldEnd {
			return
		}
		done = next.at + next.size
	}
}

// isMsgID tells whether b is an offset message id: host and log offset in 32 (IPv4) or 56 (IPv6) upper-case hex digits.
func isMsgID(b []byte) bool {
	if len(b) != 32 && len(b) != 56 {
		return false
	}
	for _, c := range b {
		if c-'0' > 9 && c-'A' > 5 {
			return false
		}
	}
	return true
}

func int32Prefix(b []byte) (int32, int) {
	v, n := intPrefix(b)
	if v > opaqueMax {
		return 0, 0
	}
	return int32(v), n
}

// intPrefix reads the digits that b starts with and returns how many there are; 0 if it is no number of a sane size.
func intPrefix(b []byte) (v int64, n int) {
	for n < len(b) && b[n]-'0' <= 9 {
		v = v*10 + int64(b[n]-'0')
		n++
	}
	if n > 18 {
		return 0, 0
	}
	return v, n
}
