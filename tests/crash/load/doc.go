// Command load is the client of the crash test: it sends until the broker dies and notes what was answered, and later checks that
// all of it is there.
//
//	load send   -b ADDR -log FILE -run N -for DURATION   sends until the broker is gone or the time is over
//	load verify -b ADDR -log FILE -seed N                compares the broker with the log
//
// # What is promised
//
//	C1 an acknowledged message is in its queue at the offset of its acknowledgement, once, with its key and every byte of its body.
//	C2 a message that was not acknowledged is there whole, once, or not at all.
//	C3 a queue has a message at every offset from its first to its last, and they come from each connection in the order sent.
//	C4 an acknowledged message is found by its unique key.
//	C5 a consumer offset is not below the last one that was answered, nor one that nobody asked for.
//	C6 a topic whose creation was answered exists.
//
// # Attempts
//
// A send that got no answer is sent again by the next run, with the same unique key, as clients do. Each attempt has a body of its
// own that begins with its name, so that copies are told apart: a key may be there as often as it was tried, an attempt once.
//
// Start reading at history.go, then send.go and verify.go.
package main
