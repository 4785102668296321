#!/usr/bin/env python3
"""The controller suite: three controllers elect among two Java brokers. The contract with its caller is in ../run.

The controllers are Castor's, or with --peer the Java ones; name server, brokers, clients and mqadmin are the official ones.
Cases run in their order: they tell one story.
"""
import argparse
import os
import pathlib
import signal
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mqadmin"))

import maven  # noqa: E402
from mqadmin import Failed, MQAdmin, check, expect  # noqa: E402
from quorum import BROKER_NAME, CLUSTER_NAME, Quorum, wait  # noqa: E402

TOPIC = "ControllerTopic"
CASES = []


def case(function):
    CASES.append(function)
    return function


class World:
    def __init__(self, quorum, admin):
        self.quorum, self.admin, self.sent, self.found = quorum, admin, [], 0

    def leader(self):
        wait("a controller to lead", self.quorum.leader, 20)
        return self.quorum.address(self.quorum.leader())

    def send(self, text, seconds=60):
        """Sends until it is acknowledged, as long as clients may take to find a new master."""
        end = time.monotonic() + seconds
        while True:
            result = self.admin("@send", "P", TOPIC, 0, "tag", text, text)
            if not result.err:
                self.sent.append(text)
                return
            if time.monotonic() > end:
                result.fail("was never acknowledged")
            time.sleep(0.5)

    def all_arrived(self):
        return set(self.sent) <= set(self.admin("@consumed", "C").lines())


@case
def metadata(w):
    for name in w.quorum.controllers:
        result = w.admin("getControllerMetaData", "-a", w.quorum.address(name))
        result.has("#ControllerGroup\tgroup1", f"#ControllerLeaderAddress\t{w.leader()}")
        for other in w.quorum.controllers:
            result.has(f"#Peer:\tn{other[-1]}:{w.quorum.address(other)}")


@case
def configuration(w):
    leader = w.leader()
    w.admin("getControllerConfig", "-a", leader).has("controllerDLegerGroup", "enableElectUncleanMaster")
    for value in ("true", "false"):
        w.admin("updateControllerConfig", "-a", leader, "-k", "enableElectUncleanMaster", "-v", value).has("update controller config success")
        expect(w.admin("getControllerConfig", "-a", leader).pairs("=")["enableElectUncleanMaster"], value, "the changed value")
    w.admin("updateControllerConfig", "-a", leader, "-k", "configStorePath", "-v", "x").refused(16)


@case
def a_master_is_elected_and_the_other_joins(w):
    wait("both brokers in sync", lambda: w.quorum.in_sync() == w.quorum.brokers)
    result = w.admin("getSyncStateSet", "-a", w.leader(), "-b", BROKER_NAME)
    result.has(f"#MasterAddr\t{w.quorum.address(w.quorum.master())}", "#MasterEpoch\t1", "#SyncStateSetNums\t2", "alive=true")
    expect(len([line for line in result.lines() if line.startswith("InSyncReplica")]), 2, "replicas in sync")
    w.admin("getSyncStateSet", "-a", w.leader(), "-c", CLUSTER_NAME).has(f"#brokerName\t{BROKER_NAME}")


@case
def messages_pass(w):
    w.admin("updateTopic", "-c", CLUSTER_NAME, "-t", TOPIC, "-r", 1, "-w", 1).ok()
    w.admin("@producer", "P", "").ok()
    w.admin("@consumer", "C", TOPIC, "*").ok()
    for i in range(20):
        w.send(f"first-{i}")
    wait("the messages at the consumer", w.all_arrived, 60)


@case
def an_operator_names_the_master(w):
    target = next(b for b in w.quorum.brokers if b != w.quorum.master())
    result = w.admin("electMaster", "-a", w.leader(), "-b", w.quorum.id_of(target), "-bn", BROKER_NAME, "-c", CLUSTER_NAME)
    if w.quorum.impl == "castor":  # the tool cannot read what Java's controller answers
        result.has(f"#BrokerMasterAddr\t{w.quorum.address(target)}", "#Broker\t2\t")
    wait(f"{target} to be master", lambda: w.quorum.master() == target, 10)
    w.admin("electMaster", "-a", w.leader(), "-b", 9, "-bn", BROKER_NAME, "-c", CLUSTER_NAME).refused(2012)
    wait("both brokers in sync again", lambda: w.quorum.in_sync() == w.quorum.brokers)
    w.send("after-election")


