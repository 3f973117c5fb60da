"""The page of a bench: tables in Markdown, the heading with commit and machine, and a dated file for a complete run."""

import dataclasses
import datetime
import os
import platform
import re
import shlex
import statistics
import subprocess
import typing
from pathlib import Path

from lib.case import known
from lib.idle import IdleCase


def table(headings, rows):
    return [row_line(headings), row_line(["---"] * len(headings)), *map(row_line, rows), ""]


def row_line(cells):
    return "| " + " | ".join(cells) + " |"


@dataclasses.dataclass
class Tables:
    """How a bench prints its cases."""

    # Ratios to print; the first decides whether haul is slower than that of `--against`.
    metrics: list
    # The heading of the column of programs.
    program: str
    # The columns of medians: headings, and functions from a program to its cell.
    columns: dict[str, typing.Callable]
    # A sentence above the medians.
    explanation: str

    def ratio_rows(self, case):
        return case.rows(self.metrics)

    def median_rows(self, case):
        if isinstance(case, IdleCase):
            return case.memory_rows()
        return ([case.title, program.name, *(cell(program) for cell in self.columns.values())] for program in case.programs)

    def progress(self, case):
        """The rows of a case that has just ended."""
        return "\n".join(map(row_line, [*self.ratio_rows(case), *self.median_rows(case)]))

    def render(self, cases):
        """All tables, as lines."""
        ratios = [f"{metric.name}, haul / it" for metric in self.metrics]
        lines = table(
            ["case", "against", *ratios, "limit", "result"], (row for case in cases for row in self.ratio_rows(case)))
        timed = [case for case in cases if not isinstance(case, IdleCase)]
        if timed:
            lines += [self.explanation, "", *table(
                ["case", self.program, *self.columns], (row for case in timed for row in self.median_rows(case)))]
        idle = [case for case in cases if isinstance(case, IdleCase)]
        if idle:
            lines += ["Memory in MiB, of all processes together, and with each page that they share counted once:", "", *table(
                ["case", self.program, "before", "open", "after", f"KiB a {idle[0].noun}"],
                (row for case in idle for row in case.memory_rows()))]
        return lines


def spread(figures, form=None):
    """The median of some figures with their range."""
    form = form or three_digits
    return f"{form(statistics.median(figures))} ({form(min(figures))} to {form(max(figures))})"


def three_digits(number):
    """A number with three significant digits, and its integer part whole."""
    return f"{number:,.0f}" if number >= 100 else f"{number:#.3g}"


def peak_mib(program):
    return f"{max(program.figures('peak_memory')) / 1024:.0f}"


def megabytes_per_second(program):
    return f"{program.median(lambda run: run.bytes / run.wall) / 1e6:,.0f}"


def cpu_milliseconds(program):
    """CPU time of a request."""
    return known(program.median(lambda run: run.cpu / run.requests) * 1000, ".3f")


def heading(title, invocation, versions):
    """The first lines of a page: what was measured, where and when."""
    commit = first_line(["git", "describe", "--always", "--dirty"])
    return [
        f"# {title}, {datetime.date.today()}", "",
        f"`{invocation}` on {machine()}, commit {commit}; loopback, tmpfs.",
        f"Peers: {'; '.join(versions) or 'none'}.", ""]


def command_lines(introduction, commands, replacements):
    """A section with the command lines of programs. Paths that change from run to run are replaced."""
    lines = [introduction, ""]
    for command in dict.fromkeys(commands):
        for path, short in replacements.items():
            command = command.replace(str(path), short)
        lines.append("    " + command)
    return "\n".join(lines)


def short_command(command):
    """A command line: the program by name, and only the beginning of a long one."""
    words = [Path(command[0]).name, *command[1:]]
    more = f" ... ({len(words)} words)" if len(words) > 16 else ""
    return shlex.join(words[:8] if more else words) + more


def write_page(directory, text, part=False):
    """Writes a page into a file with today's date, and a number if the day has one already. `part`: some cases are missing."""
    directory.mkdir(exist_ok=True)
    stem = f"{datetime.date.today()}{'-part' if part else ''}"
    names = (f"{stem}{suffix}.md" for suffix in ["", *(f"-{n}" for n in range(2, 1000))])
    path = next(directory / name for name in names if not (directory / name).exists())
    path.write_text(text)
    return path


def version(*command, line=0, words=None):
    """A program's name and version, from the output of a command. `words` keeps the first few words of the line."""
    name = re.split(r" [(\[<-]", output_lines(command)[line])[0].removeprefix("This is ")
    return " ".join(name.split()[:words])


def first_line(command):
    return next(iter(output_lines(command)), "?")


def output_lines(command):
    """The lines of a command's output, on either stream: nginx prints its version on standard error."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.stdout.splitlines() or ["?"]


def machine():
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release().split('-')[0]}"
