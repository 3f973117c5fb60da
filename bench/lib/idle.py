"""Idle connections: how much memory a server keeps for clients that stay, and how much it keeps when they are gone."""

import dataclasses
import select
import statistics
import time
import typing

from lib.case import Case
from lib.daemon import Daemon
from lib.programs import Program

MIB = 1024  # of KiB


@dataclasses.dataclass
class IdleRun:
    """Memory of a server before its idle connections, with them, and after."""

    before: tuple
    open: tuple
    after: tuple


@dataclasses.dataclass(kw_only=True)
class IdleProgram(Program):
    """A server, and a function that opens a connection to keep."""

    server: Daemon
    # Opens a connection, carries something over it, and returns it.
    connect: typing.Callable
    count: int

    def measure(self):
        before = self.server.memory()
        clients = []
        try:
            for number in range(1, self.count + 1):
                try:
                    clients.append(self.connect())
                except OSError as error:
                    raise SystemExit(f"{self.name}: connection {number:,} of {self.count:,} failed: {error}") from None
            # By then a server has freed what it frees after an exchange.
            time.sleep(1)
            check_open(clients)
            during = self.server.memory()
        finally:
            for client in clients:
                client.close()
        self.server.wait_for_closed_connections()
        # By then a server has returned to the system what it returns after a wave of connections.
        time.sleep(2)
        return IdleRun(before, during, self.server.memory())

    def median_memory(self, moment):
        """Median MiB of resident and of proportional memory."""
        return [statistics.median(getattr(run, moment)[n] for run in self.runs) / MIB for n in (0, 1)]

    def highest(self):
        """The most resident memory with open connections, in MiB."""
        return max(run.open.resident for run in self.runs) / MIB


class IdleCase(Case):
    """The memory of several servers with idle connections. It has no time and no ratios."""

    def __init__(self, count, noun, programs, limit):
        super().__init__(f"{count:,} idle {noun}s", programs, [], memory_limit=limit)
        self.noun = noun

    def run(self, rounds):
        # A leak shows from the second round on.
        for _ in range(max(rounds, 2)):
            for program in self.programs:
                program.runs.append(program.measure())

    def rows(self, metrics):
        haul = next(iter(self.hauls()), None)
        requirements = (f"< {self.memory_limit} MiB", "no more than after the first")
        if not haul:
            yield from ([self.title, "memory", *[""] * len(metrics), requirement, "not measured"] for requirement in requirements)
            return
        yield self.fact_row(metrics, "memory", f"{haul.highest():.0f} MiB", requirements[0], haul.highest() < self.memory_limit)
        if before := self.before(haul):
            found = f"{haul.highest() / before.highest():.2f}"
            yield self.fact_row(metrics, f"memory, {before.name}", found, "reported", None)
        first, *later = (run.after.resident for run in haul.runs)
        # Pages come and go by a few; a leak of some bytes for each connection would be hundreds of them.
        growth = max(later) - first
        kept = first - haul.runs[0].before.resident
        yield self.fact_row(
            metrics, f"memory after they closed, {len(later) + 1} times", f"{growth / MIB:+.1f} MiB (the first: {kept / MIB:+.0f})",
            requirements[1], growth <= max(first // 20, MIB))

    def memory_rows(self):
        """Rows of the table of memory."""
        for program in self.programs:
            before = [kib / MIB for kib in program.runs[0].before]
            moments = [before, program.median_memory("open"), program.median_memory("after")]
            each = [(moments[1][n] - before[n]) * MIB / program.count for n in (0, 1)]
            cells = [f"{resident:.0f}, {proportional:.0f}" for resident, proportional in moments]
            yield [f"{program.count:,} idle {self.noun}s", program.name, *cells, f"{each[0]:.1f}, {each[1]:.1f}"]


def check_open(clients):
    """Fails if a connection has ended, or has carried bytes that no request asked for."""
    with select.epoll() as poll:
        for client in clients:
            poll.register(client, select.EPOLLIN | select.EPOLLRDHUP)
        ready = len(poll.poll(0, len(clients)))
    if ready:
        raise SystemExit(f"{ready} of {len(clients)} idle connections did not stay")
