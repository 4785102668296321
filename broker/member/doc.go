// Package member is a broker's membership in its group, as the controllers see it: the broker's side of the controller protocol.
//
// # What it owns
//
// The broker's id (identity.go: the files brokerIdentity and brokerIdentity-temp), the way to the controller that leads
// (leader.go), the heartbeats (beat.go), and the group's role as far as this broker knows it (role.go). It decides nothing about
// replication: it tells the [Replica] each newer [Role], and carries the master's changes of the SyncStateSet to the controllers.
//
// # Invariants
//
//	I1  Roles are told in their order, one at a time: never one of an earlier epoch, not even one that only the log remembers, and
//	    never a second master of an epoch.
//	I2  An id is used only when it is on disk, and asked for again under the same check code when an answer was lost.
//	I3  The controllers never believe in a minInSyncReplicas above [Member.MinInSync] and what is configured.
//	I4  A controller that hangs or is gone delays no call to another one, and no heartbeat to it.
//
// # Steps
//
// machine (machine.go) is the pure core: it says from the answer to one step which step is next. A start is CONTROLLER_GET_NEXT_BROKER_ID,
// brokerIdentity-temp, CONTROLLER_APPLY_BROKER_ID, brokerIdentity, CONTROLLER_REGISTER_BROKER, one answered BROKER_HEARTBEAT, then for
// ever CONTROLLER_GET_REPLICA_INFO, and CONTROLLER_ELECT_MASTER when the group has no master. The question is asked every second, at
// once when something suggests that its answer has changed, and looks at what is: whatever was missed is found.
//
// # Goroutines
//
// In Run's group: the steps, the roles (calls SetRole), the heartbeats, one short one per heartbeat and per question for the leader.
// Member.mu and quorum.mu are never held together, nor over I/O or a call of the Replica.
//
// # Formats
//
// brokerIdentity is one line, cluster#name#id; brokerIdentity-temp adds #registerCheckCode. Ours are replaced atomically, or a crash
// could lose the id. brokerIdentity-starts counts the starts, a decimal number: it is the upper half of what tells one life of the broker from
// another (controller.Starts), so that the controllers know the later of two, and an old copy of a disk.
//
// Java: ReplicasManager, BrokerMetadata, TempBrokerMetadata. Start reading at machine.go, then member.go.
package member
