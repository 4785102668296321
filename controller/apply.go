package controller

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// ready does what raft asks for, in the order that its documentation demands.
func (n *node) ready() error {
	rd := n.rn.Ready()
	if rd.MustSync || !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.Store.save(rd.HardState, rd.Snapshot, rd.Entries); err != nil {
			return err
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.restore(rd.Snapshot); err != nil {
			return err
		}
	}
	for _, m := range rd.Messages {
		n.Send(m.GetTo(), n.addr(m.GetTo()), m)
	}
	for _, e := range rd.CommittedEntries {
		if err := n.apply(e); err != nil {
			return err
		}
	}
	for _, rs := range rd.ReadStates {
		seq := binary.BigEndian.Uint64(rs.RequestCtx)
		if ws := n.reads[seq]; ws != nil {
			delete(n.reads, seq)
			n.settled = append(n.settled, read{rs.Index, ws})
		}
	}
	n.rn.Advance(rd)
	n.finishReads()
	n.publish()
	return n.maybeCompact()
}

func (n *node) restore(snap *pb.Snapshot) error {
	state, err := Restore(snap.GetData())
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.state = state
	n.mu.Unlock()
	n.applied, n.conf, n.fresh = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetConfState(), 0
	n.Log.Info("state taken over from the leader", zap.Uint64("index", n.applied))
	return nil
}

// snapshot is called by raft, on the node's goroutine.
func (n *node) snapshot() (*pb.Snapshot, error) {
	term, err := n.Store.Term(n.applied)
	if err != nil {
		return nil, err
	}
	index := n.applied
	return &pb.Snapshot{Data: n.state.Snapshot(), Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: n.conf}}, nil
}

func (n *node) apply(e *pb.Entry) error {
	n.applied = e.GetIndex()
	n.fresh++
	if e.GetType() == pb.EntryConfChange {
		return n.applyChange(e)
	}
	if len(e.GetData()) == 0 {
		return nil // a new leader's first entry
	}
	t, c, err := decodeCommand(e.GetData())
	if err != nil {
		return fmt.Errorf("index %d: %w; a newer version must have written it", e.GetIndex(), err)
	}
	n.mu.Lock()
	res := n.state.Apply(c)
	n.mu.Unlock()
	if t.run != n.Seed {
		return nil
	}
	if n.Applied != nil {
		n.Applied(res)
	}
	if w, ok := n.pending[t.seq]; ok {
		delete(n.pending, t.seq)
		n.finish(w, res, nil)
	}
	return nil
}

func (n *node) applyChange(e *pb.Entry) error {
	cc := new(pb.ConfChange)
	if err := proto.Unmarshal(e.GetData(), cc); err != nil {
		return fmt.Errorf("index %d: %w", e.GetIndex(), err)
	}
	n.conf = n.rn.ApplyConfChange(cc)
	n.mu.Lock()
	who := n.state.quorum.Members[cc.GetNodeId()]
	err := n.state.changeMember(cc, n.conf)
	if m, ok := n.state.quorum.Members[cc.GetNodeId()]; ok {
		who = m
	}
	n.mu.Unlock()
	if !n.replayed {
		return err
	}
	n.Log.Info("quorum changed", zap.Stringer("change", cc.GetType()), zap.String("controller", who.ID), zap.String("address", who.Addr))
	if cc.GetType() == pb.ConfChangeRemoveNode && cc.GetNodeId() == n.id {
		n.Log.Warn("this controller was removed from the quorum; it can be stopped")
	}
	return err
}

// publish shows the status, and lets callers go whose leader this was.
func (n *node) publish() {
	basic := n.rn.BasicStatus()
	s := &Status{
		Role: basic.RaftState, Leading: basic.RaftState == raft.StateLeader, Term: basic.GetTerm(), Commit: basic.GetCommit(),
		Applied: n.applied, Members: n.members(), handing: basic.LeadTransferee != raft.None,
	}
	if basic.Lead != raft.None {
		s.Leader = n.member(basic.Lead)
	}
	old := n.status.Swap(s)
	if old.Leader != s.Leader {
		n.Log.Info("controller leader changed", zap.String("leader", s.Leader.ID), zap.Uint64("term", s.Term), zap.Bool("self", s.Leading))
	}
	if n.leading == s.Leading {
		return
	}
	if n.leading = s.Leading; !n.leading {
		n.failAll(errNotLeader)
	}
	if n.Led != nil {
		n.Led(n.leading)
	}
}

// maybeCompact cuts the log when it has grown.
func (n *node) maybeCompact() error {
	if n.fresh < n.Compact && n.Store.bytes < snapshotBytes || n.applied == 0 {
		return nil
	}
	n.fresh = 0
	return n.Store.compact(n.applied, n.conf, n.state.Snapshot())
}
