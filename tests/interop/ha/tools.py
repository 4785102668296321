"""What mqadmin shows of a group of replicas and does to it: Java's tool, and ours beside it, line by line.

The cases run in their order: they tell one story.
"""
import os
import pathlib
import re
import signal
import subprocess

import maven
from mqadmin import MQAdmin, check, expect
from quorum import BROKER_NAME, CLUSTER_NAME, REPOSITORY, wait

HERE = pathlib.Path(__file__).resolve().parent
TOPIC, GROUP = "HaToolsTopic", "HaToolsGroup"
OWN_SECONDS = 20
CASES = []


def case(function):
    CASES.append(function)
    return function


class World:
    def __init__(self, group, directory):
        self.group = group
        jars = os.environ.get("JAVA_LIB") or maven.dependencies(HERE.parent / "mqadmin" / "pom.xml")
        self.admin = MQAdmin(directory, group.address("namesrv"), jars)
        self.castor = group.impl == "castor"

    def close(self):
        self.admin.close()

    def controllers(self):
        """Any of the quorum will do for -a; a list is for the commands about configuration."""
        return self.group.address(self.group.controllers[-1])

    def both(self, *words):
        """Runs a command with both tools; what they print must be the same but for numbers that move and the order of blocks."""
        java = self.admin(*words)
        java.ok()
        if self.castor:
            code, out, err = self.own(*words)
            check(code == 0, f"our mqadmin {words}: {err.strip()}")
            expect(blocks(out), blocks(java.out), f"what our mqadmin prints for {' '.join(map(str, words))}")
        return java

    def own(self, *words):
        """Exit code and output of our mqadmin."""
        tool = pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin").absolute() / "mqadmin"
        done = subprocess.run([tool, *map(str, words), "-n", self.group.address("namesrv")], text=True,
                              capture_output=True, timeout=OWN_SECONDS)
        return done.returncode, done.stdout, done.stderr

    def refused(self, code, *words):
        """Both tools must say that the command was refused with a code."""
        self.admin(*words).refused(code)
        if self.castor:
            status, _, err = self.own(*words)
            check(status == 1 and f"CODE: {code} " in err, f"our mqadmin {words}: {status} {err!r}, want the code {code}")

    def ids(self):
        return {name: self.group.id_of(name) for name in self.group.brokers}


# Bytes, times and ports of connections, which are not the same from one moment to the next.
MOVING = re.compile(r"(?<=Offset)[=\t ]*\d+|(?<=MasterCommitLogMaxOffset\t)\d+|(?<=CommitLogMaxOffset\t)\d+|\b127\.0\.0\.1:(?:3[3-9]|[45]\d|6[0-5])\d{3}\b.*|#Last\w+Time\t.*")


def blocks(text):
    """The parts between empty lines, sorted, without what moves."""
    lines = "\n".join(line.rstrip() for line in text.splitlines())
    return sorted(MOVING.sub("…", part.strip()) for part in re.split(r"\n{2,}", lines) if part.strip())


@case
def sync_state_set(w):
    result = w.both("getSyncStateSet", "-a", w.controllers(), "-b", BROKER_NAME)
    info = w.group.replicas()
    result.has(f"#MasterBrokerId\t{info['masterBrokerId']}", f"#MasterAddr\t{info['masterAddress']}",
               f"#MasterEpoch\t{info['masterEpoch']}", "#SyncStateSetNums\t3")
    expect(len(re.findall(r"^InSyncReplica:.*alive=true", result.out, re.MULTILINE)), 3, "replicas in sync")
    w.both("getSyncStateSet", "-a", w.controllers(), "-c", CLUSTER_NAME)
    expect(w.admin("getSyncStateSet", "-a", w.controllers(), "-b", "no-such-name").ok().out.strip(), "", "an unknown name")


@case
def sync_state_set_again_and_again(w):
    """-i shows it until the tool is interrupted, so it has a process of its own."""
    if not w.castor:
        return
    tool = pathlib.Path(os.environ.get("CASTOR_BIN") or REPOSITORY / "bin").absolute() / "mqadmin"
    process = subprocess.Popen([tool, "getSyncStateSet", "-a", w.controllers(), "-b", BROKER_NAME, "-i", "1"], text=True,
                               stdout=subprocess.PIPE)
    seen = 0
    for line in process.stdout:
        seen += line.startswith("#MasterEpoch")
        if seen == 2:
            break
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    expect(process.wait(10), 0, "exit code after an interrupt")


@case
def cluster_list(w):
    rows = w.admin("clusterList").table("#Cluster Name")
    expect({row["BID"]: row["Addr"] for row in rows}, w.group.wanted_route(), "addresses by id")
    for row in rows:
        expect(row["ACTIVATED"], "true" if row["BID"] == "0" else "false", f"ACTIVATED of broker {row['BID']}")


