#!/usr/bin/env python3
"""The mqadmin suite: the official command line tool 5.5.0. The contract with its caller is in ../run.

Cases run in the order of their modules, because later ones change what earlier ones look at.
"""
import argparse
import os
import pathlib
import sys
import time
import traceback

import maven

import broker_cases
import group_cases
import message_cases
import topic_cases
from mqadmin import Failed, MQAdmin
from world import World

HERE = pathlib.Path(__file__).resolve().parent
MODULES = [topic_cases, message_cases, group_cases, broker_cases]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN")
    only = parser.parse_args().only
    directory = pathlib.Path(os.environ["CLUSTER_DIR"]) / "mqadmin"
    directory.mkdir(parents=True, exist_ok=True)
    namesrv, broker = os.environ["NAMESRV"], os.environ["BROKER_ADDR"]
    jars = os.environ.get("JAVA_LIB") or maven.dependencies(HERE / "pom.xml")
    admin = MQAdmin(directory, namesrv, jars)
    try:
        world = World(admin, namesrv, broker, directory, os.environ["IMPL"])
        failed = run("setup", World.setup, world)
        if failed:
            print("0 passed, 1 failed")
            return 1
        cases = [(name, function) for module in MODULES for name, function in cases_of(module) if only in name]
        failed = sum(run(name, function, world) for name, function in cases)
    finally:
        admin.close()
    print(f"{len(cases) + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


def cases_of(module):
    """The functions of a module in the order of the source; those with _ are helpers."""
    return [(name, function) for name, function in vars(module).items()
            if getattr(function, "__module__", "") == module.__name__ and callable(function) and name[0] != "_"]


def run(name, function, world):
    """Runs a case and prints how it went; the value is the number of failures."""
    start = time.monotonic()
    try:
        function(world)
    except Failed as error:
        print(f"FAIL {name}: {' | '.join(str(error).splitlines())}", flush=True)
    except Exception:  # output of another shape than the parsers know
        print(f"FAIL {name}: {' | '.join(traceback.format_exc().splitlines()[-5:])}", flush=True)
    else:
        print(f"ok {name} {(time.monotonic() - start) * 1000:.0f}", flush=True)
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
