"""What a comparison found: ratios against limits, the medians behind them, where and when; kept as a page with its date."""

import dataclasses
import datetime
import os
import pathlib
import platform
import shlex
import statistics
import subprocess
import typing


@dataclasses.dataclass
class Limit:
    """What must hold against a peer."""

    # Names of contenders; `a|b` is the better of them.
    against: str
    # At most this much of the peer's wall time.
    wall: float
    # And of its CPU time, where that counts.
    cpu: float | None = None


@dataclasses.dataclass
class Case:
    """One row of what is promised: the first contender against the others."""

    title: str
    contenders: list
    limits: list
    # MiB that the first may take at most.
    memory: int = 64
    # Rounds for each one asked for: what is over in a moment needs more of them to be told from noise.
    repeat: int = 1
    # One run each, for what is not about time.
    once: bool = False
    # What else was found and must be, told after the runs: pairs of words, and whether it holds.
    facts: typing.Callable = list

    def run(self, arena, rounds):
        """Has its contenders meet."""
        if self.once:
            arena.once(self.contenders)
        else:
            arena.compare(self.contenders, rounds * self.repeat)

    def rows(self):
        ours, *others = self.contenders
        for limit in self.limits:
            peer = min((c for c in others if c.name in limit.against.split("|")), key=lambda c: c.median("wall"))
            wall, cpu = (ours.median(what) / peer.median(what) for what in ("wall", "cpu"))
            ok = wall <= limit.wall and (limit.cpu is None or cpu <= limit.cpu)
            need = f"wall ≤ {limit.wall:.2f}" + (f", CPU ≤ {limit.cpu:.2f}" if limit.cpu else "")
            yield f"| {self.title} | {peer.name} | {wall:.2f} | {cpu:.2f} | {need} | {'ok' if ok else 'MISS'} |"
        peak = ours.worst("peak") / 1024
        yield f"| {self.title} | memory | {peak:.0f} MiB | | ≤ {self.memory} MiB | {'ok' if peak <= self.memory else 'MISS'} |"
        for what, found, need, ok in self.facts():
            yield f"| {self.title} | {what} | {found} | | {need} | {'ok' if ok else 'MISS'} |"

    def medians(self):
        for c in self.contenders:
            walls = [run.wall for run in c.runs]
            yield (
                f"| {self.title} | {c.name} | {statistics.median(walls):.2f} ({min(walls):.2f} to {max(walls):.2f}) | {c.median('cpu'):.2f} "
                f"| {c.median('server'):.2f} | {c.worst('peak') / 1024:.0f} |"
            )

    def crashes(self):
        for c in self.contenders:
            if c.crashes:
                yield f"{c.name} crashed in {c.crashes} of {c.crashes + len(c.runs) + 1} runs of \"{self.title}\"; those were made again."

    def commands(self, work):
        """The command lines, short: programs by name, where the bench works is `.`, and of many words the first tell enough."""
        for c in self.contenders:
            words = [pathlib.Path(c.command[0]).name, *(word.replace(str(work), ".") for word in c.command[1:])]
            more = f" ... ({len(words)} words)" if len(words) > 16 else ""
            yield shlex.join(words[:8] if more else words) + more


def heading(title, invocation, versions):
    """The first lines of a report: what was asked, where and when."""
    return [
        f"# {title}, {datetime.date.today()}", "",
        f"`{invocation}` on {machine()}, commit {first_line('git', 'describe', '--always', '--dirty')}; loopback, tmpfs.",
        f"Peers: {'; '.join(versions)}.", "",
    ]


def page(title, invocation, versions, cases, work):
    """The whole report, as Markdown."""
    return "\n".join([
        *heading(title, invocation, versions),
        "| case | against | wall, haul / it | CPU, haul / it | must be | |", "| --- | --- | --- | --- | --- | --- |",
        *(row for case in cases for row in case.rows()), "",
        "Medians behind the ratios, seconds (wall with its range), and the largest peak in MiB:", "",
        "| case | program | wall | CPU | CPU of the server | memory |", "| --- | --- | --- | --- | --- | --- |",
        *(row for case in cases for row in case.medians()), "",
        *(line + "\n" for case in cases for line in case.crashes()),
        "Commands:", "",
        *("    " + line for case in cases for line in case.commands(work)), ""])


def keep(folder, text):
    """Writes a page under the day's date, beside what the day has already."""
    folder.mkdir(exist_ok=True)
    day = str(datetime.date.today())
    names = (f"{day}{suffix}.md" for suffix in ["", *(f"-{n}" for n in range(2, 1000))])
    path = next(folder / name for name in names if not (folder / name).exists())
    path.write_text(text)
    return path


def first_line(*command):
    """The first line that a command says."""
    return next(iter(said(*command)), "?")


def said(*command):
    """The lines that a command says, on either stream: nginx tells its version on the second."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout.splitlines()


def machine():
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release().split('-')[0]}"
