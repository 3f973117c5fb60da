"""A case: programs under the same load in interleaved rounds, and the ratios of haul's medians to those of the others.

The rules for ratios and limits are here and nowhere else. Programs know how to be measured, `report` how to print.
"""

import dataclasses
import math
import typing

from lib.programs import HAUL, HAUL_BEFORE, Run


@dataclasses.dataclass(frozen=True)
class Metric:
    """A figure that programs are compared by."""

    name: str
    figure: typing.Callable[[Run], float]
    higher_is_better: bool = False

    def ratio(self, program, other):
        """A program's median divided by that of another; NaN where a figure is unknown or zero."""
        if self is CPU and not other.cpu_comparable:
            return math.nan
        divisor = other.median(self.figure)
        return program.median(self.figure) / divisor if divisor else math.nan

    def best(self, programs):
        """The program with the best median of those for which it is known, or None."""
        known = [program for program in programs if not math.isnan(program.median(self.figure))]
        sign = -1 if self.higher_is_better else 1
        return min(known, key=lambda program: sign * program.median(self.figure), default=None)

    def describe(self, bound):
        return f"{self.name} {'≥' if self.higher_is_better else '≤'} {bound:.2f}"

    def holds(self, ratio, bound):
        # An unknown ratio (NaN) holds no bound.
        return ratio >= bound if self.higher_is_better else ratio <= bound


# All are those of one request, since wrk runs for a fixed time; a client's whole run is one request.
WALL = Metric("wall", lambda run: run.wall / run.requests)
RATE = Metric("requests/s", lambda run: run.requests / run.wall, higher_is_better=True)
CPU = Metric("CPU", lambda run: run.cpu / run.requests)
# The mean that ab prints: of several requests at once each takes its time.
LATENCY = Metric("ms", lambda run: 1000 * run.wall / run.requests * min(run.concurrency, run.requests))

# How much slower than the haul of `--against` a case may be.
AGAINST_BOUND = 1.03
SLOWER = "slower by more than 3 %"


@dataclasses.dataclass
class Limit:
    """Bounds on the ratios of haul to the best of some programs. Without bounds the ratios are only reported."""

    names: list
    bounds: dict = dataclasses.field(default_factory=dict)
    # The verdict where a bound is missed.
    missed: str = "MISSED"

    def describe(self):
        return ", ".join(metric.describe(bound) for metric, bound in self.bounds.items()) or "reported"

    def verdict(self, haul, other):
        if not self.bounds:
            return ""
        holds = all(metric.holds(metric.ratio(haul, other), bound) for metric, bound in self.bounds.items())
        return verdict(holds, self.missed)


def verdict(holds, missed="MISSED"):
    return "held" if holds else missed


def interleaved(programs, rounds):
    """A B C, C B A, B C A, A C B, ...: no program always runs first, or always after the same other one."""
    for number in range(rounds):
        shift = number // 2 % len(programs)
        order = programs[shift:] + programs[:shift]
        yield from reversed(order) if number % 2 else order


@dataclasses.dataclass
class Case:
    """The same load on several programs. Limits are for the first haul among them."""

    title: str
    programs: list
    limits: list
    # Runs before each run, after the clean-up.
    prepare: typing.Callable = lambda: None
    # Runs before each run and at the end.
    clean_up: typing.Callable = lambda: None
    # MiB that haul may use at most.
    memory_limit: int | None = None
    # Rounds for each one on the command line: short runs need more of them, because of noise.
    repeat: int = 1
    # One run of each program and no warm-up, for what takes minutes and is about memory and results. With `--against` time matters.
    single_run: bool = False
    # Returns more rows: what was found, the figure, the requirement, and whether it holds (None: reported).
    facts: typing.Callable = list

    def __post_init__(self):
        if any(program.is_haul_before for program in self.programs):
            self.single_run = False

    def drop_peers(self):
        """Leaves haul and the haul of `--against`."""
        self.programs = [program for program in self.programs if program.is_haul or program.is_haul_before]
        names = {program.name for program in self.programs}
        self.limits = [limit for limit in self.limits if names & set(limit.names)]

    def run(self, rounds):
        """A first run of each program whose result is verified, then the rounds that count."""
        try:
            for program in self.programs:
                run = self.measure(program)
                program.verify()
                if self.single_run:
                    program.runs.append(run)
            if not self.single_run:
                for program in interleaved(self.programs, rounds * self.repeat):
                    program.runs.append(self.measure(program))
        finally:
            self.clean_up()

    def measure(self, program):
        self.clean_up()
        self.prepare()
        run = program.measure()
        program.check()
        return run

    def hauls(self):
        return [program for program in self.programs if program.is_haul]

    def before(self, haul):
        """The same program of the binary that `--against` names, or None."""
        name = haul.name.replace(HAUL, HAUL_BEFORE, 1)
        return next((program for program in self.programs if program.name == name), None)

    def rows(self, metrics):
        """Rows of the table of ratios. Each has the title, what haul is compared with, a cell a metric, the limit, the verdict."""
        haul = next(iter(self.hauls()), None)
        for limit in self.limits:
            # The first bound says what "best" means.
            first = next(iter(limit.bounds), metrics[0])
            others = [program for program in self.programs if program.name in limit.names and program is not haul]
            other = first.best(others)
            if haul and other:
                yield self.ratio_row(metrics, haul, other, limit)
            else:
                yield [self.title, ", ".join(limit.names), *[""] * len(metrics), limit.describe(), "not measured"]
        yield from self.against_rows(metrics)
        if self.memory_limit and haul:
            peak = max(haul.figures("peak_memory")) / 1024
            yield self.fact_row(metrics, "memory", f"{peak:.0f} MiB", f"≤ {self.memory_limit} MiB", peak <= self.memory_limit)
        for fact in self.facts():
            yield self.fact_row(metrics, *fact)

    def against_rows(self, metrics):
        """The ratios of each haul to that of `--against`."""
        for haul in self.hauls():
            if before := self.before(haul):
                limit = Limit([before.name], {metrics[0]: AGAINST_BOUND}, missed=SLOWER)
                yield self.ratio_row(metrics, haul, before, limit)

    def ratio_row(self, metrics, haul, other, limit):
        ratios = [known(metric.ratio(haul, other), ".2f") for metric in metrics]
        return [self.title, other.name, *ratios, limit.describe(), limit.verdict(haul, other)]

    def fact_row(self, metrics, subject, found, requirement, holds):
        return [
            self.title, subject, found, *[""] * (len(metrics) - 1), requirement, "" if holds is None else verdict(holds)]


def known(number, form):
    """A number in a format; nothing where it is unknown."""
    return "" if math.isnan(number) else format(number, form)
