package admin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func clientCommands() []command {
	group := option{short: "g", long: "consumerGroup", brief: "group"}.must()
	return []command{
		{"consumerConnection", "Lists the members of a consumer group that are online, and their subscriptions.", []option{group, onBroker("as this broker knows it")},
			nil, true, consumerConnection},
		{"consumerStatus", "Asks the members of a consumer group for their state.", []option{
			group, {short: "i", long: "clientId", brief: "only this member; its state is shown in full"}, onBroker("through this broker"),
			{short: "s", long: "jstack", kind: none, brief: "with the stacks of its threads"},
		}, nil, false, consumerStatus},
		{"producerConnection", "Lists the members of a producer group that are online.", []option{
			option{short: "g", long: "producerGroup", brief: "group"}.must(), aTopic(),
		}, nil, true, producerConnection},
		{"producer", "Lists all producers that are online.", []option{option{short: "b", long: "broker", brief: "on this broker, host:port"}.must()}, nil, true, producer},
	}
}

// groupVia returns the brokers to ask about a group: the one of -b, or all that the group uses.
func (t *tool) groupVia(group string) ([]replica, error) {
	if t.given.has("b") {
		return t.targets()
	}
	return t.groupBrokers(group, "")
}

// membersVia asks one broker after the other for the members of a group, and tells which one knows them.
func (t *tool) membersVia(group string) (addr string, c *body.ConsumerConnection, err error) {
	list, err := t.groupVia(group)
	if err != nil {
		return "", nil, err
	}
	err = errors.New("the group has no broker")
	for _, b := range list {
		if c, err = t.consumersAt(b.addr, group); err == nil {
			return b.addr, c, nil
		}
	}
	return "", nil, err
}

func consumerConnection(t *tool) error {
	_, c, err := t.membersVia(t.given["g"])
	if err == nil {
		t.showConsumers(c)
	}
	return err
}

func (t *tool) showConsumers(c *body.ConsumerConnection) {
	const form = "%-36v %-22v %-10v %v"
	tb := t.table(form, form, "#ClientId", "#ClientAddr", "#Language", "#Version")
	for _, m := range sortedMembers(c.ConnectionSet) {
		tb.add(m.ClientID, m.ClientAddr, m.Language, code.Version(m.Version).String())
	}
	tb.end(func() {
		t.printf("\nBelow is subscription:\n%-20s %s\n", "#Topic", "#SubExpression")
		for _, topic := range slices.Sorted(maps.Keys(c.SubscriptionTable)) {
			t.printf("%-20s %s\n", topic, c.SubscriptionTable[topic].SubString)
		}
		t.printf("\nConsumeType: %s\nMessageModel: %s\nConsumeFromWhere: %s\n", c.ConsumeType, c.MessageModel, c.ConsumeFromWhere)
	})
}

func sortedMembers(list []body.Connection) []body.Connection {
	return slices.SortedFunc(slices.Values(list), func(a, b body.Connection) int { return strings.Compare(a.ClientID, b.ClientID) })
}

func producerConnection(t *tool) error {
	list, err := t.routeOf(t.given["t"])
	if err != nil {
		return err
	}
	err = errors.New("the topic has no broker")
	for _, b := range list {
		var c *body.ProducerConnection
		h := header.GetProducerConnectionListRequest{ProducerGroup: t.given["g"]}
		if c, err = decoded[body.ProducerConnection](t.call(b.addr, code.GetProducerConnectionList, &h, nil)); err == nil {
			t.showProducers(c)
			break
		}
	}
	return err
}

func (t *tool) showProducers(c *body.ProducerConnection) {
	tb := t.untitled("%04d  %-32v %-22v %-8v %v", "index", "clientId", "clientAddr", "language", "version")
	for i, m := range sortedMembers(c.ConnectionSet) {
		tb.add(i+1, m.ClientID, m.ClientAddr, m.Language, code.Version(m.Version).String())
	}
	tb.end(nil)
}

