package conf

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// Broker is the configuration of mqbroker.
// Java: BrokerConfig, BrokerIdentity, MessageStoreConfig, NettyServerConfig and NettyClientConfig, one flat key space.
type Broker struct {
	Identity
	Topics
	Sending
	Consuming
	Transactions
	Registration
	Replication
	Store
	Server
	Client
	TLS
	Metrics
}

// Identity are the keys that say who a broker is and where it is reached.
type Identity struct {
	// Name of the replica set. Empty: the host name.
	BrokerName string `conf:"brokerName" apply:"startup"`
	// Name of the cluster the broker registers under.
	BrokerClusterName string `conf:"brokerClusterName" default:"DefaultCluster" apply:"startup"`
	// 0 is the master, greater numbers are slaves. With brokerRole ASYNC_MASTER or SYNC_MASTER it is always 0; in
	// controller mode the controller assigns it and the value given here has no effect.
	BrokerId int64 `conf:"brokerId" default:"0" min:"-1" apply:"startup"`
	// Address given to clients and written into messages as the store host. Empty: the address of the default route.
	BrokerIP1 string `conf:"brokerIP1" apply:"restart"`
	// Address given to the other replicas of the set. Empty: the address of the default route.
	BrokerIP2 string `conf:"brokerIP2" apply:"restart"`
	// Port of the remoting server; 0 takes a free one.
	ListenPort int32 `conf:"listenPort" default:"10911" min:"0" max:"65535" apply:"restart"`
	// Second remoting port, for clients with the VIP channel switched on, which always dial the broker's port minus two.
	// 0 means listenPort-2, -1 switches it off.
	FastListenPort int32 `conf:"fastListenPort" default:"0" min:"-1" max:"65535" apply:"restart"`
	// Name servers, host:port separated by semicolons.
	NamesrvAddr string `conf:"namesrvAddr" form:"addrs" apply:"hot"`
	// Installation directory. Nothing has to exist there.
	RocketmqHome string `conf:"rocketmqHome" apply:"deny"`
	// The properties file that run-time changes are written to: the one given with -c.
	BrokerConfigPath string `conf:"brokerConfigPath" default:"~/store/config/broker.properties" apply:"deny"`
	// Keys that a run-time change may not name, separated by semicolons. Paths are always refused.
	ConfigBlackList string `conf:"configBlackList" default:"configBlackList;brokerConfigPath" apply:"deny"`
	// What clients may do here: 2 is write, 4 is read, 6 both, 0 nothing.
	BrokerPermission int32 `conf:"brokerPermission" default:"6" min:"0" max:"7" apply:"hot"`
	// Region name that send responses carry for message traces.
	RegionId string `conf:"regionId" default:"DefaultRegion" apply:"hot"`
	// Tell producers in send responses that traces are wanted.
	TraceOn bool `conf:"traceOn" default:"true" apply:"hot"`
	// A broker that has not answered its watchdog for this long, while other replicas live, is killed so that clients
	// see a closed connection and not a hanging one. 0 switches the watchdog off.
	WatchdogTimeoutMillis int64 `conf:"watchdogTimeoutMillis" default:"1000" min:"0" max:"600000" unit:"ms" apply:"restart"`
}

// Topics are the rules for topics and groups.
type Topics struct {
	// Create a topic when a message for an unknown one arrives.
	AutoCreateTopicEnable bool `conf:"autoCreateTopicEnable" default:"true" apply:"hot"`
	// Number of queues of a topic created that way.
	DefaultTopicQueueNums int32 `conf:"defaultTopicQueueNums" default:"8" min:"1" max:"65535" apply:"hot"`
	// Create a consumer group when an unknown one asks for messages.
	AutoCreateSubscriptionGroup bool `conf:"autoCreateSubscriptionGroup" default:"true" apply:"hot"`
	// Create a topic named like the cluster at start.
	ClusterTopicEnable bool `conf:"clusterTopicEnable" default:"true" apply:"restart"`
	// Create a topic named like the broker at start.
	BrokerTopicEnable bool `conf:"brokerTopicEnable" default:"true" apply:"restart"`
	// Create the message trace topic at start.
	TraceTopicEnable bool `conf:"traceTopicEnable" default:"false" apply:"restart"`
	// Name of the message trace topic.
	MsgTraceTopicName string `conf:"msgTraceTopicName" default:"RMQ_SYS_TRACE_TOPIC" apply:"restart"`
	// Refuse administrative changes of system topics.
	ValidateSystemTopicWhenUpdateTopic bool `conf:"validateSystemTopicWhenUpdateTopic" default:"true" apply:"hot"`
	// Delete a topic's retry topics of pop consumers together with it.
	ClearRetryTopicWhenDeleteTopic bool `conf:"clearRetryTopicWhenDeleteTopic" default:"true" apply:"hot"`
	// Allow topics of message type MIXED.
	EnableMixedMessageType bool `conf:"enableMixedMessageType" default:"false" apply:"hot"`
}

