package code

// The request codes of RocketMQ 5.5.0, all of them, whether or not a server of ours handles them. Java: RequestCode.
const (
	SendMessage                          Request = 10
	PullMessage                          Request = 11
	QueryMessage                         Request = 12
	QueryBrokerOffset                    Request = 13
	QueryConsumerOffset                  Request = 14
	UpdateConsumerOffset                 Request = 15
	UpdateAndCreateTopic                 Request = 17
	UpdateAndCreateTopicList             Request = 18
	GetAllTopicConfig                    Request = 21
	GetTopicConfigList                   Request = 22
	GetTopicNameList                     Request = 23
	UpdateBrokerConfig                   Request = 25
	GetBrokerConfig                      Request = 26
	TriggerDeleteFiles                   Request = 27
	GetBrokerRuntimeInfo                 Request = 28
	SearchOffsetByTimestamp              Request = 29
	GetMaxOffset                         Request = 30
	GetMinOffset                         Request = 31
	GetEarliestMsgStoreTime              Request = 32
	ViewMessageByID                      Request = 33
	HeartBeat                            Request = 34
	UnregisterClient                     Request = 35
	ConsumerSendMsgBack                  Request = 36
	EndTransaction                       Request = 37
	GetConsumerListByGroup               Request = 38
	CheckTransactionState                Request = 39
	NotifyConsumerIDsChanged             Request = 40
	LockBatchMQ                          Request = 41
	UnlockBatchMQ                        Request = 42
	GetAllConsumerOffset                 Request = 43
	GetAllDelayOffset                    Request = 45
	CheckClientConfig                    Request = 46
	GetClientConfig                      Request = 47
	GetTimerCheckPoint                   Request = 60
	GetTimerMetrics                      Request = 61
	PutKVConfig                          Request = 100
	GetKVConfig                          Request = 101
	DeleteKVConfig                       Request = 102
	RegisterBroker                       Request = 103
	UnregisterBroker                     Request = 104
	GetRouteInfoByTopic                  Request = 105
	GetBrokerClusterInfo                 Request = 106
	UpdateAndCreateSubscriptionGroup     Request = 200
	GetAllSubscriptionGroupConfig        Request = 201
	GetTopicStatsInfo                    Request = 202
	GetConsumerConnectionList            Request = 203
	GetProducerConnectionList            Request = 204
	WipeWritePermOfBroker                Request = 205
	GetAllTopicListFromNameserver        Request = 206
	DeleteSubscriptionGroup              Request = 207
	GetConsumeStats                      Request = 208
	SuspendConsumer                      Request = 209
	ResumeConsumer                       Request = 210
	ResetConsumerOffsetInConsumer        Request = 211
	ResetConsumerOffsetInBroker          Request = 212
	AdjustConsumerThreadPool             Request = 213
	WhoConsumeTheMessage                 Request = 214
	DeleteTopicInBroker                  Request = 215
	DeleteTopicInNamesrv                 Request = 216
	RegisterTopicInNamesrv               Request = 217
	GetKVListByNamespace                 Request = 219
	ResetConsumerClientOffset            Request = 220
	GetConsumerStatusFromClient          Request = 221
	InvokeBrokerToResetOffset            Request = 222
	InvokeBrokerToGetConsumerStatus      Request = 223
	GetTopicsByCluster                   Request = 224
	UpdateAndCreateSubscriptionGroupList Request = 225
	QueryTopicConsumeByWho               Request = 300
	RegisterFilterServer                 Request = 301
	RegisterMessageFilterClass           Request = 302
	QueryConsumeTimeSpan                 Request = 303
	GetSystemTopicListFromNS             Request = 304
	GetSystemTopicListFromBroker         Request = 305
	CleanExpiredConsumeQueue             Request = 306
	GetConsumerRunningInfo               Request = 307
	QueryCorrectionOffset                Request = 308
	ConsumeMessageDirectly               Request = 309
	SendMessageV2                        Request = 310
	GetUnitTopicList                     Request = 311
	GetHasUnitSubTopicList               Request = 312
	GetHasUnitSubUnunitTopicList         Request = 313
	CloneGroupOffset                     Request = 314
	ViewBrokerStatsData                  Request = 315
	CleanUnusedTopic                     Request = 316
	GetBrokerConsumeStats                Request = 317
	UpdateNamesrvConfig                  Request = 318
	GetNamesrvConfig                     Request = 319
	SendBatchMessage                     Request = 320
	QueryConsumeQueue                    Request = 321
	QueryDataVersion                     Request = 322
	ResumeCheckHalfMessage               Request = 323
	SendReplyMessage                     Request = 324
	SendReplyMessageV2                   Request = 325
	PushReplyMessageToClient             Request = 326
	AddWritePermOfBroker                 Request = 327
	GetAllProducerInfo                   Request = 328
	DeleteExpiredCommitLog               Request = 329
	QueryTopicsByConsumer                Request = 343
	QuerySubscriptionByConsumer          Request = 345
	GetTopicConfig                       Request = 351
	GetSubscriptionGroupConfig           Request = 352
	UpdateAndGetGroupForbidden           Request = 353
	CheckRocksDBCQWriteProgress          Request = 354
	ExportRocksDBConfigToJSON            Request = 355
	LitePullMessage                      Request = 361
	RecallMessage                        Request = 370
	QueryAssignment                      Request = 400
	SetMessageRequestMode                Request = 401
	GetAllMessageRequestMode             Request = 402
	UpdateAndCreateStaticTopic           Request = 513
	GetBrokerMemberGroup                 Request = 901
	AddBroker                            Request = 902
	RemoveBroker                         Request = 903
	BrokerHeartbeat                      Request = 904
	NotifyMinBrokerIDChange              Request = 905
	ExchangeBrokerHAInfo                 Request = 906
	GetBrokerHAStatus                    Request = 907
	ResetMasterFlushOffset               Request = 908
	ControllerAlterSyncStateSet          Request = 1001
	ControllerElectMaster                Request = 1002
	ControllerRegisterBroker             Request = 1003
	ControllerGetReplicaInfo             Request = 1004
	ControllerGetMetadataInfo            Request = 1005
	ControllerGetSyncStateData           Request = 1006
	GetBrokerEpochCache                  Request = 1007
	NotifyBrokerRoleChanged              Request = 1008
	UpdateControllerConfig               Request = 1009
	GetControllerConfig                  Request = 1010
	CleanBrokerData                      Request = 1011
	ControllerGetNextBrokerID            Request = 1012
	ControllerApplyBrokerID              Request = 1013
	UpdateColdDataFlowCtrConfig          Request = 2001
	RemoveColdDataFlowCtrConfig          Request = 2002
	GetColdDataFlowCtrInfo               Request = 2003
	SetCommitLogReadMode                 Request = 2004
	AuthCreateUser                       Request = 3001
	AuthUpdateUser                       Request = 3002
	AuthDeleteUser                       Request = 3003
	AuthGetUser                          Request = 3004
	AuthListUser                         Request = 3005
	AuthCreateACL                        Request = 3006
	AuthUpdateACL                        Request = 3007
	AuthDeleteACL                        Request = 3008
	AuthGetACL                           Request = 3009
	AuthListACL                          Request = 3010
	SwitchTimerEngine                    Request = 5001
	PopMessage                           Request = 200050
	AckMessage                           Request = 200051
	PeekMessage                          Request = 200052
	ChangeMessageInvisibleTime           Request = 200053
	Notification                         Request = 200054
	PollingInfo                          Request = 200055
	PopRollback                          Request = 200056
	PopLiteMessage                       Request = 200070
	LiteSubscriptionCtl                  Request = 200071
	AckLiteMessage                       Request = 200072
	NotifyUnsubscribeLite                Request = 200073
	GetBrokerLiteInfo                    Request = 200074
	GetParentTopicInfo                   Request = 200075
	GetLiteTopicInfo                     Request = 200076
	GetLiteClientInfo                    Request = 200077
	GetLiteGroupInfo                     Request = 200078
	TriggerLiteDispatch                  Request = 200079
	BatchAckMessage                      Request = 200151
)

