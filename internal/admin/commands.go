package admin

import (
	"slices"
	"strings"
)

// commands is the table of all commands, in the order of the help.
func commands() []command {
	return slices.Concat(clusterCommands(), statusCommands(), topicCommands(), groupCommands(), offsetCommands(), clientCommands(), queryCommands(), readCommands(), sendCommands(),
		brokerCommands(), statsCommands(), namesrvCommands(), controllerCommands(), exportCommands())
}

// absentCommands are the commands of RocketMQ 5.5.0's tool that this one does not have: they serve what Castor does not have, or has
// tools of its own for.
var absentCommands = []string{
	"setConsumeMode", "addBroker", "removeBroker", "resetMasterFlushOffset", "queryMsgTraceById", "sendMsgStatus", "startMonitoring", "clusterRT",
	"updateStaticTopic", "remappingStaticTopic", "exportMetrics", "exportMetadataInRocksDB", "exportPopRecord", "dumpCompactionLog",
	"getColdDataFlowCtrInfo", "updateColdDataFlowCtrGroupConfig", "removeColdDataFlowCtrGroupConfig", "setCommitLogReadAheadMode", "createUser",
	"updateUser", "deleteUser", "getUser", "listUser", "copyUser", "createAcl", "updateAcl", "deleteAcl", "getAcl", "listAcl", "copyAcl",
	"rocksDBConfigToJson", "checkRocksdbCqWriteProgress", "switchTimerEngine", "getBrokerLiteInfo", "getParentTopicInfo", "getLiteTopicInfo",
	"getLiteClientInfo", "getLiteGroupInfo", "triggerLiteDispatch",
}

func absent(name string) bool {
	return slices.ContainsFunc(absentCommands, func(n string) bool { return strings.EqualFold(n, name) })
}

// Options that many commands have in the same form.
func onBroker(brief string) option  { return option{short: "b", long: "brokerAddr", brief: brief} }
func onCluster(brief string) option { return option{short: "c", long: "clusterName", brief: brief} }
func aTopic() option                { return option{short: "t", long: "topic", required: true, brief: "topic"} }

// routeBy is for commands that find brokers by the route of a topic: with it by that of another topic, such as the parent of a lite
// topic, or of a cluster, which is a topic, too.
func routeBy() option {
	return option{short: "c", long: "cluster", as: byRoute, brief: "find the brokers by the route of this cluster or topic instead"}
}

const byRoute = "route"

// brokerOrCluster are the two ways to say which brokers are meant.
var brokerOrCluster = []string{"b", "c"}