@case
def broker_status(w):
    master = w.group.address(w.group.master())
    keys = None
    for name in w.group.brokers:
        values = w.admin("brokerStatus", "-b", w.group.address(name)).pairs(":")
        active = "true" if w.group.address(name) == master else "false"
        expect(values["brokerActive"], active, f"brokerActive of {name}")
        own = {key for key in values if "DiskRatio_" not in key and not key.startswith("scheduleMessageOffset")}
        expect(own, keys or own, f"keys of {name}")
        keys = own
    expect(len(set(re.findall(r"^(127\S+) ", w.admin("brokerStatus", "-c", CLUSTER_NAME).ok().out, re.MULTILINE))), 3, "brokers shown")


@case
def ha_status(w):
    master = w.group.master()
    result = w.both("haStatus", "-b", w.group.address(master))
    result.has(f"#MasterAddr\t{w.group.address(master)}", "#SlaveNum\t2", "#InSyncSlaveNum\t2")
    expect([row["Status"] for row in result.table("#SlaveAddr")], ["OK", "OK"], "status of the replicas")
    w.admin("haStatus", "-c", CLUSTER_NAME).has("#SlaveNum\t2")
    slave = next(name for name in w.group.brokers if name != master)
    result = w.both("haStatus", "-b", w.group.address(slave))
    values = result.pairs("\t")
    # The port of replication, as with Java.
    expect(values["#MasterAddr"], f"127.0.0.1:{w.group.ports[master] + 1}", "master of a replica")
    end = int(w.admin("brokerStatus", "-b", w.group.address(master)).pairs(":")["commitLogMaxOffset"])
    check(0 < int(values["#CommitLogMaxOffset"]) <= end, "log of a replica")
    for key in ("#LastReadTime", "#LastWriteTime"):
        check(values[key].startswith("20"), f"{key} of a replica: {values[key]}")


@case
def epochs(w):
    result = w.both("getBrokerEpoch", "-b", BROKER_NAME)
    expect(set(re.findall(r"^#brokerAddr\t(\S+)", result.out, re.MULTILINE)), set(map(w.group.address, w.group.brokers)), "brokers shown")
    ids = re.findall(r"^#brokerId\t(\d+)", result.out, re.MULTILINE)
    expect(set(ids), set(w.group.wanted_route()), "ids shown")
    expect(len(re.findall("EpochEntry{epoch=1, startOffset=0", result.out)), 3, "first epochs")
    w.both("getBrokerEpoch", "-c", CLUSTER_NAME)


@case
def controller_metadata(w):
    for name in w.group.controllers:
        result = w.both("getControllerMetaData", "-a", w.group.address(name))
        result.has(f"#ControllerLeaderAddress\t{w.group.address(w.group.leader())}")
        expect(len(re.findall("^#Peer:", result.out, re.MULTILINE)), 3, "peers")


@case
def controller_configuration(w):
    everyone = ";".join(map(w.group.address, w.group.controllers))
    for value in ("true", "false"):
        w.both("updateControllerConfig", "-a", everyone, "-k", "enableElectUncleanMaster", "-v", value).has("update controller config success")
        result = w.admin("getControllerConfig", "-a", everyone)
        expect(re.findall(r"^enableElectUncleanMaster\s+=\s+(\w+)", result.ok().out, re.MULTILINE), [value] * 3, "the changed value")
    w.refused(16, "updateControllerConfig", "-a", w.controllers(), "-k", "configStorePath", "-v", "x")


@case
def messages_before_the_switch(w):
    w.admin("updateTopic", "-c", CLUSTER_NAME, "-t", TOPIC, "-r", 2, "-w", 2).ok()
    w.admin("@producer", "P", "").ok()
    w.admin("@consumer", GROUP, TOPIC, "*").ok()
    for i in range(20):
        w.admin("@send", "P", TOPIC, i % 2, "tag", f"key{i}", f"before-{i}").ok()
    wait("20 messages consumed", lambda: len(set(w.admin("@consumed", GROUP).lines())) == 20, 40)


