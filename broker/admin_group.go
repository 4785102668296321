package broker

import (
	"errors"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/message"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
	"github.com/castor-mq/castor/store/queue"
	"github.com/castor-mq/castor/store/state"
)

// handleUpdateGroup serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.
func (b *Broker) handleUpdateGroup(r *remoting.Request) error {
	var c body.SubscriptionGroupConfig
	if err := decodeBody(r, &c); err != nil {
		return err
	}
	if err := b.updateGroups([]body.SubscriptionGroupConfig{c}); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// handleUpdateGroups serves UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST. All groups are made, or none.
func (b *Broker) handleUpdateGroups(r *remoting.Request) error {
	var list body.SubscriptionGroupList
	if err := decodeBody(r, &list); err != nil {
		return err
	}
	if len(list.GroupConfigList) > maxList {
		return code.New(code.InvalidParameter, "%d groups are too many for one request, the limit is %d", len(list.GroupConfigList), maxList)
	}
	if err := b.updateGroups(list.GroupConfigList); err != nil {
		return err
	}
	return r.OK(nil, nil)
}

// updateGroups makes groups or changes them, and gives their retry topics more queues where they ask for more.
func (b *Broker) updateGroups(list []body.SubscriptionGroupConfig) error {
	start := b.clk.Now()
	for i := range list {
		if err := checkGroup(&list[i]); err != nil {
			return err
		}
	}
	b.clients.creating.Lock()
	err := b.putGroupsLocked(list)
	b.clients.creating.Unlock()
	b.stats.groupMakes.add(b.clk.Now().Sub(start), err, false)
	if err != nil {
		return err
	}
	return b.topics.putAll(func() (grown []*body.TopicConfig, _ error) {
		for i := range list {
			if old := b.topics.get(message.RetryPrefix + list[i].GroupName); old != nil && old.ReadQueueNums < list[i].RetryQueueNums {
				t := *old
				t.ReadQueueNums, t.WriteQueueNums = list[i].RetryQueueNums, max(old.WriteQueueNums, list[i].RetryQueueNums)
				grown = append(grown, &t)
			}
		}
		return grown, nil
	})
}

func (b *Broker) putGroupsLocked(list []body.SubscriptionGroupConfig) error {
	var changes []state.Change
	for i := range list {
		c := &list[i]
		old, exists := b.store.State.Group(c.GroupName)
		var current map[string]string
		if exists {
			current = old.Attributes
		}
		attributes, err := alterAttributes(groupAttributes, !exists, current, c.Attributes)
		if err != nil {
			return err
		}
		c.Attributes = attributes
		changes = append(changes, state.GroupPut(c))
	}
	return b.commit(changes...)
}

func checkGroup(c *body.SubscriptionGroupConfig) error {
	if err := validateGroup(c.GroupName); err != nil {
		return err
	}
	if c.RetryQueueNums < 0 || c.RetryQueueNums > queue.MaxQueueID {
		return code.New(code.InvalidParameter, "a retry topic has 0 to %d queues, not %d", queue.MaxQueueID, c.RetryQueueNums)
	}
	if n := len(fastjson.Marshal(c)); n > maxConfig {
		return code.New(code.InvalidParameter, "the configuration of group %s has %d bytes, the limit is %d", c.GroupName, n, maxConfig)
	}
	return nil
}

// handleAllGroups serves GET_ALL_SUBSCRIPTIONGROUP_CONFIG.
func (b *Broker) handleAllGroups(r *remoting.Request, h *header.GetAllSubscriptionGroupRequest) error {
	w := b.store.State.GroupTable()
	all := b.store.State.Groups()
	from, to := page(len(all), h.GroupSeq, h.MaxGroupNum, h.DataVersion, w.DataVersion)
	for i, c := range all {
		if i < from || i >= to {
			delete(w.SubscriptionGroupTable, c.GroupName)
		}
	}
	return r.OK(&header.GetAllSubscriptionGroupResponse{TotalGroupNum: int32(len(all))}, fastjson.Marshal(w))
}

// handleGroupConfig serves GET_SUBSCRIPTIONGROUP_CONFIG. A group that is not there is made if that is allowed.
func (b *Broker) handleGroupConfig(r *remoting.Request, h *header.GetSubscriptionGroupConfigRequest) error {
	c, err := b.group(r, h.Group)
	var unknown *code.Error
	switch {
	case errors.As(err, &unknown) && unknown.Code == code.SubscriptionGroupNotExist:
		return code.New(code.SubscriptionGroupNotExist, "No group in this broker")
	case err != nil:
		return err
	}
	return r.OK(nil, fastjson.Marshal(c))
}

// handleDeleteGroup serves DELETE_SUBSCRIPTIONGROUP. A group that is not there is deleted, too.
func (b *Broker) handleDeleteGroup(r *remoting.Request, h *header.DeleteSubscriptionGroupRequest) error {
	if len(h.GroupName) > maxName {
		return r.OK(nil, nil)
	}
	if err := b.commit(state.GroupDelete(h.GroupName, h.CleanOffset)); err != nil {
		return err
	}
	if h.CleanOffset {
		b.offsets.forget(func(k offsetKey) bool { return k.group == h.GroupName })
	}
	b.stats.forgetGroup(h.GroupName)
	return r.OK(nil, nil)
}

// handleForbidden serves UPDATE_AND_GET_GROUP_FORBIDDEN: whether a group may read a topic. Without readable it only asks.
func (b *Broker) handleForbidden(r *remoting.Request, h *header.UpdateGroupForbiddenRequest) error {
	if _, ok := b.store.State.Group(h.Group); !ok {
		return groupUnknown(h.Group)
	}
	if err := validateTopic(h.Topic); err != nil {
		return err
	}
	bits := b.store.State.Forbidden(h.Group, h.Topic)
	if h.Readable.Ok {
		bits &^= forbiddenRead
		if !h.Readable.V {
			bits |= forbiddenRead
		}
		if err := b.commit(state.ForbiddenPut(h.Group, h.Topic, bits)); err != nil {
			return err
		}
	}
	return r.OK(nil, fastjson.Marshal(&body.GroupForbidden{Group: h.Group, Topic: h.Topic, Readable: bits&forbiddenRead == 0}))
}
