package remoting

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
)

// proxyHeaderV2 builds a header; tail follows the addresses.
func proxyHeaderV2(verCmd, family byte, addresses []byte) string {
	b := append(bytes.Clone(proxyV2), verCmd, family)
	return string(binary.BigEndian.AppendUint16(b, uint16(len(addresses)))) + string(addresses)
}

func addresses(src string, tail int) []byte {
	a := netip.MustParseAddrPort(src)
	b := append(a.Addr().AsSlice(), a.Addr().AsSlice()...)
	b = binary.BigEndian.AppendUint16(b, a.Port())
	return append(binary.BigEndian.AppendUint16(b, 1), make([]byte, tail)...)
}

var proxyHeaders = []struct{ header, src string }{
	{"PROXY TCP4 192.0.2.7 10.0.0.1 56324 10911\r\n", "192.0.2.7:56324"},
	{"PROXY TCP6 2001:db8::7 ::1 65535 1\r\n", "[2001:db8::7]:65535"},
	{"PROXY UNKNOWN\r\n", ""},
	{"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", ""},
	{proxyHeaderV2(0x21, 0x11, addresses("192.0.2.7:56324", 0)), "192.0.2.7:56324"},
	{proxyHeaderV2(0x21, 0x21, addresses("[2001:db8::7]:80", 300)), "[2001:db8::7]:80"},
	{proxyHeaderV2(0x20, 0x00, nil), ""},
	{proxyHeaderV2(0x20, 0x11, addresses("192.0.2.7:56324", 0)), ""},
	{proxyHeaderV2(0x21, 0x31, make([]byte, 216)), ""},
}

func TestProxyHeaders(t *testing.T) {
	for _, h := range proxyHeaders {
		r := bufio.NewReader(strings.NewReader(h.header + "\x00rest"))
		src, err := readProxyHeader(r)
		want, _ := netip.ParseAddrPort(h.src)
		if err != nil || src != want {
			t.Errorf("%q: %v %v", h.header, src, err)
		}
		if rest, _ := r.Peek(5); string(rest) != "\x00rest" {
			t.Errorf("%q leaves %q", h.header, rest)
		}
	}
	for _, bad := range []string{
		"PROXY\r\n", "PROXY TCP4\r\n", "PROXY TCP4 192.0.2.7 10.0.0.1 56324\r\n", "PROXY TCP4 192.0.2.7 10.0.0.1 65536 1\r\n",
		"PROXY TCP4 192.0.2.7 10.0.0.1 -1 1\r\n", "PROXY TCP4 host 10.0.0.1 1 1\r\n", "PROXY TCP4 ::1 ::1 1 1\r\n", "PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n",
		"PROXY TCP4 192.0.2.7 10.0.0.1 1 1\n", "PROXYTCP4 192.0.2.7 10.0.0.1 1 1\r\n", "PUT / HTTP/1.1\r\n", "PROXY  TCP4 192.0.2.7 10.0.0.1 1 1\r\n",
		"P", "", "PROXY " + strings.Repeat("x", 200) + "\r\n", proxyHeaderV2(0x11, 0x11, addresses("192.0.2.7:1", 0)),
		proxyHeaderV2(0x21, 0x11, make([]byte, 11)), proxyHeaderV2(0x21, 0x21, make([]byte, 35)), proxyHeaderV2(0x21, 0x11, make([]byte, maxProxyHeader+1)),
		proxyHeaderV2(0x21, 0x11, addresses("192.0.2.7:1", 0))[:20], "\r\n\r\n\x00\r\nQUIX\n" + strings.Repeat("\x00", 10),
	} {
		if src, err := readProxyHeader(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q is read as %v", bad, src)
		}
	}
}

func FuzzProxyHeader(f *testing.F) {
	for _, h := range proxyHeaders {
		f.Add([]byte(h.header))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		src, err := readProxyHeader(bufio.NewReader(bytes.NewReader(b)))
		if err == nil && src.IsValid() && !src.Addr().IsValid() {
			t.Fatalf("%q: %v", b, src)
		}
	})
}

// TestProxiedConnections: the announced source is the peer, over plain and encrypted streams, in pieces or not.
func TestProxiedConnections(t *testing.T) {
	pki := testTLS(t)
	srv, _ := startServer(t, ServerConfig{TLS: pki.server}, table(Route{Code: code.HeartBeat, Serve: func(r *Request) error {
		return r.OK(nil, []byte(r.Conn.RemoteAddr()))
	}}))
	for _, h := range proxyHeaders {
		for _, secure := range []bool{false, true} {
			nc := dialRaw(t, srv.at())
			want := h.src
			if want == "" {
				want = nc.LocalAddr().String()
			}
			for i := range len(h.header) { // the worst case: a segment per byte
				if _, err := nc.Write([]byte(h.header[i : i+1])); err != nil {
					t.Fatal(err)
				}
			}
			stream := net.Conn(nc)
			if secure {
				stream = tls.Client(nc, pki.client())
			}
			if _, err := stream.Write(request(1, 0)); err != nil {
				t.Fatal(err)
			}
			var c Command
			if err := c.Parse(readFrame(t, stream)); err != nil || string(c.Body) != want {
				t.Fatalf("%q, TLS %v: %v, peer %q", h.header, secure, err, c.Body)
			}
		}
	}
}