// Sending are the rules and limits of the write path.
type Sending struct {
	// Answer SYSTEM_BUSY to requests that waited longer than the limits below.
	BrokerFastFailureEnable bool `conf:"brokerFastFailureEnable" default:"true" apply:"hot"`
	// Longest time a pull waits for its turn.
	WaitTimeMillsInPullQueue int64 `conf:"waitTimeMillsInPullQueue" default:"5000" min:"0" unit:"ms" apply:"hot"`
	// Longest time an administrative request waits for its turn.
	WaitTimeMillsInAdminBrokerQueue int64 `conf:"waitTimeMillsInAdminBrokerQueue" default:"5000" min:"0" unit:"ms" apply:"hot"`
	// Sends that may wait at once; more are answered SYSTEM_BUSY.
	SendThreadPoolQueueCapacity int32 `conf:"sendThreadPoolQueueCapacity" default:"10000" min:"1" apply:"restart"`
	// Pulls that may wait for their turn at once.
	PullThreadPoolQueueCapacity int32 `conf:"pullThreadPoolQueueCapacity" default:"100000" min:"1" apply:"restart"`
	// Light pulls that may wait for their turn at once.
	LitePullThreadPoolQueueCapacity int32 `conf:"litePullThreadPoolQueueCapacity" default:"100000" min:"1" apply:"restart"`
	// Acknowledgements of popped messages that may wait at once.
	AckThreadPoolQueueCapacity int32 `conf:"ackThreadPoolQueueCapacity" default:"100000" min:"1" apply:"restart"`
	// Message queries that may wait at once.
	QueryThreadPoolQueueCapacity int32 `conf:"queryThreadPoolQueueCapacity" default:"20000" min:"1" apply:"restart"`
	// End-of-transaction requests that may wait at once.
	EndTransactionPoolQueueCapacity int32 `conf:"endTransactionPoolQueueCapacity" default:"100000" min:"1" apply:"restart"`
	// Administrative requests that may wait at once.
	AdminBrokerThreadPoolQueueCapacity int32 `conf:"adminBrokerThreadPoolQueueCapacity" default:"10000" min:"1" apply:"restart"`
	// Sends before this time (milliseconds since 1970) are refused; 0 refuses none.
	StartAcceptSendRequestTimeStamp int64 `conf:"startAcceptSendRequestTimeStamp" default:"0" min:"0" unit:"ms" apply:"hot"`
	// Write replies of request-reply messaging that cannot be pushed to their requester into the reply topic.
	StoreReplyMessageEnable bool `conf:"storeReplyMessageEnable" default:"true" apply:"hot"`
	// Keep a table of connected producers.
	EnableRegisterProducer bool `conf:"enableRegisterProducer" default:"true" apply:"hot"`
}

// Consuming are the rules and limits of pull and pop consumers.
type Consuming struct {
	// Hold a pull that finds nothing until a message arrives or the client's time is over.
	LongPollingEnable bool `conf:"longPollingEnable" default:"true" apply:"hot"`
	// How long such a pull waits when longPollingEnable is false.
	ShortPollingTimeMills int64 `conf:"shortPollingTimeMills" default:"1000" min:"1" unit:"ms" apply:"hot"`
	// Accept subscriptions by SQL92 expression on message properties.
	EnablePropertyFilter bool `conf:"enablePropertyFilter" default:"false" apply:"hot"`
	// Filter retry messages by the expression too.
	FilterSupportRetry bool `conf:"filterSupportRetry" default:"false" apply:"hot"`
	// Refuse consumers that pull by themselves.
	RejectPullConsumerEnable bool `conf:"rejectPullConsumerEnable" default:"false" apply:"hot"`
	// Accept light pull requests.
	LitePullMessageEnable bool `conf:"litePullMessageEnable" default:"true" apply:"hot"`
	// Tell the members of a group at once when one comes or goes.
	NotifyConsumerIdsChangedEnable bool `conf:"notifyConsumerIdsChangedEnable" default:"true" apply:"hot"`
	// Let an administrative reset of offsets take effect in the broker, without the help of the clients.
	UseServerSideResetOffset bool `conf:"useServerSideResetOffset" default:"true" apply:"hot"`
	// Remember offsets of broadcast consumers that come through a proxy.
	EnableBroadcastOffsetStore bool `conf:"enableBroadcastOffsetStore" default:"true" apply:"hot"`
	// Forget such an offset when its client has been away this long.
	BroadcastOffsetExpireSecond int64 `conf:"broadcastOffsetExpireSecond" default:"120" min:"1" unit:"s" apply:"hot"`
	// Forget it after this time in any case.
	BroadcastOffsetExpireMaxSecond int64 `conf:"broadcastOffsetExpireMaxSecond" default:"300" min:"1" unit:"s" apply:"hot"`
	// Close a client's connection that has sent no heartbeat for this long.
	ChannelExpiredTimeout int64 `conf:"channelExpiredTimeout" default:"120000" min:"1000" unit:"ms" apply:"hot"`
	// Distribute queues to consumers in the broker.
	ServerLoadBalancerEnable bool `conf:"serverLoadBalancerEnable" default:"true" apply:"hot"`
	// How a group without a setting of its own receives messages.
	DefaultMessageRequestMode string `conf:"defaultMessageRequestMode" default:"PULL" enum:"PULL,POP" apply:"hot"`
}

