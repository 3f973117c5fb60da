"""A Ray cluster of three machines, and an origin that is several hosts."""

from __future__ import annotations

import collections
import os
import pathlib
import random
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import ray
from ray.cluster_utils import Cluster

import conftest
from conftest import Origin, wait_for

#: A machine that does not answer is given up after two seconds.
_SETTINGS = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}


class Machines:
    """A cluster with a raylet of one CPU for each machine, whose processes have a working directory of their own."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.folders: dict[Any, pathlib.Path] = {}
        self.cluster = Cluster()
        self._add(_system_config=_SETTINGS)
        self.fill()
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")
        ray.data.DataContext.get_current().enable_progress_bars = False

    def _add(self, **arguments: Any) -> None:
        folder = self._folder / f"machine{len(self.folders)}"
        folder.mkdir()
        before = os.getcwd()
        os.chdir(folder)
        try:
            node = self.cluster.add_node(num_cpus=1, object_store_memory=80 << 20, include_dashboard=False, **arguments)
        finally:
            os.chdir(before)
        self.folders[node] = folder

    def fill(self) -> None:
        """Brings it back to three machines."""
        while len(self.cluster.worker_nodes) < 2:
            self._add()

    def remove(self, node: Any) -> None:
        """Removes a machine, and returns when nothing of it runs."""
        raylet = node.all_processes["raylet"][0].process.pid
        children = [pid for path in pathlib.Path("/proc").glob(f"{raylet}/task/*/children") for pid in path.read_text().split()]
        self.cluster.remove_node(node, allow_graceful=False)
        wait_for(lambda: not any(map(is_running, children)))

    def is_alive(self, node: Any) -> bool:
        return any(found["NodeID"] == node.node_id and found["Alive"] for found in ray.nodes())


def is_running(pid: str) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


class HostedOrigin(Origin):
    """An origin that is several hosts, and knows when it was asked."""

    def __init__(self, hosts: int) -> None:
        super().__init__()
        self.hosts = [f"127.0.0.{n + 1}" for n in range(hosts)]
        self.times: dict[str, list[float]] = collections.defaultdict(list)
        self.requests = _TimedRequests(self.times)
        self.more: list[conftest._Server] = []
        for host in self.hosts[1:]:
            server = conftest._Server((host, self.port), conftest._Handler)
            server.origin = self
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            self.more.append(server)

    def urls(self, each: int, size: int = 700) -> list[str | None]:
        """So many files of each host, in any order."""
        urls: list[str | None] = [
            self.url(f"h{number}f{n}", size, host) for number, host in enumerate(self.hosts) for n in range(each)
        ]
        random.Random(1).shuffle(urls)
        return urls

    def times_asked(self) -> collections.Counter[str]:
        """How often each file was asked for."""
        with self.lock:
            return collections.Counter(urlsplit(path).path.lstrip("/") for _, path, _ in self.requests)

    def close(self) -> None:
        for server in self.more:
            server.shutdown()
            server.server_close()
        super().close()


class _TimedRequests(list[tuple[str, str, "str | None"]]):
    def __init__(self, times: dict[str, list[float]]) -> None:
        super().__init__()
        self._times = times

    def append(self, request: tuple[str, str, str | None]) -> None:
        super().append(request)
        self._times[request[0]].append(time.monotonic())
