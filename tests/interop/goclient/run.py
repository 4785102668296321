#!/usr/bin/env python3
"""Run the tests of the official Go client against the broker of the environment.

Arguments: names of tests (TestSendSync ...); none means all. The environment names the servers: NAMESRV and
BROKER_ADDR. Prints one line per test, `ok NAME ms` or `FAIL NAME: reason`, and a closing count.
"""
import collections, json, os, pathlib, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent


def events(names, offsets):
    """Yield what `go test -json` reports. offsets is where broadcasting consumers keep theirs."""
    command = ["go", "test", "-json", "-count=1", "-parallel=32", "-timeout=85s"]
    command += ["-run", "^(" + "|".join(names) + ")$"] if names else []
    env = os.environ | {"rocketmq.client.localOffsetStoreDir": offsets}
    with subprocess.Popen([*command, "."], cwd=HERE, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        for line in process.stdout:
            try:
                yield json.loads(line)
            except ValueError:  # a word of the go command itself
                yield {"Action": "output", "Output": line}


def main():
    output, open_tests, failed, passed = collections.defaultdict(list), set(), 0, 0
    with tempfile.TemporaryDirectory() as offsets:
        for e in events(sys.argv[1:], offsets):
            test, action = e.get("Test", ""), e["Action"]
            if action in ("output", "build-output") and not e["Output"].startswith(("===", "---", "FAIL", "PASS")):
                output[test].append(e["Output"].strip())
            elif action == "run":
                open_tests.add(test)
            elif test and action in ("pass", "fail"):
                open_tests.discard(test)
                if action == "pass":
                    passed += 1
                    print(f"ok {test} {e['Elapsed'] * 1000:.0f}", flush=True)
                else:
                    failed += 1
                    print(f"FAIL {test}: {' | '.join(output[test]) or 'no message'}", flush=True)
    for test in sorted(open_tests):
        failed += 1
        print(f"FAIL {test}: did not end")
    if passed + failed == 0:
        failed = 1
        print(f"FAIL build: {' | '.join(output[''])}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
