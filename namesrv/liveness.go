package namesrv

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Heartbeat renews everything that is registered from an address, and tells whether that includes the broker name. An empty
// name stands for any. Java: RouteInfoManager.updateBrokerInfoUpdateTimestamp.
func (t *RouteTable) Heartbeat(cluster, name, addr string, now time.Time) (known bool) {
	for _, m := range t.places[place{cluster, addr}] {
		m.lastUpdate = now
		known = known || m.leaves.IsZero() && (name == "" || m.name == name)
	}
	return known
}

// Unregister removes the members of a broker name at an address.
func (t *RouteTable) Unregister(cluster, name, addr string) (fx Effects) {
	if g := t.groups[name]; g != nil && g.cluster == cluster {
		t.leave(g.at(addr), ReasonUnregistered, &fx)
	}
	return fx
}

// replaceTime is how long a member whose connection has ended stays in the routes, if another may take its place: a master that has
// replicas, and a standby. Without it whoever asked in the meantime would see the broker name without queues, for as long as clients keep a route.
const replaceTime = time.Second

// Disconnect removes the members whose last registration came over one of the links, those that may be replaced with a Depart in replaceTime;
// wait tells that there are such.
func (t *RouteTable) Disconnect(links []Link, now time.Time) (fx Effects, wait bool) {
	gone := t.find(func(m *member) bool { return slices.Contains(links, m.link) })
	out := slices.DeleteFunc(slices.Clone(gone), func(m *member) bool {
		stays := t.replaceable(m, gone)
		if stays {
			m.leaves, m.link, wait = now.Add(replaceTime), nil, true
		}
		return stays
	})
	t.leave(out, ReasonClosed, &fx)
	return fx, wait
}

func (t *RouteTable) replaceable(m *member, gone []*member) bool {
	if strings.HasSuffix(m.name, standbySuffix) {
		return true
	}
	g := t.groups[m.name]
	if m.id != masterID || g.acting {
		return false
	}
	for _, o := range g.members {
		if !slices.Contains(gone, o) {
			return true
		}
	}
	return false
}

// Depart removes the members that were not replaced in time, and have not come back.
func (t *RouteTable) Depart(now time.Time) (fx Effects) {
	t.leave(t.find(func(m *member) bool { return !m.leaves.IsZero() && !now.Before(m.leaves) }), ReasonClosed, &fx)
	return fx
}

// Expire removes the members whose time is over. It is to be called every period. When it is called much later than that, the
// process has stood still, and what the brokers sent meanwhile is still unread: they get the lost time back.
func (t *RouteTable) Expire(now time.Time, period time.Duration) (fx Effects) {
	lost := now.Sub(t.lastScan) - period
	if t.lastScan.IsZero() || lost <= period {
		lost = 0
	}
	t.lastScan = now
	gone := t.find(func(m *member) bool {
		m.lastUpdate = m.lastUpdate.Add(lost)
		if m.lastUpdate.After(now) { // it was renewed after the standstill
			m.lastUpdate = now
		}
		return now.Sub(m.lastUpdate) > m.timeout
	})
	t.leave(gone, ReasonExpired, &fx)
	shared := map[Link]bool{nil: true} // with members that live on, or listed already
	for _, g := range t.groups {
		for _, m := range g.members {
			shared[m.link] = true
		}
	}
	for _, m := range gone {
		if !shared[m.link] {
			shared[m.link] = true
			fx.Close = append(fx.Close, m.link)
		}
	}
	return fx
}

// find returns the members that match, in the order of broker name and id, so that equal tables behave alike.
func (t *RouteTable) find(match func(*member) bool) []*member {
	var out []*member
	for _, name := range slices.Sorted(maps.Keys(t.groups)) {
		members := t.groups[name].members
		for _, id := range slices.Sorted(maps.Keys(members)) {
			if match(members[id]) {
				out = append(out, members[id])
			}
		}
	}
	return out
}

// leave removes members, and with the last one of a broker name its queues. Java: RouteInfoManager.unRegisterBroker.
func (t *RouteTable) leave(members []*member, reason Reason, fx *Effects) {
	offline := map[string]string{} // broker name → address of the member that had the lowest id, or ""
	for _, m := range members {
		g := t.groups[m.name]
		if m.id == g.minID() {
			offline[m.name] = m.at.addr
		} else if _, ok := offline[m.name]; !ok {
			offline[m.name] = ""
		}
		t.remove(g, m)
		fx.Events = append(fx.Events, m.event(false, reason))
	}
	for _, name := range slices.Sorted(maps.Keys(offline)) {
		g := t.groups[name]
		if len(g.members) == 0 {
			for topic := range g.topics {
				t.dropQueue(topic, name, fx)
			}
			delete(t.groups, name)
			fx.Brokers = true
			continue
		}
		t.refresh(name, g, fx)
		if offline[name] != "" && g.acting {
			fx.Notices = append(fx.Notices, g.notice(name, offline[name], ""))
		}
	}
}