// HandOver is Castor's own: a controller asks a master to take nothing new, since another replica is about to be elected.
const HandOver Request = 1901

// requestNames holds the names Java gives them; logs and metrics show these.
var requestNames = map[Request]string{
	SendMessage:                          "SEND_MESSAGE",
	PullMessage:                          "PULL_MESSAGE",
	QueryMessage:                         "QUERY_MESSAGE",
	QueryBrokerOffset:                    "QUERY_BROKER_OFFSET",
	QueryConsumerOffset:                  "QUERY_CONSUMER_OFFSET",
	UpdateConsumerOffset:                 "UPDATE_CONSUMER_OFFSET",
	UpdateAndCreateTopic:                 "UPDATE_AND_CREATE_TOPIC",
	UpdateAndCreateTopicList:             "UPDATE_AND_CREATE_TOPIC_LIST",
	GetAllTopicConfig:                    "GET_ALL_TOPIC_CONFIG",
	GetTopicConfigList:                   "GET_TOPIC_CONFIG_LIST",
	GetTopicNameList:                     "GET_TOPIC_NAME_LIST",
	UpdateBrokerConfig:                   "UPDATE_BROKER_CONFIG",
	GetBrokerConfig:                      "GET_BROKER_CONFIG",
	TriggerDeleteFiles:                   "TRIGGER_DELETE_FILES",
	GetBrokerRuntimeInfo:                 "GET_BROKER_RUNTIME_INFO",
	SearchOffsetByTimestamp:              "SEARCH_OFFSET_BY_TIMESTAMP",
	GetMaxOffset:                         "GET_MAX_OFFSET",
	GetMinOffset:                         "GET_MIN_OFFSET",
	GetEarliestMsgStoreTime:              "GET_EARLIEST_MSG_STORETIME",
	ViewMessageByID:                      "VIEW_MESSAGE_BY_ID",
	HeartBeat:                            "HEART_BEAT",
	UnregisterClient:                     "UNREGISTER_CLIENT",
	ConsumerSendMsgBack:                  "CONSUMER_SEND_MSG_BACK",
	EndTransaction:                       "END_TRANSACTION",
	GetConsumerListByGroup:               "GET_CONSUMER_LIST_BY_GROUP",
	CheckTransactionState:                "CHECK_TRANSACTION_STATE",
	NotifyConsumerIDsChanged:             "NOTIFY_CONSUMER_IDS_CHANGED",
	LockBatchMQ:                          "LOCK_BATCH_MQ",
	UnlockBatchMQ:                        "UNLOCK_BATCH_MQ",
	GetAllConsumerOffset:                 "GET_ALL_CONSUMER_OFFSET",
	GetAllDelayOffset:                    "GET_ALL_DELAY_OFFSET",
	CheckClientConfig:                    "CHECK_CLIENT_CONFIG",
	GetClientConfig:                      "GET_CLIENT_CONFIG",
	GetTimerCheckPoint:                   "GET_TIMER_CHECK_POINT",
	GetTimerMetrics:                      "GET_TIMER_METRICS",
	PutKVConfig:                          "PUT_KV_CONFIG",
	GetKVConfig:                          "GET_KV_CONFIG",
	DeleteKVConfig:                       "DELETE_KV_CONFIG",
	RegisterBroker:                       "REGISTER_BROKER",
	UnregisterBroker:                     "UNREGISTER_BROKER",
	GetRouteInfoByTopic:                  "GET_ROUTEINFO_BY_TOPIC",
	GetBrokerClusterInfo:                 "GET_BROKER_CLUSTER_INFO",
	UpdateAndCreateSubscriptionGroup:     "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
	GetAllSubscriptionGroupConfig:        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
	GetTopicStatsInfo:                    "GET_TOPIC_STATS_INFO",
	GetConsumerConnectionList:            "GET_CONSUMER_CONNECTION_LIST",
	GetProducerConnectionList:            "GET_PRODUCER_CONNECTION_LIST",
	WipeWritePermOfBroker:                "WIPE_WRITE_PERM_OF_BROKER",
	GetAllTopicListFromNameserver:        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
	DeleteSubscriptionGroup:              "DELETE_SUBSCRIPTIONGROUP",
	GetConsumeStats:                      "GET_CONSUME_STATS",
	SuspendConsumer:                      "SUSPEND_CONSUMER",
	ResumeConsumer:                       "RESUME_CONSUMER",
	ResetConsumerOffsetInConsumer:        "RESET_CONSUMER_OFFSET_IN_CONSUMER",
	ResetConsumerOffsetInBroker:          "RESET_CONSUMER_OFFSET_IN_BROKER",
	AdjustConsumerThreadPool:             "ADJUST_CONSUMER_THREAD_POOL",
	WhoConsumeTheMessage:                 "WHO_CONSUME_THE_MESSAGE",
	DeleteTopicInBroker:                  "DELETE_TOPIC_IN_BROKER",
	DeleteTopicInNamesrv:                 "DELETE_TOPIC_IN_NAMESRV",
	RegisterTopicInNamesrv:               "REGISTER_TOPIC_IN_NAMESRV",
	GetKVListByNamespace:                 "GET_KVLIST_BY_NAMESPACE",
	ResetConsumerClientOffset:            "RESET_CONSUMER_CLIENT_OFFSET",
	GetConsumerStatusFromClient:          "GET_CONSUMER_STATUS_FROM_CLIENT",
	InvokeBrokerToResetOffset:            "INVOKE_BROKER_TO_RESET_OFFSET",
	InvokeBrokerToGetConsumerStatus:      "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
	GetTopicsByCluster:                   "GET_TOPICS_BY_CLUSTER",
	UpdateAndCreateSubscriptionGroupList: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST",
	QueryTopicConsumeByWho:               "QUERY_TOPIC_CONSUME_BY_WHO",
	RegisterFilterServer:                 "REGISTER_FILTER_SERVER",
	RegisterMessageFilterClass:           "REGISTER_MESSAGE_FILTER_CLASS",
	QueryConsumeTimeSpan:                 "QUERY_CONSUME_TIME_SPAN",
	GetSystemTopicListFromNS:             "GET_SYSTEM_TOPIC_LIST_FROM_NS",
	GetSystemTopicListFromBroker:         "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
	CleanExpiredConsumeQueue:             "CLEAN_EXPIRED_CONSUMEQUEUE",
	GetConsumerRunningInfo:               "GET_CONSUMER_RUNNING_INFO",
	QueryCorrectionOffset:                "QUERY_CORRECTION_OFFSET",
	ConsumeMessageDirectly:               "CONSUME_MESSAGE_DIRECTLY",
	SendMessageV2:                        "SEND_MESSAGE_V2",
	GetUnitTopicList:                     "GET_UNIT_TOPIC_LIST",
	GetHasUnitSubTopicList:               "GET_HAS_UNIT_SUB_TOPIC_LIST",
	GetHasUnitSubUnunitTopicList:         "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
	CloneGroupOffset:                     "CLONE_GROUP_OFFSET",
	ViewBrokerStatsData:                  "VIEW_BROKER_STATS_DATA",
	CleanUnusedTopic:                     "CLEAN_UNUSED_TOPIC",
	GetBrokerConsumeStats:                "GET_BROKER_CONSUME_STATS",
	UpdateNamesrvConfig:                  "UPDATE_NAMESRV_CONFIG",
	GetNamesrvConfig:                     "GET_NAMESRV_CONFIG",
	SendBatchMessage:                     "SEND_BATCH_MESSAGE",
	QueryConsumeQueue:                    "QUERY_CONSUME_QUEUE",
	QueryDataVersion:                     "QUERY_DATA_VERSION",
	ResumeCheckHalfMessage:               "RESUME_CHECK_HALF_MESSAGE",
	SendReplyMessage:                     "SEND_REPLY_MESSAGE",
	SendReplyMessageV2:                   "SEND_REPLY_MESSAGE_V2",
	PushReplyMessageToClient:             "PUSH_REPLY_MESSAGE_TO_CLIENT",
	AddWritePermOfBroker:                 "ADD_WRITE_PERM_OF_BROKER",
	GetAllProducerInfo:                   "GET_ALL_PRODUCER_INFO",
	DeleteExpiredCommitLog:               "DELETE_EXPIRED_COMMITLOG",
	QueryTopicsByConsumer:                "QUERY_TOPICS_BY_CONSUMER",
	QuerySubscriptionByConsumer:          "QUERY_SUBSCRIPTION_BY_CONSUMER",
	GetTopicConfig:                       "GET_TOPIC_CONFIG",
	GetSubscriptionGroupConfig:           "GET_SUBSCRIPTIONGROUP_CONFIG",
	UpdateAndGetGroupForbidden:           "UPDATE_AND_GET_GROUP_FORBIDDEN",
	CheckRocksDBCQWriteProgress:          "CHECK_ROCKSDB_CQ_WRITE_PROGRESS",
	ExportRocksDBConfigToJSON:            "EXPORT_ROCKSDB_CONFIG_TO_JSON",
	LitePullMessage:                      "LITE_PULL_MESSAGE",
	RecallMessage:                        "RECALL_MESSAGE",
	QueryAssignment:                      "QUERY_ASSIGNMENT",
	SetMessageRequestMode:                "SET_MESSAGE_REQUEST_MODE",
	GetAllMessageRequestMode:             "GET_ALL_MESSAGE_REQUEST_MODE",
	UpdateAndCreateStaticTopic:           "UPDATE_AND_CREATE_STATIC_TOPIC",
	GetBrokerMemberGroup:                 "GET_BROKER_MEMBER_GROUP",
	AddBroker:                            "ADD_BROKER",
	RemoveBroker:                         "REMOVE_BROKER",
	BrokerHeartbeat:                      "BROKER_HEARTBEAT",
	NotifyMinBrokerIDChange:              "NOTIFY_MIN_BROKER_ID_CHANGE",
	ExchangeBrokerHAInfo:                 "EXCHANGE_BROKER_HA_INFO",
	GetBrokerHAStatus:                    "GET_BROKER_HA_STATUS",
	ResetMasterFlushOffset:               "RESET_MASTER_FLUSH_OFFSET",
	ControllerAlterSyncStateSet:          "CONTROLLER_ALTER_SYNC_STATE_SET",
	ControllerElectMaster:                "CONTROLLER_ELECT_MASTER",
	ControllerRegisterBroker:             "CONTROLLER_REGISTER_BROKER",
	ControllerGetReplicaInfo:             "CONTROLLER_GET_REPLICA_INFO",
	ControllerGetMetadataInfo:            "CONTROLLER_GET_METADATA_INFO",
	ControllerGetSyncStateData:           "CONTROLLER_GET_SYNC_STATE_DATA",
	GetBrokerEpochCache:                  "GET_BROKER_EPOCH_CACHE",
	NotifyBrokerRoleChanged:              "NOTIFY_BROKER_ROLE_CHANGED",
	UpdateControllerConfig:               "UPDATE_CONTROLLER_CONFIG",
	GetControllerConfig:                  "GET_CONTROLLER_CONFIG",
	CleanBrokerData:                      "CLEAN_BROKER_DATA",
	HandOver:                             "HAND_OVER",
	ControllerGetNextBrokerID:            "CONTROLLER_GET_NEXT_BROKER_ID",
	ControllerApplyBrokerID:              "CONTROLLER_APPLY_BROKER_ID",
	UpdateColdDataFlowCtrConfig:          "UPDATE_COLD_DATA_FLOW_CTR_CONFIG",
	RemoveColdDataFlowCtrConfig:          "REMOVE_COLD_DATA_FLOW_CTR_CONFIG",
	GetColdDataFlowCtrInfo:               "GET_COLD_DATA_FLOW_CTR_INFO",
	SetCommitLogReadMode:                 "SET_COMMITLOG_READ_MODE",
	AuthCreateUser:                       "AUTH_CREATE_USER",
	AuthUpdateUser:                       "AUTH_UPDATE_USER",
	AuthDeleteUser:                       "AUTH_DELETE_USER",
	AuthGetUser:                          "AUTH_GET_USER",
	AuthListUser:                         "AUTH_LIST_USER",
	AuthCreateACL:                        "AUTH_CREATE_ACL",
	AuthUpdateACL:                        "AUTH_UPDATE_ACL",
	AuthDeleteACL:                        "AUTH_DELETE_ACL",
	AuthGetACL:                           "AUTH_GET_ACL",
	AuthListACL:                          "AUTH_LIST_ACL",
	SwitchTimerEngine:                    "SWITCH_TIMER_ENGINE",
	PopMessage:                           "POP_MESSAGE",
	AckMessage:                           "ACK_MESSAGE",
	PeekMessage:                          "PEEK_MESSAGE",
	ChangeMessageInvisibleTime:           "CHANGE_MESSAGE_INVISIBLETIME",
	Notification:                         "NOTIFICATION",
	PollingInfo:                          "POLLING_INFO",
	PopRollback:                          "POP_ROLLBACK",
	PopLiteMessage:                       "POP_LITE_MESSAGE",
	LiteSubscriptionCtl:                  "LITE_SUBSCRIPTION_CTL",
	AckLiteMessage:                       "ACK_LITE_MESSAGE",
	NotifyUnsubscribeLite:                "NOTIFY_UNSUBSCRIBE_LITE",
	GetBrokerLiteInfo:                    "GET_BROKER_LITE_INFO",
	GetParentTopicInfo:                   "GET_PARENT_TOPIC_INFO",
	GetLiteTopicInfo:                     "GET_LITE_TOPIC_INFO",
	GetLiteClientInfo:                    "GET_LITE_CLIENT_INFO",
	GetLiteGroupInfo:                     "GET_LITE_GROUP_INFO",
	TriggerLiteDispatch:                  "TRIGGER_LITE_DISPATCH",
	BatchAckMessage:                      "BATCH_ACK_MESSAGE",
}
