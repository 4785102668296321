// Package state holds a broker's metadata (topics, groups, consumer offsets, order locks, delay progress, ...) as a
// projection over the CommitLog.
//
// Every metadata change is a [Change]; a batch of changes is the body of one record of topic [Topic], which the store
// appends. Applying the confirmed records in log order to [Tables] gives the state, the same on every replica. A [DB]
// (state.db, a bbolt file) keeps a copy of the tables together with the log offset up to which they were applied, so a
// restart loads the copy and replays the rest of the log. Nothing here appends to the log.
//
// Invariants:
//
//	I1  Tables change only through Apply, and what Apply does depends on nothing but the tables and its arguments: no
//	    clock, no randomness, no order of maps.
//	I2  A record is applied whole or, when it cannot be decoded, not at all; one whose end is not beyond Applied changes
//	    nothing.
//	I3  A committed copy is exactly the tables after the record that ends at its applied offset.
//	I4  What lookups return is never modified afterwards, neither by this package nor by its callers.
//
// Formats. A record body is the byte bodyVersion and then, for every change, an uvarint length, the kind and the fields
// that the table in kinds.go lists: names as uvarint length and bytes, numbers as varints, configurations as JSON. A row
// of state.db is the change that puts it, with a CRC-32C before it, and a ledger accounts for the rows altogether; a
// snapshot is a stream of such changes.
//
// Goroutines: none of its own. One goroutine applies, one commits, any number reads.
// Locks: DB.mu → Tables.mu → the lock of a shard. Tables.mu is held while one record is applied or the dirty sets are
// swapped, a shard's lock for one map operation; DB.mu is held while state.db is written, and only commits wait for it.
//
// The files of a Java broker's config directory are read by ImportJava and written by ExportJava.
//
// Start reading at change.go, kinds.go and tables.go.
package state
