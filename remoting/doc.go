// Package remoting speaks RocketMQ's remoting protocol: frames, command headers in both serializations, servers and clients.
//
// # What it owns
//
// A [Conn] is one connection, in either direction: it cuts the byte stream into frames, hands each request to the [Router] on
// the goroutine that read it, matches replies to calls by opaque, and collects what is written into one buffer that is sent
// with one system call when the burst of requests has been handled. A [Server] accepts connections: plain ones are read by
// netpoll's pollers, TLS and proxied ones by a goroutine each, both through the same Conn. A [Client] keeps one Conn per
// address. [TLS] holds the certificates of both.
//
// # Rules
//
//   - A request's bytes (header strings, body) belong to the connection and die when its handler returns. A handler that
//     answers later takes a [Ticket].
//   - Inline handlers never block. What may block runs in a [Lane]: bounded workers, bounded queue, a bound on waiting.
//   - A header is read by the form of an earlier one if it has the same; see form. What is not known for certain is parsed.
//   - A reply is written in the serialization of its request, and never to a oneway request.
//   - Memory grows with what has arrived, never with what a peer announces.
//   - A peer that does not read is not served: above a little unsent output its further requests are held, above more it is
//     closed, and so it is when it takes nothing for 30 s.
//   - Deadlines and idle times are the kernel's time; only certificate reloading takes a clock.
//
// # Goroutines
//
// Server.Run owns its acceptor, the idle check, and one goroutine per connection until its first byte, or to its end if netpoll
// does not read it; Client.Close waits for one reader per connection. Conn.drain runs while a peer is slow; its Server or Client
// waits for it. Lanes run in the group they are given. netpoll's pollers live as long as the process.
//
// # Locks
//
// Conn.reading → Conn.mu → nothing; polled.gate → nothing; Server.mu and Client.mu → nothing. Conn.reading is held while
// handlers run, Conn.mu while a reply is encoded, neither over I/O; polled.gate over a send that cannot block.
//
// Formats: RemotingCommand, RocketMQSerializable, NettyDecoder of Apache RocketMQ. Start reading at Conn.onData.
package remoting
