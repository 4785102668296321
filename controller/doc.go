// Package controller is the quorum that decides who is master of which group of brokers, and which replicas are in sync.
//
// # What it owns
//
// [State] (fsm.go, elect.go) is the replicated state: a pure machine whose commands carry everything that the leader knew when
// it asked, so that every member comes to the same result. [Liveness] (liveness.go) is the table of heartbeats, as pure; Plan
// (oversee.go) says from both which elections are due. The node (node.go, callers.go, apply.go, storage.go, members.go,
// begin.go) is one member of an etcd-raft quorum; [Server] (server.go, api.go, admin.go, notify.go, transport.go) serves brokers and
// tools around it. DESIGN.md says why.
//
// # Invariants
//
//	I1  A group has at most one master per epoch; epochs only rise, also above what replicas say they have seen.
//	I2  The SyncStateSet holds registered replicas only, and the master, if there is one. Every change of it raises its epoch.
//	I3  Who is elected was in the SyncStateSet, or left it when nothing could be confirmed without him any more (Eligible);
//	    anybody else only when enableElectUncleanMaster allows it and none of those lives.
//	    Who has lost what it had not synced, with the power, leaves both as long as anybody else is in one of them.
//	    The epoch of the set rises then in any case, so that a master's wish to have him in, from before, comes to nothing.
//	    When all have, the one with the longest log is elected (Doubtful).
//	I4  A change of the set is compare-and-set on both epochs. A broker acts only on what was committed.
//	I5  A broker name belongs to one cluster. Ids are never given twice.
//	I6  A broker is dead when no controller hears from it: one broken link is no election. Time is the leader's monotonic clock.
//
// # Sets after an election
//
// The new set is the old set without its dead, if the new master can start with that. A Java broker cannot: with a set of more
// than itself it does not cut an incomplete message off the end of its log (DESIGN.md). So a broker has to say that it can, by
// the ext field inheritsSyncStateSet of its registration; for others the set becomes the new master, as with Java's controller.
// A broker that also says minInSyncReplicas promises to confirm nothing with fewer; replicas that leave such a set below that
// stay eligible.
//
// # Quorum
//
// Raft messages travel over the remoting port of the peers, under a request code of their own, in envelopes with magic,
// version, id of the quorum and checksum; no second port is needed. controllerDLegerPeers founds the quorum; afterwards the
// members are part of the state and the file only says their addresses. They are changed by giving the leader another
// controllerDLegerPeers (mqadmin updateControllerConfig): newcomers learn, then vote, then the others go.
// A member whose file is lost must not come back under its id: it may have acknowledged what nobody else has.
//
// # Goroutines
//
// All in Server.Run's group: the remoting server, the quorum (one, owns raft and writes State), the overseer (elections, reports
// to the leader), one line per other controller, three for notifications, one worker for the configuration, probes of brokers
// whose connection ended, the metrics.
// Locks: node.mu before Server.mu; neither is held over I/O.
//
// # Formats
//
// raft.db in controllerStorePath is a bbolt file: bucket raft (format, owner, hard, snapshot) and bucket log (big-endian
// index → entry), every value behind a CRC-32C. Entries and snapshots begin with a version; see codec.go.
//
// Java: org.apache.rocketmq.controller. Start reading at fsm.go, then api.go.
package controller