@case
def planned_switch(w):
    """Java's tool hands over to one replica, ours to another."""
    for turn in range(2):
        old, epoch = w.group.master(), w.group.replicas()["masterEpoch"]
        target = next(name for name in w.group.brokers if name != old)
        words = ["electMaster", "-a", w.controllers(), "-b", w.group.id_of(target), "-bn", BROKER_NAME, "-c", CLUSTER_NAME]
        if turn == 1 and w.castor:
            code, out, err = w.own(*words)
            check(code == 0, err)
        else:
            result = w.admin(*words)
            out = result.has(f"#ClusterName\t{CLUSTER_NAME}").out if w.castor else result.out
        if w.castor:  # the tool cannot read what Java's controllers answer
            for text in (f"#BrokerMasterAddr\t{w.group.address(target)}", f"#MasterEpoch\t{epoch + 1}", "#Broker\t3\t"):
                check(text in out, f"want {text!r} in {out!r}")
        took = wait(f"{target} to be master", lambda: w.group.master() == target, 15)
        w.group.whole()
        result = w.admin("getSyncStateSet", "-a", w.controllers(), "-b", BROKER_NAME)
        result.has(f"#MasterAddr\t{w.group.address(target)}", f"#MasterEpoch\t{epoch + 1}", "#SyncStateSetNums\t3")
        w.admin("@send", "P", TOPIC, 0, "tag", f"switch{turn}", f"after-switch-{turn}").ok()
        print(f"# planned switch {turn + 1}: {took:.1f} s", flush=True)
    w.refused(2012, "electMaster", "-a", w.controllers(), "-b", 9, "-bn", BROKER_NAME, "-c", CLUSTER_NAME)
    epochs = w.both("getBrokerEpoch", "-b", BROKER_NAME)
    last = w.group.replicas()["masterEpoch"]
    expect(len(re.findall(f"EpochEntry{{epoch={last}, ", epochs.out)), 3, "brokers with the last epoch")


@case
def clients_after_the_switch(w):
    """What the tools know of topics, groups and clients is the same at the new master."""
    rows = w.admin("topicStatus", "-t", TOPIC).table("#Broker Name")
    expect(sum(int(row["Max Offset"]) for row in rows), 22, "messages in the topic")
    result = w.admin("topicRoute", "-t", TOPIC)
    expect({str(k): v for k, v in result.json()["brokerDatas"][0]["brokerAddrs"].items()}, w.group.wanted_route(), "route of the topic")
    wait("everything consumed", lambda: len(set(w.admin("@consumed", GROUP).lines())) == 22, 60)

    def committed():
        rows = w.admin("consumerProgress", "-g", GROUP).table("#Topic")
        return sum(int(row["Consumer Offset"]) for row in rows if row["Topic"] == TOPIC)

    wait("everything committed", lambda: committed() == 22, 40)
    # Heartbeats go to every replica, so each knows the group's members.
    for name in w.group.brokers:
        wait(f"the consumer at {name}", lambda name=name: "127.0.0.1" in w.admin("consumerConnection", "-g", GROUP, "-b", w.group.address(name)).out, 40)
    w.admin("consumerConnection", "-g", GROUP).has("CONSUME_PASSIVELY", TOPIC)


@case
def queries_at_the_new_master(w):
    # Java's tool asks all broker names, and the standby goes on answering as long as somebody may have the old master's address.
    wait("one message by its key", lambda: len(w.admin("queryMsgByKey", "-t", TOPIC, "-k", "key3").ok().lines()) == 2, 60)
    sent = w.admin("@send", "P", TOPIC, 1, "tag", "fresh", "fresh").lines()[0].split()
    w.admin("queryMsgByUniqueKey", "-t", TOPIC, "-i", sent[0]).has(sent[0])
    w.admin("queryMsgById", "-t", TOPIC, "-i", sent[1]).has(sent[1])


@case
def a_living_broker_is_not_cleaned(w):
    slave = next(name for name in w.group.brokers if name != w.group.master())
    clean = ["cleanBrokerMetadata", "-a", w.controllers(), "-c", CLUSTER_NAME, "-bn"]
    w.refused(2009, *clean, BROKER_NAME, "-b", w.group.id_of(slave))
    w.refused(2009, *clean, BROKER_NAME)
    w.refused(2009, *clean, "no-such-name")


@case
def a_dead_broker_is_cleaned(w):
    """It comes back with another id when it starts again, and is in sync."""
    slave = next(name for name in w.group.brokers if name != w.group.master())
    number = w.group.id_of(slave)
    w.group.kill(slave)
    members = lambda: [r for key in ("inSyncReplicas", "notInSyncReplicas") for r in w.group.replicas()[key]]
    wait("the broker to be taken for dead", lambda: any(not r["alive"] for r in members()), 30)
    wait("the dead broker to leave the route", lambda: w.group.address(slave) not in w.group.routed().values(), 30)
    rows = w.admin("clusterList").table("#Cluster Name")
    expect(len(rows), 2, "brokers listed")
    w.admin("cleanBrokerMetadata", "-a", w.controllers(), "-c", CLUSTER_NAME, "-bn", BROKER_NAME, "-b", number).has("metadata from controller success!")
    check(number not in [r["brokerId"] for r in members()], f"replica {number} is still known")
    w.admin("@send", "P", TOPIC, 0, "tag", "clean", "after-clean").ok()
    w.group.start(slave)
    w.group.whole()
    print(f"# the cleaned broker {number} came back as {w.group.id_of(slave)}", flush=True)
