package conf

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Controller is the configuration of mqcontroller. Java: ControllerConfig and NettyServerConfig.
type Controller struct {
	Quorum
	Server
	TLS
	Metrics
}

// Quorum are the keys of the controller itself.
type Quorum struct {
	// Name of the quorum.
	ControllerDLegerGroup string `conf:"controllerDLegerGroup" apply:"startup"`
	// Members of the quorum, id-host:port separated by semicolons. The address serves raft and requests alike.
	ControllerDLegerPeers string `conf:"controllerDLegerPeers" form:"peers" apply:"startup"`
	// Which of them this process is.
	ControllerDLegerSelfId string `conf:"controllerDLegerSelfId" apply:"startup"`
	// Directory of everything the controller keeps. Empty: DLedgerController in the home directory.
	ControllerStorePath string `conf:"controllerStorePath" apply:"deny"`
	// Time between two looks for brokers whose heartbeats stopped.
	ScanNotActiveBrokerInterval int64 `conf:"scanNotActiveBrokerInterval" default:"5000" min:"10" unit:"ms" apply:"restart"`
	// Elect a replica that is not in sync when no other lives. Acknowledged messages can be lost.
	EnableElectUncleanMaster bool `conf:"enableElectUncleanMaster" default:"false" apply:"hot"`
	// Tell brokers at once when their role changes.
	NotifyBrokerRoleChanged bool `conf:"notifyBrokerRoleChanged" default:"true" apply:"hot"`
	// Requests that may wait at once; more are answered SYSTEM_BUSY.
	ControllerRequestThreadPoolQueueCapacity int32 `conf:"controllerRequestThreadPoolQueueCapacity" default:"50000" min:"1" apply:"restart"`
	// Installation directory. Nothing has to exist there.
	RocketmqHome string `conf:"rocketmqHome" apply:"deny"`
	// The properties file that run-time changes are written to: the one given with -c.
	ConfigStorePath string `conf:"configStorePath" default:"~/controller/controller.properties" apply:"deny"`
	// Keys that a run-time change may not name, separated by semicolons. Paths are always refused.
	ConfigBlackList string `conf:"configBlackList" default:"configBlackList;configStorePath" apply:"deny"`
}

func (*Controller) classes() classes {
	return classes{
		listed:   []string{"ControllerConfig", "NettyServerConfig"},
		accepted: []string{"NettyClientConfig", "JraftConfig", "System", "Removed"},
	}
}

func (c *Controller) configFile() *string { return &c.ConfigStorePath }

func (c *Controller) complete(home string, _ *Report) {
	if c.ControllerStorePath == "" {
		c.ControllerStorePath = filepath.Join(home, "DLedgerController")
	}
}

func (c *Controller) check() error {
	peers, err := Peers(c.ControllerDLegerPeers)
	if err != nil {
		return err
	}
	if len(peers) == 0 {
		return errors.New("controllerDLegerPeers: missing (the jRaft keys are not read)")
	}
	for _, p := range peers {
		if p.ID == c.ControllerDLegerSelfId {
			return nil
		}
	}
	return fmt.Errorf("controllerDLegerSelfId: %q is none of controllerDLegerPeers", c.ControllerDLegerSelfId)
}
