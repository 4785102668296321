"""mqadmin in a JVM that stays, and readers for what it prints."""
import json
import pathlib
import re
import subprocess
import threading

COMMAND_SECONDS = 60
HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A check of a case did not hold."""


class MQAdmin:
    """The process of Driver.java. directory is its home and working directory: tools write files there."""

    def __init__(self, directory, namesrv, jars):
        self.namesrv = namesrv
        self.process = subprocess.Popen(
            ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={directory}",
             f"-Drocketmq.home.dir={directory}", f"-Drocketmq.namesrv.addr={namesrv}", "-cp", f"{jars}/*",
             str(HERE / "Driver.java")],
            cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, *words):
        """Runs one command of mqadmin, or one with @ of Driver.java."""
        if not words[0].startswith("@"):
            words += ("-n", self.namesrv)
        command = " ".join(map(str, words))
        watchdog = threading.Timer(COMMAND_SECONDS, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(("\t".join(map(str, words)) + "\n").encode())
            self.process.stdin.flush()
            header = self.process.stdout.readline()
            if not header:
                raise Failed(f"{command}: the JVM ended, or took more than {COMMAND_SECONDS} s and was killed")
            out, err = map(int, header.split())
            return Result(command, self.process.stdout.read(out).decode(), self.process.stdout.read(err).decode())
        finally:
            watchdog.cancel()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Result:
    """What a command printed."""

    def __init__(self, command, out, err):
        self.command, self.out, self.err = command, out, err

    def fail(self, message):
        raise Failed(f"{self.command}: {message}; output {self.out[:600]!r} {self.cause()!r}")

    def cause(self):
        """The innermost exception, which holds the answer of the server."""
        lines = [line for line in self.err.splitlines() if "Exception" in line and not line.startswith("\t")]
        return lines[-1] if lines else self.err[:300]

    def ok(self):
        """The command worked: mqadmin tells that by an empty error stream only."""
        if self.err:
            self.fail("failed")
        return self

    def refused(self, code):
        """The command failed with a response code."""
        if not re.search(rf"CODE: {code}\b", self.err):
            self.fail(f"want the code {code}")
        return self

    def has(self, *texts):
        """The output contains each text."""
        for text in texts:
            if text not in self.ok().out:
                self.fail(f"want {text!r}")
        return self

    def match(self, pattern):
        """The groups of the first match of a pattern; ^ and $ are line ends."""
        found = re.search(pattern, self.ok().out, re.MULTILINE)
        if not found:
            self.fail(f"want a match of {pattern!r}")
        return found

    def lines(self):
        return [line for line in self.ok().out.splitlines() if line.strip()]

    def table(self, first, gap=r"\s{2,}"):
        """Rows below the header that starts with the column `first`, as dictionaries without the # of the names.

        gap is what separates the columns of a row. The table ends at the first empty line.
        """
        lines = self.ok().out.splitlines()
        start = next((i for i, line in enumerate(lines) if line.startswith(first)), None)
        if start is None:
            self.fail(f"want a table with the column {first}")
        names = [name.strip() for name in lines[start].split("#")[1:]]
        rows = []
        for line in lines[start + 1:]:
            if not line.strip():
                break
            rows.append(dict(zip(names, re.split(gap, line.strip()))))
        return rows

    def pairs(self, separator):
        """Lines `key SEPARATOR value` as a dictionary."""
        parts = (line.split(separator, 1) for line in self.ok().out.splitlines() if separator in line)
        return {key.strip(): value.strip() for key, value in parts}

    def json(self):
        """The output as JSON; the tools write integer keys without quotes."""
        return relaxed_json(self.ok().out)


def relaxed_json(text):
    return json.loads(re.sub(r"([{,]\s*)(-?\d+)\s*:", r'\1"\2":', text))


def expect(actual, wanted, what):
    if actual != wanted:
        raise Failed(f"{what}: got {actual!r}, want {wanted!r}")


def check(condition, what):
    if not condition:
        raise Failed(what)
