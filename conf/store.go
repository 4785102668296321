package conf

import "path/filepath"

// Store are the keys of the message store. Java: MessageStoreConfig.
type Store struct {
	// Directory of everything the broker keeps.
	StorePathRootDir string `conf:"storePathRootDir" default:"~/store" apply:"deny"`
	// Directory of the commit log. Empty: commitlog under storePathRootDir.
	StorePathCommitLog string `conf:"storePathCommitLog" apply:"deny"`
	// File of the master epochs. Empty: epochFileCheckpoint under storePathRootDir.
	StorePathEpochFile string `conf:"storePathEpochFile" apply:"deny"`
	// File of the broker id that the controller assigned. Empty: brokerIdentity under storePathRootDir.
	StorePathBrokerIdentity string `conf:"storePathBrokerIdentity" apply:"deny"`
	// Size of a commit log file.
	MappedFileSizeCommitLog int32 `conf:"mappedFileSizeCommitLog" default:"1073741824" min:"4096" unit:"B" apply:"startup"`
	// Size of a consume queue file; rounded up to whole entries of 20 bytes.
	MappedFileSizeConsumeQueue int32 `conf:"mappedFileSizeConsumeQueue" default:"6000000" min:"20" unit:"B" apply:"startup"`

	// When a send is acknowledged: SYNC_FLUSH when it is on disk, ASYNC_FLUSH before.
	FlushDiskType string `conf:"flushDiskType" default:"ASYNC_FLUSH" enum:"ASYNC_FLUSH,SYNC_FLUSH" apply:"hot"`
	// Longest time a send waits for the disk before it is answered FLUSH_DISK_TIMEOUT.
	SyncFlushTimeout int32 `conf:"syncFlushTimeout" default:"5000" min:"1" unit:"ms" apply:"hot"`
	// Time between two flushes of the commit log with ASYNC_FLUSH.
	FlushIntervalCommitLog int32 `conf:"flushIntervalCommitLog" default:"500" min:"1" unit:"ms" apply:"hot"`

	// Largest message body.
	MaxMessageSize int32 `conf:"maxMessageSize" default:"4194304" min:"1" max:"134217728" unit:"B" apply:"hot"`
	// Add a checksum over the properties to every message.
	EnabledAppendPropCRC bool `conf:"enabledAppendPropCRC" default:"false" apply:"restart"`
	// Pace at which the commit log is read once a day to find what the disk has damaged; 0 for never.
	ScrubBytesPerSecond int64 `conf:"scrubBytesPerSecond" default:"4194304" min:"0" unit:"B" apply:"hot"`

	// Age at which a file is deleted.
	FileReservedTime int32 `conf:"fileReservedTime" default:"72" min:"0" unit:"h" apply:"hot"`
	// Hours of the day at which old files are deleted, separated by semicolons.
	DeleteWhen string `conf:"deleteWhen" default:"04" form:"hours" apply:"hot"`
	// Used part of the disk above which old files are deleted at any hour.
	DiskMaxUsedSpaceRatio int32 `conf:"diskMaxUsedSpaceRatio" default:"75" min:"1" max:"100" unit:"%" apply:"hot"`
	// Used part of the disk above which the oldest files are deleted whatever their age.
	DiskSpaceCleanForciblyRatio int32 `conf:"diskSpaceCleanForciblyRatio" default:"85" min:"1" max:"100" unit:"%" apply:"hot"`
	// Used part of the disk above which sends are refused; by the master of a group from 3 s later on, when another replica has had time to take its place.
	DiskSpaceWarningLevelRatio int32 `conf:"diskSpaceWarningLevelRatio" default:"90" min:"1" max:"100" unit:"%" apply:"hot"`
	// Whether young files may be deleted when the disk is full.
	CleanFileForciblyEnable bool `conf:"cleanFileForciblyEnable" default:"true" apply:"hot"`
	// Files deleted in one round.
	DeleteFileBatchMax int32 `conf:"deleteFileBatchMax" default:"10" min:"1" apply:"hot"`
	// Time between two rounds.
	CleanResourceInterval int32 `conf:"cleanResourceInterval" default:"10000" min:"100" unit:"ms" apply:"restart"`

	// Bytes in one answer to a consumer that reads recent messages.
	MaxTransferBytesOnMessageInMemory int32 `conf:"maxTransferBytesOnMessageInMemory" default:"262144" min:"1" unit:"B" apply:"hot"`
	// Messages in such an answer.
	MaxTransferCountOnMessageInMemory int32 `conf:"maxTransferCountOnMessageInMemory" default:"32" min:"1" apply:"hot"`

	// Keep the index by message key.
	MessageIndexEnable bool `conf:"messageIndexEnable" default:"true" apply:"hot"`
	// Hash slots of an index file.
	MaxHashSlotNum int32 `conf:"maxHashSlotNum" default:"5000000" min:"1" apply:"startup"`
	// Entries of an index file.
	MaxIndexNum int32 `conf:"maxIndexNum" default:"20000000" min:"1" apply:"startup"`
	// Messages that a query by key answers.
	MaxMsgsNumBatch int32 `conf:"maxMsgsNumBatch" default:"64" min:"1" apply:"hot"`
	// Messages that it answers when it names no number.
	DefaultQueryMaxNum int32 `conf:"defaultQueryMaxNum" default:"32" min:"1" apply:"hot"`

	// Delays of the levels 1, 2, 3 ... of delayed messages.
	MessageDelayLevel string `conf:"messageDelayLevel" default:"1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h" form:"delays" apply:"startup"`
}

