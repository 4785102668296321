// Package bench is the load program: it measures a broker over its remoting port as clients see it, and checks every answer.
//
// It runs against any RocketMQ broker, so that two can be compared under the same load. Four loads: send, pull, latency
// (delivery to a long-polling consumer) and catchup (what a consumer of cold data does to a producer).
//
// # Not the bottleneck
//
// A send frame is rendered once; per message it is copied and its digits are patched (template). A reply is compared with
// the form of the reply before it (replyForm). In a closed loop the goroutine that reads the replies of a connection also
// writes the requests that take the freed places, since a hand-over to a second goroutine would cost more than the
// write; only an open loop, which sends on time whatever the replies do, has a writer of its own.
//
// # What is checked
//
//   - A reply answers a request that is in flight, once, and names the queue that was asked for.
//   - A queue offset is above every offset of its queue that the connection knew to be acknowledged when it sent.
//   - The acknowledged offsets of a queue are all different and, unless a send failed, without gaps.
//   - A pulled record is structurally sound, its body's checksum matches, its queue offset is the next one and its log
//     offset is above the last one's.
//
// The topic must be the load's own while it runs.
//
// # Time
//
// Latency counts from the moment a message was to be sent (in a closed loop, when it was sent) to the return of the read
// that brought its reply. Producer and consumer share one monotonic clock.
//
// Start reading at Main, then runSend.
package bench
