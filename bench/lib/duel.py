"""Servers side by side: the same load on each in turn, what came of it, what it cost the server; ratios against limits."""

import dataclasses
import statistics
import typing

from paired import interleaved


@dataclasses.dataclass
class Run:
    """One run of the load on one server."""

    wall: float  # seconds
    requests: int
    bytes: int
    cpu: float = 0.0  # seconds that the server spent, user and system
    p50: float | None = None  # milliseconds that half of the requests took at most
    p99: float | None = None
    peak: int = 0  # KiB that the server had resident at most

    @classmethod
    def told(cls, said):
        """From what a client says as JSON."""
        return cls(said["seconds"], said["requests"], said["bytes"], p50=said["p50_ms"], p99=said["p99_ms"])

    @property
    def rate(self):
        return self.requests / self.wall

    @property
    def cost(self):
        """CPU seconds a request."""
        return self.cpu / self.requests


@dataclasses.dataclass
class Contender:
    """A server under a name, and the load on it."""

    name: str
    server: typing.Any
    # Runs the load, and returns what it tells.
    load: typing.Callable
    # Looks at what came of it, after each run, outside of its time.
    check: typing.Callable = lambda: None
    runs: list = dataclasses.field(default_factory=list)

    def median(self, what):
        return statistics.median(getattr(run, what) for run in self.runs)


@dataclasses.dataclass
class Limit:
    """What must hold against the best of some servers; where nothing must, it is reported."""

    # Names, or the beginnings of names, of contenders.
    against: str
    rate: float | None = None  # at least
    wall: float | None = None  # at most
    cpu: float | None = None  # at most

    def words(self):
        bounds = (("requests/s ≥", self.rate), ("wall ≤", self.wall), ("CPU ≤", self.cpu))
        return ", ".join(f"{name} {bound:.2f}" for name, bound in bounds if bound) or "reported"

    def held(self, rate, cpu):
        if self.words() == "reported":
            return ""
        found = (not self.rate or rate >= self.rate) and (not self.wall or 1 / rate <= self.wall) and (not self.cpu or cpu <= self.cpu)
        return "held" if found else "MISSED"


@dataclasses.dataclass
class Case:
    """The same load on each server; the first is ours where ours is there."""

    title: str
    contenders: list
    limits: list
    # Sweeps before each run and at the end, and lays out what the load needs.
    lay: typing.Callable = lambda: None
    sweep: typing.Callable = lambda: None

    def once(self, contender):
        self.sweep()
        self.lay()
        contender.server.forget_peak()
        before = contender.server.spent()
        run = contender.load()
        run.cpu = contender.server.spent() - before
        run.peak = contender.server.peak()
        contender.check()
        return run

    def run(self, rounds):
        """One that does not count, then rounds of A B C, B C A ..."""
        try:
            for contender in self.contenders:
                self.once(contender)
            for contender in interleaved(self.contenders, rounds):
                contender.runs.append(self.once(contender))
        finally:
            self.sweep()

    def rows(self):
        ours = next((c for c in self.contenders if c.name.startswith("haul")), None)
        for limit in self.limits:
            peers = [c for c in self.contenders if c is not ours and c.name.startswith(limit.against)]
            if not ours or not peers:
                yield f"| {self.title} | {limit.against} | | | | {limit.words()} | not measured |"
                continue
            peer = max(peers, key=lambda c: c.median("rate"))
            rate, cost = ours.median("rate") / peer.median("rate"), peer.median("cost")
            # CPU counts against the same one: beside the fastest for speed and the cheapest for CPU nobody would stand.
            cpu = ours.median("cost") / cost if cost else float("nan")
            yield (
                f"| {self.title} | {peer.name} | {1 / rate:.2f} | {rate:.2f} | {cpu:.2f} | {limit.words()} | {limit.held(rate, cpu)} |")

    def medians(self):
        for c in self.contenders:
            rates = [run.rate for run in c.runs]
            times = [f"{c.median(what):.2f}" if c.runs[0].p50 is not None else "" for what in ("p50", "p99")]
            moved = statistics.median(run.bytes / run.wall for run in c.runs) / 1e6
            yield (
                f"| {self.title} | {c.name} | {figures(c.median('rate'))} ({figures(min(rates))} to {figures(max(rates))}) | {moved:,.0f} "
                f"| {c.median('cost') * 1000:.3f} | {times[0]} | {times[1]} | {max(run.peak for run in c.runs) / 1024:.0f} |")


def figures(number):
    """Three figures that tell."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def page(lines, cases, notes):
    """The whole report, as Markdown."""
    return "\n".join([
        *lines,
        "| case | against | wall, haul / it | requests/s, haul / it | CPU a request, haul / it | must be | |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(row for case in cases for row in case.rows()), "",
        "Medians behind the ratios (requests/s with their range); CPU is that of the server, memory its largest peak:", "",
        "| case | server | requests/s | MB/s | CPU a request, ms | p50, ms | p99, ms | memory, MiB |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(row for case in cases for row in case.medians()), "",
        *(note + "\n" for note in notes)])
