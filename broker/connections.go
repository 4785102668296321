package broker

import (
	"slices"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// handleConsumerList serves GET_CONSUMER_LIST_BY_GROUP. Members share the queues by their place in this list, so a client that
// has two connections is in it once.
func (b *Broker) handleConsumerList(r *remoting.Request, h *header.GetConsumerListByGroupRequest) error {
	var list body.GetConsumerListByGroupResponseBody
	for _, m := range b.clients.membersOf(h.ConsumerGroup) {
		list.ConsumerIDList = append(list.ConsumerIDList, m.id)
	}
	if len(list.ConsumerIDList) == 0 {
		return code.New(code.SystemError, "no consumer for this group, %s", h.ConsumerGroup)
	}
	slices.Sort(list.ConsumerIDList)
	list.ConsumerIDList = slices.Compact(list.ConsumerIDList)
	return r.OK(nil, fastjson.Marshal(&list))
}

// connections describes members to tools.
func connections(all []member) []body.Connection {
	list := make([]body.Connection, 0, len(all))
	for _, m := range all {
		list = append(list, body.Connection{ClientAddr: m.conn.RemoteAddr(), ClientID: m.id, Language: m.language.String(), Version: int32(m.version)})
	}
	return list
}

// handleConsumerConnections serves GET_CONSUMER_CONNECTION_LIST.
func (b *Broker) handleConsumerConnections(r *remoting.Request, h *header.GetConsumerConnectionListRequest) error {
	g := b.clients.consumerGroup(h.ConsumerGroup)
	if g == nil {
		return code.New(code.ConsumerNotOnline, "the consumer group[%s] not online", h.ConsumerGroup)
	}
	view := g.view.Load()
	list := body.ConsumerConnection{ConnectionSet: connections(b.clients.membersOf(h.ConsumerGroup)), ConsumeFromWhere: view.from,
		ConsumeType: view.consumeType, MessageModel: view.model, SubscriptionTable: make(map[string]body.SubscriptionData, len(view.subs))}
	for topic, s := range view.subs {
		list.SubscriptionTable[topic] = *s.data
	}
	return r.OK(nil, fastjson.Marshal(&list))
}

// handleProducerConnections serves GET_PRODUCER_CONNECTION_LIST.
func (b *Broker) handleProducerConnections(r *remoting.Request, h *header.GetProducerConnectionListRequest) error {
	all := b.clients.producersOf(h.ProducerGroup)
	if len(all) == 0 {
		return code.New(code.SystemError, "the producer group[%s] not exist", h.ProducerGroup)
	}
	return r.OK(nil, fastjson.Marshal(&body.ProducerConnection{ConnectionSet: connections(all)}))
}

// handleAllProducers serves GET_ALL_PRODUCER_INFO.
func (b *Broker) handleAllProducers(r *remoting.Request) error {
	info := body.ProducerTableInfo{Data: map[string][]body.ProducerInfo{}}
	for _, group := range b.clients.producerGroups() {
		for _, m := range b.clients.producersOf(group) {
			info.Data[group] = append(info.Data[group], body.ProducerInfo{ClientID: m.id, Language: m.language.String(),
				LastUpdateTimestamp: m.seen, RemoteIP: "/" + m.conn.RemoteAddr(), Version: int32(m.version)})
		}
	}
	return r.OK(nil, fastjson.Marshal(&info))
}
