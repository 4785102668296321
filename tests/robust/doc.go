// Package robust holds the tests of what bad input gets: a name server and a broker run in the test's process, hostile peers do
// their worst over real sockets, and every promise is checked by what other clients see.
//
// # The promise
//
//	R1 what does not speak the protocol gets a closed connection; what does gets an answer with the code of the reference.
//	R2 nothing panics, also not inside a handler.
//	R3 memory is bounded: it returns to what it was, and per connection, name or frame it stays under a stated figure.
//	R4 a well-behaved client on another connection goes on being served. It is counted in answers, not in time.
//	R5 nothing that was acknowledged is lost: it can be read after the attack, and after a restart.
//
// # Reading order
//
// harness_test.go (cluster, bystander, peer), then any of the others; each names the attack in its tests.
package robust
