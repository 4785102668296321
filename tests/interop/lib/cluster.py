"""A name server and a broker as real processes, Castor's or the Java ones, from the same property files.

    with Cluster("castor", directory) as cluster:
        cluster.namesrv, cluster.broker        addresses, 127.0.0.1:port
        cluster.restart("broker")              kill -9, start again on the same store and port
        cluster.env()                          what a suite's process gets to know

Castor's binaries are taken from $CASTOR_BIN or bin/ of the repository; the Java ones are Maven artifacts.
Every process logs under its own folder in the directory, which the caller owns.
"""
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import time

import maven

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
BROKER_NAME = "broker-a"
CLUSTER_NAME = "DefaultCluster"

# A short ladder, so that sixteen retries take seconds. Levels 1 to 3 and the last one differ from the rest, so that
# a test can tell which level was taken.
DELAY_LEVELS = " ".join(["1s", "2s", "3s", *["1s"] * 14, "2s"])

BROKER_CONF = {
    "autoCreateTopicEnable": "true",
    "enablePropertyFilter": "true",
    "traceTopicEnable": "true",
    "messageDelayLevel": DELAY_LEVELS,
    "mappedFileSizeCommitLog": 64 << 20,
    "waitTimeMillsInSendQueue": 5000,  # a loaded machine is no reason to refuse a send
    "diskMaxUsedSpaceRatio": 95,
    "brokerRole": "ASYNC_MASTER",
    "flushDiskType": "ASYNC_FLUSH",
}

JAVA_MAIN = {
    "namesrv": ("org.apache.rocketmq.namesrv.NamesrvStartup", "128m"),
    "broker": ("org.apache.rocketmq.broker.BrokerStartup", "1g"),
}
CASTOR_BINARY = {"namesrv": "mqnamesrv", "broker": "mqbroker"}
START_SECONDS = 60
STOP_SECONDS = 30
GET_BROKER_CLUSTER_INFO = 106


class Cluster:
    """A `single`-mode cluster. impl is `castor` or `java`."""

    def __init__(self, impl, directory, broker_conf=None):
        self.impl = impl
        self.directory = pathlib.Path(directory).resolve()
        self.processes = {}
        self.ports = {"namesrv": free_ports(1)[0], "broker": free_ports(4)[2]}
        self.namesrv = f"127.0.0.1:{self.ports['namesrv']}"
        self.broker = f"127.0.0.1:{self.ports['broker']}"
        self.conf = {"namesrv": self._namesrv_conf(), "broker": self._broker_conf() | (broker_conf or {})}

    def __enter__(self):
        try:
            self.start("namesrv")
            self.start("broker")
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, error, *_):
        bad = self.stop()
        if bad and error is None:
            raise RuntimeError(f"processes ended badly, by exit code: {bad}")

    def env(self):
        """The environment that every suite runs in."""
        return {"NAMESRV": self.namesrv, "BROKER_ADDR": self.broker, "CLUSTER_DIR": str(self.directory),
                "IMPL": self.impl}

    def start(self, name):
        """Starts a process and waits until it serves; for the broker: until the name server knows it."""
        folder = self.directory / name
        folder.mkdir(parents=True, exist_ok=True)
        conf = folder / f"{name}.conf"
        conf.write_text("".join(f"{key}={value}\n" for key, value in self.conf[name].items()))
        with open(folder / "out", "ab") as out:
            self.processes[name] = subprocess.Popen(
                [*self._command(name, folder), "-c", str(conf)], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=out, start_new_session=True)
        address = self.broker.encode()
        self._wait(name, lambda: listens(self.ports[name]))
        if name == "broker":
            self._wait(name, lambda: address in call(self.ports["namesrv"], GET_BROKER_CLUSTER_INFO))

    def restart(self, name):
        """Kills a process with SIGKILL and starts it again."""
        self._end(name, signal.SIGKILL)
        self.start(name)

    def stop(self):
        """Ends every process, the broker first; returns the exit codes of those that did not end as they should.

        A Castor process must end by itself and well; the Java ones take 17 s to, so they are killed.
        """
        how = signal.SIGTERM if self.impl == "castor" else signal.SIGKILL
        codes = {name: self._end(name, how) for name in reversed(list(self.processes))}
        good = 0 if how == signal.SIGTERM else -how
        return {name: code for name, code in codes.items() if code != good}

    def _end(self, name, how):
        """Sends a signal and waits for the process; returns its exit code."""
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _wait(self, name, condition):
        end = time.monotonic() + START_SECONDS
        while not condition():
            if self.processes[name].poll() is not None:
                raise RuntimeError(f"{name} ended with {self.processes[name].returncode}: {self.tail(name)}")
            if time.monotonic() > end:
                raise RuntimeError(f"{name} is not ready after {START_SECONDS} s: {self.tail(name)}")
            time.sleep(0.05)

    def tail(self, name, lines=20):
        """The last lines that a process has printed."""
        return "\n".join((self.directory / name / "out").read_text(errors="replace").splitlines()[-lines:])

    def _command(self, name, folder):
        if self.impl == "java":
            main, heap = JAVA_MAIN[name]
            return ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
                    f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}",
                    "-cp", f"{maven.dependencies(HERE / 'peer-pom.xml')}/*", main]
        binary = pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin") / CASTOR_BINARY[name]
        if not binary.exists():
            raise RuntimeError(f"{binary} does not exist: build Castor first")
        return [str(binary.absolute())]

    def _namesrv_conf(self):
        return {"listenPort": self.ports["namesrv"]}

    def _broker_conf(self):
        store = self.directory / "broker" / "store"
        return BROKER_CONF | {
            "brokerClusterName": CLUSTER_NAME, "brokerName": BROKER_NAME, "brokerId": 0, "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1", "listenPort": self.ports["broker"], "haListenPort": self.ports["broker"] + 1,
            "namesrvAddr": self.namesrv, "storePathRootDir": store, "storePathCommitLog": store / "commitlog"}


def free_ports(count):
    """A run of free ports below the ephemeral range, where no outgoing connection can take one before a restart.

    A broker at port p also takes p-2 (fast port) and p+1 (replication).
    """
    while True:
        first = random.randrange(10000, 32000)
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return range(first, first + count)
        except OSError:
            continue


def listens(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def call(port, code):
    """Body of the answer to a remoting request without fields; empty if there is none."""
    header = json.dumps({"code": code, "flag": 0, "language": "OTHER", "opaque": 1, "version": 513}).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)
            with connection.makefile("rb") as answer:
                size, header_size = struct.unpack(">ii", answer.read(8))
                return answer.read(size - 4)[header_size & 0xFFFFFF:]
    except (OSError, struct.error):
        return b""
