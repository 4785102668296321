"""What is measured, as data: scenarios are brokers, loads run against them, rows are what the table shows.

A row compares one figure of Java's broker with the same figure of Castor's. Its ratio says how many times better Castor
is, so a ratio above 1 is always good news, and the target is the least ratio that is good enough. A row with a bound is judged by Castor's figure alone.
"""
import dataclasses
import typing

JAVA, CASTOR = "java", "castor"


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A broker: its properties beside the common ones, Java's heap, and how it is measured."""
    conf: dict = dataclasses.field(default_factory=dict)
    heap: str = "4g"
    warm: bool = True    # run a load first that is not measured: Java compiles its hot paths meanwhile
    once: bool = False   # one round is enough: the loads repeat by themselves
    group: int = 0       # so many brokers and three controllers, acknowledged by the whole SyncStateSet
    classic: bool = False  # of a group: Java's has no controllers, but SYNC_MASTER and slaves


ALL_ACK = {"allAckInSyncStateSet": "true", "minInSyncReplicas": 2, "inSyncReplicas": 2}

SCENARIOS = {
    "async": Scenario(),
    "sync": Scenario(conf={"flushDiskType": "SYNC_FLUSH"}),
    # The smallest heap that Java's broker works with, and no page of it touched in advance.
    "idle": Scenario(heap="256m", warm=False),
    "big": Scenario(warm=False, once=True),
    "group": Scenario(conf=ALL_ACK, heap="1g", group=3),
    "group-sync": Scenario(conf=ALL_ACK | {"flushDiskType": "SYNC_FLUSH"}, heap="1g", group=3),
    "pair": Scenario(conf=ALL_ACK, heap="1g", group=2, classic=True),
    "group-big": Scenario(conf=ALL_ACK, heap="1g", group=3, once=True),
    "group-idle": Scenario(conf=ALL_ACK, heap="256m", group=3, warm=False),
}


@dataclasses.dataclass(frozen=True)
class Load:
    """One measurement: arguments of `castor bench`, or the name of a method of steps.Steps."""
    scenario: str
    bench: str = ""
    step: str = ""
    quick: bool = True   # part of a quick run


# Loads of a scenario run in this order on one broker.
LOADS = {
    "send-64": Load("async", "send --inflight 64"),
    "coalesce": Load("async", "send --inflight 64 --coalesce"),
    "send-1": Load("async", "send --inflight 1"),
    "conns-64": Load("async", "send --inflight 1 --conns 64"),
    "delivery": Load("async", "latency --rate 1000"),
    "pull": Load("async", "pull --batch 32"),
    "java-client": Load("async", step="java_client", quick=False),
    # Last, since it leaves the disk thousands of files to write, and next to what it is compared with.
    "queues-8": Load("async", "send --inflight 64 --queues 8", quick=False),
    "queues": Load("async", "send --inflight 64 --queues 10000", quick=False),
    "sync-1": Load("sync", "send --inflight 1"),
    "sync-64": Load("sync", "send --inflight 64"),
    "group-64": Load("group", "send --inflight 64"),
    "group-1": Load("group", "send --inflight 1"),
    "group-sync-64": Load("group-sync", "send --inflight 64", quick=False),
    "pair-64": Load("pair", "send --inflight 64", quick=False),
    "replica": Load("group-big", step="replica", quick=False),
    "group-idle": Load("group-idle", step="idle"),
    "first-ack": Load("idle", step="first_ack"),
    "memory": Load("idle", step="memory"),
    "restart": Load("big", step="restart", quick=False),
    "catchup": Load("big", step="catchup", quick=False),
}


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    value: typing.Callable    # results of one round, by load → the figure
    loads: tuple
    more_is_better: bool
    target: float = 1
    bound: float | None = None    # of Castor's figure, from below if more is better


def figure(load, *path):
    """A row's value: one figure of one load."""
    def value(results):
        found = results[load]
        for key in path:
            found = found[key]
        return found
    return value


