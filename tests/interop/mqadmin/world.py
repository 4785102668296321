"""The topic, the clients and the messages that the cases look at."""
import collections
import json
import time

from mqadmin import Failed, check, expect

QUEUES = 4
PER_QUEUE = 6
TAGS = ["TagC", "TagA", "TagB"]
DEADLINE_SECONDS = 30

Sent = collections.namedtuple("Sent", "id offset_id queue offset tag key body")


class World:
    """One topic with 24 messages, six in each queue, two of them of each tag, and three groups:

    producer   a producer that is online
    online     a push consumer of TagA and TagB that is online
    offline    a group that has consumed everything and is gone

    The second half of the messages was stored after `middle`, a time in milliseconds.
    """

    def __init__(self, admin, namesrv, broker, directory, impl):
        self.admin, self.namesrv, self.broker, self.directory, self.impl = admin, namesrv, broker, directory, impl
        suffix = f"{time.time_ns() // 1000 % 10**9:09d}"
        self.topic, self.producer = f"AdmTopic_{suffix}", f"AdmProducer_{suffix}"
        self.online, self.offline = f"AdmOnline_{suffix}", f"AdmOffline_{suffix}"
        self.suffix, self.sent, self.middle = suffix, [], 0
        self.cluster = self.broker_name = ""
        self.made = set()

    def name(self, purpose):
        """A name that no other run uses."""
        return f"Adm{purpose}_{self.suffix}"

    def setup(self):
        row = self.admin("clusterList").table("#Cluster Name")[0]
        self.cluster, self.broker_name = row["Cluster Name"], row["Broker Name"]
        self.new_topic(self.topic, QUEUES)
        self.admin("@producer", self.producer, "").ok()
        self.send_half()
        self.middle = self.after_now()
        self.send_half()
        self.consume(self.offline, "*", len(self.sent))
        self.consume(self.online, "TagA || TagB", len(self.sent) * 2 // 3)
        self.admin("@stop", self.offline).ok()

    def new_topic(self, name, queues):
        self.admin("updateTopic", "-b", self.broker, "-t", name, "-r", queues, "-w", queues).has("success")
        self.until("the route of a new topic", lambda: not self.admin("topicRoute", "-t", name).err)

    def topic_of(self, purpose):
        """A topic of two queues, made when it is first asked for."""
        if purpose not in self.made:
            self.new_topic(self.name(purpose), 2)
            self.made.add(purpose)
        return self.name(purpose)

    def send(self, queue, tag, key, body, topic="", producer=""):
        words = ("@send", producer or self.producer, topic or self.topic, queue, tag, key, body)
        id, offset_id, offset = self.admin(*words).ok().out.split()
        return Sent(id, offset_id, queue, int(offset), tag, key, body)

    def send_half(self):
        for i in range(QUEUES * PER_QUEUE // 2):
            n = len(self.sent)
            self.sent.append(self.send(i % QUEUES, TAGS[n // QUEUES % 3], f"key-{n}", f"body {n}"))

    def after_now(self):
        """A time in milliseconds that is later than now and over when this returns."""
        later = time.time_ns() // 10**6 + 2
        self.until("the clock to advance", lambda: time.time_ns() // 10**6 > later + 2, 0.001)
        return later

    def consume(self, group, tags, count, topic=""):
        """Starts a push consumer and waits until it has consumed and committed count messages."""
        topic = topic or self.topic
        self.admin("@consumer", group, topic, tags).ok()
        self.until(f"{group} to consume {count}", lambda: len(self.consumed(group)) >= count)

    def consumed(self, group):
        return self.admin("@consumed", group).lines()

    def until(self, what, condition, pause=0.05, seconds=DEADLINE_SECONDS):
        """Waits for a condition. A check that fails inside counts as not yet."""
        end, reason = time.monotonic() + seconds, ""
        while True:
            try:
                if condition() is not False:
                    return
            except Failed as error:
                reason = f": {error}"
            if time.monotonic() > end:
                raise Failed(f"waited {seconds} s for {what}{reason}")
            time.sleep(pause)

    def route(self, topic):
        """Read queues, write queues and permission of a topic."""
        data = self.admin("topicRoute", "-t", topic).json()["queueDatas"]
        expect([q["brokerName"] for q in data], [self.broker_name], f"brokers in the route of {topic}")
        return data[0]["readQueueNums"], data[0]["writeQueueNums"], data[0]["perm"]

    def progress(self, group, topic=""):
        """Consumer offset by queue of a topic, and the total of what is left."""
        topic = topic or self.topic
        result = self.admin("consumerProgress", "-g", group, "-t", topic)
        rows = [row for row in result.table("#Topic") if row["Topic"] == topic]
        total = int(result.match(r"^Consume Diff Total: (-?\d+)$")[1])
        expect(sum(int(row["Diff"]) for row in rows), total, "sum of the differences")
        return {int(row["QID"]): int(row["Consumer Offset"]) for row in rows}, total

    def write_json(self, name, value):
        path = self.directory / name
        path.write_text(json.dumps(value))
        return path

    def topics(self):
        topics = self.admin("topicList").lines()
        check(topics, "topicList prints nothing")
        return topics
