"""mqadmin's message commands."""
import pathlib
import re

from mqadmin import check, expect
from world import PER_QUEUE, QUEUES, TAGS


def _shown(w, result, sent):
    """Compares the block that describes a message with what was sent."""
    shown = result.pairs(":")
    wanted = {"Topic": w.topic, "Tags": f"[{sent.tag}]", "Keys": f"[{sent.key}]", "Queue ID": str(sent.queue),
              "Queue Offset": str(sent.offset), "Reconsume Times": "0", "Store Host": w.broker, "System Flag": "0"}
    expect({key: shown.get(key) for key in wanted}, wanted, result.command)
    offset = int(sent.offset_id[-16:], 16)
    expect(shown.get("CommitLog Offset"), str(offset), "position in the offset id and in the message")
    for part in (f"UNIQ_KEY={sent.id}", f"KEYS={sent.key}", f"TAGS={sent.tag}", f"CLUSTER={w.cluster}", "WAIT=true"):
        check(part in shown["Properties"], f"{result.command}: properties lack {part}: {shown['Properties']}")
    expect(pathlib.Path(shown["Message Body Path"]).read_text(), sent.body, "file with the body")
    return shown


def _bodies(result):
    return re.findall(r"BODY: (.*)$", result.ok().out, re.MULTILINE)


def sendMessage(w):
    topic = w.topic_of("Sends")
    result = w.admin("sendMessage", "-t", topic, "-p", "from mqadmin", "-k", "tool-key", "-c", "ToolTag")
    row = result.table("#Broker Name")[0]
    expect((row["Broker Name"], row["Send Result"]), (w.broker_name, "SEND_OK"), "answer")
    shown = w.admin("queryMsgByUniqueKey", "-t", topic, "-i", row["MsgId"]).pairs(":")
    expect((shown["Tags"], shown["Keys"], shown["Queue ID"]), ("[ToolTag]", "[tool-key]", row["QID"]), "message")


def sendMessage_to_queue(w):
    for queue in (0, 1):
        result = w.admin("sendMessage", "-t", w.topic_of("Sends"), "-p", "x", "-b", w.broker_name, "-i", queue)
        row = result.table("#Broker Name")[0]
        expect((row["QID"], row["Send Result"]), (str(queue), "SEND_OK"), "answer")


def queryMsgById(w):
    for sent in (w.sent[0], w.sent[-1]):
        result = w.admin("queryMsgById", "-t", w.topic, "-i", sent.offset_id)
        expect(_shown(w, result, sent)["OffsetID"], sent.offset_id, "offset id")


def queryMsgById_with_tracks(w):
    """The tracks compare the groups' offsets with the place of the message."""
    sent = next(s for s in w.sent if s.tag == "TagA")
    def tracked():
        result = w.admin("queryMsgById", "-t", w.topic, "-i", sent.offset_id)
        tracks = dict(re.findall(r"MessageTrack \[consumerGroup=(\S+), trackType=(\w+)", result.ok().out))
        expect((tracks.get(w.online), tracks.get(w.offline)), ("CONSUMED", "NOT_ONLINE"), "tracks")
    w.until("the online group's offsets", tracked)


def queryMsgById_unknown(w):
    w.admin("queryMsgById", "-t", w.topic, "-i", w.sent[0].offset_id[:-8] + "7FFFFFF0").refused(208)


def queryMsgById_consumed_directly(w):
    """The broker hands the message to one client and returns its verdict."""
    client = w.admin("consumerConnection", "-g", w.online).table("#ClientId")[0]["ClientId"]
    before = w.consumed(w.online).count(w.sent[0].body)
    w.admin("queryMsgById", "-t", w.topic, "-i", w.sent[0].offset_id, "-g", w.online, "-d", client).has(
        "consumeResult=CR_SUCCESS", "order=false")
    expect(w.consumed(w.online).count(w.sent[0].body), before + 1, "deliveries of the message")


