package admin

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/castor-mq/castor/internal/fastjson"
)

func topics(c *cluster) {
	c.must("clusterList", `(?m)^DefaultCluster +broker-a +0 +$BROKER +V5_\d+_\d+ +\d+\.\d\d\(\d+,\d+ms\) .* true$`)
	c.must("clusterList -m", `(?m)^DefaultCluster +broker-a +0 +0 +0 +0$`)
	c.must("clusterList --json", `"brokerName": "broker-a", "bid": 0, "addr": "$BROKER"`)
	c.must("updateTopic -c DefaultCluster -t T -r 2 -w 2", `^create topic to $BROKER success\.\nTopicConfig \[topicName=T, readQueueNums=2, writeQueueNums=2, perm=RW-, .* attributes=\{\}\]\n$`)
	c.must("updateTopic -b $BROKER -t Ordered -r 2 -w 2 -o true -a +message.type=FIFO", `set broker orderConf\. isOrder=true, orderConf=\[broker-a:2\]`)
	c.until("the route", "topicRoute -t T", `(?s)"brokerAddrs":\{\s+0:"$BROKER"\s+\}.*"writeQueueNums":2`)
	c.must("topicRoute -t T -l", `(?m)^Total: +1 +2 +2 *$`)
	c.refused("topicRoute -t None", `^mqadmin topicRoute: CODE: 17  DESC: `)
	c.refused("updateTopic -b $BROKER -t bad.topic!", `CODE: \d+  DESC: .* BROKER: 127`)
	c.refused("updateTopic -c None -t T", `no broker of a cluster "None"`)
	c.refused("brokerStatus -b 127.0.0.1:1", `refused`)
	c.must("topicStatus -t T", `(?m)^broker-a +1 +0 +0 *$`)
	c.must("topicClusterList -t T", `^DefaultCluster\n$`)
	c.must("topicList", `(?m)^T$`)
	c.must("topicList -c", `(?m)^DefaultCluster +T *$`)
	file := filepath.Join(c.dir, "topics.json")
	if err := os.WriteFile(file, []byte(`[{"topicName":"L1","readQueueNums":1,"writeQueueNums":1},{"topicName":"L2"}]`), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("updateTopicList -b $BROKER -f $DIR/topics.json", `^submit batch of topic config to $BROKER success, please check the result later\.`)
	c.until("the route", "topicRoute -t L1", `"readQueueNums":1`)
	c.refused("updateTopicList -b $BROKER -f $DIR/none.json", `no such file`)
	c.must("updateTopicPerm -b $BROKER -t Ordered -p 4", `^update topic perm from 6 to 4 in $BROKER success\.\nTopicConfig \[topicName=Ordered, .*perm=R--.*order=true`)
	c.must("updateTopicPerm -c DefaultCluster -t Ordered -p 4", `has the perm 4 in $BROKER already`)
	c.must("updateOrderConf -t Ordered -m get", `orderConf=\[broker-a:2\]`)
	c.must("updateOrderConf -t Ordered -m put -v a:1", `update orderConf success\.`)
	c.must("updateOrderConf -t Ordered -m delete", `delete orderConf success\.`)
	c.refused("updateOrderConf -t Ordered -m get", `CODE: 22 `)
	c.must("allocateMQ -t T -i b,a", `^\{"result":\{"a":\[\{"brokerName":"broker-a","queueId":0,"topic":"T"\}\],"b":\[\{.*"queueId":1,`)
}

func messages(c *cluster, unique, offset string) {
	block := `(?m)^Topic: +T\nTags: +\[TagB\]\nKeys: +\[k1 both\]\nQueue ID: +1\nQueue Offset: +0\n`
	path := c.must("queryMsgById -t T -i "+offset, block+`(?:.*\n)*Store Host: +$BROKER\n(?:.*\n)*Message Body Path: +(.*)\n(?:.*\n)*MessageTrack \[consumerGroup=G, trackType=CONSUMED_BUT_FILTERED, exceptionDesc=null\]`)[0]
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" || !strings.HasPrefix(path, os.Getenv("TMPDIR")) {
		c.t.Errorf("the body in %s: %q, %v", path, text, err)
	}
	c.must("queryMsgById -t T -i "+offset+" -f UTF-8", `(?m)^Message Body: +first$`)
	c.must("queryMsgById -t T -i "+offset+" -g G -d 10.0.0.9@test", `^ConsumeMessageDirectlyResult \[order=false, autoCommit=true, consumeResult=CR_SUCCESS, remark=null, spentTimeMills=1\]`)
	c.must("queryMsgByUniqueKey -t T -i "+unique, block)
	c.must("queryMsgByUniqueKey -t T -i "+unique+" -a", block)
	c.must("queryMsgByOffset -t T -b broker-a -i 1 -o 0", block)
	c.must("queryMsgByOffset -t T -b broker-a -i 1 -o 99", `^$`)
	c.refused("queryMsgById -t T -i "+offset[:16]+"00000000FFFFFFF0", `CODE: 208 `)
	c.must("queryMsgByKey -t T -k both", `^#Message ID .*\n\w{32} +1 +0 .*\n\w{32} +1 +1 +\d+@T@K@both@`)
	c.must("queryMsgByKey -t T -k both -m 1", `^#Message ID .*\n.*\n$`)
	c.refused("queryMsgByKey -t T -k none", `CODE: 208 `)
	c.must("queryCq -t T -q 1 -i 0 -c 2 -g G", `(?s)"subString":"TagA".*max: 2, min: 0\n=+\nidx: 0\nConsumeQueueData\{physicOffset=\d+,.*idx: 1\n`)
	c.must("printMsg -t T", `(?s)^minOffset=0, maxOffset=1, MessageQueue \[topic=T, brokerName=broker-a, queueId=0\]\nMSGID: .* BODY: zero\n-+\nminOffset=0, maxOffset=2,.* BODY: first\n.* BODY: second\n-+\n$`)
	c.must("printMsg -t T -s TagB -d false", `(?s)queueId=0\]\n-+\n.*TAGS=TagB.* BODY: NOT PRINT BODY\n-+\n$`)
	c.must("printMsg -t T -b now", `(?s)^minOffset=1, maxOffset=1, .*\n-+\nminOffset=2, maxOffset=2, `)
	c.must("printMsgByQueue -t T -a broker-a -i 1 -p true -d true", `^MSGID: .* BODY: first\nMSGID: .* BODY: second\n$`)
	c.must("printMsgByQueue -t T -a broker-a -i 1 -f true", `^Tag: TagA +Count: 1\nTag: TagB +Count: 1\n$`)
	c.must("consumeMessage -t T -b broker-a -i 1", `(?s)^Consume ok\nMSGID: .* BODY: first\n.*BODY: second\nMessageQueue \[.*\] print msg finished\. status=NO_NEW_MSG, offset=2\n$`)
	c.must("consumeMessage -t T -b broker-a -i 1 -o 1 -c 1 -g G", `^Consume ok\nMSGID: .* BODY: second\n`)
	c.refused("consumeMessage -t T -i 1", `-i wants -b`)
	c.must("sendMessage -t L1 -p hello -k k -c TagS -b broker-a -i 0", `(?m)^broker-a +0 +SEND_OK +[0-9A-F]{32}$`)
	c.must("printMsg -t L1", `TAGS=TagS,.* BODY: hello\n`)
	c.must("queryMsgById -t T -s true -i "+offset, `^prepare resend msg\. originalMsgId=`+unique+`\nSendResult \[sendStatus=SEND_OK, `)
	c.refused("sendMessage -t L1 -p x -b broker-a -i 7", `no such queue`)
	c.must("checkMsgSendRT -t L1 -a 3 -s 10", `^#Broker Name .*\n(?:broker-a +0 +true +\d+\n){3}Avg RT: \d+\.\d\d\n$`)
	c.must("sendMessage -t MadeBySend -p x", `SEND_OK`)
}

