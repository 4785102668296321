// Package remoting speaks RocketMQ's remoting protocol: frames, command headers in both serializations, servers and clients.
//
// # What it owns
//
// A [Conn] is one connection, in either direction: it cuts the byte stream into frames, hands each request to the [Router] on
// the goroutine that read it, matches replies to calls by opaque, and collects what is written into one buffer that is sent
// with one system call when the burst of requests has been handled. A [Server] accepts connections: plain ones are read by
// netpoll, TLS ones by a goroutine each, both through the same Conn. A [Client] keeps one Conn per address.
//
// # Rules
//
//   - A request's bytes (header strings, body) belong to the connection and die when its handler returns. A handler that
//     answers later takes a [Ticket].
//   - Inline handlers never block. What may block runs in a [Lane]: bounded workers, bounded queue, a bound on waiting.
//   - A reply is written in the serialization of its request, and never to a oneway request.
//   - What a peer does not read is bounded: above the limit its connection is closed.
//
// Formats: RemotingCommand, RocketMQSerializable, NettyDecoder of Apache RocketMQ. Start reading at Conn.onData.
package remoting
