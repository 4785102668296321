"""mqadmin's commands for brokers, clusters, statistics, name servers and exports."""
import re

import group_cases
import topic_cases
from mqadmin import check, expect, relaxed_json
from world import PER_QUEUE, QUEUES

NUMERIC_RUNTIME_KEYS = """
    bootTimestamp earliestMessageTimeStamp startAcceptSendRequestTimeStamp putMessageEntireTimeMax
    putMessageTimesTotal putMessageFailedTimes putMessageSizeTotal putMessageAverageSize
    getMessageEntireTimeMax dispatchMaxBuffer dispatchBehindBytes pageCacheLockTimeMills commitLogMinOffset
    commitLogMaxOffset commitLogDiskRatio consumeQueueDiskRatio remainTransientStoreBufferNumbs
    sendThreadPoolQueueSize sendThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills
    pullThreadPoolQueueSize pullThreadPoolQueueCapacity pullThreadPoolQueueHeadWaitTimeMills
    litePullThreadPoolQueueSize queryThreadPoolQueueSize ackThreadPoolQueueSize EndTransactionQueueSize
    EndTransactionThreadPoolQueueCapacity timerReadBehind timerOffsetBehind timerCongestNum timerEnqueueTps
    timerDequeueTps msgPutTotalYesterdayMorning msgPutTotalTodayMorning msgPutTotalTodayNow
    msgGetTotalYesterdayMorning msgGetTotalTodayMorning msgGetTotalTodayNow
""".split()
NUMBER = r"-?\d+(\.\d+)?(E-?\d+)?"


def clusterList(w):
    row, = w.admin("clusterList").table("#Cluster Name")
    expect((row["Cluster Name"], row["Broker Name"], row["BID"], row["Addr"], row["ACTIVATED"]),
           (w.cluster, w.broker_name, "0", w.broker, "true"), "row")
    check(re.fullmatch(r"V5_\d+_\d+", row["Version"]), f"version {row['Version']}")
    shapes = {"InTPS(LOAD)": r"\d+\.\d\d\(\d+,\d+ms\)", "OutTPS(LOAD)": r"\d+\.\d\d\(\d+,\d+ms\|\d+,\d+ms\)",
              "Timer(Progress)": r"\d+-\d+\(\d+\.\dw, \d+\.\d, \d+\.\d\)", "PCWait(ms)": r"\d+",
              "Hour": r"\d+\.\d\d", "SPACE": r"[01]\.\d{4}"}
    for column, shape in shapes.items():
        check(re.fullmatch(shape, row[column]), f"column {column}: {row[column]!r}")


def clusterList_with_statistics(w):
    row, = w.admin("clusterList", "-m").table("#Cluster Name")
    expect((row["Cluster Name"], row["Broker Name"]), (w.cluster, w.broker_name), "row")
    check(int(row["InTotalToday"]) >= len(w.sent) and int(row["OutTotalToday"]) >= len(w.sent), f"totals {row}")


def clusterList_of_unknown_cluster(w):
    expect(w.admin("clusterList", "-c", w.name("None")).table("#Cluster Name"), [], "rows")


def brokerStatus(w):
    status = w.admin("brokerStatus", "-b", w.broker).pairs(": ")
    bad = {key: status.get(key) for key in NUMERIC_RUNTIME_KEYS if not re.fullmatch(NUMBER, status.get(key, ""))}
    check(not bad, f"not numbers: {bad}")
    for key in ("putTps", "getFoundTps", "getMissTps", "getTotalTps", "getTransferredTps"):
        # Averages of 10, 60 and 600 seconds; a young Java broker leaves out what it cannot know yet.
        check(re.fullmatch(rf"{NUMBER}( {NUMBER}){{0,2}}", status.get(key, "")), f"{key}: {status.get(key)}")
    shapes = {"brokerActive": "true", "brokerVersionDesc": r"V5_\d+_\d+",
              "runtime": r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]",
              "commitLogDirCapacity": r"Total : [\d.]+ \w+, Free : [\d.]+ \w+\.",
              "remainHowManyDataToFlush": r"[\d.]+ \w+",
              # Java has nothing to show before its first round of statistics.
              "putMessageDistributeTime": r"\[<=0ms\]:\d+ \[0~10ms\]:\d+ .* \[10s~\]:\d+|null"}
    for key, shape in shapes.items():
        check(re.fullmatch(shape, status.get(key, "")), f"{key}: {status.get(key)!r}")
    check(int(status["commitLogMaxOffset"]) > int(status["commitLogMinOffset"]) >= 0, "offsets of the log")
    check(int(status["putMessageTimesTotal"]) >= len(w.sent), f"putMessageTimesTotal {status['putMessageTimesTotal']}")


def brokerStatus_of_cluster(w):
    lines = w.admin("brokerStatus", "-c", w.cluster).lines()
    check(all(re.match(rf"{w.broker} +\w", line) for line in lines), "a line does not start with the address")
    check(any("brokerVersionDesc" in line for line in lines), "there is no brokerVersionDesc")


