package robust

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func be32(words ...uint32) []byte {
	var b []byte
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// malformed are streams that make no sense (remoting.md 1.14): each ends its connection.
func malformed() map[string][]byte {
	m := map[string][]byte{
		"length 0":                be32(0, 0),
		"length 3":                be32(3, 0),
		"length -1":               be32(0xFFFFFFFF, 0),
		"the smallest length":     be32(0x80000000, 0),
		"the largest length":      be32(0x7FFFFFFF, 0),
		"a frame over the limit":  be32(remoting.MaxFrame-3, 10),
		"header over the frame":   append(be32(20, 17), make([]byte, 16)...),
		"header of 16 MiB - 1":    append(be32(20, 0x00FFFFFF), make([]byte, 16)...),
		"serialize type 2":        append(be32(20, 2<<24|16), make([]byte, 16)...),
		"serialize type 255":      append(be32(20, 255<<24|16), make([]byte, 16)...),
		"no header":               be32(4, 0),
		"no binary header":        be32(4, 1<<24),
		"a browser":               []byte("GET / HTTP/1.1\r\nHost: broker\r\n\r\n"),
		"a web form":              []byte("POST /api HTTP/1.1\r\nContent-Length: 100\r\n\r\n" + strings.Repeat("a", 100)),
		"a shell":                 []byte("SSH-2.0-OpenSSH_9.6\r\n"),
		"redis":                   []byte("*1\r\n$4\r\nPING\r\n"),
		"zeros":                   make([]byte, 4096),
		"ones":                    bytes.Repeat([]byte{0xFF}, 4096),
		"PROXY without an end":    append([]byte("PROXY TCP4 "), bytes.Repeat([]byte("9"), 4096)...),
		"PROXY of no family":      []byte("PROXY TCP9 1.2.3.4 5.6.7.8 1 2\r\n"),
		"PROXY v2 of version 9":   []byte("\r\n\r\n\x00\r\nQUIT\n\x91\x11\x00\x0c123456789012"),
		"PROXY v2 of 64 KiB":      append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff"), make([]byte, 1<<16)...),
		"a TLS hello":             append([]byte{0x16, 3, 1, 0, 200, 1, 0, 0, 196}, make([]byte, 196)...),
		"a TLS record of nothing": {0x16, 3, 1, 0xFF, 0xFF},
	}
	for _, text := range []string{"", "null", "[]", `"x"`, "1", "{", "{]", `{"code":10`, `{"code":"ten"}`, `{"code":99999999999}`, `{"flag":{}}`, `{"extFields":[]}`,
		`{"extFields":"x"}`, `{"code":10}}`, `{"code":10} {"code":11}`, "\xEF\xBB\xBF{}", `{"opaque":1.5e3}`, `{"a":"\`, `{"a":"b`, `{"code":10,/*`, "\x00\x00\x00\x00",
		strings.Repeat("[", 100_000), `{"a":` + strings.Repeat("[", 100_000), strings.Repeat("}", 1000)} {
		m[fmt.Sprintf("JSON header %.24q of %d bytes", text, len(text))] = rawFrame(0, []byte(text), nil)
	}
	good := binaryHead(0, be32(0))
	for name, head := range map[string][]byte{
		"cut off":                    good[:20],
		"remark of -1":               binaryHead(0xFFFFFFFF, nil),
		"remark over the header":     binaryHead(1000, be32(0)),
		"map of -1":                  binaryHead(0, be32(0xFFFFFFFF)),
		"map over the header":        binaryHead(0, be32(1000)),
		"key over the map":           binaryHead(0, append(be32(6), 0x7F, 0xFF, 0, 0, 0, 0)),
		"key of -1":                  binaryHead(0, append(be32(6), 0xFF, 0xFF, 0, 0, 0, 0)),
		"value over the map":         binaryHead(0, append(be32(7), 0, 1, 'a', 0x7F, 0xFF, 0xFF, 0xFF)),
		"value of -1":                binaryHead(0, append(be32(7), 0, 1, 'a', 0xFF, 0xFF, 0xFF, 0xFF)),
		"one byte of a key's length": binaryHead(0, append(be32(1), 0)),
	} {
		m["binary header: "+name] = rawFrame(1, head, nil)
	}
	return m
}

// binaryHead is the fixed part of a binary header with this length of the remark, and what follows.
func binaryHead(remark uint32, rest []byte) []byte {
	head := []byte{0, 10, 0, 1, 1}
	head = append(head, be32(7, 0, remark)...)
	return append(head, rest...)
}

func TestMalformedStreamsAreClosed(t *testing.T) {
	c := start(t, nil)
	before := heap()
	c.while(20, func() {
		for name, bad := range malformed() {
			for server, addr := range map[string]string{"broker": c.addr(), "name server": c.names.Addr().String()} {
				p := dial(t, addr)
				p.write(bad)
				p.mustClose(server + ": " + name)
				p.close()
			}
			p := dial(t, c.addr()) // the same behind a good frame: that one is answered
			p.write(append(request(header.JSON, 9999, 1, nil, nil), bad...))
			if cmd, err := p.reply(); err == nil && code.Response(cmd.Code) != code.RequestCodeNotSupported {
				t.Errorf("before %s: answered %d", name, cmd.Code)
			}
			p.close()
		}
	})
	grew(t, "after malformed frames", before, 8<<20)
	c.checkAll()
}

// TestRandomFrames sends frames of random bytes, and good ones with a few bytes changed: whatever they come to mean, the server goes
// on.
func TestRandomFrames(t *testing.T) {
	c := start(t, nil)
	rnd := rand.New(rand.NewPCG(1, 2))
	good := [][]byte{
		request(header.JSON, int32(code.SendMessage), 1, sendHeader(victim, 0, "a\x01b\x02"), []byte("body")),
		request(header.Binary, int32(code.SendMessage), 1, sendHeader(victim, 0, "a\x01b\x02"), []byte("body")),
		request(header.Binary, int32(code.PullMessage), 1, pullHeader(victim, 0, 0), nil),
		request(header.JSON, int32(code.HeartBeat), 1, nil, []byte(`{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t","subString":"*"}]}]}`)),
	}
	c.while(50, func() {
		for range size(300, 60) {
			p := dial(t, c.addr())
			for range 10 {
				var f []byte
				if rnd.IntN(2) == 0 {
					f = append(f, good[rnd.IntN(len(good))]...)
					for range 1 + rnd.IntN(4) {
						f[4+rnd.IntN(len(f)-4)] = byte(rnd.Uint32())
					}
				} else {
					f = make([]byte, 8+rnd.IntN(200))
					for i := range f {
						f[i] = byte(rnd.Uint32())
					}
					binary.BigEndian.PutUint32(f, uint32(len(f)-4))
					binary.BigEndian.PutUint32(f[4:], uint32(rnd.IntN(2))<<24|uint32(rnd.IntN(len(f))))
				}
				p.write(f)
			}
			p.close()
		}
	})
	c.checkAll()
}

// TestForeignRepliesAreIgnored: answers to questions that nobody asked.
func TestForeignRepliesAreIgnored(t *testing.T) {
	c := start(t, nil)
	p := dial(t, c.addr())
	for opaque := range int32(1000) {
		p.write(remoting.AppendCommand(nil, &remoting.Command{Code: 0, Flag: 1, Opaque: opaque - 500, Enc: header.Binary}, fields{"a", "b"}, []byte("x")))
	}
	p.alive("after answers to nothing")
}

// TestUnknownCodes asks for everything that a code can be in both encodings. The answer to what is not served is 3.
func TestUnknownCodes(t *testing.T) {
	c := start(t, nil)
	var codes []int32
	for rc, step := int32(-32768), int32(size(1, 13)); rc <= 32767; rc++ {
		if rc%step == 0 || rc >= 0 && rc < 5100 {
			codes = append(codes, rc)
		}
	}
	for rc := int32(200_000); rc < 200_200; rc++ {
		codes = append(codes, rc)
	}
	codes = append(codes, -1<<31, 1<<31-1)
	c.while(20, func() {
		for _, enc := range both {
			for server, addr := range map[string]string{"broker": c.addr(), "name server": c.names.Addr().String()} {
				served := askAll(t, dial(t, addr), enc, codes)
				if len(served) == 0 || len(served) > 150 {
					t.Errorf("%s: %d codes are served", server, len(served))
				}
			}
		}
	})
	c.checkAll()
}

// askAll sends an empty request of every code at once and returns those that are served.
func askAll(t *testing.T, p *peer, enc header.Encoding, codes []int32) (served []int32) {
	t.Helper()
	silent := map[code.Request]bool{code.EndTransaction: true} // Java's broker does not answer one without an outcome either
	expect := 0
	var all []byte
	for i, rc := range codes {
		if silent[code.Request(rc)] {
			continue
		}
		all = append(all, request(enc, rc, int32(i), nil, nil)...)
		expect++
	}
	written := make(chan struct{})
	go func() { // both directions at once, or both ends wait for each other
		defer close(written)
		p.write(all)
	}()
	seen := make([]bool, len(codes))
	for range expect {
		cmd := p.mustReply()
		if !cmd.IsResponse() || int(cmd.Opaque) >= len(codes) || cmd.Opaque < 0 || seen[cmd.Opaque] {
			t.Fatalf("a second answer, or one to nothing: opaque %d, flag %d", cmd.Opaque, cmd.Flag)
		}
		seen[cmd.Opaque] = true
		rc := codes[cmd.Opaque]
		if code.Response(cmd.Code) != code.RequestCodeNotSupported {
			served = append(served, rc)
			continue
		}
		if want := fmt.Sprintf(" request type %d not supported", rc); enc == header.JSON && string(cmd.Remark) != want {
			t.Errorf("code %d: remark %q, want %q", rc, cmd.Remark, want)
		}
	}
	<-written
	p.close()
	return served
}
