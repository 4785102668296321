package member

import (
	"context"
	"fmt"
	"strconv"

	"go.uber.org/zap"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// run takes the steps that the machine names.
func (m *Member) run(ctx context.Context) error {
	for ctx.Err() == nil {
		was := m.machine.step
		a := m.take(ctx, was)
		p := m.machine.next(a, m.clk.Now())
		m.report(ctx, was, a, p)
		switch p {
		case retry:
			m.rest(ctx, m.jitter(retryPause), nil)
		case period:
			m.rest(ctx, m.jitter(m.cfg.AskPeriod), m.wake)
		}
		if m.disowned.Swap(false) || m.unknown.Swap(false) || m.registered.Load() && m.promised.Load() != m.cfg.MinInSync() {
			m.machine.again()
		}
	}
	return nil
}

// report logs what an operator may have to act on: the first failure, not those that follow before everything is well again.
func (m *Member) report(ctx context.Context, was step, a answer, p pause) {
	ok := a.err == nil && (a.code == code.Success || a.code == code.ControllerMasterStillExist)
	failed := !ok && p != none
	switch id := zap.Int64("id", m.ID()); {
	case ctx.Err() != nil:
	case ok && was == reclaimID:
		m.log.Warn("the controllers did not know this broker any more; it has kept its id", id)
	case !failed || m.troubled:
	case was == reclaimID && a.err == nil:
		m.log.Error("the controllers do not know this broker any more and refuse to give it its id again. Start the replicas with smaller ids, "+
			"or remove the file to get a new id", id, zap.String("file", m.files.path), zap.Stringer("code", a.code))
	default:
		why := zap.Error(a.err)
		if a.err == nil {
			why = zap.Stringer("code", a.code)
		}
		m.log.Warn("the controllers did not do what they were asked for; it is tried again", zap.Stringer("step", was), id, why, zap.String("remark", a.remark))
	}
	if failed || was == ask && p == period {
		m.troubled = failed
	}
}

// take carries out a step.
func (m *Member) take(ctx context.Context, s step) answer {
	switch s {
	case askID:
		return m.askID(ctx)
	case applyID:
		return m.applyID(ctx)
	case reclaimID:
		return m.apply(ctx, m.newIdentity(m.ID())) // if the answer is lost, the registration shows what it was
	case register:
		return m.register(ctx)
	case greet:
		_, a := m.request(ctx, code.BrokerHeartbeat, m.heartbeat())
		return a
	case ask:
		return m.askRole(ctx)
	default:
		_, a := m.request(ctx, code.ControllerElectMaster, &header.ElectMasterRequest{ClusterName: m.cfg.Cluster, BrokerName: m.cfg.Name,
			BrokerID: m.ID(), InvokeTime: m.clk.NowMs()})
		return a
	}
}

// request asks the leader.
func (m *Member) request(ctx context.Context, rc code.Request, h header.Appender) (*remoting.Reply, answer) {
	r, err := m.quorum.call(ctx, rc, h, nil)
	if err != nil {
		return nil, answer{err: err}
	}
	if r.Err() != nil {
		m.log.Debug("refused by the controllers", zap.Stringer("request", rc), zap.Error(r.Err()))
	}
	return r, answer{code: code.Response(r.Code), remark: string(r.Remark)}
}

func (m *Member) askID(ctx context.Context) answer {
	r, a := m.request(ctx, code.ControllerGetNextBrokerID, &header.GetNextBrokerIdRequest{ClusterName: m.cfg.Cluster, BrokerName: m.cfg.Name})
	if a.err != nil || a.code != code.Success {
		return a
	}
	var h header.GetNextBrokerIdResponse
	if a.err = r.Decode(&h); a.err == nil && h.NextBrokerID < 1 {
		a.err = fmt.Errorf("%d is no broker id", h.NextBrokerID)
	}
	if a.err == nil {
		m.applied = m.newIdentity(h.NextBrokerID)
		a.err = m.files.apply(m.applied)
	}
	return a
}

// newIdentity is an identity with a check code of its own.
func (m *Member) newIdentity(id int64) identity {
	return identity{m.cfg.Cluster, m.cfg.Name, id, fmt.Sprintf("%s;%d", m.cfg.Addr, m.clk.NowMs())}
}

func (m *Member) apply(ctx context.Context, i identity) answer {
	_, a := m.request(ctx, code.ControllerApplyBrokerID, &header.ApplyBrokerIdRequest{ClusterName: i.cluster, BrokerName: i.name,
		AppliedBrokerID: i.id, RegisterCheckCode: i.checkCode})
	return a
}

func (m *Member) applyID(ctx context.Context) answer {
	a := m.apply(ctx, m.applied)
	switch {
	case a.err != nil:
	case a.code == code.ControllerBrokerIDInvalid:
		a.err = m.files.withdraw()
	case a.code == code.Success:
		if a.err = m.files.settle(m.applied); a.err == nil {
			m.id.Store(m.applied.id)
			m.log.Info("broker id assigned", zap.Int64("id", m.applied.id), zap.String("file", m.files.path))
		}
	}
	return a
}

// registration is CONTROLLER_REGISTER_BROKER with the ext fields of our own brokers; see package controller.
type registration struct {
	header.RegisterBrokerToControllerRequest
	minInSync int32
	life      int64
	attempt   int64
	torn      bool
	learner   bool
	log       Vitals
}

// AppendFields implements header.Appender.
func (h *registration) AppendFields(w *header.Writer) {
	h.RegisterBrokerToControllerRequest.AppendFields(w)
	w.Bool("inheritsSyncStateSet", true)
	w.Int("incarnation", h.life)
	w.Int("attempt", h.attempt)
	if h.torn {
		w.Bool("torn", true)
	}
	if h.learner {
		w.Bool("learner", true)
	}
	if h.minInSync > 0 {
		w.Int("minInSyncReplicas", int64(h.minInSync))
	}
	w.Int("epoch", int64(h.log.Epoch))
	w.Int("maxOffset", h.log.MaxOffset)
}

func (m *Member) register(ctx context.Context) answer {
	least := m.cfg.MinInSync()
	m.promised.Store(max(least, m.promised.Load())) // the answer may be lost
	torn := m.cfg.Torn != nil && m.cfg.Torn()
	if m.life.Load() == 0 || m.outdated != 0 || torn && m.registered.Load() { // the controllers take a loss for news once in a life
		if err := m.begin(); err != nil {
			return answer{err: err}
		}
	}
	m.attempt++
	r, a := m.request(ctx, code.ControllerRegisterBroker, &registration{header.RegisterBrokerToControllerRequest{ClusterName: m.cfg.Cluster,
		BrokerName: m.cfg.Name, BrokerID: m.ID(), BrokerAddress: m.cfg.Addr, InvokeTime: m.clk.NowMs()}, least, m.life.Load(), m.attempt, torn || m.outdated != 0, m.cfg.Learner, m.replica.Vitals()})
	switch {
	case a.err != nil:
	case a.code == code.Success:
		m.promised.Store(least)
		m.registered.Store(true)
		m.outdated = 0
		if torn {
			m.cfg.Mended()
		}
	case a.code == code.ControllerBrokerIDInvalid:
		m.outdated = laterStarts(r, m.life.Load())
	}
	return a
}

// laterStarts is how many starts of this broker the controllers know of, if it is at least as many as those of a life; else 0.
func laterStarts(r *remoting.Reply, life int64) int64 {
	text, _ := r.Ext("incarnation")
	known, err := strconv.ParseInt(text, 10, 64)
	if err != nil || known>>32 < life>>32 {
		return 0
	}
	return known >> 32
}

func (m *Member) askRole(ctx context.Context) answer {
	role, err := m.present(ctx)
	if err == nil {
		return answer{masterless: role.Master == 0, amnesia: role.Epoch < m.replica.Vitals().Epoch}
	}
	if c := codeOf(err); c != code.SystemError {
		return answer{code: c}
	}
	return answer{err: err}
}

// present asks for the present role and takes note of it.
func (m *Member) present(ctx context.Context) (Role, error) {
	before := m.known()
	r, err := m.quorum.call(ctx, code.ControllerGetReplicaInfo, &header.GetReplicaInfoRequest{BrokerName: m.cfg.Name}, nil)
	if err != nil {
		return Role{}, err
	}
	var h header.GetReplicaInfoResponse
	var set body.SyncStateSet
	if err = r.Err(); err == nil {
		err = r.Decode(&h)
	}
	if err == nil && len(r.Body) > 0 {
		err = fastjson.Unmarshal(r.Body, &set)
	}
	if err != nil {
		return Role{}, err
	}
	role, err := newRole(h.MasterEpoch.Or(0), set.SyncStateSetEpoch, h.MasterBrokerID.Or(0), h.MasterAddress, set.SyncStateSet)
	if err != nil {
		return Role{}, err
	}
	if text, ok := r.Ext("replicas"); ok {
		role.Replicas, _ = strconv.Atoi(text)
	}
	logged := m.replica.Vitals().Epoch
	if forgotten := role.contradicts(before) || role.Epoch < logged; m.odd.Swap(forgotten) != forgotten && forgotten {
		m.log.Error("the controllers know earlier epochs than this broker: they have lost data. This broker stays as it is. If they name a master, "+
			"have mqadmin electMaster elect the replica with the longest log; else there will be an election soon",
			zap.Int64("master", role.Master), zap.Int32("masterEpoch", role.Epoch), zap.Int64("knownMaster", before.Master),
			zap.Int32("knownEpoch", before.Epoch), zap.Int32("epochInLog", logged))
	}
	m.offer(role)
	m.asked.Store(true)
	return role, nil
}
