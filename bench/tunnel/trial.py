"""Ways to the same server side by side: ms a request and CPU time, as ratios against limits; the page that tells of them."""

import dataclasses
import math
import statistics

import duel
from clients import AT_ONCE
from duel import figures
from servers import Relay


@dataclasses.dataclass
class Limit:
    """What must hold against the better of some ways; where nothing must, it is reported."""

    # Names of contenders; `a|b` is the better of them, in that which is limited.
    against: str
    ms: float | None = None  # at most
    cpu: float | None = None  # at most

    def words(self):
        bounds = (("ms ≤", self.ms), ("CPU ≤", self.cpu))
        return ", ".join(f"{name} {bound:.2f}" for name, bound in bounds if bound) or "reported"

    def held(self, ms, cpu):
        if self.words() == "reported":
            return ""
        # CPU time that is not known is no less than any.
        return "held" if (not self.ms or ms <= self.ms) and (not self.cpu or cpu <= self.cpu) else "MISSED"

    def better(self, contenders):
        """The one to stand against; None where none is there."""
        peers = [c for c in contenders if c.name in self.against.split("|")]
        what = "cost" if self.cpu else "rate"
        known = [c for c in peers if not math.isnan(c.median(what))]
        return min(known, key=lambda c: c.median("cost") if self.cpu else -c.median("rate"), default=None)


@dataclasses.dataclass
class Trial(duel.Case):
    """The same load over each way; the first is ours where ours is there."""

    # Rounds for each one asked for: what is over in a moment needs more of them to be told from noise.
    repeat: int = 1
    # The column of the write-up's table that it fills.
    column: str = ""

    def run(self, rounds):
        super().run(rounds * self.repeat)

    def ours(self):
        return next((c for c in self.contenders if c.name.startswith("haul")), None)

    def rows(self):
        ours = self.ours()
        for limit in self.limits:
            peer = limit.better(self.contenders)
            if not ours or not peer:
                yield f"| {self.title} | {limit.against.replace('|', ', ')} | | | {limit.words()} | not measured |"
                continue
            ms = peer.median("rate") / ours.median("rate")
            # What squid itself spends is another thing.
            cost = peer.median("cost") if isinstance(peer.server, Relay) else 0
            cpu = ours.median("cost") / cost if cost else math.nan
            yield f"| {self.title} | {peer.name} | {ms:.2f} | {known(cpu, '.2f')} | {limit.words()} | {limit.held(ms, cpu)} |"

    def medians(self):
        for c in self.contenders:
            times = [milliseconds(run) for run in c.runs]
            moved = statistics.median(run.bytes / run.wall for run in c.runs) / 1e6
            yield (
                f"| {self.title} | {c.name} | {figures(statistics.median(times))} ({figures(min(times))} to {figures(max(times))}) "
                f"| {figures(c.median('rate'))} | {moved:,.0f} | {known(c.median('cost') * 1000, '.3f')} |")

    def told(self):
        """Median ms a request by name."""
        return {c.name: statistics.median(map(milliseconds, c.runs)) for c in self.contenders}


def milliseconds(run):
    """How long a request takes, as ab tells its mean: of several at once each takes its time."""
    return 1000 * run.wall / run.requests * min(AT_ONCE, run.requests)


def known(number, form):
    """Nothing for what is not known."""
    return "" if math.isnan(number) else format(number, form)


# What the write-up measured, on its machine: ms a request with keep-alive, and without; and who stands for it here.
WRITE_UP = [
    ("the tool before", 10.51, 1003.75, None),
    ("ptunnel", 0.31, 3.28, "haul"),
    ("squid alone", 1.83, 2.55, "squid straight"),
    ("nginx", 0.22, None, "nginx direct"),
    (None, None, None, "socat"),
    (None, None, None, "proxytunnel"),
    (None, None, None, "limit"),
]


def write_up(trials):
    """The write-up's own table beside ours."""
    ours = {trial.column: trial.told() for trial in trials if trial.column}
    figure = lambda number, form: "" if number is None else format(number, form)  # noqa: E731
    yield "| the write-up | keep-alive | one each | here | keep-alive | one each |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for name, stay, each, here in WRITE_UP:
        found = [figure(ours.get(column, {}).get(here), ".3f") for column in ("keep-alive", "each")]
        yield f"| {name or ''} | {figure(stay, '.2f')} | {figure(each, '.2f')} | {here or ''} | {found[0]} | {found[1]} |"


def page(lines, cases, notes):
    """The whole report, as Markdown."""
    trials = [case for case in cases if isinstance(case, Trial)]
    idle = [case for case in cases if not isinstance(case, Trial)]
    text = [
        *lines,
        "| case | against | ms a request, haul / it | CPU, haul / it | must be | |", "| --- | --- | --- | --- | --- | --- |",
        *(row for case in cases for row in case.rows()), ""]
    if trials:
        text += [
            "Medians behind the ratios (ms a request with their range). CPU is that of the relay; of squid or nginx where there is none:",
            "",
            "| case | by way of | ms a request | requests/s | MB/s | CPU a request, ms |", "| --- | --- | --- | --- | --- | --- |",
            *(row for case in trials for row in case.medians()), ""]
    if idle:
        text += [
            "Memory in MiB, of all processes together, and with each page that they share counted once:", "",
            "| case | by way of | before | open | after | KiB a tunnel |", "| --- | --- | --- | --- | --- | --- |",
            *(row for case in idle for row in case.medians()), ""]
    if any(trial.column for trial in trials):
        text += ["The write-up's own table, of another machine, ms a request, beside the figures above:", "", *write_up(trials), ""]
    return "\n".join([*text, *(note + "\n" for note in notes)])
