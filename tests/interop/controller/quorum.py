"""A name server, three controllers and the brokers of one group in controller mode, each kind Castor's or Java's."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import maven
from cluster import free_ports, listens

HERE = pathlib.Path(__file__).resolve().parent
LIB = HERE.parent / "lib"
REPOSITORY = HERE.parents[2]
BROKER_NAME = "broker-c"
CLUSTER_NAME = "ControllerCluster"
START_SECONDS = 90
STOP_SECONDS = 20
GET_METADATA, GET_SYNC_STATE_DATA = 1005, 1006

JAVA_MAIN = {
    "namesrv": "org.apache.rocketmq.namesrv.NamesrvStartup",
    "controller": "org.apache.rocketmq.controller.ControllerStartup",
    "broker": "org.apache.rocketmq.broker.BrokerStartup",
}
HEAP = {"namesrv": "96m", "controller": "96m", "broker": "384m"}


class Quorum:
    """The processes.

    impl is `castor` or `java`; with castor the kinds of `castor` are ours and the others are Java's. broker_conf is for
    every broker, on top of what a group needs.
    """

    def __init__(self, impl, directory, brokers=2, castor=("controller",), broker_conf=None):
        self.impl, self.directory = impl, pathlib.Path(directory)
        self.castor = castor if impl == "castor" else ()
        self.broker_conf = broker_conf or {}
        self.processes = {}
        ports = free_ports(12 + 6 * brokers)
        self.ports = {"namesrv": ports[0], "controller0": ports[2], "controller1": ports[4], "controller2": ports[6]}
        self.controllers = [name for name in self.ports if name.startswith("controller")]
        self.brokers = [f"broker{i}" for i in range(brokers)]
        self.ports |= {name: ports[12 + 6 * i] for i, name in enumerate(self.brokers)}

    def address(self, name):
        return f"127.0.0.1:{self.ports[name]}"

    def start(self, *names):
        for name in names:
            folder = self.directory / name
            folder.mkdir(parents=True, exist_ok=True)
            conf = folder / "conf"
            if not conf.exists():  # a controller edits its own
                conf.write_text("".join(f"{key}={value}\n" for key, value in self._conf(name, folder).items()))
            with open(folder / "out", "ab") as out:
                self.processes[name] = subprocess.Popen(
                    [*self._command(name, folder), "-c", str(conf)], cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                    stderr=out, start_new_session=True)
        for name in names:
            wait(f"{name} to listen", lambda name=name: self._alive(name) and listens(self.ports[name]))

    def _alive(self, name):
        code = self.processes[name].poll()
        if code is not None:
            tail = (self.directory / name / "out").read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError(f"{name} ended with {code}: {' | '.join(tail)}")
        return True

    def kill(self, name, how=signal.SIGKILL):
        process = self.processes.pop(name)
        process.send_signal(how)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def signal(self, name, how):
        self.processes[name].send_signal(how)

    def stop(self):
        for name in list(self.processes):
            self.kill(name)

    def leader(self):
        """The name of the controller that the others call leader, or None."""
        for name in self.controllers:
            if name in self.processes:
                header, _ = request(self.ports[name], GET_METADATA)
                leader = header.get("extFields", {}).get("controllerLeaderAddress", "")
                for other in self.controllers:
                    if self.address(other) == leader and other in self.processes:
                        return other
        return None

    def replicas(self):
        """What the leader says of the brokers: ReplicasInfo, or an empty dictionary."""
        leader = self.leader()
        if leader is None:
            return {}
        _, body = request(self.ports[leader], GET_SYNC_STATE_DATA, json.dumps([BROKER_NAME]).encode())
        return json.loads(body or b"{}").get("replicasInfoTable", {}).get(BROKER_NAME, {})

    def master(self):
        """The name of the broker that is master, or None."""
        address = self.replicas().get("masterAddress", "")
        return next((name for name in self.brokers if self.address(name) == address), None)

    def in_sync(self):
        """The names of the brokers that are in sync."""
        addresses = {r["brokerAddress"] for r in self.replicas().get("inSyncReplicas", [])}
        return sorted(name for name in self.brokers if self.address(name) in addresses)

    def id_of(self, name):
        info = self.replicas()
        return next(r["brokerId"] for r in info["inSyncReplicas"] + info["notInSyncReplicas"]
                    if r["brokerAddress"] == self.address(name))

    def _command(self, name, folder):
        kind = name.rstrip("0123456789")
        if kind in self.castor:
            return [str(pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin").absolute() / f"mq{kind}")]
        jars = maven.dependencies(LIB / "peer-pom.xml")
        return ["java", f"-Xms{HEAP[kind]}", f"-Xmx{HEAP[kind]}", "-XX:MaxDirectMemorySize=256m", "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1", f"-Duser.home={folder}", f"-Drocketmq.home.dir={folder}", "-cp", f"{jars}/*",
                JAVA_MAIN[kind]]

    def _conf(self, name, folder):
        if name == "namesrv":
            return {"listenPort": self.ports[name]}
        if name in self.controllers:
            return {
                "controllerDLegerGroup": "group1", "controllerDLegerSelfId": f"n{name[-1]}",
                "controllerDLegerPeers": ";".join(f"n{c[-1]}-{self.address(c)}" for c in self.controllers),
                "controllerStorePath": folder / "data", "mappedFileSize": 4 << 20,
                "scanNotActiveBrokerInterval": 1000, "scanInactiveMasterInterval": 1000}
        store = folder / "store"
        return {
            "brokerClusterName": CLUSTER_NAME, "brokerName": BROKER_NAME, "brokerId": -1, "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1", "listenPort": self.ports[name], "haListenPort": self.ports[name] + 1,
            "namesrvAddr": self.address("namesrv"), "storePathRootDir": store, "storePathCommitLog": store / "commitlog",
            "mappedFileSizeCommitLog": 16 << 20, "diskMaxUsedSpaceRatio": 95, "enableControllerMode": "true",
            "controllerAddr": ";".join(map(self.address, self.controllers)), "allAckInSyncStateSet": "true",
            "timerWheelEnable": "false", "controllerHeartBeatTimeoutMills": 3000, "registerNameServerPeriod": 10000, "waitTimeMillsInSendQueue": 5000} | self.broker_conf


def request(port, code, body=b"", **fields):
    """Header and body of the answer to a request; both empty if there is none."""
    header = json.dumps({"code": code, "flag": 0, "language": "OTHER", "opaque": 1, "version": 513,
                         "extFields": {key: str(value) for key, value in fields.items()}}).encode()
    try:
        with socket.create_connection(("127.0.0.1", port), 2) as connection:
            connection.settimeout(5)
            connection.sendall(struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body)
            with connection.makefile("rb") as answer:
                size, header_size = struct.unpack(">ii", answer.read(8))
                rest = answer.read(size - 4)
                length = header_size & 0xFFFFFF
                return json.loads(rest[:length]), rest[length:]
    except (OSError, struct.error, ValueError):
        return {}, b""


def wait(what, condition, seconds=START_SECONDS):
    """Waits until a condition holds; returns the seconds that it took."""
    start = time.monotonic()
    while True:
        if condition():
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            raise RuntimeError(f"waited {seconds} s for {what}")
        time.sleep(0.1)
