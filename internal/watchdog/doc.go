// Package watchdog ends a broker that hangs. A process that hangs keeps its sockets open, so that every request to it waits until its
// client gives up; when it is killed the kernel resets its connections, and clients turn to another replica at once.
//
// Run starts a child, the same binary, and writes one byte per beat into a pipe: whether the process may be killed, because others do its
// work then. The child kills it (Main) when the pipe has been silent for too long, not counting time in which the child itself was held
// up: then not the machine hangs but the process. Watch (watch.go) decides, and is pure.
//
// The child holds two things of its parent: the pipe, which ends with it, and a pidfd, which can name no other process.
package watchdog
