package robust

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/castor-mq/castor/internal/race"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// maxBody is the default of maxMessageSize.
const maxBody = 4 << 20

// TestBodySizes: exactly the limit is stored and can be read, one more byte is refused, and a frame may be full to its last byte.
func TestBodySizes(t *testing.T) {
	c := start(t, map[string]string{"maxTransferBytesOnMessageInMemory": "262144"})
	big := bytes.Repeat([]byte("0123456789abcdef"), maxBody/16)
	for _, n := range []int{1, maxBody - 1, maxBody} {
		if _, err := c.send(victim, 0, big[:n]); err != nil {
			t.Errorf("a body of %d bytes: %v", n, err)
		}
	}
	c.want(code.MessageIllegal, code.SendMessage, sendHeader(victim, 0, ""), append(big, 'x'))
	c.want(code.SystemError, code.SendMessage, sendHeader(victim, 0, ""), nil) // as Java does, corrections.md 15
	p := dial(t, c.addr())
	head := len(request(header.Binary, int32(code.SendMessage), 7, sendHeader(victim, 0, ""), nil))
	full := request(header.Binary, int32(code.SendMessage), 7, sendHeader(victim, 0, ""), make([]byte, remoting.MaxFrame-head))
	if len(full) != remoting.MaxFrame {
		t.Fatal(len(full))
	}
	p.write(full)
	if cmd := p.mustReply(); code.Response(cmd.Code) != code.MessageIllegal {
		t.Errorf("a frame of exactly 16 MiB was answered %d %q", cmd.Code, cmd.Remark)
	}
	p.write(request(header.Binary, int32(code.SendMessage), 7, sendHeader(victim, 0, ""), make([]byte, remoting.MaxFrame-head+1)))
	p.mustClose("a frame of 16 MiB and a byte")
	c.checkAll()
}

// TestPropertySizes: the stored text, the broker's additions included, may have 32,767 bytes.
func TestPropertySizes(t *testing.T) {
	c := start(t, nil)
	const limit = message.MaxProperties
	stored := -1
	for n := limit - 400; n <= limit+2; n++ {
		props := "k\x01" + strings.Repeat("v", n-len("UNIQ_KEY\x01u\x02k\x01\x02")) + "\x02UNIQ_KEY\x01u\x02"
		if len(props) != n {
			t.Fatal(len(props))
		}
		r := c.must(code.SendMessage, sendHeader(victim, 0, props), []byte("x"))
		switch code.Response(r.Code) {
		case code.Success:
			if stored != n-1 && stored >= 0 {
				t.Errorf("%d bytes were stored although fewer were refused", n)
			}
			stored = n
		case code.MessageIllegal:
		default:
			t.Errorf("%d bytes of properties: %d %q", n, r.Code, r.Remark)
		}
	}
	offset := maxOffset(c, victim, 0) - 1
	r := c.want(code.Success, code.PullMessage, pullHeader(victim, 0, offset), nil)
	var v message.View
	if err := v.Parse(r.Body); err != nil {
		t.Fatal(err)
	}
	if got := len(v.Properties()); got != limit {
		t.Errorf("the largest properties that were taken are stored in %d bytes, the limit is %d", got, limit)
	}
	t.Logf("of %d bytes a client may use %d", limit, stored)
	for _, n := range []int{64 << 10, 1 << 20} {
		c.want(code.MessageIllegal, code.SendMessage, sendHeader(victim, 0, "k\x01"+strings.Repeat("v", n)+"\x02"), []byte("x"))
	}
	c.checkAll()
}

func maxOffset(c *cluster, topic string, queue int32) int64 {
	c.t.Helper()
	r := c.want(code.Success, code.GetMaxOffset, &header.GetMaxOffsetRequest{Topic: topic, QueueID: queue}, nil)
	var h header.GetMaxOffsetResponse
	if err := r.Decode(&h); err != nil {
		c.t.Fatal(err)
	}
	return h.Offset
}

// item is one message of a batch whose lengths may lie.
func item(size, bodyLen int32, body string, propLen int16, props string) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(nil, uint32(size))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = be.AppendUint32(b, uint32(bodyLen))
	b = append(b, body...)
	b = be.AppendUint16(b, uint16(propLen))
	return append(b, props...)
}

func batchHeader(topic, props string) *header.SendMessageRequestV2 {
	h := &header.SendMessageRequestV2{ProducerGroup: "producers", Topic: topic, DefaultTopic: autoKey, DefaultTopicQueueNums: 4, BornTimestamp: 1, Properties: props}
	h.Batch = header.Some(true)
	return h
}

