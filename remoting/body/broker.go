package body

// BrokerStatsData is the answer to VIEW_BROKER_STATS_DATA.
type BrokerStatsData struct {
	StatsDay    BrokerStatsItem `json:"statsDay"`
	StatsHour   BrokerStatsItem `json:"statsHour"`
	StatsMinute BrokerStatsItem `json:"statsMinute"`
}

// BrokerStatsItem is one statistic over one span.
type BrokerStatsItem struct {
	Avgpt float64 `json:"avgpt"` // average per event
	Sum   int64   `json:"sum"`
	Tps   float64 `json:"tps"`
}

// QueryConsumeQueueResponseBody is the answer to QUERY_CONSUME_QUEUE.
type QueryConsumeQueueResponseBody struct {
	FilterData       string             `json:"filterData,omitempty"`
	MaxQueueIndex    int64              `json:"maxQueueIndex"`
	MinQueueIndex    int64              `json:"minQueueIndex"`
	QueueData        []ConsumeQueueData `json:"queueData"`
	SubscriptionData *SubscriptionData  `json:"subscriptionData"`
}

// ConsumeQueueData is one unit of a consume queue. Eval tells whether the group's filter lets it pass.
type ConsumeQueueData struct {
	BitMap         string `json:"bitMap,omitempty"`
	Eval           bool   `json:"eval"`
	ExtendDataJSON string `json:"extendDataJson,omitempty"`
	Msg            string `json:"msg,omitempty"`
	PhysicOffset   int64  `json:"physicOffset"`
	PhysicSize     int32  `json:"physicSize"`
	TagsCode       int64  `json:"tagsCode"`
}

// TimerMetricsSerializeWrapper is the answer to GET_TIMER_METRICS and the text of config/timermetrics.
type TimerMetricsSerializeWrapper struct {
	DataVersion DataVersion       `json:"dataVersion"`
	TimingCount map[string]Metric `json:"timingCount,nonnil"` // by topic
}

// TransactionMetricsSerializeWrapper is the text of config/transactionMetrics. Counts may be negative.
type TransactionMetricsSerializeWrapper struct {
	DataVersion      DataVersion       `json:"dataVersion"`
	TransactionCount map[string]Metric `json:"transactionCount,nonnil"` // by topic
}

// Metric is a counter and the time of its last change in ms.
type Metric struct {
	Count     int64 `json:"count"`
	TimeStamp int64 `json:"timeStamp"`
}

// CheckRocksdbCqWriteResult is the answer to CHECK_ROCKSDB_CQ_WRITE_PROGRESS.
type CheckRocksdbCqWriteResult struct {
	CheckResult string `json:"checkResult,omitempty"`
	CheckStatus int32  `json:"checkStatus"`
}

// ColdDataFlowCtrInfo is the answer to GET_COLD_DATA_FLOW_CTR_INFO; Java builds it from ColdDataCgCtrService without a
// class of its own. Sizes are in bytes.
type ColdDataFlowCtrInfo struct {
	CgColdReadThreshold     int64                      `json:"cgColdReadThreshold"`
	ConfigTable             map[string]int64           `json:"configTable,nonnil"` // group → threshold
	GlobalAcc               int64                      `json:"globalAcc"`
	GlobalColdReadThreshold int64                      `json:"globalColdReadThreshold"`
	RuntimeTable            map[string]AccAndTimeStamp `json:"runtimeTable,nonnil"` // by group
}

// AccAndTimeStamp tells how much cold data a group has read. Times are in ms.
type AccAndTimeStamp struct {
	ColdAcc               int64 `json:"coldAcc"`
	CreateTimeMills       int64 `json:"createTimeMills"`
	LastColdReadTimeMills int64 `json:"lastColdReadTimeMills"`
}