def _rate(load, title, target):
    return Row(load, title, "msg/s", figure(load, "rate"), (load,), True, target)


def _cpu(load, title, target):
    return Row(f"{load}-cpu", f"{title}: broker CPU", "µs/msg", figure(load, "broker_cpu_us"), (load,), False, target)


def _less(load, title, unit, *path, name=None, target=1, bound=None):
    return Row(name or load, title, unit, figure(load, *path), (load,), False, target, bound)


CATCH_UP = 500    # MB/s that a replica which fetches the log must reach, if the disk does

ROWS = [
    _rate("send-64", "async flush, 64 in flight", 5),
    _cpu("send-64", "async flush, 64 in flight", 10),
    _rate("coalesce", "the same, client coalesces", 20),
    _rate("send-1", "1 in flight", 2),
    _rate("conns-64", "64 connections × 1", 3),
    _rate("sync-64", "SYNC_FLUSH, 64 in flight", 5),
    _rate("sync-1", "SYNC_FLUSH, 1 in flight", 5),
    _rate("pull", "pull, 32 per request", 5),
    _cpu("pull", "pull, 32 per request", 1),
    _rate("queues", "64 in flight on 10,000 queues", 1),
    Row("queues-kept", "rate kept with 10,000 queues", "of 8 queues", lambda r: r["queues"]["rate"] / r["queues-8"]["rate"],
        ("queues", "queues-8"), True, bound=0.6),
    _rate("java-client", "official client's benchmark, 64 threads", 1),
    _less("delivery", "delivery by long poll, p99", "ms", "p99_ms", bound=1),
    _less("catchup", "producer p99 beside a cold consumer", "ms", "p99_ms"),
    _less("catchup", "the same, against the producer alone", "times", "slowdown", name="catchup-slowdown", bound=2),
    _rate("group-64", "three replicas, 64 in flight", 10),
    _cpu("group-64", "three replicas, 64 in flight", 12),
    _rate("group-1", "three replicas, 1 in flight", 7),
    _rate("group-sync-64", "three replicas, SYNC_FLUSH on each, 64 in flight", 4),
    _rate("pair-64", "two replicas against SYNC_MASTER and a slave, 64 in flight", 6),
    Row("replica", "an empty replica fetches the log", "MB/s", figure("replica", "mb_per_second"), ("replica",), True),
    Row("replica-disk", "the same", f"of {CATCH_UP} MB/s or the disk's speed",
        lambda r: r["replica"]["mb_per_second"] / min(CATCH_UP, r["replica"]["disk_mb_per_second"]), ("replica",), True, bound=1),
    _less("replica", "producer p99 beside it, against the producer alone", "times", "slowdown", name="replica-slowdown", bound=2),
    _less("group-idle", "three replicas, idle: memory of all, anonymous", "MiB", "anonymous_mib", name="group-memory", bound=200),
    _less("group-idle", "three replicas, idle: CPU of all", "% of one", "cpu_percent", name="group-idle", bound=2),
    _less("memory", "idle memory, anonymous", "MiB", "anonymous_mib", bound=25),
    _less("first-ack", "start to first acknowledgement", "s", "seconds", bound=0.1),
    _less("restart", "restart after kill -9 over a large log", "s", "seconds", target=10),
]


@dataclasses.dataclass(frozen=True)
class Timing:
    """How long and how much. Seconds and messages."""
    rounds: int
    seconds: float
    warmup: float      # before each load
    broker_warmup: float
    idle: float
    fill: int          # messages of a pull's topic
    log_gib: float     # of the large log
    restarts: int


FULL = Timing(rounds=3, seconds=4, warmup=1, broker_warmup=15, idle=5, fill=500_000, log_gib=6, restarts=3)
QUICK = Timing(rounds=1, seconds=2, warmup=1, broker_warmup=3, idle=1, fill=50_000, log_gib=0.5, restarts=1)
