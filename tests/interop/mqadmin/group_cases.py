"""mqadmin's commands for consumer groups, connections and offsets."""
import json
import re

from mqadmin import check, expect
from world import PER_QUEUE, QUEUES

TOTAL = QUEUES * PER_QUEUE


def updateSubGroup_on_broker(w):
    name = w.name("Plain")
    w.admin("updateSubGroup", "-b", w.broker, "-g", name).has(
        f"create subscription group to {w.broker} success.",
        f"SubscriptionGroupConfig{{groupName={name}, consumeEnable=true")
    # What is not given is false or a default of the tool, not the default of the broker.
    _config(w, name, consumeEnable="true", consumeFromMinEnable="false", consumeBroadcastEnable="false",
            consumeMessageOrderly="false", retryQueueNums="1", retryMaxTimes="16", brokerId="0",
            whichBrokerWhenConsumeSlowly="1", notifyConsumerIdsChangedEnable="true", groupSysFlag="0",
            consumeTimeoutMinute="15")


def updateSubGroup_on_cluster(w):
    name = w.name("Full")
    w.admin("updateSubGroup", "-c", w.cluster, "-g", name, "-s", "false", "-m", "true", "-d", "true", "-o", "true",
            "-q", 2, "-r", 5, "-i", 0, "-w", 1, "-a", "false").has(f"create subscription group to {w.broker} success.")
    _config(w, name, consumeEnable="false", consumeFromMinEnable="true", consumeBroadcastEnable="true",
            consumeMessageOrderly="true", retryQueueNums="2", retryMaxTimes="5", notifyConsumerIdsChangedEnable="false")


def updateSubGroup_retry_policy(w):
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5000, "max": 7200000, "multiplier": 2}}
    w.admin("updateSubGroup", "-b", w.broker, "-g", w.name("Policy"), "-p", json.dumps(policy)).has("success")
    _config(w, w.name("Policy"), groupRetryPolicy="GroupRetryPolicy{type=EXPONENTIAL, exponentialRetryPolicy="
            "ExponentialRetryPolicy{initial=5000, max=7200000, multiplier=2}, customizedRetryPolicy=null}")


def updateSubGroupList(w):
    names = [w.name("GroupList1"), w.name("GroupList2")]
    file = w.write_json("groups.json", [{"groupName": name, "retryMaxTimes": 3} for name in names])
    w.admin("updateSubGroupList", "-b", w.broker, "-f", file).has(
        f"submit batch of group config to {w.broker} success, please check the result later.")
    for name in names:
        _config(w, name, retryMaxTimes="3", consumeEnable="true")


def _config(w, group, **wanted):
    result = w.admin("getConsumerConfig", "-g", group).has(f"={w.cluster}:{w.broker_name}=")
    shown = result.pairs("=  ")
    expect({key: shown.get(key) for key in wanted}, wanted, f"configuration of {group}")


def getConsumerConfig_of_unknown_group(w):
    expect(w.admin("getConsumerConfig", "-g", w.name("None")).lines(), [], "output")


def setConsumeMode(w):
    target = ("-b", w.broker, "-t", w.topic, "-g", w.name("Mode"))
    result = w.admin("setConsumeMode", *target, "-m", "POP", "-q", 2)
    if w.impl == "castor" and result.err:  # allowed as long as POP is not there
        check("CODE: " in result.err, f"no response code in {result.cause()}")
        return
    result.has(f"set consume mode to {w.broker} success.", "consume mode[POP] popShareQueueNum[2]")
    w.admin("setConsumeMode", *target, "-m", "PULL").has("success", "consume mode[PULL]")


def consumerProgress(w):
    def caught_up():
        result = w.admin("consumerProgress", "-g", w.online)
        rows = {(row["Topic"], int(row["QID"])): row for row in result.table("#Topic")}
        # The client reads its retry topic once it has seen the route, at its 30 second poll.
        expect(set(rows) - {(f"%RETRY%{w.online}", 0)}, {(w.topic, q) for q in range(QUEUES)}, "queues")
        for queue in range(QUEUES):
            row = rows[w.topic, queue]
            wanted = (w.broker_name, str(PER_QUEUE), "0", "0")
            expect((row["Broker Name"], row["Broker Offset"], row["Diff"], row["Inflight"]), wanted, f"queue {queue}")
            check(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row["LastTime"]), f"last time {row['LastTime']}")
        result.match(r"^Consume TPS: \d+\.\d\d$")
        result.has("Consume Diff Total: 0", "Consume Inflight Total: 0")
    # The client commits every five seconds.
    w.until("the group to catch up", caught_up, 0.2)