// completePaths follows MessageStoreConfig's getters, which resolve unset paths from the root.
func (s *Store) completePaths() {
	for name, path := range map[string]*string{
		"commitlog":           &s.StorePathCommitLog,
		"epochFileCheckpoint": &s.StorePathEpochFile,
		"brokerIdentity":      &s.StorePathBrokerIdentity,
	} {
		if *path == "" {
			*path = filepath.Join(s.StorePathRootDir, name)
		}
	}
}

// Replication are the keys of replica sets and of controller mode. Java: MessageStoreConfig and BrokerConfig.
type Replication struct {
	// Role of the broker. In controller mode the controller decides it.
	BrokerRole string `conf:"brokerRole" default:"ASYNC_MASTER" enum:"ASYNC_MASTER,SYNC_MASTER,SLAVE" apply:"restart"`
	// Port of the replication server. Without one (0 or less) it is listenPort+1.
	HaListenPort int32 `conf:"haListenPort" default:"0" min:"-1" max:"65535" apply:"restart"`
	// Keep what is sent to a replica that is far behind to maxHaTransferByteInSecond.
	HaFlowControlEnable bool `conf:"haFlowControlEnable" default:"false" apply:"hot"`
	// Bytes per second to such a replica.
	MaxHaTransferByteInSecond int64 `conf:"maxHaTransferByteInSecond" default:"104857600" min:"1048576" unit:"B" apply:"hot"`
	// Time after which a replica that lags leaves the set of in-sync replicas.
	HaMaxTimeSlaveNotCatchup int64 `conf:"haMaxTimeSlaveNotCatchup" default:"3000" min:"100" unit:"ms" apply:"hot"`
	// Longest time a send waits for replicas before it is answered FLUSH_SLAVE_TIMEOUT.
	SlaveTimeout int32 `conf:"slaveTimeout" default:"3000" min:"1" unit:"ms" apply:"hot"`
	// Replicas, the master included, that must have a message before it is acknowledged, if allAckInSyncStateSet is false.
	InSyncReplicas int32 `conf:"inSyncReplicas" default:"1" min:"1" max:"100" apply:"hot"`
	// Replicas that must be in sync for a send to be accepted. 0 means 2 in a set that has a second replica, else 1.
	MinInSyncReplicas int32 `conf:"minInSyncReplicas" default:"0" min:"0" max:"100" apply:"hot"`
	// Acknowledge in controller mode what every in-sync replica has. Apache RocketMQ's default is false, which can lose
	// acknowledged messages when the master dies.
	AllAckInSyncStateSet bool `conf:"allAckInSyncStateSet" default:"true" apply:"hot"`

	// In controller mode a replica that never joins the set of in-sync replicas: nobody waits for it, and it is never elected.
	AsyncLearner bool `conf:"asyncLearner" default:"false" apply:"restart"`
	// Let controllers elect the master.
	EnableControllerMode bool `conf:"enableControllerMode" default:"false" apply:"startup"`
	// Controllers, host:port separated by semicolons.
	ControllerAddr string `conf:"controllerAddr" form:"addrs" apply:"hot"`
	// How long the controllers wait for a heartbeat before they take the broker for dead.
	ControllerHeartBeatTimeoutMills int64 `conf:"controllerHeartBeatTimeoutMills" default:"800" min:"100" unit:"ms" apply:"restart"`
	// Among equals the replica with the lowest number is elected.
	BrokerElectionPriority int32 `conf:"brokerElectionPriority" default:"2147483647" min:"0" apply:"hot"`
	// Time between two questions to the controllers who the master is.
	SyncBrokerMetadataPeriod int64 `conf:"syncBrokerMetadataPeriod" default:"5000" min:"10" unit:"ms" apply:"restart"`
}
