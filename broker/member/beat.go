package member

import (
	"context"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// heartbeat is BROKER_HEARTBEAT.
type heartbeat struct {
	header.BrokerHeartbeatRequest
	healthy bool
	life    int64
}

// AppendFields implements header.Appender.
func (h *heartbeat) AppendFields(w *header.Writer) {
	h.BrokerHeartbeatRequest.AppendFields(w)
	w.Int("incarnation", h.life) // so that a controller that knows another one, from a registration that came late, says so
	if !h.healthy {
		w.Bool("healthy", false) // an ext field of ours; who does not know it takes a broker that sends for a healthy one
	}
}

func (m *Member) heartbeat() *heartbeat {
	v := m.replica.Vitals()
	return &heartbeat{header.BrokerHeartbeatRequest{
		ClusterName: m.cfg.Cluster, BrokerAddr: m.cfg.Addr, BrokerName: m.cfg.Name, BrokerID: header.Some(m.ID()),
		Epoch: header.Some(v.Epoch), MaxOffset: header.Some(v.MaxOffset), ConfirmOffset: header.Some(v.ConfirmOffset),
		HeartbeatTimeoutMillis: header.Some(m.cfg.HeartbeatTimeout.Milliseconds()), ElectionPriority: header.Some(m.cfg.Priority()),
	}, v.Healthy, m.Life()}
}

// beat sends heartbeats to every controller, from the registration on.
func (m *Member) beat(ctx context.Context) error {
	tick := m.clk.NewTicker(m.cfg.HeartbeatPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-m.urgent:
		}
		if !m.registered.Load() {
			continue
		}
		for _, addr := range m.quorum.addrs() {
			if m.takeTurn(addr) {
				m.work.Go("heartbeat", func(ctx context.Context) error {
					defer m.endTurn(addr)
					m.beatOnce(ctx, addr)
					return nil
				})
			}
		}
	}
}

// takeTurn tells whether no heartbeat to addr is on its way, and says that one is.
func (m *Member) takeTurn(addr string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.beating[addr] {
		return false
	}
	m.beating[addr] = true
	return true
}

func (m *Member) endTurn(addr string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.beating, addr)
}

// beatOnce sends one heartbeat. What the leader says to it, or that it says nothing, is looked into.
func (m *Member) beatOnce(ctx context.Context, addr string) {
	r, err := m.quorum.ask(ctx, addr, code.BrokerHeartbeat, m.heartbeat(), nil)
	switch {
	case addr != m.quorum.current() || ctx.Err() != nil:
	case err != nil:
		m.quorum.replace(addr, "", err)
		m.Look()
	case code.Response(r.Code) == code.ControllerBrokerNeedToBeRegistered:
		m.unknown.Store(true)
		m.Look()
	}
}
