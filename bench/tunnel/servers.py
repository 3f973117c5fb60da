"""The servers of `scripts/bench tunnel`: the proxy, and what leads through it. Each relay listens on one port of loopback."""

import contextlib
import os
import pathlib
import resource
import sys
import threading
import time

from daemon import Daemon, cpu_of, family
from peers import free_ports, program
from setting import quiet

HERE = pathlib.Path(__file__).resolve().parent

# So many addresses of loopback, from 127.0.0.2 on, have the proxy and what is behind it.
LANES = 32

SQUID = """
{listen}
{user}
pid_filename {home}/squid.pid
http_access allow all
cache deny all
cache_mem 0 MB
access_log none
cache_log /dev/null
cache_store_log none
coredump_dir {home}
visible_hostname localhost
hosts_file none
pinger_enable off
client_db off
max_filedescriptors {descriptors}
shutdown_lifetime 0 seconds
"""


class Squid(Daemon):
    """A squid that stores and logs nothing, on a port that every lane has."""

    def __init__(self, home):
        self.home = home
        [self.port] = free_ports(1)
        self.questions = 0

    def __enter__(self):
        self.home.mkdir()
        # It refuses to be root, and drops to another user when root starts it.
        user = "cache_effective_user nobody" if os.geteuid() == 0 else ""
        listen = "\n".join(f"http_port 127.0.0.{number}:{self.port}" for number in range(1, LANES + 2))
        descriptors = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 65536)
        settings = self.home / "squid.conf"
        settings.write_text(SQUID.format(listen=listen, user=user, home=self.home, descriptors=descriptors))
        self.start([program("squid"), "-N", "-d", "1", "-f", settings], [self.port], self.home / "squid.log")
        return self

    def asked(self):
        """How many requests it has had that have ended; a tunnel is one. Questions like this one are left out."""
        told = quiet(["curl", "-q", "-sSf", "-H", "Host: localhost", f"http://127.0.0.1:{self.port}/squid-internal-mgr/counters"])
        self.questions += 1
        count = next(line for line in told.splitlines() if line.startswith("client_http.requests"))
        return int(count.split("=")[1]) - (self.questions - 1)


class Sink(Daemon):
    """The cheapest of proxies, for ten thousand tunnels: `sink.py`, which is its own target."""

    def __init__(self, home):
        self.home = home
        [self.port] = free_ports(1)

    def __enter__(self):
        command = [sys.executable, "-I", "-S", HERE / "sink.py", self.port]
        self.start(command, [self.port], self.home / "sink.log")
        return self


class Relay(Daemon):
    """A local port that leads to a target through a proxy. Whoever inherits says what `command` is."""

    def __init__(self, home, proxy, target):
        self.home, self.proxy, self.target = home, proxy, target
        [self.port] = free_ports(1)

    def __enter__(self):
        # Nobody's settings: a `no_proxy` would have it go straight to the target, and win.
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.start(self.command(), [self.port], self.home / f"relay-{self.port}.log", environment)
        return self

    def watch(self):
        """Around what moves much over one connection, for relays whose CPU time is not to be had otherwise."""
        return contextlib.nullcontext()

    def settle(self):
        """Returns when what it does for connections that ended has ended, too."""
        least, still = self.busy(), 0
        deadline = time.monotonic() + 30
        while still < 5 and time.monotonic() < deadline:
            time.sleep(0.02)
            now = self.busy()
            least, still = (now, 0) if now < least else (least, still + 1)

    def busy(self):
        """A number that falls as connections end: its open files."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


class Haul(Relay):
    """`haul tunnel` with these flags."""

    def __init__(self, haul, home, proxy, target, *flags):
        super().__init__(home, proxy, target)
        self.haul, self.flags = haul, flags

    def command(self):
        return [self.haul, "tunnel", "-p", self.proxy, "-q", *self.flags, f"127.0.0.1:{self.port}:{self.target}"]


class Least(Relay):
    """`lab`'s least_relay: what the machine itself leaves of the proxy's speed to whoever stands in front of it."""

    def __init__(self, least, home, proxy, target):
        super().__init__(home, proxy, target)
        self.least = least

    def command(self):
        return [self.least, self.port, self.proxy, self.target]


class Forking(Relay):
    """One that has a process for each connection."""

    def busy(self):
        return sum(1 for _ in family(self.process.pid))

    def settle(self):
        deadline = time.monotonic() + 30
        while self.busy() > 1 and time.monotonic() < deadline:
            time.sleep(0.02)

    def spent(self):
        """With that of the processes that have ended, once all have."""
        self.settle()
        return super().spent()


class Socat(Forking):
    """socat, as its manual has it for proxies."""

    def command(self):
        host, port = self.proxy.split(":")
        listen = f"TCP-LISTEN:{self.port},bind=127.0.0.1,fork,reuseaddr"
        return [program("socat"), listen, f"PROXY:{host}:{self.target},proxyport={port}"]


class Proxytunnel(Forking):
    """proxytunnel as a daemon. It cannot be told to listen on loopback alone. It does not wait for its processes, so that their
    CPU time is lost when they end: it is known where a run was watched, and not a number elsewhere."""

    # CPU seconds of the processes that ended, as last seen.
    ended = float("nan")

    def command(self):
        return [program("proxytunnel"), "-q", "-a", self.port, "-p", self.proxy, "-d", self.target]

    def spent(self):
        return super().spent() + self.ended

    @contextlib.contextmanager
    def watch(self):
        seen, over = {}, threading.Event()
        watching = threading.Thread(target=self.follow, args=(seen, over))
        watching.start()
        try:
            yield
        finally:
            over.set()
            watching.join()
        self.ended += sum(seen.values())

    def follow(self, seen, over):
        """Notes what its processes have spent, a hundred times a second: what the last hundredth adds is lost."""
        while not over.wait(0.01):
            # Looking through all of /proc is dear; one connection has one process.
            for process in list(seen) or list(family(self.process.pid)):
                if process.name != str(self.process.pid):
                    seen[process] = max(seen.get(process, 0), cpu_of(process))

    def watched(self):
        """From now on its CPU time is that of itself and of the processes under watch."""
        self.ended = 0.0
        return self
