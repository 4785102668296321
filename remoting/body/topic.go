package body

// DataVersion stamps a table. Two tables differ when any member differs; StateVersion is the master epoch.
type DataVersion struct {
	Counter      int64 `json:"counter"`
	StateVersion int64 `json:"stateVersion"`
	Timestamp    int64 `json:"timestamp"` // ms
}

// TopicConfig describes a topic on one broker.
type TopicConfig struct {
	Attributes      map[string]string `json:"attributes,nonnil"`
	Order           bool              `json:"order"`
	Perm            int32             `json:"perm"` // bits as in QueueData
	ReadQueueNums   int32             `json:"readQueueNums"`
	TopicFilterType string            `json:"topicFilterType"` // SINGLE_TAG or MULTI_TAG
	TopicName       string            `json:"topicName"`
	TopicSysFlag    int32             `json:"topicSysFlag"`
	WriteQueueNums  int32             `json:"writeQueueNums"`
}

// SetDefaults implements fastjson.Defaulter with the defaults of the Java class.
func (c *TopicConfig) SetDefaults() {
	*c = TopicConfig{Perm: 6, ReadQueueNums: 16, WriteQueueNums: 16, TopicFilterType: "SINGLE_TAG"}
}

// TopicConfigAndQueueMapping is the answer to GET_TOPIC_CONFIG; MappingDetail is there for static topics.
type TopicConfigAndQueueMapping struct {
	TopicConfig
	MappingDetail *TopicQueueMappingDetail `json:"mappingDetail"`
}

// TopicConfigSerializeWrapper is the topic table of a broker, also the text of config/topics.json.
type TopicConfigSerializeWrapper struct {
	DataVersion      DataVersion            `json:"dataVersion"`
	TopicConfigTable map[string]TopicConfig `json:"topicConfigTable,nonnil"`
}

// TopicConfigAndMappingSerializeWrapper is the answer to GET_ALL_TOPIC_CONFIG and the topic part of a registration.
type TopicConfigAndMappingSerializeWrapper struct {
	TopicConfigSerializeWrapper
	MappingDataVersion         DataVersion                        `json:"mappingDataVersion"`
	TopicQueueMappingDetailMap map[string]TopicQueueMappingDetail `json:"topicQueueMappingDetailMap,nonnil"`
	TopicQueueMappingInfoMap   map[string]TopicQueueMappingInfo   `json:"topicQueueMappingInfoMap,nonnil"`
}

// TopicQueueMappingSerializeWrapper is the text of config/topicQueueMapping.json.
type TopicQueueMappingSerializeWrapper struct {
	DataVersion              DataVersion                        `json:"dataVersion"`
	TopicQueueMappingInfoMap map[string]TopicQueueMappingDetail `json:"topicQueueMappingInfoMap,nonnil"`
}

// CreateTopicListRequestBody is the body of UPDATE_AND_CREATE_TOPIC_LIST.
type CreateTopicListRequestBody struct {
	TopicConfigList []TopicConfig `json:"topicConfigList,nonnil"`
}

// TopicList answers all requests for lists of topics. BrokerAddr is set by codes 304 and 343 only.
type TopicList struct {
	BrokerAddr string   `json:"brokerAddr,omitempty"`
	TopicList  []string `json:"topicList,nonnil"`
}

// GroupList is the answer to QUERY_TOPIC_CONSUME_BY_WHO.
type GroupList struct {
	GroupList []string `json:"groupList,nonnil"`
}

// KVTable is a table of texts: runtime information, configuration by namespace, order configuration.
type KVTable struct {
	Table map[string]string `json:"table,nonnil"`
}
