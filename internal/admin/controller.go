package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func controllerCommands() []command {
	at := option{short: "a", long: "controllerAddress", brief: "controllers, host:port separated by semicolons; any of the quorum will do"}.must()
	group := option{short: "bn", long: "brokerName", brief: "broker name"}.must()
	again := option{short: "i", long: "interval", kind: long, brief: "show it again every so many seconds"}
	inCluster := onCluster("of all broker names of this cluster")
	return []command{
		{"getControllerMetaData", "Shows the controllers and which one leads.", []option{at}, nil, false, getControllerMetaData},
		{"getControllerConfig", "Shows the configuration of the controllers.", []option{at}, nil, true, getControllerConfig},
		{"updateControllerConfig", "Changes a configuration key of the controllers.", []option{
			at, option{short: "k", long: "key", brief: "key"}.must(), option{short: "v", long: "value", brief: "value"}.must(),
		}, nil, false, updateControllerConfig},
		{"getSyncStateSet", "Shows which brokers of a name are in sync, as the controllers know it.", []option{
			at, inCluster, {short: "b", long: "brokerName", brief: "of this broker name"}, again,
		}, nil, true, getSyncStateSet},
		{"getBrokerEpoch", "Shows which part of its log a broker has got under which master.", []option{
			inCluster, {short: "b", long: "brokerName", brief: "of the brokers of this name"}, again,
		}, brokerOrCluster, false, getBrokerEpoch},
		{"electMaster", "Has the controllers make a broker master.", []option{
			at, option{short: "b", long: "brokerId", kind: long, brief: "id that the broker has at the controllers"}.must(), group,
			option{short: "c", long: "clusterName", brief: "cluster of the broker"}.must(),
		}, nil, false, electMaster},
		{"cleanBrokerMetadata", "Has the controllers forget brokers that are gone.", []option{
			at, {short: "b", long: "brokerControllerIdsToClean", brief: "ids separated by semicolons; all of the name if not given"}, group,
			{short: "c", long: "clusterName", brief: "cluster of the broker; required without -l"},
			{short: "l", long: "cleanLivingBroker", kind: none, brief: "also brokers that live"},
		}, nil, false, cleanBrokerMetadata},
	}
}

// controllers are those of -a.
func (t *tool) controllers() []string {
	return strings.FieldsFunc(t.given["a"], func(r rune) bool { return r == ';' || r == ' ' })
}

// controllerData asks one controller after the other until one can be reached.
func (t *tool) controllerData() (h header.GetMetaDataResponse, err error) {
	err = errors.New("no controller is given: -a HOST:PORT")
	for _, addr := range t.controllers() {
		if err = into(&h)(t.call(addr, code.ControllerGetMetadataInfo, nil, nil)); err == nil {
			break
		}
	}
	return h, err
}

// leader is the controller that changes are to be asked of.
func (t *tool) leader() (string, error) {
	h, err := t.controllerData()
	if err == nil && h.ControllerLeaderAddress == "" {
		err = errors.New("no controller leads: fewer than half of the quorum are up, or an election goes on")
	}
	return h.ControllerLeaderAddress, err
}

func getControllerMetaData(t *tool) error {
	h, err := t.controllerData()
	if err != nil {
		return err
	}
	t.printf("\n#ControllerGroup\t%s\n#ControllerLeaderId\t%s\n#ControllerLeaderAddress\t%s\n", h.Group, h.ControllerLeaderID, h.ControllerLeaderAddress)
	for peer := range strings.SplitSeq(strings.TrimRight(h.Peers, ";"), ";") {
		t.printf("#Peer:\t%s\n", peer)
	}
	return nil
}

func getControllerConfig(t *tool) error {
	return onEach(t.controllers(), func(addr string) error {
		r, err := t.call(addr, code.GetControllerConfig, nil, nil)
		if err != nil {
			return err
		}
		return t.showConfig(addr, r.Body)
	})
}

func updateControllerConfig(t *tool) error {
	list := t.controllers()
	text := conf.AppendProperty(nil, t.given["k"], t.given["v"])
	err := onEach(list, func(addr string) error {
		_, err := t.call(addr, code.UpdateControllerConfig, nil, text)
		return err
	})
	if err == nil {
		t.printf("update controller config success![%s]\n%s : %s\n", strings.Join(list, ", "), t.given["k"], t.given["v"])
	}
	return err
}

// brokerNames are the names that a command is about: that of -b, or those of the cluster of -c.
func (t *tool) brokerNames() ([]string, error) {
	if t.given.has("b") {
		return []string{t.given["b"]}, nil
	}
	if !t.given.has("c") {
		return nil, errors.New("missing required option: -b or -c")
	}
	list, err := t.members(t.given["c"])
	var names []string
	for _, r := range list {
		names = append(names, r.name)
	}
	return slices.Compact(names), err
}

