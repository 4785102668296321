package conf

// Namesrv is the configuration of mqnamesrv. Java: NamesrvConfig and NettyServerConfig.
type Namesrv struct {
	NameServer
	Server
	TLS
}

// NameServer are the keys of the name server itself.
type NameServer struct {
	// Port of the remoting server; 0 takes a free one.
	ListenPort int32 `conf:"listenPort" default:"9876" min:"0" max:"65535" apply:"restart"`
	// Installation directory. Nothing has to exist there.
	RocketmqHome string `conf:"rocketmqHome" apply:"deny"`
	// File of the key-value configuration (order topics and the like).
	KvConfigPath string `conf:"kvConfigPath" default:"~/namesrv/kvConfig.json" apply:"deny"`
	// The properties file that run-time changes are written to: the one given with -c.
	ConfigStorePath string `conf:"configStorePath" default:"~/namesrv/namesrv.properties" apply:"deny"`
	// Keys that a run-time change may not name, separated by semicolons. Paths are always refused.
	ConfigBlackList string `conf:"configBlackList" default:"configBlackList;configStorePath;kvConfigPath" apply:"deny"`
	// Answer routes of unknown topics from the name servers of productEnvName.
	ClusterTest bool `conf:"clusterTest" default:"false" apply:"restart"`
	// Add the order configuration of a topic to its route.
	OrderMessageEnable bool `conf:"orderMessageEnable" default:"false" apply:"hot"`
	// Send the order configuration to brokers that register.
	ReturnOrderTopicConfigToBroker bool `conf:"returnOrderTopicConfigToBroker" default:"true" apply:"hot"`
	// Time between two looks for brokers whose heartbeats stopped.
	ScanNotActiveBrokerInterval int64 `conf:"scanNotActiveBrokerInterval" default:"5000" min:"10" unit:"ms" apply:"restart"`
	// Give consumers the slave with the lowest id in the master's place when the master is away.
	SupportActingMaster bool `conf:"supportActingMaster" default:"false" apply:"hot"`
	// Tell brokers when the lowest id of their set changes.
	NotifyMinBrokerIdChanged bool `conf:"notifyMinBrokerIdChanged" default:"false" apply:"hot"`
	// Answer the request for all topics.
	EnableAllTopicList bool `conf:"enableAllTopicList" default:"true" apply:"hot"`
	// Answer the requests for system topics, unit topics and topics of a cluster.
	EnableTopicList bool `conf:"enableTopicList" default:"true" apply:"hot"`
	// Refuse routes for waitSecondsForService after the start, until brokers have registered.
	NeedWaitForService bool `conf:"needWaitForService" default:"false" apply:"restart"`
	// That time.
	WaitSecondsForService int32 `conf:"waitSecondsForService" default:"45" min:"0" unit:"s" apply:"restart"`
	// Drop topics that a registering broker no longer has.
	DeleteTopicWithBrokerRegistration bool `conf:"deleteTopicWithBrokerRegistration" default:"false" apply:"hot"`
	// Run a controller in the same process, configured by the same file.
	EnableControllerInNamesrv bool `conf:"enableControllerInNamesrv" default:"false" apply:"startup"`
}

func (*Namesrv) classes() classes {
	return classes{
		listed:   []string{"NamesrvConfig", "NettyServerConfig"},
		accepted: []string{"NettyClientConfig", "ControllerConfig", "JraftConfig", "System", "Removed"},
	}
}

func (n *Namesrv) configFile() *string    { return &n.ConfigStorePath }
func (*Namesrv) complete(string, *Report) {}
func (*Namesrv) check() error             { return nil }
