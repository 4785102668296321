package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/clock"
	"github.com/castor-mq/castor/internal/vfs"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/store"
	"github.com/castor-mq/castor/store/commitlog"
	"github.com/castor-mq/castor/store/state"
)

const testSegment = 64 << 10

// fleet is a group whose controllers are the test.
type fleet struct {
	t       *testing.T
	members map[int64]*member

	mu     sync.Mutex
	role   Role
	via    map[string]string // addresses of go-betweens, by the member's
	frozen bool              // the set stays as it is
}

// member is one broker of it.
type member struct {
	f     *fleet
	id    int64
	fs    *vfs.Mem
	cfg   store.Config
	store *store.Store
	node  *Node
	stop  context.CancelFunc
	done  chan struct{}

	disowned int
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, members: map[int64]*member{}, via: map[string]string{}}
	t.Cleanup(func() {
		for _, m := range f.members {
			m.end()
		}
	})
	return f
}

// start opens a member, with what it had before.
func (f *fleet) start(id int64) *member {
	f.t.Helper()
	m := f.members[id]
	if m == nil {
		m = &member{f: f, id: id, fs: vfs.NewMem(clock.Real{})}
		m.cfg = store.Config{Root: "/store", CommitLogDir: "/store/commitlog", StateFile: filepath.Join(f.t.TempDir(), "state.db"),
			SegmentSize: testSegment, QueueFile: 1000, Index: true, IndexSlots: 100, IndexItems: 800, FlushInterval: 20 * time.Millisecond,
			Replicated: true, ReplicaTimeout: time.Minute, SyncTimeout: time.Minute,
			Retention: store.Retention{MaxUsed: 100, CleanForced: 100, WarningLevel: 100, Batch: 1000, Interval: time.Hour}}
		f.members[id] = m
	}
	st, err := store.Open(m.cfg, m.fs, clock.Real{}, zap.NewNop())
	if err != nil {
		f.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	node, err := New(Config{
		Cluster: "c", Group: "g", ID: func() int64 { return id }, EpochFile: "/store/epochs", Listener: l,
		MinInSync: func(*Role) int { return 1 }, Copies: func() int { return 0 }, GiveWay: func() {}, MaxRate: func() int64 { return 0 }, MaxLag: func() time.Duration { return 5 * time.Second }, SyncFlush: func() bool { return false },
		HAAddr: f.haAddr, AlterSyncStateSet: f.alter, Life: func() int64 { return 0 }, Outdated: func() {}, AbleChanged: func() {}, Disown: m.disown, Changed: func(Role, bool) {},
	}, st, m.fs, zap.NewNop())
	if err != nil {
		f.t.Fatal(err)
	}
	node.pause = 20 * time.Millisecond
	f.mu.Lock()
	m.store, m.node = st, node // others may look for them
	r := f.role
	f.mu.Unlock()
	ctx, stop := context.WithCancel(context.Background())
	m.stop, m.done = stop, make(chan struct{})
	go func() {
		defer close(m.done)
		if err := node.Run(ctx); err != nil {
			f.t.Error(err)
		}
	}()
	if r.Epoch > 0 {
		node.SetRole(r)
	}
	return m
}

// disown has the controllers count on nothing that the member has.
func (m *member) disown() error {
	err := m.store.Disown()
	m.disowned++
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	m.f.role.SyncStateSet = slices.DeleteFunc(slices.Clone(m.f.role.SyncStateSet), func(id int64) bool { return id == m.id })
	m.f.role.SetEpoch++
	for _, o := range m.f.members {
		o.node.SetRole(m.f.role)
	}
	return errors.Join(err, m.store.Mended())
}

func (m *member) end() {
	if m.stop == nil {
		return
	}
	m.stop()
	<-m.done
	m.stop = nil
	if err := m.store.Close(); err != nil {
		m.f.t.Error(err)
	}
}

func (f *fleet) haAddr(_ context.Context, addr string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if via := f.via[addr]; via != "" {
		return via, nil
	}
	id, _ := strconv.ParseInt(addr, 10, 64)
	return f.members[id].node.cfg.Listener.Addr().String(), nil
}

func (f *fleet) alter(_ context.Context, epoch, setEpoch int32, set []int64, _ map[int64]int64) (Role, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen || epoch != f.role.Epoch || setEpoch != f.role.SetEpoch {
		return f.role, fmt.Errorf("%w: outdated", ErrRefused)
	}
	f.role.SyncStateSet, f.role.SetEpoch = set, setEpoch+1
	return f.role, nil
}

// freeze has all wishes for the set refused, or not any more.
func (f *fleet) freeze(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = on
}

// elect begins an epoch.
func (f *fleet) elect(id int64) *member {
	r := f.name(id)
	m := f.members[id]
	f.await("a master", func() bool { s := m.node.Status(); return s.Master && s.Role.Epoch == r.Epoch })
	return m
}

// name begins an epoch, and does not wait for the master.
func (f *fleet) name(id int64) Role {
	f.mu.Lock()
	f.role = Role{Epoch: f.role.Epoch + 1, Master: id, MasterAddr: strconv.FormatInt(id, 10), SyncStateSet: []int64{id}, SetEpoch: f.role.SetEpoch + 1}
	r := f.role
	f.mu.Unlock()
	for _, m := range f.members {
		if m.stop != nil {
			m.node.SetRole(r)
		}
	}
	return r
}

func (f *fleet) set() []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.role.SyncStateSet
}

