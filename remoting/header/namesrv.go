package header

// RegisterBrokerRequest is REGISTER_BROKER.
type RegisterBrokerRequest struct {
	BrokerName             string     `h:"brokerName,required"`
	BrokerAddr             string     `h:"brokerAddr,required"`
	ClusterName            string     `h:"clusterName,required"`
	HAServerAddr           string     `h:"haServerAddr,required"`
	BrokerID               int64      `h:"brokerId,required"`
	HeartbeatTimeoutMillis Opt[int64] `h:"heartbeatTimeoutMillis"`
	EnableActingMaster     Opt[bool]  `h:"enableActingMaster"`
	Compressed             bool       `h:"compressed"` // the body is deflated
	BodyCRC32              int32      `h:"bodyCrc32"`  // 0 is unchecked
	ZoneName               string     `h:"__ZONE_NAME"`
}

// RegisterBrokerResponse answers it.
type RegisterBrokerResponse struct {
	HAServerAddr string `h:"haServerAddr"` // of the master
	MasterAddr   string `h:"masterAddr"`
}

// GetRouteInfoRequest is GET_ROUTEINFO_BY_TOPIC. The zone fields are added by a hook in Java.
type GetRouteInfoRequest struct {
	Topic                  string    `h:"topic,required"`
	AcceptStandardJSONOnly Opt[bool] `h:"acceptStandardJsonOnly"`
	ZoneName               string    `h:"__ZONE_NAME"`
	ZoneMode               string    `h:"__ZONE_MODE"`
	TopicRequest
}

// UnRegisterBrokerRequest is UNREGISTER_BROKER.
type UnRegisterBrokerRequest struct {
	BrokerName  string `h:"brokerName,required"`
	BrokerAddr  string `h:"brokerAddr,required"`
	ClusterName string `h:"clusterName,required"`
	BrokerID    int64  `h:"brokerId,required"`
}

// BrokerHeartbeatRequest is BROKER_HEARTBEAT. A name server needs cluster and address only, a controller the rest.
type BrokerHeartbeatRequest struct {
	ClusterName            string     `h:"clusterName,required"`
	BrokerAddr             string     `h:"brokerAddr,required"`
	BrokerName             string     `h:"brokerName,required"`
	BrokerID               Opt[int64] `h:"brokerId"`
	Epoch                  Opt[int32] `h:"epoch"`
	MaxOffset              Opt[int64] `h:"maxOffset"`
	ConfirmOffset          Opt[int64] `h:"confirmOffset"`
	HeartbeatTimeoutMillis Opt[int64] `h:"heartbeatTimeoutMills"` // Java's spelling
	ElectionPriority       Opt[int32] `h:"electionPriority"`
}

// QueryDataVersionRequest is QUERY_DATA_VERSION.
type QueryDataVersionRequest struct {
	BrokerName  string `h:"brokerName,required"`
	BrokerAddr  string `h:"brokerAddr,required"`
	ClusterName string `h:"clusterName,required"`
	BrokerID    int64  `h:"brokerId,required"`
}

// QueryDataVersionResponse answers it.
type QueryDataVersionResponse struct {
	Changed bool `h:"changed,required"`
}

// GetBrokerMemberGroupRequest is GET_BROKER_MEMBER_GROUP.
type GetBrokerMemberGroupRequest struct {
	ClusterName string `h:"clusterName,required"`
	BrokerName  string `h:"brokerName,required"`
}

// RegisterTopicRequest is REGISTER_TOPIC_IN_NAMESRV.
type RegisterTopicRequest struct {
	Topic string `h:"topic,required"`
	TopicRequest
}

// DeleteTopicFromNamesrvRequest is DELETE_TOPIC_IN_NAMESRV.
type DeleteTopicFromNamesrvRequest struct {
	Topic       string `h:"topic,required"`
	ClusterName string `h:"clusterName"`
	TopicRequest
}

// WipeWritePermOfBrokerRequest is WIPE_WRITE_PERM_OF_BROKER.
type WipeWritePermOfBrokerRequest struct {
	BrokerName string `h:"brokerName,required"`
}

// WipeWritePermOfBrokerResponse answers it.
type WipeWritePermOfBrokerResponse struct {
	WipeTopicCount int32 `h:"wipeTopicCount,required"`
}

// AddWritePermOfBrokerRequest is ADD_WRITE_PERM_OF_BROKER.
type AddWritePermOfBrokerRequest struct {
	BrokerName string `h:"brokerName,required"`
}

// AddWritePermOfBrokerResponse answers it.
type AddWritePermOfBrokerResponse struct {
	AddTopicCount int32 `h:"addTopicCount,required"`
}

// GetTopicsByClusterRequest is GET_TOPICS_BY_CLUSTER.
type GetTopicsByClusterRequest struct {
	Cluster string `h:"cluster,required"`
}

// PutKVConfigRequest is PUT_KV_CONFIG.
type PutKVConfigRequest struct {
	Namespace string `h:"namespace,required"`
	Key       string `h:"key,required"`
	Value     string `h:"value,required"`
}

// GetKVConfigRequest is GET_KV_CONFIG.
type GetKVConfigRequest struct {
	Namespace string `h:"namespace,required"`
	Key       string `h:"key,required"`
}

// GetKVConfigResponse answers it.
type GetKVConfigResponse struct {
	Value string `h:"value"`
}

// DeleteKVConfigRequest is DELETE_KV_CONFIG.
type DeleteKVConfigRequest struct {
	Namespace string `h:"namespace,required"`
	Key       string `h:"key,required"`
}

// GetKVListByNamespaceRequest is GET_KVLIST_BY_NAMESPACE.
type GetKVListByNamespaceRequest struct {
	Namespace string `h:"namespace,required"`
}

// NotifyMinBrokerIdChangeRequest is NOTIFY_MIN_BROKER_ID_CHANGE, from the name server to the brokers of a name.
type NotifyMinBrokerIdChangeRequest struct {
	MinBrokerID       Opt[int64] `h:"minBrokerId"`
	BrokerName        string     `h:"brokerName"` // never filled by Java
	MinBrokerAddr     string     `h:"minBrokerAddr"`
	OfflineBrokerAddr string     `h:"offlineBrokerAddr"`
	HABrokerAddr      string     `h:"haBrokerAddr"`
}
