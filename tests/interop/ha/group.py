"""A group of brokers that can be broken: the processes of ../controller/quorum.py and what is done to them."""
import http.server
import json
import re
import signal
import threading

from quorum import BROKER_NAME, CLUSTER_NAME, Quorum, request, wait

GET_BROKER_CLUSTER_INFO, ELECT_MASTER = 106, 1002
SWITCH_SECONDS = 30
UNQUOTED = re.compile(rb"([{,])(\d+):")  # a key of Java's maps of integers

BROKER_CONF = {
    "autoCreateTopicEnable": "true", "enablePropertyFilter": "true", "mappedFileSizeCommitLog": 64 << 20,
    "messageDelayLevel": " ".join(["1s", "2s", "3s", *["1s"] * 14, "2s"]),  # as in ../lib/cluster.py
    "minInSyncReplicas": 2, "inSyncReplicas": 2,
}


class Group(Quorum):
    """A name server, three controllers and three brokers."""

    def __init__(self, impl, directory, conf=None):
        super().__init__(impl, directory, 3, ("namesrv", "controller", "broker"), BROKER_CONF | (conf or {}))
        self.stopped = set()

    def start_all(self):
        self.start("namesrv", *self.controllers)
        self.start(*self.brokers)
        self.whole()

    def whole(self):
        """Waits until all brokers are in sync and the name server knows who is who."""
        wait("all brokers in sync", lambda: self.in_sync() == self.brokers)
        wait("the route of all brokers", lambda: self.routed() == self.wanted_route())

    def routed(self):
        """Addresses by broker id, as the name server says."""
        _, body = request(self.ports["namesrv"], GET_BROKER_CLUSTER_INFO)
        table = json.loads(UNQUOTED.sub(rb'\1"\2":', body) or b"{}").get("brokerAddrTable", {})
        return table.get(BROKER_NAME, {}).get("brokerAddrs", {})

    def wanted_route(self):
        info = self.replicas()
        members = info.get("inSyncReplicas", []) + info.get("notInSyncReplicas", [])
        return {str(0 if r["brokerId"] == info["masterBrokerId"] else r["brokerId"]): r["brokerAddress"] for r in members}

    def replaced(self, old):
        """Waits until another broker is master and routed as such; returns its address."""
        wait("another master", lambda: self.master() not in (None, old), SWITCH_SECONDS)
        address = self.address(self.master())
        wait("the route of the new master", lambda: self.routed().get("0") == address, SWITCH_SECONDS)
        return address

    def kill_master(self):
        old = self.master()
        self.kill(old)
        return self.replaced(old)

    def stop_master(self):
        old = self.master()
        self.signal(old, signal.SIGSTOP)
        self.stopped.add(old)
        return self.replaced(old)

    def hand_over(self):
        old = self.master()
        other = next(name for name in self.in_sync() if name != old)
        header, _ = request(self.ports[self.leader()], ELECT_MASTER, clusterName=CLUSTER_NAME, brokerName=BROKER_NAME,
                            brokerId=self.id_of(other), designateElect="true", invokeTime=0)
        if header.get("code") != 0:
            raise RuntimeError(f"election of {other}: {header}")
        return self.replaced(old)

    def heal(self):
        """Everything runs again and is in sync; returns the address of the master."""
        for name in self.stopped & self.processes.keys():
            self.signal(name, signal.SIGCONT)
        self.stopped.clear()
        self.start(*[name for name in self.brokers + self.controllers if name not in self.processes])
        self.whole()
        return self.address(self.master())

    def stop(self):
        for name in self.stopped & self.processes.keys():
            self.signal(name, signal.SIGCONT)
        super().stop()


class Control:
    """Lets programs with clients break the group by HTTP. What they ask for answers with the master's address after it.

    GET /together   kills the master when all programs have asked for it, or have ended
    GET /alone      waits until the other programs have ended, and mends everything
    GET /stop, /handover, /heal
    """

    SECONDS = 150

    def __init__(self, group, programs):
        self.group, self.programs = group, programs
        self.asked, self.killed = 0, None
        self.changed = threading.Condition()
        actions = {"together": self.together, "alone": self.alone, "stop": group.stop_master, "handover": group.hand_over,
                   "heal": group.heal}

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    status, text = 200, actions[self.path.strip("/")]()
                except Exception as error:
                    status, text = 500, repr(error)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def together(self):
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.asked >= self.programs, self.SECONDS)
            if self.killed is None:
                self.killed = self.group.kill_master()
            return self.killed

    def alone(self):
        with self.changed:
            self.changed.wait_for(lambda: self.programs == 1, self.SECONDS)
        return self.group.heal()

    def ended(self):
        """A program has ended."""
        with self.changed:
            self.programs -= 1
            self.changed.notify_all()