func (f *fleet) await(what string, ok func() bool) {
	f.t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			f.t.Fatal("no ", what)
		}
	}
}

// inSync waits until a member is in the set and has all that the master has.
func (f *fleet) inSync(master, m *member) {
	f.t.Helper()
	f.await("member in sync", func() bool {
		return slices.Contains(f.set(), m.id) && m.store.Log.End() == master.store.Log.End() && m.store.Dispatched() == master.store.Dispatched() && m.store.Dispatched() == m.store.Log.End()
	})
}

// append appends the i-th message, with a body of that size.
func (m *member) append(topic string, i, size int) {
	m.f.t.Helper()
	host := netip.MustParseAddrPort("127.0.0.1:10911")
	q := m.store.Queues.GetOrCreate(topic, int32(i%2))
	d := &message.Draft{Topic: topic, QueueID: q.ID, Body: make([]byte, size), BornHost: host, StoreHost: host, Properties: fmt.Appendf(nil, "UNIQ_KEY\x01%s%d\x02", topic, i)}
	if err := d.Prepare(); err != nil {
		m.f.t.Fatal(err)
	}
	if err := m.store.Append([]commitlog.Entry{{Draft: d, Next: &q.Next}}, nil); err != nil {
		m.f.t.Fatal(err)
	}
	m.store.Advance()
}

// put appends n messages and some state.
func (m *member) put(topic string, n int) {
	m.f.t.Helper()
	for i := range n {
		m.append(topic, i, 1000)
	}
	if err := m.store.Propose(nil, state.OffsetPut("G", topic, 0, m.store.Log.End())); err != nil {
		m.f.t.Fatal(err)
	}
}

// overwrite changes bytes of the log on the disk.
func (m *member) overwrite(at int64, b []byte) {
	m.f.t.Helper()
	file, err := m.fs.Open(fmt.Sprintf("/store/commitlog/%020d", at-at%testSegment))
	if err != nil {
		m.f.t.Fatal(err)
	}
	if _, err = file.WriteAt(b, at%testSegment); err != nil {
		m.f.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		m.f.t.Fatal(err)
	}
}

// expire deletes all segments that it may.
func (m *member) expire() {
	m.f.t.Helper()
	time.Sleep(2 * time.Millisecond) // all is older than now
	before := m.store.Log.Min()
	if err := m.store.Clean(true); err != nil {
		m.f.t.Fatal(err)
	}
	if m.store.Log.Min() == before {
		m.f.t.Fatal("nothing has expired")
	}
}

