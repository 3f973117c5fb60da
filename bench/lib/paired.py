"""Commands side by side: interleaved rounds, the operating system's own accounting of each, medians."""

import dataclasses
import os
import statistics
import subprocess
import time


@dataclasses.dataclass
class Run:
    """One run of one command."""

    wall: float
    cpu: float
    peak: int  # KiB of the largest process


@dataclasses.dataclass
class Contender:
    """A command under a name, what it leaves, and what must be done before each run."""

    name: str
    command: list
    check: callable
    runs: list = dataclasses.field(default_factory=list)

    def once(self, clear):
        clear()
        started = time.monotonic()
        process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{self.name} failed with {process.returncode}: {errors.decode()[-500:]}")
        return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

    def median(self, what):
        return statistics.median(getattr(run, what) for run in self.runs)


def compare(contenders, rounds, clear):
    """One warm-up whose result is checked, then `rounds` of A B C A B C ..., so that all see the same weather."""
    for contender in contenders:
        contender.once(clear)
        contender.check()
    for number in range(rounds):
        # Each round begins with another: nobody always runs first.
        shift = number % len(contenders)
        for contender in contenders[shift:] + contenders[:shift]:
            contender.runs.append(contender.once(clear))
    clear()