def queryMsgByKey(w):
    sent = w.sent[5]
    row, = w.admin("queryMsgByKey", "-t", w.topic, "-k", sent.key).table("#Message ID", r"\s+")
    expect((row["Message ID"], row["QID"], row["Offset"]), (sent.id, str(sent.queue), str(sent.offset)), "row")


def queryMsgByKey_with_limits(w):
    topic = w.topic_of("Sends")
    twins = [w.send(0, "TagA", "twin", f"twin {i}", topic=topic) for i in range(3)]
    rows = w.admin("queryMsgByKey", "-t", topic, "-k", "twin").table("#Message ID")
    expect({row["Message ID"] for row in rows}, {twin.id for twin in twins}, "messages of the key")
    rows = w.admin("queryMsgByKey", "-t", topic, "-k", "twin", "-m", 2).table("#Message ID")
    expect(len(rows), 2, "rows with -m 2")
    w.admin("queryMsgByKey", "-t", topic, "-k", "twin", "-b", 0, "-e", w.middle - 3600_000).refused(208)
    w.admin("queryMsgByKey", "-t", w.topic, "-k", "twin").refused(208)


def queryMsgByUniqueKey(w):
    for sent in (w.sent[1], w.sent[-2]):
        _shown(w, w.admin("queryMsgByUniqueKey", "-t", w.topic, "-i", sent.id), sent)
    _shown(w, w.admin("queryMsgByUniqueKey", "-t", w.topic, "-i", w.sent[2].id, "-a"), w.sent[2])


def queryMsgByOffset(w):
    for sent in (w.sent[3], w.sent[-1]):
        result = w.admin("queryMsgByOffset", "-t", w.topic, "-b", w.broker_name, "-i", sent.queue, "-o", sent.offset)
        expect(_shown(w, result, sent)["OffsetID"], sent.offset_id, "offset id")


def queryMsgByOffset_beyond_the_end(w):
    result = w.admin("queryMsgByOffset", "-t", w.topic, "-b", w.broker_name, "-i", 0, "-o", 999999)
    expect(result.lines(), [], "output")


def queryCq(w):
    first = [s for s in w.sent if s.queue == 1]
    result = w.admin("queryCq", "-t", w.topic, "-q", 1, "-i", 2, "-c", 3, "-b", w.broker, "-g", w.online)
    result.has('"subString":"TagA || TagB"', f"max: {PER_QUEUE}, min: 0")
    units = re.findall(r"idx: (\d+)\nConsumeQueueData\{physicOffset=(\d+), physicSize=(\d+), tagsCode=(-?\d+),",
                       result.out)
    expect([int(unit[0]) for unit in units], [2, 3, 4], "indexes")
    for (index, physical, size, code), sent in zip(units, first[2:5]):
        expect(int(physical), int(sent.offset_id[-16:], 16), f"position of unit {index}")
        expect(int(code), _java_hash(sent.tag), f"tags code of unit {index}")
        check(int(size) > len(sent.body), f"size {size} of unit {index}")


