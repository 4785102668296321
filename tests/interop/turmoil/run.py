#!/usr/bin/env python3
"""The turmoil suite: the Java and the Go suite once more, on a group of three brokers whose master is killed under them, again and
again. The contract with its caller is in ../run.

A killed broker is started again after a moment, and the next master is killed when all are in sync. The clients ask for routes every second,
as in the other suites (Java), or with Go's defaults.
"""
import argparse
import contextlib
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "ha"), str(HERE.parent / "controller"), str(HERE.parent / "lib")]

from cluster import BROKER_CONF  # noqa: E402
from group import Group  # noqa: E402

SUMMARY = re.compile(r"(\d+) passed, (\d+) failed$")
RESULT = re.compile(r"(?:ok|FAIL) ([^ :]+)")

# What a client says whose request was under way to a broker that died, or went to one that was not there, and what a case says that measures time,
# that has seen two masters, or whose query two addresses of the group answered, since one of them got it a tenth of a second late.
# Requests that clients do not try again by themselves (of tools, queries, pull consumers, of one fixed broker) may end so: their case is run again.
AGAIN = re.compile(r"RemotingConnectException|RemotingSendRequestException|RemotingTimeoutException|Invoke Broker\[|connection refused|EOF|broken pipe|reset by peer|"
                   r"connection closed|not online|CODE: 208|\bms\b.*: want|took \d+ ms|not within|waited \d+m|did not end|SIGSEGV|"
                   r"came after .* due|call timeout|port of the store host|want \[(\w+)\], got \[\1, \1\]")
ATTEMPTS = 6

# What some cases may say while masters are killed, and why.
CONFIG = "a broker's configuration is its own, and goes with it"
EXCUSED = {
    "admin.trace": ("three trace records", "the client sends each trace record once"),
    "TestTrace": ("trace", "the client sends each trace record once"),
    "send.sync": ("offset in queue", "the client sends again what a dead master may have taken"),
    "send.oneway": ("messages in", "nobody answers a one-way message"),
    "TestSendOneway": ("", "nobody answers a one-way message"),
    "send.queue-selector": ("queue: want", "the standby's queue stands for another one of the topic"),
    "config.no-sql": ("succeeded", CONFIG),
    "config.no-auto-create": ("succeeded", CONFIG),
    "config.log-deletion": ("", CONFIG),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN")
    only = parser.parse_args().only
    directory = pathlib.Path(os.environ["CLUSTER_DIR"]) / "turmoil"
    keep = ("traceTopicEnable", "waitTimeMillsInSendQueue", "diskMaxUsedSpaceRatio")
    group = Group(os.environ["IMPL"], directory, {key: BROKER_CONF[key] for key in keep})
    passed = failed = kills = 0
    try:
        group.start_all()
        for suite in ("java", "goclient"):
            with turmoil(group) as trouble:
                ok, bad = program(suite, group, only, trouble)
            passed, failed, kills = passed + ok, failed + bad, kills + trouble.kills
    finally:
        group.stop()
    print(f"masters killed: {kills}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


class Trouble(threading.Thread):
    """Kills the master again and again. What has gone wrong is in error."""

    SECONDS = (4, 8)  # from a whole group to the next kill
    DOWN = 1  # until it is started again

    def __init__(self, group):
        super().__init__(daemon=True)
        self.group, self.kills, self.error = group, 0, None
        self.lock, self.over = threading.Lock(), threading.Event()

    def run(self):
        try:
            while not self.over.wait(random.uniform(*self.SECONDS)):
                self.kill()
        except RuntimeError as error:
            self.error = error

    def kill(self):
        with self.lock:
            self.group.kill_master()
            self.kills += 1
            self.over.wait(self.DOWN)
            self.group.heal()

    def restart(self):
        """What a case that restarts the broker asks for."""
        try:
            self.kill()
        except RuntimeError as error:
            return repr(error)
        return "ok"


@contextlib.contextmanager
def turmoil(group):
    trouble = Trouble(group)
    trouble.start()
    try:
        yield trouble
    finally:
        trouble.over.set()
        trouble.join()
    if trouble.error:
        raise trouble.error


def program(suite, group, only, trouble):
    """Runs another suite on the group; returns how many of its cases passed and failed."""
    passed, failed, again = attempt(suite, group, only, trouble, None)
    for case in again:
        for number in range(ATTEMPTS):
            ok, bad, more = attempt(suite, group, case, trouble, case)
            if not more or number == ATTEMPTS - 1:
                passed, failed = passed + ok, failed + bad + len(more)
                break
    return passed, failed


def attempt(suite, group, only, trouble, case):
    """One run: passed and failed cases, and those that are to be run again. With a case only that one counts."""
    environment = os.environ | {"NAMESRV": group.address("namesrv"), "BROKER_ADDR": group.address(group.master()), "CLUSTER_DIR": str(group.directory),
                                "TURMOIL": "1"}
    command = [sys.executable, HERE.parent / suite / "run.py", "--only", only]
    passed, failed, again, said = 0, 0, [], False
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        for line in process.stdout:
            result = RESULT.match(line)
            said = said or SUMMARY.match(line) is not None
            if line.startswith("@RESTART "):
                process.stdin.write(trouble.restart() + "\n")
                process.stdin.flush()
            elif result and case in (None, result[1]):
                if line.startswith("ok "):
                    passed += 1
                elif result[1] in EXCUSED and EXCUSED[result[1]][0] in line:
                    line = f"excused {result[1]}: {EXCUSED[result[1]][1]}\n"
                elif AGAIN.search(line):
                    again.append(result[1])
                    line = f"again {line[5:]}"
                else:
                    failed += 1
                print(line, end="", flush=True)
    if not said:
        print(f"FAIL {suite}: ended with {process.returncode}", flush=True)
        failed += 1
    return passed, failed, again


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
