package conf

import "net"

// localAddress returns the address under which others most likely reach this machine: the one of the default route. Java's
// NetworkUtil takes the last interface listed, which is often a container bridge. An IPv6 address stands in brackets.
func localAddress() string {
	// Opening a UDP socket sends nothing: the kernel only chooses a route. The addresses are of the documentation ranges.
	for _, probe := range []string{"192.0.2.1:9", "[2001:db8::1]:9"} {
		conn, err := net.Dial("udp", probe)
		if err != nil {
			continue
		}
		ip := conn.LocalAddr().(*net.UDPAddr).IP
		_ = conn.Close()
		if !ip.IsUnspecified() && !ip.IsLoopback() {
			return bracketed(ip)
		}
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, addr := range addrs {
		if n, ok := addr.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			return bracketed(n.IP)
		}
	}
	return "127.0.0.1"
}

func bracketed(ip net.IP) string {
	if ip.To4() != nil {
		return ip.String()
	}
	return "[" + ip.String() + "]"
}