def consumerProgress_of_topic(w):
    w.until("the group's offsets", lambda: expect(
        w.progress(w.offline), ({q: PER_QUEUE for q in range(QUEUES)}, 0), "offsets and what is left"))


def consumerProgress_with_addresses(w):
    address = w.admin("consumerConnection", "-g", w.online).table("#ClientId")[0]["ClientId"].split("@")[0]
    rows = w.admin("consumerProgress", "-g", w.online, "-s", "true").table("#Topic")
    # A long address leaves a single blank in the tool's column.
    check(all(row["Client IP"].split(" ")[0] == address for row in rows), f"addresses {rows}, want {address}")


def consumerProgress_of_all_groups(w):
    rows = {row["Group"]: row for row in w.admin("consumerProgress").table("#Group")}
    online = rows[w.online]
    expect((online["Count"], online["Version"], online["Type"], online["Model"]),
           ("1", "V5_5_0", "PUSH", "CLUSTERING"), "online group")
    offline = rows[w.offline]
    expect((offline["Count"], offline["Version"]), ("0", "OFFLINE"), "offline group")


def consumerProgress_of_unknown_group(w):
    w.admin("consumerProgress", "-g", w.name("None")).refused(17)


def consumerConnection(w):
    result = w.admin("consumerConnection", "-g", w.online)
    row, = result.table("#ClientId", r"\s+")
    expect((row["ClientId"].split("@")[1], row["Language"], row["Version"]), (w.online, "JAVA", "V5_5_0"),
           "client")
    check(re.fullmatch(r"127\.0\.0\.1:\d+", row["ClientAddr"]), f"address {row['ClientAddr']}")
    result.match(rf"^{w.topic} +TagA \|\| TagB$")
    result.match(rf"^%RETRY%{w.online} +\*$")
    result.has("ConsumeType: CONSUME_PASSIVELY", "MessageModel: CLUSTERING",
               "ConsumeFromWhere: CONSUME_FROM_FIRST_OFFSET")


def consumerConnection_of_absent_groups(w):
    w.admin("consumerConnection", "-g", w.name("None")).refused(17)
    w.admin("consumerConnection", "-g", w.offline).refused(206)


def consumerStatus(w):
    result = w.admin("consumerStatus", "-g", w.online)
    row = result.table("#Index")[0]
    check(row["ClientId"].endswith(w.online), f"client {row}")
    info = (w.directory / row["ConsumerRunningInfoFile"]).read_text()
    check(info.startswith("#Consumer Properties#"), f"running info {info[:200]}")
    result.has("Same subscription in the same group of consumer", "Rebalance OK")


def consumerStatus_of_client(w):
    """The running info is the client's own answer, carried by the broker."""
    client = w.admin("consumerConnection", "-g", w.online).table("#ClientId", r"\s+")[0]["ClientId"]
    result = w.admin("consumerStatus", "-g", w.online, "-i", client)
    result.has("#Consumer Properties#", "#Consumer Subscription#", "#Consumer Offset#", "#Consumer MQ Detail#",
               "#Consumer RT&TPS#")
    offsets = re.findall(rf"^{w.topic} +{w.broker_name} +(\d) +(\d+) *$", result.out, re.MULTILINE)
    expect([int(queue) for queue, _ in offsets], list(range(QUEUES)), "queues with offsets")
    w.admin("consumerStatus", "-g", w.online, "-i", "nobody").refused(1)


def producerConnection(w):
    result = w.admin("producerConnection", "-g", w.producer, "-t", w.topic)
    result.match(rf"^0001 +\S+@{w.producer} +127\.0\.0\.1:\d+ +JAVA +V5_5_0 *$")
    w.admin("producerConnection", "-g", w.name("None"), "-t", w.topic).refused(1)


def producer(w):
    w.admin("producer", "-b", w.broker).match(
        rf"^producer group \({w.producer}\) instance : clientId=\S+@{w.producer},remoteIP=/127\.0\.0\.1:\d+, "
        r"language=JAVA, version=513, lastUpdateTimestamp=\d{13}$")


def resetOffsetByTimeOld(w):
    """The old form computes and commits the offsets in the tool.

    It comes first: in Java an offset reset by the broker outweighs commits until the group pulls again.
    """
    rows = w.admin("resetOffsetByTimeOld", "-g", w.offline, "-t", w.topic, "-s", w.middle).table("#brokerName")
    for row in rows:
        expect((row["brokerOffset"], row["timestampOffset"], row["resetOffset"]), ("6", "3", "3"), f"row {row}")
    expect(w.progress(w.offline), ({q: 3 for q in range(QUEUES)}, TOTAL - 12), "progress")


