package admin

import (
	"fmt"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
)

func statusCommands() []command {
	return []command{
		{"status", "Says in words what an acknowledgement means now, how far the replicas are, and which are sick and why. Not in RocketMQ's tool.", []option{
			onCluster("only of this cluster"),
			{short: "i", long: "interval", kind: long, brief: "say it again every so many seconds"},
		}, nil, false, status},
	}
}

func status(t *tool) error {
	return t.every(t.given.number("i", 0), func() error {
		info, err := t.clusterInfo()
		if err != nil {
			return err
		}
		list := replicas(info, t.given["c"])
		masters := map[string]bool{}
		for _, r := range list {
			masters[r.name] = masters[r.name] || r.id == 0
		}
		said := map[string]bool{}
		return onEach(list, func(r replica) error {
			if !masters[r.name] && !said[r.name] {
				said[r.name] = true
				t.printf("%s (%s)\n  there is no master: nothing is acknowledged\n", r.name, r.cluster)
			}
			return t.sayStatus(r)
		})
	})
}

// sayStatus is what one broker says.
func (t *tool) sayStatus(r replica) error {
	info, err := t.runtimeInfo(r.addr)
	if err != nil {
		return err
	}
	sick := ""
	if why := info["sick"]; why != "" {
		sick = ", sick: " + why
	}
	if r.id != 0 {
		t.printf("  replica %-3d %-22s log end %s%s\n", r.id, r.addr, info["commitLogMaxOffset"], sick)
		return nil
	}
	t.printf("%s (%s)\n  acknowledged means: %s\n", r.name, r.cluster, info["acknowledged"])
	t.printf("  master      %-22s log end %s, %s bytes not confirmed%s\n", r.addr, info["commitLogMaxOffset"], info["dispatchBehindBytes"], sick)
	ha, err := decoded[body.HARuntimeInfo](t.call(r.addr, code.GetBrokerHAStatus, nil, nil))
	if err != nil {
		return err
	}
	for _, c := range ha.HAConnectionInfo {
		state := "not in sync"
		if c.InSync {
			state = "in sync"
		}
		t.printf("  attached    %-22s %s\n", c.Addr, fmt.Sprintf("%s, %d bytes behind", state, c.Diff))
	}
	return nil
}
