package header

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
)

// frame is a command header with its ext fields.
type frame struct {
	enc   Encoding
	code  int32
	reply bool
	ext   map[string]string
}

// exchange is a request and, if there was one, its reply.
type exchange struct {
	code        code.Request
	request     frame
	reply       frame
	hasResponse bool
}

func readExchanges(t *testing.T) []exchange {
	t.Helper()
	raw, err := os.ReadFile("testdata/frames.bin")
	if err != nil {
		t.Fatal(err)
	}
	var out []exchange
	for len(raw) > 0 {
		n := 4 + binary.BigEndian.Uint32(raw)
		f, err := parseFrame(raw[:n])
		if err != nil {
			t.Fatal(err)
		}
		raw = raw[n:]
		if f.reply {
			out[len(out)-1].reply, out[len(out)-1].hasResponse = f, true
			continue
		}
		c := code.Request(f.code)
		if f.enc == Binary {
			c = code.FromBinary(int16(f.code))
		}
		out = append(out, exchange{code: c, request: f})
	}
	return out
}

func parseFrame(b []byte) (frame, error) {
	enc := Encoding(b[4])
	hdr := b[8:][:binary.BigEndian.Uint32(b[4:])&0xffffff]
	if enc == JSON {
		var h struct {
			Code      int32
			Flag      int32
			ExtFields map[string]string
		}
		if err := json.Unmarshal(hdr, &h); err != nil {
			return frame{}, err
		}
		return frame{JSON, h.Code, h.Flag&1 != 0, h.ExtFields}, nil
	}
	f := frame{enc: Binary, code: int32(int16(binary.BigEndian.Uint16(hdr)))}
	f.reply = binary.BigEndian.Uint32(hdr[9:])&1 != 0
	remark := binary.BigEndian.Uint32(hdr[13:])
	fields := hdr[17+remark:]
	var err error
	f.ext, err = decodeBinary(fields[4:][:binary.BigEndian.Uint32(fields)])
	return f, err
}

// written decodes what w holds.
func written(w *Writer) (map[string]string, error) {
	if w.Enc == Binary {
		return decodeBinary(w.Buf)
	}
	return decodeJSON(w.Buf)
}

func decodeBinary(b []byte) (map[string]string, error) {
	m := map[string]string{}
	next := func(n int) string {
		s := string(b[:n])
		b = b[n:]
		return s
	}
	for len(b) > 0 {
		key := next(int(binary.BigEndian.Uint16([]byte(next(2)))))
		val := next(int(binary.BigEndian.Uint32([]byte(next(4)))))
		if _, dup := m[key]; dup {
			return nil, fmt.Errorf("key %q written twice", key)
		}
		m[key] = val
	}
	return m, nil
}

func decodeJSON(b []byte) (map[string]string, error) {
	m := map[string]string{}
	dec := json.NewDecoder(strings.NewReader("{" + string(b) + "}"))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		var tok [2]string
		for i := range tok {
			t, err := dec.Token()
			if err != nil {
				return nil, err
			}
			s, ok := t.(string)
			if !ok {
				return nil, fmt.Errorf("%v is not a string", t)
			}
			tok[i] = s
		}
		if _, dup := m[tok[0]]; dup {
			return nil, fmt.Errorf("key %q written twice", tok[0])
		}
		m[tok[0]] = tok[1]
	}
	_, err := dec.Token()
	return m, err
}