// Transactions are the rules of transactional messages.
type Transactions struct {
}

// Registration is how a broker announces itself to name servers.
type Registration struct {
	// Time between two registrations of everything.
	RegisterNameServerPeriod int32 `conf:"registerNameServerPeriod" default:"30000" min:"1000" unit:"ms" apply:"restart"`
	// Longest time a registration may take.
	RegisterBrokerTimeoutMills int32 `conf:"registerBrokerTimeoutMills" default:"24000" min:"100" unit:"ms" apply:"hot"`
	// Compress the topic table of a registration.
	CompressedRegister bool `conf:"compressedRegister" default:"false" apply:"hot"`
	// Time between two heartbeats to the name servers.
	BrokerHeartbeatInterval int32 `conf:"brokerHeartbeatInterval" default:"1000" min:"100" unit:"ms" apply:"restart"`
	// How long the name servers wait for one before they drop the broker.
	BrokerNotActiveTimeoutMillis int64 `conf:"brokerNotActiveTimeoutMillis" default:"10000" min:"100" unit:"ms" apply:"restart"`
	// Longest time a heartbeat may take.
	SendHeartbeatTimeoutMillis int32 `conf:"sendHeartbeatTimeoutMillis" default:"1000" min:"1" unit:"ms" apply:"restart"`
	// Register a second broker name for one in-sync replica that forwards to the master, so that a client's retry
	// reaches the set while its master is being replaced.
	StandbyRoute bool `conf:"standbyRoute" default:"true" apply:"restart"`
}

func (*Broker) classes() classes {
	return classes{
		listed:   []string{"BrokerConfig", "MessageStoreConfig", "NettyServerConfig", "NettyClientConfig"},
		accepted: []string{"AuthConfig", "System", "Removed"},
	}
}

func (b *Broker) configFile() *string { return &b.BrokerConfigPath }

// complete follows BrokerStartup and MessageStoreConfig, which fill the same values while they start.
func (b *Broker) complete(_ string, r *Report) {
	if b.BrokerName == "" {
		b.BrokerName = hostName()
	}
	if b.BrokerIP1 == "" || b.BrokerIP2 == "" {
		addr := localAddress()
		if b.BrokerIP1 == "" {
			b.BrokerIP1 = addr
			r.adjusted("brokerIP1", addr, "not given: clients are told the address of the default route")
		}
		if b.BrokerIP2 == "" {
			b.BrokerIP2 = addr
		}
	}
	if b.HaListenPort <= 0 && b.ListenPort > 0 {
		b.HaListenPort = b.ListenPort + 1
	}
	if b.FastListenPort == 0 && b.ListenPort > 2 {
		b.FastListenPort = b.ListenPort - 2
	}
	if !b.EnableControllerMode && b.BrokerRole != "SLAVE" && b.BrokerId != 0 {
		r.adjusted("brokerId", "0", fmt.Sprintf("%d was given, but a master's id is 0 without controller mode", b.BrokerId))
		b.BrokerId = 0
	}
	b.completePaths()
}

func (b *Broker) check() error {
	var errs []error
	if !b.EnableControllerMode { // without controllers nothing is replicated, and a broker must not start as if it were
		const instead = "; use enableControllerMode=true and controllerAddr"
		switch {
		case b.BrokerRole == "SLAVE":
			errs = append(errs, errors.New("brokerRole: a SLAVE without controllers is not supported"+instead))
		case b.BrokerRole == "SYNC_MASTER" && max(b.InSyncReplicas, b.MinInSyncReplicas) > 1:
			errs = append(errs, errors.New("inSyncReplicas, minInSyncReplicas: a SYNC_MASTER without controllers has no second copy"+instead))
		}
	}
	if b.EnableControllerMode && b.ControllerAddr == "" {
		errs = append(errs, errors.New("controllerAddr: enableControllerMode=true needs the controllers' addresses"))
	}
	if strings.Contains(b.StorePathCommitLog, ",") {
		errs = append(errs, errors.New("storePathCommitLog: a commit log in several directories is not supported"))
	}
	return errors.Join(errs...)
}

func hostName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "DEFAULT_BROKER"
}