func getSyncStateSet(t *tool) error {
	return t.every(t.given.number("i", 0), func() error {
		names, err := t.brokerNames()
		if err != nil {
			return err
		}
		leader, err := t.leader()
		if err != nil {
			return err
		}
		info, err := decoded[body.BrokerReplicasInfo](t.call(leader, code.ControllerGetSyncStateData, nil, fastjson.Marshal(names)))
		if err != nil {
			return err
		}
		if t.given.has(optJSON.long) {
			t.pretty(info)
			return nil
		}
		return onEach(names, func(name string) error {
			g, ok := info.ReplicasInfoTable[name]
			if !ok {
				return fmt.Errorf("the controllers know no broker name %q", name)
			}
			t.showReplicas(name, &g)
			return nil
		})
	})
}

func (t *tool) showReplicas(name string, g *body.ReplicasInfo) {
	master := "null"
	if g.MasterBrokerID != nil {
		master = fmt.Sprint(*g.MasterBrokerID)
	}
	t.printf("\n#brokerName\t%s\n#MasterBrokerId\t%s\n#MasterAddr\t%s\n#MasterEpoch\t%d\n#SyncStateSetEpoch\t%d\n#SyncStateSetNums\t%d\n", name, master, notGiven(g.MasterAddress),
		g.MasterEpoch, g.SyncStateSetEpoch, len(g.InSyncReplicas))
	show := func(title string, list []body.ReplicaIdentity) {
		for _, r := range slices.SortedFunc(slices.Values(list), func(a, b body.ReplicaIdentity) int { return cmp.Compare(a.BrokerID, b.BrokerID) }) {
			t.printf("\n%s:\tReplicaIdentity{brokerName='%s', brokerId=%d, brokerAddress='%s', alive=%t}\n", title, r.BrokerName, r.BrokerID, r.BrokerAddress, r.Alive)
		}
	}
	show("InSyncReplica", g.InSyncReplicas)
	show("NotInSyncReplica", g.NotInSyncReplicas)
}

func getBrokerEpoch(t *tool) error {
	return t.every(t.given.number("i", 0), func() error {
		list, err := t.members(t.given["c"])
		if err != nil {
			return err
		}
		if t.given.has("b") {
			list = slices.DeleteFunc(list, func(r replica) bool { return r.name != t.given["b"] })
		}
		if len(list) == 0 {
			return fmt.Errorf("the name server knows no broker of the name %q", t.given["b"])
		}
		return onEach(list, func(b replica) error {
			e, err := decoded[body.EpochEntryCache](t.call(b.addr, code.GetBrokerEpochCache, nil, nil))
			if err == nil {
				t.showEpochs(b.addr, e)
			}
			return err
		})
	})
}

func (t *tool) showEpochs(addr string, e *body.EpochEntryCache) {
	t.printf("\n#clusterName\t%s\n#brokerName\t%s\n#brokerAddr\t%s\n#brokerId\t%d\n", e.ClusterName, e.BrokerName, addr, e.BrokerID)
	for i, p := range e.EpochList {
		if i == len(e.EpochList)-1 {
			p.EndOffset = e.MaxOffset // it lasts
		}
		t.printf("#Epoch: EpochEntry{epoch=%d, startOffset=%d, endOffset=%d}\n", p.Epoch, p.StartOffset, p.EndOffset)
	}
}

func electMaster(t *tool) error {
	leader, err := t.leader()
	if err != nil {
		return err
	}
	h := header.ElectMasterRequest{ClusterName: t.given["c"], BrokerName: t.given["bn"], BrokerID: t.given.number("b", 0), DesignateElect: true, InvokeTime: t.clk.NowMs()}
	r, err := t.call(leader, code.ControllerElectMaster, &h, nil)
	if err != nil {
		return err
	}
	var elected header.ElectMasterResponse
	if err := r.Decode(&elected); err != nil {
		return err
	}
	b, err := decoded[body.ElectMasterResponseBody](r, nil)
	if err != nil {
		return err
	}
	t.printf("\n#ClusterName\t%s\n#BrokerName\t%s\n#BrokerMasterAddr\t%s\n#MasterEpoch\t%d\n#SyncStateSetEpoch\t%d\n", h.ClusterName, h.BrokerName, elected.MasterAddress,
		elected.MasterEpoch.Or(0), elected.SyncStateSetEpoch.Or(0))
	if b.BrokerMemberGroup != nil {
		for _, id := range slices.Sorted(maps.Keys(b.BrokerMemberGroup.BrokerAddrs)) {
			t.printf("\t#Broker\t%d\t%s\n", id, b.BrokerMemberGroup.BrokerAddrs[id])
		}
	}
	return nil
}

func cleanBrokerMetadata(t *tool) error {
	living := t.given.has("l")
	if !living && t.given["c"] == "" {
		return errors.New("missing required option: -c, unless -l is given")
	}
	leader, err := t.leader()
	if err != nil {
		return err
	}
	h := header.CleanControllerBrokerDataRequest{ClusterName: t.given["c"], BrokerName: t.given["bn"], BrokerControllerIdsToClean: t.given["b"], IsCleanLivingBroker: living, InvokeTime: t.clk.NowMs()}
	if _, err := t.call(leader, code.CleanBrokerData, &h, nil); err != nil {
		return err
	}
	t.printf("clear broker %s metadata from controller success! \n", h.BrokerName)
	return nil
}
