// Package namesrv is the name server: brokers register with it, clients ask it where topics are.
//
// # What it owns
//
// [RouteTable] (routes.go, topic.go, liveness.go, lists.go) decides: which broker holds which id of which broker name, which queues a
// topic has there, who is alive. It does no I/O, starts no goroutine, reads no clock and holds no lock; its methods return
// [Effects], what has to be done because of the change. [Server] (server.go, handlers.go, admin.go) runs it: requests in, effects out.
//
// # Reading without a lock
//
// Lookups never wait for registrations. A change is made in the table under the server's mutex and then published: the world
// (all broker names, the order configuration and the switches that shape routes) as one immutable value behind an atomic
// pointer, each changed topic as one immutable value in a concurrent map. A topic carries its encoded answers; one is valid as
// long as the world that it was made from is the present one. See view.go.
//
// # Invariants
//
//	I1  A broker name belongs to one cluster and has at least one member. Each of its ids has one address, each address one id.
//	I2  A queue's broker name is known. A topic has at least one queue.
//	I3  A member lives as long as its registration's connection, its heartbeats, or until it says goodbye or is replaced.
//	I4  The write bit is never edited: the table keeps what the broker registered, and the answer leaves the bit out while
//	    the broker name is wiped, or has no master but acts for one.
//
// # Goroutines
//
// All in Server.Run's group: the remoting server, one worker for registrations (so that those of a broker are applied in the
// order they came in), one for liveness, one for administration (which alone changes files), the scan for silent brokers, the
// departures of closed connections, and the sender of notifications.
//
// # Formats
//
// kvConfigPath holds what Java's KVConfigManager writes; configStorePath is a properties file of which only changed keys are
// touched.
//
// Java: org.apache.rocketmq.namesrv, above all RouteInfoManager and DefaultRequestProcessor. Start reading at routes.go.
package namesrv
