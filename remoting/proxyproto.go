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

var (
	proxyV1 = []byte("PROXY ")
	proxyV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

var errProxyHeader = errors.New("bad PROXY header")

// isProxyHeader tells whether a stream starts with a PROXY protocol header of either version. A frame never does: read as a
// length, both starts are beyond the frame limit.
func isProxyHeader(first []byte) bool {
	return len(first) >= 4 && (bytes.HasPrefix(first, proxyV1[:4]) || bytes.HasPrefix(first, proxyV2[:4]))
}

// readProxyHeader consumes the header and returns the source address it announces, nil if it announces none (LOCAL, UNKNOWN).
func readProxyHeader(r *bufio.Reader) (net.Addr, error) {
	first, err := r.Peek(4)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(first, proxyV2[:4]) {
		return readProxyV2(r)
	}
	var line []byte
	for len(line) < 107 {
		b, err := r.ReadByte()
		if err != nil {
			return nil, err
		}
		if line = append(line, b); b == '\n' {
			break
		}
	}
	part := strings.Fields(string(line))
	if !bytes.HasSuffix(line, []byte("\r\n")) || len(part) < 2 || part[0] != "PROXY" {
		return nil, errProxyHeader
	}
	if part[1] == "UNKNOWN" {
		return nil, nil
	}
	if len(part) != 6 {
		return nil, errProxyHeader
	}
	ip, err := netip.ParseAddr(part[2])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	port, err := strconv.ParseUint(part[4], 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errProxyHeader, err)
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port))), nil
}

func readProxyV2(r *bufio.Reader) (net.Addr, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[14:]))
	if !bytes.Equal(head[:12], proxyV2) || head[12]>>4 != 2 || n > 2048 {
		return nil, errProxyHeader
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	if head[12]&15 == 0 { // LOCAL
		return nil, nil
	}
	size := map[byte]int{1: 4, 2: 16}[head[13]>>4]
	if size == 0 {
		return nil, nil
	}
	if n < 2*size+4 {
		return nil, errProxyHeader
	}
	ip, _ := netip.AddrFromSlice(rest[:size])
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, binary.BigEndian.Uint16(rest[2*size:]))), nil
}
