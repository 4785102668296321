"""The measurements themselves, each on a running broker. A result is a dict of figures."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import time

import broker as brokers

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SLACK_SECONDS = 180           # beyond a load's own time, before it is given up
FILL_SECONDS = 3600
RECORD_BYTES = 1280           # about what a message of 1 KiB takes in the log
OLD_TOPIC = "old"
CATCHUP_RATE = 5000
WARM_MESSAGES = 400_000
JAVA_WARMUP_REPORTS = 3       # reports of the official client's benchmark before its rate counts
TPS = re.compile(r"\bTPS: (\d+)")
BENCHMARK = "org.apache.rocketmq.example.benchmark.Producer"


class Steps:
    """Runs loads against one broker."""

    def __init__(self, broker, timing):
        self.broker = broker
        self.timing = timing
        self.filled = False

    def run(self, name, load):
        """The figures of one load."""
        if load.bench:
            return self.bench(name, load.bench)
        return getattr(self, load.step)()

    def bench(self, topic, arguments):
        """The figures of one `castor bench`."""
        arguments = arguments.split()
        if arguments[0] == "pull":
            arguments += ["--fill", str(self.timing.fill)]
        result = self._castor(self.timing.seconds + self.timing.warmup, *arguments, "-t", topic,
                              "--seconds", str(self.timing.seconds), "--warmup", str(self.timing.warmup))
        result["p99_ms"] = result["latency_us"]["p99"] / 1000
        return result

    def warm_up(self):
        """A load that is not measured. It is the same amount of work for both brokers: a log that grows quickly through memory that
        the machine has not used before would slow the faster one down."""
        seconds = self.timing.broker_warmup
        self._castor(seconds, "send", "-t", "warm", "--seconds", str(seconds), "--messages", str(WARM_MESSAGES), "--coalesce")

    def java_client(self):
        """The rate that the official client's own benchmark prints, with as many threads as others have in flight."""
        reports = JAVA_WARMUP_REPORTS + max(2, round(self.timing.seconds))
        process = subprocess.Popen(
            ["java", "-Xms512m", "-Xmx512m", "-XX:+UseG1GC", f"-Duser.home={self.broker.directory}", "-cp",
             brokers.jars(), BENCHMARK, "-n", self.broker.namesrv, "-t", "java-client", "-s", "1024", "-w", "64", "-ri", "1000"],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        rates, end = [], time.monotonic() + SLACK_SECONDS
        try:
            for line in process.stdout:
                rates += map(int, TPS.findall(line))
                if len(rates) >= reports or time.monotonic() > end:
                    break
        finally:
            process.send_signal(signal.SIGKILL)  # its shutdown hook would only print
            process.wait()
            process.stdout.close()
        if len(rates) < reports:
            raise RuntimeError(f"{BENCHMARK} printed {len(rates)} reports of {reports}")
        return {"rate": statistics.mean(rates[JAVA_WARMUP_REPORTS:])}

    def first_ack(self):
        return {"seconds": self.broker.first_ack}

    def memory(self):
        """Anonymous memory of the idle broker: what is its own, not the page cache's."""
        time.sleep(self.timing.idle)
        return {"anonymous_mib": anonymous_mib(self.broker.pid())}

    def idle(self):
        """Anonymous memory and processor time of all idle processes of a group."""
        pids = self.broker.pid().split(",")
        time.sleep(self.timing.idle)
        begin, before = time.monotonic(), sum(map(cpu_seconds, pids))
        time.sleep(self.timing.idle)
        spent = sum(map(cpu_seconds, pids)) - before
        return {"anonymous_mib": sum(map(anonymous_mib, pids)), "cpu_percent": 100 * spent / (time.monotonic() - begin)}

    def restart(self):
        """Kill -9 under a large log, start, first acknowledgement."""
        self._fill()
        times = []
        for _ in range(self.timing.restarts):
            self.broker.kill()
            self.broker.start("broker")
            times.append(self.broker.first_ack)
        return {"seconds": statistics.median(times), "log_bytes": log_bytes(self.broker.store())}

    def catchup(self):
        """A producer at a steady rate, alone and beside a consumer of messages that are only on disk."""
        self._fill()
        self.broker.shut_down()
        forget_pages(self.broker.store())
        self.broker.start("broker")
        self.warm_up()
        result = self._castor(
            2 * (self.timing.seconds + self.timing.warmup), "catchup", "-t", OLD_TOPIC, "--rate", str(CATCHUP_RATE),
            "--seconds", str(self.timing.seconds), "--warmup", str(self.timing.warmup))
        alone, together = (result[key]["latency_us"]["p99"] for key in ("alone", "together"))
        return result | {"p99_ms": together / 1000, "slowdown": together / alone}

    def replica(self):
        """A replica that has lost its disk fetches the log, beside a producer at a steady rate."""
        group = self.broker
        self._fill(self.timing.log_gib / 3)  # there are three of it
        name = next(name for name in group.brokers if name != group.master())
        group.kill(name)
        shutil.rmtree(group.store(name))
        group.await_sync(len(group.brokers) - 1)
        arguments = ("send", "-t", "beside", "--rate", str(CATCHUP_RATE), "--seconds", str(self.timing.seconds), "--warmup", str(self.timing.warmup))
        alone = self._castor(self.timing.seconds + self.timing.warmup, *arguments)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            beside = pool.submit(self._castor, self.timing.seconds + self.timing.warmup, *arguments)
            time.sleep(self.timing.warmup)
            began = time.monotonic()
            group.start(name)
            group.await_sync(len(group.brokers))
            took = time.monotonic() - began
            together = beside.result()
        p99 = [result["latency_us"]["p99"] for result in (alone, together)]
        size = log_bytes(group.store(name))
        return {"seconds": took, "mb_per_second": size / took / 1e6, "disk_mb_per_second": disk_speed(group.store(name), size),
                "p99_ms": p99[1] / 1000, "slowdown": p99[1] / p99[0]}

    def _fill(self, gib=None):
        if not self.filled:
            messages = int((gib or self.timing.log_gib) * 2**30 / RECORD_BYTES)
            self._castor(FILL_SECONDS, "send", "-t", OLD_TOPIC, "--messages", str(messages), "--inflight", "256",
                         "--coalesce", "--seconds", str(FILL_SECONDS))
            self.filled = True

    def _castor(self, seconds, *arguments):
        castor = pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin") / "castor"
        done = subprocess.run([castor, "bench", *arguments, "-n", self.broker.namesrv, "--pid", str(self.broker.pid()),
                               "--json"], text=True, capture_output=True, timeout=seconds + SLACK_SECONDS)
        if not done.stdout:
            raise RuntimeError(done.stderr.strip() or f"castor bench ended with {done.returncode}")
        result = json.loads(done.stdout)
        if done.returncode != 0:
            raise RuntimeError(f"castor bench {' '.join(arguments)}: {done.stdout.strip()}")
        return result


def anonymous_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+) kB", status, re.M)[1]) / 1024


def cpu_seconds(pid):
    """As the scheduler has it: what is spent between two ticks counts, too."""
    return sum(int(task.read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def log_bytes(store):
    return sum(file.stat().st_size for file in (store / "commitlog").iterdir())


def disk_speed(folder, size):
    """MB/s at which a new file of size bytes in folder is written and synced, with nobody beside it."""
    os.sync()  # what the load has left
    file, piece = folder / "speed", os.urandom(1 << 20)
    with file.open("wb", buffering=0) as out:
        began = time.monotonic()
        for _ in range(size // len(piece)):
            out.write(piece)
        os.fsync(out.fileno())
        took = time.monotonic() - began
    file.unlink()
    return size / took / 1e6


def forget_pages(store):
    """Drops a store's files from the page cache. Nobody has them mapped any more."""
    for file in store.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # only clean pages can be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
