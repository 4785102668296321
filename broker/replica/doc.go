// Package replica keeps the CommitLogs of the brokers of one group the same: the master sends its log, the others append it, and the
// confirm offset is what all that must have it have.
//
// # Parts
//
//	epochs.go    which master wrote which part of a log, and where two logs part (pure)
//	leader.go    what a master knows of the others: acknowledgements, SyncStateSet, the offset that all have (pure)
//	wire.go      the frames between master and replica
//	source.go    a master's side of one connection
//	sink.go      a replica's side
//	align.go     what becomes of a log that the master's does not go on from (pure)
//	snapshot.go  how such a replica gets the master's state
//	node.go      the driver: roles, connections, the store
//
// # The way of a record
//
// Whoever appends to the master's log sends the new bytes himself (Node.push), one frame for all replicas that are equally far. The
// replica's poller that reads the frame appends and acknowledges it (link.take), the master's poller that reads the acknowledgement moves the
// confirm offset and answers the producer (source.take). No goroutine changes hands on the way; each connection has one for what would block.
//
// # Invariants (numbers of the design document)
//
//	I1 what is confirmed is in the log of every member of committed ∪ proposed SyncStateSet, and the set is large enough.
//	I5 a replica that has accepted an epoch takes nothing of an older one: every frame carries the epoch of its sender.
//	I6 the set changes only by what the controllers have committed.
//	I7 who enters the set has everything that was confirmed without him: from the proposal on the confirm offset waits for him.
//	I9 equal epoch and offset mean equal bytes below: an epoch starts at one offset, and logs are cut before they are joined.
//	I10 the epoch of a byte is on disk before the byte is in the log.
//	I11 what is acknowledged is in the log of who acknowledges it, and flushed there if he flushes before he answers.
//
// Facts: ReplicasManager, AutoSwitchHAService and EpochFileCache of Apache RocketMQ for what users see (keys, the epoch file); the
// alignment is the one of Kafka's KIP-101 and KIP-279; the wait of the confirm offset for who is about to join is Kafka's maximal
// ISR.
package replica