@case
def a_killed_master_is_replaced(w):
    old = w.quorum.master()
    epoch = w.quorum.replicas()["masterEpoch"]
    w.quorum.kill(old)
    took = wait("another master", lambda: w.quorum.master() not in (None, old), 15)
    print(f"# another master after {took:.1f} s", flush=True)
    expect(w.quorum.replicas()["masterEpoch"], epoch + 1, "master epoch")
    for i in range(5):
        w.send(f"after-kill-{i}")
    w.quorum.start(old)
    wait("the killed broker in sync again", lambda: w.quorum.in_sync() == w.quorum.brokers)
    check(w.quorum.master() != old, "the killed broker took mastership back")
    wait("all acknowledged messages at the consumer", w.all_arrived, 90)


@case
def a_hung_master_is_replaced(w):
    """Its connections stay open and nothing comes over them."""
    old = w.quorum.master()
    w.quorum.signal(old, signal.SIGSTOP)
    took = wait("another master", lambda: w.quorum.master() not in (None, old), 20)
    print(f"# another master after {took:.1f} s", flush=True)
    w.send("after-hang", 120)
    w.quorum.signal(old, signal.SIGCONT)
    wait("the master that hung in sync again", lambda: w.quorum.in_sync() == w.quorum.brokers)
    check(w.quorum.master() != old, "the master that hung took mastership back")
    wait("all acknowledged messages at the consumer", w.all_arrived, 90)


@case
def the_leading_controller_is_killed(w):
    before = w.quorum.replicas()
    old = w.quorum.leader()
    w.quorum.kill(old)
    took = wait("another leader", lambda: w.quorum.leader() not in (None, old), 20)
    print(f"# another leader after {took:.1f} s", flush=True)
    keys = "masterBrokerId", "masterEpoch", "syncStateSetEpoch"
    wait("the same state", lambda: {k: w.quorum.replicas().get(k) for k in keys} == {k: before[k] for k in keys}, 15)
    w.send("after-controller-kill")
    w.quorum.start(old)
    wait("the killed controller to know the leader", lambda: w.quorum.leader() is not None, 20)
    time.sleep(5)  # nobody may lose his office because a controller came back
    expect({k: w.quorum.replicas().get(k) for k in keys}, {k: before[k] for k in keys}, "state after the return of a controller")


@case
def a_leader_that_is_stopped_hands_over(w):
    old = w.quorum.leader()
    code = w.quorum.kill(old, signal.SIGTERM)
    if w.quorum.impl == "castor":
        expect(code, 0, "exit code")
        check(w.quorum.leader() not in (None, old), "leadership was not handed over before the end")
    wait("another leader", lambda: w.quorum.leader() not in (None, old), 20)
    w.quorum.start(old)


@case
def broker_data_is_cleaned(w):
    leader, slave = w.leader(), next(b for b in w.quorum.brokers if b != w.quorum.master())
    number = w.quorum.id_of(slave)
    clean = ["cleanBrokerMetadata", "-a", leader, "-c", CLUSTER_NAME, "-bn"]
    w.admin(*clean, BROKER_NAME, "-b", number).refused(2009)
    w.admin(*clean, "no-such-broker").refused(2009)
    w.quorum.kill(slave)
    wait("the slave to be taken for dead", lambda: any(
        not r["alive"] for key in ("inSyncReplicas", "notInSyncReplicas") for r in w.quorum.replicas()[key]), 30)
    w.admin(*clean, BROKER_NAME, "-b", number).ok()
    known = [r["brokerId"] for key in ("inSyncReplicas", "notInSyncReplicas") for r in w.quorum.replicas()[key]]
    check(number not in known, f"replica {number} is still known: {known}")
    w.send("after-clean")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="PATTERN")
    only = parser.parse_args().only
    directory = pathlib.Path(os.environ["CLUSTER_DIR"]) / "controller"
    quorum = Quorum(os.environ["IMPL"], directory)
    jars = os.environ.get("JAVA_LIB") or maven.dependencies(HERE.parent / "mqadmin" / "pom.xml")
    admin, passed, failed = None, 0, 0
    try:
        quorum.start("namesrv", *quorum.controllers)
        quorum.start(*quorum.brokers)
        admin = MQAdmin(directory, quorum.address("namesrv"), jars)
        world = World(quorum, admin)
        for one in [c for c in CASES if only in c.__name__]:
            failed = run(one, world)
            passed += 1 - failed
            if failed:
                break  # the story makes no sense any more
    finally:
        if admin:
            admin.close()
        quorum.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def run(one, world):
    """Runs a case and prints how it went; the value is the number of failures."""
    start = time.monotonic()
    try:
        one(world)
    except (Failed, RuntimeError) as error:
        print(f"FAIL {one.__name__}: {' | '.join(str(error).splitlines())}", flush=True)
    except Exception:  # output of another shape than the parsers know
        print(f"FAIL {one.__name__}: {' | '.join(traceback.format_exc().splitlines()[-5:])}", flush=True)
    else:
        print(f"ok {one.__name__} {(time.monotonic() - start) * 1000:.0f}", flush=True)
        return 0
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
