package code

// The response codes of RocketMQ 5.5.0, all of them, whether or not a server of ours sends them. Java:
// RemotingSysResponseCode and ResponseCode; the negative ones never travel.
const (
	RPCTimeOut                           Response = -1006
	RPCSendToChannelFailed               Response = -1004
	RPCAddrIsNull                        Response = -1002
	RPCUnknown                           Response = -1000
	Success                              Response = 0
	SystemError                          Response = 1
	SystemBusy                           Response = 2
	RequestCodeNotSupported              Response = 3
	TransactionFailed                    Response = 4
	FlushDiskTimeout                     Response = 10
	SlaveNotAvailable                    Response = 11
	FlushSlaveTimeout                    Response = 12
	MessageIllegal                       Response = 13
	ServiceNotAvailable                  Response = 14
	VersionNotSupported                  Response = 15
	NoPermission                         Response = 16
	TopicNotExist                        Response = 17
	TopicExistAlready                    Response = 18
	PullNotFound                         Response = 19
	PullRetryImmediately                 Response = 20
	PullOffsetMoved                      Response = 21
	QueryNotFound                        Response = 22
	SubscriptionParseFailed              Response = 23
	SubscriptionNotExist                 Response = 24
	SubscriptionNotLatest                Response = 25
	SubscriptionGroupNotExist            Response = 26
	FilterDataNotExist                   Response = 27
	FilterDataNotLatest                  Response = 28
	InvalidParameter                     Response = 29
	TransactionShouldCommit              Response = 200
	TransactionShouldRollback            Response = 201
	TransactionStateUnknow               Response = 202
	TransactionStateGroupWrong           Response = 203
	NoBuyerID                            Response = 204
	NotInCurrentUnit                     Response = 205
	ConsumerNotOnline                    Response = 206
	ConsumeMsgTimeout                    Response = 207
	NoMessage                            Response = 208
	PollingFull                          Response = 209
	PollingTimeout                       Response = 210
	BrokerNotExist                       Response = 211
	BrokerDispatchNotComplete            Response = 212
	BroadcastConsumption                 Response = 213
	FlowControl                          Response = 215
	NotLeaderForQueue                    Response = 501
	IllegalOperation                     Response = 604
	GoAway                               Response = 1500
	ControllerFencedMasterEpoch          Response = 2000
	ControllerFencedSyncStateSetEpoch    Response = 2001
	ControllerInvalidMaster              Response = 2002
	ControllerInvalidReplicas            Response = 2003
	ControllerMasterNotAvailable         Response = 2004
	ControllerInvalidRequest             Response = 2005
	ControllerBrokerNotAlive             Response = 2006
	ControllerNotLeader                  Response = 2007
	ControllerBrokerMetadataNotExist     Response = 2008
	ControllerInvalidCleanBrokerMetadata Response = 2009
	ControllerBrokerNeedToBeRegistered   Response = 2010
	ControllerMasterStillExist           Response = 2011
	ControllerElectMasterFailed          Response = 2012
	ControllerAlterSyncStateSetFailed    Response = 2013
	ControllerBrokerIDInvalid            Response = 2014
	ControllerJRaftInternalError         Response = 2015
	ControllerBrokerLiveInfoNotExists    Response = 2016
	LMQQuotaExceeded                     Response = 2017
	LiteSubscriptionQuotaExceeded        Response = 2018
	UserNotExist                         Response = 3001
	PolicyNotExist                       Response = 3002
)