func groups(c *cluster) {
	c.must("consumerConnection -g G", `(?s)^#ClientId .*\n10\.0\.0\.9@test +127\.0\.0\.1:\d+ +GO +V5_5_0\n\nBelow is subscription:\n.*T +TagA\n\nConsumeType: CONSUME_PASSIVELY\nMessageModel: CLUSTERING\n`)
	c.refused("consumerConnection -g None", `CODE: 17 `)
	c.must("producerConnection -g P -t T", `^0001  10\.0\.0\.9@test +127\.0\.0\.1:\d+ +GO +V5_5_0\n$`)
	c.must("producer -b $BROKER", `^producer group \(P\) instance : clientId=10\.0\.0\.9@test,remoteIP=/127\.0\.0\.1:\d+, language=GO, version=513, lastUpdateTimestamp=\d+\n$`)
	c.must("consumerProgress -g G -t T", `(?m)^T +broker-a +0 +\d+ +1 +`)
	c.must("consumerProgress -g G -s true", `(?m)^T +broker-a +1 +\d+ +1 +10\.0\.0\.9 +\d+ +\d+ +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`)
	c.must("consumerProgress", `(?m)^G +1 +V5_5_0 +PUSH +CLUSTERING +\d+ +\d+$`)
	file := c.must("consumerStatus -g G", `(?s)^#Index .*\n1 +10\.0\.0\.9@test +V5_5_0 +(\d+/10\.0\.0\.9@test)\n.*Same subscription in the same group of consumer\n\nRebalance OK\n`)[0]
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "#Consumer Properties#\n") {
		c.t.Errorf("%s holds %.40q, %v", file, text, err)
	}
	c.must("consumerStatus -g G -i 10.0.0.9@test", `(?m)^T +broker-a +1 +1 *$`)
	c.refused("consumerStatus -g G -i nobody", `CODE: 1  DESC: .*not online`)

	c.must("updateSubGroup -c DefaultCluster -g H -r 5", `^create subscription group to $BROKER success\.\nSubscriptionGroupConfig\{groupName=H, consumeEnable=true, consumeFromMinEnable=false, .*retryMaxTimes=5,`)
	c.must("getConsumerConfig -g H", `^=+DefaultCluster:broker-a=+\ngroupName +=  H\n(?:.*\n)*retryMaxTimes +=  5\n`)
	c.must("getConsumerConfig -g None", `^$`)
	if err := os.WriteFile(filepath.Join(c.dir, "groups.json"), []byte(`[{"groupName":"L1"}]`), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.must("updateSubGroupList -b $BROKER -f $DIR/groups.json", `^submit batch of group config to $BROKER success, `)
	c.must("getConsumerConfig -g L1", `(?m)^consumeBroadcastEnable +=  true$`)

	c.must("cloneGroupOffset -s G -d H -t T", `^clone group offset success\. srcGroup\[G\], destGroup=\[H\], topic\[T\]\n`)
	c.must("consumerProgress -g H -t T", `(?m)^T +broker-a +0 +\d+ +1 +\d+ `)
	c.must("resetOffsetByTime -g H -t T -s 0", `(?s)^start reset consumer offset by specified, group\[H\], topic\[T\], force\[true\], timestamp\(string\)\[0\], timestamp\(long\)\[0\]\n.*\nbroker-a +0 +0 *\nbroker-a +1 +0 *\n$`)
	c.must("resetOffsetByTime -g H -t T -s now -b $BROKER -q 1 -o 1", `queueId\[1\].*\nreset consumer offset to 1\n$`)
	c.must("resetOffsetByTime -g H -t T -s 0 -b $BROKER -q 1", `reset consumer offset to 0\n$`)
	c.must("consumerProgress -g H -t T", `(?m)^T +broker-a +1 +\d+ +0 +\d+ `)
	c.must("skipAccumulatedMessage -g H -t T", `(?m)^broker-a +1 +[23] *$`)
	c.must("consumerProgress -g H -t T", `Consume Diff Total: 0\n`)
	c.refused("resetOffsetByTime -g H -t None -s now", `CODE: 17 `)
	c.must("deleteSubGroup -b $BROKER -g H -r true", `^delete subscription group \[H\] from broker \[$BROKER\] success\.\n$`)
	c.must("getConsumerConfig -g H", `^$`)
	c.must("deleteSubGroup -c DefaultCluster -g L1", `in cluster \[DefaultCluster\] success\.\n$`)
}

