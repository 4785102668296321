"""mqadmin's topic commands."""
import time

from mqadmin import check, expect
from world import QUEUES


def updateTopic_on_broker(w):
    name = w.name("OnBroker")
    w.admin("updateTopic", "-b", w.broker, "-t", name, "-r", 3, "-w", 2).has(
        f"create topic to {w.broker} success.",
        f"TopicConfig [topicName={name}, readQueueNums=3, writeQueueNums=2, perm=RW-, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]")
    w.until("the route", lambda: expect(w.route(name), (3, 2, 6), "route"))
    w.admin("updateTopic", "-b", w.broker, "-t", name, "-r", 5, "-w", 5, "-p", 4).ok()
    w.until("the changed route", lambda: expect(w.route(name), (5, 5, 4), "route"))


def updateTopic_on_cluster_with_attributes(w):
    name = w.name("Fifo")
    w.admin("updateTopic", "-c", w.cluster, "-t", name, "-r", 2, "-w", 2, "-p", 6, "-a", "+message.type=FIFO").has(
        f"create topic to {w.broker} success.", "attributes={+message.type=FIFO}")
    w.until("the route", lambda: expect(w.route(name), (2, 2, 6), "route"))


def updateTopic_ordered(w):
    name = w.name("Ordered")
    w.admin("updateTopic", "-c", w.cluster, "-t", name, "-r", 2, "-w", 2, "-o", "true").has(
        f"set cluster orderConf. isOrder=true, orderConf=[{w.broker_name}:2]", "order=true")
    w.admin("updateOrderConf", "-t", name, "-m", "get").has(f"orderConf=[{w.broker_name}:2]")


def updateTopic_refusals(w):
    w.admin("updateTopic", "-b", w.broker, "-t", w.name("Attr"), "-a", "+message.type=NOPE").refused(1)
    w.admin("updateTopic", "-b", w.broker, "-t", w.name("Attr"), "-a", "+no.such.attribute=1").refused(1)
    check(w.name("Attr") not in w.topics(), "a topic with a bad attribute was created")


def updateTopicList(w):
    names = [w.name("List1"), w.name("List2")]
    file = w.write_json("topics.json", [
        {"topicName": name, "readQueueNums": 2, "writeQueueNums": 3, "perm": 6, "order": False, "topicSysFlag": 0,
         "topicFilterType": "SINGLE_TAG", "attributes": {}} for name in names])
    w.admin("updateTopicList", "-b", w.broker, "-f", file).has(
        f"submit batch of topic config to {w.broker} success, please check the result later.")
    for name in names:
        w.until("the route", lambda: expect(w.route(name), (2, 3, 6), f"route of {name}"))


def updateTopicPerm(w):
    name = w.name("Perm")
    w.new_topic(name, 4)
    w.admin("updateTopicPerm", "-b", w.broker, "-t", name, "-p", 4).has(
        f"update topic perm from 6 to 4 in {w.broker} success.", "perm=R--")
    w.until("the route", lambda: expect(w.route(name), (4, 4, 4), "route"))
    w.admin("updateTopicPerm", "-c", w.cluster, "-t", name, "-p", 6).has(
        f"update topic perm from 4 to 6 in {w.broker} success.")
    w.until("the route", lambda: expect(w.route(name), (4, 4, 6), "route"))


def topicList(w):
    missing = {w.topic, f"%RETRY%{w.online}", w.cluster, w.broker_name, "TBW102", "SELF_TEST_TOPIC", "BenchmarkTest",
               "OFFSET_MOVED_EVENT", "RMQ_SYS_TRANS_HALF_TOPIC", f"{w.cluster}_REPLY_TOPIC"} - set(w.topics())
    check(not missing, f"the list lacks {missing}")


def topicList_with_groups(w):
    rows = w.admin("topicList", "-c").table("#Cluster Name")
    groups = {row.get("Consumer Group") for row in rows if row["Topic"] == w.topic}
    expect(groups, {w.online, w.offline}, "groups of the topic")
    expect({row["Cluster Name"] for row in rows}, {w.cluster}, "clusters")