func (f *fleet) same(a, b *member) {
	f.t.Helper()
	var x, y bytes.Buffer
	for m, w := range map[*member]*bytes.Buffer{a: &x, b: &y} { // this has the state, and the queues that have expired
		if _, err := m.store.WriteSnapshot(w, a.store.Log.Min()); err != nil {
			f.t.Fatal(err)
		}
	}
	if !bytes.Equal(x.Bytes(), y.Bytes()) {
		f.t.Fatal("state or expired queues differ")
	}
	if p, q := a.node.Status().Epochs.Drop(a.store.Log.Min()), b.node.Status().Epochs.Drop(a.store.Log.Min()); !slices.Equal(p, q) {
		f.t.Fatal(p, q)
	}
	for _, p := range a.store.Queues.All() {
		q := b.store.Queues.Get(p.Topic, p.ID)
		if q == nil || q.Min() != p.Min() || q.Max() != p.Max() {
			f.t.Fatalf("%s-%d: %+v", p.Topic, p.ID, q)
		}
	}
	if b.store.Log.Min() != a.store.Log.Min() {
		f.t.Fatalf("the log begins at %d, not at %d", b.store.Log.Min(), a.store.Log.Min())
	}
}

// sameLog compares two logs up to an offset.
func (f *fleet) sameLog(a, b *member, to int64) {
	f.t.Helper()
	ours, err := a.node.sumOf(to, int(to))
	theirs, e := b.node.sumOf(to, int(to))
	if err != nil || e != nil || ours != theirs {
		f.t.Fatal("the logs are not the same", err, e)
	}
}

// bornHost is where in a record something begins whose first bytes may become zeros unnoticed.
const bornHost = 48

// TestFetch has replicas whose logs are of no use come back as members of the set that can be elected.
func TestFetch(t *testing.T) {
	for name, prepare := range map[string]func(f *fleet) (master, replica *member){
		"an empty one": func(f *fleet) (*member, *member) {
			f.start(1)
			m := f.elect(1)
			m.put("old", 5)
			m.put("T", 300)
			m.expire()
			return m, f.start(2)
		},
		"one that is too far behind": func(f *fleet) (*member, *member) {
			f.start(1)
			f.start(2)
			m := f.elect(1)
			m.put("old", 50)
			f.inSync(m, f.members[2])
			f.members[2].end()
			m.put("T", 300)
			f.await("set of one", func() bool { return m.store.Dispatched() == m.store.Log.End() })
			m.expire()
			return m, f.start(2)
		},
		"one with another branch": func(f *fleet) (*member, *member) {
			f.start(1)
			f.start(2)
			m := f.elect(1)
			m.put("old", 50)
			f.inSync(m, f.members[2])
			f.members[2].end()
			m.put("lost", 300) // nobody is told that it is confirmed: it is the only one that has it
			m.end()
			f.start(2)
			m = f.elect(2)
			m.put("T", 600)
			m.expire()
			return m, f.start(1)
		},
		"one without epochs": func(f *fleet) (*member, *member) {
			f.start(1)
			f.start(2)
			m := f.elect(1)
			m.put("old", 50)
			f.inSync(m, f.members[2])
			f.members[2].end()
			m.put("T", 300)
			f.await("set of one", func() bool { return m.store.Dispatched() == m.store.Log.End() })
			m.expire()
			if err := f.members[2].fs.Remove("/store/epochs"); err != nil {
				t.Fatal(err)
			}
			return m, f.start(2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			m, r := prepare(f)
			f.inSync(m, r)
			f.same(m, r)
			m.put("T", 50)
			f.inSync(m, r)
			next := m.store.Queues.GetOrCreate("old", 0).Next
			m.end()
			if r = f.elect(r.id); r.store.Queues.GetOrCreate("old", 0).Next != next {
				t.Fatal(r.store.Queues.GetOrCreate("old", 0).Next, next)
			}
			r.put("old", 2)
			f.await("confirmation", func() bool { return r.store.Dispatched() == r.store.Log.End() })
			if m = f.start(m.id); m.store.Log.End() == 0 {
				t.Fatal("the old master has nothing")
			}
			f.inSync(r, m)
			if files, err := r.fs.ReadDir("/store/snapshot"); err == nil && len(files) > 0 {
				t.Fatal(files)
			}
		})
	}
}

