package admin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/castor-mq/castor/conf"
	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
)

func brokerCommands() []command {
	return []command{
		{"brokerStatus", "Shows what a broker counts and measures.", []option{onBroker("of this broker"), onCluster("of all brokers of this cluster")},
			brokerOrCluster, true, brokerStatus},
		{"getBrokerConfig", "Shows the configuration of a broker.", []option{onBroker("of this broker"), onCluster("of all brokers of this cluster")},
			brokerOrCluster, true, getBrokerConfig},
		{"updateBrokerConfig", "Changes a configuration key of a broker.", []option{
			onBroker("of this broker"), onCluster("of all masters of this cluster"),
			{short: "a", long: "updateAllBroker", kind: yes, brief: "with -c: of the other brokers, too"},
			option{short: "k", long: "key", brief: "key"}.must(), option{short: "v", long: "value", brief: "value"}.must(),
		}, brokerOrCluster, false, updateBrokerConfig},
		{"haStatus", "Shows how far the replicas of a broker are.", []option{
			onCluster("of all masters of this cluster"), onBroker("of this broker"),
			{short: "i", long: "interval", kind: long, brief: "show it again every so many seconds"},
		}, brokerOrCluster, false, haStatus},
		cleaner("cleanExpiredCQ", "Deletes files of queues whose messages are gone.", "cluster", code.CleanExpiredConsumeQueue),
		cleaner("cleanUnusedTopic", "Deletes the queues of topics that are gone.", "cluster", code.CleanUnusedTopic),
		cleaner("deleteExpiredCommitLog", "Deletes files of the log that are old enough.", "cluster", code.DeleteExpiredCommitLog),
	}
}

// withReplicas are the targets of a command that is about all brokers of a cluster, not only masters.
func (t *tool) withReplicas() ([]replica, error) {
	if t.given.has("b") {
		return t.targets()
	}
	return t.members(t.given["c"])
}

func brokerStatus(t *tool) error {
	list, err := t.withReplicas()
	if err != nil {
		return err
	}
	return onEach(list, func(b replica) error {
		info, err := t.runtimeInfo(b.addr)
		if err != nil {
			return err
		}
		if t.given.has(optJSON.long) {
			t.pretty(map[string]map[string]string{b.addr: info})
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(info)) {
			if t.given.has("c") {
				t.printf("%-24s ", b.addr)
			}
			t.printf("%-32s: %s\n", key, info[key])
		}
		return nil
	})
}

func (t *tool) runtimeInfo(addr string) (map[string]string, error) {
	info, err := decoded[body.KVTable](t.call(addr, code.GetBrokerRuntimeInfo, nil, nil))
	if err != nil {
		return nil, err
	}
	return info.Table, nil
}

func getBrokerConfig(t *tool) error {
	list, err := t.withReplicas()
	if err != nil {
		return err
	}
	master := map[string]string{}
	for _, b := range masters(list) {
		master[b.name] = b.addr
	}
	return onEach(list, func(b replica) error {
		title := b.addr
		switch {
		case t.given.has("b"):
		case b.id == 0:
			title = "Master: " + b.addr
		default:
			title = fmt.Sprintf("My Master: %s=====Slave: %s", cmp.Or(master[b.name], "none"), b.addr)
		}
		r, err := t.call(b.addr, code.GetBrokerConfig, nil, nil)
		if err != nil {
			return err
		}
		if err := t.showConfig(title, r.Body); err != nil {
			return err
		}
		if !t.given.has(optJSON.long) {
			t.printf("\n")
		}
		return nil
	})
}

// showConfig prints properties in the order of their keys.
func (t *tool) showConfig(title string, text []byte) error {
	config, err := properties(text)
	if err != nil {
		return err
	}
	if t.given.has(optJSON.long) {
		t.printf("%s\n", fastjson.Encoder{Pretty: true}.Marshal(map[string]map[string]string{title: config}))
		return nil
	}
	t.printf("============%s============\n", title)
	for _, key := range slices.Sorted(maps.Keys(config)) {
		t.printf("%-50s=  %s\n", key, config[key])
	}
	return nil
}

// properties reads an answer in the format of java.util.Properties.
func properties(text []byte) (map[string]string, error) {
	list, err := conf.ParseProperties(text)
	if err != nil {
		return nil, fmt.Errorf("malformed answer: %w", err)
	}
	config := make(map[string]string, len(list))
	for _, p := range list {
		config[p.Key] = p.Value
	}
	return config, nil
}

func updateBrokerConfig(t *tool) error {
	list, err := t.targets()
	if t.given.yes("a", false) {
		list, err = t.withReplicas()
	}
	if err != nil {
		return err
	}
	text := conf.AppendProperty(nil, t.given["k"], t.given["v"])
	return onEach(list, func(b replica) error {
		if _, err := t.call(b.addr, code.UpdateBrokerConfig, nil, text); err != nil {
			return err
		}
		t.printf("update broker config success, %s\n", b.addr)
		return nil
	})
}

// cleaner is a command that has brokers delete what they do not need: one, those of a cluster, or without either all.
func cleaner(name, brief, long string, rc code.Request) command {
	return command{name, brief, []option{onBroker("on this broker"), {short: "c", long: long, brief: "on all masters of this cluster"}}, nil, false, func(t *tool) error {
		err := t.onTargets(func(b replica) error {
			_, err := t.call(b.addr, rc, nil, nil)
			return err
		})
		if err == nil {
			t.printf("success\n")
		}
		return err
	}}
}

func haStatus(t *tool) error {
	return t.every(t.given.number("i", 0), func() error {
		return t.onTargets(func(b replica) error {
			info, err := decoded[body.HARuntimeInfo](t.call(b.addr, code.GetBrokerHAStatus, nil, nil))
			if err == nil {
				t.showHA(b.addr, info)
			}
			return err
		})
	})
}

func (t *tool) showHA(addr string, info *body.HARuntimeInfo) {
	kib := func(bytes int64) fixed { return fixed(float64(bytes) / 1024) }
	if !info.Master {
		c := info.HAClientRuntimeInfo
		t.printf("\n#MasterAddr\t%s\n#CommitLogMaxOffset\t%d\n#TransferSpeed(KB/s)\t%v\n#LastReadTime\t%s\n#LastWriteTime\t%s\n#MasterFlushOffset\t%d\n", c.MasterAddr, c.MaxOffset,
			kib(c.TransferredByteInSecond), t.at(c.LastReadTimestamp, formMillis, ""), t.at(c.LastWriteTimestamp, formMillis, ""), c.MasterFlushOffset)
		return
	}
	t.printf("\n#MasterAddr\t%s\n#MasterCommitLogMaxOffset\t%d\n#SlaveNum\t%d\n#InSyncSlaveNum\t%d\n", addr, info.MasterCommitLogMaxOffset, len(info.HAConnectionInfo), info.InSyncSlaveNums)
	const form = "%-32v  %-16v %16v %16v %16v %16v"
	tb := t.table(form, form, "#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status", "#TransferFromWhere")
	for _, c := range info.HAConnectionInfo {
		status := "Fall Behind"
		if c.InSync {
			status = "OK"
		}
		tb.add(c.Addr, c.SlaveAckOffset, c.Diff, kib(c.TransferredByteInSecond), status, c.TransferFromWhere)
	}
	tb.end(nil)
}
