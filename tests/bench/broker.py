"""The brokers that are compared: the interop suites' cluster, with a large heap and the time to the first message."""
import json
import pathlib
import signal
import socket
import struct
import threading
import time

import cluster
import maven
import quorum

HERE = pathlib.Path(__file__).resolve().parent
PROBE_TOPIC = "castor-bench-probe"
PROBE_PAUSE = 0.002
UPDATE_AND_CREATE_TOPIC, SEND_MESSAGE_V2, GET_BROKER_HA_STATUS = 17, 310, 907
# Java's broker gets its heap's pages before it starts to serve, as production settings have it, if the heap is large.
LARGE_HEAP = "4g"


def jars():
    """The class path of everything Java."""
    return f"{maven.dependencies(HERE / 'pom.xml')}/*"


class Broker(cluster.Cluster):
    """A name server and a broker. first_ack is the time in s from the broker's last start to its first acknowledgement."""

    def __init__(self, impl, directory, conf, heap):
        self.heap = heap
        self.first_ack = None
        super().__init__(impl, directory, conf)

    def start(self, name):
        if name != "broker":
            super().start(name)
            return
        probe = Probe(self.ports["broker"])
        try:
            super().start(name)
            self.first_ack = probe.result()
        finally:
            probe.stop()

    def kill(self):
        self._end("broker", signal.SIGKILL)

    def shut_down(self):
        self._end("broker", signal.SIGTERM)

    def pid(self):
        return self.processes["broker"].pid

    def store(self):
        return pathlib.Path(self.conf["broker"]["storePathRootDir"])

    def _command(self, name, folder):
        if self.impl != "java" or name != "broker":
            return super()._command(name, folder)
        flags = [f"-Xms{self.heap}", f"-Xmx{self.heap}", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=1g"]
        if self.heap == LARGE_HEAP:
            flags.append("-XX:+AlwaysPreTouch")
        return ["java", *flags, f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", jars(),
                cluster.JAVA_MAIN[name][0]]

    def _broker_conf(self):
        unlike = {"messageDelayLevel", "mappedFileSizeCommitLog", "traceTopicEnable"}  # made for short tests
        return {key: value for key, value in super()._broker_conf().items() if key not in unlike}


class Group(quorum.Quorum):
    """A name server, three controllers and some brokers, all of one kind, as Broker is to those who measure.

    classic: without controllers, the first broker is SYNC_MASTER and the others are its slaves.
    """

    KINDS = ("namesrv", "controller", "broker")
    SEGMENT = 256 << 20

    def __init__(self, impl, directory, conf, heap, brokers, classic=False):
        super().__init__(impl, directory, brokers, self.KINDS, {"mappedFileSizeCommitLog": self.SEGMENT} | conf)
        self.heap, self.classic = heap, classic

    @property
    def namesrv(self):
        return self.address("namesrv")

    def __enter__(self):
        try:
            if self.classic:
                self.start("namesrv", *self.brokers)
                quorum.wait("all slaves", lambda: self.slaves() == len(self.brokers) - 1)
            else:
                self.start("namesrv", *self.controllers)
                self.start(*self.brokers)
                quorum.wait("all brokers in sync", lambda: self.in_sync() == self.brokers)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def slaves(self):
        """How many slaves the first broker has that are in sync."""
        _, body = quorum.request(self.ports[self.brokers[0]], GET_BROKER_HA_STATUS)
        return sum(c.get("inSync", False) for c in json.loads(body or b"{}").get("haConnectionInfo", []))

    def await_sync(self, brokers):
        """Waits until so many brokers are in sync."""
        quorum.wait(f"{brokers} brokers in sync", lambda: len(self.in_sync()) == brokers)

    def store(self, name):
        """The folder of a broker's files."""
        return self.directory / name / "store"

    def _conf(self, name, folder):
        conf = super()._conf(name, folder)
        if self.classic and name in self.brokers:
            index = self.brokers.index(name)
            del conf["controllerAddr"]
            conf |= {"enableControllerMode": "false", "allAckInSyncStateSet": "false", "brokerId": index, "brokerRole": "SLAVE" if index else "SYNC_MASTER"}
        return conf

    def pid(self):
        """The ids of all processes, and of those that they have started: what a message costs, it costs all of them."""
        return ",".join(str(pid) for process in self.processes.values() for pid in [process.pid, *children(process.pid)])

    def _command(self, name, folder):
        command = super()._command(name, folder)
        if self.impl != "java" or name not in self.brokers:
            return command
        return ["java", f"-Xms{self.heap}", f"-Xmx{self.heap}", "-XX:+UseG1GC", "-XX:MaxDirectMemorySize=512m", f"-Duser.home={folder}",
                f"-Drocketmq.home.dir={folder}", "-cp", jars(), cluster.JAVA_MAIN["broker"][0]]


def children(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children") for child in task.read_text().split()]


class Probe:
    """Tries from now on to have one message acknowledged, on a thread of its own."""

    def __init__(self, port):
        self.port = port
        self.began = time.monotonic()
        self.seconds = None
        self.last = "it was not tried"
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def result(self, timeout=60):
        """Seconds from the start to the acknowledgement."""
        self.thread.join(timeout)
        if self.seconds is None:
            raise RuntimeError(f"no message was acknowledged within {timeout} s, the last time because: {self.last}")
        return self.seconds

    def stop(self):
        self.ended.set()
        self.thread.join()

    def _run(self):
        while not self.ended.wait(PROBE_PAUSE):
            try:
                send_one(self.port)
                self.seconds = time.monotonic() - self.began
                return
            except (OSError, ValueError, struct.error) as error:
                self.last = repr(error)  # not there yet


def send_one(port):
    """Creates the probe's topic and sends one message. ValueError: the broker refused."""
    topic = {"topic": PROBE_TOPIC, "defaultTopic": "TBW102", "readQueueNums": 1, "writeQueueNums": 1, "perm": 6,
             "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
    message = {"a": "castor-bench", "b": PROBE_TOPIC, "c": "TBW102", "d": 4, "e": 0, "f": 0,
               "g": int(time.time() * 1000), "h": 0, "i": "WAIT\x01true\x02", "j": 0, "k": "false", "m": "false"}
    with socket.create_connection(("127.0.0.1", port), 2) as connection:
        for code, fields, body in (UPDATE_AND_CREATE_TOPIC, topic, b""), (SEND_MESSAGE_V2, message, b"probe"):
            answer = call(connection, code, fields, body)
            if answer["code"] != 0:
                raise ValueError(f"request {code} was answered with {answer}")


def call(connection, code, fields, body):
    """The answer's header."""
    header = json.dumps({"code": code, "flag": 0, "language": "OTHER", "opaque": code, "version": 513,
                         "extFields": {key: str(value) for key, value in fields.items()}}).encode()
    connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
    with connection.makefile("rb") as answer:
        size, header_size = struct.unpack(">ii", answer.read(8))
        return json.loads(answer.read(size - 4)[:header_size & 0xFFFFFF])
