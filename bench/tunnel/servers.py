"""The servers of `scripts/bench tunnel`: the proxies, and the relays that lead through them."""

import contextlib
import math
import os
import pathlib
import resource
import sys
import threading
import time

from lib.daemon import Daemon, process_cpu_seconds, process_tree
from lib.environment import find_program, free_ports, run_client

# Squid listens on this many addresses of loopback after 127.0.0.1.
EXTRA_ADDRESSES = 48

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
    """A squid that stores and logs nothing, on one port of several addresses of loopback."""

    def __init__(self, home):
        self.home = home
        [self.port] = free_ports(1)
        self.counter_requests = 0

    def __enter__(self):
        self.home.mkdir()
        # Squid does not run as root: it changes to another user when root starts it.
        user = "cache_effective_user nobody" if os.geteuid() == 0 else ""
        listen = "\n".join(f"http_port 127.0.0.{number}:{self.port}" for number in range(1, EXTRA_ADDRESSES + 2))
        descriptors = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 65536)
        settings = self.home / "squid.conf"
        settings.write_text(SQUID.format(listen=listen, user=user, home=self.home, descriptors=descriptors))
        self.start([find_program("squid"), "-N", "-d", "1", "-f", settings], [self.port], self.home / "squid.log")
        return self

    def request_count(self):
        """How many requests have ended, without the ones of this method. A tunnel is one request."""
        counters = run_client(
            ["curl", "-q", "-sSf", "-H", "Host: localhost", f"http://127.0.0.1:{self.port}/squid-internal-mgr/counters"])
        count = next(line for line in counters.splitlines() if line.startswith("client_http.requests"))
        # The count does not have the request of this call yet, but those of earlier ones.
        requests = int(count.split("=")[1]) - self.counter_requests
        self.counter_requests += 1
        return requests


class EchoProxy(Daemon):
    """The cheapest proxy for ten thousand tunnels, which is its own target: `echo_proxy.py`."""

    def __init__(self, home):
        self.home = home
        [self.port] = free_ports(1)

    def __enter__(self):
        program = pathlib.Path(__file__).with_name("echo_proxy.py")
        self.start([sys.executable, "-I", "-S", program, self.port], [self.port], self.home / "echo_proxy.log")
        return self


class Relay(Daemon):
    """A port of loopback that leads to a target through a proxy. A subclass says which `command` starts it."""

    def __init__(self, home, proxy, target):
        self.home, self.proxy, self.target = home, proxy, target
        [self.port] = free_ports(1)

    def __enter__(self):
        # Without a user's settings: with `no_proxy` a relay would go straight to the target, and win.
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.start(self.command(), [self.port], self.home / f"relay-{self.port}.log", environment)
        return self

    def sampling(self):
        """Runs around a load, for a relay whose CPU time can only be sampled."""
        return contextlib.nullcontext()


class HaulTunnel(Relay):
    """`haul tunnel` with some flags."""

    def __init__(self, binary, home, proxy, target, *flags):
        super().__init__(home, proxy, target)
        self.binary, self.flags = binary, flags

    def command(self):
        return [self.binary, "tunnel", "-p", self.proxy, "-q", *self.flags, f"127.0.0.1:{self.port}:{self.target}"]


class LeastRelay(Relay):
    """`lab`'s least_relay, which does the least that a relay can do: no relay comes nearer to the speed of the proxy alone."""

    def __init__(self, program, home, proxy, target):
        super().__init__(home, proxy, target)
        self.program = program

    def command(self):
        return [self.program, self.port, self.proxy, self.target]


class ForkingRelay(Relay):
    """A relay with a process for each connection."""

    def wait_for_closed_connections(self):
        deadline = time.monotonic() + 30
        while len(list(process_tree(self.process.pid))) > 1 and time.monotonic() < deadline:
            time.sleep(0.02)

    def cpu_seconds(self):
        # The time of a process counts once it has ended and the relay has waited for it.
        self.wait_for_closed_connections()
        return super().cpu_seconds()


class Socat(ForkingRelay):
    def command(self):
        host, port = self.proxy.split(":")
        listen = f"TCP-LISTEN:{self.port},bind=127.0.0.1,fork,reuseaddr"
        return [find_program("socat"), listen, f"PROXY:{host}:{self.target},proxyport={port}"]


class Proxytunnel(ForkingRelay):
    """proxytunnel as a daemon. It has no flag to listen on loopback alone.

    It does not wait for its processes, so the kernel forgets what they spent, and the CPU time is unknown.
    """

    children_cpu = math.nan

    def command(self):
        return [find_program("proxytunnel"), "-q", "-a", self.port, "-p", self.proxy, "-d", self.target]

    def cpu_seconds(self):
        return super().cpu_seconds() + self.children_cpu


class SampledProxytunnel(Proxytunnel):
    """A proxytunnel whose processes are sampled during each load, which must be few connections."""

    children_cpu = 0.0

    @contextlib.contextmanager
    def sampling(self):
        cpu_by_process, stop = {}, threading.Event()
        sampler = threading.Thread(target=self.sample, args=(cpu_by_process, stop))
        sampler.start()
        try:
            yield
        finally:
            stop.set()
            sampler.join()
        self.children_cpu += sum(cpu_by_process.values())

    def sample(self, cpu_by_process, stop):
        """Notes the CPU time of its processes a hundred times a second. What the last hundredth adds is lost."""
        while not stop.wait(0.01):
            # A search through all of /proc is slow; one connection has one process.
            for process in list(cpu_by_process) or list(process_tree(self.process.pid)):
                if process.name != str(self.process.pid):
                    cpu_by_process[process] = max(cpu_by_process.get(process, 0), process_cpu_seconds(process))
