package admin

import (
	"slices"
	"strings"
	"testing"

	"github.com/castor-mq/castor/remoting/body"
	"github.com/castor-mq/castor/remoting/code"
	"github.com/castor-mq/castor/remoting/header"
)

// What the controllers and brokers answered when the outputs of testdata/golden/c* were made.
var (
	quorum = &header.GetMetaDataResponse{Group: "group1", ControllerLeaderID: "n1", ControllerLeaderAddress: "127.0.0.1:39868",
		Peers: "n0:127.0.0.1:39878;n1:127.0.0.1:39868;n2:127.0.0.1:39858;"}
	haAddrs    = map[int64]string{1: "127.0.0.1:40911", 2: "127.0.0.1:41911"}
	haClusters = body.ClusterInfo{ClusterAddrTable: map[string][]string{"HaCluster": {"broker-b"}},
		BrokerAddrTable: map[string]body.BrokerData{"broker-b": {Cluster: "HaCluster", BrokerName: "broker-b", BrokerAddrs: map[int64]string{0: haAddrs[2], 1: haAddrs[1]}}}}
)

func inSync(master int64, epoch, setEpoch int32, set ...int64) body.BrokerReplicasInfo {
	g := body.ReplicasInfo{MasterBrokerID: &master, MasterAddress: haAddrs[master], MasterEpoch: epoch, SyncStateSetEpoch: setEpoch}
	for _, id := range []int64{1, 2} {
		r := body.ReplicaIdentity{Alive: true, BrokerAddress: haAddrs[id], BrokerID: id, BrokerName: "broker-b"}
		if slices.Contains(set, id) {
			g.InSyncReplicas = append(g.InSyncReplicas, r)
		} else {
			g.NotInSyncReplicas = append(g.NotInSyncReplicas, r)
		}
	}
	return body.BrokerReplicasInfo{ReplicasInfoTable: map[string]body.ReplicasInfo{"broker-b": g}}
}

func haEpochs(addr string, _ map[string]string) any {
	e := body.EpochEntryCache{BrokerName: "broker-b", ClusterName: "HaCluster", MaxOffset: 18135,
		EpochList: []body.EpochEntry{{Epoch: 1, EndOffset: 9880}, {Epoch: 2, StartOffset: 9880, EndOffset: 1<<63 - 1}}}
	if addr == haAddrs[1] {
		e.BrokerID = 1
	}
	return e
}

func TestElectMaster(t *testing.T) {
	got, s, err := play(t, "electMaster -a 127.0.0.1:39878 -b 1 -bn broker-b -c HaCluster", map[code.Request]any{
		code.ControllerGetMetadataInfo: quorum,
		code.ControllerElectMaster: func(_ string, fields map[string]string) any {
			if fields["brokerId"] != "1" || fields["designateElect"] != "true" || fields["brokerName"] != "broker-b" || fields["clusterName"] != "HaCluster" {
				t.Errorf("asked with %v", fields)
			}
			return pulledFrame{&header.ElectMasterResponse{MasterBrokerID: header.Some[int64](1), MasterAddress: haAddrs[1], MasterEpoch: header.Some[int32](3), SyncStateSetEpoch: header.Some[int32](5)},
				[]byte(`{"brokerMemberGroup":{"brokerAddrs":{1:"127.0.0.1:40911",2:"127.0.0.1:41911"},"brokerName":"broker-b","cluster":"HaCluster"},"syncStateSet":[1]}`)}
		}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "\n#ClusterName\tHaCluster\n#BrokerName\tbroker-b\n#BrokerMasterAddr\t127.0.0.1:40911\n#MasterEpoch\t3\n#SyncStateSetEpoch\t5\n"+
		"\t#Broker\t1\t127.0.0.1:40911\n\t#Broker\t2\t127.0.0.1:41911\n", got)
	if want := "CONTROLLER_ELECT_MASTER " + quorum.ControllerLeaderAddress; s.asked[1] != want {
		t.Errorf("asked %q, want %q: only the leader decides", s.asked[1], want)
	}
}

func TestCleanBrokerMetadata(t *testing.T) {
	got, _, err := play(t, "cleanBrokerMetadata -a 127.0.0.1:39878 -b 1;2 -bn broker-b -c HaCluster", map[code.Request]any{
		code.ControllerGetMetadataInfo: quorum,
		code.CleanBrokerData: func(_ string, fields map[string]string) any {
			if fields["brokerControllerIdsToClean"] != "1;2" || fields["isCleanLivingBroker"] != "false" {
				t.Errorf("asked with %v", fields)
			}
			return nil
		}})
	if err != nil || got != "clear broker broker-b metadata from controller success! \n" {
		t.Errorf("printed %q, %v", got, err)
	}
}

func TestControllerCommandsThatFail(t *testing.T) {
	leaderless := *quorum
	leaderless.ControllerLeaderAddress = ""
	for _, c := range []struct {
		line    string
		answers map[code.Request]any
		err     string
	}{
		{"getSyncStateSet -a 127.0.0.1:1", nil, "-b or -c"},
		{"getSyncStateSet -a 127.0.0.1:1 -b broker-b", map[code.Request]any{code.ControllerGetMetadataInfo: &leaderless}, "no controller leads"},
		{"getSyncStateSet -a 127.0.0.1:1 -b none", map[code.Request]any{code.ControllerGetMetadataInfo: quorum, code.ControllerGetSyncStateData: body.BrokerReplicasInfo{}}, `no broker name "none"`},
		{"getBrokerEpoch -b none", map[code.Request]any{code.GetBrokerClusterInfo: haClusters}, `the name "none"`},
		{"cleanBrokerMetadata -a 127.0.0.1:1 -bn broker-b", nil, "-c"},
		{"cleanBrokerMetadata -a 127.0.0.1:1 -bn broker-b -c HaCluster", map[code.Request]any{code.ControllerGetMetadataInfo: quorum,
			code.CleanBrokerData: &answerError{code: code.ControllerInvalidCleanBrokerMetadata, remark: "Broker [broker-b,  1] is still alive, clean up failure"}}, "CODE: 2009  DESC: Broker [broker-b,  1] is still alive"},
	} {
		_, _, err := play(t, c.line, c.answers)
		if err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", c.line, err, c.err)
		}
	}
}

func TestControllerConfigIsAskedOfEveryController(t *testing.T) {
	got, s, err := play(t, "getControllerConfig -a 127.0.0.1:1;127.0.0.1:2", map[code.Request]any{code.GetControllerConfig: []byte("enableElectUncleanMaster=false\n")})
	if err != nil || len(s.asked) != 2 {
		t.Fatalf("asked %q, %v", s.asked, err)
	}
	row := "enableElectUncleanMaster                          =  false\n"
	same(t, "============127.0.0.1:1============\n"+row+"============127.0.0.1:2============\n"+row, got)
}