// TestLyingBatches: a batch that is not what it says is refused as a whole.
func TestLyingBatches(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	good := string(item(26, 1, "x", 3, "a\x01b"))
	for name, body := range map[string]string{
		"empty":                         "",
		"one byte":                      "x",
		"21 bytes":                      good[:21],
		"without its last byte":         good[:len(good)-1],
		"with a byte too many":          good + "x",
		"size 0":                        string(item(0, 1, "x", 3, "a\x01b")),
		"size -1":                       string(item(-1, 1, "x", 3, "a\x01b")),
		"the smallest size":             string(item(-1<<31, 1, "x", 3, "a\x01b")),
		"the largest size":              string(item(1<<31-1, 1, "x", 3, "a\x01b")),
		"a size one too small":          string(item(25, 1, "x", 3, "a\x01b")),
		"a size one too large":          string(item(27, 1, "x", 3, "a\x01b")) + "x",
		"a body of -1":                  string(item(26, -1, "x", 3, "a\x01b")),
		"the largest body":              string(item(26, 1<<31-1, "x", 3, "a\x01b")),
		"the smallest body":             string(item(26, -1<<31, "x", 3, "a\x01b")),
		"properties of -1":              string(item(26, 1, "x", -1, "a\x01b")),
		"properties of 32767":           string(item(26, 1, "x", 32767, "a\x01b")),
		"properties that eat the next":  string(item(26, 1, "x", 29, "a\x01b")) + good,
		"a good one, then a bad one":    good + good + string(item(27, 1, "x", 3, "a\x01b")),
		"a delay inside":                string(item(22+1+8, 1, "x", 8, "DELAY\x013\x02")),
		"a timer inside":                string(item(22+1+19, 1, "x", 19, "TIMER_DELAY_SEC\x019\x02\x02")),
		"a transaction inside":          string(item(22+1+14, 1, "x", 14, "TRAN_MSG\x01true\x02")),
		"a zero byte in the properties": string(item(22+1+5, 1, "x", 5, "a\x01\x00b\x02")),
	} {
		before := maxOffset(c, victim, 0)
		c.want(code.MessageIllegal, code.SendBatchMessage, batchHeader(victim, ""), []byte(body))
		if got := maxOffset(c, victim, 0); got != before {
			t.Errorf("%s: %d messages of a refused batch were stored", name, got-before)
		}
	}
	for name, props := range map[string]string{"delayed": "DELAY\x013\x02", "of a transaction": "TRAN_MSG\x01true\x02", "with a zero byte": "a\x01\x00\x02"} {
		if r := c.must(code.SendBatchMessage, batchHeader(victim, props), []byte(good)); code.Response(r.Code) != code.MessageIllegal {
			t.Errorf("a batch %s was answered %d", name, r.Code)
		}
	}
	c.want(code.MessageIllegal, code.SendBatchMessage, batchHeader(victim, ""), make([]byte, maxBody+1))
	c.want(code.MessageIllegal, code.SendBatchMessage, batchHeader("%RETRY%readers", ""), []byte(good))
	c.want(code.Success, code.SendBatchMessage, batchHeader(victim, ""), []byte(good+good))
	c.checkAll()
}

// TestHugeBatches: a batch of nothing but headers costs a multiple of its bytes; that multiple is bounded.
func TestHugeBatches(t *testing.T) {
	c := start(t, nil)
	if _, err := c.send(victim, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	n := maxBody / 22
	if race.Enabled { // which makes the largest one a matter of many seconds, in which the others wait for its dispatch
		n /= 8
	}
	tiny := bytes.Repeat(item(22, 0, "", 0, ""), n)
	before := heap()
	c.once(5, func() {
		for range size(10, 1) {
			r := c.must(code.SendBatchMessage, batchHeader(victim, ""), tiny)
			switch code.Response(r.Code) {
			case code.Success, code.MessageIllegal, code.SystemBusy:
			default:
				t.Errorf("%d %.100q", r.Code, r.Remark)
			}
		}
	})
	grew(t, fmt.Sprintf("after batches of %d messages", n), before, 64<<20)
	c.checkAll()
}

// TestForgedChecksums: records may end with a checksum of themselves as their last property. A client must not be able to write one:
// recovery would take the record for a damaged one, and cut it and what follows off or refuse to start.
func TestForgedChecksums(t *testing.T) {
	for _, crc := range []string{"false", "true"} {
		t.Run("enabledAppendPropCRC="+crc, func(t *testing.T) {
			c := start(t, map[string]string{"enabledAppendPropCRC": crc, "brokerClusterName": "c"})
			forged := "__CRC32#\x011234567890\x02"
			props := []string{forged, "a\x01b\x02" + forged, "a\x01b" + forged, "a\x01" + forged, "\x01" + forged, "a" + forged, "a\x01b\x02\x01" + forged, "a\x01b\x02\x02" + forged,
				"__CRC32#\x01\x02__CRC32#\x011234567890\x02"}
			for i, p := range props {
				body := []byte(fmt.Sprintf("message %d", i))
				c.want(code.Success, code.SendMessage, sendHeader(victim, 0, p), body)
				c.want(code.Success, code.SendBatchMessage, batchHeader(victim, ""), message.AppendBatchItem(nil, 0, body, message.Props(p)))
			}
			if _, err := c.send(victim, 0, []byte("the last")); err != nil {
				t.Fatal(err)
			}
			n := maxOffset(c, victim, 0)
			c.kill()
			if got := maxOffset(c, victim, 0); got != n {
				t.Errorf("%d messages of %d are left after a crash", got, n)
			}
			c.checkAll()
		})
	}
}

func deflated(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}