def _java_hash(text):
    code = 0
    for c in text:
        code = (31 * code + ord(c)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


def queryCq_of_unknown_group(w):
    w.admin("queryCq", "-t", w.topic, "-q", 0, "-i", 0, "-c", 1, "-b", w.broker, "-g", w.name("None")).has(
        f"{w.name('None')}@{w.topic} is not online!")


def printMsg(w):
    result = w.admin("printMsg", "-t", w.topic, "-d", "true")
    expect(sorted(_bodies(result)), sorted(s.body for s in w.sent), "bodies")
    for queue in range(QUEUES):
        result.has(f"minOffset=0, maxOffset={PER_QUEUE}, MessageQueue [topic={w.topic}, brokerName={w.broker_name}, "
                   f"queueId={queue}]")


def printMsg_by_tag_and_time(w):
    result = w.admin("printMsg", "-t", w.topic, "-d", "true", "-s", "TagB")
    expect(sorted(_bodies(result)), sorted(s.body for s in w.sent if s.tag == "TagB"), "bodies of the tag")
    result = w.admin("printMsg", "-t", w.topic, "-d", "true", "-b", w.middle)
    expect(sorted(_bodies(result)), sorted(s.body for s in w.sent[len(w.sent) // 2:]), "bodies since the middle")


def printMsgByQueue(w):
    place = ("-t", w.topic, "-a", w.broker_name, "-i", 2)
    result = w.admin("printMsgByQueue", *place, "-p", "true", "-d", "true")
    expect(_bodies(result), [s.body for s in w.sent if s.queue == 2], "bodies of the queue")
    result = w.admin("printMsgByQueue", *place, "-p", "false", "-f", "true").ok()
    counts = re.findall(r"^Tag: (\S+)\s+Count: (\d+)$", result.out, re.MULTILINE)
    expect(dict(counts), {tag: str(PER_QUEUE // len(TAGS)) for tag in TAGS}, "counts by tag")


def consumeMessage(w):
    place = ("-t", w.topic, "-b", w.broker_name, "-i", 3)
    queue = [s.body for s in w.sent if s.queue == 3]
    expect(_bodies(w.admin("consumeMessage", *place)), queue, "bodies of the queue")
    bodies = _bodies(w.admin("consumeMessage", *place, "-o", 1, "-c", 2, "-g", w.name("Tool")))
    expect(bodies, queue[1:3], "two bodies from offset 1")


def consumeMessage_by_time(w):
    place = ("-t", w.topic, "-b", w.broker_name, "-i", 0)
    old = [s.body for s in w.sent[:len(w.sent) // 2] if s.queue == 0]
    new = [s.body for s in w.sent[len(w.sent) // 2:] if s.queue == 0]
    expect(_bodies(w.admin("consumeMessage", *place, "-s", w.middle)), new, "bodies since the middle")
    bodies = _bodies(w.admin("consumeMessage", *place, "-s", w.middle - 3600_000, "-e", w.middle))
    # The tool includes the message at its upper bound, the first one that is not older than the time.
    expect(bodies, old + new[:1], "bodies until the middle")


def checkMsgSendRT(w):
    result = w.admin("checkMsgSendRT", "-t", w.topic_of("Sends"), "-a", 5, "-s", 16)
    expect([row["Send Result"] for row in result.table("#Broker Name")[:5]], ["true"] * 5, "answers")
    result.match(r"^Avg RT: \d+\.\d+$")


def sendMsgStatus(w):
    """Sends to the topic that carries the broker's name."""
    result = w.admin("sendMsgStatus", "-b", w.broker_name, "-s", 16, "-c", 3)
    answers = re.findall(rf"^rt=\d+ms, SendResult=SendResult \[sendStatus=SEND_OK, .*topic={w.broker_name}, ",
                         result.ok().out, re.MULTILINE)
    expect(len(answers), 3, "answers with SEND_OK")


def queryMsgTraceById(w):
    """Traces in a topic of our own and in the default one, which is made on first use or with traceTopicEnable."""
    topics = {w.name("Tracer1"): w.topic_of("Traces"), w.name("Tracer2"): "RMQ_SYS_TRACE_TOPIC"}
    ids = {}
    for producer, trace_topic in topics.items():
        w.admin("@producer", producer, trace_topic).ok()
        ids[producer] = w.send(0, "TagA", "traced", "traced", topic=w.topic_of("Sends"), producer=producer).id
    for producer, trace_topic in topics.items():
        w.until("the trace", lambda: w.admin("queryMsgTraceById", "-i", ids[producer], "-t", trace_topic).match(
            rf"^Pub +{producer} +\S+ +\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ms +success *$"))
        w.admin("@stop", producer).ok()


def queryMsgTraceById_unknown(w):
    w.admin("queryMsgTraceById", "-i", w.sent[0].id, "-t", w.topic_of("Traces")).refused(208)
