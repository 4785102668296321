package member

import (
	"fmt"
	"slices"
)

// maxReplicas bounds a SyncStateSet, as the controllers do.
const maxReplicas = 256

// Role is what the controllers have decided about the group.
type Role struct {
	Epoch        int32 // of the master
	Master       int64 // its id; 0: none
	MasterAddr   string
	SyncStateSet []int64 // ascending
	SetEpoch     int32
	Replicas     int // that are registered; 0 if the controllers have not said
}

// newRole returns a role in its normal form, or says why there can be no such role.
func newRole(epoch, setEpoch int32, master int64, masterAddr string, set []int64) (Role, error) {
	r := Role{Epoch: epoch, Master: master, MasterAddr: masterAddr, SyncStateSet: slices.Clone(set), SetEpoch: setEpoch}
	slices.Sort(r.SyncStateSet)
	if r.Master == 0 {
		r.MasterAddr = ""
	}
	switch {
	case epoch < 0 || setEpoch < 0 || master < 0 || master != 0 && (epoch == 0 || masterAddr == ""):
		return Role{}, fmt.Errorf("master %d at %.255q in epoch %d, set epoch %d: there can be no such role", master, masterAddr, epoch, setEpoch)
	case len(set) > maxReplicas || len(set) > 0 && r.SyncStateSet[0] < 1 || len(slices.Compact(slices.Clone(r.SyncStateSet))) != len(set):
		return Role{}, fmt.Errorf("a SyncStateSet of %d, %.255s: there can be no such set", len(set), fmt.Sprint(set[:min(len(set), maxReplicas)]))
	}
	return r, nil
}

// newer tells whether r replaces old. Of equal epochs the master's address can have changed, when
// it has started elsewhere, and the number of replicas.
func (r Role) newer(old Role) bool {
	switch {
	case r.Epoch != old.Epoch:
		return r.Epoch > old.Epoch
	case r.SetEpoch != old.SetEpoch:
		return r.SetEpoch > old.SetEpoch
	default:
		return r.MasterAddr != old.MasterAddr || r.Replicas != 0 && r.Replicas != old.Replicas
	}
}

// contradicts tells whether r cannot follow on old: controllers that have kept their data never go back to an earlier epoch, and
// never give one epoch to two masters.
func (r Role) contradicts(old Role) bool {
	return r.Epoch < old.Epoch || r.Epoch == old.Epoch && r.Master != old.Master
}
