package header

// GetBrokerConfigResponse answers GET_BROKER_CONFIG.
type GetBrokerConfigResponse struct {
	Version string `h:"version,required"` // a DataVersion as JSON
}

// SetCommitLogReadModeRequest is SET_COMMITLOG_READ_MODE. Java has no class for it.
type SetCommitLogReadModeRequest struct {
	ReadAheadMode string `h:"READ_AHEAD_MODE,required"` // 0 normal, 1 random
}

// SwitchTimerEngineRequest is SWITCH_TIMER_ENGINE. Java has no class for it.
type SwitchTimerEngineRequest struct {
	EngineType string `h:"E_T,required"` // R RocksDB, F file
}

// CheckRocksdbCqWriteProgressRequest is CHECK_ROCKSDB_CQ_WRITE_PROGRESS.
type CheckRocksdbCqWriteProgressRequest struct {
	Topic          string `h:"topic,required"`
	CheckStoreTime int64  `h:"checkStoreTime"` // ms
}

// ExportRocksDBConfigToJsonRequest is EXPORT_ROCKSDB_CONFIG_TO_JSON.
type ExportRocksDBConfigToJsonRequest struct {
	ConfigType string `h:"configType,required"` // topics, subscriptionGroups, consumerOffsets with semicolons
}

// AddBrokerRequest is ADD_BROKER, to a broker container.
type AddBrokerRequest struct {
	ConfigPath string `h:"configPath"`
}

// RemoveBrokerRequest is REMOVE_BROKER, to a broker container.
type RemoveBrokerRequest struct {
	BrokerName        string `h:"brokerName,required"`
	BrokerClusterName string `h:"brokerClusterName,required"`
	BrokerID          int64  `h:"brokerId,required"`
}

// ExchangeHAInfoRequest is EXCHANGE_BROKER_HA_INFO. With MasterHAAddress the sender says "I am your master"; without, it asks.
type ExchangeHAInfoRequest struct {
	MasterHAAddress   string     `h:"masterHaAddress"`
	MasterFlushOffset Opt[int64] `h:"masterFlushOffset"`
	MasterAddress     string     `h:"masterAddress"`
}

// ExchangeHAInfoResponse answers it.
type ExchangeHAInfoResponse struct {
	MasterHAAddress   string     `h:"masterHaAddress"`
	MasterFlushOffset Opt[int64] `h:"masterFlushOffset"`
	MasterAddress     string     `h:"masterAddress"`
}

// ResetMasterFlushOffset is RESET_MASTER_FLUSH_OFFSET. The number is required, but a request without it must be refused
// instead of setting 0, hence Opt.
type ResetMasterFlushOffset struct {
	MasterFlushOffset Opt[int64] `h:"masterFlushOffset,required"`
}
