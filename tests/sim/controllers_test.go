package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/castor-mq/castor/broker/replica"
	"github.com/castor-mq/castor/controller"
	"github.com/castor-mq/castor/remoting/code"
)

const (
	groupName        = "g"
	heartbeatPeriod  = 200 * time.Millisecond
	heartbeatTimeout = 800 * time.Millisecond
	overseePeriod    = 200 * time.Millisecond
	recess           = 500 * time.Millisecond // between two reliefs; the real ones have ever longer ones
)

// controllers are the quorum as brokers see it: one State whose commands take a moment, and a leader that may be away.
type controllers struct {
	w   *world
	net *network

	mu       sync.Mutex
	rng      *rand.Rand
	state    *controller.State
	live     *controller.Liveness
	away     bool
	lossy    float64 // how many requests and answers are lost
	lateness time.Duration
	relieved time.Time // when a sick master was last to be replaced
}

func newControllers(w *world, rng *rand.Rand) *controllers {
	c := &controllers{w: w, net: w.net, rng: rng, state: controller.NewState(), live: controller.NewLiveness(time.Now())}
	for id := int64(1); id <= replicas; id++ {
		c.state.Apply(&controller.ApplyID{Cluster: "c", Name: groupName, ID: id, CheckCode: fmt.Sprint(id)})
	}
	return c
}

var errNoAnswer = errors.New("the controllers do not answer")

// call carries out f at the controllers in the name of a machine. An error leaves open whether it was, or will be.
func (c *controllers) call(ctx context.Context, from int64, f func(now time.Time)) error {
	there, back := [2]int64{from, controllersAt}, [2]int64{controllersAt, from}
	if err := c.net.open(ctx, from, there); err != nil {
		return err
	}
	c.mu.Lock()
	lost, deaf := c.rng.Float64() < c.lossy, c.rng.Float64() < c.lossy
	late := time.Duration(0)
	if c.lateness > 0 && c.rng.IntN(3) == 0 {
		late = time.Duration(c.rng.Int64N(int64(c.lateness)))
	}
	c.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		c.net.pause(from, controllersAt)
		time.Sleep(late + 2*time.Millisecond) // late requests are carried out even if nobody waits any more
		c.mu.Lock()
		away := c.away
		if !away && !lost {
			f(time.Now())
		}
		c.mu.Unlock()
		switch {
		case away, lost, deaf:
			time.Sleep(100 * time.Millisecond)
			done <- errNoAnswer
		default:
			c.net.pause(controllersAt, from)
			done <- nil
		}
	}()
	var err error
	select {
	case err = <-done:
		if err == nil {
			err = c.net.open(ctx, from, back)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.net.thawed(from)
	return err
}

func (c *controllers) group() *controller.Group { return c.state.Group(groupName) }

func (c *controllers) roleLocked() replica.Role {
	g := c.group()
	r := replica.Role{Epoch: g.MasterEpoch, Master: g.Master, MasterAddr: g.MasterAddr(), SyncStateSet: slices.Clone(g.SyncStateSet), SetEpoch: g.SyncStateSetEpoch, Replicas: len(g.Replicas)}
	return r
}

// oversee elects whom it can until ctx ends.
func (c *controllers) oversee(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		now := time.Now()
		c.live.Step(&controller.Tick{}, now)
		var due []*controller.Elect
		if !c.away {
			due = controller.Plan(c.state, c.live, now, false)
			if now.Sub(c.relieved) >= recess {
				relief := controller.Relief(c.state, c.live, now)
				if due = append(due, relief...); len(relief) > 0 {
					c.relieved = now
				}
			}
		}
		pause := time.Duration(c.rng.Int64N(int64(5 * time.Millisecond)))
		c.mu.Unlock()
		time.Sleep(pause) // a round of raft
		c.mu.Lock()
		for _, e := range due {
			if !c.away {
				c.elected(c.state.Apply(e))
			}
		}
		c.mu.Unlock()
		sleep(ctx, overseePeriod)
	}
}

// elected tells the brokers of an election. c.mu is held.
func (c *controllers) elected(r controller.Result) {
	if r.Election == nil || r.Election.Outcome != controller.NewMaster {
		return
	}
	c.w.note("controllers: master %d, epoch %d, set %v (%d), was %d, %s: %s", r.Group.Master, r.Group.MasterEpoch, r.Group.SyncStateSet, r.Group.SyncStateSetEpoch,
		r.Election.OldMaster, r.Election.Basis, r.Election.Reason)
	role := c.roleLocked()
	for id := int64(1); id <= replicas; id++ {
		if c.rng.Float64() < c.lossy {
			continue
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if c.net.open(ctx, id, [2]int64{controllersAt, id}) != nil {
				return
			}
			c.net.pause(controllersAt, id)
			if p := c.w.machines[id-1].process(); p != nil && p.ready() && p.member.asked.Load() {
				p.member.offer(role)
				p.member.look()
			}
		}()
	}
}

