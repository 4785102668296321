package remoting

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// The PROXY protocol of HAProxy, versions 1 (text) and 2 (binary): what a load balancer sends before the client's first byte.

const (
	maxProxyV1     = 107  // bytes, the line end included
	maxProxyHeader = 4096 // bytes of version 2, which may carry certificates
)

var proxyV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")

var errProxyHeader = errors.New("bad PROXY header")

// isProxyHeader tells whether a stream whose first byte this is can only be a PROXY header.
func isProxyHeader(first byte) bool { return first == 'P' || first == proxyV2[0] }

// readProxied consumes the header and returns whom it announces (peer, if nobody) and the first byte after it.
func readProxied(r *bufio.Reader, peer net.Addr) (net.Addr, byte, error) {
	src, err := readProxyHeader(r)
	if err != nil {
		return nil, 0, err
	}
	if src.IsValid() {
		peer = net.TCPAddrFromAddrPort(src)
	}
	first, err := r.Peek(1)
	if err != nil {
		return nil, 0, err
	}
	return peer, first[0], nil
}

// readProxyHeader consumes the header and returns the source address that it announces, the zero value if it announces none
// (LOCAL, UNKNOWN, UNIX).
func readProxyHeader(r *bufio.Reader) (netip.AddrPort, error) {
	first, err := r.Peek(1)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if first[0] == proxyV2[0] {
		return readProxyV2(r)
	}
	line := make([]byte, 0, maxProxyV1)
	for len(line) < maxProxyV1 && !bytes.HasSuffix(line, []byte("\r\n")) {
		b, err := r.ReadByte()
		if err != nil {
			return netip.AddrPort{}, err
		}
		line = append(line, b)
	}
	return parseProxyV1(line)
}

// parseProxyV1 reads "PROXY TCP4 <source> <destination> <source port> <destination port>\r\n".
func parseProxyV1(line []byte) (netip.AddrPort, error) {
	text, whole := strings.CutSuffix(string(line), "\r\n")
	part := strings.Split(text, " ")
	if !whole || len(part) < 2 || part[0] != "PROXY" {
		return netip.AddrPort{}, errProxyHeader
	}
	if part[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(part) != 6 || part[1] != "TCP4" && part[1] != "TCP6" {
		return netip.AddrPort{}, errProxyHeader
	}
	ip, err := netip.ParseAddr(part[2])
	if err != nil || ip.Zone() != "" || ip.Is4() != (part[1] == "TCP4") {
		return netip.AddrPort{}, fmt.Errorf("%w: source %q", errProxyHeader, part[2])
	}
	port, err := strconv.ParseUint(part[4], 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: source port %q", errProxyHeader, part[4])
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

// readProxyV2 reads 12 bytes of signature, version and command, family, length, and then addresses and TLVs of that length.
func readProxyV2(r *bufio.Reader) (netip.AddrPort, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return netip.AddrPort{}, err
	}
	n := int(binary.BigEndian.Uint16(head[14:]))
	if !bytes.Equal(head[:12], proxyV2) || head[12]>>4 != 2 || n > maxProxyHeader {
		return netip.AddrPort{}, errProxyHeader
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return netip.AddrPort{}, err
	}
	size := 0
	switch head[13] >> 4 {
	case 1:
		size = 4
	case 2:
		size = 16
	}
	if local := head[12]&15 == 0; local || size == 0 {
		return netip.AddrPort{}, nil
	}
	if n < 2*size+4 {
		return netip.AddrPort{}, fmt.Errorf("%w: %d bytes of addresses", errProxyHeader, n)
	}
	ip, _ := netip.AddrFromSlice(rest[:size])
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(rest[2*size:])), nil
}

// bufferedConn reads through a reader that may have read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (b bufferedConn) Read(p []byte) (int, error) { return b.r.Read(p) }
