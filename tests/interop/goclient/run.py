#!/usr/bin/env python3
"""The Go client suite: the tests of this folder's module. The contract with its caller is in ../run.

With --ha those that want a group of brokers, whose master is killed: they are part of the suite in ../ha.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def events(only, ha, offsets):
    """Yields what `go test -json` reports. offsets is where broadcasting consumers keep theirs."""
    which = ["-skip", "^TestHa", "-run", re.escape(only)]
    if ha:
        which = ["-run", "^TestHa" if only in "TestHa" else "^TestHa.*" + re.escape(only)]
    command = ["go", "test", "-json", "-count=1", "-parallel=8", "-timeout=150s", *which, "."]
    env = os.environ | {"rocketmq.client.localOffsetStoreDir": offsets}
    with subprocess.Popen(command, cwd=HERE, env=env, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            try:
                yield json.loads(line)
            except ValueError:  # a word of the go command itself
                yield {"Action": "output", "Output": line}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--ha", action="store_true")
    options = parser.parse_args()
    output, running, passed, failed = collections.defaultdict(list), set(), 0, 0
    with tempfile.TemporaryDirectory() as offsets:
        for event in events(options.only, options.ha, offsets):
            test, action = event.get("Test", ""), event["Action"]
            if action in ("output", "build-output") and not event["Output"].startswith(("===", "---", "FAIL", "PASS")):
                output[test].append(event["Output"].strip())
            elif action == "run":
                running.add(test)
            elif test and action == "pass":
                running.remove(test)
                passed += 1
                print(f"ok {test} {event['Elapsed'] * 1000:.0f}", flush=True)
            elif test and action == "fail":
                running.remove(test)
                failed += 1
                print(f"FAIL {test}: {' | '.join(output[test]) or 'no message'}", flush=True)
    for test in sorted(running):
        failed += 1
        print(f"FAIL {test}: did not end")
    if passed + failed == 0 and not (options.ha and options.only):
        failed = 1
        print(f"FAIL build: {' | '.join(output[''])}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