// TestEmptyEpochs: masters that wrote nothing follow the next ones, also when the log goes on in an epoch before theirs.
func TestEmptyEpochs(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	f.start(2)
	m := f.elect(1)
	m.put("T", 20)
	f.inSync(m, f.members[2])
	for range 3 {
		f.inSync(f.elect(2), f.members[1])
		f.inSync(f.elect(1), f.members[2])
	}
	f.members[2].end()
	m.put("T", 20) // only one has it
	m.end()
	f.start(2)
	f.elect(2) // and writes nothing
	f.start(1)
	m = f.elect(1)
	f.inSync(m, f.members[2])
	m.put("T", 20)
	f.inSync(m, f.members[2])
	f.same(m, f.members[2])
}

// unsynced is a fleet with a master and a replica in sync, which from now on syncs nothing.
func unsynced(t *testing.T) (f *fleet, master, r *member) {
	f = newFleet(t)
	f.start(1)
	r = f.start(2)
	master = f.elect(1)
	master.put("T", 20)
	f.inSync(master, r)
	r.end()
	r.cfg.FlushInterval = time.Hour
	return f, master, f.start(2)
}

// TestHoles: a power loss has left a record with a hole where no checksum looks. The replica's log is compared from where it was synced on, and what
// is damaged comes from the master; what is not stays.
func TestHoles(t *testing.T) {
	for _, damaged := range []bool{true, false} {
		f, m, r := unsynced(t)
		synced := r.store.Log.End()
		m.put("T", 40)
		f.inSync(m, r)
		end := r.store.Log.End()
		after := r.fs.CrashClone(nil, vfs.CrashKeep)
		r.end()
		if r.fs = after; damaged {
			r.overwrite(synced+bornHost, make([]byte, 4))
		}
		m.end()       // so that there is nobody to compare with yet
		for range 2 { // it is not forgotten at a restart
			r = f.start(2)
			if to, dubious := r.store.Sound(); !dubious || to != synced || r.store.Log.End() != end {
				t.Fatal(to, dubious, synced, r.store.Log.End(), end)
			}
			r.end()
		}
		f.start(1)
		m = f.elect(1)
		r = f.start(2)
		m.put("T", 2)
		f.inSync(m, r)
		f.same(m, r)
		f.sameLog(m, r, end)
		if _, dubious := r.store.Sound(); dubious {
			t.Fatal("still dubious")
		}
	}
}

// TestTooMuchToCompare: of a long log that was not synced only the end would be looked at.
func TestTooMuchToCompare(t *testing.T) {
	f, m, r := unsynced(t)
	first := (r.store.Log.End()/testSegment + 1) * testSegment // of the messages, which are large
	for i := range maxTail/60000 + 2 {
		m.append("T", i, 60000)
	}
	f.inSync(m, r)
	after := r.fs.CrashClone(nil, vfs.CrashKeep)
	r.end()
	r.fs = after
	r.overwrite(first+bornHost, make([]byte, 4))
	r = f.start(2)
	f.inSync(m, r)
	f.sameLog(m, r, first+testSegment)
	if r.disowned != 1 {
		t.Errorf("the replica has disowned its log %d times", r.disowned)
	}
}

// TestHolesOfTheMaster: it was elected again although it had lost its power and a replica had not. The replica takes what the master has, but not before
// the controllers know that nobody may rely on it.
func TestHolesOfTheMaster(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	r, third := f.start(2), f.start(3)
	m := f.elect(1)
	m.put("T", 20)
	f.inSync(m, r)
	f.inSync(m, third)
	f.freeze(true)
	third.end() // so that what comes now is not confirmed
	confirmed := m.store.Confirmed()
	for i := range 3 {
		m.append("T", i, 1000)
	}
	end := m.store.Log.End()
	f.await("unconfirmed messages at the replica", func() bool { return r.store.Log.End() == end })
	after := m.fs.CrashClone(nil, vfs.CrashKeep)
	if r.store.Confirmed() != confirmed || m.store.Confirmed() != confirmed {
		t.Fatal(r.store.Confirmed(), m.store.Confirmed(), confirmed)
	}
	m.end()
	f.freeze(false)
	m.fs = after
	m.overwrite(confirmed+bornHost, make([]byte, 4))
	f.start(1)
	m = f.elect(1)
	if to, dubious := m.store.Sound(); !dubious || to > confirmed {
		t.Fatal(to, dubious, confirmed)
	}
	m.put("T", 2)
	f.inSync(m, r)
	f.same(m, r)
	f.sameLog(m, r, end)
	if r.disowned != 1 {
		t.Errorf("the replica has disowned its log %d times", r.disowned)
	}
}