func producer(t *tool) error {
	all, err := decoded[body.ProducerTableInfo](t.call(t.given["b"], code.GetAllProducerInfo, nil, nil))
	if err != nil {
		return err
	}
	tb := t.untitled("producer group (%v) instance : clientId=%v,remoteIP=%v, language=%v, version=%v, lastUpdateTimestamp=%v",
		"group", "clientId", "remoteIP", "language", "version", "lastUpdateTimestamp")
	for _, group := range slices.Sorted(maps.Keys(all.Data)) {
		for _, m := range all.Data[group] {
			tb.add(group, m.ClientID, m.RemoteIP, m.Language, m.Version, m.LastUpdateTimestamp)
		}
	}
	tb.end(nil)
	return nil
}

func consumerStatus(t *tool) error {
	group := t.given["g"]
	if t.given.has("i") {
		list, err := t.groupVia(group)
		if err != nil {
			return err
		}
		err = errors.New("the group has no broker")
		for _, b := range list {
			var info *body.ConsumerRunningInfo
			if info, err = t.runningInfo(b.addr, group, t.given["i"], t.given.has("s")); err == nil {
				t.printf("%s", t.runningText(info))
				break
			}
		}
		return err
	}
	addr, c, err := t.membersVia(group)
	if err != nil {
		return err
	}
	return t.statusOfAll(addr, c)
}

// statusOfAll writes the state of every member into a file below the working directory, as RocketMQ's tool does, and compares them.
func (t *tool) statusOfAll(addr string, c *body.ConsumerConnection) error {
	folder := strconv.FormatInt(t.clk.NowMs(), 10)
	t.printf("%-10s %-40s %-20s %s\n", "#Index", "#ClientId", "#Version", "#ConsumerRunningInfoFile")
	infos := map[string]*body.ConsumerRunningInfo{}
	members := sortedMembers(c.ConnectionSet)
	err := onEach(members, func(m body.Connection) error {
		info, err := t.runningInfo(addr, t.given["g"], m.ClientID, t.given.has("s"))
		if err != nil {
			return err
		}
		infos[m.ClientID] = info
		path := filepath.Join(folder, fileName(m.ClientID))
		if err := writeFile(path, []byte(t.runningText(info))); err != nil {
			return err
		}
		t.printf("%-10d %-40s %-20s %s\n", len(infos), m.ClientID, code.Version(m.Version), path)
		return nil
	})
	if len(infos) == 0 {
		return err
	}
	if !sameSubscriptions(infos) {
		t.printf("\n\nWARN: Different subscription in the same group of consumer!!!\n")
		return err
	}
	verdict := "OK"
	if sharedQueue(infos) {
		verdict = "Failed"
	}
	t.printf("\n\nSame subscription in the same group of consumer\n\nRebalance %s\n", verdict)
	return err
}

// sameSubscriptions tells whether all members want the same messages.
func sameSubscriptions(infos map[string]*body.ConsumerRunningInfo) bool {
	first := ""
	for _, info := range infos {
		var list []string
		for _, s := range info.SubscriptionSet {
			list = append(list, fmt.Sprintf("%q %q %q", s.Topic, s.ExpressionType, s.SubString))
		}
		slices.Sort(list)
		all := strings.Join(slices.Compact(list), "\n") + "\n"
		if first != "" && all != first {
			return false
		}
		first = all
	}
	return true
}

// sharedQueue tells whether two members that share the messages of a group have the same queue.
func sharedQueue(infos map[string]*body.ConsumerRunningInfo) bool {
	owned := map[body.MessageQueue]bool{}
	for _, info := range infos {
		if info.Properties["messageModel"] == string(body.Broadcasting) {
			continue
		}
		for q := range info.MqTable {
			if owned[q] {
				return true
			}
			owned[q] = true
		}
	}
	return false
}

// fileName makes a name that a server sent safe to use in a path.
func fileName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == '\\' || r == os.PathSeparator || r == 0x7f {
			return '_'
		}
		return r
	}, name)
	if strings.Trim(safe, ".") == "" || len(safe) > 200 {
		safe = fmt.Sprintf("x%x", safe[:min(len(safe), 64)])
	}
	return safe
}

// writeFile writes a file and the folders above it. It takes the place of what has the name, even of a symbolic link, so that nobody
// can direct it elsewhere in a folder that all may write to.
func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".castor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		_ = os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), path)
}
