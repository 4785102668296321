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