func servers(c *cluster) {
	c.must("brokerStatus -b $BROKER", `(?m)^brokerVersionDesc +: V5_\d+_\d+$`)
	c.must("brokerStatus -c DefaultCluster", `(?m)^$BROKER +putTps +: \d+\.\d`)
	c.must("brokerConsumeStats -b $BROKER", `(?m)^T +G +broker-a +1 +\d+ +1 +\d+ +\d{4}-.*$`)
	c.must("statsAll -t T", `(?m)^T +G +\d+ +\d+\.\d\d +\d+\.\d\d +\d+ +\d+$`)
	c.must("getBrokerConfig -b $BROKER", `^============$BROKER============\n(?:.*\n)*brokerName +=  broker-a\n`)
	c.must("getBrokerConfig -c DefaultCluster", `^============Master: $BROKER============\n`)
	c.must("updateBrokerConfig -b $BROKER -k waitTimeMillsInPullQueue -v 4321", `^update broker config success, $BROKER\n$`)
	c.must("getBrokerConfig -b $BROKER", `(?m)^waitTimeMillsInPullQueue +=  4321$`)
	c.must("updateBrokerConfig -c DefaultCluster -a true -k waitTimeMillsInPullQueue -v 5000", `^update broker config success, $BROKER\n$`)
	c.refused("updateBrokerConfig -b $BROKER -k brokerConfigPath -v x", `CODE: 16 `)
	c.must("status", `acknowledged means: one broker has the message, in memory`)
	c.must("haStatus -b $BROKER", `(?m)^#MasterAddr\t$BROKER\n#MasterCommitLogMaxOffset\t[1-9]\d*\n#SlaveNum\t0\n`)
	for _, command := range []string{"cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"} {
		c.must(command+" -b $BROKER", `^success\n$`)
		c.must(command, `^success\n$`)
	}
	c.must("getNamesrvConfig", `^============$NAMES============\n(?:.*\n)*kvConfigPath +=  $DIR/kv.json\n`)
	c.must("updateNamesrvConfig -k returnOrderTopicConfigToBroker -v false", `^update name server config success!\[$NAMES\]\nreturnOrderTopicConfigToBroker : false\n$`)
	c.must("getNamesrvConfig", `(?m)^returnOrderTopicConfigToBroker +=  false$`)
	c.must("updateKvConfig -s ORDER_TOPIC_CONFIG -k K -v b:7", `^create or update kv config to namespace success\.\n$`)
	c.must("updateOrderConf -t K -m get", `orderConf=\[b:7\]`)
	c.must("deleteKvConfig -s ORDER_TOPIC_CONFIG -k K", `^delete kv config from namespace success\.\n$`)
	c.must("wipeWritePerm -b broker-a", `^wipe write perm of broker\[broker-a\] in name server\[$NAMES\] OK, [1-9]\d*\n$`)
	c.must("topicRoute -t T", `"perm":4`)
	c.refused("sendMessage -t T -p x", `no broker takes messages`)
	c.must("addWritePerm -b broker-a", `^add write perm of broker\[broker-a\] in name server\[$NAMES\] OK, [1-9]\d*\n$`)
	c.must("topicRoute -t T", `"perm":6`)
}