// named is an operator's election.
func (c *controllers) named(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return
	}
	e := controller.Ballot(c.group(), c.live, time.Now())
	e.Cluster, e.Broker, e.Trigger, e.Reason = "c", id, controller.ByOperator, "operator"
	c.elected(c.state.Apply(e))
}

// clean removes a replica that is not the master.
func (c *controllers) clean(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.group(); !c.away && g.Master != id && g.Master != 0 && len(g.SyncStateSet) == replicas && !c.w.anyWounded() {
		c.state.Apply(&controller.Clean{Name: groupName, IDs: []int64{id}, Living: true})
		c.w.note("controllers: replica %d removed, set %v (%d)", id, c.group().SyncStateSet, c.group().SyncStateSetEpoch)
	}
}

// died is what a controller learns of a process that ended while its machine runs on.
func (c *controllers) died(id, life int64) {
	c.net.pause(id, controllersAt)
	c.net.mu.Lock()
	cut := c.net.cut[[2]int64{id, controllersAt}] || c.net.cut[[2]int64{controllersAt, id}]
	c.net.mu.Unlock()
	if cut {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.live.Step(&controller.LinkEnded{Link: life}, time.Now()).Probe {
		if c.w.machines[id-1].process() == nil {
			c.live.Step(&controller.Probed{Broker: b, Refused: true}, time.Now())
		}
	}
}

// returned ends the controllers' absence: another one leads, who may never have heard of anybody.
func (c *controllers) returned() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		if c.rng.IntN(2) == 0 {
			c.live = controller.NewLiveness(time.Now())
		}
		c.live.Step(&controller.Lead{}, time.Now())
	}
	c.away = false
}

// member is a broker's side of the protocol: member.Member without remoting.
type member struct {
	p    *process
	c    *controllers
	wake chan struct{}
	sick chan struct{} // the vitals have changed

	incarnation       atomic.Int64 // of the goroutine that registers
	attempt           atomic.Int64
	unknown           atomic.Bool
	registered, asked atomic.Bool

	mu       sync.Mutex
	rng      *rand.Rand
	role     replica.Role
	promised int
}

func (m *member) look() { signal(m.wake) }

// disown is Member.Disown and Store.Disown.
func (m *member) disown() error {
	if err := m.p.st.Disown(); err != nil {
		return err
	}
	m.look()
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer takes a role as Member.offer does.
func (m *member) offer(r replica.Role) {
	m.mu.Lock()
	old := m.role
	newer := r.Epoch > old.Epoch || r.Epoch == old.Epoch && (r.SetEpoch > old.SetEpoch || r.SetEpoch == old.SetEpoch && r.Replicas != 0 && r.Replicas != old.Replicas)
	contradicts := r.Epoch < old.Epoch || r.Epoch == old.Epoch && r.Master != old.Master
	ok := newer && !contradicts && r.Epoch >= m.p.node.LastEpoch()
	if ok {
		if r.Replicas == 0 {
			r.Replicas = old.Replicas
		}
		m.role = r
	}
	m.mu.Unlock()
	if ok {
		m.c.net.thawed(m.p.m.id)
		m.p.node.SetRole(r)
	}
}

func (m *member) beat(ctx context.Context) {
	id := m.p.m.id
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(heartbeatPeriod):
		case <-m.sick:
		}
		if !m.registered.Load() {
			continue
		}
		v := controller.Vitals{Epoch: m.p.node.LastEpoch(), MaxOffset: m.p.st.Log.End(), Priority: 1<<31 - 1,
			Sick: m.p.st.Writeable() != nil || m.p.st.Joining() || m.p.st.Damaged() || !m.p.node.Able()}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		_ = m.c.call(limited, id, func(now time.Time) {
			r, known := m.c.group().Replicas[id]
			if known && r.Incarnation != m.incarnation.Load() {
				m.unknown.Store(true)
				m.look()
			} else if known {
				m.c.live.Step(&controller.Heartbeat{Broker: controller.Broker{Group: groupName, ID: id}, Vitals: &v, Timeout: heartbeatTimeout, Link: m.p.life}, now)
			} else {
				m.look()
			}
		})
		cancel()
	}
}

