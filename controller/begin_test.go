package controller

import (
	"errors"
	"testing"

	"go.uber.org/zap"
)

// TestBeginning: what a member without a log concludes from what the others say.
func TestBeginning(t *testing.T) {
	peers := []Member{{"n0", "a:1"}, {"n1", "b:1"}, {"n2", "c:1"}}
	own := clusterID("g", peers)
	const foreign = 99
	empty := greeting{First: own, Standing: Stranger}
	said := func(cluster uint64, s Standing) greeting { return greeting{Cluster: cluster, First: own, Standing: s} }
	cases := []struct {
		name    string
		heard   map[string]greeting
		cluster uint64
		fresh   bool
		err     error
	}{
		{"nobody answers", nil, 0, false, nil},
		{"a majority starts", map[string]greeting{"n1": empty}, own, true, nil},
		{"one that starts is meant for another quorum", map[string]greeting{"n1": {First: foreign, Standing: Stranger}}, 0, false, nil},
		{"the others have begun", map[string]greeting{"n1": said(own, Expected)}, own, true, nil},
		{"the others have begun another quorum", map[string]greeting{"n1": said(foreign, Expected)}, 0, false, ErrOtherQuorum},
		{"it was added", map[string]greeting{"n1": said(foreign, Learner)}, foreign, false, nil},
		{"it was added, and one has not heard of it", map[string]greeting{"n1": said(foreign, Learner), "n2": said(foreign, Stranger)}, foreign, false, nil},
		{"it was not added yet", map[string]greeting{"n1": said(foreign, Stranger)}, 0, false, nil},
		{"it was not added, and others start", map[string]greeting{"n1": said(foreign, Stranger), "n2": empty}, 0, false, nil},
		{"its log is lost", map[string]greeting{"n1": said(own, Voter)}, 0, false, ErrLostLog},
		{"its log is lost, and one has not heard that it voted", map[string]greeting{"n1": said(own, Expected), "n2": said(own, Voter)}, 0, false, ErrLostLog},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			n := &node{nodeConfig: nodeConfig{Group: "g", Peers: peers, Log: zap.NewNop()}}
			cluster, fresh, err := n.decide(tc.heard, true)
			if cluster != tc.cluster || fresh != tc.fresh || !errors.Is(err, tc.err) {
				t.Errorf("got %d, %v, %v", cluster, fresh, err)
			}
		})
	}
	alone := &node{nodeConfig: nodeConfig{Group: "g", Peers: peers[:1], Log: zap.NewNop()}}
	if cluster, fresh, err := alone.decide(nil, false); cluster == 0 || !fresh || err != nil {
		t.Errorf("a quorum of one: %d, %v, %v", cluster, fresh, err)
	}
}