def brokerConsumeStats(w):
    result = w.admin("brokerConsumeStats", "-b", w.broker)
    rows = [row for row in result.table("#Topic") if row["Topic"] == w.topic and row["Group"] == w.offline]
    expect({int(row["QID"]): (row["Broker Name"], row["Broker Offset"]) for row in rows},
           {q: (w.broker_name, str(PER_QUEUE)) for q in range(QUEUES)}, "rows of the offline group")
    for row in rows:
        expect(int(row["Diff"]), PER_QUEUE - int(row["Consumer Offset"]), f"difference in {row}")
    result.match(r"^Diff Total: \d+$")


def statsAll(w):
    """Counts reach the totals of a day when the broker samples them, every ten seconds."""
    def counted():
        rows = {row.get("Consumer Group"): row for row in w.admin("statsAll", "-t", w.topic).table("#Topic")}
        online = rows[w.online]
        expect(online["Accumulation"], "0", "accumulation of the online group")
        expect(online["InMsg24Hour"], str(len(w.sent)), "messages in")
        check(int(online["OutMsg24Hour"]) >= len(w.sent) * 2 // 3, f"messages out: {online}")
    w.until("the counts", counted, 0.5)


def statsAll_of_all_topics(w):
    topics = {row["Topic"] for row in w.admin("statsAll").table("#Topic")}
    check(w.topic in topics, "the topic is missing")
    active = {row["Topic"] for row in w.admin("statsAll", "-a").table("#Topic")}
    check(w.topic in active and w.topic_of("Empty") not in active, "the active topics are wrong")


def getBrokerConfig(w):
    wanted = {"brokerName": w.broker_name, "brokerClusterName": w.cluster, "brokerId": "0",
              "listenPort": w.broker.split(":")[1], "namesrvAddr": w.namesrv, "brokerRole": "ASYNC_MASTER"}
    for option, head in ((("-b", w.broker), w.broker), (("-c", w.cluster), f"Master: {w.broker}")):
        config = w.admin("getBrokerConfig", *option).has(f"============{head}============").pairs("=  ")
        expect({key: config.get(key) for key in wanted}, wanted, "configuration")
        for key in ("maxMessageSize", "flushDiskType", "messageDelayLevel", "storePathRootDir"):
            check(config.get(key), f"the configuration lacks {key}")


def updateBrokerConfig(w):
    def value():
        return w.admin("getBrokerConfig", "-b", w.broker).pairs("=  ")["waitTimeMillsInPullQueue"]
    before = value()
    w.admin("updateBrokerConfig", "-b", w.broker, "-k", "waitTimeMillsInPullQueue", "-v", 4321).has(
        f"update broker config success, {w.broker}")
    expect(value(), "4321", "the key after the update")
    w.admin("updateBrokerConfig", "-c", w.cluster, "-k", "waitTimeMillsInPullQueue", "-v", before).has("success")
    expect(value(), before, "the key after the second update")


def updateBrokerConfig_takes_effect(w):
    """The permission of a broker is part of every route it announces."""
    w.admin("updateBrokerConfig", "-b", w.broker, "-k", "brokerPermission", "-v", 4).has("success")
    w.until("the route without write permission", lambda: expect(w.route(w.topic), (QUEUES, QUEUES, 4), "route"))
    w.admin("updateBrokerConfig", "-b", w.broker, "-k", "brokerPermission", "-v", 6).has("success")
    w.until("the old route", lambda: expect(w.route(w.topic), (QUEUES, QUEUES, 6), "route"))


def updateBrokerConfig_refusals(w):
    for key in ("brokerConfigPath", "rocketmqHome", "configBlackList"):
        w.admin("updateBrokerConfig", "-b", w.broker, "-k", key, "-v", "x").refused(16)
    # Tools of other versions send keys that this broker does not know.
    w.admin("updateBrokerConfig", "-b", w.broker, "-k", "noSuchKey", "-v", "x").has("success")


def getNamesrvConfig(w):
    config = w.admin("getNamesrvConfig").has(f"============{w.namesrv}============").pairs("=  ")
    expect(config.get("listenPort"), w.namesrv.split(":")[1], "listenPort")
    check("kvConfigPath" in config and "clusterTest" in config, "the configuration lacks keys")


def updateNamesrvConfig(w):
    for value in ("true", "false"):
        w.admin("updateNamesrvConfig", "-k", "returnOrderTopicConfigToBroker", "-v", value).has(
            f"update name server config success![{w.namesrv}]", f"returnOrderTopicConfigToBroker : {value}")
        config = w.admin("getNamesrvConfig").pairs("=  ")
        expect(config["returnOrderTopicConfigToBroker"], value, "the key after the update")
    w.admin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "x").refused(16)


def updateKvConfig_and_deleteKvConfig(w):
    """updateOrderConf reads what these commands write into its namespace."""
    key, namespace = w.name("Kv"), "ORDER_TOPIC_CONFIG"
    w.admin("updateKvConfig", "-s", namespace, "-k", key, "-v", "b:7").has(
        "create or update kv config to namespace success.")
    w.admin("updateOrderConf", "-t", key, "-m", "get").has("orderConf=[b:7]")
    w.admin("deleteKvConfig", "-s", namespace, "-k", key).has("delete kv config from namespace success.")
    w.admin("updateOrderConf", "-t", key, "-m", "get").refused(22)


