"""What the machines of a Ray cluster have, and what is said where Ray waits without a word."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import ray

_logger = logging.getLogger("haul")

#: Seconds within which Ray starts actors on processors that are free.
_START_TIME = 20.0


def cpus() -> float:
    """The processors of the cluster."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return resources.get("CPU", 1)


def warn_of_missing(remote_args: Mapping[str, Any]) -> None:
    """Says that no machine has what an actor wants: Ray waits until one joins, which may be never."""
    wanted = {"CPU": remote_args.get("num_cpus", 1), "GPU": remote_args.get("num_gpus"), "memory": remote_args.get("memory")}
    wanted |= remote_args.get("resources") or {}
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    for name, amount in wanted.items():
        most = max((machine.get(name, 0) for machine in machines), default=0)
        if amount and amount > most:
            _logger.warning(
                "ray_remote_args: an actor wants %g %s, and the most that one of %d machines has is %g. Ray waits until a larger one joins",
                amount, name, len(machines), most,
            )  # fmt: skip


class IdleWatch:
    """Says once that processors are free which Ray Data does not give to this job."""

    def __init__(self, pool: Mapping[str, Any], most: int) -> None:
        self._most, self._rows = most, pool["batch_size"]
        self._cpus = pool["ray_remote_args"].get("num_cpus", 1)
        self._begin = time.monotonic()

    def look(self, rows_left: int) -> None:
        """Looks while rows of an execution come."""
        if not self._cpus or time.monotonic() < self._begin + _START_TIME:
            return
        free = ray.available_resources().get("CPU", 0)  # type: ignore[no-untyped-call]
        actors = (cpus() - free) / self._cpus
        if free >= self._cpus and actors < self._most and rows_left > 2 * actors * self._rows:
            _logger.warning(
                "%g of %g CPUs are free, and Ray Data starts no more actors: it has reserved them for another job, up to three minutes for one "
                "whose driver was killed. With a number of actors it starts so many at once",
                free, cpus(),
            )  # fmt: skip
            # Once is enough.
            self._cpus = 0


__all__ = ["IdleWatch", "cpus", "warn_of_missing"]
