package admin

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/castor-mq/castor/message"
)

// msg is a message as a client sees it.
type msg struct {
	view   message.View
	broker string // its broker's name; empty if it was not read from a queue
	body   []byte // not compressed
	props  map[string]string
}

// maxBody bounds what a compressed body may grow to.
const maxBody = 64 << 20

// messages reads records that follow each other in an answer, which they alias.
func messages(data []byte, broker string) (list []*msg, err error) {
	for len(data) > 0 {
		m := &msg{broker: broker}
		if err := m.view.Parse(data); err != nil {
			return list, fmt.Errorf("malformed message: %w", err)
		}
		if m.body, err = unpacked(m.view.SysFlag(), m.view.Body(), maxBody); err != nil {
			return list, fmt.Errorf("message %s: %w", m.id(), err)
		}
		m.props = m.view.Properties().Map()
		list, data = append(list, m), data[m.view.Size():]
	}
	return list, nil
}

// The compression of a body, in the system flag (MessageSysFlag.COMPRESSION_*_TYPE). Clients that do not say which use zlib.
const (
	packMask = 0x700
	packLZ4  = 0x100
	packZstd = 0x200
)

// unpacked undoes the compression of a body. One of more than limit bytes is an error.
func unpacked(flag int32, data []byte, limit int) ([]byte, error) {
	if flag&message.FlagCompressed == 0 {
		return data, nil
	}
	var r io.Reader
	switch flag & packMask {
	case packLZ4:
		r = lz4.NewReader(bytes.NewReader(data))
	case packZstd:
		z, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	default:
		z, err := zlib.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("compressed body: %w", err)
		}
		r = z
	}
	all, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(all) > limit {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("compressed body: %w", err)
	}
	return all, nil
}

// offsetID is the id made of the broker's address and the position in the log.
func (m *msg) offsetID() string {
	return string(message.AppendID(nil, m.view.StoreHost(), m.view.PhyOffset()))
}

// id is the id that the producer gave the message, or else the offset id.
func (m *msg) id() string {
	if id, ok := m.view.Properties().Get(message.PropUniqueKey); ok {
		return id
	}
	return m.offsetID()
}

// sysFlag is the system flag of the unpacked message.
func (m *msg) sysFlag() int32 { return m.view.SysFlag() &^ message.FlagCompressed }

// text is MessageExt.toString.
func (m *msg) text() string {
	v := &m.view
	return fmt.Sprintf("MessageExt [brokerName=%s, queueId=%d, storeSize=%d, queueOffset=%d, sysFlag=%d, bornTimestamp=%d, bornHost=/%s, storeTimestamp=%d, storeHost=/%s, "+
		"msgId=%s, commitLogOffset=%d, bodyCRC=%d, reconsumeTimes=%d, preparedTransactionOffset=%d, toString()=Message{topic='%s', flag=%d, properties=%s, body=%s, transactionId='null'}]",
		notGiven(m.broker), v.QueueID(), v.Size(), v.QueueOffset(), m.sysFlag(), v.BornTimestamp(), v.BornHost(), v.StoreTimestamp(), v.StoreHost(),
		m.offsetID(), v.PhyOffset(), message.BodyCRC(v.Body()), v.ReconsumeTimes(), v.PreparedOffset(), v.Topic(), v.Flag(), javaMap(m.props), javaBytes(m.body))
}

// javaBytes formats bytes as Java does, which has no unsigned ones.
func javaBytes(data []byte) string {
	if len(data) == 0 {
		return "null"
	}
	signed := make([]int8, len(data))
	for i, c := range data {
		signed[i] = int8(c)
	}
	return javaList(signed)
}

// describe prints a message as a block of lines, and writes its body to a file. withID tells whether the offset id is shown.
func (t *tool) describe(m *msg, withID bool) error {
	v := &m.view
	path := filepath.Join(t.tmp, "msgbodys", fileName(m.id()))
	if err := writeFile(path, m.body); err != nil {
		path = fmt.Sprintf("not written: %v", err)
	}
	line := func(name string, value any) { t.printf("%-20s %v\n", name+":", value) }
	if withID {
		line("OffsetID", m.offsetID())
	}
	line("Topic", string(v.Topic()))
	line("Tags", "["+notGiven(m.props[message.PropTags])+"]")
	line("Keys", "["+notGiven(m.props[message.PropKeys])+"]")
	line("Queue ID", v.QueueID())
	line("Queue Offset", v.QueueOffset())
	line("CommitLog Offset", v.PhyOffset())
	line("Reconsume Times", v.ReconsumeTimes())
	line("Born Timestamp", t.at(v.BornTimestamp(), formMillis, ""))
	line("Store Timestamp", t.at(v.StoreTimestamp(), formMillis, ""))
	line("Born Host", v.BornHost())
	line("Store Host", v.StoreHost())
	line("System Flag", m.sysFlag())
	line("Properties", javaMap(m.props))
	line("Message Body Path", path)
	if t.given.has("f") {
		text, err := charset(t.given["f"], m.body)
		if err != nil {
			return err
		}
		line("Message Body", text)
	}
	return nil
}

// printLine prints a message in one line, as printMsg does.
func (t *tool) printLine(m *msg, withBody bool, charsetName string) error {
	text := "NOT PRINT BODY"
	if withBody {
		var err error
		if text, err = charset(charsetName, m.body); err != nil {
			return err
		}
	}
	t.printf("MSGID: %s %s BODY: %s\n", m.id(), m.text(), text)
	return nil
}

// charset reads text in one of the few encodings that need no tables.
func charset(name string, data []byte) (string, error) {
	switch strings.ToUpper(name) {
	case "", "UTF-8", "UTF8", "US-ASCII", "ASCII":
		return string(data), nil
	case "ISO-8859-1", "LATIN1":
		runes := make([]rune, len(data))
		for i, c := range data {
			runes[i] = rune(c)
		}
		return string(runes), nil
	}
	return "", fmt.Errorf("charset %s is not supported: UTF-8 and ISO-8859-1 are", name)
}

// tagged tells whether a message has one of the tags of an expression such as `TagA || TagB`. Brokers compare hashes only.
func (m *msg) tagged(expression string) bool {
	if expression = strings.TrimSpace(expression); expression == "" || expression == "*" {
		return true
	}
	return slices.Contains(splitList(expression, "||"), m.props[message.PropTags])
}
