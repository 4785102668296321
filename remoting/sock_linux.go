package remoting

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitSilence ends a connection whose peer's host does not acknowledge what is sent to it. Keepalive alone does not: it waits
// while bytes are on their way.
func limitSilence(nc *net.TCPConn) {
	if raw, err := nc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(aliveTimeout.Milliseconds()))
		})
	}
}
