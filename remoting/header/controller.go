package header

// AlterSyncStateSetRequest is CONTROLLER_ALTER_SYNC_STATE_SET.
type AlterSyncStateSetRequest struct {
	BrokerName     string `h:"brokerName"`
	MasterBrokerID int64  `h:"masterBrokerId"`
	MasterEpoch    int32  `h:"masterEpoch"`
	InvokeTime     int64  `h:"invokeTime"` // ms
}

// AlterSyncStateSetResponse answers it.
type AlterSyncStateSetResponse struct {
	NewSyncStateSetEpoch int32 `h:"newSyncStateSetEpoch"`
}

// ElectMasterRequest is CONTROLLER_ELECT_MASTER.
type ElectMasterRequest struct {
	ClusterName    string `h:"clusterName,required"`
	BrokerName     string `h:"brokerName,required"`
	BrokerID       int64  `h:"brokerId,required"`
	DesignateElect bool   `h:"designateElect,required"` // BrokerID is to become the master
	InvokeTime     int64  `h:"invokeTime"`              // ms
}

// ElectMasterResponse answers it, also with CONTROLLER_MASTER_STILL_EXIST.
type ElectMasterResponse struct {
	MasterBrokerID    Opt[int64] `h:"masterBrokerId"`
	MasterAddress     string     `h:"masterAddress"`
	MasterEpoch       Opt[int32] `h:"masterEpoch"`
	SyncStateSetEpoch Opt[int32] `h:"syncStateSetEpoch"`
}

// RegisterBrokerToControllerRequest is CONTROLLER_REGISTER_BROKER.
type RegisterBrokerToControllerRequest struct {
	ClusterName   string `h:"clusterName"`
	BrokerName    string `h:"brokerName"`
	BrokerID      int64  `h:"brokerId"`
	BrokerAddress string `h:"brokerAddress"`
	InvokeTime    int64  `h:"invokeTime"` // ms
}

// RegisterBrokerToControllerResponse answers it; the master is absent while there is none.
type RegisterBrokerToControllerResponse struct {
	ClusterName       string     `h:"clusterName"`
	BrokerName        string     `h:"brokerName"`
	MasterBrokerID    Opt[int64] `h:"masterBrokerId"`
	MasterAddress     string     `h:"masterAddress"`
	MasterEpoch       Opt[int32] `h:"masterEpoch"`
	SyncStateSetEpoch Opt[int32] `h:"syncStateSetEpoch"`
}

// GetReplicaInfoRequest is CONTROLLER_GET_REPLICA_INFO.
type GetReplicaInfoRequest struct {
	BrokerName string `h:"brokerName"`
}

// GetReplicaInfoResponse answers it.
type GetReplicaInfoResponse struct {
	MasterBrokerID Opt[int64] `h:"masterBrokerId"`
	MasterAddress  string     `h:"masterAddress"`
	MasterEpoch    Opt[int32] `h:"masterEpoch"`
}

// GetMetaDataResponse answers CONTROLLER_GET_METADATA_INFO.
type GetMetaDataResponse struct {
	Group                   string `h:"group"`
	ControllerLeaderID      string `h:"controllerLeaderId"`
	ControllerLeaderAddress string `h:"controllerLeaderAddress"`
	IsLeader                bool   `h:"isLeader"`
	Peers                   string `h:"peers"` // id:host:port, each with a semicolon behind it
}

// GetNextBrokerIdRequest is CONTROLLER_GET_NEXT_BROKER_ID.
type GetNextBrokerIdRequest struct {
	ClusterName string `h:"clusterName"`
	BrokerName  string `h:"brokerName"`
}

// GetNextBrokerIdResponse answers it.
type GetNextBrokerIdResponse struct {
	ClusterName  string `h:"clusterName"`
	BrokerName   string `h:"brokerName"`
	NextBrokerID int64  `h:"nextBrokerId"`
}

// ApplyBrokerIdRequest is CONTROLLER_APPLY_BROKER_ID.
type ApplyBrokerIdRequest struct {
	ClusterName       string `h:"clusterName"`
	BrokerName        string `h:"brokerName"`
	AppliedBrokerID   int64  `h:"appliedBrokerId"`
	RegisterCheckCode string `h:"registerCheckCode"`
}

// ApplyBrokerIdResponse answers it.
type ApplyBrokerIdResponse struct {
	ClusterName string `h:"clusterName"`
	BrokerName  string `h:"brokerName"`
}

// NotifyBrokerRoleChangedRequest is NOTIFY_BROKER_ROLE_CHANGED, from the controller to the brokers of a name.
type NotifyBrokerRoleChangedRequest struct {
	MasterAddress     string     `h:"masterAddress"`
	MasterEpoch       Opt[int32] `h:"masterEpoch"`
	SyncStateSetEpoch Opt[int32] `h:"syncStateSetEpoch"`
	MasterBrokerID    Opt[int64] `h:"masterBrokerId"` // absent: no master
}

// HandOverRequest is HAND_OVER, from the leading controller to a master: finish what is under way and take nothing new, another
// replica is about to be elected. It is Castor's own.
type HandOverRequest struct {
	BrokerName  string `h:"brokerName,required"`
	MasterEpoch int32  `h:"masterEpoch,required"`
	BrokerID    int64  `h:"brokerId,required"` // of the next master
}

// CleanControllerBrokerDataRequest is CLEAN_BROKER_DATA.
type CleanControllerBrokerDataRequest struct {
	ClusterName                string `h:"clusterName"`
	BrokerName                 string `h:"brokerName,required"`
	BrokerControllerIdsToClean string `h:"brokerControllerIdsToClean"` // numbers with semicolons; empty is the whole set
	IsCleanLivingBroker        bool   `h:"isCleanLivingBroker"`
	InvokeTime                 int64  `h:"invokeTime"` // ms
}