func exports(c *cluster) {
	read := func(line, path string, document any) {
		c.t.Helper()
		c.must(line, `^export $DIR/`+path+` success\n$`)
		text, err := os.ReadFile(filepath.Join(c.dir, path))
		if err == nil {
			err = fastjson.Unmarshal(text, document)
		}
		if err != nil {
			c.t.Error(err)
		}
	}
	var all struct {
		Topics map[string]any `json:"topicConfigTable"`
		Groups map[string]any `json:"subscriptionGroupTable"`
	}
	read("exportMetadata -c DefaultCluster -f $DIR/x", "x/metadata.json", &all)
	if all.Topics["T"] == nil || all.Topics["TBW102"] != nil || all.Topics["%RETRY%G"] != nil || all.Groups["G"] == nil || all.Groups["TOOLS_CONSUMER"] != nil {
		c.t.Errorf("metadata %v", all)
	}
	all.Topics, all.Groups = nil, nil
	read("exportMetadata -b $BROKER -f $DIR/x -t -s", "x/topic.json", &all)
	if all.Topics["T"] == nil || all.Topics["%RETRY%G"] == nil || all.Groups != nil {
		c.t.Errorf("topics %v", all)
	}
	read("exportMetadata -b $BROKER -f $DIR/x -g", "x/subscriptionGroup.json", &all)
	if all.Groups["G"] == nil {
		c.t.Errorf("groups %v", all)
	}
	var configs struct {
		Scale   map[string]int               `json:"clusterScale"`
		Brokers map[string]map[string]string `json:"brokerConfigs"`
	}
	read("exportConfigs -c DefaultCluster -f $DIR/x", "x/configs.json", &configs)
	if configs.Scale["masterBrokerSize"] != 1 || configs.Brokers["broker-a"]["maxMessageSize"] == "" {
		c.t.Errorf("configs %v", configs)
	}
}

func goodbye(c *cluster) {
	c.must("deleteTopic -c DefaultCluster -t T", `^delete topic \[T\] from cluster \[DefaultCluster\] success\.\ndelete topic \[T\] from NameServer success\.\n$`)
	c.refused("topicRoute -t T", `CODE: 17 `)
	c.refused("deleteTopic -c DefaultCluster -t SCHEDULE_TOPIC_XXXX", `CODE: \d+ `)
}
