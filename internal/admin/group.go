package admin

import (
	"fmt"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

func groupCommands() []command {
	return []command{
		{"updateSubGroup", "Creates a consumer group or changes it.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"),
			option{short: "g", long: "groupName", brief: "group"}.must(),
			{short: "s", long: "consumeEnable", kind: yes, brief: "the group may consume; true if not given"},
			{short: "m", long: "consumeFromMinEnable", kind: yes, brief: "a new member may start at the first message; false if not given"},
			{short: "d", long: "consumeBroadcastEnable", kind: yes, brief: "every member may get all messages; false if not given"},
			{short: "o", long: "consumeMessageOrderly", kind: yes, brief: "in order; false if not given"},
			{short: "q", long: "retryQueueNums", kind: number, brief: "queues of the retry topic"},
			{short: "r", long: "retryMaxTimes", kind: number, brief: "attempts before a message becomes a dead letter"},
			{short: "p", long: "groupRetryPolicy", brief: `delays between attempts, as JSON: type EXPONENTIAL with exponentialRetryPolicy, or CUSTOMIZED with customizedRetryPolicy`},
			{short: "i", long: "brokerId", kind: long, brief: "broker id to consume from"},
			{short: "w", long: "whichBrokerWhenConsumeSlowly", kind: long, brief: "broker id to consume from when far behind"},
			{short: "a", long: "notifyConsumerIdsChanged", kind: yes, brief: "members are told of changes; true if not given"},
			{long: "attributes", brief: "+name=value to set, -name to remove, with commas"},
		}, brokerOrCluster, false, updateSubGroup},
		{"updateSubGroupList", "Creates or changes the consumer groups that a file lists.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"),
			option{short: "f", long: "filename", brief: "JSON file with an array of groups"}.must(),
		}, brokerOrCluster, false, updateSubGroupList},
		{"getConsumerConfig", "Shows the configuration of a consumer group on every master.", []option{
			option{short: "g", long: "groupName", brief: "group"}.must(),
		}, nil, false, getConsumerConfig},
		{"deleteSubGroup", "Deletes a consumer group, with -c also its topics for retries and dead letters.", []option{
			onBroker("on this broker"), onCluster("on all masters of this cluster"),
			option{short: "g", long: "groupName", brief: "group"}.must(),
			{short: "r", long: "removeOffset", kind: yes, brief: "delete its offsets, too"},
		}, brokerOrCluster, false, deleteSubGroup},
	}
}

// newGroup is the group that the options describe. What is not given has the defaults of the Java class, except that consuming from
// the first message and broadcasting are off.
func newGroup(v values) (*body.SubscriptionGroupConfig, error) {
	var c body.SubscriptionGroupConfig
	c.SetDefaults()
	c.GroupName = v["g"]
	c.ConsumeEnable = v.yes("s", c.ConsumeEnable)
	c.ConsumeFromMinEnable = v.yes("m", false)
	c.ConsumeBroadcastEnable = v.yes("d", false)
	c.ConsumeMessageOrderly = v.yes("o", c.ConsumeMessageOrderly)
	c.RetryQueueNums = int32(v.number("q", int64(c.RetryQueueNums)))
	c.RetryMaxTimes = int32(v.number("r", int64(c.RetryMaxTimes)))
	c.BrokerID = v.number("i", c.BrokerID)
	c.WhichBrokerWhenConsumeSlowly = v.number("w", c.WhichBrokerWhenConsumeSlowly)
	c.NotifyConsumerIdsChangedEnable = v.yes("a", c.NotifyConsumerIdsChangedEnable)
	if v.has("p") {
		if err := fastjson.Unmarshal([]byte(v["p"]), &c.GroupRetryPolicy); err != nil {
			return nil, fmt.Errorf("option -p: %w", err)
		}
	}
	var err error
	c.Attributes, err = attributes(v["attributes"])
	return &c, err
}

func updateSubGroup(t *tool) error {
	c, err := newGroup(t.given)
	if err != nil {
		return err
	}
	text := fastjson.Marshal(c)
	err = t.onTargets(func(b replica) error {
		if _, err := t.call(b.addr, code.UpdateAndCreateSubscriptionGroup, nil, text); err != nil {
			return err
		}
		t.printf("create subscription group to %s success.\n", b.addr)
		return nil
	})
	if err == nil {
		t.printf("%s\n", groupText(c))
	}
	return err
}

func updateSubGroupList(t *tool) error {
	list, err := listed[body.SubscriptionGroupConfig](t)
	if err != nil {
		return err
	}
	text := fastjson.Marshal(&body.SubscriptionGroupList{GroupConfigList: list})
	return t.onTargets(func(b replica) error {
		if _, err := t.call(b.addr, code.UpdateAndCreateSubscriptionGroupList, nil, text); err != nil {
			return err
		}
		t.printf("submit batch of group config to %s success, please check the result later.\n", b.addr)
		return nil
	})
}

// groups asks a broker for all its consumer groups.
func (t *tool) groups(addr string) (*body.SubscriptionGroupWrapper, error) {
	return decoded[body.SubscriptionGroupWrapper](t.call(addr, code.GetAllSubscriptionGroupConfig, nil, nil))
}

func getConsumerConfig(t *tool) error {
	list, err := t.targets()
	if err != nil {
		return err
	}
	return onEach(list, func(b replica) error {
		all, err := t.groups(b.addr)
		if err != nil {
			return err
		}
		c, ok := all.SubscriptionGroupTable[t.given["g"]]
		if !ok {
			return nil
		}
		rule := strings.Repeat("=", 29)
		t.printf("%s%s:%s%s\n", rule, b.cluster, b.name, rule)
		for _, f := range groupFields(&c) {
			if f.name == "subscriptionDataSet" && f.value == "null" {
				f.value = ""
			}
			t.printf("%-40s=  %v\n", f.name, f.value)
		}
		return nil
	})
}

func deleteSubGroup(t *tool) error {
	group, cluster := t.given["g"], t.given["c"]
	err := t.onTargets(func(b replica) error {
		h := header.DeleteSubscriptionGroupRequest{GroupName: group, CleanOffset: t.given.yes("r", false)}
		if _, err := t.call(b.addr, code.DeleteSubscriptionGroup, &h, nil); err != nil {
			return err
		}
		t.printf("delete subscription group [%s] from broker [%s]", group, b.addr)
		if cluster != "" {
			t.printf(" in cluster [%s]", cluster)
		}
		t.printf(" success.\n")
		return nil
	})
	if err != nil || cluster == "" {
		return err
	}
	return onEach([]string{message.RetryPrefix, message.DLQPrefix}, func(prefix string) error { return t.deleteTopic(prefix+group, cluster) })
}
