package controller

import (
	"maps"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

func TestParseMembers(t *testing.T) {
	for text, want := range map[string]string{
		"n0-a:1;n1-b:2;": "", "n0-[::1]:9878": "",
		"": "0 members", "n0": "not id-host:port", "n0-a:1;n0-b:2": "stands twice", "n0-a:0": "not host:port",
		strings.Repeat("x-a:1;", 1): "", "-a:1": "not id-host:port",
		"a-h:1;b-h:1;c-h:1;d-h:1;e-h:1;f-h:1;g-h:1;h-h:1;i-h:1;j-h:1;k-h:1;l-h:1;m-h:1;n-h:1;o-h:1;p-h:1": "16 members",
	} {
		_, err := parseMembers(text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestClusterID(t *testing.T) {
	a, b, c := Member{"n0", "a:1"}, Member{"n1", "b:1"}, Member{"n2", "c:1"}
	same := clusterID("g", []Member{a, b, c})
	if clusterID("g", []Member{c, {"n0", "elsewhere:1"}, b}) != same {
		t.Error("order or addresses count")
	}
	if clusterID("h", []Member{a, b, c}) == same || clusterID("g", []Member{a, b}) == same {
		t.Error("another quorum has the same id")
	}
}

// TestQuorumIsChangedStepByStep walks from random quorums to random others: every step keeps what is needed to go on.
func TestQuorumIsChangedStepByStep(t *testing.T) {
	members := func(t *rapid.T, what string) []Member {
		var out []Member
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"n0", "n1", "n2", "n3", "n4"}), 1, 5, rapid.ID).Draw(t, what) {
			out = append(out, Member{id, id + ":1"})
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		s, now := NewState(), &pb.ConfState{}
		for _, m := range members(t, "voters") {
			now.Voters = append(now.Voters, raftID(m.ID))
			s.quorum.Members[raftID(m.ID)] = m
		}
		self := now.Voters[0]
		s.quorum.Wanted = members(t, "wanted")
		late := map[uint64]int{}
		for range 100 {
			next := nextStep(s.quorum, now, self, func(id uint64) bool { late[id]++; return late[id] > 3 })
			if next.leader != 0 {
				if !slices.Contains(now.Voters, next.leader) {
					t.Fatal("leadership for somebody without a vote")
				}
				self = next.leader
				continue
			}
			if next.change == nil {
				if len(now.Learners) > 0 {
					continue // a newcomer is late
				}
				break
			}
			id := next.change.GetNodeId()
			del := func(x uint64) bool { return x == id }
			now.Voters, now.Learners = slices.DeleteFunc(now.Voters, del), slices.DeleteFunc(now.Learners, del)
			switch next.change.GetType() {
			case pb.ConfChangeAddNode:
				if late[id] <= 3 {
					t.Fatal("a vote for somebody who is not up to date")
				}
				now.Voters = append(now.Voters, id)
			case pb.ConfChangeAddLearnerNode:
				now.Learners = append(now.Learners, id)
			case pb.ConfChangeRemoveNode:
				if id == self {
					t.Fatal("the leader removes itself")
				}
			}
			if err := s.changeMember(next.change, now); err != nil {
				t.Fatal(err)
			}
		}
		want := map[uint64]Member{}
		for _, m := range s.quorum.Wanted {
			want[raftID(m.ID)] = m
		}
		if !maps.Equal(want, s.quorum.Members) || !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(now.Voters))) {
			t.Fatalf("ended with %v", s.quorum.Members)
		}
	})
}

func TestNewcomerThatNeverComesCanBeGivenUp(t *testing.T) {
	q := Quorum{Members: map[uint64]Member{}, Wanted: []Member{{"n0", "a:1"}}}
	gone := raftID("n9")
	next := nextStep(q, &pb.ConfState{Voters: []uint64{raftID("n0")}, Learners: []uint64{gone}}, raftID("n0"), func(uint64) bool { return false })
	if next.change.GetType() != pb.ConfChangeRemoveNode || next.change.GetNodeId() != gone {
		t.Errorf("next is %v", next)
	}
}
