package broker

import (
	"github.com/castor-mq/castor/remoting"
	"github.com/castor-mq/castor/remoting/code"
)

// routes is the table of what this broker serves. A row without a lane runs on the connection's reader and must not block; a
// handler that finds out that it must returns Lane.Redo.
func (b *Broker) routes() []remoting.Route {
	on := func(c code.Request, l *remoting.Lane, f func(*remoting.Request) error) remoting.Route {
		return remoting.Route{Code: c, Lane: l, Serve: f}
	}
	query := b.lanes.query
	send := remoting.On(b.handleSend)
	pull := remoting.On(b.handlePull)
	return []remoting.Route{
		// Messages.
		on(code.SendMessage, nil, send),
		on(code.SendMessageV2, nil, send),
		on(code.SendBatchMessage, nil, send),
		on(code.PullMessage, nil, pull),
		on(code.LitePullMessage, nil, pull),

		// Offsets.
		on(code.UpdateConsumerOffset, nil, remoting.On(b.handleUpdateOffset)),
		on(code.QueryConsumerOffset, nil, remoting.On(b.handleQueryOffset)),
		on(code.GetMaxOffset, nil, remoting.On(b.handleMaxOffset)),
		on(code.GetMinOffset, nil, remoting.On(b.handleMinOffset)),
		on(code.SearchOffsetByTimestamp, query, remoting.On(b.handleSearchOffset)),
		on(code.GetEarliestMsgStoreTime, query, remoting.On(b.handleEarliestTime)),

		// Clients.
		on(code.HeartBeat, nil, remoting.On(b.handleHeartbeat)),
		on(code.UnregisterClient, nil, remoting.On(b.handleUnregister)),
		on(code.GetConsumerListByGroup, nil, remoting.On(b.handleConsumerList)),
		on(code.CheckClientConfig, nil, b.handleCheckClient),
		on(code.GetConsumerConnectionList, nil, remoting.On(b.handleConsumerConnections)),
		on(code.GetProducerConnectionList, nil, remoting.On(b.handleProducerConnections)),
		on(code.GetAllProducerInfo, nil, b.handleAllProducers),
		on(code.LockBatchMQ, nil, remoting.On(b.handleLock)),
		on(code.UnlockBatchMQ, nil, remoting.On(b.handleUnlock)),
	}
}