// TestDamage: a master whose disk has changed a byte does not give it to others, and says that it is damaged. Who has a good log does.
func TestDamage(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	f.start(2)
	m := f.elect(1)
	m.put("T", 20)
	at := m.store.Log.End()
	for m.store.Log.End() < at+near+near/2 {
		m.put("T", 500)
	}
	f.inSync(m, f.members[2])
	m.overwrite(at+500, []byte{0x40}) // in a body
	r := f.start(3)
	f.await("damage", m.store.Damaged)
	if end := r.store.Log.End(); end > at || slices.Contains(f.set(), 3) {
		t.Fatalf("the replica has %d bytes, those from %d on are damaged", end, at)
	}
	m = f.elect(2)
	m.put("T", 2)
	f.inSync(m, r)
	f.same(m, r)
	if m.store.Damaged() {
		t.Fatal("the other one is damaged, too")
	}
}

// TestStay: a log with acknowledged records that the master's does not reach is not touched.
func TestStay(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	m := f.elect(1)
	m.put("T", 100)
	end := m.store.Log.End()
	m.end()
	f.start(2)
	other := f.elect(2)
	other.put("T", 10)
	m = f.start(1)
	time.Sleep(200 * time.Millisecond)
	if m.store.Log.End() != end || m.store.Confirmed() != end || len(f.set()) != 1 {
		t.Fatal(m.store.Log.End(), m.store.Confirmed(), end, f.set())
	}
}

// TestHeld: what is on its way to a replica does not expire.
func TestHeld(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	m := f.elect(1)
	m.put("T", 300)
	s := &source{n: m.node}
	s.needs.Store(2 * testSegment)
	m.node.hold(s)
	m.expire()
	if m.store.Log.Min() != 2*testSegment {
		t.Fatal(m.store.Log.Min())
	}
	m.node.letGo(s)
	m.expire()
}

// TestBrokenFetch cuts and damages the connection at many places, and has the replica begin anew. Until everything is there it keeps
// what it has.
func TestBrokenFetch(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	f.start(2)
	m := f.elect(1)
	m.put("old", 50)
	f.inSync(m, f.members[2])
	r := f.members[2]
	end := r.store.Log.End()
	r.end()
	for i := range 40 {
		m.put(fmt.Sprint("T", i), 10)
	}
	f.await("set of one", func() bool { return m.store.Dispatched() == m.store.Log.End() })
	m.expire()
	f.mu.Lock()
	p := newProxy(t, m.node.cfg.Listener.Addr().String())
	f.via["1"] = p.l.Addr().String()
	f.mu.Unlock()
	var whole bytes.Buffer
	if _, err := m.store.WriteSnapshot(&whole, m.store.Log.Min()); err != nil {
		t.Fatal(err)
	}
	p.set(1, false)
	r = f.start(2)
	size := whole.Len() + 100
	for i := 1; i < size; i += max(1, size/25) {
		p.set(i, i%2 == 0)
		f.await("further attempt", func() bool { return p.tries() > 1 })
		if r.store.Log.End() != end || len(f.set()) != 1 || r.store.Writeable() != nil {
			t.Fatal(i, r.store.Log.End(), end)
		}
	}
	p.set(1<<30, false)
	f.inSync(m, r)
	f.same(m, r)
}

