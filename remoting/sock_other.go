//go:build !linux

package remoting

import "net"

// limitSilence does nothing: keepalive and sendTimeout find most dead peers.
func limitSilence(*net.TCPConn) {}

// lowerPriority does nothing: the niceness is the process's.
func lowerPriority() {}
