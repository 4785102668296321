package body

import "math"

// HARuntimeInfo is the answer to GET_BROKER_HA_STATUS.
type HARuntimeInfo struct {
	HAClientRuntimeInfo      HAClientRuntimeInfo       `json:"haClientRuntimeInfo"`
	HAConnectionInfo         []HAConnectionRuntimeInfo `json:"haConnectionInfo,nonnil"`
	InSyncSlaveNums          int32                     `json:"inSyncSlaveNums"`
	Master                   bool                      `json:"master"`
	MasterCommitLogMaxOffset int64                     `json:"masterCommitLogMaxOffset"`
}

// HAClientRuntimeInfo is a slave's view of its connection; all zero on a master. Times are in ms.
type HAClientRuntimeInfo struct {
	LastReadTimestamp       int64  `json:"lastReadTimestamp"`
	LastWriteTimestamp      int64  `json:"lastWriteTimestamp"`
	MasterAddr              string `json:"masterAddr,omitempty"`
	MasterFlushOffset       int64  `json:"masterFlushOffset"`
	MaxOffset               int64  `json:"maxOffset"`
	TransferredByteInSecond int64  `json:"transferredByteInSecond"`
}

// HAConnectionRuntimeInfo is a master's view of one slave.
type HAConnectionRuntimeInfo struct {
	Addr                    string `json:"addr"`
	Diff                    int64  `json:"diff"` // bytes behind
	InSync                  bool   `json:"inSync"`
	SlaveAckOffset          int64  `json:"slaveAckOffset"`
	TransferFromWhere       int64  `json:"transferFromWhere"`
	TransferredByteInSecond int64  `json:"transferredByteInSecond"`
}

// SyncStateSet is the set of replicas in sync, by controller-assigned broker id.
type SyncStateSet struct {
	SyncStateSet      []int64 `json:"syncStateSet,nonnil"`
	SyncStateSetEpoch int32   `json:"syncStateSetEpoch"`
}

// ElectMasterResponseBody is the answer to CONTROLLER_ELECT_MASTER. mqadmin reads it as a bare BrokerMemberGroup, so the
// group's members stand beside it too; Java brokers pass over them.
type ElectMasterResponseBody struct {
	BrokerMemberGroup *BrokerMemberGroup `json:"brokerMemberGroup"`
	SyncStateSet      []int64            `json:"syncStateSet"`

	BrokerAddrs map[int64]string `json:"brokerAddrs"`
	BrokerName  string           `json:"brokerName,omitempty"`
	Cluster     string           `json:"cluster,omitempty"`
}

// BrokerReplicasInfo is the answer to CONTROLLER_GET_SYNC_STATE_DATA.
type BrokerReplicasInfo struct {
	ReplicasInfoTable map[string]ReplicasInfo `json:"replicasInfoTable,nonnil"` // by broker name
}

// ReplicasInfo is the state of one broker name.
type ReplicasInfo struct {
	InSyncReplicas    []ReplicaIdentity `json:"inSyncReplicas,nonnil"`
	MasterAddress     string            `json:"masterAddress,omitempty"`
	MasterBrokerID    *int64            `json:"masterBrokerId"` // nil without a master
	MasterEpoch       int32             `json:"masterEpoch"`
	NotInSyncReplicas []ReplicaIdentity `json:"notInSyncReplicas,nonnil"`
	SyncStateSetEpoch int32             `json:"syncStateSetEpoch"`
}

// ReplicaIdentity is one replica.
type ReplicaIdentity struct {
	Alive         bool   `json:"alive"`
	BrokerAddress string `json:"brokerAddress"`
	BrokerID      int64  `json:"brokerId"`
	BrokerName    string `json:"brokerName"`
}

// EpochEntryCache is the answer to GET_BROKER_EPOCH_CACHE.
type EpochEntryCache struct {
	BrokerID    int64        `json:"brokerId"`
	BrokerName  string       `json:"brokerName"`
	ClusterName string       `json:"clusterName"`
	EpochList   []EpochEntry `json:"epochList,nonnil"`
	MaxOffset   int64        `json:"maxOffset"`
}

// EpochEntry is the stretch of the commit log written under one master epoch.
type EpochEntry struct {
	EndOffset   int64 `json:"endOffset"` // exclusive; math.MaxInt64 while the epoch lasts
	Epoch       int32 `json:"epoch"`
	StartOffset int64 `json:"startOffset"`
}

// SetDefaults implements fastjson.Defaulter.
func (e *EpochEntry) SetDefaults() {
	*e = EpochEntry{EndOffset: math.MaxInt64}
}