def wipeWritePerm_and_addWritePerm(w):
    for command, words, perm in (("wipeWritePerm", "wipe write perm", 4), ("addWritePerm", "add write perm", 6)):
        found = w.admin(command, "-b", w.broker_name).match(
            rf"^{words} of broker\[{w.broker_name}\] in name server\[{w.namesrv}\] OK, (\d+)$")
        check(int(found[1]) > 10, f"{command} reached {found[1]} topics")
        expect(w.route(w.topic), (QUEUES, QUEUES, perm), f"route after {command}")
    w.admin("wipeWritePerm", "-b", w.name("None")).has("OK, 0")


def cleaning(w):
    """Nothing is old enough to go."""
    for command in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        for option in (("-b", w.broker), ("-c", w.cluster)):
            w.admin(command, *option).match("^success")
    for sent in (w.sent[0], w.sent[-1]):
        w.admin("queryMsgById", "-t", w.topic, "-i", sent.offset_id).has(w.topic)


def haStatus(w):
    for option in (("-b", w.broker), ("-c", w.cluster)):
        result = w.admin("haStatus", *option)
        result.match(rf"^#MasterAddr\t{w.broker}$")
        result.match(r"^#MasterCommitLogMaxOffset\t[1-9]\d*$")
        result.match(r"^#SlaveNum\t0$")
        result.match(r"^#InSyncSlaveNum\t0$")


def getBrokerEpoch_without_controller(w):
    w.admin("getBrokerEpoch", "-b", w.broker_name).refused(1)


def exportMetadata(w):
    folder = w.directory / "export"
    w.admin("exportMetadata", "-c", w.cluster, "-f", folder).has(f"export {folder}/metadata.json success")
    data = relaxed_json((folder / "metadata.json").read_text())
    expect(data["topicConfigTable"][w.topic]["readQueueNums"], QUEUES, "queues of the topic")
    check(w.offline in data["subscriptionGroupTable"], "the offline group is missing")
    check("TBW102" not in data["topicConfigTable"], "the table has a system topic")
    check(not [t for t in data["topicConfigTable"] if t.startswith("%RETRY%")], "the table has a retry topic")


def exportMetadata_of_topics(w):
    topic_cases.updateTopic_on_cluster_with_attributes(w)
    folder = w.directory / "export-topics"
    w.admin("exportMetadata", "-b", w.broker, "-f", folder, "-t").has(f"export {folder}/topic.json success")
    data = relaxed_json((folder / "topic.json").read_text())
    topic = data["topicConfigTable"][w.name("Fifo")]
    expect(topic, {"attributes": {"message.type": "FIFO"}, "order": False, "perm": 6, "readQueueNums": 2,
                   "topicFilterType": "SINGLE_TAG", "topicName": w.name("Fifo"), "topicSysFlag": 0,
                   "writeQueueNums": 2}, "topic")
    check(data["dataVersion"]["counter"] > 0, "the data version counts nothing")


def exportMetadata_of_groups(w):
    group_cases.updateSubGroup_retry_policy(w)
    folder = w.directory / "export-groups"
    w.admin("exportMetadata", "-b", w.broker, "-f", folder, "-g").has(
        f"export {folder}/subscriptionGroup.json success")
    data = relaxed_json((folder / "subscriptionGroup.json").read_text())
    group = data["subscriptionGroupTable"][w.name("Policy")]
    expect(group["groupRetryPolicy"], {"type": "EXPONENTIAL", "exponentialRetryPolicy": {
        "initial": 5000, "max": 7200000, "multiplier": 2}}, "retry policy")


def exportConfigs(w):
    folder = w.directory / "export"
    w.admin("exportConfigs", "-c", w.cluster, "-f", folder).has(f"export {folder}/configs.json success")
    data = relaxed_json((folder / "configs.json").read_text())
    expect(data["clusterScale"], {"namesrvSize": 1, "slaveBrokerSize": 0, "masterBrokerSize": 1}, "scale")
    config = data["brokerConfigs"][w.broker_name]
    expect((config["brokerId"], config["brokerRole"], config["maxMessageSize"]), ("0", "ASYNC_MASTER", "4194304"),
           "configuration")


def exportMetrics(w):
    folder = w.directory / "export"
    w.admin("exportMetrics", "-c", w.cluster, "-f", folder).has(f"export {folder}/metrics.json success")
    report = relaxed_json((folder / "metrics.json").read_text())["evaluateReport"][w.broker_name]
    check(report["runtimeQuota"]["topicSize"] > 0 and report["runtimeQuota"]["groupSize"] > 0, f"sizes in {report}")
    check("JAVA%V5_5_0" in report["runtimeVersion"]["clientInfo"], f"clients {report['runtimeVersion']}")
