package replica

import "testing"

// A broker that is elected and cannot write down its epoch is not master before it can, and does not end.
func TestElectedWithoutRoom(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	m := f.elect(1)
	r := f.start(2)
	m.put("T", 10)
	f.inSync(m, r)
	r.fs.SetFree(0)
	epoch := f.name(2).Epoch
	f.await("its try", func() bool { s := r.node.Status(); return s.Role.Epoch == epoch })
	for range 3 {
		if s := r.node.Status(); s.Master || s.Role.Master != 0 || r.node.LastEpoch() == epoch {
			t.Fatal(s)
		}
		f.await("it says so", func() bool { return !r.node.Able() })
		r.node.SetRole(f.role) // nothing new
	}
	r.fs.SetFree(1 << 30)
	f.await("a master", func() bool { return r.node.Status().Master && r.node.Able() })
	r.put("T", 10)
	f.inSync(r, m)

	// Another one is elected meanwhile.
	m.fs.SetFree(0)
	epoch = f.name(1).Epoch
	f.await("its try", func() bool { s := m.node.Status(); return s.Role.Epoch == epoch && !s.Master })
	f.elect(2)
	m.fs.SetFree(1 << 30)
	r.put("T", 10)
	f.inSync(r, m)
}
