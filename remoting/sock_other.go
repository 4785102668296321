//go:build !linux

package remoting

import "net"

// limitSilence does nothing: keepalive and sendTimeout find most dead peers.
func limitSilence(*net.TCPConn) {}

// LowerPriority does nothing: the niceness is the process's.
func LowerPriority() {}