def resetOffsetByTime_offline(w):
    for stamp, offset in ((0, 0), ("now", PER_QUEUE), (w.middle, PER_QUEUE // 2)):
        result = w.admin("resetOffsetByTime", "-g", w.offline, "-t", w.topic, "-s", stamp)
        result.has(f"start reset consumer offset by specified, group[{w.offline}], topic[{w.topic}], force[true], "
                   f"timestamp(string)[{stamp}]")
        offsets = {int(row["queueId"]): int(row["offset"]) for row in result.table("#brokerName")}
        expect(offsets, {q: offset for q in range(QUEUES)}, f"answer for {stamp}")
        expect(w.progress(w.offline), (offsets, TOTAL - QUEUES * offset), f"progress after {stamp}")


def resetOffsetByTime_of_queue(w):
    before = w.progress(w.offline)[0]
    w.admin("resetOffsetByTime", "-g", w.offline, "-t", w.topic, "-s", -1, "-b", w.broker, "-q", 1, "-o", 2).has(
        "reset consumer offset to 2")
    expect(w.progress(w.offline)[0], before | {1: 2}, "offsets")


def resetOffsetByTime_unknown_topic(w):
    w.admin("resetOffsetByTime", "-g", w.offline, "-t", w.name("None"), "-s", "now").refused(17)


def skipAccumulatedMessage(w):
    rows = w.admin("skipAccumulatedMessage", "-g", w.offline, "-t", w.topic).table("#brokerName")
    expect({int(row["queueId"]): int(row["offset"]) for row in rows}, {q: PER_QUEUE for q in range(QUEUES)}, "answer")
    expect(w.progress(w.offline), ({q: PER_QUEUE for q in range(QUEUES)}, 0), "progress")


def cloneGroupOffset(w):
    copy = w.name("Clone")
    w.admin("updateSubGroup", "-b", w.broker, "-g", copy).ok()
    w.admin("resetOffsetByTime", "-g", w.offline, "-t", w.topic, "-s", -1, "-b", w.broker, "-q", 2, "-o", 4).ok()
    w.admin("cloneGroupOffset", "-s", w.offline, "-d", copy, "-t", w.topic).has(
        f"clone group offset success. srcGroup[{w.offline}], destGroup=[{copy}], topic[{w.topic}]")
    expect(w.progress(copy), w.progress(w.offline), "progress of the copy")
    expect(w.progress(copy)[0][2], 4, "offset of queue 2")


def deleteSubGroup_on_broker(w):
    cloneGroupOffset(w)
    name = w.name("Clone")
    w.admin("deleteSubGroup", "-b", w.broker, "-g", name, "-r", "true").has(
        f"delete subscription group [{name}] from broker [{w.broker}] success.")
    expect(w.admin("getConsumerConfig", "-g", name).lines(), [], "configuration of the deleted group")
    expect(w.progress(name), ({q: 0 for q in range(QUEUES)}, TOTAL), "progress without offsets")


def deleteSubGroup_on_cluster(w):
    """Deletes the group's own topics, too. Without -r true Java makes the group anew while it deletes it."""
    name = w.name("Gone")
    w.consume(name, "*", 1)
    w.admin("@stop", name).ok()
    check(f"%RETRY%{name}" in w.topics(), "there is no retry topic")
    w.admin("deleteSubGroup", "-c", w.cluster, "-g", name, "-r", "true").has(
        f"delete subscription group [{name}] from broker [{w.broker}] in cluster [{w.cluster}] success.")
    w.until("the retry topic to go", lambda: check(f"%RETRY%{name}" not in w.topics(), "still listed"))
    expect(w.admin("getConsumerConfig", "-g", name).lines(), [], "configuration of the deleted group")


def resetOffsetByTime_online(w):
    """The broker tells the client, which drops what it has and, ten seconds later, consumes everything anew."""
    rows = w.admin("resetOffsetByTime", "-g", w.online, "-t", w.topic, "-s", 0).table("#brokerName")
    expect({int(row["queueId"]): int(row["offset"]) for row in rows}, {q: 0 for q in range(QUEUES)}, "answer")
    matching = {s.body for s in w.sent if s.tag != "TagC"}
    def again():
        bodies = w.consumed(w.online)
        missing = {body for body in matching if bodies.count(body) < 2}
        check(not missing, f"not consumed again: {missing}")
    w.until("the second consumption", again, 0.2)