def topicRoute(w):
    route = w.admin("topicRoute", "-t", w.topic).json()
    expect(route["brokerDatas"], [{"brokerAddrs": {"0": w.broker}, "brokerName": w.broker_name, "cluster": w.cluster,
                                   "enableActingMaster": False}], "brokers")
    expect(route["queueDatas"], [{"brokerName": w.broker_name, "perm": 6, "readQueueNums": QUEUES, "topicSysFlag": 0,
                                  "writeQueueNums": QUEUES}], "queues")


def topicRoute_as_list(w):
    result = w.admin("topicRoute", "-t", w.topic, "-l")
    row = result.table("#ClusterName")[0]
    expect(list(row.values()), [w.cluster, w.broker_name, f"{{0={w.broker}}}", str(QUEUES), str(QUEUES), "6"], "row")
    result.match(rf"^Total: +1 +{QUEUES} +{QUEUES} *$")


def topicRoute_of_unknown_topic(w):
    w.admin("topicRoute", "-t", w.name("None")).refused(17)


def topicStatus(w):
    result = w.admin("topicStatus", "-t", w.topic)
    rows = {int(row["QID"]): row for row in result.table("#Broker Name")}
    expect(set(rows), set(range(QUEUES)), "queues")
    for queue, row in rows.items():
        last = max(s.offset for s in w.sent if s.queue == queue) + 1
        expect((row["Broker Name"], row["Min Offset"], row["Max Offset"]), (w.broker_name, "0", str(last)),
               f"queue {queue}")
        stored = time.mktime(time.strptime(row["Last Updated"].split(",")[0], "%Y-%m-%d %H:%M:%S"))
        check(abs(time.time() - stored) < 300, f"queue {queue} was last updated {row['Last Updated']}")
    result.match(r"^Topic Put TPS: \d+\.\d+$")


def topicStatus_of_empty_topic(w):
    rows = w.admin("topicStatus", "-t", w.topic_of("Empty")).table("#Broker Name")
    expect([(row["Min Offset"], row["Max Offset"], row.get("Last Updated")) for row in rows],
           [("0", "0", None)] * 2, "rows")


def topicStatus_of_unknown_topic(w):
    w.admin("topicStatus", "-t", w.name("None")).refused(17)


def topicClusterList(w):
    expect(w.admin("topicClusterList", "-t", w.topic).lines(), [w.cluster], "clusters of the topic")


def updateOrderConf(w):
    w.admin("updateOrderConf", "-t", w.topic, "-m", "put", "-v", "b-1:4;b-2:2").has("update orderConf success.")
    w.admin("updateOrderConf", "-t", w.topic, "-m", "get").has("orderConf=[b-1:4;b-2:2]")
    w.admin("updateOrderConf", "-t", w.topic, "-m", "delete").has("delete orderConf success.")
    # Asking for a key that is not there is answered with QUERY_NOT_FOUND.
    w.admin("updateOrderConf", "-t", w.topic, "-m", "get").refused(22)


def allocateMQ(w):
    ips = [f"10.0.0.{i}" for i in range(1, 4)]
    result = w.admin("allocateMQ", "-t", w.topic, "-i", ",".join(ips)).json()["result"]
    expect(sorted(result), ips, "addresses")
    queues = sorted(q["queueId"] for part in result.values() for q in part)
    expect(queues, list(range(QUEUES)), "queues")


def deleteTopic(w):
    name = w.name("Deleted")
    w.new_topic(name, 1)
    w.send(0, "TagA", "k", "gone", topic=name)
    w.admin("deleteTopic", "-c", w.cluster, "-t", name).has(
        f"delete topic [{name}] from cluster [{w.cluster}] success.", f"delete topic [{name}] from NameServer success.")
    check(name not in w.topics(), "the topic is still listed")
    w.admin("topicRoute", "-t", name).refused(17)
    w.new_topic(name, 1)
    offset = w.send(0, "TagA", "k", "new", topic=name).offset
    expect(offset, 0, "first offset after the topic was made anew")


def deleteTopic_of_unknown_topic(w):
    w.admin("deleteTopic", "-c", w.cluster, "-t", w.name("None")).has("success")


def statsAll_of_empty_topic(w):
    row = w.admin("statsAll", "-t", w.topic_of("Empty")).table("#Topic")[0]
    check(row["Topic"] == w.name("Empty") and "NO_CONSUMER" in row.values(), f"row {row}")
