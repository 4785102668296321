#!/usr/bin/env python3
"""The ha suite: a name server, three controllers and three brokers of one group, whose master changes under official
clients and tools. The contract with its caller is in ../run.

First mqadmin, Java's and ours, looks at the group and commands it; then the Java and the Go client work while the
master is killed.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent / "mqadmin"), str(HERE.parent / "controller")]

import maven  # noqa: E402
from group import Control, Group  # noqa: E402
from mqadmin import Failed  # noqa: E402
import tools  # noqa: E402

SUMMARY = re.compile(r"(\d+) passed, (\d+) failed$")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN")
    only = parser.parse_args().only
    directory = pathlib.Path(os.environ["CLUSTER_DIR"]) / "ha"
    group = Group(os.environ["IMPL"], directory)
    passed = failed = 0
    try:
        group.start_all()
        for suite in (tools_cases, clients):
            ok, bad = suite(group, directory, only)
            passed, failed = passed + ok, failed + bad
    finally:
        group.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def tools_cases(group, directory, only):
    cases = [c for c in tools.CASES if only in c.__name__]
    if not cases:
        return 0, 0
    world = tools.World(group, directory)
    try:
        results = [run(case, world) for case in cases]
    finally:
        world.close()
    return results.count(True), results.count(False)


def run(case, world):
    """Runs a case and prints how it went."""
    start = time.monotonic()
    try:
        case(world)
    except (Failed, RuntimeError) as error:
        print(f"FAIL {case.__name__}: {' | '.join(str(error).splitlines())}", flush=True)
    except Exception:  # output of another shape than the parsers know
        print(f"FAIL {case.__name__}: {' | '.join(traceback.format_exc().splitlines()[-5:])}", flush=True)
    else:
        print(f"ok {case.__name__} {(time.monotonic() - start) * 1000:.0f}", flush=True)
        return True
    return False


def clients(group, directory, only):
    """The programs with the clients, at the same time: the master is killed once, under all of them."""
    project = HERE.parent / "java"
    classpath = f"{maven.package(project)}/*:{maven.dependencies(project / 'pom.xml')}/*"
    commands = [
        ["java", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}", "-cp", classpath,
         "castor.interop.Main", group.address("namesrv"), "--ha", "--only", only],
        [sys.executable, HERE.parent / "goclient" / "run.py", "--ha", "--only", only]]
    master = group.heal()
    control = Control(group, len(commands))
    environment = os.environ | {"NAMESRV": group.address("namesrv"), "BROKER_ADDR": master, "HA_CONTROL": control.url}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda command: program(command, environment, control), commands))
    return tuple(map(sum, zip(*results)))


def program(command, environment, control):
    """Runs a program with clients; returns how many of its cases passed and failed."""
    passed = failed = 0
    with subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment) as process:
        for line in process.stdout:
            summary = SUMMARY.match(line)
            if summary:
                passed, failed = map(int, summary.groups())
            else:
                print(line, end="", flush=True)
    control.ended()
    if process.returncode != 0 and failed == 0:
        print(f"FAIL {pathlib.Path(str(command[0])).name}: ended with {process.returncode}", flush=True)
        failed = 1
    return passed, failed


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
