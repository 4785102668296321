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
	query, admin := b.lanes.query, b.lanes.admin
	// What changes the group's state, or must not be older than what it has seen.
	master := func(c code.Request, l *remoting.Lane, f func(*remoting.Request) error) remoting.Route {
		return on(c, l, b.onMaster(f))
	}
	// What may be older if there is no master.
	fresh := func(c code.Request, l *remoting.Lane, f func(*remoting.Request) error) remoting.Route {
		return on(c, l, b.onFresh(f))
	}
	// What a replica can serve whose queues are whole.
	whole := func(c code.Request, l *remoting.Lane, f func(*remoting.Request) error) remoting.Route {
		return on(c, l, b.onWhole(f))
	}
	send := remoting.On(b.handleSend)
	pull := remoting.On(b.handlePull)
	reply := remoting.On(b.handleReply)
	return []remoting.Route{
		// Messages.
		master(code.SendMessage, nil, send),
		master(code.SendMessageV2, nil, send),
		master(code.SendBatchMessage, nil, send),
		on(code.PullMessage, nil, pull),
		on(code.LitePullMessage, nil, pull),
		master(code.ConsumerSendMsgBack, nil, remoting.On(b.handleSendBack)),
		on(code.SendReplyMessage, nil, reply),
		on(code.SendReplyMessageV2, nil, reply),
		on(code.QueryMessage, query, b.unlessEcho(remoting.On(b.handleQueryMessage))),
		fresh(code.ViewMessageByID, query, remoting.On(b.handleViewMessage)),

		// Offsets.
		master(code.UpdateConsumerOffset, nil, remoting.On(b.handleUpdateOffset)),
		master(code.QueryConsumerOffset, nil, remoting.On(b.handleQueryOffset)),
		master(code.GetMaxOffset, nil, remoting.On(b.handleMaxOffset)),
		whole(code.GetMinOffset, nil, remoting.On(b.handleMinOffset)),
		whole(code.SearchOffsetByTimestamp, query, remoting.On(b.handleSearchOffset)),
		whole(code.GetEarliestMsgStoreTime, query, remoting.On(b.handleEarliestTime)),

		// Clients.
		on(code.HeartBeat, nil, remoting.On(b.handleHeartbeat)),
		on(code.UnregisterClient, nil, remoting.On(b.handleUnregister)),
		master(code.GetConsumerListByGroup, nil, remoting.On(b.handleConsumerList)), // members that see different lists share queues
		on(code.CheckClientConfig, nil, b.handleCheckClient),
		on(code.GetConsumerConnectionList, nil, remoting.On(b.handleConsumerConnections)),
		on(code.GetProducerConnectionList, nil, remoting.On(b.handleProducerConnections)),
		on(code.GetAllProducerInfo, nil, b.handleAllProducers),
		master(code.LockBatchMQ, nil, remoting.On(b.handleLock)),
		master(code.UnlockBatchMQ, nil, remoting.On(b.handleUnlock)),

		// Topics.
		master(code.UpdateAndCreateTopic, admin, remoting.On(b.handleUpdateTopic)),
		master(code.UpdateAndCreateTopicList, admin, remoting.On(b.handleUpdateTopics)),
		fresh(code.GetAllTopicConfig, admin, remoting.On(b.handleAllTopics)),
		fresh(code.GetTopicStatsInfo, admin, remoting.On(b.handleTopicStats)),
		master(code.DeleteTopicInBroker, admin, remoting.On(b.handleDeleteTopic)),
		on(code.GetSystemTopicListFromBroker, admin, b.handleSystemTopics),
		fresh(code.GetTopicConfig, admin, remoting.On(b.handleTopicConfig)),

		// Groups.
		master(code.UpdateAndCreateSubscriptionGroup, admin, b.handleUpdateGroup),
		fresh(code.GetAllSubscriptionGroupConfig, admin, remoting.On(b.handleAllGroups)),
		master(code.DeleteSubscriptionGroup, admin, remoting.On(b.handleDeleteGroup)),
		master(code.UpdateAndCreateSubscriptionGroupList, admin, b.handleUpdateGroups),
		fresh(code.GetSubscriptionGroupConfig, admin, remoting.On(b.handleGroupConfig)),
		master(code.UpdateAndGetGroupForbidden, admin, remoting.On(b.handleForbidden)),

		// What groups have consumed.
		fresh(code.GetAllConsumerOffset, admin, b.handleAllOffsets),
		on(code.GetAllDelayOffset, admin, b.handleAllDelayOffsets),
		fresh(code.GetConsumeStats, admin, remoting.On(b.handleConsumeStats)),
		master(code.InvokeBrokerToResetOffset, admin, remoting.On(b.handleResetOffset)),
		on(code.InvokeBrokerToGetConsumerStatus, admin, remoting.On(b.handleConsumerStatus)),
		fresh(code.QueryTopicConsumeByWho, admin, remoting.On(b.handleTopicGroups)),
		fresh(code.QueryConsumeTimeSpan, admin, remoting.On(b.handleConsumeTimeSpan)),
		on(code.GetConsumerRunningInfo, admin, remoting.On(b.handleRunningInfo)),
		on(code.QueryCorrectionOffset, admin, remoting.On(b.handleCorrectionOffset)),
		on(code.ConsumeMessageDirectly, admin, remoting.On(b.handleConsumeDirectly)),
		master(code.CloneGroupOffset, admin, remoting.On(b.handleCloneOffsets)),
		on(code.GetBrokerConsumeStats, admin, remoting.On(b.handleBrokerConsumeStats)),
		fresh(code.QueryTopicsByConsumer, admin, remoting.On(b.handleGroupTopics)),
		on(code.QuerySubscriptionByConsumer, admin, remoting.On(b.handleSubscription)),
		master(code.QueryAssignment, admin, b.handleQueryAssignment),
		master(code.SetMessageRequestMode, admin, b.handleRequestMode),
		on(code.GetAllMessageRequestMode, admin, b.handleAllRequestModes),

		// The broker itself.
		on(code.UpdateBrokerConfig, admin, b.handleUpdateConfig),
		on(code.GetBrokerConfig, admin, b.handleConfig),
		on(code.GetBrokerRuntimeInfo, admin, b.handleRuntime),
		on(code.CleanExpiredConsumeQueue, admin, b.handleCleanQueues),
		on(code.ViewBrokerStatsData, admin, remoting.On(b.handleViewStats)),
		master(code.CleanUnusedTopic, admin, b.handleCleanTopics),
		on(code.QueryConsumeQueue, admin, remoting.On(b.handleQueryQueue)),
		on(code.DeleteExpiredCommitLog, admin, b.handleCleanLog),
		on(code.CheckRocksDBCQWriteProgress, admin, remoting.On(b.handleCheckRocksDBQueues)),
		on(code.ExportRocksDBConfigToJSON, admin, remoting.On(b.handleExportRocksDB)),

		// Replication.
		on(code.ExchangeBrokerHAInfo, nil, remoting.On(b.handleHAInfo)),
		on(code.NotifyBrokerRoleChanged, nil, remoting.On(b.handleRoleChanged)),
		on(code.HandOver, admin, remoting.On(b.handleHandOver)),
		on(code.GetBrokerHAStatus, admin, b.handleHAStatus),
		on(code.GetBrokerEpochCache, admin, b.handleEpochCache),
		on(code.SetCommitLogReadMode, admin, remoting.On(b.handleReadMode)),
	}
}