// responseNames holds the names Java gives them; logs show these.
var responseNames = map[Response]string{
	RPCTimeOut:                           "RPC_TIME_OUT",
	RPCSendToChannelFailed:               "RPC_SEND_TO_CHANNEL_FAILED",
	RPCAddrIsNull:                        "RPC_ADDR_IS_NULL",
	RPCUnknown:                           "RPC_UNKNOWN",
	Success:                              "SUCCESS",
	SystemError:                          "SYSTEM_ERROR",
	SystemBusy:                           "SYSTEM_BUSY",
	RequestCodeNotSupported:              "REQUEST_CODE_NOT_SUPPORTED",
	TransactionFailed:                    "TRANSACTION_FAILED",
	FlushDiskTimeout:                     "FLUSH_DISK_TIMEOUT",
	SlaveNotAvailable:                    "SLAVE_NOT_AVAILABLE",
	FlushSlaveTimeout:                    "FLUSH_SLAVE_TIMEOUT",
	MessageIllegal:                       "MESSAGE_ILLEGAL",
	ServiceNotAvailable:                  "SERVICE_NOT_AVAILABLE",
	VersionNotSupported:                  "VERSION_NOT_SUPPORTED",
	NoPermission:                         "NO_PERMISSION",
	TopicNotExist:                        "TOPIC_NOT_EXIST",
	TopicExistAlready:                    "TOPIC_EXIST_ALREADY",
	PullNotFound:                         "PULL_NOT_FOUND",
	PullRetryImmediately:                 "PULL_RETRY_IMMEDIATELY",
	PullOffsetMoved:                      "PULL_OFFSET_MOVED",
	QueryNotFound:                        "QUERY_NOT_FOUND",
	SubscriptionParseFailed:              "SUBSCRIPTION_PARSE_FAILED",
	SubscriptionNotExist:                 "SUBSCRIPTION_NOT_EXIST",
	SubscriptionNotLatest:                "SUBSCRIPTION_NOT_LATEST",
	SubscriptionGroupNotExist:            "SUBSCRIPTION_GROUP_NOT_EXIST",
	FilterDataNotExist:                   "FILTER_DATA_NOT_EXIST",
	FilterDataNotLatest:                  "FILTER_DATA_NOT_LATEST",
	InvalidParameter:                     "INVALID_PARAMETER",
	TransactionShouldCommit:              "TRANSACTION_SHOULD_COMMIT",
	TransactionShouldRollback:            "TRANSACTION_SHOULD_ROLLBACK",
	TransactionStateUnknow:               "TRANSACTION_STATE_UNKNOW",
	TransactionStateGroupWrong:           "TRANSACTION_STATE_GROUP_WRONG",
	NoBuyerID:                            "NO_BUYER_ID",
	NotInCurrentUnit:                     "NOT_IN_CURRENT_UNIT",
	ConsumerNotOnline:                    "CONSUMER_NOT_ONLINE",
	ConsumeMsgTimeout:                    "CONSUME_MSG_TIMEOUT",
	NoMessage:                            "NO_MESSAGE",
	PollingFull:                          "POLLING_FULL",
	PollingTimeout:                       "POLLING_TIMEOUT",
	BrokerNotExist:                       "BROKER_NOT_EXIST",
	BrokerDispatchNotComplete:            "BROKER_DISPATCH_NOT_COMPLETE",
	BroadcastConsumption:                 "BROADCAST_CONSUMPTION",
	FlowControl:                          "FLOW_CONTROL",
	NotLeaderForQueue:                    "NOT_LEADER_FOR_QUEUE",
	IllegalOperation:                     "ILLEGAL_OPERATION",
	GoAway:                               "GO_AWAY",
	ControllerFencedMasterEpoch:          "CONTROLLER_FENCED_MASTER_EPOCH",
	ControllerFencedSyncStateSetEpoch:    "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH",
	ControllerInvalidMaster:              "CONTROLLER_INVALID_MASTER",
	ControllerInvalidReplicas:            "CONTROLLER_INVALID_REPLICAS",
	ControllerMasterNotAvailable:         "CONTROLLER_MASTER_NOT_AVAILABLE",
	ControllerInvalidRequest:             "CONTROLLER_INVALID_REQUEST",
	ControllerBrokerNotAlive:             "CONTROLLER_BROKER_NOT_ALIVE",
	ControllerNotLeader:                  "CONTROLLER_NOT_LEADER",
	ControllerBrokerMetadataNotExist:     "CONTROLLER_BROKER_METADATA_NOT_EXIST",
	ControllerInvalidCleanBrokerMetadata: "CONTROLLER_INVALID_CLEAN_BROKER_METADATA",
	ControllerBrokerNeedToBeRegistered:   "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED",
	ControllerMasterStillExist:           "CONTROLLER_MASTER_STILL_EXIST",
	ControllerElectMasterFailed:          "CONTROLLER_ELECT_MASTER_FAILED",
	ControllerAlterSyncStateSetFailed:    "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED",
	ControllerBrokerIDInvalid:            "CONTROLLER_BROKER_ID_INVALID",
	ControllerJRaftInternalError:         "CONTROLLER_JRAFT_INTERNAL_ERROR",
	ControllerBrokerLiveInfoNotExists:    "CONTROLLER_BROKER_LIVE_INFO_NOT_EXISTS",
	LMQQuotaExceeded:                     "LMQ_QUOTA_EXCEEDED",
	LiteSubscriptionQuotaExceeded:        "LITE_SUBSCRIPTION_QUOTA_EXCEEDED",
	UserNotExist:                         "USER_NOT_EXIST",
	PolicyNotExist:                       "POLICY_NOT_EXIST",
}
