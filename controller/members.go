package controller

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/castor-mq/castor/conf"
)

// maxMembers bounds a quorum. More than seven make it slower and hardly safer.
const maxMembers = 15

// raftID is the number that raft knows a member by: a hash of its id, so that it depends on nothing else. 0 and the two largest
// numbers mean something else to raft.
func raftID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return max(h.Sum64()%(math.MaxUint64-2), 1)
}

// clusterID tells quorums apart: those whose group or first members differ never talk to each other. Addresses do not count,
// since each member may know the others by other names.
func clusterID(group string, members []Member) uint64 {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%q", group)
	for _, m := range byID(members) {
		_, _ = fmt.Fprintf(h, "%q", m.ID)
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1)
}

func byID(members []Member) []Member {
	return slices.SortedFunc(slices.Values(members), func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
}

// parseMembers reads controllerDLegerPeers.
func parseMembers(text string) ([]Member, error) {
	peers, err := conf.Peers(text)
	switch {
	case err != nil:
		return nil, err
	case len(peers) == 0 || len(peers) > maxMembers:
		return nil, fmt.Errorf("%d members; a quorum has between 1 and %d", len(peers), maxMembers)
	}
	seen := map[uint64]string{}
	var out []Member
	for _, p := range peers {
		if other, ok := seen[raftID(p.ID)]; ok {
			return nil, fmt.Errorf("the ids %q and %q cannot be used together", other, p.ID)
		}
		seen[raftID(p.ID)] = p.ID
		out = append(out, Member{p.ID, p.Addr})
	}
	return out, nil
}

// step is the next thing to do on the way to the wanted quorum: a change, or a hand-over of leadership, or nothing yet.
type step struct {
	change *pb.ConfChange
	leader uint64
}

// nextStep changes one member at a time: newcomers learn first and vote when they are up to date, and only then do others go;
// the leader goes last, when somebody else leads.
func nextStep(q Quorum, now *pb.ConfState, self uint64, upToDate func(id uint64) bool) step {
	if len(q.Wanted) == 0 {
		return step{}
	}
	wanted := map[uint64]Member{}
	for _, m := range q.Wanted {
		wanted[raftID(m.ID)] = m
	}
	voters, learners := now.GetVoters(), now.GetLearners()
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		m, votes, learns := wanted[id], slices.Contains(voters, id), slices.Contains(learners, id)
		switch {
		case !votes && !learns:
			return step{change: confChange(pb.ConfChangeAddLearnerNode, id, m)}
		case learns && upToDate(id):
			return step{change: confChange(pb.ConfChangeAddNode, id, m)}
		case learns:
			return step{}
		}
	}
	for _, id := range slices.Concat(voters, learners) {
		if _, ok := wanted[id]; !ok && id != self {
			return step{change: confChange(pb.ConfChangeRemoveNode, id, Member{})}
		}
	}
	if _, ok := wanted[self]; !ok {
		return step{leader: slices.Min(slices.Collect(maps.Keys(wanted)))}
	}
	return step{}
}

func confChange(typ pb.ConfChangeType, id uint64, m Member) *pb.ConfChange {
	cc := &pb.ConfChange{Type: typ.Enum(), NodeId: &id}
	if m != (Member{}) {
		cc.Context = m.context()
	}
	return cc
}

// context is what a change of the quorum says of the member.
func (m Member) context() []byte {
	text, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("controller: %v", err)) // two strings
	}
	return text
}

// changeMember applies a change of the quorum; raft has already applied it, with the result now.
func (s *State) changeMember(cc *pb.ConfChange, now *pb.ConfState) error {
	id := cc.GetNodeId()
	s.quorum.Learners = now.GetLearners()
	if cc.GetType() == pb.ConfChangeRemoveNode {
		delete(s.quorum.Members, id)
		delete(s.quorum.Joined, id)
		return nil
	}
	if len(cc.GetContext()) == 0 {
		return nil
	}
	var m Member
	if err := json.Unmarshal(cc.GetContext(), &m); err != nil {
		return fmt.Errorf("change of the quorum: %w", err)
	}
	s.quorum.Members[id] = m
	return nil
}