// run registers and asks who is master, again and again.
func (m *member) run(ctx context.Context) {
	known := false
	for ctx.Err() == nil {
		if !known || m.unknown.Swap(false) || m.promise() != m.p.promise() || m.p.st.Torn() {
			if !m.register(ctx) {
				sleep(ctx, 50*time.Millisecond)
				continue
			}
			m.registered.Store(true)
		}
		now, role, err := m.present(ctx)
		if known = now || err != nil; !known {
			continue
		}
		if err == nil && role.Master == 0 {
			_ = m.call(ctx, func(now time.Time) {
				e := controller.Ballot(m.c.group(), m.c.live, now)
				e.Cluster, e.Broker, e.Trigger, e.Reason = "c", m.p.m.id, controller.ByBroker, fmt.Sprintf("broker %d asks", m.p.m.id)
				m.c.elected(m.c.state.Apply(e))
			})
		}
		m.mu.Lock()
		d := 500*time.Millisecond + time.Duration(m.rng.Int64N(int64(500*time.Millisecond)))
		m.mu.Unlock()
		t := time.NewTimer(d)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-m.wake:
			sleep(ctx, 10*time.Millisecond)
		}
		t.Stop()
	}
}

func (m *member) call(ctx context.Context, f func(now time.Time)) error {
	limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return m.c.call(limited, m.p.m.id, f)
}

func (m *member) promise() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.promised
}

// begin begins a life that the controllers take for a later one than all before.
func (m *member) begin() {
	m.incarnation.Store(m.p.m.starts.Add(1)<<32 | m.p.life)
	m.attempt.Store(0)
}

func (m *member) register(ctx context.Context) bool {
	least := m.p.promise()
	m.mu.Lock()
	m.promised = max(least, m.promised)
	m.mu.Unlock()
	id, ok, torn := m.p.m.id, false, m.p.st.Torn()
	if torn && m.registered.Load() {
		m.begin()
	}
	registration := m.p.registration(least, torn)
	err := m.call(ctx, func(now time.Time) {
		r := m.c.state.Apply(registration)
		if r.Err != nil && r.Err.Code == code.ControllerBrokerNeedToBeRegistered {
			m.c.state.Apply(&controller.ApplyID{Cluster: "c", Name: groupName, ID: id, CheckCode: fmt.Sprint(id)})
			r = m.c.state.Apply(registration)
		}
		if ok = r.Err == nil && !r.Late; !ok {
			return
		}
		v := controller.Vitals{Epoch: m.p.node.LastEpoch(), MaxOffset: m.p.st.Log.End(), Priority: 1<<31 - 1}
		m.c.live.Step(&controller.Heartbeat{Broker: controller.Broker{Group: groupName, ID: id}, Vitals: &v, Timeout: heartbeatTimeout, Link: m.p.life}, now)
	})
	if err != nil || !ok {
		return false
	}
	if torn {
		_ = m.p.st.Mended()
	}
	m.mu.Lock()
	m.promised = least
	m.mu.Unlock()
	return true
}

// present asks who is master.
func (m *member) present(ctx context.Context) (known bool, role replica.Role, err error) {
	type answer struct {
		known bool
		role  replica.Role
	}
	a := new(answer) // may be written when nobody waits any more
	err = m.call(ctx, func(time.Time) {
		_, a.known = m.c.group().Replicas[m.p.m.id]
		a.role = m.c.roleLocked()
	})
	if err != nil {
		return false, role, err
	}
	m.offer(a.role)
	m.asked.Store(true)
	return a.known, a.role, nil
}

// alter is Member.AlterSyncStateSet.
func (m *member) alter(ctx context.Context, epoch, setEpoch int32, set []int64, lives map[int64]int64) (replica.Role, error) {
	id := m.p.m.id
	for again := false; ; again = true {
		var r controller.Result
		var role replica.Role
		limited, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		err := m.c.call(limited, id, func(now time.Time) {
			r = m.c.state.Apply(&controller.AlterSyncStateSet{Name: groupName, Master: id, MasterEpoch: epoch, SyncStateSetEpoch: setEpoch, SyncStateSet: set,
				Alive: controller.Living(m.c.group(), m.c.live, now), Lives: lives})
			role = m.c.roleLocked()
			if r.Err == nil {
				m.c.w.note("controllers: set %v (%d) of epoch %d", role.SyncStateSet, role.SetEpoch, epoch)
			}
		})
		cancel()
		switch {
		case err != nil:
		case r.Err == nil:
			m.offer(role)
			return role, nil
		case r.Err.Code == code.ControllerBrokerNotAlive && again: // the one before may be carried out yet
			return replica.Role{}, r.Err
		case r.Err.Code == code.ControllerBrokerNotAlive:
			return replica.Role{}, fmt.Errorf("%w: %w", replica.ErrRefused, r.Err)
		case r.Err.Code == code.ControllerFencedSyncStateSetEpoch || r.Err.Code == code.ControllerAlterSyncStateSetFailed:
			_, role, err := m.present(ctx)
			if err == nil && role.Epoch == epoch && role.Master == id && slices.Equal(role.SyncStateSet, set) {
				return role, nil
			}
			return replica.Role{}, r.Err
		default:
			m.look()
			return replica.Role{}, r.Err
		}
		if sleep(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return replica.Role{}, errNoAnswer
		}
	}
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
