#!/usr/bin/env python3
"""The wayback suite: brokers of both kinds on one store. The contract with its caller is in ../run.

The official client (src/) fills a broker with one of everything; the next broker on the store, of the other kind, must have it
all and go on from there; so must the first kind when it gets the store back. The suite runs these brokers itself, beside the
cluster of the contract. --only takes a pattern of journeys; with the Java brokers there is nothing to run.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import maven
from cluster import REPOSITORY, Cluster

HERE = pathlib.Path(__file__).resolve().parent
COMMAND_SECONDS = 150
PERSIST_SECONDS = 30
CONF = {
    "messageDelayLevel": "1s 25s",  # one is over before the brokers change, the other is not
    # Small enough for several files of each.
    "mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 2000, "maxIndexNum": 2000,
    # How much, in ms, a Java broker forgets when it is killed.
    "flushConsumerOffsetInterval": 500, "flushDelayOffsetInterval": 500,
}

STOPPED, KILLED = signal.SIGTERM, signal.SIGKILL

# The brokers that have a store, one after the other, and how each ends. The first is filled, the second must have everything,
# the third must know what the second did.
JOURNEYS = {
    "castor-java-castor": [("castor", STOPPED), ("java", KILLED), ("castor", STOPPED)],
    "castor-killed-java": [("castor", KILLED), ("java", KILLED)],
    "java-castor-java": [("java", STOPPED), ("castor", STOPPED), ("java", KILLED)],
    "java-killed-castor": [("java", KILLED), ("castor", STOPPED)],
}
COMMANDS = "write", "read", "read-again"


class Failed(Exception):
    """A step that the others need did not work."""


class Store(Cluster):
    """A store that brokers of both kinds run on in turn. The name server is Castor's."""

    def __init__(self, directory):
        super().__init__("castor", directory, CONF)

    def __enter__(self):
        self.start("namesrv")
        return self

    def run(self, kind):
        self.impl = kind
        self.start("broker")

    def end(self, how):
        """Ends the broker. One that is told to stop must do so in order; a JVM then says that it was told."""
        code = self._end("broker", how)
        if code not in ([-KILLED] if how == KILLED else [0, 128 + STOPPED]):
            raise Failed(f"the broker ended with {code}: {self.tail('broker')}")

    def export(self):
        """Has a Castor that has ended write its metadata for Java."""
        binary = pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin") / "castor"
        done = subprocess.run([binary, "store", "export", "-c", self.directory / "broker" / "broker.conf"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failed(f"castor store export: {done.stdout}")

    def wait_persisted(self):
        """Waits until a Java broker has written the offsets that it holds now."""
        begin = time.time()
        for name in "consumerOffset.json", "delayOffset.json":
            path = self.directory / "broker" / "store" / "config" / name
            while not path.exists() or path.stat().st_mtime <= begin:
                if time.time() > begin + PERSIST_SECONDS:
                    raise Failed(f"the Java broker does not write {path}")
                time.sleep(0.05)


class Client:
    """The process of src/, which obeys one command after the other, and the count of its cases."""

    def __init__(self, directory):
        classpath = f"{maven.package(HERE)}/*:{maven.dependencies(HERE / 'pom.xml')}/*"
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}", "-cp", classpath,
             "castor.interop.wayback.Main"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.passed = self.failed = 0

    def __call__(self, command, store, journey):
        """Runs a command and returns how many of its cases failed."""
        failed = 0
        watchdog = threading.Timer(COMMAND_SECONDS, self.process.kill)
        watchdog.start()
        try:
            print(command, store.namesrv, store.broker, journey, file=self.process.stdin, flush=True)
            for line in self.process.stdout:
                if line == "done\n":
                    return failed
                print(line, end="", flush=True)
                self.passed += line.startswith("ok ")
                failed += line.startswith("FAIL ")
        finally:
            watchdog.cancel()
            self.failed += failed
        raise Failed(f"{command}: the client ended, or took more than {COMMAND_SECONDS} s and was killed")

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def travel(client, directory, name, brokers):
    with Store(directory / name) as store:
        before = None
        for command, (kind, how) in zip(COMMANDS, brokers):
            if before == "castor":
                store.export()
            store.run(kind)
            if client(command, store, name) and command == "write":
                return
            if (kind, how) == ("java", KILLED):
                store.wait_persisted()
            store.end(how)
            before = kind


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="PATTERN")
    only = parser.parse_args().only
    if os.environ["IMPL"] == "java":
        print("0 passed, 0 failed")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = pathlib.Path(os.environ["CLUSTER_DIR"]) / "wayback"
    directory.mkdir(parents=True, exist_ok=True)
    client = Client(directory)
    try:
        for name, brokers in JOURNEYS.items():
            if only in name:
                try:
                    travel(client, directory, name, brokers)
                except (Failed, RuntimeError) as error:
                    print(f"FAIL {name}: {' | '.join(str(error).splitlines())}", flush=True)
                    client.failed += 1
    finally:
        client.close()
    print(f"{client.passed} passed, {client.failed} failed")
    return 1 if client.failed else 0


if __name__ == "__main__":
    sys.exit(main())