// TestJoinOfAnotherHistory: a replica has a state that its log has not reached, and then follows a master whose history lacks what the
// state is of. It fetches again, also if it was restarted on the way.
func TestJoinOfAnotherHistory(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, forgotten := range []bool{false, true} {
			f := newFleet(t)
			f.start(1)
			f.start(2)
			m := f.elect(1)
			m.put("T", 300)
			f.inSync(m, f.members[2])
			f.members[2].end()
			m.put("lost", 200)
			f.await("set of one", func() bool { return m.store.Dispatched() == m.store.Log.End() })
			s := &source{n: m.node}
			s.needs.Store(3 * testSegment)
			m.node.hold(s)
			m.expire()
			var whole bytes.Buffer
			if _, err := m.store.WriteSnapshot(&whole, m.store.Log.Min()); err != nil {
				t.Fatal(err)
			}
			p := newProxy(t, m.node.cfg.Listener.Addr().String())
			p.set(whole.Len()+90<<10, false)
			f.mu.Lock()
			f.via["1"] = p.l.Addr().String()
			f.mu.Unlock()
			r := f.start(3)
			f.await("beginning of a join", func() bool { return r.store.Joining() && r.store.Log.End() > r.store.Log.Min() })
			p.set(0, false)
			if restart {
				r.end()
				if forgotten {
					if err := r.fs.Remove("/store/epochs.joining"); err != nil {
						t.Fatal(err)
					}
				}
				r = f.start(3)
				if !r.store.Joining() || r.node.void() != forgotten {
					t.Fatal(r.store.Joining(), r.node.void())
				}
			}
			at := r.store.JoinsAt()
			m.end()
			f.start(2)
			m = f.elect(2)
			m.put("T", 400)
			if end := m.store.Log.Appended(); end < at {
				t.Fatal(end, at)
			}
			f.inSync(m, r)
			f.same(m, r)
			if r.store.JoinsAt() == at {
				t.Fatal("it has kept the state of another history")
			}
		}
	}
}

// proxy is a connection between brokers that breaks.
type proxy struct {
	l      net.Listener
	mu     sync.Mutex
	limit  int
	damage bool
	count  int
}

func newProxy(t *testing.T, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(a, to)
		}
	}()
	return p
}

func (p *proxy) set(limit int, damage bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit, p.damage, p.count = limit, damage, 0
}

func (p *proxy) tries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

func (p *proxy) carry(a net.Conn, to string) {
	p.mu.Lock()
	limit, damage := p.limit, p.damage
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.limit == limit {
			p.count++
		}
	}()
	defer a.Close() //nolint:errcheck // it breaks
	b, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer b.Close() //nolint:errcheck // it breaks
	go func() {
		_, _ = io.Copy(b, a)
		_ = b.Close()
	}()
	if n, err := io.CopyN(a, b, int64(limit)); err != nil || n < int64(limit) || !damage {
		return
	}
	var one [1]byte
	if _, err := io.ReadFull(b, one[:]); err != nil {
		return
	}
	one[0] ^= 0x40
	_, _ = a.Write(one[:])
	_ = b.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // a damaged length has the replica wait for what never comes
	_, _ = io.Copy(a, b)
}

// TestPace: a sender keeps to its rate, also when that changes, and does not make up for a time in which it had nothing to send.
func TestPace(t *testing.T) {
	var p pace
	now := time.Unix(0, 0)
	run := func(rate int64, d time.Duration) (sent int64) {
		for end := now.Add(d); now.Before(end); sent += 1 << 20 {
			pause := p.pause(1<<20, rate, now)
			now = now.Add(max(pause, time.Millisecond))
		}
		return sent
	}
	for _, rate := range []int64{100 << 20, 10 << 20, 50 << 20} {
		if sent := run(rate, 10*time.Second); sent < rate*9 || sent > rate*11 {
			t.Errorf("%d MiB/s: %d MiB in 10 s", rate>>20, sent>>20)
		}
		now = now.Add(time.Minute)
	}
	if sent := run(0, time.Second); sent != 1000<<20 {
		t.Errorf("without a limit: %d MiB", sent>>20)
	}
	if d := p.pause(1<<30, 1<<20, now); d > time.Second {
		t.Error(d)
	}
}

// TestCatchUp: a replica that is far behind comes near in large frames, across segments and epochs.
func TestCatchUp(t *testing.T) {
	f := newFleet(t)
	f.start(1)
	f.start(2)
	m := f.elect(1)
	m.put("T", 20)
	f.inSync(m, f.members[2])
	f.members[2].end()
	for n := m.store.Log.End(); m.store.Log.End() < n+far/2; {
		m.put("T", 1000)
	}
	m = f.elect(1)
	for n := m.store.Log.End(); m.store.Log.End() < n+far; {
		m.put("T", 1000)
	}
	r := f.start(2)
	f.inSync(m, r)
	f.same(m, r)
}
