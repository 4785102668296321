package remoting

import (
	"net"

	"golang.org/x/sys/unix"
)

// backgroundNice is the niceness of threads that give way: a tenth of the weight of others.
const backgroundNice = 10

// LowerPriority makes the present thread give way to others. On Linux a niceness is a thread's own, and anyone may raise it.
func LowerPriority() { _ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), backgroundNice) }

// limitSilence ends a connection whose peer's host does not acknowledge what is sent to it. Keepalive alone does not: it waits
// while bytes are on their way.
func limitSilence(nc *net.TCPConn) {
	if raw, err := nc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(aliveTimeout.Milliseconds()))
		})
	}
}
